"""Server-side apply's first check: whether the object fits the types of its schema (structured-merge-diff, `typed`).

Refused are unknown fields, wrong types, items of keyed lists without any key, and equal keys or set items. Null fits
everywhere but in keyed lists and sets. A string with a format takes any scalar, and an object that declares no fields
takes all; under `x-kubernetes-preserve-unknown-fields` every inline object does. Unknown fields are refused by this
check alone, whatever `fieldValidation` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.manifests.canonical import canonical_json
from gitops.manifests.lines import Path
from gitops.policy.schemas.reading import Schema
from gitops.policy.verdicts import Problem

TYPES = "type"
"""Rule of the problems found here, but for unknown fields and equal keys."""
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_ANYTHING = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class Types:
    """The types of a kind; `definitions` are what `$ref`s name.

    `native`: objects are decoded into Go types, which takes no fractions for integers (and cuts what is too large).
    """

    def __init__(self, definitions: Mapping[str, Schema], *, native: bool = False) -> None:
        self._definitions = definitions
        self._native = native

    def problems(self, schema: Schema, value: object, path: Path, *, keeps: bool = False) -> Iterator[Problem]:
        """`keeps`: unknown fields are kept, as a schema above says."""
        schema, name = self.resolved(schema)
        if name is not None:
            keeps = False
        if value is None or name == _ANYTHING:
            return
        keeps = keeps or schema.get("x-kubernetes-preserve-unknown-fields", False)
        declared = "scalar" if name == _QUANTITY else schema.get("type", "")
        if declared in ("", "object") and isinstance(value, dict):
            yield from self._map(schema, value, path, keeps)
        elif declared in ("", "array") and isinstance(value, list):
            yield from self._list(schema, value, path, keeps)
        elif self._native and declared == "integer" and type(value) is float and not value.is_integer():
            yield Problem(path, "expected integer, got number", TYPES)
        elif wrong := _expected(declared, schema.get("format", ""), value):
            yield Problem(path, f"{wrong}, got {json_type(value)}", TYPES)

    def resolved(self, schema: Schema) -> tuple[Schema, str | None]:
        """The schema itself, or the one it names and that name; OpenAPI puts a name with a default into `allOf`."""
        name = None
        for _ in range(10):  # a name of a name of a name …
            every = schema.get("allOf")
            reference = schema.get("$ref") or (every[0].get("$ref") if every and len(every) == 1 else None)
            if reference is None:
                break
            name = reference.rpartition("/")[2]
            schema = self._definitions.get(name, {})
        return schema, name

    def _map(self, schema: Schema, value: dict[str, Any], path: Path, keeps: bool) -> Iterator[Problem]:
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        closed = others is False or (others is None and bool(fields) and not keeps)
        for key, child in value.items():
            if key in fields:
                yield from self.problems(fields[key], child, (*path, key), keeps=keeps)
            elif isinstance(others, dict):
                yield from self.problems(others, child, (*path, key), keeps=keeps)
            elif closed:
                yield Problem((*path, key), "field not declared in schema", "unknown field")

    def _list(self, schema: Schema, value: list[Any], path: Path, keeps: bool) -> Iterator[Problem]:
        items = schema.get("items")
        associative, keys = list_type(schema)
        seen: set[bytes] = set()
        for at, item in enumerate(value):
            if associative:
                key = self.key_of(items or {}, keys, item) if keys else _set_key(item)
                if isinstance(key, str):
                    yield Problem((*path, at), key, TYPES)
                    return
                if key in seen:
                    yield Problem((*path, at), "duplicate entries for key", "duplicate")
                seen.add(key)
            if items is not None:
                yield from self.problems(items, item, (*path, at), keeps=keeps)

    def key_of(self, items: Schema, keys: tuple[str, ...], item: object) -> bytes | str:
        """What tells an item from others; a text when it has no place in such a list."""
        if item is None:
            return "associative list with keys may not have a null element"
        if not isinstance(item, dict):
            return "associative list with keys may not have non-map elements"
        fields = self.resolved(items)[0].get("properties", {})
        found = {}
        for key in keys:
            if key in item:
                found[key] = item[key]
            elif (default := fields.get(key, {}).get("default")) is not None:
                found[key] = default
        if not found:
            names = ", ".join(keys)
            return f"associative list with keys has an element that omits all key fields ({names})"
        return _identity(found)


def list_type(schema: Schema) -> tuple[bool, tuple[str, ...]]:
    """Whether items are told apart, and by which keys; without keys a list is a set."""
    declared = schema.get("x-kubernetes-list-type")
    if declared is not None:
        keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if declared == "map" else ()
        return declared in ("map", "set"), keys
    if schema.get("x-kubernetes-patch-strategy", "").startswith("merge"):
        key = schema.get("x-kubernetes-patch-merge-key")
        return True, (key,) if key else ()
    return False, ()


def _set_key(item: object) -> bytes | str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null" if item is None else _identity(item)


def _identity(value: object) -> bytes:
    """Equal for equal values; 1 and 1.0 are equal."""
    return canonical_json(_integral(value))


def _integral(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(child) for key, child in value.items()}
    return [_integral(child) for child in value] if isinstance(value, list) else value


def _expected(declared: str, form: str, value: object) -> str | None:
    """What was expected instead of the value."""
    compound = isinstance(value, dict | list)
    if declared == "object":
        return "expected map"
    if declared == "array":
        return "expected list"
    if declared in ("integer", "number"):
        return None if type(value) in (int, float) else "expected numeric (int or float)"
    if declared == "boolean":
        return None if type(value) is bool else "expected boolean"
    if declared == "string" and form in ("", "byte"):
        return None if type(value) is str else "expected string"
    if declared == "":
        return None
    return "expected any scalar" if compound else None


def json_type(value: object) -> str:
    """Its name in schemas; what a message may say of a value."""
    if value is None:
        return "null"
    return _JSON_TYPES.get(type(value), "object")


_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
