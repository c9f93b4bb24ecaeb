"""What a cluster tells of itself: what it serves, its schemas, which operators run there in which version.

Only of kinds that somebody may declare there. Custom kinds are described best by their definitions; where those may not
be read, and for Kubernetes' own kinds, by the OpenAPI v3 documents, which are read again only when their hash changes
(Kubernetes documentation, "The Kubernetes API", "OpenAPI V3"). Documents are read one after the other and taken apart
on a thread. What cannot be read is unknown, never empty; what was known of it stays.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from gitops.cluster import openapi
from gitops.cluster.connection import Connection, Response
from gitops.cluster.discovery import Discovery, Resource
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, cut
from gitops.cluster.objects import Objects
from gitops.cluster.operator_versions import operator_versions
from gitops.cluster.rights import read_refused
from gitops.model.identity import GroupVersionKind
from gitops.model.operators import OperatorType
from gitops.policy.facts import ClusterFacts
from gitops.policy.rbac.operators import unreadable_types
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import kinds_of_definition, kinds_of_openapi
from gitops.policy.scopes import builtin_namespaced

LARGEST_DEFINITION = 8 << 20
"""Bytes of one CustomResourceDefinition as JSON; etcd stores 1.5 MiB of it."""

LARGEST_INDEX = 4 << 20

_TRANSIENT = frozenset({ErrorClass.RETRY, ErrorClass.UNREACHABLE})


@dataclass(frozen=True, slots=True)
class Generation:
    """Which content a definition has: it changes when its schema does."""

    uid: str
    number: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What was told. `definitions`: those that it comes from, by name. `unread` says what could not be read, and
    `incomplete` whether trying again may help."""

    facts: ClusterFacts
    definitions: Mapping[str, Generation] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    incomplete: bool = False


class FactsReader:
    """Reads one cluster; remembers what did not change. Reads nothing twice at a time: one caller."""

    def __init__(self, connection: Connection, discovery: Discovery) -> None:
        self._connection = connection
        self._discovery = discovery
        self._documents: dict[str, tuple[str, Mapping[GroupVersionKind, KindSchema | None]]] = {}
        self._definitions: dict[str, tuple[Generation, Mapping[GroupVersionKind, KindSchema]]] = {}
        self._gated: dict[str, str] = {}  # operator type → why it may not be used; "" when it may

    async def read(
        self,
        kinds: Collection[GroupVersionKind],
        types: Iterable[OperatorType] = (),
        *,
        server_version: str = "",
        unchanged: Mapping[str, Generation] | None = None,
    ) -> Reading:
        """Of these kinds and operator types. Definitions that still are as `unchanged` says are not read again.

        Raises RequestFailed when the cluster does not answer.
        """
        look = _Look()
        survey = await self._discovery.survey()
        if isinstance(survey, ApiError):
            if survey.cls in (ErrorClass.UNREACHABLE, ErrorClass.UNAUTHORIZED):
                raise RequestFailed(survey)
            look.failed("what it serves", survey)
            resources, silent, served = self._discovery.known(), frozenset[str](), None
        else:
            resources, silent = survey.resources, survey.silent
            served = {gvk: resource.namespaced for gvk, resource in resources.items()}
        there = {gvk: resources[gvk] for gvk in sorted(kinds) if gvk in resources}
        schemas = await self._custom(there, unchanged or {}, look)
        rest = [gvk for gvk in there if gvk not in schemas]
        schemas |= await self._described(rest, look) if rest else {}
        operators = tuple(types)
        versions = await operator_versions(self._connection, operators, failed=look.failed)
        gated = await self._gate(operators, look) if operators else {}
        facts = ClusterFacts(
            served=served,
            silent=silent,
            versions=versions,
            refused={name: why for name, why in gated.items() if why},
            schemas=SchemaSet.of(schemas[gvk] for gvk in sorted(schemas)),
            server_version=server_version,
        )
        return Reading(facts, dict(look.definitions), tuple(look.unread), look.incomplete)

    async def _gate(self, operators: Collection[OperatorType], look: _Look) -> Mapping[str, str]:
        """Which operators have rights that they must not have; without an answer, what was known of it stays, and a
        type of which nothing is known does not pass."""
        refused = await read_refused(Objects(self._connection, self._discovery), operators)
        names = [operator.metadata.name for operator in operators]
        if not isinstance(refused, ApiError):
            self._gated |= {name: refused.get(name, "") for name in names}
            return {name: self._gated[name] for name in names}
        if refused.cls in (ErrorClass.UNREACHABLE, ErrorClass.UNAUTHORIZED):
            raise RequestFailed(refused)
        look.failed("the operators' rights", refused)
        look.incomplete = True
        return {**unreadable_types(operators, str(refused)), **{n: self._gated[n] for n in names if n in self._gated}}

    # -- definitions ---------------------------------------------------------------------------------------------------

    async def _custom(
        self, there: Mapping[GroupVersionKind, Resource], unchanged: Mapping[str, Generation], look: _Look
    ) -> dict[GroupVersionKind, KindSchema]:
        wanted: defaultdict[str, list[GroupVersionKind]] = defaultdict(list)
        for gvk, resource in there.items():
            if gvk.group and builtin_namespaced(gvk.group_kind) is None:
                wanted[f"{resource.plural}.{gvk.group}"].append(gvk)
        found: dict[GroupVersionKind, KindSchema] = {}
        forbidden = False
        for name, kinds in wanted.items():
            if forbidden:
                continue  # the same answer for each of them
            known = self._definitions.get(name)
            if known is None or unchanged.get(name) != known[0] or any(gvk not in known[1] for gvk in kinds):
                forbidden = await self._definition(name, look)
                known = self._definitions.get(name)
            if known is not None:
                look.definitions[name] = known[0]
                found |= {gvk: known[1][gvk] for gvk in kinds if gvk in known[1]}
        return found

    async def _definition(self, name: str, look: _Look) -> bool:
        """Read one into the cache; True when definitions may not be read at all."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{quote(name, safe='')}"
        response = await self._get(path, LARGEST_DEFINITION, look, f"the definition {name}")
        if response is None:
            return False
        if not response.ok:
            error = response.error()
            if error.cls not in _TRANSIENT:
                self._definitions.pop(name, None)  # an aggregated API has none, or it is none of our business
            if response.status not in (403, 404):
                look.failed(f"the definition {name}", error)
            return response.status == 403
        try:
            generation, made = await asyncio.to_thread(_of_definition, response.body)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            look.unread.append(f"the definition {name} cannot be read")
            return False
        self._definitions[name] = (generation, made)
        return False

    # -- OpenAPI -------------------------------------------------------------------------------------------------------

    async def _described(self, kinds: Iterable[GroupVersionKind], look: _Look) -> dict[GroupVersionKind, KindSchema]:
        by_document: defaultdict[str, set[GroupVersionKind]] = defaultdict(set)
        for gvk in kinds:
            by_document[openapi.document_of(gvk)].add(gvk)
        index = await self._index(look)
        found: dict[GroupVersionKind, KindSchema] = {}
        for name, wanted in sorted(by_document.items()):
            url = None if index is None else index.get(name)
            known_url, known = self._documents.get(name, ("", {}))
            if url is not None and (url != known_url or not wanted <= known.keys()):
                await self._document(name, url, wanted | known.keys(), look)
                known = self._documents.get(name, ("", {}))[1]
            found |= {gvk: schema for gvk in wanted if (schema := known.get(gvk)) is not None}
        return found

    async def _index(self, look: _Look) -> Mapping[str, str] | None:
        response = await self._get("/openapi/v3", LARGEST_INDEX, look, "the OpenAPI documents")
        if response is None:
            return None
        if not response.ok:
            look.failed("the OpenAPI documents", response.error())
            return None
        try:
            return openapi.read_index(response.body)
        except msgspec.MsgspecError:
            look.unread.append("the index of the OpenAPI documents cannot be read")
            return None

    async def _document(self, name: str, url: str, wanted: Collection[GroupVersionKind], look: _Look) -> None:
        what = f"the OpenAPI document {name}"
        response = await self._get(url, openapi.LARGEST, look, what)
        if response is None:
            return
        if not response.ok:
            look.failed(what, response.error())
            return
        try:
            made = await asyncio.to_thread(_of_document, response.body, frozenset(wanted))
        except (msgspec.MsgspecError, RecursionError, ValueError):
            look.unread.append(f"{what} cannot be read")
            return
        self._documents[name] = (url, {gvk: made.get(gvk) for gvk in wanted})

    async def _get(self, url: str, limit: int, look: _Look, what: str) -> Response | None:
        """The answer of any status; None when it is too large, which is noted. Raises RequestFailed for no answer."""
        path, _, query = url.partition("?")
        parts = dict(part.partition("=")[::2] for part in query.split("&")) if query else None
        try:
            return await self._connection.request("GET", path, query=parts, verb="facts", limit=limit)
        except RequestFailed as failed:
            if failed.error.cls is not ErrorClass.REFUSED:
                raise
            look.failed(what, failed.error)
            return None


@dataclass(slots=True)
class _Look:
    """What one reading has met so far."""

    definitions: dict[str, Generation] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    incomplete: bool = False

    def failed(self, what: str, error: ApiError) -> None:
        self.unread.append(cut(f"{what} cannot be read: {error}"))
        self.incomplete |= error.cls in _TRANSIENT


def _of_definition(data: bytes) -> tuple[Generation, dict[GroupVersionKind, KindSchema]]:
    body: Any = msgspec.json.decode(data)
    metadata = body["metadata"] if isinstance(body, dict) and isinstance(body.get("metadata"), dict) else {}
    generation = metadata.get("generation")
    seen = Generation(str(metadata.get("uid", "")), generation if isinstance(generation, int) else 0)
    return seen, {kind.gvk: kind for kind in kinds_of_definition(body if isinstance(body, dict) else {})}


def _of_document(data: bytes, wanted: frozenset[GroupVersionKind]) -> dict[GroupVersionKind, KindSchema]:
    return {kind.gvk: kind for kind in kinds_of_openapi(openapi.part_of(data, wanted)) if kind.gvk in wanted}
