"""What became of a unit: typed outcomes, each with one sentence used by log, status file and terminal alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gitops.model.identity import ObjectRef
from gitops.reconcile.waiting import Need


class SyncState(enum.StrEnum):
    """Where a unit stands between Git and its cluster (readiness is another axis)."""

    SYNCED = "Synced"
    PENDING = "Pending"  # not looked at yet: its kinds are not listed, or this daemon stands by
    REFUSED = "Refused"  # the API server or a webhook refuses an object until Git or the cluster's rules change
    WAITING = "Waiting"  # for something that is not there or not ready yet: a namespace, a kind, a workload, a quota
    BLOCKED = "Blocked"  # live state is in the way
    NEEDS_RECREATE = "NeedsRecreate"  # a field changed that the live object does not let change
    RETRYING = "Retrying"  # a passing fault
    HELD = "Held"  # has errors at the head: stays at its last good commit
    PAUSED = "Paused"  # the mode forbids what would be done
    CONTESTED = "Contested"  # another writer keeps undoing our repair
    CONFLICT = "Conflict"  # a field has another value of another manager, and people are to decide
    FUSED = "Fused"  # would delete too much: needs consent
    REMOVING = "Removing"
    RETAINED = "Retained"  # removed from Git, but an object that holds data or foreign things stays
    REMOVED = "Removed"


NOTHING: frozenset[Need] = frozenset()
"""One for all: an empty set takes 216 bytes."""


@dataclass(frozen=True, slots=True)
class ObjectProblem:
    object: ObjectRef
    state: SyncState
    message: str


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    state: SyncState
    sentence: str
    problems: tuple[ObjectProblem, ...] = ()
    retry_after: float | None = None  # seconds; None: nothing to do until something changes
    applied: int = 0
    repaired: int = 0
    started: int = 0
    pruned: int = 0
    previews: tuple[str, ...] = ()  # what a forbidden step would have done
    needs: frozenset[Need] = NOTHING  # what would let it go on: the next attempt begins when it is there

    @property
    def done(self) -> str:
        """What was written, for a log line: " (2 applied, 1 deleted)"; "" when nothing was."""
        counts = {"applied": self.applied, "repaired": self.repaired, "started": self.started, "deleted": self.pruned}
        words = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        return f" ({words})" if words else ""

    def is_news_after(self, before: UnitOutcome) -> bool:
        """Is it worth a line in the log? Each try of something that stays as it is would fill it."""
        if self.state is SyncState.SYNCED and self.done:
            return True
        return (self.state, self.sentence, self.problems) != (before.state, before.sentence, before.problems)


SEVERITY: tuple[SyncState, ...] = (
    SyncState.FUSED,
    SyncState.REFUSED,
    SyncState.NEEDS_RECREATE,
    SyncState.BLOCKED,
    SyncState.CONTESTED,
    SyncState.CONFLICT,
    SyncState.WAITING,
    SyncState.RETRYING,
    SyncState.PAUSED,
)
"""Worst first: a unit with several problems takes the state of the worst."""


def worst(problems: tuple[ObjectProblem, ...]) -> SyncState | None:
    states = {p.state for p in problems}
    return next((s for s in SEVERITY if s in states), None)
