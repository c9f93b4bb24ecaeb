"""What is kept of a unit's drifts: what is open, and what was, each drift once however often it comes back.

Pure functions on lists of records, oldest first. A comparison tells all differences of an object as they are then, so
what is open and not among them is over. The same drift again (object, kind, path, manager) is counted on its record.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from gitops.model.identity import ObjectRef
from gitops.report.drift import DriftKind, DriftRecord, Repair

HISTORY = datetime.timedelta(days=7)
"""How long a drift that is over is told of: who comes back from a week away sees it; `git log` has what is older."""

HISTORY_KEPT = 50
"""Drifts that are over, of a unit; the newest."""

Records = list[DriftRecord]


def noted(
    kept: Sequence[DriftRecord],
    ref: ObjectRef,
    now: Iterable[DriftRecord],
    *,
    at: datetime.datetime,
    over: Callable[[DriftRecord], Repair] = lambda _: Repair.REVERTED,
) -> tuple[Records, Records]:
    """All that differs of an object now, in place of what did: (what is kept, which of it is new). `over` says what
    became of an open record that is not among them."""
    found = {(r.kind, r.path): r for r in now}
    result: Records = []
    for record in kept:
        if record.object != ref or not record.is_open:
            result.append(record)
            continue
        same = found.get((record.kind, record.path))
        if same is None and found and record.kind is DriftKind.RECREATED:
            result.append(record)  # its new object is not as declared yet
        elif same is None:
            result.append(record.with_repair(over(record), at))
        elif _goes_on(record, same):
            del found[record.kind, record.path]
            here = replace(record, declared=same.declared, declared_at=same.declared_at, field=same.field)
            result.append(here)
        else:
            result.append(record.with_repair(Repair.REPLACED, at))
    return added(result, found.values())


def added(kept: Sequence[DriftRecord], new: Iterable[DriftRecord]) -> tuple[Records, Records]:
    """New drifts beside what is kept: (what is kept, the new ones with their counts)."""
    fresh = {record.key: record for record in new}
    result: Records = []
    for record in kept:
        again = fresh.get(record.key)
        if again is None:
            result.append(record)
        else:
            fresh[record.key] = replace(again, count=record.count + again.count, first_at=record.since)
    return [*result, *fresh.values()], list(fresh.values())


def about_object(kept: Sequence[DriftRecord], new: DriftRecord, *, at: datetime.datetime) -> tuple[Records, Records]:
    """A whole object went or is another one: what of the former differed is no matter any more."""
    result = [r.with_repair(Repair.REPLACED, at) if r.object == new.object and r.is_open else r for r in kept]
    return added(result, [new])


def became(
    kept: Sequence[DriftRecord],
    ref: ObjectRef,
    repair: Callable[[DriftRecord], Repair],
    *,
    at: datetime.datetime,
) -> Records:
    """What became of the open drifts of an object."""
    return [r.with_repair(repair(r), at) if r.object == ref and r.is_open else r for r in kept]


def undeclared(kept: Sequence[DriftRecord], names: Collection[ObjectRef], *, at: datetime.datetime) -> Records:
    """Of a unit that declares these objects: open drift of others is over. What operators made is never declared."""
    return [
        r.with_repair(Repair.REVERTED, at)
        if r.is_open and r.kind is not DriftKind.CHILD and r.object not in names
        else r
        for r in kept
    ]


def bounded(kept: Sequence[DriftRecord], left_out: int, *, at: datetime.datetime) -> tuple[Records, int]:
    """All that is open and the newest of what is over, none older than HISTORY: (them, how many young ones are left
    out). `left_out` were before; they are older than all that is kept."""
    over = [r for r in kept if not r.is_open and at - (r.ended_at or r.detected_at) < HISTORY]
    stays = {id(r) for r in over[-HISTORY_KEPT:]}
    left_out = left_out + len(over) - HISTORY_KEPT if len(over) >= HISTORY_KEPT else 0
    return [r for r in kept if r.is_open or id(r) in stays], left_out


def recalled(
    told: Iterable[DriftRecord],
    kept: Sequence[DriftRecord],
    *,
    settled: Callable[[ObjectRef], bool],
    at: datetime.datetime,
) -> Records:
    """What files told before the daemon started, and what it has seen since. A drift that was open then and was found
    again is the same one. `settled`: is the object known to be as declared, or declared no more?"""
    before: Records = []
    now = {record.key: record for record in kept}
    places = {(r.object, r.kind, r.path) for r in kept}
    for record in told:
        again = now.get(record.key)
        if again is not None:
            now[record.key] = _again(record, again)
        elif record.is_open and (record.object, record.kind, record.path) in places:
            before.append(record.with_repair(Repair.REPLACED, at))
        elif record.is_open and record.kind is not DriftKind.CHILD and settled(record.object):
            before.append(record.with_repair(Repair.REVERTED, at))
        else:
            before.append(record)
    return sorted([*before, *now.values()], key=lambda r: r.detected_at)


def _again(before: DriftRecord, now: DriftRecord) -> DriftRecord:
    if before.since == now.since:  # the file tells of this very record
        return now if before.count <= now.count else replace(now, count=before.count)
    if before.is_open and _goes_on(before, now):
        return replace(
            now,
            count=before.count + now.count - 1,
            first_at=before.first_at,
            detected_at=before.detected_at,
            time=before.time,
        )
    return replace(now, count=before.count + now.count, first_at=before.since)


def _goes_on(before: DriftRecord, now: DriftRecord) -> bool:
    """Whether it is the drift that is open already. Of hidden values it is not known whether they are the same: then
    the time of their writer tells."""
    if before.manager != now.manager or before.live != now.live:
        return False
    return not now.masked or before.time == now.time
