"""One attempt at a unit: what happened in it, and what that makes of the unit.

Problems stay with their objects; the unit takes the state of the worst, and the earliest reason to look again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import DELETING, ApiError, ErrorClass, backoff
from gitops.cluster.tools import Owner
from gitops.model.adoption import Tool
from gitops.model.identity import ObjectRef
from gitops.model.kinds import NAMESPACE, SECRET
from gitops.plan.planning import Apply, UnitPlan
from gitops.plan.units import DesiredObject, Mode, Unit, stricter
from gitops.reconcile.outcomes import NOTHING, ObjectProblem, SyncState, UnitOutcome, worst
from gitops.reconcile.pruning import PruneReport
from gitops.reconcile.secret_errors import about_secret
from gitops.reconcile.state import UnitState
from gitops.reconcile.waiting import Need, need_of

STATE_OF: dict[ErrorClass, SyncState] = {
    ErrorClass.DENIED: SyncState.REFUSED,
    ErrorClass.REFUSED: SyncState.REFUSED,
    ErrorClass.FORBIDDEN: SyncState.REFUSED,
    ErrorClass.WAITING: SyncState.WAITING,
    ErrorClass.BLOCKED: SyncState.BLOCKED,
}
"""What a class of API error makes of the unit; every other class is retried."""

AS_DECLARED = "as declared"
"""All that is to be said of a unit of which there is nothing to be said."""

AT_ONCE = 5
"""Attempts in a row that may be followed by the next one at once."""

LEASE_LOOK = 1.0
"""Seconds until a unit is looked at again that was stopped because the Lease could not be renewed in time."""


@dataclass(frozen=True, slots=True)
class Recreation:
    """An object to be deleted, as it was read, so that it is made anew."""

    object: DesiredObject
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Met:
    """An object that exists and that we did not know to be ours, as it was when it was met. `tools` are those whose
    objects may be taken over, `owners` those whose marks it has."""

    live: Mapping[str, Any]
    now: dict[str, Any]  # as it is after the steps taken so far
    earlier: tuple[Mapping[str, Any], ...] = ()  # managedFields entries of those who declared it
    tools: frozenset[Tool] = frozenset()
    owners: tuple[Owner, ...] = ()
    ours: bool = False


@dataclass(slots=True)
class Attempt:
    """What happened so far in one run of a unit's work. `applier` makes its calls."""

    unit: Unit
    applier: Applier
    problems: list[ObjectProblem] = field(default_factory=list)
    remarks: list[ObjectProblem] = field(default_factory=list)  # problems that leave nothing undone
    errors: list[ApiError] = field(default_factory=list)
    asked: list[ObjectProblem] = field(default_factory=list)  # people are to decide; everything else goes on
    stopped: set[int] = field(default_factory=set)  # components with a failed object
    needs: set[Need] = field(default_factory=set)  # what would let it go on
    redefined: frozenset[ObjectRef] = frozenset()  # custom resources whose definition changes in this attempt
    applied: int = 0
    repaired: int = 0
    started: int = 0  # triggers that were sent
    adopted: list[str] = field(default_factory=list)  # one sentence each
    lost: frozenset[ObjectRef] = frozenset()  # the unit had them, and they are not seen
    met: dict[ObjectRef, Met] = field(default_factory=dict)  # exist, and were not applied by us
    look_again: bool = False
    interrupted: bool = False  # the Lease was lost: whatever was left to do was not done
    paused_until: str = ""  # by the break-glass annotation
    notes: list[str] = field(default_factory=list)  # what is to be told however the unit stands
    retry_after: float | None = None
    words: dict[str, str] = field(default_factory=dict)  # what was done once (gitops/plan/once.py), as it is now
    recreations: list[Recreation] = field(default_factory=list)

    def look_in(self, seconds: float | None) -> None:
        """Look again then at the latest."""
        if seconds is not None:
            self.retry_after = seconds if self.retry_after is None else min(self.retry_after, seconds)

    def stops(self, step: Apply) -> bool:
        """Whether it stays undone because of others of its component. A repair never does."""
        return step.object.component in self.stopped and not step.repairs

    def wait(self, desired: DesiredObject, error: ApiError, need: Need) -> None:
        """It is not tried before something else is as it should be."""
        self.fail(desired, error)
        self.needs.add(need)

    def fail(self, desired: DesiredObject, error: ApiError) -> None:
        if desired.gvk == SECRET:
            error = about_secret(desired, error)
        self.stopped.add(desired.component)
        if desired.gvk == NAMESPACE and error.reason == DELETING:
            self.stopped |= {o.component for o in self.unit.objects if o.ref.namespace == desired.ref.name}
        self.errors.append(error)
        self.problems.append(ObjectProblem(desired.ref, state_of(error), str(error)))
        if (need := need_of(error, desired)) is not None:
            self.needs.add(need)

    def refuse(self, desired: DesiredObject, message: str) -> None:
        """Ours is the refusal, not the server's; looked at again as rarely as one of the server's."""
        self.stopped.add(desired.component)
        self.errors.append(ApiError(ErrorClass.REFUSED, reason="Refused", message=message))
        self.problems.append(ObjectProblem(desired.ref, SyncState.REFUSED, message))

    def needs_recreate(self, desired: DesiredObject, message: str, error: ApiError) -> None:
        self.stopped.add(desired.component)
        self.errors.append(error)
        self.problems.append(ObjectProblem(desired.ref, SyncState.NEEDS_RECREATE, message))

    def waits(self, desired: DesiredObject, message: str) -> None:
        """Until something else has come to its end, of which an event tells."""
        self.stopped.add(desired.component)
        self.problems.append(ObjectProblem(desired.ref, SyncState.WAITING, message))


def conclude(
    attempt: Attempt,
    plan: UnitPlan,
    pruned: PruneReport,
    *,
    unit_state: UnitState,
    rng: random.Random,
    left_over: str = "",
) -> UnitOutcome:
    """How the unit stands after the attempt; `left_over` is a sentence to add where all is as declared."""
    outcome = _outcome(attempt, plan, pruned, unit_state=unit_state, rng=rng, left_over=left_over)
    if not attempt.notes:
        return outcome
    said = () if outcome.sentence == AS_DECLARED else (outcome.sentence,)
    return replace(outcome, sentence="; ".join((*said, *attempt.notes)))


def _outcome(
    attempt: Attempt,
    plan: UnitPlan,
    pruned: PruneReport,
    *,
    unit_state: UnitState,
    rng: random.Random,
    left_over: str,
) -> UnitOutcome:
    problems = (*attempt.problems, *attempt.remarks, *attempt.asked, *pruned.problems)
    outcome = UnitOutcome(
        SyncState.SYNCED,
        "; ".join(filter(None, (pruned.behind or unit_state.note, left_over))) or AS_DECLARED,
        problems,
        _next_look(attempt, pruned, number=unit_state.attempts + 1, rng=rng),
        applied=attempt.applied,
        repaired=attempt.repaired,
        started=attempt.started,
        pruned=len(pruned.deleted),
        previews=tuple(f"{s.reason} {s.object.ref}" for s in plan.suppressed),
        needs=frozenset(attempt.needs) or NOTHING,
    )
    state = worst(problems)
    if unit_state.fused:
        return replace(outcome, state=SyncState.FUSED, sentence=unit_state.fused)
    if state is not None:
        return replace(outcome, state=state, sentence=_sentence(problems, state))
    if plan.suppressed:
        modes = sorted({stricter(attempt.unit.mode, s.object.handling.mode) for s in plan.suppressed})
        paused = f"a pause on the parent, until {attempt.paused_until},"
        who = paused if attempt.paused_until and modes == [Mode.ENFORCE] else f"mode {' and '.join(modes)}"
        number = len(plan.suppressed)
        differ = "1 object differs" if number == 1 else f"{number} objects differ"
        sentence = f"{differ}; {who} changes nothing"
        return replace(outcome, state=SyncState.PAUSED, sentence=sentence)
    if attempt.interrupted:
        return replace(interrupted(), applied=attempt.applied, repaired=attempt.repaired)
    if attempt.look_again:
        return replace(outcome, state=SyncState.PENDING, sentence="what was found or declared meanwhile is looked at")
    if not pruned.complete:
        return replace(outcome, state=SyncState.REMOVING, sentence=pruned.sentence)
    if pruned.kept:
        return replace(outcome, state=SyncState.RETAINED, sentence=pruned.sentence)
    return outcome


def interrupted() -> UnitOutcome:
    """Nothing more may be written; when the Lease is held again, whatever was left is done."""
    return UnitOutcome(SyncState.PENDING, "the Lease is not held; nothing more is written", retry_after=LEASE_LOOK)


def failed(what: str, error: ApiError, *, number: int, rng: random.Random) -> UnitOutcome:
    """The outcome when attempt `number` ended with an error that is about no single object."""
    return UnitOutcome(state_of(error), f"{what}: {error}", retry_after=error.wait(number, rng))


def state_of(error: ApiError) -> SyncState:
    return STATE_OF.get(error.cls, SyncState.RETRYING)


def earliest(errors: Iterable[ApiError], *, number: int, rng: random.Random) -> float | None:
    """Seconds until the first of these errors may be tried again after attempt `number`; None without errors."""
    return min((error.wait(number, rng) for error in errors), default=None)


def _next_look(attempt: Attempt, pruned: PruneReport, *, number: int, rng: random.Random) -> float | None:
    """Seconds until the unit is to be looked at again without an event."""
    if attempt.look_again:  # at once, yet what is found anew each time is no reason to hammer the server
        return 0.0 if number <= AT_ONCE else backoff(ErrorClass.RETRY, number - AT_ONCE, rng)
    retry = earliest((*attempt.errors, *pruned.errors), number=number, rng=rng)
    return min((p for p in (retry, attempt.retry_after, pruned.retry_after) if p is not None), default=None)


def _sentence(problems: Iterable[ObjectProblem], state: SyncState) -> str:
    of_state = [p for p in problems if p.state is state]
    more = f" (and {len(of_state) - 1} more)" if len(of_state) > 1 else ""
    return f"{of_state[0].object}: {of_state[0].message}{more}"
