"""The loop of an operator: a cache per kind fed by watches, a queue of keys, one reconcile at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import aiohttp

from gitops.sim.api import Api, ApiError, Body, Kind

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Kind, namespace, name."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Operator(ABC):
    """Reconciles objects of `primaries` whenever they, or objects they own, change.

    Level-triggered: `reconcile` gets a key, reads the caches and does what is still to do. An exception is logged and
    the key tried again with a growing pause.
    """

    manager: ClassVar[str]
    primaries: ClassVar[tuple[Kind, ...]]
    children: ClassVar[tuple[Kind, ...]]

    def __init__(self, api: Api) -> None:
        self.api = api
        self.cache: dict[Key, Body] = {}
        self._kinds = {kind.kind: kind for kind in (*self.primaries, *self.children)}
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._pauses: dict[Key, float] = {}
        self._synced = {name: asyncio.Event() for name in self._kinds}

    @abstractmethod
    async def reconcile(self, kind: str, namespace: str, name: str) -> float | None:
        """Do what is to do for one object. Returns seconds after which to look again, or None."""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds.values():
                group.create_task(self._follow(kind), name=f"{self.manager} {kind.plural}")
            await asyncio.gather(*(event.wait() for event in self._synced.values()))
            group.create_task(self._work(), name=f"{self.manager} worker")

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        """From the cache."""
        return self.cache.get((kind.kind, namespace, name))

    def owned(self, kind: Kind, owner: Body) -> Iterator[Body]:
        """Objects in the cache whose controller is `owner`."""
        uid = owner["metadata"]["uid"]
        for (name, _, _), body in list(self.cache.items()):
            if name == kind.kind and any(r["uid"] == uid for r in body["metadata"].get("ownerReferences", ())):
                yield body

    async def write(self, kind: Kind, body: Body, *, subresource: str = "") -> Body:
        """Create or update, and remember the answer so that the next reconcile does not read an older one."""
        known = "resourceVersion" in body["metadata"]
        written = await (self.api.update(kind, body, subresource=subresource) if known else self.api.create(kind, body))
        self._remember(kind.kind, written)
        return written

    def enqueue(self, key: Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._queue.put_nowait(key)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._queue.get()
            self._queued.discard(key)
            try:
                again = await self.reconcile(*key)
                self._pauses.pop(key, None)
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                again = self._pauses.get(key, _FIRST_PAUSE)
                self._pauses[key] = min(again * 2, _LONGEST_PAUSE)
                level = logging.DEBUG if isinstance(error, ApiError) and error.code == 409 else logging.WARNING
                log.log(level, "%s: %s %s/%s: %s", self.manager, *key, error)
            if again is not None:
                loop.call_later(again, self.enqueue, key)

    async def _follow(self, kind: Kind) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                listed = await self.api.list(kind)
                pause = _FIRST_PAUSE
                self._replace(kind.kind, listed["items"])
                self._synced[kind.kind].set()
                version = listed["metadata"]["resourceVersion"]
                while True:
                    async with contextlib.aclosing(self.api.watch(kind, version)) as events:
                        async for type_, body in events:
                            version = body["metadata"]["resourceVersion"]
                            if type_ == "DELETED":
                                self._forget(kind.kind, body)
                            elif type_ != "BOOKMARK":
                                self._remember(kind.kind, body)
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.debug("%s: watch of %s: %s", self.manager, kind.plural, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _replace(self, kind: str, items: list[Body]) -> None:
        listed = {_name(body) for body in items}
        for key in [key for key in self.cache if key[0] == kind and key[1:] not in listed]:
            self._forget(kind, self.cache[key])
        for body in items:
            self._remember(kind, body)

    def _remember(self, kind: str, body: Body) -> None:
        key = (kind, *_name(body))
        old = self.cache.get(key)
        if old is not None and _version(old) > _version(body) and old["metadata"]["uid"] == body["metadata"]["uid"]:
            return  # the watch is behind an answer that we already have
        self.cache[key] = body
        self._wake(kind, body)

    def _forget(self, kind: str, body: Body) -> None:
        self.cache.pop((kind, *_name(body)), None)
        self._wake(kind, body)

    def _wake(self, kind: str, body: Body) -> None:
        namespace, name = _name(body)
        if any(kind == primary.kind for primary in self.primaries):
            self.enqueue((kind, namespace, name))
        for reference in body["metadata"].get("ownerReferences", ()):
            if any(reference["kind"] == primary.kind for primary in self.primaries):
                self.enqueue((reference["kind"], namespace, reference["name"]))


def _name(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _version(body: Body) -> int:
    return int(body["metadata"]["resourceVersion"])  # opaque by contract, a number on every server there is


def reference(owner: Body) -> Body:
    """The controller reference to put on a child."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def set_condition(conditions: list[Body], new: dict[str, Any], *, now: str) -> None:
    """Put a condition into a list; its transition time moves only when its status does."""
    for old in conditions:
        if old["type"] == new["type"]:
            if old["status"] != new["status"]:
                old["lastTransitionTime"] = now
            old.update(new)
            return
    conditions.append({"lastTransitionTime": now, **new})
