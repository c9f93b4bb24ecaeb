"""A folder, compiled: what `validate` and `plan` start from."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitops.model.identity import GroupVersionKind
    from gitops.plan.explaining import Trace
    from gitops.plan.units import Compilation
    from gitops.source.folders import FolderTree


def compiled_folder(
    path: Path, *, extra_types: Iterable[GroupVersionKind] = (), trace: Trace | None = None
) -> tuple[FolderTree, Compilation]:
    """The files of a folder and what they compile to, where the settings allow `extra_types`; a `trace` is filled with
    what was merged.

    Raises OSError when the folder cannot be read.
    """
    from gitops.plan.compiling import Compiler
    from gitops.policy.registry import OperatorRegistry
    from gitops.source.folders import FolderTree

    tree = FolderTree(path)
    registry = OperatorRegistry.shipped().permitting(extra_types)
    gc.disable()  # compiling leaves no cycles, and walking over what it keeps takes a tenth of its time
    try:
        return tree, Compiler(registry).compile(tree, trace=trace)
    finally:
        gc.enable()
