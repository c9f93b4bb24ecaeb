"""One byte form for equal values, whatever they were written like, and another for every other value."""

import copy
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.canonical import canonical_json, copy_json, digest, same_json
from gitops.manifests.reading import read_documents


def test_keys_are_sorted_and_nothing_is_added():
    assert canonical_json({"b": [1, 2.5, None, True], "a": {"é": "x", "d": ""}}) == (
        '{"a":{"d":"","é":"x"},"b":[1,2.5,null,true]}'.encode()
    )


def test_keys_are_sorted_by_their_bytes():
    keys = ["\U0001f600", "\uffff", "é", "z", "a b", "a", "", "A"]  # UTF-16 would put the emoji before U+FFFF
    assert list(json.loads(canonical_json(dict.fromkeys(keys)))) == sorted(keys, key=str.encode)


def test_digest():
    assert len(digest({})) == 16
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) == digest(b'{"a":1,"b":2}')
    assert digest({"a": [1, 2]}) != digest({"a": [2, 1]})


def test_same_json_tells_types_apart():
    assert not same_json(True, 1)
    assert not same_json(0, False)
    assert not same_json("1", 1)
    assert not same_json(None, {})
    assert same_json({"a": 1, "b": [None]}, {"b": [None], "a": 1})


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("0.0", "0"),
        ("-0.0", "0"),
        ("-0", "0"),
        ("1E400", '"1E400"'),
        ("true", "true"),
        ('"1"', '"1"'),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0.1", "0.1"),
        ("1e-7", "1e-7"),
        ("1.5e-300", "1.5e-300"),
        ("9007199254740993.0", "9007199254740992"),
    ],
)
def test_numbers_as_kubectl_sends_them(written, sent):
    """Zero has no sign and no fraction there: Go prints the float -0.0 as `-0`, which is then read as an integer."""
    (document,) = read_documents(f"v: {written}".encode(), file="a.yaml").documents
    assert canonical_json(document.body) == f'{{"v":{sent}}}'.encode()


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


# -- laws ------------------------------------------------------------------------------------------------------------

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | _FLOATS | st.text(max_size=4)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def typed(value):
    """A value whose `==` is equality of JSON: types count, the order of keys does not; -0.0 is not 0.0."""
    if isinstance(value, dict):
        return ("map", frozenset((key, typed(child)) for key, child in value.items()))
    if isinstance(value, list):
        return ("list", *map(typed, value))
    return (type(value).__name__, repr(value))


@given(_VALUES, _VALUES)
def test_different_values_have_different_bytes(a, b):
    assert (canonical_json(a) == canonical_json(b)) == (typed(a) == typed(b)) == same_json(a, b)
    assert (digest(a) == digest(b)) == (typed(a) == typed(b))


@given(_VALUES, st.data())
def test_one_changed_leaf_changes_the_bytes(value, data):
    changed = {"": copy.deepcopy(value)}
    holder, key = changed, ""
    while (inner := holder[key]) and isinstance(inner, (dict, list)):
        holder, key = inner, data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
    holder[key] = data.draw(_SCALARS.filter(lambda leaf: typed(leaf) != typed(holder[key])))
    assert canonical_json(changed) != canonical_json({"": value})


@given(_VALUES)
def test_bytes_are_json_of_the_same_value(value):
    assert typed(json.loads(canonical_json(value))) == typed(value)


def shuffled(value, rng: Random):
    """The value with the keys of all maps in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], rng) for key in rng.sample(list(value), len(value))}
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@given(_VALUES, st.integers())
def test_the_order_of_keys_does_not_matter(value, seed):
    assert digest(shuffled(value, Random(seed))) == digest(value)


# Texts that YAML can hold raw: what else there is needs escapes, which JSON below has.
_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\ufeff\x7f", exclude_categories=["Cc", "Cn", "Zl", "Zp"])
)
_READABLE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _FLOATS.filter(lambda f: not f.is_integer()) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


def block(value, indent: int, rng: Random) -> str:
    """What follows a key or a dash, in block style with comments."""
    comment = rng.choice(["", "", " # c"])
    pad = rng.choice(["", "", "# c\n"]) + " " * indent
    if isinstance(value, dict) and value:
        return comment + "\n" + "".join(f"{pad}{quoted(k, rng)}:{block(v, indent + 2, rng)}" for k, v in value.items())
    if isinstance(value, list) and value:
        return comment + "\n" + "".join(f"{pad}-{block(v, indent + 2, rng)}" for v in value)
    return f" {quoted(value, rng)}{comment}\n"


def flow(value, rng: Random) -> str:
    space = rng.choice(["", " ", "\n ", " # c\n "])
    if isinstance(value, dict):
        return "{" + ",".join(f"{space}{quoted(k, rng)}: {flow(v, rng)}{space}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(space + flow(v, rng) + space for v in value) + "]"
    return quoted(value, rng)


def quoted(value, rng: Random) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if rng.random() < 0.5 else f'"{escaped(value)}"'
    return json.dumps(value)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def digest_of(text: str) -> bytes:
    result = read_documents(text.encode(), file="a.yaml")
    assert result.complete, (result.findings, text)
    (document,) = result.documents
    return digest(document.body)


@given(_READABLE, st.integers())
def test_equal_values_have_one_digest_however_they_are_written(value, seed):
    rng, body = Random(seed), {"v": value, "w": [value]}
    expected = digest(body)
    yaml = "# file\n---" + block(body, 0, rng) + "...\n"
    texts = [
        yaml,
        yaml.replace("\n", "\r\n"),
        flow(body, rng) + "\n# end",
        json.dumps(body),
        json.dumps(body, indent=2, ensure_ascii=False),
        json.dumps(shuffled(body, rng), separators=(",", ":")),
        canonical_json(body).decode(),
        f"base: &b {flow(value, rng)}\nm: {{<<: {{v: *b}}, w: [*b]}}\n",
    ]
    digests = [digest_of(text) for text in texts[:-1]]
    assert digests == [expected] * len(digests)
    assert digest_of(texts[-1]) == digest({"base": value, "m": body})


@given(_READABLE, _READABLE, st.integers())
def test_different_values_have_different_digests_however_they_are_written(a, b, seed):
    rng = Random(seed)
    one, other = digest_of("---" + block({"v": a}, 0, rng)), digest_of(flow({"v": b}, rng))
    assert (one == other) == (typed(a) == typed(b))
