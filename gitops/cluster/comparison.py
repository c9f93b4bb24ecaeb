"""Comparison: a declared object against the live one, by what we own and by what the values mean.

Two questions, answered apart. Ownership: which declared paths are no longer ours, which of ours are no longer declared?
Values: which declared values are not the live ones? Only the second is drift that people see; the first alone is
mended by a silent apply. Everything is schema-less: the trees in managedFields tell which lists and maps are granular.
Where they cannot tell (nobody owns anything there), values are compared leniently, so that a wiped managedFields does
not turn the server's defaults into drift.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.cluster import blaming, list_items, managed_fields, payloads
from gitops.cluster.exactness import owns_exactly
from gitops.cluster.list_items import Layout, Shape
from gitops.cluster.managed_fields import UNKNOWN_WRITER, Element, ElementKind, OwnedPath, Tree
from gitops.cluster.values import (
    ABSENT,
    MASK,
    MASK_OTHER,
    Match,
    conceal,
    holds,
    is_meaningless,
    is_zero,
    same,
    same_scalar,
)
from gitops.manifests.lines import Path


class DifferenceKind(enum.StrEnum):
    CHANGED = "changed"
    MISSING = "missing"
    ORDER = "order"  # declared and live are the items' names, in the two orders
    DUPLICATE = "duplicate"  # live holds the item more than once


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One declared value that is not the live one. `live` is ABSENT when there is none.

    `manager` is "" when unknown. `inferred` says that the manager does not own the path but was the last to write
    after our apply, as whoever removes a field leaves no trace of it. `still_ours` says that the value moved under our
    ownership: admission during another write, or a writer under our name. Secret values are replaced, `masked` is set.
    """

    path: Path
    pointer: str
    declared: Any
    live: Any
    kind: DifferenceKind = DifferenceKind.CHANGED
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    inferred: bool = False
    still_ours: bool = False
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """What separates a live object from its declaration.

    `lost`: declared paths that our entry does not own. `extra`: paths it owns that are not declared any more.
    `padded`: atomic values that hold all that is declared and more, be it defaults or what an earlier declaration left.
    `version_differs`: our entry is at another apiVersion than the object; its paths cannot be read then, all is lost.
    """

    lost: tuple[Path, ...] = ()
    extra: tuple[OwnedPath, ...] = ()
    padded: tuple[Path, ...] = ()
    differences: tuple[FieldDifference, ...] = ()
    owned: bool = True
    version_differs: bool = False

    @property
    def in_sync(self) -> bool:
        """Nothing to send: we own exactly what is declared and every value is right."""
        return self.in_sync_as_applied and not self.padded

    @property
    def in_sync_as_applied(self) -> bool:
        """The same for a caller who knows that this very payload was applied last: then padding is defaults."""
        return self.owned and not (self.lost or self.extra or self.differences or self.version_differs)


def compare(
    payload: Mapping[str, Any],
    live: Mapping[str, Any],
    manager: str,
    *,
    applied: bool = False,
    values_as_applied: bool = False,
) -> Comparison:
    """Compare the JSON body that we send with the live object, under our field manager's name. Pure; hides secrets.

    `values_as_applied` says that the values digest is the one of our last apply's response: then no value differs,
    whatever became of ownership. Without it, an atomic list that somebody changed and put back may look changed where
    the server added defaults to its items.

    `applied` says that this very payload was applied last. Then an object that has every declared value literally, of
    which nobody took anything, is not looked into: what it has beyond them are defaults.
    """
    entry = managed_fields.our_entry(live, manager)
    version = live.get("apiVersion", payload.get("apiVersion"))
    version_differs = entry is not None and entry.get("apiVersion") != version
    tree = None if version_differs else managed_fields.tree_of(entry)
    others = [
        sub
        for other in managed_fields.entries(live)
        if other is not entry and other.get("apiVersion") == version
        for sub in [managed_fields.tree_of(other)]
        if sub is not None
    ]
    declared = payloads.ownable(payload)
    lost: list[Path] = []
    extra: list[OwnedPath] = []
    exact = tree is not None and owns_exactly(declared, tree, others)
    if not exact:
        for finding, path in _ownership(declared, tree if tree is not None else {}, others, (), ()):
            (lost if finding is _LOST else extra).append(path)
    values = _Values(payload, live, entry, tree)
    if not (values_as_applied or (applied and exact and holds(live, declared))):
        values.compare_map(declared, live, tree if tree is not None else {}, others, (), ())
    return Comparison(
        lost=tuple(lost),
        extra=tuple(extra),
        padded=tuple(values.padded),
        differences=tuple(values.differences),
        owned=entry is not None,
        version_differs=version_differs,
    )


# -- shared steps ----------------------------------------------------------------------------------------------------


def _field(name: str) -> Element:
    return Element(ElementKind.FIELD, name)


def _down(nodes: Sequence[Tree], element: Element) -> list[Tree]:
    return [sub for node in nodes for sub in [managed_fields.child(node, element)] if sub is not None]


def _is_atomic_map(node: Tree | None, others: Sequence[Tree]) -> bool:
    """A bare leaf on a map with members means that the map is owned whole, unless somebody owns fields in it."""
    if any(managed_fields.has_fields(n) for n in others) or (node is not None and managed_fields.has_fields(node)):
        return False
    return node is not None or bool(others)


# -- ownership -------------------------------------------------------------------------------------------------------

_LOST = "lost"
_EXTRA = "extra"


def _ownership(
    declared: Any, node: Tree | None, others: Sequence[Tree], path: Path, owned: OwnedPath
) -> Iterator[tuple[str, Any]]:
    """(`_LOST`, Path) and (`_EXTRA`, OwnedPath) of what is declared against what our entry owns there."""
    if isinstance(declared, dict) and declared:
        if path and _is_atomic_map(node, others):
            if node is None:
                yield _LOST, path
            return
        yield from _beyond(node, owned, [_field(name) for name in declared])
        for name, value in declared.items():
            element = _field(name)
            sub = managed_fields.child(node, element) if node is not None else None
            yield from _ownership(value, sub, _down(others, element), (*path, name), (*owned, element))
    elif isinstance(declared, list) and declared:
        yield from _item_ownership(declared, node, others, path, owned)
    elif isinstance(declared, list):
        # `[]` of a keyed list or set owns nothing and cannot be enforced; of an atomic list it may be owned. A leaf of
        # somebody else does not tell which: whoever writes `[]` gets one.
        yield from _beyond(node, owned, [])
    else:
        if node is None or not managed_fields.is_member(node):
            yield _LOST, path
        yield from _beyond(node, owned, [])


def _item_ownership(
    declared: list[Any], node: Tree | None, others: Sequence[Tree], path: Path, owned: OwnedPath
) -> Iterator[tuple[str, Any]]:
    shape = list_items.shape_by_all(node, others)
    if shape.layout in (Layout.UNKNOWN, Layout.ATOMIC):
        if node is None:
            yield _LOST, path
        else:
            yield from _beyond(node, owned, [])
        return
    ours = list_items.owned_items(node)
    keys = list_items.resolve(declared, shape, ours)
    yield from _beyond(node, owned, [ours[key][0] for key in keys if key in ours])
    for position, (item, key) in enumerate(zip(declared, keys, strict=True)):
        place = (*path, position)
        if key not in ours:
            yield _LOST, place
            continue
        element, sub = ours[key]
        if not managed_fields.is_member(sub):
            yield _LOST, place
        if isinstance(item, dict):
            yield from _ownership(item, sub, _down(others, element), place, (*owned, element))


def _beyond(node: Tree | None, owned: OwnedPath, declared: Sequence[Element]) -> Iterator[tuple[str, OwnedPath]]:
    """What is owned below a node outside the declared children."""
    for name, sub in (node or {}).items():
        element = managed_fields.parse_element(name)
        if element is not None and element not in declared:
            for path in managed_fields.members(sub, (*owned, element)):
                yield _EXTRA, path


# -- values ----------------------------------------------------------------------------------------------------------


class _Values:
    """One pass over declared and live values; collects differences and padded paths."""

    def __init__(
        self, payload: Mapping[str, Any], live: Mapping[str, Any], entry: Mapping[str, Any] | None, tree: Tree | None
    ) -> None:
        self.payload = payload
        self.live = live
        self.entry = entry
        self.tree = tree
        self.kind = str(payload.get("kind", ""))
        self.differences: list[FieldDifference] = []
        self.padded: list[Path] = []

    def compare(
        self, declared: Any, live: Any, node: Tree | None, others: Sequence[Tree], path: Path, owned: OwnedPath
    ) -> None:
        if live is None and declared is not None:
            live = ABSENT  # an apply cannot send null, so null is how others say absent
        if live is ABSENT:
            if not self._absence_means_same(declared, node):
                self._add(DifferenceKind.MISSING, declared, live, path, owned)
        elif isinstance(declared, dict) and declared and isinstance(live, dict):
            whole = _is_atomic_map(node, others) and (node is not None or bool(live))
            if whole:
                self._compare_whole(declared, live, node, others, path, owned)
            else:
                self.compare_map(declared, live, node, others, path, owned)
        elif isinstance(declared, dict) and not declared:
            # Members that others put into a declared `{}` are theirs, and an apply never removes them; unless the
            # map is atomic (`podSelector: {}`): then its new owner took it whole.
            taken = node is None and bool(live) and _is_atomic_map(node, others)
            if taken or not isinstance(live, dict):
                self._add(DifferenceKind.CHANGED, declared, live, path, owned)
        elif isinstance(declared, list) and isinstance(live, list):
            self._compare_list(declared, live, node, others, path, owned)
        elif (
            isinstance(declared, (dict, list))
            or isinstance(live, (dict, list))
            or not same_scalar(declared, live, path=path, kind=self.kind)
        ):
            self._add(DifferenceKind.CHANGED, declared, live, path, owned)

    def compare_map(
        self,
        declared: Mapping[str, Any],
        live: Mapping[str, Any],
        node: Tree | None,
        others: Sequence[Tree],
        path: Path,
        owned: OwnedPath,
    ) -> None:
        for name, value in declared.items():
            element = _field(name)
            sub = managed_fields.child(node, element) if node is not None else None
            self.compare(value, live.get(name, ABSENT), sub, _down(others, element), (*path, name), (*owned, element))

    def _absence_means_same(self, declared: Any, node: Tree | None) -> bool:
        """Whether "not there" is how the server keeps the declared value: it dropped a zero or an empty and left us
        its owner. Without any entry of ours nobody can tell, and an empty is taken for absent."""
        if isinstance(declared, list) and not declared:
            return True
        if node is not None:
            return is_meaningless(declared)
        return self.tree is None and is_meaningless(declared) and not is_zero(declared)

    def _compare_whole(
        self, declared: Any, live: Any, node: Tree | None, others: Sequence[Tree], path: Path, owned: OwnedPath
    ) -> None:
        match = same(declared, live, path=path, kind=self.kind)
        if match is Match.PADDED and (node is not None or not others):
            self.padded.append(path)
        elif match is not Match.SAME:
            # Not ours and owned by somebody: what it has beyond the declared is what they changed.
            self._add(DifferenceKind.CHANGED, declared, live, path, owned)

    def _compare_list(
        self,
        declared: list[Any],
        live: list[Any],
        node: Tree | None,
        others: Sequence[Tree],
        path: Path,
        owned: OwnedPath,
    ) -> None:
        shape = list_items.shape_by_all(node, others)
        if not declared:
            if live and shape.layout is Layout.ATOMIC:
                self._add(DifferenceKind.CHANGED, declared, live, path, owned)
        elif shape.layout in (Layout.KEYED, Layout.SET):
            self._compare_items(declared, live, shape, node, others, path, owned)
        elif shape.layout is Layout.UNKNOWN and (guess := _guess(declared, live)) is not None:
            self._compare_items(declared, live, guess, node, others, path, owned)
        else:
            self._compare_whole(declared, live, node, others, path, owned)

    def _compare_items(
        self,
        declared: list[Any],
        live: list[Any],
        shape: Shape,
        node: Tree | None,
        others: Sequence[Tree],
        path: Path,
        owned: OwnedPath,
    ) -> None:
        ours = list_items.owned_items(node)
        places = list_items.positions(live, shape)
        keys = list_items.resolve(declared, shape, ours, places)
        order: list[tuple[int, str]] = []
        for position, (item, key) in enumerate(zip(declared, keys, strict=True)):
            place = (*path, position)
            element, sub = ours.get(key) or (list_items.element_of(item, shape, key), None)
            step = (*owned, element)
            where = places.get(key, [])
            if not where:
                self._add(DifferenceKind.MISSING, item, ABSENT, place, step)
                continue
            if len(where) > 1:
                self._add(DifferenceKind.DUPLICATE, item, [live[i] for i in where], place, step)
                continue
            order.append((where[0], str(element)))
            if isinstance(item, dict):
                self.compare(item, live[where[0]], sub, _down(others, element), place, step)
        if not list_items.in_order([place for place, _ in order]):
            names = [name for _, name in order]
            self._add(DifferenceKind.ORDER, names, [name for _, name in sorted(order)], path, owned)

    def _add(self, kind: DifferenceKind, declared: Any, live: Any, path: Path, owned: OwnedPath) -> None:
        holder = _value_at(self.payload, path[:-1])
        shown, hidden = conceal(declared, MASK, path=path, kind=self.kind, owner=holder)
        found, live_hidden = conceal(live, MASK_OTHER, path=path, kind=self.kind, owner=holder)
        still_ours = self.tree is not None and _owns(self.tree, owned)
        if still_ours:
            writer, inferred = UNKNOWN_WRITER, False
        else:
            writer, inferred = blaming.blame(self.live, self.entry, owned)
        self.differences.append(
            FieldDifference(
                path=path,
                pointer=payloads.describe(path, self.payload, self.entry),
                declared=shown,
                live=found,
                kind=kind,
                manager=writer.manager,
                operation=writer.operation,
                subresource=writer.subresource,
                time=writer.time,
                inferred=inferred,
                still_ours=still_ours,
                masked=hidden or live_hidden,
            )
        )


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _guess(declared: list[Any], live: list[Any]) -> Shape | None:
    """A keyed layout by `name`, for lists of which nobody owns anything (managedFields wiped): then every item of both
    must have a name, and no two the same."""
    for items in (declared, live):
        names = [item.get("name") if isinstance(item, dict) else None for item in items]
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            return None
    return Shape(Layout.KEYED, ("name",))


def _owns(tree: Tree, path: OwnedPath) -> bool:
    node = managed_fields.descend(tree, path)
    return node is not None and managed_fields.is_member(node)
