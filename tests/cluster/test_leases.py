"""The Lease in virtual time: two keepers on one store that keeps versions as the API server does."""

import asyncio
import datetime
from typing import Any

import pytest

from gitops.cluster.awake import AwakeClock
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.leases import LeaseKeeper, LeasePhase, LeaseState, StoredLease

UNREACHABLE = ApiError(ErrorClass.UNREACHABLE, reason="Broken")


class Store:
    """A Lease with optimistic locking. While `down`, nobody gets an answer; while `hanging`, not even an error."""

    def __init__(self) -> None:
        self.lease: StoredLease | None = None
        self.version = 0
        self.down = False
        self.hanging = False
        self.writes = 0

    async def _arrive(self) -> None:
        await asyncio.sleep(0.01)
        if self.hanging:
            await asyncio.Event().wait()

    async def get(self) -> StoredLease | ApiError | None:
        await self._arrive()
        return UNREACHABLE if self.down else self.lease

    async def put(self, spec: dict[str, Any], version: str) -> StoredLease | ApiError:
        await self._arrive()
        if self.down:
            return UNREACHABLE
        if version != (self.lease.version if self.lease else ""):
            return ApiError(ErrorClass.STALE, 409, "Conflict")
        self.version += 1
        self.writes += 1
        self.lease = StoredLease(dict(spec), str(self.version))
        return self.lease


class Client:
    """One process's way to the store, which can be cut alone."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.down = False
        self.hanging = False
        self.late: asyncio.Event | None = None  # answers come when it is set

    async def get(self) -> StoredLease | ApiError | None:
        await self._gate()
        return UNREACHABLE if self.down else await self.store.get()

    async def put(self, spec: dict[str, Any], version: str) -> StoredLease | ApiError:
        await self._gate()
        return UNREACHABLE if self.down else await self.store.put(spec, version)

    async def _gate(self) -> None:
        if self.late is not None:
            await self.late.wait()
        if self.hanging:
            await asyncio.Event().wait()


class Process:
    """A keeper that runs, with what it was told and a wall clock that may be wrong."""

    def __init__(self, store: Store, name: str, *, skew: float = 0.0, unclaimed: bool = True) -> None:
        self.client = Client(store)
        self.told: list[LeaseState] = []
        self.keeper = LeaseKeeper(
            self.client,
            identity=name,
            on_change=self.told.append,
            clock=asyncio.get_running_loop().time,
            unclaimed=unclaimed,
            now=lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=skew),
        )
        self.task = asyncio.create_task(self.keeper.run())

    @property
    def phases(self) -> list[LeasePhase]:
        return [state.phase for state in self.told]

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.mark.looptime
@pytest.mark.parametrize("skew", [0.0, 86_400.0, -86_400.0])
async def test_a_killed_holder_is_replaced_within_20_seconds(looptime: Any, skew: float) -> None:
    store = Store()
    one = Process(store, "one", skew=skew)
    await one.keeper.wait_for(LeasePhase.HELD)
    two = Process(store, "two")
    await asyncio.sleep(60)
    assert one.keeper.held()
    assert not two.keeper.held()
    assert two.keeper.state == LeaseState(LeasePhase.STANDBY, "one", 0)

    began = asyncio.get_running_loop().time()
    await one.kill()
    await two.keeper.wait_for(LeasePhase.HELD)
    assert 10 < asyncio.get_running_loop().time() - began < 20
    assert two.keeper.state.epoch == 1
    await two.kill()


@pytest.mark.looptime
async def test_a_released_lease_is_taken_at_once(looptime: Any) -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    await one.keeper.wait_for(LeasePhase.HELD)
    await asyncio.sleep(7)
    began = asyncio.get_running_loop().time()
    await one.kill()
    await one.keeper.release()
    assert not one.keeper.held()
    await two.keeper.wait_for(LeasePhase.HELD)
    assert asyncio.get_running_loop().time() - began < 3
    await two.kill()


@pytest.mark.looptime
@pytest.mark.parametrize("how", ["down", "hanging"])
async def test_a_cut_off_holder_stops_before_another_starts(looptime: Any, how: str) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    two = Process(store, "two")
    await asyncio.sleep(30)
    setattr(one.client, how, True)
    while not two.keeper.held():
        await asyncio.sleep(0.05)
        assert not (one.keeper.held() and two.keeper.held())
    assert one.phases[-2:] == [LeasePhase.LOST, LeasePhase.STANDBY]
    assert one.phases.count(LeasePhase.LOST) == 1
    setattr(one.client, how, False)
    await asyncio.sleep(10)
    assert one.keeper.state.holder == "two"
    await two.kill()
    await one.keeper.wait_for(LeasePhase.HELD)  # and takes over again in its turn
    await one.kill()


@pytest.mark.looptime
async def test_an_answer_after_the_deadline_is_no_renewal(looptime: Any) -> None:
    """The last try has only what is left of the deadline: nobody may write on the word of a late answer."""
    one = Process(Store(), "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    one.client.down = True
    await asyncio.sleep(6)
    one.client.down = False
    arrived = one.client.late = asyncio.Event()
    await asyncio.sleep(4.5)
    arrived.set()
    await asyncio.sleep(0.1)
    assert one.phases[:2] == [LeasePhase.HELD, LeasePhase.LOST]
    await one.kill()


@pytest.mark.looptime
async def test_held_is_judged_by_the_clock_not_by_the_last_event(looptime: Any) -> None:
    """A loop that stood still for a minute must not go on writing."""
    now = [0.0]
    store = Store()
    keeper = LeaseKeeper(store, identity="one", clock=lambda: now[0], unclaimed=True)
    await keeper.step()
    assert keeper.held()
    now[0] = 9.9
    assert keeper.held()
    now[0] = 10.0
    assert keeper.state.phase is LeasePhase.HELD
    assert not keeper.held()


@pytest.mark.looptime
async def test_a_short_outage_costs_nothing(looptime: Any) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    await asyncio.sleep(20)
    store.down = True
    await asyncio.sleep(4)
    store.down = False
    await asyncio.sleep(20)
    assert one.phases == [LeasePhase.HELD]
    assert one.keeper.held()
    await one.kill()


@pytest.mark.looptime
async def test_one_write_per_renewal_and_nothing_else(looptime: Any) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    writes = store.writes
    await asyncio.sleep(100)
    assert 18 <= store.writes - writes <= 21
    await one.kill()


@pytest.mark.looptime
async def test_a_restart_under_the_same_identity_goes_on(looptime: Any) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    await one.kill()
    again = Process(store, "one")
    began = asyncio.get_running_loop().time()
    await again.keeper.wait_for(LeasePhase.HELD)
    assert asyncio.get_running_loop().time() - began < 1
    await again.kill()


@pytest.mark.looptime
async def test_two_that_start_together_never_hold_together(looptime: Any) -> None:
    store = Store()
    many = [Process(store, f"p{i}") for i in range(5)]
    for _ in range(400):
        await asyncio.sleep(0.1)
        assert sum(p.keeper.held() for p in many) <= 1
    assert sum(p.keeper.held() for p in many) == 1
    for process in many:
        await process.kill()


@pytest.mark.looptime
async def test_a_restart_under_the_same_identity_is_another_turn(looptime: Any) -> None:
    """The one before, if it still runs somewhere, sees that its turn is over and does not ask back at once."""
    store = Store()
    one = Process(store, "pod-0")
    await one.keeper.wait_for(LeasePhase.HELD)
    twin = Process(store, "pod-0")
    await twin.keeper.wait_for(LeasePhase.HELD)
    assert twin.keeper.state.epoch == 1
    await asyncio.sleep(6)
    assert (one.keeper.held(), twin.keeper.held()) == (False, True)
    for _ in range(600):
        await asyncio.sleep(0.1)
        assert not one.keeper.held()
    assert one.phases.count(LeasePhase.LOST) == 1
    await one.kill()
    await twin.kill()


def wiped(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "holderIdentity": ""}


def shortened(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "leaseDurationSeconds": 1}


def for_ever(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "holderIdentity": "nobody", "leaseDurationSeconds": 2**31 - 1}


def unreadable(spec: dict[str, Any]) -> dict[str, Any]:
    return {"holderIdentity": "nobody"}


def made_old(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "renewTime": "1999-01-01T00:00:00.000000Z"}


@pytest.mark.looptime
@pytest.mark.parametrize("edit", [None, wiped, shortened, for_ever, unreadable, made_old])
async def test_what_people_do_to_a_lease_lets_nobody_in_early(looptime: Any, edit: Any) -> None:
    """Whoever held it may believe so for a while; in the end, somebody holds it again."""
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    two, three = Process(store, "two", unclaimed=False), Process(store, "three", unclaimed=False)
    await asyncio.sleep(12.5)
    assert store.lease is not None
    if edit is None:
        store.lease = None
    else:
        await store.put(edit(store.lease.spec), store.lease.version)
    for _ in range(1500):
        await asyncio.sleep(0.05)
        assert sum(p.keeper.held() for p in (one, two, three)) <= 1
    assert sum(p.keeper.held() for p in (one, two, three)) == 1
    for process in (one, two, three):
        await process.kill()


@pytest.mark.looptime
async def test_one_that_was_stopped_believes_nothing_when_it_goes_on(looptime: Any) -> None:
    """Its clock counted on, so it does not even ask: the time for an answer is over."""
    stopped = [0.0]
    loop = asyncio.get_running_loop()
    store = Store()
    keeper = LeaseKeeper(store, identity="one", clock=lambda: loop.time() + stopped[0], unclaimed=True)
    await keeper.step()
    writes = store.writes
    stopped[0] = 60.0
    assert not keeper.held()
    assert await keeper.step() >= 0
    assert keeper.state.phase is LeasePhase.STANDBY
    assert store.writes == writes


@pytest.mark.looptime
@pytest.mark.parametrize("holder", ["one", "two"])
async def test_a_history_that_goes_back_is_noticed(looptime: Any, holder: str) -> None:
    """etcd was restored from a backup: versions count on from an earlier one."""
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    two = Process(store, "two")
    await asyncio.sleep(5)
    backup, version = store.lease, store.version
    await asyncio.sleep(60)
    process = one if holder == "one" else two
    assert not process.keeper.rewound
    store.lease, store.version = backup, version
    await asyncio.sleep(7)
    assert process.keeper.rewound
    await one.kill()
    await two.kill()


def test_the_clock_counts_what_was_slept_and_never_goes_back() -> None:
    boot, wall = [100.0], [5000.0]
    clock = AwakeClock(since_boot=lambda: boot[0], wall=lambda: wall[0])
    start = clock()

    def step(by_boot: float, by_wall: float) -> float:
        boot[0] += by_boot
        wall[0] += by_wall
        return clock() - start

    assert step(1, 1) == 1
    assert step(60, 60) == 61, "suspended: both know"
    assert step(0, 60) == 121, "paused by the hypervisor: the wall clock was set right"
    assert step(1, -3600) == 122, "set back: no less has passed"
    assert step(1, 3601) == 123, "and set right again"


@pytest.mark.looptime
async def test_a08_a_lease_of_our_name_and_turn_on_another_cluster_is_not_ours(looptime: Any) -> None:
    """The address leads to another cluster that we write to as well, as itself: same holder, same turn."""
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    assert store.lease is not None
    there, store.version = StoredLease(store.lease.spec, "99", uid="of another"), 99
    store.lease = there
    await asyncio.sleep(6)
    assert one.keeper.another
    assert not one.keeper.held()
    assert store.lease is there, "the one who holds it there is not disturbed"
    await one.keeper.release()
    assert store.lease is there
    await one.kill()


@pytest.mark.looptime
async def test_a_lease_deleted_by_hand_is_made_again(looptime: Any) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    store.lease = None
    await asyncio.sleep(12)
    assert one.keeper.held()
    assert not one.keeper.another
    assert store.lease is not None
    await one.kill()


@pytest.mark.looptime
async def test_a_lease_taken_by_hand_is_given_up(looptime: Any) -> None:
    store = Store()
    one = Process(store, "one")
    await one.keeper.wait_for(LeasePhase.HELD)
    assert store.lease is not None
    await store.put({**store.lease.spec, "holderIdentity": "somebody"}, store.lease.version)
    await asyncio.sleep(6)
    assert not one.keeper.held()
    assert LeasePhase.LOST in one.phases
    await one.kill()
