"""All calls on one named thread, in order; closing ends it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from controlplane_kit.gitserver import Repository

from gitops.source.mirror import Mirror
from gitops.source.remotes import Remote
from gitops.source.transport import Interrupted
from gitops.source.worker import SourceWorker, WorkerClosed


async def test_calls_run_in_order_on_one_named_thread() -> None:
    worker = SourceWorker(name="source-test")
    seen: list[int] = []

    def note(number: int) -> str:
        seen.append(number)
        return threading.current_thread().name

    names = await asyncio.gather(*(worker.call(note, n) for n in range(50)))
    assert seen == list(range(50))
    assert set(names) == {"source-test"}
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 // 0)
    assert await worker.close()
    assert await worker.close()
    with pytest.raises(WorkerClosed):
        await worker.call(note, 1)


async def test_a_cancelled_call_that_has_not_begun_is_dropped() -> None:
    worker = SourceWorker()
    gate = threading.Event()
    ran: list[str] = []
    first = asyncio.create_task(worker.call(gate.wait))
    second = asyncio.create_task(worker.call(ran.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    assert await first
    await worker.call(ran.append, "third")
    assert ran == ["third"]
    await worker.close()


async def test_close_does_not_wait_for_ever() -> None:
    worker = SourceWorker()
    gate = threading.Event()
    stuck = asyncio.create_task(worker.call(gate.wait))
    await asyncio.sleep(0)
    assert not await worker.close(timeout=0.05)
    gate.set()
    assert await stuck
    assert await worker.close()


async def test_a_mirror_lives_on_the_worker(upstream: Repository, tmp_path: Path) -> None:
    worker = SourceWorker()
    mirror = await worker.call(Mirror, tmp_path / "m", Remote(upstream.url), status_branch="gitops-status")
    outcome = await worker.call(mirror.fetch)
    assert outcome.head == upstream.head()
    tree = await worker.call(mirror.tree, outcome.head)
    assert await asyncio.to_thread(tree.read, "gitops.yaml") == b"kind: Repository\n"
    await worker.call(mirror.close)
    assert await worker.close()


def test_an_interrupted_transfer_ends_and_keeps_the_head(
    upstream: Repository, make_mirror: Callable[..., Mirror]
) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    upstream.commit({"b": "b"})
    mirror.interrupt()
    with pytest.raises(Interrupted):
        mirror.fetch()
    assert mirror.head == head
