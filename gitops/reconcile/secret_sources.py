"""The Secrets that units name, as `gitops-secrets` of the cluster has them, and the copies that units get of them.

A copy is an ordinary object of its unit once its source is known: added to what is wanted (ClusterState.add), then
planned, applied, watched, repaired and pruned like every other. Its name is known from Git alone (Unit.names), so
whatever is missing, unreadable or not listed yet never takes a copy away: a source that is gone leaves its copy as it
is, and only a reference that left Git removes it (I1).

Of `gitops-secrets` only what units name is kept, and of that only what a copy takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.errors import ApiError
from gitops.cluster.reflecting import Changed, Deleted, Event, Stale, Synced, Vanished
from gitops.model.identity import UnitKey
from gitops.model.kinds import SECRET
from gitops.plan.naming import SECRETS_NAMESPACE
from gitops.plan.secrets import SourceSecret, secret_copy
from gitops.plan.units import SecretRef, Stage, Unit
from gitops.reconcile.attempts import Attempt, state_of
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.state import ClusterState
from gitops.reconcile.watches import Watch

SOURCES = Watch(SECRET, "", SECRETS_NAMESPACE)
"""All Secrets of that namespace and of no other: the only ones that the daemon reads without having made them. A
namespace that does not exist is an empty list."""


@dataclass(frozen=True, slots=True)
class _Built:
    """What the copies of a unit were made from."""

    refs: tuple[SecretRef, ...]
    namespace: str
    sources: tuple[SourceSecret | None, ...]


class SecretSources:
    """Of one session. `look` asks for a run of a unit."""

    def __init__(self, state: ClusterState, *, look: Callable[[UnitKey], None]) -> None:
        self._state = state
        self._look = look
        self._users: dict[str, set[UnitKey]] = {}
        self._kept: dict[str, SourceSecret] = {}
        self._built: dict[UnitKey, _Built] = {}
        self._listed = False
        self._seen: set[str] = set()  # by the list that is under way
        self._error: ApiError | None = None  # why there is no list

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def needed(self) -> bool:
        return bool(self._users)

    @property
    def pending(self) -> bool:
        """Will it be known in a moment which of the named Secrets there are?"""
        return self.needed and not self._listed and self._error is None

    def assigned(self) -> bool:
        """Take what the present head names. True when it names Secrets of which nothing was kept: they have to be
        listed, by a watch begun anew."""
        units = [] if self._state.assignment is None else self._state.assignment.units.values()
        before, self._users = self._users.keys(), {}
        for unit in units:
            for ref in unit.secret_refs:
                self._users.setdefault(ref.name, set()).add(unit.key)
        self._kept = {name: source for name, source in self._kept.items() if name in self._users}
        self._built = {k: b for k, b in self._built.items() if k in self._state.wanted}
        for unit in units:
            if unit.secret_refs or unit.key in self._built:
                self._build(unit)
        unlisted = not self._users.keys() <= before
        if unlisted:
            self._listed, self._error, self._seen = False, None, set()
        return unlisted

    def event(self, event: Event) -> bool:
        """Take an event of SOURCES in. True when with it the named Secrets are listed, and were not before."""
        if isinstance(event, Changed):
            metadata = event.obj.get("metadata") or {}
            self._seen.add(metadata.get("name", ""))
            self._set(metadata.get("name", ""), _source(event.obj))
        elif isinstance(event, Deleted):
            self._set((event.obj.get("metadata") or {}).get("name", ""), None)
        elif isinstance(event, Vanished):
            self._set(event.ref.name, None)
        elif isinstance(event, Stale) and not self._listed:
            self._error = event.error
            self._look_at_all()
        elif isinstance(event, Synced) and not self._listed:
            self._listed, self._error = True, None
            for name in self._kept.keys() - self._seen:
                del self._kept[name]
            for unit in self._units():
                self._build(unit)
            self._look_at_all()
            return True
        return False

    def _set(self, name: str, source: SourceSecret | None) -> None:
        if name not in self._users or self._kept.get(name) == source:
            return
        if source is None:
            del self._kept[name]
        else:
            self._kept[name] = source
        if self._listed:  # else all at once, when the list is complete
            for key in sorted(self._users[name]):
                unit = self._git(key)
                if unit is not None:
                    self._build(unit)
                    self._look(key)

    def _build(self, unit: Unit) -> None:
        sources = tuple(self._kept.get(ref.name) for ref in unit.secret_refs)
        built = _Built(unit.secret_refs, unit.namespace, sources)
        if self._built.get(unit.key) == built:
            return
        self._built[unit.key] = built
        pairs = zip(unit.secret_refs, sources, strict=True)
        copies = [secret_copy(unit, r, s, reconciler=self._state.reconciler) for r, s in pairs if s is not None]
        self._state.add(unit.key, copies)

    def _git(self, key: UnitKey) -> Unit | None:
        return None if self._state.assignment is None else self._state.assignment.units.get(key)

    def _units(self) -> Iterator[Unit]:
        for key in sorted({key for users in self._users.values() for key in users}):
            unit = self._git(key)
            if unit is not None:
                yield unit

    def _look_at_all(self) -> None:
        for unit in self._units():
            self._look(unit.key)

    # -- what a unit lacks -------------------------------------------------------------------------------------------

    def tell(self, run: Attempt) -> None:
        """Say of the run which Secrets it waits for. It is a remark only where a copy was made before: that one stays,
        and nothing has to wait for another."""
        for ref in run.unit.secret_refs:
            if ref.name in self._kept:
                continue
            name = f"{SECRETS_NAMESPACE}/{ref.name}"
            state, message = SyncState.WAITING, f"waiting for Secret {name}"
            if self._error is not None:
                state, message = state_of(self._error), f"Secret {name} is not known: {self._error}"
            made = self._made_before(run.unit, ref)
            message += "; the copy that was made before stays as it is" if made else ""
            (run.remarks if made else run.problems).append(ObjectProblem(run.unit.copy_of(ref.name), state, message))

    def hold(self, run: Attempt) -> None:
        """Stop the components that need a copy which is not there: pods would start without it, and some never look
        again. Where no object names it, an operator's pods may, so nothing later goes on."""
        unit = run.unit
        for ref in unit.secret_refs:
            record = self._state.objects.get(unit.copy_of(ref.name))
            if (record is not None and record.uid) or (ref.name not in self._kept and self._made_before(unit, ref)):
                continue
            # Its source came while the attempt was under way: nothing else says that something was not done.
            came = ref.name in self._kept and not any(o.ref == unit.copy_of(ref.name) for o in unit.objects)
            run.look_again = run.look_again or came
            later = {o.component for o in unit.objects if o.stage > Stage.SECRETS}
            run.stopped |= set(ref.users) or later

    def _made_before(self, unit: Unit, ref: SecretRef) -> bool:
        parent = self._state.parents.get(unit.key)
        return parent is not None and bool(parent.uid_of(unit.copy_of(ref.name)))


def _source(live: Mapping[str, Any]) -> SourceSecret:
    return SourceSecret(live.get("type") or "Opaque", live.get("data") or {}, live.get("immutable"))
