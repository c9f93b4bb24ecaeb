"""Which cluster is audited when (auditing.py says what that is): about every `audit_interval` seconds each, one at a
time in the whole daemon, so that audits never add up to a storm.

A daemon that starts lists everything anyway. The first audit of a cluster is therefore at a random time within the
interval: audits of a fleet spread out, and a daemon that is restarted often still makes them.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Awaitable, Callable

from apscheduler.job import Job
from apscheduler.schedulers.base import BaseScheduler

from gitops.model.identity import ClusterName
from gitops.reconcile.queueing import SerialWork

JITTER = 0.1
"""Part of the interval by which it varies at random."""

FIRST = (0.1, 1.0)
"""Parts of the interval between which the first audit is."""

AGAIN = 120.0
"""Seconds until a cluster is tried again that could not be audited: it does not answer, is busy, or is another's."""

LONGEST = 1800.0
"""Seconds after which one audit gives way to the others."""


class Audits:
    """`audit` makes one; False when this was not the moment. `now` is the scheduler's clock."""

    def __init__(
        self,
        audit: Callable[[ClusterName], Awaitable[bool]],
        *,
        interval: float,
        rng: random.Random,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._audit = audit
        self._interval = interval
        self._rng = rng
        self._now = now
        self._queue: SerialWork[ClusterName] = SerialWork(self._run, parallel=1, name="audit of")
        self._scheduler: BaseScheduler | None = None
        self._jobs: dict[ClusterName, Job | None] = {}

    def start(self, scheduler: BaseScheduler) -> None:
        """Put clusters on the queue from now on."""
        self._scheduler = scheduler
        for name in self._jobs:
            self._jobs[name] = self._schedule(scheduler, name)

    def follow(self, name: ClusterName) -> None:
        """Audit this cluster as well."""
        if name not in self._jobs:
            self._jobs[name] = None if self._scheduler is None else self._schedule(self._scheduler, name)

    def forget(self, name: ClusterName) -> None:
        """The cluster left Git."""
        job = self._jobs.pop(name, None)
        if job is not None:
            job.remove()

    async def close(self) -> None:
        """No more audits; one that runs ends now."""
        self._jobs.clear()
        await self._queue.close(grace=0.0)

    def _schedule(self, scheduler: BaseScheduler, name: ClusterName) -> Job:
        first = datetime.timedelta(seconds=self._interval * self._rng.uniform(*FIRST))
        return scheduler.add_job(
            self._due,
            "interval",
            args=[name],
            seconds=self._interval,
            jitter=self._interval * JITTER,
            next_run_time=self._now() + first,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )

    async def _due(self, name: ClusterName) -> None:
        """A coroutine, since the scheduler runs plain functions in a thread."""
        self._queue.poke(name)

    async def _run(self, name: ClusterName) -> None:
        if name not in self._jobs:
            return
        done = False
        try:
            async with asyncio.timeout(LONGEST):
                done = await self._audit(name)
        except TimeoutError:
            pass
        if not done:
            self._queue.poke_after(name, AGAIN)
