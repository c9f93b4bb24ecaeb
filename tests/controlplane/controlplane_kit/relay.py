"""A TCP relay on loopback whose network can fail: refused, reset, or half-open connections."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from controlplane_kit.controlplane import free_port

_CHUNK = 1 << 16


@dataclass(slots=True, eq=False)
class _Link:
    """One relayed connection. Once `silent` it takes bytes and passes none on, whatever happens later."""

    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    silent: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self) -> None:
        self.gone.set()
        for writer in self.writers:
            writer.transport.abort()


class Relay:
    """Passes bytes from `port` to an inner port. All methods run on one loop."""

    def __init__(self) -> None:
        self.port = 0
        self._inner = 0
        self._swallowing = False
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def start(self, inner: int) -> None:
        """Listen on a free port, and relay to the port `inner`."""
        self._inner = inner
        self.port = free_port()
        await self.open()

    async def open(self) -> None:
        """Serve new connections as usual."""
        self._swallowing = False
        if self._listener is None:
            self._listener = await asyncio.start_server(self._relay, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Reset all connections and stop listening."""
        if (listener := self._listener) is not None:
            self._listener = None
            # A connection that was accepted just now is bound to the listener by a task that is yet to run: to close
            # first would leave its socket to nobody (python/cpython#109564).
            loop = asyncio.get_running_loop()
            for socket in listener.sockets:
                loop.remove_reader(socket.fileno())
            await asyncio.sleep(0)
            listener.close()
        await self.cut()

    async def swallow(self) -> None:
        """Make all connections half-open, and new ones too."""
        await self.open()
        self._swallowing = True
        for link in self._links:
            link.silent = True

    async def cut(self) -> None:
        """Reset all connections."""
        for link in list(self._links):
            link.cut()

    async def close(self) -> None:
        """Refuse, and return when the last connection is gone."""
        await self.refuse()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer], self._swallowing)
        self._links.add(link)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._inner)
            link.writers.append(inner_writer)
            directions = [
                asyncio.create_task(_pass_on(reader, inner_writer, link)),
                asyncio.create_task(_pass_on(inner_reader, writer, link)),
            ]
            try:
                done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
                if any(direction.exception() for direction in done):
                    link.cut()  # a reset stays a reset
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
        except OSError:
            pass
        finally:
            self._links.discard(link)
            for each in link.writers:
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link) -> None:
    """Until either side ends."""
    while data := await reader.read(_CHUNK):
        if not link.silent:
            writer.write(data)
            await writer.drain()
    if link.silent:
        await link.gone.wait()  # what one side does is not seen by the other any more
