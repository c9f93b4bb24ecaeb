"""RFC 7386: the cases of its appendix, the cases people report, and laws."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.canonical import same_json
from gitops.model.findings import Origin
from gitops.overlays.applying import apply_patches
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance

BASE, PATCH = Provenance.of_origin(Origin("base.yaml", 1)), Provenance.of_origin(Origin("patch.yaml", 1))


def merge_patch(base, patch):
    """The patch over the base. Objects only are merged here, so that any value is one member of an object; the result
    is None where the member is gone, as a null patch leaves it."""
    return apply_patches({"x": base}, BASE, [MergePatchSource({"x": patch}, PATCH)]).body.get("x")


APPENDIX_A = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("base", "patch", "result"), APPENDIX_A)
def test_appendix_a(base, patch, result):
    assert same_json(merge_patch(base, patch), result)


def test_there_are_all_15():
    assert len(APPENDIX_A) == 15


def test_p01_null_inside_an_object_that_the_patch_creates():
    patch = {"spec": {"limits": {"cpu": None, "memory": "1Gi"}}}
    assert merge_patch({"spec": {}}, patch) == {"spec": {"limits": {"memory": "1Gi"}}}


def test_p02_nulls_and_empties_of_the_base_stay():
    base = {"spec": {"sourceA": {}, "secrets": [], "hint": None, "n": 1}}
    result = merge_patch(base, {"metadata": {"labels": {"a": "b"}}})
    assert result == {**base, "metadata": {"labels": {"a": "b"}}}


def test_p03_null_as_a_list_element_stays():
    assert merge_patch({"spec": {"args": ["y"]}}, {"spec": {"args": [None, "x"]}}) == {"spec": {"args": [None, "x"]}}


def test_p04_a_named_list_is_replaced():
    base = {"spec": {"env": [{"name": "A"}, {"name": "B"}]}}
    assert merge_patch(base, {"spec": {"env": [{"name": "C"}]}}) == {"spec": {"env": [{"name": "C"}]}}


def test_p16_an_object_over_a_scalar():
    patch = {"spec": {"storage": {"size": "10Gi", "class": None}}}
    assert merge_patch({"spec": {"storage": "small"}}, patch) == {"spec": {"storage": {"size": "10Gi"}}}


_KEYS = st.sampled_from("abc")
_LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"])
JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=12
)


@given(JSON, JSON)
def test_merging_twice_is_merging_once(base, patch):
    once = merge_patch(base, patch)
    assert same_json(merge_patch(once, patch), once)


@given(JSON)
def test_an_empty_patch_changes_no_object(base):
    assert same_json(merge_patch(base, {}), base if isinstance(base, dict) else {})


@given(JSON, JSON, JSON)
def test_the_last_of_two_scalars_or_lists_wins(base, first, second):
    assert same_json(merge_patch(merge_patch(base, [first]), [second]), [second])


def reference(target, patch):
    """The pseudo code of the RFC, word by word."""
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = reference(target.get(name), value)
        return target
    return patch


@given(JSON, JSON)
def test_as_the_pseudo_code(base, patch):
    expected = reference(copy.deepcopy(base), copy.deepcopy(patch))
    assert same_json(merge_patch(base, patch), expected)


def spoil(value):
    for child in list(value.values() if isinstance(value, dict) else value):
        if isinstance(child, (dict, list)):
            spoil(child)
    value.clear()


@given(JSON, JSON)
def test_the_result_shares_nothing(base, patch):
    before = copy.deepcopy((base, patch))
    result = merge_patch(base, patch)
    assert same_json([base, patch], list(before))
    if isinstance(result, (dict, list)):
        spoil(result)
    assert same_json([base, patch], list(before))
