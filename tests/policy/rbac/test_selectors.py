"""Label selectors of aggregated roles."""

from __future__ import annotations

import pytest

from gitops.policy.rbac.selectors import BadSelectorError, read_selector


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": [*values]} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1", "b": "2", "c": "3"}, True),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        (expression("a", "In", "1", "2"), {"a": "2"}, True),
        (expression("a", "In", "1", "2"), {}, False),
        (expression("a", "NotIn", "1"), {"a": "2"}, True),
        (expression("a", "NotIn", "1"), {}, True),
        (expression("a", "NotIn", "1"), {"a": "1"}, False),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "Exists"), {}, False),
        (expression("a", "DoesNotExist"), {}, True),
        (expression("a", "DoesNotExist"), {"a": "1"}, False),
        ({"matchLabels": {"a": "1"}, **expression("b", "Exists")}, {"a": "1"}, False),
    ],
)
def test_selector(selector, labels, matches):
    assert read_selector(selector).matches(labels) is matches


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "a=1",
        {"matchlabels": {}},
        {"matchLabels": {"a": 1}},
        {"matchLabels": ["a"]},
        {"matchExpressions": {}},
        {"matchExpressions": [5]},
        expression("a", "Gt", "1"),
        expression("a", "In"),
        expression("a", "Exists", "1"),
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]},
    ],
)
def test_what_is_no_selector(value):
    with pytest.raises(BadSelectorError):
        read_selector(value)
