"""Patches over a base in their order: the merged object, which file and line set each value, what was overridden.

Three forms, freely mixed: merge patches (merging.py), the same with keyed lists, and JSON patches (operating.py). One
with a problem is rejected as a whole; the others are still tried, so that every problem is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.manifests.canonical import copy_json
from gitops.model.findings import Finding
from gitops.overlays.json_patches import JsonPatchSource
from gitops.overlays.merging import merge_into
from gitops.overlays.operating import operate_on
from gitops.overlays.overriding import Override, State
from gitops.overlays.parts import Parts, PartsChange
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance
from gitops.overlays.shapes import Shape
from gitops.overlays.traces import provenance_of

PatchSource = MergePatchSource | JsonPatchSource

MAX_REJECTED = 20
"""Patches of one object that are rejected before the rest is left unread: after each the others are merged again."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A base with patches merged in. `body` shares nothing with base and patches; with findings it lacks the patches
    that these are about. Sources in `parts` are positions among the patches, counted from 1."""

    body: dict[str, Any]
    provenance: Provenance
    overridden: tuple[Override, ...] = ()
    parts: tuple[PartsChange, ...] = ()
    findings: tuple[Finding, ...] = ()


def apply_patches(
    base: dict[str, Any],
    provenance: Provenance,
    patches: Sequence[PatchSource],
    *,
    shape: Shape | None = None,
    parts: Iterable[Parts] = (),
) -> Merged:
    """Apply the patches in order; a later one wins. Nulls already in the base stay (the caller refuses nulls).

    `shape` is what the kind's schema says of its lists, None when no schema is known; `parts` are watched for changes.
    """
    if not patches:
        return Merged(copy_json(base), provenance)
    watched = tuple(parts)
    accepted: list[tuple[int, PatchSource]] = []
    findings: list[Finding] = []
    rejected = 0
    state = State.of(base, provenance, watched)
    for number, source in enumerate(patches, 1):
        found = _apply(state, source, number, shape)
        if not found:
            accepted.append((number, source))
            continue
        findings += found
        rejected += 1
        state = State.of(base, provenance, watched)
        for earlier, good in accepted:
            _apply(state, good, earlier, shape)
        if rejected == MAX_REJECTED:
            break
    return Merged(
        state.body, provenance_of(state.trace), tuple(state.overridden), tuple(state.watch.changes), tuple(findings)
    )


def _apply(state: State, source: PatchSource, number: int, shape: Shape | None) -> list[Finding]:
    if isinstance(source, JsonPatchSource):
        return operate_on(state, source, number)
    return merge_into(state, source, number, shape)
