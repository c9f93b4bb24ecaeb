"""Deleting what Git no longer declares: of a unit that stays, and a whole unit that left."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError
from gitops.cluster.parents import ParentStore
from gitops.model.identity import UnitKey
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import UnitPlan, plan_removal, settled_members
from gitops.reconcile.attempts import earliest, interrupted
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.pruning import Pruner, PruneReport, Removal
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)

LONGEST_LOOK = 60.0
"""Seconds, at most, between looks at a deletion that does not come to its end."""

LONGEST_LOOK_OVERDUE = 900.0
"""The same, once the deadline is over: somebody has to act, and is told who holds it."""

LEFT_BEHIND_KEPT = 100
"""Newest objects that are remembered as left behind."""

Failed = Callable[[UnitKey, ApiError], Awaitable[UnitOutcome]]
"""What a parent that cannot be written makes of its unit."""


class Remover:
    """Deletions on one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self,
        state: ClusterState,
        *,
        parents: ParentStore,
        pruner: Pruner,
        context: Context,
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._parents = parents
        self._pruner = pruner
        self._context = context
        self._may_write = may_write

    async def prune(self, key: UnitKey, plan: UnitPlan, applier: Applier) -> PruneReport:
        # A candidate that a head declares again while it is looked at is no other name of itself.
        leaving = {member.ref for member in plan.prune}
        live = ((ref, r.uid) for ref, r in self._state.objects.items() if ref not in leaving)
        unit = self._state.unit(key)
        content = plan.record.content_key if unit is None else unit.content_key
        report = await self._pruner.prune(
            Removal(
                key,
                plan.prune,
                applier,
                declared=self._state.declared_by_others(key),
                applied_uids={uid for ref, uid in live if uid and self._state.declared(ref) is not None},
                not_taken_over=self._state.not_taken_over(key),
                withheld=lambda ref: self._state.withheld(key, ref),
                elsewhere=lambda: self._state.custom_resources_leaving(key),
                account=f"commit {self._state.head}, content {content or 'none'}",
            )
        )
        for _ in report.deleted:
            self._context.metrics.pruned(self._state.name)
        for ref, reason in sorted(report.left_behind.items()):
            _log.warning("left behind %s: %s", ref, reason)
        self._state.going = {r: k for r, k in self._state.going.items() if k != key} | dict.fromkeys(report.going, key)
        left = {**self._state.left_behind, **report.left_behind}
        self._state.left_behind = dict(list(left.items())[-LEFT_BEHIND_KEPT:])
        if (report.deleted or report.done) and key in self._state.units:
            self._state.units[key].attempts = 0  # something moves: what comes next is looked at soon
        if report.retry_after is not None and report.going:  # a finalizer may hold for ever: ask less and less
            longest = LONGEST_LOOK if report.going.keys() - report.overdue.keys() else LONGEST_LOOK_OVERDUE
            report.retry_after = min(longest, report.retry_after * 2.0 ** min(self._attempts(key), 10))
        return report

    def _attempts(self, key: UnitKey) -> int:
        unit_state = self._state.units.get(key)
        return unit_state.attempts if unit_state is not None else 0

    async def remove(self, record: ParentRecord, applier: Applier, no_parent: Failed) -> UnitOutcome:
        unit_state = self._state.units[record.unit]
        if unit_state.fused:
            return UnitOutcome(SyncState.FUSED, unit_state.fused)
        plan = plan_removal(record)
        # Whatever becomes of it: what Git wants of the unit again is news then, and no drift.
        record = self._state.parents[record.unit] = replace(record, content_key="")
        report = await self.prune(record.unit, plan, applier)
        members = settled_members(record, None, uids={}, pruned=report.done)
        if not self._may_write():
            return interrupted()
        if not members:
            error = await self._parents.delete(record)
            if error is not None:
                return await no_parent(record.unit, error)
            self._state.parents.pop(record.unit, None)
            return UnitOutcome(SyncState.REMOVED, report.behind or "removed", pruned=len(report.deleted))
        if members != record.members or not record.resource_version:
            stored = await self._parents.write(replace(record, members=members))
            if isinstance(stored, ApiError):
                return await no_parent(record.unit, stored)
            self._state.parents[record.unit] = stored
        retry = report.retry_after
        if retry is None:
            retry = earliest(report.errors, number=unit_state.attempts + 1, rng=self._context.rng)
        state = SyncState.RETAINED if report.complete else SyncState.REMOVING
        if report.overdue:
            state = SyncState.BLOCKED
        return UnitOutcome(state, report.sentence, report.problems, retry, pruned=len(report.deleted))
