"""Namespaces that are being deleted while Git wants what is in them: somebody else did, or Git went back to it.

Nothing can be made in such a namespace (403, NamespaceTerminating), an apply of the namespace itself changes nothing
and answers 200 (ssa-live 26, 43). So its unit waits for the end and says who holds it up; then everything is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitops.cluster.errors import ApiError
from gitops.cluster.namespaces import NamespaceContents
from gitops.model.kinds import NAMESPACE
from gitops.plan.planning import Apply
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.state import ClusterState
from gitops.reconcile.waiting import Need, Till

LOOK_AGAIN = 15.0
"""Seconds until it is looked who holds the namespace now; its end is an event."""

LOOK_SOON = 1.0
"""The same while nobody is known to."""


class TerminatingNamespaces:
    def __init__(self, state: ClusterState, contents: NamespaceContents) -> None:
        self._state = state
        self._contents = contents

    async def possible(self, run: Attempt, steps: Iterable[Apply]) -> list[Apply]:
        """The steps that can be done now. Of namespaces of the unit that are on their way out it is told."""
        ending = set()
        for desired in run.unit.objects:
            record = self._state.objects.get(desired.ref) if desired.gvk == NAMESPACE else None
            if record is None or not record.deleting:
                continue
            live = await run.applier.get(NAMESPACE, desired.ref)
            if isinstance(live, ApiError):
                run.fail(desired, live)
            elif live is None or live["metadata"].get("uid") != record.uid:
                run.look_again, record.suspect = True, True
            else:
                held = await self._contents.held_by(live)
                message = f"it is being deleted{', ' * bool(held)}{held}; made anew when it is gone"
                run.problems.append(ObjectProblem(desired.ref, SyncState.WAITING, message))
                run.needs.add(Need(desired.ref, Till.GONE))
                run.retry_after = LOOK_AGAIN if held else LOOK_SOON
            ending.add(desired.ref.name)
        return [s for s in steps if s.object.ref.namespace not in ending]
