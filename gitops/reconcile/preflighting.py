"""Before anything of a unit is written: what Git changed is dry-run, and what exists by other means is taken over.

A refused object stops its component; every refusal is told at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from gitops.cluster.adopting import folded_managers, foreign_owner, is_ours
from gitops.cluster.applying import ApplyResult
from gitops.cluster.claiming import leftovers
from gitops.cluster.claims import PREFLIGHT_NAMESPACE
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.kinds import NAMESPACE
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.planning import Apply, Reason
from gitops.plan.units import DesiredObject
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.owning import Owning
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)


class Preflight:
    """Dry-runs and adoptions of one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(self, state: ClusterState, *, owning: Owning, may_write: Callable[[], bool]) -> None:
        self._state = state
        self._owning = owning
        self._may_write = may_write

    async def run(self, run: Attempt, steps: list[Apply]) -> None:
        """Dry-run what Git changed: a refused object stops its component before anything is written.

        New namespaces first. Only what goes into a namespace that certainly does not exist yet is tried in the standing
        empty one; everything else where it will be, so that an object made by other means is met.
        """
        checked = [s for s in steps if s.preflight]
        new = [s for s in checked if s.object.gvk == NAMESPACE and s.reason is Reason.CREATE]
        made = await asyncio.gather(*(self._check(run, s, namespace=None) for s in new))
        fresh = {s.object.ref.name for s, created in zip(new, made, strict=True) if created}
        rest = (s for s in checked if s not in new)
        places = ((s, PREFLIGHT_NAMESPACE if s.object.ref.namespace in fresh else None) for s in rest)
        await asyncio.gather(*(self._check(run, s, namespace=place) for s, place in places))

    async def _check(self, run: Attempt, step: Apply, *, namespace: str | None) -> bool:
        """Dry-run one object, in another namespace if one is given; True when it would be created."""
        desired = step.object
        outcome = await run.applier.apply(desired, dry_run=True, namespace=namespace)
        error = outcome.error
        if error is None:
            created = outcome.result is ApplyResult.CREATED
            if step.reason is Reason.CREATE and not created and namespace is None:
                await self._take_over(run, desired)
            return created
        if error.cls is ErrorClass.REFUSED and step.reason is not Reason.CREATE:
            error = await self._with_leftovers(run, desired, error)
        # What it waits for may be in this very unit: the apply in its stage decides.
        if error.cls is not ErrorClass.WAITING and not error.dry_run_unsupported:
            run.fail(desired, error)
        return False

    async def _take_over(self, run: Attempt, desired: DesiredObject) -> None:
        """The object exists without our label: somebody made it by other means. Taken over once, or refused."""
        live = await run.applier.get(desired.gvk, desired.ref)
        if live is None:
            return
        if isinstance(live, ApiError):
            run.fail(desired, live)
            return
        applyset, manager = applyset_id(parent_name(run.unit.key)), self._state.manager
        owner = foreign_owner(live, reconciler=self._state.reconciler, applyset=applyset, manager=manager)
        if owner is not None:
            run.refuse(desired, f"it exists and {owner} declares it")
            return
        ours = is_ours(live, reconciler=self._state.reconciler, manager=manager)
        if not ours and self._state.assignment is not None and not self._state.assignment.adopt:
            run.refuse(desired, "it exists, made by other means, and gitops.yaml says `adopt: never`")
            return
        if not self._may_write():
            run.interrupted = True
            return
        folded = folded_managers(live)
        outcome = await run.applier.adopt(desired.gvk, desired.ref, live)
        error = outcome.error
        if error is None and outcome.live is not None:
            error = await self._owning.met(desired, outcome.live, run.applier)
        if error is not None:
            run.fail(desired, error)
            return
        if not ours:
            run.adopted.append(f"{desired.ref} (made by {', '.join(folded) or 'unknown means'})")
            _log.info("adopted %s", run.adopted[-1])

    async def _with_leftovers(self, run: Attempt, desired: DesiredObject, error: ApiError) -> ApiError:
        """A refused update, with what would stay of a block that Git drops because others own parts of it (cases.md
        S15): the message of the server does not say that, and nothing that Git declares is wrong."""
        live = await run.applier.get(desired.gvk, desired.ref)
        left = leftovers(desired.body, live, self._state.manager) if isinstance(live, dict) else []
        if not left:
            return error
        named = ", ".join(f"{field} (of {manager or 'an unknown manager'})" for field, manager in left)
        return replace(error, message=f"{error.message}; what others own would stay: {named}")
