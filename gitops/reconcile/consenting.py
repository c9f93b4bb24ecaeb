"""What commits consent to on each cluster: the `Gitops-Allow-Prune` trailers since what it was last settled at."""

from __future__ import annotations

from gitops.model.identity import ClusterName, Commit
from gitops.plan.pruning import Consent
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.outcomes import SyncState
from gitops.source.sources import Source


class Consents:
    """Consents add up until nothing waits for one any more, so that a commit on top of the consenting one does not take
    it back."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._given: dict[ClusterName, Consent] = {}

    async def of(self, worker: ClusterWorker, head: Commit) -> Consent:
        """What may be deleted on this cluster at the head, of what the fuse holds back. Raises SourceError."""
        before = self._given.get(worker.name, Consent())
        if worker.state.assignment is not None:
            since = [worker.state.assignment.commit]
            if not any(unit.fused or unit.outcome.state is SyncState.REMOVING for unit in worker.state.units.values()):
                before = Consent()
        else:
            since = [record.commit for record in worker.state.parents.values() if record.commit]
        if since == [head]:
            return before
        history = await self._source.history(since, head)
        consent = Consent(tuple(dict.fromkeys((*before.globs, *history.allowed_prunes()))))
        self._given[worker.name] = consent
        return consent
