"""Merge patches over a base in order, and remember which file and line set each value, and what was overridden."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gitops.manifests.canonical import copy_json, same_json
from gitops.manifests.lines import ROOT, Path, step
from gitops.model.findings import Origin
from gitops.overlays.provenance import Provenance


class Absent(enum.Enum):
    """Marks that there is no value: null is a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class PatchSource:
    """A JSON Merge Patch with the origins of its values."""

    patch: dict[str, Any]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Override:
    """A value that was there before a patch and is different or gone after it.

    One for each changed leaf; one for a whole list (lists are replaced) and one for a map that is removed or replaced
    by something else. `before` and `after` belong to the inputs and the result: read them, don't change them.
    """

    path: Path
    before: Any
    after: Any  # ABSENT when removed
    before_origin: Origin
    after_origin: Origin
    over_overlay: bool = False  # the value before came from an earlier patch

    @property
    def removed(self) -> bool:
        return self.after is ABSENT

    @property
    def type_changed(self) -> bool:
        """Between map, list, text, number and boolean; integers and fractions are both numbers."""
        return not self.removed and _type_of(self.before) != _type_of(self.after)

    @property
    def vanished(self) -> tuple[str, ...]:
        """Names of the items of a named list (env, containers, …) that are no longer in it, in their order.

        Why: people write a patch with one env variable and lose all others, as RFC 7386 has it.
        """
        before = _names(self.before)
        after = frozenset(_names(self.after))
        return tuple(name for name in before if name not in after)


@dataclass(frozen=True, slots=True)
class Merged:
    """A base with patches merged in. `body` shares nothing with base and patches."""

    body: dict[str, Any]
    provenance: Provenance
    overridden: tuple[Override, ...]


def apply_merge_patches(base: dict[str, Any], provenance: Provenance, patches: Sequence[PatchSource]) -> Merged:
    """Merge the patches in order; a later one wins. Nulls already in the base stay (the caller refuses nulls)."""
    body: dict[str, Any] = copy_json(base)
    if not patches:
        return Merged(body, provenance, ())
    merging = _Merging(body, provenance)
    for source in patches:
        merging.apply(source)
    return Merged(body, merging.provenance(), tuple(merging.overridden))


class _Merging:
    """The state of one merge: the result, and origins by path hash of the result."""

    def __init__(self, body: dict[str, Any], provenance: Provenance) -> None:
        self.body = body
        self.default = provenance.origin_of(())
        self.entries: dict[int, Origin] = {}
        self.texts: dict[int, str] = {}
        self.overridden: list[Override] = []
        self._from_patches: set[Origin] = set()
        if provenance.root == ROOT:
            self.entries, self.texts = provenance.entries(), dict(provenance.texts)
        else:
            _Graft(provenance, self.entries, self.texts).below(body, provenance.root, ROOT)

    def provenance(self) -> Provenance:
        return Provenance.build(self.entries, self.default, texts=self.texts)

    def apply(self, source: PatchSource) -> None:
        self._graft = _Graft(source.provenance, self.entries, self.texts)
        patch_root = source.provenance.root
        origin = source.provenance.origin_of(())
        self._merge(self.body, source.patch, (), at=ROOT, current=self.default, theirs=patch_root, origin=origin)

    def _merge(
        self,
        target: dict[str, Any],
        patch: dict[str, Any],
        path: Path,
        *,
        at: int,
        current: Origin,
        theirs: int,
        origin: Origin,
    ) -> None:
        """`at` and `current`: hash and origin of target in the result; `theirs` and `origin`: of patch in its own."""
        for key, value in patch.items():
            here, there = step(at, key), step(theirs, key)
            before_origin = self.entries.get(here, current)
            after_origin = self._graft.origins.get(there, origin)
            before = target.get(key, ABSENT)
            below: Path = (*path, key)
            if isinstance(value, dict) and isinstance(before, dict):
                self._merge(before, value, below, at=here, current=before_origin, theirs=there, origin=after_origin)
                continue
            if value is None and before is ABSENT:
                continue
            self._forget(before, here)
            if after_origin != current:
                self.entries[here] = after_origin
            if value is None:
                after: Any = ABSENT
                del target[key]
            elif isinstance(value, dict):
                after = target[key] = {}
                self._merge(after, value, below, at=here, current=after_origin, theirs=there, origin=after_origin)
            else:
                after = target[key] = copy_json(value)
                self._graft.below(after, there, here)
            if before is not ABSENT and (after is ABSENT or not same_json(before, after)):
                again = before_origin in self._from_patches
                self.overridden.append(Override(below, before, after, before_origin, after_origin, again))
            self._from_patches.add(after_origin)

    def _forget(self, value: Any, at: int) -> None:
        """Drop what is known of a value that is replaced, down to its leaves."""
        self.entries.pop(at, None)
        self.texts.pop(at, None)
        if isinstance(value, dict):
            for key, child in value.items():
                self._forget(child, step(at, key))
        elif isinstance(value, list):
            for position, child in enumerate(value):
                self._forget(child, step(at, position))


class _Graft:
    """Copies origins and texts of a source's values to the place where they stand in the result."""

    def __init__(self, source: Provenance, entries: dict[int, Origin], texts: dict[int, str]) -> None:
        self.origins = source.entries()
        self._texts = source.texts
        self._to_entries = entries
        self._to_texts = texts

    def below(self, value: Any, there: int, here: int) -> None:
        """What is below a value, and the text of the value itself; its own origin is the caller's to set."""
        if there in self._texts:
            self._to_texts[here] = self._texts[there]
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for segment, child in children:
            source, target = step(there, segment), step(here, segment)
            if source in self.origins:
                self._to_entries[target] = self.origins[source]
            self.below(child, source, target)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(i["name"] for i in value if isinstance(i, dict) and isinstance(i.get("name"), str))
