"""Which line a value was written on, kept small.

Thousands of documents stay in memory, so neither paths nor keys are stored: a table maps the 32-bit hash of a path to a
number, 6 bytes an entry. A path without an entry has the line of its nearest ancestor with one, which also means that
what stands on its parent's line needs none. Two paths of one document share a hash once in ~10^7 documents; the price
is a wrong line in a message.

The same table serves gitops/overlays/provenance.py, where the number also names the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from zlib import crc32

Path = tuple[str | int, ...]
"""Keys and list positions from the root of a document."""


def dotted(path: Path) -> str:
    """`spec.gpuSpecifications[0].id`, as people write it; "" for the root."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def bounded(path: Path) -> Path:
    """A path for a finding: keys may have megabytes, and levels may be many."""
    return tuple(part if isinstance(part, int) else part[:_LONGEST_KEY] for part in path[:_LONGEST_PATH])


_LONGEST_PATH = 64
_LONGEST_KEY = 320  # a label's key may have 253 + 1 + 63 characters

ROOT = 0
"""Hash of the empty path."""

NO_TEXTS: Mapping[int, str] = MappingProxyType({})


def step(parent: int, segment: str | int) -> int:
    """Hash of a path from the hash of its parent and its last segment."""
    if isinstance(segment, int):
        return crc32(b"%d" % segment, crc32(b"\1", parent))
    return crc32(segment.encode("utf-8", "surrogatepass"), crc32(b"\0", parent))


def hash_of(path: Path, root: int = ROOT) -> int:
    for segment in path:
        root = step(root, segment)
    return root


def pack(entries: Mapping[int, int]) -> bytes:
    """Path hash → number (below 2^32) as one blob: sorted hashes, then the numbers, then their width in bytes."""
    hashes = sorted(entries)
    numbers = [entries[h] for h in hashes]
    wide = bool(numbers) and max(numbers) > 0xFFFF
    return array("I", hashes).tobytes() + array("I" if wide else "H", numbers).tobytes() + (b"\4" if wide else b"\2")


def _columns(blob: bytes) -> tuple[memoryview, memoryview]:
    width = blob[-1]
    count = (len(blob) - 1) // (4 + width)
    view = memoryview(blob)
    return view[: 4 * count].cast("I"), view[4 * count : -1].cast("I" if width == 4 else "H")


def unpack(blob: bytes) -> dict[int, int]:
    """The reverse of pack()."""
    hashes, numbers = _columns(blob)
    return dict(zip(hashes, numbers, strict=True))


def nearest(blob: bytes, path: Path, *, root: int, default: int) -> int:
    """The number of the path or of its nearest ancestor; `default` when neither the path nor an ancestor has one."""
    hashes, numbers = _columns(blob)
    count = len(hashes)
    for segment in path:
        root = step(root, segment)
        at = bisect_left(hashes, root)
        if at < count and hashes[at] == root:
            default = numbers[at]
    return default


def number_at(blob: bytes, at: int) -> int | None:
    """The number of exactly this hash; None when it has no entry of its own."""
    hashes, numbers = _columns(blob)
    position = bisect_left(hashes, at)
    return numbers[position] if position < len(hashes) and hashes[position] == at else None


@dataclass(frozen=True, slots=True)
class LineMap:
    """Lines, counted from 1, of the values in one document.

    `texts` are the author's words for numbers and booleans that JSON prints differently (`1.20`, `0644`, `yes`), so
    that a message about a wrong type can quote them.
    """

    blob: bytes
    line: int  # of the document's first node
    root: int = ROOT
    texts: Mapping[int, str] = field(default_factory=lambda: NO_TEXTS)

    def line_of(self, path: Path) -> int:
        """Line of the key or list item at the path, or of the nearest ancestor that is known."""
        return nearest(self.blob, path, root=self.root, default=self.line)

    def text_of(self, path: Path) -> str | None:
        """What the author wrote for the number or boolean at the path; None where JSON prints the same."""
        return self.texts.get(hash_of(path, self.root)) if self.texts else None

    def at(self, path: Path) -> LineMap:
        """The map of the value at the path, whose own paths start there. Shares memory with this one."""
        return LineMap(self.blob, self.line_of(path), hash_of(path, self.root), self.texts)
