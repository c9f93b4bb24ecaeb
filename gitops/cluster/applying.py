"""Server-side apply of desired objects, and what an answer to it means.

Every write of a declared object is one apply with our field manager and strict validation, from the first on: a PUT or
a merge patch would leave ownership that nobody can give back. The answer is compared with what was sent, because an
admission plugin may have changed it and the server then reports success with the same resourceVersion for ever.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gitops.cluster import adopting, fields
from gitops.cluster.connection import Connection, Response
from gitops.cluster.discovery import Discovery, Resource
from gitops.cluster.errors import DELETING, ApiError, RequestFailed, given
from gitops.cluster.objects import Objects, complete, incomplete
from gitops.cluster.payloads import as_yaml
from gitops.cluster.values import holds
from gitops.manifests.lines import Path
from gitops.model.adoption import Tool
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.units import DesiredObject, Trigger

APPLY_PATCH = "application/apply-patch+yaml"
"""JSON is YAML: the body is JSON, which needs no YAML writer and has no surprises of type."""

MAX_WARNINGS = 5


def manager_name(reconciler: str) -> str:
    """The field manager of a reconciler: `gitops-<name>`, stable for ever on a claimed cluster, and unusual, so that no
    other client shares it."""
    return f"gitops-{reconciler}"


class ApplyResult(enum.StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"  # only told when the caller named the resourceVersion it knew
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOutcome:
    """What became of one apply. On ERROR only `ref`, `gvk`, `error` and `warnings` are set, with `uid`, `live` and
    `deleting` where the server answered with an object that is on its way out.

    `overridden` are declared paths whose value in the answer is another one: an admission plugin decided so, a retry
    will not help. The digests are of what is stored now, None after a dry run. `live` is the decoded answer; drop it
    once readiness was read from it.
    """

    ref: ObjectRef
    gvk: GroupVersionKind
    result: ApplyResult
    dry_run: bool = False
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    entry_digest: bytes | None = None
    values_digest: bytes | None = None
    overridden: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    deleting: bool = False
    error: ApiError | None = None
    live: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return self.error is None


class Applier(Objects):
    """Applies under one field manager; also reads, patches and deletes (objects.Objects)."""

    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        *,
        manager: str,
        may_write: Callable[[], bool] | None = None,
        account: str = "",
    ) -> None:
        super().__init__(connection, discovery, may_write=may_write, account=account)
        self.manager = manager

    def in_name_of(self, account: str) -> Applier:
        """The same with the rights of a ServiceAccount (`namespace/name`); of nobody else for ""."""
        if account == self.account:
            return self
        return Applier(
            self.connection, self.discovery, manager=self.manager, may_write=self._may_write, account=account
        )

    async def apply(
        self,
        obj: DesiredObject,
        *,
        dry_run: bool = False,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        known_version: str | None = None,
        force: bool = True,
    ) -> ApplyOutcome:
        """One server-side apply.

        `namespace` sends the object to another namespace (preflight). `uid` makes a repair fail as STALE instead of
        creating the object anew when it is gone or is another one; `resource_version` does so when anything changed
        since. `known_version` is the resourceVersion the caller last saw: an answer with the same is UNCHANGED.
        Without `force`, fields of other managers are a CONFLICT and nothing is written.
        """
        resource = await self.discovery.find(obj.gvk)
        if isinstance(resource, ApiError):
            return _failed(obj.ref, obj.gvk, resource, dry_run=dry_run)
        place = obj.ref.namespace if namespace is None else namespace
        if not complete(resource, ObjectRef(obj.gvk.group, obj.gvk.kind, place, obj.ref.name)):
            return _failed(obj.ref, obj.gvk, incomplete(obj.ref), dry_run=dry_run)
        body = obj.payload
        if place != obj.ref.namespace or uid or resource_version or not resource.namespaced:
            body = _edited(obj, resource, place, uid=uid, resource_version=resource_version)
        query = {
            "fieldManager": self.manager,
            "fieldValidation": "Strict",
            "force": "true" if force else "false",
        }
        if dry_run:
            query["dryRun"] = "All"
        try:
            response = await self.connection.request(
                "PATCH",
                resource.path(namespace=place, name=obj.ref.name),
                query=query,
                body=as_yaml(body),
                content_type=APPLY_PATCH,
                headers=self.headers,
                wanted=None if dry_run else self.guarded(),
                verb="dry-run" if dry_run else "apply",
            )
            if not response.ok:
                error = self.judge(response, resource, applying=True)
                return _failed(obj.ref, obj.gvk, error, dry_run=dry_run, warnings=response.warnings)
            live = response.json()
        except RequestFailed as failed:
            return _failed(obj.ref, obj.gvk, failed.error, dry_run=dry_run)
        return self._outcome(obj, body, response, live, dry_run=dry_run, known_version=known_version)

    def _outcome(
        self,
        obj: DesiredObject,
        sent: bytes,
        response: Response,
        live: dict[str, Any],
        *,
        dry_run: bool,
        known_version: str | None,
    ) -> ApplyOutcome:
        metadata = live.get("metadata") or {}
        if metadata.get("deletionTimestamp"):
            # 200, and yet nothing will be left of it; leaving out a finalizer of ours even ends it (ssa-live 41).
            return ApplyOutcome(
                ref=obj.ref,
                gvk=obj.gvk,
                result=ApplyResult.ERROR,
                dry_run=dry_run,
                uid=metadata.get("uid", ""),
                deleting=True,
                error=given(
                    DELETING,
                    f"{obj.ref} is being deleted",
                    status=response.status,
                    waits_for=f"end of the deletion of {obj.ref}",
                ),
                live=live,
            )
        if response.status == 201:
            result = ApplyResult.CREATED
        elif known_version and metadata.get("resourceVersion") == known_version:
            result = ApplyResult.UNCHANGED
        else:
            result = ApplyResult.CONFIGURED
        payload: dict[str, Any] = msgspec.json.decode(sent)
        differences = () if holds(live, payload) else fields.compare(payload, live, self.manager).differences
        # A dry run stores nothing, so it is no baseline.
        fingerprint = None if dry_run else fields.fingerprint(payload, live, self.manager)
        return ApplyOutcome(
            ref=obj.ref,
            gvk=obj.gvk,
            result=result,
            dry_run=dry_run,
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
            generation=metadata.get("generation", 0),
            entry_digest=fingerprint.entry_digest if fingerprint else None,
            values_digest=fingerprint.values_digest if fingerprint else None,
            overridden=tuple(difference.path for difference in differences),
            warnings=response.warnings[:MAX_WARNINGS],
            live=live,
        )

    async def start(self, obj: DesiredObject, trigger: Trigger, *, uid: str) -> ApplyOutcome:
        """Send one trigger to the object with this uid; STALE when it is gone or another one.

        Applied under a manager of its own: what our manager declares of the object stays as it is, and whoever sets the
        field later causes no drift. The same value sent again changes nothing.
        """
        value: Any = msgspec.json.decode(trigger.value)
        for part in reversed(trigger.path):
            value = {part: value}
        names = {"name": obj.ref.name} | ({"namespace": obj.ref.namespace} if obj.ref.namespace else {})
        body = {"apiVersion": obj.gvk.api_version, "kind": obj.gvk.kind, "metadata": names, **value}
        starter = copy.copy(self)
        starter.manager = f"{self.manager}-trigger"
        return await starter.apply(replace(obj, payload=msgspec.json.encode(body)), uid=uid)

    async def forget_before(self, outcome: ApplyOutcome) -> ApplyOutcome:
        """After a repair: take away the entry that the server made because managedFields had been wiped
        (adopting.forget_before). The outcome as it is when there is none, or when that fails: nothing is wrong then
        but that a field may stay when Git removes it."""
        operations = adopting.forget_before(outcome.live or {})
        if operations is None:
            return outcome
        answer = await self.json_patch(outcome.gvk, outcome.ref, operations, manager=self.manager)
        if isinstance(answer, ApiError):
            return outcome
        return replace(outcome, resource_version=answer["metadata"].get("resourceVersion", ""), live=answer)

    async def adopt(
        self, obj: DesiredObject, live: dict[str, Any], *, tools: Collection[Tool] = (), applied: bool = False
    ) -> ApplyOutcome:
        """Fold what declaring managers own of `live` into our entry (adopting.take_over), before an apply of an object
        that was made by other means. UNCHANGED without a call when there is nothing to fold; STALE when it changed
        since it was read; `applied` when `live` is the answer to our apply. `resource_version` and `live` of the
        outcome are those after the patch."""
        served = frozenset(g.api_version for g in self.discovery.known() if g.group_kind == obj.gvk.group_kind)
        operations = adopting.take_over(
            live, manager=self.manager, payload=obj.body, tools_named=tools, served=served or None, applied=applied
        )
        if not operations:
            return _adopted(obj.ref, obj.gvk, live, ApplyResult.UNCHANGED)
        answer = await self.json_patch(obj.gvk, obj.ref, operations, manager=self.manager)
        if isinstance(answer, ApiError):
            return _failed(obj.ref, obj.gvk, answer)
        return _adopted(obj.ref, obj.gvk, answer, ApplyResult.CONFIGURED)


def _edited(
    obj: DesiredObject, resource: Resource, namespace: str, *, uid: str | None, resource_version: str | None
) -> bytes:
    body = obj.body
    metadata = body.setdefault("metadata", {})
    if not resource.namespaced:
        metadata.pop("namespace", None)  # scope comes from the server (cases.md S22)
    elif namespace:
        metadata["namespace"] = namespace
    if uid:
        metadata["uid"] = uid
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return msgspec.json.encode(body)


def _failed(
    ref: ObjectRef,
    gvk: GroupVersionKind,
    error: ApiError,
    *,
    dry_run: bool = False,
    warnings: tuple[str, ...] = (),
) -> ApplyOutcome:
    return ApplyOutcome(
        ref=ref, gvk=gvk, result=ApplyResult.ERROR, dry_run=dry_run, error=error, warnings=warnings[:MAX_WARNINGS]
    )


def _adopted(ref: ObjectRef, gvk: GroupVersionKind, live: dict[str, Any], result: ApplyResult) -> ApplyOutcome:
    metadata = live.get("metadata") or {}
    return ApplyOutcome(
        ref=ref,
        gvk=gvk,
        result=result,
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        live=live,
    )
