"""Single objects on a cluster, besides applying them: read, list, patch, delete.

Answers are values: an object, None for "it is certainly not there", or an ApiError. A kind that is not served, a
cluster that does not answer or a missing right never look like an absent object (cases.md A03, I1).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from gitops.cluster.connection import Connection, Response
from gitops.cluster.discovery import Discovery, Resource, not_served
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, unreachable
from gitops.model.identity import GroupVersionKind, ObjectRef

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE_SIZE = 500
LIST_RESTARTS = 3

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""How stats name the calls."""

Propagation = Literal["Background", "Foreground", "Orphan"]


class DeleteResult(enum.StrEnum):
    DELETED = "deleted"  # it is gone now
    DELETING = "deleting"  # accepted; finalizers or dependants hold it
    ABSENT = "absent"  # it was not there
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What became of a delete. STALE errors mean: another object, or changed since it was read; look again."""

    ref: ObjectRef
    result: DeleteResult
    finalizers: tuple[str, ...] = ()  # who holds it, when DELETING
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list: every page of one snapshot. Items carry apiVersion and kind, which the server leaves out."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


class Objects:
    """Reads, patches and deletes through one connection.

    `may_write` is asked right before every write is sent; STALE (NotWanted) when it says no. `account` is whose rights
    the calls have: the ServiceAccount `namespace/name` that they are made in the name of, "" for the daemon's own.
    """

    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        *,
        may_write: Callable[[], bool] | None = None,
        account: str = "",
    ) -> None:
        self.connection = connection
        self.discovery = discovery
        self.account = account
        self._may_write = may_write
        self.headers = impersonating(account)

    def guarded(self, wanted: Callable[[], bool] | None = None) -> Callable[[], bool] | None:
        """What a write asks before it is sent: whether we may write at all, and what its caller wants to know."""
        may_write = self._may_write
        if may_write is None or wanted is None:
            return may_write or wanted
        return lambda: may_write() and wanted()

    async def get(
        self, gvk: GroupVersionKind, ref: ObjectRef, *, timeout: float | None = None, urgent: bool = False
    ) -> dict[str, Any] | ApiError | None:
        """The live object; None when the server says that this very object does not exist."""
        found = await self._call("GET", gvk, ref, timeout=timeout, urgent=urgent)
        if isinstance(found, ApiError):
            return None if found.cls is ErrorClass.GONE else found
        return found

    async def list_objects(
        self,
        gvk: GroupVersionKind,
        *,
        selector: str = "",
        fields: str = "",
        namespace: str = "",
        page_size: int = PAGE_SIZE,
    ) -> Listing | ApiError:
        """All objects of a kind (of one namespace) that match a label selector and a field selector, in pages.

        When a `continue` token expires midway the whole list starts again, at most LIST_RESTARTS times: a partial list
        is never given back (cases.md A10).
        """
        return await self._list(gvk, selector, fields, namespace, page_size, accept="")

    async def list_metadata(self, gvk: GroupVersionKind) -> Listing | ApiError:
        """All objects of a kind, but of each only the metadata."""
        return await self._list(gvk, "", "", "", PAGE_SIZE, accept=METADATA_ONLY)

    async def _list(
        self, gvk: GroupVersionKind, selector: str, fields: str, namespace: str, page_size: int, *, accept: str
    ) -> Listing | ApiError:
        resource = await self.discovery.find(gvk)
        if isinstance(resource, ApiError):
            return resource
        for _ in range(LIST_RESTARTS + 1):
            listing = await self._pages(resource, selector, fields, namespace, page_size, accept)
            if not (isinstance(listing, ApiError) and listing.cls is ErrorClass.EXPIRED):
                break
        return listing

    async def _pages(
        self, resource: Resource, selector: str, fields: str, namespace: str, page_size: int, accept: str
    ) -> Listing | ApiError:
        gvk = resource.gvk
        query = {"limit": str(page_size), "labelSelector": selector, "fieldSelector": fields}
        query = {key: value for key, value in query.items() if value}
        items: list[dict[str, Any]] = []
        while True:
            try:
                response = await self.connection.request(
                    "GET",
                    resource.path(namespace=namespace),
                    query=query,
                    accept=accept or "application/json",
                    headers=self.headers,
                    verb="list",
                )
                if not response.ok:
                    return self.judge(response, resource)
                document = response.json()
            except RequestFailed as failed:
                return failed.error
            metadata = document.get("metadata") or {}
            for item in document.get("items") or ():
                items.append({"apiVersion": gvk.api_version, "kind": gvk.kind, **item})
            token = metadata.get("continue")
            if not token:
                return Listing(tuple(items), metadata.get("resourceVersion", ""))
            query["continue"] = token

    async def json_patch(
        self,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        operations: Sequence[Mapping[str, Any]],
        *,
        manager: str,
        dry_run: bool = False,
    ) -> dict[str, Any] | ApiError:
        """Apply RFC 6902 operations and return the object. A `test` that fails is an ApiError of class STALE."""
        query = {"fieldManager": manager} | ({"dryRun": "All"} if dry_run else {})
        body = msgspec.json.encode(operations)
        return await self._call("PATCH", gvk, ref, query=query, body=body, content_type=JSON_PATCH)

    async def merge_patch(
        self, gvk: GroupVersionKind, ref: ObjectRef, patch: Mapping[str, Any], *, manager: str
    ) -> dict[str, Any] | ApiError:
        """Apply an RFC 7386 patch and return the object. A `metadata.resourceVersion` in it is a precondition (STALE).

        For our own bookkeeping objects only; declared objects are always applied (applying.Applier)."""
        body = msgspec.json.encode(patch)
        return await self._call("PATCH", gvk, ref, query={"fieldManager": manager}, body=body, content_type=MERGE_PATCH)

    async def create(
        self,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        body: Mapping[str, Any],
        *,
        manager: str,
        timeout: float | None = None,
        urgent: bool = False,
    ) -> dict[str, Any] | ApiError:
        """Create an object and return it; STALE (AlreadyExists) when there is one of this name."""
        return await self._write("POST", gvk, ref, body, manager=manager, timeout=timeout, urgent=urgent)

    async def replace(
        self,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        body: Mapping[str, Any],
        *,
        manager: str,
        timeout: float | None = None,
        urgent: bool = False,
    ) -> dict[str, Any] | ApiError:
        """Replace a whole object of our own bookkeeping; a `metadata.resourceVersion` in it is a precondition."""
        return await self._write("PUT", gvk, ref, body, manager=manager, timeout=timeout, urgent=urgent)

    async def _write(
        self,
        method: str,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        body: Mapping[str, Any],
        *,
        manager: str,
        timeout: float | None,
        urgent: bool,
    ) -> dict[str, Any] | ApiError:
        return await self._call(
            method,
            gvk,
            ref,
            query={"fieldManager": manager, "fieldValidation": "Strict"},
            body=msgspec.json.encode(body),
            timeout=timeout,
            urgent=urgent,
        )

    async def delete(
        self,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str,
        propagation: Propagation = "Background",
        dry_run: bool = False,
        wanted: Callable[[], bool] | None = None,
    ) -> DeleteOutcome:
        """Delete exactly the object that was read: uid and resourceVersion are preconditions, and both are needed,
        since the uid alone does not notice a label that moved since (facts: ssa-live 40). `wanted` is asked right
        before each sending, which the server's pauses may put off; STALE when it says no."""
        if not (uid and resource_version):
            raise ValueError("a delete needs the uid and the resourceVersion that were read")
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        if dry_run:
            # In the body: beside a body the API server ignores `?dryRun=All` of a DELETE, and deletes.
            options["dryRun"] = ["All"]
        answer = await self._call("DELETE", gvk, ref, body=msgspec.json.encode(options), wanted=wanted)
        if isinstance(answer, ApiError):
            if answer.cls is ErrorClass.GONE:
                return DeleteOutcome(ref, DeleteResult.ABSENT)
            return DeleteOutcome(ref, DeleteResult.ERROR, error=answer)
        metadata = answer.get("metadata") or {}
        # A Status, or the last state of an object that is gone, has no deletionTimestamp. Anything else is on its way:
        # held by finalizers, by its grace period, or, a Namespace, by what is in it.
        if metadata.get("deletionTimestamp"):
            return DeleteOutcome(ref, DeleteResult.DELETING, tuple(metadata.get("finalizers") or ()))
        return DeleteOutcome(ref, DeleteResult.DELETED)

    def judge(self, response: Response, resource: Resource, *, applying: bool = False) -> ApiError:
        """The error of an answer that is not ok. When the server does not know the path, what we know of its kinds is
        old: discovery looks again at the next call (cases.md O04)."""
        error = response.error(resource=resource.plural, applying=applying)
        if error.waits_for != "kind":
            return error
        self.discovery.invalidate()
        return replace(error, waits_for=not_served(resource.gvk).waits_for)

    async def _call(
        self,
        method: str,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
        urgent: bool = False,
        wanted: Callable[[], bool] | None = None,
    ) -> dict[str, Any] | ApiError:
        resource = await self.discovery.find(gvk)
        if isinstance(resource, ApiError):
            return resource
        path = resource.path(namespace=ref.namespace, name="" if method == "POST" else ref.name)
        if not complete(resource, ref):
            return incomplete(ref)
        try:
            response = await self.connection.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                headers=self.headers,
                timeout=timeout,
                urgent=urgent,
                wanted=None if method == "GET" else self.guarded(wanted),
                verb=_VERBS[method],
            )
            return decoded(response) if response.ok else self.judge(response, resource)
        except RequestFailed as failed:
            return failed.error


def impersonating(account: str) -> dict[str, str]:
    """Headers that make a call one of a ServiceAccount (`namespace/name`; "" for nobody else's).

    Without Impersonate-Group the API server itself gives the user the groups of every ServiceAccount (Kubernetes
    documentation, "User impersonation"; k8s.io/apiserver, filters/impersonation.go); to name them would need the right
    to impersonate groups.
    """
    namespace, _, name = account.partition("/")
    return {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"} if account else {}


def decoded(response: Response) -> dict[str, Any] | ApiError:
    """The object in an answer that is ok."""
    document = response.json()
    return document if isinstance(document, dict) else unreachable("the answer is no object", reason="NotJson")


def complete(resource: Resource, ref: ObjectRef) -> bool:
    """Does the reference name one object? Otherwise its URL would be that of a collection."""
    return bool(ref.name) and (bool(ref.namespace) or not resource.namespaced)


def incomplete(ref: ObjectRef) -> ApiError:
    """The error for a reference without name, or without namespace where the kind needs one (cases.md S23)."""
    return ApiError(ErrorClass.REFUSED, reason="Incomplete", message=f"{ref} names no single object")
