"""`gitops init`: a complete example repository to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitops.cli.exits import Exit

SCHEMAS = ".schemas"
"""Folder of the JSON Schemas that the example's files name; made by the code, so that it fits this version."""


def init(
    folder: Annotated[Path, typer.Argument(help="Where to put it; made when missing.", show_default=False)],
) -> None:
    """Copy the example repository into an empty folder. Files that are there already are never overwritten."""
    from importlib.resources import as_file

    from gitops.cli import terminal
    from gitops.model.document_kinds import KINDS
    from gitops.model.schemas import schema_file, schema_text
    from gitops.policy.registry import shipped_folder

    if folder.exists() and (not folder.is_dir() or any(p.name != ".git" for p in folder.iterdir())):
        typer.echo(f"gitops: {folder} is not an empty folder", err=True)
        raise typer.Exit(Exit.USAGE)
    with as_file(shipped_folder("repo-template")) as template:
        files = sorted(p for p in template.rglob("*") if p.is_file())
        for file in files:
            target = folder / file.relative_to(template)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    schemas = folder / SCHEMAS
    schemas.mkdir(exist_ok=True)
    for kind in KINDS:
        (schemas / schema_file(kind)).write_text(schema_text(kind), encoding="utf-8")
    out = terminal.console()
    out.print(f"{terminal.count(len(files), 'file')} in {folder}. Next:")
    out.print(f"  gitops validate {folder}")
    out.print(f"  gitops plan {folder}")
