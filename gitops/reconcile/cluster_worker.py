"""One worker per cluster: its own failure domain. It opens sessions for as long as the cluster is declared, tells what
is known of it, and costs the other clusters nothing when it does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from gitops.cluster.claims import Claim
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, backoff
from gitops.cluster.facts import Reading
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, ClusterUid, GroupVersionKind, ReconcilerName, UnitKey
from gitops.policy.facts import ClusterFacts
from gitops.readiness.aggregating import UnitMemory
from gitops.reconcile.auditing import AuditReport
from gitops.reconcile.context import Context
from gitops.reconcile.facts import Wanted
from gitops.reconcile.judging import judge
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.session import End, Refused, Session, Told, identify
from gitops.reconcile.state import Assignment, ClusterState
from gitops.reconcile.watches import Blind

_log = logging.getLogger(__name__)

UNREACHABLE_AFTER = 8.0
"""Seconds without an answer before a cluster is called unreachable: a renewal and its repetition."""

SILENT = frozenset({ErrorClass.UNREACHABLE, ErrorClass.RETRY, ErrorClass.UNAUTHORIZED})
"""Errors of a heartbeat after which nothing is seen of the cluster, when they last: it answers nobody, answers 5xx or
429 to everything, or does not know us any more."""

JUDGE_AFTER = 0.1
"""Seconds in which what moves of a unit is judged once: a rollout moves each of its objects several times."""

JUDGE_AGAIN_AFTER = 0.5
"""Seconds until a unit is judged whose status file is still to be read."""

CREDENTIALS_CHECK = 30.0
"""Seconds between looks at credentials that are missing."""


class Connector(Protocol):
    """Opens connections by the name of the credentials (connecting.py: a folder of kubeconfigs)."""

    async def open(self, cluster: Cluster) -> Connection:
        """Raises RequestFailed."""
        ...

    def changed(self, cluster: Cluster) -> bool:
        """Are other credentials named than when the connection was opened?"""
        ...


@dataclass(frozen=True, slots=True)
class Contact:
    """How we stand with the cluster. `since`: seconds since the epoch of the last answer when it does not answer
    (or of the first try, when it never did), else of the first answer."""

    reachable: bool
    since: float
    reason: str = ""
    message: str = ""


class ClusterWorker:
    """`parents_known` is called when the cluster's parents were read: they pin instances. `facts_known` when the
    cluster tells other things of itself than before. `touched` when something that status files say may have changed
    (None: of the cluster itself). `identities` is shared by all workers. `recall` says what status files tell of a
    unit from before this process (None: not read yet)."""

    def __init__(
        self,
        document: Cluster,
        *,
        reconciler: ReconcilerName,
        claim: Claim,
        connector: Connector,
        context: Context,
        parents_known: Callable[[], None],
        facts_known: Callable[[], None],
        touched: Callable[[ClusterName, UnitKey | None], None],
        identities: dict[ClusterUid, ClusterName],
        recall: Callable[[UnitKey], UnitMemory | None],
    ) -> None:
        self.name = ClusterName(document.metadata.name)
        self.document = document
        self.state = ClusterState(self.name, reconciler)
        self.contact = Contact(False, context.wall(), "NeverReached", "not reached yet")
        self.uid: ClusterUid | None = None
        self.replaced = ""
        """Says that another cluster answers under this name than before, since this process began."""
        self.heard = False
        """Have its parents been read since it became this cluster?"""
        self.settled = asyncio.Event()
        """Set once the parents are known or the cluster did not answer the first time."""
        self.facts: ClusterFacts | None = None
        """What it told last of itself since it became this cluster."""
        self.informed = asyncio.Event()
        """Set once it did, or did not answer the first time."""
        self.declared: frozenset[GroupVersionKind] = frozenset()
        """Kinds that Git declares for it."""
        self.audit: AuditReport | None = None
        """What the last audit said, if there was one since it became this cluster."""
        self._claim = claim
        self._connector = connector
        self._context = context
        self._parents_known = parents_known
        self._facts_known = facts_known
        self._touched = touched
        self._identities = identities
        self._recall = recall
        self._session: Session | None = None
        self._heard_at: float | None = None
        self._writing_at: float | None = None  # since when, by the clock, the cluster is ours to tell of
        self._stopping = False
        self._failing: tuple[ErrorClass, str] | None = None  # how the last try to reach the cluster failed
        self._timers: dict[UnitKey, asyncio.TimerHandle] = {}
        self._moved: set[UnitKey] = set()
        self._judging: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self, *, after: asyncio.Task[None] | None = None) -> None:
        """Begin, once `after` has ended: the release of an earlier worker of this cluster."""
        self._task = asyncio.create_task(self._run(after), name=f"cluster {self.name}")

    async def drain(self, *, grace: float) -> None:
        """Take no more work and let what runs finish."""
        self._stopping = True
        if self._session is not None:
            await self._session.queue.close(grace=grace)

    async def stop(self) -> None:
        """Release the Lease, close the connection. Call drain() first."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._session is not None:
            await self._session.close(grace=0.0)
            self._session = None
        for timer in (*self._timers.values(), *filter(None, [self._judging])):
            timer.cancel()
        if self.uid is not None:
            self._identities.pop(self.uid, None)

    async def release(self, *, grace: float) -> None:
        """The cluster left Git: take our marks off what we applied, leave the objects, give up claim and Lease."""
        await self.drain(grace=grace)
        if self._session is not None:
            await self._session.release_all()
        await self.stop()

    async def _run(self, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after])
        attempt = 0
        while not self._stopping:
            try:
                await self._one_session()
                attempt = 0
            except RequestFailed as failed:
                attempt += 1
                self._unreachable(failed.error)
                await self._pause(backoff(ErrorClass.UNREACHABLE, attempt, self._context.rng))
            except Refused as refused:
                self._refused(str(refused))
                await self._pause(CREDENTIALS_CHECK)
            except asyncio.CancelledError:
                raise
            except Exception:
                _log.exception("unexpected error on cluster %s; begun again in 5 s", self.name)
                self._unsettled()
                await self._pause(5.0)

    async def _one_session(self) -> None:
        connection = await self._connector.open(self.document)
        discovery = Discovery(connection)
        session: Session | None = None
        try:
            uid = await identify(connection, discovery)
            self._identify(uid)
            told = Told(
                wanted=self._wanted,
                labels=lambda: self.document.spec.namespaceTemplate.labels,
                facts_known=self._on_facts,
                parents_known=self._on_parents,
                touched=self.touch,
                moved=lambda: self._touched(self.name, None),
                heartbeat=self._heartbeat,
            )
            session = Session(connection, discovery, self.state, self._context, told, uid=uid, claim=self._claim)
            await session.prepare()
            self._session = session
            if await session.serve(until=lambda: self._outdated(connection)) is End.REWOUND:
                self._forget()
        finally:
            if session is None:
                await connection.close()
            elif self._session is not session or not self._stopping:
                self._session = None
                await session.close(grace=1.0)

    def _outdated(self, connection: Connection) -> bool:
        """Another address, or other credentials: whether it is the same cluster is to be found out anew."""
        return connection.moved or self._connector.changed(self.document)

    def _identify(self, uid: ClusterUid) -> None:
        """Another cluster under an old name is first contact: what was known of the old one proves nothing there. One
        cluster under two names would fight with itself: the second name is refused."""
        holder = self._identities.setdefault(uid, self.name)
        if holder != self.name:
            raise Refused(f"it is the same cluster as {holder} (uid of kube-system): one of the two documents must go")
        if self.uid is not None and uid != self.uid:
            self.replaced = (
                f"another cluster than before (its uid is {uid}, and was {self.uid}): what was known of that one is "
                "not used, and nothing is deleted for it"
            )
            _log.warning("cluster %s is %s", self.name, self.replaced)
            self._identities.pop(self.uid, None)
            self._forget()
        self.uid = uid

    def _forget(self) -> None:
        """First contact: what was known of the cluster proves nothing any more."""
        self.heard, self.facts, self.audit, self._writing_at = False, None, None, None
        assignment = self.state.assignment
        self.state = ClusterState(self.name, self.state.reconciler)
        if assignment is not None:
            self.state.assign(assignment)

    async def _pause(self, seconds: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    # -- contact -----------------------------------------------------------------------------------------------------

    def _heartbeat(self, error: ApiError | None) -> None:
        now = self._context.wall()
        if error is None or error.cls not in SILENT:
            self._heard_at = now
            self._answered(now, error)
        elif self._heard_at is None or now - self._heard_at >= UNREACHABLE_AFTER:
            self._unreachable(error)
        elif error.cls is ErrorClass.RETRY and self.contact.reachable:
            self._answered(now, error)
        if error is not None and error.cls in (ErrorClass.FORBIDDEN, ErrorClass.UNAUTHORIZED):
            self._unsettled()  # waiting does not help: nobody shall wait for its parents

    def _answered(self, now: float, error: ApiError | None) -> None:
        """There is contact; `error` is what the cluster refuses, if anything."""
        was_reachable = self.contact.reachable
        reason = "" if error is None else error.reason or str(error.cls)
        message = "" if error is None else str(error)
        if not was_reachable or (self.contact.reason, self.contact.message) != (reason, message):
            if message:
                _log.warning("cluster %s: %s", self.name, message)
            elif self.contact.reason != "NeverReached":
                _log.info("cluster %s %s again", self.name, "is usable" if self.contact.reachable else "answers")
            self._known(Contact(True, self.contact.since if was_reachable else now, reason, message))
        if not was_reachable and self._session is not None:
            self._session.recovered()

    def _unreachable(self, error: ApiError) -> None:
        if self.contact.reachable or self.contact.reason == "NeverReached":
            since = self._heard_at if self._heard_at is not None else self.contact.since
            _log.warning("cluster %s does not answer: %s", self.name, error)
            self._known(Contact(False, since, "Unreachable", str(error)))
        elif _cause(error) != self._failing:
            _log.warning("cluster %s still does not answer: %s", self.name, error)
            self._known(replace(self.contact, message=str(error)))
        self._failing = _cause(error)
        self._unsettled()

    def _refused(self, sentence: str) -> None:
        """Nobody watches it any more: what was last seen there proves nothing, least of all that it is ready."""
        for unit_state in self.state.units.values():
            unit_state.status = None
        same = (self.contact.reason, self.contact.message) == ("Refused", sentence)
        if not same:
            _log.error("cluster %s is refused, nothing is written there: %s", self.name, sentence)
        self._known(Contact(True, self.contact.since if same else self._context.wall(), "Refused", sentence))
        self._unsettled()

    def _unsettled(self) -> None:
        """It did not tell what is waited for, and nobody shall wait longer."""
        self.settled.set()
        self.informed.set()

    def _known(self, contact: Contact) -> None:
        if contact != self.contact:
            self.contact = contact
            self._context.metrics.cluster_reachable(self.name, contact.reachable)
            self._touched(self.name, None)

    def _on_parents(self) -> None:
        self.heard = True
        if self._writing_at is None and self.may_write:
            self._writing_at = self._context.clock()
        self.settled.set()
        self._parents_known()

    def _wanted(self) -> Wanted:
        """What is wanted to be told of. As long as nothing is compiled, what is there already is most of it."""
        kinds = self.declared or {m.gvk for record in self.state.parents.values() for m in record.members}
        return Wanted.of(self.document, frozenset(kinds), self._context.registry)

    def _on_facts(self, reading: Reading | None) -> None:
        self.informed.set()
        if reading is not None and (self.facts is None or self.facts.digest != reading.facts.digest):
            self.facts = reading.facts
            self._facts_known()

    @property
    def may_write(self) -> bool:
        """Do we hold the Lease, with the parents read under it?"""
        return self._session is not None and self._session.may_write()

    @property
    def busy(self) -> bool:
        """Is any unit being worked on or about to be?"""
        return self._session is not None and self._session.queue.active

    @property
    def unlooked(self) -> bool:
        """Is something not known yet that will be in a moment: the cluster itself, or what its units look like?"""
        if self.contact.reason == "NeverReached":
            return True
        units = self.state.units.items() if self._session is not None and self.contact.reachable else ()
        return any(
            (u.status is None or u.outcome.state is SyncState.PENDING) and self.state.unit(key) is not None
            for key, u in units
        )

    @property
    def just_begun(self) -> bool:
        """Did we begin to write there a moment ago: at the start, or in another daemon's place?"""
        return (
            self._writing_at is not None and self._context.clock() - self._writing_at < self._context.options.first_look
        )

    @property
    def blind(self) -> Mapping[GroupVersionKind, Blind]:
        """Kinds that were seen and cannot be seen any more, while the cluster itself answers."""
        return self._session.blind if self._session is not None and self.contact.reachable else {}

    @property
    def server_version(self) -> str:
        """As the API server tells it; "" while it is not known."""
        return self._session.server_version if self._session is not None else ""

    @property
    def standby(self) -> str:
        """Who writes to this cluster instead of us; "" when we do."""
        return self._session.standby if self._session is not None else ""

    def serving(self, key: UnitKey) -> bool | None:
        """Whether the Service that the unit names has a ready endpoint; None when it names none."""
        unit = self.state.unit(key)
        if unit is None or not unit.service_name:
            return None
        return self._session.serving.serving(unit) is True if self._session is not None else False

    # -- work --------------------------------------------------------------------------------------------------------

    def assign(self, document: Cluster, assignment: Assignment, declared: frozenset[GroupVersionKind]) -> None:
        """Take a head's units, and which kinds it declares. Called for every head; unchanged units cost nothing."""
        if document.spec.credentials != self.document.spec.credentials:
            self._wake.set()
        self.document, self.declared = document, declared
        changed = self.state.assign(assignment)
        if self._session is not None:
            self._session.assigned(changed)
        for key in changed:
            self.touch(key)

    async def make_audit(self) -> bool:
        """Hold everything against lists and dry runs; False when this is not the moment for it."""
        session = self._session
        if session is None or not session.may_write() or session.queue.active:
            return False
        report = await session.auditor.run()
        if report is None or session is not self._session:  # else it was another cluster's, perhaps
            return False
        self.audit = report
        self._touched(self.name, None)
        return True

    def declare(self, kinds: frozenset[GroupVersionKind]) -> bool:
        """Take which kinds Git declares; True when the cluster is asked for some of them now: `informed` is set again
        when it has answered."""
        self.declared = kinds
        asked = self._session is not None and self._session.facts.assigned()
        if asked:
            self.informed.clear()
        return asked

    def retry(self) -> None:
        """Something that may help happened (new credentials): look again at once."""
        self._wake.set()

    async def attempted(self) -> None:
        """Until every unit had its attempt, or the cluster turned out not to answer."""
        await self.settled.wait()
        session = self._session
        if session is not None:
            await session.attempted()

    def touch(self, key: UnitKey) -> None:
        """Something of a unit moved: judge it anew soon and tell."""
        self._moved.add(key)
        if self._judging is None:
            self._judging = asyncio.get_running_loop().call_later(JUDGE_AFTER, self.judge)
        self._touched(self.name, key)

    def _judge_later(self, key: UnitKey) -> None:
        """Since when it is as it is will be known in a moment, and what is said now would be said for good."""
        self._moved.add(key)
        if self._judging is None:
            self._judging = asyncio.get_running_loop().call_later(JUDGE_AGAIN_AFTER, self.judge)

    def judge(self) -> None:
        """Judge the units of which something moved, and plan to do so again when time alone may change them."""
        if self._judging is not None:
            self._judging.cancel()
            self._judging = None
        moved, self._moved = self._moved, set()
        session = self._session
        if session is None:
            return
        for key in moved:
            if not session.listed(key):
                continue  # what is not seen yet is not missing
            unit_state = self.state.units.get(key)
            if unit_state is not None and unit_state.status is None:
                memory = self._recall(key)
                if memory is None and self.just_begun:
                    self._judge_later(key)
                    continue
                unit_state.memory = memory or UnitMemory()
            try:
                at = judge(self.state, key, owners=session.sightings.owners, context=self._context, blind=self.blind)
            except Exception:  # a defect that one unit's objects meet must not take the others' verdicts along
                _log.exception("the status of %s cannot be judged", key)
                at = None
                if unit_state is not None:
                    unit_state.status = None  # what was said before is not known to hold any more
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
            if at is not None:
                delay = max(0.05, at - self._context.wall())
                self._timers[key] = asyncio.get_running_loop().call_later(delay, self.touch, key)


def _cause(error: ApiError) -> tuple[ErrorClass, str]:
    """What is news of a cluster that does not answer: not the words of each retry, but those that somebody follows who
    corrects credentials or certificates."""
    return error.cls, str(error) if error.cls is ErrorClass.UNAUTHORIZED or error.reason == "Tls" else ""
