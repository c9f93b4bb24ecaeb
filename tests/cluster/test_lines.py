"""Lines of a stream: whole, and with turns for others between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.cluster.errors import RequestFailed
from gitops.cluster.lines import TURN, split_lines


async def pieces(data: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    at = 0
    for cut in sorted(cuts):
        yield data[at:cut]
        at = cut
    yield data[at:]


@given(lines=st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), data=st.data())
def test_however_it_arrives_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5))

    async def read() -> list[bytes]:
        return [line async for line in split_lines(pieces(text, cuts), longest=1000)]

    assert asyncio.run(read()) == [line for line in lines if line]


async def test_a_stream_that_ends_within_a_line_is_broken() -> None:
    lines = split_lines(pieces(b"one\ntw", []), longest=1000)
    assert await anext(lines) == b"one"
    with pytest.raises(RequestFailed, match="within a line"):
        await anext(lines)


async def test_a_flood_of_one_cluster_gives_the_loop_to_others_after_some_bytes() -> None:
    """Ten thousand events that are all there already: a reader that waits for nothing would keep everybody waiting."""
    size, count = 2000, 10_000
    line = b"x" * size
    read = turns = longest = since = 0

    async def others() -> None:
        nonlocal turns, longest, since
        while True:
            turns, longest, since = turns + 1, max(longest, read - since), read
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    async for _ in split_lines(pieces((line + b"\n") * count, []), longest=size):
        read += 1
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert read == count
    assert longest <= TURN // size + 1
    assert turns >= count * size // (TURN + size)
