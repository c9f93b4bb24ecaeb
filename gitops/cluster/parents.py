"""Parents on the target: one ConfigMap in `gitops-system` for each unit, which is also the unit's ApplySet (KEP-3659).

What a unit has applied is known from here and nowhere else, so a parent that cannot be read is reported and never taken
for absent: from "no parent" follows "nothing to prune" or "first contact", and both would be wrong (I1). Writes are
guarded by resourceVersion. A write that lost a race is repeated only while the stored record is still the one that ours
was made from; people may annotate a parent (`gitops/pause-until`) at any time without disturbing us.

Members that one ConfigMap does not hold go into chunks beside it (parent_chunks.py): those are written first, then the
parent that names them by digest, and what it does not name any more is deleted after that. So whatever is interrupted,
the parent that is stored is whole: the one of before or the one of after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gitops.cluster import parent_chunks
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.cluster.parent_chunks import Chunk, Grouped
from gitops.manifests.canonical import digest
from gitops.model.identity import ClusterName, Commit, ObjectRef, ReconcilerName, UnitKey
from gitops.model.kinds import CONFIG_MAP
from gitops.plan.naming import label_value
from gitops.plan.parents import NO_COMMIT, SYSTEM_NAMESPACE, ParentRecord, applyset_id, parent_name
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
"""Bytes of a record, and of a chunk: the API server limits a ConfigMap's data to 1 MiB. About 10,000 members."""

MAX_NAMESPACES = 100_000
"""Bytes of the annotation that names namespaces: all annotations together are limited to 256 KiB."""

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
        self._uids: dict[str, str] = {}  # parent name → uid of its ConfigMap
        self._chunks: dict[str, set[str]] = {}  # parent name → chunks that exist, as far as we know

    async def load_all(self) -> StoredParents | ApiError:
        """Every parent, with one LIST (in pages) of one snapshot. Keys carry the cluster's present name."""
        listing = await self._objects.list_objects(
            CONFIG_MAP, namespace=SYSTEM_NAMESPACE, selector=f"{RECONCILER_LABEL}={self._reconciler},{WORKLOAD_LABEL}"
        )
        if isinstance(listing, ApiError):
            return listing
        chunks = {i["metadata"]["name"]: i for i in listing.items if parent_chunks.is_chunk(i)}
        for name, chunk in chunks.items():
            self._chunks.setdefault(parent_chunks.parent_of(chunk), set()).add(name)
        records: dict[UnitKey, ParentRecord] = {}
        unreadable = []
        for item in listing.items:
            if parent_chunks.is_chunk(item):
                continue
            read = self._read(item, chunks)
            if isinstance(read, UnreadableParent):
                unreadable.append(read)
            else:
                records[read.unit] = read
        return StoredParents(records, tuple(unreadable))

    async def load(self, key: UnitKey) -> ParentRecord | UnreadableParent | ApiError | None:
        """One parent; None when it certainly does not exist."""
        for _ in range(_WRITE_ATTEMPTS):
            found = await self._objects.get(CONFIG_MAP, _ref(parent_name(key)))
            if not isinstance(found, dict):
                return found
            chunks: dict[str, Mapping[str, Any]] = {}
            for name in chunk_names(found):
                chunk = await self._objects.get(CONFIG_MAP, _ref(name))
                if isinstance(chunk, ApiError):
                    return chunk
                if chunk is not None:
                    chunks[name] = chunk
            read = self._read(found, chunks)
            if isinstance(read, ParentRecord) or chunks.keys() == set(chunk_names(found)):
                return read
            # A chunk is missing: perhaps another writer has just stored a record without it.
        return read

    async def write(self, record: ParentRecord) -> ParentRecord | ApiError:
        """Store a record: created when its `resource_version` is empty, else changed only if nobody else changed the
        record since. Returns it with its new `resource_version` and the `pause_until` that stands on the parent.

        STALE: another writer's record is stored; load it and decide anew. REFUSED: too large, or a ConfigMap of that
        name belongs to something else.
        """
        name = parent_name(record.unit)
        chunks: list[Chunk] = []
        if len(encode_record(record)) > MAX_RECORD:
            if not record.resource_version or name not in self._uids:
                made = await self._owner(record, name)
                if isinstance(made, ApiError):
                    return made
                record = made
            found = parent_chunks.split(record.members, limit=MAX_RECORD, parent=name, parent_uid=self._uids[name])
            if found is None:
                message = f"{record.unit} has too many objects for one parent"
                return ApiError(ErrorClass.REFUSED, reason="TooLarge", message=message)
            chunks = found
            error = await self._write_chunks(record, chunks)
            if error is not None:
                return error
        stored = await self._write_head(record, chunks)
        if not isinstance(stored, ApiError):
            await self._drop_chunks(name, keep={c.name for c in chunks})
        return stored

    async def delete(self, record: ParentRecord) -> ApiError | None:
        """Delete a parent whose unit has nothing left. None when it is gone; STALE when it changed since. Its chunks go
        first, once it does not name them any more."""
        name = parent_name(record.unit)
        if self._chunks.get(name):
            stored = await self.write(replace(record, members=()))
            if isinstance(stored, ApiError):
                return stored
            record = stored
        live = await self._objects.get(CONFIG_MAP, _ref(name))
        if live is None or isinstance(live, ApiError):
            return live
        metadata = live["metadata"]
        if record.resource_version and metadata["resourceVersion"] != record.resource_version:
            return ApiError(ErrorClass.STALE, reason="Conflict", message=f"the parent of {record.unit} was changed")
        outcome = await self._objects.delete(
            CONFIG_MAP, _ref(name), uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
        if outcome.error is None:
            self._seen.pop(name, None)
            self._uids.pop(name, None)
        return outcome.error

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _write_head(self, record: ParentRecord, chunks: Sequence[Chunk]) -> ParentRecord | ApiError:
        name = parent_name(record.unit)
        text = encode_record(record, chunks)
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
                # Somebody deleted the parent. What we know of the unit is all there is of it: store it again. Its
                # chunks go with it, so they are to be made anew, too.
                self._uids.pop(name, None)
                if chunks:
                    return replace(error, cls=ErrorClass.STALE)
                record = replace(record, resource_version="")
                continue
            read = read_head(current, cluster=self._cluster)
            if isinstance(read, UnreadableParent):
                return ApiError(ErrorClass.REFUSED, reason="UnreadableParent", message=f"parent {name}: {read.why}")
            if _record_text(current) == text and _is_marked(current, body):
                return self._stored(record, name, text, current)  # an earlier attempt's answer was lost
            if seen is None or digest(_record_text(current)) != seen:
                return replace(error, message=f"the parent of {record.unit} was changed by another writer")
            record = replace(record, resource_version=read.resource_version)
        return error

    async def _owner(self, record: ParentRecord, name: str) -> ParentRecord | ApiError:
        """The record, with the parent there that is to own its chunks. A new one has no members yet: nothing of them
        was applied. One that exists is never emptied."""
        found = await self._objects.get(CONFIG_MAP, _ref(name))
        if isinstance(found, ApiError):
            return found
        if found is None and not record.resource_version:
            empty = await self._write_head(replace(record, members=(), content_key="", commit=NO_COMMIT), ())
            if isinstance(empty, ApiError):
                return empty
            return replace(record, resource_version=empty.resource_version)
        if found is None or (not record.resource_version and digest(_record_text(found)) != self._seen.get(name)):
            message = f"the parent of {record.unit} was changed by another writer"
            return ApiError(ErrorClass.STALE, reason="Conflict", message=message)
        self._uids[name] = found["metadata"]["uid"]
        version = record.resource_version or found["metadata"]["resourceVersion"]
        return replace(record, resource_version=version)

    async def _write_chunks(self, record: ParentRecord, chunks: Sequence[Chunk]) -> ApiError | None:
        """Make those that are not there yet. Their names are of their content, so one of a name is that one."""
        name = parent_name(record.unit)
        known = self._chunks.setdefault(name, set())
        labels = {RECONCILER_LABEL: self._reconciler, WORKLOAD_LABEL: label_value(record.unit.name)}
        for chunk in chunks:
            if chunk.name in known:
                continue
            body = chunk.body(SYSTEM_NAMESPACE, labels, parent=name, parent_uid=self._uids[name])
            made = await self._objects.create(CONFIG_MAP, _ref(chunk.name), body, manager=self._manager)
            if isinstance(made, ApiError) and made.reason != "AlreadyExists":
                return made
            known.add(chunk.name)
        return None

    async def _drop_chunks(self, name: str, *, keep: set[str]) -> None:
        """Delete chunks that the stored parent does not name. One that stays for now is met by the next write."""
        known = self._chunks.get(name, set())
        for stray in sorted(known - keep):
            live = await self._objects.get(CONFIG_MAP, _ref(stray))
            if isinstance(live, ApiError):
                continue
            if live is not None:
                metadata = live["metadata"]
                outcome = await self._objects.delete(
                    CONFIG_MAP, _ref(stray), uid=metadata["uid"], resource_version=metadata["resourceVersion"]
                )
                if outcome.error is not None:
                    continue
            known.discard(stray)

    def _body(self, record: ParentRecord, name: str, text: bytes) -> dict[str, Any]:
        kinds = sorted({str(m.ref.group_kind) for m in record.members})
        namespaces = ",".join(sorted({m.ref.namespace for m in record.members} - {"", SYSTEM_NAMESPACE}))
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
                    NAMESPACES_ANNOTATION: namespaces if len(namespaces) <= MAX_NAMESPACES else "",
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
        self._uids[name] = metadata["uid"]
        return replace(
            record,
            resource_version=metadata["resourceVersion"],
            pause_until=(metadata.get("annotations") or {}).get(PAUSE_ANNOTATION, ""),
        )

    def _read(
        self, body: Mapping[str, Any], chunks: Mapping[str, Mapping[str, Any]]
    ) -> ParentRecord | UnreadableParent:
        read = read_parent(body, chunks, cluster=self._cluster)
        if isinstance(read, ParentRecord):
            name = body["metadata"]["name"]
            self._seen[name] = digest(_record_text(body))
            self._uids[name] = body["metadata"].get("uid", "")
            if named := chunk_names(body):
                self._chunks.setdefault(name, set()).update(named)
        return read


def encode_record(record: ParentRecord, chunks: Sequence[Chunk] = ()) -> bytes:
    """The `record` of a parent: JSON. Members are in it, or its chunks have them and it names those by digest."""
    where: dict[str, Any] = {"members": {} if chunks else parent_chunks.grouped(record.members)}
    if chunks:
        where["chunks"] = {chunk.name: chunk.digest for chunk in chunks}
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
            **({"contested": dict(record.contested)} if record.contested else {}),
            **where,
        },
        order="sorted",
    )


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    format: int
    unit: str
    members: Grouped
    chunks: dict[str, str] = {}
    commit: str = ""
    content_key: str = ""
    namespace: str = ""
    version: str = ""
    base_digest: str = ""
    service_account: str = ""
    satisfied: dict[str, str] = {}
    contested: dict[str, str] = {}


def read_parent(
    body: Mapping[str, Any], chunks: Mapping[str, Mapping[str, Any]], *, cluster: ClusterName
) -> ParentRecord | UnreadableParent:
    """A parent ConfigMap as a record; `chunks` are those there are, by name, `cluster` is what the cluster is called
    now. A set of chunks that is not exactly the one the parent names cannot be read."""
    head = read_head(body, cluster=cluster)
    if isinstance(head, UnreadableParent):
        return head
    members = list(head.members)
    for name, wanted in _decoded(body).chunks.items():
        if name not in chunks:
            return UnreadableParent(body["metadata"]["name"], f"its part {name} is missing")
        try:
            members += parent_chunks.read(chunks[name], wanted)
        except (msgspec.DecodeError, ValueError) as error:
            return UnreadableParent(body["metadata"]["name"], f"its part {name} cannot be read: {error}")
    return replace(head, members=tuple(sorted(members)))


def read_head(body: Mapping[str, Any], *, cluster: ClusterName) -> ParentRecord | UnreadableParent:
    """A parent ConfigMap without what its chunks hold."""
    metadata = body["metadata"]
    name = metadata["name"]
    annotations = metadata.get("annotations") or {}
    tooling = annotations.get(TOOLING_ANNOTATION, "")
    if tooling != TOOLING:
        return UnreadableParent(name, f"it is managed by tooling {tooling[:64]!r}, not {TOOLING!r}")
    try:
        record = _decoded(body)
        if record.format != RECORD_FORMAT:
            return UnreadableParent(name, f"its record has format {record.format}; this version knows {RECORD_FORMAT}")
        unit = replace(UnitKey.parse(record.unit), cluster=cluster)
        members = tuple(sorted(parent_chunks.ungrouped(record.members)))
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
        contested=tuple(sorted(record.contested.items())),
        pause_until=annotations.get(PAUSE_ANNOTATION, ""),
        resource_version=metadata.get("resourceVersion", ""),
    )


def chunk_names(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The chunks that a parent ConfigMap names; none when it cannot be read."""
    try:
        return tuple(_decoded(body).chunks)
    except (msgspec.DecodeError, ValueError):
        return ()


def _decoded(body: Mapping[str, Any]) -> _Record:
    return msgspec.json.decode(_record_text(body), type=_Record)


def _is_marked(current: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether it carries the labels by which it is found again."""
    have = current["metadata"].get("labels") or {}
    return all(have.get(key) == value for key, value in body["metadata"]["labels"].items())


def _record_text(body: Mapping[str, Any]) -> bytes:
    text = (body.get("data") or {}).get(RECORD_KEY)
    return text.encode() if isinstance(text, str) else b""


def _ref(name: str) -> ObjectRef:
    return ObjectRef("", "ConfigMap", SYSTEM_NAMESPACE, name)
