"""Before an object goes that needs others of its unit to be ready: are they?

A definition is established within milliseconds, so that is waited for within the attempt, by its watch and for a second
at most; everything else ends the attempt as waiting, and the event begins the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from gitops.cluster.applying import ApplyOutcome
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.identity import ObjectRef, UnitKey
from gitops.model.kinds import DEFINITION
from gitops.plan.planning import Apply
from gitops.readiness.statuses import Flag, Status
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState
from gitops.reconcile.waiting import Need, Till

ESTABLISHING = 1.0
"""Seconds, at most, in which a worker is kept for definitions to be established."""

SETTLING = (0.02, 0.04, 0.08, 0.16, 0.32)
"""Pauses in seconds. An established definition is served, and its schema used, some 30 ms later (ssa-live 24)."""


class Gate:
    """`touched` is told of every event that is about a unit."""

    def __init__(self, state: ClusterState, context: Context) -> None:
        self._state = state
        self._context = context
        self._stirred: dict[UnitKey, set[asyncio.Event]] = {}

    def touched(self, key: UnitKey) -> None:
        for event in self._stirred.get(key, ()):
            event.set()

    def is_ready(self, ref: ObjectRef) -> bool:
        """Whether a declared object serves. Scaled to zero is as declared, but nobody is there."""
        return self._standing(ref) == (Status.READY, True)

    def _standing(self, ref: ObjectRef) -> tuple[Status, bool]:
        record = self._state.objects.get(ref)
        if record is None or record.outlook is None or not record.uid or record.deleting:
            return Status.MISSING, False
        verdict = record.outlook.at(self._context.wall())[0]
        return verdict.status, Flag.SCALED_TO_ZERO not in verdict.flags

    async def passes(self, run: Attempt, step: Apply) -> bool:
        """Whether what the object needs is ready; when not, the attempt is told what it waits for."""
        if step.repairs or run.stops(step):
            return True  # the writer knows
        missing = self._missing(step)
        if missing and all(ref.group_kind == DEFINITION.group_kind for ref in missing):
            missing = await self._established(run.unit.key, step)
        for ref in missing:
            status, serves = self._standing(ref)
            word = status if serves or status is not Status.READY else "scaled to zero"
            run.wait(step.object, _not_ready(ref, f"it is {word}"), Need(ref, Till.READY))
        return not missing

    def _missing(self, step: Apply) -> list[ObjectRef]:
        return [ref for ref in step.object.after_ready if not self.is_ready(ref)]

    async def _established(self, key: UnitKey, step: Apply) -> list[ObjectRef]:
        """What is still missing when everything is there or the time is over."""
        stirred = asyncio.Event()
        self._stirred.setdefault(key, set()).add(stirred)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ESTABLISHING):
                    while self._missing(step):
                        await stirred.wait()
                        stirred.clear()
        finally:
            self._stirred[key].discard(stirred)
            if not self._stirred[key]:
                del self._stirred[key]
        return self._missing(step)


def _not_ready(ref: ObjectRef, message: str) -> ApiError:
    return ApiError(ErrorClass.WAITING, reason="NotReady", message=message, waits_for=f"{ref} to be ready")


async def settled(run: Attempt, step: Apply, call: Callable[[], Awaitable[ApplyOutcome]]) -> ApplyOutcome:
    """An apply or dry-run; for an object whose definition this attempt changed, again as long as the server does not
    serve or use the new one yet."""
    outcome = await call()
    if step.object.ref not in run.redefined:
        return outcome
    for pause in SETTLING:
        error = outcome.error
        if error is None or not (error.is_schema or error.reason == "NotServed"):
            break
        run.applier.discovery.invalidate()
        await asyncio.sleep(pause)
        outcome = await call()
    return outcome
