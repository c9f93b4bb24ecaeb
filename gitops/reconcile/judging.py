"""The status of a unit from its records and what hangs below them. No calls; asked when something of it moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.plan import once
from gitops.plan.units import DesiredObject
from gitops.readiness.aggregating import DeclaredStatus, UnitStatus, roles_of, unit_status
from gitops.readiness.mapping import Mappings
from gitops.readiness.owners import OwnerIndex
from gitops.readiness.statuses import Flag, ObjectStatus, Status
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.state import ClusterState, UnitState
from gitops.reconcile.watches import Blind

_LEAVING = {
    SyncState.PENDING: Status.TERMINATING,
    SyncState.REMOVING: Status.TERMINATING,
    SyncState.RETAINED: Status.SUSPENDED,
    SyncState.PAUSED: Status.SUSPENDED,
}
"""What the state of its removal makes of a unit that left Git. What is kept on purpose is fine."""


_DONE_ONCE = ObjectStatus(Status.COMPLETED, "DoneOnce", "it did its work and is gone; it is not made again")


def judge(
    state: ClusterState,
    key: UnitKey,
    *,
    owners: OwnerIndex,
    context: Context,
    blind: Mapping[GroupVersionKind, Blind],
) -> float | None:
    """Bring `UnitState.status` up to date; returns when time alone may change it (seconds since the epoch). `blind` are
    kinds that cannot be seen at the moment: of a unit that has them nothing is known."""
    unit, unit_state = state.unit(key), state.units.get(key)
    if unit_state is None:
        return None
    now = context.wall()
    if unit is None:
        unit_state.status = _leaving(unit_state, now)
        return None
    problems = {p.object: p for p in unit_state.outcome.problems}
    declared = [
        _declared(state, unit_state, desired, problems.get(desired.ref), mappings=context.mappings, now=now)
        for desired in unit.objects
    ]
    unit_state.status, unit_state.memory = unit_status(
        declared,
        owners=owners,
        now=now,
        roles=roles_of(context.registry.children_of(unit.operator_types)),
        memory=unit_state.memory,
    )
    unseen = next((blind[o.gvk] for o in unit.objects if o.gvk in blind), None)
    if unseen is not None:
        unit_state.status = _unseen(unit_state.status, unseen)
    changes = [
        change
        for desired in unit.objects
        if (record := state.objects.get(desired.ref)) is not None
        and record.outlook is not None
        and (change := record.outlook.next_change(now)) is not None
    ]
    if unit_state.status.next_check is not None:
        changes.append(unit_state.status.next_check)
    return min(changes, default=None)


def _unseen(status: UnitStatus, blind: Blind) -> UnitStatus:
    """What was seen last, said as such: what cannot be seen is never green."""
    flags = status.flags | {Flag.STALE}
    return replace(
        status, status=Status.UNKNOWN, reason="NotSeen", cause=blind.sentence, since=blind.since, flags=flags
    )


def _leaving(unit_state: UnitState, now: float) -> UnitStatus:
    """Of a unit that Git declares no more: how far its removal is. What was said of its objects holds no longer."""
    outcome, before = unit_state.outcome, unit_state.status
    status = _LEAVING.get(outcome.state, Status.UNKNOWN)
    reason = str(outcome.state)
    same = before is not None and (before.status, before.reason) == (status, reason)
    since = before.since if same and before is not None else now
    return UnitStatus(status, reason, outcome.sentence, 0, 0, since=since, phase="")


def _declared(
    state: ClusterState,
    unit_state: UnitState,
    desired: DesiredObject,
    problem: ObjectProblem | None,
    *,
    mappings: Mappings,
    now: float,
) -> DeclaredStatus:
    record = state.objects.get(desired.ref)
    seen = record is not None and bool(record.uid) and record.outlook is not None
    parent = state.parents.get(unit_state.key)
    done = not seen and desired.handling.once and once.made_once(dict(parent.satisfied if parent else ()), desired.ref)
    waiting, refused = unit_state.outcome.sentence, ""
    if problem is not None:
        waiting = problem.message
        if problem.state in (SyncState.REFUSED, SyncState.NEEDS_RECREATE):
            refused = problem.message
    return DeclaredStatus(
        ref=desired.ref,
        status=_DONE_ONCE
        if done == once.MADE and problem is None
        else record.outlook.at(now)[0]
        if seen and record is not None and record.outlook is not None
        else None,
        uid=record.uid if record is not None else "",
        applied=seen or _was_applied(state, unit_state.key, desired.ref),
        counted=mappings.for_kind(desired.gvk).counted,
        waiting=waiting,
        refused=refused,
    )


def _was_applied(state: ClusterState, key: UnitKey, ref: ObjectRef) -> bool:
    """Whether the parent knows the object's uid: it existed once, so its absence is a loss and not a wait."""
    record = state.parents.get(key)
    return record is not None and bool(record.uid_of(ref))
