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
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, backoff, classify_status, unreachable
from gitops.cluster.watch_events import Changed, Deleted, Event, Fresh, JsonObject, Stale, Synced, Vanished
from gitops.model.identity import GroupVersionKind, ObjectRef

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


# -- what it needs and how it behaves --------------------------------------------------------------------------------


class Answer(Protocol):
    """An answer of the API server, whatever its status."""

    @property
    def ok(self) -> bool: ...

    @property
    def body(self) -> bytes: ...

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError: ...


class WatchTransport(Protocol):
    """What a reflector needs of gitops.cluster.connection.Connection. Both raise RequestFailed without a usable answer;
    `stream` yields lines without their end, and fails with reason `Silent` after `silence_limit` seconds of nothing."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = ...,
        timeout: float | None = None,
        verb: str = "",
    ) -> Answer: ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = ...,
        silence_limit: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """Times in seconds."""

    page_limit: int = 500
    """Objects in one page of a list."""

    list_timeout: float = 60.0
    """For one page."""

    watch_seconds: tuple[int, int] = (240, 300)
    """The server ends a watch after a random time in this range, so that watches of many kinds spread out."""

    silence_limit: float = 200.0
    """A watch without a line for so long is given up for a list. The first idle bookmark came after 120 s."""

    relist_spread: float = 1.0
    """Longest wait before a list because a version expired: a restarted API server expires all kinds at once."""

    healthy_after: float = 5.0
    """A watch that stood so long, or brought a line, counts as working: failures before it are forgotten."""

    page_restarts: int = 3
    """How often a list may begin again because its continue token expired, before that counts as a failure."""


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the reflector was made. Read only for others."""

    lists: int = 0  # complete ones
    pages: int = 0
    watches: int = 0  # opened
    changes: int = 0  # Changed and Deleted events
    duplicates: int = 0
    bookmarks: int = 0
    expirations: int = 0  # 410 in any form
    silences: int = 0
    failures: int = 0


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None  # must be there: a single object is no empty list


class _Line(msgspec.Struct):
    type: str
    object: JsonObject


_decode_page = msgspec.json.Decoder(_Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_object = msgspec.json.Decoder(JsonObject).decode

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_RESUMABLE = frozenset({ErrorClass.RETRY, ErrorClass.UNREACHABLE, ErrorClass.UNAUTHORIZED, ErrorClass.FORBIDDEN})
"""After these a watch goes on from its last version; after anything else only a list tells what is true."""

_QUICK_ENDS = 3
"""So many watches in a row that ended at once without a line are a failure."""

_T = TypeVar("_T")


class _Again(enum.Enum):
    """Why a watch gave way to a list."""

    EXPIRED = "expired"
    SILENT = "silent"
    ASKED = "asked"


class Reflector:
    """Watches one kind at one path, for example `/apis/nvidia.com/v1alpha1/dynamographdeployments` (all namespaces).

    `selector` is a label selector ("" = all). `metadata_only` asks for PartialObjectMetadata: enough for owner links,
    not for drift (managedFields are there, values are not). `project` reduces an object right after decoding.
    `clock` gives Unix seconds and is only reported, never waited for.
    """

    def __init__(
        self,
        transport: WatchTransport,
        path: str,
        *,
        gvk: GroupVersionKind,
        selector: str = "",
        metadata_only: bool = False,
        project: Callable[[JsonObject], JsonObject] | None = None,
        settings: ReflectorSettings | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.path = path
        self.gvk = gvk
        self.selector = selector
        self.settings = settings or ReflectorSettings()
        self.stats = ReflectorStats()
        self.heard_at = 0.0
        """When the server last said anything (Unix seconds): a line, a bookmark or a page."""
        self.synced = False
        """Whether a list has been completed since the start."""
        self._transport = transport
        self._metadata_only = metadata_only
        self._project = project
        self._clock = clock
        self._rng = rng or random.Random()
        self._held: dict[tuple[str, str], tuple[str, str]] = {}  # (namespace, name) → (uid, resourceVersion)
        self._version = ""  # where a watch goes on; "" = list first
        self._asked = False  # somebody wants a list
        self._again: _Again | None = None  # why the last watch ended without a version
        self._healthy = False  # a watch of this round worked
        self._stale: ApiError | None = None
        self._waiting: asyncio.Timeout | None = None  # what request_relist() cuts short
        self._running = False

    def __len__(self) -> int:
        """How many objects are known to exist."""
        return len(self._held)

    def holds(self, ref: ObjectRef, uid: str) -> bool:
        """Is this very object known to exist, by the last list and what was said since?"""
        return self._held.get((ref.namespace, ref.name), ("", ""))[0] == uid

    @property
    def stale(self) -> ApiError | None:
        """Why the kind cannot be seen at the moment; None while it can."""
        return self._stale

    def request_relist(self) -> None:
        """List again now and deliver every object: the schema may have changed, an audit is due, or the kind may be
        served at last. Also cuts a backoff short. Call it from the loop's thread."""
        self._asked = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(self._now())

    # -- for ever ----------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, for ever. Use it with contextlib.aclosing, so that its connection closes when you leave.

        Only one reader at a time. Ends by cancellation or aclose(), never by an error of the cluster.
        """
        if self._running:
            raise RuntimeError(f"{self.gvk} at {self.path} is being read already")
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
                if not self._asked or error is not None:
                    attempt = 0 if self._healthy else attempt + 1
                if error is not None and attempt and self._is_news(error):
                    self._stale = error
                    yield Stale(self.heard_at, error)
                await self._pause(self._delay(error, attempt))
        finally:
            self._running = False

    def _is_news(self, error: ApiError) -> bool:
        return self._stale is None or (self._stale.cls, self._stale.reason) != (error.cls, error.reason)

    def _delay(self, error: ApiError | None, attempt: int) -> float:
        """Seconds before the next round. `attempt` is 0 when the last connection had worked: then soon, but not all
        kinds of the cluster in the same moment."""
        if self._asked:
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
        if not self._version or self._asked:
            async with contextlib.aclosing(self._list()) as listed:
                async for event in listed:
                    yield event
        quick_ends = 0
        while self._version and not self._asked:
            async with contextlib.aclosing(self._watch()) as watched:
                async for event in watched:
                    yield event
            quick_ends = 0 if self._healthy or self._asked else quick_ends + 1
            if quick_ends >= _QUICK_ENDS and self._version:
                raise RequestFailed(unreachable("the server ends every watch at once", reason="EndedAtOnce"))
            if quick_ends and self._version:
                await self._pause(backoff(ErrorClass.UNREACHABLE, quick_ends, self._rng))

    async def _list(self) -> AsyncGenerator[Event, None]:
        """All pages. Concludes absences at the end only; a token that expires starts the list over."""
        self._healthy, self._asked, self._version = False, False, ""
        seen: set[tuple[str, str]] = set()
        token, restarts = "", 0
        while True:
            query = self._query(limit=str(self.settings.page_limit))
            if token:
                query["continue"] = token
            answer = await self._transport.request(
                "GET",
                self.path,
                query=query,
                accept=_METADATA_LIST if self._metadata_only else _JSON,
                timeout=self.settings.list_timeout,
                verb="list",
            )
            if not answer.ok:
                error = answer.error(resource=self.path.rpartition("/")[2])
                if error.cls is ErrorClass.EXPIRED:
                    self.stats.expirations += 1
                    if token and restarts < self.settings.page_restarts:
                        token, restarts, seen = "", restarts + 1, set()
                        continue
                raise RequestFailed(error)
            page = _read_page(answer.body)
            self.heard_at = self._clock()
            self.stats.pages += 1
            for raw in page.items or ():
                obj = self._complete(_decode_object(raw))
                key, state = _identity(obj)
                seen.add(key)
                self._held[key] = state
                self.stats.changes += 1
                yield Changed(self._reduced(obj))
            token = page.metadata.token
            if not token:
                break
        for key in [key for key in self._held if key not in seen]:
            uid, _ = self._held.pop(key)
            yield Vanished(ObjectRef(self.gvk.group, self.gvk.kind, *key), uid)
        self._version = page.metadata.resourceVersion
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
        query = self._query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(self._rng.randint(*self.settings.watch_seconds)),
        )
        stream = self._transport.stream(
            self.path,
            query=query,
            accept=_METADATA if self._metadata_only else _JSON,
            silence_limit=self.settings.silence_limit,
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                lines = await self._bounded(stack.enter_async_context(stream))
                self.stats.watches += 1
                opened = self._now()
                for fresh in self._recovered():
                    yield fresh
                while self._version and not self._asked:
                    line = await self._bounded(anext(lines, None))
                    if line is None:
                        break
                    event = self._read(line)
                    if event is not None:
                        yield event
        except _Interrupted:
            self._give_up(_Again.ASKED if self._asked else _Again.SILENT)
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
        key, state = _identity(obj)
        if decoded.type == "DELETED":
            if self._held.get(key, state)[0] == state[0]:
                self._held.pop(key, None)
            self.stats.changes += 1
            return Deleted(self._reduced(self._complete(obj)))
        if decoded.type not in ("ADDED", "MODIFIED"):
            return None
        if self._held.get(key) == state:
            self.stats.duplicates += 1
            return None
        self._held[key] = state
        self.stats.changes += 1
        return Changed(self._reduced(self._complete(obj)))

    def _stood_since(self, opened: float | None) -> bool:
        return opened is not None and self._now() - opened >= self.settings.healthy_after

    def _give_up(self, cause: _Again) -> None:
        self._version, self._again = "", cause
        self.stats.silences += cause is _Again.SILENT
        self.stats.expirations += cause is _Again.EXPIRED

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # -- small things ------------------------------------------------------------------------------------------------

    def _query(self, **parameters: str) -> dict[str, str]:
        return {**parameters, "labelSelector": self.selector} if self.selector else parameters

    def _complete(self, obj: JsonObject) -> JsonObject:
        # Items of a list of a built-in kind have neither; partial metadata has its own.
        obj["apiVersion"], obj["kind"] = self.gvk.api_version, self.gvk.kind
        return obj

    def _reduced(self, obj: JsonObject) -> JsonObject:
        return self._project(obj) if self._project is not None else obj

    async def _bounded(self, awaitable: Awaitable[_T]) -> _T:
        """Await what the server should do within the silence limit. Raises _Interrupted, also for request_relist().

        The limit of the transport comes first; this one is for a transport that hangs.
        """
        try:
            async with asyncio.timeout(self.settings.silence_limit + 5.0) as self._waiting:
                return await awaitable
        except TimeoutError:
            raise _Interrupted from None
        finally:
            self._waiting = None

    async def _pause(self, seconds: float) -> None:
        """Sleep; request_relist() ends it."""
        if self._asked:
            return
        try:
            async with asyncio.timeout(seconds) as self._waiting:
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            pass
        finally:
            self._waiting = None


class _Interrupted(Exception):
    """A wait ended by its limit or by request_relist()."""


def _read_page(body: bytes) -> _Page:
    try:
        page = _decode_page(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFailed(unreachable("the answer is no list", reason="NotJson")) from error
    if not page.metadata.resourceVersion:
        raise RequestFailed(unreachable("the list has no resourceVersion to watch from", reason="NotJson"))
    return page


def _identity(obj: JsonObject) -> tuple[tuple[str, str], tuple[str, str]]:
    """((namespace, name), (uid, resourceVersion))"""
    metadata = obj.get("metadata") or {}
    key = (sys.intern(metadata.get("namespace", "")), metadata.get("name", ""))
    return key, (metadata.get("uid", ""), metadata.get("resourceVersion", ""))
