"""Applies over a live object: what is merged, what may stay wrong (ratcheting), what may never change.

The live object is made under a loose definition, which then becomes strict, as an upgrade of an operator does it.
"""

from typing import Any

import pytest
from controlplane_kit import ApiServer
from schema_kit.server import GROUP, Asking, definition, disagreement, kind_of

from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

TEXT = {"type": "string"}
LOOSE: dict[str, Any] = {
    "a": TEXT,
    "b": TEXT,
    "group": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
    "map": {"type": "object", "additionalProperties": TEXT},
    "atomic": {"type": "array", "items": TEXT},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": TEXT}},
    },
    "either": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
    "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
SHORT = {**TEXT, "maxLength": 1}


def strict() -> dict[str, Any]:
    items = LOOSE["keyed"]["items"]
    return {
        "a": SHORT,
        "b": {**TEXT, "enum": ["x"]},
        "group": {**LOOSE["group"], "required": ["b"], "properties": {"a": SHORT, "b": SHORT}},
        "map": {"type": "object", "additionalProperties": SHORT, "maxProperties": 1},
        "atomic": {"type": "array", "items": SHORT},
        "set": {**LOOSE["set"], "items": SHORT},
        "keyed": {**LOOSE["keyed"], "items": {**items, "properties": {"k": TEXT, "v": SHORT}}},
        "either": {
            **LOOSE["either"],
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "anyOf": [{"properties": {"a": {"maxLength": 1}}}, {"properties": {"b": {"enum": ["x"]}}}],
        },
        "kept": {**LOOSE["kept"], "minProperties": 3},
        "embedded": LOOSE["embedded"],
    }


LIVE = {
    "a": "long",
    "b": "y",
    "group": {"a": "long"},
    "map": {"one": "long", "two": "long"},
    "atomic": ["long", "s"],
    "set": ["long", "s"],
    "keyed": [{"k": "1", "v": "long"}, {"k": "2", "v": "s"}],
    "either": {"a": "long", "b": "long"},
    "kept": {"u": 1},
    "embedded": {"apiVersion": "v1", "kind": "Pod"},
}
UPDATES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "same": LIVE,
    "same_but_one": {**LIVE, "a": "s"},
    "scalar_repaired": {"a": "s"},
    "scalar_still_wrong": {"a": "other"},
    "enum_still_wrong": {"b": "z"},
    "enum_repaired": {"b": "x"},
    "required_untouched": {"group": {"a": "long"}},
    "required_beside_a_change": {"group": {"a": "s"}},
    "required_given": {"group": {"a": "long", "b": "s"}},
    "required_given_wrong": {"group": {"a": "long", "b": "long"}},
    "map_untouched": {"map": {"one": "long"}},
    "map_more": {"map": {"three": "s"}},
    "map_changed": {"map": {"one": "s"}},
    "map_changed_wrong": {"map": {"one": "longer"}},
    "atomic_untouched": {"atomic": ["long", "s"]},
    "atomic_order": {"atomic": ["s", "long"]},
    "atomic_more": {"atomic": ["long", "s", "t"]},
    "atomic_repaired": {"atomic": ["s"]},
    "set_untouched": {"set": ["long"]},
    "set_more": {"set": ["t"]},
    "keyed_untouched": {"keyed": [{"k": "1", "v": "long"}]},
    "keyed_more": {"keyed": [{"k": "3", "v": "s"}]},
    "keyed_more_wrong": {"keyed": [{"k": "3", "v": "long"}]},
    "keyed_other_changed": {"keyed": [{"k": "2", "v": "t"}]},
    "keyed_changed_wrong": {"keyed": [{"k": "1", "v": "longer"}]},
    "either_untouched": {"either": {"a": "long", "b": "long"}},
    "either_changed": {"either": {"a": "s"}},
    "either_changed_wrong": {"either": {"b": "s"}},
    "kept_untouched": {"kept": {"u": 1}},
    "kept_changed": {"kept": {"v": 2}},
    "kept_enough": {"kept": {"v": 2, "w": 3}},
    "embedded_wrong": {"embedded": {"apiVersion": "v1", "kind": "9"}},
    "unknown": {"zzz": 1},
}


@pytest.fixture(scope="module")
def live(shared_api: ApiServer) -> dict[str, Any]:
    """The object under the strict definition, which it breaks everywhere."""
    name = f"/apis/{GROUP}/v1/namespaces/default/ratchets"
    shared_api.create_crd_objects([kind(LOOSE)])
    with Asking(shared_api) as asking:
        assert asking.refusal(name, body(LIVE, "owner"), keep=True, manager="somebody") is None
    shared_api.create_crd_objects([kind(strict())])
    broken = body({"a": "longer"}, "fresh")

    def refused() -> bool:
        with Asking(shared_api) as asking:
            return asking.refusal(name, broken) is not None

    shared_api.wait(refused, "the strict definition to hold")
    found = shared_api.get(f"{name}/owner")
    assert isinstance(found, dict)
    return found


def kind(fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": {**fields, "later": {**TEXT, "default": "long"}}}
    return definition("Ratchet", {"type": "object", "properties": {"spec": spec}})


def body(spec: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Ratchet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("name", UPDATES)
def test_what_was_wrong_may_stay(name: str, live: dict[str, Any], shared_api: ApiServer) -> None:
    schema = kind_of(kind(strict()))
    with Asking(shared_api) as asking:
        said = disagreement(
            asking, f"/apis/{GROUP}/v1/namespaces/default/ratchets", schema, body(UPDATES[name], "owner"), live
        )
    assert not said, said


def test_without_the_live_object_all_of_it_is_wrong() -> None:
    schema = kind_of(kind(strict()))
    assert schema.judge(body(LIVE, "owner")).verdict is Verdict.INVALID
