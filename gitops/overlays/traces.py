"""Who set each value of an object, as a tree of the object's own form: what overlays work on.

A Provenance is compact and read-only, and finds a list item by the hash of its path: one insertion would move the
hashes of all items after it. Here an item moves with its own trace, and a Provenance is made once at the end. What no
overlay touches stays unread: most of an object, most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import ROOT, step
from gitops.model.findings import Origin
from gitops.overlays.provenance import Place, Provenance, place_of

BASE = 0
"""The number of the base among the sources of an object; patches count from 1."""


@dataclass(frozen=True, slots=True)
class _Document:
    """Where values were read from: finds the place of a path hash, None for that of its parent."""

    find: Callable[[int], Place | None]
    texts: Mapping[int, str]


class Trace:
    """Where a value comes from, and the same for everything inside it.

    `fields` of a map and `items` of a list have exactly the keys and the length of the value; `gone` tells who removed
    a key; `text` is what the author wrote for a number or boolean that JSON prints differently.
    """

    __slots__ = ("_fields", "_items", "_unread", "gone", "place", "source", "text")

    def __init__(self, place: Place, source: int, text: str | None = None) -> None:
        self.place = place
        self.source = source
        self.text = text
        self.gone: dict[str, Place] = {}
        self._fields: dict[str, Trace] = {}
        self._items: list[Trace] = []
        self._unread: tuple[_Document, Any, int] | None = None  # with the value and the hash of its path there

    @property
    def origin(self) -> Origin:
        return Origin(*self.place)

    @property
    def fields(self) -> dict[str, Trace]:
        if self._unread is not None:
            self._read(*self._unread)
        return self._fields

    @property
    def items(self) -> list[Trace]:
        if self._unread is not None:
            self._read(*self._unread)
        return self._items

    @items.setter
    def items(self, items: list[Trace]) -> None:
        self._items = items

    def put(self, key: str, trace: Trace) -> None:
        """Set a key of a map."""
        self.fields[key] = trace
        self.gone.pop(key, None)

    def take(self, key: str, place: Place) -> Trace:
        """Remove a key of a map; `place` is where that is asked for."""
        self.gone[key] = place
        return self.fields.pop(key)

    def children(self) -> Iterator[tuple[str | int, Trace]]:
        yield from self.fields.items()
        yield from enumerate(self.items)

    def moved(self, place: Place, source: int) -> Trace:
        """A copy of it whose values all come from one place: what a copy or move operation makes."""
        trace = Trace(place, source, self.text)
        trace._fields = {key: child.moved(place, source) for key, child in self.fields.items()}
        trace._items = [child.moved(place, source) for child in self.items]
        return trace

    def touched_before(self, source: int) -> bool:
        """Whether an earlier patch set the value or anything inside it."""
        if BASE < self.source < source:
            return True
        return self._unread is None and any(child.touched_before(source) for _, child in self.children())

    def _read(self, document: _Document, value: Any, at: int) -> None:
        self._unread = None
        if isinstance(value, dict):
            self._fields = {key: self._child(document, child, step(at, key)) for key, child in value.items()}
        else:
            self._items = [self._child(document, child, step(at, n)) for n, child in enumerate(value)]

    def _child(self, document: _Document, value: Any, at: int) -> Trace:
        return _unread(document, value, at, document.find(at) or self.place, self.source)

    def write(self, at: int, places: dict[int, Place], texts: dict[int, str]) -> None:
        """Note what is known of the value at a path hash. What comes from where its parent does needs no entry."""
        if self.text is not None:
            texts[at] = self.text
        if self._unread is not None:
            document, value, there = self._unread
            _graft(document, value, there, at, places, texts)
            return
        for key, remover in self.gone.items():
            places[step(at, key)] = remover
        for segment, child in self.children():
            here = step(at, segment)
            if child.place != self.place:
                places[here] = child.place
            child.write(here, places, texts)


def trace_of(value: Any, provenance: Provenance, source: int) -> Trace:
    """The trace of a value that was read from a document."""
    document = _Document(provenance.finder(), provenance.texts)
    return _unread(document, value, provenance.root, place_of(provenance.origin_of(())), source)


def provenance_of(trace: Trace) -> Provenance:
    """The compact form."""
    places: dict[int, Place] = {}
    texts: dict[int, str] = {}
    trace.write(ROOT, places, texts)
    return Provenance.of_places(places, trace.place, texts)


def _unread(document: _Document, value: Any, at: int, place: Place, source: int) -> Trace:
    trace = Trace(place, source, document.texts.get(at))
    if isinstance(value, dict | list):
        trace._unread = (document, value, at)
    return trace


def _graft(
    document: _Document, value: Any, there: int, here: int, places: dict[int, Place], texts: dict[int, str]
) -> None:
    """Copy what a document knows of the values inside one to where that one stands now."""
    find = document.find
    for segment, child in value.items() if isinstance(value, dict) else enumerate(value):
        source = step(there, segment)
        target = source if here == there else step(here, segment)
        if (place := find(source)) is not None:
            places[target] = place
        if document.texts and source in document.texts:
            texts[target] = document.texts[source]
        if isinstance(child, dict | list):
            _graft(document, child, source, target, places, texts)
