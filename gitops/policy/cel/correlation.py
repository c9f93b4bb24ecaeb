"""What in the old object a value corresponds to, and whether it has not changed.

Source: k8s.io/apiserver/pkg/cel/common (equality.go, maplist.go). A value that cannot be told to be the same as before
counts as changed: so does every object with fields that the schema does not list, and thereby every root.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.policy.cel.values import Schema, key_of, values_schema

MISSING: Any = object()
"""There is nothing in the old object that corresponds."""


def items_by_key(old: Any, schema: Schema) -> Mapping[Hashable, Any]:
    """Old items of a keyed list; those of other lists correspond to nothing."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    result: dict[Hashable, Any] = {}
    for item in old:
        if isinstance(item, dict):
            result.setdefault(key_of(item, schema), item)
    return result


def field_of(old: Any, name: str, schema: Schema) -> Any:
    """The old value of a field or map key, if the schema knows it; else MISSING."""
    known = name in (schema.get("properties") or {}) or values_schema(schema) is not None
    return old.get(name, MISSING) if known and isinstance(old, dict) else MISSING


def unchanged(new: Any, old: Any, schema: Schema) -> bool:
    """Whether both are the same for certain."""
    if old is MISSING or (new is None) != (old is None):
        return False
    if isinstance(new, list) and isinstance(old, list):
        return _unchanged_list(new, old, schema)
    if isinstance(new, dict) and isinstance(old, dict):
        return len(new) == len(old) and all(
            unchanged(value, field_of(old, name, schema), child_schema(schema, name)) for name, value in new.items()
        )
    return identical(new, old)


def _unchanged_list(new: list[Any], old: list[Any], schema: Schema) -> bool:
    if len(new) != len(old):
        return False
    if schema.get("x-kubernetes-list-type") != "map":
        return identical(new, old)
    before = items_by_key(old, schema)
    return all(unchanged(item, before.get(key_of(item, schema), MISSING), schema.get("items") or {}) for item in new)


def child_schema(schema: Schema, name: str) -> Schema:
    return (schema.get("properties") or {}).get(name) or values_schema(schema) or {}


def identical(a: Any, b: Any) -> bool:
    """Equal as Go sees it: 1, 1.0 and true are three values."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict) and a.keys() == b.keys() and all(identical(value, b[key]) for key, value in a.items())
        )
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(identical, a, b))
    return type(a) is type(b) and bool(a == b)


@dataclass(frozen=True, slots=True)
class Correlation:
    """What tolerating an old mistake rests on: a value and its old one, or those of the nearest ancestor that has one.

    A failing rule is tolerated when that has not changed.
    """

    pair: tuple[Any, Any, Schema] | None = None
    above: tuple[Any, Any, Schema] | None = None

    def tolerates(self) -> bool:
        pair = self.pair or self.above
        return pair is not None and unchanged(*pair)

    def field(self, name: str) -> Correlation:
        if self.pair is None:
            return self
        if self.above is None and name in ("apiVersion", "kind"):
            return Correlation()  # both objects come in the version that was asked for
        new, old, schema = self.pair
        return self._below(new.get(name), field_of(old, name, schema), child_schema(schema, name))

    def item(self, at: int) -> Correlation:
        if self.pair is None:
            return self
        new, old, schema = self.pair
        other = items_by_key(old, schema).get(key_of(new[at], schema), MISSING)
        return self._below(new[at], other, schema.get("items") or {})

    def _below(self, new: Any, old: Any, schema: Schema) -> Correlation:
        return Correlation(None if old is MISSING else (new, old, schema), self.pair)
