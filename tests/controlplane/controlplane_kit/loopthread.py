"""An asyncio loop on a thread of its own, so that a server of the kit serves tests of any kind, sync or async."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Start it, `run` coroutines on it from any other thread, `close` it."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T], *, timeout: float = 30) -> _T:
        """Run `work` there and give its result here; blocks the calling thread for at most `timeout` seconds."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def close(self) -> None:
        """Cancel what still runs, then end loop and thread."""
        self.run(_cancel_others())
        self.run(abort_transports())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)
        self.loop.close()


async def abort_transports() -> None:
    """End all connections of the running loop at once, before it stops.

    A TLS connection that was closed still waits for its peer's farewell, which a frozen peer never sends; a loop that
    stops meanwhile leaks it, and the garbage collector's warning then fails some later test.
    """
    loop = asyncio.get_running_loop()
    for transport in list(getattr(loop, "_transports", {}).values()):
        transport.abort()
    for _ in range(5):  # aborted connections are closed by callbacks of callbacks
        await asyncio.sleep(0)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
