"""The connection to one cluster: requests and streams, with all that has to be known once for a cluster.

Who owns what: renewing.py the credentials, budget.py how many requests go out, breaker.py whether any does,
transport.py the HTTP session, lines.py the lines of a stream. Answers are given back as they are; only a call without a
usable answer raises (RequestFailed). A connection is to one API server for good: when the kubeconfig names another one,
this connection is at its end (`moved`), since that may be another cluster. Bodies and tokens are never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from gitops.cluster.access import Access, Source, load_access
from gitops.cluster.breaker import Breaker
from gitops.cluster.budget import Budget
from gitops.cluster.errors import STORAGE_STARTING, ErrorClass, RequestFailed, classify, unreachable
from gitops.cluster.lines import split_lines
from gitops.cluster.renewing import AccessKeeper
from gitops.cluster.responses import Response, warnings_of
from gitops.cluster.transport import NOT_WANTED, PIECE, Body, HttpSession, drop, not_wanted, read_body, translated
from gitops.model.identity import ClusterName

__all__ = ["NOT_WANTED", "PIECE", "Connection", "ConnectionSettings", "ConnectionStats", "Response"]

JSON = "application/json"

STARTING = 0.03
"""Seconds, doubled each time, until the storage of one kind is asked again that is starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Limits of one connection; times in seconds."""

    max_in_flight: int = 8
    """Requests at a time (streams don't count). More only queue in the API server's priority and fairness."""

    request_timeout: float = 35.0
    """For a whole request, once it has a token of the budget."""

    connect_timeout: float = 5.0
    """TCP and TLS. Short: a dead address must not hold a token for long."""

    silence_limit: float = 200.0
    """A stream without a byte for so long is taken for dead. The first bookmark of an idle watch took 120 s."""

    longest_line: int = 64 * 1024 * 1024
    """Bytes of one watch event."""

    throttle_retries: int = 4
    """How often a request that was answered 429 is sent again before the caller gets the answer."""

    longest_pause: float = 60.0
    """The most that one Retry-After may stop a cluster."""

    credentials_check: float = 5.0
    """How often, at most, files behind the credentials are looked at; only when a request is made."""


@dataclass(slots=True)
class ConnectionStats:
    """Counters since the connection was opened, for metrics. Read only for others."""

    requests: Counter[str] = field(default_factory=Counter)  # sent, by verb
    answers: Counter[int] = field(default_factory=Counter)  # by HTTP status
    failures: Counter[str] = field(default_factory=Counter)  # no answer, by reason
    throttled: int = 0  # answers of 429 that stopped the cluster
    spared: int = 0  # not sent, because the cluster does not answer
    renewals: int = 0  # of the credentials
    limit: int = 0  # requests that may be in flight now
    broken: bool = False  # is the circuit open?
    in_flight: int = 0
    streams: int = 0  # open now
    bytes_received: int = 0


class Connection:
    """One cluster's API server. Create it with `open`; close it with `close`."""

    def __init__(self, source: Source, access: Access, *, name: ClusterName, settings: ConnectionSettings) -> None:
        self.name = name
        self.settings = settings
        self.stats = ConnectionStats(limit=settings.max_in_flight)
        self._keeper = AccessKeeper(
            source, access, name=name, every=settings.credentials_check, replaced=self._access_replaced
        )
        self._budget = Budget(most=settings.max_in_flight, longest_pause=settings.longest_pause)
        self._breaker = Breaker()
        self._session = self._new_session()
        self._closed = False

    @classmethod
    async def open(cls, source: Source, *, name: ClusterName, settings: ConnectionSettings | None = None) -> Connection:
        """Load the kubeconfig or service account; makes no request yet. Raises RequestFailed (UNAUTHORIZED) when it
        cannot be used."""
        access = await load_access(source)
        return cls(source, access, name=name, settings=settings or ConnectionSettings())

    @property
    def host(self) -> str:
        """Base URL of the API server, for people."""
        return self._keeper.access.endpoint.host

    @property
    def moved(self) -> bool:
        """Do the credentials name another API server by now, or another authority for it? Nothing is sent any more."""
        return self._keeper.moved is not None

    async def close(self) -> None:
        """Close every socket; later calls raise RequestFailed. May be called twice."""
        self._closed = True
        self._keeper.close()
        await self._session.close()

    async def reload(self) -> None:
        """Read the credentials again. When the client certificate is another one, the HTTP session is replaced:
        requests under way end normally, open streams are closed (their readers reconnect). Raises RequestFailed; the
        old access stays then."""
        await self._keeper.renew()

    async def renew(self) -> None:
        """Take new sockets, after an outage: those of before may be half-open, and a watch on one would say nothing for
        minutes. Open streams are closed (their readers go on from their last version), requests under way end as they
        can."""
        if not self._closed:
            replaced, self._session = self._session, self._new_session()
            await replaced.retire()

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        verb: str = "",
        urgent: bool = False,
        wanted: Callable[[], bool] | None = None,
        limit: int | None = None,
    ) -> Response:
        """Send one request and read the whole answer, of any status.

        `path` is absolute and already quoted; `timeout` in seconds; `verb` is what stats count it as. A 429 is waited
        out (the pause holds for the whole cluster, unless one kind's storage is only starting) and sent again up to
        `throttle_retries` times; a 401 renews the credentials once. `urgent` is for the Lease: it takes no token, waits
        for no pause and is sent to a cluster that does not answer, too. `wanted` is asked before each sending, and once
        more when its body is about to be written. An answer of more than `limit` bytes is not read to its end. Raises
        RequestFailed (UNREACHABLE, UNAUTHORIZED when credentials can't be read, STALE when it is not wanted any more,
        or REFUSED when it is too large).
        """
        sent = dict(headers or {}, Accept=accept)
        renewed, throttled = False, 0
        while True:
            async with contextlib.nullcontext() if urgent else self._budget.token():
                await self._check(urgent=urgent)
                if wanted is not None and not wanted():
                    raise not_wanted()
                generation = self._keeper.generation
                data = None if body is None else Body(body, wanted, content_type)
                response = await self._send(method, path, query, sent, data, timeout, verb or method.lower(), limit)
            if response.status == 401 and not renewed:
                renewed = True
                if await self._keeper.refused(generation):
                    continue
            if response.status == 429:
                error = response.error()
                if error.cls is ErrorClass.RETRY:  # not a webhook that denies with 429
                    throttled += 1
                    again = not urgent and throttled <= self.settings.throttle_retries
                    if error.reason != STORAGE_STARTING:
                        self._throttled(error.retry_after)
                    elif again:
                        await asyncio.sleep(STARTING * 2.0**throttled)
                    if again:
                        continue
            else:
                self._budget.answered()
                self.stats.limit = self._budget.limit
            return response

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: Body | None,
        timeout: float | None,
        verb: str,
        limit: int | None,
    ) -> Response:
        total = self.settings.request_timeout if timeout is None else timeout
        session = self._session
        self.stats.requests[verb] += 1
        self.stats.in_flight += 1
        try:
            async with (
                self._counted(),
                session.used() as http,
                http.request(
                    method,
                    self._url(path, query),
                    data=body,
                    headers=self._authorized(headers),
                    timeout=aiohttp.ClientTimeout(total=total, sock_connect=min(self.settings.connect_timeout, total)),
                    allow_redirects=False,
                    proxy=session.access.endpoint.proxy or None,
                    server_hostname=session.access.endpoint.server_name or None,
                ) as answer,
            ):
                content = await read_body(answer, limit)
                warnings = warnings_of(answer.headers.getall("Warning", ()))
                self._answered(answer.status)
                self.stats.bytes_received += len(content)
                return Response(answer.status, answer.headers, content, warnings)
        finally:
            self.stats.in_flight -= 1

    # -- streams -----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        silence_limit: float | None = None,
        verb: str = "watch",
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream (a watch); yields an async iterator of its lines without their line end, of any length.

        The iterator ends when the server closes the stream; it raises RequestFailed when the connection breaks or
        nothing came for `silence_limit` seconds. Opening raises RequestFailed with the class of the answer when that
        is not 200. Streams take no token and wait for the cluster's pause like requests.
        """
        limit = silence_limit if silence_limit is not None else self.settings.silence_limit
        session, answer = await self._open_stream(path, query, accept, limit, verb)
        session.streams.add(answer)
        self.stats.streams += 1
        lines = self._lines(answer)
        try:
            yield lines
        finally:
            self.stats.streams -= 1
            session.streams.discard(answer)
            await lines.aclose()
            drop(answer)

    async def _open_stream(
        self, path: str, query: Mapping[str, str] | None, accept: str, silence_limit: float, verb: str
    ) -> tuple[HttpSession, aiohttp.ClientResponse]:
        renewed = False
        while True:
            await self._budget.unpaused()
            await self._check()
            generation, session = self._keeper.generation, self._session
            self.stats.requests[verb] += 1
            async with self._counted(), session.used() as http:
                answer = await http.get(
                    self._url(path, query),
                    headers=self._authorized({"Accept": accept}),
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=self.settings.connect_timeout, sock_read=silence_limit
                    ),
                    allow_redirects=False,
                    proxy=session.access.endpoint.proxy or None,
                    server_hostname=session.access.endpoint.server_name or None,
                )
                self._answered(answer.status)
                body = b""
                if answer.status != 200:
                    async with answer:
                        body = await answer.content.read(1 << 20)
            if answer.status == 200:
                if session.retired:  # replaced while this was opened
                    drop(answer)
                    continue
                return session, answer
            error = classify(answer.status, answer.headers, body)
            if error.cls is ErrorClass.UNAUTHORIZED and not renewed:
                renewed = True
                if await self._keeper.refused(generation):
                    continue
            if answer.status == 429 and error.cls is ErrorClass.RETRY and error.reason != STORAGE_STARTING:
                self._throttled(error.retry_after)
            raise RequestFailed(error)

    async def _lines(self, answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        async with (
            translated(self.stats.failures, timeout_reason="Silent"),
            contextlib.aclosing(split_lines(self._received(answer), longest=self.settings.longest_line)) as lines,
        ):
            async for line in lines:
                yield line

    async def _received(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for chunk in answer.content.iter_any():
            self.stats.bytes_received += len(chunk)
            yield chunk

    # -- shared by both ----------------------------------------------------------------------------------------------

    async def _check(self, *, urgent: bool = False) -> None:
        """May a call be sent? Raises RequestFailed."""
        if self._closed:
            raise RequestFailed(unreachable("the connection is closed", reason="Closed"))
        await self._keeper.look()
        if self.moved:
            raise RequestFailed(unreachable("the credentials name another API server now", reason="Closed"))
        refused = None if urgent else self._breaker.refuses()
        self.stats.spared, self.stats.broken = self._breaker.spared, self._breaker.open
        if refused is not None:
            raise RequestFailed(refused)

    @contextlib.asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Around a call, up to its answer: what prevents one is translated, and told to the breaker."""
        sent = asyncio.get_running_loop().time()
        try:
            async with translated(self.stats.failures):
                yield
        except RequestFailed as failed:
            if failed.error.cls is ErrorClass.UNREACHABLE and not self._closed:
                self._breaker.failed(sent, failed.error.message)
                self.stats.broken = self._breaker.open
            raise

    def _answered(self, status: int) -> None:
        self.stats.answers[status] += 1
        self._breaker.answered()
        self.stats.broken = False

    def _throttled(self, seconds: float | None) -> None:
        self._budget.pause(seconds)
        self.stats.throttled, self.stats.limit = self._budget.throttled, self._budget.limit

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        suffix = f"?{urlencode(query)}" if query else ""
        return URL(f"{self.host}{path}{suffix}", encoded=True)

    def _authorized(self, headers: Mapping[str, str]) -> dict[str, str]:
        authorization = self._keeper.access.authorization
        return {**headers, "Authorization": authorization} if authorization else dict(headers)

    def _new_session(self) -> HttpSession:
        return HttpSession(
            self._keeper.access,
            request_timeout=self.settings.request_timeout,
            connect_timeout=self.settings.connect_timeout,
        )

    async def _access_replaced(self, before: Access) -> None:
        self.stats.renewals += 1
        if self._closed:
            return
        if self.moved:
            await self._session.retire()
        elif before.certificate != self._keeper.access.certificate:
            await self.renew()
