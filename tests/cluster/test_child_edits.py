"""Who changed what of an object that an operator made: on objects as recorded, and on hand-made ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gitops.cluster.child_edits import MOST_EDITS, child_edits
from gitops.cluster.values import ABSENT, MASK_OTHER
from gitops.policy.ownership import Ownership

Json = dict[str, Any]


def edits(live: Json) -> list[tuple[str, Any, str]]:
    found = child_edits(live, "gitops-demo", table=Ownership.shipped())
    return [(edit.shown, edit.value, edit.writer.manager) for edit in found]


def recorded(shared: Path, name: str) -> list[tuple[float, Json]]:
    with gzip.open(shared / "recordings" / f"{name}.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["t"], row["object"]) for row in rows if row["type"] != "DELETED"]


@pytest.mark.upstream
def test_nim_the_image_that_somebody_set_on_the_deployment_is_the_only_edit_ever_seen(shared: Path) -> None:
    """Rollouts, scales by the operator, the scheduler, the kubelet and garbage collection are none."""
    found = {(o["kind"], o["metadata"]["name"], *edit) for _, o in recorded(shared, "nim-service") for edit in edits(o)}
    [(kind, name, path, _, manager)] = found
    assert (kind, name, manager) == ("Deployment", "llama", "kubectl-set")
    assert path == "spec.template.spec.containers[name=llama-ctr].image"
    first = min(t for t, o in recorded(shared, "nim-service") if edits(o))
    assert 45.0 < first < 46.0


@pytest.mark.upstream
def test_dynamo_the_scaled_deployment_is_edited_until_the_operator_put_it_back(shared: Path) -> None:
    rows = recorded(shared, "dynamo-graph")
    seen = [(t, edits(o)) for t, o in rows if o["kind"] == "Deployment" and o["metadata"]["name"].endswith("-frontend")]
    edited = [t for t, found in seen if found]
    assert next(found for _, found in seen if found) == [("spec.replicas", 4, "kubectl")]
    assert max(edited) - min(edited) < 0.5, "healed"
    assert not any(edits(o) for _, o in rows if not o["metadata"]["name"].endswith("-frontend"))


def child(*entries: Json, **parts: Any) -> Json:
    container = {"name": "web", "image": "evil", "env": [{"name": "HF_TOKEN", "value": "s3cr3t"}]}
    body = {"replicas": 3, "template": {"spec": {"containers": [container]}}}
    owner = {"uid": "o", "controller": True}
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "ownerReferences": [owner], "managedFields": list(entries)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body, **parts}


def entry(manager: str, fields: Json, *, owner: bool = False, **more: Any) -> Json:
    tree: Json = {**({"f:metadata": {"f:ownerReferences": {".": {}}}} if owner else {}), **fields}
    return {"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": tree, **more}


def containers(**fields: Json) -> Json:
    item = {".": {}, "f:name": {}, **fields} if fields.pop("whole", None) is not None else fields
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': item}}}}}


RESTARTED = "f:kubectl.kubernetes.io/restartedAt"
OPERATOR = entry("operator", {"f:spec": {"f:selector": {}, **containers(whole={})["f:spec"]}}, owner=True)


@pytest.mark.parametrize(
    ("theirs", "path"),
    [
        (entry("kubectl-edit", containers(**{"f:image": {}})), "spec.template.spec.containers[name=web].image"),
        (entry("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale"), "spec.replicas"),
        (entry("argocd", {"f:spec": {"f:replicas": {}}}, operation="Apply"), "spec.replicas"),
        (entry("kube-controller-manager", {"f:spec": {"f:replicas": {}}}, subresource="scale"), None),
        (entry("keda-operator", {"f:spec": {"f:replicas": {}}}, subresource="scale"), None),
        (entry("kube-scheduler", {"f:spec": {"f:nodeName": {}}}), None),
        (entry("kubelet", {"f:status": {"f:phase": {}}}, subresource="status"), None),
        (entry("kubectl-label", {"f:metadata": {"f:labels": {"f:a": {}}}}), None),
        (entry("operator", {"f:spec": {"f:replicas": {}}}, subresource="scale"), None),
        (entry("gitops-demo", {"f:spec": {"f:replicas": {}}}), None),
        (entry("argocd", containers(whole={}), operation="Apply"), None),  # the same value: the operator owns it too
        (
            entry(
                "kubectl-rollout",
                {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {RESTARTED: {}}}}}},
            ),
            None,
        ),
    ],
)
def test_whose_writes_are_edits(theirs: Json, path: str | None) -> None:
    assert [edit[0] for edit in edits(child(OPERATOR, theirs))] == ([path] if path else [])


def test_nobody_can_tell_without_the_maker() -> None:
    theirs = entry("kubectl-edit", containers(**{"f:image": {}}))
    assert edits(child(entry("operator", {"f:spec": {"f:replicas": {}}}), theirs)) == []
    assert edits(child(theirs)) == []
    wiped = child(OPERATOR, theirs)
    wiped["metadata"]["managedFields"] = None
    assert edits(wiped) == []


def test_an_object_that_is_being_deleted_or_has_no_owner_is_no_child() -> None:
    theirs = entry("kubectl-edit", containers(**{"f:image": {}}))
    going, orphan = child(OPERATOR, theirs), child(OPERATOR, theirs)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    del orphan["metadata"]["ownerReferences"]
    assert edits(going) == edits(orphan) == []


def test_what_must_not_be_shown_is_not() -> None:
    token = {"f:env": {'k:{"name":"HF_TOKEN"}': {"f:value": {}}}}
    [edit] = child_edits(child(OPERATOR, entry("kubectl-edit", containers(**token))), "g", table=Ownership.shipped())
    assert (edit.value, edit.masked) == (MASK_OTHER, True)


def test_what_was_removed_by_its_owner_is_absent_and_many_edits_are_cut() -> None:
    many = {f"f:field{n}": {} for n in range(50)}
    found = edits(child(OPERATOR, entry("kubectl-edit", {"f:spec": many})))
    assert len(found) == MOST_EDITS
    assert found[0][1] is ABSENT
