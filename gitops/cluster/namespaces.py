"""What a namespace holds besides what Kubernetes itself puts there: the question before it may be deleted, and while it
is.

Every namespaced kind that can be listed is asked, metadata only. That is many small calls, but it happens only when an
instance namespace is about to go, and a kind left out would be data lost.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery, Resource
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.cluster.objects import METADATA_ONLY
from gitops.model.identity import ObjectRef
from gitops.model.kinds import OF_CONTROLLERS
from gitops.readiness.texts import one_line

IGNORED_OBJECTS = frozenset(
    {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),  # OpenShift's service-ca operator
        ("ConfigMap", "istio-ca-root-cert"),  # Istio's control plane
    }
)
"""Objects that something puts into every namespace."""

LOOKED_INTO = 5
"""Kinds at most that are asked for who holds a namespace."""

_REMAINING = re.compile(r"([a-z0-9-]+)\.(\S*) has \d+ resource instances")
"""In the message of NamespaceContentRemaining: plural and group, "" for the core group (namespace controller,
pkg/controller/namespace/deletion/status_condition_utils.go)."""

_TOLD = (
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
)
"""Conditions of a namespace that is being deleted, most telling first."""


@dataclass(frozen=True, slots=True)
class Contents:
    """`going`: being deleted, or owned by something (the garbage collector's work). `foreign`: everything else."""

    foreign: tuple[ObjectRef, ...] = ()
    going: tuple[ObjectRef, ...] = ()


class NamespaceContents:
    def __init__(self, connection: Connection, discovery: Discovery) -> None:
        self._connection = connection
        self._discovery = discovery

    async def foreign(self, namespace: str) -> Contents | ApiError:
        """What is in the namespace; ApiError when any kind's answer is missing, or which kinds there are: then nothing
        is known."""
        seen: dict[str, Resource] = {}
        served = await self._discovery.everything()
        if isinstance(served, ApiError):
            return served
        for gvk, resource in sorted(served.items()):
            if resource.namespaced and "list" in resource.verbs and gvk.group_kind not in OF_CONTROLLERS:
                seen.setdefault(f"{gvk.group}/{resource.plural}", resource)
        answers = await asyncio.gather(*(self._list(resource, namespace) for resource in seen.values()))
        foreign: list[ObjectRef] = []
        going: list[ObjectRef] = []
        for answer in answers:
            if isinstance(answer, ApiError):
                return answer
            foreign += answer.foreign
            going += answer.going
        return Contents(tuple(foreign), tuple(going))

    async def held_by(self, live: Mapping[str, Any]) -> str:
        """Who keeps a namespace that is being deleted, in words: "held by <finalizer> on <object>" where one is found,
        else what the API server says remains; "" while it says nothing. One list for each kind that remains, at most
        LOOKED_INTO."""
        conditions = (live.get("status") or {}).get("conditions") or ()
        said = {c.get("type"): str(c.get("message", "")) for c in conditions if c.get("status") == "True"}
        served = await self._discovery.everything() if said else {}
        by_name = {} if isinstance(served, ApiError) else {(r.plural, g.group): r for g, r in served.items()}
        remaining = _REMAINING.findall(said.get("NamespaceContentRemaining", ""))
        for plural, group in remaining[:LOOKED_INTO]:
            resource = by_name.get((plural, group))
            if resource is None:
                continue
            items = await self._items(resource, live["metadata"]["name"])
            for item in () if isinstance(items, ApiError) else items:
                metadata = item.get("metadata") or {}
                if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                    where = ObjectRef(group, resource.gvk.kind, live["metadata"]["name"], metadata.get("name", ""))
                    return f"held by {one_line(metadata['finalizers'][0])} on {where}"
        return next((one_line(said[kind]) for kind in _TOLD if kind in said), "")

    async def _list(self, resource: Resource, namespace: str) -> Contents | ApiError:
        gvk = resource.gvk
        items = await self._items(resource, namespace)
        if isinstance(items, ApiError):
            return items
        foreign: list[ObjectRef] = []
        going: list[ObjectRef] = []
        for item in items:
            metadata = item.get("metadata") or {}
            if (gvk.kind, metadata.get("name")) in IGNORED_OBJECTS:
                continue
            ref = ObjectRef(gvk.group, gvk.kind, namespace, metadata.get("name", ""))
            on_its_way = metadata.get("deletionTimestamp") or metadata.get("ownerReferences")
            (going if on_its_way else foreign).append(ref)
        return Contents(tuple(foreign), tuple(going))

    async def _items(self, resource: Resource, namespace: str) -> Sequence[Mapping[str, Any]] | ApiError:
        """Metadata of objects of one kind there: enough of them to say whether there are any."""
        try:
            response = await self._connection.request(
                "GET",
                resource.path(namespace=namespace),
                query={"limit": "100"},
                accept=METADATA_ONLY,
                verb="list",
            )
        except RequestFailed as failed:
            return failed.error
        if not response.ok:
            error = response.error(resource=resource.plural)
            # 404: the kind went away since discovery; 405: it cannot be listed after all.
            return () if error.cls is ErrorClass.GONE or response.status in (404, 405) else error
        items: Sequence[Mapping[str, Any]] = response.json().get("items") or ()
        return items
