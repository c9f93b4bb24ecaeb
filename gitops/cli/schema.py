"""`gitops schema`: JSON Schemas of the documents, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitops.cli.exits import Exit


def schema(
    kind: Annotated[str | None, typer.Argument(help="Kind of document, such as Function.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write into, one file per kind; made when missing.", show_default=False),
    ] = None,
) -> None:
    """Print the JSON Schema of one kind of document, or write those of all kinds into a folder."""
    from gitops.model.document_kinds import KINDS
    from gitops.model.schemas import schema_file, schema_text

    known = {name.lower(): name for name in KINDS}
    if kind is None and out is None:
        typer.echo(f"gitops: name a kind ({', '.join(KINDS)}) or a folder with --out", err=True)
        raise typer.Exit(Exit.USAGE)
    if kind is not None and kind.lower() not in known:
        typer.echo(f"gitops: there is no kind {kind}; choose one of {', '.join(KINDS)}", err=True)
        raise typer.Exit(Exit.USAGE)
    wanted = list(KINDS) if kind is None else [known[kind.lower()]]
    if out is None:
        typer.echo("".join(schema_text(name) for name in wanted), nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        (out / schema_file(name)).write_text(schema_text(name), encoding="utf-8")
