"""Parents on the target: one ConfigMap in `gitops-system` for each unit, which is also the unit's ApplySet (KEP-3659).

What a unit has applied is known from here and nowhere else, so a parent that cannot be read is reported and never taken
for absent: from "no parent" follows "nothing to prune" or "first contact", and both would be wrong (I1). Writes are
guarded by resourceVersion. A write that lost a race is repeated only while the stored record is still the one that ours
was made from; people may annotate a parent (`gitops/pause-until`) at any time without disturbing us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.manifests.canonical import digest
from gitops.model.identity import ClusterName, Commit, GroupVersionKind, ObjectRef, ReconcilerName, UnitKey
from gitops.model.kinds import CONFIG_MAP
from gitops.plan.naming import label_value
from gitops.plan.parents import SYSTEM_NAMESPACE, Member, ParentRecord, applyset_id, parent_name
from gitops.plan.units import RECONCILER_LABEL

APPLYSET_ID_LABEL = "applyset.kubernetes.io/id"
TOOLING_ANNOTATION = "applyset.kubernetes.io/tooling"
GROUP_KINDS_ANNOTATION = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES_ANNOTATION = "applyset.kubernetes.io/additional-namespaces"
WORKLOAD_LABEL = "gitops/workload"
"""The workload's name as a label value, for `kubectl get configmaps --namespace gitops-system --selector …`."""
UNIT_ANNOTATION = "gitops/unit"
"""The unit in full: `function/llama-chat/h100-0`."""
PAUSE_ANNOTATION = "gitops/pause-until"
TOOLING = "gitops/v1"

RECORD_KEY = "record"
RECORD_FORMAT = 1

MAX_RECORD = 900_000
"""Bytes of a record: the API server limits a ConfigMap's data to 1 MiB. About 10,000 members."""

_WRITE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class UnreadableParent:
    """A parent that is there and cannot be understood: its unit is neither applied nor pruned until somebody looks."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class StoredParents:
    """All parents of one reconciler on one cluster."""

    records: Mapping[UnitKey, ParentRecord]
    unreadable: tuple[UnreadableParent, ...]


class ParentStore:
    """Reads and writes the parents of one reconciler on one cluster. One writer at a time (the Lease)."""

    def __init__(self, objects: Objects, *, reconciler: ReconcilerName, cluster: ClusterName, manager: str) -> None:
        self._objects = objects
        self._reconciler = reconciler
        self._cluster = cluster
        self._manager = manager
        self._seen: dict[str, bytes] = {}  # parent name → digest of the record text we last read or wrote

    async def load_all(self) -> StoredParents | ApiError:
        """Every parent, with one LIST (in pages). Keys carry the cluster's present name."""
        listing = await self._objects.list_objects(
            CONFIG_MAP,
            namespace=SYSTEM_NAMESPACE,
            selector=f"{RECONCILER_LABEL}={self._reconciler},{APPLYSET_ID_LABEL}",
        )
        if isinstance(listing, ApiError):
            return listing
        records: dict[UnitKey, ParentRecord] = {}
        unreadable = []
        for item in listing.items:
            read = self._read(item)
            if isinstance(read, UnreadableParent):
                unreadable.append(read)
            else:
                records[read.unit] = read
        return StoredParents(records, tuple(unreadable))

    async def load(self, key: UnitKey) -> ParentRecord | UnreadableParent | ApiError | None:
        """One parent; None when it certainly does not exist."""
        found = await self._objects.get(CONFIG_MAP, _ref(parent_name(key)))
        return self._read(found) if isinstance(found, dict) else found

    async def write(self, record: ParentRecord) -> ParentRecord | ApiError:
        """Store a record: created when its `resource_version` is empty, else changed only if nobody else changed the
        record since. Returns it with its new `resource_version` and the `pause_until` that stands on the parent.

        STALE: another writer's record is stored; load it and decide anew. REFUSED: too large, or a ConfigMap of that
        name belongs to something else.
        """
        name = parent_name(record.unit)
        text = encode_record(record)
        if len(text) > MAX_RECORD:
            return ApiError(
                ErrorClass.REFUSED, reason="TooLarge", message=f"{record.unit} has too many objects for one parent"
            )
        body = self._body(record, name, text)
        for _ in range(_WRITE_ATTEMPTS):
            stored = await self._put(record, name, body)
            if not isinstance(stored, ApiError):
                return self._stored(record, name, text, stored)
            error = stored
            if error.cls not in (ErrorClass.STALE, ErrorClass.GONE):
                return error
            seen = self._seen.get(name)
            current = await self._objects.get(CONFIG_MAP, _ref(name))
            if isinstance(current, ApiError):
                return current
            if current is None:
                # Somebody deleted the parent. What we know of the unit is all there is of it: store it again.
                record = replace(record, resource_version="")
                continue
            read = read_parent(current, cluster=self._cluster)
            if isinstance(read, UnreadableParent):
                return ApiError(ErrorClass.REFUSED, reason="UnreadableParent", message=f"parent {name}: {read.why}")
            if _record_text(current) == text and _is_marked(current, body):
                return self._stored(record, name, text, current)  # an earlier attempt's answer was lost
            if seen is None or digest(_record_text(current)) != seen:
                return replace(error, message=f"the parent of {record.unit} was changed by another writer")
            record = replace(record, resource_version=read.resource_version)
        return error

    async def delete(self, record: ParentRecord) -> ApiError | None:
        """Delete a parent whose unit has nothing left. None when it is gone; STALE when it changed since."""
        live = await self._objects.get(CONFIG_MAP, _ref(parent_name(record.unit)))
        if live is None or isinstance(live, ApiError):
            return live
        metadata = live["metadata"]
        if record.resource_version and metadata["resourceVersion"] != record.resource_version:
            return ApiError(ErrorClass.STALE, reason="Conflict", message=f"the parent of {record.unit} was changed")
        outcome = await self._objects.delete(
            CONFIG_MAP,
            _ref(parent_name(record.unit)),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )
        if outcome.error is None:
            self._seen.pop(parent_name(record.unit), None)
        return outcome.error

    # -- inside ------------------------------------------------------------------------------------------------------

    def _body(self, record: ParentRecord, name: str, text: bytes) -> dict[str, Any]:
        kinds = sorted({str(m.ref.group_kind) for m in record.members})
        namespaces = sorted({m.ref.namespace for m in record.members} - {"", SYSTEM_NAMESPACE})
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": SYSTEM_NAMESPACE,
                "labels": {
                    APPLYSET_ID_LABEL: applyset_id(name),
                    RECONCILER_LABEL: self._reconciler,
                    WORKLOAD_LABEL: label_value(record.unit.name),
                },
                "annotations": {
                    UNIT_ANNOTATION: str(record.unit).rpartition("@")[0],
                    TOOLING_ANNOTATION: TOOLING,
                    GROUP_KINDS_ANNOTATION: ",".join(kinds),
                    NAMESPACES_ANNOTATION: ",".join(namespaces),
                },
            },
            "data": {RECORD_KEY: text.decode()},
        }

    async def _put(self, record: ParentRecord, name: str, body: dict[str, Any]) -> dict[str, Any] | ApiError:
        if not record.resource_version:
            return await self._objects.create(CONFIG_MAP, _ref(name), body, manager=self._manager)
        metadata = {**body["metadata"], "resourceVersion": record.resource_version}
        # A merge patch, so that what people put beside ours stays; the resourceVersion in it is the lock.
        return await self._objects.merge_patch(
            CONFIG_MAP, _ref(name), {**body, "metadata": metadata}, manager=self._manager
        )

    def _stored(self, record: ParentRecord, name: str, text: bytes, stored: Mapping[str, Any]) -> ParentRecord:
        self._seen[name] = digest(text)
        metadata = stored["metadata"]
        return replace(
            record,
            resource_version=metadata["resourceVersion"],
            pause_until=(metadata.get("annotations") or {}).get(PAUSE_ANNOTATION, ""),
        )

    def _read(self, body: Mapping[str, Any]) -> ParentRecord | UnreadableParent:
        read = read_parent(body, cluster=self._cluster)
        if isinstance(read, ParentRecord):
            self._seen[body["metadata"]["name"]] = digest(_record_text(body))
        return read


def encode_record(record: ParentRecord) -> bytes:
    """The `record` of a parent: JSON, members grouped by version and kind, then namespace, then name → uid."""
    members: dict[str, dict[str, dict[str, str]]] = {}
    for member in sorted(record.members):
        gvk = GroupVersionKind(member.ref.group, member.version, member.ref.kind)
        kinds = members.setdefault(f"{gvk.api_version}/{gvk.kind}", {})
        kinds.setdefault(member.ref.namespace, {})[member.ref.name] = member.uid
    return msgspec.json.encode(
        {
            "format": RECORD_FORMAT,
            "unit": str(record.unit),
            "commit": record.commit,
            "contentKey": record.content_key,
            "namespace": record.namespace,
            "version": record.version,
            "baseDigest": record.base_digest,
            "serviceAccount": record.service_account,
            "satisfied": dict(record.satisfied),
            "members": members,
        },
        order="sorted",
    )


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    format: int
    unit: str
    members: dict[str, dict[str, dict[str, str]]]
    commit: str = ""
    content_key: str = ""
    namespace: str = ""
    version: str = ""
    base_digest: str = ""
    service_account: str = ""
    satisfied: dict[str, str] = {}


def read_parent(body: Mapping[str, Any], *, cluster: ClusterName) -> ParentRecord | UnreadableParent:
    """A parent ConfigMap as a record; `cluster` is what the cluster is called now."""
    metadata = body["metadata"]
    name = metadata["name"]
    annotations = metadata.get("annotations") or {}
    tooling = annotations.get(TOOLING_ANNOTATION, "")
    if tooling != TOOLING:
        return UnreadableParent(name, f"it is managed by tooling {tooling[:64]!r}, not {TOOLING!r}")
    try:
        record = msgspec.json.decode(_record_text(body), type=_Record)
        if record.format != RECORD_FORMAT:
            return UnreadableParent(name, f"its record has format {record.format}; this version knows {RECORD_FORMAT}")
        unit = replace(UnitKey.parse(record.unit), cluster=cluster)
        members = tuple(sorted(_members(record.members)))
    except (msgspec.DecodeError, ValueError, UnicodeError) as error:
        # The text of a decoding error names a path and a type, never a value.
        return UnreadableParent(name, f"its record cannot be read: {error}")
    if parent_name(unit) != name:
        return UnreadableParent(name, f"its record is that of {unit}")
    return ParentRecord(
        unit=unit,
        members=members,
        content_key=record.content_key,
        commit=Commit(record.commit),
        namespace=record.namespace,
        version=record.version,
        base_digest=record.base_digest,
        service_account=record.service_account,
        satisfied=tuple(sorted(record.satisfied.items())),
        pause_until=annotations.get(PAUSE_ANNOTATION, ""),
        resource_version=metadata.get("resourceVersion", ""),
    )


def _members(grouped: Mapping[str, Mapping[str, Mapping[str, str]]]) -> list[Member]:
    members = []
    for written, namespaces in grouped.items():
        api_version, _, kind = written.rpartition("/")
        if not (api_version and kind):
            raise ValueError("a member's kind is not written as version/kind")
        gvk = GroupVersionKind.parse(api_version, kind)
        for namespace, names in namespaces.items():
            for name, uid in names.items():
                members.append(Member(ObjectRef(gvk.group, gvk.kind, namespace, name), gvk.version, uid))
    return members


def _is_marked(current: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether it carries the labels by which it is found again."""
    have = current["metadata"].get("labels") or {}
    return all(have.get(key) == value for key, value in body["metadata"]["labels"].items())


def _record_text(body: Mapping[str, Any]) -> bytes:
    text = (body.get("data") or {}).get(RECORD_KEY)
    return text.encode() if isinstance(text, str) else b""


def _ref(name: str) -> ObjectRef:
    return ObjectRef("", "ConfigMap", SYSTEM_NAMESPACE, name)
