"""Doing what a unit's plan says: parent, dry-run, applies by stage, prunes, parent again.

Runs in the unit's own serial queue, so nothing else writes its objects meanwhile. Every attempt reads desired and
observed anew; an interrupted one leaves a parent that names whatever may have been created.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.parents import ParentStore
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan import once
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import (
    Apply,
    Level,
    Observed,
    Reason,
    UnitPlan,
    course,
    plan_unit,
    settled_members,
    unjudgeable,
)
from gitops.plan.units import RECONCILER_LABEL, DesiredObject, Mode, Stage, Unit
from gitops.readiness.texts import one_line
from gitops.reconcile import pauses
from gitops.reconcile.attempts import Attempt, conclude, failed, interrupted
from gitops.reconcile.context import Context
from gitops.reconcile.doing_once import Once
from gitops.reconcile.gating import Gate
from gitops.reconcile.impersonating import in_name_of
from gitops.reconcile.others_fields import questions
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.preflighting import Preflight
from gitops.reconcile.pruning import Pruner, PruneReport
from gitops.reconcile.recreating import Recreator
from gitops.reconcile.removing import Remover
from gitops.reconcile.secret_sources import SecretSources
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.reconcile.taking_over import Adopter, left_over_sentence
from gitops.reconcile.terminating import TerminatingNamespaces
from gitops.reconcile.unblocking import Unblocker
from gitops.reconcile.writing import Writer
from gitops.report.drift import Repair

_log = logging.getLogger(__name__)

_CERTAIN = frozenset({ErrorClass.REFUSED, ErrorClass.FORBIDDEN, ErrorClass.DENIED})
"""Errors after which what was to be written is certainly not stored."""
MOST_ADOPTED = 5
"""Objects that a unit's sentence names as taken over."""


class UnitWork:
    """Executes units of one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self,
        state: ClusterState,
        *,
        applier: Applier,
        parents: ParentStore,
        pruner: Pruner,
        context: Context,
        sightings: Sightings,
        secrets: SecretSources,
        terminating: TerminatingNamespaces,
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._secrets = secrets
        self._terminating = terminating
        self._applier = applier
        self._parents = parents
        self._context = context
        self._sightings = sightings
        self._may_write = may_write
        self.gate = Gate(state, context)
        self._owning = sightings.owning
        self._contesting = sightings.owning.contesting
        recreator = Recreator(state, context.registry, may_write=may_write)
        self._once = Once(state, recreator, self._store, may_write=may_write)
        adopter = Adopter(state, may_write=may_write)
        unblocker = Unblocker(state, sightings=sightings)
        self._preflight = Preflight(
            state,
            owning=self._owning,
            recreator=recreator,
            adopter=adopter,
            unblocker=unblocker,
            may_write=may_write,
        )
        self._writer = Writer(
            state,
            recreator=recreator,
            once=self._once,
            context=context,
            sightings=sightings,
            adopter=adopter,
            unblocker=unblocker,
            may_write=may_write,
        )
        self._unsure: set[UnitKey] = set()  # whose parent's last write was not answered
        self._remover = Remover(state, parents=parents, pruner=pruner, context=context, may_write=may_write)

    async def run(self, key: UnitKey) -> UnitOutcome:
        """One attempt at the unit. Expected failures are in the outcome; what is raised is a defect."""
        if not self._may_write():
            return interrupted()
        if key in self._unsure:
            unread = await self._read_parent(key)
            if unread is not None:
                return self._failed(key, "the parent cannot be read", unread)
        unit, record = self._state.unit(key), self._state.parents.get(key)
        if unit is not None:
            return await self._enforce(unit, record)
        if record is None:
            return UnitOutcome(SyncState.REMOVED, "removed")
        assignment = self._state.assignment
        paused = assignment is not None and assignment.mode is Mode.PAUSED
        if assignment is not None and assignment.may_remove(key):
            return _paused_removal(record) if paused else await self._remove(record)
        if not record.resource_version and not paused:
            again = await self._parents.write(record)
            if isinstance(again, ApiError):
                return await self._no_parent(key, again)
            self._keep(again)
        return UnitOutcome(SyncState.HELD, "has errors at the head; nothing is changed")

    # -- a declared unit ---------------------------------------------------------------------------------------------

    async def _enforce(self, unit: Unit, record: ParentRecord | None) -> UnitOutcome:
        unit_state = self._state.units[unit.key]
        self._owning.review(unit.key)
        applier = self._applier.in_name_of(unit.service_account)
        unread = await self._read_suspects(unit, applier)
        if unread is not None:
            return self._failed(unit.key, "an object that has to be looked at cannot be read", unread)
        pause = self._state.pauses.get(unit.key, record.pause_until if record else "")
        paused_for = pauses.seconds_left(pause, now=self._context.wall())
        if unit.mode is not Mode.PAUSED and not paused_for and self._owning.must_let_go(unit):
            exists = await in_name_of(unit.service_account, self._applier)
            if isinstance(exists, ApiError):
                return self._failed(unit.key, "nothing is written", exists)
            kept = await self._owning.hand_over(unit, applier, may_write=self._may_write, see=self._see)
            if kept is not None:
                return self._failed(unit.key, "a field that is others' cannot be let go", kept)
        current = self._state.unit(unit.key)  # what is left to others was decided meanwhile, or a head came
        if current is None:
            return UnitOutcome(SyncState.PENDING, "another head came", retry_after=0.0)
        unit = current
        run = Attempt(unit, applier, paused_until=pause if paused_for else "", retry_after=paused_for or None)
        run.notes += pauses.problems(pause)
        look = self._once.look(run, record or ParentRecord(unit.key))
        if not paused_for:
            self._sightings.overrides.retry(unit)
        plan = plan_unit(
            replace(unit, mode=Mode.REPORT) if paused_for and unit.mode is Mode.ENFORCE else unit,
            record=record,
            observed=self._observed(unit, record),
            may_prune=not unit_state.fused,
            made=look.made,
        )
        self._secrets.tell(run)
        run.asked = questions(self._state, unit)
        for problem in self._contesting.told(unit):
            live = self._state.objects.get(problem.object)
            (run.remarks if live is not None and live.uid else run.problems).append(problem)
        run.look_in(self._contesting.next_try(unit))
        steps = await self._terminating.possible(run, self._uncontested(plan))
        run.lost = _lost(steps, record)
        if steps or plan.prune or look.due:
            exists = await in_name_of(unit.service_account, self._applier)
            if isinstance(exists, ApiError):
                return self._failed(unit.key, "nothing is written", exists)
        if plan.write_ahead is not None or self._once.unsaid(run, plan.record):
            if not self._may_write():
                return interrupted()
            named = replace(self._named(plan, unit), satisfied=once.remembered(run.words))
            stored = await self._parents.write(named)
            if isinstance(stored, ApiError):
                return await self._no_parent(unit.key, stored)
            plan = replace(plan, record=self._keep(stored))
        if steps:
            run.redefined = unjudgeable(steps)
            await self._preflight.run(run, [s for s in steps if s.object.ref not in run.redefined])
            await self._once.recreate(run)
            await self._apply(run, steps)
            await self._once.recreate(run)  # what only an apply found, not its dry run
        for trigger in look.due:
            await self._once.start(run, trigger)
        plan = replace(plan, record=self._state.parents.get(unit.key, plan.record))
        plan = replace(plan, suppressed=tuple(s for s in plan.suppressed if not self._right_but_not_ours(s)))
        for step in plan.suppressed:
            self._sightings.repaired(unit.key, step.object.ref, Repair.REPORTED)
            if (seen := self._state.objects.get(step.object.ref)) is not None:
                seen.drifted_at = None  # how long it is held up says nothing of how fast repairs are
        pruned = PruneReport()
        undone = run.problems or run.look_again or run.interrupted  # what takes their place is there first
        if plan.prune and not undone and self._may_write():
            pruned = await self._remover.prune(unit.key, plan, run.applier)
        return await self._settle(unit, plan, run, pruned)

    async def _apply(self, run: Attempt, steps: list[Apply]) -> None:
        """First what everything needs, then the components side by side, so that none waits for another."""
        way = course(steps)
        for level in way.shared:
            await self._apply_level(run, level)
        await asyncio.gather(*(self._apply_lane(run, lane) for lane in way.lanes))

    async def _apply_lane(self, run: Attempt, lane: tuple[Level, ...]) -> None:
        for level in lane:
            await self._apply_level(run, level)

    async def _apply_level(self, run: Attempt, level: Level) -> None:
        if level[0].object.stage > Stage.SECRETS:
            self._secrets.hold(run)
        if any(step.object.after_ready for step in level):
            passed = await asyncio.gather(*(self.gate.passes(run, step) for step in level))
            level = tuple(step for step, passes in zip(level, passed, strict=True) if passes)
            await self._preflight.run(run, [s for s in level if s.object.ref in run.redefined and not run.stops(s)])
            await self._once.recreate(run)
        await asyncio.gather(*(self._writer.apply(run, step) for step in level))

    def _observed(self, unit: Unit, record: ParentRecord | None) -> Mapping[ObjectRef, Observed]:
        """What is known of its objects. In another name they are looked at anew, so that missing rights show at once
        and not at the next repair."""
        observed = self._state.observed(unit.objects)
        if record is None or record.service_account == unit.service_account:
            return observed
        return {ref: replace(seen, applied=b"", last_desired=b"") for ref, seen in observed.items()}

    async def _read_suspects(self, unit: Unit, applier: Applier) -> ApiError | None:
        """Objects that left the watch were deleted or relabelled (ssa-live 33), and of some it has to be decided anew
        whose their fields are: read them, then decide."""
        for desired in unit.objects:
            record = self._state.objects.get(desired.ref)
            if record is None or not record.suspect:
                continue
            live = await applier.get(desired.gvk, desired.ref)
            if isinstance(live, ApiError):
                if not live.waits_for.startswith("kind"):
                    return live
                live = None  # its definition went and took it along; perhaps this very unit brings that back
            record.suspect = False
            if live is None:
                self._sightings.gone(unit.key, desired)
            else:
                relabelled = (live["metadata"].get("labels") or {}).get(RECONCILER_LABEL) != self._state.reconciler
                self._sightings.see(unit.key, desired, record, live, relabelled=relabelled, at_work=True)
                record.awaiting = record.resource_version  # events from before the read come after it
        return None

    def _see(self, desired: DesiredObject, record: ObjectRecord, live: Mapping[str, Any]) -> None:
        found = self._state.declared(desired.ref)
        if found is not None:
            self._sightings.see(*found, record, live, at_work=True)

    def _uncontested(self, plan: UnitPlan) -> list[Apply]:
        """The applies without those that would only go on with a fight."""
        steps: list[Apply] = []
        for step in plan.applies:
            if not self._contesting.held_back(step):
                steps.append(step)
            elif not self._right_but_not_ours(step):
                self._sightings.repaired(plan.record.unit, step.object.ref, Repair.CONTESTED)
        return steps

    def _right_but_not_ours(self, step: Apply) -> bool:
        """Whether only ownership would be repaired: where repair is forbidden or given up, that is nothing to tell."""
        record = self._state.objects.get(step.object.ref)
        return step.reason is Reason.DRIFT and record is not None and bool(record.uid) and record.unowned

    def _named(self, plan: UnitPlan, unit: Unit) -> ParentRecord:
        """Until all is written in the unit's name, a removal goes in the name that wrote it."""
        members = plan.write_ahead or plan.record.members
        account = plan.record.service_account if plan.record.members else unit.service_account
        return replace(plan.record, members=members, namespace=unit.namespace, service_account=account)

    def _keep(self, record: ParentRecord) -> ParentRecord:
        self._state.parents[record.unit] = record
        return record

    async def _store(self, record: ParentRecord) -> ParentRecord | ApiError:
        stored = await self._parents.write(record)
        if isinstance(stored, ApiError):
            await self._no_parent(record.unit, stored)
            return stored
        return self._keep(stored)

    async def _settle(self, unit: Unit, plan: UnitPlan, run: Attempt, pruned: PruneReport) -> UnitOutcome:
        """Write the parent when what it says changed; then say how the unit stands."""
        unit_state = self._state.units[unit.key]
        left = run.problems or run.look_again or run.interrupted or plan.suppressed or unit_state.fused
        uids = {o.ref: r.uid for o in unit.objects if (r := self._state.objects.get(o.ref)) is not None}
        settled = replace(
            plan.record,
            members=settled_members(plan.record, unit, uids=uids, pruned=pruned.done),
            namespace=unit.namespace,
            contested=self._contesting.stored(unit),
        )
        unit_state.adopted += run.adopted
        settled = replace(settled, satisfied=once.remembered(run.words, {m.ref for m in settled.members}))
        if not left and pruned.complete and plan.record.content_key != unit.content_key:
            unit_state.note = _changed_in_place(plan.record, unit) or _adopted(unit_state.adopted)
            unit_state.adopted = []
            settled = replace(
                settled,
                content_key=unit.content_key,
                commit=unit.commit,
                version=unit.version,
                base_digest=unit.base_digest,
                service_account=unit.service_account,
            )
        lost = not plan.record.resource_version  # somebody deleted the parent
        if (lost or settled != plan.record) and unit.mode is not Mode.PAUSED and self._may_write():
            stored = await self._parents.write(settled)
            if isinstance(stored, ApiError):
                return await self._no_parent(unit.key, stored)
            self._keep(stored)
        records = ((o.ref, self._state.objects.get(o.ref)) for o in unit.objects)
        left_over = left_over_sentence([(str(ref), r.left_over) for ref, r in records if r is not None and r.left_over])
        for told, later in (self._sightings.overrides.tell(unit), self._sightings.children.tell(unit)):
            run.notes += told
            run.look_in(later)
        return conclude(run, plan, pruned, unit_state=unit_state, rng=self._context.rng, left_over=left_over)

    async def _remove(self, record: ParentRecord) -> UnitOutcome:
        """In the name that wrote it: Git no longer says one."""
        applier = await in_name_of(record.service_account, self._applier)
        if isinstance(applier, ApiError):
            return self._failed(record.unit, "it left Git and its objects stay", applier)
        return await self._remover.remove(record, applier, self._no_parent)

    # -- failing -----------------------------------------------------------------------------------------------------

    async def _no_parent(self, key: UnitKey, error: ApiError) -> UnitOutcome:
        if error.cls is ErrorClass.STALE:
            await self._read_parent(key)  # another writer's record is stored: it is the truth, what we held is not
        elif error.cls not in _CERTAIN:
            self._unsure.add(key)
        return self._failed(key, "the parent cannot be written", error)

    async def _read_parent(self, key: UnitKey) -> ApiError | None:
        """Take what is stored as what is known of the unit."""
        stored = await self._parents.load(key)
        if isinstance(stored, ApiError):
            return stored
        self._unsure.discard(key)
        if isinstance(stored, ParentRecord):
            self._keep(stored)
        elif stored is None and key in self._state.parents:
            self._keep(replace(self._state.parents[key], resource_version=""))  # all that is known of the unit
        return None

    def _failed(self, key: UnitKey, what: str, error: ApiError) -> UnitOutcome:
        return failed(what, error, number=self._state.units[key].attempts + 1, rng=self._context.rng)


def _lost(steps: Iterable[Apply], record: ParentRecord | None) -> frozenset[ObjectRef]:
    """What is not seen although the unit had it."""
    unseen = {s.object.ref for s in steps if s.reason is Reason.DRIFT and not s.uid}
    return frozenset(m.ref for m in record.members if m.uid and m.ref in unseen) if record and unseen else frozenset()


def _paused_removal(record: ParentRecord) -> UnitOutcome:
    """Paused means no writes: what left Git meanwhile stays until the cluster goes on."""
    sentence = f"it left Git; mode {Mode.PAUSED} deletes nothing"
    previews = tuple(f"delete {member.ref}" for member in record.members)
    return UnitOutcome(SyncState.PAUSED, sentence, previews=previews)


def _adopted(sentences: list[str]) -> str:
    """What was taken over, in a bounded sentence."""
    more = f" (and {len(sentences) - MOST_ADOPTED} more)" if len(sentences) > MOST_ADOPTED else ""
    return f"adopted {one_line(', '.join(sorted(sentences)[:MOST_ADOPTED]), 1000)}{more}" if sentences else ""


def _changed_in_place(record: ParentRecord, unit: Unit) -> str:
    """A version is immutable: its base must not change under the same name."""
    if record.version and record.version == unit.version and record.base_digest not in ("", unit.base_digest):
        return f"the base of version {unit.version} was changed in place; raise the version with every change of it"
    return ""
