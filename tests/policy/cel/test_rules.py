"""Rules over objects without a server: what is unchecked, hostile definitions, the operators' definitions."""

import functools
import time

import pytest
import yaml

from gitops.policy.cel.rules import MOST_PROBLEMS, MOST_RULES, RuleTree
from gitops.policy.cel.structure import escape
from gitops.policy.cel.values import IllTypedError, parse_duration
from gitops.policy.verdicts import Problem

TEXT = {"type": "string"}
INT = {"type": "integer"}


def obj(*rules, **properties):
    entries = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {"type": "object", "properties": properties, "x-kubernetes-validations": entries}


def check(schema, new, old=None):
    """Over `spec` of an object: the problems' paths and messages, and what was not checked."""
    tree = RuleTree.of({"type": "object", "properties": {"spec": schema}})
    found = list(tree.check({"spec": new}, old and {"spec": old}))
    problems = [(problem.path[1:], problem.message) for problem in found if isinstance(problem, Problem)]
    return problems, [sentence for sentence in found if isinstance(sentence, str)]


def test_a_rule_that_does_not_compile_is_unchecked_by_name():
    problems, unchecked = check(obj("self.a.unheardOf()", "self.a == 'b'", a=TEXT), {"a": "a"})
    assert problems == [((), "failed rule: self.a == 'b'")]
    (sentence,) = unchecked
    assert "unheardOf" in sentence
    assert "spec" in sentence


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (obj("self.a > 1", a=INT), {"a": "text"}, "type of its schema"),
        (obj("self.a > 1", a=INT), {"a": 1.0}, "type of its schema"),
        (obj("self.a > 1", a=INT), {"a": 2**70}, "64 bits"),
        (obj("self.a == 'x'", a=TEXT), {"a": "a\0"}, "cannot hold"),
        (
            obj(
                "self.t.all(x, x > timestamp('2020-01-01T00:00:00Z'))",
                t={"type": "array", "items": {**TEXT, "format": "date-time"}},
            ),
            {"t": []},
            "points in time",
        ),
        (obj("self.a.find('(a+)+$') == ''", a=TEXT), {"a": "a" * 40 + "!"}, "pattern"),
        (
            obj("string(self.t) == ''", t={**TEXT, "format": "date-time"}),
            {"t": "2020-01-01T00:00:00Z"},
            "point in time",
        ),
    ],
)
def test_what_this_engine_cannot_tell_is_unchecked(schema, value, why):
    problems, unchecked = check(schema, value)
    assert problems == []
    (sentence,) = unchecked
    assert why in sentence


def test_only_what_rules_read_is_looked_at():
    """A value that the engine cannot hold does no harm where no rule reads it."""
    schema = obj(
        "self.a == 'x'",
        "!has(self.b.c) || self.b.c == 1",
        a=TEXT,
        b={"type": "object", "properties": {"c": INT, "d": TEXT}},
    )
    assert check(schema, {"a": "x", "b": {"d": "\0"}}) == ([], [])
    assert check(schema, {"a": "y", "b": {"c": 2, "d": "\0"}})[0] == [
        ((), "failed rule: self.a == 'x'"),
        ((), "failed rule: !has(self.b.c) || self.b.c == 1"),
    ]


def test_a_message_shows_no_value():
    problems, _ = check(
        obj(
            "self.m[self.key] == 1",
            "ip(self.key).family() == 4",
            key=TEXT,
            m={"type": "object", "additionalProperties": INT},
        ),
        {"key": "hunter2", "m": {}},
    )
    assert len(problems) == 2
    assert "hunter2" not in repr(problems)


@pytest.mark.parametrize(
    ("key", "message"),
    [("wrong", "no wrong"), ("AKIAABCDEFGHIJKLMNOP", "failed rule: false"), ("a://b:hunter2@c", "failed rule: false")],
)
def test_a_message_expression_shows_no_credential(key, message):
    schema = {**obj("false", key=TEXT)}
    schema["x-kubernetes-validations"] = [{"rule": "false", "messageExpression": "'no ' + self.key"}]
    assert check(schema, {"key": key}) == ([((), message)], [])


def test_rules_about_changes_wait_for_an_update():
    schema = obj("self.a == oldSelf.a", a=TEXT)
    assert check(schema, {"a": "x"}) == ([], [])
    assert check(schema, {"a": "x"}, {"a": "y"})[0] == [((), "failed rule: self.a == oldSelf.a")]


def test_a_tolerated_mistake_is_no_longer_tolerated_once_it_changes():
    schema = {
        "type": "object",
        "properties": {"bad": {**TEXT, "x-kubernetes-validations": [{"rule": "self == 'good'"}]}, "b": INT},
    }
    assert check(schema, {"bad": "x", "b": 1}, {"bad": "x", "b": 2}) == ([], [])
    assert check(schema, {"bad": "y"}, {"bad": "x"})[0] == [(("bad",), "failed rule: self == 'good'")]


# -- hostile definitions -----------------------------------------------------------------------------------------------

LIST = {"type": "array", "items": INT}

HOSTILE = {
    "loops": (obj("self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))", l=LIST), {"l": list(range(3000))}),
    "maps": (obj("self.l.map(a, self.l.map(b, b)).size() > 0", l=LIST), {"l": list(range(3000))}),
    "doubling texts": (obj("[self.s]" + ".map(x, x + x)" * 15 + ".size() == 1", s=TEXT), {"s": "a" * 10_000}),
    "doubling lists": (obj("[self.l]" + ".map(x, [x, x])" * 14 + " == [1]", l=LIST), {"l": [1]}),
    "replace": (obj("self.s" + ".replace('a', self.s)" * 5 + " == ''", s=TEXT), {"s": "a" * 10_000}),
    "join": (
        obj("self.l.map(x, self.s).join(self.s) == ''", l=LIST, s=TEXT),
        {"l": list(range(5000)), "s": "a" * 50_000},
    ),
    "format": (
        obj("self.l.map(x, '%s%s'.format([self.s, self.s])).size() == 1", l=LIST, s=TEXT),
        {"l": list(range(9000)), "s": "a" * 50_000},
    ),
    "regex": (obj("self.s.matches('(a+)+(a+)+(a+)+$')", s=TEXT), {"s": "a" * 100_000 + "!"}),
    "search in loops": (
        obj("self.l.all(x, self.s.find('(a*)(a*)b') == '')", l=LIST, s=TEXT),
        {"l": list(range(5000)), "s": "a" * 40},
    ),
    "index in loops": (obj("self.l.all(x, self.l.indexOf(x) >= 0)", l=LIST), {"l": list(range(10_000))}),
    "sets in loops": (obj("self.l.all(x, sets.contains(self.l, [x]))", l=LIST), {"l": list(range(9000))}),
    "two variables": (obj("self.l.all(i, x, self.l.all(j, y, x + y >= 0))", l=LIST), {"l": list(range(3000))}),
    "deep macros": (obj("self.l.all(x, " * 1100 + "true" + ")" * 1100, l=LIST), {"l": []}),
    "deep calls": (obj("self.s.join(" * 1200 + "true" + ")" * 1200, s=TEXT), {"s": ""}),
    "quotes": (obj('"""\'\'\'"' * 2000, s=TEXT), {"s": ""}),
    "open quotes": (obj("'\n" * 5000 + "r'\\" * 1000, s=TEXT), {"s": ""}),
    "a long version": (obj("isSemver(self.s)", s=TEXT), {"s": "1.2.3-" + "1" * 100_000 + "!"}),
    "a long label": (obj("!format.qualifiedName().validate(self.s).hasValue()", s=TEXT), {"s": "a-" * 100_000}),
    "deep text": (obj("(" * 5000 + "true" + ")" * 5000, s=TEXT), {"s": ""}),
    "long text": (obj("true && " * 5000 + "true", s=TEXT), {"s": ""}),
    "garbage": (obj(*("'" * n + "\\" * n + "[?" * n + "self.?" for n in range(1, 60)), s=TEXT), {"s": ""}),
    "many rules": (
        obj(*(f"self.l.all(a, self.l.all(b, a + b != {n}))" for n in range(1900)), l=LIST),
        {"l": list(range(100))},
    ),
    "too many rules": (obj(*("true" for _ in range(MOST_RULES + 1)), s=TEXT), {"s": ""}),
    "deep schema": (
        functools.reduce(lambda s, _: {"type": "object", "properties": {"a": s}}, range(400), obj("true")),
        {},
    ),
    "deep lists": (functools.reduce(lambda s, _: {"type": "array", "items": s}, range(400), obj("true")), []),
    "properties": ({"type": "object", "properties": [1]}, {}),
    "property": ({"type": "object", "properties": {"a": 1}}, {}),
    "type": ({"type": ["object"]}, {}),
    "format of a text": ({"type": "string", "format": {}}, ""),
    "items": ({"type": "array", "items": [1]}, []),
    "keys": ({"type": "array", "items": obj(), "x-kubernetes-list-map-keys": [[]]}, []),
    "rules": ({"type": "object", "x-kubernetes-validations": {"a": 1}}, {}),
    "no rules": (
        {
            "type": "object",
            "x-kubernetes-validations": [{}, {"rule": None}, {"rule": ""}, {"rule": 5, "message": 1, "fieldPath": []}],
        },
        {},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_definition_ends_soon_and_passes_nothing_silently(name):
    schema, value = HOSTILE[name]
    start = time.process_time()
    problems, unchecked = check(schema, value)
    assert time.process_time() - start < 30  # of this process only, so that a busy machine makes no difference
    assert problems or unchecked


def test_problems_are_bounded():
    item = {"type": "object", "properties": {"a": {**INT, "x-kubernetes-validations": [{"rule": "self < 0"}]}}}
    problems, _ = check(
        {"type": "object", "properties": {"l": {"type": "array", "items": item}}}, {"l": [{"a": 1}] * 1000}
    )
    assert len(problems) == MOST_PROBLEMS


# -- the operators' definitions ----------------------------------------------------------------------------------------


def test_every_rule_of_the_operators_definitions_compiles(shared):
    count = 0
    for file in sorted(shared.glob("upstream/*/crds*/**/*.yaml")):
        for body in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            for version in body["spec"]["versions"] if body and body.get("kind") == "CustomResourceDefinition" else ():
                tree = RuleTree.of(version["schema"]["openAPIV3Schema"])
                count += tree.count
                assert list(tree.problems()) == [], file
    print(f"{count} rules")
    assert count > 100


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a", "a"),
        ("namespace", "__namespace__"),
        ("a.b/c-d", "a__dot__b__slash__c__dash__d"),
        ("x__y", "x__underscores__y"),
        ("a_b", "a_b"),
        ("1a", None),
        ("a b", None),
        ("", None),
        ("é", None),
    ],
)
def test_names_of_fields(name, escaped):
    assert escape(name) == escaped


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("-1.5s", -1.5),
        ("0", 0),
        ("100ms", 0.1),
        ("2 days", 172800),
        ("1 week", 604800),
        ("3hours", 10800),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["", "x", "1", "1 fortnight", "1h" * 500])
def test_what_is_no_duration(text):
    with pytest.raises(IllTypedError):
        parse_duration(text)
