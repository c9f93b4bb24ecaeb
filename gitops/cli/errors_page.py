"""docs/errors.md: the taxonomy of gitops/cluster/error_table.py, as people read it."""

from __future__ import annotations

from gitops.cluster.error_table import ROWS, SEEN_ON, TREATMENTS, ErrorClass, Row
from gitops.reconcile.attempts import STATE_OF
from gitops.reconcile.outcomes import SyncState


def errors_page(made: str) -> str:
    """One section for each class, one line for each row; `made` says what the page is made from."""
    lines = [
        "# What API servers answer, and what is made of it",
        "",
        made,
        "An answer that is no success is held against these rows, in the order in which they are numbered; the first",
        "that fits decides. A unit shows the class, the server's words (cut, without values of Secrets) and the hint.",
        "After each failed attempt the pause doubles, from the first to the longest, half of it by chance; a server's",
        "`Retry-After` is never undercut, and a watch that tells of what is waited for ends the pause at once.",
        "",
        f"The words are those of Kubernetes {SEEN_ON}. A real API server, or a proxy before it, makes each row in",
        "tests/cluster/test_error_rows.py. Words that another version changed fall through to the rows that go by code",
        "alone: they are retried or refused, and never taken for success or absence.",
        "",
    ]
    numbers = {row.id: number for number, row in enumerate(ROWS, start=1)}
    for cls in ErrorClass:
        rows = [row for row in ROWS if row.cls is cls]
        treatment = TREATMENTS[cls]
        state = STATE_OF.get(cls, SyncState.RETRYING)
        lines += [
            f"## {cls}",
            "",
            f"{treatment.meaning[0].upper()}{treatment.meaning[1:]}. The unit is {state}; pauses from "
            f"{treatment.first:g} s to {treatment.longest:g} s.",
            "",
            "| | row | what arrives | for example | what people are told |",
            "|---|---|---|---|---|",
            *(
                f"| {numbers[row.id]} | `{row.id}` | {_arrives(row)} | {_cell(row.example)} | {_told(row)} |"
                for row in rows
            ),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _arrives(row: Row) -> str:
    """The conditions of a row, in words."""
    if row.given:
        return "no answer, or one judged by us"
    parts = [_codes(row.codes)] if row.codes else ["any code"]
    if row.plain:
        parts.append("not a Status")
    if row.message is not None:
        parts.append(f"message `{_cell(row.message.pattern)}`")
    if row.cause:
        words = f" `{_cell(row.cause_message.pattern)}`" if row.cause_message else ""
        parts.append(f"a cause {row.cause}{words}")
    if row.only_field:
        parts.append(f"causes at {row.only_field} only")
    if row.without_causes:
        parts.append("no causes")
    if row.about:
        parts.append(f"about {' or '.join(row.about)}")
    if row.nameless:
        parts.append("names nothing")
    if row.elsewhere:
        parts.append("another object than the one asked for")
    if row.applying is not None:
        parts.append("of an apply" if row.applying else "not of an apply")
    return "; ".join(parts)


def _codes(codes: tuple[int, ...]) -> str:
    every = set(range(500, 600)) <= set(codes)
    shown = [str(code) for code in codes if not (every and code >= 500)]
    return ", ".join([*shown, "5xx"] if every else shown)


def _told(row: Row) -> str:
    waits = f"waits for {row.waits_for.format('X', about='object', name='X')}" if row.waits_for else ""
    soon = f"the first {row.soon} tries soon: a definition may just have changed" if row.soon else ""
    return "; ".join(_cell(part) for part in (waits, row.hint, soon) if part) or "–"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
