"""The parent: a unit's durable state on its target cluster, as data.

It is the only state that must not be lost: which objects the unit has (or may have: names are recorded before the first
apply), with which uids, for which commit and content. gitops/cluster/parents.py stores it as a ConfigMap.
"""

from __future__ import annotations

import base64
import bisect
import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gitops.model.identity import Commit, GroupVersionKind, ObjectRef, UnitKey

SYSTEM_NAMESPACE = "gitops-system"
"""Namespace of parents, claim and Lease on every target."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """An object the unit has. `version` is the API version it was applied at; `uid` is empty while only intended."""

    ref: ObjectRef
    version: str
    uid: str = ""

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.ref.group, self.version, self.ref.kind)


NO_COMMIT = Commit("")


@dataclass(frozen=True, slots=True)
class ParentRecord:
    """What the parent says. `content_key` and `commit` are of the last complete apply ("" before the first)."""

    unit: UnitKey
    members: tuple[Member, ...] = ()
    content_key: str = ""
    commit: Commit = NO_COMMIT
    namespace: str = ""
    version: str = ""
    base_digest: str = ""
    service_account: str = ""  # in whose name the unit's objects are written; "" = the daemon's own
    satisfied: tuple[tuple[str, str], ...] = ()
    """What was done once and is not done again, sorted: its name (an object, or a field of one) and the digest or word
    for which it was done."""
    contested: tuple[tuple[str, str], ...] = ()
    """Paths of objects that another writer keeps undoing, sorted, and for how long they are left alone
    (gitops/reconcile/fights.py): a daemon that begins anew must not begin to fight anew."""
    pause_until: str = ""  # RFC 3339; the break-glass annotation `gitops/pause-until`
    resource_version: str = ""  # of the ConfigMap it was read from; "" = not stored yet

    def member_uids(self) -> dict[ObjectRef, str]:
        return {m.ref: m.uid for m in self.members}

    def uid_of(self, ref: ObjectRef) -> str:
        """The uid of one member; "" when it has none, or is none. Members are sorted."""
        place = bisect.bisect_left(self.members, ref, key=lambda member: member.ref)
        found = self.members[place : place + 1]
        return found[0].uid if found and found[0].ref == ref else ""


@functools.lru_cache(maxsize=1 << 14)
def parent_name(key: UnitKey) -> str:
    """Name of the parent ConfigMap: readable, at most 63 characters, distinct for distinct keys.

    The cluster is no part of it: a parent lives on its cluster, whatever name that has in Git at the moment.
    """
    identity = f"{key.kind}/{key.name}/{key.instance}"
    readable = re.sub(r"[^a-z0-9]+", "-", identity.lower()).strip("-")[:46].strip("-")
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def applyset_id(parent: str) -> str:
    """ApplySet id of a parent ConfigMap (KEP-3659, "ApplySet ID": base64url of sha256 of name.namespace.kind.group)."""
    digest = hashlib.sha256(f"{parent}.{SYSTEM_NAMESPACE}.ConfigMap.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}-v1"


def union(record: ParentRecord, intended: Iterable[Member]) -> tuple[Member, ...]:
    """Members the unit has or is about to have: known ones keep their uid, new ones are added without."""
    known = {m.ref: m for m in record.members}
    for member in intended:
        have = known.get(member.ref)
        known[member.ref] = Member(member.ref, member.version, have.uid if have else member.uid)
    return tuple(sorted(known.values()))
