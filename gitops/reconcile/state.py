"""What the engine knows of one cluster, and nothing more: small records, never live objects.

One owner each: the cluster worker changes the assignment, the unit's own work its parent and (as the watch does between
two runs of it) its object records. Everything is on one event loop, so there are no locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.cluster.additions import Additions
from gitops.cluster.applying import manager_name
from gitops.manifests.lines import Path
from gitops.model.adoption import WITHOUT_A_WORD, Adoption
from gitops.model.identity import (
    ClusterName,
    Commit,
    GroupVersionKind,
    ObjectRef,
    ReconcilerName,
    UnitKey,
    WorkloadKind,
    WorkloadRef,
)
from gitops.plan.naming import is_instance_namespace
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import Observed
from gitops.plan.pruning import Consent
from gitops.plan.sending import LeftOut, as_sent, in_order
from gitops.plan.units import DesiredObject, Mode, Unit
from gitops.policy.scopes import is_builtin_group
from gitops.readiness.aggregating import UnitMemory, UnitStatus
from gitops.readiness.statuses import AppliedMark, Outlook
from gitops.reconcile.fights import Fights
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.report.drift import DriftRecord


@dataclass(slots=True)
class ObjectRecord:
    """What is kept of one live object that a unit declares."""

    ref: ObjectRef
    gvk: GroupVersionKind
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    entry: bytes | None = None  # digest of our managedFields entry
    entry_version: str = ""  # API version of our managedFields entry
    values: bytes = b""  # digest of the owned values
    left_over: tuple[str, ...] = ()  # fields of earlier managers that nobody declares
    added: bytes | None = None  # digest of what others may have added by hand; None: not looked at yet
    applied: bytes = b""  # digest of the desired object that it satisfies
    last_desired: bytes = b""  # digest of the desired object last compared or applied
    unowned: bool = False  # while not satisfied: every value is right, but some are not ours any more
    deleting: bool = False
    replaced: bool = False  # somebody made it in place of the one that we had made, and we have not applied it yet
    awaiting: str = ""  # resourceVersion that our last write answered, until the watch has caught up with it
    suspect: bool = False  # it left the watch: deleted or relabelled, to be read before anything is done
    in_flight: bool = False  # our own write is under way: events wait in `pending`
    pending: Mapping[str, Any] | None = None
    left_in_flight: str = ""  # uid of an object of this name that left the watch meanwhile
    mark: AppliedMark | None = None
    outlook: Outlook | None = None  # the verdict on it, now and by time alone
    overridden: tuple[Path, ...] = ()  # paths that admission changed in our last apply
    answered: bytes = b""  # digest of the owned values when it was last as declared, or as admission left it then
    drifted_at: float | None = None  # when the drift that is being repaired was seen
    drifting: tuple[Path, ...] = ()  # the paths that it is about
    claims: bytes | None = None  # digest of what decides whose its fields are; None: to be decided from the live object
    decided_for: bytes = b""  # what Git and autoscalers said then
    foreign: bool = False  # another manager could have a claim
    held: bool = False  # we still own a field that is left to others: to be let go before anything is applied

    def observed(self) -> Observed:
        return Observed(self.uid, self.applied, self.last_desired, self.deleting, self.replaced)


@dataclass(slots=True)
class UnitState:
    """Where one unit stands. `drifts` are its drift records, oldest first, bounded (gitops/report/drift_history.py)."""

    key: UnitKey
    outcome: UnitOutcome = field(default_factory=lambda: UnitOutcome(SyncState.PENDING, "not looked at yet"))
    attempts: int = 0
    drifts: list[DriftRecord] = field(default_factory=list)
    drifts_left_out: int = 0  # lately over, and not among them
    additions: dict[ObjectRef, Additions] = field(default_factory=dict)  # what others added by hand
    status: UnitStatus | None = None
    memory: UnitMemory = field(default_factory=UnitMemory)
    adopted: list[str] = field(default_factory=list)  # what was taken over since the unit was last as declared
    note: str = ""  # something to tell although all is as declared
    begun: set[ObjectRef] = field(default_factory=set)  # once-only objects whose making this daemon began
    fused: str = ""  # the sentence of a blown fuse; deletions wait for consent


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a head means for one cluster: its units, and which others may be removed."""

    commit: Commit
    units: Mapping[UnitKey, Unit]
    held: frozenset[WorkloadRef]
    complete: bool
    consent: Consent
    adoption: Adoption = WITHOUT_A_WORD  # what the repository says of objects that exist
    named: frozenset[ObjectRef] = frozenset()  # what held and barred workloads name at the head
    opaque: frozenset[WorkloadRef] = frozenset()  # held, and what they name cannot be read
    kept: frozenset[UnitKey] = frozenset()  # stay as they are: their operator may not be used here
    mode: Mode = Mode.ENFORCE  # of the cluster: all there is to say of a unit that Git no longer declares

    def may_remove(self, key: UnitKey) -> bool:
        """A unit that is not in `units` may go only when the compile could have seen it (I1)."""
        stays = key in self.units or key in self.kept or key.workload in self.held
        return self.complete and not stays


class ClusterState:
    """Desired and live facts of one cluster, with the indexes between them.

    `assignment` is what Git says; `wanted` is what is enforced at the moment: Git's units with the objects that are
    made here beside them (`add`), without the leaves that are not ours now (`leave_out`).
    """

    def __init__(self, name: ClusterName, reconciler: ReconcilerName) -> None:
        self.name = name
        self.reconciler = reconciler
        self.manager = manager_name(reconciler)
        self.assignment: Assignment | None = None
        self.parents: dict[UnitKey, ParentRecord] = {}
        self.objects: dict[ObjectRef, ObjectRecord] = {}
        self.units: dict[UnitKey, UnitState] = {}
        self.by_uid: dict[str, UnitKey] = {}
        self.pauses: dict[UnitKey, str] = {}  # `gitops/pause-until` seen on parents since they were loaded
        self.wanted: dict[UnitKey, Unit] = {}
        self.left_behind: dict[ObjectRef, str] = {}  # made by us and nobody's now, with the reason
        self.going: dict[ObjectRef, UnitKey] = {}  # being deleted, with the unit that waits for it
        self.fights = Fights()
        self.unclaimed: set[ObjectRef] = set()  # seen with our marks, though no unit declares them
        self._declared: dict[ObjectRef, tuple[UnitKey, DesiredObject]] = {}
        self._left_out: dict[ObjectRef, tuple[LeftOut, ...]] = {}
        self._added: dict[UnitKey, tuple[DesiredObject, ...]] = {}
        self._copies: dict[ObjectRef, UnitKey] = {}  # of Secrets, whether their sources are known or not

    def assign(self, assignment: Assignment) -> list[UnitKey]:
        """Take a new assignment; returns the units that have something to look at."""
        previous = self.assignment
        before = {} if previous is None else previous.units
        self.assignment = assignment
        self._added = {k: _named(assignment.units[k], a) for k, a in self._added.items() if k in assignment.units}
        self._copies = {u.copy_of(r.name): k for k, u in assignment.units.items() for r in u.secret_refs}
        self.wanted = {k: self._as_wanted(unit) for k, unit in assignment.units.items()}
        self._declared = {o.ref: (u.key, o) for u in self.wanted.values() for o in u.objects}
        self._left_out = {r: left for r, left in self._left_out.items() if r in self._declared}
        for ref in [r for r in self.objects if r not in self._declared and r not in self._copies]:
            self.by_uid.pop(self.objects.pop(ref).uid, None)
        changed = [k for k, u in assignment.units.items() if _differs(before.get(k), u)]
        for key in (*assignment.units, *self.parents):
            self.units.setdefault(key, UnitState(key))
        if previous is not None and _holding(previous) != _holding(assignment):
            # What was refused or held back may go on now.
            changed = [
                k for k in assignment.units if k in changed or self.units[k].outcome.state is not SyncState.SYNCED
            ]
        return changed + [k for k in self.units if k not in assignment.units]

    def add(self, key: UnitKey, objects: Iterable[DesiredObject]) -> bool:
        """Objects that a declared unit has beside Git's, in place of those it had; True when they are others. One that
        it had before, but not lately, is read before anything is decided about it: nobody watched it meanwhile."""
        added, before = tuple(objects), self._added.get(key, ())
        if key not in self.wanted or added == before:
            return False
        self._added[key] = added
        self._rebuild(key)
        for ref in {o.ref for o in added} - {o.ref for o in before}:
            if (record := self.objects.get(ref)) is not None:
                record.suspect = bool(record.uid)
        return True

    def leave_out(self, ref: ObjectRef, left_out: Iterable[LeftOut]) -> bool:
        """Which leaves of a declared object are not ours now, in place of those that were not; True when they are
        others."""
        found, left = self._declared.get(ref), in_order(left_out)
        if found is None or left == self._left_out.get(ref, ()):
            return False
        if left:
            self._left_out[ref] = left
        else:
            del self._left_out[ref]
        self._rebuild(found[0])
        return True

    def leave_out_nothing(self) -> None:
        """No leaf is left out of any object."""
        for ref in list(self._left_out):
            self.leave_out(ref, ())

    def left_out(self, ref: ObjectRef) -> tuple[LeftOut, ...]:
        """Which leaves of a declared object are not ours now."""
        return self._left_out.get(ref, ())

    def in_git(self, ref: ObjectRef) -> DesiredObject | None:
        """A declared object as Git has it, whole."""
        found = self._declared.get(ref)
        unit = None if found is None or self.assignment is None else self.assignment.units.get(found[0])
        return None if unit is None else next((o for o in unit.objects if o.ref == ref), None)

    def _rebuild(self, key: UnitKey) -> None:
        if self.assignment is None:
            return
        for item in self.wanted[key].objects:
            if self._declared.get(item.ref, (None,))[0] == key:
                del self._declared[item.ref]
        unit = self.wanted[key] = self._as_wanted(self.assignment.units[key])
        self._declared |= {o.ref: (key, o) for o in unit.objects}

    def _as_wanted(self, unit: Unit) -> Unit:
        added = self._added.get(unit.key, ())
        if not added and not (self._left_out and any(o.ref in self._left_out for o in unit.objects)):
            return unit
        sent = (as_sent(o, self._left_out.get(o.ref, ())) for o in unit.objects)
        return replace(unit, objects=tuple(sorted((*added, *sent), key=lambda o: o.stage)))

    def forget_live(self) -> None:
        """Nothing is known of what lives there any more: a new session lists everything anew, and builds anew what is
        made from that."""
        self.objects.clear()
        self.by_uid.clear()
        for key in list(self._added):
            self.add(key, ())
        self._added.clear()
        self.unclaimed.clear()

    @property
    def head(self) -> Commit | None:
        """The commit of the present assignment."""
        return None if self.assignment is None else self.assignment.commit

    def unit(self, key: UnitKey) -> Unit | None:
        """The unit as it is enforced now; None when Git does not declare it."""
        return self.wanted.get(key)

    def declared(self, ref: ObjectRef) -> tuple[UnitKey, DesiredObject] | None:
        return self._declared.get(ref)

    def is_named(self, ref: ObjectRef) -> bool:
        """Does Git declare the object, also where its content comes from the cluster and is not known yet?"""
        return ref in self._declared or ref in self._copies

    def declared_by_others(self, key: UnitKey) -> set[ObjectRef]:
        """Objects that other units declare, or have while nothing is known of them: never pruned on this one's
        behalf. What another unit merely has and declares no more is decided by the labels on the object."""
        declared = {ref for ref, (owner, _) in self._declared.items() if owner != key}
        declared |= {ref for ref, owner in self._copies.items() if owner != key}
        unknown = (r for k, r in self.parents.items() if k != key and self._is_unknown(k))
        return declared | {m.ref for r in unknown for m in r.members}

    def withheld(self, key: UnitKey, ref: ObjectRef) -> str:
        """Why an object that left this unit may not be deleted at this head; "" when it may. Asked again right before
        the delete, since heads come while a unit is being worked on.

        What is absent may have moved into a workload that has errors (cases.md R05, R06), or whose operator may not be
        used here: what that one names stays, and when it cannot be read, so does everything that could be in it. What a
        function has in a generated namespace cannot be anywhere else; a function that says its namespace can take over
        what a bundle had there, and the other way round.
        """
        assignment = self.assignment
        if assignment is None:
            return "no head is known"
        if assignment.mode is Mode.PAUSED:
            return "the cluster is paused"
        if self.is_named(ref):
            return "it is declared"
        if key.workload in assignment.held:
            return "its workload has errors and stays as it is"
        if key in assignment.kept:
            return "its operator may not be used here, and it stays as it is"
        if ref in assignment.named:
            return "a workload that is held names it"
        if key.kind is WorkloadKind.BUNDLE:
            movable = True
        else:
            record = self.parents.get(key)
            movable = record is not None and not is_instance_namespace(record.namespace)
        hiding = next((w for w in sorted(assignment.opaque) if movable), None)
        return f"{hiding} cannot be read and may declare it now" if hiding is not None else ""

    def custom_resources_leaving(self, key: UnitKey) -> dict[ObjectRef, UnitKey]:
        """Custom resources that other units have and Git declares no more, with their unit: an operator waits for them.
        Not those that stay for a reason, or whose deletion somebody holds for too long already."""
        found: dict[ObjectRef, UnitKey] = {}
        for other, record in self.parents.items():
            if other == key or (self.unit(other) is None and self._is_unknown(other)):
                continue
            settled = {p.object for p in self.units[other].outcome.problems} if other in self.units else set()
            for ref in (m.ref for m in record.members):
                if not is_builtin_group(ref.group) and ref not in self._declared and ref not in settled:
                    found[ref] = other
        return found

    def orphans(self) -> dict[ObjectRef, str]:
        """Objects that may be nobody's, with the reason: what a unit left behind, and what carries our marks while no
        parent names it (cases.md R13: a parent was lost)."""
        if not self.unclaimed and not self.left_behind:
            return {}
        members = {m.ref for r in self.parents.values() for m in r.members}
        lost = dict.fromkeys(self.unclaimed, "it carries our marks, and no parent names it")
        found = {**lost, **self.left_behind}
        return {ref: found[ref] for ref in sorted(found) if ref not in members and not self.is_named(ref)}

    def not_taken_over(self, key: UnitKey) -> set[ObjectRef]:
        """Objects that other units declare and whose parents do not name them yet: until then this unit's must, or
        a crash in between leaves an object that no parent knows."""
        named = {k: {m.ref for m in r.members} for k, r in self.parents.items() if k != key}
        others = ((ref, owner) for ref, (owner, _) in self._declared.items() if owner != key)
        return {ref for ref, owner in others if ref not in named.get(owner, ())}

    def _is_unknown(self, key: UnitKey) -> bool:
        """Has a parent, but what it should have cannot be said: its workload is held without a last good commit."""
        return self.unit(key) is None and not (self.assignment is not None and self.assignment.may_remove(key))

    def kinds(self) -> set[GroupVersionKind]:
        """Every kind that is enforced here, at the version it is applied at."""
        return {o.gvk for _, o in self._declared.values()}

    def record(self, desired: DesiredObject) -> ObjectRecord:
        """The record of a declared object, made when there is none."""
        known = self.objects.get(desired.ref)
        if known is None:
            known = self.objects[desired.ref] = ObjectRecord(desired.ref, desired.gvk)
        known.gvk = desired.gvk  # the version it is applied at may change
        return known

    def observed(self, objects: Iterable[DesiredObject]) -> dict[ObjectRef, Observed]:
        """What is known of these objects; one without a uid is not known to exist."""
        records = ((o.ref, self.objects.get(o.ref)) for o in objects)
        return {ref: record.observed() for ref, record in records if record is not None and record.uid}


def _named(unit: Unit, added: Iterable[DesiredObject]) -> tuple[DesiredObject, ...]:
    """Of the objects that were added to a unit, those that it still has by Git's word."""
    names = unit.names
    return tuple(o for o in added if o.ref in names)


def _holding(assignment: Assignment) -> tuple[object, ...]:
    """What decides on what is held back."""
    a = assignment
    return (a.adoption, a.consent, a.held, a.named, a.opaque, a.kept, a.complete, a.mode)


def _differs(old: Unit | None, new: Unit) -> bool:
    if old is None or old.content_key != new.content_key or old.mode is not new.mode:
        return True
    return old.adoption != new.adoption
