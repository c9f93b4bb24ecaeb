"""What becomes of a claim's volume when the claim goes: told before and with each deletion of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitops.cluster.errors import ApiError
from gitops.cluster.objects import Objects
from gitops.model.identity import ObjectRef
from gitops.model.kinds import STORAGE_CLASS, VOLUME

_MEANS = {
    "Delete": "the volume and what is on it are deleted with the claim",
    "Retain": "the volume stays, and no new claim gets it by itself",
    "Recycle": "the volume is wiped",
}


async def reclaim_policy(objects: Objects, claim: Mapping[str, Any]) -> str:
    """A sentence with the reclaim policy of the claim's volume, or of its class while it has none."""
    spec = claim.get("spec") or {}
    volume, storage_class = spec.get("volumeName"), spec.get("storageClassName")
    if volume:
        found = await objects.get(VOLUME, ObjectRef("", "PersistentVolume", "", volume))
        policy = (found.get("spec") or {}).get("persistentVolumeReclaimPolicy") if isinstance(found, dict) else ""
        return _sentence(f"volume {volume}", policy, found)
    if storage_class:
        found = await objects.get(STORAGE_CLASS, ObjectRef("storage.k8s.io", "StorageClass", "", storage_class))
        policy = found.get("reclaimPolicy", "Delete") if isinstance(found, dict) else ""
        return f"no volume is bound yet; {_sentence(f'class {storage_class}', policy, found)}"
    return "no volume is bound"


def _sentence(what: str, policy: str | None, found: dict[str, Any] | ApiError | None) -> str:
    if policy:
        return f"{what} has reclaim policy {policy}" + (f": {_MEANS[policy]}" if policy in _MEANS else "")
    return f"the reclaim policy of {what} is not known" + (f" ({found})" if isinstance(found, ApiError) else "")
