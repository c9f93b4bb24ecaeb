"""`gitops validate`: everything that can be said about a repository without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.plan.units import Compilation
    from gitops.source.folders import FolderTree


def validate(
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.", show_default=False)],
    format: Annotated[
        Literal["text", "json", "sarif", "markdown"],
        typer.Option("--format", "-f", help="sarif is for code scanning, markdown for a comment on a pull request."),
    ] = "text",
    schemas: options.Schemas = None,
    base: options.Base = None,
    config: options.Config = None,
    set_: options.Set = None,
) -> None:
    """Check a repository: documents, manifests, patches, placement. Needs no cluster and no network.

    With the schemas of its clusters (`gitops schemas pull`) also whether their API servers would take the objects.
    Exits with 1 when there are errors; warnings and infos alone are fine.
    """
    from gitops.cli.folders import compared_with, compiled_folder, schemas_of

    settings = options.settings_from(config=config, pairs=set_, flags={}, quiet=True)
    registry = settings.operator_registry()
    known = schemas_of(path, schemas)
    tree, compilation = compiled_folder(path, schemas=known, registry=registry)
    if base is not None:
        compilation = compared_with(path, base, compilation, registry)
    if format == "json":
        _print_json(compilation)
    elif format == "sarif":
        from gitops.cli.version import installed_version
        from gitops.report.sarif import render_sarif

        typer.echo(render_sarif(compilation.findings, version=installed_version()), nl=False)
    elif format == "markdown":
        from gitops.report.findings_markdown import render_markdown

        typer.echo(render_markdown(compilation.findings), nl=False)
    else:
        _print(tree, compilation)
    if compilation.errors:
        raise typer.Exit(Exit.FINDINGS)


def _print_json(compilation: Compilation) -> None:
    from gitops.cli import terminal
    from gitops.report.findings import finding_json

    terminal.print_json(
        {
            "complete": compilation.complete,
            "units": len(compilation.units),
            "errors": len(compilation.errors),
            "findings": [finding_json(f) for f in compilation.findings],
            "verdicts": [
                {"unit": str(unit.key), "object": str(item.ref), "verdict": str(verdict)}
                for unit, item, verdict in compilation.judged()
            ],
        }
    )


def _print(tree: FolderTree, compilation: Compilation) -> None:
    from gitops.cli import terminal
    from gitops.report.findings import summary

    out = terminal.console()
    terminal.print_findings(compilation.findings, tree.read, out)
    clusters, units = len(compilation.clusters), len(compilation.units)
    placed = f"{terminal.count(units, 'unit')} on {terminal.count(clusters, 'cluster')}"
    out.print(f"{summary(compilation.findings)}; {placed}")
