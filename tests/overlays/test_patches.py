"""What a patch is for, and what it must not do."""

import pytest

from gitops.manifests.reading import read_documents
from gitops.overlays import codes
from gitops.overlays.patches import MergePatchSource, Target, check_patch, read_patch
from gitops.overlays.provenance import Provenance

TARGET = Target("apps.nvidia.com/v1alpha1", "NIMService", "llm")


def document(text: str):
    (found,) = read_documents(text.encode(), file="overlays/h100.yaml").documents
    return found


def check(text: str, target: Target = TARGET) -> list[tuple[str, int]]:
    found = document(text)
    source = MergePatchSource(found.body, Provenance.of_document(found))
    return [(f.code, f.origin.line) for f in check_patch(source, target)]


def test_a_patch_file_names_its_target_and_the_rest_is_the_patch():
    text = "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata:\n  name: llm\nspec:\n  replicas: 2\n"
    found = read_patch(document(text))
    assert found.target == TARGET
    assert found.source.patch == {"spec": {"replicas": 2}}
    assert found.source.provenance.origin_of(("spec", "replicas")).line == 6
    assert found.findings == ()


def test_other_metadata_and_a_namespace():
    text = "apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: ns, labels: {x: z}}\n"
    found = read_patch(document(text))
    assert found.target == Target("v1", "A", "a", "ns")
    assert found.source.patch == {"metadata": {"labels": {"x": "z"}}}


@pytest.mark.parametrize(
    "text",
    [
        "spec: {replicas: 2}",
        "- a",
        "kind: A\nmetadata: {name: a}",
        "apiVersion: v1\nkind: A\nmetadata: {name: 1}",
        "apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: 1}",
        "apiVersion: v1\nkind: A\nmetadata: a",
    ],
)
def test_a_patch_file_without_a_target(text):
    found = read_patch(document(text))
    assert found.target is None
    assert [f.code for f in found.findings] == [codes.NOT_A_PATCH]


@pytest.mark.parametrize("name", ["llm*", "llm-?", "llm[12]", "^llm$", "llm.*", "llm|embed", "(llm)", "ll+m", "\\w"])
def test_p09_a_pattern_is_no_target(name):
    text = f"apiVersion: v1\nkind: A\nmetadata:\n  name: '{name}'\n"
    found = read_patch(document(text))
    assert found.target is None
    assert [(f.code, f.origin.line) for f in found.findings] == [(codes.TARGET_IS_PATTERN, 4)]


@pytest.mark.parametrize(("head", "line"), [("apiVersion: '*'\nkind: A", 1), ("apiVersion: v1\nkind: A.*", 2)])
def test_p09_no_field_of_a_target_is_a_pattern(head, line):
    found = read_patch(document(f"{head}\nmetadata: {{name: a}}\n"))
    assert [(f.code, f.origin.line) for f in found.findings] == [(codes.TARGET_IS_PATTERN, line)]


def test_p09_names_match_exactly():
    bodies = [{"apiVersion": "v1", "kind": "A", "metadata": {"name": name}} for name in ("app", "app-a", "x-app")]
    assert [Target("v1", "A", "app").matches(body) for body in bodies] == [True, False, False]


def test_p08_targets_are_exact():
    body = {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMService",
        "metadata": {"name": "llm", "namespace": "n"},
    }
    assert TARGET.matches(body)
    assert Target(TARGET.api_version, TARGET.kind, "llm", "n").matches(body)
    for other in (
        Target("apps.nvidia.com/v1", "NIMService", "llm"),
        Target(TARGET.api_version, "NIMCache", "llm"),
        Target(TARGET.api_version, "NIMService", "llm-prod"),
        Target(TARGET.api_version, "NIMService", "ll"),
        Target(TARGET.api_version, "NIMService", "llm", "other"),
    ):
        assert not other.matches(body)
    assert not TARGET.matches({})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: StatefulSet\n", 1),
        ("spec: {}\napiVersion: v2\n", 2),
        ("metadata:\n  name: other\n", 2),
        ("metadata:\n  namespace: other\n", 2),
        ("metadata:\n  name: null\n", 2),
        ("metadata:\n  generateName: a-\n", 2),
        ("metadata: null\n", 1),
        ("metadata: text\n", 1),
        ("kind: null\n", 1),
    ],
)
def test_p10_identity_comes_from_the_base_only(text, line):
    assert check(text) == [(codes.IDENTITY, line)]


def test_p10_repeating_the_identity_of_the_target_is_allowed():
    assert check("apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata: {name: llm}\n") == []


@pytest.mark.parametrize(
    "field", ["finalizers", "ownerReferences", "managedFields", "uid", "resourceVersion", "deletionTimestamp"]
)
def test_p10_ownership_is_out_of_reach(field):
    assert check(f"metadata:\n  {field}: null\n") == [(codes.OWNERSHIP, 2)]
    assert check(f"metadata:\n  {field}: [x]\n") == [(codes.OWNERSHIP, 2)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("metadata:\n  labels:\n    gitops/reconciler: x\n", 3),
        ("metadata:\n  labels:\n    fine: x\n    applyset.kubernetes.io/part-of: x\n", 4),
        ("metadata:\n  annotations:\n    gitops/source: null\n", 3),
        ("metadata:\n  annotations: null\n", 2),
        ("metadata:\n  labels: []\n", 2),
        ("spec:\n  template:\n    metadata:\n      labels:\n        gitops/reconciler: x\n", 5),
    ],
)
def test_p10_reserved_labels_and_annotations_are_out_of_reach(text, line):
    assert check(text) == [(codes.RESERVED, line)]


def test_other_labels_are_fine():
    assert check("metadata: {labels: {gitops.example.com/x: y, a: null}}\n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("spec:\n  containers:\n  - $patch: delete\n    name: side\n", 3),
        ("spec:\n  $setElementOrder/env: [{name: A}]\n", 2),
        ("spec:\n  strategy:\n    $retainKeys: [type]\n", 3),
        ("spec:\n  $deleteFromPrimitiveList/args: [a]\n", 2),
        ("$patch: replace\n", 1),
    ],
)
def test_p12_strategic_merge_directives(text, line):
    assert check(text) == [(codes.DIRECTIVE, line)]


def test_p12_dollar_keys_of_json_schema_are_no_directives():
    assert check("spec: {schema: {$ref: x, $schema: y}}\n") == []


def test_an_empty_patch_is_warned_about():
    assert check("{}") == [(codes.EMPTY_PATCH, 1)]
