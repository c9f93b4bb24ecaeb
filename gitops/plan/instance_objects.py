"""What functions and tasks share: which kinds they may hold, the objects of one instance namespace, and its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import GroupKind, UnitKey, WorkloadRef
from gitops.plan import codes
from gitops.plan.bases import Base, BaseObject
from gitops.plan.building import CleanObject, Marks, finish, in_namespace, namespace_object
from gitops.plan.secrets import declared_beside, with_users
from gitops.plan.units import DesiredObject, SecretRef
from gitops.plan.workloads import ClusterEntry, Context, Demand
from gitops.policy import codes as policy_codes
from gitops.policy.allocation import Ask
from gitops.policy.placement import Placement
from gitops.policy.scopes import builtin_namespaced
from gitops.policy.validation import ValidationRules


def gate(
    context: Context,
    operator_types: Sequence[str],
    objects: Sequence[BaseObject],
    workload: WorkloadRef,
    rules: Mapping[str, ValidationRules],
) -> list[Finding]:
    """Only the kinds of the workload's operator types, and those that the validation policy of every GPU specification
    (`rules`, by id) allows besides."""
    found: list[Finding] = []
    allowed = context.registry.allowed(operator_types)

    def say(code: str, message: str, item: BaseObject, *path: str) -> None:
        found.append(finding(code, message, item.origin(*path), object=item.ref, workload=workload, path=path))

    for item in objects:
        kind = allowed.get(item.gvk)
        narrowed = context.registry.is_narrowed(operator_types, item.gvk)
        without = [name for name, each in rules.items() if narrowed or item.gvk not in each.extra_types]
        versions = sorted(g.version for g in allowed if g.group_kind == item.gvk.group_kind)
        if kind is None and rules and not without:
            pass
        elif kind is None and versions:
            message = f"{item.gvk} is not allowed; use version {' or '.join(versions)}"
            say(policy_codes.VERSION_REFUSED, message, item, "apiVersion")
        elif kind is None or kind.scope == "Cluster":
            scope = _scope_words(item.gvk.group_kind)
            types = ", ".join(operator_types) or "none"
            by = " by the repository's policies" if narrowed else ""
            only = f", nor by the validation policy of {', '.join(without)}" if len(without) < len(rules) else ""
            message = f"{item.gvk}{scope} is not allowed{by} in a {workload.kind} with operatorTypes {types}{only}"
            say(policy_codes.KIND_REFUSED, message, item, "kind")
        elif kind.deprecated:
            say(policy_codes.DEPRECATED_VERSION, f"{item.gvk} is deprecated by its operator", item, "apiVersion")
    return found


def named_namespaces(objects: Iterable[BaseObject], workload: WorkloadRef) -> list[Finding]:
    """Objects with a namespace of their own: they get the instance's."""
    path = ("metadata", "namespace")
    return [
        finding(
            policy_codes.NAMESPACE_IN_FUNCTION,
            f"{item.gvk.kind} {item.name} names the namespace {item.namespace}",
            item.origin(*path),
            object=item.ref,
            workload=workload,
            path=path,
        )
        for item in objects
        if item.namespace
    ]


def _scope_words(kind: GroupKind) -> str:
    return " (a cluster-scoped kind)" if builtin_namespaced(kind) is False else ""


@dataclass(frozen=True, slots=True)
class Objects:
    """What one instance has: finished objects in apply order, and the Secrets it names. No objects after an error."""

    desired: tuple[DesiredObject, ...] = ()
    secret_refs: tuple[SecretRef, ...] = ()
    findings: tuple[Finding, ...] = ()


def instance_objects(
    context: Context,
    objects: Sequence[CleanObject],
    *,
    key: UnitKey,
    namespace: str,
    declared: Origin,
    secret_refs: Sequence[SecretRef],
) -> Objects:
    """The namespace, what the cluster's template puts into it, and the workload's objects. `declared` is what asks for
    the instance."""
    cluster = context.clusters[key.cluster]
    template = cluster.document.spec.namespaceTemplate
    made = namespace_object(namespace, template, declared=declared, origin_of=cluster.template_origin)
    twice = (*_in_template(cluster, objects, key.workload), *declared_beside(secret_refs, objects, key.workload))
    if twice:
        return Objects(findings=twice)
    desired, findings = finish(
        [made, *in_namespace([*cluster.objects, *objects], namespace)],
        marks=Marks.of(context.reconciler, key),
        workload=key.workload,
        registry=context.registry,
    )
    return Objects(desired, with_users(secret_refs, desired), findings)


def _in_template(cluster: ClusterEntry, objects: Sequence[CleanObject], workload: WorkloadRef) -> Iterator[Finding]:
    """Objects that the cluster's namespace template makes too."""
    given = {item.ref: item for item in cluster.objects}
    for item in objects:
        if item.ref in given:
            origin, other = item.provenance.origin_of(()), given[item.ref].provenance.origin_of(())
            message = f"{item.ref.kind} {item.ref.name} is also declared by the namespace template at {other}"
            yield finding(codes.DECLARED_TWICE, message, origin, object=item.ref, workload=workload)


def base_digest(base: Base) -> str:
    """Over a workload's manifests as declared, before overlays and whatever file they are in."""
    objects = sorted(canonical_json(item.body) for item in base.objects)
    return digest(b"\n".join(objects)).hex()


def demand(ask: Ask, placement: Placement) -> Demand:
    """GPUs that one instance asks of a cluster."""
    gpus = next(c.gpus for c in ask.candidates if c.cluster == placement.cluster)
    return Demand(placement.cluster, ask.gpu, gpus)
