"""The one thread that all calls into libgit2 run on.

A pygit2 repository must not be shared between threads, and a fetch may take a minute. The thread is a daemon thread, so
a hanging server never keeps the process from ending.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_Job = tuple["concurrent.futures.Future[Any]", Callable[[], Any]]


class WorkerClosed(RuntimeError):
    """The worker takes no more calls."""


class SourceWorker:
    """Runs calls one after another on its own thread, in the order they were made.

    Cancelling an awaiting task drops the call when it has not begun, and otherwise lets it run to its end unheard.
    """

    def __init__(self, *, name: str = "source") -> None:
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closed = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Result of `function(*args, **kwargs)`, run on the worker's thread. Raises what it raises, or WorkerClosed."""
        future: concurrent.futures.Future[R] = concurrent.futures.Future()
        with self._guard:
            if self._closed:
                raise WorkerClosed("the source worker is closed")
            self._queue.put((future, lambda: function(*args, **kwargs)))
        return await asyncio.wrap_future(future)

    async def close(self, *, timeout: float = 5.0) -> bool:
        """Take no more calls, finish those accepted, wait at most `timeout` seconds. True when the thread has ended."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        waiter = asyncio.wrap_future(self._ended)
        done, _ = await asyncio.wait({waiter}, timeout=timeout)
        return bool(done)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del job, future, work
        self._ended.set_result(None)
