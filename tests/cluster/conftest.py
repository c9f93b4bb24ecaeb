"""What tests of gitops/cluster share: desired objects made by hand, and an applier on the shared API server."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from cluster_kit.live_unit import LiveUnit
from cluster_kit.scripted import Scripted, serve
from cluster_kit.webhook import Webhook, webhook_for
from controlplane_kit.client import ApiFailure, ApiServer

from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.discovery import Discovery
from gitops.manifests.canonical import canonical_json, digest
from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef
from gitops.overlays.provenance import Provenance
from gitops.plan.units import DesiredObject, Stage

DATA = Path(__file__).parent / "data"

MANAGER = "gitops-test"


def make_desired(body: dict[str, Any]) -> DesiredObject:
    """A desired object with this body, as compile would make it."""
    gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    metadata = body["metadata"]
    origin = Origin("manifests/test.yaml", 1)
    return DesiredObject(
        ref=ObjectRef(gvk.group, gvk.kind, metadata.get("namespace", ""), metadata["name"]),
        gvk=gvk,
        payload=msgspec.json.encode(body),
        digest=digest(canonical_json(body)),
        origin=origin,
        provenance=Provenance.of_origin(origin),
        stage=Stage.CONFIG,
    )


@pytest.fixture
def desired() -> Callable[[dict[str, Any]], DesiredObject]:
    return make_desired


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[..., Awaitable[Connection]]]:
    """Opens connections (kubeconfig, settings) that are closed after the test."""
    opened: list[Connection] = []

    async def open_one(kubeconfig: Path, settings: ConnectionSettings | None = None) -> Connection:
        opened.append(await Connection.open(kubeconfig, name=ClusterName("test"), settings=settings))
        return opened[-1]

    yield open_one
    for connection in opened:
        await connection.close()


@pytest_asyncio.fixture
async def connection(shared_api: ApiServer, connect: Callable[..., Awaitable[Connection]]) -> Connection:
    return await connect(shared_api.kubeconfig)


@pytest.fixture
def applier(connection: Connection) -> Applier:
    return Applier(connection, Discovery(connection), manager=MANAGER)


@pytest.fixture
def live_unit(shared_api: ApiServer, applier: Applier, namespace: str) -> LiveUnit:
    """A unit of its own on the shared API server, named as the test's namespace."""
    if shared_api.get("/api/v1/namespaces/gitops-system") is None:
        with contextlib.suppress(ApiFailure):  # another test was first
            shared_api.create_namespace("gitops-system")
    return LiveUnit(shared_api, applier, namespace)


@pytest_asyncio.fixture
async def webhook(shared_api: ApiServer, namespace: str) -> AsyncIterator[Webhook]:
    async with webhook_for(shared_api, namespace) as hook:
        yield hook


@pytest.fixture
def gadgets(shared_api: ApiServer) -> GroupVersionKind:
    """The Gadget kind (data/gadgets.yaml), served by the shared API server."""
    shared_api.create_crds(DATA / "gadgets.yaml")
    return GroupVersionKind("test.gitops.example", "v1", "Gadget")


@pytest_asyncio.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Scripted]:
    script = Scripted(tmp_path)
    runner = await serve(script)
    yield script
    await runner.cleanup()


@pytest_asyncio.fixture
async def other_scripted(tmp_path: Path) -> AsyncIterator[Scripted]:
    script = Scripted(tmp_path)
    runner = await serve(script)
    yield script
    await runner.cleanup()
