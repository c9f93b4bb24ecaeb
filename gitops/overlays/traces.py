"""Who set each value of an object, as a tree of the object's own form: what overlays work on.

A Provenance is compact and read-only, and finds a list item by the hash of its path: one insertion would move the
hashes of all items after it. Here an item moves with its own trace, and a Provenance is made once at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.lines import ROOT, step
from gitops.model.findings import Origin
from gitops.overlays.provenance import Provenance

BASE = 0
"""The number of the base among the sources of an object; patches count from 1."""


@dataclass(slots=True, eq=False)
class Trace:
    """Where a value comes from, and the same for everything inside it.

    `fields` of a map and `items` of a list have exactly the keys and the length of the value; `gone` tells who removed
    a key; `text` is what the author wrote for a number or boolean that JSON prints differently.
    """

    origin: Origin
    source: int
    text: str | None = None
    fields: dict[str, Trace] = field(default_factory=dict)
    items: list[Trace] = field(default_factory=list)
    gone: dict[str, Origin] = field(default_factory=dict)

    def children(self) -> Iterator[tuple[str | int, Trace]]:
        yield from self.fields.items()
        yield from enumerate(self.items)

    def moved(self, origin: Origin, source: int) -> Trace:
        """A copy of it whose values all come from one place: what a copy or move operation makes."""
        return Trace(
            origin,
            source,
            self.text,
            {key: child.moved(origin, source) for key, child in self.fields.items()},
            [child.moved(origin, source) for child in self.items],
        )

    def touched_before(self, source: int) -> bool:
        """Whether an earlier patch set the value or anything inside it."""
        if BASE < self.source < source:
            return True
        return any(child.touched_before(source) for _, child in self.children())


def trace_of(value: Any, provenance: Provenance, source: int) -> Trace:
    """The trace of a value that was read from a document."""
    return _read(value, provenance, source, provenance.root, provenance.origin_of(()))


def _read(value: Any, provenance: Provenance, source: int, at: int, origin: Origin) -> Trace:
    trace = Trace(origin, source, provenance.texts.get(at))
    if isinstance(value, dict):
        for key, child in value.items():
            here = step(at, key)
            trace.fields[key] = _read(child, provenance, source, here, provenance.own(here) or origin)
    elif isinstance(value, list):
        for position, child in enumerate(value):
            here = step(at, position)
            trace.items.append(_read(child, provenance, source, here, provenance.own(here) or origin))
    return trace


def provenance_of(trace: Trace) -> Provenance:
    """The compact form. A value that comes from where its parent does needs no entry."""
    entries: dict[int, Origin] = {}
    texts: dict[int, str] = {}
    _write(trace, ROOT, entries, texts)
    return Provenance.build(entries, trace.origin, texts=texts)


def _write(trace: Trace, at: int, entries: dict[int, Origin], texts: dict[int, str]) -> None:
    if trace.text is not None:
        texts[at] = trace.text
    for key, origin in trace.gone.items():
        if origin != trace.origin:
            entries[step(at, key)] = origin
    for segment, child in trace.children():
        here = step(at, segment)
        if child.origin != trace.origin:
            entries[here] = child.origin
        _write(child, here, entries, texts)
