"""`gitops apply --once`: one head to all clusters, then exit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.reconcile.accounts import OnceReport


def apply(
    once: Annotated[bool, typer.Option("--once", help="Needed: without it, use `gitops run`.")] = False,
    config: options.Config = None,
    repository_url: options.Url = None,
    branch: options.Branch = None,
    path: options.Folder = None,
    credentials_dir: options.Credentials = None,
    state_dir: options.State = None,
    schemas: options.Schemas = None,
    format: options.Format = "text",
    set_: options.Set = None,
) -> None:
    """Bring all clusters to the repository's head once, and say what became of each unit.

    Exits with 1 when the repository has errors, 2 when it cannot be read, 4 when a unit or a cluster was not brought
    there.
    """
    import asyncio

    from gitops import daemon
    from gitops.cli import terminal

    if not once:
        typer.echo("gitops: apply needs --once; to keep clusters as they should be, use gitops run", err=True)
        raise typer.Exit(Exit.USAGE)
    flags: dict[str, object] = {
        "repository.url": repository_url,
        "repository.branch": branch,
        "path": path,
        "credentials_dir": credentials_dir,
        "state_dir": state_dir,
        "schemas": schemas or None,
    }
    settings = options.settings_from(config=config, pairs=set_, flags=flags, quiet=True)
    report = asyncio.run(daemon.apply_once(settings))
    if format == "json":
        terminal.print_json(_json(report))
    else:
        _print(report)
    if report.commit is None:
        raise typer.Exit(Exit.USAGE)
    if any(f.severity == "error" for f in report.findings):
        raise typer.Exit(Exit.FINDINGS)
    if not report.ok or report.sentence:
        raise typer.Exit(Exit.INCOMPLETE)


def _json(report: OnceReport) -> dict[str, object]:
    from gitops.report.findings import finding_json

    return {
        "commit": report.commit,
        "ok": report.ok,
        "message": report.sentence or None,
        "findings": [finding_json(f) for f in report.findings],
        "clusters": {str(name): text for name, text in report.clusters.items()},
        "units": {
            str(key): {
                "state": str(outcome.state),
                "message": outcome.sentence,
                "applied": outcome.applied,
                "repaired": outcome.repaired,
                "pruned": outcome.pruned,
                "problems": [
                    {"object": str(p.object), "state": str(p.state), "message": p.message} for p in outcome.problems
                ],
            }
            for key, outcome in report.units.items()
        },
    }


def _print(report: OnceReport) -> None:
    from rich.table import Table
    from rich.text import Text

    from gitops.cli import terminal
    from gitops.readiness.texts import printable

    out = terminal.console()
    for finding in report.findings:
        out.print(printable(str(finding)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("UNIT", "STATE", "WHAT"):
        table.add_column(column, overflow="fold")
    for key, outcome in report.units.items():
        table.add_row(str(key), terminal.state(str(outcome.state)), Text(outcome.sentence + outcome.done))
        for problem in outcome.problems:
            table.add_row("", terminal.state(str(problem.state)), Text(f"{problem.object}: {problem.message}"))
    if report.units:
        out.print(table)
    for cluster, text in report.clusters.items():
        out.print(Text(f"cluster {cluster}: {text}", style="red"))
    if report.sentence:
        out.print(Text(report.sentence, style="red"))
    head = "no commit" if report.commit is None else report.commit[:12]
    out.print(f"{head}: {'done' if report.ok else 'not everything is as declared'}")
