"""Watches a plain folder for changes (`gitops run --path`, the folder of credentials)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from watchfiles import awatch


async def watch_folder(path: Path, *, debounce: float = 0.2, hidden: bool = False) -> AsyncIterator[frozenset[str]]:
    """Paths (relative, `/`) that changed below `path`, one set per burst of changes. What is hidden is left
    out unless `hidden`: a mounted Secret changes by its link `..data` alone.

    Ends when the iterating task is cancelled. An event only says "look again". Raises FileNotFoundError at the start.
    """
    root = await asyncio.to_thread(path.resolve, strict=True)

    def relevant(_: object, changed: str) -> bool:
        return hidden or not any(part.startswith(".") for part in Path(changed).relative_to(root).parts)

    async for changes in awatch(root, watch_filter=relevant, debounce=int(debounce * 1000), step=50, recursive=True):
        yield frozenset(Path(changed).relative_to(root).as_posix() for _, changed in changes)
