"""What one session watches: the kinds its units declare, what those need seen beside them, and what some wait for.

Nothing is decided about a unit before all that it depends on is listed: what was not listed is unknown, not absent.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitops.cluster.errors import ErrorClass
from gitops.model.identity import GroupVersionKind, UnitKey
from gitops.model.kinds import CONFIG_MAP, SECRET
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.plan.units import RECONCILER_LABEL
from gitops.policy.registry import OperatorRegistry
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.scalers import scalers_watch
from gitops.reconcile.secret_sources import SOURCES, SecretSources
from gitops.reconcile.serving import slices_watch
from gitops.reconcile.state import ClusterState
from gitops.reconcile.watches import Sight, Watch, Watches


class Watched:
    """`selector` is the one of what is ours; `children`, `slices` and `scalers` are the watches of objects of others
    that the present units need seen, None when they need none."""

    def __init__(
        self, state: ClusterState, registry: OperatorRegistry, watches: Watches, secrets: SecretSources
    ) -> None:
        self._state = state
        self._registry = registry
        self._watches = watches
        self._secrets = secrets
        self._declared: frozenset[Watch] = frozenset()  # what the present units need
        self._lacking: frozenset[Watch] = frozenset()  # what some wait for and nobody declares
        self.selector = f"{RECONCILER_LABEL}={state.reconciler}"
        self.children: frozenset[Watch] = frozenset()
        self.slices: Watch | None = None
        self.scalers: Watch | None = None

    def assigned(self) -> None:
        """Watch what the present units need."""
        units, assignment = tuple(self._state.wanted.values()), self._state.assignment
        types = sorted({name for unit in units for name in unit.operator_types})
        self.children = frozenset(
            Watch(GroupVersionKind(c.group, c.version, c.kind), c.selector) for c in self._registry.children_of(types)
        )
        self.slices = slices_watch(units)
        unlisted = self._secrets.assigned()
        self.scalers = scalers_watch(assignment.units.values() if assignment is not None else ())
        kinds = self._state.kinds()
        declared = {*(Watch(gvk, self.selector) for gvk in kinds), *self.children}
        if CONFIG_MAP not in kinds:  # parents are ConfigMaps: a pause is written on one
            declared.add(Watch(CONFIG_MAP, self.selector, SYSTEM_NAMESPACE))
        declared |= {watch for watch in (self.slices, self.scalers) if watch is not None}
        if self._secrets.needed:
            if unlisted:
                self._watches.drop(SOURCES)
            declared.add(SOURCES)
        self._declared = frozenset(declared)
        self._watches.want(self._declared | self._lacking)

    def copies_changed(self, *, listed: bool) -> None:
        """Watch what copies of Secrets need now. `listed`: only now is it known which Secrets they are of."""
        if listed:
            self._watches.drop(Watch(SECRET, self.selector))  # copies that it has told of were nobody's
        self.assigned()

    def lack(self, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch these as well, metadata only and whoever made them, because some units wait for objects of them."""
        lacking = frozenset(Watch(gvk, "", lean=True) for gvk in kinds)
        if lacking != self._lacking:
            self._lacking = lacking
            self._watches.want(self._declared | lacking)

    # -- what is not seen yet ----------------------------------------------------------------------------------------

    def unlisted(self, key: UnitKey) -> list[Watch]:
        """What is not listed of that which a unit declares; what is not there of all else is absent."""
        unit = self._state.unit(key)
        if unit is None:
            return []
        watches = {Watch(o.gvk, self.selector) for o in unit.objects}
        unlisted = {watch for watch in watches if self._watches.sight(watch) is Sight.UNKNOWN}
        if unit.secret_refs and self._secrets.pending:
            unlisted.add(SOURCES)
        return sorted(unlisted, key=lambda watch: watch.gvk)

    def unseen(self, key: UnitKey) -> UnitOutcome | None:
        """Why nothing may be decided about a unit yet; None when it may."""
        for watch in self.unlisted(key):
            return self._not_listed(watch, f"{watch.gvk.kind} objects")
        return self._unseen_scalers(key)

    def _unseen_scalers(self, key: UnitKey) -> UnitOutcome | None:
        """Whose a number of replicas is would be decided without them, and scaling what nobody owns leaves no trace in
        managedFields. Only where we may not look it has to be decided all the same."""
        watch, unit = self.scalers, None if self._state.assignment is None else self._state.assignment.units.get(key)
        if watch is None or self._watches.sight(watch) is not Sight.UNKNOWN:
            return None
        if unit is None or scalers_watch([unit]) is None:
            return None
        error = self._watches.error(watch)
        if error is not None and error.cls is ErrorClass.FORBIDDEN:
            return None
        return self._not_listed(watch, "autoscalers")

    def _not_listed(self, watch: Watch, what: str) -> UnitOutcome:
        error = self._watches.error(watch)
        sentence = f"{what} are not listed yet" + (f": {error}" if error else "")
        return UnitOutcome(SyncState.RETRYING if error else SyncState.PENDING, sentence)
