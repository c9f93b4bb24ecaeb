"""From watch events to records, readiness and drift: everything that happens to a cluster while we look at it.

No calls: what needs one (a repair, reading an object that left the watch) is marked on the record, and the unit's own
queue does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from gitops.cluster import adopting, leftovers
from gitops.cluster.applying import ApplyOutcome
from gitops.cluster.comparison import Comparison
from gitops.cluster.parents import read_head
from gitops.cluster.reflecting import Changed, Deleted, Event, Vanished
from gitops.manifests.lines import Path
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey
from gitops.model.kinds import CONFIG_MAP
from gitops.plan import once
from gitops.plan.parents import SYSTEM_NAMESPACE, ParentRecord, parent_name
from gitops.plan.pruning import applied_by
from gitops.plan.units import RECONCILER_LABEL, DesiredObject
from gitops.readiness.evaluating import foresee
from gitops.readiness.owners import OwnerIndex, project, ref_of
from gitops.readiness.statuses import AppliedMark, ChildRecord
from gitops.reconcile.child_drift import ChildDrift
from gitops.reconcile.contesting import fought_over
from gitops.reconcile.context import Context
from gitops.reconcile.drifting import Drifts
from gitops.reconcile.fights import WHOLE
from gitops.reconcile.observing import Observation, Sighting, is_stale, observe
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.overriding import Overrides
from gitops.reconcile.owning import Owning
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.reconcile.taking_over import adoption_of
from gitops.report.drift import DriftRecord, Repair

_log = logging.getLogger(__name__)

Holds = Callable[[ObjectRef, str], bool]
"""Does the watch of a kind know this object, by its uid, to exist?"""

_JUDGED = frozenset({Sighting.SETTLED, Sighting.DRIFTED, Sighting.LOST})
"""What says of every declared value whether it is live."""


class Sightings:
    """`look` asks for a run of the unit (urgent: drift); `touched` says that its status may have changed."""

    def __init__(
        self,
        state: ClusterState,
        context: Context,
        *,
        look: Callable[[UnitKey, bool], None],
        touched: Callable[[UnitKey], None],
    ) -> None:
        self._state = state
        self._context = context
        self._look = look
        self._touched = touched
        self.owners = OwnerIndex()
        self.owning = Owning(state, context, look=lambda key: look(key, False))
        self.overrides = Overrides(state, context)
        self._drifts = Drifts(state, context, self.owning.contesting, touched=touched)
        self.children = ChildDrift(
            state, context, self.owners, look=lambda key: look(key, False), note=self._drifts.of_child
        )
        self.found = 0
        """How often an object was seen to be other than declared, or not to be there."""
        self._lists: dict[GroupVersionKind, tuple[str, Holds]] = {}  # version of the last list of a kind
        self._parent_uids: dict[str, str] = {}  # of the ConfigMaps, by name, as last seen

    # -- declared objects --------------------------------------------------------------------------------------------

    def declared_event(self, event: Event) -> None:
        if isinstance(event, Changed):
            self._changed(ref_of(event.obj), event.obj)
        elif isinstance(event, Deleted):
            metadata = event.obj.get("metadata", {})
            self._left(ref_of(event.obj), str(metadata.get("uid", "")))
            self._parent_left(ref_of(event.obj))
        elif isinstance(event, Vanished):
            self._left(event.ref, event.uid)
            self._parent_left(event.ref)

    def _changed(self, ref: ObjectRef, live: Mapping[str, Any]) -> None:
        if ref.namespace == SYSTEM_NAMESPACE and ref.kind == "ConfigMap":
            self._parent_seen(live)
        found = self._state.declared(ref)
        if found is None:
            if applied_by(live.get("metadata") or {}, self._state.manager):
                self._state.unclaimed.add(ref)
            return
        self._state.unclaimed.discard(ref)
        key, desired = found
        if live.get("apiVersion", desired.gvk.api_version) != desired.gvk.api_version:
            return  # the watch of another version, at which other objects of this kind are declared, shows it too
        record = self._state.record(desired)
        if record.in_flight:
            record.pending, record.left_in_flight = live, ""
            return
        record.suspect = False  # our watch shows it, so it exists and has our label
        self.see(key, desired, record, live)

    def see(
        self,
        key: UnitKey,
        desired: DesiredObject,
        record: ObjectRecord,
        live: Mapping[str, Any],
        *,
        relabelled: bool = False,
        at_work: bool = False,
    ) -> None:
        """Take a live object in: from the watch, from a read, or one that waited for our own write's answer. `at_work`:
        the unit's own work read it and is about to plan, so it need not be asked to look."""
        if not at_work and is_stale(record, live):
            return
        left = self._state.left_out(desired.ref)
        desired = self.owning.sighted(desired, record, live)
        replaced = self._is_another(key, record, live)
        parent, unit = self._state.parents.get(key), self._state.unit(key)
        applied = parent is not None and unit is not None and parent.content_key == unit.content_key
        observation = observe(record, desired, live, manager=self._state.manager, content_applied=applied)
        if replaced:
            given_up = self._note_replaced(key, desired, record, live)
        else:
            given_up = self._note_drift(key, desired, record, observation, relabelled)
        rest = self.owning.sighted(desired, record, live) if given_up else desired
        if rest.digest != desired.digest:
            observation = observe(record, rest, live, manager=self._state.manager, content_applied=applied)
        moved = self._note_contested(key, rest, live)
        if self._state.by_uid.get(record.uid) != key:
            self._state.by_uid[record.uid] = key
            self.children.owner_seen(key, record.uid)
        others = (record.held or left != self._state.left_out(desired.ref)) and not record.deleting
        others = others or moved or given_up
        self._evaluate(record, live)
        left_over = self._left_over(key, live)
        if left_over != record.left_over:
            record.left_over = left_over
            self._look(key, False)  # it is told with how the unit stands
        self._drifts.note_additions(key, record, live)
        self._touched(key)
        if relabelled:
            record.applied, record.unowned = b"", False
            record.drifting = record.drifting or (("metadata", "labels", RECONCILER_LABEL),)
        urgent = self._urgency(key, record, observation)
        if not at_work and (others or urgent is not None):
            self._look(key, urgent or False)

    def _is_another(self, key: UnitKey, record: ObjectRecord, live: Mapping[str, Any]) -> bool:
        """Whether somebody deleted the object that we had made, and made this one in its place, perhaps from a backup
        with our marks."""
        uid, parent = live["metadata"].get("uid"), self._state.parents.get(key)
        if record.uid == uid or parent is None:
            return False
        return parent.uid_of(record.ref) not in ("", uid)

    def _note_replaced(
        self, key: UnitKey, desired: DesiredObject, record: ObjectRecord, live: Mapping[str, Any]
    ) -> bool:
        """It was never ours, so it is met before it is repaired. Whether the fight over the object ends here."""
        if record.deleting:
            return False
        record.replaced, record.unowned, record.drifting = True, False, (WHOLE,)
        record.drifted_at = self._context.clock()
        self.found += 1
        self._drifts.recreated(key, desired, live)
        given_up = self.owning.contesting.undone(key, desired, {WHOLE: None})
        self._drifts.mark(key, desired.ref, Repair.CONTESTED, given_up)
        return bool(given_up)

    def _note_drift(
        self, key: UnitKey, desired: DesiredObject, record: ObjectRecord, observation: Observation, relabelled: bool
    ) -> bool:
        """Whether the fight over a path ends here: we leave it alone for a while."""
        records: tuple[DriftRecord, ...] = ()
        if observation.comparison is not None and observation.sighting in _JUDGED:
            records = self._drifts.judged(key, desired, record, observation.comparison, relabelled=relabelled)
        elif relabelled:
            self._drifts.relabelled(key, desired)
        if observation.sighting not in (Sighting.DRIFTED, Sighting.LOST) or record.deleting:
            return False
        record.drifted_at = self._context.clock()
        self.found += 1
        given_up = self.owning.contesting.undone(key, desired, fought_over(record, records))
        self._drifts.mark(key, desired.ref, Repair.CONTESTED, given_up)
        return bool(given_up)

    def _note_contested(self, key: UnitKey, desired: DesiredObject, live: Mapping[str, Any]) -> bool:
        """Whether what is left to another writer, so that nothing else notices, became another value."""
        records = self.owning.contesting.look(key, desired, live)
        if records is None:
            return False
        self._drifts.contested(key, desired.ref, records)
        return True

    def _urgency(self, key: UnitKey, record: ObjectRecord, observation: Observation) -> bool | None:
        """Whether the unit is to look at once; None: not at all."""
        if observation.sighting in (Sighting.DRIFTED, Sighting.LOST) and not record.deleting:
            return True
        if observation.sighting is Sighting.DIFFERS:
            return False
        # Somebody else put right what we may not repair, or had given up.
        return False if observation.sighting is Sighting.SETTLED and self._unsettled(key) else None

    def _unsettled(self, key: UnitKey) -> bool:
        unit_state = self._state.units.get(key)
        return unit_state is not None and unit_state.outcome.state not in (SyncState.SYNCED, SyncState.PENDING)

    def _left(self, ref: ObjectRef, uid: str) -> None:
        """An object left the watch: deleted, or relabelled. Which of the two is read before anything is done."""
        self._state.unclaimed.discard(ref)
        if (waiting := self._state.going.get(ref)) is not None:
            self._look(waiting, False)
        found, record = self._state.declared(ref), self._state.objects.get(ref)
        if found is None or record is None:
            return
        if record.in_flight:
            # Our own write may have been before it, or have made another object.
            record.left_in_flight, record.pending = uid, None
        if record.uid != uid:
            return
        record.suspect = True
        record.drifted_at = self._context.clock()
        self.found += 1
        self._touched(found[0])
        self._look(found[0], True)

    def listed(self, gvk: GroupVersionKind, version: str, holds: Holds) -> None:
        """A kind was listed completely. What we know from answers to our own writes only, and is not in a list that is
        newer than they are, went before the watch had ever seen it: no event will say so."""
        self._lists[gvk] = (version, holds)
        for ref, record in list(self._state.objects.items()):
            if record.gvk == gvk and not record.in_flight and self._missed(record):
                self._left(ref, record.uid)
        if gvk == CONFIG_MAP:
            self._miss_parents(version, holds)

    def _miss_parents(self, version: str, holds: Holds) -> None:
        """Parents that are not in a list which is newer than they are: what deleted them while no watch, or another
        one, looked will not be told either."""
        for key, record in list(self._state.parents.items()):
            ref = ObjectRef("", "ConfigMap", SYSTEM_NAMESPACE, parent_name(key))
            stored = record.resource_version
            listed = version.isdecimal() and stored.isdecimal() and int(stored) <= int(version)
            if listed and not holds(ref, self._parent_uids.get(ref.name, "")):
                self._parent_left(ref)

    def _missed(self, record: ObjectRecord) -> bool:
        version, holds = self._lists.get(record.gvk, ("", None))
        if holds is None or not record.uid or not (version.isdecimal() and record.resource_version.isdecimal()):
            return False
        return int(record.resource_version) <= int(version) and not holds(record.ref, record.uid)

    def gone(self, key: UnitKey, desired: DesiredObject) -> None:
        """A declared object certainly does not exist any more."""
        self.owning.gone(desired.ref)
        self.overrides.gone(desired.ref)
        record = self._state.objects.pop(desired.ref, None)
        if record is None:
            return
        self._state.by_uid.pop(record.uid, None)
        kept = self._state.record(desired)
        kept.drifted_at = record.drifted_at
        wanted = desired.handling.once or self._is_recreating(key, record)
        # An end that had begun before Git wanted the object again is no drift.
        if not wanted and (record.last_desired or not record.deleting):
            kept.drifting = (WHOLE,)
            drift = self._drifts.deleted(key, desired)
            given_up = self.owning.contesting.undone(key, desired, {WHOLE: drift})
            self._drifts.mark(key, desired.ref, Repair.CONTESTED, given_up)
        self._touched(key)

    def _is_recreating(self, key: UnitKey, record: ObjectRecord) -> bool:
        parent = self._state.parents.get(key)
        return parent is not None and once.is_recreating(dict(parent.satisfied), record.ref, record.uid)

    def absorb(self, desired: DesiredObject, record: ObjectRecord, outcome: ApplyOutcome) -> None:
        """The answer to our own apply is the new baseline; then whatever arrived meanwhile."""
        pending, record.pending = record.pending, None
        found = self._state.declared(desired.ref)
        left, record.left_in_flight = record.left_in_flight, ""
        if outcome.error is None and outcome.live is not None:
            self._baseline(desired, record, outcome)
        elif outcome.deleting:
            record.uid, record.deleting = outcome.uid, True
        if found is None:
            # Git dropped it while it was being applied: what is kept of it would look like another live object.
            if self._state.objects.get(desired.ref) is record:
                del self._state.objects[desired.ref]
            return
        key, wanted = found
        if outcome.error is None and outcome.live is not None:
            wanted = self.owning.sighted(wanted, record, outcome.live)
            self._drifts.overridden(key, self.overrides.answered(key, desired, outcome.live, outcome.overridden))
        self._touched(key)
        if (left and left == record.uid) or self._missed(record):
            self._left(desired.ref, record.uid)
        if pending is not None:
            self.see(key, wanted, record, pending)
        if wanted.digest != desired.digest:
            self._look(key, False)  # an apply of an earlier head that came late may have undone one of this head

    def _baseline(self, desired: DesiredObject, record: ObjectRecord, outcome: ApplyOutcome) -> None:
        if outcome.generation != record.generation or outcome.uid != record.uid:
            record.mark = AppliedMark(outcome.generation, self._context.wall())
        if outcome.resource_version != record.resource_version:
            record.awaiting = outcome.resource_version
        record.uid, record.resource_version = outcome.uid, outcome.resource_version
        record.generation, record.deleting, record.suspect = outcome.generation, False, False
        record.entry, record.values = outcome.entry_digest, outcome.values_digest or b""
        record.applied = record.last_desired = desired.digest
        record.entry_version = desired.gvk.api_version
        record.overridden, record.answered, record.drifting = outcome.overridden, record.values, ()
        record.replaced = False
        found = self._state.declared(desired.ref)
        if outcome.live is not None:
            self._evaluate(record, outcome.live)
            record.left_over = () if found is None else self._left_over(found[0], outcome.live)
        if found is not None:
            self._state.by_uid[record.uid] = found[0]

    def _left_over(self, key: UnitKey, live: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields of earlier managers that nobody declares any more, as people read them."""
        unit = self._state.unit(key)
        named = adoption_of(self._state, unit).tools if unit is not None else ()
        old = adopting.old_entries(live, named)
        return tuple(map(leftovers.shown, leftovers.left_over(live, old, manager=self._state.manager))) if old else ()

    # -- readiness ---------------------------------------------------------------------------------------------------

    def _evaluate(self, record: ObjectRecord, live: Mapping[str, Any]) -> None:
        now = self._context.wall()
        mapping = self._context.mappings.for_kind(record.gvk)
        memory = record.outlook.at(now)[1] if record.outlook is not None else None
        record.outlook = foresee(live, mapping, now=now, memory=memory, applied=record.mark)

    def child_event(self, event: Event) -> None:
        """A secondary object: only its verdict and its links are kept."""
        if isinstance(event, Changed):
            uid = str(event.obj.get("metadata", {}).get("uid", ""))
            if uid in self._state.by_uid:
                return  # a declared object that also matches an operator's selector
            self._put_child(event.obj, self.owners.get(uid))
            self.children.seen(event.obj)
            self._tell(uid)
        elif isinstance(event, Deleted | Vanished):
            uid = event.uid if isinstance(event, Vanished) else str(event.obj.get("metadata", {}).get("uid", ""))
            self._tell(uid)
            self.children.gone(uid)
            self.owners.remove(uid)

    def _put_child(self, obj: Mapping[str, Any], before: ChildRecord | None) -> None:
        now = self._context.wall()
        memory = before.memory(now) if before is not None else None
        self.owners.put(project(obj, self._context.mappings.for_object(obj), now=now, memory=memory))

    def _tell(self, uid: str) -> None:
        for owner in self.owners.ancestors(uid):
            key = self._state.by_uid.get(owner)
            if key is not None:
                self._touched(key)

    # -- reports -----------------------------------------------------------------------------------------------------

    def tell(self, key: UnitKey, desired: DesiredObject, comparison: Comparison) -> None:
        """Drift that a call has met, not the watch."""
        self._drifts.met(key, desired, comparison)

    def missed(self, key: UnitKey, desired: DesiredObject, *, made: bool) -> None:
        """An object that the unit had was not seen, and was applied: it had gone while nobody watched, if that `made`
        it, else lost our label."""
        self._drifts.missed(key, desired, made=made)

    def repaired(
        self, key: UnitKey, ref: ObjectRef, repair: Repair, *, overridden: Collection[Path] = frozenset()
    ) -> None:
        """What became of the open drifts of an object, but of those that are left to others; of those at paths that
        admission put back, that."""
        self._drifts.became(key, ref, repair, overridden=overridden)

    def _parent_seen(self, live: Mapping[str, Any]) -> None:
        """Parents carry our label, so a pause that somebody wrote on one arrives by the ConfigMap watch."""
        seen = read_head(live, cluster=self._state.name)
        known = self._state.parents.get(seen.unit) if isinstance(seen, ParentRecord) else None
        if known is None or not isinstance(seen, ParentRecord):
            return
        self._parent_uids[parent_name(seen.unit)] = str(live["metadata"].get("uid", ""))
        if self._state.pauses.get(seen.unit, known.pause_until) != seen.pause_until:
            self._state.pauses[seen.unit] = seen.pause_until
            self._look(seen.unit, False)

    def _parent_left(self, ref: ObjectRef) -> None:
        """Somebody deleted or relabelled a parent: what we know of the unit is all there is of it, until it is stored
        again. A crash before that would leave objects that nobody knows."""
        if ref.namespace != SYSTEM_NAMESPACE or ref.kind != "ConfigMap":
            return
        for key, record in self._state.parents.items():
            if record.resource_version and parent_name(key) == ref.name:
                self._state.parents[key] = replace(record, resource_version="")
                self._look(key, False)
                return
