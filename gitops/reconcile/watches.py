"""The set of watches of one cluster: started when a kind is wanted, ended when not, each in a task of its own.

A kind that the cluster does not serve is known to have no objects; a kind that cannot be listed is unknown, and nothing
is decided about units that have it (I1).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass, backoff
from gitops.cluster.reflecting import Deleted, Event, Fresh, Reflector, Stale, Synced, Vanished
from gitops.model.identity import GroupVersionKind

_log = logging.getLogger(__name__)

LOOKS = 5
"""How often discovery is asked for a kind after a CRD changed: about ten seconds in all."""

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True, order=True)
class Watch:
    """What is watched: a kind at a version, under a label selector."""

    gvk: GroupVersionKind
    selector: str


class Sight(enum.StrEnum):
    """What is known of a watched kind."""

    UNKNOWN = "unknown"  # not listed yet, or it cannot be listed
    UNSERVED = "unserved"  # the cluster has no such kind
    SYNCED = "synced"


class Watches:
    """`on_event` gets every event of every watch, in order per watch; `on_sight` is called when what is known of a
    kind changes. Both run on the loop and must not block."""

    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        *,
        on_event: Callable[[Watch, Event], None],
        on_sight: Callable[[Watch, Sight], None],
        wall: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._connection = connection
        self._discovery = discovery
        self._on_event = on_event
        self._on_sight = on_sight
        self._wall = wall
        self._rng = rng
        self._tasks: dict[Watch, asyncio.Task[None]] = {}
        self._reflectors: dict[Watch, Reflector] = {}
        self._sights: dict[Watch, Sight] = {}
        self._errors: dict[Watch, ApiError] = {}
        self._retry = asyncio.Event()

    def want(self, watches: Collection[Watch]) -> None:
        """Watch exactly these, and the cluster's CRDs: a new or changed definition changes what is served."""
        wanted = {*watches, Watch(CRD, "")}
        for watch in [w for w in self._tasks if w not in wanted]:
            self._tasks.pop(watch).cancel()
            self._reflectors.pop(watch, None)
            self._sights.pop(watch, None)
            self._errors.pop(watch, None)
        for watch in sorted(wanted - self._tasks.keys()):
            self._sights[watch] = Sight.UNKNOWN
            self._tasks[watch] = asyncio.create_task(self._run(watch), name=f"watch {watch.gvk} {watch.selector}")

    def sight(self, watch: Watch) -> Sight:
        return self._sights.get(watch, Sight.UNKNOWN)

    def error(self, watch: Watch) -> ApiError | None:
        """Why a kind is unknown, as far as that is known."""
        return self._errors.get(watch)

    def look_again(self) -> None:
        """The cluster can be reached again, or serves new kinds: end every back-off."""
        self._retry.set()
        for reflector in self._reflectors.values():
            if reflector.stale is not None:
                reflector.request_relist()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, watch: Watch) -> None:
        try:
            path = await self._path(watch)
            reflector = Reflector(
                self._connection,
                path,
                gvk=watch.gvk,
                selector=watch.selector,
                metadata_only=watch.gvk == CRD,
                clock=self._wall,
                rng=self._rng,
            )
            self._reflectors[watch] = reflector
            async with contextlib.aclosing(reflector.events()) as events:
                async for event in events:
                    self._note(watch, event)
                    self._on_event(watch, event)
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("the watch of %s ended unexpectedly; begun again in 5 s", watch.gvk)
            self._see(watch, Sight.UNKNOWN)
            asyncio.get_running_loop().call_later(5.0, self._restart, watch)

    def _restart(self, watch: Watch) -> None:
        task = self._tasks.get(watch)
        if task is not None and task.done():
            self._tasks[watch] = asyncio.create_task(self._run(watch), name=f"watch {watch.gvk} {watch.selector}")

    async def _path(self, watch: Watch) -> str:
        """Where the kind is served; waits until it is.

        A kind that is not served costs nothing until a CRD changes; discovery then lags behind the definition for a
        moment, so it is asked a few times.
        """
        failures, asked = 0, LOOKS
        while True:
            found = await self._discovery.find(watch.gvk)
            if not isinstance(found, ApiError):
                return found.path()
            unserved = found.cls is ErrorClass.WAITING
            failures = 0 if unserved else failures + 1
            asked = asked + 1 if unserved else 0
            self._errors[watch] = found
            self._see(watch, Sight.UNSERVED if unserved else Sight.UNKNOWN)
            self._retry.clear()
            pause = backoff(ErrorClass.UNREACHABLE, failures or asked, self._rng)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if not unserved or asked < LOOKS else None):
                    await self._retry.wait()
                    asked = 0

    def _note(self, watch: Watch, event: Event) -> None:
        if isinstance(event, Synced):
            self._errors.pop(watch, None)
            self._see(watch, Sight.SYNCED)
        elif isinstance(event, Fresh):
            self._errors.pop(watch, None)
        elif isinstance(event, Stale):
            self._errors[watch] = event.error
            if event.error.cls in (ErrorClass.WAITING, ErrorClass.GONE):
                self._discovery.invalidate()
        elif watch.gvk == CRD and self.sight(watch) is Sight.SYNCED:
            self._definition_changed(event)

    def _definition_changed(self, event: Event) -> None:
        """A CRD came, went or changed: what is served is other, and fields may have left objects without an event
        (ssa-live 18)."""
        self._discovery.invalidate()
        self._retry.set()
        if isinstance(event, Vanished):
            name = event.ref.name
        elif isinstance(event, Stale | Fresh | Synced):
            return
        else:
            name = str(event.obj.get("metadata", {}).get("name", ""))
        group = name.partition(".")[2]
        if isinstance(event, Deleted):
            return
        for watch, reflector in self._reflectors.items():
            if watch.gvk.group == group and watch.gvk != CRD:
                reflector.request_relist()

    def _see(self, watch: Watch, sight: Sight) -> None:
        if watch in self._tasks and self._sights.get(watch) is not sight:
            self._sights[watch] = sight
            self._on_sight(watch, sight)
