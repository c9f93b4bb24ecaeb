"""YAML as people really write it, through the whole compiler: what is sent, what is refused, and that others go on.

The reading itself is tested in tests/manifests; here each case goes from a file in Git to a payload and a plan.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from gitops.model.identity import UnitKey, WorkloadKind, WorkloadRef
from gitops.plan.compiling import Compiler
from gitops.plan.parents import Member, ParentRecord
from gitops.plan.planning import Observed, UnitPlan, plan_unit
from gitops.plan.units import SOURCE_ANNOTATION, Compilation, Unit
from gitops.policy.registry import OperatorRegistry

OBJECTS = "bundles/base/objects.yaml"
BASE = WorkloadRef(WorkloadKind.BUNDLE, "base")
KEY = UnitKey.parse("bundle/base@a")
OTHERS = ["function/chat/h100-0@a", "function/chat/h100-1@b"]

Compile = Callable[..., Compilation]


def config_map(more: str, name: str = "page") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: web\n{more}"


def unit_of(compilation: Compilation) -> Unit:
    assert compilation.errors == ()
    return compilation.units[KEY]


def sent(compilation: Compilation) -> dict[str, dict[str, Any]]:
    """Bodies of the bundle's objects by name, as they go over the wire, without what the reconciler adds."""
    found = {}
    for item in unit_of(compilation).objects:
        body = json.loads(item.payload, object_pairs_hook=_no_key_twice)
        del body["metadata"]["labels"], body["metadata"]["annotations"][SOURCE_ANNOTATION]
        found[item.ref.name] = body
    return found


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def refused(compilation: Compilation) -> list[tuple[str, int]]:
    """Code and line of the errors, all of them in the bundle's file; the bundle is held, and nothing else."""
    assert {f.origin.file for f in compilation.errors} == {OBJECTS}
    assert compilation.held == {BASE}
    assert sorted(map(str, compilation.units)) == OTHERS
    assert compilation.complete
    return [(f.code, f.origin.line) for f in compilation.errors]


def plan_between(first: Compilation, second: Compilation) -> UnitPlan:
    """The bundle's plan at the second commit on a cluster that has what the first one declared."""
    before, after = unit_of(first), unit_of(second)
    members = tuple(Member(o.ref, o.gvk.version, f"uid-{o.ref.name}") for o in before.objects)
    observed = {o.ref: Observed(f"uid-{o.ref.name}", o.digest, o.digest) for o in before.objects}
    return plan_unit(after, record=ParentRecord(KEY, members, before.content_key), observed=observed)


# -- Y: values -------------------------------------------------------------------------------------------------------


def test_y01_boolean_words_are_sent_as_booleans_and_refused_as_text_in_the_authors_words(compile_small: Compile):
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: page, namespace: web}\nspec:\n  hostNetwork: no\n  hostPID: Off\n"
    )
    spec = sent(compile_small({OBJECTS: pod}))["page"]["spec"]
    assert (spec["hostNetwork"], spec["hostPID"]) == (False, False)
    env = "  containers:\n  - env: [{name: COUNTRY, value: no}, {name: MODE, value: Off}, {name: AXIS, value: y}]\n"
    result = compile_small({OBJECTS: pod + env})
    assert refused(result) == [("GO4108", 8)] * 3
    assert [f.message.partition("text: ")[2] for f in result.errors] == ['write "no"', 'write "Off"', 'write "y"']
    assert "GO1019" in {f.code for f in result.findings}


def test_y02_no_key_vanishes_unseen(compile_small: Compile):
    text = config_map("data:\n  on: a\n  true: b\n  1: c\n  1.0: d\n  null: e\n  2024-01-02: f\n")
    assert refused(compile_small({OBJECTS: text})) == [("GO1011", line) for line in range(7, 12)]


def test_y03_octal_modes_are_sent_as_the_number_they_mean(compile_small: Compile):
    def mode(text: str) -> Any:
        volume = f"spec:\n  volumes: [{{name: a, secret: {{secretName: s, defaultMode: {text}}}}}]\n"
        pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: page, namespace: web}}\n{volume}"
        return sent(compile_small({OBJECTS: pod}))["page"]["spec"]["volumes"][0]["secret"]["defaultMode"]

    assert [mode(text) for text in ("0644", "0o644", '"0644"')] == [420, 420, "0644"]


def test_y04_y05_times_and_dates_are_text_after_a_merge_too(compile_small: Compile):
    base = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  annotations:\n    day: 2030-01-02\n"
    overlay = """\
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
      annotations: {expiry: 2030-01-02T03:04:05Z}
    data: {portPair: 22:22, hold: 190:20:30, mac: 00:1a:2b:3c:4d:5e}
    """
    files = {
        "functions/chat/manifests/settings.yaml": base + "data:\n  window: 12:30\n  early: 09:30\n",
        "functions/chat/overlays/h100.yaml": overlay,
    }
    (item,) = (o for o in compile_small(files).units[UnitKey.parse(OTHERS[0])].objects if o.ref.kind == "ConfigMap")
    assert item.body["data"] == {
        "window": "12:30",
        "early": "09:30",
        "portPair": "22:22",
        "hold": "190:20:30",
        "mac": "00:1a:2b:3c:4d:5e",
    }
    annotations = item.body["metadata"]["annotations"]
    assert (annotations["day"], annotations["expiry"]) == ("2030-01-02", "2030-01-02T03:04:05Z")


def test_y06_a_number_for_text_is_quoted_as_written_also_through_an_alias(compile_small: Compile):
    pod = """\
    apiVersion: v1
    kind: Pod
    metadata: {name: page, namespace: web}
    spec:
      nodeSelector: &all {version: 1.20, build: 0123456, hash: 1234e567}
      containers:
      - env: [{name: A, value: 1.20}, {name: B, value: 4651090}]
      tolerations: [{nodeSelector: *all}]
    """
    result = compile_small({OBJECTS: pod})
    assert refused(result) == [("GO4108", 5), ("GO4108", 5), ("GO4108", 7), ("GO4108", 7), ("GO4108", 8), ("GO4108", 8)]
    words = [f.message.partition("write ")[2] for f in result.errors]
    assert sorted(words) == ['"0123456"', '"0123456"', '"1.20"', '"1.20"', '"1.20"', '"4651090"']


def test_y07_large_integers_are_exact_in_what_is_sent(compile_small: Compile):
    def text(ids: str) -> str:
        return (
            f"apiVersion: example.com/v1\nkind: Deny\nmetadata: {{name: page, namespace: web}}\nspec:\n  ids: {ids}\n"
        )

    ids = [9123456789012345678, 21600000, -(2**63), 2**63 - 1, 2**53 + 1]
    assert sent(compile_small({OBJECTS: text(str(ids))}))["page"]["spec"]["ids"] == ids
    result = compile_small({OBJECTS: text("[1, 20000000000000000000]")})
    assert refused(result) == [("GO1014", 5)]
    assert result.errors[0].path == ("spec", "ids", 1)


def test_y08_a_duplicate_key_names_document_key_and_both_lines_and_holds_its_workload_only(compile_small: Compile):
    text = config_map("---\n") + config_map("data:\n  a: b\n  a: c\n", "other")
    result = compile_small({OBJECTS: text})
    assert refused(result) == [("GO1010", 14)]
    assert result.errors[0].message == "document 2: the key `a` is written on line 13 and line 14"


def test_y09_empty_documents_are_nothing_and_count_in_messages(compile_small: Compile):
    text = "# team file\n---\n---\nnull\n---\n" + config_map("data: {a: b}\n") + "---\n"
    assert list(sent(compile_small({OBJECTS: text}))) == ["page"]
    result = compile_small({OBJECTS: text + config_map("data: {a: b, a: c}\n", "other")})
    assert refused(result) == [("GO1010", 18)]
    assert result.errors[0].message.startswith("document 4: ")


@pytest.mark.parametrize(
    ("data", "code", "word"),
    [
        pytest.param(
            "data: &x {k: v}\n---\n" + config_map("data: *x\n", "other"), "GO1016", "&x", id="y10-other-document"
        ),
        pytest.param("x: &x {a: b}\ndata:\n  <<: *x\n  <<: *x\n", "GO1010", "`<<`", id="y11-two-merges"),
        pytest.param("x: &x {a: b}\ndata:\n  a: c\n  <<: *x\n", "GO1022", "`a`", id="y11-merge-last"),
        pytest.param("spec: &s {child: *s}\n", "GO1017", "&s", id="y13-cycle"),
        pytest.param("a: !Ref x\n", "GO1012", "`!Ref`", id="y18-custom"),
        pytest.param("b: !!binary aGk=\n", "GO1012", "`!!binary`", id="y18-binary"),
        pytest.param("c: !!set {x}\n", "GO1012", "`!!set`", id="y18-set"),
        pytest.param("d: !!python/object/apply:os.getcwd []\n", "GO1012", "`!!python/", id="y18-python"),
        pytest.param("ratio: .nan\n", "GO1013", "`.nan`", id="y19-nan"),
        pytest.param("max: .inf\n", "GO1013", "`.inf`", id="y19-infinity"),
        pytest.param("a:\n\tb: 1\n", "GO1006", "tab character at column 1", id="y16-indentation"),
        pytest.param("---\n\ufeff" + config_map("", "other"), "GO1003", "U+FEFF", id="y14-mark-inside"),
        pytest.param("a: 1\rb: 2\n", "GO1004", "carriage return", id="y15-bare-return"),
    ],
)
def test_what_is_refused_is_named_and_holds_its_workload_only(compile_small: Compile, data: str, code: str, word: str):
    result = compile_small({OBJECTS: config_map(data)})
    assert {found for found, _ in refused(result)} == {code}
    assert word in result.errors[0].message


def test_y11_merge_keys_work_inside_a_list(compile_small: Compile):
    text = """\
    apiVersion: v1
    kind: List
    items:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: page, namespace: web}
      data: {<<: &base {image: a, args: x}, image: b}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: other, namespace: web}
      data: *base
    """
    found = sent(compile_small({OBJECTS: text}))
    assert {name: body["data"] for name, body in found.items()} == {
        "page": {"image": "b", "args": "x"},
        "other": {"image": "a", "args": "x"},
    }


def test_y12_an_expansion_bomb_costs_little_through_the_whole_compiler(compile_small: Compile):
    compile_small()  # what is loaded once is not counted
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'x'}]\n" for n in range(9))
    tracemalloc.start()
    try:
        assert {code for code, _ in refused(compile_small({OBJECTS: config_map(levels)}))} == {"GO1007"}
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    usual = "x: &x {a: b}\n" + "".join(f"d{n}: *x\n" for n in range(60))
    assert sent(compile_small({OBJECTS: config_map(usual)}))["page"]["d59"] == {"a": "b"}


TEXT = "data:\n  t: |\n    one\n    two\n  f: >-\n    a\n    b\n"
SAME = config_map(TEXT) + "---\n" + config_map(TEXT, "other")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeff" + SAME, id="y14-mark-at-the-start"),
        pytest.param(SAME.replace("\n", "\r\n"), id="y15-carriage-returns"),
        pytest.param(SAME.removesuffix("\n"), id="no-last-line-feed"),
        pytest.param("# team file\n---\n---\nnull\n---\n" + SAME + "---\n", id="y09-empty-documents"),
        pytest.param(SAME.replace("  namespace", "  labels:\n  annotations: # none\n  namespace"), id="y23-null-maps"),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n"
            + "".join("- " + part.replace("\n", "\n  ").rstrip(" ") for part in SAME.split("---\n")),
            id="y17-list",
        ),
        pytest.param(
            "kind: ConfigMapList\napiVersion: v1\nmetadata: {}\nitems:\n"
            + "".join(
                "- " + part.removeprefix("apiVersion: v1\nkind: ConfigMap\n").replace("\n", "\n  ").rstrip(" ")
                for part in SAME.split("---\n")
            ),
            id="y17-typed-list",
        ),
        pytest.param("%YAML 1.2\n---\n" + SAME.replace("---\n", "...\n---\n"), id="y24-directive-and-end-marks"),
        pytest.param(SAME.replace(" |\n", " |   # c\n").replace("name: page", "name:\tpage\t# c"), id="y16-tabs"),
    ],
)
def test_the_same_objects_written_otherwise_plan_nothing(compile_small: Compile, text: str):
    first, second = compile_small({OBJECTS: SAME}), compile_small({OBJECTS: text})
    plan = plan_between(first, second)
    assert plan.empty
    assert plan.suppressed == ()
    back = plan_between(second, first)
    assert back.empty
    assert [o.digest for o in unit_of(first).objects] == [o.digest for o in unit_of(second).objects]


def test_a_plan_between_different_objects_is_not_empty(compile_small: Compile):
    """The test above could not fail otherwise."""
    first = compile_small({OBJECTS: SAME})
    other = plan_between(first, compile_small({OBJECTS: SAME.replace("two", "three", 1)}))
    assert [a.object.ref.name for a in other.applies] == ["page"]
    fewer = plan_between(first, compile_small({OBJECTS: config_map(TEXT)}))
    assert [m.ref.name for m in fewer.prune] == ["other"]


def test_y17_only_items_are_planned_and_recorded_never_the_wrapper(compile_small: Compile):
    inner = (
        "{kind: List, apiVersion: v1, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: web}}]}"
    )
    text = f"""\
    apiVersion: v1
    kind: List
    metadata: {{name: wrapper, namespace: web}}
    items:
    - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: web}}}}
    - {inner}
    - {{apiVersion: v1, kind: List, items: null}}
    """
    unit = unit_of(compile_small({OBJECTS: text}))
    plan = plan_unit(unit, record=None, observed={})
    assert [a.object.ref.name for a in plan.applies] == ["a", "c"]
    assert plan.write_ahead is not None
    assert {(m.ref.kind, m.ref.name) for m in plan.write_ahead} == {("ConfigMap", "a"), ("ConfigMap", "c")}
    assert refused(compile_small({OBJECTS: "apiVersion: v1\nitems:\n- kind: ConfigMap\n"})) == [("GO1102", 1)]


# -- Y: files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_y14_other_encodings_are_refused_by_name(compile_small: Compile, encoding: str):
    result = compile_small({OBJECTS: config_map("").encode(encoding)})
    assert refused(result) == [("GO1002", 1)]
    assert "UTF-16" in result.errors[0].message


def test_y20_what_is_no_manifest_is_an_error_or_listed_never_skipped(compile_small: Compile):
    files = {
        OBJECTS: None,
        "bundles/base/bundle.yaml": (
            "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: base}\nspec: {manifests: [m]}\n"
        ),
        "bundles/base/m/deploy.yaml": config_map(""),
        "bundles/base/m/values.yaml": "replicas: 1\n",
        "bundles/base/m/templates/x.yaml": "a: {{ .Values.a }}\n",
        "bundles/base/m/.ci.yml": "stages: [build]\n",
        "bundles/base/m/svc.yaml": "apiVersion: v1\nKind: Service\nmetadata: {name: s, namespace: web}\n",
        "bundles/base/notes.yaml": "a: 1\n",
    }
    result = compile_small(files)
    found = {(f.origin.file.removeprefix("bundles/base/"), f.code) for f in result.findings}
    assert found >= {
        ("m/values.yaml", "GO1101"),
        ("m/templates/x.yaml", "GO1021"),
        ("m/.ci.yml", "GO1101"),
        ("m/svc.yaml", "GO1101"),
        ("notes.yaml", "GO2106"),
    }
    assert "m/deploy.yaml" not in {file for file, _ in found}
    assert result.held == {BASE}


def test_y21_numbers_where_kubernetes_wants_text_are_refused_with_their_path(compile_small: Compile):
    result = compile_small({OBJECTS: config_map("  labels: {ticket: 356136738}\n")})
    assert refused(result) == [("GO1105", 6)]
    assert result.errors[0].path == ("metadata", "labels", "ticket")
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web}\nspec:\n  containers:\n"
    result = compile_small({OBJECTS: pod + "  - env:\n    - name: PORT\n      value: 8080\n"})
    assert refused(result) == [("GO4108", 8)]
    assert result.errors[0].path == ("spec", "containers", 0, "env", 0, "value")


def test_y22_a_generated_name_is_refused_and_nothing_of_its_bundle_is_sent(compile_small: Compile):
    job = "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: nightly-\n  namespace: web\n"
    assert refused(compile_small({OBJECTS: config_map("") + job})) == [("GO1104", 10)]


def test_y23_keys_with_comments_only_are_absent_or_named(compile_small: Compile):
    metadata = "metadata: {name: a, namespace: web, annotations: }\n"
    pod = f"apiVersion: v1\nkind: Pod\n{metadata}spec:\n  containers:\n  - name: a\n"
    assert sent(compile_small({OBJECTS: pod}))["a"]["metadata"] == {"name": "a", "namespace": "web", "annotations": {}}
    result = compile_small({OBJECTS: pod + "    args:\n    # - one\n"})
    assert refused(result) == [("GO4107", 7)]
    assert refused(
        compile_small({OBJECTS: "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web}\nspec:\n"})
    ) == [("GO4107", 4)]


def test_y24_a_directive_is_warned_about_and_changes_nothing(compile_small: Compile):
    result = compile_small({OBJECTS: "%YAML 1.2\n---\n" + config_map("immutable: no\n")})
    assert sent(result)["page"]["immutable"] is False
    assert [(f.code, f.origin.line) for f in result.findings if f.origin.file == OBJECTS] == [("GO1020", 1)]


# -- S: what is never sent -------------------------------------------------------------------------------------------


def test_s04_s05_s06_what_only_the_cluster_writes_is_named_and_not_sent(compile_small: Compile):
    exported = """\
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: page
      namespace: web
      uid: 1111
      resourceVersion: "7"
      generation: 4
      selfLink: /x
      creationTimestamp: 2026-01-01T00:00:00Z
      managedFields: [{manager: kubectl}]
    spec:
      template:
        metadata:
          creationTimestamp: null
          labels: {a: b}
    status: {replicas: 1}
    """
    result = compile_small({OBJECTS: exported})
    body = sent(result)["page"]
    assert body["metadata"] == {"name": "page", "namespace": "web", "annotations": {}}
    assert body["spec"] == {"template": {"metadata": {"labels": {"a": "b"}}}}
    assert body.keys() == {"apiVersion", "kind", "metadata", "spec"}
    named = [(f.code, f.origin.line) for f in result.findings if f.origin.file == OBJECTS]
    assert named == [*(("GO1107", line) for line in (6, 7, 8, 9, 10, 11)), ("GO1108", 15), ("GO1107", 17)]


def test_s11_quantities_are_canonical_where_they_surely_are_quantities(compile_small: Compile):
    text = """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: page, namespace: web}
    spec:
      resources: {limits: {cpu: 12000m, memory: 1000M, nvidia.com/gpu: 1}}
      storage: {pvc: {name: a, size: 1024Mi}}
      note: 1000m
    """
    spec = sent(compile_small({OBJECTS: text}))["page"]["spec"]
    assert spec == {
        "resources": {"limits": {"cpu": "12", "memory": "1G", "nvidia.com/gpu": "1"}},
        "storage": {"pvc": {"name": "a", "size": "1024Mi"}},
        "note": "1000m",
    }


def test_s12_zero_empty_and_false_are_sent_as_written(compile_small: Compile):
    spec = "spec: {automount: false, replicas: 0, note: '', resources: {requests: {}, limits: {}}, args: []}\n"
    text = f"apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: page, namespace: web}}\n{spec}"
    assert sent(compile_small({OBJECTS: text}))["page"]["spec"] == {
        "automount": False,
        "replicas": 0,
        "note": "",
        "resources": {"requests": {}, "limits": {}},
        "args": [],
    }


def test_s22_a_cluster_role_has_one_identity_with_and_without_a_namespace(compile_small: Compile):
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: r\n"
    without, with_one = compile_small({OBJECTS: role}), compile_small({OBJECTS: f"{role}  namespace: x\n"})
    assert [o.ref for o in unit_of(without).objects] == [o.ref for o in unit_of(with_one).objects]
    assert plan_between(without, with_one).empty
    assert [(f.code, f.severity) for f in with_one.findings if f.origin.file == OBJECTS] == [("GO4111", "warning")]


def test_s23_a_namespace_is_the_instances_own_or_must_be_written(compile_small: Compile):
    result = compile_small({OBJECTS: config_map("").replace("  namespace: web\n", "")})
    assert refused(result) == [("GO4104", 3)]
    functions = [unit for key, unit in result.units.items() if key.kind is WorkloadKind.FUNCTION]
    assert functions
    for unit in functions:
        assert {o.body["metadata"].get("namespace") for o in unit.objects} == {None, unit.namespace}  # None: its own


# -- X: hostile names and annotations --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["gitops/depends-on", "gitops/allow-delete", "gitops/allow-credential-like"])
@pytest.mark.parametrize("value", ["", "/", "a/b/c", "0x", "x" * 300_000, "é", "\0", "\u202e", "🙂" * 5_000])
def test_x07_a_malformed_annotation_of_ours_is_an_error_of_its_object_each_time(
    compile_small: Compile, key: str, value: str
):
    text = config_map(f"  annotations:\n    {key}: {json.dumps(value, ensure_ascii=False)}\n")
    for _ in range(2):  # a restart meets the same
        result = compile_small({OBJECTS: text})
        assert refused(result) == [("GO4303", 7)]
        assert len(result.errors[0].message) < 1_001


@pytest.mark.parametrize("value", ["5", "[a]", "{a: b}", "null", "true"])
def test_x07_annotations_that_are_no_text(compile_small: Compile, value: str):
    result = compile_small({OBJECTS: config_map(f"  annotations:\n    gitops/depends-on: {value}\n")})
    assert refused(result) == [("GO1105", 7)]


@pytest.mark.parametrize(
    "name",
    [
        "../../.github/workflows/x",
        "a/b",
        "CON",
        ".git",
        "a\0b",
        "a" * 254,
        "",
        ".",
        "..",
        "a\\b",
        "a\nb",
        "é",
        "-x",
        "a ",
    ],
)
def test_x08_a_name_that_could_be_a_path_is_refused(compile_small: Compile, name: str):
    text = config_map("").replace("name: page", f"name: {json.dumps(name)}")
    assert refused(compile_small({OBJECTS: text})) == [("GO4106" if name else "GO1101", 4)]


def test_x08_the_longest_name_is_fine(compile_small: Compile):
    assert list(sent(compile_small({OBJECTS: config_map("", "a" * 253)}))) == ["a" * 253]


def test_two_compilers_agree_on_every_case(small: Callable[..., Any]):
    """I2: nothing above depends on what was compiled before."""
    tree = small({OBJECTS: SAME})
    one, other = (Compiler(OperatorRegistry.shipped()).compile(tree) for _ in range(2))
    assert unit_of(one).content_key == unit_of(other).content_key
    assert [o.payload for o in unit_of(one).objects] == [o.payload for o in unit_of(other).objects]
