"""What is special about writing an object, as compile finds it: triggers, once-only kinds, consent to be made anew."""

from __future__ import annotations

import json

from gitops.plan.units import PLAIN

GRAPH = "functions/chat/manifests/graph.yaml"


def test_a_trigger_is_no_part_of_what_is_sent_and_changes_no_digest(compile_small, small):
    text = small().files[GRAPH]

    def graphs(more: str):
        result = compile_small({GRAPH: text.replace("spec:\n  backend", f"spec:\n{more}  backend")})
        assert result.errors == ()
        units = [u for key, u in sorted(result.units.items()) if key.name == "chat"]
        return [o for u in units for o in u.objects if o.gvk.kind == "DynamoGraphDeployment"], units[0].content_key

    plain, key = graphs("")
    again, other = graphs("  restart: {id: again}\n")
    assert {o.handling for o in plain} == {PLAIN}
    assert [o.digest for o in again] == [o.digest for o in plain]
    assert other != key  # the unit is looked at
    (trigger,) = again[0].handling.triggers
    assert trigger.path == ("spec", "restart")
    assert json.loads(trigger.value) == {"id": "again"}
    assert "restart" not in again[0].body["spec"]


def test_a_request_is_made_once_and_told_so(compile_small):
    request = (
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\nmetadata: {name: profile}\n"
        "spec: {model: example/model, autoApply: false}\n"
    )
    result = compile_small({"functions/chat/manifests/request.yaml": request})
    assert [f.code for f in result.findings if f.origin.file.endswith("request.yaml")] == ["GO4525"]
    found = [o for u in result.units.values() for o in u.objects if o.gvk.kind == "DynamoGraphDeploymentRequest"]
    assert found
    assert all(o.handling.once and o.content == o.digest for o in found)


def test_the_mode_of_an_object_is_not_sent(compile_small):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: web\n{more}data: {a: b}\n"
    sent = set()
    for value in ("enforce", "report", "paused"):
        notes = f"  annotations: {{gitops/mode: {value}}}\n"
        result = compile_small({"bundles/base/objects.yaml": text.replace("{more}", notes)})
        item = next(o for u in result.units.values() for o in u.objects if o.ref.name == "page")
        assert item.handling.mode == value
        sent.add(item.payload)
    assert len(sent) == 1
    notes = "  annotations: {gitops/mode: manual}\n"
    result = compile_small({"bundles/base/objects.yaml": text.replace("{more}", notes)})
    assert [(f.code, "enforce, report or paused" in f.message) for f in result.errors] == [("GO4303", True)]


def test_consent_to_be_made_anew_is_not_sent(compile_small):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: web\n{more}data: {a: b}\n"
    sent = {}
    for value in ("true", "false"):
        notes = f'  annotations: {{gitops/recreate: "{value}"}}\n'
        result = compile_small({"bundles/base/objects.yaml": text.replace("{more}", notes)})
        item = next(o for u in result.units.values() for o in u.objects if o.ref.name == "page")
        assert item.handling.recreate is (value == "true")
        sent[value] = item.payload
    assert sent["true"] == sent["false"]
    assert b"recreate" not in sent["true"]
    notes = "  annotations: {gitops/recreate: yes please}\n"
    result = compile_small({"bundles/base/objects.yaml": text.replace("{more}", notes)})
    assert [f.code for f in result.errors] == ["GO4303"]
