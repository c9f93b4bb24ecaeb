"""Instances of a function: how many there are, where they run, in which namespaces, and the keys of their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.functions import Function, FunctionDeployment, GpuSpecification
from gitops.model.identity import ClusterName, UnitKey
from gitops.plan.function_sources import FUNCTION_FILE, FunctionSource
from gitops.plan.instance_objects import demand
from gitops.plan.naming import instance_namespace
from gitops.plan.placing import ask_of, declared_kinds, lost, nowhere, placement_problems, unit_key, units_of
from gitops.plan.units import stricter
from gitops.plan.workloads import Context, Demand, content_key, target_problems, unknown_clusters
from gitops.policy import codes as policy_codes
from gitops.policy.allocation import Ask, Decision
from gitops.policy.placement import NO_PINS, Pins, Placement


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
    """Where a function's instances run: everything about it that does not need its manifests. `kept` are live ones that
    stay as they are."""

    instances: tuple[Instance, ...] = ()
    findings: tuple[Finding, ...] = ()
    kept: tuple[UnitKey, ...] = ()


def ask_function(context: Context, source: FunctionSource, pins: Pins) -> tuple[Ask, ...]:
    """What each GPU specification asks for, in their order."""
    function, deployment = source.function, source.deployment
    if function is None or deployment is None or not source.whole:
        return ()
    return _asks(context, source, function, deployment, pins)


def _asks(
    context: Context, source: FunctionSource, function: Function, deployment: FunctionDeployment, pins: Pins
) -> tuple[Ask, ...]:
    kinds = declared_kinds(context, source.folder, source.manifests)
    operators = function.spec.operatorTypes or ()
    return tuple(
        ask_of(context, source.folder.ref, spec, operators=operators, kinds=kinds, pins=pins)
        for spec in deployment.spec.gpuSpecifications
    )


def plan_function(context: Context, source: FunctionSource, decisions: Sequence[Decision], pins: Pins) -> FunctionPlan:
    """The instances in the places that were decided on. Costs no parsing; the same for every reader of the same tree
    and pins."""
    function, deployment, document = source.function, source.deployment, source.document
    if function is None:
        return FunctionPlan()
    if not source.usable:
        return FunctionPlan(findings=_checked(context, source))
    ref = source.folder.ref
    if deployment is None or document is None or not deployment.spec.gpuSpecifications:
        origin = Origin(f"{source.folder.root}/{FUNCTION_FILE}")
        message = f"{ref} is not placed anywhere"
        found = [finding(policy_codes.NOT_PLACED, message, origin, workload=ref)]
        if live := lost(ref, pins, set()):
            found = [finding(policy_codes.UNDECLARED, live, origin, workload=ref)]
        return FunctionPlan(findings=tuple(found))
    planner = _Planner(context, source, function, deployment, document)
    for position, (spec, decision) in enumerate(zip(deployment.spec.gpuSpecifications, decisions, strict=True)):
        planner.spec(position, spec, decision)
    if live := lost(ref, pins, {spec.id for spec in deployment.spec.gpuSpecifications}):
        planner.say(policy_codes.UNDECLARED, live, ("spec", "gpuSpecifications"))
    planner.check()
    return FunctionPlan(tuple(planner.instances), tuple(planner.findings), tuple(planner.kept))


def _checked(context: Context, source: FunctionSource) -> tuple[Finding, ...]:
    """What is wrong with the specifications wherever they may go, of documents with errors."""
    if source.function is None or source.deployment is None or source.document is None or not source.kinds_known:
        return ()
    planner = _Planner(context, source, source.function, source.deployment, source.document)
    for position, ask in enumerate(_asks(context, source, source.function, source.deployment, NO_PINS)):
        for code, message, path in nowhere(ask):
            planner.say(code, message, ("spec", "gpuSpecifications", position, *path))
    planner.check()
    return tuple(planner.findings)


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
        self.kept: list[UnitKey] = []

    def say(self, code: str, message: str, at: Path) -> None:
        origin = Origin(self.document.file, self.document.lines.line_of(at))
        self.findings.append(finding(code, message, origin, workload=self.ref, path=at))

    def spec(self, position: int, spec: GpuSpecification, decision: Decision) -> None:
        for code, message, path in placement_problems(self.context, decision):
            self.say(code, message, ("spec", "gpuSpecifications", position, *path))
        units, kept = units_of(decision)
        self.kept += [unit_key(decision.ask, placement) for placement in kept]
        self.instances += [self._instance(spec, decision.ask, placement) for placement in units]

    def _instance(self, spec: GpuSpecification, ask: Ask, placement: Placement) -> Instance:
        name, cluster = self.ref.name, placement.cluster
        namespace = self.function.spec.namespace or instance_namespace(name, spec.id, placement.index)
        key = unit_key(ask, placement)
        document = self.context.clusters[cluster].document.spec
        overlays = self.source.overlays
        content = content_key(
            self.context,
            str(key),
            namespace,
            self.function.spec.version,
            self.function.spec.operatorTypes,
            stricter(document.mode, self.deployment.spec.mode).value,
            self.deployment.spec.serviceAccount,
            [self.deployment.spec.serviceName, self.deployment.spec.servicePort],
            overlays.material(self.source.folder, spec.id, cluster) if overlays is not None else [],
            document.namespaceTemplate.model_dump(mode="json"),
            [ref.name for ref in self.source.secret_refs],
            manifests=self.source.manifests,
        )
        return Instance(spec, placement, namespace, key, content, demand(ask, placement))

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
