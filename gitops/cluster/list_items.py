"""Items of lists: how a live list is laid out, and which live item is which declared one.

The fieldsV1 trees tell whether a list is keyed (`k:{…}`), a set (`v:…`) or atomic (a leaf). An item is matched by its
keys, never by its position. A key that the payload leaves out has a default in the schema (`protocol` of a container
port): the API server fills it in before it builds the key, so such an item matches the live one that agrees on the
rest.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster.managed_fields import Element, ElementKind, Tree, parse_element

Key = tuple[Any, ...]

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
            return _keyed_by(name)
        if prefix == "v:":
            return _SET
    return _ATOMIC


@functools.lru_cache(maxsize=1 << 14)
def _keyed_by(name: str) -> Shape:
    element = parse_element(name)
    return Shape(Layout.KEYED, tuple(pair[0] for pair in element.value) if element is not None else ())


@functools.lru_cache(maxsize=1 << 14)
def _item_key(name: str) -> tuple[Key, Element] | None:
    """Key and element of an item's name in a tree; None when it is no item."""
    element = parse_element(name)
    if element is None or element.kind not in (ElementKind.KEY, ElementKind.VALUE):
        return None
    if element.kind is ElementKind.VALUE:
        return (_hashable(element.value),), element
    return tuple(_hashable(value) for _, value in element.value), element


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
    if len(shape.names) == 1:
        return (_hashable(item.get(shape.names[0], _MISSING)),)
    return tuple(_hashable(item.get(name, _MISSING)) for name in shape.names)


def keys_of(items: Sequence[Any], shape: Shape) -> list[Key]:
    """The keys of all items. Nearly all lists are keyed by one text field, so that goes the short way."""
    if len(shape.names) == 1:
        name = shape.names[0]
        values = [item.get(name, _MISSING) if type(item) is dict else None for item in items]
        if all(type(value) is str for value in values):
            return [(value,) for value in values]
    return [key_of(item, shape) for item in items]


def _hashable(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return ("bool", value)  # True is 1 to Python, not to an API server
    return _encode(value) if isinstance(value, (dict, list)) else value


def owned_items(node: Tree | None) -> dict[Key, tuple[Element, Tree]]:
    """The items a node owns, by key."""
    found: dict[Key, tuple[Element, Tree]] = {}
    for name, sub in (node or {}).items():
        item = _item_key(name)
        if item is not None:
            found[item[0]] = (item[1], sub)
    return found


def positions(items: Sequence[Any], shape: Shape) -> dict[Key, list[int]]:
    """Where each key stands in a list; more than one place is a duplicate."""
    found: dict[Key, list[int]] = {}
    for position, key in enumerate(keys_of(items, shape)):
        if key in found:
            found[key].append(position)
        else:
            found[key] = [position]
    return found


_KEY_DEFAULTS = {"protocol": "TCP"}
"""Of container and Service ports in core/v1, which custom resources copy: the only key fields there with a default."""


def resolve(items: Sequence[Any], shape: Shape, owned: Iterable[Key], live: Iterable[Key] = ()) -> list[Key]:
    """The full key of each declared item. A key field that an item leaves out is taken from the key we own, else from
    the well-known default, else from a live item. Of two ports 53 one says UDP: the other resolves to the other."""
    keys = keys_of(items, shape)
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
