"""Functions: the manifests of a function, merged, judged and finished into one unit for each planned instance.

Three steps, so that an unchanged function costs nothing: `read_function` (function_sources.py) looks at the two
documents and the names of the files, `plan_function` (instances.py) decides where instances run, and only
`compile_function` reads manifests and patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, Severity
from gitops.model.functions import Function
from gitops.model.identity import GroupKind, WorkloadRef
from gitops.plan import codes
from gitops.plan.bases import Base, BaseObject, read_base
from gitops.plan.building import CleanObject, Marks, finish, in_namespace, namespace_object
from gitops.plan.chains import Chains
from gitops.plan.function_sources import FunctionSource
from gitops.plan.instances import FunctionPlan, Instance
from gitops.plan.units import Unit
from gitops.plan.workloads import ClusterEntry, Context, Demand, WorkloadResult, stricter
from gitops.policy import codes as policy_codes
from gitops.policy.scopes import builtin_namespaced


def compile_function(context: Context, source: FunctionSource, plan: FunctionPlan) -> WorkloadResult:
    """Read, merge, judge and finish the objects of every planned instance."""
    findings = [*source.findings, *plan.findings]
    function = source.function
    if function is None:
        return WorkloadResult((), tuple(findings))
    base = read_base(context.loader, context.tree, source.manifests, source.folder.ref)
    findings += base.findings
    findings += _gate(context, function, base.objects, source)
    chains = Chains(context, source.folder, base, source.overlays)
    units: list[Unit] = []
    if base.complete and not any(f.severity == Severity.ERROR for f in base.findings):
        for instance in plan.instances:
            units += _unit(context, source, function, instance, chains, base)
        chains.check_the_rest()
    findings += chains.findings
    if any(f.severity == Severity.ERROR for f in findings):
        units = []
    return WorkloadResult(tuple(units), tuple(findings), _demands(context, units, plan))


def _unit(
    context: Context, source: FunctionSource, function: Function, instance: Instance, chains: Chains, base: Base
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
        [namespace, *in_namespace([*cluster.objects, *objects], instance.namespace)],
        marks=Marks.of(context.reconciler, instance.key),
        workload=source.folder.ref,
        registry=context.registry,
    )
    problems = (*problems, *_in_template(cluster, objects, source.folder.ref))
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
            operator_types=tuple(sorted(set(function.spec.operatorTypes or ()))),
            service_name=deployment.spec.serviceName or "",
            service_port=deployment.spec.servicePort,
            base_digest=base_digest(base),
        )
    ]


def _in_template(cluster: ClusterEntry, objects: Sequence[CleanObject], workload: WorkloadRef) -> Iterator[Finding]:
    """Objects that the cluster's namespace template makes too."""
    given = {item.ref: item for item in cluster.objects}
    for item in objects:
        if item.ref in given:
            origin, other = item.provenance.origin_of(()), given[item.ref].provenance.origin_of(())
            message = f"{item.ref.kind} {item.ref.name} is also declared by the namespace template at {other}"
            yield finding(codes.DECLARED_TWICE, message, origin, object=item.ref, workload=workload)


def base_digest(base: Base) -> str:
    """Over the function's manifests as declared, before overlays and whatever file they are in."""
    objects = sorted(canonical_json(item.body) for item in base.objects)
    return digest(b"\n".join(objects)).hex()


def _gate(context: Context, function: Function, objects: Sequence[BaseObject], source: FunctionSource) -> list[Finding]:
    """Only the kinds of the function's operator types, in namespaces that we give."""
    found: list[Finding] = []
    allowed = context.registry.allowed(function.spec.operatorTypes or ())

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
            types = ", ".join(function.spec.operatorTypes or ()) or "none"
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
