"""Writing one declared object: nobody else of us writes it meanwhile, and nothing is written that is wanted no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.connection import NOT_WANTED
from gitops.cluster.errors import ErrorClass
from gitops.model.identity import ObjectRef
from gitops.plan.planning import Apply, Reason
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.context import Context
from gitops.reconcile.doing_once import Once
from gitops.reconcile.fights import WHOLE
from gitops.reconcile.gating import settled
from gitops.reconcile.recreating import Recreator
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.reconcile.taking_over import Adopter
from gitops.reconcile.unblocking import Unblocker
from gitops.report.drift import Repair

_log = logging.getLogger(__name__)


class Writer:
    """Applies objects of one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self,
        state: ClusterState,
        *,
        recreator: Recreator,
        once: Once,
        context: Context,
        sightings: Sightings,
        adopter: Adopter,
        unblocker: Unblocker,
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._recreator = recreator
        self._once = once
        self._context = context
        self._sightings = sightings
        self._adopter = adopter
        self._unblocker = unblocker
        self._may_write = may_write
        self._turns: dict[ObjectRef, asyncio.Lock] = {}

    async def apply(self, run: Attempt, step: Apply) -> None:
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
        if run.stops(step) or run.look_again:
            return
        if not self._may_write():
            run.interrupted = True
            return
        found = self._state.declared(desired.ref)
        if found is None or found[1].digest != desired.digest:
            run.look_again = True  # a head came meanwhile that wants something else of it, perhaps of another unit
            return
        if not await self._once.begin(run, step):
            return
        record = self._state.record(desired)
        record.in_flight = True
        try:
            failed = await self._adopter.prepare(run, desired)
            met = run.met.get(desired.ref)
            pinned = self._sightings.owning.pinned(desired, met=None if met is None else met.now)
            outcome = failed or await self._write(run, step, pinned)
        except asyncio.CancelledError:
            # Whether it was written is not known: read it before anything is decided about it.
            record.suspect, record.pending = bool(record.uid), None
            raise
        finally:
            record.in_flight = False
        if outcome.error is not None and outcome.error.reason == NOT_WANTED:
            run.interrupted = True
            return
        self._context.metrics.applied(self._state.name, str(outcome.result))
        self._once.ended(run, step, outcome)
        if outcome.error is None:
            self._applied(run, step, record, outcome)
            return
        if outcome.error.cls in (ErrorClass.STALE, ErrorClass.GONE) and (step.uid or pinned):
            record.suspect = True  # gone or replaced since it was observed; a repair never re-creates blindly
        else:
            self._sightings.repaired(run.unit.key, desired.ref, Repair.FAILED)
        self._sightings.absorb(desired, record, outcome)
        await self._recreator.refused(run, step, outcome.error)

    async def _write(self, run: Attempt, step: Apply, pinned: str | None) -> ApplyOutcome:
        desired = step.object
        outcome = await settled(
            run, step, lambda: run.applier.apply(desired, uid=step.uid or None, resource_version=pinned)
        )
        outcome = await self._unblocker.resolve(run, desired, outcome, mend=step.reason is not Reason.CREATE)
        outcome = await self._adopter.finish(run, desired, outcome)
        return outcome if step.reason is Reason.CREATE else await run.applier.forget_before(outcome)

    def _applied(self, run: Attempt, step: Apply, record: ObjectRecord, outcome: ApplyOutcome) -> None:
        desired = step.object
        run.applied += 1
        drifting, only_owner = record.drifting, record.unowned
        if step.reason is Reason.DRIFT or drifting == (WHOLE,):
            self._sightings.owning.contesting.repaired(desired, drifting or (WHOLE,))
        if step.reason is Reason.DRIFT:
            run.repaired += not outcome.overridden
            if only_owner:  # no drift that people see, so nothing else tells
                _log.info("took back the ownership of fields of %s", desired.ref, extra={"object": desired.ref})
            if record.drifted_at is not None:
                self._context.metrics.repaired(self._state.name, self._context.clock() - record.drifted_at)
        record.drifted_at = None
        is_new = step.reason is Reason.CREATE and desired.gvk.kind == "Namespace"
        if is_new and outcome.result is not ApplyResult.CREATED:
            run.look_again = True  # it existed unseen: what is in it must be checked where it is
        if desired.ref in run.lost:
            self._sightings.missed(run.unit.key, desired, made=outcome.result is ApplyResult.CREATED)
        # Before what arrived meanwhile is taken in: that was not repaired by this write.
        self._sightings.repaired(run.unit.key, desired.ref, Repair.REPAIRED, overridden=outcome.overridden)
        self._sightings.absorb(desired, record, outcome)
