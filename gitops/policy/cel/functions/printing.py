"""Values as texts: string(), bool() of a text, format(), where the engine prints otherwise than cel-go does."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from gitops.policy.cel.functions.declaring import NO_OVERLOAD, CallError, Function, GaveUpError
from gitops.policy.cel.functions.texts import LONGEST_TEXT

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]{1,3}))?([sdfebxXo]))|%|[^%]+")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUE | _FALSE:
        return value in _TRUE
    raise CallError("type conversion error")


def string(value: Any) -> str:
    """As cel-go converts it. Points in time have a zone there that the engine has forgotten."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case float():
            return _float(value)
        case bytes() | bytearray():
            return _utf8(value)
        case timedelta():
            return _duration(value)
        case datetime():
            raise GaveUpError("the text of a point in time")
        case {"@type": "ip", "address": str(text)} | {"@type": "cidr", "network": str(text)}:
            return text
        case None | list() | dict():
            raise CallError(NO_OVERLOAD)
    raise GaveUpError("the text of a type")


def _utf8(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CallError("invalid UTF-8") from error


def _float(value: float) -> str:
    """strconv.FormatFloat(value, 'g', -1, 64): the digits of repr(), an exponent from a million on and below 10^-4."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[repr(value)]
    digits = Decimal(repr(value)).normalize()
    power = digits.adjusted()
    if not value or -4 <= power < 6:
        return f"{digits:f}"
    mantissa = f"{digits.scaleb(-power):f}"
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def _duration(value: timedelta) -> str:
    """Seconds with as many digits as it takes."""
    micro = value // timedelta(microseconds=1)
    sign, micro = ("-", -micro) if micro < 0 else ("", micro)
    fraction = f"{micro % 10**6:06}".rstrip("0")
    return f"{sign}{micro // 10**6}{'.' if fraction else ''}{fraction}s"


def _milliseconds(value: timedelta) -> int:
    return int(value / timedelta(milliseconds=1))


def _format(template: str, arguments: list[Any]) -> str:
    """The clauses of cel-go's strings library, version 2."""
    rest = iter(arguments)
    result: list[str] = []
    for found in _CLAUSE.finditer(template):
        percent, precision, clause = found.groups()
        if percent or clause is None:
            if found[0] == "%":
                raise CallError("unrecognized formatting clause")
            result.append("%" if percent else found[0])
            continue
        try:
            argument = next(rest)
        except StopIteration:
            raise CallError("index out of range") from None
        result.append(_clause(clause, 6 if precision is None else int(precision), argument))
        if sum(map(len, result)) > LONGEST_TEXT:
            raise GaveUpError("a text becomes too long")
    return "".join(result)


def _clause(clause: str, precision: int, value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match clause:
        case "s":
            return _shown(value)
        case "d" if whole:
            return str(value)
        case "d" if isinstance(value, float):
            return _float(value)
        case "f" if isinstance(value, float):
            return f"{value:,.{precision}f}"  # golang.org/x/text prints it for readers of English
        case "e" if isinstance(value, float):
            raise GaveUpError("the clause %e, which has its own signs there")
        case "b" if isinstance(value, int):
            return f"{int(value):b}"
        case "o" if whole:
            return f"{value:o}"
        case "x" | "X" if whole:
            return f"{value:{clause}}"
        case "x" | "X" if isinstance(value, str | bytes | bytearray):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if clause == "X" else text
    raise CallError("a formatting clause for another type")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict() if "@type" not in value:
            return "{" + ", ".join(sorted(f"{_quoted(k)}:{_quoted(v)}" for k, v in value.items())) + "}"
        case list():
            return "[" + ", ".join(map(_quoted, value)) + "]"
        case dict():
            raise CallError("a formatting clause for another type")
    return string(value)


def _quoted(value: Any) -> str:
    """Inside lists and maps, as CEL writes it."""
    match value:
        case str():
            if not re.fullmatch(r"[ !#-\[\]-~]*", value):
                raise GaveUpError("a text with characters that are escaped")
            return f'"{value}"'
        case bytes() | bytearray() | float() | timedelta():
            raise GaveUpError("such a value inside a list")
    return _shown(value)


FUNCTIONS = (
    Function("k8s_bool", ("dyn",), "bool", _bool, member=False),
    Function("k8s_string", ("dyn",), "string", string, member=False),
    Function("k8s_format", ("string", "list"), "string", _format),
    Function("k8s_getMilliseconds", ("duration",), "int", _milliseconds),
    Function("k8s_getMilliseconds", ("timestamp",), "int", lambda value: value.microsecond // 1000),
    Function("k8s_getMilliseconds", ("timestamp", "string"), "int", lambda value, zone: value.microsecond // 1000),
)
