"""Commits between two heads, and what their messages allow (`Gitops-Allow-Prune: <unit glob>`).

A message line counts wherever it stands below the title: forges put the messages of all squashed commits into one body,
so a trailer is often not in the last paragraph, where Git itself would look. It must begin its line; quoted or indented
text does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from gitops.model.identity import Commit
from gitops.plan.pruning import ALLOW_PRUNE_TRAILER

RECONCILER: Final = "Gitops-Reconciler"
MAX_MESSAGE: Final = 64 * 1024
MAX_VALUES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """What plans, reports and status files tell about a commit. `time` is the committer's, with its time zone."""

    id: Commit
    title: str
    message: str
    author: str
    author_email: str
    time: datetime
    parents: tuple[Commit, ...]

    def trailers(self, key: str) -> tuple[str, ...]:
        return trailer_values(self.message, key)


@dataclass(frozen=True, slots=True)
class History:
    """Commits after one head up to another, newest first. `complete` is False when a limit cut them, or when the two
    share no known history: then only the newest commit is here, since old trailers must not allow anything again."""

    commits: tuple[CommitInfo, ...]
    complete: bool

    def allowed_prunes(self) -> tuple[str, ...]:
        """Unit globs that these commits allow to prune, in order, without duplicates."""
        return tuple(dict.fromkeys(value for commit in self.commits for value in commit.trailers(ALLOW_PRUNE_TRAILER)))


def trailer_values(message: str, key: str) -> tuple[str, ...]:
    """Values of `key: value` lines below the title; several may stand in one line, separated by commas."""
    body = message[:MAX_MESSAGE].partition("\n")[2]
    pattern = re.compile(rf"^{re.escape(key)}:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
    values = (part.strip() for line in pattern.findall(body) for part in line.split(","))
    return tuple(value for value in values if value)[:MAX_VALUES]


def describe(commit: Any) -> CommitInfo:
    """CommitInfo of a pygit2.Commit. Text that is not UTF-8 is kept readable, never refused."""
    raw = commit.raw_message[:MAX_MESSAGE]
    message = raw.decode("utf-8", "replace")
    zone = timezone(timedelta(minutes=commit.commit_time_offset))
    return CommitInfo(
        id=Commit(str(commit.id)),
        title=message.strip().partition("\n")[0][:200],
        message=message,
        author=commit.author.raw_name.decode("utf-8", "replace"),
        author_email=commit.author.raw_email.decode("utf-8", "replace"),
        time=datetime.fromtimestamp(commit.commit_time, zone),
        parents=tuple(Commit(str(parent)) for parent in commit.parent_ids),
    )
