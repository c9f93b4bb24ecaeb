"""Items of lists: how a live list is laid out, and which live item is which declared one.

The fieldsV1 trees tell whether a list is keyed (`k:{…}`), a set (`v:…`) or atomic (a leaf). An item is matched by its
keys, never by its position. A key that the payload leaves out has a default in the schema (`protocol` of a container
port): the API server fills it in before it builds the key, so such an item matches the live one that agrees on the
rest.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster.managed_fields import Element, ElementKind, Tree

Key = tuple[Any, ...]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode
_MISSING = object()


class Layout(enum.Enum):
    UNKNOWN = "unknown"  # nobody owns anything in it
    ATOMIC = "atomic"
    KEYED = "keyed"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Shape:
    """Layout of one list; `names` are the key fields of a keyed one, sorted."""

    layout: Layout
    names: tuple[str, ...] = ()


_ATOMIC = Shape(Layout.ATOMIC)
_SET = Shape(Layout.SET)
UNKNOWN_SHAPE = Shape(Layout.UNKNOWN)


def shape_of(node: Tree | None) -> Shape:
    """The list's layout as one entry's node shows it."""
    if node is None:
        return UNKNOWN_SHAPE
    for name in node:
        prefix = name[:2]
        if prefix == "k:":
            return Shape(Layout.KEYED, tuple(sorted(_decode(name[2:]))))
        if prefix == "v:":
            return _SET
    return _ATOMIC


def shape_by_all(node: Tree | None, others: Iterable[Tree]) -> Shape:
    """The layout by all entries: items that anybody owns one by one outweigh a bare leaf, which may also mean that
    only the list itself is owned."""
    own = shape_of(node)
    if own.layout in (Layout.KEYED, Layout.SET):
        return own
    seen = own
    for other in others:
        shape = shape_of(other)
        if shape.layout in (Layout.KEYED, Layout.SET):
            return shape
        seen = shape if seen.layout is Layout.UNKNOWN else seen
    return seen


def key_of(item: Any, shape: Shape) -> Key:
    """The item's key; `_MISSING` stands where the item leaves a key field out."""
    if shape.layout is Layout.SET:
        return (_hashable(item),)
    if not isinstance(item, dict):
        return (_hashable(item), _MISSING)
    return tuple(_hashable(item.get(name, _MISSING)) for name in shape.names)


def _hashable(value: Any) -> Any:
    if isinstance(value, bool):
        return ("bool", value)  # True is 1 to Python, not to an API server
    return _encode(value) if isinstance(value, (dict, list)) else value


def owned_items(node: Tree | None, shape: Shape) -> dict[Key, tuple[Element, Tree]]:
    """The items a node owns, by key."""
    found: dict[Key, tuple[Element, Tree]] = {}
    if node is None:
        return found
    for name, sub in node.items():
        if name[:2] == "k:":
            values = _decode(name[2:])
            key = tuple(_hashable(values.get(n, _MISSING)) for n in shape.names)
            found[key] = (Element(ElementKind.KEY, tuple(sorted(values.items()))), sub)
        elif name[:2] == "v:":
            value = _decode(name[2:])
            found[(_hashable(value),)] = (Element(ElementKind.VALUE, value), sub)
    return found


def positions(items: Sequence[Any], shape: Shape) -> dict[Key, list[int]]:
    """Where each key stands in a list; more than one place is a duplicate."""
    found: dict[Key, list[int]] = {}
    for position, item in enumerate(items):
        found.setdefault(key_of(item, shape), []).append(position)
    return found


_KEY_DEFAULTS = {"protocol": "TCP"}
"""Of container and Service ports in core/v1, which custom resources copy: the only key fields there with a default."""


def resolve(items: Sequence[Any], shape: Shape, owned: Iterable[Key], live: Iterable[Key] = ()) -> list[Key]:
    """The full key of each declared item. A key field that an item leaves out is taken from the key we own, else from
    the well-known default, else from a live item. Of two ports 53 one says UDP: the other resolves to the other."""
    keys = [key_of(item, shape) for item in items]
    if not any(_MISSING in key for key in keys):
        return keys
    ours, there = list(owned), list(live)
    taken = {key for key in keys if _MISSING not in key}
    resolved = []
    for key in keys:
        if _MISSING in key:
            key = _agreeing(key, ours, taken) or _defaulted(key, shape, taken) or _agreeing(key, there, taken) or key
            taken.add(key)
        resolved.append(key)
    return resolved


def _agreeing(key: Key, known: Iterable[Key], taken: set[Key]) -> Key | None:
    for other in known:
        if len(other) == len(key) and other not in taken and _agree(key, other):
            return other
    return None


def _agree(key: Key, other: Key) -> bool:
    return all(a is _MISSING or a == b for a, b in zip(key, other, strict=True))


def _defaulted(key: Key, shape: Shape, taken: set[Key]) -> Key | None:
    if len(key) != len(shape.names):
        return None
    pairs = zip(shape.names, key, strict=True)
    filled = tuple(_KEY_DEFAULTS.get(name, value) if value is _MISSING else value for name, value in pairs)
    return None if _MISSING in filled or filled in taken else filled


def element_of(item: Any, shape: Shape, key: Key) -> Element:
    """The path element of a declared item that no entry owns; defaulted key fields come from the resolved key."""
    if shape.layout is Layout.SET:
        return Element(ElementKind.VALUE, item)
    pairs = []
    for name, value in zip(shape.names, key, strict=False):
        stated = item.get(name) if isinstance(item, dict) and name in item else None if value is _MISSING else value
        pairs.append((name, stated))
    return Element(ElementKind.KEY, tuple(pairs))


def in_order(places: Sequence[int]) -> bool:
    """Whether declared items stand in their declared order, whatever stands between them."""
    return all(a < b for a, b in itertools.pairwise(places))
