"""Is a status about the present spec? L05 in all its forms, restarts, equal seconds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from gitops.readiness.evaluating import evaluate
from gitops.readiness.freshness import parse_time, spec_time
from gitops.readiness.mapping import Mappings
from gitops.readiness.statuses import AppliedMark, Flag, Status

Make = Callable[..., dict[str, Any]]


def entry(time: float, *, status: bool = False, manager: str = "operator") -> dict[str, Any]:
    text = datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {
        "manager": manager,
        "operation": "Update",
        "time": text,
        "fieldsV1": {"f:status" if status else "f:spec": {}},
    }
    return found | ({"subresource": "status"} if status else {})


def service(make: Make, *, generation: int, spec_at: float, status_at: float | None, state: str) -> dict[str, Any]:
    fields = [entry(spec_at, manager="gitops-x")] + ([] if status_at is None else [entry(status_at, status=True)])
    ready = "True" if state == "Ready" else "False"
    return make(
        "apps.nvidia.com/v1alpha1",
        "NIMService",
        metadata={"generation": generation, "managedFields": fields, "uid": "u"},
        spec={"replicas": 1},
        status={"state": state, "conditions": [{"type": "Ready", "status": ready, "reason": state}]},
    )


@pytest.mark.parametrize(
    ("status", "label"),
    [
        ({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]}, "a"),
        ({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}, "b"),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, "c"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_l05_ready_older_than_the_spec(
    make: Make, mappings: Mappings, now: float, status: dict[str, Any], label: str
) -> None:
    obj = make("example.com/v1", "Thing", metadata={"generation": 2, "uid": "u"}, status=copy.deepcopy(status))
    mapping = mappings.for_object(obj)
    before, memory = evaluate(obj, mapping, now=now - 100)
    if label == "c":
        assert before.status is Status.PROGRESSING, "met without any proof: it gets its settle time"
        before, memory = evaluate(obj, mapping, now=now - 50, memory=memory)
    assert before.status is Status.READY
    obj["metadata"]["generation"] = 3
    stale, memory = evaluate(obj, mapping, now=now, memory=memory)
    assert stale.status is Status.PROGRESSING
    later, _ = evaluate(obj, mapping, now=now + 11, memory=memory)
    if label == "c":
        assert (later.status, later.flags) == (Status.READY, {Flag.UNVERIFIED}), "documented grace time"
        assert stale.next_check == now + 10
    else:
        assert later.status is Status.PROGRESSING


def test_status_written_in_a_later_second_is_fresh_at_first_sight(make: Make, mappings: Mappings, now: float) -> None:
    obj = service(make, generation=4, spec_at=now - 5, status_at=now - 4, state="Ready")
    status, _ = evaluate(obj, mappings.for_object(obj), now=now)
    assert (status.status, status.flags) == (Status.READY, frozenset())


def test_equal_second_proves_nothing_until_the_status_moves(make: Make, mappings: Mappings, now: float) -> None:
    old = service(make, generation=1, spec_at=now - 500, status_at=now - 400, state="Ready")
    mapping = mappings.for_object(old)
    _, memory = evaluate(old, mapping, now=now - 10)
    changed = service(make, generation=2, spec_at=now, status_at=now - 400, state="Ready")
    status, memory = evaluate(changed, mapping, now=now + 0.1, memory=memory)
    assert (status.status, status.reason) == (Status.PROGRESSING, "NotObserved")
    written = service(make, generation=2, spec_at=now, status_at=now, state="NotReady")
    status, memory = evaluate(written, mapping, now=now + 0.2, memory=memory)
    assert (status.status, status.reason) == (Status.PROGRESSING, "NotReady")
    ready = service(make, generation=2, spec_at=now, status_at=now, state="Ready")
    status, memory = evaluate(ready, mapping, now=now + 0.3, memory=memory)
    assert (status.status, status.flags) == (Status.READY, frozenset())


def test_equal_second_met_after_a_restart_needs_only_the_age_of_the_spec(
    make: Make, mappings: Mappings, now: float
) -> None:
    """A daemon that restarts long after a change must not report every NIM as Progressing."""
    obj = service(make, generation=2, spec_at=now - 3600, status_at=now - 3600, state="Ready")
    status, _ = evaluate(obj, mappings.for_object(obj), now=now)
    assert (status.status, status.flags) == (Status.READY, {Flag.UNVERIFIED})


def test_settle_time_runs_from_when_the_change_was_seen(make: Make, mappings: Mappings, now: float) -> None:
    """Our own clock counts for changes that we watched: the server's may be off by minutes."""
    skewed = now - 300
    old = service(make, generation=1, spec_at=skewed - 500, status_at=skewed - 400, state="Ready")
    mapping = mappings.for_object(old)
    _, memory = evaluate(old, mapping, now=now - 10)
    changed = service(make, generation=2, spec_at=skewed, status_at=skewed - 400, state="Ready")
    status, memory = evaluate(changed, mapping, now=now, memory=memory)
    assert status.status is Status.PROGRESSING
    assert status.next_check == now + 10
    assert evaluate(changed, mapping, now=now + 9.9, memory=memory)[0].status is Status.PROGRESSING
    assert evaluate(changed, mapping, now=now + 10, memory=memory)[0].status is Status.READY


def test_a_label_only_apply_does_not_make_a_status_stale(make: Make, mappings: Mappings, now: float) -> None:
    """It moves the time of our entry, not the generation."""
    obj = service(make, generation=2, spec_at=now - 100, status_at=now - 90, state="Ready")
    mapping = mappings.for_object(obj)
    _, memory = evaluate(obj, mapping, now=now - 80)
    relabelled = service(make, generation=2, spec_at=now, status_at=now - 90, state="Ready")
    status, _ = evaluate(relabelled, mapping, now=now, memory=memory)
    assert (status.status, status.flags) == (Status.READY, frozenset())


def test_two_changes_seen_at_once_are_not_taken_for_a_fresh_status(make: Make, mappings: Mappings, now: float) -> None:
    """A status written between two looks, in the second of the spec change, may be older than that change."""
    old = service(make, generation=1, spec_at=now - 500, status_at=now - 400, state="NotReady")
    mapping = mappings.for_object(old)
    _, memory = evaluate(old, mapping, now=now - 10)
    both = service(make, generation=2, spec_at=now, status_at=now, state="Ready")
    status, _ = evaluate(both, mapping, now=now + 1, memory=memory)
    assert status.status is Status.PROGRESSING


def test_an_object_older_than_our_own_write_is_not_judged(make: Make, mappings: Mappings, now: float) -> None:
    obj = service(make, generation=2, spec_at=now - 100, status_at=now - 90, state="Ready")
    mark = AppliedMark(generation=3, at=now)
    status, _ = evaluate(obj, mappings.for_object(obj), now=now, applied=mark)
    assert (status.status, status.reason) == (Status.PROGRESSING, "WaitingForWatch")


def test_a_recreated_object_starts_anew(make: Make, mappings: Mappings, now: float) -> None:
    obj = service(make, generation=2, spec_at=now - 100, status_at=now - 90, state="Ready")
    mapping = mappings.for_object(obj)
    _, memory = evaluate(obj, mapping, now=now - 80)
    again = service(make, generation=1, spec_at=now, status_at=None, state="")
    again["metadata"]["uid"] = "other"
    again["status"] = {}
    status, fresh = evaluate(again, mapping, now=now, memory=memory)
    assert (status.reason, fresh.uid, fresh.ready_generation) == ("NoStatusYet", "other", None)


def test_l07_a_lost_event_is_made_up_for_by_the_next_look(make: Make, mappings: Mappings, now: float) -> None:
    """Nothing is latched against the object: the next LIST corrects it."""
    obj = make("nvidia.com/v1beta1", "DynamoGraphDeployment", metadata={"uid": "u"}, status={})
    mapping = mappings.for_object(obj)
    _, memory = evaluate(obj, mapping, now=now)
    obj["status"] = {
        "state": "successful",
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}],
    }
    assert evaluate(obj, mapping, now=now + 600, memory=memory)[0].status is Status.READY


def test_times() -> None:
    assert parse_time("2026-11-30T12:00:00Z") == parse_time("2026-11-30T13:00:00+01:00")
    assert parse_time("yesterday") is None
    assert parse_time(3) is None
    assert spec_time({"metadata": {"managedFields": [{"fieldsV1": None}, None, 3]}}) is None
