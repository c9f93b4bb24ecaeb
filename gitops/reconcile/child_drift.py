"""Drift of what operators made of our objects: told where the operator does not put it back, and never repaired.

An operator that heals its children does so within milliseconds (Dynamo); one that does not, does so never (NIM writes a
child only when its own rendering of it changes). So an edit that has stayed for a while is told. We never write a
child: its operator would fight us, or lose sight of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.child_edits import ChildEdit, child_edits
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.units import Unit
from gitops.readiness.owners import OwnerIndex, ref_of
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState
from gitops.report.drift import DriftKind, DriftRecord, child_record

HEALS_WITHIN = 10.0
"""Seconds in which an operator that heals its children has done so."""

MOST_TOLD = 5
"""Objects that a unit's sentence names."""


@dataclass(slots=True)
class _Edited:
    ref: ObjectRef
    edits: tuple[ChildEdit, ...]
    since: float  # epoch seconds
    told: UnitKey | None = None


class ChildDrift:
    """Of one cluster. Something is kept only of children that are edited. `look` asks for a run of a unit; `note`
    takes all drift records of a child, none when it is as its operator wants it."""

    def __init__(
        self,
        state: ClusterState,
        context: Context,
        owners: OwnerIndex,
        *,
        look: Callable[[UnitKey], None],
        note: Callable[[UnitKey, ObjectRef, list[DriftRecord]], None],
    ) -> None:
        self._state = state
        self._context = context
        self._owners = owners
        self._look = look
        self._note = note
        self._edited: dict[str, _Edited] = {}
        self._began = context.wall()

    def __len__(self) -> int:
        return len(self._edited)

    def seen(self, live: Mapping[str, Any]) -> None:
        """An event of a child, which the index of owners knows already."""
        uid = str(live["metadata"].get("uid", ""))
        edits = child_edits(live, self._state.manager, table=self._context.ownership)
        before = self._edited.get(uid)
        if not edits:
            self.gone(uid)
        elif before is None or before.edits != edits:
            self.gone(uid)
            self._edited[uid] = _Edited(ref_of(live), edits, self._context.wall())
            if (owner := self._owner(uid)) is not None:
                self._look(owner[0])

    def gone(self, uid: str) -> None:
        """The child went, or its operator has put it back."""
        before = self._edited.pop(uid, None)
        if before is not None and before.told is not None:
            self._note(before.told, before.ref, [])
            self._look(before.told)

    def owner_seen(self, key: UnitKey, uid: str) -> None:
        """A declared object was seen for the first time: children may have come before it."""
        if any(uid in self._owners.ancestors(child) for child in self._edited):
            self._look(key)

    def tell(self, unit: Unit) -> tuple[list[str], float | None]:
        """Sentences about children of a unit that somebody edited and their operator left so; and seconds until another
        edit has stayed long enough."""
        now, told, later = self._context.wall(), [], self._end_recalled(unit)
        for uid, edited in self._edited.items():
            owner = self._owner(uid)
            if owner is None or owner[0] != unit.key:
                continue
            left = edited.since + HEALS_WITHIN - now
            if left > 0:
                later = left if later is None else min(later, left)
                continue
            if edited.told is None:
                edited.told = unit.key
                self._tell(unit, edited, owner[1])
            told.append(_sentence(edited))
        more = [f"{len(told) - MOST_TOLD} more objects of operators are edited"] if len(told) > MOST_TOLD else []
        return [*sorted(told)[:MOST_TOLD], *more], later

    def _end_recalled(self, unit: Unit) -> float | None:
        """What a file told before the daemon started is over when it is not found again. Seconds until then."""
        unit_state = self._state.units[unit.key]
        told = {d.object for d in unit_state.drifts if d.is_open and d.kind is DriftKind.CHILD}
        over = told - {edited.ref for edited in self._edited.values()}
        left = self._began + HEALS_WITHIN - self._context.wall()
        if left <= 0:
            for ref in over:
                self._note(unit.key, ref, [])
        return left if over and left > 0 else None

    def _tell(self, unit: Unit, edited: _Edited, owner: str) -> None:
        declared = next((o for o in unit.objects if self._uid(o.ref) == owner), None)
        if declared is not None:
            moment = self._context.moment()
            records = [child_record(unit.key, declared, edited.ref, e, detected_at=moment) for e in edited.edits]
            self._note(unit.key, edited.ref, records)

    def _owner(self, uid: str) -> tuple[UnitKey, str] | None:
        """The unit that a child belongs to, and the uid of the declared object it was made of."""
        found = self._owners.ancestors(uid) & self._state.by_uid.keys()
        return next(((self._state.by_uid[owner], owner) for owner in sorted(found)), None)

    def _uid(self, ref: ObjectRef) -> str:
        record = self._state.objects.get(ref)
        return record.uid if record is not None else ""


def _sentence(edited: _Edited) -> str:
    first, more = edited.edits[0], len(edited.edits) - 1
    fields = first.shown + (f" (and {more} more)" if more else "")
    who = first.writer.manager or "somebody"
    return f"{edited.ref}, made by an operator, was edited by {who} and not put back: {fields}"
