"""A provisioner: every pending claim gets a volume made for it, so that pods that mount it can be scheduled."""

from __future__ import annotations

from typing import ClassVar

from gitops.sim.api import ApiError, Kind
from gitops.sim.controlling import Operator
from gitops.sim.kinds import CLAIM, VOLUME


class Provisioner(Operator):
    manager: ClassVar[str] = "volume-provisioner"
    primaries: ClassVar[tuple[Kind, ...]] = (CLAIM,)
    children: ClassVar[tuple[Kind, ...]] = ()

    async def reconcile(self, kind: str, namespace: str, name: str) -> float | None:
        claim = self.get(CLAIM, namespace, name)
        if claim is None or claim["spec"].get("volumeName") or "deletionTimestamp" in claim["metadata"]:
            return None
        uid = claim["metadata"]["uid"]
        volume = {
            "apiVersion": VOLUME.api_version,
            "kind": VOLUME.kind,
            "metadata": {"name": f"pv-{uid}"},
            "spec": {
                "accessModes": claim["spec"]["accessModes"],
                "capacity": claim["spec"]["resources"]["requests"],
                "storageClassName": claim["spec"].get("storageClassName", ""),
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"apiVersion": "v1", "kind": CLAIM.kind, "namespace": namespace, "name": name, "uid": uid},
                "hostPath": {"path": f"/var/lib/volumes/{uid}"},
            },
        }
        try:
            await self.api.create(VOLUME, volume)
        except ApiError as error:
            if error.code != 409:  # already made: the controller has not bound it yet
                raise
        return None
