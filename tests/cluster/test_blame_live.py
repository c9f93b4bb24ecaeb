"""Who changed what, as kubectl and controllers leave it in managedFields of built-in kinds on a real API server."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from controlplane_kit.client import APPLY, MERGE, ApiServer

from gitops.cluster import fields
from gitops.cluster.blaming import maker
from gitops.cluster.comparison import DifferenceKind
from gitops.cluster.values import ABSENT

pytestmark = pytest.mark.controlplane

OURS = "gitops-blame"


def deployment(namespace: str) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "example/app:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
        "securityContext": {},
    }
    helper = {"name": "helper", "image": "example/helper:1"}
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "labels": {"gitops/reconciler": "main", "tier": "x"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"initContainers": [helper, {**helper, "name": "second"}], "containers": [container]},
            },
        },
    }


class Live:
    """One applied object."""

    def __init__(self, api: ApiServer, payload: dict[str, Any], resource: str) -> None:
        self.api = api
        self.payload = payload
        self.path = resource
        self.baseline = fields.fingerprint(payload, self.apply(), OURS)

    def apply(self) -> dict[str, Any]:
        query = {"fieldManager": OURS, "force": "true", "fieldValidation": "Strict"}
        applied: dict[str, Any] = self.api.request("PATCH", self.path, self.payload, content_type=APPLY, query=query)
        return applied

    def compare(self) -> fields.Comparison:
        return fields.compare(self.payload, self.api.get(self.path), OURS)

    def moved(self) -> bool:
        return not fields.fingerprint(self.payload, self.api.get(self.path), OURS).same_fields(self.baseline)

    def only(self) -> fields.FieldDifference:
        assert self.moved()
        (difference,) = self.compare().differences
        return difference


@pytest.fixture
def web(shared_api: ApiServer, namespace: str) -> Live:
    return Live(shared_api, deployment(namespace), f"/apis/apps/v1/namespaces/{namespace}/deployments/web")


@pytest.fixture
def kubectl(shared_api: ApiServer, namespace: str) -> Callable[..., str]:
    return lambda *arguments, **more: shared_api.kubectl("-n", namespace, *arguments, **more)


def test_what_was_applied_is_in_sync_with_all_defaults_filled_in(web: Live) -> None:
    assert web.compare().in_sync
    assert not web.moved()


def test_d01_scaling_is_blamed_with_its_subresource(web: Live, kubectl: Callable[..., str]) -> None:
    kubectl("scale", "deployment/web", "--replicas=5")
    difference = web.only()
    assert (difference.pointer, difference.declared, difference.live) == ("spec.replicas", 2, 5)
    assert (difference.manager, difference.operation, difference.subresource) == ("kubectl", "Update", "scale")
    assert not difference.inferred


def test_an_image_that_was_set(web: Live, kubectl: Callable[..., str]) -> None:
    kubectl("set", "image", "deployment/web", "app=example/app:evil")
    difference = web.only()
    assert difference.pointer == "spec.template.spec.containers[name=app].image"
    assert (difference.manager, difference.live) == ("kubectl-set", "example/app:evil")


def test_a_label_that_was_overwritten(web: Live, kubectl: Callable[..., str]) -> None:
    kubectl("label", "deployment/web", "tier=y", "--overwrite")
    assert (web.only().pointer, web.only().manager) == ("metadata.labels.tier", "kubectl-label")


def test_a_label_that_was_removed_leaves_nobody_certain(web: Live, kubectl: Callable[..., str]) -> None:
    kubectl("label", "deployment/web", "other=1")
    kubectl("label", "deployment/web", "tier-")
    difference = web.only()
    assert difference.live is ABSENT
    assert (difference.manager, difference.inferred) == ("kubectl-label", True)


def test_an_item_that_was_removed(web: Live, kubectl: Callable[..., str]) -> None:
    path = "/spec/template/spec/containers/0/env/1"
    kubectl("patch", "deployment/web", "--type=json", "-p", json.dumps([{"op": "remove", "path": path}]))
    difference = web.only()
    assert difference.pointer == "spec.template.spec.containers[name=app].env[name=B]"
    assert difference.kind is DifferenceKind.MISSING


def test_d03_d07_additions_beside_ours_are_quiet(web: Live, kubectl: Callable[..., str]) -> None:
    sidecar = {"name": "sidecar", "image": "example/sidecar:1"}
    patch = [
        {"op": "add", "path": "/spec/template/spec/containers/0", "value": sidecar},
        {"op": "add", "path": "/metadata/annotations", "value": {"deployment.kubernetes.io/revision": "1"}},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/keep"]},
        {"op": "add", "path": "/spec/paused", "value": True},
        {"op": "add", "path": "/spec/template/spec/containers/1/securityContext/runAsUser", "value": 1},
    ]
    kubectl("patch", "deployment/web", "--type=json", "-p", json.dumps(patch))
    assert not web.moved()
    assert web.compare().in_sync


def test_fact_1_a_reordered_list_is_seen_and_repaired_by_one_apply(web: Live, kubectl: Callable[..., str]) -> None:
    live = web.api.get(web.path)
    live["spec"]["template"]["spec"]["initContainers"].reverse()
    web.api.request("PUT", web.path, live)
    difference = web.only()
    assert difference.kind is DifferenceKind.ORDER
    assert difference.live == ["[name=second]", "[name=helper]"]
    web.apply()
    assert web.compare().in_sync


def test_s11_equal_quantities_are_quiet(web: Live, kubectl: Callable[..., str]) -> None:
    kubectl("set", "resources", "deployment/web", "--limits=cpu=1000m")
    assert not web.moved()


def test_fact_7_wiped_managed_fields_are_lost_ownership_and_no_drift(web: Live) -> None:
    web.api.request("PATCH", web.path, {"metadata": {"managedFields": [{}]}}, content_type=MERGE)
    assert web.moved()
    comparison = web.compare()
    assert not comparison.owned
    assert comparison.lost
    assert comparison.differences == ()


def test_an_atomic_list_with_defaults_in_its_items(shared_api: ApiServer, namespace: str) -> None:
    """`subjects` is atomic and the server adds apiGroup: no drift, and drift when it really changes."""
    payload = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": namespace, "labels": {"gitops/reconciler": "main"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    binding = Live(shared_api, payload, f"{base}/rolebindings/b")
    assert binding.compare().padded == (("subjects",),)
    assert binding.compare().in_sync_as_applied
    assert not binding.moved()
    two = [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "User", "name": "mallory"}]
    body = {"subjects": two}
    shared_api.request("PATCH", binding.path, body, content_type=MERGE, query={"fieldManager": "mallory-tool"})
    difference = binding.only()
    assert (difference.pointer, difference.manager) == ("subjects", "mallory-tool")


def test_s21_a_service_keeps_what_the_server_allocated(shared_api: ApiServer, namespace: str) -> None:
    payload = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": namespace, "labels": {"gitops/reconciler": "main"}},
        "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    service = Live(shared_api, payload, f"/api/v1/namespaces/{namespace}/services/s")
    assert service.compare().in_sync
    patch = {"spec": {"sessionAffinity": "ClientIP"}}
    shared_api.request("PATCH", service.path, patch, content_type=MERGE)
    assert not service.moved()
    assert service.compare().in_sync


def test_x01_a_secret_that_was_changed(shared_api: ApiServer, namespace: str) -> None:
    payload = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": namespace, "labels": {"gitops/reconciler": "main"}},
        "data": {"token": "b25l"},
    }
    secret = Live(shared_api, payload, f"/api/v1/namespaces/{namespace}/secrets/s")
    assert secret.compare().in_sync
    shared_api.request("PATCH", secret.path, {"data": {"token": "dHdv"}}, content_type=MERGE)
    assert secret.only().masked
    assert "dHdv" not in repr(secret.compare())
    assert "b25l" not in repr(secret.compare())


APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "theirs"}}


@pytest.fixture
def settings(shared_api: ApiServer, namespace: str) -> Live:
    payload = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "s", "namespace": namespace, "labels": {"gitops/reconciler": "main"}},
        "data": {"a": "1", "b": "2"},
    }
    return Live(shared_api, payload, f"/api/v1/namespaces/{namespace}/configmaps/s")


@pytest.mark.parametrize(
    ("arguments", "manager", "operation"),
    [
        (("edit", "configmap/s"), "kubectl-edit", "Update"),
        (("apply", "-f", "-"), "kubectl-client-side-apply", "Update"),
        (("apply", "-f", "-", "--server-side", "--force-conflicts"), "kubectl", "Apply"),
        (("replace", "-f", "-"), "kubectl-replace", "Update"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_each_way_to_write_with_kubectl_is_blamed_by_its_name(
    settings: Live,
    kubectl: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    manager: str,
    operation: str,
) -> None:
    monkeypatch.setenv("EDITOR", """sed -i 's/  a: "1"/  a: theirs/'""")
    kubectl(*arguments, **({} if arguments[0] == "edit" else {"stdin": json.dumps(APPLIED)}))
    difference = next(d for d in settings.compare().differences if d.pointer == "data.a")
    assert (difference.declared, difference.live) == ("1", "theirs")
    assert (difference.manager, difference.operation, difference.inferred) == (manager, operation, False)
    assert difference.time.endswith("Z")


def test_of_several_managers_each_is_blamed_for_its_own(settings: Live, shared_api: ApiServer) -> None:
    for key, manager in (("a", "first"), ("b", "second")):
        change = {"data": {key: "theirs"}}
        shared_api.request("PATCH", settings.path, change, content_type=MERGE, query={"fieldManager": manager})
    assert {d.pointer: d.manager for d in settings.compare().differences} == {"data.a": "first", "data.b": "second"}
    shared_api.request(
        "PATCH", settings.path, {"data": {"a": "x"}}, content_type=MERGE, query={"fieldManager": "third"}
    )
    found = {d.pointer: (d.manager, d.live) for d in settings.compare().differences}
    assert found["data.a"] == ("third", "x"), "the last one"


def test_fact_16_of_very_many_writers_the_older_ones_are_forgotten_and_blame_says_unknown(
    settings: Live, shared_api: ApiServer
) -> None:
    for number in range(12):
        change = {"data": {"a": "theirs"} if number == 0 else {f"k{number}": "x"}}
        query = {"fieldManager": f"writer-{number:02}"}
        shared_api.request("PATCH", settings.path, change, content_type=MERGE, query=query)
    entries = shared_api.get(settings.path)["metadata"]["managedFields"]
    assert "ancient-changes" in {entry["manager"] for entry in entries}
    difference = settings.only()
    assert (difference.pointer, difference.live) == ("data.a", "theirs")
    assert (difference.manager, difference.operation, difference.time, difference.inferred) == ("", "", "", False)


def test_who_made_an_object_anew_is_the_first_of_its_writers(
    settings: Live, shared_api: ApiServer, kubectl: Callable[..., str]
) -> None:
    kubectl("delete", "configmap/s")
    kubectl("create", "-f", "-", stdin=json.dumps(APPLIED))
    assert maker(shared_api.get(settings.path), OURS).manager == "kubectl-create"
