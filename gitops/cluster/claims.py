"""Who a cluster belongs to: its identity, our namespaces on it, and the claim that one repository holds.

A cluster is the uid of its kube-system namespace; a name in Git may come to mean another cluster. The claim ConfigMap
says in writing which reconciler, repository and account apply here, so that two repositories never prune each other's
objects; the Lease beside it (leases.py) says which process of that reconciler may write now. It carries the label of
our objects, so the watch of parents tells when somebody deletes or edits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.model.identity import ClusterName, ClusterUid, ObjectRef, ReconcilerName
from gitops.model.kinds import CONFIG_MAP, NAMESPACE
from gitops.plan.naming import PREFLIGHT_NAMESPACE
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.plan.units import RECONCILER_LABEL

CLAIM_NAME = "gitops-claim"
CLAIM = ObjectRef("", "ConfigMap", SYSTEM_NAMESPACE, CLAIM_NAME)

_MANAGED_BY = {"app.kubernetes.io/managed-by": "gitops"}


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose a cluster is. `repository` is the display form of the URL (no credentials); `nca_id` may be empty."""

    reconciler: ReconcilerName
    repository: str
    nca_id: str = ""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim is ours. `new`: it was made just now, so nobody of ours can have written there before."""

    claim: Claim
    new: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Another repository, reconciler or account holds the cluster; `sentence` is for people."""

    held: Claim | None
    sentence: str


async def cluster_uid(objects: Objects) -> ClusterUid | ApiError:
    """The uid of kube-system: what the cluster is."""
    found = await objects.get(NAMESPACE, ObjectRef("", "Namespace", "", "kube-system"))
    if isinstance(found, ApiError):
        return found
    if found is None:
        return ApiError(ErrorClass.REFUSED, reason="NotACluster", message="there is no namespace kube-system")
    return ClusterUid(found["metadata"]["uid"])


async def ensure_namespaces(
    objects: Objects, *, manager: str, preflight_labels: Mapping[str, str] | None = None
) -> ApiError | None:
    """Create `gitops-system` and `gitops-preflight` where they are missing; the latter carries the labels of instance
    namespaces (Pod Security above all), so that a dry run there meets the same rules. Labels that we gave one earlier
    and that are wanted no more are taken away, those of others stay. No write when all is right."""
    wanted = ((SYSTEM_NAMESPACE, dict(_MANAGED_BY)), (PREFLIGHT_NAMESPACE, _MANAGED_BY | dict(preflight_labels or {})))
    for name, labels in wanted:
        error = await _ensure_namespace(objects, name, labels, manager=manager)
        if error is not None:
            return error
    return None


async def _ensure_namespace(objects: Objects, name: str, labels: Mapping[str, str], *, manager: str) -> ApiError | None:
    ref = ObjectRef("", "Namespace", "", name)
    live = await objects.get(NAMESPACE, ref)
    if isinstance(live, ApiError):
        return live
    if live is None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        created = await objects.create(NAMESPACE, ref, body, manager=manager)
        raced = isinstance(created, ApiError) and created.reason == "AlreadyExists"
        return created if isinstance(created, ApiError) and not raced else None
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        return ApiError(
            ErrorClass.WAITING,
            reason="NamespaceTerminating",
            message=f"namespace {name} is being deleted",
            waits_for=f"end of the deletion of namespace {name}",
        )
    have = metadata.get("labels") or {}
    wanted: dict[str, str | None] = {**dict.fromkeys(_labelled_by(manager, metadata) & have.keys()), **labels}
    if any(have.get(key) != value for key, value in wanted.items()):
        changed = await objects.merge_patch(NAMESPACE, ref, {"metadata": {"labels": wanted}}, manager=manager)
        return changed if isinstance(changed, ApiError) else None
    return None


def _labelled_by(manager: str, metadata: Mapping[str, Any]) -> set[str]:
    """Labels that this manager set, without the one that the API server sets in the name of whoever creates."""
    entries = (e for e in metadata.get("managedFields") or () if e.get("manager") == manager)
    fields = ((e.get("fieldsV1") or {}).get("f:metadata") or {} for e in entries)
    keys = {key for each in fields for key in each.get("f:labels") or {}}
    return {key.removeprefix("f:") for key in keys} - {".", "kubernetes.io/metadata.name"}


async def claim(
    objects: Objects, wanted: Claim, *, cluster: ClusterName, manager: str
) -> Claimed | ClaimRefused | ApiError:
    """Take or confirm the claim. Needs `gitops-system`."""
    live = await objects.get(CONFIG_MAP, CLAIM)
    if live is None:
        created = await objects.create(CONFIG_MAP, CLAIM, _body(wanted, cluster), manager=manager)
        if not isinstance(created, ApiError):
            return Claimed(wanted, new=True)
        if created.reason != "AlreadyExists":
            return created
        live = await objects.get(CONFIG_MAP, CLAIM)  # somebody was faster: theirs counts
        if live is None:
            return created
    if isinstance(live, ApiError):
        return live
    refused = judged(live, wanted, cluster)
    if refused is not None:
        return refused
    labels = _labels(wanted)
    if (live["metadata"].get("labels") or {}).items() >= labels.items():
        return Claimed(wanted)
    marked = await objects.merge_patch(CONFIG_MAP, CLAIM, {"metadata": {"labels": labels}}, manager=manager)
    return marked if isinstance(marked, ApiError) else Claimed(wanted)


async def give_up(objects: Objects, wanted: Claim, *, cluster: ClusterName) -> ApiError | None:
    """Delete the claim if it is ours: from then on any repository may claim the cluster."""
    live = await objects.get(CONFIG_MAP, CLAIM)
    if not isinstance(live, dict):
        return live
    if judged(live, wanted, cluster) is not None:
        return None
    metadata = live["metadata"]
    gone = await objects.delete(CONFIG_MAP, CLAIM, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    return gone.error


def _labels(wanted: Claim) -> dict[str, str]:
    return _MANAGED_BY | {RECONCILER_LABEL: wanted.reconciler}


def _body(wanted: Claim, cluster: ClusterName) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CLAIM_NAME, "namespace": SYSTEM_NAMESPACE, "labels": _labels(wanted)},
        "data": {
            "reconciler": wanted.reconciler,
            "repository": wanted.repository,
            "ncaId": wanted.nca_id,
            "cluster": cluster,  # for people: what the cluster was called when it was claimed
        },
    }


def judged(live: Mapping[str, Any], wanted: Claim, cluster: ClusterName) -> ClaimRefused | None:
    """Why the stored claim is not ours; None when it is."""
    data = live.get("data") or {}
    if not data.get("reconciler") or not data.get("repository"):
        return ClaimRefused(None, f"the claim on cluster {cluster} ({SYSTEM_NAMESPACE}/{CLAIM_NAME}) cannot be read")
    held = Claim(ReconcilerName(data["reconciler"]), data["repository"], data.get("ncaId", ""))
    if held == wanted:
        return None
    return ClaimRefused(
        held,
        f"cluster {cluster} is claimed by {_words(held)}, not by {_words(wanted)}; to hand it over, see docs/rights.md",
    )


def _words(claim: Claim) -> str:
    account = f" for account {claim.nca_id}" if claim.nca_id else ""
    return f"reconciler {claim.reconciler} of {claim.repository}{account}"
