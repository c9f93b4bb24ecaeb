"""New Git trees from old ones: nested TreeBuilders that touch only the folders of changed files.

An index would be ten times slower for a few files of many, and quadratic when it is filled (libgit2 1.9, measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pygit2
from pygit2.enums import FileMode


def write_tree(repo: Any, base: Any | None, changes: Mapping[str, bytes | None]) -> Any:
    """Id of the tree that `base` (None = empty) becomes with `changes`: path → content, or None to remove.

    Untouched entries keep their ids and modes. Folders that become empty disappear. A file that stands where a folder
    is needed gives way, and the reverse.
    """
    return _write(repo, base, [(path.split("/"), content) for path, content in changes.items()])


def _write(repo: Any, base: Any | None, changes: list[tuple[list[str], bytes | None]]) -> Any:
    builder = repo.TreeBuilder(base) if base is not None else repo.TreeBuilder()
    below: dict[str, list[tuple[list[str], bytes | None]]] = {}
    for segments, content in changes:
        if len(segments) > 1:
            below.setdefault(segments[0], []).append((segments[1:], content))
        elif content is not None:
            builder.insert(segments[0], repo.create_blob(content), FileMode.BLOB)
        elif builder.get(segments[0]) is not None:
            builder.remove(segments[0])
    for name, inner in below.items():
        present = builder.get(name)
        folder = present if isinstance(present, pygit2.Tree) else None
        if folder is None and all(content is None for _, content in inner):
            continue
        tree_id = _write(repo, folder, inner)
        if len(repo[tree_id]) > 0:
            builder.insert(name, tree_id, FileMode.TREE)
        elif folder is not None:
            builder.remove(name)
    return builder.write()
