"""The lines of a stream, of any length, and the loop's turn between them.

One cluster whose watch brings thousands of events at once must not keep the loop from the others: whoever reads lines
handles them without waiting for anything, so after some bytes of them the loop gets a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

from gitops.cluster.errors import RequestFailed, unreachable

TURN = 1 << 16
"""Bytes of lines after which others get their turn: some 30 events of 2 KB, two milliseconds of work."""


async def split_lines(chunks: AsyncIterable[bytes], *, longest: int) -> AsyncGenerator[bytes, None]:
    """Lines without their end; empty ones are left out. Raises RequestFailed for one of more than `longest` bytes, and
    when the stream ends within one."""
    # aiohttp's readline refuses lines above its buffer limit, and one event of a large object can be megabytes.
    pieces: list[bytes] = []
    pending = given = 0
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            pieces.append(chunk[start:end])
            line = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces, pending, start = [], 0, end + 1
            if not line:
                continue
            yield line
            given += len(line)
            if given >= TURN:
                given = 0
                await asyncio.sleep(0)
        if start < len(chunk):
            pieces.append(chunk[start:])
            pending += len(chunk) - start
            if pending > longest:
                raise RequestFailed(unreachable("a line of the stream is too long", reason="LineTooLong"))
    if pieces:
        raise RequestFailed(unreachable("the stream ended within a line", reason="Broken"))
