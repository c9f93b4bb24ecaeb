"""Values that YAML readers disagree on, beyond the compiler: compared with what is live, and written to drift files."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
import yaml

from gitops.cluster import fields
from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.overlays.provenance import Provenance
from gitops.plan.units import DesiredObject, Stage
from gitops.report.drift import DriftRecord, drift_records
from gitops.report.drift_files import UnitDrift, render_drift

OURS = "gitops-test"
KEY = UnitKey.parse("bundle/base@a")
NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def desired(spec: str) -> DesiredObject:
    text = f"apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: page, namespace: web}}\nspec:\n{spec}"
    (document,) = read_documents(text.encode(), file="a.yaml").documents
    payload = canonical_json(document.body)
    kind = GroupVersionKind("example.com", "v1", "Thing")
    ref = ObjectRef("example.com", "Thing", "web", "page")
    origin = Origin("a.yaml", 1)
    return DesiredObject(ref, kind, payload, digest(payload), origin, Provenance.of_document(document), Stage.CUSTOM)


def owned(value: Any) -> dict[str, Any]:
    return {f"f:{key}": owned(child) for key, child in value.items()} if isinstance(value, dict) else {}


def drifts(item: DesiredObject, **live_spec: Any) -> tuple[DriftRecord, ...]:
    """What is reported when the live object, as a server's JSON has it, says something else in these fields."""
    body = item.body
    entry = {"manager": OURS, "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1"}
    metadata = {
        **body["metadata"],
        "uid": "u",
        "managedFields": [{**entry, "fieldsV1": {"f:spec": owned(body["spec"])}}],
    }
    live = json.loads(json.dumps({**body, "metadata": metadata, "spec": {**body["spec"], **live_spec}}))
    return drift_records(KEY, item, fields.compare(body, live, OURS), detected_at=NOW)


@pytest.mark.parametrize("text", ["0644", "0o644", "420"])
def test_y03_live_420_is_no_drift_from_an_octal_mode(text: str):
    item = desired(f"  mode: {text}\n")
    assert drifts(item, mode=420) == ()
    (record,) = drifts(item, mode=644)
    assert (record.declared, record.live) == (420, 644)


def test_y04_base_60_stays_text_in_comparison_and_drift_file():
    item = desired("  window: 12:30\n  portPair: 22:22\n  hold: 190:20:30\n  mac: 00:1a:2b:3c:4d:5e\n")
    assert drifts(item) == ()
    records = drifts(item, window=750, portPair=1342, hold=685230, mac="00:1a:2b:3c:4d:5f")
    words = {record.path: record.declared for record in records}
    assert words == {
        "spec.hold": "190:20:30",
        "spec.mac": "00:1a:2b:3c:4d:5e",
        "spec.portPair": "22:22",
        "spec.window": "12:30",
    }
    file = render_drift(UnitDrift(KEY, records))
    for read in (yaml.safe_load(file), read_documents(file, file="drift.yaml").documents[0].body):
        assert {d["path"]: d["declared"] for d in read["open"]} == words
        assert {d["path"]: d["live"] for d in read["open"]}["spec.window"] == 750


def test_y07_large_integers_are_exact_in_comparison_and_drift_file():
    item = desired("  id: 9123456789012345678\n  ids: [9007199254740993]\n")
    assert drifts(item) == ()
    (record,) = drifts(item, id=9123456789012345677)
    file = render_drift(UnitDrift(KEY, (record,)))
    (document,) = read_documents(file, file="drift.yaml").documents
    (shown,) = document.body["open"]
    assert (shown["declared"], shown["live"]) == (9123456789012345678, 9123456789012345677)
    (record,) = drifts(item, ids=[9007199254740992])  # a reader that makes floats of them would see no difference
    assert record.declared in (9007199254740993, [9007199254740993])


def test_y05_dates_stay_text_in_a_drift_file():
    item = desired("  day: 2030-01-02\n")
    (record,) = drifts(item, day="2030-01-03")
    file = render_drift(UnitDrift(KEY, (record,)))
    (shown,) = yaml.safe_load(file)["open"]
    assert (shown["declared"], shown["live"]) == ("2030-01-02", "2030-01-03")


def test_y12_i02_what_was_read_from_an_alias_is_compared_like_any_value():
    item = desired("  a: &a {x: 0644, l: [no]}\n  b: *a\n  c: {<<: *a, z: 1}\n")
    assert drifts(item) == ()
    assert [record.path for record in drifts(item, b={"x": 420, "l": [True]})] == ["spec.b.l"]
