"""The engine: heads come in, clusters are brought to them, what becomes of it goes out as status files.

Everything is level-triggered: a push signal, a poll, a parent read or a watch event only say "look again". The engine
owns the workers and the order of things at start: clusters are contacted before anything is placed, because live
parents pin instances to clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Iterable

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from gitops.cluster.claims import Claim
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, ClusterUid, Commit, ReconcilerName, UnitKey
from gitops.plan.compiling import Compiler
from gitops.plan.parents import ParentRecord
from gitops.plan.units import Compilation
from gitops.readiness.aggregating import UnitMemory
from gitops.reconcile.accounts import Health, OnceReport, contact_words, once_report
from gitops.reconcile.audits import Audits
from gitops.reconcile.cluster_worker import ClusterWorker, Connector
from gitops.reconcile.consenting import Consents
from gitops.reconcile.context import Context
from gitops.reconcile.heads import Head, Heads
from gitops.reconcile.publishing import StatusWriter
from gitops.reconcile.reporting import Reporter
from gitops.source.errors import SourceError
from gitops.source.remotes import RemoteRefused
from gitops.source.sources import Source

_log = logging.getLogger(__name__)

UPKEEP = 3600.0
"""Seconds between looks at the mirror's size."""


class Engine:
    def __init__(self, source: Source, connector: Connector, context: Context) -> None:
        self._source = source
        self._connector = connector
        self._context = context
        self._heads = Heads(source, Compiler(context.registry, context.files))
        self.workers: dict[ClusterName, ClusterWorker] = {}
        self._identities: dict[ClusterUid, ClusterName] = {}
        self._leaving: dict[ClusterName, asyncio.Task[None]] = {}
        self._parents_read = 0
        self._facts_read = 0
        self._refused: Commit | None = None
        self._started = context.clock()
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._busy = False
        self._recompile = False
        self._head: Head | None = None
        self._reconciler: ReconcilerName | None = None
        self._status_branch = ""
        self._source_problem = ""
        self._blind = False  # the last look at the repository failed
        self._source_sentence = ""
        self._consents = Consents(source)
        self._dirty_units: set[UnitKey] = set()
        self._dirty_clusters: set[ClusterName] = set()
        self._findings_changed = False
        self._audits = Audits(
            self._audit,
            interval=context.options.audit_interval,
            rng=context.rng,
            now=lambda: datetime.datetime.now(datetime.UTC),
        )
        self._reporter = Reporter(context)
        self._writer = StatusWriter(self._reporter, context, source=source, render=self._render)

    # -- what others call --------------------------------------------------------------------------------------------

    def request_fetch(self) -> None:
        """Look at the repository at once (push signal, SIGHUP). Cheap; many requests become one look."""
        self._wanted.set()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to be told about the head in force."""
        return () if self._head is None else self._head.compilation.findings

    @property
    def looking(self) -> bool:
        """Is a look at the repository wanted or under way?"""
        return self._wanted.is_set() or self._busy

    @property
    def status_pending(self) -> bool:
        """Is there status that is not pushed yet?"""
        return self._writer.pending or bool(self._dirty_units or self._dirty_clusters or self._findings_changed)

    def credentials_changed(self) -> None:
        """Kubeconfigs changed on disk: end the back-offs."""
        for worker in self.workers.values():
            worker.retry()

    def health(self) -> Health:
        return Health(
            head=None if self._head is None else self._head.commit,
            source_problem=self._source_problem,
            status_problem=self._writer.problem,
            clusters={name: contact_words(w) for name, w in sorted(self.workers.items())},
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`: then what is in flight is finished, the last status written and the Leases released."""
        scheduler = self._scheduler()
        tasks = [
            asyncio.create_task(self._follow(), name="heads"),
            asyncio.create_task(self._writer.run(), name="status"),
        ]
        self._audits.start(scheduler)
        scheduler.start()
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()  # an eternal task that ended is a defect: let it be seen
        finally:
            scheduler.shutdown(wait=False)
            for task in (*tasks, stopped):
                task.cancel()
            await asyncio.gather(*tasks, stopped, return_exceptions=True)
            await self._shut_down()

    async def run_once(self) -> OnceReport:
        """One head, until every unit has had its attempt and nothing is left to do or only waiting would help."""
        try:
            await self._look()
            for worker in self.workers.values():
                await worker.attempted()
            await self._writer.flush()
            return once_report(self._head, self.workers, sentence=self._source_problem or self._writer.problem)
        finally:
            await self._shut_down()

    # -- heads -------------------------------------------------------------------------------------------------------

    def _scheduler(self) -> AsyncIOScheduler:
        options = self._context.options
        scheduler = AsyncIOScheduler(timezone="UTC")
        scheduler.add_job(
            self._poll,
            "interval",
            seconds=options.poll_interval,
            jitter=options.poll_jitter or None,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )
        scheduler.add_job(self._upkeep, "interval", seconds=UPKEEP, jitter=UPKEEP / 10, coalesce=True, max_instances=1)
        return scheduler

    async def _poll(self) -> None:
        """A coroutine, since the scheduler runs plain functions in a thread, where an event of the loop must not be
        set."""
        self.request_fetch()

    async def _upkeep(self) -> None:
        """Keep the mirror small, and in it what parents name as last good."""
        try:
            await self._source.keep({record.commit for record in self._parents().values() if record.commit})
            await self._source.maintain()
        except SourceError as error:
            _log.warning("upkeep of the mirror: %s", error)
        for name, worker in self.workers.items():
            for key, unit in worker.state.units.items():
                if unit.drifts:
                    self._touched(name, key)  # what is over is told for a while only

    async def _audit(self, name: ClusterName) -> bool:
        worker = self.workers.get(name)
        return worker is None or await worker.make_audit()

    async def _follow(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._busy = True
            try:
                await self._look()
            except Exception as error:  # a defect, which must not end the repair of drift: the last good head stays
                _log.exception("a look at the repository ended unexpectedly")
                self._source_problem = f"unexpected: {type(error).__name__}"
                self._recompile = True
            finally:
                self._busy = False

    async def _look(self) -> None:
        """One look at the repository; a new head, or parents that were read meanwhile, are compiled and assigned."""
        try:
            commit, sentence = await self._source.look()
        except (SourceError, OSError) as error:
            if str(error) != self._source_problem:
                stays = "" if self._head is None else ", the last good head stays"
                _log.error("the repository cannot be read%s: %s", stays, error)
            self._source_problem, self._blind = str(error), True
            self._context.metrics.fetched("failed")
            commit = None
        else:
            if self._blind:
                _log.info("the repository can be read again")
            self._blind = False
            self._source_problem = ""
            self._context.metrics.fetched("ok")
            if sentence and sentence != self._source_sentence:
                _log.info("%s", sentence)
            self._source_sentence = sentence
        known = None if self._head is None else self._head.commit
        commit = known if commit is None or commit == self._refused else commit
        if commit is None or (commit == known and not self._recompile):
            return
        if commit != known:
            _log.info("new head: %s", commit[:12], extra={"commit": commit})
        self._recompile = False
        if not await self._take(commit):
            self._recompile = True  # what asked for it is not answered yet: at the next look

    async def _take(self, commit: Commit) -> bool:
        """Compile and assign; False when that is to be tried again at the next look."""
        started = self._context.clock()
        try:
            await self._meet(commit)
            read = self._read
            head = await self._compile(commit)
            if head is not None and self._renamed(head):
                self._refused = commit
                return False
            fresh = [] if head is None else self._contact(head.compilation)
            if head is not None and (fresh or self._head is None):
                await self._first_contact([*fresh, *self._declare(head)])
                read = (-1, -1) if fresh else read  # compile again: now it is known who answered
            while head is not None and read != self._read:  # what was read meanwhile pins instances, or gives verdicts
                read = self._read
                head = await self._compile(commit)
        except SourceError as error:
            _log.error("commit %s cannot be read, the last good head stays: %s", commit[:12], error)
            self._source_problem = str(error)
            return False
        if head is None:
            return False
        self._context.metrics.compiled(self._context.clock() - started, len(head.compilation.errors))
        self._tell_findings(head)
        self._findings_changed |= self._head is None or self._head.tells != head.tells
        self._head = head
        if head.compilation.repository is None:
            self._writer.dirty()
            return True  # nothing can be known of a repository whose own document is broken (I1)
        await self._use_status_branch(head)
        assigned = await self._assign(head, read)
        self._writer.dirty()
        self._writer.hurry()
        return assigned

    @property
    def _read(self) -> tuple[int, int]:
        """How often clusters told something that a head is compiled with."""
        return self._parents_read, self._facts_read

    async def _compile(self, commit: Commit) -> Head | None:
        facts = {name: worker.facts for name, worker in self.workers.items() if worker.facts is not None}
        # Before the first contact there is nobody to ask for a verdict, and nothing to say of that.
        known = facts if self.workers else None
        return await self._heads.compile(commit, self._parents(), unheard=self._unheard(), facts=known)

    def _renamed(self, head: Head) -> bool:
        """A reconciler never changes its name: the new one would fight for the objects of the old."""
        repository = head.compilation.repository
        name = None if repository is None else ReconcilerName(repository.metadata.name)
        if name is None or self._reconciler in (None, name):
            return False
        _log.error(
            "the reconciler was renamed from %s to %s: refused, the last good head stays", self._reconciler, name
        )
        return True

    async def _meet(self, commit: Commit) -> None:
        """At the start, get in contact with the clusters before anything is compiled for them: what they tell decides
        on that, and to compile a large repository takes longer than to ask."""
        if not self.workers:
            survey = await self._heads.survey(commit)
            await self._first_contact([] if survey is None else self._contact(survey))

    def _contact(self, compilation: Compilation) -> list[ClusterWorker]:
        """Start workers for new clusters; gives them."""
        repository = compilation.repository
        if repository is None:
            return []
        self._reconciler = ReconcilerName(repository.metadata.name)
        fresh = [n for n in compilation.clusters if ClusterName(n) not in self.workers]
        for cluster in fresh:
            worker = ClusterWorker(
                compilation.clusters[cluster],
                reconciler=self._reconciler,
                claim=Claim(self._reconciler, self._source.display, repository.spec.ncaId or ""),
                connector=self._connector,
                context=self._context,
                parents_known=self._parents_known,
                facts_known=self._facts_known,
                touched=self._touched,
                identities=self._identities,
                recall=self._recall,
            )
            self.workers[worker.name] = worker
            self._audits.follow(worker.name)
            worker.start(after=self._leaving.get(worker.name))
        return [self.workers[ClusterName(name)] for name in fresh]

    def _declare(self, head: Head) -> list[ClusterWorker]:
        """Say to every cluster which kinds are declared for it; gives those that were not asked for some of them yet,
        and are now."""
        return [worker for name, worker in self.workers.items() if worker.declare(head.kinds_of(name))]

    async def _first_contact(self, workers: Iterable[ClusterWorker]) -> None:
        """Give clusters a moment to tell their parents and of themselves; one that does not answer keeps nobody waiting
        longer."""
        events = [event for w in workers for event in (w.settled, w.informed)]
        waiting = [asyncio.create_task(event.wait()) for event in events if not event.is_set()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._context.options.first_contact)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _parents(self) -> dict[UnitKey, ParentRecord]:
        return {key: record for worker in self.workers.values() for key, record in worker.state.parents.items()}

    def _unheard(self) -> frozenset[ClusterName]:
        """Clusters that have not told since the start what lives there: nothing that may is placed elsewhere."""
        return frozenset(name for name, worker in self.workers.items() if not worker.heard)

    def _parents_known(self) -> None:
        """A cluster's parents were read after its units had been placed: they may pin instances elsewhere. We write
        there from now on, so what others wrote of it on the status branch is read anew."""
        self._parents_read += 1
        if self._head is not None:
            self._recompile = True
            self._status_branch = ""
            self._wanted.set()

    def _facts_known(self) -> None:
        """A cluster tells something else of itself: verdicts may be others."""
        self._facts_read += 1
        if self._head is not None:
            self._recompile = True
            self._wanted.set()
            self._writer.dirty()

    async def _use_status_branch(self, head: Head) -> None:
        repository = head.compilation.repository
        if repository is None or self._reconciler is None or repository.spec.statusBranch == self._status_branch:
            return
        try:
            store = await self._source.statuses(self._reconciler, repository.spec.statusBranch)
            await self._writer.use(store)
            self._status_branch = repository.spec.statusBranch
            self._findings_changed = True  # all is to be written there
            self._dirty_clusters |= self.workers.keys()
        except (SourceError, RemoteRefused, OSError) as error:
            _log.error("status cannot be written: %s", error)
            self._recompile = True

    async def _assign(self, head: Head, read: tuple[int, int]) -> bool:
        """Give every cluster its part; False, and nothing given, when parents were read since the head was placed."""
        consents = {n: await self._consents.of(w, head.commit) for n, w in list(self.workers.items())}
        if read[0] != self._parents_read:
            self._wanted.set()
            return False
        for name, consent in consents.items():
            worker, document = self.workers[name], head.compilation.clusters.get(name)
            if document is not None:
                worker.assign(document, head.for_cluster(name, consent), head.kinds_of(name))
            elif head.compilation.complete:
                self._let_go(name, worker)
        return True

    def _let_go(self, name: ClusterName, worker: ClusterWorker) -> None:
        """The Cluster document left Git: its objects stay, unmarked."""
        del self.workers[name]
        self._audits.forget(name)
        self._touched(name, None)
        self._context.metrics.cluster_removed(name)
        task = asyncio.create_task(worker.release(grace=self._context.options.shutdown), name=f"release {name}")
        self._leaving[name] = task
        task.add_done_callback(lambda done: self._left(name, done))

    def _left(self, name: ClusterName, task: asyncio.Task[None]) -> None:
        if self._leaving.get(name) is task:
            del self._leaving[name]
        if not task.cancelled() and task.exception() is not None:
            _log.error("cluster %s was not let go as it should be", name, exc_info=task.exception())

    def _tell_findings(self, head: Head) -> None:
        known = set() if self._head is None else set(self._head.compilation.findings)
        for finding in head.compilation.findings:
            if finding not in known:
                level = logging.WARNING if finding.severity == "error" else logging.INFO
                _log.log(level, "%s", finding, extra={"commit": head.commit})

    # -- status ------------------------------------------------------------------------------------------------------

    def _touched(self, cluster: ClusterName, key: UnitKey | None) -> None:
        if key is None:
            self._dirty_clusters.add(cluster)
        else:
            self._dirty_units.add(key)
        self._writer.dirty()

    async def _render(self) -> bool:
        if self._head is None:
            return False
        for worker in self.workers.values():
            worker.judge()
        if self._looking_around():
            self._writer.dirty()
            return False
        writing = {n: w for n, w in self.workers.items() if not w.standby}
        if self.workers and not writing:
            return False  # whoever writes to the clusters tells of them
        units, self._dirty_units = self._dirty_units, set()
        clusters, self._dirty_clusters = self._dirty_clusters, set()
        findings, self._findings_changed = self._findings_changed, False
        try:
            await self._reporter.render(
                self._head,
                writing,
                branch=self._source.branch,
                units=[k for k in units if k.cluster in writing or k.cluster not in self.workers],
                clusters=[n for n in clusters if n in writing or n not in self.workers],
                findings_changed=findings,
            )
        except BaseException:
            self._dirty_units |= units
            self._dirty_clusters |= clusters
            self._findings_changed |= findings
            raise
        self._count_units()
        return True

    def _looking_around(self) -> bool:
        """For a moment after the start, or after we took over from another daemon, what will be known soon is not told
        as unknown: the files say more."""
        starting = self._context.clock() - self._started < self._context.options.first_look
        return any(w.unlooked for w in self.workers.values() if not w.standby and (starting or w.just_begun))

    def _recall(self, key: UnitKey) -> UnitMemory | None:
        """What the status branch says of a unit; None while what others wrote there is still to be read."""
        return self._reporter.recall(key) if self._status_branch else None

    def _count_units(self) -> None:
        for name, worker in self.workers.items():
            counts: dict[str, int] = {}
            for unit in worker.state.units.values():
                word = str(unit.status.status) if unit.status is not None else "Unknown"
                counts[word] = counts.get(word, 0) + 1
            self._context.metrics.units(name, counts)
            self._context.metrics.drifts_open(
                name, sum(drift.is_open for unit in worker.state.units.values() for drift in unit.drifts)
            )

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _shut_down(self) -> None:
        """Stop intake, finish what is in flight, write the last status, release the Leases."""
        grace = self._context.options.shutdown
        await self._audits.close()
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=grace / 2)
        await asyncio.gather(*(w.drain(grace=grace / 2) for w in self.workers.values()))
        with contextlib.suppress(TimeoutError, SourceError):
            async with asyncio.timeout(grace / 4):
                await self._writer.flush()
        await asyncio.gather(*(w.stop() for w in self.workers.values()))
