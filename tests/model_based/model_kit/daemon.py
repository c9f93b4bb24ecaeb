"""A daemon in a story: the engine as the daemon builds it, on an event loop that goes step by step and can be killed.

Between two steps it stands still like a process that was stopped: whatever it has sent goes on its way, nothing else
happens. Killed, it sends nothing more from one moment to the next; what would run on the way out (the Lease's release,
the last status) finds every connection gone.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controlplane_kit.faultproxy import FaultProxy
from fleet_kit.fixtures import OPTIONS

from gitops.cluster.connection import Connection
from gitops.cluster.errors import RequestFailed, unreachable
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, Commit
from gitops.plan.pruning import FuseLimits
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.connecting import FolderConnector
from gitops.reconcile.context import Context
from gitops.reconcile.engine import Engine
from gitops.reconcile.fights import FightLimits
from gitops.reconcile.state import Assignment
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.sources import GitSource
from gitops.source.status_branch import Author
from model_kit.declaring import CLUSTER, DEAD
from model_kit.timing import StepLoop, StoryTime

# A story is long on drifts: limits that ask people are proved elsewhere.
STORY_OPTIONS = replace(
    OPTIONS,
    fuse=FuseLimits(count=10_000, share=1.0),
    fights=FightLimits(limit=10_000),
    first_contact=60.0,
    shutdown=1.0,
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that leaves the daemon, with what it had to do then."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    assignment: Assignment | None

    @property
    def is_write(self) -> bool:
        return self.method != "GET" and "dryRun" not in self.query

    @property
    def is_lease(self) -> bool:
        return "/leases" in self.path


class Daemon:
    """`sending` is told of every request before it leaves."""

    def __init__(
        self,
        name: str,
        *,
        url: str,
        folder: Path,
        proxy: FaultProxy,
        time: StoryTime,
        rng: random.Random,
        sending: Callable[[Daemon, Sent], None],
    ) -> None:
        self.name = name
        self.loop = StepLoop(time, hanging=proxy.frozen)
        self.dead = False
        self._sending = sending
        self._connections: list[Connection] = []
        credentials = folder / "credentials"
        credentials.mkdir(parents=True, exist_ok=True)
        kubeconfig = proxy.kubeconfig.read_text()
        (credentials / CLUSTER).write_text(kubeconfig)
        (credentials / DEAD).write_text(kubeconfig.replace(proxy.url, "https://127.0.0.1:9"))
        self._source = _Source(self, lambda: Mirror(folder / "mirror", Remote(url, "main", CredentialFiles())))
        context = Context(
            options=replace(STORY_OPTIONS, identity=name),
            registry=shipped()[0],
            mappings=shipped()[1],
            clock=time.now,
            wall=time.wall,
            awake=time.now,
            rng=rng,
        )
        self.engine = Engine(self._source, _Connector(self, credentials), context)
        self._stop = asyncio.Event()
        self._main = self.loop.create_task(self._life())

    async def _life(self) -> None:
        await self._source.open()
        try:
            await self.engine.run(self._stop)
        finally:
            await self._source.close()

    # -- its life ----------------------------------------------------------------------------------------------------

    def steps(self, rounds: int, *, leaps: int | None = None) -> None:
        """Go on for so many rounds of its loop, and not longer than for so many leaps. Raises what ended it."""
        self.loop.steps(rounds, leaps=leaps)
        if self._main.done():
            self._main.result()
            raise AssertionError(f"daemon {self.name} ended")

    def stop(self) -> None:
        """As SIGTERM: it ends by itself."""
        self._stop.set()
        self.loop.run_until_complete(self._main)
        self._bury()

    def kill(self) -> None:
        """As SIGKILL, at whatever it waits for now."""
        self.dead = True
        _abort(self.loop)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(self._main, return_exceptions=True))
        self._bury()

    def _bury(self) -> None:
        self.loop.run_until_complete(self._source.let_go())
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self._source.forget()
        _abort(self.loop)
        self.loop.close()

    # -- what it is about --------------------------------------------------------------------------------------------

    @property
    def worker(self) -> ClusterWorker | None:
        return self.engine.workers.get(ClusterName(CLUSTER))

    @property
    def assignment(self) -> Assignment | None:
        return None if self.worker is None else self.worker.state.assignment

    def idle_at(self, head: str) -> bool:
        """Has it nothing more to do about this head, as far as it knows?"""
        worker, assignment = self.worker, self.assignment
        return (
            worker is not None
            and not self.engine.looking
            and not worker.busy
            and not self.engine.status_pending
            and not self.loop.under_way
            and assignment is not None
            and assignment.commit == Commit(head)
        )

    # -- what leaves it ----------------------------------------------------------------------------------------------

    def watch(self, connection: Connection) -> None:
        """See what this connection sends, and count what is under way."""
        self._connections.append(connection)
        send, open_stream = connection._send, connection._open_stream

        async def counted(work: Any) -> Any:
            self.loop.calls += 1
            try:
                return await work
            finally:
                self.loop.calls -= 1

        async def sending(method: str, path: str, query: Any, headers: Any, body: Any, *more: Any) -> Any:
            self.check_alive()
            raw = b"" if body is None else body._value
            self._sending(self, Sent(method, path, dict(query or {}), raw, self.assignment))
            return await counted(send(method, path, query, headers, body, *more))

        async def opening(path: str, *more: Any) -> Any:
            self.check_alive()
            return await counted(open_stream(path, *more))

        connection._send, connection._open_stream = sending, opening  # type: ignore[method-assign]

    def check_alive(self) -> None:
        if self.dead:
            raise RequestFailed(unreachable("killed"))


class _Connector(FolderConnector):
    def __init__(self, daemon: Daemon, folder: Path) -> None:
        super().__init__(folder)
        self._daemon = daemon

    async def open(self, cluster: Cluster) -> Connection:
        connection = await super().open(cluster)
        if cluster.metadata.name == CLUSTER:
            self._daemon.watch(connection)
        return connection


class _Source(GitSource):
    """Counts calls on the thread of libgit2; none begins once the daemon is dead."""

    def __init__(self, daemon: Daemon, open_mirror: Callable[[], Mirror]) -> None:
        super().__init__(lambda: self._made(open_mirror()), author=Author())
        self._daemon = daemon
        self._mirrors: list[Mirror] = []

    def _made(self, mirror: Mirror) -> Mirror:
        self._mirrors.append(mirror)
        return mirror

    async def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if self._daemon.dead:
            raise SourceError(SourceErrorClass.INTERRUPTED, "killed")
        self._daemon.loop.threads += 1
        try:
            return await super().call(function, *args, **kwargs)
        finally:
            self._daemon.loop.threads -= 1

    async def let_go(self) -> None:
        """As the end of a process does: no lock on the state folder stays. A call on the thread ends first."""
        for mirror in self._mirrors:
            mirror.interrupt()
        await self._worker.close(timeout=0.0)
        self._worker._thread.join()
        for mirror in self._mirrors:
            mirror.close()

    def forget(self) -> None:
        """libgit2 keeps packs open for the whole process, by their path: the next daemon would read the files of before
        they were spoiled."""
        for mirror in self._mirrors:
            mirror._store.repo.free()
            mirror._store._reader.free()


_shipped: list[tuple[OperatorRegistry, Mappings]] = []


def shipped() -> tuple[OperatorRegistry, Mappings]:
    """Read once: it is data that never changes."""
    if not _shipped:
        _shipped.append((OperatorRegistry.shipped(), Mappings.shipped()))
    return _shipped[0]


def _abort(loop: asyncio.SelectorEventLoop) -> None:
    """End all connections as the kernel does for a process that is gone."""
    for transport in list(getattr(loop, "_transports", {}).values()):
        transport.abort()


def spoil(folder: Path, how: str, rng: random.Random) -> None:
    """What happens to the state folder while no daemon runs: "kept", "lost", or "corrupt" files in it."""
    mirror = folder / "mirror"
    if how == "lost":
        shutil.rmtree(mirror, ignore_errors=True)
    elif how == "corrupt" and mirror.is_dir():
        files = sorted(p for p in mirror.rglob("*") if p.is_file() and not p.is_symlink() and p.name != "lock")
        for file in rng.sample(files, k=min(len(files), 3)):
            raw = file.read_bytes()
            file.unlink()  # a file that was cut short while it is mapped kills this process
            file.write_bytes(raw[: rng.randrange(len(raw) + 1)] + b"\0garbage")
