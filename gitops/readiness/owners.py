"""Which secondary object belongs to which declared one: an index over ownerReferences, by uid.

By uid and never by name: a recreated owner is another owner, and its old children are not its own. Only verdicts and
links are kept (a few hundred bytes an object), the objects themselves are dropped after projection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.readiness.evaluating import NO_CONTEXT, foresee
from gitops.readiness.mapping import CompiledMapping
from gitops.readiness.statuses import ChildRecord, ObjectMemory, Status

MAX_DEPTH = 4
"""Graph → component → Deployment → ReplicaSet → Pod is 4 steps; nothing we know is deeper."""


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """Identity of a decoded object (complete or PartialObjectMetadata)."""
    gvk = GroupVersionKind.parse(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    metadata = obj.get("metadata") or {}
    return ObjectRef(gvk.group, gvk.kind, str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def owner_uids(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """uids of the owners: the controller alone where there is one, else all."""
    references = (obj.get("metadata") or {}).get("ownerReferences")
    found = [r for r in references if isinstance(r, Mapping)] if isinstance(references, list) else []
    controllers = [r for r in found if r.get("controller") is True]
    return tuple(dict.fromkeys(str(r["uid"]) for r in (controllers or found) if r.get("uid")))


def project(
    obj: Mapping[str, Any],
    mapping: CompiledMapping,
    *,
    now: float,
    memory: ObjectMemory | None = None,
    context: Mapping[str, Any] = NO_CONTEXT,
) -> ChildRecord:
    """A secondary object reduced to what aggregation needs. Pass the memory of the record it replaces."""
    outlook = foresee(obj, mapping, now=now, memory=memory, context=context)
    status, kept = outlook.at(now)
    terminating = status.status is Status.TERMINATING
    return ChildRecord(ref_of(obj), kept.uid, owner_uids(obj), terminating, outlook, mapping.counted)


def link(obj: Mapping[str, Any]) -> ChildRecord:
    """A record for a kind that is watched as metadata only: it joins owner and grandchildren, and says nothing."""
    metadata = obj.get("metadata") or {}
    terminating = bool(metadata.get("deletionTimestamp"))
    return ChildRecord(ref_of(obj), str(metadata.get("uid", "")), owner_uids(obj), terminating, counted=False)


class OwnerIndex:
    """The secondary objects of one cluster. Not thread-safe; everything is O(1) but the walks."""

    def __init__(self) -> None:
        self._records: dict[str, ChildRecord] = {}
        self._children: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def put(self, record: ChildRecord) -> ChildRecord | None:
        """Add or replace a record; returns the one that was there."""
        before = self._records.get(record.uid)
        self._records[record.uid] = record
        if before is None or before.owners != record.owners:
            self._unlink(before)
            for owner in record.owners:
                self._children.setdefault(owner, {})[record.uid] = None
        return before

    def remove(self, uid: str) -> ChildRecord | None:
        """Forget an object that is gone; its children stay, as the cluster's garbage collector has not met them yet."""
        before = self._records.pop(uid, None)
        self._unlink(before)
        return before

    def get(self, uid: str) -> ChildRecord | None:
        return self._records.get(uid)

    def _unlink(self, record: ChildRecord | None) -> None:
        for owner in record.owners if record else ():
            children = self._children.get(owner)
            if children is not None:
                children.pop(record.uid if record else "", None)
                if not children:
                    del self._children[owner]

    def children(self, uid: str) -> tuple[ChildRecord, ...]:
        return tuple(self._records[u] for u in self._children.get(uid, ()) if u in self._records)

    def descendants(
        self, uid: str, *, namespace: str = "", depth: int = MAX_DEPTH
    ) -> Iterator[tuple[int, ChildRecord]]:
        """(steps from `uid`, record), breadth first, each object once even where references form a circle.

        `namespace` is the owner's: a namespaced object owns nothing in another namespace (Kubernetes' own rule; such a
        reference is ignored by the garbage collector too).
        """
        seen, level = {uid}, [(uid, namespace)]
        for steps in range(1, depth + 1):
            following: list[tuple[str, str]] = []
            for owner, place in level:
                for record in self.children(owner):
                    if record.uid in seen or (place and record.ref.namespace != place):
                        continue
                    seen.add(record.uid)
                    following.append((record.uid, record.ref.namespace))
                    yield steps, record
            level = following

    def ancestors(self, uid: str, *, depth: int = MAX_DEPTH) -> set[str]:
        """uids above an object, known or not: a change of it may change the verdict on any of these."""
        found: set[str] = set()
        record = self._records.get(uid)
        level = set(record.owners) if record else set()
        for _ in range(depth):
            level -= found
            if not level:
                break
            found |= level
            level = {o for u in level if (r := self._records.get(u)) for o in r.owners}
        return found
