"""FileTree: what compile reads. One backend on a Git tree, one on a folder (gitops/source/trees.py)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gitops.model.identity import Commit


class EntryKind(enum.StrEnum):
    FILE = "file"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"


@dataclass(frozen=True, slots=True, order=True)
class TreeEntry:
    """One leaf of a tree. `path` uses `/`, relative to the tree's root; `content_id` is the Git blob id (or the same
    hash computed for a folder)."""

    path: str
    content_id: str
    kind: EntryKind = EntryKind.FILE


class FileTree(Protocol):
    """A frozen set of files. Thread-safe for reading by one thread at a time."""

    @property
    def commit(self) -> Commit:
        """Which commit this is, for plans and status files."""
        ...

    def entries(self) -> Iterable[TreeEntry]:
        """Every leaf, sorted by path. Never follows links."""
        ...

    def read(self, path: str) -> bytes:
        """Content of a file. Raises FileNotFoundError; IsADirectoryError for a folder or link."""
        ...
