"""What fields.compare says against what a real API server did, for random declarations and random foreign writes."""

import copy
import itertools
from typing import Any

import pytest
from controlplane_kit.client import APPLY, MERGE, ApiFailure, ApiServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops.cluster import fields

pytestmark = pytest.mark.controlplane

OURS = "gitops-fields"
GROUP = "fields.gitops.example"

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "replicas": INTEGER,
        "text": STRING,
        "flag": {"type": "boolean"},
        "ratio": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": STRING},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING},
        "groups": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"a": STRING, "b": INTEGER}},
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
        "atoms": {"type": "array", "items": STRING},
        "structs": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": STRING, "p": {"type": "string", "default": "TCP"}}},
        },
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": STRING, "value": STRING, "tags": {"type": "array", "items": STRING}},
            },
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": INTEGER, "protocol": {"type": "string", "default": "TCP"}, "note": STRING},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "empty": {"type": "object", "properties": {"x": STRING}},
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"probes.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "probes", "singular": "probe", "kind": "Probe", "listKind": "ProbeList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SCHEMA}}},
            }
        ],
    },
}

WORDS = st.sampled_from(["a", "b", "c", "d"])
NUMBERS = st.integers(0, 2)


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(WORDS, values, max_size=3)


def records(optional: dict[str, st.SearchStrategy[Any]], **required: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


ITEM = records({"value": WORDS, "tags": st.lists(WORDS, max_size=2)}, name=WORDS)
PORT = records({"protocol": st.sampled_from(["TCP", "UDP"]), "note": WORDS}, port=NUMBERS)
FREE = st.recursive(NUMBERS | WORDS, lambda inner: st.lists(inner, max_size=2) | maps(inner), max_leaves=5)
SPEC = records(
    {
        "replicas": NUMBERS,
        "text": WORDS | st.just(""),
        "flag": st.booleans(),
        "ratio": st.sampled_from([0, 1, 1.5]),
        "labels": maps(WORDS),
        "whole": maps(WORDS),
        "groups": maps(records({"a": WORDS, "b": NUMBERS})),
        "set": st.lists(WORDS, unique=True, max_size=3),
        "atoms": st.lists(WORDS, max_size=3),
        "structs": st.lists(records({"a": WORDS, "p": st.sampled_from(["TCP", "UDP"])}), max_size=2),
        "items": st.lists(ITEM, unique_by=lambda item: item["name"], max_size=3),
        "ports": st.lists(PORT, unique_by=lambda port: (port["port"], port.get("protocol", "TCP")), max_size=3),
        "free": maps(FREE),
        "empty": records({"x": WORDS}),
    }
)
WRITE = st.tuples(
    st.sampled_from(["merge", "merge", "put", "apply", "remove", "reorder"]), SPEC, st.sampled_from("xyz")
)


# -- an oracle that knows the schema ---------------------------------------------------------------------------------


def as_declared(declared: Any, live: Any, schema: dict[str, Any]) -> bool:
    """Whether every value that the declaration owns is live, by the schema's own words."""
    if schema["type"] == "object":
        return map_as_declared(declared, live, schema)
    if schema["type"] == "array":
        return list_as_declared(declared, live, schema)
    return bool(declared == live)


def map_as_declared(declared: dict[str, Any], live: Any, schema: dict[str, Any]) -> bool:
    if schema.get("x-kubernetes-map-type") == "atomic":
        return bool(declared == live)
    if not isinstance(live, dict):
        return False
    if "x-kubernetes-preserve-unknown-fields" in schema:
        return free_as_declared(declared, live)
    properties = schema.get("properties", {})
    return all(
        as_declared(value, live[name], properties.get(name) or schema["additionalProperties"])
        if name in live
        # An empty list that is gone: nothing in managedFields tells whether it was ours (atomic) or nobody's.
        else value == []
        for name, value in declared.items()
    )


def free_as_declared(declared: Any, live: Any) -> bool:
    """Without a schema maps are granular and lists atomic."""
    if isinstance(declared, dict):
        return isinstance(live, dict) and all(
            free_as_declared(v, live[k]) if k in live else v == [] for k, v in declared.items()
        )
    return bool(declared == live)


def list_as_declared(declared: list[Any], live: Any, schema: dict[str, Any]) -> bool:
    kind = schema.get("x-kubernetes-list-type", "atomic")
    if not declared and kind != "atomic":
        return True  # owns nothing
    if not isinstance(live, list):
        return False
    if kind == "atomic":
        defaults = {n: p["default"] for n, p in schema["items"].get("properties", {}).items() if "default" in p}
        return [{**defaults, **d} if isinstance(d, dict) else d for d in declared] == live
    keys = schema.get("x-kubernetes-list-map-keys", [])

    def key(item: Any) -> Any:
        return tuple(item.get(k, "TCP") for k in keys) if keys else item

    places = {key(item): place for place, item in enumerate(live)}
    found = [places.get(key(item)) for item in declared]
    if None in found or found != sorted(found):
        return False
    return not keys or all(
        map_as_declared(item, live[place], schema["items"]) for item, place in zip(declared, found, strict=True)
    )


# -- writes ----------------------------------------------------------------------------------------------------------


def manifest(name: str, spec: Any, manager: str = OURS) -> dict[str, Any]:
    labels = {"gitops/reconciler": "t"} if manager == OURS else {"team": manager}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Probe", "metadata": metadata, "spec": spec}


PATH = f"/apis/{GROUP}/v1/namespaces/{{}}/probes"


class Probes:
    """Objects of the CRD on the real API server."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api = api
        self.path = PATH.format(namespace)
        self.names = (f"p{i}" for i in itertools.count())
        self.writes = self.drifts = self.quiet = 0

    def apply(self, name: str, spec: Any, manager: str) -> dict[str, Any]:
        body = manifest(name, spec, manager)
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        answer: dict[str, Any] = self.api.request("PATCH", f"{self.path}/{name}", body, content_type=APPLY, query=query)
        return answer

    def write(self, live: dict[str, Any], kind: str, spec: Any, manager: str) -> dict[str, Any]:
        """One foreign write of that kind; gives the object as it is afterwards."""
        name, query = live["metadata"]["name"], {"fieldManager": manager}
        path = f"{self.path}/{name}"
        before = live.get("spec") or {}
        if kind == "apply":
            return self.apply(name, spec, manager)
        if kind == "merge":
            body = {"spec": spec}
            answer = self.api.request("PATCH", path, body, content_type=MERGE, query=query)
        elif kind == "remove":
            body = {"spec": dict.fromkeys(spec)}
            answer = self.api.request("PATCH", path, body, content_type=MERGE, query=query)
        else:
            changed = copy.deepcopy(live)
            del changed["metadata"]["managedFields"]
            changed["spec"] = spec if kind == "put" else {k: reordered(v) for k, v in before.items()}
            answer = self.api.request("PUT", path, changed, query=query)
        assert isinstance(answer, dict)
        return answer


def reordered(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) else value


@pytest.fixture
def probes(shared_api: ApiServer, namespace: str) -> Probes:
    shared_api.create_crd_objects([CRD])
    return Probes(shared_api, namespace)


@pytest.mark.timeout(300)
def test_d03_d07_says_drift_exactly_when_a_value_of_ours_differs(probes: Probes) -> None:
    """Random declarations, random writes by others: 200 at least."""

    @settings(
        max_examples=120,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(declared=SPEC, writes=st.lists(WRITE, min_size=1, max_size=4))
    def check(declared: Any, writes: list[tuple[str, Any, str]]) -> None:
        name = next(probes.names)
        payload = manifest(name, declared)
        live = probes.apply(name, declared, OURS)
        baseline = fields.fingerprint(payload, live, OURS)
        assert fields.compare(payload, live, OURS).in_sync_as_applied
        for kind, spec, manager in writes:
            try:
                live = probes.write(live, kind, spec, manager)
            except ApiFailure:
                continue  # what the server refuses changes nothing
            probes.writes += 1
            right = as_declared(declared, live.get("spec"), SCHEMA)
            now = fields.fingerprint(payload, live, OURS)
            same_values = now.values_digest == baseline.values_digest
            comparison = fields.compare(payload, live, OURS, values_as_applied=same_values)
            assert bool(comparison.differences) is not right, (kind, comparison)
            if not right:
                probes.drifts += 1
                assert not now.same_fields(baseline), "a drift nobody looks at"
            elif comparison.in_sync_as_applied:
                probes.quiet += now.same_fields(baseline)
        repaired = probes.apply(name, declared, OURS)
        again = fields.compare(payload, repaired, OURS)
        assert again.in_sync_as_applied, again
        assert as_declared(declared, repaired.get("spec"), SCHEMA)

    check()
    assert probes.writes >= 200
    assert probes.drifts >= 50
    assert probes.quiet >= 20
