"""What is certain about members on a real API server: kinds that come, go, and stand behind a server that is down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from controlplane_kit.client import ApiFailure, ApiServer

from gitops.cluster.errors import ApiError
from gitops.cluster.instances import Instances, instances
from gitops.cluster.members import read_member
from gitops.cluster.namespaces import Contents, NamespaceContents
from gitops.cluster.objects import Objects
from gitops.cluster.volumes import reclaim_policy
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.parents import Member

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "members.example"


def definition(name: str, group: str = GROUP) -> dict[str, Any]:
    kind = name.capitalize()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "singular": name, "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def member(kind: str, name: str, *, group: str = GROUP, namespace: str = "default") -> Member:
    return Member(ObjectRef(group, kind, namespace, name), "v1")


async def until(condition: Callable[[], Any]) -> Any:
    for _ in range(500):
        with contextlib.suppress(ApiFailure):  # "storage is (re)initializing": a changed kind is not ready yet
            if value := condition():
                return value
        await asyncio.sleep(0.02)
    pytest.fail("waited in vain")


@pytest.fixture
def gone_after(shared_api: ApiServer) -> Iterator[Callable[[str], None]]:
    """Paths that are deleted at the end."""
    paths: list[str] = []
    yield paths.append
    for path in paths:
        if shared_api.get(path) is not None:
            shared_api.request("DELETE", path)


async def test_r08_a_member_of_a_kind_that_went_is_gone_and_of_one_that_is_not_served_is_not(
    shared_api: ApiServer, applier: Objects, gone_after: Callable[[str], None]
) -> None:
    made = definition("lamp")
    path = f"{CRDS}/{made['metadata']['name']}"
    gone_after(path)
    shared_api.create_crd_objects([made])
    lamps = f"/apis/{GROUP}/v1/namespaces/default/lamps"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Lamp", "metadata": {"name": "one"}}
    shared_api.request("POST", lamps, body)
    live, _ = await read_member(applier, member("Lamp", "one"))
    assert isinstance(live, dict)
    assert (await read_member(applier, member("Lamp", "other")))[0] is None
    found = await instances(applier, shared_api.get(path))
    assert found == Instances(live=(ObjectRef(GROUP, "Lamp", "default", "one"),))

    # at another version it is the same object
    versions = made["spec"]["versions"]
    second = {**versions[0], "name": "v2"}
    patch = {"spec": {"versions": [{**versions[0], "served": False}, second | {"storage": False}]}}
    shared_api.request("PATCH", path, patch, content_type="application/merge-patch+json")
    await until(lambda: shared_api.get(f"/apis/{GROUP}/v2/namespaces/default/lamps"))
    live, at = await moved(applier, "v2")
    assert (isinstance(live, dict), at.version) == (True, "v2")

    # nobody serves it any more, and yet it is stored
    patch["spec"]["versions"][1]["served"] = False
    shared_api.request("PATCH", path, patch, content_type="application/merge-patch+json")
    await until(lambda: shared_api.get(f"/apis/{GROUP}/v2/namespaces/default/lamps") is None)
    applier.discovery.invalidate()
    live, _ = await read_member(applier, member("Lamp", "one"))
    assert isinstance(live, ApiError)
    assert isinstance(await instances(applier, shared_api.get(path)), ApiError)

    shared_api.request("DELETE", path)
    await until(lambda: shared_api.get(path) is None)
    applier.discovery.invalidate()
    await until(lambda: shared_api.get(f"/apis/{GROUP}") is None)
    assert (await read_member(applier, member("Lamp", "one")))[0] is None


async def moved(applier: Objects, version: str) -> tuple[Any, GroupVersionKind]:
    for _ in range(100):
        applier.discovery.invalidate()
        live, at = await read_member(applier, member("Lamp", "one"))
        if at.version == version and isinstance(live, dict):
            break
        await asyncio.sleep(0.05)
    return live, at


async def test_r08_behind_an_api_server_that_is_down_nothing_is_gone(
    shared_api: ApiServer, applier: Objects, gone_after: Callable[[str], None]
) -> None:
    group = "down.example"
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "service": {"namespace": "default", "name": "nobody"},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
    }
    gone_after(f"{SERVICES}/v1.{group}")
    shared_api.request("POST", SERVICES, service)
    wanted = member("Thing", "one", group=group)
    for _ in range(3):  # as discovery learns of it bit by bit, the answer never is "gone"
        applier.discovery.invalidate()
        live, _ = await read_member(applier, wanted)
        assert isinstance(live, ApiError), live
        await asyncio.sleep(0.1)
    # what is of other kinds is told as ever, and a namespace may hold things of that one
    assert (await read_member(applier, member("ConfigMap", "nothing", group="")))[0] is None
    contents = NamespaceContents(applier.connection, applier.discovery)
    await until_known_as_down(applier)
    assert isinstance(await contents.foreign("default"), ApiError)

    shared_api.request("DELETE", f"{SERVICES}/v1.{group}")
    await until(lambda: shared_api.get(f"{SERVICES}/v1.{group}") is None)
    for _ in range(200):
        applier.discovery.invalidate()
        live, _ = await read_member(applier, wanted)
        if live is None:
            break
        await asyncio.sleep(0.05)
    assert live is None
    assert isinstance(await contents.foreign("default"), Contents)


async def until_known_as_down(applier: Objects) -> None:
    for _ in range(200):
        applier.discovery.invalidate()
        if isinstance(await applier.discovery.everything(), ApiError):
            return
        await asyncio.sleep(0.05)
    pytest.fail("discovery does not notice")


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_r12_the_reclaim_policy_of_a_volume_is_read_and_of_its_class_before_there_is_one(
    shared_api: ApiServer, applier: Objects, gone_after: Callable[[str], None], policy: str
) -> None:
    name = f"told-{policy.lower()}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": "/nowhere"},
        },
    }
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
        "reclaimPolicy": policy,
    }
    gone_after(f"/api/v1/persistentvolumes/{name}")
    gone_after(f"/apis/storage.k8s.io/v1/storageclasses/{name}")
    shared_api.request("POST", "/api/v1/persistentvolumes", volume)
    shared_api.request("POST", "/apis/storage.k8s.io/v1/storageclasses", storage_class)
    bound = await reclaim_policy(applier, {"spec": {"volumeName": name}})
    assert bound.startswith(f"volume {name} has reclaim policy {policy}: ")
    unbound = await reclaim_policy(applier, {"spec": {"storageClassName": name}})
    assert unbound.startswith(f"no volume is bound yet; class {name} has reclaim policy {policy}")
    assert "is not known" in await reclaim_policy(applier, {"spec": {"volumeName": "nothing"}})
