"""The ownership table and handovers: which rule is about a field, and what a condition says of one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gitops.model.documents import problems_in
from gitops.model.identity import GroupKind, ObjectRef
from gitops.model.ownership import OwnershipTable
from gitops.policy.handovers import handed_over
from gitops.policy.ownership import Ownership, default_answer
from gitops.policy.registry import OperatorRegistry

DEPLOYMENT = GroupKind("apps", "Deployment")
GRAPH = GroupKind("nvidia.com", "DynamoGraphDeployment")
HOOKS = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
REPLICAS = ("spec", "replicas")
CA = ("webhooks", 1, "clientConfig", "caBundle")


def table(*rules: dict[str, Any]) -> OwnershipTable:
    filled = [{"id": f"rule-{i}", "source": "a test", **rule} for i, rule in enumerate(rules)]
    body = {"apiVersion": "gitops/v1alpha1", "kind": "OwnershipTable", "metadata": {"name": "mine"}}
    return OwnershipTable.model_validate({**body, "spec": {"rules": filled}})


@pytest.mark.parametrize(
    ("kind", "manager", "subresource", "path", "scaled", "answer"),
    [
        (DEPLOYMENT, "kube-controller-manager", "scale", REPLICAS, True, "yield"),
        (DEPLOYMENT, "kube-controller-manager", "scale", REPLICAS, False, "take"),
        (DEPLOYMENT, "kube-controller-manager", "", REPLICAS, True, "take"),
        (DEPLOYMENT, "kube-controller-manager", "scale", ("spec", "paused"), True, "take"),
        (DEPLOYMENT, "keda", "scale", REPLICAS, True, "yield"),
        (DEPLOYMENT, "kubectl", "scale", REPLICAS, True, "take"),
        (DEPLOYMENT, "anybody", "", REPLICAS, True, "take"),
        (HOOKS, "cert-manager-cainjector", "", CA, False, "yield"),
        (HOOKS, "an-operator", "", CA, False, "yield"),
        (HOOKS, "kubectl-patch", "", CA, False, "take"),
        (HOOKS, "before-first-apply", "", CA, False, "take"),
        (HOOKS, "an-operator", "", ("webhooks", 1, "clientConfig"), False, "take"),
        (DEPLOYMENT, "an-operator", "", CA, False, "take"),
        (GRAPH, "OpenAPI-Generator", "", ("spec", "components", 0, "replicas"), False, "yield"),
        (GRAPH, "OpenAPI-Generator", "", ("spec", "components", 0, "type"), False, "take"),
    ],
)
def test_what_the_shipped_rules_say(
    kind: GroupKind, manager: str, subresource: str, path: Any, scaled: bool, answer: str
) -> None:
    shipped = Ownership.shipped()
    assert shipped.answer(kind, manager, subresource, path, default="take", scaled=scaled) == answer
    assert shipped.concerns(manager, subresource, kind) or answer == "take"


def test_the_first_rule_decides_and_added_ones_come_first() -> None:
    rules = table(
        {"managers": ["tuner-?"], "paths": ["/spec/limits"], "answer": "ask"},
        {"managers": ["tuner-*"], "answer": "yield"},
        {"managers": ["cert-*"], "answer": "take"},
    )
    ours = Ownership.shipped().extended([rules])
    for manager, path, answer in (
        ("tuner-1", ("spec", "limits", "cpu"), "ask"),
        ("tuner-1", ("spec", "limit"), "yield"),
        ("tuner-12", ("spec", "limits"), "yield"),
        ("cert-manager-cainjector", CA, "take"),
        ("other", CA, "yield"),
    ):
        assert ours.answer(HOOKS, manager, "", path, default="take", scaled=False) == answer, (manager, path)


def test_keys_with_slashes_are_escaped_as_in_json_pointers() -> None:
    rules = table({"managers": ["*"], "paths": ["/metadata/annotations/a.b~1c~0d"], "answer": "yield"})
    ours = Ownership([rules])
    path = ("metadata", "annotations", "a.b/c~d")
    assert ours.answer(DEPLOYMENT, "x", "", path, default="take", scaled=False) == "yield"


def test_an_id_is_there_once_and_unknown_answers_are_refused() -> None:
    twice = table({"id": "a", "managers": ["*"], "answer": "yield"}, {"id": "a", "managers": ["x"], "answer": "ask"})
    assert [p.path for p in problems_in(twice)] == [("spec", "rules", 1, "id")]
    with pytest.raises(ValidationError):
        table({"managers": ["*"], "answer": "keep"})


@pytest.mark.parametrize(
    ("annotations", "answer"),
    [({}, "take"), ({"gitops/conflicts": "ask"}, "ask"), ({"gitops/conflicts": "keep"}, "take"), (None, "take")],
)
def test_the_annotation_says_what_no_rule_says(annotations: Any, answer: str) -> None:
    assert default_answer({"metadata": {"annotations": annotations}}) == answer


@pytest.mark.parametrize(
    ("kind", "api", "target", "expected"),
    [
        (
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            {"apiVersion": "apps/v1", "kind": "StatefulSet"},
            "apps/StatefulSet",
        ),
        (
            "HorizontalPodAutoscaler",
            "autoscaling/v1",
            {"apiVersion": "v1", "kind": "ReplicationController"},
            "/ReplicationController",
        ),
        ("ScaledObject", "keda.sh/v1alpha1", {}, "apps/Deployment"),
        ("ScaledObject", "keda.sh/v1alpha1", {"apiVersion": "a.b/v1", "kind": "Own"}, "a.b/Own"),
    ],
)
def test_what_an_autoscaler_targets(kind: str, api: str, target: dict[str, str], expected: str) -> None:
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": "h", "namespace": "n"}}
    group, _, name = expected.partition("/")
    scaler = {**body, "spec": {"scaleTargetRef": {**target, "name": "web"}}}
    assert Ownership.shipped().target(scaler) == ObjectRef(group, name, "n", "web")


@pytest.mark.parametrize("spec", [None, {}, {"scaleTargetRef": "x"}, {"scaleTargetRef": {"name": 1}}])
def test_what_names_no_target_scales_nothing(spec: Any) -> None:
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {}, "spec": spec}
    assert Ownership.shipped().target(body) is None


# -- handovers -------------------------------------------------------------------------------------------------------


def graph(**services: Any) -> dict[str, Any]:
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": {"services": services}}


def components(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": {"components": list(items)}}


ON, OFF = {"replicas": 2, "scalingAdapter": {"enabled": True}}, {"replicas": 2, "scalingAdapter": {"enabled": False}}
DECODE, FRONT = {"name": "decode", "replicas": 2}, {"name": "front", "replicas": 1}


@pytest.mark.parametrize(
    ("body", "live", "paths"),
    [
        (graph(decode=ON, front=OFF), None, [("spec", "services", "decode", "replicas")]),
        (graph(decode=OFF), graph(decode=ON), [("spec", "services", "decode", "replicas")]),
        (graph(decode=OFF), graph(other=ON), []),
        (graph(decode={"scalingAdapter": {"enabled": True}}), None, []),
        (components({**DECODE, "scalingAdapter": {}}, FRONT), None, [("spec", "components", 0, "replicas")]),
        # Told apart by name, wherever they stand.
        (
            components(FRONT, DECODE),
            components({**DECODE, "scalingAdapter": {}}, FRONT),
            [("spec", "components", 1, "replicas")],
        ),
        (components(FRONT, DECODE), components(DECODE, FRONT), []),
    ],
)
def test_replicas_under_a_scaling_adapter_in_git_or_on_the_cluster(body: Any, live: Any, paths: Any) -> None:
    rules = OperatorRegistry.shipped().rules_of(GRAPH)
    assert [path for path, _ in handed_over(body, live, rules)] == paths


def test_what_cannot_be_told_is_left_alone() -> None:
    rules = OperatorRegistry.shipped().rules_of(GRAPH)
    body = components({**DECODE, "scalingAdapter": {}, "wild": 2**70})
    assert [path for path, _ in handed_over(body, None, rules)] == [("spec", "components", 0, "replicas")]


def test_replicas_of_what_is_scaled_only_where_they_are_declared() -> None:
    rules = OperatorRegistry.shipped().rules_of(DEPLOYMENT)
    assert list(handed_over({"spec": {"replicas": 1}}, None, rules, scaler="hpa")) == [(REPLICAS, "hpa")]
    assert list(handed_over({"spec": {}}, None, rules, scaler="hpa")) == []
    assert list(handed_over({"spec": {"replicas": 1}}, None, rules)) == []
