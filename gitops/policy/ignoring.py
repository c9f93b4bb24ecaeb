"""Ignored fields: those of an object that its annotation `gitops/ignore-drift` leaves to whoever writes them. Pure.

Sent when the object is made, and from then on neither sent, compared, reported nor repaired: as `ignoreDifferences` of
Argo CD with RespectIgnoreDifferences, `ignore` of kustomize-controller and `ignore_changes` of Terraform. Unlike a rule
of the ownership table it says nothing of a manager, and a field that somebody removes stays away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from gitops.manifests.lines import Path
from gitops.policy.annotations import IGNORE_DRIFT, BadAnnotationError, parse_paths


def ignored(body: Mapping[str, Any]) -> Iterator[Path]:
    """Declared fields of an object, as Git has it, that are ignored. None where the annotation means nothing: compile
    has refused it then."""
    annotations = (body.get("metadata") or {}).get("annotations")
    text = annotations.get(IGNORE_DRIFT) if isinstance(annotations, dict) else None
    for parts in _paths(text) if isinstance(text, str) else ():
        yield from _fields(body, parts, ())


@lru_cache(maxsize=1024)
def _paths(text: str) -> tuple[tuple[str, ...], ...]:
    try:
        return parse_paths(text)
    except BadAnnotationError:
        return ()


def _fields(value: Any, parts: Sequence[str], path: Path) -> Iterator[Path]:
    """Fields at a path; an item of a list is never one, only a field of it."""
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        for key in value if head == "*" else [head]:
            if key in value and not rest:
                yield (*path, key)
            elif key in value:
                yield from _fields(value[key], rest, (*path, key))
    elif isinstance(value, list) and rest:
        for position, item in enumerate(value):
            if head == "*" or (isinstance(item, dict) and item.get("name") == head):
                yield from _fields(item, rest, (*path, position))
