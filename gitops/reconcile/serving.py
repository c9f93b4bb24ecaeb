"""Does the Service that a function names have somebody behind it? Kept per cluster, from EndpointSlices.

EndpointSlices carry the name of their Service as a label, so one watch with a selector covers all functions of a
cluster. Which of its ports is which only the Service says; it is read when its slices change, never at rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError
from gitops.cluster.reflecting import Changed, Deleted, Event, Vanished
from gitops.model.identity import ObjectRef
from gitops.model.kinds import ENDPOINT_SLICE, SERVICE
from gitops.plan.units import Unit
from gitops.readiness.serving import SERVICE_NAME_LABEL, has_ready_endpoint
from gitops.reconcile.watches import Watch

Place = tuple[str, str]
"""Namespace and name of a Service."""


def slices_watch(units: Iterable[Unit]) -> Watch | None:
    """The watch of the EndpointSlices of all Services that these units name; None when they name none."""
    names = sorted({u.service_name for u in units if u.service_name})
    return Watch(ENDPOINT_SLICE, f"{SERVICE_NAME_LABEL} in ({','.join(names)})") if names else None


class Serving:
    """`event` says whose Service is to be read (again); `read` reads it; `serving` answers."""

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        self._slices: dict[str, tuple[Place, Mapping[str, Any]]] = {}
        self._services: dict[Place, Mapping[str, Any]] = {}

    def event(self, event: Event) -> Place | None:
        """Take in an event of the slices watch."""
        if isinstance(event, Changed):
            obj = event.obj
            metadata = obj.get("metadata", {})
            place = (metadata.get("namespace", ""), (metadata.get("labels") or {}).get(SERVICE_NAME_LABEL, ""))
            self._slices[metadata.get("uid", "")] = (place, _lean(obj))
            return place
        if isinstance(event, Deleted | Vanished):
            uid = event.uid if isinstance(event, Vanished) else event.obj.get("metadata", {}).get("uid", "")
            found = self._slices.pop(uid, None)
            return found[0] if found is not None else None
        return None

    async def read(self, place: Place) -> ApiError | None:
        """Read the Service whose slices changed; an error leaves what was known."""
        namespace, name = place
        live = await self._applier.get(SERVICE, ObjectRef("", "Service", namespace, name))
        if isinstance(live, ApiError):
            return live
        if live is None:
            self._services.pop(place, None)
        else:
            ports = (live.get("spec") or {}).get("ports") or []
            self._services[place] = {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"ports": [{"port": p.get("port"), "name": p.get("name")} for p in ports]},
            }
        return None

    def serving(self, unit: Unit) -> bool | None:
        """Whether the unit's Service has a ready endpoint; None when it names none."""
        if not unit.service_name:
            return None
        place = (unit.namespace, unit.service_name)
        slices = [piece for where, piece in self._slices.values() if where == place]
        return has_ready_endpoint(self._services.get(place), slices, unit.service_port)


def _lean(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the answer needs of a slice: addresses and topology of hundreds of endpoints are not kept."""
    metadata = obj.get("metadata", {})
    ready = any((e.get("conditions") or {}).get("ready") is not False for e in obj.get("endpoints") or ())
    return {
        "metadata": {"namespace": metadata.get("namespace"), "labels": metadata.get("labels") or {}},
        "ports": [{"name": p.get("name")} for p in obj.get("ports") or ()],
        "endpoints": [{"conditions": {"ready": True}}] if ready else [],
    }
