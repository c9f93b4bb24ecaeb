"""A folder, compiled: what `validate` and `plan` start from."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitops.model.findings import Finding
    from gitops.plan.explaining import Trace
    from gitops.plan.units import Compilation
    from gitops.policy.published import Published
    from gitops.policy.registry import OperatorRegistry
    from gitops.source.folders import FolderTree


def schemas_of(path: Path, given: Sequence[Path] | None) -> Published:
    """What the given files and folders say of clusters; with none given, the copy that was pulled into the folder.

    Raises OSError.
    """
    from gitops.source.schema_files import default_folders, load_published

    return load_published(given or default_folders(path), repository=path)


def compiled_folder(
    path: Path,
    *,
    schemas: Published | None = None,
    registry: OperatorRegistry,
    trace: Trace | None = None,
) -> tuple[FolderTree, Compilation]:
    """The files of a folder and what they compile to, with verdicts by `schemas` (by default what was pulled into the
    folder); a `trace` is filled with what was merged.

    Raises OSError when the folder cannot be read.
    """
    from gitops.plan.compiling import Compiler
    from gitops.source.folders import FolderTree

    tree = FolderTree(path)
    known = schemas_of(path, None) if schemas is None else schemas
    gc.disable()  # compiling leaves no cycles, and walking over what it keeps takes a tenth of its time
    try:
        compilation = Compiler(registry, known).compile(tree, facts=known.facts, trace=trace)
        return tree, replace(compilation, findings=(*known.findings, *compilation.findings))
    finally:
        gc.enable()


def compared_with(path: Path, base: str, compilation: Compilation, registry: OperatorRegistry) -> Compilation:
    """The compilation of a folder with what is to be said of its changes since it parted from the revision `base`.

    Raises NoSuchRevision.
    """
    from gitops.plan.compiling import Compiler
    from gitops.plan.revisions import check_revisions
    from gitops.source.revisions import fork_point

    before = Compiler(registry).compile(fork_point(path, base))
    return with_findings(compilation, check_revisions(before, compilation, registry))


def with_findings(compilation: Compilation, more: Iterable[Finding]) -> Compilation:
    """The compilation with what else was found, in the order of places."""
    findings = {(f.origin, f.code, f.message): f for f in (*compilation.findings, *more)}
    return replace(compilation, findings=tuple(findings[key] for key in sorted(findings)))
