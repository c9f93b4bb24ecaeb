"""What a namespace holds besides what Kubernetes itself puts there: the question before it may be deleted.

Every namespaced kind that can be listed is asked, metadata only. That is many small calls, but it happens only when an
instance namespace is about to go, and a kind left out would be data lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery, Resource
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.cluster.objects import METADATA_ONLY
from gitops.model.identity import ObjectRef

IGNORED_KINDS = frozenset(
    {
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("", "Endpoints"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("coordination.k8s.io", "Lease"),
        ("metrics.k8s.io", "PodMetrics"),
    }
)
"""Kinds that Kubernetes fills in by itself and that hold nothing."""

IGNORED_OBJECTS = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
"""Objects that every namespace has."""


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
            if resource.namespaced and "list" in resource.verbs and (gvk.group, gvk.kind) not in IGNORED_KINDS:
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

    async def _list(self, resource: Resource, namespace: str) -> Contents | ApiError:
        gvk = resource.gvk
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
            return Contents() if error.cls is ErrorClass.GONE or response.status in (404, 405) else error
        foreign: list[ObjectRef] = []
        going: list[ObjectRef] = []
        for item in response.json().get("items") or ():
            metadata = item.get("metadata") or {}
            if (gvk.kind, metadata.get("name")) in IGNORED_OBJECTS:
                continue
            ref = ObjectRef(gvk.group, gvk.kind, namespace, metadata.get("name", ""))
            on_its_way = metadata.get("deletionTimestamp") or metadata.get("ownerReferences")
            (going if on_its_way else foreign).append(ref)
        return Contents(tuple(foreign), tuple(going))
