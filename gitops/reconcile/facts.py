"""What is known of a cluster, kept up to date: read when a session takes over and whenever the cluster tells that it
may have changed. At rest nothing is called.

Definitions tell by their watch. Operators' Deployments are not watched: an operator that is replaced without its
definitions is noticed at the next take-over, outage or change of a definition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitops.cluster.errors import ErrorClass, RequestFailed, backoff
from gitops.cluster.facts import FactsReader, Generation, Reading
from gitops.model.clusters import Cluster
from gitops.model.identity import GroupVersionKind
from gitops.model.operators import OperatorType
from gitops.policy.registry import OperatorRegistry, gvk_of
from gitops.reconcile.context import Context

_log = logging.getLogger(__name__)

SETTLING = 1.0
"""Seconds for which definitions must keep still: an operator that is installed brings many, and each is told of more
than once until discovery has it."""

AGAIN_AFTER, AGAIN_AT_MOST = 1.0, 30.0
"""Seconds until a reading that met passing trouble is repeated: doubling, since one lost answer is enough to close an
operator whose rights are not known, and some trouble stays for days (an aggregated API without its server)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What facts are wanted of."""

    kinds: frozenset[GroupVersionKind]
    types: tuple[OperatorType, ...]

    @classmethod
    def of(cls, document: Cluster, declared: frozenset[GroupVersionKind], registry: OperatorRegistry) -> Wanted:
        """What is declared for the cluster, and what may be, going by the operators that its document says it has."""
        attributes = set(document.spec.attributes)
        types = tuple(t for _, t in sorted(registry.types.items()) if t.spec.clusterAttribute in attributes)
        ours = {gvk_of(kind) for t in types for kind in (*t.spec.companions, *t.spec.kinds)}
        return cls(declared | ours, types)


class FactsKeeper:
    """`wanted` and `unchanged` are asked before each reading, `told` hears what came of it (None: the cluster did not
    answer)."""

    def __init__(
        self,
        reader: FactsReader,
        context: Context,
        *,
        name: str,
        wanted: Callable[[], Wanted],
        unchanged: Callable[[], Mapping[str, Generation]],
        server_version: Callable[[], str],
        told: Callable[[Reading | None], None],
    ) -> None:
        self._reader = reader
        self._context = context
        self._name = name
        self._wanted = wanted
        self._unchanged = unchanged
        self._server_version = server_version
        self._told = told
        self._signal = asyncio.Event()
        self._settle = False
        self._covered = Wanted(frozenset(), ())
        self._task: asyncio.Task[None] | None = None
        self.reading: Reading | None = None
        """The last one."""

    def look(self) -> None:
        """Read now: nothing is known yet, or what is known may be old."""
        self._signal.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"facts of {self._name}")

    def look_soon(self) -> None:
        """Read once what moves has come to rest. Nothing before the first look()."""
        self._settle = True
        if self._task is not None:
            self._signal.set()

    def assigned(self) -> bool:
        """Read if something is wanted that was not when the last reading began; whether that is so."""
        wanted = self._wanted()
        lacking = not (wanted.kinds <= self._covered.kinds and wanted.types == self._covered.types)
        if self._task is not None and lacking:
            self._signal.set()
        return self._task is not None and lacking

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        pause: float | None = None
        failures = troubles = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._signal.wait()
            while self._settle:
                self._settle = False
                await asyncio.sleep(SETTLING)
            self._signal.clear()
            try:
                troubles, failures = troubles + 1 if await self._read() else 0, 0
                pause = min(AGAIN_AT_MOST, AGAIN_AFTER * 2.0 ** min(troubles - 1, 30)) if troubles else None
            except RequestFailed as failed:
                failures += 1
                pause = backoff(ErrorClass.UNREACHABLE, failures, self._context.rng)
                _log.debug("facts of cluster %s: %s", self._name, failed)
                self._told(None)
            except Exception:  # a defect, which must not end the cluster's session: less is known, that is all
                _log.exception("what cluster %s tells of itself cannot be taken in", self._name)
                pause = None
                self._told(None)

    async def _read(self) -> bool:
        """One reading; whether another may tell more without an event that says so."""
        wanted = self._covered = self._wanted()
        reading = await self._reader.read(
            wanted.kinds, wanted.types, server_version=self._server_version(), unchanged=self._unchanged()
        )
        if self.reading is None or reading.unread != self.reading.unread:
            for sentence in reading.unread:
                _log.warning("cluster %s: %s", self._name, sentence)
        self.reading = reading
        self._told(reading)
        return reading.incomplete
