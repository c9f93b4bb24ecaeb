"""What the API server would refuse in single fields, as far as it can be told without a whole schema.

Items of a list that share their key (SSA refuses them, kubernetes/kubernetes#113482), numbers where an operator's kind
wants text, and file modes that are not octal. Each problem is (code, message, path).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.overlays.shapes import ListKind, Shape
from gitops.policy import codes

Problem = tuple[str, str, Path]

HIGHEST_MODE = 0o777


def file_mode_problem(name: str, value: Any, owner: dict[str, Any]) -> str | None:
    """What is wrong with `defaultMode` of a volume or `mode` of its items; None for any other field."""
    is_mode = name == "defaultMode" or (name == "mode" and "path" in owner and ("key" in owner or "fieldRef" in owner))
    if not is_mode or isinstance(value, bool) or not isinstance(value, int) or 0 <= value <= HIGHEST_MODE:
        return None
    octal = f": write 0{value}" if value > 0 and not set(str(value)) - set("01234567") else ""
    return f"is {value}, and a file mode is at most {HIGHEST_MODE} (0777){octal}"


def equal_items(body: dict[str, Any], shape: Shape) -> Iterator[Problem]:
    """Items of keyed lists and sets that the API server cannot tell apart, each with the one before it."""
    yield from _equal(body, shape, ())


def _equal(value: Any, shape: Shape, path: Path) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key in value if shape.values else shape.fields:
            if key in value:
                yield from _equal(value[key], shape.below(key), (*path, key))
    elif isinstance(value, list):
        if shape.kind is not ListKind.ATOMIC:
            yield from _equal_in(value, shape, path)
        if shape.items is not None:
            for position, item in enumerate(value):
                yield from _equal(item, shape.items, (*path, position))


def _equal_in(items: list[Any], shape: Shape, path: Path) -> Iterator[Problem]:
    first: dict[bytes, int] = {}
    for position, item in enumerate(items):
        key = shape.identify(item)
        if key is None:
            continue
        other = first.setdefault(key, position)
        if other != position:
            what = f"the same {' and '.join(shape.keys)} as" if shape.keys else "the value of"
            message = f"{dotted((*path, position))} has {what} {dotted((*path, other))}"
            yield codes.EQUAL_ITEMS, message, (*path, position)


Identity = tuple[str, ...]
"""What tells values at one pattern apart: for each `*` the key of a map, or the `name` of a list's item."""


def values_at(value: Any, pattern: str) -> Iterator[tuple[Path, Any]]:
    """Values at a path such as `/spec/image/tag`, each with its path; `*` is every item of a list or key of a map, `~1`
    a slash in a key, `~0` a tilde (RFC 6901)."""
    for _, path, found in named_values_at(value, pattern):
        yield path, found


def named_values_at(value: Any, pattern: str) -> Iterator[tuple[Identity, Path, Any]]:
    """As values_at, each also with its identity: the same in two states of an object, wherever the item stands. An item
    without a name is told apart by its position. The pattern "" is the value itself."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pattern.strip("/").split("/")]
    return _values(value, parts if pattern else [], (), ())


def _values(value: Any, parts: list[str], path: Path, identity: Identity) -> Iterator[tuple[Identity, Path, Any]]:
    if not parts:
        yield identity, path, value
        return
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        for key in value if head == "*" else [head]:
            if key in value:
                yield from _values(value[key], rest, (*path, key), (*identity, key) if head == "*" else identity)
    elif isinstance(value, list) and head == "*":
        for position, item in enumerate(value):
            name = item.get("name") if isinstance(item, dict) else None
            yield from _values(
                item, rest, (*path, position), (*identity, name if isinstance(name, str) else f"[{position}]")
            )
