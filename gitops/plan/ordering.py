"""Order of apply and failure domains: stages, references between objects, components.

A stage says what goes before what in any unit; a component is what falls together when one of its objects is refused.
References are found by the field names that Kubernetes and the operators use, not by schemas: only objects of the same
unit are connected, so a wrong guess costs at most a larger failure domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.model import kinds
from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef
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

_CONFIG_MAP, _SECRET, _SERVICE = kinds.CONFIG_MAP.group_kind, kinds.SECRET.group_kind, kinds.SERVICE.group_kind
_CLAIM, _ACCOUNT = GroupKind("", "PersistentVolumeClaim"), GroupKind("", "ServiceAccount")
_CACHE = GroupKind("apps.nvidia.com", "NIMCache")

_BY_NAME: dict[str, GroupKind] = {
    "configMap": _CONFIG_MAP,
    "configMapRef": _CONFIG_MAP,
    "configMapKeyRef": _CONFIG_MAP,
    "certConfigMap": _CONFIG_MAP,
    "secretRef": _SECRET,
    "secretKeyRef": _SECRET,
    "secret": _SECRET,
    "nimCache": _CACHE,
    "service": _SERVICE,
}
"""Keys whose value is a name, or a map with `name`."""

_TEXTS: dict[str, GroupKind] = {
    "secretName": _SECRET,
    "authSecret": _SECRET,
    "envFromSecret": _SECRET,
    "pullSecret": _SECRET,
    "claimName": _CLAIM,
    "pvcName": _CLAIM,
    "serviceAccountName": _ACCOUNT,
    "serviceName": _SERVICE,
}
"""Keys whose value is the name itself."""

_LISTS: dict[str, GroupKind] = {"pullSecrets": _SECRET, "imagePullSecrets": _SECRET}


def stage_of(gvk: GroupVersionKind, registry: OperatorRegistry) -> Stage:
    """When objects of a kind are applied: Kubernetes' own by the table, custom resources by the registry."""
    if (stage := _BY_KIND.get(str(gvk.group_kind))) is not None:
        return stage
    if is_builtin_group(gvk.group):
        return Stage.CONFIG
    kind = registry.kind(gvk)
    return Stage.CUSTOM_EARLY if kind is not None and kind.early else Stage.CUSTOM


@dataclass(frozen=True, slots=True)
class Node:
    """What ordering needs to know of an object."""

    ref: ObjectRef
    gvk: GroupVersionKind
    body: Mapping[str, Any]
    depends_on: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True)
class Ordered:
    """The place of an object in its unit: stage, failure domain, and what it waits for by its author's wish."""

    position: int  # in the list given
    stage: Stage
    component: int
    depends_on: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """`objects` in apply order; `unknown` are dependencies on objects the unit does not have; `cycle` their ring."""

    objects: tuple[Ordered, ...]
    unknown: tuple[tuple[int, Dependency], ...] = ()
    cycle: tuple[int, ...] = ()


def order(nodes: Sequence[Node], registry: OperatorRegistry) -> Order:
    """Put a unit's objects into apply order: by stage, then after what they depend on, then by name."""
    index = _Index(nodes)
    waits: list[tuple[int, ...]] = []
    unknown: list[tuple[int, Dependency]] = []
    for position, node in enumerate(nodes):
        targets = {dependency: index.find(dependency, node.ref.namespace) for dependency in node.depends_on}
        unknown += [(position, dependency) for dependency, target in targets.items() if target is None]
        waits.append(tuple(t for t in targets.values() if t is not None))
    cycle = _cycle(waits)
    components = _components(nodes, waits, index)
    stages = [stage_of(node.gvk, registry) for node in nodes]
    depths = [0] * len(nodes)
    if not cycle:
        for position in _topological(waits):
            for target in waits[position]:
                stages[position] = max(stages[position], stages[target])
                if stages[position] == stages[target]:
                    depths[position] = max(depths[position], depths[target] + 1)
    ranked = sorted(range(len(nodes)), key=lambda i: (stages[i], depths[i], nodes[i].ref))
    objects = tuple(Ordered(i, stages[i], components[i], tuple(sorted(nodes[t].ref for t in waits[i]))) for i in ranked)
    return Order(objects, tuple(unknown), cycle)


class _Index:
    """Objects of a unit by (group, kind, namespace, name); a cluster-scoped one is found from any namespace."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.positions = {node.ref: position for position, node in enumerate(nodes)}
        self.definitions: dict[GroupKind, int] = {}
        for position, node in enumerate(nodes):
            if node.ref.group_kind == kinds.DEFINITION.group_kind and (defined := defined_kind(node.body)) is not None:
                self.definitions[defined] = position

    def get(self, kind: GroupKind, namespace: str, name: str) -> int | None:
        found = self.positions.get(ObjectRef(kind.group, kind.kind, namespace, name))
        return self.positions.get(ObjectRef(kind.group, kind.kind, "", name)) if found is None else found

    def find(self, dependency: Dependency, namespace: str) -> int | None:
        place = dependency.namespace or namespace
        return self.get(GroupKind(dependency.group, dependency.kind), place, dependency.name)


def defined_kind(body: Mapping[str, Any]) -> GroupKind | None:
    """The kind that a CustomResourceDefinition defines."""
    spec = body.get("spec")
    names = spec.get("names") if isinstance(spec, Mapping) else None
    group, kind = (spec.get("group"), names.get("kind")) if isinstance(names, Mapping) and spec else (None, None)
    return GroupKind(group, kind) if isinstance(group, str) and isinstance(kind, str) else None


def _components(nodes: Sequence[Node], waits: Sequence[Iterable[int]], index: _Index) -> list[int]:
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
        if (definition := index.definitions.get(node.ref.group_kind)) is not None:
            join(position, definition)
        for kind, namespace, name in references(node.body):
            if (named := index.get(kind, namespace or node.ref.namespace, name)) is not None:
                join(position, named)
    numbers: dict[int, int] = {}
    for position in sorted(range(len(nodes)), key=lambda i: nodes[i].ref):
        numbers.setdefault(root(position), len(numbers))
    return [numbers[root(i)] for i in range(len(nodes))]


def references(value: Any) -> Iterator[tuple[GroupKind, str, str]]:
    """(kind, namespace or "", name) of everything that an object seems to name."""
    if isinstance(value, list):
        for child in value:
            if isinstance(child, dict | list):
                yield from references(child)
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        if isinstance(child, str):
            if (kind := _TEXTS.get(key)) is not None or (kind := _BY_NAME.get(key)) is not None:
                yield kind, "", child
        elif isinstance(child, dict):
            if (kind := _BY_NAME.get(key)) is not None and isinstance(name := child.get("name"), str):
                namespace = child.get("namespace")
                yield kind, namespace if isinstance(namespace, str) else "", name
            elif key in ("scaleTargetRef", "roleRef"):
                yield from _typed_reference(child)
            yield from references(child)
        elif isinstance(child, list):
            if (kind := _LISTS.get(key)) is not None:
                names = (i.get("name") if isinstance(i, dict) else i for i in child)
                yield from ((kind, "", name) for name in names if isinstance(name, str))
            elif key == "subjects":
                for subject in child:
                    if isinstance(subject, dict):
                        yield from _typed_reference(subject)
            yield from references(child)


def _typed_reference(value: Mapping[str, Any]) -> Iterator[tuple[GroupKind, str, str]]:
    kind, name, namespace = value.get("kind"), value.get("name"), value.get("namespace")
    group = value.get("apiGroup", str(value.get("apiVersion", "")).rpartition("/")[0])
    if isinstance(kind, str) and isinstance(name, str) and isinstance(group, str):
        yield GroupKind(group, kind), namespace if isinstance(namespace, str) else "", name


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
