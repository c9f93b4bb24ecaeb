"""The declared objects of a unit, each combined with what hangs below it (combining.py) → one verdict.

Ready is reported only after it has held for a moment (`ready_hold`): operators flap between two reconciles (a Dynamo
graph was `successful` for 24 ms in the middle of a change). Any other verdict is reported at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gitops.model.identity import GroupKind, ObjectRef
from gitops.readiness.combining import (
    DEFAULT_ROLES,
    GATE_GRACE,
    DeclaredStatus,
    ObjectRow,
    Root,
    RootMemory,
    below_of,
    combine,
    roles_of,
)
from gitops.readiness.owners import OwnerIndex
from gitops.readiness.statuses import FINE, NO_FLAGS, WORST_FIRST, Flag, Role, Status
from gitops.readiness.texts import one_line

__all__ = [
    "DEFAULT_ROLES",
    "ConditionType",
    "DeclaredStatus",
    "ObjectRow",
    "UnitCondition",
    "UnitMemory",
    "UnitStatus",
    "roles_of",
    "unit_status",
]

READY_HOLD = 0.5
"""Seconds that Ready must hold before it is reported; as long as status writes are debounced anyway."""

TABLE_LIMIT = 100
"""Rows of the per-object table; what is not fine comes first."""


@dataclass(frozen=True, slots=True)
class UnitMemory:
    """Carried from one unit_status() to the next. Start from UnitMemory.restored() after a restart."""

    status: Status | None = None
    since: float | None = None
    ready_at: float | None = None  # since when Ready holds without having been reported
    roots: Mapping[ObjectRef, RootMemory] = field(default_factory=dict)
    conditions: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # type → (status, since)

    @classmethod
    def restored(
        cls, status: Status | None, since: float | None, conditions: Mapping[str, tuple[str, float]] | None = None
    ) -> UnitMemory:
        """From what a status file says (gitops/report/status_files.py read_since)."""
        return cls(status=status, since=since, conditions=conditions or {})


class ConditionType:
    """Conditions on a unit; the words of NVCF's MiniService where they fit."""

    INSTALLED = "InstallSuccessful"
    HEALTHY = "ObjectsHealthy"
    FRESH = "Observed"


@dataclass(frozen=True, slots=True)
class UnitCondition:
    type: str
    status: str  # "True" | "False" | "Unknown"
    reason: str
    since: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """The verdict on a unit. `cause` is one sentence; "" when all is well. `empty`: the unit declares nothing."""

    status: Status
    reason: str
    cause: str
    ready_count: int
    expected_count: int
    since: float
    phase: str
    flags: frozenset[Flag] = frozenset()
    conditions: tuple[UnitCondition, ...] = ()
    objects: tuple[ObjectRow, ...] = ()
    omitted: int = 0
    problems: tuple[str, ...] = ()
    next_check: float | None = None

    @property
    def empty(self) -> bool:
        return self.reason == "Empty"


def unit_status(
    declared: Sequence[DeclaredStatus],
    *,
    owners: OwnerIndex,
    now: float,
    roles: Mapping[GroupKind, Role] = DEFAULT_ROLES,
    memory: UnitMemory | None = None,
    ready_hold: float = READY_HOLD,
    gate_grace: float = GATE_GRACE,
) -> tuple[UnitStatus, UnitMemory]:
    """All declared objects of one unit, with what hangs below them, as one verdict.

    `owners` indexes the cluster's secondary objects, `roles` says what their kinds count for. `now` in seconds since
    the epoch. Returns the verdict and what to remember; `next_check` is when time alone may change it.
    """
    memory = memory or UnitMemory()
    unknown_root = RootMemory(ready=memory.status is Status.READY and not memory.roots)
    roots = [
        combine(d, below_of(d, owners, roles, now), memory.roots.get(d.ref, unknown_root), now=now, grace=gate_grace)
        for d in declared
    ]
    checks = [c for root in roots for c in root.checks if c > now]
    kept = {d.ref: root.memory for d, root in zip(declared, roots, strict=True)}
    status, worst = _worst(roots)
    ready_at: float | None = None
    if status in FINE and memory.status is not None and memory.status not in FINE and roots:
        ready_at = memory.ready_at if memory.ready_at is not None else now
        if now < ready_at + ready_hold:
            checks.append(ready_at + ready_hold)
            status, worst = Status.PROGRESSING, _holding(worst)
    elif status in FINE and memory.status is None and roots and ready_hold:
        ready_at = now  # first look: nothing is known of the moment before, so Ready has to hold as well
        checks.append(now + ready_hold)
        status, worst = Status.PROGRESSING, _holding(worst)
    since = memory.since if memory.status is status and memory.since is not None else now
    row = worst.row if worst else None
    conditions = _conditions(roots, memory, now=now)
    rows = sorted((r.row for r in roots), key=lambda r: (WORST_FIRST.index(r.status), r.ref))
    verdict = UnitStatus(
        status=status,
        reason=_FINE_REASONS.get(status, row.reason) if row else "Empty",
        cause=_sentence(row) if row and status not in FINE else "",
        ready_count=sum(r.ready for r in roots),
        expected_count=sum(r.expected for r in roots),
        since=since,
        phase=_phase(status, roots),
        flags=frozenset().union(*(r.row.flags for r in roots)) or NO_FLAGS,
        conditions=conditions,
        objects=tuple(rows[:TABLE_LIMIT]),
        omitted=max(0, len(rows) - TABLE_LIMIT),
        problems=tuple(dict.fromkeys(p for r in roots for p in r.problems))[:20],
        next_check=min(checks, default=None),
    )
    remembered = UnitMemory(
        status=status,
        since=since,
        ready_at=ready_at if status not in FINE else None,
        roots=kept,
        conditions={c.type: (c.status, c.since) for c in conditions},
    )
    return verdict, remembered


_FINE_REASONS = {
    Status.READY: "ObjectsReady",
    Status.COMPLETED: "ObjectsCompleted",
    Status.SUSPENDED: "Suspended",
}

# -- the unit --------------------------------------------------------------------------------------------------------


def _worst(roots: Sequence[Root]) -> tuple[Status, Root | None]:
    """Worst of the required objects; optional ones lower Ready to Degraded at most."""
    required = [r for r in roots if r.required]
    optional = [r for r in roots if not r.required and r.row.status not in FINE]
    worst = min(required, key=lambda r: (WORST_FIRST.index(r.row.status), r.row.ref), default=None)
    status = worst.row.status if worst else Status.READY
    if status is Status.SUSPENDED and any(r.row.status in (Status.READY, Status.COMPLETED) for r in required):
        status = Status.READY  # a part that is suspended by declaration does not spoil the rest
    elif status is Status.READY and required and all(r.row.status is Status.COMPLETED for r in required):
        status = Status.COMPLETED
    if optional and status in FINE:
        worst = min(optional, key=lambda r: (WORST_FIRST.index(r.row.status), r.row.ref))
        return Status.DEGRADED, worst
    return status, worst


def _holding(worst: Root | None) -> Root | None:
    """The words while Ready has not held long enough."""
    if worst is None:
        return None
    row = dataclasses.replace(
        worst.row, status=Status.PROGRESSING, reason="Stabilising", message="ready, waiting whether it stays so"
    )
    return dataclasses.replace(worst, row=row)


def _sentence(row: ObjectRow) -> str:
    """`DynamoGraphDeployment mocker-agg is Degraded: Pod x CrashLoop: container main keeps exiting with code 1`."""
    text = row.message or row.reason
    return one_line(f"{row.ref.kind} {row.ref.name} is {row.status}" + (f": {text}" if text else ""))


def _phase(status: Status, roots: Sequence[Root]) -> str:
    """The phase words of NVCF's MiniService, for those who know them."""
    if status is Status.COMPLETED:
        return "Completed"
    if status in (Status.READY, Status.SUSPENDED, Status.DEGRADED):
        return "Running"
    if any(r.row.reason == "Refused" for r in roots):
        return "InstallFailed"
    if status is Status.FAILED:
        return "Failed"
    if any(r.row.reason in ("NotApplied", "NotFound") or r.row.status is Status.TERMINATING for r in roots):
        return "Installing"
    caching = any(r.row.ref.kind == "NIMCache" and r.row.status is Status.PROGRESSING for r in roots)
    return "CachingInProgress" if caching else "Starting"


def _conditions(roots: Sequence[Root], memory: UnitMemory, *, now: float) -> tuple[UnitCondition, ...]:
    waiting = [r for r in roots if r.row.reason in ("NotApplied", "Refused") or r.row.status is Status.MISSING]
    unhealthy = [r for r in roots if r.row.status not in FINE and r.required]
    stale = [r for r in roots if Flag.STALE in r.row.flags]
    bad = any(r.row.status in (Status.FAILED, Status.DEGRADED) for r in unhealthy)
    found = (
        (ConditionType.INSTALLED, not waiting, "AllObjectsApplied", "WaitingOnObjects", waiting),
        (
            ConditionType.HEALTHY,
            not unhealthy,
            "ObjectsReady",
            "ObjectsFailed" if bad else "WaitingOnObjectReadiness",
            unhealthy,
        ),
        (ConditionType.FRESH, not stale, "SpecObserved", "WaitingForOperator", stale),
    )
    result = []
    for kind, holds, good, poor, causes in found:
        status = "True" if holds else "False"
        before = memory.conditions.get(kind)
        since = before[1] if before and before[0] == status else now
        names = ", ".join(f"{r.row.ref.kind} {r.row.ref.name}" for r in causes[:5])
        more = f" and {len(causes) - 5} more" if len(causes) > 5 else ""
        result.append(UnitCondition(kind, status, good if holds else poor, since, one_line(names + more)))
    return tuple(result)
