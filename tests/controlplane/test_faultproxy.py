"""The fault proxy passes everything on unless told, counts what passes, and fails as real networks and servers do."""

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from controlplane_kit import ApiServer, faults
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import on
from controlplane_kit.loopthread import abort_transports

MakeProxy = Callable[[ApiServer], FaultProxy]


@pytest.fixture
def proxy(fault_proxy: MakeProxy, shared_api: ApiServer) -> FaultProxy:
    return fault_proxy(shared_api)


@pytest.fixture
async def session(proxy: FaultProxy, shared_api: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(shared_api.certificates.authority))
    context.load_cert_chain(*shared_api.certificates.admin)
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(proxy.url, connector=connector, timeout=timeout) as made:
        yield made
    await abort_transports()


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def status_of(asking: "aiohttp.client._RequestContextManager") -> int:
    async with asking as answer:
        await answer.read()
        return answer.status


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_kubectl_works_through_it_and_every_request_is_noted(
    proxy: FaultProxy, shared_api: ApiServer, namespace: str, maps: str
) -> None:
    through = f"--kubeconfig={proxy.kubeconfig}"
    shared_api.kubectl(through, "-n", namespace, "create", "configmap", "one", "--from-literal=k=v")
    shared_api.kubectl(through, "-n", namespace, "create", "configmap", "two", "--dry-run=server")
    (write,) = proxy.writes()
    assert (write.method, write.path, write.status) == ("POST", maps, 201)
    assert b"one" in write.body
    assert len(proxy.seen("POST", maps)) == 2
    proxy.clear()
    assert proxy.calls() == []


async def test_watches_stream_through(
    proxy: FaultProxy, session: aiohttp.ClientSession, shared_api: ApiServer, maps: str
) -> None:
    async with session.get(maps, params={"watch": "1"}) as watch:
        await asyncio.to_thread(shared_api.request, "POST", maps, config_map("seen"))
        events = [json.loads(await watch.content.readline()) for _ in range(1)]
        assert any(event["object"]["metadata"]["name"] == "seen" for event in events)
    assert proxy.calls() == []
    assert len(proxy.seen("GET", maps, watch=True)) == 1


async def test_errors_on_demand_run_out(proxy: FaultProxy, session: aiohttp.ClientSession, maps: str) -> None:
    proxy.fail(faults.TOO_MANY, on("GET", "/configmaps"), times=2)
    async with session.get(maps) as refused:
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert (await refused.json())["reason"] == "TooManyRequests"
    assert [await status_of(session.get(maps)) for _ in range(2)] == [429, 200]
    proxy.fail(faults.WatchError(), on(watch=True))
    async with session.get(maps, params={"watch": "1"}) as expired:
        assert expired.status == 200
        assert json.loads(await expired.text())["object"]["code"] == 410


async def test_a_lost_answer_is_a_write_that_happened(
    proxy: FaultProxy, session: aiohttp.ClientSession, shared_api: ApiServer, maps: str
) -> None:
    proxy.fail(faults.LoseAnswer(), on("POST"))
    with pytest.raises(aiohttp.ClientError):
        await status_of(session.post(maps, json=config_map("lost")))
    assert shared_api.get(f"{maps}/lost")
    proxy.fail(faults.Cut(), on("POST"))
    with pytest.raises(aiohttp.ClientError):
        await status_of(session.post(maps, json=config_map("never")))
    assert shared_api.get(f"{maps}/never") is None


async def test_a_held_request_waits_for_its_release(
    proxy: FaultProxy, session: aiohttp.ClientSession, shared_api: ApiServer, maps: str
) -> None:
    hold = faults.Hold()
    proxy.fail(hold, on("POST"))
    pending = asyncio.create_task(status_of(session.post(maps, json=config_map("held"))))
    assert await asyncio.to_thread(hold.arrived.wait, 10)
    assert shared_api.get(f"{maps}/held") is None
    hold.release()
    assert await pending == 201


async def test_an_answer_can_be_cut_or_freeze_in_the_middle(
    proxy: FaultProxy, session: aiohttp.ClientSession, maps: str
) -> None:
    proxy.fail(faults.CutAfter(10))
    with pytest.raises(aiohttp.ClientError):
        await status_of(session.get(maps))
    proxy.fail(faults.FreezeAfter(10))
    async with session.get(maps) as frozen:
        assert len(await frozen.content.readexactly(10)) == 10
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(frozen.content.readany(), 0.2)


async def test_the_network_refuses_swallows_and_comes_back(
    proxy: FaultProxy, session: aiohttp.ClientSession, maps: str
) -> None:
    assert await status_of(session.get(maps)) == 200
    proxy.refuse()
    with pytest.raises(aiohttp.ClientError):
        await status_of(session.get(maps))
    proxy.restore()
    assert await status_of(session.get(maps)) == 200
    watch = await session.get(maps, params={"watch": "1"})
    proxy.blackhole()
    with pytest.raises(TimeoutError):
        await status_of(session.get(maps, timeout=aiohttp.ClientTimeout(total=0.3)))
    proxy.restore()
    assert await status_of(session.get(maps)) == 200
    with pytest.raises(TimeoutError):  # still half-open
        await asyncio.wait_for(watch.content.readany(), 0.2)
    proxy.cut()
    with pytest.raises(aiohttp.ClientError):
        await watch.content.readany()
    watch.close()


def test_nothing_is_left_behind(fault_proxy: MakeProxy, shared_api: ApiServer) -> None:
    before = threading.active_count()
    with FaultProxy(shared_api, shared_api.folder / "throwaway"):
        assert threading.active_count() > before
    assert threading.active_count() == before
