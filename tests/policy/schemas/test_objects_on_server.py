"""Whole objects: metadata, status, numbers of replicas, schemas of the root; our verdict and the real API server's."""

from collections.abc import Iterator
from typing import Any

import pytest
from controlplane_kit import ApiServer
from schema_kit.server import GROUP, Asking, definition, disagreement, kind_of

from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCALED = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "other": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer", "minimum": 5}}},
    },
}
SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
NAMED = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a", "maxLength": 3}}}
    },
}
KINDS = {
    "Plain": definition("Plain", OPEN),
    "Wide": definition("Wide", OPEN, scope="Cluster"),
    "Scaled": definition("Scaled", SCALED, subresources={"status": {}, **SCALE}),
    "Flat": definition("Flat", SCALED),
    "Loose": definition("Loose", OPEN, subresources=SCALE),
    "Named": definition("Named", NAMED),
    "Empty": definition("Empty", {"type": "object"}),
    "Strict": definition(
        "Strict", {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "default": {}}}}
    ),
    "Needs": definition("Needs", {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}}),
}


@pytest.fixture(scope="module")
def asking(shared_api: ApiServer) -> Iterator[Asking]:
    shared_api.create_crd_objects(KINDS.values())
    with Asking(shared_api) as connection:
        yield connection


def check(asking: Asking, kind: str, metadata: Any, fields: dict[str, Any], *, unclear: bool = False) -> None:
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **fields}
    scope = "" if kind == "Wide" else "/namespaces/default"
    schema = kind_of(KINDS[kind])
    assert (schema.judge(body).verdict is Verdict.UNVERIFIED) == unclear
    said = disagreement(asking, f"/apis/{GROUP}/v1{scope}/{kind.lower()}s", schema, body)
    assert not said, said


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
METADATA: list[dict[str, Any]] = [
    *({"name": name} for name in ("a", "A", "a.b", "a..b", "-a", "a_b", "é", "a" * 253, "a" * 254, "1", "a-", "a.-b")),
    *({"name": "x", "generateName": name} for name in ("a-", "A-", "a", "a.", "a_", "")),
    *({"name": "x", "labels": {key: "v"}} for key in ("a", "a/b", "/b", "a/", "a/b/c", "A/b", "a b", "", "a" * 64)),
    *({"name": "x", "labels": {"k": value}} for value in ("", "a", "a b", "-a", "a" * 64, "é", "1", "a_b.c-d", "a/b")),
    *({"name": "x", "labels": {"k": value}} for value in (1, None, True, [], {})),
    *({"name": "x", "labels": labels} for labels in (None, {}, [], "a", {"x" * 250 + ".de/k": "v"})),
    *({"name": "x", "annotations": {key: "v"}} for key in ("a", "A/b", "UPPER.case/K", "a b", "", "a//b", "é/a")),
    *({"name": "x", "annotations": {"k": value}} for value in ("", "\n", "é", 1, None, "x" * (256 * 1024 - 1))),
    {"name": "x", "annotations": {"k": "x" * (256 * 1024)}},
    {"name": "x", "annotations": {"k": "é" * (128 * 1024)}},
    *({"name": "x", "finalizers": finalizers} for finalizers in ([], ["a"], ["a/b"], ["a b"], [""], ["a", "a"])),
    *({"name": "x", "finalizers": finalizers} for finalizers in ([None], [1], ["orphan", "foregroundDeletion"])),
    *({"name": "x", "ownerReferences": owners} for owners in ([], [OWNER], [OWNER, OWNER], [{**OWNER, "uid": ""}])),
    *(
        {"name": "x", "ownerReferences": [{**OWNER, **more}]}
        for more in (
            *({"kind": ""}, {"name": ""}, {"apiVersion": ""}, {"apiVersion": "a/b/c"}, {"apiVersion": "a/"}),
            *({"kind": "Event"}, {"controller": True}, {"controller": 1}, {"unknown": 1}, {"name": None}, {"uid": 1}),
        )
    ),
    {"name": "x", "ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "w", "controller": True}]},
    {"name": "x", "ownerReferences": [{"kind": "Pod"}]},
    *({"name": "x", field: "y"} for field in ("unknown", "clusterName", "selfLink")),
    *({"name": "x", "namespace": namespace} for namespace in ("default", "", None)),
    *({"name": "x", "managedFields": fields} for fields in ([], None, [{"manager": "m"}], [{}])),
    {"name": "x", "generation": 3},
    {"name": "x", "generation": "3"},
    {"name": "x", "deletionTimestamp": "2020-01-01T00:00:00Z"},
    {"name": "x", "creationTimestamp": "2020-01-01T00:00:00Z"},
    {"name": "x", "creationTimestamp": None},
    {"name": "x", "creationTimestamp": "yesterday"},
    {"name": "x", "creationTimestamp": {}},
    {"name": "x", "deletionGracePeriodSeconds": -1},
    {"name": "x", "resourceVersion": "7"},
    {"name": "x", "uid": "u"},
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(METADATA)), ids=lambda at: repr(METADATA[at])[:60])
def test_metadata(at: int, asking: Asking) -> None:
    check(
        asking,
        "Plain",
        METADATA[at],
        {},
        unclear=METADATA[at].get("resourceVersion", METADATA[at].get("uid")) is not None,
    )


WHOLE: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "no_metadata": ("Plain", None, {}),
    "metadata_no_map": ("Plain", "x", {}),
    "cluster_scoped": ("Wide", {"name": "x"}, {"a": 1}),
    "cluster_scoped_namespace": ("Wide", {"name": "x", "namespace": "default"}, {}),
    "replicas": ("Scaled", {"name": "x"}, {"spec": {"replicas": 1}}),
    "replicas_negative": ("Scaled", {"name": "x"}, {"spec": {"replicas": -1}}),
    "replicas_large": ("Scaled", {"name": "x"}, {"spec": {"replicas": 2**31}}),
    "replicas_largest": ("Scaled", {"name": "x"}, {"spec": {"replicas": 2**31 - 1}}),
    "replicas_none": ("Scaled", {"name": "x"}, {"spec": {}}),
    "replicas_no_spec": ("Scaled", {"name": "x"}, {}),
    "status_dropped": ("Scaled", {"name": "x"}, {"status": {"replicas": 1}}),
    "status_unknown": ("Scaled", {"name": "x"}, {"status": {"zzz": 1}}),
    "status_type": ("Scaled", {"name": "x"}, {"status": 1}),
    "status_kept": ("Flat", {"name": "x"}, {"status": {"replicas": 1}}),
    "status_kept_good": ("Flat", {"name": "x"}, {"status": {"replicas": 5}}),
    "scale_text": ("Loose", {"name": "x"}, {"spec": {"replicas": "1"}}),
    "scale_null": ("Loose", {"name": "x"}, {"spec": {"replicas": None}}),
    "scale_fraction": ("Loose", {"name": "x"}, {"spec": {"replicas": 1.5}}),
    "scale_integral": ("Loose", {"name": "x"}, {"spec": {"replicas": 1.0}}),
    "scale_spec_text": ("Loose", {"name": "x"}, {"spec": "1"}),
    "scale_spec_null": ("Loose", {"name": "x"}, {"spec": None}),
    "scale_status": ("Loose", {"name": "x"}, {"status": {"replicas": "x"}}),
    "scale_status_negative": ("Loose", {"name": "x"}, {"status": {"replicas": -1}}),
    "name_pattern": ("Named", {"name": "ab"}, {}),
    "name_pattern_not": ("Named", {"name": "ba"}, {}),
    "name_length_not": ("Named", {"name": "aaaa"}, {}),
    "name_other_fields": ("Named", {"name": "ab", "labels": {"a": "b"}}, {}),
    "empty": ("Empty", {"name": "x"}, {}),
    "empty_unknown": ("Empty", {"name": "x"}, {"spec": {}}),
    "root_default": ("Strict", {"name": "x"}, {}),
    "root_default_null": ("Strict", {"name": "x"}, {"spec": None}),
    "root_required": ("Needs", {"name": "x"}, {}),
    "root_required_there": ("Needs", {"name": "x"}, {"spec": {}}),
    "root_required_null": ("Needs", {"name": "x"}, {"spec": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_objects(name: str, asking: Asking) -> None:
    check(asking, *WHOLE[name])
