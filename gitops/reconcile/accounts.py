"""What the engine tells about itself: its health at any time, and the report of one run over one head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, Commit, UnitKey
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.heads import Head
from gitops.reconcile.outcomes import SyncState, UnitOutcome


@dataclass(frozen=True, slots=True)
class Health:
    """For /readyz and `gitops status`. `head` is the last compiled commit, `source_problem` why the last look at the
    repository failed."""

    head: Commit | None
    source_problem: str
    status_problem: str
    clusters: Mapping[ClusterName, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.head is not None


@dataclass(frozen=True, slots=True)
class OnceReport:
    """What one run over one head did (`gitops apply --once`)."""

    commit: Commit | None
    findings: tuple[Finding, ...]
    units: Mapping[UnitKey, UnitOutcome]
    clusters: Mapping[ClusterName, str]
    sentence: str

    @property
    def ok(self) -> bool:
        fine = (SyncState.SYNCED, SyncState.REMOVED, SyncState.PAUSED, SyncState.RETAINED)
        return self.commit is not None and not self.clusters and all(o.state in fine for o in self.units.values())


def contact_words(worker: ClusterWorker) -> str:
    """How we stand with a cluster, in a few words."""
    contact = worker.contact
    if worker.standby:
        return f"standing by, {worker.standby} writes"
    if contact.reason == "Refused":
        return f"refused: {contact.message}"
    if contact.reachable:
        return contact.message or "reachable"
    return f"unreachable: {contact.message}"


def _serves(worker: ClusterWorker) -> bool:
    return worker.contact.reachable and not worker.contact.reason and not worker.standby


def once_report(head: Head | None, workers: Mapping[ClusterName, ClusterWorker], *, sentence: str) -> OnceReport:
    """What became of all units of all clusters; `sentence` says what else went wrong."""
    return OnceReport(
        commit=None if head is None else head.commit,
        findings=() if head is None else head.compilation.findings,
        units={k: u.outcome for w in workers.values() for k, u in sorted(w.state.units.items())},
        clusters={n: contact_words(w) for n, w in sorted(workers.items()) if not _serves(w)},
        sentence=sentence,
    )
