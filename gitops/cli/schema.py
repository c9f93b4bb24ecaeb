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
    import json

    from gitops.model.document_kinds import KINDS
    from gitops.model.schemas import schema_of

    known = {name.lower(): name for name in KINDS}
    if kind is None and out is None:
        typer.echo(f"gitops: name a kind ({', '.join(KINDS)}) or a folder with --out", err=True)
        raise typer.Exit(Exit.USAGE)
    if kind is not None and kind.lower() not in known:
        typer.echo(f"gitops: there is no kind {kind}; choose one of {', '.join(KINDS)}", err=True)
        raise typer.Exit(Exit.USAGE)
    wanted = known if kind is None else {kind.lower(): known[kind.lower()]}
    texts = {file: json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n" for file, name in wanted.items()}
    if out is None:
        typer.echo("".join(texts.values()), nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (out / f"{file}.json").write_text(text, encoding="utf-8")
