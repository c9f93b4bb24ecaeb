"""What objects of a unit name of each other.

References are found by the field names that Kubernetes and the operators use, not by schemas: only objects of the same
unit are connected, so a wrong guess costs at most a larger failure domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.model import kinds
from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef
from gitops.policy.annotations import Dependency

_CONFIG_MAP, _SECRET, _SERVICE = kinds.CONFIG_MAP.group_kind, kinds.SECRET.group_kind, kinds.SERVICE.group_kind
_CLAIM, _ACCOUNT = GroupKind("", "PersistentVolumeClaim"), GroupKind("", "ServiceAccount")
_CACHE = GroupKind("apps.nvidia.com", "NIMCache")
_PRIORITY, _RUNTIME = GroupKind("scheduling.k8s.io", "PriorityClass"), GroupKind("node.k8s.io", "RuntimeClass")

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
    "serviceAccount": _ACCOUNT,
    "kubernetes.io/service-account.name": _ACCOUNT,
    "priorityClassName": _PRIORITY,
    "runtimeClassName": _RUNTIME,
    "resourceClaimTemplateName": GroupKind("resource.k8s.io", "ResourceClaimTemplate"),
    "storageClassName": GroupKind("storage.k8s.io", "StorageClass"),
    "ingressClassName": GroupKind("networking.k8s.io", "IngressClass"),
    "serviceName": _SERVICE,
}
"""Keys whose value is the name itself."""

_LISTS: dict[str, GroupKind] = {"pullSecrets": _SECRET, "imagePullSecrets": _SECRET}


@dataclass(frozen=True, slots=True)
class Node:
    """What ordering needs to know of an object."""

    ref: ObjectRef
    gvk: GroupVersionKind
    body: Mapping[str, Any]
    depends_on: tuple[Dependency, ...] = ()


class Index:
    """Objects of a unit by (group, kind, namespace, name); a cluster-scoped one is found from any namespace."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
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
