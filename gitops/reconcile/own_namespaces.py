"""The reconciler's own namespaces on a cluster: made at the start of a session, and kept like instance namespaces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from gitops.cluster import claims
from gitops.cluster.errors import ApiError
from gitops.cluster.objects import Objects
from gitops.plan.naming import PREFLIGHT_NAMESPACE

_log = logging.getLogger(__name__)


class OwnNamespaces:
    """`labels` gives those of the cluster's namespace template at the present head. `gitops-preflight` has to carry
    them before anything is dry-run there: Pod Security judges by them."""

    def __init__(self, objects: Objects, *, manager: str, labels: Callable[[], Mapping[str, str]]) -> None:
        self._objects = objects
        self._manager = manager
        self._labels = labels
        self._made: dict[str, str] | None = None
        self._turn = asyncio.Lock()

    async def ensure(self) -> ApiError | None:
        """Make them as they should be; no call when they were made so before."""
        async with self._turn:
            wanted = dict(self._labels())
            if wanted == self._made:
                return None
            error = await claims.ensure_namespaces(self._objects, manager=self._manager, preflight_labels=wanted)
            if error is None:
                self._made = wanted
            return error

    async def follow(self) -> None:
        """The same while units are worked on: a dry run is a courtesy, so its place stops nothing."""
        error = await self.ensure()
        if error is not None:
            _log.warning("%s keeps the labels of an earlier head: %s", PREFLIGHT_NAMESPACE, error)
