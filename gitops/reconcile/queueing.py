"""Serial work per key: the one scheduling mechanism of the engine.

Level-triggered: a poke says "look again" and carries nothing. A key's handler never runs twice at a time; a poke while
it runs runs it once more; different keys run in parallel up to a limit. Delays (back-off, hold times) are timers on the
loop, one per key, the earliest wins. So every race between a new commit, a drift event and a retry is settled by order
within the key's own queue.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_log = logging.getLogger(__name__)


class SerialWork(Generic[Key]):
    """`handler(key)` must not raise in normal operation; what it raises is logged and the key is retried after
    `retry_after` seconds, so that one defect never ends the others' work."""

    def __init__(
        self, handler: Callable[[Key], Awaitable[None]], *, parallel: int, name: str, retry_after: float = 30.0
    ) -> None:
        self._handler = handler
        self._parallel = parallel
        self._name = name
        self._retry_after = retry_after
        self._ready: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._again: set[Key] = set()
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def poke(self, key: Key, *, urgent: bool = False) -> None:
        """Run the handler for this key soon; urgent keys (repairs) go before the others."""
        if self._closed:
            return
        self._cancel_timer(key)
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._idle.clear()
            if urgent:
                self._ready.appendleft(key)
            else:
                self._ready.append(key)
            self._start()

    def poke_after(self, key: Key, seconds: float) -> None:
        """Run the handler for this key in `seconds`, unless something earlier is planned already."""
        if self._closed or key in self._queued:
            return
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if planned is not None and planned.when() <= loop.time() + seconds:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(seconds, self._due, key)

    @property
    def active(self) -> bool:
        return bool(self._running or self._queued)

    async def idle(self) -> None:
        """Until nothing runs or is queued; timers do not count."""
        await self._idle.wait()

    def interrupt(self) -> None:
        """Cancel what runs: it must not go on. The keys are not queued again; poke them when they may."""
        for task in self._running.values():
            task.cancel()

    async def close(self, *, grace: float) -> None:
        """Take nothing new, let what runs finish within `grace` seconds, cancel the rest."""
        self._closed = True
        for key in list(self._timers):
            self._cancel_timer(key)
        self._ready.clear()
        self._queued.clear()
        running = list(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.poke(key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _start(self) -> None:
        while self._ready and len(self._running) < self._parallel:
            key = self._ready.popleft()
            self._queued.discard(key)
            task = asyncio.create_task(self._run(key), name=f"{self._name} {key}")
            self._running[key] = task
            task.add_done_callback(functools.partial(self._ended, key))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:  # cancelled before it began
            self._finish(key)

    async def _run(self, key: Key) -> None:
        try:
            await self._handler(key)
        except asyncio.CancelledError:
            self._again.discard(key)
            self._finish(key)
            raise
        except Exception:
            _log.exception("unexpected error while working on %s", key)
            self._again.discard(key)
            self._finish(key)
            self.poke_after(key, self._retry_after)
        else:
            self._finish(key)

    def _finish(self, key: Key) -> None:
        self._running.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.poke(key)
        self._start()
        if not self._running and not self._ready:
            self._idle.set()
