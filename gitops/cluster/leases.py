"""The Lease that admits one writer to a cluster; other processes of the same reconciler stand by.

Clocks of different machines are never compared: a stand-by watches whether the Lease *changes*, on its own clock, and
takes over when it has not for the Lease's duration (as client-go does). The holder gives up earlier, when it could not
renew for `renew_deadline`, so two never hold at once. `held()` is computed from the clock at the moment of asking: a
process whose loop stood still does not believe an old answer. Ask it before every write.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gitops.cluster.errors import ApiError, ErrorClass, unreachable
from gitops.cluster.objects import Objects
from gitops.model.identity import ObjectRef, ReconcilerName
from gitops.model.kinds import LEASE
from gitops.plan.parents import SYSTEM_NAMESPACE


class LeasePhase(enum.StrEnum):
    HELD = "held"
    STANDBY = "standby"
    LOST = "lost"  # held before and not any more: stop writing at once


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Where we are. `holder` is the identity in the Lease ("" when unknown or nobody); `error` is why the last try
    failed, if it did. `epoch` grows with every change of holder."""

    phase: LeasePhase
    holder: str = ""
    epoch: int = 0
    error: ApiError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """In seconds. With these a crashed holder is replaced within `duration` + `poll`: below 20 s."""

    duration: float = 15.0
    renew: float = 5.0
    renew_deadline: float = 10.0
    poll: float = 2.0


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A Lease as it is stored. `version` is its resourceVersion."""

    spec: dict[str, Any]
    version: str


class LeaseStore(Protocol):
    """Where a Lease is kept; `put` with version "" creates, otherwise it fails as STALE unless the version holds."""

    async def get(self) -> StoredLease | ApiError | None: ...

    async def put(self, spec: dict[str, Any], version: str) -> StoredLease | ApiError: ...


class ClusterLease:
    """The Lease `gitops-<reconciler>` in `gitops-system`."""

    def __init__(self, objects: Objects, *, reconciler: ReconcilerName, manager: str, timeout: float = 4.0) -> None:
        self._objects = objects
        self._ref = ObjectRef(LEASE.group, LEASE.kind, SYSTEM_NAMESPACE, f"gitops-{reconciler}")
        self._manager = manager
        self._timeout = timeout

    async def get(self) -> StoredLease | ApiError | None:
        found = await self._objects.get(LEASE, self._ref, timeout=self._timeout, urgent=True)
        return _stored(found) if isinstance(found, dict) else found

    async def put(self, spec: dict[str, Any], version: str) -> StoredLease | ApiError:
        metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        write = self._objects.create
        if version:
            metadata["resourceVersion"] = version
            write = self._objects.replace
        answer = await write(LEASE, self._ref, body, manager=self._manager, timeout=self._timeout, urgent=True)
        return answer if isinstance(answer, ApiError) else _stored(answer)


def _stored(body: dict[str, Any]) -> StoredLease:
    return StoredLease(body.get("spec") or {}, body["metadata"]["resourceVersion"])


class LeaseKeeper:
    """Acquires, renews and releases one Lease. `run` does it for ever; `on_change` is called at every change of phase
    or holder, from the loop, and must not block."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str,
        on_change: Callable[[LeaseState], None] | None = None,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._store = store
        self._identity = identity
        self._on_change = on_change
        self._times = times or LeaseTimes()
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._now = now
        self._state = LeaseState(LeasePhase.STANDBY)
        self._stored: StoredLease | None = None
        self._seen_at = 0.0  # when, on our clock, the stored Lease was last seen to change
        self._renewed_at: float | None = None  # when our last successful renewal was begun
        self._changed = asyncio.Condition()

    @property
    def state(self) -> LeaseState:
        return self._state

    def held(self) -> bool:
        """May we write now? By the clock, not by the last event."""
        return (
            self._renewed_at is not None
            and self._state.phase is LeasePhase.HELD
            and self._clock() - self._renewed_at < self._times.renew_deadline
        )

    async def wait_for(self, phase: LeasePhase) -> LeaseState:
        """Return when the keeper is in that phase."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._state.phase is phase)
        return self._state

    async def run(self) -> None:
        """Acquire and renew until cancelled. Never raises for what the cluster answers."""
        while True:
            await self._sleep(await self.step())

    async def step(self) -> float:
        """One try to acquire or renew; returns the seconds until the next one."""
        begun = self._clock()
        limit = self._times.renew
        if self._renewed_at is not None:
            # An answer that comes too late must not count.
            limit = max(0.0, self._times.renew_deadline - (begun - self._renewed_at))
        try:
            async with asyncio.timeout(limit):
                outcome: StoredLease | ApiError = await self._try(begun)
        except TimeoutError:
            outcome = unreachable("no answer about the Lease in time", reason="Timeout")
        await self._conclude(outcome, begun)
        return self._pause()

    async def release(self) -> None:
        """Give the Lease up, so that a stand-by need not wait. Call it after `run` was cancelled."""
        stored, was_ours = self._stored, self._renewed_at is not None
        self._renewed_at = None
        if was_ours and stored is not None and stored.spec.get("holderIdentity") == self._identity:
            spec = {**stored.spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
            answer = await self._store.put(spec, stored.version)
            if not isinstance(answer, ApiError):
                self._stored = answer
        await self._enter(LeaseState(LeasePhase.STANDBY, epoch=self._state.epoch))

    # -- one try -----------------------------------------------------------------------------------------------------

    async def _try(self, begun: float) -> StoredLease | ApiError:
        """Write the Lease if we may; returns the Lease as stored now."""
        stored = self._stored
        if self._renewed_at is None or stored is None:
            found = await self._observe(begun)
            if isinstance(found, ApiError):
                return found
            stored = found
            if stored is not None and not self._may_take(stored, begun):
                return stored
        answer = await self._store.put(self._claiming(stored), stored.version if stored else "")
        if isinstance(answer, ApiError) and answer.cls in (ErrorClass.STALE, ErrorClass.GONE):
            # Somebody wrote in between: look, and try again next time if it is still ours to take.
            found = await self._observe(begun)
            if found is None or isinstance(found, ApiError):
                return found or answer
            if found.spec.get("holderIdentity") == self._identity:
                return await self._store.put(self._claiming(found), found.version)
            return found
        return answer

    async def _observe(self, begun: float) -> StoredLease | ApiError | None:
        found = await self._store.get()
        if isinstance(found, StoredLease):
            if self._stored is None or found.version != self._stored.version:
                self._seen_at = begun
            self._stored = found
        elif found is None:
            self._stored = None
        return found

    def _may_take(self, stored: StoredLease, begun: float) -> bool:
        holder = stored.spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        duration = stored.spec.get("leaseDurationSeconds") or self._times.duration
        return begun - self._seen_at >= float(duration)

    def _claiming(self, stored: StoredLease | None) -> dict[str, Any]:
        spec = dict(stored.spec) if stored else {}
        stamp = self._stamp()
        if spec.get("holderIdentity") != self._identity:
            transitions = int(spec.get("leaseTransitions") or 0)
            spec |= {"acquireTime": stamp, "leaseTransitions": transitions + 1 if stored else 0}
        return spec | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._times.duration),
            "renewTime": stamp,
        }

    async def _conclude(self, outcome: StoredLease | ApiError, begun: float) -> None:
        if isinstance(outcome, StoredLease):
            if self._stored is None or outcome.version != self._stored.version:
                self._seen_at = begun
            self._stored = outcome
            holder = outcome.spec.get("holderIdentity") or ""
            epoch = int(outcome.spec.get("leaseTransitions") or 0)
            if holder == self._identity:
                self._renewed_at = begun
                await self._enter(LeaseState(LeasePhase.HELD, holder, epoch))
            else:
                await self._not_held(LeaseState(LeasePhase.STANDBY, holder, epoch))
            return
        if self._renewed_at is not None and self._clock() - self._renewed_at < self._times.renew_deadline:
            await self._enter(LeaseState(LeasePhase.HELD, self._identity, self._state.epoch, outcome))
            return
        await self._not_held(LeaseState(LeasePhase.STANDBY, self._state.holder, self._state.epoch, outcome))

    async def _not_held(self, state: LeaseState) -> None:
        """LOST is told first, once, then the stand-by that follows it."""
        if self._renewed_at is not None:
            self._renewed_at = None
            await self._enter(LeaseState(LeasePhase.LOST, state.holder, state.epoch, state.error))
        await self._enter(state)

    async def _enter(self, state: LeaseState) -> None:
        previous, self._state = self._state, state
        if (previous.phase, previous.holder, previous.epoch) == (state.phase, state.holder, state.epoch):
            return
        if self._on_change is not None:
            self._on_change(state)
        async with self._changed:
            self._changed.notify_all()

    def _pause(self) -> float:
        now = self._clock()
        if self._renewed_at is not None:
            rest = self._times.renew_deadline - (now - self._renewed_at)
            wanted = self._times.renew if self._state.error is None else self._times.poll / 2
            return max(0.0, min(wanted, rest))
        if self._stored is not None and self._state.error is None:
            duration = self._stored.spec.get("leaseDurationSeconds") or self._times.duration
            ends = self._seen_at + float(duration)
            if ends > now:
                return min(self._times.poll, ends - now)
        return self._times.poll

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextlib.asynccontextmanager
async def keeping(keeper: LeaseKeeper) -> AsyncIterator[LeaseKeeper]:
    """Run a keeper in the background; release the Lease at the end."""
    task = asyncio.create_task(keeper.run(), name="lease")
    try:
        yield keeper
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await keeper.release()
