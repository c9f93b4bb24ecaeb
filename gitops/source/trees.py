"""FileTree over a Git commit (objects only, never a checkout). The one over a folder is in folders.py."""

from __future__ import annotations

import errno
from typing import Any

import pygit2

from gitops.model.identity import Commit
from gitops.model.trees import EntryKind, TreeEntry
from gitops.source import treewalk
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.folders import FolderTree
from gitops.source.store import ObjectStore

__all__ = ["FolderTree", "GitTree"]


class GitTree:
    """The files of one commit. May be read from any thread, one at a time; stays readable across maintenance.

    Reading raises SourceError(CORRUPT) when objects of our own mirror are damaged; the next fetch then rebuilds it.
    """

    def __init__(self, store: ObjectStore, commit: Commit, listing: treewalk.Listing) -> None:
        self._store = store
        self._commit = commit
        self._listing = listing
        self._entries: tuple[TreeEntry, ...] | None = None
        self._by_path: dict[str, TreeEntry] | None = None

    @property
    def commit(self) -> Commit:
        return self._commit

    def entries(self) -> tuple[TreeEntry, ...]:
        """Every leaf, sorted by path; links and submodules are entries of their kind and never followed.

        Raises SourceError(PROTOCOL) when folders are nested absurdly deep.
        """
        if self._entries is None:
            with self._store.reading() as repo:
                try:
                    self._entries = self._listing.entries(repo, self._root(repo))
                except treewalk.TooDeep as error:
                    raise SourceError(
                        SourceErrorClass.PROTOCOL, f"commit {self._commit[:12]} is not read: {error}"
                    ) from None
                except (pygit2.GitError, KeyError, ValueError) as error:
                    raise self._corrupt(error) from error
        return self._entries

    def read(self, path: str) -> bytes:
        """Content of a file, as stored (no line-ending filters).

        Raises FileNotFoundError, IsADirectoryError for a folder, link or submodule, OSError when it is too large.
        """
        entry = self._index().get(path)
        if entry is None:
            if self.tree_id(path) is not None:
                raise IsADirectoryError(path)
            raise FileNotFoundError(path)
        if entry.kind is not EntryKind.FILE:
            raise IsADirectoryError(path)
        with self._store.reading() as repo:
            try:
                oid = pygit2.Oid(hex=entry.content_id)
                _, size = repo.odb.read_header(oid)
                if size > treewalk.MAX_FILE_BYTES:
                    raise OSError(errno.EFBIG, f"larger than {treewalk.MAX_FILE_BYTES} bytes", path)
                data: bytes = repo.odb.read(oid)[1]
            except (pygit2.GitError, KeyError) as error:
                raise self._corrupt(error) from error
            return data

    def tree_id(self, path: str = "") -> str | None:
        """Id of the Git tree (folder) or blob (file) at `path`; None when nothing is there. Equal id, equal content."""
        with self._store.reading() as repo:
            try:
                found = treewalk.lookup(self._root(repo), path)
            except (pygit2.GitError, KeyError) as error:
                raise self._corrupt(error) from error
            return None if found is None else str(found.id)

    def _index(self) -> dict[str, TreeEntry]:
        if self._by_path is None:
            self._by_path = {entry.path: entry for entry in self.entries()}
        return self._by_path

    def _root(self, repo: Any) -> Any:
        return repo[self._commit].peel(pygit2.Commit).tree

    def _corrupt(self, error: Exception) -> SourceError:
        self._store.damaged = True
        return SourceError(
            SourceErrorClass.CORRUPT, f"commit {self._commit[:12]} cannot be read from the local mirror ({error})"
        )
