"""Ratcheting (KEP-4008): what breaks a rule may stay when it, or anything around it, is as it was.

Only fields and items of keyed lists are known to be the same part of the live object and of the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitops.manifests.canonical import same_json
from gitops.manifests.lines import Path
from gitops.policy.schemas.reading import Schema
from gitops.policy.schemas.typed import Types, list_type

_ABSENT = object()


def tolerance(schema: Schema, new: Any, old: Any, types: Types) -> Callable[[Path], bool]:
    """Tells whether what is wrong at a path of `new` may stay so, `old` being the live object."""

    def tolerates(path: Path) -> bool:
        here, there, below = new, old, schema
        if _unchanged(here, there, below, types):
            return True
        for at, segment in enumerate(path):
            if at == 0 and segment in ("apiVersion", "kind"):
                return False
            here, there, below = _step(segment, here, there, below, types)
            if there is _ABSENT:
                return False
            if _unchanged(here, there, below, types):
                return True
        return False

    return tolerates


def _unchanged(here: Any, there: Any, schema: Schema, types: Types) -> bool:
    """As the server compares: what its schema does not name is never the same, however equal (CachedDeepEqual)."""
    maps = isinstance(here, dict) and isinstance(there, dict)
    keyed = isinstance(here, list) and isinstance(there, list) and bool(list_type(schema)[1])
    if not maps and not keyed:
        return same_json(here, there)
    if len(here) != len(there):
        return False
    for segment in here if maps else range(len(here)):
        child, other, below = _step(segment, here, there, schema, types)
        if other is _ABSENT or not _unchanged(child, other, below, types):
            return False
    return True


def never(path: Path) -> bool:
    return False


def _step(segment: str | int, here: Any, there: Any, schema: Schema, types: Types) -> tuple[Any, Any, Schema]:
    if isinstance(segment, int):
        keys, items = list_type(schema)[1], schema.get("items", {})
        if not isinstance(here, list) or not isinstance(there, list) or not keys or segment >= len(here):
            return None, _ABSENT, {}
        if not all(key in (here[segment] or ()) for key in keys):
            return None, _ABSENT, {}
        wanted = types.key_of(items, keys, here[segment])
        matching = [item for item in there if types.key_of(items, keys, item) == wanted]
        return here[segment], matching[0] if matching else _ABSENT, items
    below = schema.get("properties", {}).get(segment, schema.get("additionalProperties"))
    known = isinstance(here, dict) and isinstance(there, dict) and isinstance(below, dict)
    if not known or segment not in here or segment not in there:
        return None, _ABSENT, {}
    return here[segment], there[segment], below
