"""Which file and line set each value of an object, after all overlays.

Kept for every object of every unit, therefore compact: see gitops/manifests/lines.py for the table. The number of an
entry is `line * number of files + position of the file`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from gitops.manifests.lines import NO_TEXTS, ROOT, Path, hash_of, nearest, number_at, pack, unpack
from gitops.manifests.raw import RawDocument
from gitops.model.findings import Origin

Place = tuple[str, int]
"""File and line, as in Origin: hundreds are made for each merge, and a tuple costs a fifth."""


def place_of(origin: Origin) -> Place:
    return origin.file, origin.line


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origins of the values of one JSON document; immutable. Make it with of_document() or build()."""

    files: tuple[str, ...]
    blob: bytes
    default: int  # number of the document's root
    root: int = ROOT
    texts: Mapping[int, str] = field(default_factory=lambda: NO_TEXTS)

    @classmethod
    def of_document(cls, document: RawDocument) -> Provenance:
        """Everything from one document; shares the memory of its line map."""
        lines = document.lines
        return cls((document.file,), lines.blob, lines.line, lines.root, lines.texts)

    @classmethod
    def of_origin(cls, origin: Origin) -> Provenance:
        """Everything from one place, for objects that are derived rather than read."""
        return cls((origin.file,), pack({}), origin.line)

    @classmethod
    def build(cls, entries: Mapping[int, Origin], default: Origin) -> Provenance:
        """From path hashes (lines.step) to origins."""
        return cls.of_places({at: place_of(origin) for at, origin in entries.items()}, place_of(default), {})

    @classmethod
    def of_places(cls, places: Mapping[int, Place], default: Place, texts: Mapping[int, str]) -> Provenance:
        """From path hashes to files and lines, and what the authors wrote."""
        files = tuple(dict.fromkeys(file for file, _ in (default, *places.values())))
        position = {file: i for i, file in enumerate(files)}
        numbers = {at: line * len(files) + position[file] for at, (file, line) in places.items()}
        number = default[1] * len(files) + position[default[0]]
        return cls(files, pack(numbers), number, ROOT, dict(texts) or NO_TEXTS)

    def origin_of(self, path: Path) -> Origin:
        """Where the value at the path, or its nearest known ancestor, was set; for a removed one, who removed it."""
        return self._origin(nearest(self.blob, path, root=self.root, default=self.default))

    def text_of(self, path: Path) -> str | None:
        """What the author wrote for a number or boolean that JSON prints differently (`1.20`, `0644`)."""
        return self.texts.get(hash_of(path, self.root)) if self.texts else None

    def at(self, path: Path) -> Provenance:
        """Of the value at the path, whose own paths start there (an inline patch). Shares memory with this one."""
        number = nearest(self.blob, path, root=self.root, default=self.default)
        return Provenance(self.files, self.blob, number, hash_of(path, self.root), self.texts)

    def finder(self) -> Callable[[int], Place | None]:
        """Finds the place of a path hash (hashes start at `root`); None where it is that of the parent."""
        numbers = unpack(self.blob).get if self.root == ROOT else partial(number_at, self.blob)
        if len(self.files) == 1:
            (file,) = self.files
            return lambda at: None if (line := numbers(at)) is None else (file, line)
        return lambda at: None if (number := numbers(at)) is None else self._place(number)

    def _origin(self, number: int) -> Origin:
        return Origin(*self._place(number))

    def _place(self, number: int) -> Place:
        line, file = divmod(number, len(self.files))
        return self.files[file], line
