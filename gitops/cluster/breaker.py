"""The circuit breaker of one cluster: when it does not answer, calls fail at once instead of each waiting for its
timeout.

Closed: calls go out. After some failures in a row without one answer it opens: all calls fail with "no answer since …"
except one probe now and then (half-open), ever more rarely; any answer closes it, an error of the API too. Calls of the
Lease always go out and count as probes, so a cluster that is back is known within seconds.

Calls that were under way together and failed together count once: a restarted API server breaks all of them, and
answers the next one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from gitops.cluster.errors import ApiError, ErrorClass, backoff, cut, unreachable

FAILURES = 3
"""In a row, until it opens: with connects that time out after 5 s, some fifteen seconds."""


class Breaker:
    """`wall` gives Unix seconds, only told."""

    def __init__(
        self,
        *,
        failures: int = FAILURES,
        wall: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.spared = 0
        """Calls that were not sent."""
        self._limit = failures
        self._wall = wall
        self._rng = rng or random.Random()
        self._failures = 0
        self._counted_at = 0.0  # a call sent before failed together with the last one that counted
        self._since = 0.0  # Unix seconds of the last answer, or of the first failure
        self._why = ""
        self._probes = 0
        self._probe_at = 0.0

    @property
    def open(self) -> bool:
        return self._failures >= self._limit

    def refuses(self) -> ApiError | None:
        """Why a call is not sent now; None when it is, perhaps as the probe."""
        if not self.open:
            return None
        now = self._now()
        if now >= self._probe_at:
            self._probes += 1
            self._probe_at = now + backoff(ErrorClass.UNREACHABLE, self._probes, self._rng)
            return None
        self.spared += 1
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._since))
        return unreachable(cut(f"no answer since {since}: {self._why}"))

    def answered(self) -> None:
        """An answer came, of any status."""
        self._failures = self._probes = 0
        self._since = self._wall()

    def failed(self, sent: float, why: str) -> None:
        """A call that was sent at `sent` (the loop's time) got no answer."""
        self._why = why
        if sent < self._counted_at:
            return
        self._since = self._since or self._wall()
        self._counted_at = self._now()
        self._failures += 1
        if self._failures == self._limit:
            self._probe_at = self._counted_at + backoff(ErrorClass.UNREACHABLE, 1, self._rng)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
