"""What an event about one of our objects means. Microseconds when nothing of ours moved; a comparison otherwise.

Pure apart from the record it updates: no calls, no clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.cluster import fields
from gitops.cluster.fields import Comparison, FieldDifference
from gitops.cluster.values import ABSENT
from gitops.manifests.lines import Path
from gitops.plan.units import DesiredObject, Stage
from gitops.reconcile.fights import MOST_PATHS, WHOLE
from gitops.reconcile.state import ObjectRecord


class Sighting(enum.Enum):
    QUIET = "quiet"  # nothing of ours moved
    SETTLED = "settled"  # it is as declared, and was not known to be
    DRIFTED = "drifted"  # it was as declared once, and no longer is
    LOST = "lost"  # values are right, ownership is not: applied again silently
    DIFFERS = "differs"  # not as declared, and not known ever to have been: the plan decides


@dataclass(frozen=True, slots=True)
class Observation:
    sighting: Sighting
    comparison: Comparison | None = None


def is_stale(record: ObjectRecord, live: Mapping[str, Any]) -> bool:
    """Whether an event tells nothing new: it was overtaken, or is the echo of our own write. Asked once for each."""
    metadata = live.get("metadata") or {}
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    return _is_echo(record, uid, version) or _overtaken(record, uid, version)


def observe(
    record: ObjectRecord, desired: DesiredObject, live: Mapping[str, Any], *, manager: str, content_applied: bool
) -> Observation:
    """Fold a live object into its record; not one that is_stale().

    `content_applied`: the parent says that this very content was applied completely before, so what differs at first
    sight is drift that happened while nobody watched, not a change in Git.
    """
    body = desired.body
    print_ = fields.fingerprint(body, live, manager)
    first = record.uid != print_.uid
    entry_moved = record.entry != print_.entry_digest
    moved = first or entry_moved or record.values != print_.values_digest
    record.uid, record.resource_version = print_.uid, print_.resource_version
    record.generation = print_.generation or 0
    record.deleting = bool(live.get("metadata", {}).get("deletionTimestamp"))
    if not moved:
        return Observation(Sighting.QUIET)
    record.entry, record.values, record.entry_version = print_.entry_digest, print_.values_digest, print_.entry_version
    if first:
        record.applied = record.last_desired = b""
        record.mark, record.overridden, record.answered, record.drifting = None, (), b"", ()
    if record.deleting and not (record.last_desired or content_applied):
        return Observation(Sighting.QUIET)  # its end began before Git wanted it: it is not what will be there
    was_applied = record.last_desired == desired.digest or (first and content_applied)
    as_answered = was_applied and record.values == record.answered
    comparison = fields.compare(body, live, manager, applied=was_applied, values_as_applied=as_answered)
    if first and was_applied and _is_followed(desired, comparison):
        was_applied = False
    observation = _compared(record, desired, comparison, was_applied=was_applied)
    if entry_moved and observation.sighting is Sighting.DIFFERS:
        record.applied = b""  # others changed it: what it satisfied before may not hold any more when Git goes back
    return observation


def _compared(
    record: ObjectRecord, desired: DesiredObject, comparison: Comparison, *, was_applied: bool
) -> Observation:
    if comparison.in_sync or (was_applied and comparison.in_sync_as_applied):
        record.applied = record.last_desired = desired.digest
        record.drifting = ()
        if record.values != record.answered:
            record.answered, record.overridden = record.values, ()
        return Observation(Sighting.SETTLED, comparison)
    if not was_applied:
        return Observation(Sighting.DIFFERS, comparison)
    record.last_desired = desired.digest
    overridden = set(record.overridden)
    real = tuple(d for d in comparison.differences if d.path not in overridden)
    if overridden and not real and record.values != record.answered:
        real = comparison.differences  # a third value, neither Git's nor the one that our apply was answered with
    record.applied, record.unowned = b"", not real
    record.drifting = _paths(real, comparison)
    return Observation(Sighting.DRIFTED if real else Sighting.LOST, replace(comparison, differences=real))


def _paths(real: Sequence[FieldDifference], comparison: Comparison) -> tuple[Path, ...]:
    """What a drift is about: the paths that differ, or those of which only the ownership moved."""
    paths = [d.path for d in real] or list(comparison.lost)
    return tuple(paths) if 0 < len(paths) <= MOST_PATHS else (WHOLE,)


def _is_followed(desired: DesiredObject, comparison: Comparison) -> bool:
    """Whether a copy of a Secret, seen for the first time, is as we made it of a source that has changed since: the
    parent knows the content of Git only. A value that others set is drift here too; a key that is not there may be new
    in the source."""
    return desired.stage is Stage.SECRETS and all(d.still_ours or d.live is ABSENT for d in comparison.differences)


def _is_echo(record: ObjectRecord, uid: str, version: str) -> bool:
    """Whether the event is what the answer to our own write said already: most events during a rollout are."""
    if not record.awaiting or version != record.awaiting or uid != record.uid:
        return False
    record.awaiting = ""
    return True


def _overtaken(record: ObjectRecord, uid: str, version: str) -> bool:
    """Whether the event is older than what a write of ours has answered already.

    Only until the watch has caught up with that write: our event came before the answer in 117 of 200 writes, foreign
    ones from before it may come after (ssa-live 39). resourceVersions of one object are comparable numbers (KEP-5504,
    "Comparable Resource Version"); where they are not numbers, nothing is overtaken. At all other times what a list or
    a watch says is the truth, also when it counts backwards after etcd was restored.
    """
    awaiting = record.awaiting
    if not awaiting or record.uid != uid:
        return False
    if awaiting.isdecimal() and version.isdecimal() and int(version) < int(awaiting):
        return True
    record.awaiting = ""
    return False
