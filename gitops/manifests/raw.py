"""A document as it was read: its value, and where each part of it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import LineMap


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document, or one item of a `kind: List` document. `body` is any JSON value except null."""

    body: Any
    index: int  # of the document in its file, from 1, empty ones counted
    line: int  # where the body starts, from 1
    lines: LineMap
    file: str
