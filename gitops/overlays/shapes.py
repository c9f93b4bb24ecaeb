"""What a kind's schema says of its lists: which have keys, which are sets. All others are replaced as a whole.

The terms are those of Kubernetes' structural schemas (x-kubernetes-list-type, x-kubernetes-list-map-keys). A shape is a
tree with only those values in it that are such lists or lead to one; policy/schemas/shapes.py makes them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.canonical import canonical_json


class ListKind(enum.StrEnum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Shape:
    """One value: a map with `fields` (and `values` for keys it does not name), or a list of a kind with its `items`."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    values: Shape | None = None
    kind: ListKind = ListKind.ATOMIC
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    items: Shape | None = None

    def below(self, key: str) -> Shape:
        """The shape of a map's value."""
        return self.fields.get(key) or self.values or PLAIN

    def identify(self, item: Any) -> bytes | None:
        """What tells an item of this list from others; None for an item that lacks a key, or is none for this list.

        A key that is left out has its default, as the API server reads it (`protocol: TCP` of a port).
        """
        if self.kind is ListKind.SET:
            return None if item is None or isinstance(item, dict | list) else canonical_json(item)
        if not isinstance(item, dict):
            return None
        values = [item[key] if key in item else self.defaults.get(key) for key in self.keys]
        if any(value is None or isinstance(value, dict | list) for value in values):
            return None
        return canonical_json(values)


PLAIN = Shape()
"""No keyed lists at or below a value, as far as the schema says."""


def merged_order(base: Sequence[bytes], patch: Sequence[bytes]) -> list[bytes]:
    """The order of items after a merge, as the API server's server-side apply has it; items are unique in both.

    Items of both are in the patch's order. The base is walked: an item only it has keeps its place; one that is next in
    the patch's order comes with the new items that the patch has before it; one whose turn comes later is passed over.
    New items after the last common one come last. (Kubernetes, structured-merge-diff v6: merging of associative lists.)
    """
    known, patched = frozenset(base), frozenset(patch)
    common = iter([item for item in patch if item in known])
    waiting = iter(patch)
    order: list[bytes] = []
    turn = next(common, None)
    for item in base:
        if item not in patched:
            order.append(item)
        elif item == turn:
            for new in waiting:
                order.append(new)
                if new == item:
                    break
            turn = next(common, None)
    order.extend(waiting)
    return order
