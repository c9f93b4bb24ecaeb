"""Values that a schema takes, made at random from a seed. CEL rules are not looked at."""

from __future__ import annotations

import re
import re._constants as sre
import re._parser as sre_parser
from random import Random
from typing import Any

from differential_kit.walking import Schema

QUANTITIES: tuple[Any, ...] = (
    "1", "100m", "1Gi", "1.5", ".5", "+1", "-1", "1e3", "1E3", "12Ei", "5n", "0", 1, 0, 5, "1k", "0.1m", "1.", "1e-3",
)  # fmt: skip
_TEXTS = ("a", "text", "Name", "a-b", "1", "true", "0.1", "x.y/z", "ü", "nvidia.com/gpu", "/data", "a" * 40)
_FORMATS: dict[str, tuple[str, ...]] = {
    "date-time": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123+01:00"),
    "byte": ("YQ==", ""),
    "uri": ("http://example.com/a",),
    "duration": ("1h", "1m30s"),
    "date": ("2026-01-02",),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "email": ("a@example.com",),
    "hostname": ("example.com",),
    "ipv4": ("10.0.0.1",),
    "ipv6": ("::1",),
    "cidr": ("10.0.0.0/8",),
    "mac": ("01:23:45:67:89:ab",),
    "password": ("x",),
    "bsonobjectid": ("0123456789abcdef01234567",),
    "isbn": ("0321751043",),
    "creditcard": ("4111111111111111",),
    "ssn": ("111-11-1111",),
    "hexcolor": ("#fff",),
    "rgbcolor": ("rgb(1,2,3)",),
}


def generate(schema: Schema, rng: Random, *, depth: int = 3, fill: float = 0.3) -> Any:
    """A value; `depth` bounds optional nesting, `fill` is how likely an optional member is there."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string(schema, rng)
    make = _MAKERS.get(schema.get("type", ""))
    if make is None:
        return rng.choice([{"any": 1}, {"a": {"b": [1, "x", True]}}, {}, {"list": []}])
    return make(schema, rng, depth, fill)


def _int_or_string(schema: Schema, rng: Random) -> Any:
    if "pattern" in schema:
        return rng.choice(QUANTITIES)
    return rng.choice([1, 8080, "http", "25%"])


def _object(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    if schema.get("x-kubernetes-embedded-resource"):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "embedded"}}
    result = {}
    required = set(schema.get("required", ()))
    properties = schema.get("properties", {})
    chosen = [name for name in properties if name in required or (depth > 0 and rng.random() < fill)]
    # A pod's specification has forty members: a few of them are enough.
    optional = [name for name in chosen if name not in required]
    kept = set(rng.sample(optional, min(len(optional), 4)))
    for name in chosen:
        if name in required or name in kept:
            result[name] = generate(properties[name], rng, depth=depth - 1, fill=fill)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) and depth > 0:
        for _ in range(rng.randint(schema.get("minProperties", 0), 2)):
            result[rng.choice(("a", "b.c/d", "Key", "cpu"))] = generate(additional, rng, depth=depth - 1, fill=fill)
    return result


def _array(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", 3), 3)
    count = rng.randint(least, max(least, most)) if depth > 0 else least
    items = [generate(schema["items"], rng, depth=depth - 1, fill=fill) for _ in range(count)]
    return without_duplicates(schema, items)


def without_duplicates(schema: Schema, items: list[Any]) -> list[Any]:
    """The items of a set or map list, each key once."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"map", "set"}:
        return items
    seen: dict[str, Any] = {}
    for item in items:
        told = [item.get(key, _default(schema, key)) for key in keys] if kind == "map" else item
        seen.setdefault(repr(told), item)
    return list(seen.values())


def _default(schema: Schema, key: str) -> Any:
    return schema["items"].get("properties", {}).get(key, {}).get("default")


def _string(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    if schema.get("format") in _FORMATS:
        return rng.choice(_FORMATS[schema["format"]])
    if "pattern" in schema:
        return matching(schema["pattern"], rng)
    text = rng.choice(_TEXTS)
    text += "x" * (schema.get("minLength", 0) - len(text))
    return text[: schema.get("maxLength", 1000)]


def _integer(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    least = schema.get("minimum", 0)
    if schema.get("exclusiveMinimum"):
        least += 1
    most = schema.get("maximum", least + 5)
    return rng.randint(int(least), int(min(most, least + 5)))


def _number(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    whole = _integer(schema, rng, depth, fill)
    return whole + 0.5 if rng.random() < 0.5 and whole + 0.5 <= schema.get("maximum", whole + 1) else whole


def _boolean(schema: Schema, rng: Random, depth: int, fill: float) -> Any:
    return rng.random() < 0.5


_MAKERS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def matching(pattern: str, rng: Random) -> str:
    """A text for the regular expression, by its parse tree. What only Go's syntax knows (RE2) gives any text."""
    try:
        return _walk(sre_parser.parse(pattern), rng)
    except re.error:
        return rng.choice(_TEXTS)


def _walk(tree: Any, rng: Random) -> str:
    return "".join(_one(operator, argument, rng) for operator, argument in tree)


def _one(operator: Any, argument: Any, rng: Random) -> str:
    if operator is sre.LITERAL:
        return chr(argument)
    if operator is sre.ANY:
        return rng.choice("ax0")
    if operator is sre.IN:
        return _member(argument, rng)
    if operator is sre.BRANCH:
        return _walk(rng.choice(argument[1]), rng)
    if operator is sre.SUBPATTERN:
        return _walk(argument[3], rng)
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, tree = argument
        return "".join(_walk(tree, rng) for _ in range(rng.randint(least, min(int(most), least + 3))))
    return ""  # anchors


def _member(choices: Any, rng: Random) -> str:
    if choices[0][0] is sre.NEGATE:
        return "z"
    operator, argument = rng.choice(choices)
    if operator is sre.RANGE:
        return chr(rng.randint(*argument))
    return chr(argument) if operator is sre.LITERAL else _CLASSES.get(argument, "a")


_CLASSES = {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_SPACE: " "}
