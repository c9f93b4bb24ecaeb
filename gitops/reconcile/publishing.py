"""When status files are pushed: after a short debounce, at most one commit an interval.

A refused or failed push keeps everything for the next attempt; a branch that was lost is written anew as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from gitops.reconcile.context import Context
from gitops.reconcile.reporting import Reporter
from gitops.report.paths import DRIFT, SCHEMAS
from gitops.source.errors import SourceErrorClass
from gitops.source.sources import Source
from gitops.source.statuses import PushKind, StatusStore

_log = logging.getLogger(__name__)

FOLDERS = ("status", DRIFT, SCHEMAS)
"""What we write on the status branch; other folders there are others'."""

LONGEST_PAUSE = 300.0
"""Seconds between pushes that the server keeps refusing: the same push will be refused until people act."""


class StatusWriter:
    """Debounces, renders and pushes. `render` fills the reporter and says whether there is anything to tell."""

    def __init__(
        self,
        reporter: Reporter,
        context: Context,
        *,
        source: Source,
        render: Callable[[], Awaitable[bool]],
    ) -> None:
        self._reporter = reporter
        self._context = context
        self._render = render
        self._source = source
        self._dirty = asyncio.Event()
        self._store: StatusStore | None = None
        self._refusals = 0
        self._rendering = False
        self._hurried = asyncio.Event()
        self.problem = ""
        """Why the last push did not succeed; "" when it did."""

    async def use(self, store: StatusStore) -> None:
        """Write to this store from now on; what it holds is read once."""
        self._reporter.load(await self._source.call(_read_all, store))
        self._store = store

    @property
    def pending(self) -> bool:
        """Is anything rendered or to be rendered, and not pushed?"""
        return self._dirty.is_set() or self._rendering or bool(self._reporter.pending)

    def dirty(self) -> None:
        self._dirty.set()

    async def run(self) -> None:
        """Until cancelled: one push an interval at most, the first soon after something changed."""
        options = self._context.options
        while True:
            await self._dirty.wait()
            await asyncio.sleep(options.status_debounce)
            try:
                written = await self.flush()
            except Exception as error:  # a defect, which must end neither later pushes nor the engine
                _log.exception("status was not written")
                self.problem, written = f"unexpected: {type(error).__name__}", True
                self._dirty.set()
            pause = max(0.0, options.status_interval - options.status_debounce) if written else 0.0
            await self._pause(min(LONGEST_PAUSE, pause * 2.0 ** min(self._refusals, 30)))

    def hurry(self) -> None:
        """A new head came: somebody may have mended what refused our pushes."""
        if self._refusals:
            self._hurried.set()

    async def _pause(self, seconds: float) -> None:
        self._hurried.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()

    async def flush(self) -> bool:
        """Render and push now; True when something was pushed or could not be."""
        self._dirty.clear()
        self._rendering = True
        try:
            if self._store is None or not await self._render():
                return False
        finally:
            self._rendering = False
        changes = self._reporter.changes()
        return bool(changes) and await self._push(self._store, changes)

    async def _push(self, store: StatusStore, changes: Mapping[str, bytes | None]) -> bool:
        outcome = await self._source.call(store.commit_and_push, changes, _message(changes))
        self._context.metrics.status_pushed(str(outcome.kind))
        if outcome.written:
            self._reporter.written(changes, restarted=outcome.restarted)
            self.problem, self._refusals = "", 0
            rest = self._reporter.changes() if outcome.restarted else {}
            return await self._push(store, rest) if rest else outcome.kind is PushKind.PUSHED
        if outcome.sentence != self.problem:
            _log.error("status was not pushed: %s", outcome.sentence)
        self.problem = outcome.sentence
        refused = outcome.kind is PushKind.REFUSED or outcome.error_class is SourceErrorClass.AUTH
        self._refusals = self._refusals + 1 if refused else 0
        self._dirty.set()
        return True


def _read_all(store: StatusStore) -> dict[str, bytes]:
    return {path: content for folder in FOLDERS for path, content in store.contents(folder).items()}


def _message(changes: Mapping[str, bytes | None]) -> str:
    units = sorted(
        p.removeprefix("status/units/").removesuffix(".yaml") for p in changes if p.startswith("status/units/")
    )
    if not units:
        return f"Status: {len(changes)} file{'' if len(changes) == 1 else 's'}"
    more = f" and {len(units) - 1} more" if len(units) > 1 else ""
    return f"Status of {units[0]}{more}"
