"""An independent witness: watches kinds in a namespace and says when a value was seen live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from bare_process import session
from controlplane_kit.client import ApiServer
from fleet_repo import KINDS, Kind
from places import certificates


class Witness:
    """`await seen(kind, name, value)`: the time (monotonic) when that value was live, after `expect` asked for it."""

    def __init__(self, url: str, http: aiohttp.ClientSession, namespace: str, kinds: Sequence[Kind]) -> None:
        self.url = url
        self.http = http
        self.namespace = namespace
        self.kinds = kinds
        self._wanted: dict[tuple[str, str], tuple[list[Any], asyncio.Future[float]]] = {}
        self._opened = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []

    def expect(self, kind: Kind, name: str, *values: Any) -> asyncio.Future[float]:
        """Done when the field took these values one after another; gives the time of the last."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._wanted[kind.kind, name] = ([*values], future)
        return future

    async def edit(self, kind: Kind, name: str, value: Any) -> float:
        """Change the field as a foreign writer; gives the time of the answer."""
        target = f"{self.url}{kind.collection(self.namespace)}/{name}"
        headers = {"Content-Type": "application/merge-patch+json"}
        body = msgspec.json.encode(kind.patch(value))
        async with self.http.patch(target, data=body, headers=headers, params={"fieldManager": "somebody"}) as answer:
            await answer.read()
            answer.raise_for_status()
        return time.monotonic()

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in self.kinds]
        for _ in self.kinds:
            await self._opened.acquire()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: Kind) -> None:
        base = f"{self.url}{kind.collection(self.namespace)}"
        async with self.http.get(base, params={"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        query = {"watch": "1", "resourceVersion": version}
        async with self.http.get(base, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            self._opened.release()
            async for line in answer.content:
                at = time.monotonic()
                obj = msgspec.json.decode(line)["object"]
                wanted = self._wanted.get((kind.kind, obj["metadata"]["name"]))
                if wanted is None or not wanted[0] or kind.value(obj) != wanted[0][0]:
                    continue
                wanted[0].pop(0)
                if not wanted[0] and not wanted[1].done():
                    wanted[1].set_result(at)


@asynccontextmanager
async def witness(api: ApiServer, namespace: str, kinds: Sequence[Kind] = KINDS) -> AsyncIterator[Witness]:
    async with session(certificates(api)) as http:
        made = Witness(api.url, http, namespace, kinds)
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
