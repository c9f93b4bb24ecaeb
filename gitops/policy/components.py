"""Components of an object, such as those of a graph, after all overlays: their set, and fields that must not go away.

A merge patch that touches one item of a list drops the others, which an operator refuses on an object that lives and
silently obeys on one that is created. So the set must stay the base's unless the author says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.overlays import codes
from gitops.overlays.applying import Merged
from gitops.overlays.parts import Parts, PartsChange

_LISTED = 10


def changed_components(
    base: Mapping[str, Any], merged: Merged, parts: Iterable[Parts], consenting: Collection[int]
) -> Iterator[Finding]:
    """An error for each place that changes a set of components unasked. `consenting` are the numbers of the patches
    whose entries say `changesComponents: true`."""
    for each in parts:
        before, after = each.names(base), each.names(merged.body)
        blamed: dict[str, PartsChange] = {}
        for change in merged.parts:
            if change.parts == each:
                blamed.update(dict.fromkeys(change.names, change))
        places: dict[Origin, list[str]] = {}
        for name in sorted(before ^ after):
            change = blamed[name]
            if name not in change.asked and change.source not in consenting:
                places.setdefault(change.origin, []).append(name)
        for origin, names in places.items():
            lost, added = [n for n in names if n in before], [n for n in names if n in after]
            words = [f"removes {_listed(lost)}"] * bool(lost) + [f"adds {_listed(added)}"] * bool(added)
            message = f"{dotted(each.container)}: the overlay {' and '.join(words)}"
            yield finding(codes.PARTS_CHANGED, message, origin, path=each.container)


def lost_fields(base: Mapping[str, Any], merged: Merged, paths: Iterable[str]) -> Iterator[Finding]:
    """A warning for each field that the base has and the merged object does not, at the line that removed it. Of a
    component that is gone altogether nothing is said."""
    for text in paths:
        *parents, name = text.strip("/").split("/")
        after = dict(_at(merged.body, parents, (), ()))
        for key, (holder, _) in _at(base, parents, (), ()):
            if name in holder and key in after and name not in after[key][0]:
                path = (*after[key][1], name)
                message = f"the overlay removes {dotted(path)}"
                yield finding(codes.FIXED_FIELD_GONE, message, merged.provenance.origin_of(path), path=path)


def _at(value: Any, segments: list[str], key: tuple[str, ...], path: Path) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Maps at a path with `*`, with what tells them apart (items of a list by `name`) and their path."""
    if not segments:
        if isinstance(value, dict):
            yield key, (value, path)
        return
    head, rest = segments[0], segments[1:]
    if head != "*":
        if isinstance(value, dict) and head in value:
            yield from _at(value[head], rest, (*key, head), (*path, head))
        return
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _at(child, rest, (*key, name), (*path, name))
    for position, child in enumerate(value if isinstance(value, list) else ()):
        if isinstance(child, dict) and isinstance(child.get("name"), str):
            yield from _at(child, rest, (*key, child["name"]), (*path, position))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
