"""A proxy before an API server that writes down every request and fails on demand.

Two layers. Outside a TCP relay (relay.py), where connections are refused, cut, or go half-open. Inside, here, an HTTP
proxy that ends TLS, where single requests are counted, held, answered with an error, or lose their answer. Watches
stream through.

The proxy logs in upstream as administrator whoever asks; bearer tokens and impersonation headers are passed on.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from controlplane_kit import faults
from controlplane_kit.client import ApiServer, write_kubeconfig
from controlplane_kit.faults import Action, Match, Request, Rule, on
from controlplane_kit.loopthread import LoopThread
from controlplane_kit.relay import Relay

_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}


class FaultProxy:
    """Stands before `api` and keeps its kubeconfig in `folder`; a context manager. Call it from any thread.

    `rules` and `requests` may be read and changed at any time; both only grow on their own.
    """

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.rules: list[Rule] = []
        self.requests: list[Request] = []
        self._api = api
        self._folder = folder
        self._thread: LoopThread | None = None
        self._relay = Relay()
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread = LoopThread("fault-proxy")
        self._thread.run(self._start())
        certificates = self._api.certificates
        write_kubeconfig(self.kubeconfig, url=self.url, authority=certificates.authority, client=certificates.admin)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self._thread is not None:
            for rule in self.rules:
                if isinstance(rule.action, faults.Hold):
                    rule.action.release()
            self._thread.run(self._stop())
            self._thread.close()
            self._thread = None

    @property
    def url(self) -> str:
        """Where clients go instead of to the API server."""
        return f"https://127.0.0.1:{self._relay.port}"

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, through this proxy."""
        return self._folder / "kubeconfig-proxy"

    def seen(
        self, method: str | None = None, path: str = "", *, watch: bool | None = None, **query: str
    ) -> list[Request]:
        """The requests so far that match, by the arguments of `faults.on`."""
        match = on(method, path, watch=watch, **query)
        return [request for request in list(self.requests) if match(request)]

    def calls(self) -> list[Request]:
        """The requests that cost something: all but watches and the Lease."""
        return [request for request in list(self.requests) if not request.is_watch and not request.is_lease]

    def writes(self) -> list[Request]:
        """The requests that changed something or tried to: no dry runs, no Lease."""
        return [request for request in self.calls() if request.is_write]

    def frozen(self) -> int:
        """How many calls, watches not counted, have an answer that fell silent and wait for it."""
        return sum(r.frozen and r.ended is None and not r.is_watch for r in list(self.requests))

    def clear(self) -> None:
        """Forget the requests so far."""
        self.requests.clear()

    def fail(self, action: Action, match: Match | None = None, *, times: int | None = 1) -> Rule:
        """Add a rule and give it back; without `match` it acts on whatever comes next."""
        rule = Rule(match or on(), action, times)
        self.rules.append(rule)
        return rule

    def cut(self) -> None:
        """Reset every open connection; new ones are served."""
        self._on_loop().run(self._relay.cut())

    def refuse(self) -> None:
        """As an API server that is gone: open connections are reset, new ones refused."""
        self._on_loop().run(self._relay.refuse())

    def blackhole(self) -> None:
        """Half-open: connections, old and new, stay open, take bytes and answer nothing."""
        self._on_loop().run(self._relay.swallow())

    def restore(self) -> None:
        """Drop all rules and serve new connections. Those that went half-open stay so: their peer has to notice."""
        self.rules.clear()
        self._on_loop().run(self._relay.open())

    def _on_loop(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the fault proxy is not running")
        return self._thread

    async def _start(self) -> None:
        certificates = self._api.certificates
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(*certificates.server)
        asking = ssl.create_default_context(cafile=str(certificates.authority))
        asking.load_cert_chain(*certificates.admin)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=asking, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
            trust_env=False,
        )
        # A watch ends upstream when its client goes away, not at the next event.
        server = web.Server(self._serve, handler_cancellation=True, access_log=None, auto_decompress=False)
        self._runner = runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving).start()
        await self._relay.start(runner.addresses[0][1])

    async def _stop(self) -> None:
        await self._relay.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        request = Request(
            incoming.method,
            incoming.path,
            dict(incoming.query),
            dict(incoming.headers),
            await incoming.read(),
            time.monotonic(),
        )
        self.requests.append(request)
        action = next((rule.action for rule in list(self.rules) if rule.takes(request)), None)
        try:
            return await self._carry_out(action, request, incoming)
        finally:
            request.ended = time.monotonic()

    async def _carry_out(
        self, action: Action | None, request: Request, incoming: web.BaseRequest
    ) -> web.StreamResponse:
        match action:
            case faults.Answer():
                return _status(action, request)
            case faults.WatchError():
                return _watch_error(action, request)
            case faults.Cut():
                _cut(incoming)
            case faults.Delay(seconds):
                await asyncio.sleep(seconds)
            case faults.Hold() if not isinstance(action, faults.HoldAnswer):
                await _held(action)
            case _:
                pass
        return await self._forward(action, request, incoming)

    async def _forward(self, action: Action | None, request: Request, incoming: web.BaseRequest) -> web.StreamResponse:
        limit = action.size if isinstance(action, faults.CutAfter | faults.FreezeAfter) else None
        async with self._ask(request, incoming) as upstream:
            if isinstance(action, faults.LoseAnswer):
                await upstream.read()
                _cut(incoming)
            if isinstance(action, faults.DelayAnswer):
                await asyncio.sleep(action.seconds)
            if isinstance(action, faults.HoldAnswer):
                await _held(action)
            request.status = upstream.status
            headers = _forwarded(upstream.headers)
            if "Content-Length" in upstream.headers:
                headers["Content-Length"] = upstream.headers["Content-Length"]
            outgoing = web.StreamResponse(status=upstream.status, headers=headers)
            await outgoing.prepare(incoming)
            if isinstance(action, faults.Lie):
                async for lines in _lied(upstream.content, action):
                    await outgoing.write(lines)
            passed = 0
            async for chunk in upstream.content.iter_any():
                if limit is not None and passed + len(chunk) >= limit:
                    await outgoing.write(chunk[: limit - passed])
                    break
                passed += len(chunk)
                await outgoing.write(chunk)
            if isinstance(action, faults.CutAfter):
                _cut(incoming)
            if isinstance(action, faults.FreezeAfter):
                request.frozen = True
                await asyncio.Event().wait()  # until the client gives up, which cancels this handler
            await outgoing.write_eof()
            return outgoing

    @contextlib.asynccontextmanager
    async def _ask(self, request: Request, incoming: web.BaseRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask the API server; when it cannot be reached or breaks off, break off too."""
        assert self._session is not None
        url = URL(self._api.url + incoming.raw_path, encoded=True)
        headers = _forwarded(incoming.headers)
        try:
            async with self._session.request(
                request.method, url, data=request.body or None, headers=headers
            ) as response:
                try:
                    yield response
                except BaseException:
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()  # a clean end of TLS would outlive the proxy's loop
                    raise
        except aiohttp.ClientError:
            _cut(incoming)


async def _lied(content: aiohttp.StreamReader, lie: faults.Lie) -> AsyncIterator[bytes]:
    """The lines of a watch as it tells them."""
    late = b""
    async for line in content:
        event = b'"type":"BOOKMARK"' not in line[:40]
        chance = lie.rng.random() if event else 1.0
        if chance < lie.lost:
            continue
        if chance < lie.lost + lie.late and not late:
            late = line
            continue
        yield line + (line if event and chance > 1.0 - lie.twice else b"") + late
        late = b""


async def _held(hold: faults.Hold) -> None:
    hold.arrived.set()
    while not hold.released.is_set():  # noqa: ASYNC110 (released from another thread)
        await asyncio.sleep(0.002)


def _cut(incoming: web.BaseRequest) -> None:
    """Reset the client's connection and end the handler without an answer."""
    if incoming.transport is not None:
        incoming.transport.abort()
    raise ConnectionResetError("cut by the fault proxy")


def _forwarded(headers: "CIMultiDict[str] | aiohttp.typedefs.LooseHeaders") -> "CIMultiDict[str]":
    return CIMultiDict(
        (name, value) for name, value in CIMultiDict(headers).items() if name.lower() not in _NOT_FORWARDED
    )


def _status(action: faults.Answer, request: Request) -> web.Response:
    request.status = action.code
    headers = {} if action.retry_after is None else {"Retry-After": str(action.retry_after)}
    return web.json_response(_body(action.code, action.reason, action.message), status=action.code, headers=headers)


def _watch_error(action: faults.WatchError, request: Request) -> web.Response:
    request.status = 200
    event = {"type": "ERROR", "object": _body(action.code, action.reason, action.message)}
    return web.Response(text=json.dumps(event) + "\n", content_type="application/json")


def _body(code: int, reason: str, message: str) -> dict[str, object]:
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return kind | {"message": message, "reason": reason, "code": code}
