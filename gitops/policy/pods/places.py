"""Where objects write what their pods are: a table for Kubernetes' own kinds, `podTemplates` of the operator types.

An operator renders pods from parts: a whole template, a list of sidecars, a path on the node. Each part is seen as a
pod of its own, as far as it goes. A part of a wrong shape is passed over: schemas report it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.identity import GroupKind, GroupVersionKind
from gitops.model.pod_templates import PodTemplate
from gitops.policy.field_rules import values_at

At = tuple[Path, Mapping[str, Any]]
"""A map and its path in the object."""

CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")

_WORKLOADS = {
    GroupKind("", "Pod"): "",
    GroupKind("", "PodTemplate"): "/template",
    GroupKind("", "ReplicationController"): "/spec/template",
    GroupKind("apps", "DaemonSet"): "/spec/template",
    GroupKind("apps", "Deployment"): "/spec/template",
    GroupKind("apps", "ReplicaSet"): "/spec/template",
    GroupKind("apps", "StatefulSet"): "/spec/template",
    GroupKind("batch", "CronJob"): "/spec/jobTemplate/spec/template",
    GroupKind("batch", "Job"): "/spec/template",
}
"""Kubernetes' own kinds that make pods, and where their template is."""


@dataclass(frozen=True, slots=True)
class PodPart:
    """A pod as far as an object writes it.

    `complete`: nobody adds security contexts to it, so that a field which is not here is not in the pod either.
    `scalar`: the part is one value, and this is its path, whatever field of a pod it stands for.
    """

    spec: At
    containers: tuple[At, ...] = ()
    volumes: tuple[At, ...] = ()
    annotations: At = ((), {})
    complete: bool = False
    scalar: Path | None = None
    context: At = field(init=False)
    """The pod's security context."""
    contexts: tuple[At, ...] = field(init=False)
    """Those of its containers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", _security(self.spec))
        object.__setattr__(self, "contexts", tuple(map(_security, self.containers)))


def pod_parts(body: Mapping[str, Any], kind: GroupVersionKind, templates: Iterable[PodTemplate]) -> Iterator[PodPart]:
    """Every pod, or part of one, in an object. `templates` are the operator types' for this kind."""
    path = _WORKLOADS.get(kind.group_kind)
    if path is not None:
        for at, value in values_at(body, path) if path else [((), body)]:
            yield from _part("template", at, value, "", complete=True)
    for template in templates:
        for at, value in values_at(body, template.path):
            yield from _part(template.form, at, value, template.containerField, complete=template.complete)


def _part(form: str, path: Path, value: Any, container: str, *, complete: bool) -> Iterator[PodPart]:
    if form == "template":
        metadata = as_map(as_map(value).get("metadata"))
        annotations = (*path, "metadata", "annotations"), as_map(metadata.get("annotations"))
        spec = _of_spec((*path, "spec"), as_map(as_map(value).get("spec")), container, complete=complete)
        yield replace(spec, annotations=annotations)
    elif form == "spec":
        yield _of_spec(path, as_map(value), container, complete=complete)
    elif form == "metadata":
        annotations = (*path, "annotations"), as_map(as_map(value).get("annotations"))
        yield PodPart((path, {}), annotations=annotations)
    elif form == "containers":
        yield PodPart((path, {}), containers=tuple(maps_of(path, value)), complete=complete)
    elif form == "container":
        yield PodPart((path, {}), containers=((path, as_map(value)),), complete=complete)
    elif form == "hostPath" and value is not None:
        yield PodPart((path, {}), volumes=((path, {"hostPath": value}),), scalar=path)
    elif form == "userID" and value is not None:
        yield PodPart((path, {"securityContext": {"runAsUser": value}}), scalar=path)


def _of_spec(path: Path, spec: Mapping[str, Any], container: str, *, complete: bool) -> PodPart:
    containers = [at for name in CONTAINER_FIELDS for at in maps_of((*path, name), spec.get(name))]
    if isinstance(spec.get(container), dict):
        containers.append(((*path, container), spec[container]))
    volumes = tuple(maps_of((*path, "volumes"), spec.get("volumes")))
    return PodPart((path, spec), tuple(containers), volumes, complete=complete)


def _security(at: At) -> At:
    path, holder = at
    return (*path, "securityContext"), as_map(holder.get("securityContext"))


def as_map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def maps_of(path: Path, value: Any) -> Iterator[At]:
    """The maps of a list, each with its path; nothing of anything else."""
    for position, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield (*path, position), item
