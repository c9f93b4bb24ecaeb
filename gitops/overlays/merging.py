"""A merge patch over an object: RFC 7386 for maps and, where asked for, item by item for lists that a schema keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitops.manifests.canonical import copy_json
from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.overlays import codes
from gitops.overlays.overriding import ABSENT, State
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.shapes import PLAIN, ListKind, Shape, merged_order
from gitops.overlays.traces import Trace, trace_of

_LISTED = 10
"""Bad items of one list that are told."""

_Items = dict[bytes, tuple[Any, Trace]]


def merge_into(state: State, source: MergePatchSource, number: int, shape: Shape | None) -> list[Finding]:
    """Merge a patch; `shape` is the kind's, None when there is no schema. With findings the state is unusable."""
    theirs = trace_of(source.patch, source.provenance, number)
    if not source.by_key:
        shape = PLAIN
    elif shape is None:
        if unknown := [_without_schema(path, trace) for path, trace in _lists(source.patch, theirs, ())]:
            return unknown
        shape = PLAIN
    merging = _Merging(state, number)
    merging.fields(state.body, state.trace, source.patch, theirs, (), shape)
    state.watch.after_merge(state.body, source, number)
    return merging.findings


def _without_schema(path: Path, trace: Trace) -> Finding:
    message = f"no schema is known that tells how to merge the list {dotted(path)}"
    return finding(codes.NO_SCHEMA, message, trace.origin, path=path)


def _lists(patch: dict[str, Any], trace: Trace, path: Path) -> Iterator[tuple[Path, Trace]]:
    for key, value in patch.items():
        if isinstance(value, list):
            yield (*path, key), trace.fields[key]
        elif isinstance(value, dict):
            yield from _lists(value, trace.fields[key], (*path, key))


class _Merging:
    """One patch. `theirs` is always the trace of the patch's value; parts of it move into the object's trace."""

    def __init__(self, state: State, number: int) -> None:
        self.state = state
        self.number = number
        self.findings: list[Finding] = []

    def fields(
        self, target: dict[str, Any], trace: Trace, patch: dict[str, Any], theirs: Trace, path: Path, shape: Shape
    ) -> None:
        """Merge a map into another in place."""
        for key, value in patch.items():
            before, old, new = target.get(key, ABSENT), trace.fields.get(key), theirs.fields[key]
            here = (*path, key)
            if value is not None:
                target[key], merged = self._value(before, old, value, new, here, shape.below(key))
                trace.put(key, merged)
            elif old is not None:
                self._override(here, before, old, ABSENT, new)
                del target[key]
                trace.take(key, new.place)

    def _value(
        self, before: Any, old: Trace | None, value: Any, theirs: Trace, path: Path, shape: Shape
    ) -> tuple[Any, Trace]:
        """What a value of the patch, not null, makes of the one before (`old` is None when there is none)."""
        if isinstance(value, dict):
            if old is not None and isinstance(before, dict):
                self.fields(before, old, value, theirs, path, shape)
                return before, old
            after: Any = {}
            trace = Trace(theirs.place, self.number)
            self.fields(after, trace, value, theirs, path, shape)
        elif isinstance(value, list) and shape.kind is not ListKind.ATOMIC:
            if old is not None and isinstance(before, list):
                return self._items(before, old, value, theirs, path, shape)
            after, trace = self._items([], Trace(theirs.place, self.number), value, theirs, path, shape)
        else:
            after, trace = copy_json(value), theirs
        if old is not None:
            self._override(path, before, old, after, theirs)
        return after, trace

    def _items(
        self, base: list[Any], trace: Trace, patch: list[Any], theirs: Trace, path: Path, shape: Shape
    ) -> tuple[list[Any], Trace]:
        """Merge keyed lists, or unite sets."""
        ours, new = self._identified(base, trace, path, shape), self._identified(patch, theirs, path, shape)
        items: list[Any] = []
        traces: list[Trace] = []
        for position, key in enumerate(merged_order(list(ours), list(new))):
            if key in new:
                before, old = ours.get(key, (ABSENT, None))
                merged = self._value(before, old, *new[key], (*path, position), shape.items or PLAIN)
            else:
                merged = ours[key]
            items.append(merged[0])
            traces.append(merged[1])
        trace.items = traces
        return items, trace

    def _identified(self, items: list[Any], trace: Trace, path: Path, shape: Shape) -> _Items:
        """Items by what tells them apart; a finding for each that cannot be told."""
        found: _Items = {}
        positions: dict[bytes, int] = {}
        bad = 0
        for position, (item, each) in enumerate(zip(items, trace.items, strict=True)):
            key = shape.identify(item)
            if key is not None and key not in found:
                found[key] = (item, each)
                positions[key] = position
                continue
            bad += 1
            if bad > _LISTED:
                continue
            where = dotted((*path, position))
            if key is None:
                keys = " and ".join(key for key in shape.keys if key not in shape.defaults)
                needs = f"has no {keys}" if shape.keys else "is no text, number or truth value"
                code, message = codes.ITEM_WITHOUT_KEY, f"{where} {needs}, by which items of the list are told apart"
            else:
                same = f"the same {' and '.join(shape.keys)} as" if shape.keys else "the value of"
                code, message = codes.EQUAL_ITEMS, f"{where} has {same} item {positions[key]} of the list"
            self.findings.append(finding(code, message, each.origin, path=(*path, position)))
        return found

    def _override(self, path: Path, before: Any, old: Trace, after: Any, theirs: Trace) -> None:
        self.state.override(path, before=before, trace=old, after=after, origin=theirs.origin, source=self.number)
