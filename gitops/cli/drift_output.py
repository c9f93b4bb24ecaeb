"""How `gitops drift` prints: a line for each drift, tables of groups, Markdown, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from gitops.cli import terminal
from gitops.readiness.texts import printable
from gitops.report.drift_files import addition_body, record_body
from gitops.report.markdown import inert

if TYPE_CHECKING:
    from gitops.cli.drift_view import By, DriftView, Row
    from gitops.report.drift import DriftRecord

MOST_FILES = 5
"""Files that a row of a table names."""


def show(view: DriftView, *, by: By | None, format: str) -> None:
    from gitops.cli.drift_view import grouped

    rows = None if by is None else grouped(view.records, by)
    for name, why in sorted(view.unreachable.items()):
        typer.echo(f"gitops: cluster {name}: {printable(why)}", err=True)
    if view.nothing:
        typer.echo(f"gitops: {printable(view.nothing)}", err=True)
    if format == "json":
        terminal.print_json(_json(view, by, rows))
    elif format == "markdown":
        typer.echo(_markdown(view, by, rows))
    elif rows is None:
        _list(view)
    else:
        _table(str(by), rows)


def say(record: DriftRecord, *, as_json: bool) -> None:
    """One drift on a line of its own."""
    typer.echo(json.dumps(_record(record), ensure_ascii=False) if as_json else line(record))


def line(record: DriftRecord) -> str:
    moment = (record.ended_at or record.detected_at).strftime("%Y-%m-%dT%H:%M:%SZ")
    return printable(f"{moment}  {record.unit}  {record.sentence}")


def _list(view: DriftView) -> None:
    from rich.text import Text

    out = terminal.console()
    records = view.records
    opened, over = [r for r in records if r.is_open], [r for r in records if not r.is_open]
    if not view.open_count and view.unreachable:
        out.print("Nothing is known to differ from Git, and not every cluster answers.")
    elif not view.open_count and not view.nothing:
        out.print("Nothing differs from Git.")
    for title, found in ((f"Open ({view.open_count})", opened), (f"Over lately ({len(over)})", over)):
        if found:
            out.print(Text(title, style="bold"))
            for record in found:
                out.print(Text(f"  {line(record)}", style="red" if record.is_open else ""), soft_wrap=True)
    if view.additions:
        out.print(Text("Unmanaged additions: nobody in Git declares them, and they are left alone", style="bold"))
        for unit, ref, row in view.additions:
            out.print(Text(printable(f"  {row.time}  {unit}  {row.path} of {ref}; by {row.by}")), soft_wrap=True)
    if view.left_out:
        out.print(f"{view.left_out} more are not in the reports.")


def _table(by: str, rows: list[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (by.upper(), "OPEN", "TIMES", "UNITS", "LAST", "FILES"):
        table.add_column(column, overflow="fold")
    for row in rows:
        texts = (row.name, str(row.open), str(row.times), str(len(row.units)), row.last, _files(row))
        table.add_row(*(Text(printable(text)) for text in texts))
    terminal.console().print(table)


def _files(row: Row) -> str:
    more = len(row.files) - MOST_FILES
    return ", ".join(row.files[:MOST_FILES]) + (f" and {more} more" if more > 0 else "")


def _markdown(view: DriftView, by: By | None, rows: list[Row] | None) -> str:
    if rows is not None:
        lines = [f"| {by} | Open | Times | Units | Last | Files |", "|---|---|---|---|---|---|"]
        for row in rows:
            lines.append(_cells(row.name, row.open, row.times, len(row.units), row.last, _files(row)))
        return "\n".join(lines)
    lines = ["| Unit | Object | Path | Declared | Live | By | Declared at | Times | Outcome |", "|" + "---|" * 9]
    for record in view.records:
        body = record_body(record)
        values = (_value(body, "declared"), _value(body, "live"))
        what = (record.unit, record.object, record.path or record.kind.value)
        lines.append(_cells(*what, *values, record.by, record.declared_at, record.count, record.repaired.words))
    if view.additions:
        lines += ["", "| Unit | Object | Added | By | Last write |", "|---|---|---|---|---|"]
        for unit, ref, each in view.additions:
            lines.append(_cells(unit, ref, each.path, each.by, each.time))
    return "\n".join(lines)


def _cells(*cells: object) -> str:
    return "| " + " | ".join(inert(str(cell)) for cell in cells) + " |"


def _value(body: dict[str, Any], name: str) -> str:
    return json.dumps(body[name], ensure_ascii=False) if name in body else ""


def _record(record: DriftRecord) -> dict[str, Any]:
    return {"unit": str(record.unit), **record_body(record)}


def _json(view: DriftView, by: By | None, rows: list[Row] | None) -> dict[str, Any]:
    body: dict[str, Any] = {"open": view.open_count, "omitted": view.left_out, "unreachable": dict(view.unreachable)}
    if rows is not None:
        return body | {
            "by": by,
            "groups": [
                {
                    "name": row.name,
                    "open": row.open,
                    "times": row.times,
                    "units": list(row.units),
                    "files": list(row.files),
                    "last": row.last,
                }
                for row in rows
            ],
        }
    return body | {
        "records": [_record(record) for record in view.records],
        "additions": [{"unit": str(unit), **addition_body(ref, added)} for unit, ref, added in view.additions],
    }
