"""Which file and line set a field, and what that overrode."""

from __future__ import annotations

import pytest

from gitops.overlays.overriding import ABSENT
from gitops.plan.explaining import Trace, explain
from gitops.plan.field_paths import BadPathError, parse_path, spelled

DEPLOYMENT = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  patches:
    - target: {apiVersion: v1, kind: ConfigMap, name: settings}
      patch:
        data:
          LEVEL: warn
          EXTRA: one
  gpuSpecifications:
    - id: h100
      gpu: H100
      minInstances: 2
      manifestMergePatches:
        - overlays/h100.yaml
      jsonPatches:
        - target: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}
          operations:
            - op: replace
              path: /spec/components/0/replicas
              value: 3
  clusterPatches:
    b:
      - target: {apiVersion: v1, kind: ConfigMap, name: settings}
        patch:
          data:
            EXTRA: null
"""
BASE = "functions/chat/manifests/settings.yaml"
GRAPH = "functions/chat/manifests/graph.yaml"
OVERLAY = "functions/chat/overlays/h100.yaml"
DOCUMENT = "functions/chat/deployment.yaml"


@pytest.fixture
def explained(compiler, small):
    trace = Trace()
    result = compiler.compile(small({DOCUMENT: DEPLOYMENT}), trace=trace)
    assert result.errors == ()

    def run(kind: str, cluster: str, *path: str | int):
        for key, unit in result.units.items():
            for item in unit.objects:
                if (item.ref.kind, key.cluster, key.kind) == (kind, cluster, "function"):
                    return [
                        (
                            spelled(e.path),
                            "-" if e.value is ABSENT else e.value,
                            str(e.origin),
                            [(b.value, str(b.origin)) for b in e.before],
                        )
                        for e in explain(item, trace.of(key, item), path)
                    ]
        raise AssertionError("no such object")

    return run


def test_a_value_of_two_overlays_and_the_base(explained):
    assert explained("ConfigMap", "a", "data", "LEVEL") == [
        ("data.LEVEL", "debug", f"{OVERLAY}:6", [("info", f"{BASE}:6"), ("warn", f"{DOCUMENT}:10")])
    ]


def test_a_json_patch(explained):
    at = ("spec", "components", 0, "replicas")
    assert explained("DynamoGraphDeployment", "a", *at) == [
        ("spec.components[0].replicas", 3, f"{DOCUMENT}:23", [(1, f"{GRAPH}:10")])
    ]


def test_a_removed_field_names_who_removed_it(explained):
    assert explained("ConfigMap", "b", "data", "EXTRA") == [
        ("data.EXTRA", "-", f"{DOCUMENT}:29", [("one", f"{DOCUMENT}:11")])
    ]
    assert explained("ConfigMap", "a", "data", "EXTRA") == [("data.EXTRA", "one", f"{DOCUMENT}:11", [])]


def test_everything_below_a_path(explained):
    assert [row[0] for row in explained("ConfigMap", "b", "data")] == ["data.LEVEL", "data.EXTRA"]
    whole = {row[0]: row[2] for row in explained("ConfigMap", "a")}
    assert whole["metadata.name"] == f"{BASE}:4"
    assert whole["metadata.namespace"] == "None"
    assert whole["metadata.labels.gitops/reconciler"] == "None"
    assert whole['metadata.labels["applyset.kubernetes.io/part-of"]'] == "None"


def test_what_the_cluster_document_puts_there(explained):
    rows = {row[0]: row[2] for row in explained("Namespace", "a")}
    assert rows["metadata.labels.team"] == "clusters/a.yaml:14"
    assert rows["metadata.name"] == f"{DOCUMENT}:13"


def test_nothing_where_there_never_was_anything(explained):
    assert explained("ConfigMap", "a", "spec") == []


BODY = {"spec": {"list": [{"name": "x", "v": 1}, {"name": "y/z"}], "a.b": {"c/d": 1, "e~f": 2}}}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec", ("spec",)),
        ("spec.list[1].name", ("spec", "list", 1, "name")),
        ("spec.list[name=y/z]", ("spec", "list", 1)),
        ("spec.list[name=x].gone", ("spec", "list", 0, "gone")),
        ('spec["a.b"].c/d', ("spec", "a.b", "c/d")),
        ("/spec/list/0/v", ("spec", "list", 0, "v")),
        ("/spec/a.b/c~1d", ("spec", "a.b", "c/d")),
        ("/spec/a.b/e~0f", ("spec", "a.b", "e~f")),
    ],
)
def test_paths(text, path):
    assert parse_path(text, BODY) == path
    assert parse_path(spelled(path), BODY) == path


@pytest.mark.parametrize(
    "text", ["", ".spec", "spec..list", "spec.list[name=q]", "spec.list[", "/spec/list/x", "spec list[a"]
)
def test_what_is_no_path(text):
    if text == "":
        assert parse_path(text, BODY) == ()
        return
    with pytest.raises(BadPathError):
        parse_path(text, BODY)


GONE = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  patches:
    - target: {apiVersion: v1, kind: ConfigMap, name: settings}
      patch: {data: null}
  gpuSpecifications:
    - id: h100
      gpu: H100
      jsonPatches:
        - target: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}
          operations:
            - {op: add, path: /spec/args, value: [one, two]}
            - {op: remove, path: /spec/args/0}
            - {op: remove, path: /spec/components/0/podTemplate/spec/containers/0/resources}
"""


@pytest.fixture
def gone(compiler, small):
    trace = Trace()
    result = compiler.compile(small({DOCUMENT: GONE, OVERLAY: None}), trace=trace)
    assert result.errors == ()
    ((key, unit),) = [(k, u) for k, u in result.units.items() if k.kind == "function"]

    def run(kind: str, *path: str | int):
        (item,) = [o for o in unit.objects if o.ref.kind == kind]
        found = explain(item, trace.of(key, item), path)
        return [(spelled(e.path), e.value, e.origin.line, [b.value for b in e.before]) for e in found]

    return run


def test_what_a_removed_map_held_was_removed_with_it(gone):
    assert gone("ConfigMap", "data", "LEVEL") == [("data.LEVEL", ABSENT, 8, ["info"])]
    assert gone("ConfigMap", "data", "OTHER") == []
    limits = ("spec", "components", 0, "podTemplate", "spec", "containers", 0, "resources", "limits")
    (gpus,) = gone("DynamoGraphDeployment", *limits, "nvidia.com/gpu")
    assert gpus[1:] == (ABSENT, 17, [1])


def test_an_item_that_moved_up_did_not_override_the_one_that_is_gone(gone):
    assert gone("DynamoGraphDeployment", "spec", "args") == [
        ("spec.args[0]", "two", 15, []),
        ("spec.args[0]", ABSENT, 16, ["one"]),
    ]


def test_a_specification_whose_id_has_hyphens(compiler, small):
    trace = Trace()
    text = DEPLOYMENT.replace("id: h100", "id: h100-big-2")
    result = compiler.compile(small({DOCUMENT: text}), trace=trace)
    ((key, unit),) = [(k, u) for k, u in result.units.items() if k.kind == "function" and k.cluster == "a"]
    (item,) = [o for o in unit.objects if o.ref.kind == "ConfigMap"]
    (found,) = explain(item, trace.of(key, item), ("data", "LEVEL"))
    assert [b.value for b in found.before] == ["info", "warn"]


def test_a_pointer_with_both_escapes():
    assert parse_path("/a~01b", {}) == ("a~1b",)
