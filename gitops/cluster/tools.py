"""How other tools mark the objects that they declare, and under which names they write.

| tool | marks | by |
|---|---|---|
| Helm | annotations `meta.helm.sh/release-*`, label `app.kubernetes.io/managed-by: Helm` | action/validate.go |
| Flux | labels `kustomize.toolkit.fluxcd.io/*`; `helm.toolkit.fluxcd.io/*` beside Helm's own | fluxcd/pkg, ssa |
| Argo CD | annotation `argocd.argoproj.io/tracking-id`, or the configured label | argo/resource_tracking.go |
| ApplySet | label `applyset.kubernetes.io/part-of` | KEP-3659 |

What is on an object may be damaged or copied: values are only shown, never relied on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.managed_fields import entries
from gitops.model.adoption import Tool
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL
from gitops.readiness.texts import one_line

RELEASE = "meta.helm.sh/release-name"
MANAGED_BY = "app.kubernetes.io/managed-by"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io/name"
HELM_RELEASE = "helm.toolkit.fluxcd.io/name"
RESOURCE_SET = "resourceset.fluxcd.controlplane.io/name"
TRACKING_ID = "argocd.argoproj.io/tracking-id"
ARGO_INSTANCE = "argocd.argoproj.io/instance"
INSTANCE = "app.kubernetes.io/instance"
"""Argo CD's label before version 3; charts set it too, so it counts only where Argo CD writes the object."""

MANAGERS: Mapping[Tool, frozenset[str]] = {
    Tool.HELM: frozenset({"helm", "terraform-provider-helm"}),
    Tool.FLUX: frozenset({"kustomize-controller", "helm-controller", "flux-operator", "flux", "helm"}),
    Tool.ARGOCD: frozenset({"argocd-controller", "argocd-application-controller"}),
    Tool.APPLYSET: frozenset({"kubectl-applyset"}),
}
"""Field managers of what a tool declares. A client that names none has the name of its program (client-go,
DefaultKubernetesUserAgent); Terraform's provider has its version at the end, after an underscore."""

_MARKS: Mapping[Tool, tuple[str, ...]] = {
    Tool.HELM: ("meta.helm.sh/",),
    Tool.FLUX: (
        "kustomize.toolkit.fluxcd.io/",
        "helm.toolkit.fluxcd.io/",
        "resourceset.fluxcd.controlplane.io/",
        "meta.helm.sh/",
    ),
    Tool.ARGOCD: (TRACKING_ID, ARGO_INSTANCE, "argocd.argoproj.io/installation-id"),
    Tool.APPLYSET: (PART_OF_LABEL,),
}
"""Labels and annotations by which a tool knows what is its own, by their beginning: with one of them left it would
prune the object, or go on enforcing it."""

AFTERWARDS: Mapping[Tool, str] = {
    Tool.HELM: "`helm uninstall` of it would still delete the object, as long as the release's Secret is there",
    Tool.FLUX: "as long as that declares it, Flux applies it again, and marks it again",
    Tool.ARGOCD: "as long as that declares it, Argo CD syncs it again, and marks it again",
    Tool.APPLYSET: "a `kubectl apply --applyset` that still has it applies it again",
}
"""What the tool may still do after its marks are gone."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Somebody who declares an object. `tool` is None for one whose objects are never taken over."""

    words: str
    tool: Tool | None = None


def owners(live: Mapping[str, Any]) -> Iterator[Owner]:
    """The tools that mark the object as theirs; another reconciler of our kind first."""
    metadata = live.get("metadata") or {}
    labels, annotations = _texts(metadata.get("labels")), _texts(metadata.get("annotations"))
    if (other := labels.get(RECONCILER_LABEL)) is not None:
        yield Owner(f"the gitops reconciler {_name(other)}")
    if HELM_RELEASE in labels:
        yield Owner(f"the Flux HelmRelease {_name(labels[HELM_RELEASE])}", Tool.FLUX)
    elif RELEASE in annotations:
        yield Owner(f"the Helm release {_name(annotations[RELEASE])}", Tool.HELM)
    if KUSTOMIZATION in labels:
        yield Owner(f"the Flux Kustomization {_name(labels[KUSTOMIZATION])}", Tool.FLUX)
    if RESOURCE_SET in labels:
        yield Owner(f"the Flux ResourceSet {_name(labels[RESOURCE_SET])}", Tool.FLUX)
    application = _application(live, labels, annotations)
    if application is not None:
        yield Owner(f"the Argo CD application {_name(application)}", Tool.ARGOCD)
    if PART_OF_LABEL in labels:
        yield Owner(f"the ApplySet {_name(labels[PART_OF_LABEL])}", Tool.APPLYSET)


def marks(live: Mapping[str, Any], tool: Tool) -> Iterator[tuple[str, str]]:
    """("labels" or "annotations", key) of each mark of the tool that is on the object."""
    metadata = live.get("metadata") or {}
    for place in ("labels", "annotations"):
        for key, value in _texts(metadata.get(place)).items():
            helm = tool in (Tool.HELM, Tool.FLUX) and (key, value) == (MANAGED_BY, "Helm")
            argo = tool is Tool.ARGOCD and key == INSTANCE and place == "labels" and _written_by(live, Tool.ARGOCD)
            if helm or argo or key.startswith(_MARKS[tool]):
                yield place, key


def is_manager_of(name: str, tool: Tool) -> bool:
    return name in MANAGERS[tool] or name.partition("_")[0] in MANAGERS[tool]


def _application(live: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> str | None:
    """The Argo CD application that tracks the object. A tracking id that names another object was copied from it by
    an operator, and Argo CD does not count it either."""
    tracking = annotations.get(TRACKING_ID)
    if tracking is not None:
        application, _, rest = tracking.partition(":")
        if not _is_of_another(rest, live):
            return application
    if ARGO_INSTANCE in labels:
        return labels[ARGO_INSTANCE]
    return labels.get(INSTANCE, "(unknown)") if tracking is None and _written_by(live, Tool.ARGOCD) else None


def _is_of_another(tracked: str, live: Mapping[str, Any]) -> bool:
    """Whether what a tracking id says after the application, `<group>/<kind>:<namespace>/<name>`, is another object. Of
    one without a namespace it names that of the application."""
    what, separator, where = tracked.partition(":")
    metadata = live.get("metadata") or {}
    kind, (namespace, _, name) = what.rpartition("/")[2], where.partition("/")
    here = metadata.get("namespace") or namespace
    return bool(separator) and (kind, namespace, name) != (live.get("kind"), here, metadata.get("name"))


def _written_by(live: Mapping[str, Any], tool: Tool) -> bool:
    named = (str(e.get("manager", "")) for e in entries(live) if not e.get("subresource"))
    return any(is_manager_of(name, tool) for name in named)


def _texts(found: Any) -> dict[str, str]:
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def _name(text: str) -> str:
    return one_line(text, 80)
