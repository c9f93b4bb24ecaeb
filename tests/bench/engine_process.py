"""The engine alone in a process, so that its CPU time and memory are its own; driven by lines on stdin.

Commands: `start`, `fetch`, `settled COMMIT [CLUSTER…]`, `report`, `clear`, `dump FILE`, `follow`, `seen FILE`, `stop`.
Each but `fetch` is answered by one line of JSON on stdout. Times are of the monotonic clock, which all processes of a
machine share. Every call to a cluster is written down with its body, watches and the Lease apart; that costs
microseconds. After `follow`, so is when every event of a watch had been taken in.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gitops.cluster.access import freeze_libraries
from gitops.cluster.connection import Connection, Response
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.context import Context
from gitops.reconcile.engine import Engine
from gitops.reconcile.options import EngineOptions
from gitops.reconcile.outcomes import SyncState
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.sources import GitSource
from gitops.source.status_branch import Author

PAUSE = 0.005
"""Seconds between looks at whether the engine has settled."""


class Call(msgspec.Struct, array_like=True):
    """One call as it went out; times in seconds of the monotonic clock."""

    verb: str
    method: str
    path: str
    query: dict[str, str]
    content_type: str
    accept: str
    body: bytes | None
    began: float
    ended: float = 0.0
    status: int = 0


class Metadata(msgspec.Struct):
    resourceVersion: str = ""


class Watched(msgspec.Struct):
    metadata: Metadata


class Line(msgspec.Struct):
    """One line of a watch."""

    object: Watched


decode_line = msgspec.json.Decoder(Line).decode


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.lease = 0
        self.seen: dict[str, float] | None = None  # by resourceVersion, when its event was taken in; None: not followed

    def begin(self, call: Call) -> Call:
        if "/leases/" in call.path or call.path.endswith("/leases"):
            self.lease += 1
        else:
            self.calls.append(call)
        return call

    async def following(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for line in lines:
            yield line
            if self.seen is not None:  # whoever asks for the next line has taken this one in
                self.seen[decode_line(line).object.metadata.resourceVersion] = time.monotonic()

    def obey(self, line: list[str]) -> None:
        match line:
            case ["clear"]:
                self.calls.clear()
                self.lease = 0
            case ["follow"]:
                self.seen = {}
            case ["dump", file]:
                Path(file).write_bytes(msgspec.msgpack.encode(self.calls))
            case ["seen", file]:
                Path(file).write_text(json.dumps(self.seen))
            case _:
                raise ValueError(line)


class RecordingConnection(Connection):
    recorder: Recorder

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: Any,
        timeout: float | None,
        verb: str,
        limit: int | None,
    ) -> Response:
        sent = "" if body is None else body.content_type
        text = None if body is None else body.decode().encode()
        call = self.recorder.begin(
            Call(verb, method, path, dict(query or {}), sent, headers.get("Accept", ""), text, time.monotonic())
        )
        response = await super()._send(method, path, query, headers, body, timeout, verb, limit)
        call.ended, call.status = time.monotonic(), response.status
        return response

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with (
            super().stream(path, **options) as lines,
            contextlib.aclosing(self.recorder.following(lines)) as followed,
        ):
            yield followed


class Connector:
    def __init__(self, credentials: Path, recorder: Recorder) -> None:
        self._credentials = credentials
        self._recorder = recorder

    async def open(self, cluster: Cluster) -> Connection:
        kubeconfig = self._credentials / cluster.spec.credentials
        made = await RecordingConnection.open(kubeconfig, name=ClusterName(cluster.metadata.name))
        assert isinstance(made, RecordingConnection)
        made.recorder = self._recorder
        return made

    def changed(self, cluster: Cluster) -> bool:
        return False


def settled(engine: Engine, commit: str, clusters: Collection[str]) -> bool:
    """Is every unit as `commit` declares, on these clusters (none: on all)?"""
    workers = [w for name, w in engine.workers.items() if not clusters or name in clusters]
    return (
        not engine.looking
        and bool(workers)
        and all(w.state.assignment is not None and w.state.assignment.commit == commit for w in workers)
        and not any(w.busy for w in workers)
        and all(u.outcome.state is SyncState.SYNCED for w in workers for u in w.state.units.values())
    )


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(recorder: Recorder) -> dict[str, Any]:
    calls = recorder.calls
    writes = [c for c in calls if c.method != "GET" and "dryRun" not in c.query]
    return {
        "cpu": time.process_time(),
        "rss": resident(),
        "calls": len(calls),
        "verbs": dict(Counter(c.verb for c in calls)),
        "writes": len(writes),
        "failed": sum(not 200 <= c.status < 300 for c in calls if c.ended),
        "lists": dict(Counter(c.path for c in calls if c.verb == "list")),
        "first_write": min((c.began for c in writes), default=0.0),
        "last_write": max((c.ended for c in writes), default=0.0),
        "lease": recorder.lease,
    }


async def main(url: str, credentials: Path, mirror: Path) -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    recorder, stop = Recorder(), asyncio.Event()
    answer(rss=resident(), cpu=time.process_time())
    while (await commands.readline()).strip() != b"start":
        pass
    began = time.monotonic()
    source = GitSource(lambda: Mirror(mirror, Remote(url, "main", CredentialFiles())), author=Author())
    await source.open()
    await asyncio.to_thread(freeze_libraries)  # as the daemon does
    context = Context(
        EngineOptions(identity=f"bench-{os.getpid()}"),
        OperatorRegistry.shipped(),
        Mappings.shipped(),
        time.monotonic,
        time.time,
    )
    engine = Engine(source, Connector(credentials, recorder), context)
    running = asyncio.create_task(engine.run(stop))
    answer(began=began)
    while (line := (await commands.readline()).decode().split()) and line[0] != "stop":
        match line:
            case ["fetch"]:
                engine.request_fetch()
            case ["settled", commit, *clusters]:
                while not settled(engine, commit, clusters):
                    if running.done():
                        await running
                    await asyncio.sleep(PAUSE)
                answer(at=time.monotonic(), **report(recorder))
            case ["report"]:
                answer(at=time.monotonic(), **report(recorder))
            case _:
                recorder.obey(line)
                answer()
    stop.set()
    await running
    await source.close()
    answer(at=time.monotonic())


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    profile = os.environ.get("BENCH_PROFILE")
    work = main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    if profile:
        with cProfile.Profile() as profiler:
            asyncio.run(work)
        profiler.dump_stats(f"{profile}.{os.getpid()}")
    else:
        asyncio.run(work)
