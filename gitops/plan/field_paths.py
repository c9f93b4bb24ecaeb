"""Paths of fields as people write them on a command line.

`spec.components[0].replicas`, `spec.components[name=decode].replicas`, `metadata.labels["example.com/team"]`, or a JSON
Pointer (RFC 6901): `/spec/components/0/replicas`.
"""

from __future__ import annotations

import re
from typing import Any

from gitops.manifests.lines import Path

_PART = re.compile(r"""\.?(?:([^.\[\]"'=]+)|\[(\d{1,9})\]|\[([A-Za-z]\w*)=([^\]]+)\]|\[["']([^"']+)["']\])""")


class BadPathError(ValueError):
    """A text that is no path of a field, or one that the object does not have."""


def spelled(path: Path) -> str:
    """A path as parse_path() reads it: keys with dots and the like are quoted."""
    text = ""
    for part in path:
        plain = isinstance(part, int) or re.fullmatch(r"[^.\[\]\"'=]+", part)
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part) if plain else f'["{part}"]'
    return text


def parse_path(text: str, body: Any) -> Path:
    """The path of a text in an object. Raises BadPathError when the text is none, or a part of it selects nothing.

    The last part may be missing in the object: an overlay may have removed it.
    """
    return _pointer(text, body) if text.startswith("/") else _dotted(text, body)


def _pointer(text: str, body: Any) -> Path:
    path: list[str | int] = []
    here = body
    for raw in text[1:].split("/"):
        part: str | int = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list):
            if not re.fullmatch(r"0|[1-9]\d{0,8}", raw):
                raise BadPathError(f"{text}: {raw} is no position of a list")
            part = int(raw)
        here = _child(here, part)
        path.append(part)
    return tuple(path)


def _dotted(text: str, body: Any) -> Path:
    path: list[str | int] = []
    here, at = body, 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or (at == 0 and text[0] == "."):
            raise BadPathError(f"{text}: not a path at {text[at : at + 20]!r}; write spec.list[0].field")
        key, index, name, value, quoted = found.groups()
        part: str | int = key or quoted if name is None and index is None else 0
        if index is not None:
            part = int(index)
        elif name is not None:
            part = _select(here, name, value, text)
        here = _child(here, part)
        path.append(part)
        at = found.end()
    return tuple(path)


def _select(here: Any, name: str, value: str, text: str) -> int:
    for position, item in enumerate(here if isinstance(here, list) else ()):
        if isinstance(item, dict) and str(item.get(name)) == value:
            return position
    raise BadPathError(f"{text}: no item has {name}={value}")


def _child(here: Any, part: str | int) -> Any:
    if isinstance(here, dict):
        return here.get(part) if isinstance(part, str) else None
    return here[part] if isinstance(here, list) and isinstance(part, int) and part < len(here) else None
