"""Where status files go: one small interface for the status branch and for a plain folder (`gitops run --path`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gitops.model.identity import Commit
from gitops.source.errors import SourceErrorClass


class PushKind(enum.StrEnum):
    PUSHED = "pushed"
    UNCHANGED = "unchanged"
    """Everything is there already: no commit, no push."""
    REFUSED = "refused"
    """The server said no (branch protection, a hook). The same push will be refused again until people act."""
    RACED = "raced"
    """Others kept pushing; given up for now."""
    FAILED = "failed"
    """The server was not reached or did not let us in: see `error_class`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOutcome:
    """What became of a set of changes. Unless `written`, the caller keeps them for a later attempt.

    `restarted`: the branch was not there and was begun anew with these changes only; the caller should write all its
    files. `sentence` holds the server's words, without secrets.
    """

    kind: PushKind
    sentence: str
    commit: Commit | None = None
    attempts: int = 0
    restarted: bool = False
    error_class: SourceErrorClass | None = None

    @property
    def written(self) -> bool:
        return self.kind in (PushKind.PUSHED, PushKind.UNCHANGED)


class StatusStore(Protocol):
    """Status files by path. Synchronous; belongs to one thread."""

    def contents(self, folder: str = "") -> dict[str, bytes]:
        """Files below a folder ("" = all) as last known, by path, sorted."""
        ...

    def commit_and_push(self, changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        """Write files (None removes one). Raises UnsafePath before anything is written; other trouble is an outcome."""
        ...
