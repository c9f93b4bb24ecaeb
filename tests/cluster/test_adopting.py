"""Taking over what others made, and leaving alone what others still declare: deciding."""

from collections.abc import Callable
from typing import Any

import pytest
from controlplane_kit.client import MERGE, ApiServer
from hypothesis import given
from hypothesis import strategies as st

from gitops.cluster.adopting import (
    LAST_APPLIED,
    controller_of,
    foreign_owners,
    is_ours,
    managers,
    old_entries,
    take_over,
)
from gitops.cluster.applying import Applier
from gitops.cluster.leftovers import left_over, shown
from gitops.manifests.canonical import canonical_json
from gitops.model.adoption import Tool
from gitops.plan.units import DesiredObject

Desired = Callable[[dict[str, Any]], DesiredObject]
ME = "gitops-x"
NOTHING: dict[str, Any] = {"metadata": {}}


def config_map(namespace: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "old", "namespace": namespace, "labels": {"kept": "1"}},
        "data": data,
    }


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


def folded(*entries: dict[str, Any], payload: dict[str, Any] = NOTHING, **more: Any) -> dict[str, Any] | None:
    """The entry that ours becomes; None when nothing is folded."""
    metadata = more.pop("metadata", {})
    for operation in take_over(live_with(*entries, **metadata), manager=ME, payload=payload, **more):
        if operation["path"] == "/metadata/managedFields":
            return next((e for e in operation["value"] if e["manager"] == ME), None)
    return None


def test_others_keep_their_entries() -> None:
    others = [
        entry("kubectl-edit", {"f:data": {"f:edited": {}}}),
        entry("kubectl", {"f:status": {}}, subresource="status"),
        entry("helm", {"f:data": {"f:theirs": {}}}),
        entry("operator", {"f:data": {"f:theirs": {}}}),
    ]
    assert take_over(live_with(*others), manager=ME, payload=NOTHING) == []
    mine = entry("kubectl-create", {"f:data": {"f:a": {}}})
    operations = take_over(live_with(*others, mine), manager=ME, payload=NOTHING)
    assert operations[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert operations[1]["value"][:-1] == others
    assert operations[1]["value"][-1]["fieldsV1"] == {"f:data": {"f:a": {}}}
    named = take_over(live_with(*others, mine), manager=ME, payload=NOTHING, tools_named=[Tool.HELM])
    assert named[1]["value"][-1]["fieldsV1"] == {"f:data": {"f:a": {}, "f:theirs": {}}}


def test_trees_are_united_with_our_own_entry() -> None:
    ours = entry(ME, {"f:data": {"f:a": {}, "f:b": {"f:c": {}}}}, operation="Apply")
    old = entry("kubectl-create", {"f:data": {".": {}, "f:b": {}, "f:d": {}}})
    found = folded(ours, old)
    assert found is not None
    assert found["fieldsV1"] == {"f:data": {".": {}, "f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {}}}
    assert (found["manager"], found["operation"]) == (ME, "Apply")


def test_one_version_after_the_other() -> None:
    """Each is followed by our apply, which takes away what that entry had."""
    old = entry("kubectl-create", {"f:data": {"f:old": {}}}, apiVersion="v1beta1")
    new = entry("kubectl-create", {"f:data": {"f:new": {}}})
    ours = entry(ME, {"f:data": {"f:mine": {}}}, operation="Apply")
    first = folded(old, new)
    assert first is not None
    assert (first["apiVersion"], first["fieldsV1"]) == ("v1", {"f:data": {"f:new": {}}})
    assert folded(ours, old) is None, "what ours has beyond Git must go first"
    second = folded(ours, old, applied=True)
    assert second is not None
    assert (second["apiVersion"], second["fieldsV1"]) == ("v1beta1", {"f:data": {"f:old": {}}}), "ours comes again"


def test_names_at_a_version_that_is_gone_are_read_at_the_present_one() -> None:
    old = entry("kubectl-create", {"f:data": {"f:old": {}}}, apiVersion="v1alpha1")
    ours = entry(ME, {"f:data": {"f:mine": {}}}, operation="Apply", apiVersion="v1alpha1")
    found = folded(ours, old, served={"v1"})
    assert found is not None
    assert (found["apiVersion"], found["fieldsV1"]) == ("v1", {"f:data": {"f:mine": {}, "f:old": {}}})
    alone = folded(ours, served={"v1"})
    assert alone is not None
    assert alone["apiVersion"] == "v1"
    assert folded(ours, served={"v1", "v1alpha1"}) is None, "the server converts what is served"


@pytest.mark.parametrize("annotation", ["", "no json", "[1]", '{"data": 1}'])
def test_what_was_before_the_first_apply_declares_nothing_by_itself(annotation: str) -> None:
    before = entry("before-first-apply", {"f:data": {".": {}, "f:a": {}, "f:b": {}}})
    ours = entry(ME, {"f:data": {"f:a": {}}}, operation="Apply")
    found = folded(ours, before, metadata={"annotations": {LAST_APPLIED: annotation}})
    assert found is not None
    assert found["fieldsV1"] == ours["fieldsV1"]
    assert take_over(live_with(before), manager=ME, payload=NOTHING) == [], "an empty list would only make it anew"


def test_what_kubectl_noted_was_declared_before_the_first_apply() -> None:
    item = 'k:{"port":80,"protocol":"TCP"}'
    ports = {item: {".": {}, "f:port": {}, "f:protocol": {}}, 'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}}
    tree = {"f:spec": {"f:ports": ports, "f:type": {}}, "f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}
    noted = canonical_json({"spec": {"ports": [{"port": 80}]}}).decode()
    found = folded(
        entry("before-first-apply", tree),
        entry("operator", {}),
        metadata={"annotations": {LAST_APPLIED: noted}},
    )
    assert found is not None
    assert found["fieldsV1"] == {
        "f:spec": {"f:ports": {item: {".": {}, "f:port": {}}}},
        "f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}},
    }


def test_finalizers_and_owners_are_never_folded() -> None:
    tree = {"f:metadata": {"f:finalizers": {'v:"x"': {}}, "f:ownerReferences": {}}, "f:data": {"f:a": {}}}
    found = folded(entry("kubectl-create", tree))
    assert found is not None
    assert found["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_27_replicas_that_git_leaves_out_are_not_folded() -> None:
    worker = 'k:{"name":"w"}'
    tree = {"f:spec": {"f:replicas": {}, "f:components": {worker: {".": {}, "f:replicas": {}, "f:image": {}}}}}
    old = entry("kubectl-create", tree)
    declared = {"spec": {"components": [{"name": "w", "image": "a"}]}}
    found = folded(old, payload=declared)
    assert found is not None
    assert found["fieldsV1"] == {"f:spec": {"f:components": {worker: {".": {}, "f:image": {}}}}}
    whole = {"spec": {"replicas": 2, "components": [{"name": "w", "replicas": 1}]}}
    again = folded(old, payload=whole)
    assert again is not None
    assert again["fieldsV1"] == tree
    left = folded(old, payload={"spec": {"components": []}})
    assert left is not None
    assert worker in left["fieldsV1"]["f:spec"]["f:components"], "what is declared no more goes with all that it has"


names = st.sampled_from(["f:a", "f:b", "f:replicas", "f:metadata", "."])
trees = st.recursive(st.just({}), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=8)
versions = st.sampled_from(["v1", "v1beta1", "v1alpha1"])
writers = st.sampled_from(["kubectl", "kubectl-create", "before-first-apply", "operator", ME, "helm"])
some_entries = st.lists(
    st.builds(lambda m, t, v: entry(m, t, apiVersion=v, operation="Apply"), writers, trees, versions), max_size=4
)


@given(some_entries)
def test_a_takeover_ends_and_loses_no_entry_of_others(entries: list[dict[str, Any]]) -> None:
    live = live_with(*{(e["manager"]): e for e in entries}.values())

    def others() -> list[Any]:
        return [e["fieldsV1"] for e in live["metadata"]["managedFields"] if e["manager"] == "operator"]

    before = others()
    for number in range(6):
        operations = take_over(
            live,
            manager=ME,
            payload=NOTHING,
            tools_named=[Tool.HELM],
            served={"v1", "v1beta1"},
            applied=number > 0,
        )
        if number and not operations:
            break
        found = operations[-1]["value"] if operations else live["metadata"]["managedFields"]
        # and then our apply
        live["metadata"]["managedFields"] = [
            *(e for e in found if e["manager"] != ME),
            entry(ME, {}, operation="Apply"),
        ]
        assert others() == before
    else:
        raise AssertionError("it does not end")
    left = {e["manager"] for e in live["metadata"]["managedFields"]}
    assert left <= {ME, "operator"}


# -- marks -----------------------------------------------------------------------------------------------------------

HELM = {"annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}}


def unmarked(tool: Tool, payload: dict[str, Any] = NOTHING, **metadata: Any) -> set[str]:
    live = {**live_with(entry("argocd-controller", {}), **metadata), "kind": "ConfigMap"}
    operations = take_over(live, manager=ME, payload=payload, tools_named=[tool])
    return {o["path"] for o in operations if o["op"] == "remove"}


def test_marks_go_with_the_takeover_unless_git_declares_them() -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm", "app": "x", "a/~b": "c"}
    at = "/metadata/labels/app.kubernetes.io~1managed-by"
    notes = {f"/metadata/annotations/meta.helm.sh~1release-{part}" for part in ("name", "namespace")}
    assert unmarked(Tool.HELM, labels=labels, **HELM) == {at, *notes}
    kept = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    assert unmarked(Tool.HELM, kept, labels=labels, **HELM) == notes
    assert unmarked(Tool.HELM, labels={**labels, "app.kubernetes.io/managed-by": "me"}) == set()
    flux = {"kustomize.toolkit.fluxcd.io/name": "a", "kustomize.toolkit.fluxcd.io/namespace": "b"}
    assert unmarked(Tool.FLUX, labels=flux) == {f"/metadata/labels/{k.replace('/', '~1')}" for k in flux}
    argo = {"app.kubernetes.io/instance": "shop"}
    tracking = {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:x/a", "argocd.argoproj.io/sync-wave": "1"}
    assert unmarked(Tool.ARGOCD, labels=argo, annotations=tracking) == {
        "/metadata/labels/app.kubernetes.io~1instance",
        "/metadata/annotations/argocd.argoproj.io~1tracking-id",
    }
    assert unmarked(Tool.HELM, labels=argo) == set()


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {}, []),
        ({"gitops/reconciler": "me", "applyset.kubernetes.io/part-of": "another unit of ours"}, {}, []),
        ({"gitops/reconciler": "you"}, {}, ["the gitops reconciler you"]),
        ({"app.kubernetes.io/managed-by": "Helm"}, {"meta.helm.sh/release-name": "web"}, ["the Helm release web"]),
        ({}, {"meta.helm.sh/release-name": "web"}, ["the Helm release web"]),
        ({"app.kubernetes.io/managed-by": "Helm"}, {}, []),
        ({"kustomize.toolkit.fluxcd.io/name": "apps"}, {}, ["the Flux Kustomization apps"]),
        ({"helm.toolkit.fluxcd.io/name": "web"}, {"meta.helm.sh/release-name": "web"}, ["the Flux HelmRelease web"]),
        ({"resourceset.fluxcd.controlplane.io/name": "all"}, {}, ["the Flux ResourceSet all"]),
        ({}, {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:x/a"}, ["the Argo CD application shop"]),
        ({}, {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:x/y"}, []),
        ({}, {"argocd.argoproj.io/tracking-id": "shop"}, ["the Argo CD application shop"]),
        ({}, {"argocd.argoproj.io/tracking-id": 7}, []),
        ({"argocd.argoproj.io/instance": "shop"}, {}, ["the Argo CD application shop"]),
        ({"app.kubernetes.io/instance": "shop"}, {}, []),
        ({"applyset.kubernetes.io/part-of": "applyset-other-v1"}, {}, ["the ApplySet applyset-other-v1"]),
        ({"applyset.kubernetes.io/part-of": "applyset-mine-v1"}, {}, []),
        (
            {"kustomize.toolkit.fluxcd.io/name": "apps", "argocd.argoproj.io/instance": "a\nb"},
            {},
            ["the Flux Kustomization apps", "the Argo CD application a b"],
        ),
    ],
)
def test_foreign_owners(labels: dict[str, str], annotations: dict[str, str], expected: list[str]) -> None:
    live = {**live_with(labels=labels, annotations=annotations), "kind": "ConfigMap"}
    live["metadata"]["namespace"] = "x"
    assert [o.words for o in foreign_owners(live, reconciler="me", applyset="applyset-mine-v1")] == expected


def test_argo_cd_is_known_by_its_manager_where_its_label_is_one_that_charts_set() -> None:
    live = live_with(entry("argocd-controller", {}), labels={"app.kubernetes.io/instance": "shop"})
    assert [(o.words, o.tool) for o in foreign_owners(live, reconciler="me")] == [
        ("the Argo CD application shop", Tool.ARGOCD)
    ]


@pytest.mark.parametrize("marks", [None, [], "x", {"a": None}])
def test_damaged_metadata_is_nobodys(marks: Any) -> None:
    assert foreign_owners(live_with(labels=None, annotations=marks), reconciler="me") == ()


def test_what_a_controller_made_is_its_own_until_we_applied_it() -> None:
    owners = [{"kind": "ConfigMap", "name": "x"}, {"kind": "ReplicaSet", "name": "web-1", "controller": True}]
    made = live_with(entry("operator", {}), ownerReferences=owners)
    assert controller_of(made, manager=ME) == "ReplicaSet web-1"
    assert controller_of(live_with(entry(ME, {}, operation="Apply"), ownerReferences=owners), manager=ME) == ""
    assert controller_of(live_with(ownerReferences=owners[:1]), manager=ME) == ""


def test_an_object_that_lost_our_label_is_ours_while_its_applyset_label_is() -> None:
    """Somebody took the label off, then Git moved the object to another unit."""
    labels = {"applyset.kubernetes.io/part-of": "applyset-earlier-v1"}
    tree = {"f:metadata": {"f:labels": {"f:applyset.kubernetes.io/part-of": {}}}}
    ours = live_with(entry("gitops-me", tree, operation="Apply"), labels=labels)
    assert foreign_owners(ours, reconciler="me", manager="gitops-me") == ()
    assert is_ours(ours, reconciler="me", manager="gitops-me")
    taken = live_with(entry("kubectl-applyset", tree, operation="Apply"), entry("gitops-me", {}), labels=labels)
    (owner,) = foreign_owners(taken, reconciler="me", manager="gitops-me")
    assert owner.words == "the ApplySet applyset-earlier-v1"
    assert not is_ours(taken, reconciler="me", manager="gitops-me")
    theirs = live_with(entry("gitops-me", tree, operation="Apply"), labels=labels | {"gitops/reconciler": "you"})
    assert not is_ours(theirs, reconciler="me", manager="gitops-me")


# -- what is left ----------------------------------------------------------------------------------------------------


def test_fields_that_nobody_declares_any_more() -> None:
    tree = {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}, "f:gone": {}}, "f:status": {"f:x": {}}}
    live = live_with(
        entry("kubectl-client-side-apply", tree),
        entry(ME, {"f:data": {"f:a": {}}}, operation="Apply"),
        entry("operator", {"f:data": {"f:b": {}}}),
    ) | {"data": {"a": "1", "b": "2", "c": "3"}}
    old = old_entries(live)
    assert managers(old) == ("kubectl-client-side-apply",)
    assert [shown(p) for p in left_over(live, old, manager=ME)] == ["data.c"]


def test_of_what_was_before_the_first_apply_no_default_is_told() -> None:
    port = 'k:{"port":80}'
    tree = {
        "f:spec": {"f:type": {}, "f:ports": {port: {".": {}, "f:port": {}}}},
        "f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}},
    }
    live = live_with(entry("before-first-apply", tree), labels={"a.b/c": "x"})
    live["spec"] = {"type": "ClusterIP", "ports": [{"port": 80}]}
    found = [shown(p) for p in left_over(live, old_entries(live), manager=ME)]
    assert found == ['metadata.labels["a.b/c"]', "spec.ports[port=80]"]


# -- wiped -----------------------------------------------------------------------------------------------------------


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
