"""The status of a unit from its records."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.plan import once
from gitops.plan.units import Handling
from gitops.readiness.evaluating import foresee
from gitops.readiness.owners import OwnerIndex
from gitops.readiness.statuses import Flag, Status
from gitops.reconcile.judging import judge
from gitops.reconcile.outcomes import ObjectProblem, SyncState, UnitOutcome
from gitops.reconcile.state import UnitState
from gitops.reconcile.watches import Blind


@pytest.fixture
def judged(kit: Any, context: Any) -> Any:
    """judged(state) → (status, seconds from now until time alone may change it)"""

    def run(state: Any, key: Any = None, *, blind: Any = None) -> tuple[Any, float | None]:
        key = key or kit.key
        at = judge(state, key, owners=OwnerIndex(), context=context, blind=blind or {})
        unit_state = state.units.get(key)
        return (unit_state.status if unit_state else None), None if at is None else at - context.wall()

    return run


def see(state: Any, desired: Any, live: dict[str, Any], context: Any) -> None:
    record = state.objects[desired.ref]
    record.outlook = foresee(live, context.mappings.for_kind(desired.gvk), now=context.wall())


def test_a_unit_is_ready_once_its_objects_have_been_so_for_a_moment(
    kit: Any, judged: Any, context: Any, clock: Any
) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    kit.settled(state, web)
    see(state, web, kit.live(web), context)
    status, again = judged(state)
    assert status.status is Status.PROGRESSING
    assert again is not None
    clock.now += again
    assert judged(state)[0].status is Status.READY


def test_a02_what_cannot_be_seen_is_never_green(kit: Any, judged: Any, context: Any, clock: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    kit.settled(state, web)
    see(state, web, kit.live(web), context)
    judged(state)
    clock.now += 60
    error = kit.error(ErrorClass.RETRY, "conversion webhook failed")
    blind = {web.gvk: Blind(web.gvk, clock.now - 30, error)}
    other = kit.desired("g", "Gadget").gvk
    assert judged(state, blind={other: Blind(other, 0.0, error)})[0].status is Status.READY, "of another kind"
    status, _ = judged(state, blind=blind)
    assert (status.status, status.reason, status.since) == (Status.UNKNOWN, "NotSeen", clock.now - 30)
    assert "conversion webhook failed" in status.cause
    assert Flag.STALE in status.flags
    assert judged(state)[0].status is Status.READY, "seen again, and as it was"


def test_an_object_that_was_never_applied_waits_and_says_for_what(kit: Any, judged: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    message = "waiting for quota gpus: exceeded"
    problem = ObjectProblem(web.ref, SyncState.WAITING, message)
    state.units[kit.key].outcome = UnitOutcome(SyncState.WAITING, "sentence", (problem,))
    status, _ = judged(state)
    assert status.status not in (Status.READY, Status.MISSING)
    assert message in status.cause


@pytest.mark.parametrize("of", [SyncState.REFUSED, SyncState.NEEDS_RECREATE])
def test_a_refused_object_fails_its_unit_in_the_words_of_the_server(kit: Any, judged: Any, of: SyncState) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    problem = ObjectProblem(web.ref, of, "spec.x: no such field")
    state.units[kit.key].outcome = UnitOutcome(of, "sentence", (problem,))
    status, _ = judged(state)
    assert status.status is Status.FAILED
    assert "spec.x: no such field" in status.cause


def test_a_once_only_object_that_is_gone_is_completed_when_it_was_made(kit: Any, judged: Any) -> None:
    run = kit.desired("run", handling=Handling(once=True))
    words = once.remembered(once.making(run, once.MADE))
    status, _ = judged(kit.state(kit.unit(run), records=[kit.record(run, satisfied=words)]))
    assert [(row.status, row.reason) for row in status.objects] == [(Status.COMPLETED, "DoneOnce")]
    status, _ = judged(kit.state(kit.unit(run), records=[kit.record(run)]))
    assert [row.status for row in status.objects] == [Status.MISSING]


def test_an_object_whose_uid_the_parent_knows_is_missing_when_it_is_not_there(kit: Any, judged: Any) -> None:
    web = kit.desired("web")
    status, _ = judged(kit.state(kit.unit(web), records=[kit.record(web)]))
    assert status.status is Status.MISSING


def test_a_unit_of_which_nothing_is_known_is_not_judged(kit: Any, judged: Any) -> None:
    assert judged(kit.state()) == (None, None)


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        (SyncState.REMOVING, Status.TERMINATING),
        (SyncState.RETAINED, Status.SUSPENDED),
        (SyncState.FUSED, Status.UNKNOWN),
    ],
)
def test_a_unit_that_left_git_is_as_far_as_its_removal_and_not_as_it_once_was(
    kit: Any, judged: Any, clock: Any, outcome: SyncState, wanted: Status
) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    state.units[kit.key].status = judged(state)[0]
    state.assign(kit.assignment())
    unit_state = state.units.setdefault(kit.key, UnitState(kit.key))
    unit_state.outcome = UnitOutcome(outcome, "kept NIMCache cache: it holds data")
    status, again = judged(state)
    assert (status.status, status.reason, again) == (wanted, str(outcome), None)
    assert status.cause == "kept NIMCache cache: it holds data"
    assert (status.ready_count, status.expected_count, status.objects) == (0, 0, ())
    began = status.since
    clock.now += 60
    assert judged(state)[0].since == began
