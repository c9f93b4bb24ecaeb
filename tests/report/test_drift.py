"""Drift records: what they say, and that they say it the same way each time."""

import datetime
from typing import Any

import msgspec
import pytest

from gitops.cluster import fields
from gitops.cluster.managed_fields import Writer
from gitops.cluster.values import MASK, MASK_OTHER
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.overlays.provenance import Provenance
from gitops.plan.units import DesiredObject, Stage
from gitops.report.drift import (
    MOST_PATHS,
    VALUE_LIMIT,
    DriftKind,
    Repair,
    drift_records,
    object_record,
    rfc3339,
    shown,
    shown_apart,
)
from gitops.report.drift_files import record_body

OURS = "gitops-main"
UNIT = UnitKey.parse("function/llama-chat/h100-0@dgx-a")
NOW = datetime.datetime(2026, 3, 1, 12, 0, 30, tzinfo=datetime.UTC)
FILE = "functions/llama-chat/manifests/graph.yaml"
MANIFEST = b"""\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: llama, namespace: fn-llama}
spec:
  components:
  - name: frontend
    replicas: 1
  - name: decode
    replicas: 2
  note: as it is
"""


@pytest.fixture
def desired() -> DesiredObject:
    return make(MANIFEST)


def make(manifest: bytes) -> DesiredObject:
    (document,) = read_documents(manifest, file=FILE).documents
    body: dict[str, Any] = document.body
    gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    metadata = body["metadata"]
    return DesiredObject(
        ref=ObjectRef(gvk.group, gvk.kind, metadata.get("namespace", ""), metadata["name"]),
        gvk=gvk,
        payload=msgspec.json.encode(body),
        digest=b"",
        origin=Origin(FILE, 1),
        provenance=Provenance.of_document(document),
        stage=Stage.CUSTOM,
    )


def live(desired: DesiredObject, decode_replicas: int, note: str | None = "as it is") -> dict[str, Any]:
    """As it is after `kubectl scale`-like writes took decode's replicas and the note."""
    found = desired.body
    found["spec"]["components"][1]["replicas"] = decode_replicas
    if note is None:
        del found["spec"]["note"]
    item = {".": {}, "f:name": {}}
    components = {'k:{"name":"frontend"}': {**item, "f:replicas": {}}, 'k:{"name":"decode"}': item}
    taken = {"f:spec": {"f:components": {'k:{"name":"decode"}': {"f:replicas": {}}}}}
    common = {"apiVersion": "nvidia.com/v1beta1", "fieldsType": "FieldsV1"}
    ours = {**common, "manager": OURS, "operation": "Apply", "time": "2026-03-01T11:00:00Z"}
    theirs = {**common, "manager": "kubectl-edit", "operation": "Update", "time": "2026-03-01T12:00:00Z"}
    found["metadata"]["managedFields"] = [
        {**ours, "fieldsV1": {"f:spec": {"f:components": components}}},
        {**theirs, "fieldsV1": taken},
    ]
    return found


def test_a_changed_value_is_told_with_file_and_line(desired: DesiredObject) -> None:
    comparison = fields.compare(desired.body, live(desired, 5), OURS)
    (record,) = drift_records(UNIT, desired, comparison, detected_at=NOW)
    assert record_body(record.with_repair(Repair.REPAIRED, NOW)) == {
        "object": "DynamoGraphDeployment.nvidia.com fn-llama/llama",
        "kind": "changed",
        "path": "spec.components[name=decode].replicas",
        "declared": 2,
        "live": 5,
        "declaredAt": f"{FILE}:9",
        "by": "kubectl-edit (Update)",
        "manager": "kubectl-edit",
        "operation": "Update",
        "lastWrite": "2026-03-01T12:00:00Z",
        "detectedAt": "2026-03-01T12:00:30Z",
        "endedAt": "2026-03-01T12:00:30Z",
        "outcome": "repaired",
    }
    assert record.sentence == (
        "spec.components[name=decode].replicas of DynamoGraphDeployment.nvidia.com fn-llama/llama is 5, "
        f"declared at {FILE}:9 as 2; by kubectl-edit (Update); repair pending"
    )


def test_a_removed_value_is_told_with_who_probably_did_it(desired: DesiredObject) -> None:
    comparison = fields.compare(desired.body, live(desired, 2, note=None), OURS)
    (record,) = drift_records(UNIT, desired, comparison, detected_at=NOW)
    assert record.path == "spec.note"
    assert "live" not in record_body(record)
    assert (record_body(record)["detail"], record_body(record)["inferred"]) == ("missing", True)
    assert record.by == "probably kubectl-edit (Update)"
    assert 'was removed, declared at functions/llama-chat/manifests/graph.yaml:10 as "as it is"' in record.sentence


def test_lost_ownership_alone_is_no_drift_record(desired: DesiredObject) -> None:
    comparison = fields.compare(desired.body, live(desired, 2), OURS)
    assert drift_records(UNIT, desired, comparison, detected_at=NOW) == ()


def test_an_object_that_is_gone_has_one_record(desired: DesiredObject) -> None:
    record = object_record(UNIT, desired, DriftKind.DELETED, detected_at=NOW).with_repair(Repair.REPAIRED)
    assert record_body(record)["by"] == "unknown"
    assert record.sentence == (
        f"DynamoGraphDeployment.nvidia.com fn-llama/llama was deleted (declared at {FILE}:1); by unknown; repaired"
    )
    writer = Writer("kubectl-label", "Update", "", "2026-03-01T12:00:00Z")
    relabelled = object_record(UNIT, desired, DriftKind.RELABELLED, detected_at=NOW, writer=writer)
    assert relabelled.by == "kubectl-label (Update)"


def test_x01_secret_values_are_in_no_form() -> None:
    secret = make(b"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\ndata: {token: b25l}\n")
    found = {**secret.body, "data": {"token": "dHdv"}}
    (record,) = drift_records(UNIT, secret, fields.compare(secret.body, found, OURS), detected_at=NOW)
    assert (record.declared, record.live, record.masked) == (MASK, MASK_OTHER, True)
    for form in (repr(record), record.sentence, repr(record_body(record))):
        assert "b25l" not in form
        assert "dHdv" not in form


def test_values_are_bounded() -> None:
    assert shown("x" * 1000) == "x" * (VALUE_LIMIT - 1) + "…"
    assert len(shown([{"name": "x" * 1000}])) == VALUE_LIMIT
    assert shown({"a": 1}) == {"a": 1}
    assert shown("one\ntwo\x1b[31m") == "one\\ntwo\\u001b[31m"


def test_of_long_texts_the_place_where_they_part_is_shown() -> None:
    before, after = shown_apart("x" * 1000 + "level=info", "x" * 1000 + "level=debug")
    assert before == "…" + "x" * 34 + "level=info"
    assert after == "…" + "x" * 34 + "level=debug"
    assert shown_apart("short", "y" * 300)[0] == "short"


def test_of_very_many_differences_of_an_object_the_first_are_records_and_the_rest_a_number() -> None:
    keys = {f"k{number:03}": "a" for number in range(MOST_PATHS + 7)}
    text = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": "n"}, "data": keys}
    desired = make(msgspec.json.encode(text))
    found = {**desired.body, "data": dict.fromkeys(keys, "b")}
    records = drift_records(UNIT, desired, fields.compare(desired.body, found, OURS), detected_at=NOW)
    assert len(records) == MOST_PATHS + 1
    assert "7 more paths of ConfigMap n/s" in records[-1].sentence


def test_records_are_sorted_and_the_same_each_time(desired: DesiredObject) -> None:
    comparison = fields.compare(desired.body, live(desired, 5, note=None), OURS)
    records = [drift_records(UNIT, desired, comparison, detected_at=NOW) for _ in range(2)]
    assert records[0] == records[1]
    assert [r.path for r in records[0]] == ["spec.components[name=decode].replicas", "spec.note"]


def test_times_need_a_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        rfc3339(datetime.datetime(2026, 1, 1))
    assert rfc3339(datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))) == (
        "2026-01-01T00:00:00Z"
    )
