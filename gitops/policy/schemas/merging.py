"""What a live object becomes when another is applied to it: server-side apply's merging and pruning.

Fields of maps, items of keyed lists and of sets that the applied object does not name go when the manager that applies
owned them and nobody else does; all else stays. Two surprises: a map that is declared empty and is left with nothing
this way is null, and most schemas refuse null; an empty list with keys, or a map of nothing but such, owns nothing and
so counts as not named. Who owns what is told by `metadata.managedFields` (its format: KEP-555).

Sources: structured-merge-diff, merge/update.go (`prune`) and typed/remove.go; run against an API server of 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.manifests.canonical import canonical_json
from gitops.policy.schemas.reading import Schema
from gitops.policy.schemas.typed import Types, list_type

Tree = Mapping[str, Any]
"""fieldsV1: `f:name`, `k:{"name":"x"}` and `v:"x"` below each other."""

MANAGERS = "gitops-"
"""How the field managers of reconcilers start."""

_GONE = object()


class _Everything(dict[str, Any]):
    """The tree of a manager that owns all there is."""

    def get(self, key: str, default: Any = None) -> Any:
        return self


@dataclass(frozen=True, slots=True)
class Owners:
    """Of one field and below it; `ours` is None where the manager that applies owns nothing."""

    ours: Tree | None
    theirs: tuple[Tree, ...] = ()

    def below(self, element: str) -> Owners:
        ours = None if self.ours is None else self.ours.get(element)
        found = (tree.get(element) for tree in self.theirs)
        return Owners(ours, tuple(tree for tree in found if tree is not None))


_NOBODY = Owners(None)


def outcomes(
    live: Mapping[str, Any], body: Mapping[str, Any], schema: Schema, types: Types, *, declared: bool = False
) -> list[dict[str, Any]]:
    """The object as it will be. Two of them when it is not known who owns what: what `body` no longer has stays, or
    goes. `declared`: the live object is what we declared and nothing else, so it goes."""
    known = None if declared else _owners(live, body.get("apiVersion"))
    everything: dict[str, Tree] = {f"f:{key}": _Everything() for key in live if key not in ("metadata", "status")}
    everything["f:metadata"] = {"f:labels": _Everything(), "f:annotations": _Everything()}
    merge = _Merge(types)
    possible = [known] if known else [Owners(everything)] if declared else [_NOBODY, Owners(everything)]
    return [merge.applied(live, body, schema, owners) for owners in possible]


def _owners(live: Mapping[str, Any], api_version: object) -> Owners | None:
    """None where managedFields do not tell, or at another version."""
    metadata = live.get("metadata") or {}
    entries = [entry for entry in metadata.get("managedFields") or () if isinstance(entry, dict)]
    ours = [entry for entry in entries if _is_ours(entry)]
    if len(ours) != 1 or any(entry.get("apiVersion") != api_version for entry in entries):
        return None
    theirs = tuple(entry.get("fieldsV1") or {} for entry in entries if entry is not ours[0])
    return Owners(ours[0].get("fieldsV1") or {}, theirs)


def _is_ours(entry: Mapping[str, Any]) -> bool:
    applied = entry.get("operation") == "Apply" and not entry.get("subresource")
    return applied and str(entry.get("manager")).startswith(MANAGERS)


class _Merge:
    def __init__(self, types: Types) -> None:
        self._types = types

    def applied(self, old: Any, new: Any, schema: Schema, owners: Owners) -> Any:
        schema = self._types.resolved(schema)[0]
        before = self._members(old, schema)
        after = {} if new is None else self._members(new, schema)  # null names nothing, and so do empty ones
        if before is None or after is None or type(new) not in (type(old), type(None)):
            return new
        result = {}
        for element, (value, below) in {**after, **before}.items():
            named, known = element in after, element in before
            if not known:
                result[element] = value
            elif named and self._owns(after[element][0], below):
                result[element] = self.applied(value, after[element][0], below, owners.below(element))
            elif (left := self._left(value, below, owners.below(element))) is not _GONE:
                result[element] = left
        return _made(result, old) if result or (not before and new is not None) else None

    def _owns(self, value: Any, schema: Schema) -> bool:
        """Whether declaring it makes anything owned."""
        members = self._members(value, self._types.resolved(schema)[0])
        if members is None or not isinstance(value, dict):
            return members is None or bool(members)
        return not value or any(self._owns(child, below) for child, below in members.values())

    def _left(self, value: Any, schema: Schema, owners: Owners) -> Any:
        """Of what the applied object does not name."""
        if owners.ours is None:
            return value
        if not owners.theirs:
            return _GONE
        members = self._members(value, self._types.resolved(schema)[0])
        if members is None:
            return value
        left = {name: self._left(child, below, owners.below(name)) for name, (child, below) in members.items()}
        return _made({name: child for name, child in left.items() if child is not _GONE}, value)

    def _members(self, value: Any, schema: Schema) -> dict[str, tuple[Any, Schema]] | None:
        """What can be owned apart, by its name in fieldsV1, with its schema; None where the value is owned whole."""
        if isinstance(value, dict) and schema.get("x-kubernetes-map-type") != "atomic":
            return {f"f:{key}": (child, _schema_of(key, schema)) for key, child in value.items()}
        associative, keys = list_type(schema)
        if isinstance(value, list) and associative:
            return dict(self._items(value, schema.get("items", {}), keys))
        return None

    def _items(
        self, items: list[Any], schema: Schema, keys: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[Any, Schema]]]:
        for item in items:
            if not keys:
                yield f"v:{canonical_json(item).decode()}", (item, schema)
                continue
            key = self._types.key_of(schema, keys, item)
            if isinstance(key, bytes):
                yield f"k:{key.decode()}", (item, schema)


def _schema_of(key: str, schema: Schema) -> Schema:
    below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return below if isinstance(below, dict) else {}


def _made(members: Mapping[str, Any], like: Any) -> Any:
    if isinstance(like, list):
        return list(members.values())
    return {element.removeprefix("f:"): child for element, child in members.items()}
