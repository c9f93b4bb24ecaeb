"""A folder whose files change."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gitops.source.watching import watch_folder


async def test_the_swapped_link_of_a_mounted_secret_is_seen_where_hidden_files_count(tmp_path: Path) -> None:
    """Of a mounted Secret nothing changes but what begins with a dot."""
    for version in ("..one", "..two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "dgx-a").write_text(version)
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "dgx-a").symlink_to("..data/dgx-a")
    told: list[str] = []

    async def watch(*, hidden: bool) -> None:
        async for changed in watch_folder(tmp_path, debounce=0.05, hidden=hidden):
            told.extend(f"{hidden} {path}" for path in changed)

    watching = [asyncio.create_task(watch(hidden=hidden)) for hidden in (True, False)]
    try:
        async with asyncio.timeout(20):
            number = 0
            while not any(line.startswith("True ") for line in told):  # it begins a moment after it was asked for
                number += 1
                (tmp_path / "..tmp").symlink_to(("..one", "..two")[number % 2])
                (tmp_path / "..tmp").rename(tmp_path / "..data")
                await asyncio.sleep(0.1)
            told.clear()
            while not any(line.startswith("False ") for line in told):
                number += 1
                (tmp_path / f"plain-{number}").write_text("x")
                await asyncio.sleep(0.1)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    assert all("plain" in line for line in told if line.startswith("False "))
