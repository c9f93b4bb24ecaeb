"""What a live object becomes by an apply, told from who owns what: each pair against the real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from controlplane_kit.client import APPLY, ApiServer
from differential_kit.ground import DATA
from differential_kit.oracle import Answer, Oracle
from differential_kit.samples import Body, read_definitions

from gitops.policy.schemas.defaults import fill_defaults
from gitops.policy.schemas.judging import compiled
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.merging import outcomes
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

A = {"name": "a", "members": ["x"]}
BECOMES: dict[str, tuple[Body, Body, Body]] = {
    # what we applied, what another applied then, what we apply now
    "a field is dropped": ({"rules": {"text": "a", "int": "1"}}, {}, {"rules": {"text": "a"}}),
    "a map is dropped": ({"rules": {"text": "a"}, "open": {}}, {}, {"open": {}}),
    "all is dropped": ({"rules": {"text": "a"}}, {}, {}),
    "a value is replaced": ({"rules": {"text": "a"}}, {}, {"rules": {"text": "b"}}),
    "an item is dropped": ({"lists": {"ports": [{"port": 1}, {"port": 2}]}}, {}, {"lists": {"ports": [{"port": 2}]}}),
    "an item is added": ({"lists": {"ports": [{"port": 1}]}}, {}, {"lists": {"ports": [{"port": 1}, {"port": 2}]}}),
    "a default is part of the key": (
        {"lists": {"ports": [{"port": 1, "weight": 1}]}},
        {},
        {"lists": {"ports": [{"port": 1, "protocol": "TCP", "weight": 2}]}},
    ),
    "a keyed list is emptied": ({"lists": {"ports": [{"port": 1}], "matrix": []}}, {}, {"lists": {"ports": []}}),
    "nothing but a keyed list, emptied": ({"lists": {"ports": [{"port": 1}]}}, {}, {"lists": {"ports": []}}),
    "a set is emptied": ({"lists": {"set": ["a"], "matrix": [[1]]}}, {}, {"lists": {"set": [], "matrix": []}}),
    "a set of an item": ({"lists": {"set": ["a"]}}, {}, {"lists": {"set": ["a", "c"]}}),
    "an atomic list is emptied": ({"lists": {"matrix": [[1]]}}, {}, {"lists": {"matrix": []}}),
    "an atomic map is emptied": ({"atomicMap": {"a": "b"}}, {}, {"atomicMap": {}}),
    "a map is emptied where null is allowed": ({"bare": {"a": {"b": 1}}}, {}, {"bare": {"a": {}}}),
    "a nullable map is emptied": ({"nulls": {"mayObject": {"a": "x"}}}, {}, {"nulls": {"mayObject": {}}}),
    "null is declared": ({"nulls": {"may": "x"}}, {}, {"nulls": {"may": None}}),
    "a map with a default is emptied": ({"chained": {"level": 4}}, {}, {"chained": {}}),
    "another's field stays": ({"rules": {"text": "a"}}, {"rules": {"int": "1"}}, {"rules": {"text": "b"}}),
    "another's field stays alone": ({"rules": {"text": "a"}}, {"rules": {"int": "1"}}, {}),
    "another's field keeps an emptied map": ({"rules": {"text": "a"}}, {"rules": {"int": "1"}}, {"rules": {}}),
    "a shared field stays": ({"rules": {"text": "a"}}, {"rules": {"text": "a"}}, {}),
    "another's item stays": (
        {"lists": {"ports": [{"port": 1}]}},
        {"lists": {"ports": [{"port": 2}]}},
        {"lists": {"ports": []}},
    ),
    "another's part of our item stays": (
        {"lists": {"ports": [{"port": 1}, {"port": 2}]}},
        {"lists": {"ports": [{"port": 1, "weight": 2}]}},
        {"lists": {"matrix": []}},
    ),
    "another's member of a set stays": (
        {"lists": {"numbers": [1]}},
        {"lists": {"numbers": [2]}},
        {"lists": {"numbers": [3]}},
    ),
    "null does not take what another declares": (
        {"rules": {"text": "a"}},
        {"rules": {"int": "1"}},
        {"rules": None},
    ),
    "null over a shared list with keys": (
        {"lists": {"ports": [{"port": 1}]}},
        {"lists": {"ports": [{"port": 1}]}},
        {"lists": {"ports": None}},
    ),
    "null over what nobody declares": ({"open": {}}, {}, {"chained": None}),
    "nobody's part of a shared item stays": (
        {"lists": {"named": [{"name": "a", "members": []}]}},
        {"lists": {"named": [{"name": "a"}]}},
        {},
    ),
    "a map that keeps unknown fields": ({"free": {"x": {"y": 1}, "z": 2}}, {}, {"free": {"x": {"w": 1}}}),
    "a map of maps": ({"map-of_maps": {"a": {"b": ["c"], "d": ["e"]}}}, {}, {"map-of_maps": {"a": {"b": ["f"]}}}),
}
REFUSED: dict[str, tuple[Body, Body, Body]] = {
    "an emptied map is null": ({"anyMap": {"a": "b"}}, {}, {"anyMap": {}}),
    "an emptied map in a map": ({"map-of_maps": {"a": {"b": ["c"]}}}, {}, {"map-of_maps": {"a": {}}}),
    "null takes what is ours": ({"rules": {"text": "a"}}, {}, {"rules": None}),
    "null over an empty map": ({"open": {}}, {}, {"open": None}),
    "null over an atomic map": ({"atomicMap": {"a": "x"}}, {"atomicMap": {"a": "x"}}, {"atomicMap": None}),
    "an emptied map of a list": ({"lists": {"set": ["a"]}}, {}, {"lists": {}}),
}


@pytest.fixture(scope="module")
def definition() -> Body:
    (found,) = read_definitions(DATA)
    return found


@pytest.fixture(scope="module")
def schema(definition: Body) -> KindSchema:
    (found,) = schemas_of_definitions([definition]).kinds.values()
    return found


@pytest.fixture(scope="module")
def oracle(shared_api: ApiServer, definition: Body) -> Iterator[Oracle]:
    shared_api.create_crd_objects([definition])
    made = Oracle(shared_api)
    yield made
    made.close()


def applied(oracle: Oracle, api: ApiServer, place: str, steps: tuple[Body, Body, Body]) -> tuple[Body, Body, Answer]:
    """The live object, what is applied over it, and the server's answer to that."""
    first, foreign, last = (body(spec) for spec in steps)
    made = oracle.apply(first, name="one", namespace=place, dry_run=False)
    assert made.accepted, made
    path = f"/apis/gitops.example/v1/namespaces/{place}/probes/one"
    if foreign["spec"]:
        query = {"fieldManager": "somebody", "force": "true"}
        api.request("PATCH", path, foreign, content_type=APPLY, query=query)
    live = api.get(path)
    return live, last, oracle.apply(last, name="one", namespace=place)


def body(spec: Body) -> Body:
    return {"apiVersion": "gitops.example/v1", "kind": "Probe", "metadata": {"name": "one"}, "spec": spec}


@pytest.mark.parametrize("steps", BECOMES.values(), ids=list(BECOMES))
def test_the_outcome_is_the_servers(
    oracle: Oracle, shared_api: ApiServer, namespace: str, schema: KindSchema, steps: tuple[Body, Body, Body]
) -> None:
    live, last, answer = applied(oracle, shared_api, namespace, steps)
    assert answer.live is not None, answer
    kind = compiled(schema.content, False)
    (ours,) = outcomes(live, last, kind.typed, kind.types)
    fill_defaults(ours, kind.schema)
    assert in_any_order(ours.get("spec")) == in_any_order(answer.live.get("spec"))
    assert schema.judge(last, live).verdict is Verdict.VALID


@pytest.mark.parametrize("steps", REFUSED.values(), ids=list(REFUSED))
def test_an_outcome_that_is_refused(
    oracle: Oracle, shared_api: ApiServer, namespace: str, schema: KindSchema, steps: tuple[Body, Body, Body]
) -> None:
    live, last, answer = applied(oracle, shared_api, namespace, steps)
    assert "null" in answer.message
    assert schema.judge(last, live).verdict is Verdict.INVALID


def test_without_managed_fields_both_outcomes_count(schema: KindSchema) -> None:
    live = body({"anyMap": {"a": "b"}})
    assert schema.judge(body({"anyMap": {}}), live).verdict is Verdict.UNVERIFIED
    assert schema.judge(body({"anyMap": {"c": "d"}}), live).verdict is Verdict.VALID
    assert schema.judge(body({"texts": {}}), live).verdict is Verdict.INVALID


def in_any_order(value: Any) -> Any:
    """Where the items of others are in a list is not told apart here."""
    if isinstance(value, dict):
        return {key: in_any_order(child) for key, child in value.items()}
    if isinstance(value, list):
        return sorted((in_any_order(copy.copy(child)) for child in value), key=repr)
    return value
