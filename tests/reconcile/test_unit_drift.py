"""What a unit's work makes of drift, and of objects that left the watch, call by call, on a cluster in memory."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.reflecting import Changed
from gitops.plan.planning import Reason
from gitops.plan.units import PLAIN, Handling, Mode, stricter
from gitops.reconcile.context import Context
from gitops.reconcile.metrics import NoMetrics
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from gitops.report.drift import Repair
from tests.reconcile.conftest import unit_work
from tests.reconcile.unit_bench import Bench

# -- drift that may not be repaired ----------------------------------------------------------------------------------


def drifted(bench: Bench, kit: Any, mode: Mode = Mode.ENFORCE, **record: Any) -> ClusterState:
    web = kit.desired("web")
    state = kit.state(kit.unit(web, mode=mode), records=[kit.record(web, **record)])
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    kit.settled(state, web).applied = b""
    return state


MODES = (Mode.ENFORCE, Mode.REPORT, Mode.PAUSED)
PAUSES = {"": False, "2000-01-01T00:00:00Z": False, "2999-01-01T00:00:00Z": True, "tomorrow": False}
"""What may stand on a parent, and whether it suspends repairs."""


@pytest.mark.parametrize("pause", PAUSES)
@pytest.mark.parametrize("of_object", MODES)
@pytest.mark.parametrize("of_unit", MODES)
async def test_the_strictest_of_unit_object_and_pause_decides(
    bench: Bench, kit: Any, of_unit: Mode, of_object: Mode, pause: str
) -> None:
    """The unit's mode is the stricter of its cluster's and its own (tests/plan). One object drifted, and Git changed
    another that has a word of its own as well."""
    handling = Handling(mode=of_object)
    web, app = kit.desired("web", handling=handling), kit.desired("app", handling=handling, data={"level": "new"})
    state = kit.state(kit.unit(web, app, mode=of_unit), records=[kit.record(web, app, pause_until=pause)])
    kit.settled(state, web).applied = b""
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    old = kit.desired("app")
    bench.cluster.objects[app.ref] = kit.live(old)
    kit.settled(state, old)
    mode = stricter(of_unit, of_object)
    repaired = mode is Mode.ENFORCE and not PAUSES[pause]
    applied = mode is not Mode.PAUSED
    outcome = await bench.work(state)
    assert sorted(bench.cluster.verbs("apply")) == ["app"] * applied + ["web"] * repaired
    assert outcome.state is (SyncState.SYNCED if repaired else SyncState.PAUSED)
    number = 2 - repaired - applied
    who = f"mode {mode}" if mode is not Mode.ENFORCE else f"a pause on the parent, until {pause},"
    differ = "1 object differs" if number == 1 else f"{number} objects differ"
    wrong = pause == "tomorrow"
    told = f"gitops/pause-until on the parent is {pause!r}, no RFC 3339 time with a zone: it pauses nothing"
    said = [f"{differ}; {who} changes nothing"] * (not repaired) + [told] * wrong
    assert outcome.sentence == ("; ".join(said) or "as declared")


async def test_modes_of_several_objects_are_all_named(bench: Bench, kit: Any) -> None:
    web, app = (kit.desired(n, handling=Handling(mode=m)) for n, m in (("web", Mode.REPORT), ("app", Mode.PAUSED)))
    state = kit.state(kit.unit(web, app), records=[kit.record(web, app)])
    for desired in (web, app):
        bench.cluster.objects[desired.ref] = kit.edited(desired, level="debug")
        kit.settled(state, desired).applied = b""
    outcome = await bench.work(state)
    assert outcome.sentence == "2 objects differ; mode paused and report changes nothing"


@pytest.mark.parametrize("before", [Mode.REPORT, Mode.PAUSED])
@pytest.mark.parametrize("of_object", [False, True])
async def test_what_differs_when_the_mode_becomes_less_strict_is_repaired_at_once(
    bench: Bench, kit: Any, before: Mode, of_object: bool
) -> None:
    """Git says another mode, and nothing else changes: one forced apply, as with any repair."""
    web = kit.desired("web", handling=Handling(mode=before) if of_object else PLAIN)
    state = kit.state(kit.unit(web, mode=Mode.ENFORCE if of_object else before), records=[kit.record(web)])
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    kit.settled(state, web).applied = b""
    assert (await bench.work(state)).state is SyncState.PAUSED
    state.assign(kit.assignment(kit.unit(kit.desired("web"), content="content-2" if of_object else "content-1")))
    outcome = await bench.work(state)
    assert (outcome.state, outcome.repaired) == (SyncState.SYNCED, 1)
    assert [call for call in bench.cluster.calls if call[0] != "parent"] == [("apply", "web")]


async def test_a_pause_on_the_parent_suspends_repair_until_its_time(bench: Bench, kit: Any, clock: Any) -> None:
    until = datetime.datetime.fromtimestamp(clock.now + 60, datetime.UTC).isoformat()
    state = drifted(bench, kit, pause_until=until)
    outcome = await bench.work(state)
    assert (outcome.state, outcome.retry_after) == (SyncState.PAUSED, 60)
    assert bench.cluster.calls == []
    clock.now += 61
    assert (await bench.work(state)).repaired == 1


@pytest.mark.parametrize("text", ["2026-13-40T00:00:00Z", "2999-01-01T00:00:00", "x" * 5000])
async def test_a_pause_that_is_no_time_with_a_zone_is_told_and_ignored(bench: Bench, kit: Any, text: str) -> None:
    outcome = await bench.work(drifted(bench, kit, pause_until=text))
    assert outcome.repaired == 1
    assert "it pauses nothing" in outcome.sentence
    assert len(outcome.sentence) < 200


# -- the trail that a repair leaves ------------------------------------------------------------------------------------


class Counted(NoMetrics):
    """Counts as it is told to."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, object]] = []

    def drifted(self, cluster: Any, kind: str) -> None:
        self.counted.append(("drifted", kind))

    def drift_became(self, cluster: Any, result: str) -> None:
        self.counted.append(("became", result))

    def repaired(self, cluster: Any, seconds: float) -> None:
        self.counted.append(("seconds", seconds))


@pytest.mark.parametrize(
    ("trouble", "result"), [("", "repaired"), ("refused", "failed"), ("admission", "overridden"), ("mode", "reported")]
)
async def test_a_repair_is_in_the_log_the_record_and_the_counters_with_who_what_and_result(
    bench: Bench, kit: Any, context: Context, clock: Any, caplog: pytest.LogCaptureFixture, trouble: str, result: str
) -> None:
    caplog.set_level("INFO")
    metrics = Counted()
    context = dataclasses.replace(context, metrics=metrics)
    web = kit.desired("web")
    mode = Mode.REPORT if trouble == "mode" else Mode.ENFORCE
    state = kit.state(kit.unit(web, mode=mode), records=[kit.record(web)])
    sightings = Sightings(state, context, look=lambda key, urgent: None, touched=lambda key: None)
    parts = {"applier": bench.cluster, "parents": bench.parents, "contents": bench.contents, "context": context}
    work = unit_work(state, sightings=sightings, **parts)
    kit.settled(state, web)
    bench.cluster.objects[web.ref] = live = kit.edited(web, level="debug")
    sightings.declared_event(Changed(copy.deepcopy(live)))
    clock.now += 0.25
    if trouble == "refused":
        bench.cluster.faults["apply", "web"] = kit.error(ErrorClass.REFUSED)
    if trouble == "admission":
        bench.cluster.admit = lambda live: live.update(data={"level": "mutated"})
    await work.run(kit.key)
    (drift,) = state.units[kit.key].drifts
    assert (drift.path, drift.manager, drift.repaired) == ("data.level", "kubectl-edit", result)
    lines = [
        (line.path, line.manager, line.object, line.result)
        for line in caplog.records
        if line.name == "gitops.reconcile.drifting"
    ]
    of = ("data.level", "kubectl-edit", "ConfigMap shop/web")
    assert lines == [(*of, "pending"), (*of, result)]
    seconds = [("seconds", 0.25)] if trouble in ("", "admission") else []
    assert sorted(map(str, metrics.counted)) == sorted(map(str, [("drifted", "changed"), ("became", result), *seconds]))


# -- what left the watch ---------------------------------------------------------------------------------------------


def suspect(kit: Any) -> tuple[Any, ClusterState]:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    kit.settled(state, web).suspect = True
    return web, state


async def test_a_deleted_object_is_read_reported_and_made_anew(bench: Bench, kit: Any) -> None:
    _, state = suspect(kit)
    await bench.work(state)
    verbs = [verb for verb, _ in bench.cluster.calls]
    assert verbs == ["get", "parent", "dry-run", "apply", "parent"]
    before, after = (record.members[0].uid for record in bench.parents.writes)
    assert (before, after) == ("", "uid-web"), "the old uid would disown the new object if the run ended here"
    (drift,) = state.units[kit.key].drifts
    assert (drift.kind, drift.repaired) == ("deleted", Repair.REPAIRED)


async def test_an_object_that_lost_our_label_is_reported_as_such_and_labelled_again(bench: Bench, kit: Any) -> None:
    web, state = suspect(kit)
    live = kit.live(web, version="11")
    del live["metadata"]["labels"]["gitops/reconciler"]
    bench.cluster.objects[web.ref] = live
    await bench.work(state)
    assert bench.cluster.calls == [("get", "web"), ("apply", "web")]
    assert [d.kind for d in state.units[kit.key].drifts].count("relabelled") == 1


async def test_how_long_a_mode_holds_up_a_repair_is_no_time_of_repair(bench: Bench, kit: Any) -> None:
    state = drifted(bench, kit, Mode.REPORT)
    (record,) = state.objects.values()
    record.drifted_at = 1.0
    await bench.work(state)
    assert record.drifted_at is None


@pytest.mark.parametrize(("there", "kind"), [(False, "deleted"), (True, "relabelled")])
async def test_what_went_while_nobody_watched_is_told(bench: Bench, kit: Any, there: bool, kind: str) -> None:
    """After a start: the parent has it, and no list shows it."""
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    if there:
        bench.cluster.objects[web.ref] = kit.live(web)
        del bench.cluster.objects[web.ref]["metadata"]["labels"]["gitops/reconciler"]
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert [(d.kind, d.repaired) for d in state.units[kit.key].drifts] == [(kind, Repair.REPAIRED)]


async def test_a_refused_repair_is_told_as_failed_until_it_succeeds(bench: Bench, kit: Any) -> None:
    state = drifted(bench, kit)
    (live,) = bench.cluster.objects.values()
    sightings = Sightings(state, bench.context, look=lambda key, urgent: None, touched=lambda key: None)
    state.objects[kit.ref("web")].last_desired = state.unit(kit.key).objects[0].digest
    sightings.declared_event(Changed(live))
    bench.cluster.faults["apply", "web"] = kit.error(ErrorClass.REFUSED)
    await bench.work(state)
    assert [d.repaired for d in state.units[kit.key].drifts] == [Repair.FAILED]
    del bench.cluster.faults["apply", "web"]
    await bench.work(state)
    assert [d.repaired for d in state.units[kit.key].drifts] == [Repair.REPAIRED]


async def test_an_object_that_is_there_with_its_label_was_only_out_of_sight(bench: Bench, kit: Any) -> None:
    """The watch broke and was begun again: nothing happened to the object."""
    web, state = suspect(kit)
    bench.cluster.objects[web.ref] = kit.live(web)
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("get", "web")]
    assert (state.units[kit.key].drifts, outcome.state) == ([], SyncState.SYNCED)


async def test_an_object_that_cannot_be_read_is_not_decided_about(bench: Bench, kit: Any) -> None:
    _, state = suspect(kit)
    bench.cluster.faults["get", "web"] = kit.error(ErrorClass.UNREACHABLE)
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("get", "web")]
    assert "cannot be read" in outcome.sentence
    assert outcome.retry_after is not None


async def test_an_object_whose_kind_went_is_gone_and_holds_up_nothing(bench: Bench, kit: Any) -> None:
    """Somebody deleted the definition, which this very unit brings back."""
    definition, gadget = kit.desired("definition"), kit.desired("g", "Gadget", component=1)
    state = kit.state(kit.unit(definition, gadget), records=[kit.record(definition, gadget)])
    kit.settled(state, gadget).suspect = True
    bench.cluster.served = [definition.gvk]
    outcome = await bench.work(state)
    assert definition.ref in bench.cluster.objects
    assert (outcome.state, [p.object for p in outcome.problems]) == (SyncState.WAITING, [gadget.ref])


async def test_a_repair_of_an_object_that_was_replaced_meanwhile_is_looked_at_again(bench: Bench, kit: Any) -> None:
    state = drifted(bench, kit)
    (live,) = bench.cluster.objects.values()
    live["metadata"]["uid"] = "another"
    outcome = await bench.work(state)
    assert outcome.state is SyncState.RETRYING
    assert [r.suspect for r in state.objects.values()] == [True]


# -- races with the watch --------------------------------------------------------------------------------------------


async def test_an_attempt_cancelled_in_flight_leaves_nothing_marked_as_in_flight(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web, content="old")])

    def cancel(verb: str, name: str) -> None:
        if verb == "apply":
            raise asyncio.CancelledError

    bench.cluster.before = cancel
    with pytest.raises(asyncio.CancelledError):
        await bench.work(state)
    assert not state.objects[web.ref].in_flight


@pytest.mark.parametrize("reason", [Reason.CREATE, Reason.CHANGED, Reason.DRIFT])
async def test_3_what_admission_overrides_is_told_and_tried_ever_more_rarely_until_it_holds(
    bench: Bench, kit: Any, context: Context, clock: Any, reason: Reason
) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[] if reason is Reason.CREATE else [kit.record(web)])
    sightings = Sightings(state, context, look=lambda key, urgent: None, touched=lambda key: None)
    parts = {"applier": bench.cluster, "parents": bench.parents, "contents": bench.contents, "context": context}
    work = unit_work(state, sightings=sightings, **parts)
    if reason is not Reason.CREATE:
        bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
        kit.settled(state, web if reason is Reason.DRIFT else kit.desired("web", data={"level": "old"})).applied = b""
    bench.cluster.admit = lambda live: live.update(data={"level": "mutated"})
    told = 'data.level of ConfigMap shop/web: declared "info" (bundles/base/web.yaml:1), overridden by admission'
    outcome = await work.run(kit.key)
    assert (outcome.state, outcome.sentence, outcome.repaired) == (SyncState.SYNCED, told, 0)
    (drift,) = [d for d in state.units[kit.key].drifts if d.is_open]
    assert (drift.field, drift.live, drift.repaired) == (("data", "level"), "mutated", Repair.OVERRIDDEN)
    for pause in (60, 120, 240):
        bench.cluster.calls.clear()
        assert (await work.run(kit.key)).retry_after == pause
        assert bench.cluster.calls == [], "not sent again and again"
        clock.now += pause
        assert (await work.run(kit.key)).sentence == told
        assert bench.cluster.verbs("apply", "dry-run") == ["web"]
    bench.cluster.admit = lambda live: None
    clock.now += 480
    outcome = await work.run(kit.key)
    assert (outcome.sentence, outcome.repaired, outcome.retry_after) == ("as declared", 1, None)
    assert [d.repaired for d in state.units[kit.key].drifts if d.key == drift.key] == [Repair.REPAIRED]


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.PAUSED])
async def test_what_admission_overrides_is_not_tried_again_where_nothing_is_repaired(
    bench: Bench, kit: Any, context: Context, clock: Any, mode: Mode
) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    sightings = Sightings(state, context, look=lambda key, urgent: None, touched=lambda key: None)
    parts = {"applier": bench.cluster, "parents": bench.parents, "contents": bench.contents, "context": context}
    work = unit_work(state, sightings=sightings, **parts)
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    kit.settled(state, web).applied = b""
    bench.cluster.admit = lambda live: live.update(data={"level": "mutated"})
    await work.run(kit.key)
    state.assign(kit.assignment(kit.unit(web, mode=mode)))
    bench.cluster.calls.clear()
    clock.now += 3600
    assert "overridden by admission" in (await work.run(kit.key)).sentence
    assert bench.cluster.calls == []
