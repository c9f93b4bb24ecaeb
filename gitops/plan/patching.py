"""Patches of a workload: from what deployment.yaml or bundle.yaml lists to merged objects.

Order is the declared one and later wins. A target is one object of the base, exactly: a patch that matches nothing is
an error unless its entry says `optional`, never a silent no-op.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.canonical import copy_json
from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import GroupVersionKind, WorkloadRef
from gitops.model.kinds import DEFINITION
from gitops.model.patches import InlineMergePatch, JsonPatch, MergePatchFile, Patch, PatchOptions
from gitops.model.trees import FileTree
from gitops.overlays.applying import PatchSource, apply_patches
from gitops.overlays.codes import NOT_OPERATIONS
from gitops.overlays.json_patches import read_operations
from gitops.overlays.overriding import Override
from gitops.overlays.patches import MergePatchSource, Target, check_patch, check_target, read_patch
from gitops.overlays.provenance import Provenance
from gitops.overlays.reporting import override_findings
from gitops.overlays.shapes import Shape
from gitops.plan import codes
from gitops.plan.bases import BaseObject
from gitops.plan.layout import WorkloadFolder
from gitops.plan.loading import Loader
from gitops.plan.resolving import PatchList
from gitops.policy.components import changed_components, lost_fields
from gitops.policy.registry import OperatorRegistry
from gitops.policy.schemas.shapes import SchemaIndex

_NO_OPTIONS = PatchOptions()

_Read = tuple[PatchSource, tuple[Finding, ...]]
"""A patch, and what is wrong with it whatever the base."""


@dataclass(frozen=True, slots=True)
class BoundPatch:
    """A patch with the base object it is for and what its entry says of it; `origin` is where the target is named. One
    that is not `usable` does what no patch may: it is looked at for credentials, and never merged."""

    target: Target
    source: PatchSource
    origin: Origin
    options: PatchOptions = _NO_OPTIONS
    usable: bool = True


@dataclass(frozen=True, slots=True)
class MergedObject:
    base: BaseObject
    body: dict[str, Any]
    provenance: Provenance
    overridden: tuple[Override, ...] = ()


class PatchReader:
    """Reads the patch entries of one workload, each list and each file once; collects findings."""

    def __init__(self, loader: Loader, tree: FileTree, folder: WorkloadFolder) -> None:
        self._loader = loader
        self._tree = tree
        self._folder = folder
        self._lists: dict[Path, tuple[BoundPatch, ...]] = {}
        self._files: dict[str, tuple[tuple[Target, MergePatchSource, bool], ...]] = {}
        self.findings: list[Finding] = []

    def read(self, listed: PatchList) -> tuple[BoundPatch, ...]:
        """The patches of a list, in order."""
        if listed.at not in self._lists:
            written = Provenance.of_document(listed.document)
            places = [written.at((*listed.at, position)) for position in range(len(listed.entries))]
            read = [self._entry(entry, place) for entry, place in zip(listed.entries, places, strict=True)]
            self._lists[listed.at] = tuple(patch for patches in read for patch in patches)
        return self._lists[listed.at]

    def _entry(self, entry: Patch, place: Provenance) -> list[BoundPatch]:
        if isinstance(entry, str):
            return [
                BoundPatch(target, source, source.origin, usable=usable)
                for target, source, usable in self._merge_file(entry)
            ]
        if isinstance(entry, MergePatchFile):
            by_key = entry.lists == "byKey"
            return [
                BoundPatch(target, replace(source, by_key=by_key), source.origin, entry, usable)
                for target, source, usable in self._merge_file(entry.path)
            ]
        named = place.at(("target",))
        target = Target(entry.target.apiVersion, entry.target.kind, entry.target.name, entry.target.namespace or "")
        refused = check_target(target, named)
        read = self._json(entry, target, place) if isinstance(entry, JsonPatch) else self._merge(entry, target, place)
        self._add(*refused)
        if read is None or refused:
            return []
        source, problems = read
        self._add(*problems)
        return [BoundPatch(target, source, named.origin_of(()), entry, _usable(problems))]

    def _merge(self, entry: InlineMergePatch, target: Target, place: Provenance) -> _Read:
        source = MergePatchSource(entry.patch, place.at(("patch",)), entry.lists == "byKey")
        return source, check_patch(source, target)

    def _json(self, entry: JsonPatch, target: Target, place: Provenance) -> _Read | None:
        if entry.path is None:
            return read_operations(entry.operations, place.at(("operations",)), target)
        documents = self._documents(entry.path)
        if len(documents) > 1:
            message = f"{entry.path} holds {len(documents)} documents; a JSON patch is one list of operations"
            self._add(finding(NOT_OPERATIONS, message, Origin(documents[1].file, documents[1].line)))
        if len(documents) != 1:
            return None
        return read_operations(documents[0].body, Provenance.of_document(documents[0]), target)

    def _merge_file(self, path: str) -> tuple[tuple[Target, MergePatchSource, bool], ...]:
        if path not in self._files:
            files = [read_patch(document) for document in self._documents(path)]
            self._add(*(problem for file in files for problem in file.findings))
            self._files[path] = tuple(
                (file.target, file.source, _usable(file.findings)) for file in files if file.target is not None
            )
        return self._files[path]

    def _documents(self, path: str) -> tuple[RawDocument, ...]:
        entry = self._folder.entries.get(f"{self._folder.root}/{path}")
        if entry is None:
            return ()  # already a finding: the files of a workload are resolved first
        loaded = self._loader.load(self._tree, entry, workload=self._folder.ref)
        self.findings += loaded.findings
        if loaded.complete and not loaded.documents:
            message = f"{path} holds no patch"
            self._add(finding(codes.EMPTY_PATCH_FILE, message, Origin(entry.path)))
        return loaded.documents

    def _add(self, *found: Finding) -> None:
        self.findings += [replace(f, workload=self._folder.ref) for f in found]


def _usable(problems: Iterable[Finding]) -> bool:
    return not has_errors(problems)


def merge(
    base: Sequence[BaseObject], patches: Sequence[BoundPatch], workload: WorkloadRef, registry: OperatorRegistry
) -> tuple[tuple[MergedObject, ...], tuple[Finding, ...]]:
    """The base with patches merged in, in the base's order. A patch whose target is not exactly one object is a finding
    and left out like one that is not usable, so that the rest can still be judged."""
    findings: list[Finding] = []
    chosen: dict[int, list[BoundPatch]] = {}
    for patch in patches:
        matches = [i for i, candidate in enumerate(base) if patch.target.matches(candidate.body)]
        if len(matches) == 1:
            if patch.usable:
                chosen.setdefault(matches[0], []).append(patch)
            continue
        missing = codes.OPTIONAL_TARGET_MISSING if patch.options.optional else codes.TARGET_MISSING
        code = codes.TARGET_AMBIGUOUS if matches else missing
        what = f"{len(matches)} objects of the base" if matches else "no object of the base"
        message = f"{patch.target} matches {what}{_near_miss(patch.target, base)}"
        findings.append(finding(code, message, patch.origin, workload=workload))
    merging = _Merging(base, registry)
    merged = []
    for position, item in enumerate(base):
        if position not in chosen:
            merged.append(MergedObject(item, copy_json(item.body), Provenance.of_document(item.document)))
            continue
        result, found = merging.object(item, chosen[position])
        merged.append(result)
        findings += [replace(f, object=item.ref, workload=workload) for f in found]
    return tuple(merged), tuple(findings)


class _Merging:
    """The base's objects with their patches, and what the schemas and the operator types say of them."""

    def __init__(self, base: Sequence[BaseObject], registry: OperatorRegistry) -> None:
        self._base = base
        self._registry = registry
        self._schemas: SchemaIndex | None = None

    def object(self, item: BaseObject, patches: Sequence[BoundPatch]) -> tuple[MergedObject, list[Finding]]:
        parts = self._registry.component_sets(item.gvk.group_kind)
        result = apply_patches(
            item.body,
            Provenance.of_document(item.document),
            [patch.source for patch in patches],
            shape=self._shape(item.gvk, patches),
            parts=parts,
        )
        findings = [*result.findings, *override_findings(result.overridden)]
        if not result.findings:
            consenting = {n for n, patch in enumerate(patches, 1) if patch.options.changesComponents}
            findings += changed_components(item.body, result, parts, consenting)
            findings += lost_fields(item.body, result, self._registry.fixed_fields(item.gvk.group_kind))
        return MergedObject(item, result.body, result.provenance, result.overridden), findings

    def _shape(self, kind: GroupVersionKind, patches: Sequence[BoundPatch]) -> Shape | None:
        """Looked up only when it is asked for: definitions among the objects are read for it."""
        if not any(isinstance(patch.source, MergePatchSource) and patch.source.by_key for patch in patches):
            return None
        if self._schemas is None:
            definitions = (item.body for item in self._base if item.gvk.group_kind == DEFINITION.group_kind)
            self._schemas = self._registry.schemas.extended(definitions)
        return self._schemas.shape(kind)


def _near_miss(target: Target, base: Sequence[BaseObject]) -> str:
    near = sorted({f"{b.gvk} {b.name}" for b in base if b.name == target.name or b.gvk.kind == target.kind})
    return f"; it has {', '.join(near[:3])}" if near else ""
