"""The words of readiness: statuses, flags, and what is remembered of an object between two looks at it.

Times are seconds since the epoch as float, always passed in. `next_check` says when to look again without an event (a
hold, settle time or deadline expires): the engine sets one timer, nothing polls.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gitops.model.identity import ObjectRef


class Status(enum.StrEnum):
    UNKNOWN = "Unknown"
    MISSING = "Missing"
    TERMINATING = "Terminating"
    PROGRESSING = "Progressing"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    COMPLETED = "Completed"
    SUSPENDED = "Suspended"


class Flag(enum.StrEnum):
    SCALED_TO_ZERO = "scaledToZero"
    UNVERIFIED = "unverified"  # nothing proves it: no known signal, or the operator never confirmed this generation
    STALE = "stale"  # the status is about an earlier spec, or the cluster cannot be asked


class Role(enum.StrEnum):
    """What a secondary object counts for."""

    GATE = "gate"  # counted; must be ready
    DIAGNOSE = "diagnose"  # never makes anything ready, may explain why something is not
    INFORM = "inform"  # shown only


PRECEDENCE: tuple[Status, ...] = (
    Status.TERMINATING,
    Status.FAILED,
    Status.SUSPENDED,
    Status.DEGRADED,
    Status.COMPLETED,
    Status.PROGRESSING,
    Status.READY,
    Status.UNKNOWN,
    Status.MISSING,
)
"""Within one object, when several rules match: the first of these wins."""

WORST_FIRST: tuple[Status, ...] = (
    Status.FAILED,
    Status.TERMINATING,
    Status.MISSING,
    Status.DEGRADED,
    Status.PROGRESSING,
    Status.UNKNOWN,
    Status.SUSPENDED,
    Status.READY,
    Status.COMPLETED,
)
"""For aggregates: unknown is below failed and above fine."""

FINE: frozenset[Status] = frozenset({Status.READY, Status.COMPLETED, Status.SUSPENDED})
"""Statuses that do not spoil an aggregate (suspended by declaration is what was asked for)."""


NO_FLAGS: frozenset[Flag] = frozenset()
"""One for all: an empty set takes 216 bytes."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The verdict on one object. `reason` is one CamelCase word, `message` one line of at most 300 characters.

    `since` is when this status began, as far as known. `settled`: the present generation has been Ready before.
    `problems`: mapping errors (an expression that failed); the rule was skipped.
    """

    status: Status
    reason: str = ""
    message: str = ""
    flags: frozenset[Flag] = NO_FLAGS
    since: float | None = None
    next_check: float | None = None
    settled: bool = False
    problems: tuple[str, ...] = ()


NO_VERDICT = ObjectStatus(Status.UNKNOWN, "NotLooked")
"""Of an object that is only known as a link between others."""


@dataclass(frozen=True, slots=True)
class ObjectMemory:
    """What must be kept of an object so that hold times, deadlines and freshness work. Keep the newest one per uid.

    `generation_at` is when this generation was first seen; `inherited` is True when the object was met at this
    generation (so what it was before is not known). `mark` is the operator's last status write as it was when the
    generation was first seen: (time text of the managedFields entry, digest of the status); a status that differs is
    newer. `confirmed`: a status was accepted as being about this generation; true until the generation moves.
    `holds`: (rule number, since) of matching rules with a hold time.
    """

    uid: str
    generation: int
    generation_at: float
    inherited: bool
    mark: tuple[str, bytes] = ("", b"")
    confirmed: bool = False
    holds: tuple[tuple[int, float], ...] = ()
    progressing_at: float | None = None
    ready_generation: int | None = None
    status: Status | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class AppliedMark:
    """Our last write that changed an object: the generation the server answered with, and when (epoch seconds)."""

    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """The verdict on an object now, and what it becomes by time alone: hold times, settle times and deadlines depend on
    nothing but the object as it is, so the object itself need not be kept until they expire.

    `steps`: (from when, verdict, memory), in order of time; never empty.
    """

    steps: tuple[tuple[float, ObjectStatus, ObjectMemory], ...]

    def at(self, now: float) -> tuple[ObjectStatus, ObjectMemory]:
        """What holds at `now`, as long as no event has come."""
        found = self.steps[0]
        for step in self.steps[1:]:
            if step[0] <= now:
                found = step
        return found[1], found[2]

    def next_change(self, now: float) -> float | None:
        return next((at for at, _, _ in self.steps if at > now), None)


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """A secondary object after projection: its verdicts and links, never the object. `outlook` None: a mere link."""

    ref: ObjectRef
    uid: str
    owners: tuple[str, ...]
    terminating: bool = False
    outlook: Outlook | None = None
    counted: bool = True

    def status(self, now: float) -> ObjectStatus:
        return self.outlook.at(now)[0] if self.outlook else NO_VERDICT

    def memory(self, now: float) -> ObjectMemory | None:
        """What project() needs of the record it replaces."""
        return self.outlook.at(now)[1] if self.outlook else None
