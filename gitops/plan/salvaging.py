"""What is sound of a document with errors, so that all else that is wrong is told in the same run.

It is judged, never applied. What is wrong is left out; where that could make something else look wrong (a list of
patches that is not read leaves the base alone, which may be valid with them only), nothing is salvaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import ValidationError

from gitops.manifests.canonical import copy_json
from gitops.manifests.lines import Path
from gitops.model.documents import Document

D = TypeVar("D", bound=Document)

MATERIAL = frozenset({"manifests", "patches", "clusterPatches", "manifestMergePatches", "jsonPatches"})
"""Fields that say what objects are made of: all of them, or nothing about the objects."""

STAND_INS = {"version": "0", "gpu": "-"}
"""Needed fields that no other finding depends on."""


def field_at(path: Path) -> Path:
    """The field that a path leads to or into: of a list with a wrong item nothing stays, or the others would move."""
    names = [at for at, segment in enumerate(path) if isinstance(segment, str)]
    return path[: names[-1] + 1] if names else ()


def salvage(model: type[D], body: dict[str, Any], wrong: Iterable[Path]) -> D | None:
    """The document without these fields; None when it is none without them."""
    rest = copy_json(body)
    for path in sorted(wrong, key=len, reverse=True):
        if not path or MATERIAL.intersection(path):
            return None
        *parents, name = path
        holder: Any = rest
        try:
            for parent in parents:
                holder = holder[parent]
        except LookupError:  # gone with what is around it
            continue
        holder.pop(name, None)
        if name in STAND_INS:
            holder[name] = STAND_INS[str(name)]
    try:
        return model.model_validate(rest)
    except ValidationError:
        return None
