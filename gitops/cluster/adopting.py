"""Taking over objects that were made by other means.

Server-side apply removes only what its own manager owned before. After `kubectl apply` of an object, our apply alone
would leave fields that Git drops live for ever, duplicate renamed list items or be refused for them (ssa-live 9). So
the first apply is preceded by one JSON patch that folds the entries of earlier *declaring* managers into ours. Entries
of managers that only touched something (kubectl edit, label, scale, rollout, controllers) stay theirs.

An object that another tool still declares is not taken at all: `foreign_owner` names the tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL

BEFORE_FIRST_APPLY = "before-first-apply"

DECLARING_MANAGERS = frozenset(
    {
        "kubectl-client-side-apply",
        "kubectl",  # kubectl apply --server-side
        "kubectl-create",
        "kubectl-replace",
        "kubectl-run",
        "kubectl-expose",
        BEFORE_FIRST_APPLY,  # the server's name for fields from before managedFields were kept
    }
)
"""Managers whose fields a person declared with kubectl: what Git declares now takes their place."""

HELM_RELEASE = "meta.helm.sh/release-name"
FLUX_KUSTOMIZATION = "kustomize.toolkit.fluxcd.io/name"
FLUX_HELM = "helm.toolkit.fluxcd.io/name"
ARGO_TRACKING = "argocd.argoproj.io/tracking-id"
ARGO_INSTANCE = "argocd.argoproj.io/instance"


def foreign_owner(live: Mapping[str, Any], *, reconciler: str, applyset: str = "", manager: str = "") -> str | None:
    """Who else declares this object, in words for people; None when nobody does or we do.

    `applyset` is the id of the unit's parent. An object that carries our reconciler's label is ours whatever unit it is
    of: which unit may have it is decided by the plan. So is one that lost that label, as long as its ApplySet label was
    set by `manager`, which is ours.
    """
    metadata = live.get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    owner = labels.get(RECONCILER_LABEL)
    if owner == reconciler:
        return None
    if owner is not None:
        return f"the gitops reconciler {owner}"
    if HELM_RELEASE in annotations and labels.get("app.kubernetes.io/managed-by") == "Helm":
        return f"the Helm release {annotations[HELM_RELEASE]}"
    if FLUX_KUSTOMIZATION in labels:
        return f"the Flux Kustomization {labels[FLUX_KUSTOMIZATION]}"
    if FLUX_HELM in labels:
        return f"the Flux HelmRelease {labels[FLUX_HELM]}"
    if ARGO_TRACKING in annotations:
        # <application>:<group>/<kind>:<namespace>/<name>
        return f"the Argo CD application {annotations[ARGO_TRACKING].partition(':')[0]}"
    if ARGO_INSTANCE in labels:
        return f"the Argo CD application {labels[ARGO_INSTANCE]}"
    part_of = labels.get(PART_OF_LABEL)
    if part_of is not None and part_of != applyset and not _labelled_by(manager, metadata):
        return f"the ApplySet {part_of}"
    return None


def fold(live: Mapping[str, Any], *, manager: str) -> list[dict[str, Any]] | None:
    """The JSON patch that gives `manager` what declaring managers own; None when there is nothing to fold.

    It holds only for the resourceVersion it was made from. Entries at another API version than the object was read at
    stay as they are: their paths may mean other fields.
    """
    metadata = live.get("metadata") or {}
    entries: Sequence[Mapping[str, Any]] = metadata.get("managedFields") or ()
    ours = [e for e in entries if _is_applier(e, manager)]
    folded = [e for e in entries if _is_declaring(e, str(live.get("apiVersion", ""))) and e not in ours]
    if not folded:
        return None
    tree: dict[str, Any] = {}
    for entry in [*ours, *folded]:
        tree = _merged(tree, entry.get("fieldsV1") or {})
    mine = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": live["apiVersion"],
        "time": max(str(e.get("time", "")) for e in folded) or None,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    rest = [dict(e) for e in entries if e not in ours and e not in folded]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {
            "op": "replace",
            "path": "/metadata/managedFields",
            "value": [*rest, {key: value for key, value in mine.items() if value is not None}],
        },
    ]


def forget_before(live: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The JSON patch that removes the server's entry for fields from before the first apply; None when there is none.

    When somebody wiped managedFields, our next apply makes that entry, and it owns all of the object beside us: what
    Git removes later would stay live for ever (ssa-live 7). Only after a repair: of an object that was never ours, the
    entry says what there was.
    """
    metadata = live.get("metadata") or {}
    for position, entry in enumerate(metadata.get("managedFields") or ()):
        if entry.get("manager") == BEFORE_FIRST_APPLY and not entry.get("subresource"):
            return [
                {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
                {"op": "remove", "path": f"/metadata/managedFields/{position}"},
            ]
    return None


def is_ours(live: Mapping[str, Any], *, reconciler: str, manager: str) -> bool:
    """Was it applied by us, for whatever unit, also when it has lost the label by which we watch it?"""
    metadata = live.get("metadata") or {}
    owner = (metadata.get("labels") or {}).get(RECONCILER_LABEL)
    return owner == reconciler or (owner is None and _labelled_by(manager, metadata))


def _labelled_by(manager: str, metadata: Mapping[str, Any]) -> bool:
    """Did this manager apply the label that says which ApplySet the object is of?"""
    for entry in metadata.get("managedFields") or ():
        if _is_applier(entry, manager):
            fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
            return f"f:{PART_OF_LABEL}" in (fields.get("f:labels") or {})
    return False


def folded_managers(live: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the managers that fold() would fold, for the report."""
    entries: Sequence[Mapping[str, Any]] = (live.get("metadata") or {}).get("managedFields") or ()
    version = str(live.get("apiVersion", ""))
    return tuple(sorted({str(e.get("manager", "")) for e in entries if _is_declaring(e, version)}))


def _is_applier(entry: Mapping[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _is_declaring(entry: Mapping[str, Any], api_version: str) -> bool:
    return (
        entry.get("manager") in DECLARING_MANAGERS
        and not entry.get("subresource")
        and entry.get("apiVersion") == api_version
    )


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Union of two fieldsV1 trees. An empty node is a set of itself: united with a deeper one it needs its `.`."""
    merged = dict(one)
    for name, node in other.items():
        if name not in merged:
            merged[name] = node
            continue
        mine = merged[name]
        united = _merged(mine, node)
        if united and (not mine or not node) and name != ".":
            united["."] = {}
        merged[name] = united
    return merged
