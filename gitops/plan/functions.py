"""Functions: the manifests of a function, merged, judged and finished into one unit for each planned instance.

Three steps, so that an unchanged function costs nothing: `read_function` (function_sources.py) looks at the two
documents and the names of the files, `plan_function` (instances.py) decides where instances run, and only
`compile_function` reads manifests and patches.
"""

from __future__ import annotations

from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.functions import Function
from gitops.plan.bases import Base, read_base
from gitops.plan.chains import Chains
from gitops.plan.function_sources import FunctionSource
from gitops.plan.instance_objects import base_digest, gate, instance_objects, named_namespaces
from gitops.plan.instances import FunctionPlan, Instance
from gitops.plan.units import Unit, stricter
from gitops.plan.workloads import Context, WorkloadResult, account_of, read_everything


def compile_function(context: Context, source: FunctionSource, plan: FunctionPlan) -> WorkloadResult:
    """Read, merge, judge and finish the objects of every planned instance.

    What can be read is judged also when the documents have errors, so that all of them are told at once.
    """
    findings = [*source.findings, *plan.findings]
    function = source.function
    if function is None:
        return WorkloadResult((), (*findings, *read_everything(context, source.folder)))
    base = read_base(context.loader, context.tree, source.manifests, source.folder.ref)
    findings += base.findings
    types = function.spec.operatorTypes or ()
    specifications = source.deployment.spec.gpuSpecifications if source.deployment is not None else ()
    rules = {spec.id: context.rules_of(spec) for spec in specifications}
    chains = Chains(context, source.folder, base, source.overlays, rules)
    units: list[Unit] = []
    findings += named_namespaces(base.objects, source.folder.ref)
    if source.kinds_known:
        findings += gate(context, types, base.objects, source.folder.ref, rules)
    for instance in plan.instances if base.sound else ():
        made, problems = _unit(context, source, function, instance, chains, base)
        units += made
        findings += problems
    chains.check_the_rest()
    findings += [*chains.findings, *chains.pods.findings()]
    if has_errors(findings):
        return WorkloadResult((), tuple(findings), suspects=tuple(units))
    demands = [instance.demand for instance in plan.instances if units]
    return WorkloadResult(tuple(units), tuple(findings), tuple(demands), plan.kept)


def _unit(
    context: Context, source: FunctionSource, function: Function, instance: Instance, chains: Chains, base: Base
) -> tuple[list[Unit], tuple[Finding, ...]]:
    name, specification = instance.placement.cluster, instance.spec.id
    cluster = context.clusters[name]
    labels = cluster.document.spec.namespaceTemplate.labels
    objects = chains.objects(specification, name)
    chains.pods.instance(objects, labels, name, context.facts_of(name).minor)
    deployment, document = source.deployment, source.document
    if not objects or deployment is None or document is None:
        return [], ()
    position = deployment.spec.gpuSpecifications.index(instance.spec)
    declared = Origin(document.file, document.lines.line_of(("spec", "gpuSpecifications", position)))
    made = instance_objects(
        context,
        objects,
        key=instance.key,
        namespace=instance.namespace,
        declared=declared,
        secret_refs=source.secret_refs,
    )
    if made.findings:
        return [], made.findings
    unit = Unit(
        key=instance.key,
        content_key=instance.content_key,
        commit=context.tree.commit,
        namespace=instance.namespace,
        objects=made.desired,
        mode=stricter(cluster.document.spec.mode, deployment.spec.mode),
        version=function.spec.version,
        operator_types=tuple(sorted(function.spec.operatorTypes or ())),
        service_name=deployment.spec.serviceName or "",
        service_port=deployment.spec.servicePort,
        adoption=deployment.spec.adoption,
        base_digest=base_digest(base),
        secret_refs=made.secret_refs,
        service_account=account_of(deployment.spec.serviceAccount),
    )
    return [unit], ()
