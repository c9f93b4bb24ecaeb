"""The budget of one cluster: how many requests may be in flight, and the pause that its server asked for.

What protects an API server is its own priority and fairness, and what reaches us of it is 429. So the budget is tokens
in flight and no rate: a rate that suits a small server would only slow a large one. A 429 takes half of the tokens away
and stops the cluster for as long as the server asks; each round of answers gives one back (additive increase,
multiplicative decrease, as TCP has it). The Lease needs no token and waits for no pause.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Budget:
    """`most` tokens at best; `longest_pause` in seconds is the most that one answer may stop the cluster."""

    def __init__(self, *, most: int, longest_pause: float) -> None:
        self.limit = most
        """Tokens there are at the moment."""
        self.throttled = 0
        """Answers of 429 so far."""
        self._most = most
        self._longest_pause = longest_pause
        self._taken = 0  # after a 429 perhaps more than the limit, until they are given back
        self._waiting: deque[asyncio.Future[None]] = deque()  # in the order in which they came
        self._answers = 0  # since the limit moved
        self._paused_until = 0.0

    @contextlib.asynccontextmanager
    async def token(self) -> AsyncIterator[None]:
        """One token, as soon as there is one and no pause."""
        while True:
            await self.unpaused()
            await self._take()
            if self._now() >= self._paused_until:
                break
            self._give_back()
        try:
            yield
        finally:
            self._give_back()

    async def unpaused(self) -> None:
        """Wait for the end of the server's pause."""
        while (rest := self._paused_until - self._now()) > 0:  # noqa: ASYNC110 - a point in time that may move on
            await asyncio.sleep(rest)

    def pause(self, seconds: float | None) -> None:
        """The server answered 429 and asked for so many seconds (None: it did not say)."""
        self.throttled += 1
        now = self._now()
        if now >= self._paused_until and self.limit > 1:  # not for each of those that were sent together
            self.limit //= 2
        self._answers = 0
        wanted = min(seconds if seconds is not None else 1.0, self._longest_pause)
        self._paused_until = max(self._paused_until, now + wanted)

    def answered(self) -> None:
        """The server answered something else."""
        self._answers += 1
        if self._answers >= self.limit and self.limit < self._most:
            self._answers = 0
            self.limit += 1
            self._hand_out()

    async def _take(self) -> None:
        if self._taken < self.limit and not self._waiting:
            self._taken += 1
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():  # it was handed one in the same moment
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._taken -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._taken < self.limit:
            waiting = self._waiting.popleft()
            if not waiting.done():  # else it was cancelled
                self._taken += 1
                waiting.set_result(None)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
