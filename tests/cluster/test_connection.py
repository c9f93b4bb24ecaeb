"""The connection against a scripted server over real sockets, where a real API server cannot be made to misbehave."""

import asyncio
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from cluster_kit.scripted import Handler, Scripted, status
from controlplane_kit.client import ApiServer, write_kubeconfig

from gitops.cluster.breaker import FAILURES
from gitops.cluster.connection import Connection, ConnectionSettings, Response
from gitops.cluster.errors import ErrorClass, RequestFailed
from gitops.model.identity import ClusterName

Connect = Callable[..., Awaitable[Connection]]


async def test_a_request_and_its_answer(scripted: Scripted, connect: Connect) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {"path": request.path_qs, "type": request.headers["Content-Type"], "body": (await request.text())},
            status=201,
            headers=[("Warning", '299 - "spec.x is \\"old\\""'), ("Warning", '299 - "second"')],
        )

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig({"token": "t0"}))
    response = await connection.request(
        "PATCH", "/apis/x/v1/things/a", query={"labelSelector": "a=b,c"}, body=b"{}", content_type="a/b", verb="apply"
    )
    assert (response.status, response.ok) == (201, True)
    assert response.json() == {"path": "/apis/x/v1/things/a?labelSelector=a%3Db%2Cc", "type": "a/b", "body": "{}"}
    assert response.warnings == ('spec.x is "old"', "second")
    assert scripted.seen[0].headers["Authorization"] == "Bearer t0"
    assert connection.stats.requests == {"apply": 1}
    assert connection.stats.answers == {201: 1}
    assert connection.stats.in_flight == 0


async def test_an_error_status_is_an_answer_not_an_exception(scripted: Scripted, connect: Connect) -> None:
    scripted.handler = lambda request: asyncio.sleep(0, status(500, "etcd leader changed"))
    connection = await connect(scripted.kubeconfig())
    response = await connection.request("GET", "/x")
    assert response.error().cls is ErrorClass.RETRY
    assert len(scripted.seen) == 1  # retrying is the caller's business


async def test_an_answer_that_is_no_json(scripted: Scripted, connect: Connect) -> None:
    with pytest.raises(RequestFailed) as failed:
        Response(200, {}, b"<html>").json()
    assert failed.value.error.cls is ErrorClass.UNREACHABLE


async def test_a03_a_rotated_token_costs_one_failed_request(scripted: Scripted, connect: Connect) -> None:
    valid = "one"

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}) if request.headers["Authorization"] == f"Bearer {valid}" else status(401)

    scripted.handler = answer
    token = scripted.folder / "token"
    token.write_text("one")
    connection = await connect(scripted.kubeconfig({"tokenFile": "token"}))
    assert (await connection.request("GET", "/x")).ok

    valid = "two"
    token.write_text("two")
    responses = await asyncio.gather(*(connection.request("GET", "/x") for _ in range(8)))
    assert all(response.ok for response in responses)
    assert connection.stats.renewals == 1  # one renewal for all who were refused
    assert connection.stats.answers[401] <= 8


async def test_a03_a_token_file_is_read_again_by_age(scripted: Scripted, connect: Connect) -> None:
    token = scripted.folder / "token"
    token.write_text("one")
    connection = await connect(scripted.kubeconfig({"tokenFile": "token"}), ConnectionSettings(credentials_check=0.0))
    await connection.request("GET", "/x")
    assert connection.stats.renewals == 0
    token.write_text("second")
    await connection.request("GET", "/x")
    assert [r.headers["Authorization"] for r in scripted.seen] == ["Bearer one", "Bearer second"]
    assert 401 not in connection.stats.answers


async def test_a03_refused_credentials_are_an_answer_after_one_renewal(scripted: Scripted, connect: Connect) -> None:
    scripted.handler = lambda request: asyncio.sleep(0, status(401, "Unauthorized"))
    connection = await connect(scripted.kubeconfig({"token": "bad"}))
    response = await connection.request("GET", "/x")
    assert response.error().cls is ErrorClass.UNAUTHORIZED
    assert len(scripted.seen) == 2
    with pytest.raises(RequestFailed) as failed:
        async with connection.stream("/x"):
            pass
    assert failed.value.error.cls is ErrorClass.UNAUTHORIZED


async def test_a_redirect_is_not_followed(scripted: Scripted, connect: Connect) -> None:
    """It may lead anywhere, and our token would go along."""

    async def away(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{scripted.url}/elsewhere"})

    scripted.handler = away
    connection = await connect(scripted.kubeconfig())
    answer = await connection.request("GET", "/x")
    assert (answer.status, answer.error().cls) == (307, ErrorClass.UNREACHABLE)
    with pytest.raises(RequestFailed):
        async with connection.stream("/watch"):
            pass
    assert [request.path for request in scripted.seen] == ["/x", "/watch"]


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2]", "{unclosed: token-abc", "kind: Config", "current-context: c\ncontexts: []\nusers: []\nclusters: []"],
)
async def test_an_unusable_kubeconfig_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(RequestFailed) as failed:
        await Connection.open(path, name=ClusterName("x"))
    assert failed.value.error.cls is ErrorClass.UNAUTHORIZED
    assert "abc" not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("data", [b"a: [\n", bytes(range(128, 256))])
async def test_a_kubeconfig_that_is_no_yaml_is_told_in_words(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(data)
    with pytest.raises(RequestFailed, match="kubeconfig cannot be used: it is not valid YAML"):
        await Connection.open(path, name=ClusterName("x"))


async def test_a04_retry_after_pauses_the_whole_cluster(scripted: Scripted, connect: Connect) -> None:
    times: list[float] = []

    async def answer(request: web.Request) -> web.Response:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            throttled = status(429, "too many requests", reason="TooManyRequests")
            throttled.headers["Retry-After"] = "5"
            return throttled
        return web.json_response({})

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig(), ConnectionSettings(longest_pause=0.3))
    first = asyncio.create_task(connection.request("GET", "/one"))
    while not connection.stats.throttled:  # noqa: ASYNC110 - a counter, not an event
        await asyncio.sleep(0)
    others = asyncio.gather(*(connection.request("GET", "/other") for _ in range(4)))
    urgent = await connection.request("GET", "/lease", urgent=True)
    assert urgent.ok
    assert times[1] - times[0] < 0.25  # the Lease does not wait
    assert (await first).ok
    assert all(response.ok for response in await others)
    assert all(moment - times[0] >= 0.29 for moment in times[2:])
    assert len(times) == 7


async def test_a04_throttling_without_end_is_given_back(scripted: Scripted, connect: Connect) -> None:
    scripted.handler = lambda request: asyncio.sleep(0, status(429, "too many requests"))
    connection = await connect(scripted.kubeconfig(), ConnectionSettings(longest_pause=0.01, throttle_retries=2))
    response = await connection.request("GET", "/x")
    assert response.error().cls is ErrorClass.RETRY
    assert len(scripted.seen) == 3


async def test_o01_a_kind_whose_storage_is_starting_pauses_nothing_else(scripted: Scripted, connect: Connect) -> None:
    """After a definition changed; the server asks for a second, the storage is there in milliseconds."""
    answered = []

    async def answer(request: web.Request) -> web.Response:
        answered.append(request.path)
        if answered.count("/kind") == 1 and request.path == "/kind":
            starting = status(429, "storage is (re)initializing", reason="TooManyRequests")
            starting.headers["Retry-After"] = "3600"
            return starting
        return web.json_response({})

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig())
    assert (await connection.request("GET", "/kind")).ok
    assert (await connection.request("GET", "/other")).ok
    assert answered == ["/kind", "/kind", "/other"]
    assert connection.stats.throttled == 0


async def test_23_a_webhook_that_denies_with_429_pauses_nothing(scripted: Scripted, connect: Connect) -> None:
    scripted.handler = lambda request: asyncio.sleep(0, status(429, 'admission webhook "w" denied the request: no'))
    connection = await connect(scripted.kubeconfig())
    assert (await connection.request("GET", "/x")).error().cls is ErrorClass.DENIED
    assert (len(scripted.seen), connection.stats.throttled) == (1, 0)


async def test_requests_in_flight_are_limited_and_streams_take_no_slot(scripted: Scripted, connect: Connect) -> None:
    running = highest = 0
    release = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal running, highest
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await release.wait()
            return response
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig(), ConnectionSettings(max_in_flight=3))
    async with connection.stream("/watch"), connection.stream("/watch"), connection.stream("/watch"):
        assert connection.stats.streams == 3
        await asyncio.gather(*(connection.request("GET", "/x") for _ in range(12)))
        release.set()
    assert highest == 3
    assert connection.stats.streams == 0


def streaming(*chunks: bytes, end: asyncio.Event | None = None, abort: bool = False) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if end is not None:
            await end.wait()
        if abort and request.transport is not None:
            request.transport.abort()
        return response

    return answer


async def lines_of(connection: Connection, *, into: list[bytes] | None = None, **arguments: Any) -> list[bytes]:
    got: list[bytes] = [] if into is None else into
    async with connection.stream("/watch", **arguments) as lines:
        async for line in lines:
            got.append(line)
    return got


async def test_a_stream_gives_lines_of_any_length(scripted: Scripted, connect: Connect) -> None:
    big = b"x" * 3_000_000
    scripted.handler = streaming(b"one\ntw", b"o\n\nthr", b"ee\n", big, b"\n", b"last\n")
    connection = await connect(scripted.kubeconfig({"token": "t"}))
    assert await lines_of(connection) == [b"one", b"two", b"three", big, b"last"]
    assert scripted.seen[0].headers["Authorization"] == "Bearer t"
    limited = await connect(scripted.kubeconfig(), ConnectionSettings(longest_line=1_000_000))
    with pytest.raises(RequestFailed) as failed:
        await lines_of(limited)
    assert failed.value.error.reason == "LineTooLong"


async def test_a02_a_silent_stream_is_taken_for_dead(scripted: Scripted, connect: Connect) -> None:
    end = asyncio.Event()
    scripted.handler = streaming(b"one\n", end=end)
    connection = await connect(scripted.kubeconfig())
    got: list[bytes] = []
    with pytest.raises(RequestFailed) as failed:
        await lines_of(connection, into=got, silence_limit=0.2)
    end.set()
    assert got == [b"one"]
    assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.UNREACHABLE, "Silent")


@pytest.mark.parametrize(("chunks", "abort"), [((b"one\ntw",), True), ((b"one\ntw",), False)])
async def test_a_broken_stream_is_unreachable(
    scripted: Scripted, connect: Connect, chunks: tuple[bytes, ...], abort: bool
) -> None:
    scripted.handler = streaming(*chunks, abort=abort)
    connection = await connect(scripted.kubeconfig())
    with pytest.raises(RequestFailed) as failed:
        await lines_of(connection)
    assert failed.value.error.cls is ErrorClass.UNREACHABLE


async def test_a01_a_stream_that_is_refused_says_why(scripted: Scripted, connect: Connect) -> None:
    scripted.handler = lambda request: asyncio.sleep(0, status(410, "too old", reason="Expired"))
    connection = await connect(scripted.kubeconfig())
    with pytest.raises(RequestFailed) as failed:
        await lines_of(connection)
    assert failed.value.error.cls is ErrorClass.EXPIRED


async def test_leaving_a_stream_early_closes_it(scripted: Scripted, connect: Connect) -> None:
    gone = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"line\n")
                await asyncio.sleep(0.001)
        finally:
            gone.set()

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig())
    async with connection.stream("/watch") as lines:
        assert await anext(lines) == b"line"
    async with asyncio.timeout(5):
        await gone.wait()


async def test_unreachable_is_one_class(scripted: Scripted, connect: Connect) -> None:
    hold = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/hang":
            await hold.wait()
        elif request.transport is not None:
            request.transport.abort()
        return web.Response()

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig())
    refused = await connect(scripted.kubeconfig(server="http://127.0.0.1:1", name="refused"))
    for reason, call in (
        ("Timeout", connection.request("GET", "/hang", timeout=0.1)),
        ("Broken", connection.request("PATCH", "/abort", body=b"{}")),
        ("Broken", refused.request("GET", "/x")),
    ):
        with pytest.raises(RequestFailed) as failed:
            await call
        assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.UNREACHABLE, reason)
    hold.set()
    assert connection.stats.failures == {"Timeout": 1, "Broken": 1}
    await connection.close()
    with pytest.raises(RequestFailed) as failed:
        await connection.request("GET", "/x")
    assert failed.value.error.reason == "Closed"


async def test_a05_a_cluster_that_does_not_answer_is_not_asked_by_everybody(
    scripted: Scripted, connect: Connect
) -> None:
    """Only the Lease goes on asking; its answer opens the way for all."""
    gone = True

    async def answer(request: web.Request) -> web.Response:
        if gone and request.transport is not None:
            request.transport.abort()
        return web.json_response({})

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig())
    sentences = set()
    for _ in range(50):
        with pytest.raises(RequestFailed) as failed:
            await connection.request("GET", "/x")
        sentences.add(failed.value.error.message.partition("since")[0])
        assert failed.value.error.cls is ErrorClass.UNREACHABLE
    with pytest.raises(RequestFailed, match="no answer since"):
        async with connection.stream("/watch"):
            pass
    asked = connection.stats.requests.total()
    assert asked <= FAILURES + 2, "a probe is due now and then"
    assert "no answer " in sentences
    assert connection.stats.spared == 51 - asked
    assert connection.stats.broken
    for _ in range(5):
        with pytest.raises(RequestFailed):
            await connection.request("GET", "/lease", urgent=True)
    assert connection.stats.requests.total() == asked + 5
    gone = False
    assert (await connection.request("GET", "/lease", urgent=True)).ok
    assert not connection.stats.broken
    assert (await connection.request("GET", "/x")).ok


async def test_an_answer_of_500_to_everything_is_an_answer(scripted: Scripted, connect: Connect) -> None:
    """It costs nobody a timeout; how long to wait for better ones is each caller's business."""
    scripted.handler = lambda request: asyncio.sleep(0, status(500))
    connection = await connect(scripted.kubeconfig())
    for _ in range(20):
        assert (await connection.request("GET", "/x")).status == 500
    assert len(scripted.seen) == 20
    assert not connection.stats.broken


async def test_a04_after_a_429_fewer_requests_are_in_flight_until_answers_came(
    scripted: Scripted, connect: Connect
) -> None:
    running = highest = 0
    throttle = True

    async def answer(request: web.Request) -> web.Response:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(0.005)
        running -= 1
        return status(429, "too many requests", reason="TooManyRequests") if throttle else web.json_response({})

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig(), ConnectionSettings(longest_pause=0.02, throttle_retries=0))
    await asyncio.gather(*(connection.request("GET", "/x") for _ in range(8)))
    assert (highest, connection.stats.limit) == (8, 4)
    throttle, highest = False, 0
    await asyncio.gather(*(connection.request("GET", "/x") for _ in range(4)))
    assert (highest, connection.stats.limit) == (4, 5)
    await asyncio.gather(*(connection.request("GET", "/x") for _ in range(60)))
    assert (highest, connection.stats.limit) == (8, 8)


async def test_names_that_are_not_resolved_hold_up_no_other_thread_and_are_asked_for_again(
    scripted: Scripted, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that does not answer keeps the thread that asked it for half a minute."""
    name = f"http://api.example:{scripted.url.rpartition(':')[2]}"
    answers, real = threading.Event(), socket.getaddrinfo
    outcome: list[str] = []

    def resolve(host: str, *arguments: Any, **named: Any) -> Any:
        if host != "api.example":
            return real(host, *arguments, **named)
        if not outcome:
            answers.wait(10)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real(outcome[0], *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    connection = await connect(scripted.kubeconfig(server=name))
    asking = asyncio.create_task(connection.request("GET", "/x"))
    while not connection.stats.in_flight:  # noqa: ASYNC110 - a counter, not an event
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await asyncio.to_thread(lambda: "free") == "free"
    assert not asking.done()
    answers.set()
    with pytest.raises(RequestFailed, match="name resolution") as failed:
        await asking
    assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.UNREACHABLE, "Broken")
    outcome.append("127.0.0.1")
    assert (await connection.request("GET", "/x")).ok


async def test_a_proxy_of_the_kubeconfig_is_used(scripted: Scripted, connect: Connect) -> None:
    path = scripted.kubeconfig(server="http://far.example:6443")
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"]["proxy-url"] = scripted.url
    path.write_text(yaml.safe_dump(document))
    connection = await connect(path)
    assert (await connection.request("GET", "/x")).ok
    async with connection.stream("/watch"):
        pass
    assert [str(request.url) for request in scripted.seen] == [
        "http://far.example:6443/x",
        "http://far.example:6443/watch",
    ]


async def test_a_server_with_another_certificate_is_not_trusted(
    shared_api: ApiServer, tmp_path: Path, connect: Connect
) -> None:
    authority = tmp_path / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    path = write_kubeconfig(
        tmp_path / "kubeconfig", url=shared_api.url, authority=authority, client=shared_api.certificates.admin
    )
    connection = await connect(path)
    with pytest.raises(RequestFailed) as failed:
        await connection.request("GET", "/version")
    assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.UNREACHABLE, "Tls")


async def test_a08_a_changed_address_ends_the_connection(
    scripted: Scripted, other_scripted: Scripted, connect: Connect
) -> None:
    """There may be another cluster: nothing is sent there by whoever believes to talk to the old one."""
    end = asyncio.Event()
    scripted.handler = streaming(b"one\n", end=end)
    connection = await connect(scripted.kubeconfig(), ConnectionSettings(credentials_check=0.0))
    async with connection.stream("/watch") as lines:
        assert await anext(lines) == b"one"
        scripted.kubeconfig(server=other_scripted.url)
        for urgent in (False, True):
            with pytest.raises(RequestFailed, match="another API server"):
                await connection.request("GET", "/x", urgent=urgent)
        assert connection.moved
        with pytest.raises(RequestFailed):
            await anext(lines)
    end.set()
    scripted.kubeconfig()  # back again: only who asks anew which cluster that is may go on
    with pytest.raises(RequestFailed, match="another API server"):
        await connection.request("GET", "/x")
    assert other_scripted.seen == []
    assert [request.path for request in scripted.seen] == ["/watch"]


async def test_a03_a_stream_that_was_opened_with_what_is_replaced_is_opened_again(
    scripted: Scripted, connect: Connect
) -> None:
    """Nobody would end it when the old credentials end: it is no stream of the session that is closed then."""
    opening, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if len(scripted.seen) == 1:
            opening.set()
            await go_on.wait()
        return await streaming(f"{len(scripted.seen)}\n".encode())(request)

    scripted.handler = answer
    connection = await connect(scripted.kubeconfig())
    reading = asyncio.create_task(lines_of(connection))
    await opening.wait()
    await connection.renew()
    go_on.set()
    assert await reading == [b"2"]


async def test_closing_wakes_the_readers_of_streams(scripted: Scripted, connect: Connect) -> None:
    end = asyncio.Event()
    scripted.handler = streaming(b"one\n", end=end)
    connection = await connect(scripted.kubeconfig())
    async with connection.stream("/watch") as lines:
        assert await anext(lines) == b"one"
        reading = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        await connection.close()
        with pytest.raises(RequestFailed):
            await reading
    end.set()


async def test_a_half_written_kubeconfig_keeps_the_old_access(scripted: Scripted, connect: Connect) -> None:
    path = scripted.kubeconfig({"token": "t"})
    connection = await connect(path, ConnectionSettings(credentials_check=0.0))
    path.write_text("{unclosed")
    assert (await connection.request("GET", "/x")).ok
    with pytest.raises(RequestFailed):
        await connection.reload()
    assert (await connection.request("GET", "/x")).ok


async def test_proxy_variables_of_the_environment_are_not_used(
    scripted: Scripted, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    connection = await connect(scripted.kubeconfig())
    assert (await connection.request("GET", "/x")).ok


def test_kubernetes_is_not_imported() -> None:
    """It costs 0.4 s and 46 MB; only credentials of an auth-provider need it."""
    modules = "connection, applying, parents, claims, leases"
    code = f"import sys; from gitops.cluster import {modules}; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
