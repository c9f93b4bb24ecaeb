"""`gitops drift`: what differs from Git on the clusters, who did it, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.cli.drift_view import DriftView, Filter
    from gitops.settings import Settings


def drift(
    workload: Annotated[str, typer.Argument(help="Only these, as in llama-* (all when left out).")] = "*",
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; may be repeated.", show_default=False)
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="Only these, as in function/llama-*/h100-*@dgx-a.")] = "*",
    only_open: Annotated[bool, typer.Option("--open", help="Only what differs now.")] = False,
    by: Annotated[
        Literal["manager", "cluster", "workload", "file"] | None,
        typer.Option("--by", help="Count instead of listing: who changes what, how often.", show_default=False),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, with a line for each news.")] = False,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between looks with --watch.")] = 10,
    live: Annotated[
        Path | None,
        typer.Option(help="Ask the clusters instead: compare with this folder.", show_default=False, exists=True),
    ] = None,
    credentials_dir: options.Credentials = None,
    config: options.Config = None,
    repository_url: options.Url = None,
    branch: options.Branch = None,
    path: options.Folder = None,
    state_dir: options.State = None,
    format: Annotated[
        Literal["text", "json", "markdown"],
        typer.Option("--format", "-f", help="text or markdown for people, json for scripts."),
    ] = "text",
    set_: options.Set = None,
) -> None:
    """Show what differs from Git, as the daemon reports it on the status branch: open drift, what was repaired lately,
    and fields that others added. Needs no cluster and no running daemon; with --live it needs no daemon at all.

    Exits with 3 when something differs, else with 4 when a cluster could not be asked or nothing is reported of what is
    asked for.
    """
    from gitops.cli import drift_output
    from gitops.cli.drift_view import Filter

    flags: dict[str, object] = {
        "repository.url": repository_url,
        "repository.branch": branch,
        "path": path,
        "state_dir": state_dir,
        "credentials_dir": credentials_dir,
    }
    settings = options.settings_from(config=config, pairs=set_, flags=flags, quiet=True)
    chosen = Filter(workload, unit, frozenset(cluster or ()), only_open)
    if watch and (live is not None or by is not None or format == "markdown"):
        raise typer.BadParameter("goes with neither --live, --by nor --format markdown", param_hint="--watch")
    if watch:
        _watch(settings, chosen, interval=interval, as_json=format == "json")
    view = _asked(live, settings, chosen) if live is not None else _reported(settings, chosen)
    drift_output.show(view, by=by, format=format)
    if view.open_count:
        raise typer.Exit(Exit.CHANGES)
    if view.unreachable or view.nothing:
        raise typer.Exit(Exit.INCOMPLETE)


def _reported(settings: Settings, chosen: Filter) -> DriftView:
    from gitops.cli.drift_view import FOLDERS, view_of
    from gitops.cli.status_reading import read_branch

    return view_of(read_branch(settings, *FOLDERS), chosen)


def _asked(folder: Path, settings: Settings, chosen: Filter) -> DriftView:
    from gitops.cli.live_drift import live_view

    return live_view(folder, settings, chosen)


def _watch(settings: Settings, chosen: Filter, *, interval: float, as_json: bool) -> None:
    """Until Ctrl-C."""
    import time

    from gitops.cli import drift_output
    from gitops.cli.drift_following import follow
    from gitops.cli.drift_view import FOLDERS, view_of
    from gitops.cli.status_reading import reading

    with reading(settings) as reader:
        follow(
            lambda: view_of(reader.read(FOLDERS), chosen),
            say=lambda record: drift_output.say(record, as_json=as_json),
            tell=lambda sentence: typer.echo(f"gitops: {sentence}", err=True),
            pause=time.sleep,
            interval=interval,
        )
