"""The HTTP session of a connection, and what aiohttp needs to be told or translated from.

One aiohttp session, with `trust_env=False` (three times cheaper a request; a proxy is taken from the kubeconfig only),
that can be replaced while requests and streams use it. Whatever aiohttp and the operating system raise becomes
RequestFailed (UNREACHABLE).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable

import aiohttp

from gitops.cluster.access import Access
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, unreachable
from gitops.cluster.resolving import OwnResolver

USER_AGENT = "gitops-reconciler"

PIECE = 1 << 18
"""Bytes of a body that are written at a time, so that a large one does not hold up the loop."""

NOT_WANTED = "NotWanted"
"""Reason of a request that was not sent, or not to its end: what asked for it does not want it any more."""

_TLS_CLOSE_LINGERS = sys.version_info < (3, 12, 8) or (3, 13, 0) <= sys.version_info < (3, 13, 1)
"""Where closed TLS sockets may stay open until aborted (python/cpython#118960); aiohttp warns on newer versions."""


class HttpSession:
    """An aiohttp session with the number of requests that still need it, so that it can be replaced under way. Times in
    seconds."""

    def __init__(self, access: Access, *, request_timeout: float, connect_timeout: float) -> None:
        self.access = access
        self.http = aiohttp.ClientSession(
            # No limit of its own: requests are limited by the budget, and every watch needs a socket.
            connector=aiohttp.TCPConnector(
                ssl=access.ssl_context or True,
                limit=0,
                resolver=OwnResolver(),
                enable_cleanup_closed=_TLS_CLOSE_LINGERS,
            ),
            trust_env=False,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**21,  # watch events can be larger than aiohttp's 64 KiB
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=request_timeout, sock_connect=connect_timeout),
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
            drop(answer)


class Body(aiohttp.Payload):
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


async def read_body(answer: aiohttp.ClientResponse, limit: int | None) -> bytes:
    """The body, if it has at most `limit` bytes. Raises RequestFailed (REFUSED); nothing more of it is read then."""
    if limit is None:
        return await answer.read()
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            drop(answer)
            message = f"the answer has more than {limit >> 20} MiB"
            raise RequestFailed(ApiError(ErrorClass.REFUSED, answer.status, "TooLarge", message))
        pieces.append(piece)
    return b"".join(pieces)


def drop(answer: aiohttp.ClientResponse) -> None:
    """End a stream at once: a polite TLS close waits for a peer that may be gone, with the socket open."""
    transport = answer.connection.transport if answer.connection is not None else None
    answer.close()
    if transport is not None:
        transport.abort()


@contextlib.asynccontextmanager
async def translated(failures: Counter[str], *, timeout_reason: str = "Timeout") -> AsyncIterator[None]:
    """Turn whatever aiohttp and the operating system raise into RequestFailed, counted by reason in `failures`."""
    try:
        yield
    except TimeoutError as error:  # aiohttp's and asyncio's derive from it
        raise _no_answer(failures, timeout_reason, "no answer in time") from error
    except (ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise _no_answer(failures, "Tls", str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, _NotWantedError):
            raise not_wanted() from None
        raise _no_answer(failures, "Broken", str(error) or type(error).__name__) from error


def not_wanted() -> RequestFailed:
    return RequestFailed(ApiError(ErrorClass.STALE, reason=NOT_WANTED, message="not wanted any more"))


def _no_answer(failures: Counter[str], reason: str, sentence: str) -> RequestFailed:
    failures[reason] += 1
    return RequestFailed(unreachable(sentence, reason=reason))
