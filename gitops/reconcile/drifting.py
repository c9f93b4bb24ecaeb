"""Drifting: what is kept of the drift of units, told to the log, the counters and the status files as it is found.

Who saw it, the watch or a call of ours, is no affair of this module; what is one drift and what another is decided in
gitops/report/drift_history.py. Beside drift, what others added by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gitops.cluster.additions import NOTHING_ADDED, additions, additions_digest
from gitops.cluster.blaming import maker
from gitops.cluster.comparison import Comparison
from gitops.cluster.managed_fields import UNKNOWN_WRITER, Writer
from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.units import RECONCILER_LABEL, DesiredObject
from gitops.reconcile.contesting import Contesting
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState, ObjectRecord, UnitState
from gitops.report import drift_history
from gitops.report.drift import DriftKind, DriftRecord, Repair, drift_records, object_record

_log = logging.getLogger(__name__)

_OF_WHOLE = frozenset({DriftKind.DELETED, DriftKind.RELABELLED, DriftKind.RECREATED})
_LABEL = ("metadata", "labels", RECONCILER_LABEL)


class Drifts:
    """Of one cluster. `touched` says that something of a unit is to be told."""

    def __init__(
        self, state: ClusterState, context: Context, contesting: Contesting, *, touched: Callable[[UnitKey], None]
    ) -> None:
        self._state = state
        self._context = context
        self._contesting = contesting
        self._touched = touched

    # -- what is seen ------------------------------------------------------------------------------------------------

    def judged(
        self, key: UnitKey, desired: DesiredObject, record: ObjectRecord, comparison: Comparison, *, relabelled: bool
    ) -> tuple[DriftRecord, ...]:
        """All that differs of an object now, in place of what did; returns it. That our label is missing is told about
        the whole object."""
        records = drift_records(key, desired, comparison, detected_at=self._context.moment())
        if relabelled:
            writer = next((_writer(r) for r in records if r.field == _LABEL), UNKNOWN_WRITER)
            records = tuple(r for r in records if r.field != _LABEL)
            records = (*records, self._object(key, desired, DriftKind.RELABELLED, writer, field=_LABEL))
        contested = self._contesting.differing(desired.ref)
        left = {each.path for each in self._state.left_out(desired.ref)}

        def over(drift: DriftRecord) -> Repair:
            """What became of one that the comparison does not tell."""
            if drift.repaired is Repair.OVERRIDDEN and drift.field in record.overridden:
                return Repair.OVERRIDDEN  # told already, and the baseline since
            if drift.field and drift.field in contested:
                return Repair.CONTESTED
            return Repair.YIELDED if drift.field in left else Repair.REVERTED

        self._note(key, desired.ref, records, over)
        return records

    def relabelled(self, key: UnitKey, desired: DesiredObject) -> None:
        """Our label is missing on an object of which it is not known what else differs."""
        self._add(key, [self._object(key, desired, DriftKind.RELABELLED, field=_LABEL)])

    def contested(self, key: UnitKey, ref: ObjectRef, records: Mapping[Path, DriftRecord | None]) -> None:
        """What became of paths that are left to another writer for a while: None where it is as declared."""
        found = [r for r in records.values() if r is not None]
        texts = {r.path for r in found}
        self._note(
            key,
            ref,
            found,
            lambda drift: Repair.REVERTED if drift.field in records or drift.path in texts else drift.repaired,
        )
        self.mark(key, ref, Repair.CONTESTED, {r.field for r in found})

    def met(self, key: UnitKey, desired: DesiredObject, comparison: Comparison) -> None:
        """Differences that a call has met, beside what is open."""
        self._add(key, drift_records(key, desired, comparison, detected_at=self._context.moment()))

    def deleted(self, key: UnitKey, desired: DesiredObject) -> DriftRecord:
        record = self._object(key, desired, DriftKind.DELETED)
        self._about_object(key, record)
        return record

    def missed(self, key: UnitKey, desired: DesiredObject, *, made: bool) -> None:
        """It had gone or lost our label, if nothing tells of it as a whole yet."""
        unit_state = self._state.units.get(key)
        known = unit_state.drifts if unit_state is not None else ()
        if any(d.is_open and d.object == desired.ref and d.kind in _OF_WHOLE for d in known):
            return
        if made:
            self.deleted(key, desired)
        else:
            self.relabelled(key, desired)

    def recreated(self, key: UnitKey, desired: DesiredObject, live: Mapping[str, Any]) -> None:
        """Somebody made another object under its name."""
        writer = maker(live, self._state.manager)
        self._about_object(key, self._object(key, desired, DriftKind.RECREATED, writer))

    def overridden(self, key: UnitKey, records: Sequence[DriftRecord]) -> None:
        """Fields that admission put back right after they were written: those of which no open drift tells yet."""
        unit_state = self._state.units.get(key)
        if unit_state is not None and records:
            told = {(d.object, d.field) for d in unit_state.drifts if d.is_open}
            self._add(key, [r for r in records if (r.object, r.field) not in told])

    def of_child(self, key: UnitKey, ref: ObjectRef, records: Sequence[DriftRecord]) -> None:
        """All that is edited of an object that an operator made; nothing when it put that back."""
        self._note(key, ref, records, lambda _: Repair.REVERTED)

    def mark(self, key: UnitKey, ref: ObjectRef, repair: Repair, paths: Collection[Path]) -> None:
        """What became of the open drifts at these paths of an object; () is the whole object."""
        if paths:
            self._become(key, ref, lambda drift: repair if _is_at(drift, paths) else drift.repaired)

    def became(self, key: UnitKey, ref: ObjectRef, repair: Repair, *, overridden: Collection[Path]) -> None:
        """What became of the open drifts of an object, but of those that are left to others."""
        left = {each.path for each in self._state.left_out(ref)}

        def outcome(drift: DriftRecord) -> Repair:
            if drift.field and drift.field in left:
                return drift.repaired
            return Repair.OVERRIDDEN if drift.field and drift.field in overridden else repair

        self._become(key, ref, outcome)

    # -- what others added -------------------------------------------------------------------------------------------

    def note_additions(self, key: UnitKey, record: ObjectRecord, live: Mapping[str, Any]) -> None:
        """What others added by hand; most events of most objects end at the digest."""
        table, unit_state = self._context.ownership, self._state.units.get(key)
        seen = additions_digest(live, self._state.manager, record.entry, table=table)
        if seen == record.added or unit_state is None:
            return
        record.added = seen
        found, ref = NOTHING_ADDED, record.ref
        whole = self._state.in_git(ref) if seen else None
        if whole is not None:
            found = additions(live, self._state.manager, declared=whole.body, kind=ref.group_kind, table=table)
        if found.rows:
            unit_state.additions[ref] = found
        else:
            unit_state.additions.pop(ref, None)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _object(
        self,
        key: UnitKey,
        desired: DesiredObject,
        kind: DriftKind,
        writer: Writer = UNKNOWN_WRITER,
        *,
        field: Path = (),
    ) -> DriftRecord:
        return object_record(key, desired, kind, detected_at=self._context.moment(), writer=writer, field=field)

    def _note(
        self,
        key: UnitKey,
        ref: ObjectRef,
        records: Sequence[DriftRecord],
        over: Callable[[DriftRecord], Repair],
    ) -> None:
        unit_state = self._state.units.get(key)
        if unit_state is not None and (records or unit_state.drifts):
            found = drift_history.noted(unit_state.drifts, ref, records, at=self._context.moment(), over=over)
            self._keep(key, unit_state, *found)

    def _add(self, key: UnitKey, records: Sequence[DriftRecord]) -> None:
        unit_state = self._state.units.get(key)
        if unit_state is not None:
            known = {d.key for d in unit_state.drifts if d.is_open}
            new = [r for r in records if r.key not in known]
            self._keep(key, unit_state, *drift_history.added(unit_state.drifts, new))

    def _become(self, key: UnitKey, ref: ObjectRef, outcome: Callable[[DriftRecord], Repair]) -> None:
        unit_state = self._state.units.get(key)
        if unit_state is not None and unit_state.drifts:
            kept = drift_history.became(unit_state.drifts, ref, outcome, at=self._context.moment())
            self._keep(key, unit_state, kept, ())

    def _about_object(self, key: UnitKey, record: DriftRecord) -> None:
        unit_state = self._state.units.get(key)
        if unit_state is not None:
            found = drift_history.about_object(unit_state.drifts, record, at=self._context.moment())
            self._keep(key, unit_state, *found)

    def _keep(
        self, key: UnitKey, unit_state: UnitState, kept: Sequence[DriftRecord], new: Sequence[DriftRecord]
    ) -> None:
        if kept == unit_state.drifts:
            return
        before = {record.key: record.repaired for record in unit_state.drifts}
        found = {id(record) for record in new}
        for record in kept:
            if id(record) in found:
                _log.warning("drift: %s", record.sentence, extra=_about(record))
                self._context.metrics.drifted(self._state.name, str(record.kind))
            elif before.get(record.key) is not record.repaired:
                _log.info("drift: %s", record.sentence, extra=_about(record))
                self._context.metrics.drift_became(self._state.name, str(record.repaired))
        unit_state.drifts, unit_state.drifts_left_out = drift_history.bounded(
            kept, unit_state.drifts_left_out, at=self._context.moment()
        )
        self._touched(key)


def _about(record: DriftRecord) -> dict[str, str]:
    """Of a line in the log: who did what to which field, and what became of it."""
    return {
        "unit": str(record.unit),
        "object": str(record.object),
        "path": record.path,
        "manager": record.manager,
        "result": str(record.repaired),
    }


def _is_at(drift: DriftRecord, paths: Collection[Path]) -> bool:
    """Whether a drift is about one of these paths; what only a file tells of has none, and is about no whole object."""
    return drift.field in paths and (bool(drift.field) or not drift.path)


def _writer(record: DriftRecord) -> Writer:
    return Writer(record.manager, record.operation, record.subresource, record.time)
