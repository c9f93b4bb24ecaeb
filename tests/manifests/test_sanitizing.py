"""What is taken out before an apply, and what must stay."""

import copy

import pytest

from gitops.manifests import codes
from gitops.manifests.sanitizing import prepare_body


def policy(spec):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}, "spec": spec}


def test_s04_s05_s14_what_only_the_cluster_writes():
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "uid": "1111",
            "resourceVersion": "7",
            "generation": 1,
            "selfLink": "/x",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": None,
            "deletionGracePeriodSeconds": 1,
            "managedFields": [{}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"},
            "finalizers": ["a/b"],
        },
        "status": {"phase": "x"},
        "data": {"uid": "stays", "status": "stays"},
    }
    before = copy.deepcopy(body)
    result, notes = prepare_body(body)
    assert result == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "annotations": {"mine": "x"}, "finalizers": ["a/b"]},
        "data": {"uid": "stays", "status": "stays"},
    }
    assert body == before
    assert {n.code for n in notes} == {codes.SERVER_OWNED}
    assert ("metadata", "uid") in {n.path for n in notes}
    assert len(notes) == 10


def test_annotations_of_the_cluster_alone_leave_no_empty_map():
    """An empty map would be ours, and with it everything that others annotate."""
    metadata = {"name": "a", "annotations": {"deployment.kubernetes.io/revision": "3"}}
    result, notes = prepare_body({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    assert result["metadata"] == {"name": "a"}
    assert [n.path for n in notes] == [("metadata", "annotations", "deployment.kubernetes.io/revision")]


def test_s06_creation_timestamp_in_templates():
    body = {"spec": {"template": {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}, "spec": {}}}}
    result, _ = prepare_body(body)
    assert result == {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}}


def test_y23_null_labels_and_annotations_are_absent():
    body = {"metadata": {"name": "a", "labels": None, "annotations": None}, "spec": {"args": None}}
    result, notes = prepare_body(body)
    assert result == {"metadata": {"name": "a"}, "spec": {"args": None}}
    assert [n.code for n in notes] == [codes.EMPTY_VALUE] * 2


def test_the_notes_of_an_object_are_bounded():
    body = {"spec": {"templates": [{"metadata": {"creationTimestamp": None}} for _ in range(5_000)]}}
    result, notes = prepare_body(body)
    assert result == {"spec": {"templates": [{"metadata": {}}] * 5_000}}
    assert len(notes) == 100


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []},
            {"podSelector": {}, "policyTypes": ["Ingress"]},
            id="deny-all-ingress",
        ),
        pytest.param(
            {"podSelector": {"matchLabels": {}, "matchExpressions": []}, "egress": []},
            {"podSelector": {}},
            id="selects-all",
        ),
        pytest.param(
            {"podSelector": {}, "ingress": [{}], "egress": [{}]},
            {"podSelector": {}, "ingress": [{}], "egress": [{}]},
            id="an-empty-rule-allows-all-and-stays",
        ),
        pytest.param(
            {"podSelector": {}, "ingress": [{"from": [], "ports": []}]},
            {"podSelector": {}, "ingress": [{}]},
            id="a-rule-without-peers-allows-all",
        ),
        pytest.param(
            {
                "podSelector": {},
                "ingress": [{"from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {}}}]}],
            },
            {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}, {"namespaceSelector": {}}]}]},
            id="empty-selectors-of-peers-stay",
        ),
        pytest.param(
            {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}]}]},
            {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            id="except",
        ),
        pytest.param({"podSelector": {}, "policyTypes": []}, {"podSelector": {}}, id="default-types"),
    ],
)
def test_meaningless_empties_of_network_policies(spec, expected):
    result, notes = prepare_body(policy(spec))
    assert result["spec"] == expected
    assert bool(notes) == (spec != expected)
    assert prepare_body(result) == (result, ())


def test_s12_empties_elsewhere_stay():
    body = {
        "kind": "X",
        "spec": {"resources": {"limits": {}}, "ingress": [], "emptyDir": {}, "matchLabels": {}, "n": 0},
    }
    result, notes = prepare_body(body)
    assert result == body
    assert notes == ()
