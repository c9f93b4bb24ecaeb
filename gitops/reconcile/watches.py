"""The set of watches of one cluster: started when a kind is wanted, ended when not, each in a task of its own.

A kind that the cluster does not serve is known to have no objects; a kind that cannot be listed is unknown, and nothing
is decided about units that have it (I1).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gitops.cluster.collection import Collection
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass, backoff
from gitops.cluster.reflecting import Changed, Deleted, Event, Fresh, Reflector, Stale, Synced, Vanished
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.model.kinds import DEFINITION

_log = logging.getLogger(__name__)

LOOKS = 9
"""How often discovery is asked for a kind after a CRD changed: about ten seconds in all, and soon at first, since it is
served some milliseconds after the definition is established."""

LIST_AGAIN = 60.0
"""Seconds until a kind is listed again because an event of it met a defect and may be lost."""

BLIND_AFTER = 15.0
"""Seconds for which a kind that was seen cannot be seen before that is told: an API server that restarts is back by
then, and one that is not is told as unreachable as a whole."""


@dataclass(frozen=True, slots=True, order=True)
class Watch:
    """What is watched: a kind at a version, under a label selector, in one namespace ("": in all). `lean`: only
    metadata is needed."""

    gvk: GroupVersionKind
    selector: str
    namespace: str = ""
    lean: bool = False


DEFINITIONS = Watch(DEFINITION, "", lean=True)
"""Those that Git declares are compared, so they are watched whole beside it."""


@dataclass(frozen=True, slots=True)
class Blind:
    """A kind that was seen and cannot be seen any more: what is known of it is as of `since` (Unix seconds)."""

    gvk: GroupVersionKind
    since: float
    error: ApiError

    @property
    def sentence(self) -> str:
        return f"{self.gvk.kind} objects cannot be seen: {self.error}"


class Sight(enum.StrEnum):
    """What is known of a watched kind."""

    UNKNOWN = "unknown"  # not listed yet, or it cannot be listed
    UNSERVED = "unserved"  # the cluster has no such kind, or keeps no objects of it
    SYNCED = "synced"


@dataclass(frozen=True, slots=True)
class _Definition:
    """What is kept of a CRD."""

    uid: str
    generation: int
    resource_version: str

    def same_schema(self, other: _Definition) -> bool:
        return (self.uid, self.generation) == (other.uid, other.generation)


class Watches:
    """`on_event` gets every event of every watch, in order per watch; `on_sight` is called when what is known of a
    kind changes, or why it is unknown; `on_blind` when a kind cannot be seen any more, or can again; `on_definition`
    when a CRD came, went or changed after the first list. They run on the loop and must not block."""

    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        *,
        on_event: Callable[[Watch, Event], None],
        on_sight: Callable[[Watch, Sight], None],
        on_blind: Callable[[GroupVersionKind], None],
        on_definition: Callable[[], None],
        wall: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._connection = connection
        self._discovery = discovery
        self._on_event = on_event
        self._on_sight = on_sight
        self._on_blind = on_blind
        self._on_definition = on_definition
        self._wall = wall
        self._rng = rng
        self._tasks: dict[Watch, asyncio.Task[None]] = {}
        self._reflectors: dict[Watch, Reflector] = {}
        self._sights: dict[Watch, Sight] = {}
        self._errors: dict[Watch, ApiError] = {}
        self._begun: dict[Watch, float] = {}
        self._blind: dict[Watch, Blind] = {}
        self._listeners: dict[Watch, list[asyncio.Future[bool]]] = {}  # who waits for a list of it
        self._definitions: dict[str, _Definition] = {}
        self._signal = asyncio.Event()
        """Set when a kind may be served that was not, and replaced by another: who takes it before looking misses
        nothing."""
        self._looks = LOOKS  # how often discovery is asked after the last signal

    def want(self, watches: Iterable[Watch]) -> None:
        """Watch exactly these, and the cluster's CRDs: a new or changed definition changes what is served."""
        wanted = {*watches, DEFINITIONS}
        for watch in [w for w in self._tasks if w not in wanted]:
            self.drop(watch)
        for watch in sorted(wanted - self._tasks.keys()):
            self._sights[watch] = Sight.UNKNOWN
            self._begun[watch] = self._wall()
            self._tasks[watch] = asyncio.create_task(self._run(watch), name=f"watch {watch.gvk} {watch.selector}")

    def drop(self, watch: Watch) -> None:
        """End a watch; when it is wanted again, everything of it is delivered anew."""
        task = self._tasks.pop(watch, None)
        if task is not None:
            task.cancel()
        self._reflectors.pop(watch, None)
        self._sights.pop(watch, None)
        self._errors.pop(watch, None)
        self._begun.pop(watch, None)
        self._answer(watch, listed=False)
        self._seen_again(watch)

    def sight(self, watch: Watch) -> Sight:
        return self._sights.get(watch, Sight.UNKNOWN)

    def holds(self, watch: Watch, ref: ObjectRef, uid: str) -> bool:
        """Whether the watch knows this object to exist; True as long as it knows nothing."""
        reflector = self._reflectors.get(watch)
        return reflector is None or not reflector.synced or reflector.holds(ref, uid)

    def error(self, watch: Watch) -> ApiError | None:
        """Why a kind is unknown, as far as that is known."""
        return self._errors.get(watch)

    def blind(self) -> Mapping[GroupVersionKind, Blind]:
        """What was seen and cannot be seen any more."""
        return {watch.gvk: blind for watch, blind in self._blind.items()}

    def heard(self) -> dict[str, float]:
        """When the server last said anything of a kind that it serves (Unix seconds), by kind and group; of the watch
        that is silent longest, where a kind has several. May be asked in any thread."""
        heard: dict[str, float] = {}
        for watch, begun in list(self._begun.items()):
            if self._sights.get(watch) is not Sight.UNSERVED:
                reflector, kind = self._reflectors.get(watch), str(watch.gvk.group_kind)
                at = max(begun, reflector.heard_at) if reflector is not None else begun
                heard[kind] = min(at, heard.get(kind, at))
        return heard

    def listed(self) -> list[Watch]:
        """What is watched and can be listed, in order."""
        return sorted(w for w in self._reflectors if self.sight(w) is Sight.SYNCED)

    async def list_again(self, watch: Watch, *, within: float) -> bool:
        """List a kind once more and deliver every object of it; False when that cannot be done in so many seconds."""
        reflector = self._reflectors.get(watch)
        if reflector is None:
            return False
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._listeners.setdefault(watch, []).append(done)
        reflector.request_relist()
        try:
            async with asyncio.timeout(within):
                return await done
        except TimeoutError:
            return False

    def definitions(self) -> Mapping[str, tuple[str, int]]:
        """uid and generation of every CRD by name; empty while they are not known."""
        if self.sight(DEFINITIONS) is not Sight.SYNCED:
            return {}
        return {name: (seen.uid, seen.generation) for name, seen in self._definitions.items()}

    def look_again(self) -> None:
        """The cluster can be reached again, or serves new kinds: end every back-off."""
        self._wake()
        for reflector in self._reflectors.values():
            if reflector.stale is not None:
                reflector.request_relist()

    def notice_served(self) -> None:
        """Begin the watches of kinds that discovery found since: no definition tells that an aggregated API came."""
        known = self._discovery.known()
        if any(
            sight is Sight.UNSERVED and watch.gvk in known and known[watch.gvk].stored
            for watch, sight in self._sights.items()
        ):
            self._wake(looks=1)

    def _wake(self, *, looks: int = LOOKS) -> None:
        self._looks = looks
        self._signal.set()
        self._signal = asyncio.Event()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        for watch in list(self._listeners):
            self._answer(watch, listed=False)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, watch: Watch) -> None:
        try:
            path = await self._path(watch)
            collection = Collection(watch.gvk, path, watch.selector, metadata_only=watch.lean)
            reflector = Reflector(self._connection, collection, clock=self._wall, rng=self._rng)
            self._reflectors[watch] = reflector
            async with contextlib.aclosing(reflector.events()) as events:
                async for event in events:
                    self._note(watch, event)
                    try:
                        self._on_event(watch, event)
                    except Exception:  # one object that meets a defect must not blind us for all of its kind
                        _log.exception("an event of %s cannot be taken in; all are listed again in a minute", watch.gvk)
                        asyncio.get_running_loop().call_later(LIST_AGAIN, self._heal, watch, reflector)
                    if isinstance(event, Synced):
                        self._answer(watch, listed=True)
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("the watch of %s ended unexpectedly; begun again in 5 s", watch.gvk)
            self._see(watch, Sight.UNKNOWN)
            asyncio.get_running_loop().call_later(5.0, self._restart, watch)

    def _heal(self, watch: Watch, reflector: Reflector) -> None:
        if self._reflectors.get(watch) is reflector and watch in self._tasks:
            reflector.request_relist()

    def _restart(self, watch: Watch) -> None:
        task = self._tasks.get(watch)
        if task is not None and task.done():
            self._tasks[watch] = asyncio.create_task(self._run(watch), name=f"watch {watch.gvk} {watch.selector}")

    async def _path(self, watch: Watch) -> str:
        """Where the kind is served; waits until it is.

        A kind that is not served costs nothing until a CRD changes; discovery then lags behind the definition for a
        moment, so it is asked a few times.
        """
        failures, asked = 0, LOOKS
        while True:
            signal = self._signal
            found = await self._discovery.find(watch.gvk)
            if not isinstance(found, ApiError):
                return found.path(namespace=watch.namespace)
            unserved = found.cls in (ErrorClass.WAITING, ErrorClass.REFUSED)
            failures = 0 if unserved else failures + 1
            asked = asked + 1 if unserved else 0
            self._see(watch, Sight.UNSERVED if unserved else Sight.UNKNOWN)
            self._fail(watch, found)
            pause = backoff(found.cls if not unserved else ErrorClass.GONE, failures or asked, self._rng)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if not unserved or asked < LOOKS else None):
                    await signal.wait()
                    asked = LOOKS - self._looks

    def _note(self, watch: Watch, event: Event) -> None:
        if isinstance(event, Synced):
            self._errors.pop(watch, None)
            self._see(watch, Sight.SYNCED)
        elif isinstance(event, Fresh):
            self._errors.pop(watch, None)
            self._seen_again(watch)
        elif isinstance(event, Stale):
            self._fail(watch, event.error)
            self._answer(watch, listed=False)
            if event.error.cls in (ErrorClass.WAITING, ErrorClass.GONE):
                self._discovery.invalidate()
            elif event.since:
                asyncio.get_running_loop().call_later(BLIND_AFTER, self._still_blind, watch, event.since)
        elif watch.gvk == DEFINITION:
            self._definition(event)

    def _still_blind(self, watch: Watch, since: float) -> None:
        reflector = self._reflectors.get(watch)
        error = None if reflector is None or watch not in self._tasks else reflector.stale
        if error is not None and error.cls not in (ErrorClass.WAITING, ErrorClass.GONE) and watch not in self._blind:
            self._blind[watch] = Blind(watch.gvk, since, error)
            self._on_blind(watch.gvk)

    def _seen_again(self, watch: Watch) -> None:
        if self._blind.pop(watch, None) is not None:
            self._on_blind(watch.gvk)

    def _answer(self, watch: Watch, *, listed: bool) -> None:
        for waiting in self._listeners.pop(watch, ()):
            if not waiting.done():
                waiting.set_result(listed)

    def _definition(self, event: Changed | Deleted | Vanished) -> None:
        """What a CRD that came, went or changed means for the watches of its group."""
        if not isinstance(event, Changed):
            name = event.ref.name if isinstance(event, Vanished) else str(event.obj["metadata"]["name"])
            self._definitions.pop(name, None)
            self._discovery.invalidate()
            self._on_definition()
            return
        metadata = event.obj["metadata"]
        name = str(metadata["name"])
        seen = _Definition(metadata.get("uid", ""), metadata.get("generation", 0), metadata.get("resourceVersion", ""))
        known = self._definitions.get(name)
        self._definitions[name] = seen
        group = name.partition(".")[2]
        waiting = any(w.gvk.group == group and w not in self._reflectors for w in self._tasks)
        if seen == known or (self.sight(DEFINITIONS) is not Sight.SYNCED and not waiting):
            return  # listed again, or for the first time
        self._discovery.invalidate()
        synced = self.sight(DEFINITIONS) is Sight.SYNCED
        if synced:
            self._on_definition()
        if waiting:
            # A definition that was there already is served already: one look is enough to have missed nothing.
            self._wake(looks=LOOKS if synced else 1)
        if known is None or not seen.same_schema(known):
            self._list_again(group)

    def _list_again(self, group: str) -> None:
        """Fields may have left the objects of this group without an event (ssa-live 18)."""
        for watch, reflector in self._reflectors.items():
            if watch.gvk.group == group and watch.gvk != DEFINITION:
                reflector.request_relist()

    def _fail(self, watch: Watch, error: ApiError) -> None:
        known = self._errors.get(watch)
        self._errors[watch] = error
        if self.sight(watch) is Sight.UNKNOWN and (known is None or known.cls is not error.cls):
            self._on_sight(watch, Sight.UNKNOWN)

    def _see(self, watch: Watch, sight: Sight) -> None:
        if watch in self._tasks and self._sights.get(watch) is not sight:
            self._sights[watch] = sight
            self._on_sight(watch, sight)
