"""JSON values as the rules of a structural schema see them.

Sources: k8s.io/apiserver/pkg/cel (escaping.go, common/valuesunstructured.go, common/schemas.go), kube-openapi's strfmt.
Only what the schema lists is visible. An integer in a `number` field is a double; `byte` is bytes; `date`, `date-time`
and `duration` become canonical texts, which syntax.py turns into what they mean.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.policy.cel.functions.declaring import identity
from gitops.policy.cel.syntax import Uses

Schema = Mapping[str, Any]

_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPED = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*\Z")
_WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TIMES = {"date": "timestamp", "date-time": "timestamp", "duration": "duration"}

OTHERS = "@others"
"""Key of a digest of what the schema does not list: rules cannot see it, and `==` looks at it."""

ROOT_FIELDS: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


class IllTypedError(ValueError):
    """A value has not the type that its schema says: the server refuses it for that, before any rule."""


@functools.lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """The name of a property in CEL; None when it has none."""
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda found: _WORDS[found[0]], name) if _NAME.match(name) else None


def properties_of(schema: Schema, *, root: bool = False) -> Schema:
    """Visible fields. The root of a resource has kind and name, whatever its schema says, and no more of metadata."""
    properties: Schema = schema.get("properties") or {}
    return {**properties, **ROOT_FIELDS} if root or schema.get("x-kubernetes-embedded-resource") else properties


def values_schema(schema: Schema) -> Schema | None:
    """The schema of a map's values; None when it is no map, or one of anything."""
    values = schema.get("additionalProperties")
    return values if isinstance(values, Mapping) else None


def is_visible(schema: Schema) -> bool:
    """Whether rules can see values of the schema at all."""
    if schema.get("x-kubernetes-int-or-string"):
        return True
    kind = schema.get("type")
    if kind == "array":
        return isinstance(schema.get("items"), Mapping) and is_visible(schema["items"])
    values = values_schema(schema) if kind == "object" else None
    return is_visible(values) if values is not None else kind in _KINDS


_KINDS = frozenset({"object", "string", "boolean", "number", "integer"})


class TimesOf:
    """Where the parts of one schema have points in time and durations. Keeps what it has found, by identity."""

    def __init__(self) -> None:
        self._below: dict[int, str] = {}

    def below(self, schema: Schema) -> str:
        """`timestamp` or `duration` for such a value, `below` when one is further down, else `plain`."""
        if id(schema) not in self._below:
            self._below[id(schema)] = self._find(schema)
        return self._below[id(schema)]

    def _find(self, schema: Schema) -> str:
        if schema.get("type") == "string":
            return _TIMES.get(schema.get("format") or "", "plain")
        children = [*(schema.get("properties") or {}).values(), schema.get("items"), values_schema(schema)]
        found = any(isinstance(child, Mapping) and self.below(child) != "plain" for child in children)
        return "below" if found else "plain"

    def at(self, schema: Schema, path: tuple[str, ...], *, root: bool) -> str | None:
        """What syntax.Times says, from this schema on."""
        for name in path:
            properties = properties_of(schema, root=root)
            child = next((properties[field] for field in properties if escape(field) == name), values_schema(schema))
            if child is None:
                return None
            schema, root = child, False
        return self.below(schema)


def convert(value: Any, schema: Schema, uses: Uses, *, root: bool = False, like: Any = None) -> Any:
    """The value for the engine, with the fields of `uses` only. Raises IllTypedError.

    `like` is the new value when this is the old one: sets and keyed lists get its order where they can, since an API
    server compares them without regard to order, and the engine does not.
    """
    if value is None:
        if schema.get("nullable"):
            return None
        raise IllTypedError("null")
    if schema.get("x-kubernetes-int-or-string"):
        return _require(value, str, int)
    match schema.get("type"):
        case "object":
            return _object(_require(value, dict), schema, uses, root, like if isinstance(like, dict) else {})
        case "array":
            return _array(_require(value, list), schema, uses, like if isinstance(like, list) else [])
        case "string":
            return _text(_require(value, str), schema.get("format"))
        case "number":
            return float(_require(value, int, float))
        case "integer":
            return _require(value, int)
        case "boolean":
            return _require(value, bool)
    raise IllTypedError("no type")


def _require(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise IllTypedError(type(value).__name__)
    return value


def _object(value: dict[str, Any], schema: Schema, uses: Uses, root: bool, like: dict[str, Any]) -> dict[str, Any]:
    properties = properties_of(schema, root=root)
    values = values_schema(schema)
    if values is not None and not properties:
        keys = value if uses.whole else [key for key in uses.fields if key in value]
        return {key: convert(value[key], values, uses.below(key), like=like.get(key)) for key in keys}
    result: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, child in value.items():
        name = escape(key)
        if not uses.whole and name not in uses.fields:
            continue
        known = properties.get(key)
        if known is None or name is None or child is None or not is_visible(known):
            others[key] = child
        else:
            result[name] = convert(child, known, uses.below(name), like=like.get(key))
    if others and uses.whole and not root:
        result[OTHERS] = digest(canonical_json(others)).hex()
    return result


def _array(value: list[Any], schema: Schema, uses: Uses, like: list[Any]) -> list[Any]:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        raise IllTypedError("items without a schema")
    pairs = _aligned(value, schema, like)
    return [convert(item, items, uses.below(""), like=other) for item, other in pairs]


def _aligned(value: list[Any], schema: Schema, like: list[Any]) -> list[tuple[Any, Any]]:
    """Items with what each corresponds to; those of sets and keyed lists in the order of `like`."""
    kind = schema.get("x-kubernetes-list-type")
    if not like or kind not in ("map", "set"):
        return list(zip(value, like, strict=True)) if len(value) == len(like) else [(item, None) for item in value]
    new: dict[Hashable, tuple[int, Any]] = {}
    for at, item in enumerate(like):
        new.setdefault(key_of(item, schema), (at, item))
    nowhere = (len(like), None)
    found = [(new.get(key_of(item, schema), nowhere), item) for item in value]
    return [(item, other) for (_, other), item in sorted(found, key=lambda pair: pair[0][0])]


def key_of(item: Any, schema: Schema) -> Hashable:
    """What tells items of a keyed list or a set apart."""
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(item, dict):
        return tuple(identity(item.get(key)) for key in schema.get("x-kubernetes-list-map-keys") or ())
    return identity(item)


# -- formats of texts --------------------------------------------------------------------------------------------------

_LONGEST_DURATION = 200
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_GO_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_GO_DURATION = re.compile(rf"([+-]?)((?:{_GO_PART.pattern})+)\Z")
_WORDY_PART = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
_WORDY = (
    (1, "ns", "nano"),
    (10**3, "us", "micro"),
    (10**3, "µs", "micro"),
    (10**6, "ms", "milli"),
    (10**9, "s", "sec"),
    (60 * 10**9, "m", "min"),
    (3600 * 10**9, "h", "hour"),
    (3600 * 10**9, "hr", "hour"),
    (86400 * 10**9, "d", "day"),
    (604800 * 10**9, "w", "week"),
    (604800 * 10**9, "wk", "week"),
)


def _text(text: str, format: str | None) -> Any:
    match format:
        case "byte":
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise IllTypedError("no base64") from error
        case "date" | "date-time":
            return _instant(text)
        case "duration":
            nanoseconds = parse_duration(text)
            return f"{'-' * (nanoseconds < 0)}{abs(nanoseconds) // 10**9}.{abs(nanoseconds) % 10**9:09}s"
    return text


def _instant(text: str) -> str:
    """RFC 3339 in UTC, to the nanosecond."""
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\d*([Zz]|[+-]\d\d:?\d\d)?)?", text, re.ASCII
    )
    try:
        if found is None:
            raise ValueError
        date, time, fraction, zone = found.groups()
        zone = "+00:00" if zone is None or zone in "Zz" else zone
        instant = datetime.fromisoformat(f"{date}T{time or '00:00:00'}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise IllTypedError("no date") from error
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{fraction or '0':0<9}Z".rjust(30, "0")


def parse_duration(text: str) -> int:
    """Nanoseconds of Go's `1h30m`, or of strfmt's `2 weeks`. Raises IllTypedError."""
    if len(text) > _LONGEST_DURATION:
        raise IllTypedError("a long duration")
    if text == "0":
        return 0
    if found := _GO_DURATION.match(text):
        total = sum(_exact(number, _UNITS[unit]) for number, unit in _GO_PART.findall(found[2]))
        return -total if found[1] == "-" else total
    total = 0
    any_unit = False
    for number, unit in _WORDY_PART.findall(text):
        factor = _wordy(unit.lower())
        any_unit = any_unit or factor > 0
        total += int(number) * factor
    if not any_unit:
        raise IllTypedError("no duration")
    return total


def _exact(number: str, unit: int) -> int:
    """`1.5` of a unit."""
    whole, _, fraction = number.partition(".")
    return int(whole or "0") * unit + int(int(fraction or "0") * unit // 10 ** len(fraction))


def _wordy(unit: str) -> int:
    for factor, short, long in _WORDY:
        if unit == short or unit.startswith(long):
            return factor
    return 0
