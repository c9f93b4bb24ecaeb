"""A transport for reflectors that answers by a script, in virtual time; what a reflector then says, in short words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitops.cluster.collection import Collection
from gitops.cluster.errors import ApiError, RequestFailed, classify, unreachable
from gitops.cluster.reflecting import Changed, Deleted, Event, Fresh, Reflector, Stale, Synced, Vanished
from gitops.model.identity import GroupVersionKind

PATH = "/apis/x.example/v1/things"
GVK = GroupVersionKind("x.example", "v1", "Thing")


def thing(name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **more}


def status(code: int, reason: str = "") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "scripted"}


@dataclass
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status < 300

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError:
        return classify(self.status, self.headers, self.body, resource=resource, applying=applying)


def page(*items: dict[str, Any], version: int = 10, token: str = "") -> Answer:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return Answer(200, json.dumps({"kind": "ThingList", "metadata": metadata, "items": items}).encode())


def refusal(code: int, reason: str = "", **headers: str) -> Answer:
    return Answer(code, json.dumps(status(code, reason)).encode(), headers)


@dataclass
class Lines:
    """A watch: its lines, each after so many seconds, and how it ends: cleanly, silently, broken or not at all."""

    lines: tuple[tuple[float, str, dict[str, Any]], ...] = ()
    end: str = "clean"
    after: float = 10.0


def watch(*events: tuple[str, dict[str, Any]], end: str = "clean", after: float = 10.0, pause: float = 0.0) -> Lines:
    return Lines(tuple((pause, kind, obj) for kind, obj in events), end, after)


OPEN = watch(end="hang")
"""A watch on which nothing ever comes, not even the silence limit of the transport."""


@dataclass
class Call:
    at: float
    query: dict[str, str]
    accept: str

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


class Script:
    """Answers calls one after the other with what it was given, and hangs after that."""

    def __init__(self, *steps: Answer | Lines | RequestFailed) -> None:
        self.steps = list(steps)
        self.calls: list[Call] = []
        self.open = 0

    async def _next(self, query: Mapping[str, str] | None, accept: str) -> Answer | Lines:
        self.calls.append(Call(asyncio.get_running_loop().time(), dict(query or {}), accept))
        if not self.steps:
            await asyncio.get_running_loop().create_future()
        step = self.steps.pop(0)
        if isinstance(step, RequestFailed):
            raise step
        return step

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "",
        timeout: float | None = None,
        verb: str = "",
    ) -> Answer:
        assert (method, path, verb) == ("GET", PATH, "list")
        step = await self._next(query, accept)
        assert isinstance(step, Answer), f"a list was asked for, the script has {step}"
        return step

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "",
        silence_limit: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        step = await self._next(query, accept)
        if isinstance(step, Answer):
            raise RequestFailed(step.error())
        self.open += 1
        try:
            yield self._lines(step, silence_limit or 0)
        finally:
            self.open -= 1

    async def _lines(self, step: Lines, silence_limit: float) -> AsyncIterator[bytes]:
        for pause, kind, obj in step.lines:
            await asyncio.sleep(pause)
            yield json.dumps({"type": kind, "object": obj}).encode() if kind != "RAW" else obj["text"].encode()
        if step.end == "hang":
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(silence_limit if step.end == "silence" else step.after)
        if step.end == "silence":
            raise RequestFailed(unreachable("no answer in time", reason="Silent"))
        if step.end == "broken":
            raise RequestFailed(unreachable("reset", reason="Broken"))

    @property
    def lists(self) -> list[Call]:
        return [call for call in self.calls if not call.is_watch]

    @property
    def watches(self) -> list[Call]:
        return [call for call in self.calls if call.is_watch]


def reflector(script: Script, **options: Any) -> Reflector:
    options.setdefault("rng", random.Random(7))
    options.setdefault("clock", lambda: 1000.0 + asyncio.get_running_loop().time())
    form = {name: options.pop(name) for name in ("selector", "metadata_only", "project") if name in options}
    return Reflector(script, Collection(GVK, PATH, **form), **options)


async def read(source: Reflector, *, within: float = 3600.0) -> list[Event]:
    """Events until nothing more comes: the script has run out, or a watch hangs longer than `within` seconds."""
    found: list[Event] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within), contextlib.aclosing(source.events()) as events:
            async for event in events:
                found.append(event)
    return found


def told(events: list[Event]) -> list[str]:
    """Events as short words."""
    words = []
    for event in events:
        match event:
            case Changed(obj):
                words.append(f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}")
            case Deleted(obj):
                words.append(f"-{obj['metadata']['name']}")
            case Vanished(ref, _):
                words.append(f"gone {ref.name}")
            case Synced(objects, _):
                words.append(f"synced {objects}")
            case Stale(_, error):
                words.append(f"stale {error.cls}")
            case Fresh():
                words.append("fresh")
    return words
