"""Field digests: what is kept of a watched object, and what an event costs when nothing of ours moved.

Our entry in managedFields shrinks whenever somebody else changes or removes a value that we own, and stays as it is
when they add beside it or write the same. What it cannot see (an admission webhook that rewrites our value during
another write, a writer under our name, a changed order of list items) the digest of owned values sees. So two 16-byte
digests stand for an object, and only when one moves are values compared (`compare`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster import list_items
from gitops.cluster.comparison import Comparison, DifferenceKind, FieldDifference, compare
from gitops.cluster.list_items import Layout
from gitops.cluster.managed_fields import (
    DIGEST_SIZE,
    Tree,
    digest_of_entry,
    entry_digest,
    our_entry,
    tree_of,
)
from gitops.cluster.payloads import SERVER_METADATA, SERVER_ROOT, describe

__all__ = [
    "Comparison",
    "DifferenceKind",
    "FieldDifference",
    "Fingerprint",
    "compare",
    "describe",
    "entry_digest",
    "fingerprint",
    "our_entry",
    "values_digest",
]

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is kept of one applied object: about 300 bytes. `entry_digest` is None when we own nothing of it."""

    uid: str
    generation: int | None
    resource_version: str
    entry_digest: bytes | None
    values_digest: bytes
    entry_version: str = ""

    def same_fields(self, other: Fingerprint) -> bool:
        """Whether it is the same object and nothing of ours moved between the two; what others did does not count."""
        return (
            self.entry_digest == other.entry_digest
            and self.values_digest == other.values_digest
            and self.uid == other.uid
        )


def fingerprint(payload: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> Fingerprint:
    """The fingerprint of `live` for the object that we declare as `payload` under field manager `manager`.

    The baseline is the fingerprint of the response to our apply (never of the payload: admission may have changed it).
    """
    metadata = live.get("metadata") or {}
    entry = our_entry(live, manager)
    return Fingerprint(
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation"),
        resource_version=metadata.get("resourceVersion", ""),
        entry_digest=digest_of_entry(entry),
        values_digest=_values_digest(payload, live, tree_of(entry)),
        entry_version="" if entry is None else str(entry.get("apiVersion", "")),
    )


def values_digest(payload: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> bytes:
    """16 bytes over the live values at the declared paths, in the order of the payload.

    Of a keyed list or set: the declared items, and how they stand to each other; items of others do not count. Atomic
    lists and maps count wholly, so do lists of which we own nothing. A declared `{}` counts by presence: children that
    others put into it are theirs.
    """
    return _values_digest(payload, live, tree_of(our_entry(live, manager)))


def _values_digest(payload: Mapping[str, Any], live: Mapping[str, Any], tree: Tree | None) -> bytes:
    root: Tree = tree if tree is not None else _NOTHING
    found = []
    for key, value in payload.items():
        if key in SERVER_ROOT:
            continue
        if key == "metadata" and type(value) is dict:
            metadata, node = live.get("metadata") or _NOTHING, root.get("f:metadata", _NOTHING)
            for name, part in value.items():
                if name not in SERVER_METADATA:
                    found.append(_project(part, metadata.get(name), node.get(f"f:{name}")))
        else:
            found.append(_project(value, live.get(key), root.get(f"f:{key}")))
    return hashlib.blake2b(_encode(found), digest_size=DIGEST_SIZE).digest()


_NOTHING: Mapping[str, Any] = {}


def _project(declared: Any, live: Any, node: Any) -> Any:
    """The part of `live` that `declared` names. `node` is our entry's node there, None when nothing is owned.

    Written for speed: it runs for every event of every object.
    """
    if type(declared) is dict:
        if not declared:
            # No longer ours: it may be an atomic map that somebody filled.
            return live if node is None else type(live) is dict
        if type(live) is not dict or (node is not None and not node):
            return live
        found = []
        for name, value in declared.items():
            there = live.get(name)
            if type(value) in _NESTED:
                there = _project(value, there, None if node is None else node.get("f:" + name))
            found.append(there)
        return found
    if type(declared) is list and node and type(live) is list:
        return _project_items(declared, live, node)
    return live


_NESTED = frozenset({dict, list})


def _project_items(declared: list[Any], live: list[Any], node: Tree) -> Any:
    shape = list_items.shape_of(node)
    if shape.layout is Layout.ATOMIC:
        return live
    owned = list_items.owned_items(node)
    places = list_items.positions(live, shape)
    order: list[int] = []
    found: list[Any] = []
    last, ordered = -1, True
    for item, key in zip(declared, list_items.resolve(declared, shape, owned, places), strict=True):
        where = places.get(key, ())
        if len(where) == 1:
            place = where[0]
            ordered = ordered and place > last
            last = place
            order.append(place)
            found.append(_project(item, live[place], owned[key][1] if key in owned else None))
        else:
            found.append([live[i] for i in where])
    if not ordered:
        found.append(sorted(range(len(order)), key=order.__getitem__))
    return found
