"""How many requests may be in flight to one cluster: less after 429, more again after answers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.cluster.budget import Budget

pytestmark = [pytest.mark.looptime]


async def free_tokens(budget: Budget) -> int:
    """How many requests can begin at once."""
    async with contextlib.AsyncExitStack() as stack:
        count = 0
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.001):
                    await stack.enter_async_context(budget.token())
                count += 1
        return count


async def test_a04_a_429_halves_the_requests_in_flight_once_for_all_that_were_sent_together() -> None:
    budget = Budget(most=8, longest_pause=60.0)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(8):
            await stack.enter_async_context(budget.token())
        for _ in range(8):
            budget.pause(5.0)
        assert (budget.limit, budget.throttled) == (4, 8)
    begun = asyncio.get_running_loop().time()
    await budget.unpaused()
    assert asyncio.get_running_loop().time() - begun == pytest.approx(5.0)
    assert await free_tokens(budget) == 4


async def test_a04_answers_give_the_requests_back_one_a_round() -> None:
    budget = Budget(most=8, longest_pause=60.0)
    for _ in range(3):
        budget.pause(1.0)
        await budget.unpaused()
    assert budget.limit == 1
    limits = []
    while budget.limit < 8:
        budget.answered()
        limits.append(budget.limit)
    assert len(limits) == 1 + 2 + 3 + 4 + 5 + 6 + 7
    budget.answered()
    assert await free_tokens(budget) == budget.limit == 8


async def test_a04_one_request_is_always_left_and_no_pause_is_endless() -> None:
    budget = Budget(most=2, longest_pause=60.0)
    for _ in range(5):
        budget.pause(86_400.0)
        await budget.unpaused()
    assert asyncio.get_running_loop().time() < 5 * 60.0 + 1.0
    assert await free_tokens(budget) == budget.limit == 1


@given(
    steps=st.lists(st.sampled_from(["take", "give up", "give", "429", "answer"]), max_size=60), most=st.integers(1, 9)
)
def test_tokens_are_neither_lost_nor_made(steps: list[str], most: int) -> None:
    async def story() -> None:
        budget = Budget(most=most, longest_pause=60.0)
        held: list[Any] = []
        for step in steps:
            if step == "take" and len(held) < budget.limit:
                held.append(budget.token())
                async with asyncio.timeout(1.0):
                    await held[-1].__aenter__()
            elif step == "give up":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.0), budget.token():
                        await asyncio.sleep(0)
            elif step == "give" and held:
                await held.pop().__aexit__(None, None, None)
            elif step == "429":
                budget.pause(0.0)
            elif step == "answer":
                budget.answered()
            assert 1 <= budget.limit <= most
        for token in held:
            await token.__aexit__(None, None, None)
        assert await free_tokens(budget) == budget.limit

    asyncio.run(story())


async def test_a_token_that_is_handed_to_who_gives_up_in_that_moment_is_not_lost() -> None:
    budget = Budget(most=1, longest_pause=60.0)

    async def use() -> None:
        async with budget.token():
            pass

    async with budget.token():
        waiting = asyncio.create_task(use())
        await asyncio.sleep(0)
    waiting.cancel()  # after the token was handed over, and before it was taken
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await free_tokens(budget) == 1
