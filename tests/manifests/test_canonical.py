"""One byte form for equal values."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.canonical import canonical_json, copy_json, digest, same_json


def test_keys_are_sorted_and_nothing_is_added():
    assert canonical_json({"b": [1, 2.5, None, True], "a": {"é": "x", "d": ""}}) == (
        '{"a":{"d":"","é":"x"},"b":[1,2.5,null,true]}'.encode()
    )


def test_digest():
    assert len(digest({})) == 16
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) == digest(b'{"a":1,"b":2}')
    assert digest({"a": [1, 2]}) != digest({"a": [2, 1]})


def test_same_json_tells_types_apart():
    assert not same_json(True, 1)
    assert not same_json(0, False)
    assert not same_json("1", 1)
    assert same_json({"a": 1, "b": [None]}, {"b": [None], "a": 1})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_copies_are_equal_and_share_nothing(value):
    copied, before = copy_json(value), copy.deepcopy(value)
    assert same_json(copied, value)

    def spoil(part):
        for child in list(part.values() if isinstance(part, dict) else part):
            if isinstance(child, (dict, list)):
                spoil(child)
        part.clear()

    if isinstance(copied, (dict, list)):
        spoil(copied)
    assert value == before
