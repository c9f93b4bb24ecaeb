"""Which file and line set each field of an object, and what that overrode: what `gitops explain` prints.

A compile normally forgets what overlays overrode; with a Trace it keeps the merged objects of every workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import UnitKey, WorkloadRef
from gitops.overlays.overriding import ABSENT, Absent, Override
from gitops.plan.patching import MergedObject
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION, DesiredObject

_MARKS: frozenset[Path] = frozenset(
    {
        ("metadata", "labels", RECONCILER_LABEL),
        ("metadata", "labels", PART_OF_LABEL),
        ("metadata", "annotations", SOURCE_ANNOTATION),
    }
)
_NAMESPACE: Path = ("metadata", "namespace")


@dataclass(slots=True)
class Trace:
    """Merged objects by workload, GPU specification ("" = none) and cluster ("" = one without patches of its own)."""

    merged: dict[tuple[WorkloadRef, str, str], tuple[MergedObject, ...]] = field(default_factory=dict)

    def of(self, key: UnitKey, item: DesiredObject) -> MergedObject | None:
        """What an object of a unit was merged from; None for one that no manifest declares."""
        specification = key.instance.rpartition("-")[0]
        for cluster in (key.cluster, ""):
            for merged in self.merged.get((key.workload, specification, cluster), ()):
                ref = merged.base.ref
                same_place = not item.ref.namespace or ref.namespace in ("", item.ref.namespace)
                if same_place and (ref.group_kind, ref.name) == (item.ref.group_kind, item.ref.name):
                    return merged
        return None


@dataclass(frozen=True, slots=True)
class Before:
    """A value that a field had before an overlay changed it; ABSENT when the field was not there."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Explanation:
    """One field as it is sent. `origin` is None for what the reconciler itself writes (marks, the namespace).

    `before` is what it was, the oldest first; `value` ABSENT means that an overlay removed the field.
    """

    path: Path
    value: Any
    origin: Origin | None
    before: tuple[Before, ...] = ()


def explain(item: DesiredObject, merged: MergedObject | None, path: Path = ()) -> list[Explanation]:
    """Every leaf at or below the path, in the object's order, then what overlays removed there. Empty maps and lists
    are leaves. Nothing when the object never had anything at the path."""
    overridden = merged.overridden if merged is not None else ()
    found = []
    for leaf, value in _leaves(_at(item.body, path), path):
        ours = leaf in _MARKS or (leaf == _NAMESPACE and (merged is None or _at(merged.body, leaf) is ABSENT))
        origin = None if ours else item.provenance.origin_of(leaf)
        found.append(Explanation(leaf, value, origin, _before(overridden, leaf)))
    return [*found, *_removed(item.body, overridden, path)]


def _removed(body: Any, overridden: tuple[Override, ...], path: Path) -> Iterator[Explanation]:
    """What was removed at, below or around the path. Another item may have moved into the place of one of a list."""
    for override in overridden:
        gone = override.removed and (_of_list(override) or _at(body, override.path) is ABSENT)
        value = _at(override.before, path[len(override.path) :])
        if gone and value is not ABSENT and override.path[: len(path)] == path[: len(override.path)]:
            at = max(override.path, path, key=len)
            yield Explanation(at, ABSENT, override.after_origin, (Before(value, override.before_origin),))


def _of_list(override: Override) -> bool:
    return isinstance(override.path[-1], int)


def _before(overridden: tuple[Override, ...], path: Path) -> tuple[Before, ...]:
    """What the overrides of the field, or of a map or list around it, replaced there."""
    found = []
    for override in overridden:
        if path[: len(override.path)] == override.path and not (override.removed and _of_list(override)):
            value = _at(override.before, path[len(override.path) :])
            if value is not ABSENT:
                found.append(Before(value, override.before_origin))
    return tuple(found)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if value is ABSENT:
        return
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    empty = True
    for key, child in children:
        empty = False
        yield from _leaves(child, (*path, key))
    if empty:
        yield path, value


def _at(value: Any, path: Path) -> Any | Absent:
    for part in path:
        if isinstance(value, dict):
            value = value.get(part, ABSENT) if isinstance(part, str) else ABSENT
        elif isinstance(value, list):
            value = value[part] if isinstance(part, int) and part < len(value) else ABSENT
        else:
            return ABSENT
    return value
