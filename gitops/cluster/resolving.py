"""Resolving names of API servers on threads of their own.

getaddrinfo blocks its thread for as long as a name server does not answer, half a minute and more, and giving up
waiting does not free it. On the loop's few common threads, names of one cluster would stop whatever else needs a
thread.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult


class OwnResolver(AbstractResolver):
    """One thread, begun with the first name; aiohttp asks for one name once at a time and keeps the answer for 10 s."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._thread, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
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
        self._thread.shutdown(wait=False, cancel_futures=True)
