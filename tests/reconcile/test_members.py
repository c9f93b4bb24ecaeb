"""Whatever happens in whatever order, no object of ours is without a parent that names it, and nothing is deleted that
is declared or not ours: a law over random histories (cases.md R03-R06, R13, R15).

Real are the units' work, the pruner, the state and the parents' store, in chunks as small as they get; the API server
is a dictionary. A history is made of commits, foreign writers, late events, and of runs of several units at once to
which something comes at any call: killed before or after it was done, its answer lost, another head meanwhile.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops.cluster import parents as stored_parents
from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import DeleteOutcome, DeleteResult, Listing
from gitops.cluster.parent_chunks import is_chunk
from gitops.cluster.parents import ParentStore, StoredParents
from gitops.cluster.watch_events import Changed, Deleted
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.plan.pruning import applied_by
from gitops.plan.units import RECONCILER_LABEL, DesiredObject
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.context import Context
from gitops.reconcile.options import EngineOptions
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from tests.reconcile.conftest import CLUSTER, MANAGER, RECONCILER, Clock, FakeCluster, FakeContents, Kit, unit_work

T = TypeVar("T")
Json = dict[str, Any]

UNITS = ("red", "green", "blue")
NAMES = tuple("abcdef")
MAPPINGS = Mappings.shipped()
LOST = ApiError(ErrorClass.UNREACHABLE, message="the answer was lost")


class Killed(BaseException):
    """The process is gone: nothing after this call happens."""


class Server(FakeCluster):
    """An API server in memory. At call number `fateful` its `fate` comes; `meanwhile` is what happens then."""

    def __init__(self) -> None:
        super().__init__()
        self.fateful, self.fate = -1, ""
        self.meanwhile: Callable[[], None] = lambda: None
        self.may_delete: Callable[[ObjectRef, Json], None] = lambda ref, live: None
        self.dead = False
        self.number = 0
        self._uids = itertools.count(1)

    async def _do(self, call: Callable[[], Awaitable[T]], lost: T) -> T:
        await asyncio.sleep(0)
        if self.dead:
            raise Killed
        self.number += 1
        fate = self.fate if self.number == self.fateful else ""
        if fate == "killed before":
            self.dead = True
            raise Killed
        if fate == "meanwhile":
            self.meanwhile()
        answer = await call()
        if fate == "killed after":
            self.dead = True
            raise Killed
        await asyncio.sleep(0)
        if self.dead:
            raise Killed
        return lost if fate == "lost" else answer

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    async def get(self, gvk: GroupVersionKind, ref: ObjectRef) -> Json | ApiError | None:
        return await self._do(lambda: super(Server, self).get(gvk, ref), LOST)

    async def apply(self, obj: Any, **options: Any) -> ApplyOutcome:
        lost = ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=ApplyResult.ERROR, error=LOST)
        return await self._do(lambda: super(Server, self).apply(obj, **options), lost)

    def _merged(self, obj: Any, before: Json | None) -> Json:
        live = super()._merged(obj, before)
        if before is None:
            live["metadata"]["uid"] = f"uid-{next(self._uids)}"
        return live

    async def adopt(self, obj: DesiredObject, live: Json, **takeover: Any) -> ApplyOutcome:
        lost = ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=ApplyResult.ERROR, error=LOST)
        return await self._do(lambda: super(Server, self).adopt(obj, live, **takeover), lost)

    async def delete(self, gvk: GroupVersionKind, ref: ObjectRef, **conditions: Any) -> DeleteOutcome:
        return await self._do(
            lambda: self._delete(ref, **conditions), DeleteOutcome(ref, DeleteResult.ERROR, error=LOST)
        )

    async def _delete(
        self, ref: ObjectRef, *, uid: str, resource_version: str, wanted: Any = None, propagation: str = ""
    ) -> DeleteOutcome:
        live = self.objects.get(ref)
        if live is None:
            return DeleteOutcome(ref, DeleteResult.ABSENT)
        metadata = live["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (uid, resource_version) or (wanted and not wanted()):
            return DeleteOutcome(ref, DeleteResult.ERROR, error=ApiError(ErrorClass.STALE, 409, "Conflict", "stale"))
        self.may_delete(ref, live)
        del self.objects[ref]
        return DeleteOutcome(ref, DeleteResult.DELETED)

    # what the parents' store needs beside

    async def list_objects(self, gvk: GroupVersionKind, **options: Any) -> Listing | ApiError:
        found = [copy.deepcopy(o) for ref, o in self.objects.items() if ref.namespace == SYSTEM_NAMESPACE]
        return Listing(tuple(found), "1")

    async def create(self, gvk: GroupVersionKind, ref: ObjectRef, body: Json, **options: Any) -> Json | ApiError:
        return await self._do(lambda: self._create(ref, body), LOST)

    async def _create(self, ref: ObjectRef, body: Json) -> Json | ApiError:
        if ref in self.objects:
            return ApiError(ErrorClass.STALE, 409, "AlreadyExists", "there is one")
        live = copy.deepcopy(body)
        live["metadata"] |= {"uid": f"uid-{next(self._uids)}", "resourceVersion": self._next()}
        self.objects[ref] = live
        return copy.deepcopy(live)

    async def merge_patch(self, gvk: GroupVersionKind, ref: ObjectRef, patch: Json, **options: Any) -> Json | ApiError:
        return await self._do(lambda: self._patch(ref, patch), LOST)

    async def _patch(self, ref: ObjectRef, patch: Json) -> Json | ApiError:
        live = self.objects.get(ref)
        if live is None:
            return ApiError(ErrorClass.GONE, 404, "NotFound", "gone")
        if patch["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            return ApiError(ErrorClass.STALE, 409, "Conflict", "stale")
        live["metadata"] |= {**patch["metadata"], "resourceVersion": self._next()}
        live["data"] = {**patch["data"]}
        return copy.deepcopy(live)


class World:
    """A repository, a cluster, and one daemon after the other between them."""

    def __init__(self, mappings: Mappings) -> None:
        self.kit, self.server, self.mappings = Kit(), Server(), mappings
        self.server.may_delete = self._check_delete
        self.clock = Clock()
        self.owners: dict[str, str] = {}  # Git: object → its unit
        self.contents: dict[str, int] = {}  # Git: object → what it says
        self.commits = 0
        self.stripped: set[str] = set()  # uids of objects that lost our labels to somebody
        self.boot()

    # -- Git -----------------------------------------------------------------------------------------------------

    def key(self, unit: str) -> UnitKey:
        return self.kit.other_key(unit)

    def commit(self, owners: Mapping[str, str | None], change: str = "") -> None:
        self.commits += 1
        self.owners = {**self.owners, **owners}
        self.owners = {name: unit for name, unit in self.owners.items() if unit}
        self.contents = {name: self.contents.get(name, 0) + (name == change) for name in self.owners}

    def declared(self) -> dict[ObjectRef, str]:
        return {self.kit.ref(name): unit for name, unit in self.owners.items()}

    def assign(self) -> None:
        """The daemon takes the head."""
        units = []
        for unit in UNITS:
            key = self.key(unit)
            names = sorted(n for n, u in self.owners.items() if u == unit)
            objects = [self.kit.desired(n, key=key, data={"v": str(self.contents[n])}) for n in names]
            if objects:
                content = ",".join(f"{n}{self.contents[n]}" for n in names)
                units.append(self.kit.unit(*objects, key=key, content=content, commit=f"c{self.commits}"))
        self.state.assign(self.kit.assignment(*units, commit=f"c{self.commits}"))

    # -- the daemon ----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        server, clock = self.server, self.clock
        server.dead, server.fateful, server.fate = False, -1, ""
        self.state = ClusterState(CLUSTER, RECONCILER)
        self.seen: dict[ObjectRef, Json] = {}
        self.late: list[Changed | Deleted] = []
        self.store = ParentStore(server, reconciler=RECONCILER, cluster=CLUSTER, manager=MANAGER)  # type: ignore[arg-type]
        stored = asyncio.run(self.store.load_all())
        assert isinstance(stored, StoredParents)
        assert stored.unreadable == ()
        self.state.parents = dict(stored.records)
        context = Context(
            EngineOptions(identity="me"), OperatorRegistry.shipped(), self.mappings, clock, clock, rng=random.Random(1)
        )
        self.sightings = Sightings(self.state, context, look=lambda key, urgent: None, touched=lambda key: None)
        self.work = unit_work(
            self.state,
            applier=server,
            parents=self.store,
            contents=FakeContents(),
            context=context,
            sightings=self.sightings,
        )
        self.assign()
        self.watch()

    def note(self, ref: ObjectRef) -> None:
        """The object is about to be changed: a watch tells that it was there, too."""
        live, seen = copy.deepcopy(self.server.objects[ref]), self.seen.get(ref)
        if seen is not None and seen["metadata"]["uid"] != live["metadata"]["uid"]:
            self.late.append(Deleted(seen))
        self.late.append(Changed(copy.deepcopy(live)))
        self.seen[ref] = live

    def watch(self) -> None:
        """The events since it looked last."""
        for event in self.late:
            self.sightings.declared_event(event)
        self.late.clear()
        now = {
            ref: live
            for ref, live in self.server.objects.items()
            if ref.namespace != SYSTEM_NAMESPACE
            and (live["metadata"].get("labels") or {}).get(RECONCILER_LABEL) == RECONCILER
        }
        for ref, live in list(self.seen.items()):
            if ref not in now or now[ref]["metadata"]["uid"] != live["metadata"]["uid"]:
                self.sightings.declared_event(Deleted(live))
                del self.seen[ref]
        for ref, live in now.items():
            if self.seen.get(ref, {}).get("metadata", {}).get("resourceVersion") != live["metadata"]["resourceVersion"]:
                self.seen[ref] = copy.deepcopy(live)
                self.sightings.declared_event(Changed(copy.deepcopy(live)))

    def run(
        self, units: list[str], *, fate: str = "", after: int = 1, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """The units' work, at once; `fate` comes to the call number `after`."""
        self.server.fate, self.server.fateful = fate, self.server.number + after
        self.server.meanwhile = meanwhile or (lambda: None)

        async def one(unit: str) -> None:
            key = self.key(unit)
            if key not in self.state.units:
                return
            outcome = await self.work.run(key)
            if key in self.state.units:
                self.state.units[key].outcome = outcome

        async def every() -> None:
            for result in await asyncio.gather(*map(one, units), return_exceptions=True):
                if isinstance(result, BaseException) and not isinstance(result, Killed):
                    raise result

        asyncio.run(every())
        self.server.fate = ""
        if self.server.dead:
            self.boot()

    # -- the laws ------------------------------------------------------------------------------------------------

    def ours(self) -> dict[ObjectRef, Json]:
        return {
            ref: live
            for ref, live in self.server.objects.items()
            if ref.namespace != SYSTEM_NAMESPACE
            and RECONCILER_LABEL in (live["metadata"].get("labels") or {})
            and applied_by(live["metadata"], MANAGER)
        }

    def _check_delete(self, ref: ObjectRef, live: Json) -> None:
        if ref.namespace == SYSTEM_NAMESPACE:
            return
        assert self.state.declared(ref) is None, f"{ref} is declared and deleted"
        assert ref in self.ours(), f"{ref} is not ours and deleted"

    def check(self) -> None:
        stored = asyncio.run(
            ParentStore(self.server, reconciler=RECONCILER, cluster=CLUSTER, manager=MANAGER).load_all()  # type: ignore[arg-type]
        )
        assert isinstance(stored, StoredParents)
        assert stored.unreadable == ()
        named: dict[ObjectRef, set[str]] = {}
        for record in stored.records.values():
            for member in record.members:
                named.setdefault(member.ref, set()).add(member.uid)
        for ref, live in self.ours().items():
            if live["metadata"]["uid"] not in self.stripped:
                assert named.get(ref, set()) & {"", live["metadata"]["uid"]}, f"{ref} is an orphan"

    def settle(self) -> None:
        """Without faults all comes to rest, and then lives what is declared and nothing else of ours."""
        self.assign()
        for _ in range(8):
            self.clock.now += 3600
            self.watch()
            self.run(list(UNITS))
            self.check()
        outcomes = {str(key): (unit.outcome.state, unit.outcome.sentence) for key, unit in self.state.units.items()}
        assert set(self.ours()) - self._stripped_refs() == set(self.declared()), outcomes
        records = self.state.parents
        members = {m.ref: (k.name, m.uid) for k, r in records.items() for m in r.members}
        live = {ref: (unit, self.server.objects[ref]["metadata"]["uid"]) for ref, unit in self.declared().items()}
        assert members == live
        named = {n for o in self.server.objects.values() for n in stored_parents.chunk_names(o)}
        chunks = {r.name for r, o in self.server.objects.items() if r.namespace == SYSTEM_NAMESPACE and is_chunk(o)}
        assert chunks <= named or not records, "chunks that no parent names"

    def _stripped_refs(self) -> set[ObjectRef]:
        return {
            r for r, o in self.server.objects.items() if o["metadata"]["uid"] in self.stripped
        } - self.declared().keys()


# -- histories -------------------------------------------------------------------------------------------------------

FATES = ("", "", "killed before", "killed after", "lost", "meanwhile")
owners = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*UNITS, None]), min_size=1, max_size=4)
commits = st.tuples(st.just("commit"), owners, st.sampled_from(NAMES))
renames = st.tuples(st.just("rename"), st.sampled_from(UNITS), st.sampled_from(UNITS))
runs = st.tuples(
    st.just("run"),
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=3, unique=True),
    st.sampled_from(FATES),
    st.integers(1, 14),
    owners,
    st.booleans(),
)
foreign = st.tuples(st.sampled_from(["delete", "create", "strip", "replace", "restart"]), st.sampled_from(NAMES))
histories = st.lists(st.one_of(commits, renames, runs, runs, runs, foreign), min_size=2, max_size=14)


def foreign_write(world: World, what: str, name: str) -> None:
    ref = world.kit.ref(name)
    if ref in world.ours():
        world.note(ref)
    if what in ("delete", "replace"):
        world.server.objects.pop(ref, None)
    if what in ("create", "replace") and ref not in world.server.objects:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {}}
        asyncio.run(world.server._create(ref, body))
        world.server.objects[ref]["metadata"]["managedFields"] = []
    if what == "strip" and ref in world.server.objects:
        metadata = world.server.objects[ref]["metadata"]
        metadata["labels"], metadata["resourceVersion"] = {}, world.server._next()
        world.stripped.add(metadata["uid"])
    if what == "restart":
        world.boot()


def play(world: World, history: list[Any]) -> None:
    for what, *rest in history:
        if what == "commit":
            world.commit(*rest)
            world.assign()
        elif what == "rename":
            world.commit({name: rest[1] for name, unit in world.owners.items() if unit == rest[0]})
            world.assign()
        elif what == "run":
            units, fate, after, next_owners, sees = rest

            def head(next_owners: Mapping[str, str | None] = next_owners) -> None:
                world.commit(next_owners)
                world.assign()

            if sees:
                world.watch()
            world.run(units, fate=fate, after=after, meanwhile=head)
        else:
            foreign_write(world, what, rest[0])
        world.check()
    world.settle()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_r04_r05_r06_r15_no_orphan_and_no_deletion_without_proof(history: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_parents, "MAX_RECORD", 330)
        play(World(MAPPINGS), history)
