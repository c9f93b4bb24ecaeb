"""The Lease that admits one writer to a cluster; other processes of the same reconciler stand by.

Clocks of different machines are never compared: a stand-by watches whether the Lease *changes*, on its own clock, and
takes over when it has not for the Lease's duration (as client-go does). The holder gives up earlier, when it could not
renew for `renew_deadline`, so two never hold at once. `held()` is computed from the clock at the moment of asking: a
process that stood still does not believe an old answer. Ask it right before every write.

What people do to a Lease lets nobody in earlier: one that was deleted, or whose holder was wiped, is left alone for as
long as whoever held it may still believe so. What a crash leaves is the call that was under way (docs/decisions.md).
"""

from __future__ import annotations

import asyncio
import datetime
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gitops.cluster.awake import AwakeClock
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
    """In seconds. With these a crashed holder is replaced within `duration` + `poll`: below 20 s. Between
    `renew_deadline` and `duration` nobody writes; what the holder sent before has that long to arrive."""

    duration: float = 15.0
    renew: float = 5.0
    renew_deadline: float = 10.0
    poll: float = 2.0

    @classmethod
    def of(cls, duration: float) -> LeaseTimes:
        """In the same proportions."""
        return cls(duration=duration, renew=duration / 3, renew_deadline=duration * 2 / 3, poll=duration * 2 / 15)


RELEASED = 1
"""`leaseDurationSeconds` of a Lease that its holder gave up (as client-go does): it may be taken at once."""

LONGEST = 60.0
"""Seconds, at most, that a stored duration is waited for: a number that somebody wrote there must not lock all out."""


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A Lease as it is stored. `version` is its resourceVersion."""

    spec: dict[str, Any]
    version: str
    uid: str = ""


def _turn(lease: StoredLease | None) -> int:
    """How often the Lease changed hands before; what cannot be read counts as never."""
    told = lease.spec.get("leaseTransitions") if lease is not None else 0
    return told if isinstance(told, int) else 0


@dataclass(frozen=True, slots=True)
class _Tried:
    """What one try found: the Lease as stored (None: there is none), written by us just now if `won`."""

    outcome: StoredLease | ApiError | None
    won: bool = False


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
    metadata = body["metadata"]
    return StoredLease(body.get("spec") or {}, metadata["resourceVersion"], metadata.get("uid", ""))


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
        unclaimed: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._store = store
        self._identity = identity
        self._on_change = on_change
        self._times = times or LeaseTimes()
        self._clock = clock or AwakeClock()
        self._sleep = sleep
        self._now = now
        self._state = LeaseState(LeasePhase.STANDBY)
        self.unclaimed = unclaimed
        """Is it certain that nobody ever held it? Then a Lease that is not there need not be waited for."""
        self.rewound = False
        """Has the cluster's history gone back (etcd was restored from a backup)? Nothing that was read before holds."""
        self.another = False
        """Did another Lease come in the place of ours while we held it? Perhaps another cluster answers here now."""
        self._uid = ""  # of the Lease that we got
        self._stored: StoredLease | None = None
        self._seen: str | None = None  # its version when last looked at; "" while it is not there
        self._seen_at = 0.0  # when, on our clock, that was seen to change
        self._newest = 0  # the last version as a number
        self._turn: int | None = None  # leaseTransitions of the last time that we got it
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
                tried = await self._try(begun)
        except TimeoutError:
            tried = _Tried(unreachable("no answer about the Lease in time", reason="Timeout"))
        await self._conclude(tried, begun)
        return self._pause()

    async def release(self) -> None:
        """Give the Lease up, so that a stand-by need not wait. Call it after `run` was cancelled."""
        stored, was_ours = self._stored, self._renewed_at is not None
        self._renewed_at = None
        if was_ours and stored is not None and stored.spec.get("holderIdentity") == self._identity:
            spec = {**stored.spec, "holderIdentity": "", "leaseDurationSeconds": RELEASED, "renewTime": self._stamp()}
            answer = await self._store.put(spec, stored.version)
            if not isinstance(answer, ApiError):
                self._stored = answer
        await self._enter(LeaseState(LeasePhase.STANDBY, epoch=self._state.epoch))

    # -- one try -----------------------------------------------------------------------------------------------------

    async def _try(self, begun: float) -> _Tried:
        """Write the Lease if we may."""
        stored, holding = self._stored, self._renewed_at is not None
        if not holding or stored is None:
            found = await self._store.get()
            if isinstance(found, ApiError):
                return _Tried(found)
            self._note(found, begun)
            if begun < self._free_at(found) and not (holding and found is None):
                return _Tried(found)
            stored = found
        answer = await self._store.put(self._claiming(stored), stored.version if stored else "")
        if not isinstance(answer, ApiError):
            return _Tried(answer, won=True)
        if answer.cls not in (ErrorClass.STALE, ErrorClass.GONE):
            return _Tried(answer)
        found = await self._store.get()  # somebody wrote in between
        if isinstance(found, ApiError):
            return _Tried(found)
        self._note(found, begun)
        if found is None:
            return _Tried(answer)  # at the next try, if it still is ours to take
        self.another |= holding and found.uid != self._uid
        if holding and self._is_ours(found):
            answer = await self._store.put(self._claiming(found), found.version)
            return _Tried(answer, won=not isinstance(answer, ApiError))
        return _Tried(found)

    def _is_ours(self, found: StoredLease) -> bool:
        """Is this our turn, whoever else edited it? Another process may have our name, but not our turn; on another
        cluster we may have both, but not in this Lease."""
        named = found.spec.get("holderIdentity") == self._identity
        return named and (found.uid, _turn(found)) == (self._uid, self._turn)

    def _note(self, found: StoredLease | None, begun: float) -> None:
        version = found.version if found is not None else ""
        if version != self._seen:
            self._seen_at = begun
        if version:
            self.unclaimed = False
            # Versions of one cluster only grow, and compare as numbers (KEP-5504).
            number = int(version) if version.isdecimal() else 0
            self.rewound |= number < self._newest
            self._newest = number
        self._seen, self._stored = version, found

    def _free_at(self, stored: StoredLease | None) -> float:
        """When, on our clock, nobody can believe any more to hold this Lease, if it does not change."""
        if stored is None:
            return self._seen_at + (0.0 if self.unclaimed else self._times.duration)
        holder, told = stored.spec.get("holderIdentity") or "", stored.spec.get("leaseDurationSeconds") or 0
        restarted = holder == self._identity and self._turn is None
        if restarted or self._is_ours(stored) or (not holder and told <= RELEASED):
            return self._seen_at
        return self._seen_at + min(max(float(told), self._times.duration), LONGEST)

    def _claiming(self, stored: StoredLease | None) -> dict[str, Any]:
        spec = dict(stored.spec) if stored else {}
        stamp = self._stamp()
        if self._renewed_at is None:
            spec |= {"acquireTime": stamp, "leaseTransitions": _turn(stored) + 1 if stored else 0}
        elif stored is None:
            spec |= {"acquireTime": stamp, "leaseTransitions": self._turn}
        return spec | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(RELEASED + 1, round(self._times.duration)),
            "renewTime": stamp,
        }

    async def _conclude(self, tried: _Tried, begun: float) -> None:
        found = tried.outcome
        if tried.won:
            assert isinstance(found, StoredLease)
            self._note(found, begun)
            self._renewed_at, self._uid, self._turn = begun, found.uid, _turn(found)
            await self._enter(LeaseState(LeasePhase.HELD, self._identity, self._turn))
        elif not isinstance(found, ApiError):
            holder = found.spec.get("holderIdentity") or "" if found is not None else ""
            await self._not_held(LeaseState(LeasePhase.STANDBY, holder, _turn(found)))
        elif self._renewed_at is not None and self._clock() - self._renewed_at < self._times.renew_deadline:
            await self._enter(LeaseState(LeasePhase.HELD, self._identity, self._state.epoch, found))
        else:
            await self._not_held(LeaseState(LeasePhase.STANDBY, self._state.holder, self._state.epoch, found))

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
        if self._seen is not None and self._state.error is None and (rest := self._free_at(self._stored) - now) > 0:
            return min(self._times.poll, rest)
        return self._times.poll

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
