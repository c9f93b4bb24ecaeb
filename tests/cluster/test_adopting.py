"""Taking over what others made, and leaving alone what others still declare."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from controlplane_kit.client import MERGE, ApiServer

from gitops.cluster.adopting import fold, folded_managers, foreign_owner, is_ours
from gitops.cluster.applying import Applier, ApplyResult
from gitops.cluster.errors import ErrorClass
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.units import DesiredObject

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SERVICE = GroupVersionKind("", "v1", "Service")
Desired = Callable[[dict[str, Any]], DesiredObject]


def config_map(namespace: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "old", "namespace": namespace, "labels": {"kept": "1"}},
        "data": data,
    }


async def read(applier: Applier, gvk: GroupVersionKind, ref: ObjectRef) -> dict[str, Any]:
    live = await applier.get(gvk, ref)
    assert isinstance(live, dict)
    return live


@pytest.mark.parametrize("how", [["apply"], ["apply", "--server-side"], ["create"]])
async def test_s01_9_fields_of_kubectl_leave_with_git(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer, how: list[str]
) -> None:
    shared_api.kubectl(*how, "-f", "-", stdin=json.dumps(config_map(namespace, a="1", b="2")))
    path = f"/api/v1/namespaces/{namespace}/configmaps/old"
    shared_api.request("PATCH", path, {"data": {"theirs": "x"}}, content_type=MERGE, query={"fieldManager": "operator"})

    obj = desired(config_map(namespace, a="1"))
    live = await read(applier, CONFIG_MAP, obj.ref)
    adopted = await applier.adopt(CONFIG_MAP, obj.ref, live)
    assert (adopted.result, adopted.error) == (ApplyResult.CONFIGURED, None)
    assert adopted.live is not None
    managers = {(e["manager"], e["operation"]) for e in adopted.live["metadata"]["managedFields"]}
    assert managers == {(applier.manager, "Apply"), ("operator", "Update")}

    applied = await applier.apply(obj)
    assert applied.live is not None
    assert applied.live["data"] == {"a": "1", "theirs": "x"}  # fields of unknown managers stay
    assert "last-applied" not in str(applied.live["metadata"].get("annotations"))
    again = await applier.adopt(CONFIG_MAP, obj.ref, applied.live)
    assert again.result is ApplyResult.UNCHANGED  # and costs no call


async def test_9_a_renamed_port_after_adoption(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    def service(port: int) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"selector": {"a": "b"}, "ports": [{"name": "http", "port": port}]},
        }

    shared_api.kubectl("apply", "-f", "-", stdin=json.dumps(service(80)))
    obj = desired(service(8080))
    # Without the fold the old port would stay, and its name twice is refused.
    refused = await applier.apply(obj, dry_run=True)
    assert refused.error is not None
    assert refused.error.cls is ErrorClass.BLOCKED

    await applier.adopt(SERVICE, obj.ref, await read(applier, SERVICE, obj.ref))
    applied = await applier.apply(obj)
    assert applied.error is None
    assert applied.live is not None
    assert [p["port"] for p in applied.live["spec"]["ports"]] == [8080]


async def test_28_adoption_of_a_changed_object_is_stale(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    shared_api.kubectl("apply", "-f", "-", stdin=json.dumps(config_map(namespace, a="1")))
    ref = desired(config_map(namespace)).ref
    live = await read(applier, CONFIG_MAP, ref)
    shared_api.request(
        "PATCH", f"/api/v1/namespaces/{namespace}/configmaps/old", {"data": {"x": "y"}}, content_type=MERGE
    )
    outcome = await applier.adopt(CONFIG_MAP, ref, live)
    assert outcome.error is not None
    assert (outcome.error.status, outcome.error.cls) == (422, ErrorClass.STALE)


def live_with(*entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "resourceVersion": "7", "managedFields": list(entries), **metadata},
    }


def entry(manager: str, tree: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsV1": tree,
        "time": "2026-01-01",
        **more,
    }


def test_fold_leaves_other_entries_alone() -> None:
    others = [
        entry("kubectl-edit", {"f:data": {"f:edited": {}}}),
        entry("kubectl", {"f:status": {}}, subresource="status"),
        entry("kubectl-client-side-apply", {"f:data": {"f:old": {}}}, apiVersion="v1beta1"),
        entry("operator", {"f:data": {"f:theirs": {}}}),
    ]
    live = live_with(*others)
    assert fold(live, manager="gitops-x") is None
    assert folded_managers(live) == ()
    mine = entry("kubectl-create", {"f:data": {"f:a": {}}})
    operations = fold(live_with(*others, mine), manager="gitops-x")
    assert operations is not None
    assert operations[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert operations[1]["value"][:-1] == others
    assert operations[1]["value"][-1]["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert folded_managers(live_with(*others, mine)) == ("kubectl-create",)


def test_fold_unites_trees_with_our_own_entry() -> None:
    ours = entry("gitops-x", {"f:data": {"f:a": {}, "f:b": {"f:c": {}}}}, operation="Apply")
    old = entry("before-first-apply", {"f:data": {".": {}, "f:b": {}, "f:d": {}}})
    operations = fold(live_with(ours, old), manager="gitops-x")
    assert operations is not None
    (folded,) = operations[1]["value"]
    assert folded["fieldsV1"] == {"f:data": {".": {}, "f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {}}}
    assert (folded["manager"], folded["operation"]) == ("gitops-x", "Apply")


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {}, None),
        ({"gitops/reconciler": "me", "applyset.kubernetes.io/part-of": "another unit of ours"}, {}, None),
        ({"gitops/reconciler": "you"}, {}, "the gitops reconciler you"),
        ({"app.kubernetes.io/managed-by": "Helm"}, {"meta.helm.sh/release-name": "web"}, "the Helm release web"),
        ({"app.kubernetes.io/managed-by": "Helm"}, {}, None),
        ({"kustomize.toolkit.fluxcd.io/name": "apps"}, {}, "the Flux Kustomization apps"),
        ({"helm.toolkit.fluxcd.io/name": "web"}, {}, "the Flux HelmRelease web"),
        ({}, {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:x/y"}, "the Argo CD application shop"),
        ({"argocd.argoproj.io/instance": "shop"}, {}, "the Argo CD application shop"),
        ({"app.kubernetes.io/instance": "shop"}, {}, None),
        ({"applyset.kubernetes.io/part-of": "applyset-other-v1"}, {}, "the ApplySet applyset-other-v1"),
        ({"applyset.kubernetes.io/part-of": "applyset-mine-v1"}, {}, None),
    ],
)
def test_foreign_owners(labels: dict[str, str], annotations: dict[str, str], expected: str | None) -> None:
    live = live_with(labels=labels, annotations=annotations)
    assert foreign_owner(live, reconciler="me", applyset="applyset-mine-v1") == expected


def test_an_object_that_lost_our_label_is_ours_while_its_applyset_label_is() -> None:
    """Somebody took the label off, then Git moved the object to another unit."""
    labels = {"applyset.kubernetes.io/part-of": "applyset-earlier-v1"}
    tree = {"f:metadata": {"f:labels": {"f:applyset.kubernetes.io/part-of": {}}}}
    ours = live_with(entry("gitops-me", tree, operation="Apply"), labels=labels)
    assert foreign_owner(ours, reconciler="me", manager="gitops-me") is None
    assert is_ours(ours, reconciler="me", manager="gitops-me")
    taken = live_with(entry("kubectl-applyset", tree, operation="Apply"), entry("gitops-me", {}), labels=labels)
    assert foreign_owner(taken, reconciler="me", manager="gitops-me") == "the ApplySet applyset-earlier-v1"
    assert not is_ours(taken, reconciler="me", manager="gitops-me")
    theirs = live_with(entry("gitops-me", tree, operation="Apply"), labels=labels | {"gitops/reconciler": "you"})
    assert not is_ours(theirs, reconciler="me", manager="gitops-me")


async def test_a_repair_of_wiped_ownership_leaves_nothing_behind_that_would_keep_dropped_fields(
    applier: Applier, shared_api: ApiServer, namespace: str, desired: Desired
) -> None:
    """managedFields were wiped: the next apply makes an entry that co-owns everything, for ever (ssa-live 7)."""
    both = desired(config_map(namespace, one="1", two="2"))
    path = f"/api/v1/namespaces/{namespace}/configmaps/{both.ref.name}"
    await applier.apply(both)
    shared_api.request("PATCH", path, {"metadata": {"managedFields": [{}]}}, content_type=MERGE)
    outcome = await applier.forget_before(await applier.apply(both))
    live = shared_api.get(path)
    assert [e["manager"] for e in live["metadata"]["managedFields"]] == [applier.manager]
    assert outcome.resource_version == live["metadata"]["resourceVersion"]
    assert await applier.forget_before(outcome) is outcome
    await applier.apply(desired(config_map(namespace, one="1")))
    assert shared_api.get(path)["data"] == {"one": "1"}
