"""Listing: a collection in pages, each let go before the next is asked for.

A token that expires in the middle (410) starts the list over, a few times: what the pages before it said is void, and
nothing is ever concluded from a part of a list.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import msgspec

from gitops.cluster.collection import Collection, ReflectorSettings, ReflectorStats, WatchTransport
from gitops.cluster.errors import ErrorClass, RequestFailed, unreachable
from gitops.cluster.watch_events import JsonObject


class _Meta(msgspec.Struct):
    resourceVersion: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Body(msgspec.Struct):
    metadata: _Meta
    items: list[msgspec.Raw] | None  # must be there: a single object is no empty list


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_object = msgspec.json.Decoder(JsonObject).decode


class Page:
    """`first`: a list begins, and pages that came before it are of none. `version` is the resourceVersion of the whole
    list, the same on each page; `last`: with this page it is complete."""

    __slots__ = ("_body", "first", "last", "token", "version")

    def __init__(self, body: _Body, *, first: bool) -> None:
        self._body = body
        self.first = first
        self.version = body.metadata.resourceVersion
        self.token = body.metadata.token
        self.last = not self.token

    def objects(self) -> Iterator[JsonObject]:
        """The objects, decoded one at a time."""
        return (_decode_object(raw) for raw in self._body.items or ())


async def pages(
    transport: WatchTransport, collection: Collection, *, settings: ReflectorSettings, stats: ReflectorStats
) -> AsyncGenerator[Page, None]:
    """All pages of a list, until the last. Raises RequestFailed; what came before that is no list. Let go of each page
    before the next is asked for."""
    token, restarts = "", 0
    while True:
        try:
            page = await _page(transport, collection, token, settings)
        except RequestFailed as failed:
            if failed.error.cls is not ErrorClass.EXPIRED:
                raise
            stats.expirations += 1
            if not token or restarts >= settings.page_restarts:
                raise
            token, restarts = "", restarts + 1
            continue
        stats.pages += 1
        token = page.token
        yield page
        del page  # only one page at a time is in memory
        if not token:
            return


async def _page(transport: WatchTransport, collection: Collection, token: str, settings: ReflectorSettings) -> Page:
    query = collection.query(limit=str(settings.page_limit))
    if token:
        query["continue"] = token
    answer = await transport.request(
        "GET",
        collection.path,
        query=query,
        accept=collection.accept(listing=True),
        timeout=settings.list_timeout,
        verb="list",
    )
    if not answer.ok:
        raise RequestFailed(answer.error(resource=collection.resource))
    try:
        body = _decode_body(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFailed(unreachable("the answer is no list", reason="NotJson")) from error
    if not body.metadata.resourceVersion:
        raise RequestFailed(unreachable("the list has no resourceVersion to watch from", reason="NotJson"))
    return Page(body, first=not token)
