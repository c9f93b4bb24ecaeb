"""Waits that somebody who asks for something else ends early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


class Interrupted(Exception):
    """A wait ended by its limit or because somebody asked."""


class Interruptible:
    """One reader's waits, one at a time. `asked` stays set until whoever waits has done what was asked for. Call all of
    it from the loop's thread."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting: asyncio.Timeout | None = None

    def ask(self) -> None:
        """End the present wait, and let no other begin."""
        self.asked = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def bounded(self, awaitable: Awaitable[_T], *, limit: float) -> _T:
        """Await something for `limit` seconds at most. Raises Interrupted."""
        try:
            async with asyncio.timeout(limit) as self._waiting:
                return await awaitable
        except TimeoutError:
            raise Interrupted from None
        finally:
            self._waiting = None

    async def pause(self, seconds: float) -> None:
        """Sleep so long, or until somebody asks."""
        if self.asked:
            return
        try:
            async with asyncio.timeout(seconds) as self._waiting:
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            pass
        finally:
            self._waiting = None
