"""Resolving names of API servers on threads of their own.

getaddrinfo blocks its thread for as long as a name server does not answer, half a minute and more, and giving up
waiting does not free it. On the loop's few common threads, names of one cluster would stop whatever else needs a
thread; and the end of the process would wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult


class OwnResolver(AbstractResolver):
    """A thread for each question; aiohttp asks for one name once at a time and keeps the answer for 10 s."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError."""
        found = await _on_a_thread(
            lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Nothing: threads that still wait end with their name server, or with the process."""


async def _on_a_thread(work: Callable[[], Any]) -> Any:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def tell(how: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(lambda: None if outcome.done() else how(value))

    def run() -> None:
        try:
            result = work()
        except OSError as error:
            tell(outcome.set_exception, error)
        except UnicodeError:
            tell(outcome.set_exception, OSError("the name of the host is none"))
        else:
            tell(outcome.set_result, result)

    threading.Thread(target=run, name="resolver", daemon=True).start()
    return await outcome
