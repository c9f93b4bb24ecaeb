"""The earlier state of a live object: only what is or was declared, in the declared form where nothing differs."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.comparison import compare
from gitops.cluster.earlier import earlier_state

MANAGER = "gitops-test"


def tree(value: Any) -> dict[str, Any]:
    """The managedFields of whoever declared the value; lists of maps are keyed by name."""
    if isinstance(value, dict) and value:
        return {f"f:{key}": tree(child) for key, child in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return {f'k:{{"name":"{item["name"]}"}}': {".": {}, **tree(item)} for item in value}
    return {}


def live(applied: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """An object that holds `now` after we applied `applied`."""
    entry = {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": tree({"spec": applied})}
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "managedFields": [entry]}, "spec": now}


@pytest.mark.parametrize(
    ("applied", "now", "declared", "expected"),
    [
        ({"a": 1}, {"a": 1, "default": 2}, {"a": 2}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 1, "default": 2}, {"a": 1, "b": 3}, {"a": 1}),
        ({"m": {"a": 1, "b": 2}}, {"m": {"a": 1, "b": 2, "c": 3}}, {"m": {"a": 1}}, {"m": {"a": 1, "b": 2}}),
        ({"m": {"b": 2}}, {"m": {"b": 2}}, {"m": {}}, {"m": {"b": 2}}),
        (
            {"list": [{"name": "a", "v": 1}, {"name": "b"}]},
            {"list": [{"name": "a", "v": 1}, {"name": "b", "default": 1}]},
            {"list": [{"name": "c"}, {"name": "a", "v": 2}]},
            {"list": [{"name": "a", "v": 1}, {"name": "b", "default": 1}]},
        ),
        (
            {"list": [{"name": "a", "v": 1}]},
            {"list": [{"name": "a", "v": 1}]},
            {"list": [{"name": "a"}]},
            {"list": [{"name": "a", "v": 1}]},
        ),
    ],
)
def test_the_earlier_state(applied, now, declared, expected):
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": declared}
    there = live(applied, now)
    before = earlier_state(body, there, compare(body, there, MANAGER))
    assert before["spec"] == expected
    assert body["spec"] == declared


def test_equal_quantities_are_no_change():
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"limits": {"cpu": "1"}, "x": 1}}
    there = live({"limits": {"cpu": "1000m"}, "x": 2}, {"limits": {"cpu": "1000m"}, "x": 2})
    before = earlier_state(body, there, compare(body, there, MANAGER))
    assert before["spec"]["x"] == 2
