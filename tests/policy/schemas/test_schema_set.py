"""Schemas as values: sources, the published copy, what wins, what is said without a server at hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_kit.random_schemas import Schemas
from schema_kit.server import GROUP, definition, kind_of

from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.patterns import ecma_pattern
from gitops.policy.schemas.published import files_of, schemas_of_files
from gitops.policy.schemas.reading import read_schema
from gitops.policy.schemas.schema_set import NO_SCHEMAS, SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Problem, Verdict

V, U, X = Verdict.VALID, Verdict.UNVERIFIED, Verdict.INVALID
TEXT = {"type": "string"}
KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def judged(schema: dict[str, Any], value: Any, **more: Any) -> Any:
    crd = definition("Thing", {"type": "object", "properties": {"spec": schema}}, **more)
    return kind_of(crd).judge({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": value})


@pytest.mark.parametrize(
    ("schema", "value", "path", "message"),
    [
        (TEXT, 1, (), "expected string, got integer"),
        ({"type": "object", "properties": {"a": TEXT}}, {"b": 1}, ("b",), "field not declared in schema"),
        ({**TEXT, "enum": ["x", "y"]}, "secret", (), 'Unsupported value: supported values: "x", "y"'),
        ({**TEXT, "pattern": r"^\d+$"}, "secret", (), r"should match '^\d+$'"),
        ({**TEXT, "format": "date"}, "secret", (), "must be of format date"),
        ({**TEXT, "maxLength": 3}, "secret", (), "Too long: may not be more than 3 characters"),
        ({"type": "integer", "minimum": 3}, 1, (), "should be greater than or equal to 3"),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 3, (), "should be greater than 3"),
        ({"type": "object", "required": ["a"], **KEEP}, {}, ("a",), "Required value"),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], (), "Too many: must have at most 1 items"),
        ({"type": "object", "minProperties": 1, **KEEP}, {}, (), "should have at least 1 properties"),
        ({**TEXT, "not": {"enum": ["secret"]}}, "secret", (), "must not validate the schema (not)"),
    ],
)
def test_messages_have_the_servers_words_and_no_value(
    schema: dict[str, Any], value: Any, path: tuple[str, ...], message: str
) -> None:
    (problem,) = judged(schema, value).problems
    assert (problem.path, problem.message) == (("spec", *path), message)
    assert "secret" not in message


def test_every_served_version_has_a_schema_and_others_have_none() -> None:
    crd = definition("Thing", {"type": "object", "properties": {"spec": TEXT}})
    version = crd["spec"]["versions"][0]
    crd["spec"]["versions"] += [{**version, "name": "v2"}, {**version, "name": "v3", "served": False}]
    found = schemas_of_definitions([crd])
    assert {gvk.version for gvk in found.kinds} == {"v1", "v2"}
    kind = found.get(GroupVersionKind(GROUP, "v2", "Thing"))
    assert kind is not None
    assert (kind.builtin, kind.namespaced, kind.subresources) == (False, True, ())
    assert found.get(GroupVersionKind(GROUP, "v3", "Thing")) is None


def test_later_schemas_win_and_digests_follow_the_content() -> None:
    loose, strict = (
        schemas_of_definitions([definition("Thing", schema)]) for schema in ({"type": "object", **KEEP}, TEXT)
    )
    other = schemas_of_definitions([definition("Other", {"type": "object"})])
    both = loose.overlaid(other)
    assert len(both.kinds) == 2
    assert both.digest == other.overlaid(loose).digest != loose.digest
    assert loose.overlaid(strict).digest == strict.digest != loose.digest
    assert loose.overlaid(NO_SCHEMAS) is loose
    assert SchemaSet.of([]) is NO_SCHEMAS


def test_descriptions_change_nothing() -> None:
    plain = {"type": "object", "properties": {"description": TEXT, "title": TEXT}}
    told = {**plain, "description": "long", "properties": {**plain["properties"], "title": {**TEXT, "example": "x"}}}
    first, second = (schemas_of_definitions([definition("Thing", schema)]) for schema in (plain, told))
    assert first.digest == second.digest
    assert b"description" in files_of(first)[f"{GROUP}/v1/Thing.json"]  # a field of that name stays


def test_files_are_read_back_byte_for_byte() -> None:
    crds = [definition(f"Random{seed}", Schemas(seed).schema()) for seed in range(20)]
    schemas = schemas_of_definitions(crds)
    files = files_of(schemas)
    assert files == files_of(schemas_of_files(files))
    assert schemas_of_files(dict(reversed(files.items()))).digest == schemas.digest
    assert len(files) == 20


@pytest.mark.parametrize("name", ["x.json", "../v1/Pod.json", "core/v1/pod.json", "core/v1/Pod.yaml", "a/b/c/D.json"])
def test_files_of_other_names_are_passed_over(name: str) -> None:
    assert schemas_of_files({name: b"{}"}) is NO_SCHEMAS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"schema": 1}',
        b'{"schema": {"type": 1}}',
        b'{"builtin": "x"}',
        b"[" * 9999,
    ],
)
def test_a_file_that_cannot_be_read_judges_nothing(content: bytes) -> None:
    (kind,) = schemas_of_files({"example.com/v1/Thing.json": content}).kinds.values()
    judgement = kind.judge({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}})
    assert judgement.verdict is U
    assert "cannot be used" in judgement.unchecked[0]


WORDS = st.sampled_from(
    [
        *("type", "properties", "items", "allOf", "not", "enum", "default", "pattern", "minimum", "required", "format"),
        *("additionalProperties", "nullable", "$ref", "x-kubernetes-list-type", "x-kubernetes-validations", "a"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(schema=JSON, value=JSON)
def test_no_schema_and_no_object_raises(schema: Any, value: Any) -> None:
    kind = kind_of(definition("Thing", {"type": "object", "properties": {"spec": schema}}))
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": value}
    assert kind.judge(body).verdict in Verdict
    assert kind.judge(body, body).verdict in Verdict
    assert kind.judge({"metadata": value, "spec": value}).verdict is not V


def deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made}}
    return made


def doubled(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made, "b": made}}
    return made


def choices(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"minLength": 1}
    for _ in range(levels):
        made = {"anyOf": [made, made]}
    return {**TEXT, **made}


@pytest.mark.parametrize(
    "schema",
    [
        *(deep(2000), doubled(40), choices(20), {"$ref": "#/definitions/x"}, {**TEXT, "pattern": "x" * 100_000}),
        *(
            {"type": "object", "patternProperties": {}},
            {"type": ["string", "null"]},
            {"type": "object", "required": [1]},
            1,
        ),
    ],
)
def test_a_schema_beyond_all_measure_judges_nothing(schema: Any) -> None:
    judgement = judged(schema, {})
    assert judgement.verdict is U
    assert "cannot be used" in judgement.unchecked[0]


@pytest.mark.parametrize(
    "value", ["\ud800", float("nan"), float("inf"), 10**400, b"x", {1: 2}, {"\ud800": 1}, object()]
)
def test_what_json_cannot_carry_is_not_judged(value: Any) -> None:
    assert judged({"type": "object", **KEEP}, {"a": value}).verdict is U


def test_an_object_may_be_deep_but_not_without_end() -> None:
    value: Any = {}
    for _ in range(500):
        value = {"a": [value]}
    assert judged({"type": "object", **KEEP}, value).verdict is U


def test_problems_and_messages_are_bounded() -> None:
    many = {f"k{at}": "long" for at in range(5000)}
    judgement = judged(
        {"type": "object", "additionalProperties": {**TEXT, "maxLength": 1, "pattern": "x" * 9999}}, many
    )
    assert 0 < len(judgement.problems) <= 100
    assert max(len(problem.message) for problem in judgement.problems) < 1000


@pytest.mark.parametrize("alternatives", [False, True])
@pytest.mark.parametrize(
    "word",
    [{"enum": ["x", *(f"option{at}" for at in range(5000))]}, {"pattern": "x|" * 4999 + "x"}],
    ids=["enum", "pattern"],
)
def test_errors_that_would_fill_the_memory_are_not_made(word: Any, alternatives: bool) -> None:
    """Each of them repeats all options: 20,000 wrong values took gigabytes."""
    items = {**TEXT, "anyOf": [word, {"maxLength": 0}]} if alternatives else {**TEXT, **word}
    schema = {"type": "array", "items": items}
    judgement = judged(schema, ["wrong"] * 20_000)
    sentence = "the object does not fit its schema, and is too large to say where"
    assert (judgement.verdict, judgement.unchecked) == (U, (sentence,))
    assert judged(schema, ["x"] * 20_000).verdict is V
    assert judged(schema, ["wrong"] * 10).verdict is X


def test_tolerated_problems_hide_no_other() -> None:
    short = {"type": "object", "additionalProperties": {**TEXT, "maxLength": 3}}
    crd = definition("Thing", {"type": "object", "properties": {"spec": short}})
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}}
    live = {**head, "spec": {f"k{at:03}": "long" for at in range(300)}}
    new = {**head, "spec": {**live["spec"], "k999": "longer"}}
    assert kind_of(crd).judge(live, live).verdict is V
    assert [p.path for p in kind_of(crd).judge(new, live).problems] == [("spec", "k999")]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({**TEXT, "pattern": "(?m)^a$"}, "a", 1),
        ({**TEXT, "pattern": r"\ba"}, "a", 1),
        ({**TEXT, "anyOf": [{"pattern": r"\ba"}, {"maxLength": 0}]}, "a", 1),
        ({**TEXT, "not": {"allOf": [{"pattern": r"\ba"}]}}, "x", 1),
        ({**TEXT, "format": "email"}, "Name <a@b>", "nobody"),
        ({**TEXT, "format": "k8s-short-name"}, "Not_A_Name", 1),
    ],
)
def test_what_cannot_be_evaluated_is_never_passed(schema: dict[str, Any], good: Any, bad: Any) -> None:
    judgement = judged(schema, good)
    assert judgement.verdict is U
    assert judgement.unchecked
    assert judged(schema, bad).verdict is X


def test_patterns_of_exponential_cost_are_none() -> None:
    assert judged({**TEXT, "pattern": "^(a+)+$"}, "a" * 50_000 + "b").verdict is X
    assert judged({**TEXT, "pattern": "^(a|aa)+$"}, "a" * 50_000).verdict is V


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", r"\1", "a**", "*a", "a{1001}", "(", ")", "[", "[b-a]", r"\y", "(?x)a", "a\\"]
)
def test_what_go_does_not_take_has_no_translation(pattern: str) -> None:
    assert ecma_pattern(pattern) is None


@given(pattern=st.text(alphabet="ab[]^-\\dwpL{}(),|*+?.$:iQEA1", max_size=12))
def test_translating_never_raises(pattern: str) -> None:
    translated = ecma_pattern(pattern)
    assert translated is None or isinstance(translated, str)


@given(seed=st.integers(0, 10_000))
def test_reading_again_changes_nothing(seed: int) -> None:
    once = read_schema(Schemas(seed).schema())
    assert read_schema(once) == once


def test_the_object_that_is_judged_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {**TEXT, "default": "x"}, "b": {"type": "number"}}}
    crd = definition("Thing", {"type": "object", "properties": {"spec": schema}}, subresources={"status": {}})
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"b": 1.0}, "status": {}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object"}
    before = repr(body)
    assert kind_of(crd).judge(body, body).verdict is V
    assert repr(body) == before


def test_another_kind_or_version_is_refused() -> None:
    kind = kind_of(definition("Thing", {"type": "object"}))
    judgement = kind.judge({"apiVersion": f"{GROUP}/v2", "kind": "Think", "metadata": {"name": "x"}})
    assert judgement.problems[:2] == (
        Problem(("apiVersion",), f"must be {GROUP}/v1", "type"),
        Problem(("kind",), "must be Thing", "type"),
    )


def test_kinds_that_keep_unknown_fields_everywhere_are_not_judged() -> None:
    crd = definition("Thing", {"type": "object"})
    crd["spec"]["preserveUnknownFields"] = True
    assert kind_of(crd).judge({}).verdict is U
    assert isinstance(kind_of(crd), KindSchema)
