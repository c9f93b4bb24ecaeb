"""A declared object and what hangs below it → one verdict.

A root and its gates

| root | gates and pods | verdict |
|---|---|---|
| Ready | a gate Failed, Degraded, or a pod that cannot run | Degraded: the operator does not show it |
| Ready | a gate Progressing | Ready for 30 s if it was Ready before, then Degraded; Progressing if it is a rollout |
| Progressing, had been Ready at this generation | a gate or pod Degraded or Failed | Degraded |
| Progressing, status fresh | a pod that cannot run, a gate Failed | Failed (the operator may still recover) |
| Progressing, status fresh | all gates Ready for 5 minutes | Degraded: the operator disagrees with what runs |
| Progressing, status stale | anything | Progressing: what hangs below belongs to the old spec |
| Unknown | all gates Ready | Ready, unverified |
| other | anything | as the root says |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gitops.model.identity import GroupKind, ObjectRef
from gitops.model.operators import ChildKind
from gitops.readiness.owners import OwnerIndex
from gitops.readiness.statuses import FINE, Flag, ObjectStatus, Role, Status
from gitops.readiness.texts import one_line

GATE_GRACE = 30.0
"""Seconds for which a Ready root's progressing gate is forgiven (a pod is replaced, a node drained)."""

DISAGREEMENT = 300.0
"""Seconds after which a root that still says Progressing over gates that are all Ready is called Degraded."""

DEFAULT_ROLES: Mapping[GroupKind, Role] = MappingProxyType(
    {
        GroupKind("apps", "Deployment"): Role.GATE,
        GroupKind("apps", "StatefulSet"): Role.GATE,
        GroupKind("apps", "DaemonSet"): Role.GATE,
        GroupKind("batch", "Job"): Role.GATE,
        GroupKind("", "Pod"): Role.DIAGNOSE,
    }
)
"""Roles of kinds that no operator type names; anything else is Role.INFORM."""


def roles_of(children: Iterable[ChildKind]) -> Mapping[GroupKind, Role]:
    """Roles of the secondary kinds of some operator types (OperatorRegistry.children_of of a unit's types)."""
    return {**DEFAULT_ROLES, **{GroupKind(c.group, c.kind): Role(c.role) for c in children}}


@dataclass(frozen=True, slots=True)
class DeclaredStatus:
    """One declared object of a unit as it stands.

    `status` is None when the object is not on the cluster; `applied` says that it should be (else it waits for its
    first apply, `waiting` saying for what). `refused` is why the last apply was refused until Git or the cluster
    changes, "" when it was not. `counted` is CompiledMapping.counted of its kind.
    """

    ref: ObjectRef
    status: ObjectStatus | None
    uid: str = ""
    applied: bool = True
    counted: bool = True
    required: bool = True
    waiting: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class RootMemory:
    """What is remembered of one declared object: whether it was reported Ready, and since when a gate lags."""

    ready: bool = False
    lagging_at: float | None = None


_READY, _NOT_READY = RootMemory(ready=True), RootMemory()


def _remembered(ready: bool, lagging_at: float | None) -> RootMemory:
    """Shared between nearly all objects."""
    if lagging_at is not None:
        return RootMemory(ready, lagging_at)
    return _READY if ready else _NOT_READY


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One line of the table: a declared object with the verdict on it and everything below it."""

    ref: ObjectRef
    status: Status
    reason: str
    message: str
    flags: frozenset[Flag]
    cause: ObjectRef | None = None  # the deepest object that explains it, when that is another one


@dataclass(frozen=True, slots=True)
class Root:
    row: ObjectRow
    memory: RootMemory
    ready: int
    expected: int
    required: bool
    checks: tuple[float, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Child:
    """A secondary object with its verdict at the time of the look."""

    ref: ObjectRef
    uid: str
    status: ObjectStatus


@dataclass(frozen=True, slots=True)
class _Below:
    """What hangs below one declared object; deepest last, objects on their way out left aside."""

    gates: tuple[_Child, ...] = ()
    leaves: tuple[_Child, ...] = ()  # gates without a gate below them: those are counted
    diagnoses: tuple[_Child, ...] = ()


def below_of(declared: DeclaredStatus, owners: OwnerIndex, roles: Mapping[GroupKind, Role], now: float) -> _Below:
    if not declared.uid:
        return _Below()
    gates: list[_Child] = []
    diagnoses: list[_Child] = []
    leaving: set[str] = set()
    parents: set[str] = set()
    for _, record in owners.descendants(declared.uid, namespace=declared.ref.namespace):
        if record.terminating or leaving.intersection(record.owners):
            leaving.add(record.uid)  # what belongs to an object being deleted is on its way out as well
            continue
        role = roles.get(record.ref.group_kind) or DEFAULT_ROLES.get(record.ref.group_kind, Role.INFORM)
        if role is Role.INFORM or record.outlook is None:
            continue
        child = _Child(record.ref, record.uid, record.status(now))
        if role is Role.DIAGNOSE:
            diagnoses.append(child)
        elif record.counted:
            gates.append(child)
            parents.update(record.owners)
    return _Below(tuple(gates), tuple(g for g in gates if g.uid not in parents), tuple(diagnoses))


def combine(declared: DeclaredStatus, below: _Below, memory: RootMemory, *, now: float, grace: float) -> Root:
    root = _root_status(declared)
    judged = _judge(root, below, memory, now=now, grace=grace)
    verdict, cause = judged.status, judged.cause
    children = (*below.gates, *below.diagnoses)
    checks = [c for c in (root.next_check, *(c.status.next_check for c in children)) if c is not None]
    if judged.check is not None:
        checks.append(judged.check)
    counted: tuple[Status, ...] = tuple(g.status.status for g in below.leaves)
    if not counted and declared.counted:
        counted = (verdict.status,)
    return Root(
        row=ObjectRow(
            ref=declared.ref,
            status=verdict.status,
            reason=verdict.reason,
            message=verdict.message,
            flags=verdict.flags,
            cause=cause.ref if cause else None,
        ),
        memory=_remembered(verdict.status is Status.READY, judged.lagging_at),
        ready=sum(s in FINE for s in counted),
        expected=len(counted),
        required=declared.required,
        checks=tuple(checks),
        problems=(*root.problems, *(p for c in children for p in c.status.problems)),
    )


def _root_status(declared: DeclaredStatus) -> ObjectStatus:
    if declared.refused:
        return ObjectStatus(Status.FAILED, "Refused", one_line(declared.refused))
    if declared.status is not None:
        return declared.status
    if declared.applied:
        return ObjectStatus(Status.MISSING, "NotFound", "it was applied and is not there")
    return ObjectStatus(Status.PROGRESSING, "NotApplied", one_line(declared.waiting) or "waiting for its apply")


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on a root, what below explains it, since when the two disagree, and when that will matter."""

    status: ObjectStatus
    cause: _Child | None = None
    lagging_at: float | None = None
    check: float | None = None


def _judge(root: ObjectStatus, below: _Below, memory: RootMemory, *, now: float, grace: float) -> _Judged:
    """The rows of the module's table."""
    broken = _deepest(below, _is_broken)
    if root.status is Status.READY:
        if broken is not None:
            return _Judged(_restate(root, Status.DEGRADED, broken), broken)
        return _judge_lagging(root, below, memory, now=now, grace=grace)
    if root.status is Status.PROGRESSING and Flag.STALE not in root.flags:
        return _judge_progressing(root, below, broken, memory, now=now)
    if root.status in (Status.DEGRADED, Status.FAILED):
        deeper = broken or _deepest(below, _is_waiting)
        return _Judged(_restate(root, root.status, deeper), deeper) if deeper else _Judged(root)
    if root.status is Status.UNKNOWN and _all_fine(below):
        return _Judged(dataclasses.replace(root, status=Status.READY, flags=root.flags | {Flag.UNVERIFIED}))
    return _Judged(root)


def _judge_progressing(
    root: ObjectStatus, below: _Below, broken: _Child | None, memory: RootMemory, *, now: float
) -> _Judged:
    cannot_run, waiting = _deepest(below, _cannot_run), _deepest(below, _is_waiting)
    if broken is not None and root.settled:
        return _Judged(_restate(root, Status.DEGRADED, broken), broken)
    if cannot_run is not None:
        return _Judged(_restate(root, Status.FAILED, cannot_run), cannot_run)
    if waiting is not None:
        return _Judged(_restate(root, Status.PROGRESSING, waiting), waiting)
    if not _all_fine(below):
        return _Judged(root)
    since = memory.lagging_at if memory.lagging_at is not None else now
    if now < since + DISAGREEMENT:
        return _Judged(root, lagging_at=since, check=since + DISAGREEMENT)
    message = "everything below it is ready" + (f"; {root.message}" if root.message else "")
    return _Judged(dataclasses.replace(root, status=Status.DEGRADED, message=one_line(message)), lagging_at=since)


def _judge_lagging(root: ObjectStatus, below: _Below, memory: RootMemory, *, now: float, grace: float) -> _Judged:
    """A Ready root whose gates are not broken: do they lag behind?"""
    lagging = [g for g in below.gates if g.status.status in (Status.PROGRESSING, Status.UNKNOWN)]
    if not lagging:
        return _Judged(root)
    gate, since = lagging[-1], memory.lagging_at if memory.lagging_at is not None else now
    if memory.ready and now < since + grace:
        return _Judged(root, lagging_at=since, check=since + grace)
    outage = gate.status.settled and now >= since + grace
    status = _restate(root, Status.DEGRADED if outage else Status.PROGRESSING, gate)
    return _Judged(status, gate, since, None if outage else since + grace)


def _all_fine(below: _Below) -> bool:
    return bool(below.gates) and all(g.status.status in FINE for g in below.gates)


def _is_broken(status: ObjectStatus) -> bool:
    return status.status in (Status.FAILED, Status.DEGRADED)


def _is_waiting(status: ObjectStatus) -> bool:
    return status.status is Status.PROGRESSING


def _cannot_run(status: ObjectStatus) -> bool:
    """Failed for good; a Deployment's own deadline proves nothing (600 s, while a model may load for half an hour)."""
    return status.status is Status.FAILED and status.reason != "ProgressDeadlineExceeded"


def _deepest(below: _Below, wanted: Callable[[ObjectStatus], bool]) -> _Child | None:
    """The deepest matching object: pods say more than what owns them."""
    for group in (below.diagnoses, below.gates):
        found = [child for child in group if wanted(child.status)]
        if found:
            return found[-1]
    return None


def _restate(root: ObjectStatus, status: Status, cause: _Child) -> ObjectStatus:
    """The verdict in the words of what explains it; the root's own reason stays where the status does."""
    below = cause.status
    message = f"{cause.ref.kind} {cause.ref.name} {below.reason or below.status}"
    if below.message:
        message += f": {below.message}"
    if root.message and status is root.status:
        message += f"; {root.message}"
    reason = root.reason if status is root.status and root.reason else (below.reason or str(below.status))
    return dataclasses.replace(root, status=status, reason=reason, message=one_line(message))
