"""Keeping the credentials of one connection valid: when they are read again, by whom, and that only one does at a time.

The files behind them are looked at every few seconds, when a request is made anyway (the Lease makes one every few
seconds). That serves every way a file changes: rewritten, replaced by rename, a mounted Secret whose link is swapped, a
file outside of every folder that could be watched. What runs a program is renewed beside the requests, which go on with
what is valid still; only an answer of 401 waits for it. A source that cannot be read now leaves in force what was read
before.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Awaitable, Callable

from gitops.cluster.access import Access, Endpoint, Source, load_access
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, backoff, unreachable

_log = logging.getLogger(__name__)

FRUITLESS = 5.0
"""Seconds in which credentials that were renewed because of a 401, and met another, are not renewed once more."""


class AccessKeeper:
    """`replaced` is awaited after each renewal, with what was in use before. Another endpoint is never taken over: it
    may be another cluster, about which nothing is known; `moved` then says where it is, and this connection is at its
    end.
    """

    def __init__(
        self, source: Source, access: Access, *, name: str, every: float, replaced: Callable[[Access], Awaitable[None]]
    ) -> None:
        self.access = access
        self.generation = 0
        """Grows with every renewal."""
        self.moved: Endpoint | None = None
        self.error: ApiError | None = None
        """Why the last renewal failed; None when it did not."""
        self._source = source
        self._name = name
        self._every = every
        self._replaced = replaced
        self._next_look = self._now() + every
        self._failures = 0
        self._fruitless_until: dict[int, float] = {}  # by the generation that was made for a 401
        self._renewal: asyncio.Task[ApiError | None] | None = None
        self._rng = random.Random()

    async def look(self) -> None:
        """Renew what is outdated, if it is time to look. Never raises: the old may serve still."""
        if self._now() < self._next_look:
            return
        self._next_look = self._now() + self._every
        if self._outdated():
            renewal = self._begin()
            if not self.access.slow:
                await asyncio.wait([renewal])

    async def refused(self, generation: int) -> bool:
        """The server answered 401 to credentials of that generation: whether there are others by now. Raises
        RequestFailed when they cannot be read."""
        if generation != self.generation:
            return True
        if self._now() < self._fruitless_until.get(generation, 0.0) and not self._outdated():
            return False
        await self.renew()
        self._fruitless_until = {self.generation: self._now() + FRUITLESS}
        return True

    async def renew(self) -> None:
        """Read the source again, or wait for whoever does. Raises RequestFailed; what was read before stays then."""
        renewal = self._begin()
        await asyncio.wait([renewal])
        error = unreachable("the connection is closed", reason="Closed") if renewal.cancelled() else renewal.result()
        if error is not None:
            raise RequestFailed(error)

    def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()

    def _begin(self) -> asyncio.Task[ApiError | None]:
        # A task of its own: a plugin must not be killed because the one that needed it first does not wait any more.
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(), name=f"credentials of {self._name}")
        return self._renewal

    async def _renew(self) -> ApiError | None:
        try:
            access = await load_access(self._source)
        except RequestFailed as failed:
            self._failures += 1
            if self.access.slow:  # a program that fails is not run every few seconds
                self._next_look = self._now() + backoff(ErrorClass.UNAUTHORIZED, self._failures, self._rng)
            if self.error is None or self.error.message != failed.error.message:
                _log.warning("cluster %s: what was read before stays in use: %s", self._name, failed.error)
            self.error = failed.error
            return failed.error
        self._failures, self.error = 0, None
        self._next_look = self._now() + self._every
        before = self.access
        if access.endpoint != before.endpoint:
            self.moved = access.endpoint
        else:
            self.access = access
            self.generation += 1
        await self._replaced(before)
        return None

    def _outdated(self) -> bool:
        return self.access.outdated(datetime.datetime.now(datetime.UTC))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
