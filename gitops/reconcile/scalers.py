"""Autoscalers of one cluster: which object each of them scales, from what Git declares and from a watch.

One watch of all HorizontalPodAutoscalers, ours or not: they are few, and one that somebody made, or that KEDA or an
operator made, is one as well. It runs only where Git declares a number of replicas at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitops.cluster.reflecting import Changed, Deleted, Event, Vanished
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.plan.units import Unit
from gitops.policy.ownership import Ownership
from gitops.readiness.owners import ref_of
from gitops.reconcile.watches import Watch

AUTOSCALER = Watch(GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"), "")


def scalers_watch(units: Iterable[Unit]) -> Watch | None:
    """The watch of autoscalers; None when these units, as Git has them, declare nothing that could be scaled."""
    return AUTOSCALER if any(b'"replicas":' in o.payload for unit in units for o in unit.objects) else None


class Scalers:
    """`known`: whether every live autoscaler is known, so that an object without one has none."""

    def __init__(self, table: Ownership) -> None:
        self.known = False
        self._table = table
        self._declared: dict[ObjectRef, str] = {}
        self._live: dict[ObjectRef, ObjectRef] = {}  # autoscaler → target
        self._targets: dict[ObjectRef, set[ObjectRef]] = {}  # the other way round
        self._for: Mapping[UnitKey, Unit] | None = None

    def declare(self, units: Mapping[UnitKey, Unit]) -> None:
        """What Git declares at a head; free when it is the one of the last call."""
        if self._for is units:
            return
        self._for = units
        declared = (o for unit in units.values() for o in unit.objects if o.ref.group_kind in self._table.scalers)
        named = ((self._table.target(o.body), str(o.ref)) for o in declared)
        self._declared = {target: name for target, name in named if target is not None}

    def event(self, event: Event) -> set[ObjectRef]:
        """Take in an event of the watch; returns targets of which it may mean something."""
        if isinstance(event, Changed):
            ref, target = ref_of(event.obj), self._table.target(event.obj)
        elif isinstance(event, Deleted | Vanished):
            ref, target = event.ref if isinstance(event, Vanished) else ref_of(event.obj), None
        else:
            return set()
        before = self._live.get(ref)
        if before == target:
            return set()
        if before is not None:
            del self._live[ref]
            self._targets[before].discard(ref)
        if target is not None:
            self._live[ref] = target
            self._targets.setdefault(target, set()).add(ref)
        return {each for each in (before, target) if each is not None}

    def of(self, ref: ObjectRef) -> str:
        """Who scales an object, as people read it; "" when nobody is known to."""
        return self._declared.get(ref) or min(map(str, self._targets.get(ref, ())), default="")

    def may_scale(self, ref: ObjectRef) -> bool:
        """Whether an autoscaler targets it, or nobody can tell."""
        return not self.known or bool(self.of(ref))
