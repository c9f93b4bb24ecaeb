"""Drift records: what somebody changed on a cluster, in the words of the repository.

A record is about one path of one declared object (or the whole object): what Git declares and where, what was live,
who did it. Pure: built from a Comparison and the object's provenance, rendered to a plain dict for files and to one
sentence for logs. Values arrive with secrets replaced already (gitops/cluster/values.py) and are cut to a length here.
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
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.units import DesiredObject

VALUE_LIMIT = 200
"""Characters of a value's JSON that a report shows."""


class DriftKind(enum.StrEnum):
    CHANGED = "changed"  # a declared value is another one, or gone
    DELETED = "deleted"  # the object is gone
    RELABELLED = "relabelled"  # the object lost our label, so our watch cannot see it any more
    CHILD = "child"  # a field of an object that an operator made of ours: never repaired by us


class Repair(enum.StrEnum):
    """What became of it."""

    PENDING = "pending"
    REPAIRED = "repaired"
    REPORTED = "reported"  # the mode says report only
    CONTESTED = "contested"  # the fight breaker gave this path up
    YIELDED = "yielded"  # a rule leaves this path to that manager
    OVERRIDDEN = "overridden"  # applied, and admission put back the other value
    FAILED = "failed"
    REVERTED = "reverted"  # somebody else put it right before anything came of it

    @property
    def words(self) -> str:
        return _REPAIR_WORDS[self]


_REPAIR_WORDS = {
    Repair.PENDING: "repair pending",
    Repair.REPAIRED: "repaired",
    Repair.REPORTED: "reported only",
    Repair.CONTESTED: "contested, left as it is",
    Repair.YIELDED: "left to that manager",
    Repair.OVERRIDDEN: "repair overridden by admission",
    Repair.FAILED: "repair failed",
    Repair.REVERTED: "put right by somebody else",
}

_OPEN = frozenset({Repair.PENDING, Repair.REPORTED, Repair.CONTESTED})
"""The value is as it was told."""


@dataclass(frozen=True, slots=True)
class DriftRecord:
    """One drift. `path` is as people read it ("" for the whole object); `field` the same as keys and list positions of
    the declared object. `live` is ABSENT when there is no value. `manager` is "" when nobody knows; `inferred` as in
    FieldDifference. `time` is when that manager last wrote, as the server tells it."""

    unit: UnitKey
    object: ObjectRef
    kind: DriftKind
    path: str
    field: tuple[str | int, ...]
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

    def with_repair(self, repaired: Repair) -> DriftRecord:
        return replace(self, repaired=repaired)

    @property
    def is_open(self) -> bool:
        """Whether, as far as is known, it still is so."""
        return self.repaired in _OPEN

    def tells_of(self, other: DriftRecord) -> bool:
        """Whether it says the same, whenever it was seen."""
        same = replace(other, detected_at=self.detected_at, repaired=self.repaired, time=self.time)
        return self == same

    @property
    def sort_key(self) -> tuple[UnitKey, ObjectRef, str]:
        return (self.unit, self.object, self.path)

    def to_dict(self) -> dict[str, Any]:
        """For files: keys in a fixed order, nothing empty, no clock but the two times."""
        document: dict[str, Any] = {"unit": str(self.unit), "object": str(self.object), "kind": self.kind.value}
        if self.path:
            document["path"] = self.path
        if self.detail not in (None, DifferenceKind.CHANGED):
            document["detail"] = str(self.detail)
        if self.kind is DriftKind.CHANGED:
            document["declared"] = shown(self.declared)
        if self.kind in (DriftKind.CHANGED, DriftKind.CHILD) and self.live is not ABSENT:
            document["live"] = shown(self.live)
        document["declaredAt"] = str(self.declared_at)
        document["by"] = self.by
        if self.time:
            document["lastWrite"] = self.time
        document["detectedAt"] = rfc3339(self.detected_at)
        document["outcome"] = self.repaired.value
        return document

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
        elif self.detail is DifferenceKind.ORDER:
            order = f"{_text(self.live)}, {declared_at} as {_text(self.declared)}"
            what = f"{self.path} of {self.object} is in the order {order}"
        elif self.detail is DifferenceKind.DUPLICATE:
            what = f"{self.path} of {self.object} is there more than once, {declared_at}"
        elif self.live is ABSENT:
            what = f"{self.path} of {self.object} was removed, {declared_at} as {_text(self.declared)}"
        else:
            what = f"{self.path} of {self.object} is {_text(self.live)}, {declared_at} as {_text(self.declared)}"
        return f"{what}; by {self.by}; {self.repaired.words}"


def drift_records(
    unit: UnitKey, desired: DesiredObject, comparison: Comparison, *, detected_at: datetime.datetime
) -> tuple[DriftRecord, ...]:
    """One record per real difference, sorted by path; empty when only ownership moved."""
    return _sorted(_of_difference(unit, desired, difference, detected_at) for difference in comparison.differences)


def object_record(
    unit: UnitKey,
    desired: DesiredObject,
    kind: DriftKind,
    *,
    detected_at: datetime.datetime,
    writer: Writer = UNKNOWN_WRITER,
) -> DriftRecord:
    """A record about a whole object: DELETED or RELABELLED. Nobody records who deletes; `writer` is who relabelled."""
    return _record(unit, desired, kind, detected_at, writer)


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
        path=difference.pointer,
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
    field: tuple[str | int, ...] = (),
    declared: Any = ABSENT,
    live: Any = ABSENT,
    inferred: bool = False,
    still_ours: bool = False,
    masked: bool = False,
    detail: DifferenceKind | None = None,
) -> DriftRecord:
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
        detected_at=detected_at,
        inferred=inferred,
        still_ours=still_ours,
        masked=masked,
        detail=detail,
    )


def _sorted(records: Iterable[DriftRecord]) -> tuple[DriftRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.sort_key))


# -- rendering -------------------------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """A value as a report holds it: as it is when short, else the beginning of its JSON (or of the text) with `…`."""
    if isinstance(value, Absent):
        return None
    if isinstance(value, str):
        return value if len(value) <= VALUE_LIMIT else value[: VALUE_LIMIT - 1] + "…"
    text = _json(value)
    return value if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def _text(value: Any) -> str:
    text = _json(shown(value))
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def rfc3339(moment: datetime.datetime) -> str:
    """UTC to the second, as Kubernetes writes times. Raises ValueError for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be reported")
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
