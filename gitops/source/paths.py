"""Paths that the daemon writes: built from names that people choose, so checked right before writing (cases.md X08)."""

from __future__ import annotations

import unicodedata
from typing import Final

MAX_SEGMENT: Final = 200
MAX_PATH: Final = 1000
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))]
)


class UnsafePath(ValueError):
    """A path that must not be written on the status branch."""


def check_path(path: str) -> str:
    """`path` itself when it is safe to write below the status root on every system. Raises UnsafePath.

    Refused: absolute paths, empty, `.` and `..` segments, segments that begin with a dot (.git, .github,
    .gitlab-ci.yml: status must never become a workflow) or a dash, control characters, separators and reserved names
    of other systems, trailing dots and spaces, text that is not in normal form C, and overlong names.
    """
    if not path or len(path.encode("utf-8", "replace")) > MAX_PATH:
        raise UnsafePath(f"a status path is empty or longer than {MAX_PATH} bytes: {path[:80]!r}")
    for segment in path.split("/"):
        reason = _reason(segment)
        if reason:
            raise UnsafePath(f"a status path has a segment that {reason}: {path[:200]!r}")
    return path


def is_safe_path(path: str) -> bool:
    """Whether check_path would let `path` through."""
    try:
        check_path(path)
    except UnsafePath:
        return False
    return True


def _reason(segment: str) -> str | None:
    if segment == "":
        return "is empty"
    if segment[0] in ".-~ ":
        return "begins with a dot, dash, tilde or space"
    if segment[-1] in ". ":
        return "ends with a dot or space"
    if any(c in _FORBIDDEN or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in segment):
        return "holds a character that is not allowed in file names everywhere"
    if unicodedata.normalize("NFC", segment) != segment:
        return "is not in Unicode normal form C"
    if len(segment.encode()) > MAX_SEGMENT:
        return f"is longer than {MAX_SEGMENT} bytes"
    if segment.partition(".")[0].rstrip().lower() in _DEVICES or segment.lower().startswith("git~"):
        return "is a reserved name on other systems"
    return None
