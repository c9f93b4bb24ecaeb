"""Sets of components, and fields that must not go away, after all overlays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupKind
from gitops.model.object_rules import ComponentSet
from gitops.overlays import codes
from gitops.overlays.applying import Merged, PatchSource, apply_patches
from gitops.overlays.json_patches import read_operations
from gitops.overlays.parts import Parts
from gitops.overlays.patches import MergePatchSource, Target
from gitops.overlays.provenance import Provenance
from gitops.policy.components import changed_components, lost_fields
from gitops.policy.registry import OperatorRegistry

REGISTRY = OperatorRegistry.shipped()
DGD = GroupKind("nvidia.com", "DynamoGraphDeployment")
PARTS = REGISTRY.component_sets(DGD)
SHAPES = {v: REGISTRY.schemas.shape(k) for k in REGISTRY.schemas.kinds if k.group_kind == DGD for v in (k.version,)}

BETA = """\
spec:
  backendFramework: vllm
  components:
  - name: frontend
    type: frontend
  - name: prefill
    minAvailable: 1
    scalingAdapter: {}
  - name: decode
    multinode: {nodeCount: 2}
"""

ALPHA = """\
spec:
  services:
    Frontend: {componentType: frontend}
    Decode:
      replicas: 1
      scalingAdapter: {enabled: true}
"""


def document(text: str, file: str) -> RawDocument:
    (found,) = read_documents(text.encode(), file=file).documents
    return found


def patched(base: str, *patches: str, by_key: bool = False) -> tuple[RawDocument, Merged]:
    """Patches that begin with a list are JSON patches."""
    start = document(base, "base.yaml")
    sources: list[PatchSource] = []
    for number, text in enumerate(patches, 1):
        found = document(text, f"{number}.yaml")
        provenance = Provenance.of_document(found)
        if isinstance(found.body, list):
            source, problems = read_operations(found.body, provenance, Target("v1", "A", "a"))
            assert problems == ()
            sources.append(source)
        else:
            sources.append(MergePatchSource(found.body, provenance, by_key))
    shape = SHAPES["v1beta1" if base is BETA else "v1alpha1"]
    result = apply_patches(start.body, Provenance.of_document(start), sources, shape=shape, parts=PARTS)
    assert result.findings == ()
    return start, result


def said(base: str, *patches: str, by_key: bool = False, consenting: tuple[int, ...] = ()) -> list[tuple[str, str]]:
    start, result = patched(base, *patches, by_key=by_key)
    found = list(changed_components(start.body, result, PARTS, consenting))
    assert {f.code for f in found} <= {codes.PARTS_CHANGED}
    return [(str(f.origin), f.message.partition("the overlay ")[2]) for f in found]


ONE = "spec:\n  replicas: 1\n  components:\n  - name: decode\n    replicas: 2\n"


def test_a_replaced_list_that_drops_components_is_an_error_at_its_line():
    assert said(BETA, ONE) == [("1.yaml:3", "removes frontend, prefill")]


def test_a_replaced_list_with_all_of_them_is_none():
    assert said(BETA, "spec: {components: [{name: decode}, {name: prefill}, {name: frontend}]}") == []


def test_by_key_no_component_is_lost_and_a_misspelt_one_is_noticed():
    assert said(BETA, ONE, by_key=True) == []
    assert said(BETA, ONE.replace("decode", "decod"), by_key=True) == [("1.yaml:3", "adds decod")]


def test_a_renamed_component_is_one_lost_and_one_added():
    text = "spec:\n  components: [{name: frontend}, {name: prefill}, {name: decoder}]\n"
    assert said(BETA, text) == [("1.yaml:2", "removes decode and adds decoder")]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("- {op: remove, path: /spec/components/1}", []),
        ("- {op: add, path: /spec/components/-, value: {name: planner}}", []),
        ("- {op: add, path: /spec/components/0, value: {name: planner}}", []),
        ("- {op: move, from: /spec/components/0, path: /spec/components/2}", []),
        ("- {op: move, from: /spec/components/0, path: /spec/spare}", []),
        ("- {op: replace, path: /spec/components/1/replicas, value: 2}", None),
        ("- {op: replace, path: /spec/components/1/name, value: x}", [("1.yaml:1", "removes prefill and adds x")]),
        ("- {op: remove, path: /spec/components/1/name}", [("1.yaml:1", "removes prefill")]),
        ("- {op: replace, path: /spec/components/1, value: {name: x}}", [("1.yaml:1", "removes prefill and adds x")]),
        (
            "- {op: replace, path: /spec/components, value: [{name: decode}]}",
            [("1.yaml:1", "removes frontend, prefill")],
        ),
        ("- {op: remove, path: /spec/components}", [("1.yaml:1", "removes decode, frontend, prefill")]),
        ("- {op: replace, path: /spec, value: {}}", [("1.yaml:1", "removes decode, frontend, prefill")]),
    ],
)
def test_an_operation_may_add_or_remove_exactly_one(patch, expected):
    if expected is None:
        patch, expected = patch.replace("replace", "add"), []
    assert said(BETA, patch) == expected


def test_of_a_map_null_removes_exactly_one_and_a_new_key_is_noticed():
    assert said(ALPHA, "spec: {services: {Decode: null}}") == []
    assert said(ALPHA, "spec: {services: {Decode: {replicas: 2}}}") == []
    assert said(ALPHA, "spec:\n  services:\n    Decod: {replicas: 2}\n") == [("1.yaml:2", "adds Decod")]
    assert said(ALPHA, "spec:\n  services: null\n") == [("1.yaml:2", "removes Decode, Frontend")]
    assert said(ALPHA, "spec: null\n") == [("1.yaml:1", "removes Decode, Frontend")]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("- {op: remove, path: /spec/services/Decode}", []),
        ("- {op: add, path: /spec/services/New, value: {}}", []),
        ("- {op: move, from: /spec/services/Decode, path: /spec/services/Prefill}", []),
        ("- {op: copy, from: /spec/services/Decode, path: /spec/services/Prefill}", []),
        ("- {op: replace, path: /spec/services/Decode, value: {}}", []),
        ("- {op: replace, path: /spec/services, value: {Decode: {}}}", [("1.yaml:1", "removes Frontend")]),
    ],
)
def test_an_operation_on_a_key_of_the_map_is_asked_for(patch, expected):
    assert said(ALPHA, patch) == expected


def test_the_entry_may_consent():
    assert said(BETA, ONE, consenting=(1,)) == []
    assert said(BETA, ONE, ONE.replace("decode", "x"), consenting=(2,)) == [("1.yaml:3", "removes frontend, prefill")]
    assert said(BETA, ONE, ONE.replace("decode", "x"), consenting=(1,)) == [("2.yaml:3", "removes decode and adds x")]


def test_whoever_drops_them_is_blamed_not_who_leaves_it_so():
    assert said(BETA, ONE, ONE) == [("1.yaml:3", "removes frontend, prefill")]
    assert said(BETA, ONE, "spec: {components: [{name: decode, replicas: 3}]}", consenting=(1,)) == []


def test_what_a_later_patch_puts_back_is_not_lost():
    back = "- {op: add, path: /spec/components/-, value: {name: frontend}}\n"
    assert said(BETA, ONE, back) == [("1.yaml:3", "removes prefill")]


def test_many_names_are_not_all_told():
    items = ", ".join(f"{{name: n{n:02}}}" for n in range(25))
    ((_, words),) = said(BETA, f"spec: {{components: [{items}]}}")
    assert words == (
        "removes decode, frontend, prefill and adds n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 15 more"
    )


# -- fixed fields ----------------------------------------------------------------------------------------------------


def lost(base: str, *patches: str, by_key: bool = False) -> list[tuple[str, str]]:
    start, result = patched(base, *patches, by_key=by_key)
    found = list(lost_fields(start.body, result, REGISTRY.fixed_fields(DGD)))
    assert {f.code for f in found} <= {codes.FIXED_FIELD_GONE}
    return [(str(f.origin), f.message) for f in found]


@pytest.mark.parametrize(
    ("base", "patch", "by_key", "expected"),
    [
        (BETA, "spec:\n  backendFramework: null\n", False, [("1.yaml:2", "spec.backendFramework")]),
        (BETA, "- {op: remove, path: /spec/backendFramework}", False, [("1.yaml:1", "spec.backendFramework")]),
        (BETA, "spec: {backendFramework: sglang}", False, []),
        (
            BETA,
            "spec:\n  components:\n  - name: prefill\n    minAvailable: null\n    scalingAdapter: null\n",
            True,
            [("1.yaml:4", "spec.components[1].minAvailable"), ("1.yaml:5", "spec.components[1].scalingAdapter")],
        ),
        (
            BETA,
            "spec:\n  components:\n  - name: decode\n    replicas: 2\n  - name: frontend\n",
            False,
            [("1.yaml:3", "spec.components[0].multinode")],  # prefill is gone with all it had
        ),
        (
            BETA,
            "- {op: remove, path: /spec/components/0}\n- {op: remove, path: /spec/components/1/multinode}",
            False,
            [("1.yaml:2", "spec.components[1].multinode")],
        ),
        (
            ALPHA,
            "spec:\n  services:\n    Decode:\n      scalingAdapter: null\n",
            False,
            [("1.yaml:4", "spec.services.Decode.scalingAdapter")],
        ),
        (ALPHA, "spec: {services: {Decode: null}}", False, []),
        (ALPHA, "spec: null", False, []),
    ],
)
def test_a_fixed_field_that_is_gone(base, patch, by_key, expected):
    assert lost(base, patch, by_key=by_key) == [(place, f"the overlay removes {path}") for place, path in expected]


def test_a_field_that_the_base_does_not_have_is_not_missed():
    assert lost("spec: {components: [{name: a}]}", "spec: {backendFramework: null, topologyConstraint: null}") == []


# -- paths -----------------------------------------------------------------------------------------------------------


def test_parts():
    assert Parts.parse("/spec/components/*/name") == Parts(("spec", "components"), "name")
    assert Parts.parse("/spec/services/*") == Parts(("spec", "services"))
    assert Parts.parse("/spec/services/*").names({"spec": {"services": {"A": 1}}}) == {"A"}
    body = {"spec": {"components": [{"name": "a"}, {"name": 1}, {}, "x", {"name": "b"}]}}
    assert Parts.parse("/spec/components/*/name").names(body) == {"a", "b"}


@pytest.mark.parametrize("body", [None, {}, {"spec": None}, {"spec": {"components": {}}}, {"spec": {"components": 1}}])
def test_parts_of_something_else_are_none(body):
    assert Parts(("spec", "components"), "name").names(body) == frozenset()


@pytest.mark.parametrize("text", ["spec/*", "/spec", "/spec/*/a/b", "/spec/*/*", "/spec/*/", "/*x", ""])
def test_malformed_parts(text):
    with pytest.raises(ValueError, match="not a path to named parts"):
        Parts.parse(text)
    with pytest.raises(ValidationError, match="parts"):
        ComponentSet(group="g", kind="K", parts=text)


@given(st.from_regex(r"^(/[^/*]+)+/\*(/[^/*]+)?$", fullmatch=True).filter(lambda text: len(text) <= 253))
def test_what_an_operator_type_may_say_can_be_used(text):
    found = Parts.parse(ComponentSet(group="g", kind="K", parts=text).parts)
    assert found.names({}) == frozenset()
    assert "/".join(["", *found.container, "*", *([found.name] if found.name else [])]) == text


def test_every_shipped_path_can_be_used():
    kinds = {(p.group, p.kind) for t in REGISTRY.types.values() for p in t.spec.componentSets}
    assert kinds == {("nvidia.com", "DynamoGraphDeployment")}
    assert [REGISTRY.component_sets(GroupKind(*kind)) for kind in kinds] == [PARTS]
    assert len(PARTS) == 2
