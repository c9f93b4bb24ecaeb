"""The plan of one unit: what to do so that its cluster is as declared. Pure data from pure inputs.

A preview is this plan printed, an apply is the same plan executed (gitops/reconcile/unit_worker.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitops.model.identity import ObjectRef
from gitops.plan.parents import Member, ParentRecord, union
from gitops.plan.units import DesiredObject, Mode, Unit


class Reason(enum.StrEnum):
    """Why an object is applied."""

    CREATE = "create"
    CHANGED = "changed"  # Git declares something else than what was last applied
    DRIFT = "drift"  # the cluster no longer is as last applied
    UNKNOWN = "unknown"  # never compared: apply settles it


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a live object that a unit declares.

    `applied` is the digest of the desired object that the live one is known to satisfy, empty when it is known not to
    (or was never compared).
    """

    uid: str
    applied: bytes = b""
    last_desired: bytes = b""  # digest of the desired object that was last compared or applied


@dataclass(frozen=True, slots=True)
class Apply:
    object: DesiredObject
    reason: Reason
    uid: str = ""  # sent with repairs: a vanished object is then a conflict, not a re-creation (ssa-live 31)

    @property
    def preflight(self) -> bool:
        """Repairs are one forced apply; what Git changed is dry-run first."""
        return self.reason is not Reason.DRIFT


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """Steps in order: parent with the union of names, applies by stage, prunes, parent with what is."""

    record: ParentRecord
    write_ahead: tuple[Member, ...] | None  # members to record before the first apply; None: nothing new
    applies: tuple[Apply, ...]
    prune: tuple[Member, ...]  # candidates: each still needs its proof
    settle: bool  # the parent must be written when all is done
    suppressed: tuple[Apply, ...] = ()  # what the mode forbids: reported, not done

    @property
    def empty(self) -> bool:
        return not (self.applies or self.prune or self.settle or self.write_ahead)


def plan_unit(
    unit: Unit,
    *,
    record: ParentRecord | None,
    observed: Mapping[ObjectRef, Observed],
    may_prune: bool = True,
) -> UnitPlan:
    """What is to be done for a unit that is declared."""
    have = record or ParentRecord(unit.key)
    applies, suppressed = [], []
    for desired in unit.objects:
        step = _step(desired, observed.get(desired.ref), known=have.content_key == unit.content_key)
        if step is not None:
            (applies if _allowed(unit.mode, step.reason) else suppressed).append(step)
    intended = [Member(o.ref, o.gvk.version) for o in unit.objects]
    together = union(have, intended)
    known = {(m.ref, m.version) for m in have.members}
    is_new = any((m.ref, m.version) not in known for m in intended)
    declared = {o.ref for o in unit.objects}
    writable = unit.mode is not Mode.PAUSED
    prune = tuple(m for m in have.members if m.ref not in declared) if may_prune and writable else ()
    settle = writable and (bool(applies or prune) or have.content_key != unit.content_key)
    return UnitPlan(
        record=have,
        write_ahead=together if is_new and writable else None,
        applies=tuple(sorted(applies, key=lambda a: (a.object.stage, a.object.ref))),
        prune=prune,
        settle=settle,
        suppressed=tuple(suppressed),
    )


def plan_removal(record: ParentRecord) -> UnitPlan:
    """What is to be done for a unit whose declaration left Git."""
    return UnitPlan(record=record, write_ahead=None, applies=(), prune=record.members, settle=True)


def _step(desired: DesiredObject, seen: Observed | None, *, known: bool) -> Apply | None:
    if seen is None:
        return Apply(desired, Reason.DRIFT if known else Reason.CREATE)
    if seen.applied == desired.digest:
        return None
    if seen.last_desired == desired.digest and known:
        return Apply(desired, Reason.DRIFT, uid=seen.uid)
    return Apply(desired, Reason.CHANGED if seen.last_desired else Reason.UNKNOWN, uid=seen.uid)


def _allowed(mode: Mode, reason: Reason) -> bool:
    return mode is Mode.ENFORCE or (mode is Mode.REPORT and reason is not Reason.DRIFT)


def settled_members(
    unit: Unit | None,
    record: ParentRecord,
    *,
    uids: Mapping[ObjectRef, str],
    kept: Mapping[ObjectRef, Member],
    prune_done: Callable[[ObjectRef], bool],
) -> tuple[Member, ...]:
    """Members after a run: the declared ones with their live uids, and those whose prune is not done yet."""
    declared = {} if unit is None else {o.ref: Member(o.ref, o.gvk.version, uids.get(o.ref, "")) for o in unit.objects}
    left = {m.ref: m for m in record.members if m.ref not in declared and not prune_done(m.ref)}
    for ref, member in record.member_uids().items():
        if ref in declared and not declared[ref].uid:
            declared[ref] = Member(ref, declared[ref].version, member)
    return tuple(sorted({**left, **dict(kept), **declared}.values()))
