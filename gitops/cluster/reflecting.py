"""Reflecting: one kind of one cluster as a stream of events that never ends and never lies about absence.

Three layers, each testable alone: `events` (for ever; backs off when the cluster cannot be reached) > `_continuous` (a
list, then watches until only another list helps) > `_watch` (one connection). No object is kept, only who is known to
exist and at which resourceVersion, so that a list can tell what vanished while nobody looked.

What holds, whatever the network does:
- an absence is concluded from a complete list or a DELETED event only, never from an error or a part of a list;
- after every list all objects are delivered again, also at an unchanged resourceVersion: a field that left the schema
  disappears from objects without a new version and without an event;
- a connection that says nothing for `silence_limit` is not trusted: a watch from a version that the server has not
  reached yet (etcd was restored) stays open and silent;
- a DELETED event may also be a lost label (the object then comes with its old labels): readers look before they act.

resourceVersions are compared for equality only. One watch delivers in order, the next resumes from the last version
seen, so an older object can only come from a list after a restored etcd, where it is the truth: "newer wins" would
hide it. What a broken proxy swaps or swallows, the next list corrects; readers ask for one from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from gitops.cluster.collection import Collection, ReflectorSettings, ReflectorStats, WatchTransport
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, backoff, classify_status, unreachable
from gitops.cluster.held import Held, Key
from gitops.cluster.interrupting import Interrupted, Interruptible
from gitops.cluster.listing import pages
from gitops.cluster.watch_events import Changed, Deleted, Event, Fresh, JsonObject, Stale, Synced, Vanished
from gitops.model.identity import ObjectRef

__all__ = [
    "Changed",
    "Deleted",
    "Event",
    "Fresh",
    "Reflector",
    "ReflectorSettings",
    "ReflectorStats",
    "Stale",
    "Synced",
    "Vanished",
    "WatchTransport",
]


class _Line(msgspec.Struct):
    type: str
    object: JsonObject


_decode_line = msgspec.json.Decoder(_Line).decode

_RESUMABLE = frozenset({ErrorClass.RETRY, ErrorClass.UNREACHABLE, ErrorClass.UNAUTHORIZED, ErrorClass.FORBIDDEN})
"""After these a watch goes on from its last version; after anything else only a list tells what is true."""

TAKEN_AT_ONCE = 50
"""Objects of a list that are taken in before other work of the loop gets its turn: about ten milliseconds."""

_QUICK_ENDS = 3
"""So many watches in a row that ended at once without a line are a failure."""

_T = TypeVar("_T")


class _Again(enum.Enum):
    """Why a watch gave way to a list."""

    EXPIRED = "expired"
    SILENT = "silent"
    ASKED = "asked"


class Reflector:
    """Watches one collection. `clock` gives Unix seconds and is only reported, never waited for."""

    def __init__(
        self,
        transport: WatchTransport,
        collection: Collection,
        *,
        settings: ReflectorSettings | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.collection = collection
        self.settings = settings or ReflectorSettings()
        self.stats = ReflectorStats()
        self.heard_at = 0.0
        """When the server last said anything (Unix seconds): a line, a bookmark or a page."""
        self.synced = False
        """Whether a list has been completed since the start."""
        self._transport = transport
        self._clock = clock
        self._rng = rng or random.Random()
        self._held = Held()
        self._waits = Interruptible()  # asked: somebody wants a list
        self._version = ""  # where a watch goes on; "" = list first
        self._again: _Again | None = None  # why the last watch ended without a version
        self._healthy = False  # a watch of this round worked
        self._stale: ApiError | None = None
        self._running = False

    def __len__(self) -> int:
        """How many objects are known to exist."""
        return len(self._held)

    def holds(self, ref: ObjectRef, uid: str) -> bool:
        """Is this very object known to exist, by the last list and what was said since?"""
        return self._held.holds(ref, uid)

    @property
    def stale(self) -> ApiError | None:
        """Why the kind cannot be seen at the moment; None while it can."""
        return self._stale

    def request_relist(self) -> None:
        """List again now and deliver every object: the schema may have changed, an audit is due, or the kind may be
        served at last. Also cuts a backoff short. Call it from the loop's thread."""
        self._waits.ask()

    # -- for ever ----------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, for ever. Use it with contextlib.aclosing, so that its connection closes when you leave.

        Only one reader at a time. Ends by cancellation or aclose(), never by an error of the cluster.
        """
        if self._running:
            raise RuntimeError(f"{self.collection.gvk} at {self.collection.path} is being read already")
        self._running = True
        try:
            attempt = 0
            while True:
                self._healthy, self._again = False, None
                error: ApiError | None = None
                try:
                    async with contextlib.aclosing(self._continuous()) as events:
                        async for event in events:
                            yield event
                except RequestFailed as failed:
                    error = failed.error
                    self.stats.failures += 1
                if not self._waits.asked or error is not None:
                    attempt = 0 if self._healthy else attempt + 1
                if error is not None and attempt and self._is_news(error):
                    self._stale = error
                    yield Stale(self.heard_at, error)
                await self._waits.pause(self._delay(error, attempt))
        finally:
            self._running = False

    def _is_news(self, error: ApiError) -> bool:
        return self._stale is None or (self._stale.cls, self._stale.reason) != (error.cls, error.reason)

    def _delay(self, error: ApiError | None, attempt: int) -> float:
        """Seconds before the next round. `attempt` is 0 when the last connection had worked: then soon, but not all
        kinds of the cluster in the same moment."""
        if self._waits.asked:
            return 0.0
        if error is not None:
            soon = self._rng.uniform(0.0, backoff(error.cls, 1, self._rng))
            return error.wait(attempt, self._rng) if attempt else max(soon, error.retry_after or 0.0)
        if attempt > 1:
            return backoff(ErrorClass.EXPIRED, attempt, self._rng)
        return self._rng.uniform(0.0, self.settings.relist_spread) if self._again is _Again.EXPIRED else 0.0

    def _recovered(self) -> Iterator[Fresh]:
        if self._stale is not None:
            self._stale = None
            yield Fresh()

    # -- list, then watch --------------------------------------------------------------------------------------------

    async def _continuous(self) -> AsyncGenerator[Event, None]:
        """A list unless a watch can go on, then watches until only a list helps. Raises RequestFailed."""
        if not self._version or self._waits.asked:
            async with contextlib.aclosing(self._list()) as listed:
                async for event in listed:
                    yield event
        quick_ends = 0
        while self._version and not self._waits.asked:
            async with contextlib.aclosing(self._watch()) as watched:
                async for event in watched:
                    yield event
            quick_ends = 0 if self._healthy or self._waits.asked else quick_ends + 1
            if quick_ends >= _QUICK_ENDS and self._version:
                raise RequestFailed(unreachable("the server ends every watch at once", reason="EndedAtOnce"))
            if quick_ends and self._version:
                await self._waits.pause(backoff(ErrorClass.UNREACHABLE, quick_ends, self._rng))

    async def _list(self) -> AsyncGenerator[Event, None]:
        """All pages. Concludes absences at the end only."""
        self._healthy, self._waits.asked, self._version = False, False, ""
        seen: set[Key] = set()
        version = ""
        listed = pages(self._transport, self.collection, settings=self.settings, stats=self.stats)
        async with contextlib.aclosing(listed):
            async for page in listed:
                self.heard_at = self._clock()
                if page.first:
                    seen.clear()
                for count, obj in enumerate(page.objects(), 1):
                    seen.add(self._held.put(obj)[0])
                    self.stats.changes += 1
                    yield Changed(self.collection.shown(obj))
                    if count % TAKEN_AT_ONCE == 0:
                        await asyncio.sleep(0)
                version = page.version
                del page  # before the next one comes
        gvk = self.collection.gvk
        for key, uid in self._held.keep(seen):
            yield Vanished(ObjectRef(gvk.group, gvk.kind, *key), uid)
        self._version = version
        self.synced = True
        self.stats.lists += 1
        for fresh in self._recovered():
            yield fresh
        yield Synced(len(seen), self._version)

    # -- one connection ----------------------------------------------------------------------------------------------

    async def _watch(self) -> AsyncGenerator[Event, None]:
        """One watch from `_version` on. Returns when the server ended it or only a list helps (`_version` is ""
        then); raises RequestFailed when it could not be opened or broke. Sets `_healthy`."""
        self._healthy, opened = False, None
        query = self.collection.query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(self._rng.randint(*self.settings.watch_seconds)),
        )
        stream = self._transport.stream(
            self.collection.path,
            query=query,
            accept=self.collection.accept(listing=False),
            silence_limit=self.settings.silence_limit,
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                lines = await self._bounded(stack.enter_async_context(stream))
                self.stats.watches += 1
                opened = self._now()
                for fresh in self._recovered():
                    yield fresh
                while self._version and not self._waits.asked:
                    line = await self._bounded(anext(lines, None))
                    if line is None:
                        break
                    event = self._read(line)
                    if event is not None:
                        yield event
        except Interrupted:
            self._give_up(_Again.ASKED if self._waits.asked else _Again.SILENT)
        except RequestFailed as failed:
            if failed.error.cls is ErrorClass.EXPIRED:
                self._give_up(_Again.EXPIRED)
            elif failed.error.reason == "Silent":
                self._give_up(_Again.SILENT)
            else:
                if failed.error.cls not in _RESUMABLE:
                    self._version = ""
                self._healthy |= self._stood_since(opened)
                raise
        else:
            self._healthy |= self._stood_since(opened)

    def _read(self, line: bytes) -> Event | None:
        """The event in one line of a watch; None for what is not for readers. Raises RequestFailed."""
        try:
            decoded = _decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._version = ""  # what it said is lost, and going on would meet it again
            raise RequestFailed(unreachable("a line of the watch is no event", reason="NotJson")) from error
        self.heard_at = self._clock()
        obj = decoded.object
        if decoded.type == "ERROR":
            self._version = ""  # whatever it is about, the next events may be missing
            raise RequestFailed(classify_status(obj))
        self._healthy = True
        version = (obj.get("metadata") or {}).get("resourceVersion", "")
        self._version = version or self._version
        if decoded.type == "BOOKMARK":
            self.stats.bookmarks += 1
            return None
        if decoded.type == "DELETED":
            self._held.remove(obj)
            self.stats.changes += 1
            return Deleted(self.collection.shown(obj))
        if decoded.type not in ("ADDED", "MODIFIED"):
            return None
        if not self._held.put(obj)[1]:
            self.stats.duplicates += 1
            return None
        self.stats.changes += 1
        return Changed(self.collection.shown(obj))

    def _stood_since(self, opened: float | None) -> bool:
        return opened is not None and self._now() - opened >= self.settings.healthy_after

    def _give_up(self, cause: _Again) -> None:
        self._version, self._again = "", cause
        self.stats.silences += cause is _Again.SILENT
        self.stats.expirations += cause is _Again.EXPIRED

    async def _bounded(self, awaitable: Awaitable[_T]) -> _T:
        """Await what the server should do within the silence limit. Raises Interrupted, also for request_relist().

        The limit of the transport comes first; this one is for a transport that hangs.
        """
        return await self._waits.bounded(awaitable, limit=self.settings.silence_limit + 5.0)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
