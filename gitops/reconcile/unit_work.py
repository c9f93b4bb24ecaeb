"""Doing what a unit's plan says: parent, dry-run, applies by stage, prunes, parent again.

Runs in the unit's own serial queue, so nothing else writes its objects meanwhile. Every attempt reads desired and
observed anew; an interrupted one leaves a parent that names whatever may have been created.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from dataclasses import replace

from gitops.cluster.adopting import folded_managers, foreign_owner, is_ours
from gitops.cluster.applying import Applier, ApplyOutcome, ApplyResult
from gitops.cluster.claims import PREFLIGHT_NAMESPACE
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.parents import ParentStore
from gitops.model.identity import ObjectRef, UnitKey
from gitops.model.kinds import NAMESPACE
from gitops.plan.parents import ParentRecord, applyset_id, parent_name
from gitops.plan.planning import Apply, Reason, UnitPlan, levels, plan_removal, plan_unit, settled_members
from gitops.plan.units import RECONCILER_LABEL, DesiredObject, Mode, Unit
from gitops.reconcile.attempts import Attempt, conclude, earliest, failed, interrupted
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import ObjectProblem, SyncState, UnitOutcome
from gitops.reconcile.pruning import Pruner, PruneReport
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.report.drift import Repair

_log = logging.getLogger(__name__)

LONGEST_LOOK = 60.0
"""Seconds, at most, between looks at a deletion that does not come to its end."""


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
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._applier = applier
        self._parents = parents
        self._pruner = pruner
        self._context = context
        self._sightings = sightings
        self._may_write = may_write
        self._turns: dict[ObjectRef, asyncio.Lock] = {}

    async def run(self, key: UnitKey) -> UnitOutcome:
        """One attempt at the unit. Expected failures are in the outcome; what is raised is a defect."""
        unit, record = self._state.unit(key), self._state.parents.get(key)
        if not self._may_write():
            return interrupted()
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
        unread = await self._read_suspects(unit)
        if unread is not None:
            return self._failed(unit.key, "an object that left the watch cannot be read", unread)
        paused_for = self._paused_for(unit.key, record)
        plan = plan_unit(
            replace(unit, mode=Mode.REPORT) if paused_for and unit.mode is Mode.ENFORCE else unit,
            record=record,
            observed=self._state.observed(unit.objects),
            may_prune=not unit_state.fused,
        )
        run = Attempt(unit, paused=paused_for > 0, retry_after=paused_for or None)
        steps = self._uncontested(plan, run)
        if plan.write_ahead is not None:
            if not self._may_write():
                return interrupted()
            stored = await self._parents.write(self._named(plan, unit))
            if isinstance(stored, ApiError):
                return await self._no_parent(unit.key, stored)
            plan = replace(plan, record=self._keep(stored))
        await self._preflight(run, steps)
        for level in levels(steps):
            await asyncio.gather(*(self._apply(run, step) for step in level))
        plan = replace(plan, suppressed=tuple(s for s in plan.suppressed if not self._right_but_not_ours(s)))
        for step in plan.suppressed:
            self._sightings.repaired(unit.key, step.object.ref, Repair.REPORTED)
        pruned = PruneReport()
        if plan.prune and not run.problems and self._may_write():
            pruned = await self._prune(unit.key, plan)
        return await self._settle(unit, plan, run, pruned)

    async def _read_suspects(self, unit: Unit) -> ApiError | None:
        """Objects that left the watch were deleted or relabelled (ssa-live 33): read them, then decide."""
        for desired in unit.objects:
            record = self._state.objects.get(desired.ref)
            if record is None or not record.suspect:
                continue
            live = await self._applier.get(desired.gvk, desired.ref)
            if isinstance(live, ApiError):
                if not live.waits_for.startswith("kind"):
                    return live
                live = None  # its definition went and took it along; perhaps this very unit brings that back
            record.suspect = False
            if live is None:
                self._sightings.gone(unit.key, desired)
            else:
                relabelled = (live["metadata"].get("labels") or {}).get(RECONCILER_LABEL) != self._state.reconciler
                self._sightings.see(unit.key, desired, record, live, relabelled=relabelled)
        return None

    def _paused_for(self, key: UnitKey, record: ParentRecord | None) -> float:
        """Seconds for which the break-glass annotation on the parent suspends repairs; 0 when it does not."""
        text = self._state.pauses.get(key, record.pause_until if record else "")
        try:
            until = datetime.datetime.fromisoformat(text) if text else None
        except ValueError:
            _log.warning("the pause %r on the parent of %s is no RFC 3339 time and is ignored", text[:64], key)
            return 0.0
        if until is None or until.tzinfo is None:
            return 0.0
        return max(0.0, until.timestamp() - self._context.wall())

    def _uncontested(self, plan: UnitPlan, run: Attempt) -> list[Apply]:
        """The applies without repairs of objects that another writer keeps undoing."""
        steps: list[Apply] = []
        for step in plan.applies:
            record = self._state.objects.get(step.object.ref)
            pause = 0.0
            if step.reason is Reason.DRIFT and record is not None:
                pause = record.heat.contested_for(self._context.clock(), self._context.options.fights)
            if pause > 0 and self._right_but_not_ours(step):
                continue
            if pause > 0:
                sentence = f"another writer keeps undoing our repair; left alone for {pause:.0f} s"
                run.problems.append(ObjectProblem(step.object.ref, SyncState.CONTESTED, sentence))
                self._sightings.repaired(run.unit.key, step.object.ref, Repair.CONTESTED)
                run.errors.append(ApiError(ErrorClass.RETRY, message=sentence, retry_after=pause))
            else:
                steps.append(step)
        return steps

    def _right_but_not_ours(self, step: Apply) -> bool:
        """Whether only ownership would be repaired: where repair is forbidden or given up, that is nothing to tell."""
        record = self._state.objects.get(step.object.ref)
        return step.reason is Reason.DRIFT and record is not None and bool(record.uid) and record.unowned

    def _named(self, plan: UnitPlan, unit: Unit) -> ParentRecord:
        members = plan.write_ahead or plan.record.members
        return replace(plan.record, members=members, namespace=unit.namespace)

    def _keep(self, record: ParentRecord) -> ParentRecord:
        self._state.parents[record.unit] = record
        return record

    async def _preflight(self, run: Attempt, steps: list[Apply]) -> None:
        """Dry-run what Git changed: a refused object stops its component before anything is written.

        New namespaces first. Only what goes into a namespace that certainly does not exist yet is tried in the standing
        empty one; everything else where it will be, so that an object made by other means is met.
        """
        checked = [s for s in steps if s.preflight]
        new = [s for s in checked if s.object.gvk == NAMESPACE and s.reason is Reason.CREATE]
        made = await asyncio.gather(*(self._check(run, s, namespace=None) for s in new))
        fresh = {s.object.ref.name for s, created in zip(new, made, strict=True) if created}
        rest = (s for s in checked if s not in new)
        places = ((s, PREFLIGHT_NAMESPACE if s.object.ref.namespace in fresh else None) for s in rest)
        await asyncio.gather(*(self._check(run, s, namespace=place) for s, place in places))

    async def _check(self, run: Attempt, step: Apply, *, namespace: str | None) -> bool:
        """Dry-run one object, in another namespace if one is given; True when it would be created."""
        desired = step.object
        outcome = await self._applier.apply(desired, dry_run=True, namespace=namespace)
        error = outcome.error
        if error is None:
            created = outcome.result is ApplyResult.CREATED
            if step.reason is Reason.CREATE and not created and namespace is None:
                await self._take_over(run, desired)
            return created
        # What it waits for may be in this very unit: the apply in its stage decides.
        if error.cls is not ErrorClass.WAITING and not error.dry_run_unsupported:
            run.fail(desired, error)
        return False

    async def _take_over(self, run: Attempt, desired: DesiredObject) -> None:
        """The object exists without our label: somebody made it by other means. Taken over once, or refused."""
        live = await self._applier.get(desired.gvk, desired.ref)
        if live is None:
            return
        if isinstance(live, ApiError):
            run.fail(desired, live)
            return
        applyset, manager = applyset_id(parent_name(run.unit.key)), self._state.manager
        owner = foreign_owner(live, reconciler=self._state.reconciler, applyset=applyset, manager=manager)
        if owner is not None:
            run.refuse(desired, f"it exists and {owner} declares it")
            return
        ours = is_ours(live, reconciler=self._state.reconciler, manager=manager)
        if not ours and self._state.assignment is not None and not self._state.assignment.adopt:
            run.refuse(desired, "it exists, made by other means, and gitops.yaml says `adopt: never`")
            return
        if not self._may_write():
            run.interrupted = True
            return
        folded = folded_managers(live)
        outcome = await self._applier.adopt(desired.gvk, desired.ref, live)
        if outcome.error is not None:
            run.fail(desired, outcome.error)
            return
        if not ours:
            run.adopted.append(f"{desired.ref} (made by {', '.join(folded) or 'unknown means'})")
            _log.info("adopted %s", run.adopted[-1])

    async def _apply(self, run: Attempt, step: Apply) -> None:
        """Apply one object, after whatever another unit, that had it before this head, is still writing of it: two
        writes under way could be answered in another order than they were done."""
        desired = step.object
        turn = self._turns.setdefault(desired.ref, asyncio.Lock())
        try:
            async with turn:
                await self._apply_now(run, step)
        finally:
            if not turn.locked():
                self._turns.pop(desired.ref, None)

    async def _apply_now(self, run: Attempt, step: Apply) -> None:
        desired = step.object
        if desired.component in run.stopped or run.look_again:
            return
        if not self._may_write():
            run.interrupted = True
            return
        found = self._state.declared(desired.ref)
        if found is None or found[1].digest != desired.digest:
            run.look_again = True  # a head came meanwhile that wants something else of it, perhaps of another unit
            return
        record = self._state.record(desired)
        record.in_flight = True
        try:
            outcome = await self._applier.apply(desired, uid=step.uid or None)
            if step.reason is not Reason.CREATE:
                outcome = await self._applier.forget_before(outcome)
        except asyncio.CancelledError:
            # Whether it was written is not known: read it before anything is decided about it.
            record.suspect, record.pending = bool(record.uid), None
            raise
        finally:
            record.in_flight = False
        self._context.metrics.applied(self._state.name, str(outcome.result))
        if outcome.error is None:
            self._applied(run, step, record, outcome)
            return
        if outcome.error.cls in (ErrorClass.STALE, ErrorClass.GONE) and step.uid:
            record.suspect = True  # gone or replaced since it was observed; a repair never re-creates blindly
        self._sightings.absorb(desired, record, outcome)
        run.fail(desired, outcome.error)

    def _applied(self, run: Attempt, step: Apply, record: ObjectRecord, outcome: ApplyOutcome) -> None:
        desired = step.object
        run.applied += 1
        if step.reason is Reason.DRIFT:
            run.repaired += 1
            record.heat = record.heat.heated(self._context.clock(), self._context.options.fights)
            if record.drifted_at is not None:
                self._context.metrics.repaired(self._state.name, self._context.clock() - record.drifted_at)
        record.drifted_at = None
        is_new = step.reason is Reason.CREATE and desired.gvk.kind == "Namespace"
        if is_new and outcome.result is not ApplyResult.CREATED:
            run.look_again = True  # it existed unseen: what is in it must be checked where it is
        self._sightings.absorb(desired, record, outcome)
        verdict = Repair.OVERRIDDEN if outcome.overridden else Repair.REPAIRED
        self._sightings.repaired(run.unit.key, desired.ref, verdict)

    async def _prune(self, key: UnitKey, plan: UnitPlan) -> PruneReport:
        live = ((ref, r.uid) for ref, r in self._state.objects.items())
        uids = {uid for ref, uid in live if uid and self._state.declared(ref) is not None}
        report = await self._pruner.prune(
            key,
            plan.prune,
            record=plan.record,
            declared=self._state.declared_by_others(key),
            applied_uids=uids,
            not_taken_over=self._state.not_taken_over(key),
            withheld=lambda ref: self._state.withheld(key, ref),
        )
        for ref in sorted(report.deleted):
            self._context.metrics.pruned(self._state.name)
            _log.info("deleted %s: Git no longer declares it", ref)
        if report.retry_after is not None and report.going:  # a finalizer may hold for ever: ask less and less
            report.retry_after = min(LONGEST_LOOK, report.retry_after * 2.0 ** min(self._attempts(key), 10))
        return report

    def _attempts(self, key: UnitKey) -> int:
        unit_state = self._state.units.get(key)
        return unit_state.attempts if unit_state is not None else 0

    async def _settle(self, unit: Unit, plan: UnitPlan, run: Attempt, pruned: PruneReport) -> UnitOutcome:
        """Write the parent when what it says changed; then say how the unit stands."""
        unit_state = self._state.units[unit.key]
        left = run.problems or run.look_again or run.interrupted or plan.suppressed or unit_state.fused
        uids = {o.ref: r.uid for o in unit.objects if (r := self._state.objects.get(o.ref)) is not None}
        settled = replace(
            plan.record,
            members=settled_members(plan.record, unit, uids=uids, pruned=pruned.done),
            namespace=unit.namespace,
        )
        if not left and pruned.complete and plan.record.content_key != unit.content_key:
            adopted = f"adopted {', '.join(sorted(run.adopted)[:10])}" if run.adopted else ""
            unit_state.note = _changed_in_place(plan.record, unit) or adopted
            settled = replace(
                settled,
                content_key=unit.content_key,
                commit=unit.commit,
                version=unit.version,
                base_digest=unit.base_digest,
            )
        lost = not plan.record.resource_version  # somebody deleted the parent
        if (lost or settled != plan.record) and unit.mode is not Mode.PAUSED and self._may_write():
            stored = await self._parents.write(settled)
            if isinstance(stored, ApiError):
                return await self._no_parent(unit.key, stored)
            self._keep(stored)
        return conclude(run, plan, pruned, unit_state=unit_state, rng=self._context.rng)

    # -- a unit that left Git ----------------------------------------------------------------------------------------

    async def _remove(self, record: ParentRecord) -> UnitOutcome:
        unit_state = self._state.units[record.unit]
        if unit_state.fused:
            return UnitOutcome(SyncState.FUSED, unit_state.fused)
        report = await self._prune(record.unit, plan_removal(record))
        members = settled_members(record, None, uids={}, pruned=report.done)
        if not self._may_write():
            return interrupted()
        if not members:
            error = await self._parents.delete(record)
            if error is not None:
                return await self._no_parent(record.unit, error)
            self._state.parents.pop(record.unit, None)
            return UnitOutcome(SyncState.REMOVED, "removed", pruned=len(report.deleted))
        if members != record.members or not record.resource_version:
            stored = await self._parents.write(replace(record, members=members))
            if isinstance(stored, ApiError):
                return await self._no_parent(record.unit, stored)
            self._keep(stored)
        retry = report.retry_after
        if retry is None:
            retry = earliest(report.errors, number=unit_state.attempts + 1, rng=self._context.rng)
        state = SyncState.RETAINED if report.complete else SyncState.REMOVING
        return UnitOutcome(state, report.sentence, report.problems, retry, pruned=len(report.deleted))

    # -- failing -----------------------------------------------------------------------------------------------------

    async def _no_parent(self, key: UnitKey, error: ApiError) -> UnitOutcome:
        if error.cls is ErrorClass.STALE:
            # Another writer's record is stored: it is the truth, what we held is not.
            stored = await self._parents.load(key)
            if isinstance(stored, ParentRecord):
                self._keep(stored)
            elif stored is None and key in self._state.parents:
                self._keep(replace(self._state.parents[key], resource_version=""))  # all that is known of the unit
        return self._failed(key, "the parent cannot be written", error)

    def _failed(self, key: UnitKey, what: str, error: ApiError) -> UnitOutcome:
        return failed(what, error, number=self._state.units[key].attempts + 1, rng=self._context.rng)


def _paused_removal(record: ParentRecord) -> UnitOutcome:
    """Paused means no writes: what left Git meanwhile stays until the cluster goes on."""
    sentence = f"it left Git; mode {Mode.PAUSED} deletes nothing"
    previews = tuple(f"delete {member.ref}" for member in record.members)
    return UnitOutcome(SyncState.PAUSED, sentence, previews=previews)


def _changed_in_place(record: ParentRecord, unit: Unit) -> str:
    """A version is immutable: its base must not change under the same name."""
    if record.version and record.version == unit.version and record.base_digest not in ("", unit.base_digest):
        return f"the base of version {unit.version} was changed in place; raise the version with every change of it"
    return ""
