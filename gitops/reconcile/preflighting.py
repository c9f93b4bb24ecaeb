"""Before anything of a unit is written: what Git changed is dry-run, and what exists by other means is met.

A refused object stops its component; every refusal is told at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gitops.cluster.applying import ApplyResult
from gitops.cluster.errors import VERSION_GONE, ApiError, ErrorClass
from gitops.cluster.field_claims import kept_by_others
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import NAMESPACE
from gitops.plan.naming import PREFLIGHT_NAMESPACE
from gitops.plan.planning import Apply, Reason
from gitops.plan.units import DesiredObject
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.gating import settled
from gitops.reconcile.owning import Owning
from gitops.reconcile.recreating import Recreator
from gitops.reconcile.state import ClusterState
from gitops.reconcile.taking_over import Adopter
from gitops.reconcile.unblocking import Unblocker

_UNPROCESSABLE = 422


class Preflight:
    """Dry-runs on one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self,
        state: ClusterState,
        *,
        owning: Owning,
        recreator: Recreator,
        adopter: Adopter,
        unblocker: Unblocker,
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._owning = owning
        self._recreator = recreator
        self._adopter = adopter
        self._unblocker = unblocker
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
        outcome = await settled(run, step, lambda: run.applier.apply(desired, dry_run=True, namespace=namespace))
        error = outcome.error
        if error is not None and namespace is None and error.waits_for == f"namespace {desired.ref.namespace}":
            # Nobody has made it yet; what else is wrong with the object is told now, and not when somebody has.
            return await self._check(run, step, namespace=PREFLIGHT_NAMESPACE)
        created = error is None and outcome.result is ApplyResult.CREATED
        if namespace is None and not created and self._may_be_of_others(run, step):
            if error is not None and error.waits_for.startswith("kind"):
                return False  # then there is no object either
            if not await self._adopter.meet(run, desired) or not await self._is_all_ours(run, desired):
                return False
            if error is not None and (error.status == _UNPROCESSABLE or error.reason == VERSION_GONE):
                error = await self._check_again(run, desired, error)
        if step.reason is not Reason.CREATE and await self._unblocker.can(run, desired, error):
            return False
        # What it waits for may be in this very unit: the apply in its stage decides.
        if error is not None and error.cls is not ErrorClass.WAITING and not error.dry_run_unsupported:
            error = await self._unblocker.told(run, desired, error)
            if error.cls is ErrorClass.REFUSED and step.reason is not Reason.CREATE:
                error = await self._with_what_stays(run, desired, error)
            await self._recreator.refused(run, step, error)
        return created

    async def _is_all_ours(self, run: Attempt, desired: DesiredObject) -> bool:
        """Whether what was just met may be applied as it stands; where fields of it are others', the next attempt does
        so without them. Before a refusal counts: it may be about them."""
        met = run.met.get(desired.ref)
        if met is None:
            return True
        if not self._may_write():
            run.interrupted = True
            return False
        now = await self._owning.met(desired, met.now, run.applier)
        if isinstance(now, ApiError):
            run.fail(desired, now)
            return False
        run.met[desired.ref] = replace(met, now=now)
        found = self._state.declared(desired.ref)
        run.look_again = run.look_again or found is None or found[1].digest != desired.digest
        return not run.look_again

    async def _with_what_stays(self, run: Attempt, desired: DesiredObject, error: ApiError) -> ApiError:
        """A refused update, with what would stay of a block that Git drops because others own parts of it (cases.md
        S15): the message of the server does not say that, and nothing that Git declares is wrong."""
        live = await run.applier.get(desired.gvk, desired.ref)
        left = kept_by_others(desired.body, live, self._state.manager) if isinstance(live, dict) else []
        if not left:
            return error
        named = ", ".join(f"{field} (of {manager or 'an unknown manager'})" for field, manager in left)
        return replace(error, message=f"{error.message}; what others own would stay: {named}")

    def _may_be_of_others(self, run: Attempt, step: Apply) -> bool:
        """It exists, or may, and nothing that we know of it is ours, or only at a version that is served no more."""
        record = self._state.objects.get(step.object.ref)
        if step.reason is Reason.CREATE or record is None or record.entry is None:
            return True
        known = run.applier.discovery.known()
        gvk = GroupVersionKind.parse(record.entry_version or step.object.gvk.api_version, step.object.gvk.kind)
        return bool(known) and gvk not in known

    async def _check_again(self, run: Attempt, desired: DesiredObject, error: ApiError) -> ApiError | None:
        """What is live is merged with what we send, and together they are invalid: an old port under the same name, two
        sources of one volume. So what earlier managers declared of it is folded into our entry first."""
        if desired.ref not in run.met or not self._may_write():
            return error
        failed = await self._adopter.prepare(run, desired)
        return failed.error if failed is not None else (await run.applier.apply(desired, dry_run=True)).error
