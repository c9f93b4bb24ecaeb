"""Commits on the status branch: only changed files, never force, and safe beside everybody else who pushes there.

A commit is built on the branch as last seen and pushed with the condition that the server's branch is still there. When
it moved, the new head is fetched and the same changes are laid on its tree: files of others survive, ours win. The
number of attempts is limited and the pauses are random, so several daemons do not run in step.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pygit2

from gitops.model.identity import Commit, ReconcilerName
from gitops.model.trees import EntryKind
from gitops.source import treewalk
from gitops.source.errors import SourceError, SourceErrorClass, scrub, translate
from gitops.source.history import RECONCILER
from gitops.source.mirror import Mirror
from gitops.source.paths import check_path, is_safe_path
from gitops.source.statuses import PushKind, PushOutcome
from gitops.source.transport import Callbacks
from gitops.source.treewrite import write_tree

OUTGOING: Final = "refs/gitops/outgoing"

# Texts of a lost race: libgit2's own checks (first two), git-receive-pack's and forges' words for the rest.
_RACE: Final = re.compile(
    r"non-?fast-?forward|not present locally|fetch first|stale info|cannot lock ref|failed to lock|failed to update ref"
    r"|reference already exists|incorrect old value|but expected|unable to lock",
    re.IGNORECASE,
)


_UNREADABLE: Final = (SourceError, pygit2.GitError, KeyError, OSError)


@dataclass(frozen=True, slots=True)
class Author:
    """Who our commits are by."""

    name: str = "gitops-reconciler"
    email: str = "gitops-reconciler@localhost"


class StatusBranch:
    """StatusStore on `mirror.status_branch`. `rng`, `sleep` and `clock` (seconds since 1970) are for tests.

    `attempts` limits the pushes of one call; the n-th pause is random up to min(2, 0.1 × 2ⁿ) seconds.
    """

    def __init__(
        self,
        mirror: Mirror,
        *,
        reconciler: ReconcilerName,
        author: Author | None = None,
        attempts: int = 8,
        rng: random.Random | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if mirror.status_branch is None:
            raise ValueError("the mirror has no status branch")
        self._mirror = mirror
        self._branch = mirror.status_branch
        self._reconciler = reconciler
        self._author = author or Author()
        self._attempts = attempts
        self._rng = rng or random.Random()
        self._sleep = sleep
        self._clock = clock

    def contents(self, folder: str = "") -> dict[str, bytes]:
        """Files below a folder at the branch's head as last seen, by path. What others keep there under names that we
        never use, and what is too large to be ours, is left out. Raises SourceError(CORRUPT)."""
        inside = folder.strip("/")
        with self._reading():
            repo, tree = self._mirror.repo, self._tree(self._mirror.status_head)
            found = treewalk.lookup(tree, inside) if tree is not None else None
            if not isinstance(found, pygit2.Tree):
                return {}
            files = {}
            for entry in treewalk.Listing().entries(repo, found):
                path = f"{inside}/{entry.path}" if inside else entry.path
                if entry.kind is EntryKind.FILE and is_safe_path(path):
                    oid = pygit2.Oid(hex=entry.content_id)
                    if repo.odb.read_header(oid)[1] <= treewalk.MAX_FILE_BYTES:
                        files[path] = bytes(repo.odb.read(oid)[1])
            return files

    def commit_and_push(self, changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        """One commit with `changes` on the latest head of the branch, pushed. See PushOutcome."""
        for path in changes:
            check_path(path)
        try:
            return self._push_until_done(changes, message)
        except _UNREADABLE as error:
            failure = self._failure(error)
            return PushOutcome(kind=PushKind.FAILED, sentence=failure.sentence, error_class=failure.error_class)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> SourceError:
        """What went wrong here; what is damaged is built anew by the next fetch."""
        failure = translate(error, display=self._mirror.remote.display, scheme="state")
        if failure.error_class is SourceErrorClass.CORRUPT:
            self._mirror.mark_damaged()
        return failure

    def _push_until_done(self, changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        words = ""
        for attempt in range(1, self._attempts + 1):
            head = self._mirror.status_head
            base = self._tree(head)
            tree_id = write_tree(self._mirror.repo, base, changes)
            if base is not None and tree_id == base.id:
                sentence = f"branch {self._branch} holds this status already"
                return PushOutcome(kind=PushKind.UNCHANGED, sentence=sentence, commit=head, attempts=attempt - 1)
            commit = self._commit(tree_id, head, message)
            raced, words = self._push(commit, head)
            if raced is None:
                self._mirror.record_status_head(commit)
                return PushOutcome(
                    kind=PushKind.PUSHED,
                    sentence=f"status committed to {self._branch} as {str(commit)[:12]}",
                    commit=Commit(str(commit)),
                    attempts=attempt,
                    restarted=head is None,
                )
            if not raced:
                sentence = f"{self._mirror.remote.display} refused the push to {self._branch}: {words}"
                return PushOutcome(kind=PushKind.REFUSED, sentence=sentence, attempts=attempt)
            if attempt < self._attempts:
                self._sleep(self._rng.uniform(0, min(2.0, 0.1 * 2**attempt)))
                self._mirror.fetch_status()
        sentence = f"others kept pushing to {self._branch}; gave up after {self._attempts} attempts ({words})"
        return PushOutcome(kind=PushKind.RACED, sentence=sentence, attempts=self._attempts)

    def _push(self, commit: Any, head: Commit | None) -> tuple[bool | None, str]:
        """(None, "") when pushed, else whether it was a race, and the server's words. Raises SourceError."""
        mirror = self._mirror
        destination = f"refs/heads/{self._branch}"
        mirror.set_ref(OUTGOING, commit)
        try:
            with mirror.session() as callbacks:
                callbacks.expected = pygit2.Oid(hex=head if head else "0" * 40)
                try:
                    mirror.anonymous().push([f"{OUTGOING}:{destination}"], callbacks=callbacks, proxy=mirror.proxy)
                except pygit2.GitError as error:
                    text = self._words(str(error), callbacks)
                    if _RACE.search(text):
                        return True, text
                    if "non-bare" in text:
                        return False, f"{text}: libgit2 pushes to a local path only when that repository is bare"
                    raise
                except Exception:
                    if callbacks.moved:
                        return True, "the branch has moved"
                    raise
                refusal = callbacks.refusals.get(destination)
                if refusal is None:
                    return None, ""
                return bool(_RACE.search(refusal)), self._words(refusal, callbacks)
        finally:
            mirror.set_ref(OUTGOING, None)

    def _words(self, text: str, callbacks: Callbacks) -> str:
        words = f"{text}: {callbacks.remote_words}" if callbacks.remote_words else text
        return scrub(words, callbacks.secrets)

    def _commit(self, tree_id: Any, head: Commit | None, message: str) -> Any:
        who = pygit2.Signature(self._author.name, self._author.email, int(self._clock()), 0)
        text = f"{message.strip()}\n\n{RECONCILER}: {self._reconciler}\n"
        return self._mirror.repo.create_commit(None, who, who, text, tree_id, [head] if head else [])

    def _tree(self, head: Commit | None) -> Any | None:
        if head is None:
            return None
        try:
            return self._mirror.repo[head].tree
        except (KeyError, pygit2.GitError) as error:
            raise SourceError(
                SourceErrorClass.CORRUPT, f"status commit {head[:12]} cannot be read ({error})"
            ) from error
