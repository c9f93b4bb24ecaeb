"""Writing one declared object: nobody else of us writes it meanwhile, and nothing is written that is wanted no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.connection import NOT_WANTED
from gitops.cluster.errors import ErrorClass
from gitops.model.identity import ObjectRef
from gitops.plan.planning import Apply, Reason
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.context import Context
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.report.drift import Repair


class Writer:
    """Applies objects of one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self, state: ClusterState, *, context: Context, sightings: Sightings, may_write: Callable[[], bool]
    ) -> None:
        self._state = state
        self._context = context
        self._sightings = sightings
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
            outcome = await run.applier.apply(desired, uid=step.uid or None)
            if step.reason is not Reason.CREATE:
                outcome = await run.applier.forget_before(outcome)
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
