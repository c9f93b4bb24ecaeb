"""Single cases: images, NIMCache's puller, replicas 0, long names, values of the wrong type."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.manifests.lines import dotted
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, GroupKind, ObjectRef
from gitops.overlays.provenance import Provenance
from gitops.policy.operator_rules import manifest_problems
from gitops.policy.registry import OperatorRegistry
from gitops.policy.updates import Update, check_updates, update_problems

REGISTRY = OperatorRegistry.shipped()
CLUSTER = ClusterName("dgx-a")
DGD = GroupKind("nvidia.com", "DynamoGraphDeployment")
NIM_SERVICE = GroupKind("apps.nvidia.com", "NIMService")
DIGEST = "@sha256:" + "0" * 64


def graph(component: dict[str, Any], name: str = "chat") -> dict[str, Any]:
    main = {"name": "main", "image": "example/worker:1.0.0"}
    component = {"name": "decode", "podTemplate": {"spec": {"containers": [main]}}, **component}
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {"components": [component]},
    }


def told(kind: GroupKind, body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(code, dotted(path)) for code, _, path in manifest_problems(REGISTRY, kind, body)]


@pytest.mark.parametrize(
    ("image", "fine"),
    [
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0", True),
        ("registry.example:5000/vllm-runtime:v1.5.0", True),
        ("registry.example:5000/a/b:1.2.0-deepseek-v4-cuda13-dev.3", True),
        (f"registry.example/a:1.5.0{DIGEST}", True),
        ("a:1.5.0+build.7", True),
        (f"registry.example:5000/a{DIGEST}", False),
        ("registry.example:5000/a", False),
        ("registry.example:1.5.0/a", False),
        ("a:latest", False),
        ("a:my-tag", False),
        ("a:1.5", False),
        ("a:01.5.0", False),
        ("a:1.5.0.1", False),
        ("a", False),
    ],
)
def test_version_in_the_tag_of_an_image(image, fine):
    body = graph({"podTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}}})
    assert told(DGD, body) == ([] if fine else [("GO4521", "spec.components[0]")])


CACHE = """\
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMCache
metadata: {name: embed}
spec:
  source:
    ngc:
      authSecret: ngc
      modelPuller: PULLER
  storage: {pvc: {create: true, size: 50Gi}}
"""


def test_n06_another_puller_needs_an_object_of_another_name():
    (old,) = read_documents(CACHE.encode(), file="cache.yaml").documents
    (new,) = read_documents(CACHE.replace("PULLER", "other:2").encode(), file="cache.yaml").documents
    ref = ObjectRef("apps.nvidia.com", "NIMCache", "fn-x", "embed")
    (found,) = check_updates(REGISTRY, [Update(CLUSTER, ref, old.body, new.body, Provenance.of_document(new))])
    assert (found.code, found.origin) == ("GO4527", Origin("cache.yaml", 8))
    assert "spec.source.ngc.modelPuller is immutable, it needs a new object name" in found.message
    assert "download" in found.message
    assert check_updates(REGISTRY, [Update(CLUSTER, ref, old.body, old.body, Provenance.of_document(old))]) == ()


def test_n08_zero_replicas_are_fine():
    service = {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMService",
        "metadata": {"name": "a"},
        "spec": {"replicas": 0, "authSecret": "a", "storage": {"pvc": {"name": "a"}}},
    }
    assert told(NIM_SERVICE, service) == []
    assert told(DGD, graph({"replicas": 0})) == []


def test_n10_names_of_a_multinode_component():
    body = graph({"name": "speculative-decode-worker", "multinode": {"nodeCount": 2}}, name="n" * 45)
    assert told(DGD, body) == [("GO4522", "spec.components[0].name")]
    assert told(DGD, graph({"name": "speculative-decode-worker"}, name="n" * 45)) == []


def test_rules_about_services_hold_inside_a_pipeline():
    spec = {"storage": {"emptyDir": {}, "pvc": {"name": "a"}}, "metrics": {"enabled": True}, "authSecret": "a"}
    body = {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMPipeline",
        "metadata": {"name": "a"},
        "spec": {"services": [{"name": "x", "enabled": True, "spec": spec}]},
    }
    assert told(GroupKind("apps.nvidia.com", "NIMPipeline"), body) == [
        ("GO4521", "spec.services[0].spec.storage"),
        ("GO4521", "spec.services[0].spec.metrics.serviceMonitor"),
    ]


@pytest.mark.parametrize(
    ("component", "at"),
    [
        ({"type": "epp", "replicas": "two"}, "spec.components[0].replicas"),
        ({"multinode": {}, "name": 5}, "spec.components[0].name"),
        ({"podTemplate": "x"}, "spec.components[0]"),
    ],
)
def test_a_value_of_the_wrong_type_is_no_silent_pass(component, at):
    assert at in [path for code, path in told(DGD, graph(component)) if code in ("GO4521", "GO4523")]


@pytest.mark.parametrize("value", [2**70, "a\0b"])
def test_what_the_engine_cannot_hold_is_told(value):
    assert ("GO4523", "") in told(DGD, graph({"replicas": value}))
    ref = ObjectRef(DGD.group, DGD.kind, "", "chat")
    problems = update_problems(REGISTRY, ref, graph({}), graph({"replicas": value}))
    assert [code for code, _, _ in problems] == ["GO4529"]


def test_an_object_with_very_many_components_is_judged_in_bounded_time():
    body = graph({})
    body["spec"]["components"] *= 5_000
    problems = list(manifest_problems(REGISTRY, DGD, body))
    assert [(code, dotted(path)) for code, _, path in problems] == [("GO4523", "spec.components[1000]")]


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    ref = ObjectRef(DGD.group, DGD.kind, "", "chat")
    return [(code, dotted(path)) for code, _, path in update_problems(REGISTRY, ref, before, after)]


def test_components_are_matched_by_name_and_the_set_is_fixed():
    constraint = {"topologyConstraint": {"packDomain": "rack"}}
    before, after = graph({}), graph({})
    before["spec"]["components"].append({"name": "prefill", **constraint})
    after["spec"]["components"].insert(0, {"name": "prefill", **constraint})
    assert changes(before, after) == []
    after["spec"]["components"][0] = {"name": "prefill"}
    assert changes(before, after) == [("GO4527", "spec.components[0].topologyConstraint")]
    after["spec"]["components"][0] = {"name": "router"}
    assert changes(before, after) == [("GO4527", "spec.components")]


def test_between_versions_of_a_kind_nothing_is_compared_and_that_is_told():
    old = {**graph({}), "apiVersion": "nvidia.com/v1alpha1", "spec": {"services": {"decode": {}}}}
    assert changes(old, graph({})) == [("GO4529", "apiVersion")]


def test_nothing_and_an_empty_map_are_the_same():
    before, after = graph({}), graph({})
    after["spec"]["topologyConstraint"] = {}
    assert changes(before, after) == []
    after["spec"]["backendFramework"] = "vllm"
    assert changes(before, after) == [("GO4527", "spec.backendFramework")]
