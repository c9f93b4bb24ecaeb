"""A value and its structural schema, walked together."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
Schema = dict[str, Any]

DROP = object()
"""Stands for "no value" in an edit."""

OPAQUE: Schema = {"x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class Node:
    """One value and what the schema says of it."""

    path: Path
    schema: Schema
    value: Any


def nodes(schema: Schema, value: Any, path: Path = ()) -> Iterator[Node]:
    """Every value that the schema describes; what is under preserve-unknown-fields alone comes without a schema."""
    yield Node(path, schema, value)
    if isinstance(value, dict):
        for key, child in value.items():
            below = child_schema(schema, key)
            if below is not None:
                yield from nodes(below, child, (*path, key))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from nodes(schema.get("items", OPAQUE), child, (*path, position))


def child_schema(schema: Schema, key: str) -> Schema | None:
    """The schema of a map's member; None when the map has no such member."""
    known: Schema | None = schema.get("properties", {}).get(key)
    if known is not None:
        return known
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    return OPAQUE if schema.get("x-kubernetes-preserve-unknown-fields") or additional is True else None


def edited(body: Any, path: Path, value: Any) -> Any:
    """A copy of `body` with another value at `path`, or without it (DROP). The parent must be there."""
    result = copy.deepcopy(body)
    if not path:
        return value
    parent = result
    for step in path[:-1]:
        parent = parent[step]
    if value is DROP:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return result
