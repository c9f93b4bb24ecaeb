"""Drift records: what somebody changed on a cluster, in the words of the repository.

A record is about one path of one declared object (or the whole object): what Git declares and where, what was live,
who did it, what became of it. Pure: built from a Comparison and the object's provenance, told in one sentence. Values
arrive with secrets replaced already (gitops/cluster/values.py) and are cut to a length here. What is kept of a unit's
records is decided in drift_history.py, how files hold them in drift_files.py.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gitops.cluster.child_edits import ChildEdit
from gitops.cluster.comparison import Comparison, DifferenceKind, FieldDifference
from gitops.cluster.managed_fields import UNKNOWN_WRITER, Writer
from gitops.cluster.values import ABSENT, Absent
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.units import DesiredObject
from gitops.readiness.texts import printable

VALUE_LIMIT = 200
"""Characters of a value's JSON that a report shows."""


PATH_LIMIT = 500
"""Characters of a path: keys of custom resources have no limit of their own."""

MOST_PATHS = 50
"""Differences of one object that have a record each; how many more there are is one record."""

KeyOf = tuple[ObjectRef, "DriftKind", str, str]


class DriftKind(enum.StrEnum):
    CHANGED = "changed"  # a declared value is another one, or gone
    DELETED = "deleted"  # the object is gone
    RELABELLED = "relabelled"  # the object lost our label, so our watch cannot see it any more
    CHILD = "child"  # a field of an object that an operator made of ours: never repaired by us
    RECREATED = "recreated"  # somebody made another object under its name


class Repair(enum.StrEnum):
    """What became of it."""

    PENDING = "pending"
    REPAIRED = "repaired"
    REPORTED = "reported"  # the mode says report only
    CONTESTED = "contested"  # the fight breaker gave this path up
    YIELDED = "yielded"  # a rule leaves this path to that manager
    OVERRIDDEN = "overridden"  # applied, and admission put back the other value
    FAILED = "failed"
    REVERTED = "reverted"  # as declared again without a repair of ours, or declared no more
    REPLACED = "replaced"  # somebody changed it again before it was repaired

    @property
    def words(self) -> str:
        return _REPAIR_WORDS[self]

    @property
    def is_open(self) -> bool:
        """Does the cluster still differ, as far as is known?"""
        return self not in _OVER


_REPAIR_WORDS = {
    Repair.PENDING: "repair pending",
    Repair.REPAIRED: "repaired",
    Repair.REPORTED: "reported only",
    Repair.CONTESTED: "contested, left as it is",
    Repair.YIELDED: "left to that manager",
    Repair.OVERRIDDEN: "repair overridden by admission",
    Repair.FAILED: "repair failed",
    Repair.REVERTED: "as declared again",
    Repair.REPLACED: "changed again before it was repaired",
}
_OVER = frozenset({Repair.REPAIRED, Repair.YIELDED, Repair.REVERTED, Repair.REPLACED})


@dataclass(frozen=True, slots=True)
class DriftRecord:
    """One drift. `path` is as people read it ("" for the whole object); `field` the same as keys and list positions of
    the declared object, () where only a file tells of it. `live` is ABSENT when there is no value; both values are
    bounded. `manager` is "" when nobody knows; `inferred` as in FieldDifference. `time` is when that manager last
    wrote, as the server tells it. The same drift again is counted: `detected_at` is the last time, `first_at` the first
    (None: the same)."""

    unit: UnitKey
    object: ObjectRef
    kind: DriftKind
    path: str
    field: Path
    declared: Any
    declared_at: Origin
    live: Any
    manager: str
    operation: str
    subresource: str
    time: str
    detected_at: datetime.datetime
    repaired: Repair = Repair.PENDING
    inferred: bool = False
    still_ours: bool = False
    masked: bool = False
    detail: DifferenceKind | None = None
    count: int = 1
    first_at: datetime.datetime | None = None
    ended_at: datetime.datetime | None = None

    def with_repair(self, repaired: Repair, at: datetime.datetime | None = None) -> DriftRecord:
        """What became of it; `at` that time, where it is over by that."""
        return replace(self, repaired=repaired, ended_at=None if repaired.is_open else at)

    @property
    def is_open(self) -> bool:
        return self.repaired.is_open

    @property
    def since(self) -> datetime.datetime:
        """When it was first detected."""
        return self.first_at or self.detected_at

    @property
    def key(self) -> KeyOf:
        """What makes two drifts the same one again."""
        return (self.object, self.kind, self.path, self.manager)

    @property
    def sort_key(self) -> tuple[UnitKey, ObjectRef, str]:
        return (self.unit, self.object, self.path)

    @property
    def by(self) -> str:
        """Who did it: `kubectl-edit (Update)`, `kube-controller-manager (Update, scale)`, `probably …`, `unknown`."""
        if self.still_ours:
            return "an admission webhook, or a writer under our name"
        if not self.manager:
            return "unknown"
        how = ", ".join(part for part in (self.operation, self.subresource) if part)
        return ("probably " if self.inferred else "") + self.manager + (f" ({how})" if how else "")

    @property
    def sentence(self) -> str:
        """One line for logs and terminals."""
        declared_at = f"declared at {self.declared_at}"
        if self.kind is DriftKind.DELETED:
            what = f"{self.object} was deleted ({declared_at})"
        elif self.kind is DriftKind.RELABELLED:
            what = f"{self.object} lost our label ({declared_at})"
        elif self.kind is DriftKind.CHILD:
            made = f"which an operator made of what is {declared_at}"
            what = f"{self.path} of {self.object}, {made}, is {_text(self.live)}"
        elif self.kind is DriftKind.RECREATED:
            what = f"{self.object} was deleted and made anew ({declared_at})"
        elif not self.path:
            what = f"{self.live} of {self.object} differ ({declared_at})"
        elif self.detail is DifferenceKind.ORDER:
            order = f"{_text(self.live)}, {declared_at} as {_text(self.declared)}"
            what = f"{self.path} of {self.object} is in the order {order}"
        elif self.detail is DifferenceKind.DUPLICATE:
            what = f"{self.path} of {self.object} is there more than once, {declared_at}"
        elif self.live is ABSENT:
            what = f"{self.path} of {self.object} was removed, {declared_at} as {_text(self.declared)}"
        else:
            what = f"{self.path} of {self.object} is {_text(self.live)}, {declared_at} as {_text(self.declared)}"
        again = f" ({self.count} times since {rfc3339(self.since)})" if self.count > 1 else ""
        return f"{what}; by {self.by}{again}; {self.repaired.words}"


def drift_records(
    unit: UnitKey, desired: DesiredObject, comparison: Comparison, *, detected_at: datetime.datetime
) -> tuple[DriftRecord, ...]:
    """One record per real difference, sorted by path; empty when only ownership moved. Of more than MOST_PATHS the last
    says how many there are."""
    found = _sorted(_of_difference(unit, desired, difference, detected_at) for difference in comparison.differences)
    more = len(found) - MOST_PATHS
    if more <= 0:
        return found
    rest = _record(unit, desired, DriftKind.CHANGED, detected_at, UNKNOWN_WRITER, live=f"{more} more paths")
    return (*found[:MOST_PATHS], rest)


def object_record(
    unit: UnitKey,
    desired: DesiredObject,
    kind: DriftKind,
    *,
    detected_at: datetime.datetime,
    writer: Writer = UNKNOWN_WRITER,
    field: Path = (),
) -> DriftRecord:
    """A record about a whole object. Nobody records who deletes; `writer` is who relabelled it or made it anew,
    `field` what the former took."""
    return _record(unit, desired, kind, detected_at, writer, field=field)


def child_record(
    unit: UnitKey, owner: DesiredObject, child: ObjectRef, edit: ChildEdit, *, detected_at: datetime.datetime
) -> DriftRecord:
    """A record about a field of an object that an operator made of `owner`. What it should be only that one knows."""
    record = _record(
        unit,
        owner,
        DriftKind.CHILD,
        detected_at,
        edit.writer,
        path=edit.shown,
        live=edit.value,
        masked=edit.masked,
    )
    return replace(record, object=child, repaired=Repair.REPORTED)


def _of_difference(
    unit: UnitKey, desired: DesiredObject, difference: FieldDifference, detected_at: datetime.datetime
) -> DriftRecord:
    return _record(
        unit,
        desired,
        DriftKind.CHANGED,
        detected_at,
        Writer(difference.manager, difference.operation, difference.subresource, difference.time),
        path=difference.pointer[:PATH_LIMIT],
        field=difference.path,
        declared=difference.declared,
        live=difference.live,
        inferred=difference.inferred,
        still_ours=difference.still_ours,
        masked=difference.masked,
        detail=difference.kind,
    )


def _record(
    unit: UnitKey,
    desired: DesiredObject,
    kind: DriftKind,
    detected_at: datetime.datetime,
    writer: Writer,
    *,
    path: str = "",
    field: Path = (),
    declared: Any = ABSENT,
    live: Any = ABSENT,
    inferred: bool = False,
    still_ours: bool = False,
    masked: bool = False,
    detail: DifferenceKind | None = None,
) -> DriftRecord:
    declared, live = shown_apart(declared, live)
    return DriftRecord(
        unit=unit,
        object=desired.ref,
        kind=kind,
        path=path,
        field=field,
        declared=declared,
        declared_at=desired.provenance.origin_of(field) if field else desired.origin,
        live=live,
        manager=writer.manager,
        operation=writer.operation,
        subresource=writer.subresource,
        time=writer.time,
        detected_at=detected_at.replace(microsecond=0),
        inferred=inferred,
        still_ours=still_ours,
        masked=masked,
        detail=detail,
    )


def _sorted(records: Iterable[DriftRecord]) -> tuple[DriftRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.sort_key))


# -- rendering -------------------------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """A value as a report holds it: as it is when short, else the beginning of its JSON (or of the text) with `…`. Text
    is on one line."""
    if isinstance(value, Absent):
        return value
    if isinstance(value, str):
        text = _one_line(value)
        return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"
    text = _json(value)
    return value if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def shown_apart(declared: Any, live: Any) -> tuple[Any, Any]:
    """Two values as a report holds them. Of two long texts that begin alike, what is shown begins where they part: a
    line that was changed at the end of a long file is not seen at its beginning."""
    if isinstance(declared, str) and isinstance(live, str) and max(len(declared), len(live)) > VALUE_LIMIT:
        pairs = enumerate(zip(declared, live, strict=False))
        parted = next((at for at, (a, b) in pairs if a != b), min(len(declared), len(live)))
        start = max(0, parted - _CONTEXT)
        if start:
            declared, live = "…" + declared[start:], "…" + live[start:]
    return shown(declared), shown(live)


_CONTEXT = 40
"""Characters shown before the place where two long texts part."""


def _one_line(text: str) -> str:
    """Text without control characters, which are written as JSON does, and without what turns or hides text."""
    return text if text.isprintable() else printable(_json(text)[1:-1])


def _text(value: Any) -> str:
    text = _json(value)
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def rfc3339(moment: datetime.datetime) -> str:
    """UTC to the second, as Kubernetes writes times. Raises ValueError for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be reported")
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
