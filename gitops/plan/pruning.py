"""The proof without which nothing is deleted, and the fuse that stops mass deletion.

A delete needs all of: the object is in the unit's member list with that uid, absent from a desired state that compiled
completely, and live it carries our part-of label, our field manager and no controller owner; the request then carries
uid and resourceVersion as preconditions. Labels alone prove nothing: Services copy theirs to EndpointSlices
(ssa-live 50), operators copy them to children (cases.md R10).
"""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.model.identity import GroupKind, ObjectRef, UnitKey, WorkloadKind
from gitops.plan.data_held import consents
from gitops.plan.parents import Member
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL
from gitops.policy.annotations import ALLOW_DELETE

ALLOW_PRUNE_TRAILER = "Gitops-Allow-Prune"


class Verdict(enum.StrEnum):
    DELETE = "delete"
    GONE = "gone"  # nothing to do: already deleted
    GOING = "going"  # deletion has begun; wait
    KEEP = "keep"  # not ours (any more), or protected: leave it and say so


@dataclass(frozen=True, slots=True)
class PruneDecision:
    verdict: Verdict
    member: Member
    reason: str = ""
    uid: str = ""
    resource_version: str = ""
    forget: bool = False  # with KEEP: the member is no longer ours to track
    left_behind: bool = False  # with `forget`: nobody of ours has it any more, though we made it
    moved: bool = False  # with `forget`: it is not this member any more, or another unit's for certain
    since: str = ""  # with GOING: when the deletion began, as the server writes it
    finalizers: tuple[str, ...] = ()  # with GOING
    holder: str = ""  # with GOING: who holds it


def decide_prune(
    member: Member,
    live: Mapping[str, Any] | None,
    *,
    applyset: str,
    reconciler: str,
    manager: str,
    declared: Collection[ObjectRef],
    holds: str,
    applied_uids: Collection[str] = (),
) -> PruneDecision:
    """Whether this member may be deleted. `declared` are the objects of every unit of the cluster; `live` is the whole
    object just read, None when the API server said it does not exist; `holds` is what would be lost with it
    (data_held.py)."""

    def keep(reason: str, *, left_behind: bool = False, moved: bool = False) -> PruneDecision:
        return PruneDecision(Verdict.KEEP, member, reason, forget=True, left_behind=left_behind, moved=moved)

    if live is None:
        return PruneDecision(Verdict.GONE, member)
    metadata = live.get("metadata", {})
    uid, labels = metadata.get("uid", ""), metadata.get("labels") or {}
    if member.uid and uid != member.uid:
        ours = labels.get(PART_OF_LABEL) == applyset and applied_by(metadata, manager)
        return keep("another object has taken the name (its uid differs)", left_behind=ours, moved=True)
    if member.ref in declared:
        if labels.get(PART_OF_LABEL) == applyset:
            # Its label says whose it is. Forgotten before, it would be nobody's if Git dropped it again.
            return PruneDecision(Verdict.GOING, member, "another unit declares it and has not taken it over yet")
        return keep("another unit has taken it over", moved=True)
    if uid in applied_uids:
        return keep("the same object was just applied under another API group", moved=True)
    if labels.get(RECONCILER_LABEL) == reconciler and labels.get(PART_OF_LABEL) not in (None, applyset):
        return keep("it no longer carries our labels, but those of another unit")
    if labels.get(PART_OF_LABEL) != applyset or labels.get(RECONCILER_LABEL) != reconciler:
        return keep("it no longer carries our labels", left_behind=True)
    if not applied_by(metadata, manager):
        return keep("our field manager owns nothing in it", left_behind=True)
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return keep("a controller owns it")
    if metadata.get("deletionTimestamp"):
        return PruneDecision(
            Verdict.GOING,
            member,
            held_by(live),
            uid=uid,
            resource_version=metadata.get("resourceVersion", ""),
            since=metadata["deletionTimestamp"],
            finalizers=tuple(metadata.get("finalizers") or ()),
            holder=holder(live),
        )
    if holds and not consents(metadata):
        ask = f'annotate it with {ALLOW_DELETE}: "true" to have it deleted'
        return PruneDecision(Verdict.KEEP, member, f"it holds data: with it would go {holds}; {ask}")
    return PruneDecision(Verdict.DELETE, member, uid=uid, resource_version=metadata.get("resourceVersion", ""))


def applied_by(metadata: Mapping[str, Any], manager: str) -> bool:
    """Whether this field manager owns something in the object by an apply: labels are copied, this is not."""
    return any(
        e.get("manager") == manager and e.get("operation") == "Apply" and not e.get("subresource")
        for e in metadata.get("managedFields") or ()
    )


def held_by(live: Mapping[str, Any]) -> str:
    """Where the deletion of an object stands."""
    who = holder(live)
    return f"being deleted, held by {who}" if who else "being deleted"


def holder(live: Mapping[str, Any]) -> str:
    """Who keeps an object that is being deleted; "" when nothing says so. A namespace tells it in conditions."""
    finalizers = live.get("metadata", {}).get("finalizers") or []
    if finalizers:
        return f"finalizer {finalizers[0]}"
    conditions = {c.get("type"): c for c in (live.get("status") or {}).get("conditions") or ()}
    remaining = (conditions.get(t, {}) for t in ("NamespaceFinalizersRemaining", "NamespaceContentRemaining"))
    return next((str(c.get("message", ""))[:200] for c in remaining if c.get("status") == "True"), "")


@dataclass(frozen=True, slots=True)
class FuseLimits:
    """`count`: deletions per commit and cluster; `share`: of one unit that is still declared (0..1), from `share_floor`
    members on, so that small units can lose an object without ceremony."""

    count: int = 50
    share: float = 0.5
    share_floor: int = 4


TEMPLATE_KINDS: frozenset[GroupKind] = frozenset(
    {
        GroupKind("", "ResourceQuota"),
        GroupKind("", "LimitRange"),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("", "ServiceAccount"),
    }
)
"""What a cluster's namespace template makes in every instance namespace."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Globs from the `Gitops-Allow-Prune` trailers of the commits from the last applied one to the head."""

    globs: tuple[str, ...] = ()

    def covers(self, unit: UnitKey) -> bool:
        """A glob matches the whole key (`function/llama-*@dgx-a`) or the key without its cluster."""
        text = str(unit)
        return any(fnmatch.fnmatchcase(text, g) or fnmatch.fnmatchcase(text.partition("@")[0], g) for g in self.globs)


def blown_fuses(
    prunes: Mapping[UnitKey, Sequence[Member]],
    *,
    sizes: Mapping[UnitKey, int],
    declared: Collection[UnitKey],
    consent: Consent,
    limits: FuseLimits,
) -> dict[UnitKey, str]:
    """Units whose deletions must not happen without consent, each with the sentence that says so.

    `sizes` are the member counts before the commit; `declared` the units that Git still declares (the share applies to
    those only: a unit whose declaration left Git is meant to go). What a namespace template can make counts once by
    its name, however many instances lose it: one line of one file took it away, and no data goes with it.
    """
    blown: dict[UnitKey, str] = {}
    unconsented = {unit: members for unit, members in prunes.items() if members and not consent.covers(unit)}
    total = len({_counted_as(unit, m, unit in declared) for unit, members in unconsented.items() for m in members})
    for unit, members in unconsented.items():
        ask = f"; a commit with the trailer `{ALLOW_PRUNE_TRAILER}: {unit}` allows it"
        if total > limits.count:
            blown[unit] = f"the commit would delete {total} objects on this cluster, more than {limits.count}{ask}"
        elif unit in declared and sizes[unit] >= limits.share_floor and len(members) > limits.share * sizes[unit]:
            blown[unit] = f"the commit would delete {len(members)} of the unit's {sizes[unit]} objects{ask}"
    return blown


def _counted_as(unit: UnitKey, member: Member, declared: bool) -> tuple[object, ...]:
    ref = member.ref
    if declared and unit.kind is not WorkloadKind.BUNDLE and ref.group_kind in TEMPLATE_KINDS:
        return ref.group_kind, ref.name
    return unit, ref
