"""The relay leaves nothing open behind."""

import asyncio
import gc
import socket
import warnings

from controlplane_kit.relay import Relay


async def test_a_connection_accepted_while_it_begins_to_refuse_is_not_left_to_nobody() -> None:
    # Once seen in CI as an unclosed transport: the listener was closed between the accept and the task that binds it.
    inner = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    relay = Relay()
    await relay.start(inner.sockets[0].getsockname()[1])
    with warnings.catch_warnings(action="ignore"):
        gc.collect()  # what other tests left is not ours
    with warnings.catch_warnings(record=True) as caught, socket.socket() as client:
        warnings.simplefilter("always", ResourceWarning)
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", relay.port))
        for _ in range(2):  # the first pass accepts, in the second the accepted connection is about to be bound
            await asyncio.sleep(0)
        await relay.refuse()
        await relay.close()
        gc.collect()
    inner.close()
    assert [str(w.message) for w in caught] == []
