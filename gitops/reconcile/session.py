"""One connection to one cluster, from opening it to losing it: claim, Lease, parents, watches, and the units' work.

A session lives as long as the credentials and the identity of the cluster do, its claim stays as it is and its history
does not go back. It writes only while it holds the Lease; what it knows of parents is read anew each time the Lease is
acquired, since another daemon may have written meanwhile, and so is the claim, which people may have given to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitops.cluster import claims
from gitops.cluster.applying import Applier
from gitops.cluster.claims import CLAIM, Claim, Claimed, ClaimRefused
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.cluster.facts import FactsReader, Generation, Reading
from gitops.cluster.leases import ClusterLease, LeaseKeeper, LeasePhase, LeaseState
from gitops.cluster.namespaces import NamespaceContents
from gitops.cluster.objects import Objects
from gitops.cluster.parents import ParentStore
from gitops.cluster.reflecting import Changed, Deleted, Event, Synced, Vanished
from gitops.logs import bound
from gitops.model.identity import ClusterUid, GroupVersionKind, UnitKey
from gitops.model.kinds import CONFIG_MAP
from gitops.plan.pruning import blown_fuses
from gitops.readiness.owners import ref_of
from gitops.reconcile.auditing import Auditor
from gitops.reconcile.context import Context
from gitops.reconcile.facts import FactsKeeper, Wanted
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.own_namespaces import OwnNamespaces
from gitops.reconcile.pruning import Pruner
from gitops.reconcile.queueing import SerialWork
from gitops.reconcile.releasing import release
from gitops.reconcile.secret_sources import SOURCES, SecretSources
from gitops.reconcile.serving import Place, Serving
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState, UnitState
from gitops.reconcile.terminating import TerminatingNamespaces
from gitops.reconcile.unit_work import UnitWork
from gitops.reconcile.waking import Waking
from gitops.reconcile.watched import Watched
from gitops.reconcile.watches import DEFINITIONS, Blind, Sight, Watch, Watches

_log = logging.getLogger(__name__)


_LEVELS = {
    SyncState.SYNCED: logging.INFO,
    SyncState.REMOVED: logging.INFO,
    SyncState.REMOVING: logging.INFO,
    SyncState.PENDING: logging.DEBUG,
}
"""How loudly a unit's new state is told; every other one is a warning."""


class Refused(Exception):
    """The cluster is not ours to write to, or its API server refuses what a session needs; the text is for people."""


class End(enum.Enum):
    """Why a session ended by itself."""

    WANTED = enum.auto()  # whoever runs it wants another
    CLAIM_MOVED = enum.auto()  # the claim has to be taken or confirmed again
    REWOUND = enum.auto()  # the cluster was restored from a backup: what was known of it proves nothing


@dataclass(frozen=True, slots=True)
class Told:
    """Whom a session tells: that parents are known (they pin instances), what the cluster tells of itself (None: it did
    not answer), that a unit's status may have changed, or what is said of the cluster itself, and each heartbeat with
    the error it met, if any. `wanted` is what facts are wanted of, `labels` those of the namespace template at the
    present head."""

    wanted: Callable[[], Wanted]
    labels: Callable[[], Mapping[str, str]]
    facts_known: Callable[[Reading | None], None]
    parents_known: Callable[[], None]
    touched: Callable[[UnitKey], None]
    moved: Callable[[], None]
    heartbeat: Callable[[ApiError | None], None]


class Session:
    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        state: ClusterState,
        context: Context,
        told: Told,
        *,
        uid: ClusterUid,
        claim: Claim,
    ) -> None:
        self._connection = connection
        self._uid = uid
        self._state = state
        self._context = context
        self._told = told
        self._claim = claim
        self._discovery = discovery
        self._own = Objects(connection, self._discovery)  # namespaces, claim and Lease: what comes before the Lease
        self._applier = Applier(connection, self._discovery, manager=state.manager, may_write=self.may_write)
        self._parents = ParentStore(
            self._applier, reconciler=state.reconciler, cluster=state.name, manager=state.manager
        )
        self._namespaces = OwnNamespaces(self._own, manager=state.manager, labels=told.labels)
        lease = ClusterLease(self._own, reconciler=state.reconciler, manager=state.manager)
        options = context.options
        self._keeper = LeaseKeeper(lease, identity=options.identity, times=options.lease, clock=context.awake)
        self._over = asyncio.Event()  # what it was begun with does not hold any more
        self._ready = False  # parents are loaded under the present Lease
        self._read_along = False  # they were read at all
        self._reading: asyncio.Task[None] | None = None
        self._reading_for = LeasePhase.STANDBY
        state.forget_live()
        self.sightings = Sightings(state, context, look=self._look, touched=self._stirred)
        self._watches = Watches(
            connection,
            self._discovery,
            on_event=self._on_event,
            on_sight=self._on_sight,
            on_blind=self._on_blind,
            on_definition=self._on_definition,
            wall=context.wall,
            rng=context.rng,
        )
        self.secrets = SecretSources(state, look=lambda key: self._look(key, urgent=False))
        contents = NamespaceContents(connection, self._discovery)
        pruner = Pruner(
            contents,
            reconciler=state.reconciler,
            context=context,
            may_write=self.may_write,
        )
        self._work = UnitWork(
            state,
            applier=self._applier,
            parents=self._parents,
            pruner=pruner,
            context=context,
            sightings=self.sightings,
            secrets=self.secrets,
            terminating=TerminatingNamespaces(state, contents),
            may_write=self.may_write,
        )
        self.queue: SerialWork[UnitKey] = SerialWork(
            self._run_unit, parallel=context.options.parallel_units, name=f"unit on {state.name}"
        )
        self._watched = Watched(state, context.registry, self._watches, self.secrets)
        self._waking = Waking(state, self._work.gate, self._watched, look=self.queue.poke)
        self.facts = FactsKeeper(
            FactsReader(connection, self._discovery),
            context,
            name=state.name,
            wanted=told.wanted,
            unchanged=self._generations,
            server_version=lambda: self.server_version,
            told=told.facts_known,
        )
        self.serving = Serving(self._applier)
        self.auditor = Auditor(
            state,
            context,
            watches=self._watches,
            sightings=self.sightings,
            applier=self._applier,
            idle=self.queue.idle,
            throttled=lambda: connection.stats.throttled,
            may_go=self.may_write,
        )
        context.metrics.watching(state.name, self._watches.heard)
        self.server_version = ""
        self._told_standby = ""
        self._services: SerialWork[Place] = SerialWork(self._read_service, parallel=4, name=f"service on {state.name}")
        self._seen = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make our namespaces and take the claim. Raises RequestFailed or Refused."""
        error = await self._namespaces.ensure()
        if error is not None:
            raise _raised(error)
        self._keeper.unclaimed = (await self._claimed()).new
        version = await self._discovery.server_version()
        self.server_version = "" if isinstance(version, ApiError) else str(version)

    async def _claimed(self) -> Claimed:
        """Take or confirm the claim. Raises RequestFailed or Refused."""
        held = await claims.claim(self._own, self._claim, cluster=self._state.name, manager=self._state.manager)
        if isinstance(held, ClaimRefused):
            raise Refused(held.sentence)
        if isinstance(held, ApiError):
            raise _raised(held)
        return held

    async def serve(self, *, until: Callable[[], bool]) -> End:
        """Keep the Lease and work while it is held. The renewals are the heartbeat of the cluster. Returns when `until`
        says so (other credentials), looked at after each, or when it has to be begun anew. Raises RequestFailed or
        Refused."""
        while True:
            pause = await self._keeper.step()
            if until():
                return End.WANTED
            state = self._keeper.state
            if self._keeper.rewound:
                self._stop_writing(f"the history of {self._state.name} went back, so a backup was restored")
                return End.REWOUND
            if self._keeper.another:
                self._stop_writing(f"another Lease stands on {self._state.name}, perhaps of another cluster")
                return End.CLAIM_MOVED
            if self._read_along and state.error is not None and state.error.waits_for.startswith("namespace"):
                self._stop_writing(f"{state.error.waits_for} on {self._state.name} is gone, and with it the claim")
                return End.CLAIM_MOVED
            self._told.heartbeat(state.error)
            self._tell_standby()
            if state.phase is not LeasePhase.HELD and self._ready:
                why = (
                    f"could not be renewed ({state.error})" if state.error else f"is lost to {self.standby or 'nobody'}"
                )
                self._stop_writing(f"the Lease on {self._state.name} {why}")
            self._read_parents(state)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._over.wait()
            if self._over.is_set():
                return End.CLAIM_MOVED

    def _stop_writing(self, why: str) -> None:
        _log.warning("%s: no more writes", why)
        self._ready = False
        self.queue.interrupt()  # a call that hangs could land after another daemon began to write

    def _tell_standby(self) -> None:
        """Once for each daemon that writes instead of us, and when none does any more."""
        if self.standby != self._told_standby:
            if self.standby:
                _log.info("standing by on cluster %s: %s writes there", self._state.name, self.standby)
            elif self._keeper.held():
                _log.info("the Lease on cluster %s is ours now", self._state.name)
            self._told_standby = self.standby

    def _read_parents(self, state: LeaseState) -> None:
        """Begin to read the parents when they are needed: to write, or, once, because they pin instances of the heads
        that a stand-by compiles for its other clusters. Beside the renewals, which a slow answer must not hold up."""
        phase, other = state.phase, state.holder and state.error is None
        if self._reading is not None and self._reading.done():
            self._reading.result()
            self._reading = None
        if self._reading is not None and phase is not self._reading_for:
            self._reading.cancel()
            self._reading = None
        wanted = not self._ready if phase is LeasePhase.HELD else other and not self._read_along
        if self._reading is None and wanted:
            self._reading_for = phase
            self._reading = asyncio.create_task(self._take_over(), name=f"parents of {self._state.name}")

    async def _take_over(self) -> None:
        phase = self._reading_for
        if self._read_along and await identify(self._connection, self._discovery) != self._uid:
            self._over.set()  # while nobody answered, another cluster came in the place of this one
            return
        if phase is LeasePhase.HELD:
            await self._claimed()
        stored = await self._parents.load_all()
        if isinstance(stored, ApiError):
            self.facts.look()
            self._told.heartbeat(stored)
            return
        for unreadable in stored.unreadable:
            _log.error("the parent %s cannot be read and its unit is left alone: %s", unreadable.name, unreadable.why)
        self._state.parents = dict(stored.records)
        self.sightings.owning.contesting.restore()
        self.facts.look()  # after the parents, which tell what is there
        self._read_along = True
        self._ready = phase is LeasePhase.HELD
        self._told.parents_known()
        self.assigned(list(self._state.units))

    async def close(self, *, grace: float) -> None:
        """Finish what is in flight within `grace` seconds, give up the Lease, close the connection."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self.queue.close(grace=grace)
        await self._services.close(grace=0.0)
        await self._watches.close()
        await self.facts.close()
        self._ready = False
        with contextlib.suppress(TimeoutError, RequestFailed):
            async with asyncio.timeout(2.0):
                await self._keeper.release()
        await self._connection.close()

    def may_write(self) -> bool:
        return self._ready and self._keeper.held()

    @property
    def standby(self) -> str:
        """Who writes instead of us; "" while we do (or nobody does, as when we cannot renew)."""
        state = self._keeper.state
        ours = state.phase is not LeasePhase.STANDBY or state.holder == self._context.options.identity
        return "" if ours else state.holder

    # -- what is to be looked at -------------------------------------------------------------------------------------

    def assigned(self, changed: list[UnitKey]) -> None:
        """A head was assigned, or parents were read: watch what it needs and look at what changed."""
        self.facts.assigned()
        if not self._ready or self._state.assignment is None:
            return
        self._watched.assigned()
        self._blow_fuses()
        for key in changed:
            self.queue.poke(key)

    async def attempted(self) -> None:
        """Until no unit is waiting for its first attempt and nothing is queued."""
        while True:
            await self.queue.idle()
            if not any(u.outcome.state is SyncState.PENDING for u in self._state.units.values()) or not self._ready:
                return
            self._seen.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._seen.wait()

    async def release_all(self) -> None:
        """Take our marks off every member of every unit (gitops/reconcile/releasing.py). The queue is closed by now."""
        await self._watches.close()  # what is unmarked is no drift
        if self.may_write() and await release(self._state, self._applier, self._parents):
            error = await claims.give_up(self._own, self._claim, cluster=self._state.name)
            if error is not None:
                _log.error("the claim on cluster %s could not be given up: %s", self._state.name, error)

    def recovered(self) -> None:
        """The cluster answers again: end the back-offs, and trust no socket of before."""
        self._renewal = asyncio.create_task(self._connection.renew(), name=f"renew {self._state.name}")
        self._watches.look_again()
        if self._read_along:
            self.facts.look()
        for key, unit in self._state.units.items():
            if unit.outcome.state is not SyncState.SYNCED:
                self.queue.poke(key)

    def _blow_fuses(self) -> None:
        """Deletions of this head over the limits wait for consent."""
        assignment = self._state.assignment
        if assignment is None:
            return
        prunes, sizes = {}, {}
        for key, record in self._state.parents.items():
            unit = self._state.unit(key)
            if unit is None and not assignment.may_remove(key):
                continue
            # What another unit declares now is handed over, not deleted.
            prunes[key] = [m for m in record.members if not self._state.is_named(m.ref)]
            sizes[key] = len(record.members)
        blown = blown_fuses(
            prunes,
            sizes=sizes,
            declared=set(assignment.units),
            consent=assignment.consent,
            limits=self._context.options.fuse,
        )
        for key, unit_state in self._state.units.items():
            if unit_state.fused != (sentence := blown.get(key, "")):
                unit_state.fused = sentence
                self.queue.poke(key)  # consent may come in a commit that changes nothing else of the unit

    # -- what happens ------------------------------------------------------------------------------------------------

    def _on_event(self, watch: Watch, event: Event) -> None:
        if watch.selector == self._watched.selector:
            if watch.gvk == CONFIG_MAP and self._claim_moved(event):
                self._stop_writing(f"the claim on {self._state.name} was changed")
                self._over.set()
            self.sightings.declared_event(event)
            if isinstance(event, Synced):
                holds = functools.partial(self._watches.holds, watch)
                self.sightings.listed(watch.gvk, event.resource_version, holds)
        self._waking.event(watch, event)
        if watch in self._watched.children:
            self.sightings.child_event(event)
        if watch == SOURCES:
            known = self._state.kinds()
            listed = self.secrets.event(event)
            if listed or self._state.kinds() != known:
                self._watched.copies_changed(listed=listed)
        if watch == self._watched.scalers:
            self.sightings.owning.scaled(event)
        if watch == self._watched.slices:
            place = self.serving.event(event)
            if place is not None:
                self._services.poke(place)

    def _stirred(self, key: UnitKey) -> None:
        self._waking.stirred(key)
        self._told.touched(key)

    def _claim_moved(self, event: Event) -> bool:
        """Does somebody else's claim stand there now, or none?"""
        if isinstance(event, Changed):
            refused = claims.judged(event.obj, self._claim, self._state.name)
            return ref_of(event.obj) == CLAIM and refused is not None
        gone = ref_of(event.obj) if isinstance(event, Deleted) else event.ref if isinstance(event, Vanished) else None
        return gone == CLAIM

    async def _read_service(self, place: Place) -> None:
        error = await self.serving.read(place)
        if error is not None:
            self._services.poke_after(place, error.wait(1, self._context.rng))
        for key, unit in self._state.wanted.items():
            if (unit.namespace, unit.service_name) == place:
                self._told.touched(key)

    def _on_sight(self, watch: Watch, sight: Sight) -> None:
        self._seen.set()
        if watch == DEFINITIONS and sight is Sight.SYNCED and self._definitions_moved():
            self.facts.look_soon()
        if watch == self._watched.scalers:
            self.sightings.owning.scalers_known(sight is not Sight.UNKNOWN)
            self._wake_unseen()
        if watch.selector != self._watched.selector:
            return
        if sight is Sight.UNKNOWN:  # the watch broke: what leaves until it is begun again will not be told
            for record in self._state.objects.values():
                record.suspect = record.suspect or (record.gvk == watch.gvk and bool(record.uid))
        for key, unit in self._state.wanted.items():
            if any(o.gvk == watch.gvk for o in unit.objects):
                self.queue.poke(key)

    def _on_blind(self, gvk: GroupVersionKind) -> None:
        blind = self.blind.get(gvk)
        if self._keeper.state.error is None:  # else nothing answers, and that is told once for all kinds
            if blind is not None:
                _log.warning("cluster %s: %s", self._state.name, blind.sentence)
            else:
                _log.info("cluster %s: %s objects can be seen again", self._state.name, gvk.kind)
        for key, unit in self._state.wanted.items():
            if any(o.gvk == gvk for o in unit.objects):
                self._told.touched(key)
        self._told.moved()

    def _wake_unseen(self) -> None:
        for key, unit in self._state.units.items():
            if unit.outcome.state in (SyncState.PENDING, SyncState.RETRYING):
                self.queue.poke(key)

    def _on_definition(self) -> None:
        self.facts.look_soon()

    def _generations(self) -> dict[str, Generation]:
        return {name: Generation(*seen) for name, seen in self._watches.definitions().items()}

    def _definitions_moved(self) -> bool:
        """Whether definitions are others than when facts were read, which was before they were watched."""
        reading, now = self.facts.reading, self._generations()
        if reading is None:
            return False
        served = {f"{resource.plural}.{gvk.group}" for gvk, resource in self._discovery.known().items()}
        return not now.keys() <= served or any(now.get(name) != seen for name, seen in reading.definitions.items())

    def _look(self, key: UnitKey, urgent: bool) -> None:
        self.queue.poke(key, urgent=urgent)

    async def _run_unit(self, key: UnitKey) -> None:
        """One run of a unit's work, and when to come back."""
        unit_state = self._state.units.get(key)
        if unit_state is None:
            return
        with bound(unit=key, cluster=self._state.name, commit=self._state.head):
            await self._attempt(key, unit_state)

    async def _attempt(self, key: UnitKey, unit_state: UnitState) -> None:
        outcome = self._unseen(key)
        if outcome is None:
            await self._namespaces.follow()
            outcome = await self._work.run(key)
        self._watches.notice_served()
        unit_state.attempts = 0 if outcome.retry_after is None else unit_state.attempts + 1
        if outcome.is_news_after(unit_state.outcome):
            level = _LEVELS.get(outcome.state, logging.WARNING)
            _log.log(level, "%s: %s%s", outcome.state, outcome.sentence, outcome.done)
        unit_state.outcome = outcome
        self._waking.attempted(key, outcome)
        if outcome.state is SyncState.REMOVED and self._state.unit(key) is None:
            self._state.units.pop(key, None)
        self._told.touched(key)
        if outcome.retry_after == 0:
            self.queue.poke(key)  # it is not done: no moment in which nothing seems to be left to do
        elif outcome.retry_after is not None:
            self.queue.poke_after(key, outcome.retry_after)

    @property
    def blind(self) -> Mapping[GroupVersionKind, Blind]:
        """Kinds that were seen and cannot be seen any more."""
        return self._watches.blind()

    def listed(self, key: UnitKey) -> bool:
        """Have all kinds of a unit been listed, so that what is not there is absent?"""
        return not self._watched.unlisted(key)

    def _unseen(self, key: UnitKey) -> UnitOutcome | None:
        """Why nothing may be decided about a unit yet; None when it may."""
        if not self._ready:
            why = f"another daemon ({self.standby}) holds the Lease" if self.standby else "the Lease is not held"
            return UnitOutcome(SyncState.PENDING, why)
        return self._watched.unseen(key)


async def identify(connection: Connection, discovery: Discovery) -> ClusterUid:
    """Which cluster this is, before anything is written there. Raises RequestFailed or Refused."""
    uid = await claims.cluster_uid(Objects(connection, discovery))
    if isinstance(uid, ApiError):
        raise _raised(uid)
    return uid


def _raised(error: ApiError) -> Exception:
    """What cannot be answered is tried again; a clear no is told."""
    if error.cls in (ErrorClass.UNREACHABLE, ErrorClass.RETRY, ErrorClass.UNAUTHORIZED, ErrorClass.WAITING):
        return RequestFailed(error)
    return Refused(str(error))
