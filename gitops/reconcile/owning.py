"""Owning: which fields of our live objects are others' at the moment, kept up to date, and letting go of them.

Decided from the live object whenever something moved that it depends on: who owns what (sightings), what Git declares
(`review`), who scales what (`scaled`). What is decided goes into ClusterState.leave_out(), and everything after it,
plan, writes and drift, works on what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.field_claims import FieldClaims, claims_digest, claims_of, release
from gitops.cluster.reflecting import Event
from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.sending import Why
from gitops.plan.units import DesiredObject, Mode, Unit
from gitops.policy.annotations import CONFLICTS, IGNORE_DRIFT
from gitops.policy.handovers import handed_over
from gitops.policy.ownership import default_answer
from gitops.reconcile.contesting import Contesting
from gitops.reconcile.context import Context
from gitops.reconcile.scalers import Scalers
from gitops.reconcile.state import ClusterState, ObjectRecord

_CONFLICTS = CONFLICTS.encode()
_IGNORE_DRIFT = IGNORE_DRIFT.encode()

See = Callable[[DesiredObject, ObjectRecord, dict[str, Any]], None]

RELEASE_TRIES = 3
"""Times that a release is tried at once: status writes of a busy object come in between."""


class Owning:
    """Of one cluster. `look` asks for a run of a unit."""

    def __init__(self, state: ClusterState, context: Context, *, look: Callable[[UnitKey], None]) -> None:
        self.scalers = Scalers(context.ownership)
        self._state = state
        self._table = context.ownership
        self._registry = context.registry
        self._look = look
        self.contesting = Contesting(state, context)
        state.leave_out_nothing()  # nothing is known yet of what lives there

    def gone(self, ref: ObjectRef) -> None:
        """An object does not exist any more: made anew, it is made whole."""
        self._state.fights.gone(ref)
        self._state.leave_out(ref, ())

    # -- deciding ----------------------------------------------------------------------------------------------------

    def sighted(self, desired: DesiredObject, record: ObjectRecord, live: Mapping[str, Any]) -> DesiredObject:
        """A live object is taken in: what is declared of it without what is others' now."""
        kind = desired.ref.group_kind
        seen, foreign = claims_digest(
            live,
            self._state.manager,
            kind=kind,
            table=self._table,
            default=default_answer(desired.body) if _CONFLICTS in desired.payload else "take",
            handable=bool(
                self._registry.rules_of(kind).handovers or self._scaler(desired.ref) or _IGNORE_DRIFT in desired.payload
            ),
        )
        same_object = record.uid == live["metadata"].get("uid")
        contested = bool(self.contesting.contested(desired.ref))
        moving = contested or self._left(desired.ref, Why.ASKED, Why.CONTESTED)
        if record.claims == seen and same_object and not moving:
            return desired
        record.claims, record.foreign = seen, foreign
        if not seen and not contested and not self._left(desired.ref):
            record.decided_for, record.held = self._inputs(desired), False
            return desired
        return self._decide(desired, record, live)

    def _decide(self, desired: DesiredObject, record: ObjectRecord, live: Mapping[str, Any]) -> DesiredObject:
        whole = self._state.in_git(desired.ref)
        if whole is None:
            return desired
        had, ended = self._left(whole.ref), self._left(whole.ref, Why.CONTESTED)
        found = self._claims(whole, live)
        record.decided_for, record.held = self._inputs(whole), found.held
        if not self._state.leave_out(whole.ref, found.left_out):
            return desired
        declared = self._state.declared(whole.ref)
        sent = desired if declared is None else declared[1]
        if record.last_desired == desired.digest and self._was_applied(whole, had, ended):
            record.last_desired = sent.digest  # less of the same: what it is compared with was applied before
        return sent

    def _was_applied(self, whole: DesiredObject, had: set[Path], ended: set[Path]) -> bool:
        """Whether what is wanted of an object was applied before when what was wanted so far was: nothing is wanted of
        it again but what was contested, and that is still what Git says."""
        again = had - self._left(whole.ref)
        return again <= ended and all(path in self._state.fights.of(whole.ref) for path in again)

    def _left(self, ref: ObjectRef, *whys: Why) -> set[Path]:
        """Fields of an object that are left to others; for these reasons, where some are given."""
        return {each.path for each in self._state.left_out(ref) if not whys or each.why in whys}

    def _claims(self, whole: DesiredObject, live: Mapping[str, Any]) -> FieldClaims:
        found = claims_of(
            whole,
            live,
            self._state.manager,
            table=self._table,
            registry=self._registry,
            scaler=self._scaler(whole.ref),
            scaled=self.scalers.may_scale(whole.ref),
        )
        contested = self.contesting.left_out(whole.ref)
        if not contested:
            return found
        held = found.held or release(whole.body, live, self._state.manager, contested) is not None
        return FieldClaims((*found.left_out, *contested), held)

    def _scaler(self, ref: ObjectRef) -> str:
        if self._state.assignment is not None:
            self.scalers.declare(self._state.assignment.units)
        return self.scalers.of(ref)

    def _inputs(self, whole: DesiredObject) -> bytes:
        """What a decision depends on beside the live object."""
        contested = [(each.path, each.why) for each in self.contesting.left_out(whole.ref)]
        return whole.digest + self._scaler(whole.ref).encode() + (repr(contested).encode() if contested else b"")

    # -- what moves decisions ----------------------------------------------------------------------------------------

    def review(self, key: UnitKey) -> None:
        """Before a unit is worked on: where Git declares something else than was decided for, and somebody has or may
        have a claim, the live object is to be read first."""
        assignment = self._state.assignment
        unit = None if assignment is None else assignment.units.get(key)
        for whole in () if unit is None else unit.objects:
            self._state.fights.review(whole)
            record = self._state.objects.get(whole.ref)
            if record is None or not record.uid or record.decided_for == self._inputs(whole):
                continue
            if record.foreign or self._left(whole.ref) or self._is_handed(whole):
                self._undecide(record)

    def _is_handed(self, whole: DesiredObject) -> bool:
        rules, scaler = self._registry.rules_of(whole.ref.group_kind), self._scaler(whole.ref)
        possible = rules.handovers or scaler or _IGNORE_DRIFT in whole.payload
        return bool(possible) and any(handed_over(whole.body, None, rules, scaler=scaler))

    def scaled(self, event: Event) -> None:
        """An autoscaler came, went or targets something else."""
        for ref in self.scalers.event(event):
            self._reconsider(ref)

    def scalers_known(self, known: bool) -> None:
        """Whether all live autoscalers are known now."""
        if known != self.scalers.known:
            self.scalers.known = known
            for ref in [r for r, record in self._state.objects.items() if record.claims]:
                self._reconsider(ref)

    def _reconsider(self, ref: ObjectRef) -> None:
        found, record = self._state.declared(ref), self._state.objects.get(ref)
        if found is not None and record is not None and record.uid:
            self._undecide(record)
            self._look(found[0])

    def _undecide(self, record: ObjectRecord) -> None:
        """Read before anything is done about it; an event of it that comes before decides as well."""
        record.claims, record.suspect = None, True

    # -- letting go --------------------------------------------------------------------------------------------------

    async def hand_over(
        self, unit: Unit, applier: Applier, *, may_write: Callable[[], bool], see: See
    ) -> ApiError | None:
        """Let go of fields of a unit's objects that are others' now. `see` is told of each object afterwards."""
        for desired, record in self._to_let_go(unit):
            error = await self._let_go(desired, record, applier, may_write, see)
            if error is not None:
                return error
        return None

    def must_let_go(self, unit: Unit) -> bool:
        """Would `hand_over` write something?"""
        return any(self._to_let_go(unit))

    def _to_let_go(self, unit: Unit) -> Iterator[tuple[DesiredObject, ObjectRecord]]:
        for desired in unit.objects:
            record = self._state.objects.get(desired.ref)
            ours = desired.handling.mode is not Mode.PAUSED
            if record is not None and record.held and record.uid and ours and not record.deleting:
                yield desired, record

    async def _let_go(
        self, desired: DesiredObject, record: ObjectRecord, applier: Applier, may_write: Callable[[], bool], see: See
    ) -> ApiError | None:
        """Read, decide, patch: what was decided at the last event may have been overtaken, and so may this be."""
        failed: ApiError | None = None
        for _ in range(RELEASE_TRIES):
            live = await applier.get(desired.gvk, desired.ref)
            if not isinstance(live, dict) or not may_write():
                record.suspect = record.suspect or live is None
                return live if isinstance(live, ApiError) else None
            answer = await self._released(desired, live, applier)
            if not isinstance(answer, ApiError):
                record.claims = None
                see(desired, record, answer)
                record.awaiting = record.resource_version  # events from before come after it
                return None
            failed = answer
            if answer.cls is not ErrorClass.STALE:
                break
        return failed

    async def _released(
        self, desired: DesiredObject, live: dict[str, Any], applier: Applier
    ) -> dict[str, Any] | ApiError:
        """The object after our entry lost what is others'; as it is when there is nothing to lose."""
        whole = self._state.in_git(desired.ref)
        if whole is None:
            return live
        operations = release(whole.body, live, self._state.manager, self._claims(whole, live).left_out)
        if operations is None:
            return live
        return await applier.json_patch(desired.gvk, desired.ref, operations, manager=self._state.manager)

    async def met(self, desired: DesiredObject, live: dict[str, Any], applier: Applier) -> dict[str, Any] | ApiError:
        """An object that was made by other means is ours from now on, but not what others write of it. The object as it
        is then."""
        record = self._state.record(desired)
        self.sighted(desired, record, live)
        if not record.held:
            return live
        answer = await self._released(desired, live, applier)
        record.held = False
        return answer

    def pinned(self, desired: DesiredObject, *, met: Mapping[str, Any] | None = None) -> str | None:
        """The resourceVersion to send with an apply from which fields of others were left out after a look at the live
        object: what somebody took since then would be overwritten (ssa-live 31). None: no such thing. `met`: the object
        as it was when it was met in this attempt."""
        resolved = any(each.why in (Why.YIELDED, Why.ASKED) for each in self._state.left_out(desired.ref))
        if not resolved:
            return None
        if met is not None:
            return str(met["metadata"]["resourceVersion"])
        record = self._state.objects.get(desired.ref)
        return record.resource_version or None if record is not None else None
