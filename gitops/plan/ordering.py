"""Order of apply and failure domains: stages and components.

A stage says what goes before what in any unit; a component is what falls together when one of its objects is refused:
objects that name each other (gitops/plan/references.py) or wait for each other (gitops/plan/prerequisites.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.prerequisites import prerequisites
from gitops.plan.references import Index, Node, references
from gitops.plan.units import Stage
from gitops.policy.annotations import Dependency
from gitops.policy.registry import OperatorRegistry
from gitops.policy.scopes import is_builtin_group

_STAGES: dict[Stage, str] = {
    Stage.NAMESPACE: "Namespace",
    Stage.BOUNDS: "ResourceQuota LimitRange NetworkPolicy.networking.k8s.io",
    Stage.ACCESS: "ServiceAccount Role.rbac.authorization.k8s.io RoleBinding.rbac.authorization.k8s.io "
    "ClusterRole.rbac.authorization.k8s.io ClusterRoleBinding.rbac.authorization.k8s.io",
    Stage.DEFINITION: "CustomResourceDefinition.apiextensions.k8s.io",
    Stage.WORKLOAD: "Pod ReplicationController Deployment.apps StatefulSet.apps DaemonSet.apps ReplicaSet.apps "
    "Job.batch CronJob.batch",
    # Last, after what serves them: a fail-closed webhook without endpoints would block its own pods.
    Stage.ADMISSION: "MutatingWebhookConfiguration.admissionregistration.k8s.io "
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io "
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io "
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io "
    "MutatingAdmissionPolicy.admissionregistration.k8s.io "
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io APIService.apiregistration.k8s.io",
}
_BY_KIND: dict[str, Stage] = {kind: stage for stage, kinds in _STAGES.items() for kind in kinds.split()}


def stage_of(gvk: GroupVersionKind, registry: OperatorRegistry) -> Stage:
    """When objects of a kind are applied: Kubernetes' own by the table, custom resources by the registry."""
    if (stage := _BY_KIND.get(str(gvk.group_kind))) is not None:
        return stage
    if is_builtin_group(gvk.group):
        return Stage.CONFIG
    kind = registry.kind(gvk)
    return Stage.CUSTOM_EARLY if kind is not None and kind.early else Stage.CUSTOM


@dataclass(frozen=True, slots=True)
class Ordered:
    """The place of an object in its unit: stage, failure domain, and what it waits for by its author's wish."""

    position: int  # in the list given
    stage: Stage
    component: int
    depends_on: tuple[ObjectRef, ...]
    after_ready: tuple[ObjectRef, ...] = ()  # what must be ready before it is applied


@dataclass(frozen=True, slots=True)
class Order:
    """`objects` in apply order; `unknown` are dependencies on objects the unit does not have; `cycle` their ring."""

    objects: tuple[Ordered, ...]
    unknown: tuple[tuple[int, Dependency], ...] = ()
    cycle: tuple[int, ...] = ()


def order(nodes: Sequence[Node], registry: OperatorRegistry) -> Order:
    """Put a unit's objects into apply order: by stage, then after what they depend on, then by name."""
    index = Index(nodes)
    waits: list[tuple[int, ...]] = []
    unknown: list[tuple[int, Dependency]] = []
    for position, node in enumerate(nodes):
        targets = {dependency: index.find(dependency, node.ref.namespace) for dependency in node.depends_on}
        unknown += [(position, dependency) for dependency, target in targets.items() if target is None]
        waits.append(tuple(t for t in targets.values() if t is not None))
    cycle = _cycle(waits)
    needed = [tuple(prerequisites(node, index, registry)) for node in nodes]
    components = _components(nodes, [[*w, *n] for w, n in zip(waits, needed, strict=True)], index)
    stages = [stage_of(node.gvk, registry) for node in nodes]
    depths = [0] * len(nodes)
    if not cycle:
        for position in _topological(waits):
            for target in waits[position]:
                stages[position] = max(stages[position], stages[target])
                if stages[position] == stages[target]:
                    depths[position] = max(depths[position], depths[target] + 1)
    ranked = sorted(range(len(nodes)), key=lambda i: (stages[i], depths[i], nodes[i].ref))

    def refs(positions: Iterable[int]) -> tuple[ObjectRef, ...]:
        return tuple(sorted(nodes[p].ref for p in positions))

    def placed(i: int) -> Ordered:
        # Where its author puts it before what it would wait for, the author's wish counts: it would wait for ever.
        ready = (t for t in needed[i] if (stages[t], depths[t]) < (stages[i], depths[i]))
        return Ordered(i, stages[i], components[i], refs(waits[i]), refs(ready))

    return Order(tuple(map(placed, ranked)), tuple(unknown), cycle)


def _components(nodes: Sequence[Node], waits: Sequence[Iterable[int]], index: Index) -> list[int]:
    """Failure domain of each object, numbered by first appearance in the order of identity."""
    parent = list(range(len(nodes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def join(a: int, b: int) -> None:
        parent[root(a)] = root(b)

    for position, node in enumerate(nodes):
        for target in waits[position]:
            join(position, target)
        for kind, namespace, name in references(node.body):
            if (named := index.get(kind, namespace or node.ref.namespace, name)) is not None:
                join(position, named)
    numbers: dict[int, int] = {}
    for position in sorted(range(len(nodes)), key=lambda i: nodes[i].ref):
        numbers.setdefault(root(position), len(numbers))
    return [numbers[root(i)] for i in range(len(nodes))]


def _topological(waits: Sequence[Iterable[int]]) -> list[int]:
    """Positions so that each comes after what it waits for; the graph has no cycle."""
    done: list[int] = []
    seen: set[int] = set()
    stack = list(range(len(waits) - 1, -1, -1))
    while stack:
        position = stack.pop()
        if position in seen:
            continue
        pending = [t for t in waits[position] if t not in seen]
        if pending:
            stack += [position, *pending]
        else:
            seen.add(position)
            done.append(position)
    return done


def _cycle(waits: Sequence[Iterable[int]]) -> tuple[int, ...]:
    """Positions of one ring of dependencies, in order; empty when there is none."""
    state = [0] * len(waits)  # 0 new, 1 on the way, 2 done
    for start in range(len(waits)):
        trail: list[tuple[int, Iterator[int]]] = [(start, iter(waits[start]))] if not state[start] else []
        while trail:
            position, rest = trail[-1]
            state[position] = 1
            step = next((t for t in rest if state[t] != 2), None)
            if step is None:
                state[position] = 2
                trail.pop()
            elif state[step] == 1:
                ring = [p for p, _ in trail]
                return tuple(ring[ring.index(step) :])
            else:
                trail.append((step, iter(waits[step])))
    return ()
