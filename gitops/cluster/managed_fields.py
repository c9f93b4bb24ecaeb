"""managedFields: who owns which path of a live object, read without a schema.

A `fieldsV1` tree is a set of paths. A child named `f:x` is a field, `k:{…}` an item of a keyed list, `v:…` a member of
a set, `i:n` an item by position; `.` says that the node itself is in the set, and so does an empty node. Which lists
are keyed is read off the tree, the only place where an object tells it (structured-merge-diff, fieldpath/serialize.go).

Pure functions on decoded JSON. `Tree` is the decoded fieldsV1 (or a node of it).
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Tree = Mapping[str, Any]

DIGEST_SIZE = 16
"""Bytes of every digest in gitops/cluster."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class ElementKind(enum.StrEnum):
    FIELD = "f"
    KEY = "k"
    VALUE = "v"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class Element:
    """One step of an owned path. `value` is a field name, a key as sorted (name, value) pairs, a scalar or an index."""

    kind: ElementKind
    value: Any

    def __str__(self) -> str:
        if self.kind is ElementKind.FIELD:
            return str(self.value)
        if self.kind is ElementKind.KEY:
            return "[" + ",".join(f"{name}={value}" for name, value in self.value) + "]"
        return f"[{self.value}]"


@functools.lru_cache(maxsize=1 << 14)
def parse_element(name: str) -> Element | None:
    """A child's name in a tree; None for `.` and for what this version does not know. Cached: the same names come with
    every event of every object."""
    prefix, text = name[:2], name[2:]
    if prefix == "f:":
        return Element(ElementKind.FIELD, text)
    if prefix == "k:":
        return Element(ElementKind.KEY, tuple(sorted(_decode(text).items())))
    if prefix == "v:":
        return Element(ElementKind.VALUE, _decode(text))
    if prefix == "i:":
        return Element(ElementKind.INDEX, int(text))
    return None


OwnedPath = tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote, as managedFields tell it. `manager` is "" when unknown; `time` is the server's RFC 3339 text, UTC."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""


UNKNOWN_WRITER = Writer()


def entries(live: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """All managedFields entries of an object."""
    metadata = live.get("metadata")
    found = metadata.get("managedFields") if isinstance(metadata, dict) else None
    return found if isinstance(found, list) else ()


def our_entry(live: Mapping[str, Any], manager: str) -> Mapping[str, Any] | None:
    """The entry of `manager`'s applies. There is at most one: an applier is known by its name alone, whatever the
    version (apimachinery, managedfields.BuildManagerIdentifier)."""
    for entry in entries(live):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return entry
    return None


def tree_of(entry: Mapping[str, Any] | None) -> Tree | None:
    """The entry's fieldsV1; None when there is none."""
    tree = entry.get("fieldsV1") if entry is not None else None
    return tree if isinstance(tree, dict) else None


def digest_of_entry(entry: Mapping[str, Any] | None) -> bytes | None:
    """16 bytes over version and owned paths of an entry. Its time does not count."""
    if entry is None:
        return None
    text = _encode((entry.get("apiVersion"), entry.get("fieldsV1")))
    return hashlib.blake2b(text, digest_size=DIGEST_SIZE).digest()


def entry_digest(live: Mapping[str, Any], manager: str) -> bytes | None:
    """`digest_of_entry` of our entry; None when we own nothing."""
    return digest_of_entry(our_entry(live, manager))


def writer_of(entry: Mapping[str, Any]) -> Writer:
    return Writer(
        manager=str(entry.get("manager") or ""),
        operation=str(entry.get("operation") or ""),
        subresource=str(entry.get("subresource") or ""),
        time=str(entry.get("time") or ""),
    )


def is_member(node: Tree) -> bool:
    """Whether the node itself is in the set, not only something below it."""
    return not node or "." in node


def has_fields(node: Tree) -> bool:
    """Whether it owns fields one by one: what it describes is a granular map or an item of a list."""
    return any(name.startswith("f:") for name in node)


def child(node: Tree, element: Element) -> Tree | None:
    """The node one step further; None when nothing there is owned. Keys compare by value, not by their text."""
    if element.kind is ElementKind.FIELD:
        found = node.get(f"f:{element.value}")
    else:
        found = next(
            (sub for name, sub in node.items() if name[:1] == element.kind and parse_element(name) == element), None
        )
    return found if isinstance(found, dict) else None


def descend(tree: Tree, path: OwnedPath) -> Tree | None:
    """The node at `path`; None when neither the path nor anything below it is owned."""
    node: Tree | None = tree
    for element in path:
        if node is None:
            return None
        node = child(node, element)
    return node


def members(tree: Tree, path: OwnedPath = ()) -> Iterator[OwnedPath]:
    """Every path in the set, in the tree's order."""
    if path and is_member(tree):
        yield path
    for name, sub in tree.items():
        element = parse_element(name)
        if element is not None and isinstance(sub, dict):
            yield from members(sub, (*path, element))


def step(value: Any, element: Element) -> Any:
    """What of a value a step of an owned path leads to; None when there is nothing. An item is found also where it
    leaves out a key field, which then has its default."""
    wanted = element.value
    if element.kind is ElementKind.FIELD:
        return value.get(wanted) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    if element.kind is ElementKind.KEY:
        return next((i for i in value if isinstance(i, dict) and all(i.get(n, v) == v for n, v in wanted)), None)
    if element.kind is ElementKind.VALUE:
        return wanted if wanted in value else None
    return value[wanted] if wanted < len(value) else None


def value_at(value: Any, path: OwnedPath) -> Any:
    """The value at an owned path; None when there is none."""
    for element in path:
        value = step(value, element)
    return value
