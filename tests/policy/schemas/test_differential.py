"""Every word of a structural schema, with values on both sides of it: our verdict and the real API server's.

A case is a field of one big kind: its schema and values for it. VALID where the server refuses and INVALID where it
takes the object both fail; UNVERIFIED is counted, and has to be expected by the case.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit import ApiServer
from schema_kit.server import GROUP, Asking, definition, disagreement, kind_of

from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}  # noqa: E741
N: dict[str, Any] = {"type": "number"}
B: dict[str, Any] = {"type": "boolean"}
KEEP = {"x-kubernetes-preserve-unknown-fields": True}
IOS = {"x-kubernetes-int-or-string": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}


def obj(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def lmap(items: Any, *keys: str) -> dict[str, Any]:
    return arr(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def lset(items: Any) -> dict[str, Any]:
    return arr(items, **{"x-kubernetes-list-type": "set"})


ANY = [None, True, 0, 1, -1, 1.5, 2.0, "", "a", "1", [], ["a"], [1], [None], {}, {"a": 1}, {"a": None}, {"b": "x"}]
BIG = [2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 1e300, 1e-9, 0.1, -0.0, 1.0000001]
DEFAULTED = {**S, "default": "d"}

CASES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    # -- types
    "string": (S, ANY),
    "integer": (I, [*ANY, *BIG]),
    "number": (N, [*ANY, *BIG]),
    "boolean": (B, ANY),
    "object_open": ({"type": "object"}, ANY),
    "object_closed": (obj(a=I), [*ANY, {"a": "x"}, {"a": 1, "c": 1}]),
    "object_of_strings": ({"type": "object", "additionalProperties": S}, [*ANY, {"k": 1}, {"k": ["x"]}]),
    "object_of_objects": (
        {"type": "object", "additionalProperties": obj(a=I)},
        [{"k": {"a": 1}}, {"k": {"z": 1}}, {"k": None}, {"k": 1}],
    ),
    "array": (arr(S), ANY),
    "array_of_arrays": (arr(arr(I)), [[[1]], [["a"]], [1], [[None]], [None]]),
    "nullable_string": ({**S, "nullable": True}, ANY),
    "nullable_object": ({**obj(a=I), "nullable": True, "required": ["a"]}, [*ANY, {"a": 3}]),
    "nullable_items": (arr({**S, "nullable": True}), [[None], ["a", None], [1]]),
    "nullable_values": ({"type": "object", "additionalProperties": {**I, "nullable": True}}, [{"a": None}, {"a": "x"}]),
    "int32": ({**I, "format": "int32"}, [*ANY, *BIG]),
    "int64": ({**I, "format": "int64"}, [*ANY, *BIG]),
    "float": ({**N, "format": "float"}, [*ANY, *BIG, 1e39]),
    "double": ({**N, "format": "double"}, [*ANY, *BIG]),
    # -- numbers
    "minimum": ({**I, "minimum": 2}, [1, 2, 3, 2.0, 1.0, -5]),
    "maximum": ({**I, "maximum": 2}, [1, 2, 3, 2.0, 3.0]),
    "exclusive_minimum": ({**I, "minimum": 2, "exclusiveMinimum": True}, [1, 2, 3, 2.0]),
    "exclusive_maximum": ({**I, "maximum": 2, "exclusiveMaximum": True}, [1, 2, 3, 2.0]),
    "exclusive_alone": ({**I, "exclusiveMaximum": True}, [1, 2, 3]),
    "fraction_minimum": ({**N, "minimum": 0.5}, [0, 0.4, 0.5, 0.6, 1, -1, -0.5]),
    "fraction_maximum": ({**N, "maximum": 1.5}, [1, 2, 1.5, 1.6, 1.4, -1]),
    "fraction_exclusive": ({**N, "maximum": 1.5, "exclusiveMaximum": True}, [0, 1, 1.5, 1.4, 2]),
    "fraction_negative": ({**N, "minimum": -1.5}, [-1, -2, -1.5, -1.6, 0]),
    "multiple_of": ({**I, "multipleOf": 3}, [0, 3, 4, -3, 9.0, 10.0]),
    "multiple_of_fraction": ({**N, "multipleOf": 0.1}, [0.3, 0.25, 1, 0.7, 1.0, 2.1]),
    "multiple_of_large": ({**N, "multipleOf": 3}, [3e15, 9e15, 3e16, 3e18, 3e20, 1e300, 4.5, 3.0000000001]),
    "multiple_of_half": ({**N, "multipleOf": 2.5}, [5, 4, 2.5, 5.0, 3.0]),
    # -- texts
    "min_length": ({**S, "minLength": 2}, ["", "a", "ab", "é", "éé", "😀", "😀😀"]),
    "max_length": ({**S, "maxLength": 2}, ["", "ab", "abc", "éé", "ééé", "😀😀", "😀😀😀"]),
    "pattern": ({**S, "pattern": "^[a-z]+$"}, ["a", "", "A", "a\n", "ab1", "é"]),
    "pattern_unanchored": ({**S, "pattern": "b"}, ["abc", "ac", "b"]),
    "pattern_perl": ({**S, "pattern": r"^\d\w\s$"}, ["1a ", "٣a ", "1é ", "1_\t", "1_\v", "1_\u00a0"]),
    "pattern_not_perl": ({**S, "pattern": r"^\D\W\S$"}, ["a  ", "é-é", "٣é٣", "1-a", "a-a"]),
    "pattern_fold": ({**S, "pattern": "(?i)^ks[a-c]$"}, ["KSa", "ksC", "\u212asB", "k\u017fb", "ksd", "K\u017fD"]),
    "pattern_fold_class": ({**S, "pattern": "(?i)^[^a]$"}, ["a", "A", "b", "é", "\n"]),
    "pattern_dot": ({**S, "pattern": "^a.b$"}, ["a\nb", "axb", "a😀b"]),
    "pattern_dotall": ({**S, "pattern": "(?s)^a.b$"}, ["a\nb", "axb", "ab"]),
    "pattern_posix": ({**S, "pattern": "^[[:alpha:]-]+[[:^digit:]]$"}, ["ab-", "a1", "é!", "a!"]),
    "pattern_text_ends": ({**S, "pattern": r"\Aab\z"}, ["ab", "ab\n", "xab"]),
    "pattern_property": ({**S, "pattern": r"^\pL\p{Greek}\P{Lu}$"}, ["aαb", "1αb", "aab", "aαB"]),
    "pattern_quote": ({**S, "pattern": r"^\Qa.b\E+$"}, ["a.b", "a.bb", "axb"]),
    "pattern_names": ({**S, "pattern": "^(?P<one>a|b){2,3}$"}, ["ab", "a", "abab"]),
    "pattern_literal_braces": ({**S, "pattern": "^a{,2}{x}$"}, ["a{,2}{x}", "aa", "a{x}"]),
    "pattern_hex": ({**S, "pattern": r"^\x41\x{1F600}[\x{42}-\x44]\101$"}, ["A😀BA", "A😀DA", "A😀EA"]),
    "pattern_rust_sets": ({**S, "pattern": r"^[a&&b][x[a][a~~b]$"}, ["&[~", "axa", "bbb", "&a&"]),
    "pattern_bracket_first": ({**S, "pattern": r"^[]a][^]a]$"}, ["]b", "ab", "a]", "b]"]),
    "pattern_multiline": ({**S, "pattern": r"(?m)^a$"}, ["a", "b\na", "b"]),
    "pattern_boundary": ({**S, "pattern": r"\bword\b"}, ["a word", "words", "éword"]),
    "pattern_ungreedy": ({**S, "pattern": r"(?U)^a+?b*$"}, ["aab", "aa", "b"]),
    "pattern_alternatives": ({**S, "pattern": r"^$|^a(b|c)?$"}, ["", "a", "ab", "ad"]),
    "enum": ({**S, "enum": ["a", "b"]}, ["a", "b", "c", "", None, "A"]),
    "enum_integer": ({**I, "enum": [1, 2]}, [1, 2, 3, 1.0, "1", None]),
    "enum_number": ({**N, "enum": [1, 2.5]}, [1, 2.5, 1.0, 2, 3]),
    "enum_cut": ({**N, "enum": [1, 2.5, -3]}, [1.9, 1.0, 2.4, 2, -3.5, -4, 0.5, 2**70]),
    "enum_letters": ({**IOS, "enum": ["a", "bb", 98]}, ["a", "b", 97, 98, 99, 98.0, None]),
    "format_of_numbers": ({**KEEP, "format": "date"}, ANY),
    "nested_format": ({**IOS, "anyOf": [{"format": "ipv4"}, {"minLength": 30}]}, [1, "1.2.3.4", "x"]),
    "nested_enum_cut": ({**N, "not": {"enum": [2]}, "anyOf": [{"enum": [3, 4]}]}, [2.5, 3.5, 4, 2]),
    "enum_boolean": ({**B, "enum": [True]}, [True, False]),
    "enum_nullable": ({**S, "nullable": True, "enum": ["a", None]}, ["a", "b", None]),
    "enum_nullable_without": ({**S, "nullable": True, "enum": ["a"]}, ["a", None]),
    "enum_object": ({**obj(a=I), "enum": [{"a": 1}]}, [{"a": 1}, {"a": 2}, {}]),
    "enum_array": (arr(I, enum=[[1, 2]]), [[1, 2], [2, 1], []]),
    # -- objects and lists
    "required": ({**obj(a=S, b=S), "required": ["a"]}, [{}, {"a": "x"}, {"b": "x"}, {"a": None}, {"a": ""}]),
    "required_defaulted": ({**obj(a=DEFAULTED), "required": ["a"]}, [{}, {"a": None}, {"a": "x"}]),
    "required_undeclared": ({"type": "object", **KEEP, "required": ["z"]}, [{}, {"z": 1}, {"z": None}]),
    "min_properties": ({"type": "object", "minProperties": 2, **KEEP}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    "max_properties": ({"type": "object", "maxProperties": 1, **KEEP}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    "min_properties_defaulted": ({**obj(a=DEFAULTED, b=S), "minProperties": 2}, [{}, {"b": "x"}, {"a": "y"}]),
    "min_items": (arr(I, minItems=2), [[], [1], [1, 2], None]),
    "max_items": (arr(I, maxItems=1), [[], [1], [1, 2]]),
    "set": (lset(S), [["a", "b"], ["a", "a"], [None], ["a", 1], []]),
    "set_integers": (lset(I), [[1, 2], [1, 1], [1, 1.0], [1, True]]),
    "set_numbers": (lset(N), [[1, 1.5], [1.5, 1.5], [1, 1.0]]),
    "set_any": (lset(IOS), [[1, "1"], ["a", "a"], [1, 1]]),
    "atomic_duplicates": (arr(S, **{"x-kubernetes-list-type": "atomic"}), [["a", "a"], [None], ["a"]]),
    "map": (
        lmap({**obj(k=S, v=I), "required": ["k"]}, "k"),
        [
            *([{"k": "a"}, {"k": "b"}], [{"k": "a"}, {"k": "a"}], [{"v": 1}], [None], ["a"], [{"k": 1}], [{}]),
            *([{"k": None}], [{"k": "a", "z": 1}], [{"k": "a", "v": "x"}], [{"k": ""}, {"k": ""}], None, {}),
        ],
    ),
    "map_default_key": (
        lmap(obj(k=S, p=DEFAULTED, v=I) | {"required": ["k"]}, "k", "p"),
        [
            *([{"k": "a"}, {"k": "a", "p": "d"}], [{"k": "a"}, {"k": "a", "p": "e"}], [{"p": "d"}], [{"k": "a"}]),
            *([{"k": "a"}, {"k": "a"}], [{"k": "a", "p": None}], [{}], [{"k": "a", "p": "d"}, {"k": "b"}]),
        ],
    ),
    "map_integer_key": (lmap({**obj(k=I), "required": ["k"]}, "k"), [[{"k": 1}, {"k": 1.0}], [{"k": 1}, {"k": 2}]]),
    "map_type_atomic": ({**obj(a=I), "x-kubernetes-map-type": "atomic"}, [{"a": 1}, {"a": "x"}, {"z": 1}]),
    # -- unknown fields
    "keep": ({"type": "object", **KEEP}, ANY),
    "keep_untyped": (dict(KEEP), [*ANY, {"a": {"b": [1, {}]}}]),
    "keep_with_fields": ({**obj(a=obj(b=I)), **KEEP}, [{"a": {"b": 1, "c": 2}}, {"z": 1}, {"a": {"b": "x"}}, {"a": 1}]),
    "keep_above_closed": (
        {"type": "object", **KEEP, "properties": {"l": lmap({**obj(k=S), "required": ["k"]}, "k")}},
        [{"l": [{"k": "a", "z": 1}]}, {"l": [{"k": "a"}, {"k": "a"}]}, {"l": [{"z": 1}]}, {"z": [{"k": "a"}, 3]}],
    ),
    "keep_values": (
        {"type": "object", "additionalProperties": {**obj(a=I), **KEEP}},
        [{"k": {"z": 1}}, {"k": {"a": "x"}}],
    ),
    "closed_below_open": (obj(a={"type": "object"}), [{"a": {"z": 1}}, {"z": 1}]),
    "undeclared_deep": (obj(a=arr(obj(b=obj(c=I)))), [{"a": [{"b": {"d": 1}}]}, {"a": [{"b": {"c": 1}}]}, {"a": [{}]}]),
    # -- int or string
    "int_or_string": (IOS, ANY),
    "int_or_string_nullable": ({**IOS, "nullable": True}, ANY),
    "int_or_string_any_of": ({**IOS, "anyOf": [I, S]}, ANY),
    "int_or_string_all_of": ({**IOS, "allOf": [{"anyOf": [I, S]}, {"pattern": "^[0-9]+$"}]}, ["1", "a", 5, None]),
    "int_or_string_quantity": ({**IOS, "anyOf": [I, S], "pattern": r"^\d+(Mi|Gi)?$"}, [1, "1Gi", "x", 1.5, True]),
    "int_or_string_limits": ({**IOS, "minimum": 3, "maxLength": 2}, [2, 3, "abc", "ab", 3.0]),
    "int_or_string_enum": ({**IOS, "enum": [1, "a"]}, [1, "a", "1", 2, None]),
    # -- combined
    "one_of": (
        {**obj(a=S, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"b": "x"}, {"a": "x", "b": "x"}],
    ),
    "any_of": (
        {**obj(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"b": "x"}, {"a": "x", "b": "x"}],
    ),
    "all_of": ({**S, "allOf": [{"minLength": 2}, {"maxLength": 3}]}, ["a", "ab", "abc", "abcd"]),
    "not": ({**obj(a=S, b=S), "not": {"required": ["a", "b"]}}, [{}, {"a": "x"}, {"a": "x", "b": "x"}]),
    "not_enum": ({**S, "not": {"enum": ["bad"]}}, ["bad", "good"]),
    "nested_properties": (
        {
            **obj(a=obj(b=I)),
            "anyOf": [{"properties": {"a": {"properties": {"b": {"minimum": 3}}}}}, {"maxProperties": 0}],
        },
        [{}, {"a": {"b": 1}}, {"a": {"b": 3}}, {"a": {}}],
    ),
    "nested_items": (
        {**arr(I), "oneOf": [{"items": {"minimum": 3}}, {"items": {"maximum": 1}}]},
        [[], [1], [3], [2], [1, 3]],
    ),
    "nullable_any_of": (
        {**obj(a=S), "nullable": True, "anyOf": [{"required": ["a"]}], "not": {"maxProperties": 0}},
        [None, {}, {"a": "x"}],
    ),
    "nullable_not": (
        {**S, "nullable": True, "not": {"pattern": "x"}, "allOf": [{"enum": ["a"]}]},
        [None, "a", "x", "b"],
    ),
    "not_pattern": ({**S, "not": {"pattern": "^kube-"}}, ["kube-a", "a"]),
    # -- defaults
    "default": (obj(a=DEFAULTED), [{}, {"a": None}, {"a": "x"}, {"a": 1}]),
    "default_chain": (
        {**obj(a={**obj(b={**I, "default": 3}), "default": {}}), "required": ["a"]},
        [{}, {"a": {}}, {"a": {"b": None}}, {"a": None}],
    ),
    "default_nullable": (obj(a={**DEFAULTED, "nullable": True, "minLength": 1}), [{}, {"a": None}, {"a": ""}]),
    "default_satisfies": (
        {**obj(a=DEFAULTED, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"b": "x"}, {"a": "x"}],
    ),
    "default_values": ({"type": "object", "additionalProperties": DEFAULTED}, [{"k": None}, {"k": "x"}, {}]),
    "default_items": (
        arr({**obj(a={**I, "default": 1}), "required": ["a"]}),
        [[{}], [None], [{"a": None}], [{"a": 2}]],
    ),
    "default_item_itself": (arr({**S, "default": "x", "minLength": 1}), [[None], ["a"], [""]]),
    "null_without_default": (obj(a=S), [{"a": None}, {"a": "x"}]),
    "null_required": ({**obj(a={**S, "nullable": True}), "required": ["a"]}, [{"a": None}, {}]),
    # -- embedded resources
    "embedded": (
        {**EMBEDDED, **KEEP},
        [
            *({}, {"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v1", "kind": ""}, {"kind": "Pod"}),
            *(
                {"apiVersion": "a/b/c", "kind": "Pod"},
                {"apiVersion": "", "kind": "Pod"},
                {"apiVersion": 1, "kind": "Pod"},
            ),
            {"apiVersion": "v1", "kind": "9Pod"},
            {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Any Name"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "zzz": 1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "Bad_Ns"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"A/b": "c"}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"_/b": "c"}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": None},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
            {"apiVersion": None, "kind": "Pod"},
            None,
        ],
    ),
    "embedded_closed": (
        EMBEDDED | {"properties": {"spec": obj(a=I)}},
        [
            {"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}},
            {"apiVersion": "v1", "kind": "Pod", "spec": {"b": 1}},
            {"apiVersion": "v1", "kind": "Pod", "other": 1},
            {"spec": {"a": 1}},
        ],
    ),
    "embedded_in_list": (
        arr({**EMBEDDED, **KEEP}),
        [[{"apiVersion": "v1", "kind": "Pod"}], [{}], [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "."}}]],
    ),
}

FORMATS: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("formats.yaml").read_text("utf-8"))

ALL = CASES | {
    f"format_{name.replace('-', '_')}": ({**S, "format": name}, [*texts, None, 1, True, []])
    for name, texts in FORMATS.items()
}
UNCLEAR = {
    "format_email",
    "format_mac",
    "format_k8s_short_name",
    "format_k8s_long_name",
    "pattern_multiline",
    "pattern_boundary",
}
"""Where some values may be UNVERIFIED."""

KIND = definition(
    "Word", {"type": "object", "properties": {"spec": obj(**{name: case[0] for name, case in ALL.items()})}}
)


@pytest.fixture(scope="module")
def asking(shared_api: ApiServer) -> Iterator[Asking]:
    shared_api.create_crd_objects([KIND])
    with Asking(shared_api) as connection:
        yield connection


@pytest.mark.parametrize("name", ALL)
def test_every_word_is_judged_as_the_server_does(name: str, asking: Asking) -> None:
    kind, wrong, unclear = kind_of(KIND), [], 0
    assert len(kind.content) > 10_000
    for value in ALL[name][1]:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Word", "metadata": {"name": "w", "namespace": "default"}}
        body["spec"] = {name: value}
        unclear += kind.judge(body).verdict is Verdict.UNVERIFIED
        if said := disagreement(asking, f"/apis/{GROUP}/v1/namespaces/default/words", kind, body):
            wrong.append(said)
    assert not wrong, "\n".join(wrong)
    assert (unclear > 0) == (name in UNCLEAR)
