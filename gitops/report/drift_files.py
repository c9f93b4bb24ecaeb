"""Drift files: what the status branch says of a unit's drift. One file a unit: what is open, what is over since, and
what others added by hand; each list bounded, with the number of what is left out.

Rendered and read again: after a restart open drift is known from here, with its first time. The branch is open to
others, so whatever cannot be read is as if it were not there. A file is written when its meaning changes. A drift that
comes back again and again is told each time at first, then when it came twice as often: a writer that comes back each
minute would make a commit each minute.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitops.cluster.additions import Addition, Additions
from gitops.cluster.comparison import DifferenceKind
from gitops.cluster.values import ABSENT
from gitops.manifests.reading import read_documents
from gitops.manifests.writing import yaml_text
from gitops.model.documents import API_VERSION
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.report.drift import DriftKind, DriftRecord, Repair, rfc3339, shown
from gitops.report.status_files import HEADER

MOST_OPEN = 100
MOST_ADDED = 100
EXACTLY = 8
"""Times up to which each return of a drift is told at once."""


@dataclass(frozen=True, slots=True)
class UnitDrift:
    """All that is told of a unit's drift. `records` oldest first, `left_out` of those that are over; `added` by
    object."""

    unit: UnitKey
    records: tuple[DriftRecord, ...] = ()
    left_out: int = 0
    added: Mapping[ObjectRef, Additions] = field(default_factory=dict)
    open_left_out: int = 0  # of a file that was read

    def __bool__(self) -> bool:
        return bool(self.records or self.added)

    @property
    def open(self) -> list[DriftRecord]:
        return [r for r in self.records if r.is_open]

    @property
    def over(self) -> list[DriftRecord]:
        return [r for r in self.records if not r.is_open]

    @property
    def open_count(self) -> int:
        return len(self.open) + self.open_left_out

    @property
    def meaning(self) -> object:
        """What makes a file another one."""
        records = [(r.key, r.repaired, r.since, str(r.declared), *_roughly(r)) for r in self.records]
        added = [(ref, a.more, [(row.path, row.manager) for row in a.rows]) for ref, a in sorted(self.added.items())]
        return records, self.left_out, added


def _roughly(record: DriftRecord) -> tuple[int, str]:
    """How often, and the last value, of a drift that came back a few times; of more only the magnitude."""
    if record.count <= EXACTLY:
        return record.count, str(record.live)
    return 1 << record.count.bit_length(), ""


def render_drift(drift: UnitDrift) -> bytes:
    """The file's bytes: what is open, what is over, what was added; the newest first."""
    newest = list(reversed(drift.open))
    rows = [(ref, row) for ref, a in sorted(drift.added.items()) for row in a.rows]
    more = sum(a.more for a in drift.added.values()) + max(0, len(rows) - MOST_ADDED)
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "DriftReport",
        "unit": str(drift.unit),
        "open": [record_body(r) for r in newest[:MOST_OPEN]],
        "openOmitted": max(0, len(newest) - MOST_OPEN),
        "recent": [record_body(r) for r in reversed(drift.over)],
        "recentOmitted": drift.left_out,
        "additions": [addition_body(ref, row) for ref, row in rows[:MOST_ADDED]],
        "additionsOmitted": more,
    }
    return (HEADER + yaml_text({k: v for k, v in body.items() if v})).encode()


def record_body(record: DriftRecord) -> dict[str, Any]:
    """A record as files and JSON hold it: keys in a fixed order, nothing empty, no clock but its own times."""
    body: dict[str, Any] = {"object": str(record.object), "kind": record.kind.value}
    if record.path:
        body["path"] = record.path
    if record.detail not in (None, DifferenceKind.CHANGED):
        body["detail"] = str(record.detail)
    for name, value in (("declared", record.declared), ("live", record.live)):
        if value is not ABSENT:
            body[name] = value
    body["declaredAt"] = str(record.declared_at)
    body["by"] = record.by
    body |= _filled(manager=record.manager, operation=record.operation, subresource=record.subresource)
    body |= _filled(inferred=record.inferred, stillOurs=record.still_ours, hidden=record.masked, lastWrite=record.time)
    if record.count > 1:
        body |= {"count": record.count, "firstAt": rfc3339(record.since)}
    body["detectedAt"] = rfc3339(record.detected_at)
    if record.ended_at is not None:
        body["endedAt"] = rfc3339(record.ended_at)
    body["outcome"] = record.repaired.value
    return body


def addition_body(ref: ObjectRef, row: Addition) -> dict[str, Any]:
    return {
        "object": str(ref),
        "path": row.path,
        **_filled(manager=row.manager, operation=row.operation, lastWrite=row.time),
    }


def _filled(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


# -- reading ---------------------------------------------------------------------------------------------------------


def read_drift(data: bytes) -> UnitDrift | None:
    """What a file says; None for one that is not ours. Never raises. Read as manifests are, by the reader that bounds
    what a few bytes can become."""
    documents = read_documents(data, file="drift").documents
    body = documents[0].body if len(documents) == 1 else None
    if not isinstance(body, dict) or body.get("apiVersion") != API_VERSION or body.get("kind") != "DriftReport":
        return None
    try:
        unit = UnitKey.parse(str(body.get("unit")))
    except ValueError:
        return None
    rows = [*_maps(body.get("open")), *_maps(body.get("recent"))]
    records = sorted(filter(None, (_record(unit, row) for row in rows)), key=lambda r: r.detected_at)
    return UnitDrift(
        unit,
        tuple(records),
        _count(body.get("recentOmitted")),
        _additions(_maps(body.get("additions")), _count(body.get("additionsOmitted"))),
        _count(body.get("openOmitted")),
    )


def _maps(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < 1 << 31 else 0


def _record(unit: UnitKey, row: Mapping[str, Any]) -> DriftRecord | None:
    def text(name: str) -> str:
        value = row.get(name)
        return value if isinstance(value, str) else ""

    try:
        file, _, line = text("declaredAt").rpartition(":")
        return DriftRecord(
            unit=unit,
            object=_object(text("object")),
            kind=DriftKind(text("kind")),
            path=text("path"),
            field=(),
            declared=shown(row.get("declared", ABSENT)),
            declared_at=Origin(file, int(line)) if line.isdecimal() else Origin(text("declaredAt")),
            live=shown(row.get("live", ABSENT)),
            manager=text("manager"),
            operation=text("operation"),
            subresource=text("subresource"),
            time=text("lastWrite"),
            detected_at=_moment(text("detectedAt")),
            repaired=Repair(text("outcome")),
            inferred=row.get("inferred") is True,
            still_ours=row.get("stillOurs") is True,
            masked=row.get("hidden") is True,
            detail=DifferenceKind(text("detail")) if text("detail") else None,
            count=max(1, _count(row.get("count"))),
            first_at=_moment(text("firstAt")) if text("firstAt") else None,
            ended_at=_moment(text("endedAt")) if text("endedAt") else None,
        )
    except ValueError:
        return None


def _additions(rows: Sequence[Mapping[str, Any]], omitted: int) -> dict[ObjectRef, Additions]:
    found: dict[ObjectRef, list[Addition]] = {}
    for row in rows:
        try:
            ref = _object(str(row.get("object")))
        except ValueError:
            continue
        path, manager, operation, time = (str(row.get(n) or "") for n in ("path", "manager", "operation", "lastWrite"))
        found.setdefault(ref, []).append(Addition(path, manager, operation, time))
    last = max(found, default=None)
    return {ref: Additions(tuple(each), omitted if ref == last else 0) for ref, each in found.items()}


def _object(text: str) -> ObjectRef:
    """The reverse of str(ObjectRef). Raises ValueError when the text is none."""
    kind, _, place = text.partition(" ")
    name, _, group = kind.partition(".")
    namespace, slash, rest = place.partition("/")
    if not (name and place):
        raise ValueError("not an object")
    return ObjectRef(group, name, namespace if slash else "", rest if slash else place)


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment


def worst_first(drifts: Iterable[UnitDrift]) -> list[UnitDrift]:
    """Those with the most open drift first."""
    return sorted(drifts, key=lambda d: (-len(d.open) - d.open_left_out, -sum(r.count for r in d.over), d.unit))
