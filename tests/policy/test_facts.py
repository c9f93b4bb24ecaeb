"""What is known of a cluster: equal digests must mean that nothing is to be compiled or judged again."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gitops.model.identity import GroupVersionKind
from gitops.policy.facts import NOTHING_KNOWN, ClusterFacts
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import SchemaSet

CONFIG = GroupVersionKind("", "v1", "ConfigMap")
CHANGED = {
    "served": [{}, {CONFIG: True}, {CONFIG: False}],
    "silent": [{"apps/v1"}],
    "versions": [{"nim": "1.0"}, {"nim": "1.1"}, {"dynamo": "1.0"}],
    "refused": [{"nim": "1.0"}, {"nim": "no"}],
    "schemas": [SchemaSet.of([KindSchema.made(CONFIG, {"type": "object"})])],
    "server_version": ["v1.34.0", "v1.34.1"],
}


def test_every_field_is_in_the_digest() -> None:
    assert CHANGED.keys() == {field.name for field in fields(ClusterFacts)}
    told = [ClusterFacts(**{name: value}) for name, values in CHANGED.items() for value in values]
    digests = {facts.digest for facts in (NOTHING_KNOWN, *told)}
    assert len(digests) == len(told) + 1


@pytest.mark.parametrize(
    ("version", "minor"), [("v1.34.1", 34), ("1.30.0+k3s1", 30), ("", None), ("v2.1", None), ("v1.x", None)]
)
def test_the_minor_version(version: str, minor: int | None) -> None:
    assert ClusterFacts(server_version=version).minor == minor
