"""Calls to a cluster that does not answer are not made, except for a probe now and then."""

from __future__ import annotations

import asyncio
import random

import pytest

from gitops.cluster.breaker import FAILURES, Breaker
from gitops.cluster.errors import ErrorClass

pytestmark = [pytest.mark.looptime]

MIDNIGHT = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def now() -> float:
    return asyncio.get_running_loop().time()


async def broken() -> Breaker:
    breaker = Breaker(wall=lambda: MIDNIGHT + now(), rng=random.Random(1))
    breaker.answered()
    for _ in range(FAILURES):
        assert breaker.refuses() is None
        await asyncio.sleep(1.0)
        breaker.failed(now() - 1.0, "connection refused")
    return breaker


async def test_a05_after_some_failures_in_a_row_calls_fail_at_once_and_say_since_when() -> None:
    breaker = await broken()
    refused = breaker.refuses()
    assert refused is not None
    assert (refused.cls, refused.reason) == (ErrorClass.UNREACHABLE, "Unreachable")
    assert refused.message == "no answer since 2026-01-01T00:00:00Z: connection refused"
    assert breaker.spared == 1


async def test_calls_that_fail_together_count_once() -> None:
    """As when a restarted API server breaks all that were under way: it answers the next one."""
    breaker = Breaker()
    sent = now()
    await asyncio.sleep(1.0)
    for _ in range(100):
        breaker.failed(sent, "reset by peer")
    assert not breaker.open
    assert breaker.refuses() is None


async def test_a05_probes_become_rare_and_any_answer_ends_it() -> None:
    breaker = await broken()
    probes = 0
    for _ in range(3600):
        await asyncio.sleep(1.0)
        if breaker.refuses() is None:
            probes += 1
            breaker.failed(now(), "connection refused")
    assert 3600 / 30 <= probes <= 3600 / 15 + 10, "each 15 to 30 s in the end"
    breaker.answered()
    assert [breaker.refuses() for _ in range(100)] == [None] * 100
    breaker.failed(now(), "one more")
    assert breaker.refuses() is None, "it begins to count anew"


async def test_failures_between_answers_never_open_it() -> None:
    breaker = Breaker()
    for _ in range(100):
        await asyncio.sleep(1.0)
        breaker.failed(now(), "lost")
        await asyncio.sleep(1.0)
        breaker.failed(now(), "lost")
        breaker.answered()
    assert not breaker.open
