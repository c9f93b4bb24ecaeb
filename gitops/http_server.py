"""The daemon's HTTP endpoints: /healthz, /readyz, /metrics and the webhook that forges call after a push.

The webhook trusts nobody. Without a secret it does not exist (404). With one, a delivery must carry a right
signature or token, checked in constant time, over a body that is measured before and while it is read. What the
payload says is not even parsed: a right delivery asks for one fetch of the one configured repository, so a replayed
or foreign payload can do no more than a poll does.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gitops.logs import REDACTOR
from gitops.metrics import PrometheusMetrics

log = logging.getLogger(__name__)

BODY_SECONDS = 10.0
"""Longest time a delivery's body may take."""

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Readiness:
    """What /readyz answers: ready or why not. `details` is for people and may name clusters, never secrets."""

    ready: bool
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


class RateLimit:
    """A token bucket: `rate` a second, bursts of the same size (at least 1)."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(1.0, rate)
        self._tokens = self._burst
        self._clock = clock
        self._last = clock()

    def take(self) -> bool:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Webhook:
    """POST /webhook for GitHub, Gitea, Forgejo, Bitbucket (HMAC-SHA256 over the body) and GitLab (token).

    `request_fetch` must be idempotent until the fetch starts: that is what coalesces a burst into one fetch.
    """

    def __init__(
        self,
        *,
        secret_file: Path | None,
        request_fetch: Callable[[], None],
        metrics: PrometheusMetrics,
        rate: float,
        max_body: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secret_file = secret_file
        self._request_fetch = request_fetch
        self._metrics = metrics
        self._limit = RateLimit(rate, clock=clock)
        self._max_body = max_body

    async def handle(self, request: web.Request) -> web.Response:
        result, response = await self._judge(request)
        self._metrics.webhook(result)
        if response.status != 202:
            response.force_close()  # the rest of a body that nobody wants is not read
        return response

    async def _judge(self, request: web.Request) -> tuple[str, web.Response]:
        if self._secret_file is None:
            return "closed", web.Response(status=404, text="not found\n")
        signature, token = _signature(request.headers), request.headers.get("X-Gitlab-Token")
        if signature is None and token is None:
            return "unsigned", web.Response(status=401, text="a signature is missing\n")
        if request.content_length is not None and request.content_length > self._max_body:
            return "too_large", web.Response(status=413, text=f"more than {self._max_body} bytes\n")
        if not self._limit.take():
            return "too_many", web.Response(status=429, text="too many deliveries\n", headers={"Retry-After": "1"})
        secret = await asyncio.to_thread(_read_secret, self._secret_file)
        if not secret:
            return "failed", web.Response(status=503, text="the webhook's secret cannot be read\n")
        if signature is None:
            if not hmac.compare_digest(_bytes(token or ""), secret):
                return "wrong_signature", web.Response(status=401, text="the token is wrong\n")
        else:
            try:
                digest = await self._digest(request, secret)
            except TimeoutError:
                return "failed", web.Response(status=408, text="the body took too long\n")
            if digest is None:
                return "too_large", web.Response(status=413, text=f"more than {self._max_body} bytes\n")
            if not hmac.compare_digest(_bytes(signature), digest.encode()):
                return "wrong_signature", web.Response(status=401, text="the signature is wrong\n")
        self._request_fetch()
        return "accepted", web.Response(status=202, text="a fetch is requested\n")

    async def _digest(self, request: web.Request, secret: bytes) -> str | None:
        """HMAC of the body as hexadecimal text; None when it grows above the limit. The body is not kept."""
        mac = hmac.new(secret, digestmod=hashlib.sha256)
        size = 0
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(_CHUNK):
                size += len(chunk)
                if size > self._max_body:
                    return None
                mac.update(chunk)
        return mac.hexdigest()


def _signature(headers: Mapping[str, str]) -> str | None:
    """The hexadecimal HMAC-SHA256 that a delivery carries, or None."""
    prefixed = headers.get("X-Hub-Signature-256") or headers.get("X-Hub-Signature")
    if prefixed is not None:
        algorithm, _, value = prefixed.partition("=")
        return value if algorithm == "sha256" else ""
    return headers.get("X-Gitea-Signature") or headers.get("X-Forgejo-Signature")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # compare_digest refuses text that is not ASCII


def _read_secret(path: Path) -> bytes:
    """Read at each delivery, so that a rotated secret works at once. Empty when it cannot be read: fail closed."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        log.error("the webhook's secret cannot be read: %s", error)
        return b""
    REDACTOR.add(secret.decode("utf-8", "replace"))
    return secret


class HttpServer:
    """The endpoints on one address. `alive` is false when the engine has died; `readiness` is asked at each request."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        alive: Callable[[], bool],
        readiness: Callable[[], Readiness],
        metrics: PrometheusMetrics,
        webhook: Webhook,
    ) -> None:
        self._host = host
        self._port = port
        self._alive = alive
        self._readiness = readiness
        self._metrics = metrics
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_post("/webhook", webhook.handle)
        # lingering_time 0: after an early answer the connection is closed, not drained of a body of any size.
        self._runner = web.AppRunner(app, access_log=None, lingering_time=0, shutdown_timeout=2.0)

    async def start(self) -> str:
        """Listen; returns the base URL (with the port that was taken for port 0). Raises OSError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise OSError(f"listen {self._host}:{self._port}: {why}; choose another address with --listen") from error
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        if self._alive():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the engine has stopped\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        now = self._readiness()
        body = {"ready": now.ready, "message": now.message, **now.details}
        return web.json_response(body, status=200 if now.ready else 503)

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        text = await asyncio.to_thread(generate_latest, self._metrics.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
