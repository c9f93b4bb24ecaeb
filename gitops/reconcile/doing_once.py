"""What happens once in one cluster: its words are stored in the parent before, or right after, it is done.

Which of the two, and why: gitops/plan/once.py. Stores of one attempt go one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gitops.cluster.applying import ApplyOutcome
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.plan import once
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import Apply, Reason
from gitops.plan.units import Mode
from gitops.reconcile.attempts import Attempt, Recreation, state_of
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.recreating import Recreator
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)

Store = Callable[[ParentRecord], Awaitable[ParentRecord | ApiError]]
"""Writes a parent, and keeps what is stored."""


class Once:
    """`store` writes parents; `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self, state: ClusterState, recreator: Recreator, store: Store, *, may_write: Callable[[], bool]
    ) -> None:
        self._state = state
        self._recreator = recreator
        self._store = store
        self._may_write = may_write
        self._storing = asyncio.Lock()

    def look(self, run: Attempt, record: ParentRecord) -> once.Look:
        """Hold the unit against what was done; problems and words are in `run` then."""
        unit = run.unit
        run.words = dict(record.satisfied)
        if unit.mode is Mode.PAUSED:
            return once.Look(run.words)
        found = once.look(
            unit.objects, record, self._state.observed(unit.objects), begun=self._state.units[unit.key].begun
        )
        found = replace(found, due=tuple(d for d in found.due if d.object.handling.mode is not Mode.PAUSED))
        run.words = found.words
        run.problems += (ObjectProblem(ref, SyncState.BLOCKED, sentence) for ref, sentence in found.problems)
        for desired in unit.objects:
            live = self._state.objects.get(desired.ref)
            if live is not None and live.deleting and once.is_recreating(run.words, desired.ref, live.uid):
                run.waits(desired, "it is being deleted to be made anew")
        return found

    def unsaid(self, run: Attempt, record: ParentRecord) -> bool:
        """Is something to be remembered that the parent does not say yet?"""
        return not run.words.items() <= dict(record.satisfied).items()

    async def _say(self, run: Attempt, words: once.Words) -> ApiError | None:
        """Store words before what they are about is begun; they are no words of the attempt when that fails."""
        async with self._storing:
            record = self._state.parents.get(run.unit.key, ParentRecord(run.unit.key))
            satisfied = once.remembered({**dict(record.satisfied), **run.words, **words})
            if satisfied != record.satisfied:
                stored = await self._store(replace(record, satisfied=satisfied))
                if isinstance(stored, ApiError):
                    return stored
            run.words |= words
            return None

    async def begin(self, run: Attempt, step: Apply) -> bool:
        """Before an object is applied: False when it must not be, because what has to be said first is not."""
        desired = step.object
        if not desired.handling.once or step.reason is not Reason.CREATE:
            return True
        error = await self._say(run, once.making(desired, once.BEGUN))
        if error is not None:
            run.fail(desired, error)
            return False
        self._state.units[run.unit.key].begun.add(desired.ref)
        found = self._state.declared(desired.ref)
        if found is None or found[1].digest != desired.digest:
            run.words, run.look_again = once.unmade(run.words, desired.ref), True  # a head came meanwhile
            return False
        run.interrupted = run.interrupted or not self._may_write()
        return not run.interrupted

    def ended(self, run: Attempt, step: Apply, outcome: ApplyOutcome) -> None:
        """After an object was applied. Without an answer that says so nobody knows whether it was made."""
        desired = step.object
        if not desired.handling.once:
            return
        if outcome.error is None:
            run.words |= once.making(desired, once.MADE)
        elif step.reason is Reason.CREATE and not _may_be_stored(outcome.error):
            run.words = once.unmade(run.words, desired.ref)

    async def start(self, run: Attempt, due: once.Due) -> None:
        """Send a trigger to its object, after whatever was to be applied of that."""
        desired, ref = due.object, due.object.ref
        if desired.component in run.stopped or run.look_again or run.interrupted:
            return
        if not self._may_write():
            run.interrupted = True
            return
        found, record = self._state.declared(ref), self._state.objects.get(ref)
        if found is None or found[1].handling != desired.handling:
            run.look_again = True
            return
        if record is None or record.uid != due.uid:
            run.words |= once.satisfied(run.words, ref, due.trigger)  # made anew meanwhile
            return
        error = (await run.applier.start(desired, due.trigger, uid=due.uid)).error
        if error is None:
            run.started += 1
            run.words |= once.satisfied(run.words, ref, due.trigger)
            _log.info("started %s of %s", due.place, ref)
            return
        if error.cls in (ErrorClass.STALE, ErrorClass.GONE):
            record.suspect = True
        state = SyncState.WAITING if error.cls is ErrorClass.DENIED else state_of(error)
        run.errors.append(error)
        run.problems.append(ObjectProblem(ref, state, f"{due.place} is not sent yet: {error}"))

    async def recreate(self, run: Attempt) -> None:
        """Delete what the preflight found to be made anew, and forget that it was found."""
        while run.recreations:
            await self._recreate(run, run.recreations.pop())

    async def _recreate(self, run: Attempt, each: Recreation) -> None:
        error = await self._say(run, once.recreating(each.object, each.uid))
        if error is not None:
            run.fail(each.object, error)
        elif self._may_write():
            await self._recreator.delete(run, each)
        else:
            run.interrupted = True


def _may_be_stored(error: ApiError) -> bool:
    """Whether what was sent may be stored all the same: no answer came, or one of a server that lost its storage on the
    way (500 and 504 of a time-out come after the write as well)."""
    return error.cls is ErrorClass.UNREACHABLE or error.row == "server-error"
