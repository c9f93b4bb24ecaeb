"""Files of a revision of the repository that a folder belongs to: what `--base` compares with. Reads objects only."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pygit2

from gitops.model.identity import Commit
from gitops.model.trees import EntryKind, TreeEntry
from gitops.source import treewalk


class NoSuchRevision(ValueError):
    """The folder belongs to no repository, or that has no such revision; the text says which."""


class RevisionTree:
    """FileTree of one folder at one commit, from the objects of a local repository. Never touches the work tree; empty
    with None for a `root`: then the folder was not there."""

    def __init__(self, repo: Any, commit: Commit, root: Any) -> None:
        self._repo = repo
        self._commit = commit
        self._root = root
        self._entries: tuple[TreeEntry, ...] | None = None

    @property
    def commit(self) -> Commit:
        return self._commit

    def entries(self) -> tuple[TreeEntry, ...]:
        """Every leaf, sorted by path. Raises treewalk.TooDeep."""
        if self._entries is None:
            listed = () if self._root is None else treewalk.Listing().entries(self._repo, self._root)
            self._entries = tuple(entry for entry in listed if not _hidden(entry.path))
        return self._entries

    def read(self, path: str) -> bytes:
        """Content of a file. Raises FileNotFoundError, IsADirectoryError for what is none, OSError when too large."""
        found = None if self._root is None else treewalk.lookup(self._root, path)
        if found is None:
            raise FileNotFoundError(path)
        if isinstance(found, pygit2.Tree) or treewalk.kind_of(found.filemode) is not EntryKind.FILE:
            raise IsADirectoryError(path)
        blob = self._repo[found.id]
        if blob.size > treewalk.MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"larger than {treewalk.MAX_FILE_BYTES} bytes", path)
        data: bytes = blob.data
        return data


def fork_point(folder: Path, revision: str) -> RevisionTree:
    """The folder as it was where HEAD and `revision` parted (`git merge-base`): what a pull request changes is then
    seen, and nothing of what went on meanwhile. Raises NoSuchRevision.
    """
    where = pygit2.discover_repository(str(folder.resolve()))
    if where is None:
        raise NoSuchRevision(f"{folder} belongs to no Git repository")
    try:
        repo = pygit2.Repository(where)
        base = repo.merge_base(_commit(repo, "HEAD"), _commit(repo, revision))
    except pygit2.GitError as error:
        raise NoSuchRevision(f"{revision} cannot be compared with: {error}") from None
    if base is None:
        raise NoSuchRevision(f"HEAD and {revision} have no commit in common")
    inside = folder.resolve().relative_to(Path(repo.workdir).resolve()).as_posix() if repo.workdir else "."
    commit = repo[base]
    root = treewalk.lookup(commit.tree, "" if inside == "." else inside)
    return RevisionTree(repo, Commit(str(base)), root if isinstance(root, pygit2.Tree) else None)


def _commit(repo: Any, revision: str) -> Any:
    try:
        return repo.revparse_single(revision).peel(pygit2.Commit).id
    except (KeyError, ValueError, pygit2.GitError):
        raise NoSuchRevision(f"there is no revision {revision}") from None


def _hidden(path: str) -> bool:
    """Hidden folders are no part of a folder that is read (gitops/source/folders.py)."""
    return any(part.startswith(".") for part in path.split("/")[:-1])
