"""A unit's work over the fakes, for tests that make attempts."""

from __future__ import annotations

from typing import Any

from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import UnitOutcome
from gitops.reconcile.state import ClusterState
from gitops.reconcile.unit_work import UnitWork
from tests.reconcile.conftest import unit_work


class Bench:
    """A unit's work over the fakes. `work(state)` makes one attempt at the unit."""

    def __init__(self, kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> None:
        self.kit, self.cluster, self.parents, self.contents, self.context = kit, cluster, parents, contents, context
        self.lease = True

    def may_write(self) -> bool:
        return self.lease

    def lose_lease_at(self, verb: str, name: str) -> None:
        """The Lease is lost while this call is under way."""

        def before(called: str, what: str) -> None:
            if (called, what) == (verb, name):
                self.lease = False

        self.cluster.before = before

    def unit_work(self, state: ClusterState) -> UnitWork:
        return unit_work(
            state,
            applier=self.cluster,
            parents=self.parents,
            contents=self.contents,
            context=self.context,
            may_write=self.may_write,
        )

    async def work(self, state: ClusterState, key: Any = None) -> UnitOutcome:
        key = key or self.kit.key
        outcome = await self.unit_work(state).run(key)
        if key in state.units:
            state.units[key].outcome = outcome
            state.units[key].attempts = 0 if outcome.retry_after is None else state.units[key].attempts + 1
        return outcome

    def stored(self, record: Any) -> Any:
        """As if this parent had been stored before."""
        self.parents.stored[record.unit] = record
        return record


def foreign(kit: Any, desired: Any, *, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    live = kit.live(desired, kit.entry(desired.body, "kubectl-client-side-apply"), owned=False)
    live["metadata"] |= {"labels": labels or {}, "annotations": annotations}
    return live
