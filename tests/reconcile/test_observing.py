"""What an event means: tables of (what is known, what is seen) on objects with real managedFields."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.reconcile.observing import Observation, Sighting, is_stale, observe
from gitops.reconcile.state import ObjectRecord


@pytest.fixture
def seen(kit: Any) -> Any:
    """seen(record, desired, live, content_applied=False) → Observation, or None of a stale event"""

    def run(
        record: ObjectRecord, desired: Any, live: dict[str, Any], *, content_applied: bool = False
    ) -> Observation | None:
        if is_stale(record, live):
            return None
        return observe(record, desired, live, manager=kit.manager, content_applied=content_applied)

    return run


@pytest.fixture
def web(kit: Any) -> Any:
    return kit.desired("web", data={"level": "info", "mode": "fast"})


@pytest.fixture
def settled(kit: Any, web: Any) -> ObjectRecord:
    return kit.settled(kit.state(kit.unit(web)), web)


# -- at rest ---------------------------------------------------------------------------------------------------------


def test_unmoved_digests_are_quiet_and_nothing_is_compared(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    noise = kit.live(
        web, kit.entry({"apiVersion": "v1", "status": {"x": 1}}, "controller"), version="11", status={"x": 1}
    )
    assert seen(settled, web, noise) == Observation(Sighting.QUIET, None)
    assert (settled.resource_version, settled.applied) == ("11", web.digest)


def test_an_object_on_its_way_out_is_remembered_as_such(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    going = kit.live(web, version="11")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert seen(settled, web, going).sighting is Sighting.QUIET
    assert settled.deleting


# -- first sight -----------------------------------------------------------------------------------------------------


def test_first_sight_of_an_object_as_declared_settles_it(kit: Any, seen: Any, web: Any) -> None:
    record = ObjectRecord(web.ref, web.gvk)
    assert seen(record, web, kit.live(web)).sighting is Sighting.SETTLED
    assert record.applied == web.digest


def test_first_sight_of_a_difference_is_for_the_plan_when_this_content_was_never_applied(
    kit: Any, seen: Any, web: Any
) -> None:
    record = ObjectRecord(web.ref, web.gvk)
    assert seen(record, web, kit.edited(web, level="debug")).sighting is Sighting.DIFFERS
    assert record.observed().last_desired == b"", "nothing says that it ever was as declared"


def test_first_sight_of_a_difference_is_drift_when_this_content_was_applied(kit: Any, seen: Any, web: Any) -> None:
    record = ObjectRecord(web.ref, web.gvk)
    observation = seen(record, web, kit.edited(web, level="debug"), content_applied=True)
    assert observation.sighting is Sighting.DRIFTED
    (difference,) = observation.comparison.differences
    assert (difference.path, difference.manager) == (("data", "level"), "kubectl-edit")


def test_another_object_of_that_name_is_met_for_the_first_time(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.overridden = (("data", "level"),)
    other = kit.live(web, uid="uid-2", owned=False, data={"level": "x"})
    assert seen(settled, web, other).sighting is Sighting.DIFFERS
    assert (settled.uid, settled.applied, settled.overridden) == ("uid-2", b"", ())


# -- drift -----------------------------------------------------------------------------------------------------------


def test_a_changed_value_of_what_was_as_declared_is_drift(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    assert seen(settled, web, kit.edited(web, level="debug")).sighting is Sighting.DRIFTED
    assert (settled.applied, settled.last_desired, settled.unowned) == (b"", web.digest, False)


def test_a_change_in_git_is_no_drift(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    newer = kit.desired("web", data={"level": "debug", "mode": "fast", "more": "x"})
    assert seen(settled, newer, kit.live(web, version="11")).sighting is Sighting.DIFFERS
    assert settled.last_desired == web.digest


def test_lost_ownership_of_right_values_is_mended_silently(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    observation = seen(settled, web, kit.edited(web, level="info"))
    assert observation.sighting is Sighting.LOST
    assert (settled.applied, settled.unowned) == (b"", True)


def test_what_somebody_put_right_again_is_settled(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    seen(settled, web, kit.edited(web, level="debug"))
    assert seen(settled, web, kit.live(web, version="12")).sighting is Sighting.SETTLED
    assert settled.applied == web.digest


def test_an_edit_while_git_declares_something_unappliable_is_not_forgotten_when_git_goes_back(
    kit: Any, seen: Any, web: Any, settled: Any
) -> None:
    """The newer declaration is refused by the server; somebody edits; Git reverts: the edit is drift then."""
    newer = kit.desired("web", data={"level": "debug", "mode": "fast"})
    assert seen(settled, newer, kit.edited(web, mode="slow")).sighting is Sighting.DIFFERS
    assert settled.observed().applied != web.digest
    assert settled.observed().last_desired == web.digest


def test_an_event_about_others_fields_while_git_waits_leaves_what_is_known(
    kit: Any, seen: Any, web: Any, settled: Any
) -> None:
    newer = kit.desired("web", data={"level": "debug", "mode": "fast", "more": "x"})
    seen(settled, newer, kit.live(web, version="11", status={"x": 1}))
    assert settled.applied == web.digest, "a revert must not apply what is as declared"


def test_what_admission_made_of_our_apply_is_the_baseline(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    changed = kit.live(web, version="11", data={"level": "mutated", "mode": "fast"})
    settled.overridden, settled.answered = (("data", "level"),), kit.values(web, changed)
    assert seen(settled, web, changed).sighting is Sighting.SETTLED
    assert (settled.applied, settled.overridden) == (web.digest, (("data", "level"),))


def test_a_third_value_where_admission_overrides_is_drift(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    mutated, third = (kit.live(web, version=v, data={"level": v, "mode": "fast"}) for v in ("11", "12"))
    settled.overridden, settled.answered = (("data", "level"),), kit.values(web, mutated)
    assert seen(settled, web, mutated).sighting is Sighting.SETTLED
    observation = seen(settled, web, third)
    assert observation.sighting is Sighting.DRIFTED
    assert [d.live for d in observation.comparison.differences] == ["12"]


def test_ownership_lost_beside_what_admission_overrides_is_mended(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    taken = kit.live(web, version="11", data={"level": "mutated", "mode": "fast"})
    settled.overridden, settled.answered = (("data", "level"),), kit.values(web, taken)
    (ours,) = taken["metadata"]["managedFields"]
    del ours["fieldsV1"]["f:data"]["f:mode"]
    assert seen(settled, web, taken).sighting is Sighting.LOST
    assert settled.applied == b""


def test_drift_beside_what_admission_overrides_is_drift(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.overridden = (("data", "level"),)
    changed = kit.edited(web, mode="slow")
    changed["data"]["level"] = "mutated"
    assert seen(settled, web, changed).sighting is Sighting.DRIFTED


# -- order of events -------------------------------------------------------------------------------------------------


def test_an_event_older_than_the_answer_to_our_write_is_stale(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.resource_version = settled.awaiting = "20"
    assert seen(settled, web, kit.edited(web, level="debug", version="19")) is None
    assert (settled.applied, settled.resource_version) == (web.digest, "20")


def test_the_echo_of_our_write_ends_the_waiting(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.resource_version = settled.awaiting = "20"
    assert seen(settled, web, kit.live(web, version="20")) is None
    assert settled.awaiting == ""
    assert seen(settled, web, kit.edited(web, level="debug", version="21")).sighting is Sighting.DRIFTED


def test_a_newer_event_is_believed_while_waiting(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.resource_version = settled.awaiting = "20"
    assert seen(settled, web, kit.edited(web, level="debug", version="21")).sighting is Sighting.DRIFTED
    assert settled.awaiting == ""


def test_a_lower_version_is_the_truth_when_nothing_is_awaited(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    """etcd was restored: the world is older than what is known."""
    settled.resource_version = "500"
    assert seen(settled, web, kit.edited(web, level="debug", version="11")).sighting is Sighting.DRIFTED
    assert settled.resource_version == "11"


def test_another_object_is_never_stale(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.resource_version = settled.awaiting = "20"
    assert seen(settled, web, kit.live(web, uid="uid-2", version="3")).sighting is Sighting.SETTLED


def test_versions_that_are_no_numbers_are_never_compared(kit: Any, seen: Any, web: Any, settled: Any) -> None:
    settled.resource_version = settled.awaiting = "opaque"
    assert seen(settled, web, kit.edited(web, level="debug", version="11")).sighting is Sighting.DRIFTED
