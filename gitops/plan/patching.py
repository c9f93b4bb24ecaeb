"""Patches of a workload: from what deployment.yaml or bundle.yaml lists to merged objects.

Order is the declared one and later wins. A target is one object of the base, exactly: a patch that matches nothing is
an error, never a silent no-op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import WorkloadRef
from gitops.model.patches import InlineMergePatch
from gitops.model.trees import FileTree
from gitops.overlays.applying import PatchSource, apply_merge_patches
from gitops.overlays.patches import Target, check_patch, read_patch
from gitops.overlays.provenance import Provenance
from gitops.overlays.reporting import override_findings
from gitops.plan import codes
from gitops.plan.bases import BaseObject
from gitops.plan.layout import WorkloadFolder
from gitops.plan.loading import Loader
from gitops.plan.resolving import PatchList


@dataclass(frozen=True, slots=True)
class BoundPatch:
    """A patch with the base object it is for."""

    target: Target
    source: PatchSource

    @property
    def origin(self) -> Origin:
        return self.source.provenance.origin_of(())


@dataclass(frozen=True, slots=True)
class MergedObject:
    base: BaseObject
    body: dict[str, Any]
    provenance: Provenance


class PatchReader:
    """Reads the patch entries of one workload; collects findings."""

    def __init__(self, loader: Loader, tree: FileTree, folder: WorkloadFolder) -> None:
        self._loader = loader
        self._tree = tree
        self._folder = folder
        self._files: dict[str, tuple[BoundPatch, ...]] = {}
        self.findings: list[Finding] = []

    def read(self, listed: PatchList) -> tuple[BoundPatch, ...]:
        """The patches of a list, in order."""
        bound: list[BoundPatch] = []
        for position, entry in enumerate(listed.entries):
            if isinstance(entry, InlineMergePatch):
                bound += self._inline(entry, listed.document, (*listed.at, position))
            elif isinstance(entry, str):
                if entry not in self._files:
                    self._files[entry] = tuple(self._file(entry))
                bound += self._files[entry]
        return tuple(bound)

    def _file(self, path: str) -> Iterator[BoundPatch]:
        entry = self._folder.entries.get(f"{self._folder.root}/{path}")
        if entry is None:
            return  # already a finding: the files of a workload are resolved first
        loaded = self._loader.load(self._tree, entry, workload=self._folder.ref)
        self.findings += loaded.findings
        if loaded.complete and not loaded.documents:
            message = f"{path} holds no patch"
            self._add(finding(codes.EMPTY_PATCH_FILE, message, Origin(entry.path)))
        for document in loaded.documents:
            file = read_patch(document)
            self._add(*file.findings)
            if file.target is not None:
                yield BoundPatch(file.target, file.source)

    def _inline(self, entry: InlineMergePatch, document: RawDocument, at: Path) -> Iterator[BoundPatch]:
        target = Target(entry.target.apiVersion, entry.target.kind, entry.target.name, entry.target.namespace or "")
        source = PatchSource(entry.patch, Provenance.of_document(document).at((*at, "patch")))
        self._add(*check_patch(source, target))
        yield BoundPatch(target, source)

    def _add(self, *found: Finding) -> None:
        self.findings += [replace(f, workload=self._folder.ref) for f in found]


def merge(
    base: Sequence[BaseObject], patches: Sequence[BoundPatch], workload: WorkloadRef
) -> tuple[tuple[MergedObject, ...], tuple[Finding, ...]]:
    """The base with patches merged in, in the base's order. A patch whose target is not exactly one object is a finding
    and left out, so that the rest can still be judged."""
    findings: list[Finding] = []
    sources: dict[int, list[PatchSource]] = {}
    for patch in patches:
        matches = [i for i, candidate in enumerate(base) if patch.target.matches(candidate.body)]
        if len(matches) == 1:
            sources.setdefault(matches[0], []).append(patch.source)
            continue
        code = codes.TARGET_AMBIGUOUS if matches else codes.TARGET_MISSING
        what = f"{len(matches)} objects of the base" if matches else "no object of the base"
        message = f"{patch.target} matches {what}{_near_miss(patch.target, base)}"
        findings.append(finding(code, message, patch.origin, workload=workload))
    merged = []
    for position, item in enumerate(base):
        result = apply_merge_patches(item.body, Provenance.of_document(item.document), sources.get(position, ()))
        findings += override_findings(result.overridden, object=item.ref, workload=workload)
        merged.append(MergedObject(item, result.body, result.provenance))
    return tuple(merged), tuple(findings)


def _near_miss(target: Target, base: Sequence[BaseObject]) -> str:
    near = sorted({f"{b.gvk} {b.name}" for b in base if b.name == target.name or b.gvk.kind == target.kind})
    return f"; it has {', '.join(near[:3])}" if near else ""
