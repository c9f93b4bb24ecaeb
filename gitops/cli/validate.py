"""`gitops validate`: everything that can be said about a repository without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitops.cli.exits import Exit


def validate(
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.", show_default=False)],
    format: Annotated[str, typer.Option("--format", "-f", help="text or json.")] = "text",
) -> None:
    """Check a repository: documents, manifests, patches, placement. Needs no cluster and no network.

    Exits with 1 when there are errors; warnings and infos alone are fine.
    """
    from gitops.cli import terminal
    from gitops.cli.folders import compiled_folder

    terminal.check_format(format)
    tree, compilation = compiled_folder(path)
    if format == "json":
        terminal.print_json(
            {
                "complete": compilation.complete,
                "units": len(compilation.units),
                "errors": len(compilation.errors),
                "findings": [terminal.finding_json(f) for f in compilation.findings],
            }
        )
    else:
        out = terminal.console()
        terminal.print_findings(compilation.findings, tree.read, out)
        clusters, units = len(compilation.clusters), len(compilation.units)
        placed = f"{terminal.count(units, 'unit')} on {terminal.count(clusters, 'cluster')}"
        out.print(f"{terminal.summary(compilation.findings)}; {placed}")
    if compilation.errors:
        raise typer.Exit(Exit.FINDINGS)
