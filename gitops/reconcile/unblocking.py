"""Live state that stands in the way of an apply: mended once an attempt, reported as drift, or told."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from gitops.cluster import unblocking
from gitops.cluster.applying import ApplyOutcome
from gitops.cluster.comparison import Comparison
from gitops.cluster.errors import ApiError, cut
from gitops.cluster.unblocking import Remedy
from gitops.model.kinds import SERVICE
from gitops.plan.units import DesiredObject
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)


class Unblocker:
    """For objects of one cluster that are ours."""

    def __init__(self, state: ClusterState, *, sightings: Sightings) -> None:
        self._state = state
        self._sightings = sightings

    async def can(self, run: Attempt, desired: DesiredObject, error: ApiError | None) -> bool:
        """Would `resolve` change something? For a dry run, after which nothing may be written yet."""
        return error is not None and unblocking.may_help(error) and await self._remedy(run, desired, error) is not None

    async def resolve(
        self, run: Attempt, desired: DesiredObject, outcome: ApplyOutcome, *, mend: bool = True
    ) -> ApplyOutcome:
        """The outcome of another apply after what stood in its way was mended; else the one that was given, which then
        names what has what we want. Only told, not mended, when the object was not ours before."""
        error = outcome.error
        if error is None or not unblocking.may_help(error):
            return outcome
        found = await self._remedy(run, desired, error) if mend else None
        if found is None:
            return replace(outcome, error=await self.told(run, desired, error))
        live, remedy = found
        if remedy.operations:
            answer = await run.applier.json_patch(
                desired.gvk, desired.ref, remedy.operations, manager=self._state.manager
            )
            if isinstance(answer, ApiError):
                return replace(outcome, error=answer)
            live = answer
        for difference in remedy.differences:
            _log.warning("%s of %s stood in the way of our apply and was put right", difference.pointer, desired.ref)
        self._sightings.tell(run.unit.key, desired, Comparison(differences=remedy.differences))
        folded = await run.applier.adopt(desired, live)  # the patch was an update under our name
        if folded.error is not None:
            return replace(outcome, error=folded.error)
        return await run.applier.apply(desired, uid=folded.uid)

    async def _remedy(
        self, run: Attempt, desired: DesiredObject, error: ApiError
    ) -> tuple[dict[str, Any], Remedy] | None:
        live = await run.applier.get(desired.gvk, desired.ref)
        if not isinstance(live, dict):
            return None
        found = unblocking.remedy(error, live, desired.body, manager=self._state.manager)
        return None if found is None else (live, found)

    async def told(self, run: Attempt, desired: DesiredObject, error: ApiError) -> ApiError:
        """A node port that is taken: by which Service, when we may look."""
        if unblocking.ALREADY_ALLOCATED not in error.message:
            return error
        listing = await run.applier.list_objects(SERVICE)
        if isinstance(listing, ApiError):
            return error
        names = unblocking.neighbours(desired.body, listing.items)
        return (
            replace(error, message=cut(f"{error.message}; had by Service {', '.join(names[:3])}")) if names else error
        )
