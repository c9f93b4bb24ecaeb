"""Server-side apply against a real API server. Numbers in names are items of the facts about it (ssa-live)."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.client import MERGE, ApiServer

from gitops.cluster.applying import Applier, ApplyResult, manager_name
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ErrorClass, FieldConflict
from gitops.model.identity import GroupVersionKind
from gitops.plan.units import DesiredObject

Desired = Callable[[dict[str, Any]], DesiredObject]
Connect = Callable[[Path], Awaitable[Connection]]


def config_map(namespace: str, name: str = "settings", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"gitops/reconciler": "test"}},
        "data": data,
    }


def gadget(namespace: str, spec: dict[str, Any], name: str = "one") -> dict[str, Any]:
    return {
        "apiVersion": "test.gitops.example/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def pod(namespace: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }


def test_manager_name_is_the_reconcilers() -> None:
    assert manager_name("fleet") == "gitops-fleet"


async def test_first_apply_creates_and_a_second_changes_nothing(
    applier: Applier, namespace: str, desired: Desired
) -> None:
    obj = desired(config_map(namespace, a="1"))
    first = await applier.apply(obj)
    assert (first.result, first.error, first.overridden) == (ApplyResult.CREATED, None, ())
    assert first.uid
    assert first.entry_digest
    assert first.live is not None
    assert first.live["data"] == {"a": "1"}

    second = await applier.apply(obj, known_version=first.resource_version)
    assert second.result is ApplyResult.UNCHANGED
    assert (second.entry_digest, second.values_digest) == (first.entry_digest, first.values_digest)

    third = await applier.apply(desired(config_map(namespace, b="2")), known_version=first.resource_version)
    assert third.result is ApplyResult.CONFIGURED
    assert third.live is not None
    assert third.live["data"] == {"b": "2"}  # what we dropped is gone
    assert third.entry_digest != first.entry_digest


async def test_s18_the_write_is_an_apply_patch(applier: Applier, namespace: str, desired: Desired) -> None:
    await applier.apply(desired(config_map(namespace, a="1")))
    live = await applier.get(GroupVersionKind("", "v1", "ConfigMap"), desired(config_map(namespace)).ref)
    assert isinstance(live, dict)
    (entry,) = live["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == (applier.manager, "Apply")
    assert "last-applied" not in str(live)
    assert applier.connection.stats.requests == {"discovery": 2, "apply": 1, "get": 1}


@pytest.mark.parametrize("char", [*"\x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff\U0001f600"], ids=ascii)
async def test_what_yaml_reads_otherwise_than_json_arrives(
    applier: Applier, namespace: str, desired: Desired, char: str
) -> None:
    """The apply is JSON and the server parses it as YAML: NEL became a space, DEL was refused."""
    text = f"a {char} \\{char} b"
    outcome = await applier.apply(desired(config_map(namespace, text=text)))
    assert outcome.live is not None, outcome.error
    assert outcome.live["data"] == {"text": text}


async def test_dry_run_writes_nothing(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    outcome = await applier.apply(desired(config_map(namespace, a="1")), dry_run=True)
    assert (outcome.result, outcome.error) == (ApplyResult.CREATED, None)
    assert shared_api.get(f"/api/v1/namespaces/{namespace}/configmaps/settings") is None


async def test_o03_20_preflight_in_another_namespace(applier: Applier, namespace: str, desired: Desired) -> None:
    obj = desired(config_map("no-such-namespace", a="1"))
    missing = await applier.apply(obj, dry_run=True)
    assert missing.error is not None
    assert (missing.error.cls, missing.error.waits_for) == (ErrorClass.WAITING, "namespace no-such-namespace")
    elsewhere = await applier.apply(obj, dry_run=True, namespace=namespace)
    assert (elsewhere.error, elsewhere.overridden) == (None, ())


async def test_s22_scope_comes_from_the_server(applier: Applier, namespace: str, desired: Desired) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{namespace}:reader", "namespace": namespace},
        "rules": [],
    }
    outcome = await applier.apply(desired(role))
    assert outcome.error is None
    assert outcome.live is not None
    assert "namespace" not in outcome.live["metadata"]


async def test_s23_a_namespaced_object_without_namespace_is_not_sent(applier: Applier, desired: Desired) -> None:
    body = config_map("x", a="1")
    del body["metadata"]["namespace"]
    outcome = await applier.apply(desired(body))
    assert outcome.error is not None
    assert outcome.error.cls is ErrorClass.REFUSED
    assert applier.connection.stats.requests["apply"] == 0


async def test_s16_30_conflicts_name_manager_and_field(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    await applier.apply(desired(config_map(namespace, a="1", b="1")))
    for manager, data in (("other", {"a": "2"}), ("third", {"b": "2"})):
        shared_api.request("PATCH", path, {"data": data}, content_type=MERGE, query={"fieldManager": manager})

    polite = await applier.apply(desired(config_map(namespace, a="1", b="1")), force=False)
    assert polite.error is not None
    assert polite.error.cls is ErrorClass.CONFLICT
    assert set(polite.error.conflicts) == {FieldConflict("other", ".data.a"), FieldConflict("third", ".data.b")}
    assert shared_api.get(path)["data"] == {"a": "2", "b": "2"}  # an unforced conflict writes nothing

    forced = await applier.apply(desired(config_map(namespace, a="1", b="1")))
    assert forced.live is not None
    assert forced.live["data"] == {"a": "1", "b": "1"}


async def test_30_conflict_through_a_subresource(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.invalid/web:1"}]},
            },
        },
    }
    await applier.apply(desired(deployment))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"
    shared_api.request("PATCH", path, {"spec": {"replicas": 4}}, content_type=MERGE, query={"fieldManager": "scaler"})
    outcome = await applier.apply(desired(deployment), force=False)
    assert outcome.error is not None
    assert outcome.error.conflicts == (FieldConflict("scaler", ".spec.replicas", "scale"),)


async def test_31_uid_and_resource_version_are_preconditions(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    obj = desired(config_map(namespace, a="1"))
    first = await applier.apply(obj)

    shared_api.request("PATCH", path, {"data": {"z": "1"}}, content_type=MERGE, query={"fieldManager": "other"})
    stale = await applier.apply(obj, resource_version=first.resource_version)
    assert stale.error is not None
    assert (stale.error.cls, stale.error.conflicts) == (ErrorClass.STALE, ())

    repaired = await applier.apply(obj, uid=first.uid)
    assert repaired.error is None
    assert "uid" not in str(repaired.live["metadata"]["managedFields"] if repaired.live else "")

    shared_api.request("DELETE", path)
    gone = await applier.apply(obj, uid=first.uid)
    assert gone.error is not None
    assert gone.error.cls is ErrorClass.STALE
    assert shared_api.get(path) is None

    again = await applier.apply(obj)
    assert again.result is ApplyResult.CREATED
    other = await applier.apply(obj, uid=first.uid)
    assert other.error is not None
    assert other.error.cls is ErrorClass.STALE


async def test_32_generate_name_status_and_managed_fields(
    applier: Applier, gadgets: GroupVersionKind, namespace: str, desired: Desired
) -> None:
    body = gadget(namespace, {"title": "x"})
    with_status = await applier.apply(desired({**body, "status": {"phase": "Ready"}}))
    assert with_status.error is None
    assert with_status.live is not None
    assert "status" not in with_status.live

    managed = {**body, "metadata": {**body["metadata"], "managedFields": [{"manager": "x"}]}}
    refused = await applier.apply(desired(managed))
    assert refused.error is not None
    assert (refused.error.cls, refused.error.status) == (ErrorClass.REFUSED, 400)


async def test_13_numbers_in_a_custom_resource_stay_numbers(
    applier: Applier, gadgets: GroupVersionKind, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    """Why quantities are sent as canonical strings: a writer that turns 1 into "1" takes ownership of a number, and
    leaves a string alone."""
    path = f"/apis/test.gitops.example/v1/namespaces/{namespace}/gadgets/"

    def written(limit: object, name: str) -> dict[str, Any]:
        return gadget(namespace, {"components": [{"name": "w", "limits": {"gpu": limit}}]}, name)

    for limit, name in ((1, "number"), ("1", "text")):
        applied = await applier.apply(desired(written(limit, name)))
        assert applied.live is not None
        assert applied.live["spec"]["components"][0]["limits"]["gpu"] == limit
        live = shared_api.get(path + name)
        live["spec"]["components"][0]["limits"]["gpu"] = "1"
        shared_api.request("PUT", path + name, live, query={"fieldManager": "operator"})
        polite = await applier.apply(desired(written(limit, name)), force=False)
        assert (polite.error is None) == (limit == "1")


async def test_24_44_schema_errors_are_refused_although_they_are_500(
    applier: Applier, gadgets: GroupVersionKind, namespace: str, desired: Desired
) -> None:
    specs: dict[str, dict[str, Any]] = {
        "unknown field": {"titel": "x"},
        "wrong type": {"size": "three"},
        "wrong case": {"Title": "x"},
        "duplicate key": {"components": [{"name": "a"}, {"name": "a"}]},
        "duplicate in a set": {"tags": ["a", "a"]},
    }
    for what, spec in specs.items():
        outcome = await applier.apply(desired(gadget(namespace, spec)))
        assert outcome.error is not None, what
        assert (outcome.error.status, outcome.error.cls, outcome.error.is_schema) == (500, ErrorClass.REFUSED, True), (
            what
        )
        assert "valueUnstructured" not in outcome.error.message
    free = await applier.apply(desired(gadget(namespace, {"free": {"any": {"thing": [1, "x"]}}})))
    assert (free.error, free.overridden) == (None, ())


async def test_s02_24_duplicate_items_of_a_built_in_kind(applier: Applier, namespace: str, desired: Desired) -> None:
    twice = {"name": "c", "image": "x", "env": [{"name": "A"}, {"name": "A"}]}
    outcome = await applier.apply(desired(pod(namespace, containers=[twice])))
    assert outcome.error is not None
    assert (outcome.error.cls, outcome.error.is_schema) == (ErrorClass.REFUSED, True)


async def test_o02_20_a_kind_that_is_not_served_is_waited_for(
    applier: Applier, namespace: str, desired: Desired
) -> None:
    unserved = await applier.apply(desired({**config_map(namespace), "apiVersion": "nowhere.example/v1"}))
    assert unserved.error is not None
    assert unserved.error.cls is ErrorClass.WAITING
    assert unserved.error.waits_for == "kind ConfigMap.nowhere.example at v1"
    assert applier.connection.stats.requests["dry-run"] == applier.connection.stats.requests["apply"] == 0


async def test_20_a_service_account_is_waited_for(
    connect: Connect, full_api: ApiServer, full_namespace: str, desired: Desired
) -> None:
    connection = await connect(full_api.kubeconfig)
    applier = Applier(connection, Discovery(connection), manager="gitops-test")
    outcome = await applier.apply(desired(pod(full_namespace, serviceAccountName="ghost")))
    assert outcome.error is not None
    assert outcome.error.cls is ErrorClass.WAITING
    assert outcome.error.waits_for == f"service account {full_namespace}/ghost"


async def test_20_priority_and_runtime_classes_are_waited_for(
    applier: Applier, namespace: str, desired: Desired
) -> None:
    for extra, waits_for in (
        ({"priorityClassName": "urgent"}, "priority class urgent"),
        ({"runtimeClassName": "nvidia-none"}, "runtime class nvidia-none"),
    ):
        outcome = await applier.apply(desired(pod(namespace, **extra)), dry_run=True)
        assert outcome.error is not None
        assert (outcome.error.cls, outcome.error.waits_for) == (ErrorClass.WAITING, waits_for)


async def test_26_41_an_object_being_deleted_counts_as_not_applied(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    obj = desired(config_map(namespace, a="1"))
    first = await applier.apply(obj)
    held = {"metadata": {"finalizers": ["test.gitops.example/hold"]}}
    shared_api.request("PATCH", path, held, content_type=MERGE)
    shared_api.request("DELETE", path)

    outcome = await applier.apply(obj)
    assert (outcome.result, outcome.deleting, outcome.uid) == (ApplyResult.ERROR, True, first.uid)
    assert outcome.error is not None
    assert outcome.error.cls is ErrorClass.WAITING
    shared_api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


async def test_26_terminating_namespace(applier: Applier, desired: Desired, shared_api: ApiServer) -> None:
    # The shared server has no controllers, so a deleted namespace stays terminating.
    namespace = shared_api.create_namespace("t-terminating")
    shared_api.request("DELETE", f"/api/v1/namespaces/{namespace}")
    outcome = await applier.apply(desired(config_map(namespace, a="1")))
    assert outcome.error is not None
    assert (outcome.error.status, outcome.error.cls) == (403, ErrorClass.WAITING)
    assert namespace in outcome.error.waits_for
    own = await applier.apply(desired({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
    assert own.deleting


@pytest.mark.parametrize("kind", ["ports", "nodePort"])
async def test_14_a_repair_blocked_by_live_state(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer, kind: str
) -> None:
    def service(name: str, **port: object) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80, "name": "http", **port}]},
        }

    first = await applier.apply(desired(service("one")))
    assert first.live is not None
    if kind == "ports":
        renamed = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
        shared_api.request(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/services/one",
            renamed,
            content_type="application/json-patch+json",
            query={"fieldManager": "other"},
        )
        blocked = await applier.apply(desired(service("one")))
    else:
        taken = first.live["spec"]["ports"][0]["nodePort"]
        blocked = await applier.apply(desired(service("two", nodePort=taken)))
    assert blocked.error is not None
    assert (blocked.error.status, blocked.error.cls) == (422, ErrorClass.BLOCKED)


async def test_s19_a_live_object_that_breaks_its_own_schema(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    obj = desired(config_map(namespace, a="1"))
    await applier.apply(obj)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000001"}
    live = shared_api.get(path)
    live["metadata"]["ownerReferences"] = [owner, owner]
    shared_api.request("PUT", path, live, query={"fieldManager": "other"})
    outcome = await applier.apply(desired(config_map(namespace, a="2")))
    # Newer servers drop the duplicate on update; older ones refuse every apply. Never is the manifest to blame.
    if outcome.error is not None:
        assert outcome.error.cls is ErrorClass.BLOCKED


async def test_warnings_are_kept(applier: Applier, namespace: str, desired: Desired) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.04"]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {
                    "labels": {"app": "web"},
                    "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "x"},
                },
                "spec": {"containers": [{"name": "web", "image": "x", "resources": {"limits": {"cpu": "0.0001"}}}]},
            },
        },
    }
    outcomes = [await applier.apply(desired(body), dry_run=True) for body in (service, deployment)]
    assert any(outcome.warnings for outcome in outcomes), outcomes


async def test_s21_what_the_server_allocates_stays(applier: Applier, namespace: str, desired: Desired) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": namespace, "labels": {"a": "1"}},
        "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80}]},
    }
    first = await applier.apply(desired(body))
    body["metadata"]["labels"]["a"] = "2"
    second = await applier.apply(desired(body))
    assert first.live is not None
    assert second.live is not None
    assert second.live["spec"] == first.live["spec"]
    assert second.overridden == ()


async def test_s07_a_large_definition_applies(applier: Applier, desired: Desired) -> None:
    properties = {f"field{i:05d}": {"type": "string", "description": "x" * 200} for i in range(2500)}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "larges.test.gitops.example"},
        "spec": {
            "group": "test.gitops.example",
            "scope": "Namespaced",
            "names": {"plural": "larges", "singular": "large", "kind": "Large", "listKind": "LargeList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }
    obj = desired(crd)
    assert len(obj.payload) > 600_000
    outcome = await applier.apply(obj)
    assert outcome.error is None
    assert "annotations" not in outcome.live["metadata"] if outcome.live else False


async def test_21_too_large_is_refused_not_retried(
    applier: Applier, gadgets: GroupVersionKind, namespace: str, desired: Desired
) -> None:
    outcome = await applier.apply(desired(gadget(namespace, {"title": "x" * 1_700_000})))
    assert outcome.error is not None
    assert (outcome.error.cls, outcome.error.reason) == (ErrorClass.REFUSED, "TooLarge")
    assert len(outcome.error.message) <= 256
