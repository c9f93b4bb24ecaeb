"""The whole engine against real API servers and a real git server; what tests say is what people would see.

`fleet` gives a running engine over a git repository and any number of clusters, each behind a fault proxy that writes
down every call. Waiting is always for a condition that can be seen from outside, never for a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import ApiServer
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Request
from controlplane_kit.gitserver import GitServer, Repository

from gitops.cluster.connection import ConnectionSettings
from gitops.model.identity import ClusterName, UnitKey
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.connecting import FolderConnector
from gitops.reconcile.context import Context
from gitops.reconcile.engine import Engine
from gitops.reconcile.options import EngineOptions
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.sources import GitSource
from gitops.source.status_branch import Author

TEMPLATE = Path(__file__).parents[3] / "repo-template"
STATUS = "gitops-status"
OPTIONS = EngineOptions(identity="test", status_debounce=0.05, status_interval=0.2, poll_interval=3600, poll_jitter=0)


async def until(condition: Callable[[], Any], what: str, *, timeout: float = 30) -> Any:
    """Wait until the condition is true; its value. Fails with what was waited for."""
    ends = time.monotonic() + timeout
    while True:
        value = await asyncio.to_thread(condition)
        if value:
            return value
        if time.monotonic() > ends:
            pytest.fail(f"waited {timeout} s for {what}")
        await asyncio.sleep(0.02)


@dataclasses.dataclass
class Fleet:
    """A repository, clusters by name, and the engine between them."""

    repo: Repository
    proxies: Mapping[str, FaultProxy]
    apis: Mapping[str, ApiServer]
    engine: Engine
    task: asyncio.Task[None]
    stop: asyncio.Event
    source: GitSource
    credentials: Path  # the folder of kubeconfigs

    def outcome(self, unit: str) -> UnitOutcome:
        """How a unit stands, by its key as text; Pending while it is not known."""
        key = UnitKey.parse(unit)
        worker = self.engine.workers.get(key.cluster)
        state = None if worker is None else worker.state.units.get(key)
        return UnitOutcome(SyncState.PENDING, "not known") if state is None else state.outcome

    def push(self, files: Mapping[str, str | None], message: str = "change", **kwargs: Any) -> str:
        """Commit to the watched branch and send the push signal."""
        commit = self.repo.commit(files, message, **kwargs)
        self.engine.request_fetch()
        return commit

    async def settled(self, commit: str | None = None, *, timeout: float = 30) -> None:
        """Until every unit is as the head declares, on every cluster."""
        wanted = commit or self.repo.head()

        def done() -> bool:
            workers = list(self.engine.workers.values())
            fine = (SyncState.SYNCED, SyncState.RETAINED)
            return (
                not self.engine.looking
                and bool(workers)
                and all(w.state.assignment is not None and w.state.assignment.commit == wanted for w in workers)
                and all(u.outcome.state in fine for w in workers for u in list(w.state.units.values()))
                and not any(w.busy for w in workers)
            )

        try:
            await until(done, f"all units to be as {wanted} declares", timeout=timeout)
        except BaseException:
            for name, worker in self.engine.workers.items():
                for key, unit in worker.state.units.items():
                    print(name, key, unit.outcome)
            print(self.engine.health())
            raise

    async def settled_on(self, cluster: str) -> None:
        """Until every unit of this cluster is as the head declares, whatever the others do."""

        def done() -> bool:
            worker = self.engine.workers.get(ClusterName(cluster))
            return (
                not self.engine.looking
                and worker is not None
                and worker.state.assignment is not None
                and worker.state.assignment.commit == self.repo.head()
                and all(u.outcome.state is SyncState.SYNCED for u in list(worker.state.units.values()))
                and not worker.busy
            )

        await until(done, f"the units on {cluster} to be as declared")

    def status(self, path: str) -> dict[str, Any]:
        """A file of the status branch, decoded; {} while it does not exist."""
        text = self.repo.read(path, branch=STATUS)
        return yaml.safe_load(text) if text else {}

    def calls(self, cluster: str) -> list[Request]:
        """Calls to the cluster since the last clear, without watches and the Lease."""
        return self.proxies[cluster].calls()

    def writes(self, cluster: str) -> list[Request]:
        """Those that changed something, or tried to."""
        return self.proxies[cluster].writes()

    def clear(self) -> None:
        for proxy in self.proxies.values():
            proxy.clear()


@pytest.fixture(scope="module")
def planes(
    tmp_path_factory: pytest.TempPathFactory, controlplane_binaries: Any
) -> Iterator[Callable[[str], ControlPlane]]:
    """Control planes of this module, made on demand by name; a cluster can be claimed by one repository only, so they
    are shared with no other module."""
    made: dict[str, ControlPlane] = {}

    def plane(name: str, **options: Any) -> ControlPlane:
        if name not in made:
            folder = tmp_path_factory.mktemp(f"plane-{name}")
            made[name] = ControlPlane(folder, binaries=controlplane_binaries, **options).start()
        return made[name]

    yield plane
    for one in made.values():
        one.stop()


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    """One bare control plane of the module, forgotten by earlier tests."""
    made = planes("one")
    forget(made)
    return made


def forget(api: ApiServer) -> None:
    """Give up claim, Leases and parents of an earlier test, whose repository is gone."""
    for kind in ("configmaps", "leases"):
        group = "/apis/coordination.k8s.io/v1" if kind == "leases" else "/api/v1"
        api.request("DELETE", f"{group}/namespaces/gitops-system/{kind}")


StartFleet = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def fleet(tmp_path: Path, repo: Repository) -> AsyncIterator[StartFleet]:
    """`await fleet(repo, {"dgx-a": api}, …)` starts an engine; it is stopped at the end of the test, before the git
    server is."""
    running: list[tuple[Fleet, GitSource]] = []
    with contextlib.ExitStack() as stack:

        async def start(
            repo: Repository,
            apis: Mapping[str, ApiServer],
            *,
            proxies: Mapping[str, FaultProxy] | None = None,
            options: EngineOptions = OPTIONS,
            limits: ConnectionSettings | None = None,
            name: str = "one",
        ) -> Fleet:
            credentials = tmp_path / f"credentials-{name}"
            credentials.mkdir(exist_ok=True)
            own = dict(proxies or {})
            for cluster, api in apis.items():
                if cluster not in own:
                    own[cluster] = stack.enter_context(FaultProxy(api, tmp_path / f"proxy-{name}-{cluster}"))
                (credentials / cluster).write_bytes(own[cluster].kubeconfig.read_bytes())
            remote = Remote(repo.url, "main", CredentialFiles())
            source = GitSource(lambda: Mirror(tmp_path / f"mirror-{name}", remote), author=Author())
            await source.open()
            context = Context(options, OperatorRegistry.shipped(), Mappings.shipped(), time.monotonic, time.time)
            engine, stop = Engine(source, FolderConnector(credentials, settings=limits), context), asyncio.Event()
            task = asyncio.create_task(engine.run(stop))
            made = Fleet(repo, own, apis, engine, task, stop, source, credentials)
            running.append((made, source))
            return made

        yield start
        for made, source in running:
            made.stop.set()
            await made.task
            await source.close()


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    """An empty repository on a git server over HTTP."""
    with GitServer(tmp_path / "git") as server:
        yield server.create()


REPOSITORY = """\
apiVersion: gitops/v1alpha1
kind: Repository
metadata:
  name: demo
"""


def cluster(name: str, **spec: Any) -> str:
    """A Cluster document with credentials of its own name."""
    body = {
        "apiVersion": "gitops/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"credentials": name, **spec},
    }
    return yaml.safe_dump(body)


def bundle(name: str, *, clusters: tuple[str, ...] = (), **spec: Any) -> str:
    """A Bundle document over all files of its manifests folder."""
    body = {
        "apiVersion": "gitops/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": name},
        "spec": {"manifests": ["manifests/"], **({"clusters": list(clusters)} if clusters else {}), **spec},
    }
    return yaml.safe_dump(body)


def config_map(name: str, namespace: str, **data: str) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
    )


def namespace_yaml(name: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def template_files() -> dict[str, str]:
    """repo-template as files of a commit."""
    return {p.relative_to(TEMPLATE).as_posix(): p.read_text() for p in sorted(TEMPLATE.rglob("*")) if p.is_file()}


def one_bundle(namespace: str, value: str = "1") -> dict[str, str]:
    """The smallest repository: cluster `one`, and bundle `base` with a namespace and ConfigMap `settings`."""
    return {
        "gitops.yaml": REPOSITORY,
        "clusters/one.yaml": cluster("one"),
        "bundles/base/bundle.yaml": bundle("base"),
        "bundles/base/manifests/namespace.yaml": namespace_yaml(namespace),
        "bundles/base/manifests/settings.yaml": config_map("settings", namespace, key=value),
    }
