"""Patches through the compiler: order, options, files, and that nothing is shared between objects and instances."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from gitops.model.findings import Origin
from gitops.model.identity import WorkloadKind, WorkloadRef

DEPLOYMENT = "functions/chat/deployment.yaml"
GRAPH = "functions/chat/manifests/graph.yaml"
MORE = "functions/chat/overlays/more.yaml"
BUNDLE = "bundles/base/bundle.yaml"
OBJECTS = "bundles/base/objects.yaml"
CHAT = WorkloadRef(WorkloadKind.FUNCTION, "chat")

SETTINGS = "{apiVersion: v1, kind: ConfigMap, name: settings}"
MAIN = "podTemplate: {spec: {containers: [{name: main, image: 'example/worker:1.0.0'}]}}"
DGD = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}"

TWO = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: chat
spec:
  backendFramework: vllm
  components:
    - name: frontend
      podTemplate: {spec: {containers: [{name: main, image: "example/worker:1.0.0"}]}}
    - name: decode
      type: decode
      replicas: 1
      podTemplate:
        spec:
          containers:
            - name: main
              image: example/worker:1.0.0
              args: [--model, llama]
              env:
                - {name: A, value: "1"}
                - {name: B, value: "2"}
"""


def deployment(patches: str = "[]\n", more: str = "", spec: str = "") -> str:
    """A deployment of two instances; `patches` are YAML, `more` goes into spec, `spec` into the GPU specification."""
    return (
        "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n  patches:\n"
        + textwrap.indent(textwrap.dedent(patches), "    ")
        + textwrap.indent(textwrap.dedent(more), "  ")
        + "  gpuSpecifications:\n    - id: h100\n      gpu: H100\n      minInstances: 2\n"
        + "      manifestMergePatches: [overlays/h100.yaml]\n"
        + textwrap.indent(textwrap.dedent(spec), "      ")
    )


def made(result: Any, kind: str, unit: str = "function/chat/h100-0@a") -> Any:
    """The one object of a kind in a unit."""
    (found,) = [o for key, u in result.units.items() if str(key) == unit for o in u.objects if o.gvk.kind == kind]
    return found


def said(result: Any, *codes: str) -> list[tuple[str, str]]:
    return [(f.code, str(f.origin)) for f in result.findings if f.code in codes]


def test_p15_the_order_is_that_of_the_document_and_each_form_wins_over_the_one_before(compile_small):
    text = deployment(
        f"""\
        - target: {SETTINGS}
          operations:
          - {{op: add, path: /data/WHO, value: patches}}
          - {{op: add, path: /data/PATCHES, value: "1"}}
        """,
        f"""\
        clusterPatches:
          b:
          - target: {SETTINGS}
            operations: [{{op: replace, path: /data/WHO, value: cluster}}]
        """,
        f"""\
        jsonPatches:
        - target: {SETTINGS}
          operations:
          - {{op: test, path: /data/LEVEL, value: debug}}
          - {{op: replace, path: /data/WHO, value: specification}}
        """,
    )
    result = compile_small({DEPLOYMENT: text})
    assert result.errors == ()
    data = [made(result, "ConfigMap", u).body["data"] for u in ("function/chat/h100-0@a", "function/chat/h100-1@b")]
    assert data == [
        {"LEVEL": "debug", "PATCHES": "1", "WHO": "specification"},
        {"LEVEL": "debug", "PATCHES": "1", "WHO": "cluster"},
    ]
    assert said(result, "GO3103") == [("GO3103", f"{DEPLOYMENT}:14"), ("GO3103", f"{DEPLOYMENT}:24")]


def test_values_know_the_line_of_the_operation_that_set_them(compile_small):
    text = deployment(
        f"""\
        - target: {DGD}
          operations:
          - op: add
            path: /spec/components/0/podTemplate
            value:
              spec:
                priorityClassName: high
                containers: [{{name: main, image: "example/worker:1.0.0"}}]
          - {{op: add, path: /spec/components/0, value: {{name: router, {MAIN}}}}}
        """
    )
    graph = made(compile_small({DEPLOYMENT: text}), "DynamoGraphDeployment")
    origin = graph.provenance.origin_of
    assert origin(("spec", "components", 1, "podTemplate", "spec", "priorityClassName")) == Origin(DEPLOYMENT, 13)
    assert origin(("spec", "components", 0, "name")) == Origin(DEPLOYMENT, 15)
    assert origin(("spec", "components", 1, "name")) == Origin(GRAPH, 8)
    assert origin(("spec", "backendFramework")) == Origin(GRAPH, 6)


@pytest.mark.parametrize(
    "operations",
    [
        "- {op: replace, path: /data/LEVEL, value: trace}\n- {op: add, path: /data/NEW, value: x}\n",
        """[{"op": "replace", "path": "/data/LEVEL", "value": "trace"},
            {"op": "add", "path": "/data/NEW", "value": "x"}]""",
    ],
    ids=["yaml", "json"],
)
def test_operations_may_be_in_a_file(compile_small, operations):
    text = deployment(spec=f"jsonPatches:\n- target: {SETTINGS}\n  path: overlays/more.yaml\n")
    result = compile_small({DEPLOYMENT: text, MORE: operations})
    assert result.errors == ()
    settings = made(result, "ConfigMap")
    assert settings.body["data"] == {"LEVEL": "trace", "NEW": "x"}
    assert settings.provenance.origin_of(("data", "LEVEL")) == Origin(MORE, 1)
    assert settings.provenance.origin_of(("data", "NEW")) == Origin(MORE, 2)


def test_a_file_that_an_entry_with_options_names_must_be_there(compile_small):
    result = compile_small({DEPLOYMENT: deployment(f"- target: {SETTINGS}\n  path: overlays/more.yaml\n")})
    assert said(result, "GO2104") == [("GO2104", f"{DEPLOYMENT}:8")]
    result = compile_small({DEPLOYMENT: deployment("- path: overlays/more.yaml\n  optional: true\n")})
    assert said(result, "GO2104") == [("GO2104", f"{DEPLOYMENT}:7")]
    result = compile_small({DEPLOYMENT: deployment("- path: overlays/more.yaml\n"), MORE: "# nothing\n"})
    assert said(result, "GO2203", "GO2106") == [("GO2203", MORE)]


def test_p05_the_object_and_the_way_out_are_named(compile_small):
    text = deployment(
        f"- target: {SETTINGS}\n  operations: [{{op: add, path: /metadata/annotations/team, value: a}}]\n"
    )
    (found,) = compile_small({DEPLOYMENT: text}).errors
    assert (found.code, str(found.origin), found.workload) == ("GO3011", f"{DEPLOYMENT}:8", CHAT)
    assert found.object is not None
    assert (found.object.kind, found.object.name) == ("ConfigMap", "settings")
    assert "add it first: {op: add, path: /metadata/annotations, value: {}}" in found.message


def test_p08_only_an_optional_target_may_be_missing(compile_small):
    entry = "- target: {apiVersion: v1, kind: ConfigMap, name: llm-prod}\n"
    forms = ("  patch: {data: {a: b}}\n", "  operations: [{op: add, path: /data/a, value: b}]\n")
    for form in forms:
        result = compile_small({DEPLOYMENT: deployment(entry + form)})
        assert said(result, "GO2201", "GO2204") == [("GO2201", f"{DEPLOYMENT}:7")]
        assert result.held == {CHAT}
        result = compile_small({DEPLOYMENT: deployment(entry + "  optional: true\n" + form)})
        assert said(result, "GO2201", "GO2204") == [("GO2204", f"{DEPLOYMENT}:7")]
        assert result.errors == ()


def test_p08_a_file_may_be_optional_for_each_of_its_targets(compile_small):
    patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: b}\n"
    both = patch.replace("NAME", "settings") + "---\n" + patch.replace("NAME", "other")
    result = compile_small({DEPLOYMENT: deployment("- {path: overlays/more.yaml, optional: true}\n"), MORE: both})
    assert said(result, "GO2204") == [("GO2204", f"{MORE}:6")]
    assert made(result, "ConfigMap").body["data"] == {"LEVEL": "debug", "a": "b"}


def test_p08_an_ambiguous_target_is_an_error_also_when_optional(compile_small, small):
    objects = small().files[OBJECTS]
    entry = "{target: {apiVersion: v1, kind: ConfigMap, name: page}, optional: true, patch: {data: {a: b}}}"
    bundle = small().files[BUNDLE] + f"  patches:\n  - {entry}\n"
    result = compile_small({OBJECTS: objects + "---\n" + objects.replace("web", "other"), BUNDLE: bundle})
    assert said(result, "GO2202") == [("GO2202", f"{BUNDLE}:8")]


def test_p09_names_match_exactly(compile_small, small):
    page = small().files[OBJECTS]
    objects = "---\n".join(page.replace("name: page", f"name: {name}") for name in ("app", "app-a", "x-app"))
    entry = "  patches:\n  - target: {apiVersion: v1, kind: ConfigMap, name: 'NAME'}\n    patch: {data: {a: b}}\n"
    result = compile_small({OBJECTS: objects, BUNDLE: small().files[BUNDLE] + entry.replace("NAME", "app")})
    assert result.errors == ()
    data = {o.ref.name: o.body["data"] for k, u in result.units.items() if str(k) == "bundle/base@a" for o in u.objects}
    assert [name for name, values in data.items() if "a" in values] == ["app"]
    for pattern in ("app*", "app.*", "app?", "app[a]", "^app$"):
        result = compile_small({OBJECTS: objects, BUNDLE: small().files[BUNDLE] + entry.replace("NAME", pattern)})
        assert said(result, "GO3007", "GO2201") == [("GO3007", f"{BUNDLE}:8")]
        assert "exact" in result.errors[0].hint


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("{op: replace, path: /metadata/name, value: other}", "GO3002"),
        ("{op: add, path: /metadata/namespace, value: other}", "GO3002"),
        ("{op: replace, path: /apiVersion, value: v2}", "GO3002"),
        ("{op: copy, from: /data/LEVEL, path: /kind}", "GO3002"),
        ("{op: add, path: /metadata/labels, value: {gitops/reconciler: me}}", "GO3004"),
        ("{op: add, path: /metadata/finalizers, value: [a/b]}", "GO3003"),
        ("{op: add, path: /data/x, value: {$patch: delete}}", "GO3001"),
    ],
)
def test_p10_p12_what_is_out_of_reach_holds_the_workload(compile_small, operation, code):
    result = compile_small({DEPLOYMENT: deployment(f"- target: {SETTINGS}\n  operations:\n  - {operation}\n")})
    assert [(f.code, str(f.origin)) for f in result.errors] == [(code, f"{DEPLOYMENT}:9")]
    assert result.held == {CHAT}
    assert sorted(map(str, result.units)) == ["bundle/base@a", "bundle/base@b"]


def test_p14_a_failing_test_leaves_what_shares_the_base_as_it_is(small, compiler):
    """Another specification of the function has no such patch, and neither has the next tree."""
    plain = deployment(spec="jsonPatches: []\n").replace(
        "gpuSpecifications:\n", "gpuSpecifications:\n    - {id: plain, gpu: H100, minInstances: 1}\n"
    )
    operations = (
        "{op: replace, path: /spec/components/0/replicas, value: 5}, "
        "{op: test, path: /spec/components/0/replicas, value: 3}"
    )
    failing = plain.replace("jsonPatches: []", f"jsonPatches: [{{target: {DGD}, operations: [{operations}]}}]")
    result = compiler.compile(small({DEPLOYMENT: failing}))
    assert [(f.code, str(f.origin)) for f in result.errors] == [("GO3013", f"{DEPLOYMENT}:14")]
    after = compiler.compile(small({DEPLOYMENT: plain}))
    assert after.errors == ()
    for unit in ("function/chat/plain-0@b", "function/chat/h100-0@a"):
        assert made(after, "DynamoGraphDeployment", unit).body["spec"]["components"][0]["replicas"] == 1


SHARED = """\
  patches:
  - target: {apiVersion: v1, kind: ConfigMap, name: page}
    operations: [{op: add, path: /data/list, value: &list [1]}, {op: add, path: /data/again, value: *list}]
  - target: {apiVersion: v1, kind: ConfigMap, name: other}
    patch: {data: {list: *list}}
  - target: {apiVersion: v1, kind: ConfigMap, name: page}
    operations: [{op: add, path: /data/list/-, value: 2}, {op: copy, from: /data/list, path: /data/copied}]
  - target: {apiVersion: v1, kind: ConfigMap, name: page}
    operations: [{op: add, path: /data/copied/-, value: 3}]
"""


def test_one_value_in_many_places_is_shared_by_none(compile_small, small):
    page = small().files[OBJECTS]
    change = {
        OBJECTS: page + "---\n" + page.replace("name: page", "name: other"),
        BUNDLE: small().files[BUNDLE] + SHARED,
    }
    result = compile_small(change)
    for unit in ("bundle/base@a", "bundle/base@b"):
        objects = {o.ref.name: o.body["data"] for k, u in result.units.items() if str(k) == unit for o in u.objects}
        assert objects["page"] == {"page": "hello", "list": [1, 2], "again": [1], "copied": [1, 2, 3]}
        assert objects["other"] == {"page": "hello", "list": [1]}


def test_instances_with_other_patches_share_nothing(compile_small):
    text = deployment(
        f"- target: {SETTINGS}\n  operations: [{{op: add, path: /data/list, value: [1]}}]\n",
        f"""\
        clusterPatches:
          a: [{{target: {SETTINGS}, operations: [{{op: add, path: /data/list/-, value: a}}]}}]
          b: [{{target: {SETTINGS}, operations: [{{op: add, path: /data/list/-, value: b}}]}}]
        """,
    )
    result = compile_small({DEPLOYMENT: text})
    units = ("function/chat/h100-0@a", "function/chat/h100-1@b")
    assert [made(result, "ConfigMap", unit).body["data"]["list"] for unit in units] == [[1, "a"], [1, "b"]]


# -- lists by key ----------------------------------------------------------------------------------------------------

ENV = """\
spec:
  components:
    - name: decode
      podTemplate:
        spec:
          containers:
            - name: main
              env:
                - {name: C, value: "3"}
"""


def test_p04_lists_by_key_keep_the_other_items(compile_small):
    head = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\n"
    entry = "- {path: overlays/more.yaml, lists: byKey}\n"
    result = compile_small({DEPLOYMENT: deployment(entry), GRAPH: TWO, MORE: head + ENV})
    assert result.errors == ()
    graph = made(result, "DynamoGraphDeployment")
    frontend, decode = graph.body["spec"]["components"]
    (main,) = decode["podTemplate"]["spec"]["containers"]
    assert frontend["name"] == "frontend"
    assert (main["image"], main["args"]) == ("example/worker:1.0.0", ["--model", "llama"])
    assert [item["name"] for item in main["env"]] == ["A", "B", "C"]
    path = ("spec", "components", 1, "podTemplate", "spec", "containers", 0, "env")
    assert graph.provenance.origin_of((*path, 2, "value")) == Origin(MORE, 12)
    assert graph.provenance.origin_of((*path, 0, "value")) == Origin(GRAPH, 20)


def test_the_same_file_without_the_option_drops_a_component_and_is_refused(compile_small):
    head = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\n"
    change = {GRAPH: TWO, MORE: head + ENV}
    result = compile_small({DEPLOYMENT: deployment("- overlays/more.yaml\n"), **change})
    assert said(result, "GO3105", "GO3101") == [("GO3101", f"{MORE}:5"), ("GO3105", f"{MORE}:5")]
    (found,) = [f for f in result.errors if f.code == "GO3105"]
    assert found.message == "spec.components: the overlay removes frontend"
    assert "byKey" in found.hint
    consent = "- {path: overlays/more.yaml, changesComponents: true}\n"
    result = compile_small({DEPLOYMENT: deployment(consent), **change})
    assert result.errors == ()
    assert [c["name"] for c in made(result, "DynamoGraphDeployment").body["spec"]["components"]] == ["decode"]


def test_a_consent_counts_for_its_own_entry_only(compile_small):
    other = f"- target: {DGD}\n  changesComponents: true\n  patch: {{spec: {{priorityClassName: high}}}}\n"
    drop = f"- target: {DGD}\n  patch:\n    spec: {{components: [{{name: decode}}]}}\n"
    result = compile_small({DEPLOYMENT: deployment(other + drop), GRAPH: TWO})
    assert said(result, "GO3105") == [("GO3105", f"{DEPLOYMENT}:12")]


def test_components_may_be_added_and_removed_by_operations_on_exactly_them(compile_small):
    patch = f"""\
    - target: {DGD}
      operations:
      - {{op: remove, path: /spec/components/0}}
      - {{op: add, path: /spec/components/-, value: {{name: prefill, {MAIN}}}}}
    """
    result = compile_small({DEPLOYMENT: deployment(patch), GRAPH: TWO})
    assert result.errors == ()
    names = [c["name"] for c in made(result, "DynamoGraphDeployment").body["spec"]["components"]]
    assert names == ["decode", "prefill"]


def test_a_fixed_field_that_goes_is_a_warning_and_holds_nothing(compile_small):
    result = compile_small(
        {DEPLOYMENT: deployment(f"- target: {DGD}\n  patch:\n    spec:\n      backendFramework: null\n")}
    )
    assert said(result, "GO3106") == [("GO3106", f"{DEPLOYMENT}:10")]
    assert result.errors == ()
    assert "backendFramework" not in made(result, "DynamoGraphDeployment").body["spec"]


DEFINED = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                parts:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [id]
                  items: {type: object, properties: {id: {type: string}, size: {type: integer}}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: thing, namespace: web}
spec:
  parts: [{id: a, size: 1}, {id: b, size: 1}]
"""


def test_a_bundles_own_definition_says_which_lists_have_keys(compile_small, small):
    entry = (
        "  patches:\n  - target: {apiVersion: example.com/v1, kind: Thing, name: thing}\n    lists: byKey\n"
        "    patch: {spec: {parts: [{id: b, size: 2}, {id: c}]}}\n"
    )
    result = compile_small({OBJECTS: DEFINED, BUNDLE: small().files[BUNDLE] + entry})
    assert result.errors == ()
    thing = made(result, "Thing", "bundle/base@a")
    assert thing.body["spec"]["parts"] == [{"id": "a", "size": 1}, {"id": "b", "size": 2}, {"id": "c"}]
    result = compile_small({OBJECTS: DEFINED.partition("---\n")[2], BUNDLE: small().files[BUNDLE] + entry})
    assert said(result, "GO3015") == [("GO3015", f"{BUNDLE}:10")]


# -- content keys ----------------------------------------------------------------------------------------------------


def test_content_keys_cover_operations_their_files_and_options(compile_small):
    entry = f"- target: {SETTINGS}\n  path: overlays/more.yaml\n"
    variants = [
        {DEPLOYMENT: deployment(entry), MORE: "- {op: add, path: /data/a, value: b}\n"},
        {DEPLOYMENT: deployment(entry), MORE: "- {op: add, path: /data/a, value: c}\n"},
        {DEPLOYMENT: deployment(entry + "  optional: true\n"), MORE: "- {op: add, path: /data/a, value: b}\n"},
        {DEPLOYMENT: deployment(f"- target: {SETTINGS}\n  operations: [{{op: add, path: /data/a, value: b}}]\n")},
        {
            DEPLOYMENT: deployment(
                spec=f"jsonPatches:\n- target: {SETTINGS}\n  operations: [{{op: remove, path: /data}}]\n"
            )
        },
        {DEPLOYMENT: deployment(f"- target: {SETTINGS}\n  patch: {{data: {{a: b}}}}\n")},
        {DEPLOYMENT: deployment(f"- target: {SETTINGS}\n  lists: byKey\n  patch: {{data: {{a: b}}}}\n")},
    ]
    keys = set()
    for change in variants:
        result = compile_small(change)
        assert result.errors == ()
        keys |= {unit.content_key for key, unit in result.units.items() if str(key) == "function/chat/h100-0@a"}
    assert len(keys) == len(variants)


@pytest.mark.parametrize(
    "patch",
    ["{metadata: null}", "{metadata: {labels: 5}}", "{kind: null}", "{metadata: {name: null, finalizers: [x]}}"],
)
def test_a_refused_patch_is_merged_for_no_specification(compile_small, patch):
    """The second specification meets the same list again, when its findings have been told."""
    text = deployment(f"- {{target: {SETTINGS}, patch: {patch}}}\n") + "    - {id: b200, gpu: H100}\n"
    result = compile_small({DEPLOYMENT: text})
    assert {str(f.origin) for f in result.findings} == {f"{DEPLOYMENT}:7"}
    assert result.held == {CHAT}


def test_beside_a_refused_patch_all_else_is_judged(compile_small):
    text = deployment(f"- {{target: {SETTINGS}, patch: {{kind: Secret}}}}\n")
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: setings}\ndata: {A: b}\n"
    result = compile_small({DEPLOYMENT: text, "functions/chat/overlays/h100.yaml": other, GRAPH: TWO + "  x: null\n"})
    assert {code for code, _ in said(result, "GO3002", "GO2201", "GO4107")} == {"GO3002", "GO2201", "GO4107"}


@pytest.mark.parametrize(("operations", "codes"), [("replace", []), ("remove", ["GO3012"])])
def test_patches_of_a_cluster_without_instances_may_build_on_any_specification(compile_small, operations, codes):
    """Of two specifications only `t4` has what the cluster's patch replaces; nothing is placed on b."""
    target = "{apiVersion: v1, kind: ConfigMap, name: settings}"
    path = "/data/MORE" if operations == "replace" else "/data/NONE"
    value = ", value: x" if operations == "replace" else ""
    deployment = f"""\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  gpuSpecifications:
    - {{id: h100, gpu: H100, clusters: [a], manifestMergePatches: [overlays/h100.yaml]}}
    - id: t4
      gpu: H100
      clusters: [a]
      manifestMergePatches: [{{target: {target}, patch: {{data: {{MORE: a}}}}}}]
  clusterPatches:
    b:
      - target: {target}
        operations: [{{op: {operations}, path: {path}{value}}}]
"""
    result = compile_small({"functions/chat/deployment.yaml": deployment})
    assert [f.code for f in result.errors] == codes
