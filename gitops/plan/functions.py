"""Functions: function.yaml and deployment.yaml to one unit for each instance.

Three steps, so that an unchanged function costs nothing: `read_function` looks at the two documents and the names of
the files, `plan_function` decides where instances run, and only `compile_function` reads manifests and patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.documents import Function, FunctionDeployment, GpuSpecification, Patch
from gitops.model.findings import Finding, Origin, Severity
from gitops.model.identity import ClusterName, GroupKind, UnitKey, WorkloadKind
from gitops.model.trees import TreeEntry
from gitops.plan import codes
from gitops.plan.bases import Base, BaseObject, read_base
from gitops.plan.building import CleanObject, Marks, clean, finish, in_namespace, namespace_object
from gitops.plan.layout import WorkloadFolder
from gitops.plan.naming import instance_namespace, refused_for_function
from gitops.plan.patching import BoundPatch, PatchReader, merge
from gitops.plan.resolving import PatchList, resolve_files
from gitops.plan.units import Unit
from gitops.plan.workloads import (
    Context,
    Demand,
    WorkloadResult,
    check_name,
    content_key,
    patch_material,
    stricter,
    unknown_clusters,
)
from gitops.policy import codes as policy_codes
from gitops.policy.placement import Pins, Placement, Selection, eligible, place, place_on_each
from gitops.policy.scopes import builtin_namespaced

FUNCTION_FILE = "function.yaml"
DEPLOYMENT_FILE = "deployment.yaml"


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's documents and files. `function` is None when they are not usable."""

    folder: WorkloadFolder
    findings: tuple[Finding, ...]
    function: Function | None = None
    deployment: FunctionDeployment | None = None
    document: RawDocument | None = None  # of deployment.yaml
    manifests: tuple[TreeEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """One planned copy, with the key of its content."""

    spec: GpuSpecification
    placement: Placement
    namespace: str
    key: UnitKey
    content_key: str


@dataclass(frozen=True, slots=True)
class FunctionPlan:
    """Where a function's instances run: everything about it that does not need its manifests."""

    instances: tuple[Instance, ...]
    findings: tuple[Finding, ...]


def read_function(context: Context, folder: WorkloadFolder) -> FunctionSource:
    """Read the two documents and resolve the files they name."""
    ref = folder.ref
    main = folder.entries.get(f"{folder.root}/{FUNCTION_FILE}")
    if main is None:
        message = f"{folder.root} has no {FUNCTION_FILE}"
        return FunctionSource(folder, (finding(codes.NO_WORKLOAD_DOCUMENT, message, folder.origin, workload=ref),))
    raw, function, found = context.loader.load_one(context.tree, main, Function, workload=ref)
    findings = list(found)
    second = folder.entries.get(f"{folder.root}/{DEPLOYMENT_FILE}")
    document, deployment = None, None
    if second is not None:
        document, deployment, found = context.loader.load_one(context.tree, second, FunctionDeployment, workload=ref)
        findings += found
    if raw is None or function is None or (second is not None and (document is None or deployment is None)):
        return FunctionSource(folder, tuple(findings))
    findings += check_name(function, folder, file=main.path, line=raw.lines.line_of(("metadata", "name")))
    if function.spec.manifests is None:
        line = raw.lines.line_of(("spec",))
        message = "spec.manifests is missing"
        findings.append(finding(codes.MISSING_FIELD, message, Origin(main.path, line), workload=ref))
    if function.spec.namespace is not None and refused_for_function(function.spec.namespace):
        at_namespace: Path = ("spec", "namespace")
        message = f"a function cannot have the namespace {function.spec.namespace} for itself"
        origin = Origin(main.path, raw.lines.line_of(at_namespace))
        findings.append(finding(policy_codes.NAMESPACE_FORBIDDEN, message, origin, workload=ref, path=at_namespace))
    for position, name in enumerate(function.spec.operatorTypes):
        if name not in context.registry.types:
            known = ", ".join(sorted(context.registry.types))
            at: Path = ("spec", "operatorTypes", position)
            origin = Origin(main.path, raw.lines.line_of(at))
            message = f"unknown operator type {name} (known: {known})"
            findings.append(finding(codes.UNKNOWN_OPERATOR, message, origin, workload=ref, path=at))
    patches: list[PatchList] = []
    if document is not None and deployment is not None and second is not None:
        line = document.lines.line_of(("metadata", "name"))
        findings += check_name(deployment, folder, file=second.path, line=line)
        findings += _check_specs(deployment, document, folder)
        patches = _patch_lists(deployment, document)
    files = resolve_files(
        folder,
        manifests=function.spec.manifests or (),
        document=raw,
        patches=patches,
        own=[f"{folder.root}/{FUNCTION_FILE}", f"{folder.root}/{DEPLOYMENT_FILE}"],
    )
    findings += files.findings
    usable = not any(f.severity == Severity.ERROR for f in findings)
    return FunctionSource(folder, tuple(findings), function if usable else None, deployment, document, files.manifests)


def _check_specs(deployment: FunctionDeployment, document: RawDocument, folder: WorkloadFolder) -> list[Finding]:
    found = []
    seen: set[str] = set()
    for position, spec in enumerate(deployment.spec.gpuSpecifications):
        at: Path = ("spec", "gpuSpecifications", position)
        if spec.id in seen:
            origin = Origin(document.file, document.lines.line_of((*at, "id")))
            message = f"the id {spec.id} is used twice"
            found.append(finding(codes.NOT_UNIQUE, message, origin, workload=folder.ref, path=(*at, "id")))
        seen.add(spec.id)
        if spec.maxInstances is not None and spec.minInstances > spec.maxInstances:
            origin = Origin(document.file, document.lines.line_of((*at, "minInstances")))
            message = f"minInstances {spec.minInstances} is above maxInstances {spec.maxInstances}"
            found.append(finding(codes.MIN_ABOVE_MAX, message, origin, workload=folder.ref, path=(*at, "minInstances")))
    return found


def _patch_lists(deployment: FunctionDeployment, document: RawDocument) -> list[PatchList]:
    lists = [PatchList(deployment.spec.patches, document, ("spec", "patches"))]
    for position, spec in enumerate(deployment.spec.gpuSpecifications):
        at: Path = ("spec", "gpuSpecifications", position, "manifestMergePatches")
        lists.append(PatchList(spec.manifestMergePatches, document, at))
    for cluster in sorted(deployment.spec.clusterPatches):
        entries = deployment.spec.clusterPatches[cluster]
        lists.append(PatchList(entries, document, ("spec", "clusterPatches", cluster)))
    return lists


def plan_function(context: Context, source: FunctionSource, pins: Pins) -> FunctionPlan:
    """Decide where instances run. Costs no parsing; the same for every reader of the same tree and pins."""
    function, deployment, document = source.function, source.deployment, source.document
    if function is None:
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
        implied = [types[n].spec.clusterAttribute for n in self.function.spec.operatorTypes if n in types]
        fits = eligible(Selection.of(spec, implied=implied), context.documents)
        hidden = {ClusterName(n) for n in context.unreadable if not spec.clusters or n in spec.clusters}
        if not fits.clusters and not hidden and spec.minInstances:
            self.say(policy_codes.NO_CLUSTER, f"no cluster for {spec.id}: {fits.why_none()}", at)
        if spec.perCluster:
            placements = place_on_each(count=spec.minInstances, clusters=fits.clusters)
        else:
            placements = place(
                workload=self.ref,
                spec_id=spec.id,
                count=spec.minInstances,
                clusters=fits.clusters,
                pins=pins,
                keep_pins_on=hidden,
                place_new=not hidden,
            )
            if hidden and len(placements) < spec.minInstances:
                missing = spec.minInstances - len(placements)
                names = ", ".join(sorted(hidden))
                message = f"{missing} of {spec.minInstances} instances of {spec.id} wait for clusters/{names}.yaml"
                self.say(policy_codes.PLACEMENT_WAITS, message, at)
        for placement in placements:
            if placement.cluster in context.clusters:
                self.instances.append(self._instance(spec, placement))

    def _instance(self, spec: GpuSpecification, placement: Placement) -> Instance:
        name, cluster = self.ref.name, placement.cluster
        namespace = self.function.spec.namespace or instance_namespace(name, spec.id, placement.index)
        key = UnitKey(WorkloadKind.FUNCTION, name, f"{spec.id}-{placement.index}", cluster)
        document = self.context.clusters[cluster].document.spec
        patches = [
            patch_material(entries, self.source.folder)
            for entries in (
                self.deployment.spec.patches,
                spec.manifestMergePatches,
                self.deployment.spec.clusterPatches.get(cluster, ()),
            )
        ]
        content = content_key(
            self.context,
            str(key),
            namespace,
            self.function.spec.version,
            self.function.spec.operatorTypes,
            stricter(document.mode, self.deployment.spec.mode).value,
            [self.deployment.spec.serviceName, self.deployment.spec.servicePort],
            patches,
            document.namespaceTemplate.model_dump(mode="json"),
            manifests=self.source.manifests,
        )
        return Instance(spec, placement, namespace, key, content)

    def check(self) -> None:
        named = [(name, ("spec", "clusterPatches", name)) for name in sorted(self.deployment.spec.clusterPatches)]
        listed: list[tuple[str, Path]] = list(named)
        for position, spec in enumerate(self.deployment.spec.gpuSpecifications):
            at: Path = ("spec", "gpuSpecifications", position, "clusters")
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


def compile_function(context: Context, source: FunctionSource, plan: FunctionPlan) -> WorkloadResult:
    """Read, merge, judge and finish the objects of every planned instance."""
    findings = [*source.findings, *plan.findings]
    function = source.function
    if function is None:
        return WorkloadResult((), tuple(findings))
    base = read_base(context.loader, context.tree, source.manifests, source.folder.ref)
    findings += base.findings
    findings += _gate(context, function, base.objects, source)
    chains = _Chains(context, source, base)
    units: list[Unit] = []
    if base.complete and not any(f.severity == Severity.ERROR for f in base.findings):
        for instance in plan.instances:
            units += _unit(context, source, function, instance, chains, base)
        chains.check_unplaced(plan)
    findings += chains.findings
    if any(f.severity == Severity.ERROR for f in findings):
        units = []
    return WorkloadResult(tuple(units), tuple(findings), _demands(context, units, plan))


class _Chains:
    """Merged and judged objects by the patches that apply; instances with the same patches share them."""

    def __init__(self, context: Context, source: FunctionSource, base: Base) -> None:
        self.context = context
        self.source = source
        self.base = base
        self.findings: list[Finding] = []
        self._objects: dict[tuple[str, str], tuple[CleanObject, ...]] = {}
        self._patches: dict[tuple[str, str], tuple[BoundPatch, ...]] = {}
        self._reader: PatchReader | None = None
        if source.document is not None:
            self._reader = PatchReader(context.loader, context.tree, source.folder, source.document)

    def objects(self, spec_id: str, cluster: str) -> tuple[CleanObject, ...]:
        """Objects of a GPU specification on a cluster ("" = without cluster patches); none after an error."""
        deployment = self.source.deployment
        if deployment is None or cluster not in deployment.spec.clusterPatches:
            cluster = ""
        key = (spec_id, cluster)
        if key not in self._objects:
            self._objects[key] = self._make(spec_id, cluster)
        return self._objects[key]

    def _make(self, spec_id: str, cluster: str) -> tuple[CleanObject, ...]:
        workload = self.source.folder.ref
        before = len(self._reader.findings) if self._reader else 0
        patches = self._list(spec_id, cluster)
        found = self._reader.findings[before:] if self._reader else []
        self.findings += found
        if any(f.severity == Severity.ERROR for f in found):
            return ()
        merged, remarks = merge(self.base.objects, patches, workload)
        objects, judged = clean(merged, workload=workload, registry=self.context.registry)
        self.findings += [*remarks, *judged]
        return objects

    def _list(self, spec_id: str, cluster: str) -> tuple[BoundPatch, ...]:
        deployment = self.source.deployment
        if deployment is None:
            return ()
        chain: list[BoundPatch] = [*self._read(deployment.spec.patches, ("spec", "patches"))]
        for position, spec in enumerate(deployment.spec.gpuSpecifications):
            if spec.id == spec_id:
                at: Path = ("spec", "gpuSpecifications", position, "manifestMergePatches")
                chain += self._read(spec.manifestMergePatches, at)
        if cluster:
            chain += self._read(deployment.spec.clusterPatches[cluster], ("spec", "clusterPatches", cluster))
        return tuple(chain)

    def _read(self, entries: Sequence[Patch], at: Path) -> tuple[BoundPatch, ...]:
        return self._reader.read(entries, at) if self._reader is not None else ()

    def check_unplaced(self, plan: FunctionPlan) -> None:
        """Merge what no instance has merged, so that its errors are found before it is needed."""
        deployment = self.source.deployment
        if deployment is None or not deployment.spec.gpuSpecifications:
            self.objects("", "")
            return
        placed = {instance.spec.id for instance in plan.instances}
        for spec in deployment.spec.gpuSpecifications:
            if spec.id not in placed:
                self.objects(spec.id, "")


def _unit(
    context: Context, source: FunctionSource, function: Function, instance: Instance, chains: _Chains, base: Base
) -> list[Unit]:
    objects = chains.objects(instance.spec.id, instance.placement.cluster)
    deployment, document = source.deployment, source.document
    if not objects or deployment is None or document is None:
        return []
    cluster = context.clusters[instance.placement.cluster]
    position = deployment.spec.gpuSpecifications.index(instance.spec)
    declared = Origin(document.file, document.lines.line_of(("spec", "gpuSpecifications", position)))
    template = cluster.document.spec.namespaceTemplate
    namespace = namespace_object(
        instance.namespace,
        labels=template.labels,
        annotations=template.annotations,
        declared=declared,
        template=cluster.template,
    )
    desired, problems = finish(
        [namespace, *in_namespace(objects, instance.namespace)],
        marks=Marks.of(context.reconciler, instance.key),
        workload=source.folder.ref,
        registry=context.registry,
    )
    chains.findings += problems
    if problems:
        return []
    return [
        Unit(
            key=instance.key,
            content_key=instance.content_key,
            commit=context.tree.commit,
            namespace=instance.namespace,
            objects=desired,
            mode=stricter(cluster.document.spec.mode, deployment.spec.mode),
            version=function.spec.version,
            operator_types=tuple(sorted(set(function.spec.operatorTypes))),
            service_name=deployment.spec.serviceName or "",
            service_port=deployment.spec.servicePort,
            base_digest=base_digest(base),
        )
    ]


def base_digest(base: Base) -> str:
    """Over the function's manifests as declared, before overlays and whatever file they are in."""
    objects = sorted(canonical_json(item.body) for item in base.objects)
    return digest(b"\n".join(objects)).hex()


def _gate(context: Context, function: Function, objects: Sequence[BaseObject], source: FunctionSource) -> list[Finding]:
    """Only the kinds of the function's operator types, in namespaces that we give."""
    found: list[Finding] = []
    allowed = context.registry.allowed(function.spec.operatorTypes)

    def say(code: str, message: str, item: BaseObject, *path: str) -> None:
        origin = item.origin(*path)
        found.append(finding(code, message, origin, object=item.ref, workload=source.folder.ref, path=path))

    for item in objects:
        kind = allowed.get(item.gvk)
        versions = sorted(g.version for g in allowed if g.group_kind == item.gvk.group_kind)
        if kind is None and versions:
            message = f"{item.gvk} is not allowed; use version {' or '.join(versions)}"
            say(policy_codes.VERSION_REFUSED, message, item, "apiVersion")
        elif kind is None or kind.scope == "Cluster":
            scope = _scope_words(item.gvk.group_kind)
            types = ", ".join(function.spec.operatorTypes) or "none"
            message = f"{item.gvk}{scope} is not allowed in a function with operatorTypes {types}"
            say(policy_codes.KIND_REFUSED, message, item, "kind")
        elif kind.deprecated:
            say(policy_codes.DEPRECATED_VERSION, f"{item.gvk} is deprecated by its operator", item, "apiVersion")
        if item.namespace:
            message = f"{item.gvk.kind} {item.name} names the namespace {item.namespace}"
            say(policy_codes.NAMESPACE_IN_FUNCTION, message, item, "metadata", "namespace")
    return found


def _scope_words(kind: GroupKind) -> str:
    return " (a cluster-scoped kind)" if builtin_namespaced(kind) is False else ""


def _demands(context: Context, units: Sequence[Unit], plan: FunctionPlan) -> tuple[Demand, ...]:
    if not units:
        return ()
    demands = []
    for instance in plan.instances:
        spec, cluster = instance.spec, instance.placement.cluster
        each = 1
        for gpu in context.clusters[cluster].document.spec.gpus:
            if gpu.name.casefold() == spec.gpu.casefold():
                for kind in gpu.instanceTypes:
                    if spec.instanceType is not None and kind.name.casefold() == spec.instanceType.casefold():
                        each = kind.gpusPerInstance
        demands.append(Demand(cluster, spec.gpu.casefold(), each))
    return tuple(demands)
