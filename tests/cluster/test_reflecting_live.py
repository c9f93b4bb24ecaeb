"""The reflector over the real connection against a real API server, and through faults in between."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from controlplane_kit import ApiServer, faults
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import on

from gitops.cluster.collection import Collection
from gitops.cluster.connection import Connection
from gitops.cluster.reflecting import (
    Changed,
    Deleted,
    Event,
    Fresh,
    Reflector,
    ReflectorSettings,
    Stale,
    Synced,
    Vanished,
)
from gitops.model.identity import GroupVersionKind

pytestmark = pytest.mark.controlplane

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
GADGET = GroupVersionKind("watching.gitops.example", "v1", "Gadget")
SELECTOR = "gitops/reconciler=main"
QUICK = ReflectorSettings(page_limit=2, silence_limit=1.5, relist_spread=0.1, list_timeout=3.0)
PATIENT = ReflectorSettings(page_limit=2, relist_spread=0.1)

Connect = Callable[..., Awaitable[Connection]]


class Reading:
    """A reflector that is being read in the background."""

    def __init__(self, source: Reflector) -> None:
        self.source = source
        self.events: list[Event] = []
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with contextlib.aclosing(self.source.events()) as events:
            async for event in events:
                async with self._news:
                    self.events.append(event)
                    self._news.notify_all()

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, kind: Any, condition: Callable[[Any], bool] = lambda event: True, *, since: int = 0) -> Any:
        """The first such event at or after position `since`, waited for."""

        def found() -> Event | None:
            return next((e for e in self.events[since:] if isinstance(e, kind) and condition(e)), None)

        try:
            async with asyncio.timeout(30), self._news:
                await self._news.wait_for(found)
        except TimeoutError:
            pytest.fail(f"no {kind} came: {self.events[since:]}")
        return found()

    async def synced(self, *, since: int = 0) -> Synced:
        event: Synced = await self.until(Synced, since=since)
        return event


@pytest_asyncio.fixture
async def watch() -> AsyncIterator[Callable[..., Reading]]:
    started: list[Reading] = []

    def start(
        connection: Connection,
        path: str,
        gvk: GroupVersionKind = CONFIG_MAP,
        settings: ReflectorSettings = PATIENT,
        **more: Any,
    ) -> Reading:
        collection = Collection(gvk, path, SELECTOR, **more)
        started.append(Reading(Reflector(connection, collection, settings=settings)))
        return started[-1]

    yield start
    for reading in started:
        await reading.stop()


class Maps:
    """ConfigMaps with our label in one namespace, made and changed beside the reflector."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"

    def create(self, *names: str) -> None:
        for name in names:
            metadata = {"name": name, "labels": {"gitops/reconciler": "main"}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "1"}}
            self.api.request("POST", self.path, body)

    def patch(self, name: str, body: Any) -> None:
        self.api.request("PATCH", f"{self.path}/{name}", body, content_type=MERGE)

    def delete(self, name: str) -> None:
        self.api.request("DELETE", f"{self.path}/{name}")


@pytest.fixture
def maps(shared_api: ApiServer, namespace: str) -> Maps:
    return Maps(shared_api, namespace)


@pytest_asyncio.fixture
async def proxied(
    fault_proxy: Callable[[ApiServer], FaultProxy], shared_api: ApiServer, connect: Connect
) -> tuple[FaultProxy, Connection]:
    proxy = fault_proxy(shared_api)
    return proxy, await connect(proxy.kubeconfig)


def is_object(name: str) -> Callable[[Any], bool]:
    return lambda event: bool(event.obj["metadata"]["name"] == name)


async def test_pages_changes_and_deletions(connection: Connection, maps: Maps, watch: Callable[..., Reading]) -> None:
    maps.create("a", "b", "c", "d", "e")
    reading = watch(connection, maps.path)
    assert (await reading.synced()).objects == 5
    assert reading.source.stats.pages == 3
    first = next(e for e in reading.events if isinstance(e, Changed))
    assert (first.obj["apiVersion"], first.obj["kind"]) == ("v1", "ConfigMap")
    maps.patch("a", {"data": {"k": "2"}})
    await reading.until(Changed, lambda e: e.obj["data"] == {"k": "2"})
    maps.delete("b")
    await reading.until(Deleted, is_object("b"))
    assert len(reading.source) == 4


async def test_fact_33_a_lost_label_looks_like_a_deletion_with_the_old_labels(
    connection: Connection, maps: Maps, watch: Callable[..., Reading]
) -> None:
    maps.create("a")
    reading = watch(connection, maps.path)
    await reading.synced()
    maps.patch("a", {"metadata": {"labels": {"gitops/reconciler": "other"}}, "data": {"k": "away"}})
    gone = await reading.until(Deleted, is_object("a"))
    assert gone.obj["metadata"]["labels"] == {"gitops/reconciler": "main"}
    assert gone.obj["data"] == {"k": "1"}
    maps.patch("a", {"metadata": {"labels": {"gitops/reconciler": "main"}}})
    back = await reading.until(Changed, is_object("a"), since=reading.events.index(gone))
    assert back.obj["data"] == {"k": "away"}


async def test_metadata_only_has_managed_fields_and_no_values(
    connection: Connection, maps: Maps, watch: Callable[..., Reading]
) -> None:
    maps.create("a")
    reading = watch(connection, maps.path, metadata_only=True)
    await reading.synced()
    maps.patch("a", {"data": {"k": "2"}})
    changed = await reading.until(Changed, since=2)
    assert changed.obj["metadata"]["managedFields"]
    assert changed.obj["kind"] == "ConfigMap"
    assert "data" not in changed.obj


async def test_a01_fact_35_a_410_inside_a_200_lists_again(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    proxy, connection = proxied
    maps.create("a")
    proxy.fail(faults.WatchError(), on(watch=True))
    reading = watch(connection, maps.path)
    await reading.until(Synced)
    await reading.until(Synced, since=2)
    assert reading.source.stats.expirations == 1
    maps.create("b")
    await reading.until(Changed, is_object("b"))
    assert not any(isinstance(e, (Vanished, Stale)) for e in reading.events)


async def test_a10_a_token_that_expires_on_a_later_page_restarts_the_list(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    proxy, connection = proxied
    maps.create("a", "b", "c")

    def is_later_page(request: faults.Request) -> bool:
        return "continue" in request.query

    proxy.fail(faults.GONE, is_later_page)
    reading = watch(connection, maps.path)
    assert (await reading.synced()).objects == 3
    assert reading.source.stats.expirations == 1
    assert not any(isinstance(e, (Vanished, Stale)) for e in reading.events)


async def test_a02_a_watch_that_goes_silent_is_found_out(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    proxy, connection = proxied
    maps.create("a")
    proxy.fail(faults.FreezeAfter(0), on(watch=True))
    reading = watch(connection, maps.path, settings=QUICK)
    await reading.synced()
    maps.create("b")
    maps.delete("a")
    await reading.until(Changed, is_object("b"))
    await reading.until(Vanished, lambda e: e.ref.name == "a")
    assert reading.source.stats.silences >= 1


async def test_d08_a_deletion_while_nobody_could_look_is_found(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    """Resumed within the server's history the event is replayed; what matters is that it is told, once."""
    proxy, connection = proxied
    maps.create("a", "b")
    reading = watch(connection, maps.path, settings=QUICK)
    await reading.synced()
    proxy.refuse()
    stale = await reading.until(Stale)
    assert stale.since > 0
    maps.delete("a")
    proxy.restore()
    await reading.until(Fresh)
    gone = [e for e in reading.events if isinstance(e, Deleted)] or [await reading.until(Deleted, is_object("a"))]
    assert len(gone) == 1
    assert len(reading.source) == 1


async def test_a02_a_half_open_network_is_told_and_survived(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    proxy, connection = proxied
    maps.create("a", "b")
    reading = watch(connection, maps.path, settings=QUICK)
    await reading.synced()
    proxy.blackhole()
    stale = await reading.until(Stale)
    assert stale.error.cls == "unreachable"
    maps.delete("a")
    assert not any(isinstance(e, (Vanished, Deleted)) for e in reading.events), "nothing is concluded from silence"
    proxy.restore()
    await reading.until(Fresh)
    # A resumed watch replays the deletion, a list finds the absence.
    await reading.until((Deleted, Vanished))
    assert len(reading.source) == 1


async def test_a05_a_cut_connection_is_resumed_without_a_list(
    proxied: tuple[FaultProxy, Connection], maps: Maps, watch: Callable[..., Reading]
) -> None:
    proxy, connection = proxied
    maps.create("a")
    reading = watch(connection, maps.path)
    await reading.synced()
    maps.patch("a", {"data": {"k": "2"}})
    await reading.until(Changed, lambda e: e.obj["data"] == {"k": "2"})
    proxy.clear()
    proxy.cut()
    maps.patch("a", {"data": {"k": "3"}})
    await reading.until(Changed, lambda e: e.obj["data"] == {"k": "3"})
    assert not proxy.seen("GET", watch=False), "a list was made"
    assert not any(isinstance(e, Stale) for e in reading.events)


async def test_fact_35_a_restarted_api_server_is_listed_again(
    private_api: Callable[..., ControlPlane], connect: Connect, watch: Callable[..., Reading]
) -> None:
    plane = await asyncio.to_thread(private_api)
    maps = Maps(plane, plane.create_namespace("work"))
    maps.create("a", "b")
    reading = watch(await connect(plane.kubeconfig), maps.path)
    await reading.synced()
    await asyncio.to_thread(plane.kill_apiserver)
    await reading.until(Stale)
    await asyncio.to_thread(plane.start_apiserver)
    await reading.until(Fresh)
    maps.delete("a")
    maps.create("c")
    await reading.until(Changed, is_object("c"))
    await reading.until(Deleted, is_object("a"))
    assert len(reading.source) == 2


def gadget_crd(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{GADGET.group}"},
        "spec": {
            "group": GADGET.group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [version],
        },
    }


async def test_facts_18_and_38_schema_changes_and_a_kind_that_goes_and_comes(
    shared_api: ApiServer, namespace: str, connection: Connection, watch: Callable[..., Reading]
) -> None:
    text = {"type": "string"}
    shared_api.create_crd_objects([gadget_crd(keep=text, drop=text)])
    path = f"/apis/{GADGET.group}/v1/namespaces/{namespace}/gadgets"
    metadata = {"name": "g", "labels": {"gitops/reconciler": "main"}}
    body = {
        "apiVersion": GADGET.api_version,
        "kind": "Gadget",
        "metadata": metadata,
        "spec": {"keep": "1", "drop": "2"},
    }
    shared_api.request("POST", path, body)
    reading = watch(connection, path, GADGET)
    await reading.synced()
    before = next(e for e in reading.events if isinstance(e, Changed)).obj

    shared_api.create_crd_objects([gadget_crd(keep=text)])
    pruned = functools.partial(shared_api.get, f"{path}/g")
    await asyncio.to_thread(shared_api.wait, lambda: "drop" not in pruned()["spec"], "the new schema to hold")
    mark = len(reading.events)
    reading.source.request_relist()
    changed = await reading.until(Changed, lambda e: e.obj["spec"] == {"keep": "1"}, since=mark)
    assert changed.obj["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    mark = len(reading.events)
    shared_api.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{GADGET.group}")
    await reading.until(Deleted, is_object("g"), since=mark)
    stale = await reading.until(Stale, since=mark)
    assert stale.error.reason == "NotServed"
    assert not any(isinstance(e, Vanished) for e in reading.events)
    shared_api.create_crd_objects([gadget_crd(keep=text)])
    reading.source.request_relist()
    await reading.until(Fresh)
    assert (await reading.synced(since=mark)).objects == 0
