"""What a plain (unquoted) YAML scalar means, exactly as kubectl reads it, or refused.

kubectl reads YAML with sigs.k8s.io/yaml: the YAML 1.1 words for booleans, but neither base-60 numbers nor dates; octal
both as `0644` and `0o644`; underscores in numbers. The order of attempts is that of resolve() in its fork of go-yaml.
Refused is what kubectl reads in a way that nobody can mean: infinities, NaN, integers that lose digits, `08`.
"""

from __future__ import annotations

import re
from decimal import Decimal

from gitops.manifests import codes

Scalar = str | int | float | bool | None

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]
_FALSE = ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]
_BOOLEANS = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
AMBIGUOUS = frozenset("yYnN")
"""Booleans for kubectl, text for most other readers."""

_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]([0-7]+)|0[xX]([0-9a-fA-F]+)|0([0-7]+)|(0|[1-9][0-9]*))\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_FLOAT_FROM_DOT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?\Z")
_NOT_OCTAL = re.compile(r"[-+]?0[0-9]+\Z")
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")

_NUMBER_FIRST = frozenset("-+.0123456789")
TYPED_FIRST = frozenset("-+.0123456789yYnNtTfFoO~")
"""First characters of scalars that may be something else than text."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class RefusedScalar(ValueError):
    """A scalar with no safe meaning: `code` of the finding, and one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Raises RefusedScalar."""
    if text in _NULLS:
        return None
    if text[0] in _NUMBER_FIRST:
        return _number(text)
    return _BOOLEANS.get(text, text)


def _number(text: str) -> Scalar:
    if text[0] == ".":
        if _FLOAT_FROM_DOT.match(text):
            return _float(text, text.replace("_", ""))
    else:
        plain = text.replace("_", "")
        if plain.startswith(("0b+", "0b-")):  # go-yaml strips `0b` and leaves the sign to ParseInt
            plain = f"{plain[2]}0b{plain[3:]}"
        if found := _INTEGER.match(plain):
            return _integer(text, found)
        if _FLOAT.match(plain):
            if _NOT_OCTAL.match(plain):
                raise RefusedScalar(codes.LEADING_ZERO, f"{shown(text)} has a leading zero but is not octal")
            return _float(text, plain)
    if _NOT_FINITE.match(text):
        raise RefusedScalar(codes.NOT_FINITE, f"{shown(text)} is no number that JSON can carry")
    return text


_BASES = (2, 8, 16, 8, 10)


def _integer(text: str, found: re.Match[str]) -> Scalar:
    sign, *digits = found.groups()
    position = next(i for i, group in enumerate(digits) if group is not None)
    significant = digits[position].lstrip("0") or "0"
    if len(significant) > 64:
        if position < 3:
            return text  # beyond 64 bits Go takes a number with a prefix for text
        raise _too_large(text)
    value = int(significant, _BASES[position])
    if sign == "-":
        value = -value
    if _INT64_MIN <= value <= _INT64_MAX:
        return value
    if position < 3 and not 0 <= value < 2**64:
        return text
    raise _too_large(text)


def _float(text: str, plain: str) -> Scalar:
    value = float(plain)
    if value in (float("inf"), float("-inf")):
        return text  # out of range is an error for Go's ParseFloat, after which it is text
    if not value.is_integer():
        return value
    # Beyond 2^53 kubectl sends the shortest digits that stand for the float, filled up with zeros.
    whole = int(Decimal(repr(value)))
    if _INT64_MIN <= whole <= _INT64_MAX:
        return whole
    raise _too_large(text)


def _too_large(text: str) -> RefusedScalar:
    return RefusedScalar(codes.NUMBER_TOO_LARGE, f"{shown(text)} does not fit into 64 bits and would lose digits")


def shown(text: str) -> str:
    """Text of the author as part of a message: in backquotes, at most 60 characters."""
    return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}…`"


def printed(value: int | float | bool) -> str:
    """A number or boolean as JSON prints it."""
    if value is True or value is False:
        return "true" if value else "false"
    return repr(value)


def described(value: int | float | bool) -> str:
    """`the number 1`, `the boolean true`: what a value is, for a message."""
    return f"the {'boolean' if isinstance(value, bool) else 'number'} {printed(value)}"
