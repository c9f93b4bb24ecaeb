"""A bare repository on disk, written without a work tree and without processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import FileMode


class StoryRepository:
    """`url` is what a daemon is given: libgit2's own local transport, so a fetch and a push cost no process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"
        self._repo = pygit2.init_repository(str(path), bare=True, initial_head="main")

    def close(self) -> None:
        self._repo.free()

    def commit(self, files: Mapping[str, str], message: str, *, root: bool = False) -> str:
        """A commit on main with exactly these files; its id. A `root` has nothing before it, whatever was there."""
        index = pygit2.Index()
        for path, text in files.items():
            index.add(pygit2.IndexEntry(path, self._repo.create_blob(text.encode()), FileMode.BLOB))
        author = pygit2.Signature("Test Author", "author@example.com", int(time.time()), 0)
        tree, head = index.write_tree(self._repo), self.head()
        parents = [head] if head and not root else []
        made = self._repo.create_commit(None, author, author, message, tree, parents)
        self._repo.references.create("refs/heads/main", made, force=True)
        return str(made)

    def head(self, branch: str = "main") -> str | None:
        found = self._repo.references.get(f"refs/heads/{branch}")
        return None if found is None else str(found.target)

    def read_all(self, branch: str) -> dict[str, bytes]:
        """All files of a branch; none when there is no such branch."""
        head = self.head(branch)
        if head is None:
            return {}
        found: dict[str, bytes] = {}
        pending = [("", self._repo[head].tree)]
        while pending:
            folder, tree = pending.pop()
            for entry in tree:
                path = f"{folder}{entry.name}"
                if isinstance(entry, pygit2.Tree):
                    pending.append((f"{path}/", entry))
                else:
                    found[path] = entry.data
        return found
