"""Kubernetes' resource quantities (`500m`, `2Gi`, `1e3`): the text that the API server prints for each, and where in
an object they stand.

Source of the rules: k8s.io/apimachinery/pkg/api/resource (quantity.go, suffix.go, amount.go). Why we need them:
built-in kinds come back from the server in this form, custom resources as written; an operator that reads and writes a
custom resource thereby turns 1 into "1" and takes the field from us. Sending the server's own form leaves it nothing
to change.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

_QUANTITY = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,9})\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = ("", *_BINARY)
_NANO = 10**9
_MAX = 2**63 - 1  # of the API server's integers: larger binary quantities are capped there, so we don't touch them
_MAX_EXPONENT = 40  # 1e-9 is the smallest quantity and 2^63 the largest, whatever the digits before the exponent

_Format = Literal["decimal", "exponent", "binary"]


class NotAQuantityError(ValueError):
    """The text is no quantity, or one beyond 64 bits."""


class QuantityTooLargeError(NotAQuantityError):
    """A quantity, but beyond 64 bits, or too long to look at."""


@dataclass(frozen=True, slots=True)
class _Parsed:
    value: Fraction  # a multiple of 10^-9
    format: _Format
    text: str  # what is printed when the server keeps the author's text; else ""
    whole: bool  # whether Quantity.AsInt64 has a value: not for `1000m` or `1.0`, whatever their size


@functools.lru_cache(maxsize=1 << 10, typed=True)
def canonical_quantity(value: str | int | float) -> str:
    """The quantity as the API server prints it after reading it: `1000m` → `1`, `0.5` → `500m`, `1024Mi` → `1Gi`.

    Fractions below 10^-9 are rounded away from zero, as there. Raises NotAQuantityError. Cached: a repository says the
    same few quantities everywhere.
    """
    parsed = _parse(value)
    if parsed.text:
        return parsed.text
    if parsed.value == 0:
        return "0"
    if parsed.format == "binary" and abs(parsed.value) >= 1024 and parsed.value.denominator == 1:
        return _print_binary(parsed.value.numerator)
    return _print_decimal(parsed.value, exponent_form=parsed.format == "exponent")


def equal_quantities(a: str | int | float, b: str | int | float) -> bool:
    """Whether both are quantities of the same size: `1000m` and `1`. False when either is no quantity."""
    try:
        return _parse(a).value == _parse(b).value
    except NotAQuantityError:
        return False


def is_quantity(value: Any) -> bool:
    """Whether it is read as a quantity, also one that is too large to be kept exactly."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        _parse(value)
    except QuantityTooLargeError:
        return True
    except NotAQuantityError:
        return False
    return True


def quantity_value(text: str) -> tuple[Fraction, bool]:
    """Its size, and whether an API server has it as an integer (`1000m` it has not). Raises NotAQuantityError."""
    parsed = _parse(text)
    return parsed.value, parsed.whole


def _parse(value: str | int | float) -> _Parsed:
    if isinstance(value, bool):
        raise NotAQuantityError("a boolean is no quantity")
    text = value if isinstance(value, str) else _go_prints(value)
    if len(text) > 60:
        raise QuantityTooLargeError(f"{text[:60]!r}… is too long")
    found = _QUANTITY.match(text)
    if found is None:
        raise NotAQuantityError(f"{text[:60]!r} is no quantity")
    sign, whole, fraction, only_fraction, suffix = found.groups()
    whole = (whole or "").lstrip("0") or "0"
    fraction = fraction or only_fraction or ""
    format, factor, exponent = _interpret(suffix, text)
    digits = whole + fraction
    size = Fraction(int(digits)) * factor / 10 ** len(fraction)
    nano = size * _NANO
    size = Fraction(-(-nano.numerator // nano.denominator), _NANO)
    if size > _MAX:
        raise QuantityTooLargeError(f"{text!r} does not fit into 64 bits")
    if format == "binary":
        whole_number = not fraction and _fast_binary(digits, exponent)
        kept = whole_number and int(digits) & 7 != 0
    else:
        scale = exponent - len(fraction)
        whole_number = len(digits) <= 18 and scale >= 0
        kept = len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if format == "binary" and 0 < size < 1:
        format = "decimal"
    return _Parsed(-size if sign == "-" else size, format, text if kept else "", whole_number)


def _go_prints(number: int | float) -> str:
    """A number as kubectl sends it (encoding/json): with an exponent only below 10^-6, and where it is no quantity."""
    return format(Decimal(repr(number)), "f") if abs(number) >= 1e-6 else repr(number)


def _interpret(suffix: str, text: str) -> tuple[_Format, Fraction, int]:
    """Format, factor and exponent (of 10, or of 2 for binary ones)."""
    if suffix in _BINARY:
        return "binary", Fraction(2 ** _BINARY[suffix]), _BINARY[suffix]
    if suffix in _DECIMAL:
        exponent = _DECIMAL[suffix]
        return "decimal", Fraction(10) ** exponent, exponent
    exponent = int(suffix[1:])
    if abs(exponent) > _MAX_EXPONENT:
        raise QuantityTooLargeError(f"the exponent of {text!r} is out of range")
    return "exponent", Fraction(10) ** exponent, exponent


def _fast_binary(digits: str, exponent: int) -> bool:
    """Whether ParseQuantity takes its fast path, on which it keeps the author's text when that is canonical."""
    return 15 - len(digits) - exponent * 3 // 10 - 1 >= 0


def _print_binary(value: int) -> str:
    times = 0
    while value % 1024 == 0:
        value //= 1024
        times += 1
    return f"{value}{_BINARY_SUFFIX[times]}"


def _print_decimal(value: Fraction, *, exponent_form: bool) -> str:
    mantissa, exponent = int(value * _NANO), -9
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    mantissa, exponent = mantissa * 10 ** (exponent % 3), exponent - exponent % 3
    if exponent_form:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


# Only maps that are resource lists beyond doubt are touched: a number turned into text where the schema wants a number
# would be refused by the server.
RESOURCE_LISTS = frozenset({"limits", "requests", "capacity", "allocatable", "hard", "overhead", "podFixed"})
"""Keys of resource lists (core/v1: maps from resource to quantity) of any kind."""

LIMIT_RANGE_LISTS = frozenset({"default", "defaultRequest", "max", "min", "maxLimitRequestRatio"})
"""Keys of those that a LimitRange has beside them."""

_ALSO = {"LimitRange": LIMIT_RANGE_LISTS, "NIMCache": frozenset({"resources"})}
"""Resource lists of single kinds: a NIMCache has cpu and memory right under `resources`."""
_SINGLE: dict[str, frozenset[str]] = {
    "sizeLimit": frozenset({"emptyDir"}),
    "divisor": frozenset({"resourceFieldRef"}),
    "size": frozenset({"sharedMemory"}),
    "sharedMemorySize": frozenset({"spec"}),
    "sharedMemorySizeLimit": frozenset({"storage", "trainingConfig"}),
    "averageValue": frozenset({"target"}),
    "value": frozenset({"target"}),
    "tolerance": frozenset({"scaleUp", "scaleDown"}),
}
"""Single quantities: key → the keys it stands under. All int-or-string quantities in the Dynamo and NIM CRDs."""
_METRIC_TARGETS = frozenset({"Utilization", "Value", "AverageValue"})
_RESOURCE = re.compile(
    r"(?:(?:requests|limits)\.)?(?:cpu|memory|storage|ephemeral-storage|pods|hugepages-[0-9]+[KMG]i)\Z"
    r"|[a-z0-9.-]+/[A-Za-z0-9._/-]+\Z"  # extended resources, count/<kind>, <class>.storageclass…
    r"|(?:services(?:\.loadbalancers|\.nodeports)?|configmaps|secrets|persistentvolumeclaims|replicationcontrollers"
    r"|resourcequotas)\Z"
)


def canonical_resources(body: Any) -> Any:
    """The value with canonical quantities; the same value where nothing changes, otherwise copied along the way."""
    kind = body.get("kind") if isinstance(body, dict) else None
    return _walk(
        body,
        parent="",
        lists=RESOURCE_LISTS | _ALSO.get(kind, frozenset()) if isinstance(kind, str) else RESOURCE_LISTS,
    )


def _walk(value: Any, *, parent: str, lists: frozenset[str]) -> Any:
    """`parent` is the key that the value stands under."""
    if type(value) is list:
        items: list[Any] | None = None
        for position, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                after = _walk(item, parent=parent, lists=lists)
                if after is not item:
                    items = items or list(value)
                    items[position] = after
        return items or value
    if type(value) is not dict:
        return value
    changed: dict[str, Any] = {}
    for key, child in value.items():
        kind = type(child)
        if kind is dict:
            if key in lists and (parent == "resources" or _is_resource_list(child)):
                after = _rewrite_list(child)
            else:
                after = _walk(child, parent=key, lists=lists)
        elif kind is list:
            after = _walk(child, parent=key, lists=lists)
        elif key in _SINGLE and parent in _SINGLE[key]:
            if (
                parent == "target" and str(value.get("type")) not in _METRIC_TARGETS
            ):  # a list is hostile, and unhashable
                continue
            after = _rewrite(child)
        else:
            continue
        if after is not child:
            changed[key] = after
    return {**value, **changed} if changed else value


def _is_resource_list(value: dict[str, Any]) -> bool:
    """Every key is the name of a resource, every value a scalar."""
    return all(_RESOURCE.match(k) and isinstance(v, (str, int, float)) for k, v in value.items())


def _rewrite_list(value: dict[str, Any]) -> dict[str, Any]:
    """One level of maps below a list belongs to it: Dynamo v1alpha1 has `resources.limits.custom`."""
    after = {k: _rewrite_list(v) if isinstance(v, dict) else _rewrite(v) for k, v in value.items()}
    return after if any(after[k] is not value[k] for k in value) else value


def _rewrite(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    try:
        text = canonical_quantity(value)
    except NotAQuantityError:
        return value
    return value if text == value else text
