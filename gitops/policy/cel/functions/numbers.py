"""Quantities and semantic versions, which share the names of their comparisons."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from gitops.manifests.quantities import NotAQuantityError, QuantityTooLargeError, quantity_value
from gitops.policy.cel.functions.declaring import (
    NO_OVERLOAD,
    CallError,
    Function,
    GaveUpError,
    Opaque,
    fields_of,
    opaque,
)

_NANO = 10**9
_INT64 = 2**63

# -- quantities --------------------------------------------------------------------------------------------------------


_NO_DIGITS = re.compile(r"(?!\Z)[+-]?\.?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,9})\Z")
"""Go's ParseQuantity takes a suffix without a number for zero."""


def _quantity(text: str) -> Opaque:
    if found := _NO_DIGITS.match(text):
        return _made(0, whole=found[1] not in ("n", "u", "m") and "-" not in found[1])
    try:
        value, whole = quantity_value(text)
    except QuantityTooLargeError as error:
        raise GaveUpError("a quantity beyond 64 bits") from error
    except NotAQuantityError as error:
        raise CallError("no quantity") from error
    return _made(value, whole=whole)


def _is_quantity(text: str) -> bool:
    try:
        _quantity(text)
    except CallError:
        return False
    return True


def _made(value: Fraction | int, *, whole: bool) -> Opaque:
    """`whole` is kept as 1 or 1.0, which CEL calls equal: it says how the quantity was written, not how large it is.

    An API server takes `1000m` for no integer (resource.Quantity.AsInt64: any negative scale).
    """
    return opaque("quantity", nano=str(int(value * _NANO)), whole=1 if whole else 1.0)


def _value(quantity: Opaque) -> Fraction:
    return Fraction(int(fields_of(quantity, "quantity")["nano"]), _NANO)


def _is_integer(quantity: Opaque) -> bool:
    value = _value(quantity)
    return isinstance(quantity["whole"], int) and value.denominator == 1 and -_INT64 <= value < _INT64


def _as_integer(quantity: Opaque) -> int:
    if not _is_integer(quantity):
        raise CallError("cannot convert value to integer")
    return int(_value(quantity))


def _sign(quantity: Opaque) -> int:
    value = _value(quantity)
    return (value > 0) - (value < 0)


def _add(quantity: Opaque, other: Opaque | int, sign: int = 1) -> Opaque:
    other = other if isinstance(other, dict) else _made(other, whole=True)
    parts = [q for q in (quantity, other) if _value(q)]  # what is zero has no say in how the sum is written
    whole = all(isinstance(q["whole"], int) for q in parts or [quantity])
    return _made(_value(quantity) + sign * _value(other), whole=whole)


# -- semantic versions -------------------------------------------------------------------------------------------------

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\Z"
)


def _semver(text: str, normalize: bool = False) -> Opaque:
    found = _SEMVER.match(_normalized(text) if normalize else text)
    if found is None or any(len(number) > 20 or int(number) >= 2**64 for number in found.groups()[:3]):
        raise CallError("no semantic version")
    return opaque("semver", version=".".join(found.groups()[:3]), pre=found[4] or "")


def _normalized(text: str) -> str:
    """Without `v` and leading zeros, with `.0` for what is missing."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        return ""
    parts += ["0"] * (3 - len(parts))
    return ".".join(re.sub(r"^0+(?=[0-9])", "", part) for part in parts)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CallError:
        return False
    return True


def _part(position: int) -> Any:
    return lambda value: int(fields_of(value, "semver")["version"].split(".")[position])


def _precedence(version: Opaque) -> tuple[Any, ...]:
    """Semantic Versioning 2.0.0, section 11."""
    pre = version["pre"].split(".") if version["pre"] else []
    parts = [(0, len(part), part) if part.isdigit() else (1, 0, part) for part in pre]
    return *map(int, version["version"].split(".")), not pre, parts


# -- comparisons -------------------------------------------------------------------------------------------------------


def _compare(a: Opaque, b: Opaque) -> int:
    if fields_of(a, "quantity", "semver")["@type"] != b.get("@type"):
        raise CallError(NO_OVERLOAD)
    order: Any = _value if a["@type"] == "quantity" else _precedence
    return int(order(a) > order(b)) - int(order(a) < order(b))


FUNCTIONS = (
    Function("quantity", ("string",), "map", _quantity, member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, member=False),
    Function("sign", ("map",), "int", _sign, member=False),
    Function("isInteger", ("map",), "bool", _is_integer),
    Function("asInteger", ("map",), "int", _as_integer),
    Function("asApproximateFloat", ("map",), "double", lambda q: float(_value(q))),
    Function("add", ("map", "map"), "map", _add),
    Function("add", ("map", "int"), "map", _add),
    Function("sub", ("map", "map"), "map", lambda q, other: _add(q, other, -1)),
    Function("sub", ("map", "int"), "map", lambda q, other: _add(q, other, -1)),
    Function("semver", ("string",), "map", _semver, member=False),
    Function("semver", ("string", "bool"), "map", _semver, member=False),
    Function("isSemver", ("string",), "bool", _is_semver, member=False),
    Function("isSemver", ("string", "bool"), "bool", _is_semver, member=False),
    Function("major", ("map",), "int", _part(0)),
    Function("minor", ("map",), "int", _part(1)),
    Function("patch", ("map",), "int", _part(2)),
    Function("compareTo", ("map", "map"), "int", _compare),
    Function("isGreaterThan", ("map", "map"), "bool", lambda a, b: _compare(a, b) > 0),
    Function("isLessThan", ("map", "map"), "bool", lambda a, b: _compare(a, b) < 0),
)
