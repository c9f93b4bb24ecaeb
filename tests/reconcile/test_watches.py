"""The set of watches of a cluster, over a scripted API server, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gitops.cluster.discovery import Resource, not_served
from gitops.cluster.errors import ApiError, ErrorClass, classify
from gitops.cluster.reflecting import Changed, Event, Vanished
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import DEFINITION
from gitops.reconcile.watches import BLIND_AFTER, DEFINITIONS, LOOKS, Sight, Watch, Watches

pytestmark = [pytest.mark.looptime]

MAPS = GroupVersionKind("", "v1", "ConfigMap")
GADGETS = GroupVersionKind("test.example", "v1", "Gadget")
ON_MAPS, ON_GADGETS = Watch(MAPS, "x=y"), Watch(GADGETS, "x=y")


@dataclass
class Answer:
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 300

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError:
        return classify(self.status, {}, self.body, resource=resource)


class Server:
    """Discovery and lists by kind; every watch hangs until `tell` says something on it."""

    def __init__(self) -> None:
        self.served = {MAPS, DEFINITION}
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.failing: ApiError | None = None
        self.finds: list[GroupVersionKind] = []
        self.lists: list[str] = []
        self.asked: list[tuple[str, str, bool]] = []  # path, selector, metadata only
        self.invalidations = 0
        self.broken: dict[str, int] = {}  # path → HTTP status of every list
        self._lines: dict[str, asyncio.Queue[bytes]] = {}

    # discovery
    async def find(self, gvk: GroupVersionKind) -> Resource | ApiError:
        self.finds.append(gvk)
        answer = self.failing or (self._resource(gvk) if gvk in self.served else not_served(gvk))
        await asyncio.sleep(0.01)  # the answer is as old as its request
        return answer

    def _resource(self, gvk: GroupVersionKind) -> Resource:
        return Resource(gvk, gvk.kind.lower() + "s", True, frozenset({"list", "watch"}))

    def invalidate(self) -> None:
        self.invalidations += 1

    def finds_of(self, gvk: GroupVersionKind) -> int:
        return self.finds.count(gvk)

    # transport
    async def request(self, method: str, path: str, *, query: Any, accept: str, **_: Any) -> Answer:
        if path in self.broken:
            message = {"kind": "Status", "status": "Failure", "code": self.broken[path], "message": "scripted"}
            return Answer(self.broken[path], json.dumps(message).encode())
        self.lists.append(path)
        self.asked.append((path, query.get("labelSelector", ""), "PartialObjectMetadata" in accept))
        items = self.objects.get(path, [])
        return Answer(200, json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode())

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        queue = self._lines.setdefault(path, asyncio.Queue())

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield lines()

    def tell(self, gvk: GroupVersionKind, kind: str, obj: dict[str, Any]) -> None:
        self._lines.setdefault(self._resource(gvk).path(), asyncio.Queue()).put_nowait(
            json.dumps({"type": kind, "object": obj}).encode()
        )

    def path(self, gvk: GroupVersionKind) -> str:
        return self._resource(gvk).path()


def definition(name: str = "gadgets.test.example", *, version: str = "9", generation: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "generation": generation, "resourceVersion": version}}


class Told:
    def __init__(self) -> None:
        self.sights: list[tuple[Watch, Sight]] = []
        self.events: list[tuple[Watch, Event]] = []
        self.definitions = 0
        self.blind: list[GroupVersionKind] = []
        self.crash: Exception | None = None

    def on_definition(self) -> None:
        self.definitions += 1

    def on_sight(self, watch: Watch, sight: Sight) -> None:
        self.sights.append((watch, sight))

    def on_event(self, watch: Watch, event: Event) -> None:
        if self.crash is not None and watch.gvk != DEFINITION:
            crash, self.crash = self.crash, None
            raise crash
        self.events.append((watch, event))

    def of(self, watch: Watch) -> list[Sight]:
        return [sight for seen, sight in self.sights if seen == watch]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def watches(server: Server, told: Told) -> AsyncIterator[Watches]:
    found = Watches(
        server,  # type: ignore[arg-type]
        server,  # type: ignore[arg-type]
        on_event=told.on_event,
        on_sight=told.on_sight,
        on_blind=told.blind.append,
        on_definition=told.on_definition,
        wall=lambda: 1000.0 + asyncio.get_running_loop().time(),
        rng=random.Random(1),
    )
    yield found
    await found.close()


async def test_a_wanted_kind_is_listed_and_watched(server: Server, told: Told, watches: Watches) -> None:
    server.objects[server.path(MAPS)] = [{"metadata": {"name": "a", "uid": "1", "resourceVersion": "2"}}]
    watches.want([ON_MAPS])
    assert watches.sight(ON_MAPS) is Sight.UNKNOWN
    await asyncio.sleep(1)
    assert watches.sight(ON_MAPS) is Sight.SYNCED
    assert [e.obj["metadata"]["name"] for w, e in told.events if w == ON_MAPS and isinstance(e, Changed)] == ["a"]


async def test_a_kind_that_is_wanted_no_more_is_watched_no_more(server: Server, told: Told, watches: Watches) -> None:
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    watches.want([])
    server.tell(MAPS, "ADDED", {"metadata": {"name": "a", "uid": "1", "resourceVersion": "6"}})
    before = len(told.events)
    await asyncio.sleep(10)
    assert (watches.sight(ON_MAPS), len(told.events)) == (Sight.UNKNOWN, before)


# -- kinds that are not served ---------------------------------------------------------------------------------------


async def test_an_unserved_kind_is_known_to_be_so_and_costs_no_discovery_until_a_definition_comes(
    server: Server, watches: Watches
) -> None:
    watches.want([ON_GADGETS])
    await asyncio.sleep(3600)
    assert watches.sight(ON_GADGETS) is Sight.UNSERVED
    assert server.finds_of(GADGETS) == 1
    server.served.add(GADGETS)
    server.tell(DEFINITION, "ADDED", definition())
    await asyncio.sleep(1)
    assert watches.sight(ON_GADGETS) is Sight.SYNCED
    assert server.invalidations == 1


async def test_discovery_that_lags_behind_a_definition_is_asked_a_few_times(server: Server, watches: Watches) -> None:
    watches.want([ON_GADGETS])
    await asyncio.sleep(60)
    server.tell(DEFINITION, "ADDED", definition())
    await asyncio.sleep(3600)
    assert server.finds_of(GADGETS) == 1 + LOOKS


async def test_a_definition_of_another_group_wakes_nobody(server: Server, watches: Watches) -> None:
    watches.want([ON_GADGETS])
    await asyncio.sleep(60)
    server.tell(DEFINITION, "ADDED", definition("others.example"))
    await asyncio.sleep(3600)
    assert server.finds_of(GADGETS) == 1


async def test_a_definition_made_while_the_first_look_was_under_way_is_not_missed(
    server: Server, watches: Watches
) -> None:
    """It is in the first list of definitions already: no event will ever tell of it."""
    watches.want([ON_GADGETS])
    await asyncio.sleep(0.005)  # discovery was asked and has no gadgets
    server.served.add(GADGETS)
    server.objects[server.path(DEFINITION)] = [definition()]
    await asyncio.sleep(30)
    assert watches.sight(ON_GADGETS) is Sight.SYNCED


async def test_a_definition_that_comes_in_the_middle_of_a_look_is_not_missed(server: Server, watches: Watches) -> None:
    watches.want([ON_GADGETS])
    await asyncio.sleep(60)
    server.tell(DEFINITION, "ADDED", definition(version="9"))
    for attempt in range(200):  # somewhere among these it meets a look under way
        await asyncio.sleep(0.005)
        server.tell(DEFINITION, "MODIFIED", definition(version=str(10 + attempt)))
    server.served.add(GADGETS)
    server.tell(DEFINITION, "MODIFIED", definition(version="1000"))
    await asyncio.sleep(2)
    assert watches.sight(ON_GADGETS) is Sight.SYNCED


async def test_a_cluster_that_cannot_say_what_it_serves_leaves_the_kind_unknown_and_is_asked_again(
    server: Server, watches: Watches
) -> None:
    server.failing = ApiError(ErrorClass.RETRY, message="discovery is down")
    watches.want([ON_MAPS])
    await asyncio.sleep(5)
    assert watches.sight(ON_MAPS) is Sight.UNKNOWN
    assert watches.error(ON_MAPS) is server.failing
    server.failing = None
    await asyncio.sleep(60)
    assert (watches.sight(ON_MAPS), watches.error(ON_MAPS)) == (Sight.SYNCED, None)


async def test_look_again_ends_the_back_off(server: Server, watches: Watches) -> None:
    server.failing = ApiError(ErrorClass.RETRY)
    watches.want([ON_MAPS])
    await asyncio.sleep(300)
    server.failing = None
    watches.look_again()
    await asyncio.sleep(0.5)
    assert watches.sight(ON_MAPS) is Sight.SYNCED


# -- definitions that change -----------------------------------------------------------------------------------------


async def watch_gadgets(server: Server, watches: Watches) -> None:
    """Gadgets are served and watched, their definition is known."""
    server.served.add(GADGETS)
    server.objects[server.path(DEFINITION)] = [definition()]
    watches.want([ON_GADGETS, ON_MAPS])
    await asyncio.sleep(1)
    server.lists.clear()
    server.invalidations = 0


async def test_a_changed_schema_lists_its_group_again_and_nothing_else(server: Server, watches: Watches) -> None:
    await watch_gadgets(server, watches)
    server.tell(DEFINITION, "MODIFIED", definition(version="10", generation=2))
    await asyncio.sleep(1)
    assert server.lists == [server.path(GADGETS)]
    assert server.invalidations == 1


async def test_a_definition_whose_status_alone_moved_lists_nothing(server: Server, watches: Watches) -> None:
    await watch_gadgets(server, watches)
    server.tell(DEFINITION, "MODIFIED", definition(version="10"))
    await asyncio.sleep(1)
    assert server.lists == []


async def test_definitions_that_are_listed_again_change_nothing(server: Server, watches: Watches) -> None:
    await watch_gadgets(server, watches)
    server.tell(DEFINITION, "ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    await asyncio.sleep(5)
    assert server.lists == [server.path(DEFINITION)]
    assert server.invalidations == 0


async def test_a_definition_that_went_makes_discovery_look_again(server: Server, watches: Watches) -> None:
    await watch_gadgets(server, watches)
    server.tell(DEFINITION, "DELETED", definition(version="10"))
    await asyncio.sleep(1)
    assert (server.invalidations, server.lists) == (1, [])


async def test_definitions_that_git_declares_are_watched_whole_beside_the_metadata_of_all(
    server: Server, watches: Watches
) -> None:
    """Metadata alone would look as if everything else had been removed."""
    watches.want([Watch(DEFINITION, "x=y")])
    await asyncio.sleep(1)
    path = server.path(DEFINITION)
    assert sorted(server.asked) == [(path, "", True), (path, "x=y", False)]


# -- kinds that cannot be seen any more ------------------------------------------------------------------------------


EXPIRED = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}


async def test_a02_a_kind_that_cannot_be_listed_any_more_is_told_after_a_while_and_when_it_can_be_again(
    server: Server, told: Told, watches: Watches
) -> None:
    await watch_gadgets(server, watches)
    server.broken[server.path(GADGETS)] = 500
    server.tell(GADGETS, "ERROR", EXPIRED)
    await asyncio.sleep(BLIND_AFTER - 2)
    assert (watches.blind(), told.blind) == ({}, []), "an API server that restarts is back by then"
    await asyncio.sleep(10)
    blind = watches.blind()[GADGETS]
    assert blind.since == pytest.approx(1001, abs=1), "what was seen last"
    assert "scripted" in blind.sentence
    assert told.blind == [GADGETS]
    assert watches.sight(ON_GADGETS) is Sight.SYNCED, "what was known stays known"
    assert not [e for w, e in told.events if w == ON_GADGETS and isinstance(e, Vanished)]
    await asyncio.sleep(600)
    heard = watches.heard()
    assert heard["Gadget.test.example"] == pytest.approx(1001, abs=2)
    assert told.blind == [GADGETS], "told once"
    server.broken.clear()
    await asyncio.sleep(300)
    assert (watches.blind(), told.blind) == ({}, [GADGETS, GADGETS])
    assert watches.heard()["Gadget.test.example"] > heard["Gadget.test.example"] + 600


async def test_a02_a_kind_that_is_not_served_any_more_is_known_to_be_so(
    server: Server, told: Told, watches: Watches
) -> None:
    await watch_gadgets(server, watches)
    server.broken[server.path(GADGETS)] = 404
    server.tell(GADGETS, "ERROR", EXPIRED)
    await asyncio.sleep(600)
    assert (watches.blind(), told.blind) == ({}, [])


async def test_a02_the_age_of_a_kind_counts_from_its_last_word_and_from_its_begin_while_there_was_none(
    server: Server, watches: Watches
) -> None:
    server.broken[server.path(MAPS)] = 500
    watches.want([ON_MAPS, ON_GADGETS])
    await asyncio.sleep(100)
    assert watches.heard()["ConfigMap"] == pytest.approx(1000)
    assert "Gadget.test.example" not in watches.heard(), "nobody serves it, so nobody can be silent"
    server.broken.clear()
    await asyncio.sleep(100)
    seen = watches.heard()["ConfigMap"]
    assert seen > 1100
    server.tell(MAPS, "BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    await asyncio.sleep(1)
    assert watches.heard()["ConfigMap"] == pytest.approx(1200, abs=1)
    watches.want([])
    assert "ConfigMap" not in watches.heard()


# -- lists that are asked for ----------------------------------------------------------------------------------------


async def test_a_kind_is_listed_again_when_asked_for_and_every_object_is_delivered(
    server: Server, told: Told, watches: Watches
) -> None:
    server.objects[server.path(MAPS)] = [maps("a", "2")]
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    told.events.clear()
    assert watches.listed() == sorted([ON_MAPS, DEFINITIONS])
    assert await watches.list_again(ON_MAPS, within=10)
    assert [type(e).__name__ for w, e in told.events if w == ON_MAPS] == ["Changed", "Synced"]


async def test_a_list_that_fails_or_never_ends_is_answered_too(server: Server, watches: Watches) -> None:
    watches.want([ON_MAPS, ON_GADGETS])
    await asyncio.sleep(1)
    assert not await watches.list_again(ON_GADGETS, within=10), "it is not served"
    server.broken[server.path(MAPS)] = 500
    assert not await watches.list_again(ON_MAPS, within=10)
    server.broken.clear()
    await asyncio.sleep(60)
    asked = asyncio.create_task(watches.list_again(ON_MAPS, within=1e6))
    await asyncio.sleep(0)
    watches.drop(ON_MAPS)
    async with asyncio.timeout(1):
        assert not await asked, "it is not wanted any more"
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    asked = asyncio.create_task(watches.list_again(ON_MAPS, within=1e6))
    await asyncio.sleep(0)
    await watches.close()
    async with asyncio.timeout(1):
        assert not await asked


# -- defects ---------------------------------------------------------------------------------------------------------


def maps(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}}


async def test_an_event_that_meets_a_defect_blinds_for_no_other_and_is_told_again(
    server: Server, told: Told, watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    told.events.clear()
    server.lists.clear()
    told.crash = RuntimeError("defect")
    server.tell(MAPS, "ADDED", maps("a", "6"))
    server.tell(MAPS, "ADDED", maps("b", "7"))
    await asyncio.sleep(1)
    assert [e.obj["metadata"]["name"] for _, e in told.events if isinstance(e, Changed)] == ["b"]
    assert told.of(ON_MAPS) == [Sight.SYNCED]
    assert "defect" in caplog.text
    await asyncio.sleep(120)
    assert len([path for path in server.lists if "crd" not in path and "custom" not in path]) == 1


async def test_a_watch_that_crashed_is_unknown_until_it_was_begun_again_and_listed(
    server: Server, told: Told, watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    find, server.find = server.find, crash  # type: ignore[method-assign]
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    server.find = find  # type: ignore[method-assign]
    assert watches.sight(ON_MAPS) is Sight.UNKNOWN
    assert "defect" in caplog.text
    await asyncio.sleep(10)
    assert told.of(ON_MAPS) == [Sight.SYNCED]


async def crash(gvk: GroupVersionKind) -> Any:
    raise RuntimeError("defect")


async def test_a_crashed_watch_that_is_wanted_no_more_stays_ended(
    server: Server, watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    server.find = crash  # type: ignore[method-assign]
    watches.want([ON_MAPS])
    await asyncio.sleep(1)
    watches.want([])
    server.lists.clear()
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(60)
    assert server.lists == []
