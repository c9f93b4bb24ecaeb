"""Which file and line set each value of an object, after all overlays.

Kept for every object of every unit, therefore compact: see gitops/manifests/lines.py for the table. The number of an
entry is `line * number of files + position of the file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops.manifests.lines import NO_TEXTS, ROOT, Path, hash_of, nearest, number_at, pack
from gitops.manifests.raw import RawDocument
from gitops.model.findings import Origin


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
    def build(
        cls, entries: Mapping[int, Origin], default: Origin, *, texts: Mapping[int, str] = NO_TEXTS
    ) -> Provenance:
        """From path hashes (lines.step) to origins."""
        files = tuple(dict.fromkeys(o.file for o in (default, *entries.values())))
        position = {file: i for i, file in enumerate(files)}
        numbers = {h: o.line * len(files) + position[o.file] for h, o in entries.items()}
        number = default.line * len(files) + position[default.file]
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

    def own(self, at: int) -> Origin | None:
        """Where the value of this path hash (hashes start at `root`) was set, when it is not where its parent was."""
        number = number_at(self.blob, at)
        return None if number is None else self._origin(number)

    def _origin(self, number: int) -> Origin:
        line, file = divmod(number, len(self.files))
        return Origin(self.files[file], line)
