"""A folder, compiled: what `validate` and `plan` start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitops.plan.units import Compilation
    from gitops.source.folders import FolderTree


def compiled_folder(path: Path) -> tuple[FolderTree, Compilation]:
    """The files of a folder and what they compile to. Raises OSError when the folder cannot be read."""
    from gitops.plan.compiling import Compiler
    from gitops.policy.registry import OperatorRegistry
    from gitops.source.folders import FolderTree

    tree = FolderTree(path)
    return tree, Compiler(OperatorRegistry.shipped()).compile(tree)
