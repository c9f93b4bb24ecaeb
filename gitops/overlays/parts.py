"""Named parts of an object, such as the components of a graph: which there are, and which step changed that.

A list that a merge patch replaces drops what it does not repeat. For parts that must not come and go by accident every
step of merging is watched, so that whoever wrote the overlay can be told the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.overlays.json_patches import Operation
from gitops.overlays.patches import MergePatchSource


@dataclass(frozen=True, slots=True)
class Parts:
    """The keys of the map at `container` or, with `name`, the items of that list by their field of that name."""

    container: tuple[str, ...]
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Parts:
        """From `/spec/components/*/name` or `/spec/services/*`. Raises ValueError."""
        before, star, after = text.partition("/*")
        name = after.removeprefix("/")
        if not before.startswith("/") or not star or "*" in after or "/" in name or (after and not name):
            raise ValueError(f"not a path to named parts: {text!r}")
        return cls(tuple(before[1:].split("/")), name)

    def names(self, body: Any) -> frozenset[str]:
        for key in self.container:
            body = body.get(key) if isinstance(body, dict) else None
        if not self.name:
            return frozenset(body) if isinstance(body, dict) else frozenset()
        items = body if isinstance(body, list) else ()
        found = (item.get(self.name) for item in items if isinstance(item, dict))
        return frozenset(name for name in found if isinstance(name, str))


@dataclass(frozen=True, slots=True)
class PartsChange:
    """Parts that one step of merging added or took away. `asked` are those that the patch names in so many words: with
    a null for the key, or with an operation on exactly the item. `source` is the number of the patch."""

    parts: Parts
    names: frozenset[str]
    asked: frozenset[str]
    origin: Origin
    source: int


class PartsWatch:
    """Compares the parts of an object before and after each step."""

    def __init__(self, parts: Iterable[Parts], body: Any) -> None:
        self._names = {each: each.names(body) for each in parts}
        self.changes: list[PartsChange] = []

    def after_merge(self, body: Any, patch: MergePatchSource, source: int) -> None:
        for parts, names in self._changed(body):
            origin = patch.provenance.origin_of(parts.container)
            nulls = frozenset() if parts.name else _nulls(patch.patch, parts.container)
            self.changes.append(PartsChange(parts, names, names & nulls, origin, source))

    def after_operation(self, body: Any, operation: Operation, origin: Origin, source: int) -> None:
        for parts, names in self._changed(body):
            items = [operation.path] if operation.op in ("add", "remove", "copy", "move") else []
            items += [operation.source] if operation.op == "move" else []
            exact = any(item[:-1] == parts.container for item in items)
            self.changes.append(PartsChange(parts, names, names if exact else frozenset(), origin, source))

    def _changed(self, body: Any) -> Iterator[tuple[Parts, frozenset[str]]]:
        for parts, before in self._names.items():
            after = self._names[parts] = parts.names(body)
            if before != after:
                yield parts, before ^ after


def _nulls(patch: Any, container: Path) -> frozenset[str]:
    for key in container:
        patch = patch.get(key) if isinstance(patch, dict) else None
    return frozenset(key for key, value in patch.items() if value is None) if isinstance(patch, dict) else frozenset()
