"""Our verdict on rules is the server's: one definition, whose rules cover typing, transitions, messages and ratcheting.

Old objects are made while the definition has no rules, so that some of them break rules; everything else is a dry run.
"""

import copy
import json
import random
import re

import pytest
from controlplane_kit.client import ApiFailure, ApiServer

from gitops.policy.cel.rules import RuleTree
from gitops.policy.verdicts import Problem

GROUP = "cel.example.com"
TEXT = {"type": "string", "maxLength": 60}
MOMENT = {"type": "string", "format": "date-time"}
INT = {"type": "integer"}


def ruled(schema, *rules):
    return {**schema, "x-kubernetes-validations": [{"rule": r} if isinstance(r, str) else r for r in rules]}


def obj(**properties):
    return {"type": "object", "properties": properties}


def texts(kind=None, most=8):
    listed = {"type": "array", "maxItems": most, "items": TEXT}
    return {**listed, "x-kubernetes-list-type": kind} if kind else listed


def keyed(items, *keys):
    named = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return {"type": "array", "maxItems": 8, "items": items, **named}


ENTRY = {**obj(name=TEXT, size=INT), "required": ["name"]}
NO_SHRINKING = {"rule": "self.size >= oldSelf.size", "message": "no shrinking"}

FIELDS = {
    "escaped": ruled(
        obj(**{"namespace": TEXT, "a-b": TEXT, "a.b": TEXT, "x__y": TEXT, "a/b": TEXT, "if": TEXT, "1a": TEXT}),
        "!has(self.__namespace__) || self.__namespace__ == 'ok'",
        "!has(self.a__dash__b) || self.a__dash__b == 'ok'",
        "!has(self.a__dot__b) || self.a__dot__b == 'ok'",
        "!has(self.x__underscores__y) || self.x__underscores__y == 'ok'",
        "!has(self.a__slash__b) || self.a__slash__b == 'ok'",
        "!has(self.__if__) || self.__if__ == 'ok'",
    ),
    "typed": ruled(
        obj(
            number={"type": "number"},
            integer=INT,
            either={"x-kubernetes-int-or-string": True, "maxLength": 20},
            moment=MOMENT,
            day={"type": "string", "format": "date"},
            length={"type": "string", "format": "duration"},
            raw={"type": "string", "format": "byte", "maxLength": 20},
            none={**TEXT, "nullable": True},
            flag={"type": "boolean"},
        ),
        "!has(self.number) || self.number < 2.5",
        "!has(self.number) || type(self.number) == double",
        "!has(self.integer) || self.integer / 2 == 2",
        "!has(self.either) || type(self.either) == int || self.either.endsWith('%')",
        "!has(self.moment) || self.moment > timestamp('2020-01-01T00:00:00Z')",
        "!has(self.moment) || self.moment.getFullYear() < 2030",
        "!has(self.day) || self.day.getMonth() == 1",
        "!has(self.length) || self.length <= duration('1h')",
        "!has(self.raw) || self.raw == b'hello'",
        "!has(self.none) || self.none == 'x'",
        "!has(self.flag) || self.flag",
    ),
    "moment": ruled(MOMENT, "self > timestamp('2020-01-01T00:00:00Z')"),
    "set": ruled(texts("set"), "self == oldSelf"),
    "atomic": ruled(texts("atomic"), "self == oldSelf"),
    "keyed": ruled(
        keyed(ruled(ENTRY, NO_SHRINKING), "name"),
        {"rule": "oldSelf.all(o, self.exists(n, n.name == o.name))", "message": "nothing may go"},
    ),
    "keyedsame": ruled(keyed(ENTRY, "name"), "self == oldSelf"),
    "counts": {**obj(), "additionalProperties": ruled(INT, "self >= oldSelf", "self < 10"), "maxProperties": 5},
    "labels": ruled(
        {"type": "object", "maxProperties": 5, "additionalProperties": TEXT},
        "self.all(k, k.startsWith('x'))",
        "!('xa.b/c' in self) || self['xa.b/c'] == 'ok'",
        "self.size() < 3",
    ),
    "first": ruled(
        TEXT,
        {"rule": "oldSelf.hasValue() || self == 'first'", "optionalOldSelf": True, "message": "begin with first"},
        {"rule": "oldSelf.orValue('next') != self || self == 'first'", "optionalOldSelf": True, "message": "no next"},
        {"rule": "oldSelf.optMap(o, o != 'fixed' || self == o).orValue(true)", "optionalOldSelf": True},
    ),
    "mode": ruled(TEXT, {"rule": "self == oldSelf", "message": "immutable"}),
    "said": ruled(
        obj(count=INT, word=TEXT),
        {
            "rule": "!has(self.count) || self.count < 5",
            "messageExpression": "'got ' + (self.count > 10 ? 'many' : 'few')",
        },
        {"rule": "!has(self.count) || self.count < 6", "messageExpression": "' padded '", "message": "unused"},
        {"rule": "!has(self.count) || self.count < 7", "messageExpression": "self.word", "message": "fallback"},
        {"rule": "!has(self.count) || self.count < 8", "messageExpression": "'a\\nb'", "message": " two lines "},
        {"rule": "!has(self.count) || self.count < 9", "messageExpression": "''"},
    ),
    "placed": ruled(
        obj(a=obj(b=INT), keyed={"type": "object", "additionalProperties": TEXT, "maxProperties": 3}),
        {"rule": "!has(self.a) || self.a.b != 1", "fieldPath": ".a.b", "message": "one"},
        {
            "rule": "!has(self.a) || self.a.b != 2",
            "fieldPath": ".a.b",
            "reason": "FieldValueForbidden",
            "message": "two",
        },
        {"rule": "!has(self.a) || self.a.b != 3", "fieldPath": ".keyed['x.y']", "message": "three"},
        {"rule": "!has(self.a) || self.a.b != 4", "reason": "FieldValueRequired", "message": "four"},
    ),
    "failing": ruled(
        obj(
            key={**obj(absent=INT, ratio=obj(deep=INT))},
            list={"type": "array", "maxItems": 5, "items": INT},
            zero=INT,
            either={"x-kubernetes-int-or-string": True, "maxLength": 20},
        ),
        {"rule": "!has(self.key) || self.key.absent == 1", "message": "key"},
        {"rule": "!has(self.key) || self.key.ratio.deep == 1 || true"},
        {"rule": "!has(self.list) || self.list[3] == 1", "message": "index"},
        {"rule": "!has(self.zero) || 1 / self.zero == 1", "message": "division"},
        {"rule": "!has(self.zero) || 9223372036854775807 + self.zero > 0", "message": "overflow"},
        {"rule": "!has(self.either) || self.either < 3", "message": "overload"},
    ),
    "old": ruled(
        obj(
            bad=ruled(TEXT, {"rule": "self == 'good'", "message": "not good"}),
            other=TEXT,
            inner=ruled(obj(x=INT, y=INT), {"rule": "self.x > 0", "message": "x must be positive"}),
            items=keyed(ruled(ENTRY, {"rule": "self.size > 0", "message": "no size"}), "name"),
            plain={
                "type": "array",
                "maxItems": 4,
                "items": ruled(INT, {"rule": "self > 0", "message": "not positive"}),
            },
            broken=ruled(INT, {"rule": "1 / self == 1", "message": "broken"}),
        ),
    ),
    "open": ruled({**obj(known=INT), "x-kubernetes-preserve-unknown-fields": True}, "self == oldSelf"),
    "embedded": {
        **ruled(obj(), "self.metadata.name.startsWith('x')", "self.kind == 'Pod' && self.apiVersion == 'v1'"),
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "nested": ruled(
        obj(inner=ruled(obj(leaf=ruled(INT, {"rule": "self > 2", "message": "leaf"})), "has(self.leaf)")),
        {"rule": "self.inner.leaf > 3", "message": "outer"},
    ),
    "library": ruled(
        obj(
            quantity={"x-kubernetes-int-or-string": True, "maxLength": 20},
            url=TEXT,
            ip=TEXT,
            name=TEXT,
            version=TEXT,
            numbers={"type": "array", "maxItems": 5, "items": INT},
            words=texts(),
            pairs={"type": "object", "maxProperties": 4, "additionalProperties": INT},
        ),
        "!has(self.quantity) || quantity(self.quantity).isGreaterThan(quantity('1Gi'))",
        "!has(self.url) || (isURL(self.url) && url(self.url).getScheme() == 'https')",
        "!has(self.ip) || ip(self.ip).family() == 4",
        {
            "rule": "!has(self.name) || !format.dns1123Label().validate(self.name).hasValue()",
            "message": "no label",
        },
        "!has(self.version) || semver(self.version).major() > 1",
        "!has(self.numbers) || (self.numbers.isSorted() && self.numbers.sum() < 10)",
        "!has(self.words) || self.words.map(w, w.find('[0-9]+')).all(n, n == '' || int(n) < 5)",
        "!has(self.words) || sets.contains(['a', 'b', 'c1', 'c9'], self.words)",
        "!has(self.pairs) || self.pairs.all(k, v, k.size() == v)",
        "!has(self.words) || self.words.all(i, w, i < 3)",
        "!has(self.words) || self.words.transformList(i, w, i > 0, w) != ['b']",
    ),
}

ROOT_RULES = (
    "!has(self.spec.root) || self.metadata.name.startsWith('root')",
    {"rule": "!has(self.spec.root) || self.kind == 'Probe' && self.apiVersion == 'cel.example.com/v1'"},
    {"rule": "!has(self.spec.root) || self.spec.root == oldSelf.spec.root", "message": "root is immutable"},
)

CREATED = {
    "escaped": [
        {"namespace": "ok", "a-b": "ok", "a.b": "ok", "x__y": "ok", "a/b": "ok", "if": "ok", "1a": "any"},
        {"namespace": "no", "a-b": "no", "a.b": "no", "x__y": "no", "a/b": "no", "if": "no"},
    ],
    "typed": [
        {"number": 1, "integer": 5, "either": "5%", "moment": "2021-01-01T00:00:00Z", "day": "2021-02-01"},
        {"number": 3, "integer": 7, "either": "5", "moment": "2019-12-31T23:59:59.999999999Z", "day": "2021-03-01"},
        {"number": 1.5, "either": 5, "moment": "2031-01-01T00:30:00+02:00"},
        {"moment": "2020-01-01T01:00:00+01:00"},
        {"length": "1h", "raw": "aGVsbG8=", "none": "x", "flag": True},
        {"length": "61m", "raw": "aGVsbG9v", "none": "y", "flag": False},
        {"length": "2 days"},
        {"none": None},
    ],
    "moment": ["2021-01-01T00:00:00Z", "2019-01-01T00:00:00Z"],
    "set": [["a", "b"]],
    "keyed": [[{"name": "a", "size": 1}]],
    "counts": [{"a": 1}, {"a": 11, "b": 12}],
    "labels": [{"x": "a"}, {"y": "a"}, {"x": "", "xa": "", "xb": ""}, {"xa.b/c": "ok"}, {"xa.b/c": "no"}],
    "first": ["first", "other", "next"],
    "mode": ["a"],
    "said": [{"count": 4}, {"count": 20}, {"count": 20, "word": "from word"}],
    "placed": [{"a": {"b": 0}}, {"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"b": 3}}, {"a": {"b": 4}}],
    "failing": [
        {},
        {"key": {}},
        {"key": {"absent": 1}},
        {"list": [1]},
        {"zero": 0},
        {"zero": 1},
        {"either": "x"},
        {"either": 4},
        {"either": 1},
    ],
    "old": [
        {"bad": "good", "inner": {"x": 1}},
        {"bad": "worse", "inner": {"x": 0}, "items": [{"name": "a", "size": 0}], "plain": [0]},
        {"broken": 0},
    ],
    "open": [{"known": 1, "more": {"a": 1}}],
    "embedded": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x1", "labels": {"a": "b"}}},
        {"apiVersion": "v1", "kind": "Podd", "metadata": {"name": "y1"}},
    ],
    "nested": [{"inner": {"leaf": 4}}, {"inner": {"leaf": 1}}, {"inner": {}}],
    "library": [
        {"quantity": "2Gi", "url": "https://a", "ip": "10.0.0.1", "name": "ok", "version": "2.0.0"},
        {"quantity": "1Gi", "url": "http://a", "ip": "::1", "name": "Not", "version": "1.0.0"},
        {"quantity": 5, "url": "a b"},
        {"ip": "1", "name": "a.b", "version": "v2"},
        {"quantity": "x"},
        {"numbers": [1, 2, 3], "words": ["a", "c1"], "pairs": {"a": 1, "bb": 2}},
        {"numbers": [3, 2], "words": ["c9", "d"], "pairs": {"a": 2}},
        {"numbers": [5, 6], "words": ["a", "b"]},
        {"words": ["a", "b", "a", "b"]},
        {"numbers": [], "words": [], "pairs": {}},
    ],
    "root": ["a"],
}

UPDATED = {
    "set": [(["a", "b"], ["b", "a"]), (["a", "b"], ["a", "c"]), (["a"], ["a", "b"])],
    "atomic": [(["a", "b"], ["b", "a"]), (["a"], ["a"])],
    "keyed": [
        ([{"name": "a", "size": 2}, {"name": "b", "size": 2}], [{"name": "b", "size": 3}, {"name": "a", "size": 2}]),
        ([{"name": "a", "size": 2}], [{"name": "b", "size": 1}, {"name": "a", "size": 1}]),
        ([{"name": "a", "size": 2}], [{"name": "c", "size": 1}]),
        ([{"name": "a"}], [{"name": "a", "size": 1}]),
    ],
    "keyedsame": [
        ([{"name": "a", "size": 1}, {"name": "b"}], [{"name": "b"}, {"name": "a", "size": 1}]),
        ([{"name": "a", "size": 1}], [{"name": "a", "size": 2}]),
    ],
    "counts": [({"a": 1, "b": 20}, {"a": 1, "b": 20}), ({"a": 2}, {"a": 1, "c": 1}), ({"b": 20}, {"b": 21})],
    "first": [("first", "other"), ("fixed", "other"), ("fixed", "fixed"), ("a", "next"), ("next", "next")],
    "mode": [("a", "a"), ("a", "b")],
    "old": [
        ({"bad": "x", "other": "a"}, {"bad": "x", "other": "b"}),
        ({"bad": "x"}, {"bad": "y"}),
        ({"inner": {"x": 0, "y": 1}}, {"inner": {"x": 0, "y": 1}, "other": "a"}),
        ({"inner": {"x": 0, "y": 1}}, {"inner": {"x": 0, "y": 2}}),
        (
            {"items": [{"name": "a", "size": 0}, {"name": "b", "size": 1}]},
            {"items": [{"name": "b", "size": 2}, {"name": "a", "size": 0}]},
        ),
        ({"items": [{"name": "a", "size": 0}]}, {"items": [{"name": "a", "size": -1}, {"name": "b", "size": 0}]}),
        ({"plain": [0, 1]}, {"plain": [0, 1], "other": "x"}),
        ({"plain": [0, 1]}, {"plain": [0, 2]}),
        ({"broken": 0}, {"broken": 0, "other": "x"}),
    ],
    "open": [
        ({"known": 1, "more": {"a": 1}}, {"known": 1, "more": {"a": 1}}),
        ({"known": 1, "more": {"a": 1}}, {"known": 1, "more": {"a": 2}}),
        ({"known": 1}, {"known": 1, "more": 1}),
    ],
    "nested": [({"inner": {"leaf": 1}}, {"inner": {"leaf": 1}}), ({"inner": {"leaf": 1}}, {"inner": {"leaf": 2}})],
    "typed": [({"number": 3}, {"number": 3}), ({"number": 3}, {"number": 4})],
    "root": [("a", "a"), ("a", "b")],
}


def schema_of():
    spec = obj(root=TEXT, **FIELDS)
    return ruled({**obj(spec=spec, metadata={"type": "object"})}, *ROOT_RULES)


def without_rules(schema):
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key != "x-kubernetes-validations"}
    return [without_rules(value) for value in schema] if isinstance(schema, list) else schema


def definition(schema, plural="probes", kind="Probe"):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


URL = f"/apis/{GROUP}/v1/probes"


def probe(name, field, value):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Probe",
        "metadata": {"name": name},
        "spec": {field: copy.deepcopy(value)},
    }


@pytest.fixture(scope="module")
def live(shared_api: ApiServer):
    """The server with the definition, and the old objects by field and number."""
    shared_api.create_crd_objects([definition(without_rules(schema_of()))])
    olds = {}
    for field, pairs in UPDATED.items():
        for number, (old, _) in enumerate(pairs):
            olds[field, number] = shared_api.request("POST", URL, probe(f"{field}-{number}", field, old))
    shared_api.create_crd_objects([definition(schema_of())])
    shared_api.wait(
        lambda: said(lambda: shared_api.request("POST", URL, probe("w", "moment", "2000-01-01T00:00:00Z"), query=DRY)),
        "rules",
    )
    return shared_api, olds


DRY = {"dryRun": "All"}
_DETAIL = re.compile(
    r'^(?:Invalid value|Forbidden|Required value|Duplicate value)(?:: (?:"[a-z]*"|null))?: ', re.DOTALL
)


def said(call) -> set[tuple[str, ...]]:
    """What the server refuses: (path, message) pairs."""
    failure = failure_of(call)
    if failure is None:
        return set()
    causes = json.loads(failure.body)["details"]["causes"]
    return {(segments(cause["field"]), plain(cause["message"])) for cause in causes}


def failure_of(call) -> ApiFailure | None:
    try:
        call()
    except ApiFailure as failure:
        return failure
    return None


def plain(message: str) -> str:
    """Without what we do not repeat: values in the errors of functions, and which overload is missing."""
    message = re.sub("^'no such overload[^']*'", "'no such overload'", _DETAIL.sub("", message))
    word = message.partition(" evaluating rule: ")
    return message if word[0].startswith(OUR_WORDS) or not word[1] else f"an error of a function{word[1]}{word[2]}"


OUR_WORDS = ("no such key", "index out of bounds", "division by zero", "integer overflow")


def segments(field: str) -> str:
    return re.sub(r"[.\[\]]+", " ", "" if field == "<nil>" else field).strip()


def ours(tree: RuleTree, new, old=None) -> set[tuple[str, ...]]:
    found = list(tree.check(new, old))
    assert all(isinstance(problem, Problem) for problem in found), found
    return {(segments(" ".join(map(str, problem.path))), problem.message) for problem in found}


@pytest.fixture(scope="module")
def tree():
    return RuleTree.of(schema_of())


@pytest.mark.parametrize(
    ("field", "number"), [(field, number) for field, values in CREATED.items() for number in range(len(values))]
)
def test_creating(live, tree, field, number):
    api, _ = live
    for name in ("root-new", "other-new") if field == "root" else (f"{field}-new",):
        new = probe(name, field, CREATED[field][number])
        server = said(lambda new=new: api.request("POST", URL, new, query=DRY))
        assert ours(tree, new) == server


@pytest.mark.parametrize(
    ("field", "number"), [(field, number) for field, pairs in UPDATED.items() for number in range(len(pairs))]
)
def test_updating(live, tree, field, number):
    api, olds = live
    old = olds[field, number]
    new = {**copy.deepcopy(old), "spec": {field: UPDATED[field][number][1]}}
    path = f"{URL}/{old['metadata']['name']}"
    assert ours(tree, new, old) == said(lambda: api.request("PUT", path, new, query=DRY))


class Making:
    """Random values of a schema, from few words, so that rules are met and missed and values repeat."""

    WORDS = ("ok", "x1", "good", "bad", "first", "next", "fixed", "a", "b", "c1", "50%")
    FORMATTED = {
        "date-time": ("2019-01-01T00:00:00Z", "2021-01-01T00:00:00.25Z", "2021-01-01T02:00:00+02:00"),
        "date": ("2021-02-01", "2021-03-01"),
        "duration": ("1h", "90m", "2 days"),
        "byte": ("aGVsbG8=", "aGVsbG9v"),
    }

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, schema):
        choose = self.random.choice
        if schema.get("x-kubernetes-int-or-string"):
            return choose([0, 1, 4, "5%", "x", "2Gi"])
        match schema["type"]:
            case "integer":
                return choose([-1, 0, 1, 2, 3, 5, 9, 11])
            case "number":
                return choose([0, 1, 2.5, 3])
            case "boolean":
                return choose([True, False])
            case "string":
                return choose(self.FORMATTED.get(schema.get("format"), self.WORDS))
            case "array":
                return self.items(schema)
        if "additionalProperties" in schema:
            keys = self.random.sample(["x", "xa", "y", "xa.b/c", "bb"], self.random.randrange(4))
            return {key: self.value(schema["additionalProperties"]) for key in keys}
        if schema.get("x-kubernetes-embedded-resource"):
            return {"apiVersion": "v1", "kind": choose(["Pod", "Pot"]), "metadata": {"name": choose(["x1", "y1"])}}
        fields = {k: v for k, v in schema["properties"].items() if self.random.random() < 0.6}
        made = {key: self.value(child) for key, child in fields.items()}
        made |= {key: choose(self.WORDS) for key in schema.get("required", ())}
        if schema.get("x-kubernetes-preserve-unknown-fields") and self.random.random() < 0.5:
            made["more"] = choose([1, "a", {"a": 1}, {"a": 2}])
        return made

    def items(self, schema):
        made = [self.value(schema["items"]) for _ in range(self.random.randrange(4))]
        if schema.get("x-kubernetes-list-type") == "map":
            return list({item["name"]: item for item in made}.values())
        return list(dict.fromkeys(made)) if schema.get("x-kubernetes-list-type") == "set" else made

    def changed(self, value, schema):
        """Near the value: equal in most parts."""
        if self.random.random() < 0.3:
            return self.value(schema)
        if isinstance(value, dict) and schema.get("properties"):
            known = schema["properties"]
            return {key: self.changed(v, known[key]) if key in known else v for key, v in value.items()}
        if isinstance(value, list) and self.random.random() < 0.7:
            return self.random.sample(value, len(value))
        return value


@pytest.mark.parametrize("seed", range(12))
def test_random_objects(live, tree, seed):
    """Two fields an object, made while there are no rules; then the same and others over them."""
    api, _ = live
    making = Making(seed)
    refused = 0
    olds = []
    for number in range(12):
        fields = making.random.sample(sorted(FIELDS), 2)
        spec = {field: making.value(FIELDS[field]) for field in fields}
        name = f"random-{seed}-{number}"
        new = {**probe(name, "root", "a"), "spec": spec}
        server = said(lambda new=new: api.request("POST", URL, new, query=DRY))
        assert ours(tree, new) == server, new
        refused += bool(server)
        olds.append(new)
    for old in [*olds, *live[1].values()]:
        changed = {
            field: making.changed(value, FIELDS[field]) for field, value in old["spec"].items() if field in FIELDS
        }
        if "uid" not in old["metadata"]:
            try:
                old = api.request("POST", URL, old)
            except ApiFailure:
                continue  # breaks rules
        new = {**copy.deepcopy(old), "spec": changed}
        path = f"{URL}/{old['metadata']['name']}"
        server = said(lambda new=new, path=path: api.request("PUT", path, new, query=DRY))
        assert ours(tree, new, old) == server, (old["spec"], new["spec"])
        refused += bool(server)
    assert refused


def test_cases_refuse_and_accept(tree):
    """The comparison would mean little if all were refused, or nothing."""
    verdicts = [bool(ours(tree, probe("root", f, v))) for f, values in CREATED.items() for v in values]
    assert verdicts.count(True) > 20
    assert verdicts.count(False) > 20
