"""Schemas as they come: whatever a repository or a cluster sends, down to the words that decide something.

What is left is known to be well formed, so that nothing after this module has to ask what it holds. Descriptions,
titles and examples go: they are nine tenths of a definition. Words that a structural schema may not have (Kubernetes
documentation, "Specifying a structural schema") make the schema unusable, for no API server would serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitops.manifests.canonical import copy_json

Schema = dict[str, Any]

DEEPEST = 100
"""Levels of schemas in schemas; the deepest of published operators has about forty."""
MOST_NODES = 300_000
"""Schemas in one kind. A definition that etcd can store has at most a tenth of it."""
LONGEST_PATTERN = 10_000


class UnusableSchema(ValueError):
    """No verdict can come of this schema; the text says why, without quoting values."""


class _Counter:
    def __init__(self) -> None:
        self.left = MOST_NODES


def read_schema(raw: object, *, references: bool = False) -> Schema:
    """A copy of the schema with the words that decide; reading it again gives the same. Raises UnusableSchema.

    `references`: the schema may name others by `$ref`, as those of OpenAPI documents do.
    """
    return _schema(raw, 0, _Counter(), references)


def _schema(raw: object, depth: int, counter: _Counter, references: bool) -> Schema:
    if not isinstance(raw, dict):
        raise UnusableSchema("a part of the schema is no mapping")
    counter.left -= 1
    if depth > DEEPEST or counter.left < 0:
        raise UnusableSchema("the schema is too deep or too large")
    found: Schema = {}
    for word, value in raw.items():
        if word in _FORBIDDEN and (word != "$ref" or not references):
            raise UnusableSchema(f"{word} has no place in a structural schema")
        if word == "$ref" or word in _PLAIN:
            if not _PLAIN[word](value):
                raise UnusableSchema(f"{word} has a value of the wrong type")
            found[word] = copy_json(value)
        elif word in ("properties", "items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"):
            found[word] = _nested(word, value, depth + 1, counter, references)
    return found


def _nested(word: str, value: object, depth: int, counter: _Counter, references: bool) -> object:
    if word == "properties" and isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise UnusableSchema("a property's name is no string")
        return {name: _schema(child, depth, counter, references) for name, child in value.items()}
    if word in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
        return [_schema(child, depth, counter, references) for child in value]
    if word == "additionalProperties" and isinstance(value, bool):
        return value
    return _schema(value, depth, counter, references)


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in types


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e308


def _strings(value: Any) -> bool:
    return type(value) is list and all(type(item) is str for item in value)


def _pattern(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST_PATTERN


def _rules(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict and type(item.get("rule")) is str for item in value)


_FORBIDDEN = frozenset({"$ref", "id", "$schema", "definitions", "dependencies", "patternProperties", "additionalItems"})
_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    "$ref": _is(str),
    "type": _is(str),
    "format": _is(str),
    "nullable": _is(bool),
    "default": lambda value: True,
    "enum": _is(list),
    "pattern": _pattern,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _is(bool),
    "exclusiveMaximum": _is(bool),
    "multipleOf": _number,
    "minLength": _count,
    "maxLength": _count,
    "minItems": _count,
    "maxItems": _count,
    "uniqueItems": _is(bool),
    "minProperties": _count,
    "maxProperties": _count,
    "required": _strings,
    "x-kubernetes-preserve-unknown-fields": _is(bool),
    "x-kubernetes-embedded-resource": _is(bool),
    "x-kubernetes-int-or-string": _is(bool),
    "x-kubernetes-list-type": _is(str),
    "x-kubernetes-list-map-keys": _strings,
    "x-kubernetes-map-type": _is(str),
    "x-kubernetes-validations": _rules,
    "x-kubernetes-patch-strategy": _is(str),
    "x-kubernetes-patch-merge-key": _is(str),
}
