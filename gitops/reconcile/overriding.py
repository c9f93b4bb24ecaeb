"""What admission makes of our applies: told, and tried again ever more rarely.

A server that answers an apply with another value than was sent has admission that says so, and goes on to say so: the
apply returns 200 and nothing is stored (ssa-live 3). Nothing tells when such a rule goes, so the object is applied
again after a pause, then one twice as long, as a refused object is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.cluster.fields import compare
from gitops.manifests.canonical import canonical_json
from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.units import DesiredObject, Mode, Unit, stricter
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState
from gitops.report.drift import DriftRecord, Repair, drift_records, shown

MOST_TOLD = 5
"""Fields that a unit's sentence names."""


@dataclass(frozen=True, slots=True)
class _Override:
    """Of one object: how often in a row it was answered so, and when (epoch seconds) it is applied again."""

    records: tuple[DriftRecord, ...]
    times: int
    again_at: float


class Overrides:
    """Of one cluster. Nothing is kept of objects that are stored as they were sent."""

    def __init__(self, state: ClusterState, context: Context) -> None:
        self._state = state
        self._context = context
        self._found: dict[ObjectRef, _Override] = {}

    def answered(
        self, key: UnitKey, desired: DesiredObject, live: Mapping[str, Any], paths: Sequence[Path]
    ) -> tuple[DriftRecord, ...]:
        """Our apply was answered with `live`, which has other values at `paths`: a record of each."""
        before = self._found.pop(desired.ref, None)
        if not paths:
            return ()
        comparison = compare(desired.body, live, self._state.manager)
        records = drift_records(key, desired, comparison, detected_at=self._context.moment())
        found = tuple(replace(r, repaired=Repair.OVERRIDDEN) for r in records if r.field in paths)
        times = 1 + (before.times if before is not None else 0)
        pause = self._context.options.fights.pause(times)
        self._found[desired.ref] = _Override(found, times, self._context.wall() + pause)
        return found

    def gone(self, ref: ObjectRef) -> None:
        self._found.pop(ref, None)

    def retry(self, unit: Unit) -> None:
        """Objects of a unit whose pause is over differ from what is declared, as far as the plan is concerned."""
        for desired in unit.objects if self._found else ():
            found, record = self._found.get(desired.ref), self._state.objects.get(desired.ref)
            if found is None or record is None or found.again_at > self._context.wall():
                continue
            if record.applied == desired.digest and stricter(unit.mode, desired.handling.mode) is Mode.ENFORCE:
                record.applied, record.drifting = b"", record.overridden

    def tell(self, unit: Unit) -> tuple[list[str], float | None]:
        """Sentences about a unit's objects, and seconds until one is applied again."""
        found = [each for o in unit.objects if (each := self._found.get(o.ref)) is not None] if self._found else []
        records = [record for each in found for record in each.records]
        told = [_sentence(record) for record in records[:MOST_TOLD]]
        more = [f"{len(records) - MOST_TOLD} more fields are overridden"] if len(records) > MOST_TOLD else []
        left = (each.again_at - self._context.wall() for each in found)
        return [*told, *more], min((seconds for seconds in left if seconds > 0), default=None)


def _sentence(record: DriftRecord) -> str:
    declared = canonical_json(shown(record.declared)).decode()
    return f"{record.path} of {record.object}: declared {declared} ({record.declared_at}), overridden by admission"
