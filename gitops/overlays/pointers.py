"""JSON Pointer (RFC 6901): from text to segments, and from segments to a place in an object.

`01`, `-1` and, where nothing is added, `-` are no list positions; what is missing on the way is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path

Pointer = tuple[str, ...]
"""Unescaped segments; () is the whole document."""

END = "-"
"""The position after the last item of a list."""

_SHOWN = 200

_BAD_ESCAPE = re.compile(r"~(?![01])")
_POSITION = re.compile(r"(0|[1-9][0-9]{0,8})\Z")


class PointerError(ValueError):
    """A pointer that is malformed or does not fit the object; the text says how and holds no value."""


class MissingError(PointerError):
    """Something that is not there; `parent` when it is on the way and not the last segment."""

    def __init__(self, at: str, *, parent: bool) -> None:
        super().__init__(f"there is no {shown(at)}")
        self.at = at
        self.parent = parent


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pointer leads: the map or list that has, or is to get, a value, and its key or position there."""

    container: Any
    key: str | int
    path: Path

    @property
    def there(self) -> bool:
        """Whether the map has the key, or the list an item at the position."""
        return self.key in self.container if isinstance(self.key, str) else self.key < len(self.container)

    @property
    def value(self) -> Any:
        return self.container[self.key]


def parse(text: str) -> Pointer:
    """The segments of a pointer. Raises PointerError."""
    if text and not text.startswith("/"):
        raise PointerError(f"`{shown(text)}` does not begin with /")
    if _BAD_ESCAPE.search(text):
        raise PointerError(f"`{shown(text)}` has a ~ that is neither ~0 (for ~) nor ~1 (for /)")
    return tuple(segment.replace("~1", "/").replace("~0", "~") for segment in text.split("/")[1:])


def written(pointer: Pointer) -> str:
    """The reverse of parse()."""
    return "".join("/" + segment.replace("~", "~0").replace("/", "~1") for segment in pointer)


def shown(text: str) -> str:
    """A pointer or segment as messages quote it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def locate(document: Any, pointer: Pointer, *, adding: bool = False) -> Place:
    """The place of a pointer with at least one segment; with `adding` also of a key or list position that is new.

    Raises PointerError; MissingError when something is not there.
    """
    parent: Any = document
    path: Path = ()
    for depth, segment in enumerate(pointer[:-1]):
        place = _step(parent, segment, pointer[:depth], path, adding=False)
        if not place.there:
            raise MissingError(written(pointer[: depth + 1]), parent=True)
        parent, path = place.value, place.path
    place = _step(parent, pointer[-1], pointer[:-1], path, adding=adding)
    if not (adding or place.there):
        raise MissingError(written(pointer), parent=False)
    return place


def _step(container: Any, segment: str, before: Pointer, path: Path, *, adding: bool) -> Place:
    if isinstance(container, dict):
        return Place(container, segment, (*path, segment))
    where = shown(written(before)) or "the object"
    if not isinstance(container, list):
        raise PointerError(f"{where} is neither a map nor a list and has no `{shown(segment)}`")
    position = _position(container, segment, where, adding=adding)
    return Place(container, position, (*path, position))


def _position(items: list[Any], segment: str, where: str, *, adding: bool) -> int:
    if segment == END and adding:
        return len(items)
    if segment == END:
        raise PointerError(f"`-` is the end of the list {where}, where nothing is yet")
    if not _POSITION.match(segment):
        raise PointerError(f"`{shown(segment)}` is no position of the list {where}")
    position = int(segment)
    if position > len(items) or (position == len(items) and not adding):
        raise PointerError(f"the list {where} has {len(items)} items and no position {position}")
    return position
