"""Git tree objects: listing with a cache by tree id, looking a path up, and what differs between two trees.

Entries of an unchanged subfolder are the very same tuple in the next listing, so after a commit that changes one file
only the folders above it are read. Git orders entries so that a flat listing is sorted by the bytes of the path, which
for UTF-8 is the order of Python's strings.
"""

from __future__ import annotations

from typing import Any, Final

import pygit2
from pygit2.enums import FileMode

from gitops.model.trees import EntryKind, TreeEntry

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Larger files are refused unread: no manifest is that large, and a repository may hold anything."""

MAX_DEPTH: Final = 64
"""Deeper folders are not listed as files; a tree of such depth is an attack, not a repository."""


class TooDeep(ValueError):
    """Folders are nested deeper than MAX_DEPTH."""


def decode_name(raw: bytes) -> str:
    """A file name as text; bytes that are not UTF-8 become `\\xNN`, so that every path can be printed and logged."""
    return raw.decode("utf-8", "backslashreplace")


class Listing:
    """Lists trees of one repository, remembering subtrees of the last listings by (folder, tree id)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Any], tuple[TreeEntry, ...]] = {}
        self.trees_read = 0

    def entries(self, repo: Any, root: Any) -> tuple[TreeEntry, ...]:
        """Every leaf below the tree object `root`, sorted by path. Raises TooDeep, or what a missing object raises."""
        used: dict[tuple[str, Any], tuple[TreeEntry, ...]] = {}
        listed = self._list(repo, root.id, "", 0, used)
        if len(self._known) > 4 * len(used) + 1000:
            self._known = {}
        self._known.update(used)
        return listed

    def _list(
        self, repo: Any, tree_id: Any, folder: str, depth: int, used: dict[tuple[str, Any], tuple[TreeEntry, ...]]
    ) -> tuple[TreeEntry, ...]:
        key = (folder, tree_id)
        known = self._known.get(key)
        if known is not None:
            used[key] = known
            return known
        if depth > MAX_DEPTH:
            raise TooDeep(f"{folder[:200]}: folders are nested deeper than {MAX_DEPTH}")
        self.trees_read += 1
        leaves: list[TreeEntry] = []
        odd_names = False
        for entry in repo[tree_id]:
            raw = entry.raw_name
            odd_names = odd_names or b"\\" in raw or not raw.isascii()
            path = folder + decode_name(raw)
            if entry.filemode == FileMode.TREE:
                leaves.extend(self._list(repo, entry.id, f"{path}/", depth + 1, used))
            else:
                leaves.append(TreeEntry(path, str(entry.id), kind_of(entry.filemode)))
        if odd_names:
            leaves.sort()
        used[key] = tuple(leaves)
        return used[key]


def kind_of(filemode: int) -> EntryKind:
    if filemode == FileMode.LINK:
        return EntryKind.SYMLINK
    return EntryKind.SUBMODULE if filemode == FileMode.COMMIT else EntryKind.FILE


def lookup(root: Any, path: str) -> Any | None:
    """The object at `path` ("" = `root` itself), or None. Names are compared as `decode_name` gives them."""
    found = root
    for segment in path.split("/") if path else ():
        if not isinstance(found, pygit2.Tree):
            return None
        try:
            found = found[segment]
        except KeyError:
            found = next((entry for entry in found if decode_name(entry.raw_name) == segment), None)
        if found is None:
            return None
    return found
