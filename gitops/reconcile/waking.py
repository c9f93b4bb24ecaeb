"""Ends waits: of what its watches tell, a session looks at the units whose wait may be over, at once.

What is waited for is in gitops/reconcile/waiting.py; here it is listened for, as long as somebody waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gitops.cluster.reflecting import Changed, Deleted, Event, Synced, Vanished
from gitops.model.identity import UnitKey
from gitops.readiness.owners import ref_of
from gitops.reconcile.gating import Gate
from gitops.reconcile.outcomes import UnitOutcome
from gitops.reconcile.state import ClusterState
from gitops.reconcile.waiting import Till, Waiting
from gitops.reconcile.watched import Watched
from gitops.reconcile.watches import Watch


class Waking:
    """`look` asks for a run of a unit."""

    def __init__(self, state: ClusterState, gate: Gate, watched: Watched, *, look: Callable[[UnitKey], None]) -> None:
        self._state = state
        self._gate = gate
        self._watched = watched
        self._look = look
        self._waiting = Waiting()

    def event(self, watch: Watch, event: Event) -> None:
        """Wake the units that wait for what an event tells."""
        if self._waiting:
            self._wake(self._awaited(watch, event))

    def stirred(self, key: UnitKey) -> None:
        """Something of a unit moved: perhaps what it waits for is ready."""
        self._gate.touched(key)
        if any(n.till is Till.READY and self._gate.is_ready(n.ref) for n in self._waiting.of(key)):
            self._wake([key])

    def attempted(self, key: UnitKey, outcome: UnitOutcome) -> None:
        """Listen for what the unit waits for since its attempt. What may have come before we listened is looked at
        once more; a watch that begins now lists what is there."""
        before = self._waiting.of(key)
        if outcome.needs == before:
            return
        listened = self._waiting.watched()
        self._waiting.note(key, outcome.needs)
        missed = any(
            self._gate.is_ready(n.ref) if n.till is Till.READY else n.watch in listened for n in outcome.needs - before
        )
        self._watched.lack(self._waiting.watched())
        if missed:
            self._look(key)

    def _awaited(self, watch: Watch, event: Event) -> list[UnitKey]:
        if isinstance(event, Changed):
            going = "deletionTimestamp" in event.obj.get("metadata", {})
            return [] if going else self._waiting.seen(ref_of(event.obj), there=True)
        if isinstance(event, Deleted | Vanished):
            ref = event.ref if isinstance(event, Vanished) else ref_of(event.obj)
            return self._waiting.seen(ref, there=False)
        return self._waiting.listed(watch.gvk) if isinstance(event, Synced) else []

    def _wake(self, keys: Iterable[UnitKey]) -> None:
        """Patience begins anew, since an admission plugin may learn of it later than we do."""
        for key in keys:
            self._state.units[key].attempts = 0
            self._look(key)
