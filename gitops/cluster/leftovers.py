"""Fields that nobody declares any more: what earlier managers leave behind on an object that is ours.

Server-side apply takes away only what its own manager had. What somebody else declared once, and has stopped to, stays
live for ever and is found by nobody (kubernetes/kubernetes#99003), so it is told. Pure functions over managedFields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gitops.cluster.adopting import LAST_APPLIED_PATH, is_before
from gitops.cluster.managed_fields import (
    ElementKind,
    OwnedPath,
    Tree,
    descend,
    entries,
    members,
    our_entry,
    tree_of,
    value_at,
)
from gitops.readiness.texts import one_line


def left_over(live: Mapping[str, Any], old: Collection[Mapping[str, Any]], *, manager: str) -> tuple[OwnedPath, ...]:
    """Fields that only these earlier entries have or had: live, and declared by nobody who still would. Outermost paths
    only; sorted as they are read.

    What was folded into ours and dropped is only there again because the server fills it in, so of an entry that is
    gone `replicas` counts alone, which is never folded. The server's entry for what was there before the first apply
    cannot tell a default from a declaration: of that only what is never a default counts, which are labels,
    annotations, data, and items of keyed lists.
    """
    mine, there = our_entry(live, manager), entries(live)
    others = [e for e in there if e is mine or not (is_before(e) or e in old)]
    owned = [tree for e in others if (tree := tree_of(e)) is not None]
    found: dict[str, OwnedPath] = {}
    for entry in old:
        for path in members(tree_of(entry) or {}):
            counts = _never_a_default(path) if is_before(entry) else entry in there or path[-1].value == "replicas"
            if counts and _stands_alone(path, live) and not any(_owns(tree, path) for tree in owned):
                found.setdefault(_key(path), path)
    return _outermost(found)


def removed(
    before: Mapping[str, Any], after: Mapping[str, Any], old: Collection[Mapping[str, Any]]
) -> tuple[OwnedPath, ...]:
    """Fields of these earlier entries that were live before and are not any more. Outermost paths only."""
    paths = {_key(p): p for e in old for p in members(tree_of(e) or {}) if _stands_alone(p, before)}
    return _outermost({key: p for key, p in paths.items() if value_at(after, p) is None})


def shown(path: OwnedPath) -> str:
    """A path as people read it: `spec.ports[port=80,protocol=TCP]`, `metadata.labels["a.b/c"]`."""
    text = ""
    for element in path:
        if element.kind is not ElementKind.FIELD:
            text += str(element)
        elif str(element.value).replace("_", "").replace("-", "").isalnum():
            text += f".{element.value}" if text else str(element.value)
        else:
            text += f'["{element.value}"]'
    return one_line(text, 120)


def _key(path: OwnedPath) -> str:
    return repr(path)


def _outermost(found: Mapping[str, OwnedPath]) -> tuple[OwnedPath, ...]:
    return tuple(
        path for _, path in sorted(found.items()) if not any(_key(path[:n]) in found for n in range(1, len(path)))
    )


def _never_a_default(path: OwnedPath) -> bool:
    fields = tuple(e.value for e in path[:2] if e.kind is ElementKind.FIELD)
    if len(path) > 1 and fields[:1] in (("data",), ("binaryData",)):
        return True
    if len(path) > 2 and fields in (("metadata", "labels"), ("metadata", "annotations")):
        return True
    return any(e.kind is ElementKind.KEY for e in path)


def _owns(tree: Tree, path: OwnedPath) -> bool:
    """Whether the path, or a whole value that it is in, is in the set."""
    for element in path:
        below = descend(tree, (element,))
        if not below:
            return below is not None
        tree = below
    return True


def _stands_alone(path: OwnedPath, live: Mapping[str, Any]) -> bool:
    """Whether the path is live and says something by itself: no map or list that others fill too."""
    if path == LAST_APPLIED_PATH:
        return False
    value = value_at(live, path)
    if value is None:
        return False
    return path[-1].kind is not ElementKind.FIELD or not (isinstance(value, (dict, list)) and value)
