"""What a cluster serves: group, version, kind → resource name and scope.

Two requests (`/api` and `/apis`) with the aggregated form bring everything; a server without it is asked for one group
version at a time, only when somebody needs that. A group whose server fails is unknown, not empty: what was known of it
stays, and a kind of it that was never seen is "unknown", never "not served". A miss refreshes once before it is
believed, not more often than `miss_interval`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gitops.cluster.connection import Connection, Response
from gitops.cluster.errors import ApiError, RequestFailed, given, unreachable
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import LEASE, NAMESPACE

_LIST = "as=APIGroupDiscoveryList"
AGGREGATED = (
    f"application/json;g=apidiscovery.k8s.io;v=v2;{_LIST},"
    f"application/json;g=apidiscovery.k8s.io;v=v2beta1;{_LIST},"
    "application/json"
)
"""Accept header: v2 (Kubernetes 1.30), v2beta1 (1.26), the plain form of old."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource. `plural` is the segment of its URLs."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: frozenset[str] = frozenset()

    @property
    def stored(self) -> bool:
        """Whether its objects can be seen again. Reviews, bindings and the like are answered, and nothing of them is
        kept."""
        return not self.verbs or "list" in self.verbs

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of the collection (without a name: of all namespaces when `namespace` is empty) or of one object.

        A namespace given for a cluster-scoped kind is ignored: scope comes from the server (cases.md S22).
        """
        gvk = self.gvk
        base = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
        place = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        object_ = f"/{quote(name, safe='')}" if name else ""
        below = f"/{subresource}" if subresource else ""
        return f"{base}{place}/{self.plural}{object_}{below}"


@dataclass(frozen=True, slots=True)
class Survey:
    """All that a cluster serves. `silent` are API versions of which it cannot say what they serve."""

    resources: Mapping[GroupVersionKind, Resource]
    silent: frozenset[str]


@dataclass(frozen=True, slots=True)
class ServerVersion:
    major: int
    minor: int
    git_version: str

    def __str__(self) -> str:
        return self.git_version


ALWAYS_SERVED = {LEASE: Resource(LEASE, "leases", True, frozenset({"get", "create", "update"}))}
"""Asked for without discovery: a server that asks for a pause, or hangs in a part of discovery, must not keep us from
renewing the Lease (it waits for no pause otherwise)."""


class Discovery:
    """A cache of one cluster's resources."""

    def __init__(self, connection: Connection, *, miss_interval: float = 1.0) -> None:
        self._connection = connection
        self._miss_interval = miss_interval
        self._resources: dict[GroupVersionKind, Resource] = {}
        self._unknown: dict[tuple[str, str], ApiError] = {}  # group version → why we don't know it
        self._aggregated = True
        self._etags: dict[str, tuple[str, _Listing]] = {}
        self._fresh = False
        self._missed_at: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, gvk: GroupVersionKind) -> Resource | ApiError:
        """The resource of a kind. ApiError: WAITING when the cluster does not serve it (now), REFUSED when it keeps no
        objects of it, otherwise why it is not known (UNREACHABLE, RETRY, FORBIDDEN, …). Never raises for an unreachable
        cluster."""
        if gvk in ALWAYS_SERVED:
            return ALWAYS_SERVED[gvk]
        found = await self._find(gvk)
        if isinstance(found, ApiError) or found.stored:
            return found
        return given("NotStored", f"the cluster answers {gvk} and keeps nothing of it")

    async def _find(self, gvk: GroupVersionKind) -> Resource | ApiError:
        async with self._lock:
            if self._fresh and gvk in self._resources:
                return self._resources[gvk]
            if not self._fresh or self._may_look_again():
                failure = await self._refresh(gvk)
                if failure is not None:
                    return self._resources.get(gvk) or failure
        found = self._resources.get(gvk)
        if found is not None:
            return found
        unknown = self._unknown.get((gvk.group, gvk.version))
        return unknown if unknown is not None else not_served(gvk)

    async def everything(self) -> Mapping[GroupVersionKind, Resource] | ApiError:
        """All that is served at this moment; ApiError when any part of it is not known."""
        survey = await self.survey()
        if isinstance(survey, ApiError):
            return survey
        return next(iter(self._unknown.values()), None) or survey.resources

    async def survey(self) -> Survey | ApiError:
        """What is served at this moment, and which parts of that are not known."""
        async with self._lock:
            if not self._fresh:
                failure = await self._refresh(NAMESPACE)
                if failure is not None:
                    return failure
            if not self._aggregated:
                message = "the server cannot say at once what it serves"
                return given("DiscoveryFailed", message)
            return Survey(self._resources, frozenset("/".join(filter(None, key)) for key in self._unknown))

    def known(self) -> Mapping[GroupVersionKind, Resource]:
        """What the last look found; empty before the first."""
        return self._resources

    def invalidate(self) -> None:
        """A CRD or APIService changed: look again at the next find(). What is known serves until then."""
        self._fresh = False
        self._missed_at = None

    async def server_version(self) -> ServerVersion | ApiError:
        """`GET /version`."""
        try:
            response = await self._connection.request("GET", "/version", verb="discovery")
            if not response.ok:
                return response.error()
            document = response.json()
        except RequestFailed as failed:
            return failed.error
        digits = [int("".join(c for c in str(document.get(key, "")) if c.isdigit()) or 0) for key in ("major", "minor")]
        return ServerVersion(digits[0], digits[1], str(document.get("gitVersion", "")))

    # -- looking -----------------------------------------------------------------------------------------------------

    def _may_look_again(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._missed_at is not None and now - self._missed_at < self._miss_interval:
            return False
        self._missed_at = now
        return True

    async def _refresh(self, wanted: GroupVersionKind) -> ApiError | None:
        """Read again; None when done. The lock is held."""
        if not self._aggregated:
            return await self._refresh_plain(wanted)
        listings = []
        for path in ("/api", "/apis"):
            listing = await self._aggregated_listing(path)
            if isinstance(listing, ApiError):
                return listing
            if listing is None:
                self._aggregated = False
                return await self._refresh_plain(wanted)
            listings.append(listing)
        resources: dict[GroupVersionKind, Resource] = {}
        self._unknown = {}
        for listing in listings:
            resources.update(listing.resources)
            for group_version in listing.stale:
                kept = {g: r for g, r in self._resources.items() if (g.group, g.version) == group_version}
                resources = {**kept, **resources}
                self._unknown[group_version] = given(
                    "DiscoveryFailed", f"the cluster cannot say what {'/'.join(filter(None, group_version))} serves"
                )
        self._resources = resources
        self._fresh = True
        return None

    async def _aggregated_listing(self, path: str) -> _Listing | ApiError | None:
        """One aggregated document; None when the server does not know that form."""
        etag, known = self._etags.get(path, ("", _Listing({}, frozenset())))
        try:
            response = await self._connection.request(
                "GET", path, accept=AGGREGATED, headers={"If-None-Match": etag} if etag else None, verb="discovery"
            )
            if response.status == 304:
                return known
            if not response.ok:
                return response.error()
            if _LIST not in response.headers.get("Content-Type", ""):
                # Believed for good, so it has to be such a server, and not a proxy's page.
                answer = response.json()
                if isinstance(answer, dict) and answer.get("kind") in ("APIVersions", "APIGroupList"):
                    return None
                return unreachable("what answers is no Kubernetes API", reason="NotJson")
            listing = _read_aggregated(response.json())
        except RequestFailed as failed:
            return failed.error
        if response.headers.get("Etag"):
            self._etags[path] = (response.headers["Etag"], listing)
        return listing

    async def _refresh_plain(self, wanted: GroupVersionKind) -> ApiError | None:
        """Ask for the wanted group version alone; others keep what is known of them."""
        group_version = (wanted.group, wanted.version)
        path = f"/apis/{wanted.group}/{wanted.version}" if wanted.group else f"/api/{wanted.version}"
        try:
            response = await self._connection.request("GET", path, verb="discovery")
            if response.status == 404:
                found: dict[GroupVersionKind, Resource] = {}
            elif not response.ok:
                self._unknown[group_version] = response.error()
                return self._unknown[group_version]
            else:
                found = _read_plain(response, wanted)
        except RequestFailed as failed:
            return failed.error
        others = {g: r for g, r in self._resources.items() if (g.group, g.version) != group_version}
        self._resources = {**others, **found}
        self._unknown.pop(group_version, None)
        # Fresh means that cached hits may be used; a miss still asks for its own group version.
        self._fresh = True
        return None


def not_served(gvk: GroupVersionKind) -> ApiError:
    """The error of a kind that the cluster does not serve."""
    waits_for = f"kind {gvk.group_kind} at {gvk.version}"
    return given("NotServed", f"the cluster does not serve {gvk}", status=404, waits_for=waits_for)


@dataclass(frozen=True, slots=True)
class _Listing:
    resources: Mapping[GroupVersionKind, Resource]
    stale: frozenset[tuple[str, str]]


@functools.lru_cache(maxsize=256)
def _shared(names: tuple[str, ...]) -> frozenset[str]:
    """One set for the many kinds that have the same: half of what a cluster with hundreds of groups would cost."""
    return frozenset(names)


def _read_aggregated(document: Any) -> _Listing:
    """An APIGroupDiscoveryList (KEP-3352). A version whose `freshness` is Stale comes from a server that fails."""
    resources: dict[GroupVersionKind, Resource] = {}
    stale: set[tuple[str, str]] = set()
    for item in document.get("items") or ():
        group = (item.get("metadata") or {}).get("name", "")
        for version in item.get("versions") or ():
            if version.get("freshness") == "Stale":
                stale.add((group, version["version"]))
            for resource in version.get("resources") or ():
                kind = (resource.get("responseKind") or {}).get("kind", "")
                if not kind:
                    continue
                gvk = GroupVersionKind(group, version["version"], kind)
                resources[gvk] = Resource(
                    gvk=gvk,
                    plural=resource["resource"],
                    namespaced=resource.get("scope") == "Namespaced",
                    verbs=_shared(tuple(resource.get("verbs") or ())),
                    subresources=_shared(tuple(s["subresource"] for s in resource.get("subresources") or ())),
                )
    return _Listing(resources, frozenset(stale))


def _read_plain(response: Response, wanted: GroupVersionKind) -> dict[GroupVersionKind, Resource]:
    """An APIResourceList; subresources are entries named `plural/subresource`."""
    entries: list[dict[str, Any]] = response.json().get("resources") or []

    def below(plural: str) -> Iterator[str]:
        return (e["name"].partition("/")[2] for e in entries if e["name"].startswith(f"{plural}/"))

    found = {}
    for entry in entries:
        if "/" in entry["name"]:
            continue
        gvk = GroupVersionKind(wanted.group, wanted.version, entry["kind"])
        found[gvk] = Resource(
            gvk=gvk,
            plural=entry["name"],
            namespaced=bool(entry.get("namespaced")),
            verbs=_shared(tuple(entry.get("verbs") or ())),
            subresources=_shared(tuple(below(entry["name"]))),
        )
    return found
