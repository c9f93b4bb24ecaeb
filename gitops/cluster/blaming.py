"""Blaming: who changed a value that we had applied, as far as managedFields can tell. Pure.

Whoever writes a value owns its path, with a time. Whoever removes one leaves no trace: their entry stays as it was,
even its time, or there is none. So an answer is either what the server says, or marked as inferred, or "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitops.cluster import managed_fields
from gitops.cluster.managed_fields import UNKNOWN_WRITER, OwnedPath, Tree, Writer

_NAMELESS = frozenset({"ancient-changes", "before-first-apply"})
"""Managers that the API server invents: it merges old Update entries, or none existed before the first apply."""


def blame(live: Mapping[str, Any], ours: Mapping[str, Any] | None, path: OwnedPath) -> tuple[Writer, bool]:
    """Who changed the value at `path`, and whether that is only inferred.

    The entry that owns the path, or the atomic value around it; the deepest, then the latest. Whoever removes a field
    owns nothing afterwards: then the latest Update writer since our apply is the best guess, or nobody.
    """
    found: list[tuple[int, str, Writer]] = []
    latest: list[tuple[str, Writer]] = []
    since = str(ours.get("time") or "") if ours is not None else ""
    for entry in managed_fields.entries(live):
        if entry is ours:
            continue
        writer = managed_fields.writer_of(entry)
        tree = managed_fields.tree_of(entry)
        depth = _depth(tree, path) if tree is not None else 0
        if depth:
            found.append((depth, writer.time, writer))
        beyond_status = writer.subresource != "status" or (bool(path) and path[0].value == "metadata")
        if writer.operation == "Update" and writer.time >= since and beyond_status:
            latest.append((writer.time, writer))
    writer, inferred = UNKNOWN_WRITER, False
    if found:
        writer = max(found, key=lambda f: f[:2])[2]
    elif latest:
        writer, inferred = max(latest, key=lambda f: f[0])[1], True
    return (UNKNOWN_WRITER, False) if writer.manager in _NAMELESS else (writer, inferred)


def maker(live: Mapping[str, Any], manager: str) -> Writer:
    """Who made an object that `manager`, which is ours, did not: the first of its writers."""
    others = [
        writer
        for entry in managed_fields.entries(live)
        for writer in [managed_fields.writer_of(entry)]
        if not writer.subresource and writer.manager not in (manager, *_NAMELESS)
    ]
    return min(others, key=lambda w: w.time, default=UNKNOWN_WRITER)


def _depth(tree: Tree, path: OwnedPath) -> int:
    """How far along `path` the tree owns: its full length when the path or something below it is owned, the depth of a
    bare leaf above it (an atomic value), else 0."""
    node: Tree = tree
    for depth, element in enumerate(path):
        sub = managed_fields.child(node, element)
        if sub is None:
            return depth if depth and not node else 0
        node = sub
    return len(path)
