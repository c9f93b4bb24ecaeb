"""Status files from what the engine knows: which changed, and what they say now.

A file changes only when its meaning does. What cannot be known (a cluster that does not answer) keeps what was known
last, said as such. The branch is a projection: losing it loses nothing but `since`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TypeVar

from gitops.model.identity import ClusterName, UnitKey, WorkloadKind, WorkloadRef
from gitops.policy.published import published_files
from gitops.readiness.aggregating import UnitMemory, UnitStatus
from gitops.readiness.functions import ClusterStatus, InstanceView, bundle_status, cluster_status, function_status
from gitops.readiness.statuses import Status
from gitops.reconcile.attempts import AS_DECLARED
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.context import Context
from gitops.reconcile.drift_reporting import DriftReporter
from gitops.reconcile.heads import Head
from gitops.reconcile.others_fields import left_to_others
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.state import UnitState
from gitops.report.paths import (
    DRIFT,
    SCHEMAS,
    cluster_path,
    drift_path,
    drift_readme_path,
    facts_folder,
    unit_path,
    workload_path,
)
from gitops.report.readme import render_readme
from gitops.report.status_files import (
    UnitReport,
    WorkloadReport,
    read_since,
    render_cluster,
    render_placements,
    render_unit,
    render_unreachable,
    render_workload,
)

LEFT_BEHIND_SHOWN = 20
RENDERED_AT_ONCE = 10
"""Files rendered without a pause: some milliseconds, in which no event is taken in."""

Item = TypeVar("Item")


class Reporter:
    """Renders what changed. `files` mirrors the branch; `pending` is rendered and not pushed yet (None: remove)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.files: dict[str, bytes] = {}
        self.pending: dict[str, bytes | None] = {}
        self._workloads: dict[WorkloadRef, WorkloadReport] = {}
        self._clusters: dict[ClusterName, ClusterStatus] = {}
        self._placed: frozenset[UnitKey] | None = None  # whose places the file says
        self._told: dict[ClusterName, str] = {}  # digest of what the files say that clusters tell of themselves
        self._drift = DriftReporter(context, self._put)
        self._lost = False  # the branch was begun anew and has not everything of `files`

    def load(self, files: Mapping[str, bytes]) -> None:
        """What the branch holds now."""
        self.files = dict(files)
        self._placed = None
        self._told = {}
        self._drift.load(files)

    def recall(self, key: UnitKey) -> UnitMemory:
        """After a restart: since when a unit is as it is, as its file says."""
        previous = read_since(self.files.get(unit_path(key)))
        return previous.unit_memory() if previous is not None else UnitMemory()

    async def render(
        self,
        head: Head,
        workers: Mapping[ClusterName, ClusterWorker],
        *,
        branch: str,
        units: Iterable[UnitKey],
        clusters: Iterable[ClusterName],
        findings_changed: bool,
    ) -> None:
        """Bring `pending` up to date for these units and clusters, and all that is above them.

        Other work of the loop goes on meanwhile; what it changes is dirty again.
        """
        dirty_clusters = set(clusters)
        dirty_units = {*units, *(k for n in dirty_clusters if n in workers for k in workers[n].state.units)}
        dirty_workloads = {k.workload for k in dirty_units}
        if findings_changed:
            dirty_workloads |= {*head.troubled, *self._workloads, *(k.workload for k in head.units)}
            dirty_units |= {k for n in workers for k in workers[n].state.units}
            self._sweep(head, workers)
        held = _held_sentences(head)
        async for path in _paced(self._drift.unread):
            self._drift.read(path)
        async for key in _paced(sorted(dirty_units)):
            self._unit(workers, key, held.get(key.workload, ()))
        await self._render_workloads(head, workers, dirty_workloads, held)
        for name in sorted({*dirty_clusters, *(k.cluster for k in dirty_units)}):
            self._cluster(workers, name)
        for name, worker in workers.items():
            self._facts(name, worker)
        self._render_summaries(head, branch)

    async def _render_workloads(
        self,
        head: Head,
        workers: Mapping[ClusterName, ClusterWorker],
        dirty: Iterable[WorkloadRef],
        held: Mapping[WorkloadRef, tuple[str, ...]],
    ) -> None:
        instances: dict[WorkloadRef, list[tuple[ClusterWorker, UnitKey]]] = {}
        for worker in workers.values():
            for key in worker.state.units:
                instances.setdefault(key.workload, []).append((worker, key))
        declared: dict[WorkloadRef, set[str]] = {}
        for key, unit in head.units.items():
            declared.setdefault(key.workload, set()).add(unit.version)
        async for workload in _paced(sorted(dirty)):
            versions = declared.get(workload)
            self._workload(
                workload,
                instances.get(workload, ()),
                known=versions is not None or workload in head.troubled,
                version=", ".join(sorted(versions - {""})) if versions else "",
                held=held.get(workload, ()),
            )

    def _render_summaries(self, head: Head, branch: str) -> None:
        self._drift.summary()
        placed = frozenset(head.units)
        if self._placed != placed:
            self._placed = placed
            self._put(*render_placements(list(head.units), previous=self.files.get("status/placements.yaml")))
        self._put(
            *render_readme(
                head=head.commit,
                branch=branch,
                workloads=[self._workloads[w] for w in sorted(self._workloads)],
                clusters=[self._clusters[n] for n in sorted(self._clusters)],
                complete=head.compilation.complete,
                errors=[str(f) for f in head.compilation.errors],
                previous=self.files.get("status/README.md"),
            )
        )

    def changes(self) -> dict[str, bytes | None]:
        """What is to be written now."""
        return {**self.files, **self.pending} if self._lost else dict(self.pending)

    def written(self, changes: Mapping[str, bytes | None], *, restarted: bool = False) -> None:
        """These changes are on the branch now; nothing else is when it was `restarted`."""
        for path, content in changes.items():
            if content is None:
                self.files.pop(path, None)
            else:
                self.files[path] = content
            if path in self.pending and self.pending[path] == content:
                del self.pending[path]
        self._lost = restarted and any(path not in changes for path in self.files)

    # -- single files ------------------------------------------------------------------------------------------------

    def _put(self, path: str, content: bytes | None) -> None:
        if self.files.get(path) == content:
            self.pending.pop(path, None)
        else:
            self.pending[path] = content

    def _unit(self, workers: Mapping[ClusterName, ClusterWorker], key: UnitKey, held: tuple[str, ...]) -> None:
        path = unit_path(key)
        worker = workers.get(key.cluster)
        state = worker.state.units.get(key) if worker is not None else None
        if worker is None or state is None:
            self._put(path, None)
            self._drift.remove(drift_path(key))
            return
        previous = self.files.get(path)
        if state.status is None and previous is not None and not worker.contact.reachable:
            self._put(path, render_unreachable(previous, key, since=worker.contact.since) or previous)
            return
        unit, record = worker.state.unit(key), worker.state.parents.get(key)
        report = UnitReport(
            key=key,
            status=state.status or _pending_status(state, self._context.wall()),
            commit=record.commit if record is not None else "",
            version=unit.version if unit is not None else record.version if record is not None else "",
            namespace=unit.namespace if unit is not None else record.namespace if record is not None else "",
            mode=str(unit.mode) if unit is not None else "",
            outcome=_outcome_words(state),
            held=held,
            left_to_others=left_to_others(worker.state, unit) if unit is not None else (),
            unreachable_since=None if worker.contact.reachable else worker.contact.since,
        )
        self._put(*render_unit(report, previous=previous))
        self._drift.unit(key, worker.state)

    def _workload(
        self,
        workload: WorkloadRef,
        instances: Iterable[tuple[ClusterWorker, UnitKey]],
        *,
        known: bool,
        version: str,
        held: tuple[str, ...],
    ) -> None:
        views = [
            _view(worker, key, state)
            for worker, key in instances
            if (state := worker.state.units.get(key)) is not None and worker.state.unit(key) is not None
        ]
        path = workload_path(workload)
        if not known and not views:
            self._workloads.pop(workload, None)
            self._put(path, None)
            return
        previous = read_since(self.files.get(path))
        now = self._context.wall()
        if workload.kind is WorkloadKind.FUNCTION:
            status = function_status(
                views,
                previously_active=previous.previously_active if previous else False,
                now=now,
                previous=previous.pair if previous else None,
            )
        else:
            status = bundle_status(views, now=now, previous=previous.pair if previous else None)
        report = WorkloadReport(workload, status, version=version, held=held)
        self._workloads[workload] = report
        self._put(*render_workload(report, previous=self.files.get(path)))

    def _cluster(self, workers: Mapping[ClusterName, ClusterWorker], name: ClusterName) -> None:
        worker = workers.get(name)
        if worker is None:
            self._clusters.pop(name, None)
            self._told.pop(name, None)
            gone = (*_folders(name), facts_folder(name))
            self._remove(f for f in self.files if f == cluster_path(name) or f.startswith(gone))
            return
        contact = worker.contact
        previous = read_since(self.files.get(cluster_path(name)))
        status = cluster_status(
            name,
            reachable=contact.reachable,
            now=contact.since,
            units=[_view(worker, key, state) for key, state in worker.state.units.items()],
            reason=contact.reason,
            message=contact.message or worker.replaced,
            facts={
                "lease_holder": worker.standby,
                "mode": worker.document.spec.mode,
                "uid": worker.uid or "",
                "server_version": worker.server_version,
            },
            left_behind=_left_behind(worker),
            stale=[(str(b.gvk), b.since, str(b.error)) for b in worker.blind.values()],
            audited=worker.audit.ended if worker.audit is not None else None,
            audit_findings=worker.audit.sentences if worker.audit is not None else (),
            previous=previous.pair if previous else None,
        )
        self._clusters[name] = status
        self._put(*render_cluster(status, previous=self.files.get(cluster_path(name))))

    def _facts(self, name: ClusterName, worker: ClusterWorker) -> None:
        """What the cluster tells of itself; while it does not answer, what it told last stays."""
        if worker.facts is None or self._told.get(name) == worker.facts.digest:
            return
        self._told[name] = worker.facts.digest
        folder = facts_folder(name)
        files = {folder + path: content for path, content in published_files(name, worker.facts).items()}
        self._remove(f for f in self.files if f.startswith(folder) and f not in files)
        for path, content in files.items():
            self._put(path, content)
            if self.files.get(path) == content:
                self.files[path] = content  # one copy in memory, which the schema has anyway

    def _sweep(self, head: Head, workers: Mapping[ClusterName, ClusterWorker]) -> None:
        """Remove files of what went while nobody wrote status: before this process, or while a push was refused."""
        for name, worker in workers.items():
            if worker.may_write:  # its parents are known, so all its units are
                there = {path for key in worker.state.units for path in (unit_path(key), drift_path(key))}
                self._remove(f for f in self.files if f.startswith(_folders(name)) and f not in there)
        if head.compilation.complete:
            declared = [ClusterName(n) for n in (*head.compilation.clusters, *head.compilation.unreadable_clusters)]
            folders = tuple(folder for name in declared for folder in (cluster_path(name), *_folders(name)))
            places = ("status/clusters/", "status/units/", f"{DRIFT}/")
            folders += (drift_readme_path(),)
            self._remove(f for f in self.files if f.startswith(places) and not f.startswith(folders))
            known_to_git = tuple(facts_folder(name) for name in declared)
            self._remove(f for f in self.files if f.startswith(f"{SCHEMAS}/") and not f.startswith(known_to_git))
            kinds = tuple(f"status/{kind}s/" for kind in WorkloadKind)
            known = {*head.troubled, *(k.workload for k in head.units)}
            live = {k.workload for worker in workers.values() for k in worker.state.units}
            there = {workload_path(w) for w in known | live}
            self._remove(f for f in self.files if f.startswith(kinds) and f not in there)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            if path.startswith(f"{DRIFT}/"):
                self._drift.remove(path)
            else:
                self._put(path, None)


async def _paced(items: Iterable[Item]) -> AsyncIterator[Item]:
    """The items, with a pause now and then in which the loop does its other work."""
    for count, item in enumerate(items):
        yield item
        if count % RENDERED_AT_ONCE == 0:
            await asyncio.sleep(0)


def _folders(name: ClusterName) -> tuple[str, str]:
    """Where the files of a cluster's units are."""
    any_unit = UnitKey(WorkloadKind.BUNDLE, "x", "", name)
    return f"{unit_path(any_unit).rpartition('/')[0]}/", f"{drift_path(any_unit).rpartition('/')[0]}/"


def _outcome_words(state: UnitState) -> str:
    if state.outcome.state is SyncState.SYNCED:
        return "" if state.outcome.sentence == AS_DECLARED else state.outcome.sentence
    return f"{state.outcome.state}: {state.outcome.sentence}"


def _pending_status(state: UnitState, now: float) -> UnitStatus:
    """For a unit that was not judged yet: nothing is known of it."""
    return UnitStatus(
        status=Status.UNKNOWN,
        reason="NotLooked",
        cause=state.outcome.sentence,
        ready_count=0,
        expected_count=0,
        since=now,
        phase="",
    )


def _left_behind(worker: ClusterWorker) -> list[str]:
    """Objects that may be orphans, a sentence each."""
    found = [f"{ref}: {reason}" for ref, reason in worker.state.orphans().items()]
    more = len(found) - LEFT_BEHIND_SHOWN
    return [*found[:LEFT_BEHIND_SHOWN], *([f"{more} more"] if more > 0 else [])]


def _view(worker: ClusterWorker, key: UnitKey, state: UnitState) -> InstanceView:
    status = state.status
    record = worker.state.parents.get(key)
    return InstanceView(
        key=key,
        status=status.status if status else Status.UNKNOWN,
        since=status.since if status else worker.contact.since,
        reason=status.reason if status else "NotLooked",
        cause=status.cause if status else state.outcome.sentence,
        ready_count=status.ready_count if status else 0,
        expected_count=status.expected_count if status else 0,
        flags=status.flags if status else frozenset(),
        reachable=worker.contact.reachable,
        serving=worker.serving(key),
        commit=record.commit if record is not None else "",
    )


def _held_sentences(head: Head) -> dict[WorkloadRef, tuple[str, ...]]:
    found: dict[WorkloadRef, list[str]] = {}
    for finding in head.compilation.errors:
        if finding.workload is not None and finding.workload in head.troubled:
            found.setdefault(finding.workload, []).append(str(finding))
    return {workload: tuple(sentences) for workload, sentences in found.items()}
