"""The quick answer never says yes where the long comparison finds something, and says yes where it matters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gitops.cluster.comparison import compare
from gitops.cluster.exactness import owns_exactly
from gitops.cluster.payloads import ownable

MANAGER = "gitops-test"

PAYLOAD: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "finalizers": ["example.org/a"]},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "spec": {
                "containers": [
                    {"name": "a", "image": "x", "args": ["one", "two"], "emptyList": [], "emptyMap": {}},
                    {"name": "b", "image": "y", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                ]
            }
        },
    },
}

TREE: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"example.org/a"': {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"a"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:emptyList": {},
                        "f:emptyMap": {},
                    },
                    'k:{"name":"b"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                                "f:protocol": {},
                            }
                        },
                    },
                }
            }
        },
    },
}


def _agrees(payload: dict[str, Any], tree: dict[str, Any], *others: dict[str, Any]) -> bool:
    """The quick answer, after checking that a yes is what the long comparison says too."""
    declared = ownable(payload)
    quick = owns_exactly(declared, tree, others)
    entries: list[dict[str, Any]] = [{"manager": "other", "operation": "Update", "fieldsV1": o} for o in others]
    ours = {"manager": MANAGER, "operation": "Apply", "fieldsV1": tree}
    for entry in (*entries, ours):
        entry["apiVersion"] = payload["apiVersion"]
    live = {**payload, "metadata": {**payload["metadata"], "managedFields": [*entries, ours]}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitops.cluster.comparison.owns_exactly", lambda *_: False)
        found = compare(payload, live, MANAGER)
    assert not quick or not (found.lost or found.extra), found
    return quick


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for name, sub in tree.items():
        if name != ".":
            yield from _nodes(sub)


def test_object_as_applied_is_owned_exactly() -> None:
    assert _agrees(PAYLOAD, TREE)
    assert _agrees(PAYLOAD, TREE, {"f:status": {"f:replicas": {}}})
    assert _agrees(PAYLOAD, TREE, {"f:spec": {"f:replicas": {}, "f:paused": {}}})


def test_every_path_that_is_lost_or_added_is_noticed() -> None:
    for position, node in enumerate(_nodes(TREE)):
        for name in node:
            less = copy.deepcopy(TREE)
            del list(_nodes(less))[position][name]
            leaf = len(node) == 1  # what is left then looks like a map or list that is owned whole
            assert not _agrees(PAYLOAD, less) or name == "." or leaf, name
        more = copy.deepcopy(TREE)
        list(_nodes(more))[position]["f:more"] = {}
        assert not _agrees(PAYLOAD, more)


def test_parts_that_others_own_of_a_leaf_are_left_to_the_long_way() -> None:
    fields = {"f:spec": {"f:selector": {"f:matchLabels": {"f:app": {}}}}}
    assert not _agrees(PAYLOAD, TREE, fields)
    items = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:args": {'v:"one"': {}}}}}}}}
    assert not _agrees(PAYLOAD, TREE, items)


def test_items_declared_twice_and_keys_left_out_are_left_to_the_long_way() -> None:
    twice = copy.deepcopy(PAYLOAD)
    twice["spec"]["template"]["spec"]["containers"][1]["name"] = "a"
    assert not _agrees(twice, TREE)
    defaulted = copy.deepcopy(PAYLOAD)
    del defaulted["spec"]["template"]["spec"]["containers"][1]["ports"][0]["protocol"]
    assert not _agrees(defaulted, TREE)
