"""When clusters are audited: virtual days under the real scheduler, whose clock is the loop's."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import AsyncIterator
from itertools import pairwise

import apscheduler.executors.base
import apscheduler.schedulers.base
import apscheduler.triggers.interval
import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from gitops.model.identity import ClusterName
from gitops.reconcile.audits import AGAIN, JITTER, LONGEST, Audits

pytestmark = [pytest.mark.looptime]

INTERVAL = 43200.0
FLEET = [ClusterName(f"c{i:02}") for i in range(20)]
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class LoopTime(datetime.datetime):
    """The time of day that belongs to the loop's time."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return EPOCH + datetime.timedelta(seconds=asyncio.get_running_loop().time())


class Fleet:
    """Clusters that are audited by the schedule; `runs` are (begin, end, cluster)."""

    def __init__(self) -> None:
        self.takes = 60.0
        self.refuse: dict[ClusterName, int] = {}  # how often a cluster says that this is not the moment
        self.tries: list[tuple[float, ClusterName]] = []
        self.runs: list[tuple[float, float, ClusterName]] = []
        self.audits = Audits(self._audit, interval=INTERVAL, rng=random.Random(7), now=LoopTime.now)

    async def _audit(self, name: ClusterName) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.tries.append((began, name))
        if self.refuse.get(name, 0):
            self.refuse[name] -= 1
            return False
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.runs.append((began, loop.time(), name))
        return True

    def of(self, name: ClusterName) -> list[float]:
        return [began for began, _, audited in self.runs if audited == name]


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    for module in (apscheduler.executors.base, apscheduler.schedulers.base, apscheduler.triggers.interval):
        monkeypatch.setattr(module, "datetime", LoopTime)
    made, scheduler = Fleet(), AsyncIOScheduler(timezone="UTC")
    made.audits.start(scheduler)
    scheduler.start()
    yield made
    scheduler.shutdown(wait=False)
    await made.audits.close()


async def test_after_a_start_audits_spread_over_the_interval_and_two_are_never_made_at_once(fleet: Fleet) -> None:
    for name in FLEET:
        fleet.audits.follow(name)
    await asyncio.sleep(INTERVAL * 1.01)
    firsts = sorted(fleet.of(name)[0] for name in FLEET)
    assert firsts[0] > INTERVAL * 0.1, "a start has enough to do, and lists everything anyway"
    assert firsts[-1] - firsts[0] > INTERVAL / 2, "no storm"
    assert all(end <= begin for (_, end, _), (begin, _, _) in pairwise(sorted(fleet.runs)))


async def test_each_cluster_is_audited_about_once_an_interval_not_in_step(fleet: Fleet) -> None:
    for name in FLEET[:5]:
        fleet.audits.follow(name)
    await asyncio.sleep(INTERVAL * 10)
    for name in FLEET[:5]:
        times = fleet.of(name)
        assert 8 <= len(times) <= 10
        gaps = {end - begin for begin, end in pairwise(times)}
        assert all(INTERVAL - 600 <= gap <= INTERVAL * (1 + JITTER) + 600 for gap in gaps)
        assert len(gaps) > 4, "jittered"


async def test_a_cluster_that_cannot_be_audited_now_is_tried_again_soon_and_holds_up_nobody(fleet: Fleet) -> None:
    dead, fine = FLEET[:2]
    fleet.refuse[dead] = 3
    fleet.audits.follow(dead)
    fleet.audits.follow(fine)
    await asyncio.sleep(INTERVAL + 4 * AGAIN)
    tries = [at for at, name in fleet.tries if name == dead]
    assert [round(later - sooner) for sooner, later in pairwise(tries[:4])] == [round(AGAIN)] * 3
    assert len(fleet.of(dead)) >= 1
    assert len(fleet.of(fine)) >= 1


async def test_an_audit_that_hangs_gives_way_to_the_others(fleet: Fleet) -> None:
    fleet.takes = 1e9
    for name in FLEET[:3]:
        fleet.audits.follow(name)
    await asyncio.sleep(INTERVAL + 3 * LONGEST)
    assert {name for _, _, name in fleet.runs} == set(FLEET[:3])
    assert all(end - begin <= LONGEST + 1 for begin, end, _ in fleet.runs)


async def test_a_cluster_that_left_git_is_audited_no_more(fleet: Fleet) -> None:
    for name in FLEET[:2]:
        fleet.audits.follow(name)
    await asyncio.sleep(INTERVAL * 2)
    fleet.audits.forget(FLEET[0])
    before = len(fleet.of(FLEET[0]))
    await asyncio.sleep(INTERVAL * 3)
    assert len(fleet.of(FLEET[0])) == before >= 1
    assert len(fleet.of(FLEET[1])) >= 4
