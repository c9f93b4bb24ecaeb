"""Unmanaged additions: what others put into our objects by hand, that nobody in Git declares.

It is no drift, since nothing declared moved, and an apply never takes it away; but nobody finds it in Git either. Known
from managedFields alone: the paths of other managers below which we own nothing. What controllers add as part of their
work, the server's defaults, status and finalizers are none; which managers are controllers says the caller.
Pure functions on decoded JSON; values are not looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster import managed_fields
from gitops.cluster.leftovers import shown
from gitops.cluster.managed_fields import DIGEST_SIZE, Element, ElementKind, OwnedPath, Tree
from gitops.model.identity import GroupKind
from gitops.policy.ownership import Ownership
from gitops.readiness.texts import one_line

MOST_ADDITIONS = 20
"""Of one object; how many more there are is told."""

_encode = msgspec.json.Encoder(order="deterministic").encode

_OPEN_MAPS = frozenset({("metadata", "labels"), ("metadata", "annotations"), ("data",), ("binaryData",)})
"""Maps in which each key is somebody's, also where we have none; those of metadata in pod templates too."""
_NOT_TOLD = frozenset({("status",), ("metadata", "finalizers"), ("metadata", "ownerReferences")})
_TOOLS_NOTES = (
    "kubectl.kubernetes.io/",  # last-applied-configuration, and restartedAt of a wanted restart
    "kubernetes.io/change-cause",
    "deployment.kubernetes.io/",
)
"""Annotations that tools leave for themselves."""


@dataclass(frozen=True, slots=True)
class Addition:
    """`path` as people read it, `time` when its manager last wrote anything there, as the server tells it."""

    path: str
    manager: str
    operation: str
    time: str

    @property
    def by(self) -> str:
        return f"{self.manager} ({self.operation})" if self.operation else self.manager


@dataclass(frozen=True, slots=True)
class Additions:
    """Of one object, sorted by path; `more` are left out."""

    rows: tuple[Addition, ...] = ()
    more: int = 0


NOTHING_ADDED = Additions()


def additions_digest(live: Mapping[str, Any], manager: str, ours: bytes | None, *, table: Ownership) -> bytes:
    """What `additions` depends on, in 16 bytes; b"" when nobody could have added anything, as nearly always. `ours` is
    the digest of our own entry.

    Runs for every event of every object.
    """
    found = [
        (name, entry.get("apiVersion"), entry.get("fieldsV1"))
        for entry in managed_fields.entries(live)
        if not entry.get("subresource") and (name := entry.get("manager") or "") != manager and table.by_hand(name)
    ]
    return hashlib.blake2b(_encode((ours, found)), digest_size=DIGEST_SIZE).digest() if found else b""


def additions(
    live: Mapping[str, Any], manager: str, *, declared: Mapping[str, Any], kind: GroupKind, table: Ownership
) -> Additions:
    """What others added by hand to an object that Git has as `declared`, but for what a rule yields to them. Nothing
    while our own entry is missing or of another version: then nobody can tell what is whose."""
    entry, version = managed_fields.our_entry(live, manager), live.get("apiVersion")
    ours = managed_fields.tree_of(entry)
    if entry is None or ours is None or entry.get("apiVersion") != version:
        return NOTHING_ADDED
    found: dict[str, Addition] = {}
    for other in managed_fields.entries(live):
        name, theirs = str(other.get("manager") or ""), managed_fields.tree_of(other)
        if other.get("subresource") or name == manager or theirs is None or not table.by_hand(name):
            continue
        if other.get("apiVersion") != version:
            continue
        writer = managed_fields.writer_of(other)
        for path in _beyond(ours, declared, theirs, ()):
            yielded = table.answer(kind, name, "", _names(path), default="take", scaled=True) == "yield"
            if not yielded:
                text = shown(path)
                found[text] = Addition(text, one_line(name, 120), writer.operation, writer.time)
    rows = [found[text] for text in sorted(found)]
    return Additions(tuple(rows[:MOST_ADDITIONS]), max(0, len(rows) - MOST_ADDITIONS))


def _beyond(ours: Tree | None, declared: Any, theirs: Tree, path: OwnedPath) -> Iterator[OwnedPath]:
    """The outermost paths of theirs at and below which we own nothing, and Git declares nothing: what is declared and
    was taken from us is drift."""
    for name, sub in theirs.items():
        element = managed_fields.parse_element(name)
        if element is None or not isinstance(sub, dict):
            continue
        here = (*path, element)
        if _is_not_told(here):
            continue
        mine = managed_fields.child(ours, element) if ours is not None else None
        value = managed_fields.step(declared, element)
        if mine is not None or value is not None or _is_open_map(_names(here)):
            yield from _beyond(mine, value, sub, here)
        else:
            yield here


def _names(path: Sequence[Element]) -> tuple[str, ...]:
    return tuple(str(e.value) if e.kind is ElementKind.FIELD else "" for e in path)


def _is_open_map(names: tuple[str, ...]) -> bool:
    return names in _OPEN_MAPS or names[-1] == "metadata" or (len(names) > 2 and names[-2:] in _OPEN_MAPS)


def _is_not_told(path: OwnedPath) -> bool:
    names = _names(path)
    if names in _NOT_TOLD:
        return True
    return len(names) > 2 and names[-3:-1] == ("metadata", "annotations") and names[-1].startswith(_TOOLS_NOTES)
