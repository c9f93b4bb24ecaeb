"""Reading, listing and deleting on a real API server."""

from collections.abc import Awaitable, Callable

import pytest
from controlplane_kit.client import MERGE, ApiServer
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Answer, Request

from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import DeleteResult, Listing, Objects
from gitops.model.identity import GroupVersionKind, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
Connect = Callable[..., Awaitable[Connection]]


def make(api: ApiServer, namespace: str, name: str, **labels: str) -> tuple[ObjectRef, str, str]:
    metadata = {"name": name, "labels": labels}
    live = api.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/configmaps",
        {"metadata": metadata, "kind": "ConfigMap", "apiVersion": "v1"},
    )
    return ObjectRef("", "ConfigMap", namespace, name), live["metadata"]["uid"], live["metadata"]["resourceVersion"]


async def test_absent_is_told_from_unknown(applier: Objects, namespace: str) -> None:
    assert await applier.get(CONFIG_MAP, ObjectRef("", "ConfigMap", namespace, "none")) is None
    assert await applier.get(CONFIG_MAP, ObjectRef("", "ConfigMap", "no-such-namespace", "none")) is None
    unserved = await applier.get(GroupVersionKind("x.example", "v1", "X"), ObjectRef("x.example", "X", namespace, "a"))
    assert isinstance(unserved, ApiError)
    assert unserved.cls is ErrorClass.WAITING
    incomplete = await applier.get(CONFIG_MAP, ObjectRef("", "ConfigMap", "", "none"))
    assert isinstance(incomplete, ApiError)


async def test_forbidden_is_not_absent(shared_api: ApiServer, namespace: str, connect: Connect) -> None:
    connection = await connect(shared_api.kubeconfig_for("nobody"))
    objects = Objects(connection, Discovery(connection))
    found = await objects.get(CONFIG_MAP, ObjectRef("", "ConfigMap", namespace, "none"))
    assert isinstance(found, ApiError)
    assert found.cls is ErrorClass.FORBIDDEN


async def test_40_delete_needs_the_uid_and_version_that_were_read(
    applier: Objects, namespace: str, shared_api: ApiServer
) -> None:
    ref, uid, version = make(shared_api, namespace, "a")
    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    shared_api.request("PATCH", path, {"metadata": {"labels": {"moved": "1"}}}, content_type=MERGE)
    for wrong_uid, wrong_version in ((uid, version), ("00000000-0000-0000-0000-000000000001", version)):
        outcome = await applier.delete(CONFIG_MAP, ref, uid=wrong_uid, resource_version=wrong_version)
        assert outcome.error is not None
        assert (outcome.error.status, outcome.error.cls) == (409, ErrorClass.STALE)
    now = shared_api.get(path)["metadata"]["resourceVersion"]
    dry = await applier.delete(CONFIG_MAP, ref, uid=uid, resource_version=now, dry_run=True)
    assert dry.error is None
    assert shared_api.get(path) is not None
    for half in ({"uid": uid, "resource_version": ""}, {"uid": "", "resource_version": now}):
        with pytest.raises(ValueError, match="needs the uid and the resourceVersion"):
            await applier.delete(CONFIG_MAP, ref, **half)
    deleted = await applier.delete(CONFIG_MAP, ref, uid=uid, resource_version=now)
    assert deleted.result is DeleteResult.DELETED
    again = await applier.delete(CONFIG_MAP, ref, uid=uid, resource_version=now)
    assert again.result is DeleteResult.ABSENT


async def test_o07_a_finalizer_holds_a_delete(applier: Objects, namespace: str, shared_api: ApiServer) -> None:
    ref, uid, _ = make(shared_api, namespace, "held")
    path = f"/api/v1/namespaces/{namespace}/configmaps/held"
    held = {"metadata": {"finalizers": ["test.gitops.example/hold"]}}
    version = shared_api.request("PATCH", path, held, content_type=MERGE)["metadata"]["resourceVersion"]
    outcome = await applier.delete(CONFIG_MAP, ref, uid=uid, resource_version=version)
    assert (outcome.result, outcome.finalizers) == (DeleteResult.DELETING, ("test.gitops.example/hold",))
    shared_api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


async def test_a10_lists_come_in_pages(applier: Objects, namespace: str, shared_api: ApiServer) -> None:
    for i in range(7):
        make(shared_api, namespace, f"c{i}", wanted="yes" if i % 2 else "no")
    listing = await applier.list_objects(CONFIG_MAP, namespace=namespace, selector="wanted=no", page_size=3)
    assert isinstance(listing, Listing)
    assert [item["metadata"]["name"] for item in listing.items] == ["c0", "c2", "c4", "c6"]
    assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {("v1", "ConfigMap")}
    assert listing.resource_version
    assert applier.connection.stats.requests["list"] == 2


async def test_a10_an_expired_page_starts_the_list_again(
    shared_api: ApiServer, namespace: str, connect: Connect, fault_proxy: Callable[[ApiServer], FaultProxy]
) -> None:
    for i in range(5):
        make(shared_api, namespace, f"c{i}")
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    objects = Objects(connection, Discovery(connection))

    def second_page(request: Request) -> bool:
        return "continue" in request.query

    proxy.fail(Answer(410, message="The provided continue parameter is too old", reason="Expired"), second_page)
    listing = await objects.list_objects(CONFIG_MAP, namespace=namespace, page_size=2)
    assert isinstance(listing, Listing)
    assert len(listing.items) == 5

    proxy.fail(Answer(500, message="etcdserver: leader changed"), second_page)
    failed = await objects.list_objects(CONFIG_MAP, namespace=namespace, page_size=2)
    assert isinstance(failed, ApiError)  # never a part of it
    assert failed.cls is ErrorClass.RETRY


async def test_unreachable_is_an_error_value(
    shared_api: ApiServer, namespace: str, connect: Connect, fault_proxy: Callable[[ApiServer], FaultProxy]
) -> None:
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    objects = Objects(connection, Discovery(connection))
    ref = ObjectRef("", "ConfigMap", namespace, "none")
    assert await objects.get(CONFIG_MAP, ref) is None
    proxy.refuse()
    results = (
        await objects.get(CONFIG_MAP, ref),
        await objects.list_objects(CONFIG_MAP, namespace=namespace),
        (await objects.delete(CONFIG_MAP, ref, uid="u", resource_version="1")).error,
        await objects.json_patch(CONFIG_MAP, ref, [], manager="m"),
    )
    for result in results:
        assert isinstance(result, ApiError)
        assert result.cls is ErrorClass.UNREACHABLE
    proxy.restore()
    assert await objects.get(CONFIG_MAP, ref, urgent=True) is None  # no other call is sent for a moment


async def test_create_replace_and_merge_of_bookkeeping(applier: Objects, namespace: str) -> None:
    ref = ObjectRef("", "ConfigMap", namespace, "book")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "book", "namespace": namespace}}
    created = await applier.create(CONFIG_MAP, ref, body, manager="m")
    assert isinstance(created, dict)
    twice = await applier.create(CONFIG_MAP, ref, body, manager="m")
    assert isinstance(twice, ApiError)
    assert (twice.cls, twice.reason) == (ErrorClass.STALE, "AlreadyExists")
    patched = await applier.merge_patch(CONFIG_MAP, ref, {"data": {"a": "1"}}, manager="m")
    assert isinstance(patched, dict)
    lost = await applier.replace(CONFIG_MAP, ref, created, manager="m")
    assert isinstance(lost, ApiError)
    assert lost.cls is ErrorClass.STALE
