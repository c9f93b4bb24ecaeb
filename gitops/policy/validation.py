"""Validation policies: whether the objects of a function or task are judged by more than their kinds.

`Default` is the part of NVCF's policy of that name (ReVal) that can be told of an operator's objects: what is written
and forbidden. What its pods must contain is asked only of pods that nobody completes. `Unrestricted` asks nothing. Both
leave kinds to the operator types, and to the types that a policy allows besides (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import SERVICE
from gitops.model.serving import KubernetesType
from gitops.policy.field_rules import values_at
from gitops.policy.pods.places import PodPart, as_map, maps_of
from gitops.policy.pods.standards import Level, Violation
from gitops.policy.registry import OperatorRegistry, gvk_of
from gitops.policy.scopes import builtin_namespaced

_CONTROLS = frozenset(
    {
        "host namespaces",
        "hostPort",
        "privileged",
        "unrestricted capabilities",
        "allowPrivilegeEscalation != false",
        "procMount",
        "runAsNonRoot != true",
        "runAsUser=0",
        "seccompProfile",
        "seLinuxOptions",
        "forbidden AppArmor profile",
    }
)
"""Of Pod Security's restricted level, in any version."""

_VOLUMES = frozenset({"configMap", "secret", "projected", "persistentVolumeClaim", "emptyDir"})
_PROJECTED = frozenset({"configMap", "secret"})


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What a validation policy says, with the types that it allows besides those of the operators."""

    name: str
    strict: bool
    extra_types: frozenset[GroupVersionKind] = frozenset()


DEFAULT = ValidationRules("Default", strict=True)
UNRESTRICTED = ValidationRules("Unrestricted", strict=False)

WITHOUT_CHOICE = UNRESTRICTED
"""What counts where a GPU specification names no policy, as in a self-hosted installation of NVCF."""


def refused_extra(registry: OperatorRegistry, extra: KubernetesType) -> str | None:
    """Why a type may not be allowed by a repository; None when it may."""
    kind = gvk_of(extra)
    if builtin_namespaced(kind.group_kind) is False:
        return f"{kind} is a cluster-scoped kind"
    if kind not in registry.extra_types:
        return f"{kind} is not among the daemon's extra_kubernetes_types"
    return None


Refusal = tuple[Path, str, str]
"""Path, what is wrong there, and the rule."""


def refusals(
    body: Mapping[str, Any],
    kind: GroupVersionKind,
    parts: Iterable[tuple[PodPart, Iterable[Violation]]],
    service_types: Iterable[str],
) -> Iterator[Refusal]:
    """What the policy Default refuses in an object with these pods, whose violations are known."""
    for part, found in parts:
        for violation in found:
            decided = part.complete or not violation.missing
            if decided and violation.control in _CONTROLS and Level.RESTRICTED in violation.levels:
                yield violation.path, violation.message, violation.control
        for path, message, rule in _of_pod(part):
            yield part.scalar or path, message, rule
    for pattern in service_types:
        yield from _services(body, pattern)
    if kind.group_kind == SERVICE.group_kind:
        yield from _services(body, "/spec/type")


def _of_pod(part: PodPart) -> Iterator[Refusal]:
    path, spec = part.spec
    if spec.get("automountServiceAccountToken") is True:
        yield (*path, "automountServiceAccountToken"), "is true", "no token of a service account"
    for at, container in part.containers:
        image = container.get("image")
        if image == "" or (image is None and part.complete):
            yield (*at, "image"), "is not set", "an image for every container"
        read_only = as_map(container.get("securityContext")).get("readOnlyRootFilesystem")
        if read_only is False or (read_only is None and part.complete):
            field = (*at, "securityContext", "readOnlyRootFilesystem")
            yield field, "is not true", "a root file system that is only read"
    for at, volume in part.volumes:
        yield from _volume(at, volume)


def _volume(at: Path, volume: Mapping[str, Any]) -> Iterator[Refusal]:
    rule = "volumes of configMap, secret, projected, persistentVolumeClaim and emptyDir only"
    for field, source in volume.items():
        if field != "name" and field not in _VOLUMES and source is not None:
            yield (*at, field), "is another type of volume", rule
    sources = as_map(volume.get("projected")).get("sources")
    for place, source in maps_of((*at, "projected", "sources"), sources):
        for field, value in source.items():
            if field not in _PROJECTED and value is not None:
                yield (*place, field), "is projected", "projected volumes of configMap and secret only"


def _services(body: Mapping[str, Any], pattern: str) -> Iterator[Refusal]:
    for at, value in values_at(body, pattern):
        if value not in (None, "ClusterIP"):
            yield at, "is not ClusterIP", "Services inside the cluster only"
