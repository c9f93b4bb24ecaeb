"""`gitops status`: what the daemon last wrote about functions, units and clusters."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from rich.table import Table

    from gitops.settings import Settings

Bodies = dict[str, dict[str, Any]]
"""Path of a status file → its content."""

_FINE = ("ACTIVE", "INACTIVE", "Ready", "Completed", "Suspended", "Empty", "Reachable")


def status(
    workload: Annotated[str, typer.Argument(help="Only these, as in llama-* (all when left out).")] = "*",
    units: Annotated[bool, typer.Option("--units", "-u", help="Also each unit, with the cause of its state.")] = False,
    config: options.Config = None,
    repository_url: options.Url = None,
    branch: options.Branch = None,
    path: options.Folder = None,
    state_dir: options.State = None,
    format: options.Format = "text",
    set_: options.Set = None,
) -> None:
    """Show what the daemon reports, read from the status branch. Needs no cluster and no running daemon.

    Exits with 4 when not everything shown is ready.
    """
    from gitops.cli import terminal

    flags: dict[str, object] = {
        "repository.url": repository_url,
        "repository.branch": branch,
        "path": path,
        "state_dir": state_dir,
    }
    settings = options.settings_from(config=config, pairs=set_, flags=flags, quiet=True)
    bodies = read_status(settings)
    shown = {path: body for path, body in bodies.items() if _matches(body, workload)}
    if format == "json":
        terminal.print_json(shown)
    else:
        _print(shown, units=units, nothing=f"Nothing is reported of workload {workload}." if bodies else "")
    states = [str(body.get("status", "")) for body in shown.values() if "status" in body]
    if not states or any(state not in _FINE for state in states):
        raise typer.Exit(Exit.INCOMPLETE)


def read_status(settings: Settings) -> Bodies:
    """All status files of a folder's state or of the status branch, which is fetched. Raises as read_branch()."""
    from gitops.cli.status_reading import read_branch

    return decoded(read_branch(settings, "status"))


def decoded(files: Mapping[str, bytes]) -> Bodies:
    import yaml

    from gitops.model.documents import API_VERSION

    bodies: Bodies = {}
    for path, data in files.items():
        try:
            body = yaml.load(data, yaml.CSafeLoader) if path.endswith(".yaml") else None
        except (yaml.YAMLError, ValueError, RecursionError):
            continue  # not written by the daemon: others may keep files on that branch
        if isinstance(body, dict) and body.get("apiVersion") == API_VERSION:
            bodies[path] = body
    return bodies


def _matches(body: dict[str, Any], pattern: str) -> bool:
    if body.get("kind") == "Placements":
        return False
    if body.get("kind") == "ClusterStatus":
        return pattern == "*"
    name = str(body.get("name") or str(body.get("unit", "")).partition("@")[0].partition("/")[2].partition("/")[0])
    return fnmatch.fnmatchcase(name, pattern)


def _print(bodies: Bodies, *, units: bool, nothing: str) -> None:
    from rich.text import Text

    from gitops.cli import terminal
    from gitops.readiness.texts import printable

    out = terminal.console()
    if not bodies:
        out.print(Text(printable(nothing or "Nothing is reported yet.")))
        return
    clusters = [b for b in bodies.values() if b.get("kind") == "ClusterStatus"]
    each = [b for b in bodies.values() if b.get("kind") == "UnitStatus"]
    workloads = [b for b in bodies.values() if b not in clusters and b not in each]
    rows = [(b.get("name"), b.get("live", ""), b.get("version", ""), b) for b in workloads]
    out.print(_table(("WORKLOAD", "LIVE", "VERSION"), rows))
    if units:
        out.print()
        rows = [(b.get("unit"), b.get("ready", ""), str(b.get("commit", ""))[:12], b) for b in each]
        out.print(_table(("UNIT", "READY", "COMMIT"), rows))
    if clusters:
        out.print()
        rows = [(b.get("name"), b.get("serverVersion", ""), b.get("mode", ""), b) for b in clusters]
        out.print(_table(("CLUSTER", "VERSION", "MODE"), rows))


def _table(columns: tuple[str, str, str], rows: list[tuple[Any, Any, Any, dict[str, Any]]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from gitops.cli import terminal
    from gitops.readiness.texts import printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    name, second, third = columns
    for column in (name, "STATUS", second, third, "SINCE", "CAUSE"):
        table.add_column(column, overflow="fold")
    for first, two, three, body in rows:
        cause = _cause(body)
        state = terminal.state(str(body.get("status", "")))
        since = str(body.get("since", ""))
        texts = [Text(printable(str(text))) for text in (first, two, three, since, cause)]
        table.add_row(texts[0], state, *texts[1:])
    return table


def _cause(body: dict[str, Any]) -> str:
    """Why it is as it is. What is held at its last good commit, contested or paused may well be ready, and is not what
    Git says now."""
    said = []
    held, outcome, cause = body.get("held"), body.get("outcome"), body.get("cause")
    if isinstance(held, list) and held:
        more = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
        said.append(f"held at its last good commit: {held[0]}{more}")
    if isinstance(outcome, dict) and outcome.get("message"):
        said.append(str(outcome["message"]))
    if cause and not any(str(cause) in each for each in said):
        said.append(str(cause))
    return "; ".join(said) or str(body.get("message") or body.get("reason") or "")
