"""Limits and enums of numbers as kube-openapi compares them: by way of Go's conversions, which cut fractions off.

An integer meets a limit of 0.5 as 0, and 2.5 fits an enum that has 2 (kube-openapi, validation/validate/values.go).
Where JSON Schema says the same its own words are used; they cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitops.policy.schemas.reading import Schema

_CUT_LIMITS = "cut-limits"
_CUT_ENUM = "cut-enum"


def enum(schema: Schema) -> dict[str, Any]:
    """Null never fits an enum, even where it stands in it."""
    options = [option for option in schema.get("enum", ()) if option is not None]
    if not options:
        return {"not": {}} if schema.get("enum") else {}
    if schema.get("type") in (None, "number") and any(type(option) is int or _is_char(option) for option in options):
        return {_CUT_ENUM: options}
    return {"enum": options}


def limits(schema: Schema) -> dict[str, Any]:
    """As JSON Schema's words; limits with fractions as a word of our own, for integers meet them cut to integers."""
    limits: dict[str, Any] = {word: schema[word] for word in ("minimum", "maximum", "multipleOf") if word in schema}
    if (
        not all(float(limit).is_integer() and abs(limit) < 2**53 for limit in limits.values())
        or limits.get("multipleOf", 1) <= 0
    ):
        told = limits | {word: True for word in ("exclusiveMinimum", "exclusiveMaximum") if schema.get(word)}
        return {_CUT_LIMITS: told}
    for word, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if word in limits and schema.get(exclusive):
            limits[exclusive] = limits.pop(word)
    return {word: int(limit) for word, limit in limits.items()}


def supported(options: list[Any]) -> str:
    """The server's words for a value that is not among these."""
    return "Unsupported value: supported values: " + ", ".join(json.dumps(o, ensure_ascii=False) for o in options[:50])


class _CutLimits:
    """kube-openapi's MinimumNativeType, MaximumNativeType and MultipleOfNativeType."""

    def __init__(self, parent: Mapping[str, Any], limits: dict[str, Any], path: list[str | int]) -> None:
        self._limits = limits

    def validate(self, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        kind = type(value)
        if "minimum" in self._limits:
            least = kind(self._limits["minimum"])
            if value < least or (value == least and self._limits.get("exclusiveMinimum")):
                raise ValueError(f"should be greater than or equal to {self._limits['minimum']}")
        if "maximum" in self._limits:
            most = kind(self._limits["maximum"])
            if value > most or (value == most and self._limits.get("exclusiveMaximum")):
                raise ValueError(f"should be less than or equal to {self._limits['maximum']}")
        if "multipleOf" in self._limits:
            self._multiple(value, kind(self._limits["multipleOf"]))

    def _multiple(self, value: float, factor: float) -> None:
        if factor <= 0:
            raise ValueError("factor MultipleOf declared for it must be positive")
        times = value // factor if isinstance(value, int) else (1 / factor * value if factor < 1 else value / factor)
        if isinstance(value, int):
            fits = times * factor == value
        else:
            fits = times.is_integer() or abs(times - int(times)) / max(abs(times) + abs(int(times)), 1e-300) < 1e-9
        if not fits:
            raise ValueError(f"should be a multiple of {self._limits['multipleOf']}")


class _CutEnum:
    """kube-openapi's Enum: a value is converted to the type of an option where Go can do that."""

    def __init__(self, parent: Mapping[str, Any], options: list[Any], path: list[str | int]) -> None:
        self._options = options

    def validate(self, value: object) -> None:
        if not any(_is(value, option) for option in self._options):
            raise ValueError(supported(self._options))


def _is(value: object, option: object) -> bool:
    if type(value) is float and type(option) is int:
        return int(value) == option
    if type(value) is int and type(option) is str:
        return _is_char(option) and ord(option) == value
    return (type(value) is type(option) or (type(value), type(option)) == (int, float)) and value == option


def _is_char(option: object) -> bool:
    return type(option) is str and len(option) == 1


KEYWORDS: Mapping[str, type[Any]] = {_CUT_LIMITS: _CutLimits, _CUT_ENUM: _CutEnum}
RULES: Mapping[str, str] = {_CUT_LIMITS: "limits", _CUT_ENUM: "enum"}
