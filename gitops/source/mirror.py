"""The private bare mirror of one remote: fetch, last good head, trees and history.

What is known never becomes less by a failure (I1): an unreachable server, refused credentials or a vanished branch
leave `head` at the last commit that was fetched whole. That commit has a reference of our own, so it survives restarts:

    refs/mirror/<branch>      as last seen on the server
    refs/gitops/last-good     the head that is in force
    refs/gitops/keep/<id>     commits that units are held at (`keep`), safe from maintenance
    refs/gitops/outgoing      a status commit that is being pushed

All methods are synchronous and belong to one thread (worker.SourceWorker); the trees may be read on any thread.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pygit2
from pygit2.enums import SortMode

from gitops.model.identity import Commit
from gitops.source import history, transport, treewalk
from gitops.source.errors import SourceError, SourceErrorClass, translate
from gitops.source.history import CommitInfo, History
from gitops.source.remotes import Remote, RemoteRefused, check_branch
from gitops.source.store import ObjectStore
from gitops.source.trees import GitTree

LAST_GOOD: Final = "refs/gitops/last-good"
KEEP: Final = "refs/gitops/keep/"
MAX_LOOSE: Final = 2_000
MAX_PACKS: Final = 50
_IDENTITY: Final = "gitops.source"


class FetchKind(enum.StrEnum):
    FIRST = "first"
    UNCHANGED = "unchanged"
    ADVANCED = "advanced"
    REWRITTEN = "rewritten"
    """The branch was moved to a commit that does not follow the last one (force-push or rewind). Followed."""
    UNRELATED = "unrelated"
    """The new head shares no commit with the last one (the repository was made anew). Followed."""
    BRANCH_GONE = "branch_gone"
    """The server has no such branch. `head` stays the last good one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutcome:
    """`head` is the commit in force after the fetch (None: never had one), `previous` the one before."""

    kind: FetchKind
    head: Commit | None
    previous: Commit | None
    status_moved: bool
    """The status branch on the server is not where we last saw it."""
    sentence: str

    @property
    def moved(self) -> bool:
        return self.head != self.previous


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Loose objects and packs before, and whether a new generation was taken."""

    loose: int
    packs: int
    renewed: bool


class Mirror:
    """Mirror of `remote` in the state folder `path` (created when missing). See the module's text.

    `status_branch` is fetched along. Raises SourceError(STATE) when the folder is in use or cannot be used,
    RemoteRefused for a bad branch name or a status branch that is the watched branch.
    """

    def __init__(
        self,
        path: Path,
        remote: Remote,
        *,
        status_branch: str | None = None,
        timeouts: transport.Timeouts | None = None,
    ) -> None:
        self.remote = remote
        if status_branch is not None:
            self._check_status_branch(status_branch)
        self.status_branch = status_branch
        self._timeouts = timeouts or transport.Timeouts()
        self._interrupted = threading.Event()
        self._listing = treewalk.Listing()
        self._store = ObjectStore(path)
        self._belongs_to_this_remote()

    def close(self) -> None:
        """Release the state folder. Idempotent."""
        self._store.close()

    def interrupt(self) -> None:
        """End a running transfer soon (it raises transport.Interrupted). May be called from any thread."""
        self._interrupted.set()

    @property
    def repo(self) -> Any:
        """The pygit2 repository; only for the owning thread, and never to be kept across calls."""
        return self._store.repo

    @property
    def rebuilds(self) -> int:
        """How often a new generation was taken since the start (repair and maintenance)."""
        return self._store.rebuilds

    def watch_status(self, branch: str) -> None:
        """Fetch this status branch along from now on. Its name stands in the repository, so it is known only after
        the first fetch. Raises RemoteRefused as the constructor does, and SourceError: then nothing has changed."""
        self._check_status_branch(branch)
        before = self.status_branch
        if branch == before:
            return
        self.status_branch = branch
        try:
            self.fetch_status()
        except BaseException as error:
            self.status_branch = before
            if isinstance(error, SourceError) and error.error_class is SourceErrorClass.CORRUPT:
                self.mark_damaged()
            raise

    # -- what is known

    @property
    def head(self) -> Commit | None:
        """The commit in force: last good head of the watched branch."""
        return _as_commit(self.ref(LAST_GOOD))

    @property
    def status_head(self) -> Commit | None:
        """Head of the status branch on the server, as last seen."""
        return _as_commit(self.ref(self._status_ref)) if self.status_branch else None

    def tree(self, commit: Commit) -> GitTree:
        """The files of `commit`. Raises SourceError(NOT_FOUND) when the mirror does not have it."""
        if self._commit(commit) is None:
            raise SourceError(
                SourceErrorClass.NOT_FOUND, f"{self.remote.display}: commit {commit[:40]} is not in the mirror"
            )
        return GitTree(self._store, commit, self._listing)

    def has(self, commit: Commit) -> bool:
        return self._commit(commit) is not None

    def commits_between(self, old: Commit | None, new: Commit, *, limit: int = 500) -> History:
        """Commits that `new` has and `old` has not, newest first, at most `limit`, merged branches included.

        Without a usable `old` (None, not in the mirror, or unrelated) only `new` itself.
        """
        newest = self._commit(new)
        if newest is None:
            return History((), complete=False)
        oldest = self._commit(old) if old else None
        if oldest is None or (oldest.id != newest.id and self.repo.merge_base(oldest.id, newest.id) is None):
            return History((history.describe(newest),), complete=False)
        walk = self.repo.walk(newest.id, SortMode.TOPOLOGICAL | SortMode.TIME)
        walk.hide(oldest.id)
        found: list[CommitInfo] = []
        for commit in walk:
            if len(found) == limit:
                return History(tuple(found), complete=False)
            found.append(history.describe(commit))
        return History(tuple(found), complete=True)

    # -- talking to the server

    def fetch(self) -> FetchOutcome:
        """Bring both branches here. Raises SourceError; everything known stays as it was then."""
        previous, status_before = self.head, self.status_head
        try:
            if self._store.damaged:
                self._rebuild()
            return self._fetch(previous, status_before)
        except (SourceError, pygit2.GitError) as error:
            failure = translate(error, display=self.remote.display, scheme="state")
            if failure.error_class is not SourceErrorClass.CORRUPT:
                raise failure from None
            self._rebuild()
            return self._fetch(previous, status_before)

    def fetch_status(self) -> Commit | None:
        """Bring only the status branch here; its head, or None when the server has none. Raises SourceError."""
        if self.status_branch is None:
            return None
        self._transfer([self.status_branch])
        return self.status_head

    def session(self) -> Any:
        """Context manager: callbacks for one conversation with the server (used for pushes)."""
        return transport.session(
            self.remote, home=self._store.home, timeouts=self._timeouts, interrupted=self._interrupted
        )

    def anonymous(self) -> Any:
        """A fresh pygit2 remote. One that was connected before would answer from what it remembers."""
        return self.repo.remotes.create_anonymous(self.remote.transport_url)

    # -- upkeep

    def keep(self, commits: Iterable[Commit]) -> None:
        """Exactly these commits (those that are here) survive maintenance besides what the branches reach."""
        wanted = {f"{KEEP}{commit}": self._commit(commit) for commit in commits}
        for name in [n for n in self.repo.references if n.startswith(KEEP) and wanted.get(n) is None]:
            self.repo.references.delete(name)
        for name, commit in wanted.items():
            if commit is not None and self.ref(name) != commit.id:
                self.set_ref(name, commit.id)

    def maintenance(self, *, max_loose: int = MAX_LOOSE, max_packs: int = MAX_PACKS) -> Maintenance:
        """Pack everything that is referenced into a new generation when the present one has grown too many files.

        Local work only; libgit2 itself never removes loose objects. Raises SourceError, the present one stays in use.
        """
        loose, packs = self._store.count_loose(), self._store.count_packs()
        renewed = loose > max_loose or packs > max_packs
        if renewed:
            # libgit2's local transport puts all that the references reach into one pack.
            self._store.renew(_copy_all)
        return Maintenance(loose=loose, packs=packs, renewed=renewed)

    # -- references

    @property
    def _status_ref(self) -> str:
        return f"refs/mirror/{self.status_branch}"

    def ref(self, name: str) -> Any | None:
        """Id that a reference points to, or None."""
        try:
            return self.repo.references[name].target
        except (KeyError, pygit2.GitError):
            return None

    def set_ref(self, name: str, target: Any | None) -> None:
        """Point a reference of the mirror to a commit; None removes it."""
        if target is not None:
            self.repo.references.create(name, target, force=True)
        elif self.ref(name) is not None:
            self.repo.references.delete(name)

    def mark_damaged(self) -> None:
        """An object that must be here is not: the next fetch builds the mirror anew."""
        self._store.damaged = True

    def record_status_head(self, target: Any | None) -> None:
        """The status branch on the server is now at `target` (after a push)."""
        self.set_ref(self._status_ref, target)

    # -- inside

    @property
    def _branches(self) -> list[str]:
        return [self.remote.branch, *([self.status_branch] if self.status_branch else [])]

    def _check_status_branch(self, branch: str) -> None:
        check_branch(branch)
        if branch == self.remote.branch:
            raise RemoteRefused(f"the status branch must not be the watched branch {branch!r}")

    def _fetch(self, previous: Commit | None, status_before: Commit | None) -> FetchOutcome:
        heads = self._transfer(self._branches)
        status_moved = self.status_head != status_before
        new = heads.get(self.remote.branch)
        if new is None:
            kind, head = FetchKind.BRANCH_GONE, previous
        else:
            kind, head = self._relation(previous, new), _as_commit(new)
            if self.ref(LAST_GOOD) != new:
                self.set_ref(LAST_GOOD, new)
        return FetchOutcome(
            kind=kind,
            head=head,
            previous=previous,
            status_moved=status_moved,
            sentence=_sentence(kind, self.remote, previous, head),
        )

    def _transfer(self, branches: list[str]) -> dict[str, Any]:
        """Heads of `branches` on the server, with their objects fetched and refs/mirror/ moved."""
        with self.session() as callbacks:
            remote = self.anonymous()
            remote.connect(callbacks=callbacks, proxy=self.proxy)
            listed = {head.name: head.oid for head in remote.list_heads(connect=False)}
            heads = {b: listed[f"refs/heads/{b}"] for b in branches if f"refs/heads/{b}" in listed}
            missing = [b for b, oid in heads.items() if self.ref(f"refs/mirror/{b}") != oid]
            if missing:
                remote.fetch(
                    [f"+refs/heads/{b}:refs/mirror/{b}" for b in missing], callbacks=callbacks, proxy=self.proxy
                )
            for oid in heads.values():
                self.repo[oid].peel(pygit2.Commit).tree  # noqa: B018 (raises when the fetch left it incomplete)
        if self.status_branch in branches and self.status_branch not in heads:
            self.set_ref(self._status_ref, None)
        return heads

    @property
    def proxy(self) -> bool | str | None:
        return True if self.remote.proxy == "env" else self.remote.proxy

    def _relation(self, previous: Commit | None, new: Any) -> FetchKind:
        if previous is None:
            return FetchKind.FIRST
        if str(new) == previous:
            return FetchKind.UNCHANGED
        old = self._commit(previous)
        if old is None:
            return FetchKind.REWRITTEN
        if self.repo.descendant_of(new, old.id):
            return FetchKind.ADVANCED
        return FetchKind.UNRELATED if self.repo.merge_base(new, old.id) is None else FetchKind.REWRITTEN

    def _commit(self, commit: Commit) -> Any | None:
        try:
            found = self.repo[str(commit)]
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return found if isinstance(found, pygit2.Commit) else None

    def _rebuild(self) -> None:
        """Clone anew beside the damaged generation, which stays in use unless that works.

        Last good and kept commits are taken over where the server's history or the damaged objects still have them.
        """
        ours = {name: self.ref(name) for name in self.repo.references if name.startswith("refs/gitops/")}

        def fill(fresh: Any, old: Path) -> None:
            with self.session() as callbacks:
                fresh.remotes.create_anonymous(self.remote.transport_url).fetch(
                    [f"+refs/heads/{b}:refs/mirror/{b}" for b in self._branches], callbacks=callbacks, proxy=self.proxy
                )
            for name, target in ours.items():
                if target is not None and target not in fresh:
                    with contextlib.suppress(pygit2.GitError, KeyError, OSError):
                        fresh.remotes.create_anonymous(str(old)).fetch([f"+{name}:{name}"])
                if target is not None and target in fresh and name not in fresh.references:
                    fresh.references.create(name, target)

        self._store.renew(fill)

    def _belongs_to_this_remote(self) -> None:
        """Forget heads of another remote or branch that used this folder: its files are not this repository's."""
        identity = f"{self.remote.display}#{self.remote.branch}"
        config = self.repo.config
        if _IDENTITY in config and config[_IDENTITY] != identity:
            for name in list(self.repo.references):
                self.repo.references.delete(name)
        config[_IDENTITY] = identity


def _copy_all(fresh: Any, old: Path) -> None:
    fresh.remotes.create_anonymous(str(old)).fetch(["+refs/*:refs/*"])


def _as_commit(oid: Any | None) -> Commit | None:
    return None if oid is None else Commit(str(oid))


def _sentence(kind: FetchKind, remote: Remote, previous: Commit | None, head: Commit | None) -> str:
    old, new = (previous or "")[:12], (head or "")[:12]
    match kind:
        case FetchKind.FIRST:
            return f"branch {remote.branch} is at {new}"
        case FetchKind.UNCHANGED:
            return f"branch {remote.branch} is still at {new}"
        case FetchKind.ADVANCED:
            return f"branch {remote.branch} advanced from {old} to {new}"
        case FetchKind.REWRITTEN:
            return f"history of branch {remote.branch} was rewritten: {old} was replaced by {new}"
        case FetchKind.UNRELATED:
            return f"branch {remote.branch} has an unrelated history: {old} was replaced by {new}"
        case FetchKind.BRANCH_GONE:
            kept = f"; the last good commit {new} stays in force" if head else ""
            return f"{remote.display} has no branch {remote.branch}{kept}"
