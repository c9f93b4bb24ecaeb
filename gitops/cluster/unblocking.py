"""What is live stands in the way of our apply: what to change there first, if that is ours to change.

What is mended, each by one JSON patch that holds only for the resourceVersion it was made from:

- An item of a keyed list got another key from somebody, and keeps a value that must be unique, as a Service port does
  whose number was changed (ssa-live 14), or has no name, which only a single one needs not. Our apply would add the
  declared item beside it and is refused. The foreign item becomes ours again (it is not just removed: a list may have
  to hold one). Not if somebody declares it. Where managedFields were wiped as well, the unique value tells which it is.
- A field that nobody declares excludes one that we do: `rollingUpdate`, a default of the server, beside a declared
  strategy `Recreate`; a `hostPath` that somebody put in place of a declared `emptyDir`. An apply takes away only what
  was ours. The map around both becomes what is declared, without that field.
- A definition gave a field another type; what is stored has the old one, and every apply is refused before it is looked
  at (ssa-live 17). Declared leaves get their declared value.
- An entry in managedFields is at a version that the definition has no more: every apply is refused, and any other write
  would drop all entries (ssa-live 7). Names are then read at the present version (adopting.take_over).

A value that another *object* has is not ours to take: `neighbours` names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.cluster import list_items
from gitops.cluster.comparison import DifferenceKind, FieldDifference
from gitops.cluster.errors import LIVE_SCHEMA_MISMATCH, VERSION_GONE, ApiError, Cause, ErrorClass
from gitops.cluster.list_items import Key, Layout, Shape
from gitops.cluster.managed_fields import (
    UNKNOWN_WRITER,
    Element,
    ElementKind,
    OwnedPath,
    Tree,
    Writer,
    descend,
    entries,
    tree_of,
    writer_of,
)
from gitops.cluster.values import MASK, MASK_OTHER, conceal
from gitops.manifests.lines import Path

ALREADY_ALLOCATED = "port is already allocated"

_DUPLICATE, _REQUIRED = "FieldValueDuplicate", "FieldValueRequired"
_FORBIDDEN, _NOT_FOUND = "FieldValueForbidden", "FieldValueNotFound"


@dataclass(frozen=True, slots=True)
class Remedy:
    """`operations` are the patch; `differences` what it takes back, as drift. Without any, looking after the entries
    in managedFields is enough (adopting.take_over)."""

    operations: tuple[dict[str, Any], ...]
    differences: tuple[FieldDifference, ...]


def remedy(error: ApiError, live: Mapping[str, Any], payload: Mapping[str, Any], *, manager: str) -> Remedy | None:
    """What to do about `error`, which an apply of `payload` by `manager` got; None when there is nothing."""
    if error.reason == VERSION_GONE:
        return Remedy((), ())
    if error.reason == LIVE_SCHEMA_MISMATCH:
        found = list(_mistyped(payload, live, (), ()))
    elif _is_excluded(error):
        return _united(error, live, payload, manager)
    else:
        found = [
            step
            for cause in error.causes
            if cause.reason in (_DUPLICATE, _REQUIRED)
            for step in _freed(cause, live, payload, manager)
        ]
    if not found:
        return None
    steps = {operation["path"]: (operation, difference) for operation, difference in found}
    kind = str(payload.get("kind", ""))
    return Remedy(
        (_test(live), *(operation for operation, _ in steps.values())),
        tuple(_without_secrets(difference, kind) for _, difference in steps.values()),
    )


def neighbours(payload: Mapping[str, Any], services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Services that have a node port of ours, as `shop/web (30080)`."""
    metadata = payload.get("metadata") or {}
    me, wanted = (metadata.get("namespace"), metadata.get("name")), _node_ports(payload)
    found = []
    for service in services:
        there = service.get("metadata") or {}
        taken = wanted & _node_ports(service)
        if taken and (there.get("namespace"), there.get("name")) != me:
            found.append(f"{there.get('namespace')}/{there.get('name')} ({', '.join(map(str, sorted(taken)))})")
    return found


def _node_ports(service: Mapping[str, Any]) -> set[int]:
    ports = (service.get("spec") or {}).get("ports") or ()
    return {p["nodePort"] for p in ports if isinstance(p, dict) and isinstance(p.get("nodePort"), int)}


Step = tuple[dict[str, Any], FieldDifference]


def _test(live: Mapping[str, Any]) -> dict[str, Any]:
    version = (live.get("metadata") or {}).get("resourceVersion", "")
    return {"op": "test", "path": "/metadata/resourceVersion", "value": version}


def _replace(at: Path, value: Any) -> dict[str, Any]:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in at)
    return {"op": "replace", "path": "/" + "/".join(parts), "value": value}


def _without_secrets(difference: FieldDifference, kind: str) -> FieldDifference:
    declared, hidden = conceal(difference.declared, MASK, path=difference.path, kind=kind)
    live, also = conceal(difference.live, MASK_OTHER, path=difference.path, kind=kind)
    return replace(difference, declared=declared, live=live, masked=hidden or also)


def _difference(path: Path, pointer: str, declared: Any, live: Any, writer: Writer) -> FieldDifference:
    return FieldDifference(
        path=path,
        pointer=pointer,
        declared=declared,
        live=live,
        kind=DifferenceKind.CHANGED,
        manager=writer.manager,
        operation=writer.operation,
        subresource=writer.subresource,
        time=writer.time,
    )


# -- another type ----------------------------------------------------------------------------------------------------


def _mistyped(declared: Any, live: Any, path: Path, at: Path) -> Iterator[Step]:
    """Declared leaves whose live value has another type. `path` is in the payload, `at` in the live object."""
    if isinstance(declared, dict) and isinstance(live, dict):
        for name, value in declared.items():
            if name in live and not (path == () and name in ("apiVersion", "kind", "metadata", "status")):
                yield from _mistyped(value, live[name], (*path, name), (*at, name))
    elif isinstance(declared, list) and isinstance(live, list):
        for position, place in _same_items(declared, live):
            yield from _mistyped(declared[position], live[place], (*path, position), (*at, place))
    elif _type(declared) != _type(live):
        pointer = ".".join(map(str, path))
        yield _replace(at, declared), _difference(path, pointer, declared, live, UNKNOWN_WRITER)


def _same_items(declared: Sequence[Any], live: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Positions of the same item in both lists: by name where all have one, else by place. Whoever wrote is forgotten
    when a type changes, so no entry tells what the keys are."""
    names = [[i.get("name") if isinstance(i, dict) else None for i in items] for items in (declared, live)]
    if all(isinstance(n, str) for found in names for n in found) and all(len(set(f)) == len(f) for f in names):
        yield from ((i, names[1].index(name)) for i, name in enumerate(names[0]) if name in names[1])
    elif len(declared) == len(live):
        yield from ((i, i) for i in range(len(declared)))


def _type(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


# -- fields that exclude each other ----------------------------------------------------------------------------------


def may_help(error: ApiError) -> bool:
    """Whether it is worth a look at the live object."""
    return error.cls is ErrorClass.BLOCKED or _is_excluded(error) or _reasons(error) == {_REQUIRED}


def _is_excluded(error: ApiError) -> bool:
    """A volume with two sources counts as none, so that what mounts it finds none either. Of the whole `spec` or `data`
    it is said that they may not change."""
    inside = all("." in cause.field for cause in error.causes if cause.reason == _FORBIDDEN)
    return inside and {_FORBIDDEN} <= _reasons(error) <= {_FORBIDDEN, _NOT_FOUND}


def _reasons(error: ApiError) -> set[str]:
    return {cause.reason for cause in error.causes}


def _united(error: ApiError, live: Mapping[str, Any], payload: Mapping[str, Any], manager: str) -> Remedy | None:
    """Every forbidden field taken out, with the declared values around it put in; None when one of them is declared, by
    us or by another. No drift is told: what was changed to make it so has been, or Git did it."""
    nodes = [(e, tree) for e in entries(live) if (tree := tree_of(e)) is not None]
    operations = []
    for cause in (each for each in error.causes if each.reason == _FORBIDDEN):
        around, _, leaf = _INDEX.sub("[]", cause.field).rpartition(".")
        changes = [
            _replace(at, _as_declared(declared, {k: v for k, v in there.items() if k != rival}))
            for _, at, owned, declared, there in _places(payload, live, nodes, around.split("."))
            if isinstance(declared, dict) and isinstance(there, dict) and (rival := _rival(leaf, declared, there))
            if not _is_declared(nodes, (*owned, Element(ElementKind.FIELD, rival)), manager)
        ]
        if not around or len(changes) != 1:
            return None
        operations += changes
    return Remedy((_test(live), *operations), ())


def _rival(forbidden: str, declared: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """The live field that excludes a declared one. The server names whichever of the two it looked at last; where that
    is the declared one, the other is the only map beside it that nobody declares."""
    if forbidden in there and forbidden not in declared:
        return forbidden
    others = [name for name, value in there.items() if name not in declared and isinstance(value, dict)]
    return others[0] if forbidden in declared and len(others) == 1 else ""


def _as_declared(declared: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Declared values, but where both have a map or list: our apply merges those."""
    kept = {k: v for k, v in there.items() if isinstance(v, (dict, list)) and isinstance(declared.get(k), type(v))}
    return {**there, **declared, **kept}


def _is_declared(nodes: Sequence[tuple[Mapping[str, Any], Tree]], path: OwnedPath, manager: str) -> bool:
    """Does another apply it?"""
    return any(
        entry.get("operation") == "Apply" and entry.get("manager") != manager and descend(tree, path) is not None
        for entry, tree in nodes
    )


# -- a value that must be unique -------------------------------------------------------------------------------------

_INDEX = re.compile(r"\[\d+\]")


def _freed(cause: Cause, live: Mapping[str, Any], payload: Mapping[str, Any], manager: str) -> Iterator[Step]:
    """Foreign items that hold a value of a declared item that is not there, each turned back into that item. Where the
    value is required, because there are two items now, neither has it.

    `cause.field` is `spec.ports[1].name`; a rule of a definition may name the list alone: then it is about names.
    """
    rendered = _INDEX.sub("[]", cause.field)
    where, bracket, leaf = rendered.rpartition("[]")
    where, leaf = (where, leaf.lstrip(".") or "name") if bracket else (rendered, "name")
    nodes = [(e, tree) for e in entries(live) if (tree := tree_of(e)) is not None]
    for path, at, owned, declared, there in _places(payload, live, nodes, where.split(".")):
        if not (isinstance(declared, list) and isinstance(there, list)):
            continue
        trees = [node for _, tree in nodes if (node := descend(tree, owned)) is not None]
        if not nodes and cause.reason == _DUPLICATE:
            yield from _renamed(declared, there, leaf, where.replace("[]", ""), path, at)
        shape = list_items.shape_by_all(None, trees)
        if shape.layout is not Layout.KEYED:
            continue
        places = list_items.positions(there, shape)
        keys = list_items.resolve(declared, shape, (), places)
        foreign = [(i, there[i]) for key, found in places.items() if key not in keys for i in found]
        for position, (item, key) in enumerate(zip(declared, keys, strict=True)):
            value = item.get(leaf) if isinstance(item, dict) else None
            if key in places or (value is None) is not (cause.reason == _REQUIRED):
                continue
            for place, other in foreign:
                if not isinstance(other, dict) or other.get(leaf) != value:
                    continue
                writer = _writer(nodes, owned, shape, other, manager)
                if writer is not None:
                    pointer = f"{where.replace('[]', '')}{_element(other, shape)}"
                    difference = _difference((*path, position), pointer, item, other, writer)
                    yield _replace((*at, place), item), difference
                    break


def _renamed(
    declared: Sequence[Any], there: Sequence[Any], leaf: str, list_name: str, path: Path, at: Path
) -> Iterator[Step]:
    """As _freed where no entry is left in managedFields: nothing tells the keys of the list, and nobody declares an
    item. The one live item with the value of a declared one is that item."""
    for position, item in enumerate(declared):
        value = item.get(leaf) if isinstance(item, dict) else None
        same = [i for i, other in enumerate(there) if isinstance(other, dict) and other.get(leaf) == value]
        if value is None or len(same) != 1 or there[same[0]].items() >= item.items():
            continue
        difference = _difference(
            (*path, position), f"{list_name}[{leaf}={value}]", item, there[same[0]], UNKNOWN_WRITER
        )
        yield _replace((*at, same[0]), item), difference


def _element(item: Mapping[str, Any], shape: Shape) -> Element:
    return Element(ElementKind.KEY, tuple((name, item.get(name)) for name in shape.names))


def _writer(
    nodes: Sequence[tuple[Mapping[str, Any], Tree]], owned: OwnedPath, shape: Shape, item: Any, manager: str
) -> Writer | None:
    """Who put a foreign item there; None when somebody declares it, who would only put it there again."""
    found = UNKNOWN_WRITER
    for entry, tree in nodes:
        node = descend(tree, (*owned, _element(item, shape)))
        if node is None or (entry.get("manager") == manager and entry.get("operation") == "Apply"):
            continue
        if entry.get("operation") == "Apply":
            return None
        found = writer_of(entry)
    return found


Found = tuple[Path, Path, OwnedPath, Any, Any]


def _places(
    declared: Any,
    live: Any,
    nodes: Sequence[tuple[Mapping[str, Any], Tree]],
    names: Sequence[str],
    *,
    path: Path = (),
    at: Path = (),
    owned: OwnedPath = (),
) -> Iterator[Found]:
    """Every declared value at a rendered path (`spec`, `containers[]`, `ports`) that is live too: its path in the
    payload, in the live object and in the trees, and both values."""
    if not names:
        yield path, at, owned, declared, live
        return
    name, into_items = names[0].removesuffix("[]"), names[0].endswith("[]")
    if not (isinstance(declared, dict) and isinstance(live, dict) and name in declared and name in live):
        return
    declared, live = declared[name], live[name]
    path, at, owned = (*path, name), (*at, name), (*owned, Element(ElementKind.FIELD, name))
    if not into_items:
        yield from _places(declared, live, nodes, names[1:], path=path, at=at, owned=owned)
    elif isinstance(declared, list) and isinstance(live, list):
        shape = list_items.shape_by_all(None, [n for _, t in nodes if (n := descend(t, owned)) is not None])
        if shape.layout is not Layout.KEYED:
            return
        places: dict[Key, list[int]] = list_items.positions(live, shape)
        for position, key in enumerate(list_items.resolve(declared, shape, (), places)):
            for place in (p for p in places.get(key, ())[:1] if isinstance(live[p], dict)):
                inside = (*owned, _element(live[place], shape))
                yield from _places(
                    declared[position],
                    live[place],
                    nodes,
                    names[1:],
                    path=(*path, position),
                    at=(*at, place),
                    owned=inside,
                )
