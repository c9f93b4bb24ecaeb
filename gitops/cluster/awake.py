"""Seconds that have passed here, also while nothing ran: a stopped process, a suspended host, a paused machine.

Python's monotonic clock (CLOCK_MONOTONIC) stands still while the host sleeps; CLOCK_BOOTTIME does not
(clock_gettime(2)). A virtual machine that its hypervisor pauses learns of it from neither, but often from the wall
clock, which the hypervisor or NTP sets right afterwards. So the wall clock may put this one forward, never back. Clocks
of two hosts are never compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def _since_boot() -> float:
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class AwakeClock:
    """Calling it gives seconds since some moment; it never goes back."""

    def __init__(self, *, since_boot: Callable[[], float] = _since_boot, wall: Callable[[], float] = time.time) -> None:
        self._since_boot = since_boot
        self._wall = wall
        self._ahead = wall() - since_boot()  # the most that the wall clock ever was

    def __call__(self) -> float:
        now = self._since_boot()
        self._ahead = max(self._ahead, self._wall() - now)
        return now + self._ahead
