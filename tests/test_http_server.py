"""The HTTP endpoints over real sockets; X04 of the push webhook."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from gitops import http_server
from gitops.http_server import HttpServer, RateLimit, Readiness, Webhook
from gitops.metrics import PrometheusMetrics

SECRET = b"a-long-shared-secret"
MAX_BODY = 64 * 1024


@dataclass
class Daemon:
    """What the endpoints look at, and how often a fetch was asked for."""

    url: str = ""
    fetches: int = 0
    alive: bool = True
    readiness: Readiness = field(default_factory=lambda: Readiness(True, "ready"))
    metrics: PrometheusMetrics = field(default_factory=PrometheusMetrics)
    now: float = 100.0

    def request_fetch(self) -> None:
        self.fetches += 1

    def results(self) -> dict[str, float]:
        samples = next(m for m in self.metrics.registry.collect() if m.name == "gitops_webhook_deliveries").samples
        return {s.labels["result"]: s.value for s in samples if s.name.endswith("_total")}


@contextlib.asynccontextmanager
async def serve(*, secret_file: Path | None, rate: float = 5.0) -> AsyncIterator[tuple[Daemon, aiohttp.ClientSession]]:
    daemon = Daemon()
    webhook = Webhook(
        secret_file=secret_file,
        request_fetch=daemon.request_fetch,
        metrics=daemon.metrics,
        rate=rate,
        max_body=MAX_BODY,
        clock=lambda: daemon.now,
    )
    server = HttpServer(
        host="127.0.0.1",
        port=0,
        alive=lambda: daemon.alive,
        readiness=lambda: daemon.readiness,
        metrics=daemon.metrics,
        webhook=webhook,
    )
    daemon.url = await server.start()
    try:
        async with aiohttp.ClientSession(daemon.url, trust_env=False) as session:
            yield daemon, session
    finally:
        await server.stop()


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    return path


def signed(body: bytes, secret: bytes = SECRET) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


BODY = b'{"ref":"refs/heads/main","repository":{"clone_url":"https://elsewhere.example/other.git"}}'

GITHUB: Callable[[str], dict[str, str]] = lambda s: {"X-Hub-Signature-256": f"sha256={s}", "X-Hub-Signature": "sha1=00"}  # noqa: E731


async def test_health_endpoints_tell_alive_from_ready() -> None:
    async with serve(secret_file=None) as (daemon, session):
        assert (await session.get("/healthz")).status == 200
        assert (await session.get("/readyz")).status == 200
        daemon.readiness = Readiness(False, "no head compiled yet", {"clusters": {"dgx-a": "unreachable"}})
        answer = await session.get("/readyz")
        assert answer.status == 503
        assert await answer.json() == {
            "ready": False,
            "message": "no head compiled yet",
            "clusters": {"dgx-a": "unreachable"},
        }
        assert (await session.get("/healthz")).status == 200
        daemon.alive = False
        assert (await session.get("/healthz")).status == 503


async def test_metrics_are_scraped_as_prometheus_text() -> None:
    async with serve(secret_file=None) as (daemon, session):
        daemon.metrics.applied("dgx-a", "created")
        answer = await session.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert 'gitops_applies_total{cluster="dgx-a",result="created"} 1.0' in await answer.text()


async def test_x04_webhook_without_a_secret_is_closed() -> None:
    async with serve(secret_file=None) as (daemon, session):
        answer = await session.post("/webhook", data=BODY, headers=GITHUB(signed(BODY, b"")))
        assert answer.status == 404
        assert daemon.fetches == 0


@pytest.mark.parametrize("content", [b"", b" \n"], ids=["empty", "blank"])
async def test_x04_empty_secret_file_is_closed_too(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    async with serve(secret_file=path) as (daemon, session):
        assert (await session.post("/webhook", data=BODY, headers=GITHUB(signed(BODY, b"")))).status == 503
        assert (await session.post("/webhook", data=BODY, headers={"X-Gitlab-Token": ""})).status in (401, 503)
        assert daemon.fetches == 0


async def test_x04_missing_secret_file_is_closed_too(tmp_path: Path) -> None:
    async with serve(secret_file=tmp_path / "none") as (daemon, session):
        assert (await session.post("/webhook", data=BODY, headers=GITHUB(signed(BODY, b"")))).status == 503
        assert daemon.fetches == 0


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(GITHUB(signed(BODY)), id="github"),
        pytest.param({"X-Gitea-Signature": signed(BODY)}, id="gitea"),
        pytest.param({"X-Forgejo-Signature": signed(BODY)}, id="forgejo"),
        pytest.param({"X-Hub-Signature": "sha256=" + signed(BODY)}, id="bitbucket"),
        pytest.param({"X-Gitlab-Token": SECRET.decode()}, id="gitlab"),
    ],
)
async def test_x04_right_delivery_asks_for_a_fetch(secret_file: Path, headers: dict[str, str]) -> None:
    """BODY names another repository: it only hints, and what is fetched is the configured one."""
    async with serve(secret_file=secret_file) as (daemon, session):
        assert (await session.post("/webhook", data=BODY, headers=headers)).status == 202
        assert daemon.fetches == 1
        assert daemon.results() == {"accepted": 1.0}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param(GITHUB(signed(BODY, b"another")), id="wrong secret"),
        pytest.param(GITHUB(signed(b"another body")), id="another body's"),
        pytest.param(GITHUB(""), id="empty"),
        pytest.param({"X-Hub-Signature-256": signed(BODY)}, id="no algorithm"),
        pytest.param({"X-Hub-Signature": "sha1=" + hmac.new(SECRET, BODY, hashlib.sha1).hexdigest()}, id="sha1"),
        pytest.param({"X-Gitea-Signature": "sha256=" + signed(BODY)}, id="gitea with prefix"),
        pytest.param({"X-Gitlab-Token": "wrong"}, id="token"),
        pytest.param({"X-Gitlab-Token": "wr\u00f6ng"}, id="token not ascii"),
        pytest.param(
            {"X-Gitlab-Token": SECRET.decode(), "X-Hub-Signature-256": "sha256=00"}, id="token, wrong signature"
        ),
    ],
)
async def test_x04_wrong_signature_is_refused(secret_file: Path, headers: dict[str, str]) -> None:
    async with serve(secret_file=secret_file) as (daemon, session):
        assert (await session.post("/webhook", data=BODY, headers=headers)).status == 401
        assert daemon.fetches == 0


async def test_x04_comparison_takes_constant_time(secret_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def spy(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(http_server.hmac, "compare_digest", spy)
    async with serve(secret_file=secret_file) as (_, session):
        await session.post("/webhook", data=BODY, headers=GITHUB("0" * 64))
        await session.post("/webhook", data=BODY, headers={"X-Gitlab-Token": "x"})
    assert len(compared) == 2


async def test_x04_announced_huge_body_is_refused_before_it_is_read(secret_file: Path) -> None:
    async with serve(secret_file=secret_file) as (daemon, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        writer.write(
            b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 2147483648\r\n\r\n"
        )
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 5)  # to the end: the server closes, it waits for nothing
        assert answer.startswith(b"HTTP/1.1 413")
        writer.close()
        assert daemon.fetches == 0


async def test_x04_unannounced_huge_body_is_cut_off(secret_file: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 2 * 1024**3:
            sent += 64 * 1024
            yield b"x" * 64 * 1024

    async with serve(secret_file=secret_file) as (daemon, session):
        try:
            answer = await session.post("/webhook", data=endless(), headers=GITHUB("00"))
            assert answer.status == 413
        except aiohttp.ClientError:
            pass  # the server closed while we were still sending: also an end
        assert sent < 16 * 1024**2
        assert daemon.results() == {"too_large": 1.0}
        assert daemon.fetches == 0


async def test_x04_slow_body_is_given_up(secret_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.05)
    async with serve(secret_file=secret_file) as (daemon, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-Gitea-Signature: 00\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 408")
        writer.close()
        assert daemon.fetches == 0


async def test_x04_thousand_posts_a_second_are_limited(secret_file: Path) -> None:
    async with serve(secret_file=secret_file, rate=5) as (daemon, session):
        headers = GITHUB(signed(BODY))

        async def post() -> tuple[int, str | None]:
            async with session.post("/webhook", data=BODY, headers=headers) as answer:
                return answer.status, answer.headers.get("Retry-After")

        answers = await asyncio.gather(*(post() for _ in range(300)))
        assert answers.count((202, None)) == 5 == daemon.fetches
        assert answers.count((429, "1")) == 295
        daemon.now += 0.2  # one more token
        assert await post() == (202, None)


async def test_x04_replayed_delivery_only_asks_for_a_fetch_again(secret_file: Path) -> None:
    async with serve(secret_file=secret_file) as (daemon, session):
        for _ in range(2):
            answer = await session.post("/webhook", data=BODY, headers=GITHUB(signed(BODY)))
            assert answer.status == 202
        assert daemon.fetches == 2  # a flag in the engine: twice is once


async def test_rotated_secret_works_at_once(secret_file: Path) -> None:
    async with serve(secret_file=secret_file) as (_, session):
        secret_file.write_bytes(b"the-next-secret")  # noqa: ASYNC240
        assert (await session.post("/webhook", data=BODY, headers=GITHUB(signed(BODY)))).status == 401
        right = GITHUB(signed(BODY, b"the-next-secret"))
        assert (await session.post("/webhook", data=BODY, headers=right)).status == 202


async def test_webhook_takes_only_posts(secret_file: Path) -> None:
    async with serve(secret_file=secret_file) as (_, session):
        assert (await session.get("/webhook")).status == 405


def test_rate_limit_refills_and_never_above_its_burst() -> None:
    now = [0.0]
    limit = RateLimit(2, clock=lambda: now[0])
    assert [limit.take() for _ in range(3)] == [True, True, False]
    now[0] = 0.5
    assert [limit.take() for _ in range(2)] == [True, False]
    now[0] = 1000
    assert [limit.take() for _ in range(3)] == [True, True, False]


def test_rate_below_one_a_second_still_lets_one_through() -> None:
    limit = RateLimit(0.1, clock=lambda: 0.0)
    assert [limit.take() for _ in range(2)] == [True, False]
