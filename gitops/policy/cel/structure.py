"""A structural schema as rules see it: names, what is visible, where there are points in time, how malformed it may be.

Sources: k8s.io/apiserver/pkg/cel (escaping.go, common/schemas.go). Schemas come from repositories: malformation() looks
first whether the words that are read have values of the right types.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

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

MOST_LEVELS = 100
"""Of a schema. The operators' deepest has about 30."""


ROOT_FIELDS: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def malformation(schema: Any) -> str:
    """What keeps a schema from being looked at: words with values of wrong types, too many levels. "" for nothing."""
    left = [(schema, 0)]
    while left:
        part, depth = left.pop()
        if not isinstance(part, Mapping) or depth > MOST_LEVELS:
            return f"a schema of more than {MOST_LEVELS} levels" if depth > MOST_LEVELS else "a malformed schema"
        properties = part.get("properties") or {}
        if not isinstance(properties, Mapping) or not all(_WORDS_OF[word](part.get(word)) for word in _WORDS_OF):
            return "a malformed schema"
        children = [*properties.values(), *(part[w] for w in ("items", "additionalProperties") if w in part)]
        left += [(child, depth + 1) for child in children if child is not None and not isinstance(child, bool)]
    return ""


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: value is None or (isinstance(value, list) and all(isinstance(item, kind) for item in value))


_WORDS_OF: dict[str, Callable[[Any], bool]] = {
    "type": _is_text,
    "format": _is_text,
    "x-kubernetes-list-type": _is_text,
    "x-kubernetes-list-map-keys": _is_list_of(str),
    "x-kubernetes-validations": _is_list_of(dict),
}


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
