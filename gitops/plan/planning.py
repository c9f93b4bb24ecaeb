"""The plan of one unit: what to do so that its cluster is as declared. Pure data from pure inputs.

A preview is this plan printed, an apply is the same plan executed (gitops/reconcile/unit_work.py).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gitops.model.identity import ObjectRef
from gitops.plan.parents import Member, ParentRecord, union
from gitops.plan.units import DesiredObject, Mode, Stage, Unit, stricter


class Reason(enum.StrEnum):
    """Why an object is applied."""

    CREATE = "create"
    CHANGED = "changed"  # Git declares something else than what was last applied
    DRIFT = "drift"  # the cluster no longer is as last applied
    UNKNOWN = "unknown"  # never compared: apply settles it


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a live object that a unit declares.

    `last_desired` is the digest of the desired object it was last compared with or applied as (empty: never, or only
    while the unit was known to be at other content); `applied` equals it as long as the live object satisfies it.
    """

    uid: str
    applied: bytes = b""
    last_desired: bytes = b""
    deleting: bool = False  # has a deletionTimestamp: an apply would return 200 and change nothing (ssa-live 41)
    replaced: bool = False  # somebody made it in place of the one that we had made


@dataclass(frozen=True, slots=True)
class Apply:
    object: DesiredObject
    reason: Reason
    uid: str = ""
    """Sent with whatever is applied to a known object: one that vanished is then a conflict (ssa-live 31), and not made
    again under another uid than its parent names."""
    replaced: bool = False
    """Not the object that we had made: it is met, as any that exists."""

    @property
    def repairs(self) -> bool:
        """It exists as it was last applied, but for what somebody changed: it waits for nothing else."""
        return self.reason is Reason.DRIFT and bool(self.uid) and not self.replaced

    @property
    def preflight(self) -> bool:
        """Repairs are one forced apply; what Git changed is dry-run first, and what is not known to exist is met first:
        others may have made it while nobody watched."""
        return not self.repairs


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """Steps in order: parent with the union of names, applies by stage, prunes; then the parent is settled."""

    record: ParentRecord
    write_ahead: tuple[Member, ...] | None  # members to record before the first apply; None: nothing new
    applies: tuple[Apply, ...]  # in the unit's order of apply
    prune: tuple[Member, ...]  # candidates: each still needs its proof
    suppressed: tuple[Apply, ...] = ()  # what the mode forbids: reported, not done

    @property
    def empty(self) -> bool:
        return not (self.applies or self.prune or self.write_ahead)


def plan_unit(
    unit: Unit,
    *,
    record: ParentRecord | None,
    observed: Mapping[ObjectRef, Observed],
    may_prune: bool = True,
    made: Collection[ObjectRef] = (),
) -> UnitPlan:
    """What is to be done for a unit that is declared. Of a once-only kind, objects in `made` are not made again."""
    have = record or ParentRecord(unit.key)
    known = have.content_key == unit.content_key
    applies: list[Apply] = []
    suppressed: list[Apply] = []
    for desired in unit.objects:
        if desired.handling.once and desired.ref not in observed and desired.ref in made:
            continue
        step = _step(desired, observed.get(desired.ref), known=known)
        if step is not None:
            mode = stricter(unit.mode, desired.handling.mode)
            (applies if _allowed(mode, step.reason) else suppressed).append(step)
    intended = [Member(o.ref, o.gvk.version) for o in unit.objects]
    # An object that is made again, or taken over from who made it again, has another uid than the parent says. That
    # would disown it, should the run end before the parent is settled and Git drop the object meanwhile.
    marked = {s.object.ref: seen.uid if (seen := observed.get(s.object.ref)) else "" for s in applies}
    stale = {m.ref for m in have.members if m.uid and marked.get(m.ref, m.uid) != m.uid}
    named = replace(have, members=tuple(replace(m, uid="") if m.ref in stale else m for m in have.members))
    recorded = {(m.ref, m.version) for m in have.members}
    is_new = bool(stale) or any((m.ref, m.version) not in recorded for m in intended)
    declared = unit.names
    writable = unit.mode is not Mode.PAUSED
    return UnitPlan(
        record=have,
        write_ahead=union(named, intended) if is_new and writable else None,
        applies=tuple(applies),
        prune=tuple(m for m in have.members if m.ref not in declared) if may_prune and writable else (),
        suppressed=tuple(suppressed),
    )


Level = tuple[Apply, ...]
"""What may be applied at once."""


@dataclass(frozen=True, slots=True)
class Course:
    """Applies in order. `shared` goes first, level by level: what everything in the unit's namespace needs. Then the
    components go side by side, each through its own levels, so that one which is slow, waits or is refused holds up no
    other."""

    shared: tuple[Level, ...]
    lanes: tuple[tuple[Level, ...], ...]


SHARED = Stage.ACCESS
"""The last stage that all components wait for: pods run in a namespace with its quota, policies and rights, also those
that name none of them."""


def course(applies: Iterable[Apply]) -> Course:
    """The order of applies that are in their unit's order."""
    shared: list[Apply] = []
    lanes: dict[int, list[Apply]] = {}
    for step in applies:
        (shared if step.object.stage <= SHARED else lanes.setdefault(step.object.component, [])).append(step)
    return Course(_levels(shared), tuple(_levels(lane) for lane in lanes.values()))


def _levels(applies: Iterable[Apply]) -> tuple[Level, ...]:
    """Groups that go one after the other. One ends where the stage does, before an object that depends on one of the
    group (`gitops/depends-on`)."""
    found: list[list[Apply]] = []
    names: set[ObjectRef] = set()
    for step in applies:
        here = found[-1][0].object.stage if found else None
        if here != step.object.stage or names.intersection(step.object.depends_on):
            found.append([])
            names = set()
        found[-1].append(step)
        names.add(step.object.ref)
    return tuple(map(tuple, found))


def unjudgeable(applies: Iterable[Apply]) -> frozenset[ObjectRef]:
    """Custom resources whose definition comes or changes in the same plan: what is served still judges them by the old
    one, so they are dry-run only when the new one is there."""
    steps = [s for s in applies if not s.repairs]
    changing = {s.object.ref for s in steps if s.object.stage is Stage.DEFINITION}
    return frozenset(s.object.ref for s in steps if changing.intersection(s.object.after_ready))


def plan_removal(record: ParentRecord) -> UnitPlan:
    """What is to be done for a unit whose declaration left Git."""
    return UnitPlan(record=record, write_ahead=None, applies=(), prune=record.members)


def _step(desired: DesiredObject, seen: Observed | None, *, known: bool) -> Apply | None:
    if seen is None:
        return Apply(desired, Reason.DRIFT if known and not desired.handling.once else Reason.CREATE)
    if seen.deleting or seen.applied == desired.digest:
        return None
    if seen.last_desired == desired.digest:
        return Apply(desired, Reason.DRIFT, uid=seen.uid, replaced=seen.replaced)
    return Apply(desired, Reason.CHANGED if seen.last_desired else Reason.UNKNOWN, uid=seen.uid)


def _allowed(mode: Mode, reason: Reason) -> bool:
    return mode is Mode.ENFORCE or (mode is Mode.REPORT and reason is not Reason.DRIFT)


def settled_members(
    record: ParentRecord, unit: Unit | None, *, uids: Mapping[ObjectRef, str], pruned: Collection[ObjectRef]
) -> tuple[Member, ...]:
    """Members after a run: the declared ones with their live uids, and those that are not pruned yet.

    `uids` are of live objects; one that is not live keeps the uid it had. A declared object that was never applied
    stays a member without uid, so that an apply whose answer was lost leaves no orphan.
    """
    old = record.member_uids()
    declared = (
        ()
        if unit is None
        else tuple(Member(o.ref, o.gvk.version, uids.get(o.ref) or old.get(o.ref, "")) for o in unit.objects)
    )
    names = {m.ref for m in declared}
    left = (m for m in record.members if m.ref not in names and m.ref not in pruned)
    return tuple(sorted((*declared, *left)))
