"""What units wait for, and which of them an event wakes.

Waiting is a state, never a blocked worker: an attempt ends and says what it lacks, the event that brings it begins the
next one. Back-off remains beside it, for what no event tells (the parameters of an admission policy) and for admission
plugins, whose own caches may lag behind the event. Pure: no calls, no clock.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gitops.cluster.errors import DELETING, ApiError, ErrorClass
from gitops.model import kinds
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.plan.units import DesiredObject

QUOTA = GroupVersionKind("", "v1", "ResourceQuota")
PRIORITY_CLASS = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
RUNTIME_CLASS = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")
ROLES = {kind: GroupVersionKind("rbac.authorization.k8s.io", "v1", kind) for kind in ("Role", "ClusterRole")}


class Till(enum.Enum):
    """What has to become of the object."""

    THERE = "there"
    GONE = "gone"
    CHANGED = "changed"  # a quota that is exceeded: anything that changes it may free something
    READY = "ready"  # a declared object of the unit itself


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """What a unit waits for. `watch` is the kind to be watched, metadata only, for as long as it waits; None where
    something that is watched anyway tells."""

    ref: ObjectRef
    till: Till
    watch: GroupVersionKind | None = None


def need_of(error: ApiError, desired: DesiredObject) -> Need | None:
    """What would let an object be applied that was refused with this error; None where no event tells.

    A kind is not among them: the watch of what is declared of it begins when it is served, and looks at the unit.
    """
    if error.cls is not ErrorClass.WAITING:
        return None
    if error.reason == DELETING:
        return Need(desired.ref, Till.GONE)
    if error.waits_for == "end of the namespace's deletion":
        return _need(kinds.NAMESPACE, "", desired.ref.namespace, Till.GONE)
    found = _SUBJECT.fullmatch(error.waits_for)
    if found is None:
        return None
    place, _, name = found["name"].rpartition("/")
    match found["what"]:
        case "namespace":
            return _need(kinds.NAMESPACE, "", name, Till.THERE)
        case "end of the deletion of namespace":
            return _need(kinds.NAMESPACE, "", name, Till.GONE)
        case "service account":
            return _need(kinds.SERVICE_ACCOUNT, place or desired.ref.namespace, name, Till.THERE)
        case "priority class":
            return _need(PRIORITY_CLASS, "", name, Till.THERE)
        case "runtime class":
            return _need(RUNTIME_CLASS, "", name, Till.THERE)
        case "quota":
            return _need(QUOTA, desired.ref.namespace, name, Till.CHANGED)
        case "secret":
            # Whoever copies it watches where it comes from; all Secrets of a cluster are nobody's business.
            return Need(ObjectRef("", "Secret", place or desired.ref.namespace, name), Till.THERE)
    role = ROLES.get(str((desired.body.get("roleRef") or {}).get("kind")))
    namespace = desired.ref.namespace if role == ROLES["Role"] else ""
    return None if role is None else _need(role, namespace, name, Till.THERE)


_SUBJECT = re.compile(
    "(?P<what>(end of the deletion of )?namespace|service account|priority class|runtime class|quota|role|secret)"
    r" (?P<name>\S+)"
)
"""The words of ApiError.waits_for (gitops/cluster/errors.py)."""


def _need(kind: GroupVersionKind, namespace: str, name: str, till: Till) -> Need:
    return Need(ObjectRef(kind.group, kind.kind, namespace, name), till, kind)


class Waiting:
    """Which unit waits for what, on one cluster."""

    def __init__(self) -> None:
        self._needs: dict[UnitKey, frozenset[Need]] = {}
        self._by_ref: dict[ObjectRef, dict[UnitKey, Till]] = {}

    def __bool__(self) -> bool:
        return bool(self._needs)

    def note(self, key: UnitKey, needs: Collection[Need]) -> None:
        """What the unit waits for since its last attempt, in place of what it waited for before."""
        for need in self._needs.pop(key, ()):
            if (units := self._by_ref.get(need.ref)) is not None:
                units.pop(key, None)
                if not units:
                    del self._by_ref[need.ref]
        if needs:
            self._needs[key] = frozenset(needs)
            for need in needs:
                self._by_ref.setdefault(need.ref, {})[key] = need.till

    def watched(self) -> frozenset[GroupVersionKind]:
        """Kinds to be watched because somebody waits."""
        return frozenset(n.watch for needs in self._needs.values() for n in needs if n.watch is not None)

    def of(self, key: UnitKey) -> frozenset[Need]:
        return self._needs.get(key, frozenset())

    def seen(self, ref: ObjectRef, *, there: bool) -> list[UnitKey]:
        """Whom it wakes that an object is there, or is there no more."""
        return self._woken(ref, {Till.THERE, Till.CHANGED} if there else {Till.GONE, Till.CHANGED})

    def listed(self, kind: GroupVersionKind) -> list[UnitKey]:
        """Whom it wakes that a kind was listed anew: what they wait to see go may have gone before."""
        gone = (r for r in self._by_ref if (r.group, r.kind) == (kind.group, kind.kind))
        return sorted({key for ref in gone for key in self._woken(ref, {Till.GONE})})

    def _woken(self, ref: ObjectRef, tills: Iterable[Till]) -> list[UnitKey]:
        wanted = set(tills)
        return sorted(key for key, till in self._by_ref.get(ref, {}).items() if till in wanted)
