"""Claim, Lease, system namespaces and cluster identity on a real API server of the test's own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.plugin import PrivateApi

from gitops.cluster.claims import Claim, Claimed, ClaimRefused, claim, cluster_uid, ensure_namespaces, give_up
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.leases import ClusterLease, LeaseKeeper, LeasePhase
from gitops.cluster.objects import Objects
from gitops.model.identity import ClusterName, ReconcilerName

CLUSTER = ClusterName("dgx-a")
FLEET = Claim(ReconcilerName("fleet"), "https://git.example/fleet.git", "nca-1")
CLAIM_PATH = "/api/v1/namespaces/gitops-system/configmaps/gitops-claim"


@pytest.fixture
def plane(private_api: PrivateApi) -> ControlPlane:
    return private_api()


@pytest_asyncio.fixture
async def objects(plane: ControlPlane, connect: Callable[..., Awaitable[Connection]]) -> Objects:
    connection = await connect(plane.kubeconfig)
    return Objects(connection, Discovery(connection))


async def test_claiming_a_cluster(plane: ControlPlane, objects: Objects) -> None:
    uid = await cluster_uid(objects)
    assert uid == plane.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]

    # Without gitops-system there is nothing to claim in.
    early = await claim(objects, FLEET, cluster=CLUSTER, manager="gitops-fleet")
    assert isinstance(early, ApiError)
    assert (early.cls, early.waits_for) == (ErrorClass.WAITING, "namespace gitops-system")

    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    assert await ensure_namespaces(objects, manager="gitops-fleet", preflight_labels=labels) is None
    preflight = plane.get("/api/v1/namespaces/gitops-preflight")["metadata"]["labels"]
    assert preflight["pod-security.kubernetes.io/enforce"] == "restricted"
    writes = objects.connection.stats.requests["create"]
    assert await ensure_namespaces(objects, manager="gitops-fleet", preflight_labels=labels) is None
    assert objects.connection.stats.requests["create"] == writes  # nothing to do, nothing written
    plane.request(
        "PATCH",
        "/api/v1/namespaces/gitops-preflight",
        {"metadata": {"labels": dict.fromkeys(labels)}},
        content_type=MERGE,
    )
    assert await ensure_namespaces(objects, manager="gitops-fleet", preflight_labels=labels) is None
    assert plane.get("/api/v1/namespaces/gitops-preflight")["metadata"]["labels"] == preflight

    assert await claim(objects, FLEET, cluster=CLUSTER, manager="gitops-fleet") == Claimed(FLEET, new=True)
    unlabelled = {"metadata": {"labels": {"gitops/reconciler": None}}}
    plane.request("PATCH", CLAIM_PATH, unlabelled, content_type=MERGE)
    assert await claim(objects, FLEET, cluster=CLUSTER, manager="gitops-fleet") == Claimed(FLEET)
    assert plane.get(CLAIM_PATH)["metadata"]["labels"]["gitops/reconciler"] == "fleet", "by which it is watched"
    assert plane.get(CLAIM_PATH)["data"]["cluster"] == "dgx-a"

    for other in (
        Claim(ReconcilerName("fleet"), "https://git.example/other.git", "nca-1"),
        Claim(ReconcilerName("fleet"), "https://git.example/fleet.git", "nca-2"),
        Claim(ReconcilerName("other"), "https://git.example/fleet.git", "nca-1"),
    ):
        refused = await claim(objects, other, cluster=CLUSTER, manager="gitops-fleet")
        assert isinstance(refused, ClaimRefused)
        assert refused.held == FLEET
        assert "https://git.example/fleet.git" in refused.sentence
        assert await give_up(objects, other, cluster=CLUSTER) is None
        assert plane.get(CLAIM_PATH) is not None, "nobody gives up what is another's"
    plane.request("PATCH", CLAIM_PATH, {"data": {"repository": None}}, content_type=MERGE)
    unreadable = await claim(objects, FLEET, cluster=CLUSTER, manager="gitops-fleet")
    assert isinstance(unreadable, ClaimRefused)  # never "free" (I1)
    assert unreadable.held is None
    assert await give_up(objects, FLEET, cluster=CLUSTER) is None
    assert plane.get(CLAIM_PATH) is not None
    plane.request("PATCH", CLAIM_PATH, {"data": {"repository": FLEET.repository}}, content_type=MERGE)
    assert await give_up(objects, FLEET, cluster=CLUSTER) is None
    assert plane.get(CLAIM_PATH) is None
    assert await give_up(objects, FLEET, cluster=CLUSTER) is None


async def test_a09_of_several_that_claim_at_once_one_holds_and_the_others_know_it(
    plane: ControlPlane, objects: Objects
) -> None:
    await ensure_namespaces(objects, manager="m")
    other = Claim(ReconcilerName("other"), "https://git.example/other.git")
    answers = await asyncio.gather(
        *(claim(objects, c, cluster=CLUSTER, manager="m") for c in (FLEET, other, FLEET, other))
    )
    held = plane.get(CLAIM_PATH)["data"]["reconciler"]
    for wanted, answer in zip(("fleet", "other", "fleet", "other"), answers, strict=True):
        assert isinstance(answer, Claimed if wanted == held else ClaimRefused)


async def test_a_terminating_system_namespace_is_waited_for(plane: ControlPlane, objects: Objects) -> None:
    await ensure_namespaces(objects, manager="m")
    plane.request("DELETE", "/api/v1/namespaces/gitops-system")
    error = await ensure_namespaces(objects, manager="m")
    assert error is not None
    assert error.cls is ErrorClass.WAITING


@contextlib.asynccontextmanager
async def keeping(keeper: LeaseKeeper) -> AsyncIterator[LeaseKeeper]:
    """Run a keeper in the background; release the Lease at the end."""
    task = asyncio.create_task(keeper.run(), name="lease")
    try:
        yield keeper
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await keeper.release()


async def test_the_lease_on_the_cluster(plane: ControlPlane, objects: Objects) -> None:
    await ensure_namespaces(objects, manager="m")

    def keeper(identity: str) -> LeaseKeeper:
        store = ClusterLease(objects, reconciler=ReconcilerName("fleet"), manager="m")
        return LeaseKeeper(store, identity=identity, unclaimed=True)

    one, two = keeper("one"), keeper("two")
    async with keeping(one):
        async with asyncio.timeout(10):
            await one.wait_for(LeasePhase.HELD)
        await two.step()
        assert (two.state.phase, two.state.holder) == (LeasePhase.STANDBY, "one")
        await one.step()  # a renewal
        assert one.held()
        spec = plane.get("/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases/gitops-fleet")["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 15)
    await two.step()
    assert two.held()
    assert two.state.epoch == 1


async def test_the_preflight_namespace_follows_the_labels_of_the_template(
    plane: ControlPlane, objects: Objects
) -> None:
    """Ours come and go, those of others stay, and what is right is not written."""

    def labels() -> dict[str, str]:
        found: dict[str, str] = plane.get("/api/v1/namespaces/gitops-preflight")["metadata"]["labels"]
        return {key: value for key, value in found.items() if not key.startswith(("kubernetes.io/", "app."))}

    async def ensure(**wanted: str) -> int:
        before = objects.connection.stats.requests["patch"]
        assert await ensure_namespaces(objects, manager="gitops-fleet", preflight_labels=wanted) is None
        return objects.connection.stats.requests["patch"] - before

    await ensure(level="baseline", team="ml")
    plane.kubectl("label", "namespace", "gitops-preflight", "foreign=yes")
    assert await ensure(level="baseline", team="ml") == 0
    assert await ensure(level="restricted") == 1
    assert labels() == {"level": "restricted", "foreign": "yes"}
    assert await ensure(level="restricted") == 0
    assert await ensure() == 1
    assert labels() == {"foreign": "yes"}
    assert await ensure() == 0
