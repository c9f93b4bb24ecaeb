"""Recordings of the real operators, played event by event through evaluation, owner tree and aggregation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gitops.readiness.statuses import Status

pytestmark = pytest.mark.upstream

Play = Callable[..., "object"]
P, R, D = Status.PROGRESSING, Status.READY, Status.DEGRADED


def test_l05_nim_status_of_an_earlier_spec_is_never_believed(play: Play) -> None:
    """19.197 s: state Ready, Ready=True, written for the spec before; no observedGeneration tells so."""
    timeline = play("nim-service", "NIMService")
    assert timeline.at(19.196).status is R, timeline
    assert timeline.at(19.197).status is P, timeline
    assert timeline.at(19.197).reason == "NotObserved", timeline
    ready = timeline.first(R, 19.197)
    assert 19.386 <= ready < 20.0, timeline
    assert timeline.statuses(19.197, ready) == [P, R], f"flicker {timeline}"


def test_nim_goes_ready_only_where_the_operator_says_so_of_the_present_spec(play: Play) -> None:
    """Each spec change (19.2, 33.3, 39.3 s) is one dip; after 39.3 s the operator has nothing to write until 45.5 s."""
    timeline = play("nim-service", "NIMService", until=97.0)
    assert timeline.statuses() == [P, R, P, R, P, R, P, R], timeline
    truly = [2.080, 19.386, 33.375, 45.560]  # state Ready written for the present generation
    for moment, entry in zip(truly, [e for e in timeline.entries if e.status.status is R], strict=True):
        assert moment <= entry.t <= moment + 0.6, timeline
    assert timeline.at(97.0).cause == ""


def test_nim_deleted_service_is_terminating_then_missing(play: Play) -> None:
    timeline = play("nim-service", "NIMService")
    assert timeline.statuses(97.0) == [R, Status.TERMINATING, Status.MISSING], timeline
    assert "finalizer" in timeline.at(97.835).cause


def test_n05_nim_cache_that_cannot_reconcile_is_never_ready_and_says_why(play: Play) -> None:
    timeline = play("nim-service", "NIMCache", idle=1000.0)
    assert timeline.statuses() == [P, Status.FAILED], timeline
    assert "unable to load in-cluster configuration" in timeline.at(80.0).cause, timeline
    assert timeline.at(80.0).phase == "CachingInProgress"
    assert timeline.entries[-1].t == pytest.approx(57.7 + 900, abs=1.5), "held 15 minutes"


def test_l05_dynamo_successful_of_an_earlier_generation_is_never_believed(play: Play) -> None:
    """49.1 s: state successful with observedGeneration 2 under generation 3."""
    timeline = play("dynamo-graph", "DynamoGraphDeployment")
    assert timeline.at(49.1).status is R, timeline
    assert timeline.at(49.107).status is P, timeline
    ready = timeline.first(R, 49.107)
    assert 49.247 <= ready < 50.0, timeline
    assert timeline.statuses(49.107, ready) == [P, R], f"flicker {timeline}"


def test_dynamo_outage_is_degraded_and_the_rolling_update_is_progressing(play: Play) -> None:
    timeline = play("dynamo-graph", "DynamoGraphDeployment", until=60.0)
    assert timeline.statuses() == [P, R, D, P, R, P, R], timeline
    assert 18.2 <= timeline.first(D, 3.0) < 18.3, timeline
    outage = timeline.at(20.0)
    assert (outage.ready_count, outage.expected_count) == (0, 2)
    assert "Deployment mocker-agg" in outage.cause
    rolling = timeline.at(24.26)
    assert rolling.status is P, timeline
    assert rolling.reason == "RollingUpdate", timeline
    assert rolling.expected_count == 3, "old and new worker side by side"
    assert timeline.at(25.0).expected_count == 2


def test_dynamo_successful_for_24_ms_in_a_flap_is_not_reported(play: Play) -> None:
    """69.498 s: successful between two pendings, while the generated Deployment is being put back."""
    timeline = play("dynamo-graph", "DynamoGraphDeployment", until=73.0)
    assert timeline.statuses(69.40, 73.0) == [R, P, R], f"flicker {timeline}"
    assert timeline.first(R, 69.463) >= 69.522, timeline


def test_n02_a_scaled_child_of_a_ready_graph_shows_in_the_count_only(play: Play) -> None:
    timeline = play("dynamo-graph", "DynamoGraphDeployment", until=73.0)
    scaled = timeline.at(69.31)
    assert (scaled.status, scaled.ready_count, scaled.expected_count) == (R, 1, 2), timeline


@pytest.mark.parametrize(
    ("name", "kind", "restart", "truly"),
    [
        ("nim-service", "NIMService", 19.200, 19.386),
        ("nim-service", "NIMService", 33.255, 33.375),
        ("dynamo-graph", "DynamoGraphDeployment", 49.110, 49.247),
        ("dynamo-graph", "DynamoGraphDeployment", 61.240, 61.433),
    ],
)
def test_l05_a_restart_in_the_middle_of_a_change_believes_no_stale_status(
    play: Play, name: str, kind: str, restart: float, truly: float
) -> None:
    timeline = play(name, kind, restart=restart, until=truly + 4)
    changed = next(e.t for e in timeline.entries if restart - 0.01 < e.t <= restart)
    assert timeline.statuses(changed, truly) == [P], f"flicker {timeline}"
    assert timeline.entries[-1].status.status is R, timeline


@pytest.mark.parametrize(("name", "kind"), [("nim-service", "NIMService"), ("dynamo-graph", "DynamoGraphDeployment")])
def test_a_restart_at_rest_changes_nothing(play: Play, name: str, kind: str) -> None:
    """Not even for a moment: a restart of the daemon writes no status commit."""
    end, restart = (49.2, 40.0) if name == "dynamo-graph" else (52.0, 48.5)
    plain = play(name, kind, until=end, idle=0.0)
    again = play(name, kind, until=end, idle=0.0, restart=restart)
    assert plain.at(restart).status is R, plain
    assert plain.statuses() == again.statuses(), again


def test_playing_a_recording_twice_gives_the_same_timeline(play: Play) -> None:
    first, second = (str(play("dynamo-graph", "DynamoGraphDeployment")) for _ in range(2))
    assert first == second
