"""A workload's patch lists in their order, and its objects merged with those that apply to an instance.

The order is that of docs/documents.md: the workload's own patches, those of the GPU specification (merge patches, then
JSON patches), those of the cluster; a later one wins. Instances with the same patches share the merged objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.findings import Finding, has_errors
from gitops.model.patches import Patch
from gitops.model.serving import GpuTarget
from gitops.plan.bases import Base
from gitops.plan.building import CleanObject, clean
from gitops.plan.hidden_credentials import hidden_credentials
from gitops.plan.layout import WorkloadFolder
from gitops.plan.patching import BoundPatch, PatchReader, merge
from gitops.plan.pod_gate import PodGate, policy_findings
from gitops.plan.resolving import PatchList
from gitops.plan.workloads import Context, patch_material
from gitops.policy import codes as policy_codes
from gitops.policy.validation import ValidationRules


@dataclass(frozen=True, slots=True)
class Overlays:
    """The patch lists of one workload; all of them are written in one document."""

    document: RawDocument
    common: PatchList
    specifications: Mapping[str, tuple[PatchList, ...]] = field(default_factory=dict)  # by id
    clusters: Mapping[str, PatchList] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        document: RawDocument,
        *,
        patches: Sequence[Patch],
        clusters: Mapping[str, Sequence[Patch]],
        specifications: Iterable[tuple[str, GpuTarget, Path]] = (),
    ) -> Overlays:
        """From the lists of a workload's document; each specification with its id and its path."""
        at: Path = ("spec", "clusterPatches")
        by_id: dict[str, tuple[PatchList, ...]] = {}
        for name, spec, path in specifications:  # two with one id are an error; all of their patches are looked at
            by_id[name] = (
                *by_id.get(name, ()),
                PatchList(spec.manifestMergePatches, document, (*path, "manifestMergePatches")),
                PatchList(spec.jsonPatches, document, (*path, "jsonPatches")),
            )
        return cls(
            document,
            PatchList(patches, document, ("spec", "patches")),
            by_id,
            {name: PatchList(clusters[name], document, (*at, name)) for name in sorted(clusters)},
        )

    def every(self) -> list[PatchList]:
        """All lists, whether they apply to something or not."""
        return [self.common, *(one for lists in self.specifications.values() for one in lists), *self.clusters.values()]

    def applying(self, specification: str, cluster: str) -> list[PatchList]:
        """The lists for a specification ("" = none) on a cluster ("" = one without patches of its own), in order."""
        lists = [self.common, *self.specifications.get(specification, ())]
        return [*lists, self.clusters[cluster]] if cluster in self.clusters else lists

    def material(self, folder: WorkloadFolder, specification: str, cluster: str) -> list[object]:
        """What the lists that apply add to a content key."""
        return [patch_material(one.entries, folder) for one in self.applying(specification, cluster)]


class Chains:
    """Merged and judged objects of one workload by the patches that apply. `findings` gathers what is wrong."""

    def __init__(
        self,
        context: Context,
        folder: WorkloadFolder,
        base: Base,
        overlays: Overlays | None,
        rules: Mapping[str, ValidationRules] | None = None,
    ) -> None:
        """`rules` are the validation policies of the GPU specifications, by their ids; no others are judged."""
        self._rules = rules or {}
        self.pods = PodGate(folder.ref, context.registry)
        self._context = context
        self._folder = folder
        self._base = base
        self._overlays = overlays
        self._objects: dict[tuple[str, str], tuple[CleanObject, ...]] = {}
        self._reader = PatchReader(context.loader, context.tree, folder)
        self.findings: list[Finding] = []

    def objects(self, specification: str, cluster: str) -> tuple[CleanObject, ...]:
        """Objects for a GPU specification on a cluster. After an error they are good for further findings only."""
        own = self._overlays is not None and cluster in self._overlays.clusters
        key = (specification, cluster if own else "")
        if key not in self._objects:
            self._objects[key] = self._make(*key)
        return self._objects[key]

    def _has(self, patch: BoundPatch) -> bool:
        """Of a base with errors an object may be missing, or be there twice: that says nothing of patches for it."""
        return sum(patch.target.matches(item.body) for item in self._base.objects) == 1

    def check_the_rest(self) -> None:
        """Merge what no instance has merged, so that its errors are found before it is needed; of a base with errors
        what can be read."""
        specifications = sorted(self._overlays.specifications) if self._overlays is not None else []
        specifications = specifications or [""]
        for name in specifications:
            if not any(made == name for made, _ in self._objects):
                self.objects(name, "")
        for cluster in self._overlays.clusters if self._overlays is not None else ():
            if not any(made == cluster for _, made in self._objects):
                self._check_cluster(specifications, cluster)

    def _check_cluster(self, specifications: list[str], cluster: str) -> None:
        """A cluster's patches where nothing is placed: wrong only if they are with every specification, since those
        that come there may be the ones that they build on."""
        before, first = self.findings, None
        for name in specifications:
            self.findings = []
            self.objects(name, cluster)
            if not has_errors(self.findings):
                break
            first = self.findings if first is None else first
        else:
            self.findings = first or []
        self.findings = [*before, *self.findings]

    def _make(self, specification: str, cluster: str) -> tuple[CleanObject, ...]:
        workload = self._folder.ref
        before = len(self._reader.findings)
        lists = self._overlays.applying(specification, cluster) if self._overlays is not None else []
        patches: list[BoundPatch] = [bound for one in lists for bound in self._reader.read(one)]
        self.findings += self._reader.findings[before:]
        fitting = patches if self._base.sound else [patch for patch in patches if self._has(patch)]
        merged, remarks = merge(self._base.objects, fitting, workload, self._context.registry)
        if self._context.trace is not None:
            self._context.trace.merged[workload, specification, cluster] = merged
        objects, judged = clean(merged, workload=workload, registry=self._context.registry)
        self.findings += [*remarks, *judged]
        if specification in self._rules:
            self.findings += policy_findings(objects, self._rules[specification], self.pods)
        told = {f.origin for f in judged if f.code == policy_codes.CREDENTIAL}
        hidden = hidden_credentials(self._base.objects, patches, workload)
        self.findings += [f for f in hidden if f.origin not in told]
        return objects
