"""One collection of an API server as a reflector asks for it: where it is, in which form, and within which limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from gitops.cluster.errors import ApiError
from gitops.cluster.watch_events import JsonObject
from gitops.model.identity import GroupVersionKind

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Answer(Protocol):
    """An answer of the API server, whatever its status."""

    @property
    def ok(self) -> bool: ...

    @property
    def body(self) -> bytes: ...

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError: ...


class WatchTransport(Protocol):
    """What a reflector needs of gitops.cluster.connection.Connection. Both raise RequestFailed without a usable answer;
    `stream` yields lines without their end, and fails with reason `Silent` after `silence_limit` seconds of nothing."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = ...,
        timeout: float | None = None,
        verb: str = "",
    ) -> Answer: ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = ...,
        silence_limit: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """Times in seconds."""

    page_limit: int = 500
    """Objects in one page of a list."""

    list_timeout: float = 60.0
    """For one page."""

    watch_seconds: tuple[int, int] = (240, 300)
    """The server ends a watch after a random time in this range, so that watches of many kinds spread out."""

    silence_limit: float = 200.0
    """A watch without a line for so long is given up for a list. The first idle bookmark came after 120 s."""

    relist_spread: float = 1.0
    """Longest wait before a list because a version expired: a restarted API server expires all kinds at once."""

    healthy_after: float = 5.0
    """A watch that stood so long, or brought a line, counts as working: failures before it are forgotten."""

    page_restarts: int = 3
    """How often a list may begin again because its continue token expired, before that counts as a failure."""


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the reflector was made. Read only for others."""

    lists: int = 0  # complete ones
    pages: int = 0
    watches: int = 0  # opened
    changes: int = 0  # Changed and Deleted events
    duplicates: int = 0
    bookmarks: int = 0
    expirations: int = 0  # 410 in any form
    silences: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """One kind at one path, for example `/apis/nvidia.com/v1alpha1/dynamographdeployments` (all namespaces).

    `selector` is a label selector ("" = all). `metadata_only` asks for PartialObjectMetadata: enough for owner links,
    not for drift (managedFields are there, values are not). `project` reduces an object right after decoding.
    """

    gvk: GroupVersionKind
    path: str
    selector: str = ""
    metadata_only: bool = False
    project: Callable[[JsonObject], JsonObject] | None = None

    @property
    def resource(self) -> str:
        """Last segment of the path, as errors name it."""
        return self.path.rpartition("/")[2]

    def accept(self, *, listing: bool) -> str:
        """The Accept header of a list or a watch."""
        if not self.metadata_only:
            return _JSON
        return _METADATA_LIST if listing else _METADATA

    def query(self, **parameters: str) -> dict[str, str]:
        """These parameters and the selector."""
        return {**parameters, "labelSelector": self.selector} if self.selector else parameters

    def shown(self, obj: JsonObject) -> JsonObject:
        """A decoded object as readers get it. Items of a list of a built-in kind have neither apiVersion nor kind, and
        partial metadata has its own."""
        obj["apiVersion"], obj["kind"] = self.gvk.api_version, self.gvk.kind
        return self.project(obj) if self.project is not None else obj
