"""Does a Service really have somebody behind it? From the Service and its EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""Kubernetes puts it on every EndpointSlice: the Service it belongs to."""


def has_ready_endpoint(
    service: Mapping[str, Any] | None, slices: Iterable[Mapping[str, Any]], port: int | None
) -> bool:
    """True when `service` exposes `port` (None: any) and one of its endpoints is ready on it.

    `slices` may be all of the namespace. A ready condition that is absent counts as ready (EndpointConditions: "nil
    should be interpreted as true").
    """
    if service is None:
        return False
    ports = [p for p in (service.get("spec") or {}).get("ports") or [] if port in (None, p.get("port"))]
    if not ports:
        return False
    names = {p.get("name") or "" for p in ports}
    metadata = service.get("metadata") or {}
    for piece in slices:
        labels = (piece.get("metadata") or {}).get("labels") or {}
        if labels.get(SERVICE_NAME_LABEL) != metadata.get("name"):
            continue
        if (piece.get("metadata") or {}).get("namespace") != metadata.get("namespace"):
            continue
        if not any((p.get("name") or "") in names for p in piece.get("ports") or []):
            continue
        if any((e.get("conditions") or {}).get("ready") is not False for e in piece.get("endpoints") or []):
            return True
    return False
