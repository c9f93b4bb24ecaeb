"""Serial work per key, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from gitops.reconcile.queueing import SerialWork

pytestmark = [pytest.mark.looptime]


async def test_a_key_never_runs_twice_at_a_time_and_pokes_coalesce() -> None:
    running, most, runs = 0, 0, 0

    async def handler(key: str) -> None:
        nonlocal running, most, runs
        running, runs = running + 1, runs + 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    work = SerialWork(handler, parallel=4, name="t")
    for _ in range(5):
        work.poke("a")
    await asyncio.sleep(0.5)
    for _ in range(5):
        work.poke("a")
    await work.idle()
    assert (most, runs) == (1, 2)
    await work.close(grace=0)


async def test_different_keys_run_in_parallel_up_to_the_limit(looptime: float) -> None:
    async def handler(key: int) -> None:
        await asyncio.sleep(1)

    work = SerialWork(handler, parallel=2, name="t")
    for key in range(4):
        work.poke(key)
    await work.idle()
    assert looptime == 2
    await work.close(grace=0)


async def test_urgent_keys_go_first() -> None:
    order: list[str] = []

    async def handler(key: str) -> None:
        order.append(key)
        await asyncio.sleep(1)

    work = SerialWork(handler, parallel=1, name="t")
    for key in ("running", "later"):
        work.poke(key)
    work.poke("repair", urgent=True)
    await work.idle()
    assert order == ["running", "repair", "later"]
    await work.close(grace=0)


async def test_the_earliest_delay_wins_and_a_poke_replaces_it(looptime: float) -> None:
    at: list[float] = []

    async def handler(key: str) -> None:
        at.append(asyncio.get_running_loop().time())

    work = SerialWork(handler, parallel=1, name="t")
    work.poke_after("a", 10)
    work.poke_after("a", 3)
    work.poke_after("a", 20)
    await asyncio.sleep(30)
    assert at == [3]
    work.poke_after("a", 10)
    work.poke("a")
    await asyncio.sleep(30)
    assert at == [3, 30]
    await work.close(grace=0)


async def test_an_unexpected_error_is_retried_and_hurts_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def handler(key: str) -> None:
        if key == "bad" and done.count("bad") == 0:
            done.append("bad")
            raise RuntimeError("defect")
        done.append(key)

    work = SerialWork(handler, parallel=1, name="t", retry_after=30)
    work.poke("bad")
    work.poke("good")
    await asyncio.sleep(31)
    assert done == ["bad", "good", "bad"]
    assert "defect" in caplog.text
    await work.close(grace=0)


async def test_close_lets_the_running_handler_finish(looptime: float) -> None:
    done: list[str] = []

    async def handler(key: str) -> None:
        await asyncio.sleep(2)
        done.append(key)

    work = SerialWork(handler, parallel=1, name="t")
    work.poke("a")
    work.poke("never started")
    await asyncio.sleep(0)
    await work.close(grace=5)
    assert done == ["a"]
    assert looptime == 2


async def test_interrupt_cancels_what_runs_and_leaves_the_queue_usable(looptime: float) -> None:
    done: list[str] = []

    async def handler(key: str) -> None:
        await asyncio.sleep(100)
        done.append(key)

    work = SerialWork(handler, parallel=1, name="t")
    work.poke("hangs")
    work.poke("waits")
    await asyncio.sleep(1)
    work.interrupt()
    await work.idle()
    assert done == ["waits"]
    work.poke("hangs")
    await work.idle()
    assert done == ["waits", "hangs"]
    assert looptime == 201
    await work.close(grace=0)


async def test_a_key_that_is_interrupted_before_it_began_can_run_again() -> None:
    """A task that is cancelled before its first step never runs a line of its own."""
    runs: list[str] = []

    async def handler(key: str) -> None:
        runs.append(key)

    work = SerialWork(handler, parallel=2, name="t")
    work.poke("a")
    work.interrupt()
    await asyncio.sleep(0)
    await work.idle()
    assert runs == []
    work.poke("a")
    await work.idle()
    assert runs == ["a"]
    await work.close(grace=0)
