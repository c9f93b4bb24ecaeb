"""Single fields that the API server would refuse: equal items of keyed lists, file modes, numbers for text."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.model.identity import GroupVersionKind
from gitops.policy.field_rules import equal_items, file_mode_problem, values_at
from gitops.policy.registry import OperatorRegistry

SCHEMAS = OperatorRegistry.shipped().schemas


def equal(api_version: str, kind: str, spec: dict[str, Any]) -> list[str]:
    shape = SCHEMAS.shape(GroupVersionKind.parse(api_version, kind))
    assert shape is not None
    return [message for _, message, _ in equal_items({"spec": spec}, shape)]


@pytest.mark.parametrize(
    ("ports", "told"),
    [
        ([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}], []),
        (
            [{"port": 53}, {"port": 53, "protocol": "TCP"}],
            ["spec.ports[1] has the same port and protocol as spec.ports[0]"],
        ),
        ([{"port": 53}, {"port": 54}, {"port": 53}], ["spec.ports[2] has the same port and protocol as spec.ports[0]"]),
        ([{"name": "a"}, {"name": "a"}], []),
        ([1, None, "x"], []),
        ("no list", []),
    ],
)
def test_s02_s03_ports_of_a_service(ports, told):
    assert equal("v1", "Service", {"ports": ports}) == told


def test_s02_at_any_depth():
    container = {"name": "main", "env": [{"name": "A"}, {"name": "A"}], "volumeMounts": [{"mountPath": "/a"}] * 2}
    spec = {"template": {"spec": {"containers": [container, container]}}}
    at = "spec.template.spec.containers"
    assert equal("apps/v1", "Deployment", spec) == [
        f"{at}[1] has the same name as {at}[0]",
        *(
            message
            for n in (0, 1)
            for message in (
                f"{at}[{n}].env[1] has the same name as {at}[{n}].env[0]",
                f"{at}[{n}].volumeMounts[1] has the same mountPath as {at}[{n}].volumeMounts[0]",
            )
        ),
    ]


def test_lists_without_keys_may_repeat_items():
    assert (
        equal("v1", "Pod", {"tolerations": [{"key": "a"}] * 2, "containers": [{"name": "a", "args": ["x", "x"]}]}) == []
    )


@pytest.mark.parametrize(
    ("name", "value", "owner", "wrong"),
    [
        ("defaultMode", 420, {}, False),
        ("defaultMode", 511, {}, False),
        ("defaultMode", 644, {}, True),
        ("defaultMode", -1, {}, True),
        ("defaultMode", True, {}, False),
        ("mode", 755, {"key": "a", "path": "a"}, True),
        ("mode", 755, {"fieldRef": {}, "path": "a"}, True),
        ("mode", 755, {}, False),
        ("port", 8080, {}, False),
    ],
)
def test_y03_file_modes(name, value, owner, wrong):
    assert (file_mode_problem(name, value, owner) is not None) is wrong


def test_y03_the_octal_is_proposed_where_there_is_one():
    assert "write 0644" in str(file_mode_problem("defaultMode", 644, {}))
    assert "write" not in str(file_mode_problem("defaultMode", 689, {}))


def test_values_at_paths():
    body = {"spec": {"a": {"tag": 1.2}, "list": [{"tag": "x"}, {"tag": 3}, 4], "map": {"p": {"tag": True}}}}
    paths = ["/spec/a/tag", "/spec/list/*/tag", "/spec/map/*/tag", "/spec/none/tag"]
    assert [found for path in paths for found in values_at(body, path)] == [
        (("spec", "a", "tag"), 1.2),
        (("spec", "list", 0, "tag"), "x"),
        (("spec", "list", 1, "tag"), 3),
        (("spec", "map", "p", "tag"), True),
    ]
