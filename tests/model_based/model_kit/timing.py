"""Time that passes only when there is nothing else to do, and an event loop that goes step by step.

All daemons of a story share one time. It goes on like the real one, and leaps to the next timer of the running loop
as soon as that loop has nothing to do and nothing under way: back-offs, Leases and deadlines cost no waiting, and what
a daemon does between them is not hurried. A call that hangs is leapt over as well, after a moment of real silence.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable
from typing import Any

GRACE = 0.003
"""Seconds of real silence after which a loop with nothing under way is idle: longer than a watch event takes here."""

HANGS = 1.0
"""Seconds of real silence after which a call under way is taken to hang, if the proxy does not know that it does."""

LEAP = 60.0
"""Seconds that time leaps at most at once: whoever asks for a look at the repository each minute must get to do so."""


class StoryTime:
    """Seconds since some moment, for every daemon of a story."""

    def __init__(self) -> None:
        self.leaps = 0
        self._leapt = 0.0
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._leapt

    def wall(self) -> float:
        """As seconds since 1970."""
        return self._epoch + self.now()

    def leap(self, seconds: float) -> None:
        self.leaps += 1
        self._leapt += seconds


class _LeapingSelector(selectors.DefaultSelector):
    """Waits for real events, and lets time leap when none come. `patience` says for how long to wait before it does;
    None: time must not leap now."""

    def __init__(self, time: StoryTime, patience: Callable[[], float | None]) -> None:
        super().__init__()
        self._time = time
        self._patience = patience

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        patience = self._patience()
        if patience is None or (timeout is not None and timeout <= patience):
            return super().select(timeout)
        found = super().select(patience)
        if not found and timeout is not None:
            self._time.leap(min(timeout - patience, LEAP))
        return found


class StepLoop(asyncio.SelectorEventLoop):
    """An event loop that runs for so many rounds and then stands still, as a stopped process does.

    `calls` and `threads` count what has been begun outside the loop: calls, which may hang (`hanging` says how many are
    known to), and work on threads, which comes to its end.
    """

    def __init__(self, time: StoryTime, *, hanging: Callable[[], int] = lambda: 0) -> None:
        self.calls = 0
        self.threads = 0
        self._story = time
        self._hanging = hanging
        self._rounds: int | None = None  # that are left; None: it runs until it is done
        self._last_leap = math.inf
        super().__init__(_LeapingSelector(time, self._patience))

    @property
    def under_way(self) -> int:
        return self.calls + self.threads

    def _patience(self) -> float | None:
        if self.threads:
            return None
        return HANGS if self.calls and self.calls > self._hanging() else GRACE

    def time(self) -> float:
        return self._story.now()

    def steps(self, rounds: int, *, leaps: int | None = None) -> None:
        """Go on for so many rounds of the loop, or until time has leapt so often. A round runs what is ready by then,
        or waits until something is."""
        if rounds > 0:
            self._rounds = rounds
            self._last_leap = math.inf if leaps is None else self._story.leaps + leaps
            self.run_forever()
            self._rounds = None

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self._rounds is not None:
            self._rounds -= 1
            if self._rounds <= 0 or self._story.leaps >= self._last_leap:
                self.stop()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _: Any) -> None:
        self.threads -= 1
