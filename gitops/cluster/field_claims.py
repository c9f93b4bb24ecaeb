"""Which declared fields of a live object are another manager's by agreement, and how we let go of them. Pure.

A field that leaves our payload while our entry in managedFields owns it alone is reset by the server, and an autoscaler
that finds the number it wants takes no ownership (ssa-live 27). So we let go first: one JSON patch takes the field out
of our entry, which moves no value and no generation, and then it is absent from what we send (ssa-live 28, B).
Everything is decided from the live object and the rules, so nothing has to be remembered over a crash or a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster import list_items, managed_fields
from gitops.cluster.list_items import Layout
from gitops.cluster.managed_fields import DIGEST_SIZE, Element, ElementKind, OwnedPath, Tree
from gitops.cluster.payloads import ownable
from gitops.cluster.values import ABSENT, Match, same
from gitops.manifests.lines import Path
from gitops.model.identity import GroupKind
from gitops.model.ownership import Answer
from gitops.plan.sending import LeftOut, Why
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION, DesiredObject
from gitops.policy.handovers import handed_over
from gitops.policy.ownership import Ownership, default_answer
from gitops.policy.registry import OperatorRegistry

_MARKS = frozenset({RECONCILER_LABEL, PART_OF_LABEL, SOURCE_ANNOTATION})
"""Ours whatever a rule says: without them the object is lost to us."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class FieldClaims:
    """`left_out`: what is not sent, and to whom it belongs. `held`: whether we still own some of it, which must end by
    release() before anything is applied."""

    left_out: tuple[LeftOut, ...] = ()
    held: bool = False


def claims_digest(
    live: Mapping[str, Any], manager: str, *, kind: GroupKind, table: Ownership, default: Answer, handable: bool
) -> tuple[bytes, bool]:
    """What claims() depends on of a live object, in 16 bytes, b"" when nobody could have a claim, as nearly always; and
    whether another manager could.

    Runs for every event of every object: other managers' entries count only where a rule gives them something,
    ours only then or where a handover is possible.
    """
    found, ours = [], None
    for entry in managed_fields.entries(live):
        name, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        if name == manager:
            ours = entry.get("fieldsV1")
        elif default != "take" or table.concerns(name, subresource, kind):
            found.append((name, subresource, entry.get("apiVersion"), entry.get("fieldsV1")))
    if not found and not handable:
        return b"", False
    return hashlib.blake2b(_encode((ours, found)), digest_size=DIGEST_SIZE).digest(), bool(found)


def claims(
    body: Mapping[str, Any],
    live: Mapping[str, Any],
    manager: str,
    *,
    table: Ownership,
    default: Answer,
    scaled: bool,
    handed: Iterable[tuple[Path, str]],
) -> FieldClaims:
    """Which fields of `body`, an object as Git has it, are others' now.

    `handed` are those of the handovers that hold (gitops/policy/handovers.py); `scaled` as in Ownership.answer().
    """
    ours = managed_fields.our_entry(live, manager)
    tree = managed_fields.tree_of(ours)
    declared, kind = ownable(body), GroupKind(*_group_kind(body))
    found = {
        path: LeftOut(path, Why.HANDED_OVER if holder else Why.IGNORED, holder)
        for path, holder in handed
        if not _is_key(declared, tree or {}, path)
    }
    for entry in managed_fields.entries(live):
        theirs = managed_fields.tree_of(entry)
        if entry is ours or theirs is None or entry.get("apiVersion") != live.get("apiVersion"):
            continue
        writer = managed_fields.writer_of(entry)
        for path, value, there in _owned(declared, live, theirs, tree, ()):
            if path in found or _is_mark(path):
                continue
            answer = table.answer(kind, writer.manager, writer.subresource, path, default=default, scaled=scaled)
            if answer == "yield":
                found[path] = LeftOut(path, Why.YIELDED, writer.manager)
            elif answer == "ask" and same(value, there, path=path, kind=kind.kind) is not Match.SAME:
                found[path] = LeftOut(path, Why.ASKED, writer.manager)
    held = tree is not None and any(_place(declared, tree, path) is not None for path in found)
    return FieldClaims(tuple(found.values()), held)


def claims_of(
    whole: DesiredObject,
    live: Mapping[str, Any],
    manager: str,
    *,
    table: Ownership,
    registry: OperatorRegistry,
    scaler: str,
    scaled: bool,
) -> FieldClaims:
    """Which fields of an object, as Git has it whole, are others' now. `scaler` names an autoscaler that targets it, ""
    none; `scaled`: there is one, or nobody can tell."""
    body = whole.body
    handed = handed_over(body, live, registry.rules_of(whole.ref.group_kind), scaler=scaler)
    default = default_answer(body)
    return claims(body, live, manager, table=table, default=default, scaled=scaled, handed=handed)


def _group_kind(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body.get("apiVersion", "")).rpartition("/")[0], str(body.get("kind", ""))


def _is_mark(path: Path) -> bool:
    return len(path) == 3 and path[0] == "metadata" and path[2] in _MARKS


def _owned(declared: Any, live: Any, theirs: Tree, ours: Tree | None, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """(path, declared value, live value) of what another entry owns of the declared: leaves, and maps and lists that
    are owned whole. Never an item of a list: left out, it would vanish even where the other owns parts of it."""
    if isinstance(declared, dict) and declared:
        if managed_fields.has_fields(theirs):
            for name, value in declared.items():
                element = Element(ElementKind.FIELD, name)
                sub = managed_fields.child(theirs, element)
                if sub is not None:
                    there = live.get(name, ABSENT) if isinstance(live, dict) else ABSENT
                    mine = managed_fields.child(ours, element) if ours is not None else None
                    yield from _owned(value, there, sub, mine, (*path, name))
        elif path and not (ours is not None and managed_fields.has_fields(ours)):
            yield path, declared, live
    elif isinstance(declared, list) and declared:
        yield from _owned_items(declared, live, theirs, ours, path)
    elif managed_fields.is_member(theirs) and path:
        yield path, declared, live


def _owned_items(
    declared: list[Any], live: Any, theirs: Tree, ours: Tree | None, path: Path
) -> Iterator[tuple[Path, Any, Any]]:
    shape = list_items.shape_by_all(ours, [theirs])
    if shape.layout in (Layout.ATOMIC, Layout.UNKNOWN):
        yield path, declared, live
    if shape.layout is not Layout.KEYED:
        return
    items = live if isinstance(live, list) else []
    places = list_items.positions(items, shape)
    owned, mine = list_items.owned_items(theirs), list_items.owned_items(ours)
    for position, (item, key) in enumerate(
        zip(declared, list_items.resolve(declared, shape, mine, places), strict=True)
    ):
        where = places.get(key, [])
        if not isinstance(item, dict) or key not in owned or len(where) != 1:
            continue
        rest = {name: value for name, value in item.items() if name not in shape.names}
        node = mine[key][1] if key in mine else None
        if managed_fields.has_fields(owned[key][1]):
            yield from _owned(rest, items[where[0]], owned[key][1], node, (*path, position))


# -- letting go ------------------------------------------------------------------------------------------------------


def release(
    body: Mapping[str, Any], live: Mapping[str, Any], manager: str, left_out: Sequence[LeftOut]
) -> list[dict[str, Any]] | None:
    """The JSON patch after which we own nothing of what is left out; None when that is so already.

    It holds only for the resourceVersion it was made from: a failing `test` is a 422 without causes (ssa-live 28).
    """
    entry = managed_fields.our_entry(live, manager)
    tree = managed_fields.tree_of(entry)
    if entry is None or tree is None:
        return None
    declared = ownable(body)
    kept: Tree = tree
    for place in (_place(declared, tree, each.path) for each in left_out):
        kept = _without(kept, place) if place is not None else kept
    if kept == tree:
        return None
    position = next(i for i, each in enumerate(managed_fields.entries(live)) if each is entry)
    where = f"/metadata/managedFields/{position}"
    metadata = live["metadata"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "replace", "path": f"{where}/fieldsV1", "value": kept} if kept else {"op": "remove", "path": where},
    ]


def _place(declared: Any, tree: Tree, path: Path) -> OwnedPath | None:
    """Where a path of the payload is in our tree; None when we own nothing there."""
    node: Tree | None = tree
    owned: list[Element] = []
    for step in path:
        if isinstance(step, int):
            shape = list_items.shape_of(node)
            items = list_items.owned_items(node)
            if not isinstance(declared, list) or step >= len(declared) or shape.layout is not Layout.KEYED:
                return None
            key = list_items.resolve(declared, shape, items)[step]
            if key not in items:
                return None
            element, node = items[key]
            declared = declared[step]
        else:
            element = Element(ElementKind.FIELD, step)
            node = managed_fields.child(node, element) if node is not None else None
            declared = declared.get(step) if isinstance(declared, dict) else None
        if node is None:
            return None
        owned.append(element)
    return tuple(owned)


def _is_key(declared: Any, tree: Tree, path: Path) -> bool:
    """Whether a field tells an item of a list apart: without it, it would be another item."""
    owned = _place(declared, tree, path[:-1]) or ()
    item = owned[-1] if owned else None
    return item is not None and item.kind is ElementKind.KEY and path[-1] in dict(item.value)


def _without(node: Tree, path: OwnedPath) -> dict[str, Any]:
    """The tree without what is at and below a path. A map of which nothing is left goes too, or it would be a member of
    the set (an empty node is one); an item of a list stays."""
    element, rest = path[0], path[1:]
    kept = {}
    for name, sub in node.items():
        if managed_fields.parse_element(name) != element or not isinstance(sub, dict):
            kept[name] = sub
        elif rest and ((left := _without(sub, rest)) or element.kind is not ElementKind.FIELD):
            kept[name] = left
    return kept


# -- what stays behind -----------------------------------------------------------------------------------------------

MOST_LEFTOVERS = 10


def kept_by_others(body: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> list[tuple[str, str]]:
    """(field, its manager) of what would stay of blocks that the declaration drops, because others own a part of them:
    what is left of such a block may be invalid (cases.md S15). At most MOST_LEFTOVERS."""
    tree = managed_fields.tree_of(managed_fields.our_entry(live, manager))
    found: set[tuple[str, str]] = set()
    for dropped in _dropped(ownable(body), tree or {}, ()):
        for entry in managed_fields.entries(live):
            theirs, name = managed_fields.tree_of(entry), str(entry.get("manager") or "")
            node = managed_fields.descend(theirs, dropped) if theirs is not None and name != manager else None
            for path in managed_fields.members(node, dropped) if node is not None else ():
                found.add((".".join(map(str, path)), name))
    return sorted(found)[:MOST_LEFTOVERS]


def _dropped(declared: Any, node: Tree, path: OwnedPath) -> Iterator[OwnedPath]:
    """The topmost maps and lists that we own parts of and that are declared no more."""
    for name, sub in node.items():
        element = managed_fields.parse_element(name)
        if element is None or element.kind is not ElementKind.FIELD or not isinstance(sub, dict):
            continue
        if not isinstance(declared, dict) or element.value not in declared:
            yield (*path, element)
        else:
            yield from _dropped(declared[element.value], sub, (*path, element))
