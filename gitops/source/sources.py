"""The repository as the engine sees it: heads, trees, history, and a place for status files.

One interface over a Git mirror and over a plain folder (`gitops run --path`). Everything runs on the source's own
thread; the callers await.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from gitops.model.identity import Commit, ReconcilerName
from gitops.model.trees import FileTree
from gitops.source.folders import FolderTree
from gitops.source.history import History
from gitops.source.mirror import FetchKind, Mirror
from gitops.source.status_branch import Author, StatusBranch
from gitops.source.status_folder import StatusFolder
from gitops.source.statuses import StatusStore
from gitops.source.worker import SourceWorker, WorkerClosed

CLOSE_TIMEOUT = 2.0
"""Seconds to wait at the end for a call that is under way."""

P = ParamSpec("P")
R = TypeVar("R")


class Source(Protocol):
    """Where desired state comes from. `display` is the address without credentials, `branch` what is watched."""

    @property
    def display(self) -> str: ...

    @property
    def branch(self) -> str: ...

    async def look(self) -> tuple[Commit | None, str]:
        """(head in force, one sentence about this look, "" when nothing is new). Raises SourceError or OSError; what is
        known stays then."""
        ...

    async def tree(self, commit: Commit) -> FileTree | None:
        """The files of a commit; None when they are not here any more."""
        ...

    async def history(self, since: Iterable[Commit], head: Commit) -> History:
        """Commits after the newest of `since` up to `head`."""
        ...

    async def statuses(self, reconciler: ReconcilerName, branch: str) -> StatusStore:
        """Where status files go; its methods are called through `call`. Raises RemoteRefused for a bad branch."""
        ...

    async def keep(self, commits: Iterable[Commit]) -> None:
        """These commits must stay readable: parents name them as last good, whatever happens to the branch."""
        ...

    async def maintain(self) -> None:
        """Upkeep of the local copy; cheap when there is nothing to do. Raises SourceError."""
        ...

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run on the source's thread."""
        ...

    async def close(self) -> None: ...


class GitSource:
    """A branch of a remote repository, by its mirror."""

    def __init__(self, open_mirror: Callable[[], Mirror], *, author: Author) -> None:
        self._open = open_mirror
        self._author = author
        self._mirror: Mirror | None = None
        self._worker = SourceWorker()
        self.display = ""
        self.branch = ""

    async def open(self) -> None:
        """Open the mirror on its thread. Raises SourceError (state folder in use, …) or RemoteRefused."""
        self._mirror = await self.call(self._open)
        self.display, self.branch = self._mirror.remote.display, self._mirror.remote.branch

    async def look(self) -> tuple[Commit | None, str]:
        outcome = await self.call(self._mirrored().fetch)
        return outcome.head, "" if outcome.kind is FetchKind.UNCHANGED else outcome.sentence

    async def tree(self, commit: Commit) -> FileTree | None:
        mirror = self._mirrored()
        if not await self.call(mirror.has, commit):
            return None
        return await self.call(mirror.tree, commit)

    async def history(self, since: Iterable[Commit], head: Commit) -> History:
        return await self.call(_shortest, self._mirrored(), list(since), head)

    async def statuses(self, reconciler: ReconcilerName, branch: str) -> StatusStore:
        mirror = self._mirrored()
        await self.call(mirror.watch_status, branch)
        return StatusBranch(mirror, reconciler=reconciler, author=self._author)

    async def keep(self, commits: Iterable[Commit]) -> None:
        await self.call(self._mirrored().keep, list(commits))

    async def maintain(self) -> None:
        await self.call(self._mirrored().maintenance)

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._worker.call(function, *args, **kwargs)

    async def close(self) -> None:
        if self._mirror is not None:
            self._mirror.interrupt()
            with contextlib.suppress(TimeoutError, WorkerClosed):
                async with asyncio.timeout(CLOSE_TIMEOUT):  # a hung transfer must not hold up the end
                    await self._worker.call(self._mirror.close)
        await self._worker.close(timeout=1.0)

    def _mirrored(self) -> Mirror:
        if self._mirror is None:
            raise RuntimeError("the source is not open")
        return self._mirror


QUIET = 0.5
"""Seconds for which a folder must not change before it is taken as it is: longer than an editor's save."""


class FolderSource:
    """A plain folder; its status files go into another one."""

    def __init__(
        self, path: Path, *, status_folder: Path, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._path = path
        self._pause = pause
        self._status_folder = status_folder
        self._tree: FolderTree | None = None
        self._worker = SourceWorker()
        self.display = f"folder {path.name}"
        self.branch = "folder"

    async def look(self) -> tuple[Commit | None, str]:
        """A folder has no commits: it counts as it is once it has kept still for a moment, so that a file which is
        being saved is not taken for what its author meant."""
        before = None if self._tree is None else await self.call(_commit_of, self._tree)
        tree = await self.call(FolderTree, self._path, previous=self._tree)
        while (commit := await self.call(_commit_of, tree)) != before:
            before = commit
            await self._pause(QUIET)
            tree = await self.call(FolderTree, self._path, previous=tree)
        self._tree = tree
        return commit, f"{self.display} is at {commit[:19]}"

    async def tree(self, commit: Commit) -> FileTree | None:
        tree = self._tree
        return tree if tree is not None and await self.call(lambda: tree.commit) == commit else None

    async def history(self, since: Iterable[Commit], head: Commit) -> History:
        return History((), complete=False)

    async def statuses(self, reconciler: ReconcilerName, branch: str) -> StatusStore:
        return StatusFolder(self._status_folder)

    async def keep(self, commits: Iterable[Commit]) -> None:
        """A folder has no history to keep."""

    async def maintain(self) -> None:
        """A folder needs none."""

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._worker.call(function, *args, **kwargs)

    async def close(self) -> None:
        await self._worker.close()


def _commit_of(tree: FolderTree) -> Commit:
    return tree.commit


MAX_STARTS = 200
"""Commits from which a history is looked for; parents name as many commits as there were changes."""


def _shortest(mirror: Mirror, since: list[Commit], head: Commit) -> History:
    """The history after the newest of several commits: an older trailer must not allow anything again."""
    found = [mirror.commits_between(commit, head) for commit in dict.fromkeys(since[:MAX_STARTS])]
    complete = [h for h in found if h.complete]
    if complete:
        return min(complete, key=lambda h: len(h.commits))
    return mirror.commits_between(None, head)
