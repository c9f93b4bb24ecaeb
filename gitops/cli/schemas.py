"""`gitops schemas`: copies of what clusters tell of themselves, for checks that need no cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.model.identity import ClusterName
    from gitops.plan.units import Compilation
    from gitops.policy.registry import OperatorRegistry
    from gitops.reconcile.cluster_worker import Connector
    from gitops.settings import Settings

group = typer.Typer(help="Schemas of the clusters, for checks without them.", no_args_is_help=True)


@group.callback()
def _group() -> None:
    """A group stays one with a single command in it."""


@dataclass(slots=True)
class Pulled:
    """Per cluster: the files of its copy, or why there are none. `remarks` are about what could not be read."""

    copies: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


@group.command("pull")
def pull(
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.")] = Path(),
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; may be repeated.", show_default=False)
    ] = None,
    from_status_branch: Annotated[
        bool, typer.Option("--from-status-branch", help="Take what the daemon published; needs no cluster.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Folder to write into; .gitops/schemas by default.", show_default=False)
    ] = None,
    config: options.Config = None,
    repository_url: options.Url = None,
    branch: options.Branch = None,
    credentials_dir: options.Credentials = None,
    state_dir: options.State = None,
    set_: options.Set = None,
) -> None:
    """Copy the schemas of the clusters into a folder, where validate, plan and explain find them.

    From the clusters themselves, with the daemon's credentials, or from the status branch of the configured repository.
    Exits with 4 when a cluster's copy could not be had; what was there of it stays.
    """
    from gitops.source.schema_files import DEFAULT_FOLDER

    flags: dict[str, object] = {
        "repository.url": repository_url,
        "repository.branch": branch,
        "credentials_dir": credentials_dir,
        "state_dir": state_dir,
    }
    settings = options.settings_from(config=config, pairs=set_, flags=flags, quiet=True)
    wanted, folder = frozenset(cluster or ()), to or path / DEFAULT_FOLDER
    pulled = _published(settings, wanted) if from_status_branch else _told(path, settings, wanted)
    for sentence in pulled.remarks:
        typer.echo(f"gitops: {sentence}", err=True)
    for name, files in sorted(pulled.copies.items()):
        _write(folder / name, files, pulled, name)
    for name, why in sorted(pulled.failed.items()):
        typer.echo(f"gitops: cluster {name}: {why}", err=True)
    if pulled.failed or not pulled.copies:
        raise typer.Exit(Exit.INCOMPLETE)


def _write(place: Path, files: Mapping[str, bytes], pulled: Pulled, name: str) -> None:
    from gitops.policy.published import INDEX
    from gitops.source.schema_files import write_copy

    if place.is_dir() and any(place.iterdir()) and not (place / INDEX).is_file():
        pulled.failed[name] = f"{place} holds other files and is left alone"
        return
    changed = write_copy(place, files)
    typer.echo(f"{place}: {len(files) - 1} kinds{'' if changed else ', as they were'}")


def _refuse_unknown(wanted: frozenset[str], known: Sequence[str], where: str) -> None:
    unknown = sorted(wanted - set(known))
    if unknown:
        there = ", ".join(sorted(known)) or "none"
        typer.echo(f"gitops: {where} has no cluster {', '.join(unknown)} (known: {there})", err=True)
        raise typer.Exit(Exit.USAGE)


# -- from the status branch --------------------------------------------------------------------------------------------


def _published(settings: Settings, wanted: frozenset[str]) -> Pulled:
    """What the daemon published. Raises SettingsError, SourceError, OSError."""
    from gitops.cli.status_reading import read_branch
    from gitops.policy.published import INDEX, read_published
    from gitops.report.paths import SCHEMAS

    files = read_branch(settings, SCHEMAS)
    folders = sorted(path.removesuffix(f"/{INDEX}") for path in files if path.count("/") == 2 and path.endswith(INDEX))
    names = [folder.rpartition("/")[2] for folder in folders]
    pulled = Pulled()
    if not folders:
        pulled.remarks.append("the status branch has no schemas; the daemon publishes them once it reached a cluster")
        return pulled
    _refuse_unknown(wanted, names, "the status branch")
    for name, folder in zip(names, folders, strict=True):
        if wanted and name not in wanted:
            continue
        copy = {p.removeprefix(f"{folder}/"): data for p, data in files.items() if p.startswith(f"{folder}/")}
        read = read_published({f"{folder}/{p}": data for p, data in copy.items()})
        if read.findings:
            found = read.findings[0]
            pulled.failed[name] = f"what is published cannot be used: {found.origin}: {found.message}"
        else:
            pulled.copies[name] = copy
    return pulled


# -- from clusters -----------------------------------------------------------------------------------------------------


def _told(path: Path, settings: Settings, wanted: frozenset[str]) -> Pulled:
    """What the clusters of a folder tell now. Raises OSError."""
    import asyncio

    from gitops.cli.folders import compiled_folder
    from gitops.policy.published import NOTHING_PUBLISHED
    from gitops.reconcile.connecting import FolderConnector

    registry = settings.operator_registry()
    _, compilation = compiled_folder(path, schemas=NOTHING_PUBLISHED, registry=registry)
    if compilation.repository is None:
        typer.echo(f"gitops: {path} has no usable gitops.yaml", err=True)
        raise typer.Exit(Exit.USAGE)
    _refuse_unknown(wanted, list(compilation.clusters), "the repository")
    names = sorted(wanted or compilation.clusters)
    folder = settings.credentials_dir
    pulled = asyncio.run(_ask(names, compilation, FolderConnector(folder), registry))
    if not folder.is_dir():
        pulled.remarks.append(f"credentials_dir {folder} is not there")
    return pulled


async def _ask(
    names: Sequence[str], compilation: Compilation, connector: Connector, registry: OperatorRegistry
) -> Pulled:
    import asyncio

    from gitops.model.identity import ClusterName

    pulled = Pulled()
    if not names:
        pulled.remarks.append("the repository declares no cluster")
    await asyncio.gather(*(_one(ClusterName(name), compilation, connector, registry, pulled) for name in names))
    return pulled


async def _one(
    name: ClusterName, compilation: Compilation, connector: Connector, registry: OperatorRegistry, pulled: Pulled
) -> None:
    from gitops.cluster.discovery import Discovery
    from gitops.cluster.errors import ApiError, RequestFailed
    from gitops.cluster.facts import FactsReader
    from gitops.policy.published import published_files
    from gitops.reconcile.facts import Wanted
    from gitops.reconcile.heads import kinds_of

    document = compilation.clusters[name]
    wanted = Wanted.of(document, kinds_of(compilation, name), registry)
    connection = None
    try:
        connection = await connector.open(document)
        discovery = Discovery(connection)
        version = await discovery.server_version()
        if isinstance(version, ApiError):
            raise RequestFailed(version)
        reader = FactsReader(connection, discovery)
        reading = await reader.read(wanted.kinds, wanted.types, server_version=str(version))
    except RequestFailed as failed:
        pulled.failed[name] = str(failed)
        return
    finally:
        if connection is not None:
            await connection.close()
    if reading.incomplete:
        pulled.failed[name] = "; ".join(reading.unread)
        return
    pulled.remarks += [f"cluster {name}: {sentence}" for sentence in reading.unread]
    pulled.copies[name] = published_files(name, reading.facts)
