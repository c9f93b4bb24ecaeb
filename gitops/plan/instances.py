"""Instances of a function: how many there are, where they run, in which namespaces, and the keys of their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.functions import Function, FunctionDeployment, GpuSpecification
from gitops.model.identity import ClusterName, UnitKey, WorkloadKind
from gitops.plan.function_sources import FUNCTION_FILE, FunctionSource
from gitops.plan.instance_objects import demand
from gitops.plan.naming import instance_namespace
from gitops.plan.workloads import Context, Demand, content_key, stricter, target_problems, unknown_clusters
from gitops.policy import codes as policy_codes
from gitops.policy.placement import Pins, Placement, Selection, eligible, place, place_on_each


@dataclass(frozen=True, slots=True)
class Instance:
    """One planned copy, with the key of its content."""

    spec: GpuSpecification
    placement: Placement
    namespace: str
    key: UnitKey
    content_key: str
    demand: Demand


@dataclass(frozen=True, slots=True)
class FunctionPlan:
    """Where a function's instances run: everything about it that does not need its manifests."""

    instances: tuple[Instance, ...]
    findings: tuple[Finding, ...]


def plan_function(context: Context, source: FunctionSource, pins: Pins) -> FunctionPlan:
    """Decide where instances run. Costs no parsing; the same for every reader of the same tree and pins."""
    function, deployment, document = source.function, source.deployment, source.document
    if function is None or not source.usable:
        return FunctionPlan((), ())
    if deployment is None or document is None or not deployment.spec.gpuSpecifications:
        message = f"{source.folder.ref} is not placed anywhere"
        origin = Origin(f"{source.folder.root}/{FUNCTION_FILE}")
        return FunctionPlan((), (finding(policy_codes.NOT_PLACED, message, origin, workload=source.folder.ref),))
    planner = _Planner(context, source, function, deployment, document)
    for position, spec in enumerate(deployment.spec.gpuSpecifications):
        planner.spec(position, spec, pins.get((source.folder.ref, spec.id), {}))
    planner.check()
    return FunctionPlan(tuple(planner.instances), tuple(planner.findings))


class _Planner:
    def __init__(
        self,
        context: Context,
        source: FunctionSource,
        function: Function,
        deployment: FunctionDeployment,
        document: RawDocument,
    ) -> None:
        self.context = context
        self.source = source
        self.function = function
        self.deployment = deployment
        self.document = document
        self.ref = source.folder.ref
        self.instances: list[Instance] = []
        self.findings: list[Finding] = []

    def say(self, code: str, message: str, at: Path) -> None:
        origin = Origin(self.document.file, self.document.lines.line_of(at))
        self.findings.append(finding(code, message, origin, workload=self.ref, path=at))

    def spec(self, position: int, spec: GpuSpecification, pins: Mapping[int, ClusterName]) -> None:
        at: Path = ("spec", "gpuSpecifications", position)
        context = self.context
        types = context.registry.types
        implied = [types[n].spec.clusterAttribute for n in self.function.spec.operatorTypes or () if n in types]
        fits = eligible(Selection.of(spec, implied=implied), context.documents, context.versions)
        unreadable = {ClusterName(n) for n in context.unreadable if not spec.clusters or n in spec.clusters}
        unversioned = fits.unversioned if context.unusable_installs else frozenset()
        hidden = unreadable | unversioned
        if not fits.clusters and not hidden and spec.minInstances:
            self.say(policy_codes.NO_CLUSTER, f"no cluster for {spec.id}: {fits.why_none()}", at)
        if spec.perCluster:
            placements = place_on_each(count=spec.minInstances, clusters=fits.clusters)
        else:
            unheard = context.unheard.intersection(fits.clusters) if len(fits.clusters) > 1 else frozenset()
            placements = place(
                workload=self.ref,
                spec_id=spec.id,
                count=spec.minInstances,
                clusters=fits.clusters,
                pins=pins,
                keep_pins_on=hidden,
                place_new=not (hidden or unheard),
            )
            missing = spec.minInstances - len(placements)
            if missing and (hidden or unheard):
                waits = [f"clusters/{n}.yaml" for n in sorted(unreadable)]
                waits += sorted(context.unusable_installs) if unversioned else ()
                waits += [f"cluster {n}" for n in sorted(unheard)]
                message = f"{missing} of {spec.minInstances} instances of {spec.id} wait for {', '.join(waits)}"
                self.say(policy_codes.PLACEMENT_WAITS, message, at)
        for placement in placements:
            if placement.cluster in fits.clusters:
                self.instances.append(self._instance(spec, placement))

    def _instance(self, spec: GpuSpecification, placement: Placement) -> Instance:
        name, cluster = self.ref.name, placement.cluster
        namespace = self.function.spec.namespace or instance_namespace(name, spec.id, placement.index)
        key = UnitKey(WorkloadKind.FUNCTION, name, f"{spec.id}-{placement.index}", cluster)
        document = self.context.clusters[cluster].document.spec
        overlays = self.source.overlays
        content = content_key(
            self.context,
            str(key),
            namespace,
            self.function.spec.version,
            self.function.spec.operatorTypes,
            stricter(document.mode, self.deployment.spec.mode).value,
            [self.deployment.spec.serviceName, self.deployment.spec.servicePort],
            overlays.material(self.source.folder, spec.id, cluster) if overlays is not None else [],
            document.namespaceTemplate.model_dump(mode="json"),
            manifests=self.source.manifests,
        )
        return Instance(spec, placement, namespace, key, content, demand(self.context, spec, cluster))

    def check(self) -> None:
        for position, spec in enumerate(self.deployment.spec.gpuSpecifications):
            at: Path = ("spec", "gpuSpecifications", position)
            for code, message, path in target_problems(spec, self.context, self.function.spec.operatorTypes or ()):
                self.say(code, message, (*at, *path))
        named = [(name, ("spec", "clusterPatches", name)) for name in sorted(self.deployment.spec.clusterPatches)]
        listed: list[tuple[str, Path]] = list(named)
        for position, spec in enumerate(self.deployment.spec.gpuSpecifications):
            at = ("spec", "gpuSpecifications", position, "clusters")
            listed += [(name, (*at, i)) for i, name in enumerate(spec.clusters)]
        self.findings += unknown_clusters(
            listed, self.context, lines=self.document.lines, file=self.document.file, workload=self.ref
        )
        if self.function.spec.namespace:
            counts: dict[ClusterName, int] = {}
            for instance in self.instances:
                counts[instance.placement.cluster] = counts.get(instance.placement.cluster, 0) + 1
            for cluster, count in sorted(counts.items()):
                if count > 1:
                    message = f"{count} instances on {cluster} would share the namespace {self.function.spec.namespace}"
                    self.say(policy_codes.NAMESPACE_SHARED, message, ("spec", "gpuSpecifications"))
