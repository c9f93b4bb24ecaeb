"""A structural schema as JSON Schema (draft 7), so that a library decides as the API server's validator does.

The validator is kube-openapi's (package validation/validate), and where it is not JSON Schema the difference is made
here: null is held against type and enum only; `nullable`; int-or-string; formats have Kubernetes' meaning and others
have none; patterns are Go's; limits with fractions are cut for integers. Unknown fields, defaults and lists with keys
are not this module's: gitops/policy/schemas/typed.py and defaults.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from gitops.policy.schemas.formats import CLEAR, FORMATS, normalized
from gitops.policy.schemas.number_words import KEYWORDS, enum, limits
from gitops.policy.schemas.patterns import ecma_pattern
from gitops.policy.schemas.reading import Schema, UnusableSchema

UNCHECKED = "unchecked:"
"""Formats that start so match nothing: they stand for what cannot be checked, and an error of theirs is no problem."""
_SAME_WORDS = (
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties", "required"),
)
_COMBINED = ("allOf", "anyOf", "oneOf", "not")

Validator = jsonschema_rs.Draft7Validator


@dataclass(frozen=True, slots=True)
class Converted:
    validator: Validator
    unchecked: tuple[str, ...]
    """A sentence for each part that no object can be held against."""
    patterns: Mapping[str, str]
    """The schema's own patterns by those that the library has in their place."""
    heaviest: int
    """Characters that the errors at one place of an object may take: each repeats the options or the pattern."""


def converted(schema: Schema) -> Converted:
    """Compiles it. Raises UnusableSchema when the library does not take it."""
    conversion = _Conversion()
    made = conversion.schema(schema, negatable=False)
    try:
        return Converted(_compiled(made), tuple(sorted(conversion.unchecked)), conversion.patterns, _heaviest(schema))
    except (ValueError, RecursionError, OverflowError) as error:
        raise UnusableSchema("the schema library refuses it") from error


def _compiled(made: Mapping[str, Any]) -> Validator:
    """Never fetches: no schema here refers to another, and one that did would be refused."""
    return Validator(
        dict(made),
        formats=dict(_PREDICATES),
        validate_formats=True,
        ignore_unknown_formats=False,
        keywords=dict(KEYWORDS),
        pattern_options=jsonschema_rs.RegexOptions(),
        registry=jsonschema_rs.Registry([]),
        retriever=_refuse,
    )


def _refuse(uri: str) -> Any:
    raise ValueError("schemas are never fetched")


_PREDICATES: Mapping[str, Callable[[str], bool]] = {
    **{f"k8s:{name}": predicate for name, predicate in FORMATS.items()},
    **{f"{UNCHECKED}{name}": predicate for name, predicate in CLEAR.items()},
    f"{UNCHECKED}pattern": lambda text: False,
}


def _heaviest(schema: Schema) -> int:
    own = 64 + sum(len(str(option)) for option in schema.get("enum", ())) + len(schema.get("pattern", ""))
    below = [*schema.get("properties", {}).values()]
    below += [child for word in ("items", "additionalProperties") if isinstance(child := schema.get(word), dict)]
    branches = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    return max(own, *(_heaviest(child) for child in below), 0) + sum(_heaviest(part) for part in branches)


class _Conversion:
    """Gathers what cannot be checked; `negatable`: an error below may turn into its opposite above."""

    def __init__(self) -> None:
        self.unchecked: set[str] = set()
        self._doubts = 0
        self.patterns: dict[str, str] = {}

    def schema(self, schema: Schema, *, negatable: bool) -> dict[str, Any]:
        made: dict[str, Any] = {word: schema[word] for word in _SAME_WORDS if word in schema}
        made |= self._types(schema)
        made |= limits(schema)
        made |= enum(schema)
        conditions = self._strings(schema, negatable)
        if "integer" in made.get("type", ()):  # floats beyond 64 bits are integers for the library
            conditions.append({"minimum": -(2**63), "maximum": 2**63 - 1})
        if "properties" in schema:
            made["properties"] = {
                name: self.schema(child, negatable=negatable) for name, child in schema["properties"].items()
            }
        if "items" in schema:
            made["items"] = self.schema(schema["items"], negatable=negatable)
        if isinstance(others := schema.get("additionalProperties"), dict):
            made["additionalProperties"] = self.schema(others, negatable=negatable)
        elif others is False:
            made["additionalProperties"] = False
        if combined := self._combined(schema, negatable):
            conditions.append({"if": {"type": "null"}, "else": combined})
        return made | ({"allOf": conditions} if conditions else {})

    def _types(self, schema: Schema) -> dict[str, Any]:
        types: list[Any] = [schema["type"]] if schema.get("type") else []
        if schema.get("x-kubernetes-int-or-string"):
            types = ["integer", "string"]
        if not types:  # what has a format has to be a text all the same, or a list, which is held against nothing
            return {"type": ["string", "array", "null"]} if normalized(schema.get("format", "")) in FORMATS else {}
        return {"type": [*types, "null"] if schema.get("nullable") else types}

    def _strings(self, schema: Schema, negatable: bool) -> list[dict[str, Any]]:
        conditions: list[dict[str, Any]] = []
        name = normalized(schema.get("format", ""))
        if name in FORMATS:
            conditions.append({"format": f"k8s:{name}"})
        if name in CLEAR and negatable:
            self._doubt(f"format {name}")
        elif name in CLEAR:
            conditions.append({"format": f"{UNCHECKED}{name}"})
        if pattern := schema.get("pattern"):
            translated = ecma_pattern(pattern)
            if translated is not None and _compiles(translated):
                conditions.append({"pattern": translated})
                self.patterns[translated] = pattern
            elif negatable:
                self._doubt("a pattern that cannot be evaluated")
            else:
                conditions.append({"format": f"{UNCHECKED}pattern"})
        return conditions

    def _combined(self, schema: Schema, negatable: bool) -> dict[str, Any]:
        combined: dict[str, Any] = {}
        for word in ("allOf", "anyOf", "oneOf"):
            if schema.get(word):
                doubts = self._doubts
                made = [self.schema(part, negatable=negatable or word != "allOf") for part in schema[word]]
                if word == "allOf" or doubts == self._doubts:
                    combined[word] = made
        if "not" in schema:
            doubts = self._doubts
            refused = self.schema(schema["not"], negatable=True)
            if doubts == self._doubts:
                combined["not"] = refused
        return combined

    def _doubt(self, what: str) -> None:
        """What is left out inside an alternative may turn the whole into its opposite: then all of it is left out."""
        self._doubts += 1
        self.unchecked.add(f"{what} inside anyOf, oneOf or not")


def _compiles(pattern: str) -> bool:
    try:
        _compiled({"pattern": pattern})
    except ValueError:
        return False
    return True
