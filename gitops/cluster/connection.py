"""The HTTP connection to one cluster: requests, streams, throttling, credentials, counters.

One aiohttp session per cluster, built from kubernetes.aio's configuration with `trust_env=False` (three times cheaper a
request than its own client; a proxy is taken from the kubeconfig only). Everything that has to be known once a cluster
lives here: how many requests may be in flight, the pause that the server asked for, one renewal of credentials for all
who got a 401. Answers are given back as they are; only a call without a usable answer raises (RequestFailed).
Bodies and tokens are never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from gitops.cluster.access import Access, load_access
from gitops.cluster.errors import STORAGE_STARTING, ApiError, ErrorClass, RequestFailed, classify, cut, unreachable
from gitops.model.identity import ClusterName

JSON = "application/json"
USER_AGENT = "gitops-reconciler"

STARTING = 0.03
"""Seconds, doubled each time, until the storage of one kind is asked again that is starting."""

PIECE = 1 << 18
"""Bytes of a body that are written at a time, so that a large one does not hold up the loop."""

NOT_WANTED = "NotWanted"
"""Reason of a request that was not sent, or not to its end: what asked for it does not want it any more."""


_TLS_CLOSE_LINGERS = sys.version_info < (3, 12, 8) or (3, 13, 0) <= sys.version_info < (3, 13, 1)
"""Where closed TLS sockets may stay open until aborted (python/cpython#118960); aiohttp warns on newer versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Limits of one connection; times in seconds."""

    max_in_flight: int = 8
    """Requests at a time (streams don't count). More only queue in the API server's priority and fairness."""

    request_timeout: float = 35.0
    """For a whole request, once it has a slot."""

    connect_timeout: float = 5.0
    """TCP and TLS. Short: a dead address must not hold a slot for long."""

    silence_limit: float = 200.0
    """A stream without a byte for so long is taken for dead. The first bookmark of an idle watch took 120 s."""

    longest_line: int = 64 * 1024 * 1024
    """Bytes of one watch event."""

    throttle_retries: int = 4
    """How often a request that was answered 429 is sent again before the caller gets the answer."""

    longest_pause: float = 60.0
    """The most that one Retry-After may stop a cluster."""

    credentials_check: float = 60.0
    """How often, at most, files behind the credentials are looked at; only when a request is made."""


@dataclass(slots=True)
class ConnectionStats:
    """Counters since the connection was opened, for metrics. Read only for others."""

    requests: Counter[str] = field(default_factory=Counter)  # sent, by verb
    answers: Counter[int] = field(default_factory=Counter)  # by HTTP status
    failures: Counter[str] = field(default_factory=Counter)  # no answer, by reason
    throttled: int = 0
    reloads: int = 0
    in_flight: int = 0
    streams: int = 0  # open now
    bytes_sent: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()  # texts of its Warning headers, cut

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body decoded. Raises RequestFailed when it is no JSON (a proxy in between, a cut answer)."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestFailed(unreachable("the answer is not JSON", reason="NotJson")) from error

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError:
        """The class of an answer that is not ok (errors.classify)."""
        return classify(self.status, self.headers, self.body, resource=resource, applying=applying)


class _Body(aiohttp.Payload):
    """The body of a request. `wanted` is asked when a connection is at hand and right before each piece is written: a
    process that was stopped while it waited for one must not send what it meant to send before. An answer that lacks
    bytes of a request is none: the API server has not begun to act on it."""

    def __init__(self, body: bytes, wanted: Callable[[], bool] | None, content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._wanted = wanted

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        for start in range(0, len(self._value), PIECE):
            if self._wanted is not None and not self._wanted():
                raise _NotWantedError
            await writer.write(self._value[start : start + PIECE])


class _NotWantedError(Exception):
    """Ends the writing of a body; aiohttp then gives the connection up and fails the request."""


class _Session:
    """An aiohttp session with the number of requests that still need it, so that it can be replaced under way."""

    def __init__(self, access: Access, settings: ConnectionSettings) -> None:
        self.endpoint = access.endpoint
        self.http = aiohttp.ClientSession(
            # No limit of its own: requests are limited by slots, and every watch needs a socket.
            connector=aiohttp.TCPConnector(
                ssl=access.ssl_context or True, limit=0, enable_cleanup_closed=_TLS_CLOSE_LINGERS
            ),
            trust_env=False,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**21,  # watch events can be larger than aiohttp's 64 KiB
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=settings.request_timeout, sock_connect=settings.connect_timeout),
        )
        self.users = 0
        self.retired = False
        self.streams: set[aiohttp.ClientResponse] = set()

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[aiohttp.ClientSession]:
        self.users += 1
        try:
            yield self.http
        finally:
            self.users -= 1
            if self.retired and not self.users:
                await self.http.close()

    async def retire(self) -> None:
        """Close its streams now and the rest as soon as no request needs it."""
        self.retired = True
        self._close_streams()
        if not self.users:
            await self.http.close()

    async def close(self) -> None:
        self._close_streams()
        await self.http.close()
        await asyncio.sleep(0)  # the loop drops aborted sockets in its next round, which may be its last

    def _close_streams(self) -> None:
        # One by one: closing the session alone would leave their readers waiting for ever, timeouts included
        # (aiohttp 3.14, ResponseHandler.close drops payload and timer without telling the reader).
        for answer in list(self.streams):
            _drop(answer)


class Connection:
    """One cluster's API server. Create it with `open`; close it with `close`."""

    def __init__(self, kubeconfig: Path, access: Access, *, name: ClusterName, settings: ConnectionSettings) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.settings = settings
        self.stats = ConnectionStats()
        self._access = access
        self._session = _Session(access, settings)
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._loading = asyncio.Lock()
        self._generation = 0
        self._checked_at = self._now()
        self._paused_until = 0.0
        self._closed = False

    @classmethod
    async def open(
        cls, kubeconfig: Path, *, name: ClusterName, settings: ConnectionSettings | None = None
    ) -> Connection:
        """Load the kubeconfig; makes no request yet. Raises RequestFailed (UNAUTHORIZED) when it cannot be used."""
        access = await load_access(kubeconfig)
        return cls(kubeconfig, access, name=name, settings=settings or ConnectionSettings())

    @property
    def host(self) -> str:
        """Base URL of the API server, for people."""
        return self._access.endpoint.host

    async def close(self) -> None:
        """Close every socket; later calls raise RequestFailed. May be called twice."""
        self._closed = True
        await self._session.close()

    async def reload(self) -> None:
        """Read the kubeconfig again. Only when address or TLS changed is the session replaced: requests under way end
        normally, open streams are closed (their readers reconnect). Raises RequestFailed; the old access stays then."""
        await self._reload(self._generation)

    async def renew(self) -> None:
        """Take new sockets, after an outage: those of before may be half-open, and a watch on one would say nothing for
        minutes. Open streams are closed (their readers go on from their last version), requests under way end as they
        can."""
        if not self._closed:
            replaced, self._session = self._session, _Session(self._access, self.settings)
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
        `throttle_retries` times; a 401 renews the credentials once. `urgent` is for the Lease: it takes no slot and
        waits for no pause. `wanted` is asked before each sending, and once more when its body is about to be written.
        An answer of more than `limit` bytes is not
        read to its end. Raises RequestFailed (UNREACHABLE, UNAUTHORIZED when credentials can't be read, STALE when it
        is not wanted any more, or REFUSED when it is too large).
        """
        sent = dict(headers or {}, Accept=accept)
        verb = verb or method.lower()
        renewed, throttled = False, 0
        while True:
            if not urgent:
                await self._unpaused()
            async with contextlib.nullcontext() if urgent else self._slots:
                if not urgent and self._now() < self._paused_until:
                    continue
                await self._check_credentials()
                if wanted is not None and not wanted():
                    raise _not_wanted()
                generation = self._generation
                data = None if body is None else _Body(body, wanted, content_type)
                response = await self._send(method, path, query, sent, data, timeout, verb, limit)
            if response.status == 401 and not renewed:
                renewed = True
                await self._reload(generation)
                continue
            if response.status == 429:
                error = response.error()
                if error.cls is ErrorClass.RETRY:  # not a webhook that denies with 429
                    throttled += 1
                    again = not urgent and throttled <= self.settings.throttle_retries
                    if error.reason != STORAGE_STARTING:
                        self._pause(error.retry_after)
                    elif again:
                        await asyncio.sleep(STARTING * 2.0**throttled)
                    if again:
                        continue
            return response

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: _Body | None,
        timeout: float | None,
        verb: str,
        limit: int | None,
    ) -> Response:
        session = self._live_session()
        self.stats.requests[verb] += 1
        self.stats.in_flight += 1
        self.stats.bytes_sent += (body.size or 0) if body is not None else 0
        try:
            async with (
                _transport_errors(self.stats),
                session.used() as http,
                http.request(
                    method,
                    self._url(path, query),
                    data=body,
                    headers=await self._authorized(headers),
                    timeout=self._timeout(timeout),
                    allow_redirects=False,
                    proxy=self._access.endpoint.proxy or None,
                    server_hostname=self._access.endpoint.server_name or None,
                ) as answer,
            ):
                content = await answer.read() if limit is None else await _bounded(answer, limit)
                warnings = tuple(_warning_text(text) for text in answer.headers.getall("Warning", ())[:8])
                self.stats.answers[answer.status] += 1
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
        is not 200. Streams take no slot and wait for the cluster's pause like requests.
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
            _drop(answer)

    async def _open_stream(
        self, path: str, query: Mapping[str, str] | None, accept: str, silence_limit: float, verb: str
    ) -> tuple[_Session, aiohttp.ClientResponse]:
        renewed = False
        while True:
            await self._unpaused()
            await self._check_credentials()
            generation = self._generation
            session = self._live_session()
            self.stats.requests[verb] += 1
            async with _transport_errors(self.stats), session.used() as http:
                answer = await http.get(
                    self._url(path, query),
                    headers=await self._authorized({"Accept": accept}),
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=self.settings.connect_timeout, sock_read=silence_limit
                    ),
                    allow_redirects=False,
                    proxy=self._access.endpoint.proxy or None,
                    server_hostname=self._access.endpoint.server_name or None,
                )
                self.stats.answers[answer.status] += 1
                body = b""
                if answer.status != 200:
                    async with answer:
                        body = await answer.content.read(1 << 20)
            if answer.status == 200:
                if session.retired:  # replaced while this was opened
                    _drop(answer)
                    continue
                return session, answer
            error = classify(answer.status, answer.headers, body)
            if error.cls is ErrorClass.UNAUTHORIZED and not renewed:
                renewed = True
                await self._reload(generation)
                continue
            if answer.status == 429 and error.cls is ErrorClass.RETRY and error.reason != STORAGE_STARTING:
                self._pause(error.retry_after)
            raise RequestFailed(error)

    async def _lines(self, answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        # aiohttp's readline refuses lines above its buffer limit, and one event of a large object can be megabytes.
        pieces: list[bytes] = []
        pending = 0
        async with _transport_errors(self.stats, timeout_reason="Silent"):
            async for chunk in answer.content.iter_any():
                self.stats.bytes_received += len(chunk)
                start = 0
                while (end := chunk.find(b"\n", start)) >= 0:
                    pieces.append(chunk[start:end])
                    line = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                    pieces, pending, start = [], 0, end + 1
                    if line:
                        yield line
                if start < len(chunk):
                    pieces.append(chunk[start:])
                    pending += len(chunk) - start
                    if pending > self.settings.longest_line:
                        raise RequestFailed(unreachable("a line of the stream is too long", reason="LineTooLong"))
        if pieces:
            raise RequestFailed(unreachable("the stream ended within a line", reason="Broken"))

    # -- shared by both ----------------------------------------------------------------------------------------------

    def _live_session(self) -> _Session:
        if self._closed:
            raise RequestFailed(unreachable("the connection is closed", reason="Closed"))
        return self._session

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        suffix = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._access.endpoint.host}{path}{suffix}", encoded=True)

    async def _authorized(self, headers: Mapping[str, str]) -> dict[str, str]:
        authorization = await self._access.authorization()
        return {**headers, "Authorization": authorization} if authorization else dict(headers)

    def _timeout(self, timeout: float | None) -> aiohttp.ClientTimeout:
        total = self.settings.request_timeout if timeout is None else timeout
        return aiohttp.ClientTimeout(total=total, sock_connect=min(self.settings.connect_timeout, total))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _pause(self, seconds: float | None) -> None:
        self.stats.throttled += 1
        wanted = min(seconds if seconds is not None else 1.0, self.settings.longest_pause)
        self._paused_until = max(self._paused_until, self._now() + wanted)

    async def _unpaused(self) -> None:
        while (rest := self._paused_until - self._now()) > 0:  # noqa: ASYNC110 - a point in time that may move on
            await asyncio.sleep(rest)

    async def _check_credentials(self) -> None:
        now = self._now()
        if now - self._checked_at < self.settings.credentials_check:
            return
        self._checked_at = now
        if self._access.outdated(datetime.datetime.now(datetime.UTC)):
            with contextlib.suppress(RequestFailed):  # a file half written: the old access may still serve
                await self._reload(self._generation)

    async def _reload(self, generation: int) -> None:
        """Load the access anew unless somebody else did since `generation`."""
        async with self._loading:
            if self._generation != generation:
                return
            access = await load_access(self.kubeconfig)
            self._generation += 1
            self._checked_at = self._now()
            self.stats.reloads += 1
            replaced = None if access.endpoint == self._access.endpoint or self._closed else self._session
            self._access = access
            if replaced is not None:
                self._session = _Session(access, self.settings)
                await replaced.retire()


async def _bounded(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, if it has at most `limit` bytes. Raises RequestFailed (REFUSED); nothing more of it is read then."""
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            _drop(answer)
            message = f"the answer has more than {limit >> 20} MiB"
            raise RequestFailed(ApiError(ErrorClass.REFUSED, answer.status, "TooLarge", message))
        pieces.append(piece)
    return b"".join(pieces)


def _drop(answer: aiohttp.ClientResponse) -> None:
    """End a stream at once: a polite TLS close waits for a peer that may be gone, with the socket open."""
    transport = answer.connection.transport if answer.connection is not None else None
    answer.close()
    if transport is not None:
        transport.abort()


@contextlib.asynccontextmanager
async def _transport_errors(stats: ConnectionStats, *, timeout_reason: str = "Timeout") -> AsyncIterator[None]:
    """Turn whatever aiohttp and the operating system raise into RequestFailed (UNREACHABLE)."""
    try:
        yield
    except TimeoutError as error:  # aiohttp's and asyncio's derive from it
        raise _no_answer(stats, timeout_reason, "no answer in time") from error
    except (ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise _no_answer(stats, "Tls", str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, _NotWantedError):
            raise _not_wanted() from None
        raise _no_answer(stats, "Broken", str(error) or type(error).__name__) from error


def _not_wanted() -> RequestFailed:
    return RequestFailed(ApiError(ErrorClass.STALE, reason=NOT_WANTED, message="not wanted any more"))


def _no_answer(stats: ConnectionStats, reason: str, sentence: str) -> RequestFailed:
    stats.failures[reason] += 1
    return RequestFailed(unreachable(sentence, reason=reason))


def _warning_text(header: str) -> str:
    """Text of a Warning header (`299 - "text"`, RFC 7234 5.5)."""
    first, last = header.find('"'), header.rfind('"')
    text = header[first + 1 : last] if 0 <= first < last else header
    return cut(text.replace('\\"', '"').replace("\\\\", "\\"))
