"""A folder, compiled: what `validate` and `plan` start from."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitops.plan.explaining import Trace
    from gitops.plan.units import Compilation
    from gitops.policy.published import Published
    from gitops.source.folders import FolderTree


def schemas_of(path: Path, given: Sequence[Path] | None) -> Published:
    """What the given files and folders say of clusters; with none given, the copy that was pulled into the folder.

    Raises OSError.
    """
    from gitops.source.schema_files import default_folders, load_published

    return load_published(given or default_folders(path), repository=path)


def compiled_folder(
    path: Path, *, schemas: Published | None = None, trace: Trace | None = None
) -> tuple[FolderTree, Compilation]:
    """The files of a folder and what they compile to, with verdicts by `schemas` (by default what was pulled into the
    folder); a `trace` is filled with what was merged.

    Raises OSError when the folder cannot be read.
    """
    from gitops.plan.compiling import Compiler
    from gitops.policy.registry import OperatorRegistry
    from gitops.source.folders import FolderTree

    tree = FolderTree(path)
    known = schemas_of(path, None) if schemas is None else schemas
    gc.disable()  # compiling leaves no cycles, and walking over what it keeps takes a tenth of its time
    try:
        compilation = Compiler(OperatorRegistry.shipped(), known).compile(tree, facts=known.facts, trace=trace)
        return tree, replace(compilation, findings=(*known.findings, *compilation.findings))
    finally:
        gc.enable()
