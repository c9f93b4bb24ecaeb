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
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState, ObjectRecord, UnitState
from gitops.report import drift_history
from gitops.report.drift import DriftKind, DriftRecord, Repair, drift_records, object_record

_log = logging.getLogger(__name__)

_LABEL = ("metadata", "labels", RECONCILER_LABEL)


class Drifts:
    """Of one cluster. `touched` says that something of a unit is to be told."""

    def __init__(self, state: ClusterState, context: Context, *, touched: Callable[[UnitKey], None]) -> None:
        self._state = state
        self._context = context
        self._touched = touched

    # -- what is seen ------------------------------------------------------------------------------------------------

    def differs(
        self,
        key: UnitKey,
        desired: DesiredObject,
        comparison: Comparison,
        *,
        overridden: Collection[Path] = frozenset(),
        relabelled: bool = False,
    ) -> None:
        """All that differs of an object now. What admission put back is told only where it was drift before; that our
        label is missing, about the whole object."""
        records = drift_records(key, desired, comparison, detected_at=self._context.moment())
        if relabelled:
            writer = next((_writer(r) for r in records if r.field == _LABEL), UNKNOWN_WRITER)
            records = tuple(r for r in records if r.field != _LABEL)
            records = (*records, self._object(key, desired, DriftKind.RELABELLED, writer))
        known = {d.path for d in self._open(key, desired.ref)} if overridden else ()
        self._note(key, desired.ref, [r for r in records if r.field not in overridden or r.path in known])

    def settled(self, key: UnitKey, ref: ObjectRef) -> None:
        """Every value of an object is as declared."""
        self._note(key, ref, ())

    def met(self, key: UnitKey, desired: DesiredObject, comparison: Comparison) -> None:
        """Differences that a call has met, beside what is open."""
        unit_state = self._state.units.get(key)
        if unit_state is not None:
            known = {d.key for d in self._open(key, desired.ref)}
            records = drift_records(key, desired, comparison, detected_at=self._context.moment())
            new = [r for r in records if r.key not in known]
            self._keep(key, unit_state, *drift_history.added(unit_state.drifts, new))

    def deleted(self, key: UnitKey, desired: DesiredObject) -> None:
        self._about_object(key, self._object(key, desired, DriftKind.DELETED))

    def recreated(self, key: UnitKey, desired: DesiredObject, live: Mapping[str, Any]) -> None:
        """Somebody made another object under its name."""
        writer = maker(live, self._state.manager)
        self._about_object(key, self._object(key, desired, DriftKind.RECREATED, writer))

    def became(self, key: UnitKey, ref: ObjectRef, repair: Repair, *, overridden: Collection[Path]) -> None:
        """What became of the open drifts of an object."""
        unit_state = self._state.units.get(key)
        if unit_state is None or not unit_state.drifts:
            return
        kept = drift_history.became(
            unit_state.drifts,
            ref,
            lambda drift: Repair.OVERRIDDEN if drift.field and drift.field in overridden else repair,
            at=self._context.moment(),
        )
        self._keep(key, unit_state, kept, ())

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
        self, key: UnitKey, desired: DesiredObject, kind: DriftKind, writer: Writer = UNKNOWN_WRITER
    ) -> DriftRecord:
        return object_record(key, desired, kind, detected_at=self._context.moment(), writer=writer)

    def _open(self, key: UnitKey, ref: ObjectRef) -> list[DriftRecord]:
        unit_state = self._state.units.get(key)
        return [] if unit_state is None else [d for d in unit_state.drifts if d.object == ref and d.is_open]

    def _note(self, key: UnitKey, ref: ObjectRef, records: Sequence[DriftRecord]) -> None:
        unit_state = self._state.units.get(key)
        if unit_state is None or not (records or unit_state.drifts):
            return
        left = {each.path for each in self._state.left_out(ref)}
        kept, new = drift_history.noted(
            unit_state.drifts,
            ref,
            records,
            at=self._context.moment(),
            over=lambda drift: Repair.YIELDED if drift.field in left else Repair.ENDED,
        )
        self._keep(key, unit_state, kept, new)

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
        for record in new:
            _log.warning("drift: %s", record.sentence, extra={"unit": str(key)})
            self._context.metrics.drifted(self._state.name, str(record.kind))
        unit_state.drifts, unit_state.drifts_left_out = drift_history.bounded(
            kept, unit_state.drifts_left_out, at=self._context.moment()
        )
        self._touched(key)


def _writer(record: DriftRecord) -> Writer:
    return Writer(record.manager, record.operation, record.subresource, record.time)
