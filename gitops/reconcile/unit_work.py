"""Doing what a unit's plan says: parent, dry-run, applies by stage, prunes, parent again.

Runs in the unit's own serial queue, so nothing else writes its objects meanwhile. Every attempt reads desired and
observed anew; an interrupted one leaves a parent that names whatever may have been created.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.parents import ParentStore
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import Apply, Observed, Reason, UnitPlan, levels, plan_unit, settled_members
from gitops.plan.units import RECONCILER_LABEL, Mode, Unit
from gitops.reconcile.attempts import Attempt, conclude, failed, interrupted
from gitops.reconcile.context import Context
from gitops.reconcile.impersonating import in_name_of
from gitops.reconcile.outcomes import ObjectProblem, SyncState, UnitOutcome
from gitops.reconcile.preflighting import Preflight
from gitops.reconcile.pruning import Pruner, PruneReport
from gitops.reconcile.removing import Remover
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from gitops.reconcile.writing import Writer
from gitops.report.drift import Repair

_log = logging.getLogger(__name__)


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
        self._context = context
        self._sightings = sightings
        self._may_write = may_write
        self._preflight = Preflight(state, may_write=may_write)
        self._writer = Writer(state, context=context, sightings=sightings, may_write=may_write)
        self._remover = Remover(state, parents=parents, pruner=pruner, context=context, may_write=may_write)

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
        applier = self._applier.in_name_of(unit.service_account)
        unread = await self._read_suspects(unit, applier)
        if unread is not None:
            return self._failed(unit.key, "an object that left the watch cannot be read", unread)
        paused_for = self._paused_for(unit.key, record)
        plan = plan_unit(
            replace(unit, mode=Mode.REPORT) if paused_for and unit.mode is Mode.ENFORCE else unit,
            record=record,
            observed=self._observed(unit, record),
            may_prune=not unit_state.fused,
        )
        run = Attempt(unit, applier, paused=paused_for > 0, retry_after=paused_for or None)
        steps = self._uncontested(plan, run)
        if steps or plan.prune:
            exists = await in_name_of(unit.service_account, self._applier)
            if isinstance(exists, ApiError):
                return self._failed(unit.key, "nothing is written", exists)
        if plan.write_ahead is not None:
            if not self._may_write():
                return interrupted()
            stored = await self._parents.write(self._named(plan, unit))
            if isinstance(stored, ApiError):
                return await self._no_parent(unit.key, stored)
            plan = replace(plan, record=self._keep(stored))
        await self._preflight.run(run, steps)
        for level in levels(steps):
            await asyncio.gather(*(self._writer.apply(run, step) for step in level))
        plan = replace(plan, suppressed=tuple(s for s in plan.suppressed if not self._right_but_not_ours(s)))
        for step in plan.suppressed:
            self._sightings.repaired(unit.key, step.object.ref, Repair.REPORTED)
        pruned = PruneReport()
        if plan.prune and not run.problems and self._may_write():
            pruned = await self._remover.prune(unit.key, plan, run.applier)
        return await self._settle(unit, plan, run, pruned)

    def _observed(self, unit: Unit, record: ParentRecord | None) -> Mapping[ObjectRef, Observed]:
        """What is known of its objects. In another name they are looked at anew, so that missing rights show at once
        and not at the next repair."""
        observed = self._state.observed(unit.objects)
        if record is None or record.service_account == unit.service_account:
            return observed
        return {ref: replace(seen, applied=b"", last_desired=b"") for ref, seen in observed.items()}

    async def _read_suspects(self, unit: Unit, applier: Applier) -> ApiError | None:
        """Objects that left the watch were deleted or relabelled (ssa-live 33): read them, then decide."""
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
        """Until all is written in the unit's name, a removal goes in the name that wrote it."""
        members = plan.write_ahead or plan.record.members
        account = plan.record.service_account if plan.record.members else unit.service_account
        return replace(plan.record, members=members, namespace=unit.namespace, service_account=account)

    def _keep(self, record: ParentRecord) -> ParentRecord:
        self._state.parents[record.unit] = record
        return record

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
                service_account=unit.service_account,
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
        """In the name that wrote it: Git no longer says one."""
        applier = await in_name_of(record.service_account, self._applier)
        if isinstance(applier, ApiError):
            return self._failed(record.unit, "it left Git and its objects stay", applier)
        return await self._remover.remove(record, applier, self._no_parent)

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
