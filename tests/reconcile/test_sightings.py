"""From watch events to records and drift: what is noted, who is told, what is left to the unit's queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitops.cluster.parents import PAUSE_ANNOTATION, ParentStore, encode_record
from gitops.cluster.reflecting import Changed, Deleted, Vanished
from gitops.model.identity import UnitKey
from gitops.model.kinds import CONFIG_MAP
from gitops.plan.parents import parent_name
from gitops.plan.planning import Reason, plan_unit
from gitops.readiness.owners import ref_of
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.sightings import Sightings
from gitops.report.drift import DriftKind, Repair
from tests.reconcile.conftest import unit_work


class Watcher:
    """Sightings of one unit with one ConfigMap `web`, applied and settled."""

    def __init__(self, kit: Any, context: Context, cluster: Any) -> None:
        self.kit, self.cluster = kit, cluster
        self.web = kit.desired("web", data={"level": "info", "mode": "fast"})
        self.state = kit.state(kit.unit(self.web), records=[kit.record(self.web)])
        self.record = kit.settled(self.state, self.web)
        self.looks: list[tuple[UnitKey, bool]] = []
        self.touched: list[UnitKey] = []
        self.sightings = Sightings(
            self.state, context, look=lambda key, urgent: self.looks.append((key, urgent)), touched=self.touched.append
        )

    def see(self, *events: Any) -> None:
        for event in events:
            self.sightings.declared_event(event)

    @property
    def drifts(self) -> list[Any]:
        return self.state.units[self.kit.key].drifts

    async def apply(self, **options: Any) -> Any:
        """Our own apply, answered by the cluster and absorbed."""
        outcome = await self.cluster.apply(self.web, **options)
        self.record.in_flight = False
        self.sightings.absorb(self.web, self.record, outcome)
        return outcome


@pytest.fixture
def watcher(kit: Any, context: Context, cluster: Any) -> Watcher:
    return Watcher(kit, context, cluster)


# -- declared objects ------------------------------------------------------------------------------------------------


def test_drift_is_reported_at_once_and_its_repair_is_urgent(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="debug")))
    (drift,) = watcher.drifts
    assert (drift.path, drift.manager, drift.repaired) == ("data.level", "kubectl-edit", Repair.PENDING)
    assert watcher.looks == [(kit.key, True)]


def test_a_drift_that_is_still_there_is_told_once(watcher: Watcher, kit: Any) -> None:
    watcher.see(
        Changed(kit.edited(watcher.web, level="debug")),
        Changed(kit.edited(watcher.web, level="debug", mode="slow", version="12")),
    )
    assert [drift.path for drift in watcher.drifts] == ["data.level", "data.mode"]
    watcher.see(Changed(kit.edited(watcher.web, level="trace", mode="slow", version="13")))
    told = [(drift.path, drift.live, drift.count) for drift in watcher.drifts]
    assert told == [("data.mode", "slow", 1), ("data.level", "trace", 2)]


@pytest.mark.parametrize("before", [Repair.PENDING, Repair.REPORTED, Repair.CONTESTED, Repair.REPAIRED])
def test_what_somebody_else_put_right_is_told_as_such(watcher: Watcher, kit: Any, before: Repair) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="debug", mode="slow")))
    watcher.sightings.repaired(kit.key, watcher.web.ref, before)
    half = kit.edited(watcher.web, level="info", mode="slow", version="12")
    watcher.see(Changed(half))
    told = {d.path: d.repaired for d in watcher.drifts}
    if before is Repair.REPAIRED:
        assert told == {"data.level": before, "data.mode": Repair.PENDING}, "the second came again"
    else:
        assert told == {"data.level": Repair.REVERTED, "data.mode": before}


def test_another_object_in_its_place_is_told_as_such_and_is_met(watcher: Watcher, kit: Any) -> None:
    """The parent says which one we made; a restored backup carries our marks too."""
    watcher.see(Deleted(kit.live(watcher.web)))
    watcher.see(Changed(kit.live(watcher.web, uid="another", version="20", data={"level": "old"}, owned=False)))
    assert [(d.kind, d.path) for d in watcher.drifts] == [(DriftKind.RECREATED, "")]
    (step,) = plan_unit(
        watcher.state.unit(kit.key),
        record=watcher.state.parents[kit.key],
        observed=watcher.state.observed([watcher.web]),
    ).applies
    assert (step.reason, step.preflight) == (Reason.DRIFT, True), (
        "looked at before it is written, and never in mode report"
    )


def test_an_event_that_moved_nothing_of_ours_asks_for_no_look(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(kit.live(watcher.web, version="11", status={"x": 1})))
    assert (watcher.looks, watcher.drifts) == ([], [])


def test_objects_that_nobody_declares_are_none_of_ours(watcher: Watcher, kit: Any) -> None:
    other = kit.desired("other")
    watcher.see(Changed(kit.live(other)), Deleted(kit.live(other)), Vanished(other.ref, "x"))
    assert (watcher.looks, watcher.touched) == ([], [])


def test_what_the_watch_of_another_version_shows_is_not_held_against_what_is_declared(
    watcher: Watcher, kit: Any
) -> None:
    """Other objects of the kind are declared at that version; converted to it, this one has other fields."""
    converted = kit.edited(watcher.web, level="debug")
    converted["apiVersion"] = "v0"
    watcher.see(Changed(converted))
    assert (watcher.looks, watcher.drifts) == ([], [])


def test_lost_ownership_is_repaired_but_no_drift_that_people_see(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="info")))
    assert (watcher.looks, watcher.drifts) == ([(kit.key, True)], [])


def test_an_object_being_deleted_is_not_repaired(watcher: Watcher, kit: Any) -> None:
    going = kit.edited(watcher.web, level="debug")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    watcher.see(Changed(going))
    assert watcher.looks == []


@pytest.mark.parametrize("gone", ["deleted", "vanished"])
def test_what_left_the_watch_is_to_be_read_before_anything_is_done(watcher: Watcher, kit: Any, gone: str) -> None:
    event = Deleted(kit.live(watcher.web)) if gone == "deleted" else Vanished(watcher.web.ref, watcher.record.uid)
    watcher.see(event)
    assert watcher.record.suspect
    assert (watcher.looks, watcher.drifts) == ([(kit.key, True)], [])


def test_the_end_of_an_earlier_object_of_that_name_says_nothing_of_this_one(watcher: Watcher) -> None:
    watcher.see(Vanished(watcher.web.ref, "an-earlier-uid"))
    assert (watcher.record.suspect, watcher.looks) == (False, [])


def test_what_is_back_in_the_watch_is_no_suspect(watcher: Watcher, kit: Any) -> None:
    watcher.see(Deleted(kit.live(watcher.web)), Changed(kit.live(watcher.web, uid="uid-2", version="12")))
    assert not watcher.record.suspect
    assert watcher.record.applied == watcher.web.digest


@pytest.mark.parametrize(
    ("state", "looked"), [(SyncState.PAUSED, True), (SyncState.CONTESTED, True), (SyncState.SYNCED, False)]
)
def test_what_others_put_right_ends_the_units_trouble(
    watcher: Watcher, kit: Any, state: SyncState, looked: bool
) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="debug")))
    watcher.looks.clear()
    watcher.state.units[kit.key].outcome = UnitOutcome(state, "")
    watcher.see(Changed(kit.live(watcher.web, version="12")))
    assert watcher.looks == ([(kit.key, False)] if looked else [])


def test_the_same_drift_again_is_counted_on_its_record(watcher: Watcher, kit: Any, clock: Any) -> None:
    first = clock.now
    for number in range(30):
        kit.settled(watcher.state, watcher.web)
        watcher.see(Changed(kit.edited(watcher.web, level=str(number), version=str(20 + number))))
        watcher.sightings.repaired(kit.key, watcher.web.ref, Repair.REPAIRED)
        clock.now += 60
    (drift,) = watcher.drifts
    assert (drift.count, drift.live, drift.repaired) == (30, "29", Repair.REPAIRED)
    assert (drift.since.timestamp(), drift.detected_at.timestamp()) == (first, first + 29 * 60)


def test_drift_that_may_not_be_repaired_stays_the_same_one_until_it_ends(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="debug")))
    watcher.sightings.repaired(kit.key, watcher.web.ref, Repair.REPORTED)
    watcher.record.resource_version = watcher.record.uid = ""  # as after a new list
    watcher.record.last_desired = watcher.web.digest
    watcher.see(Changed(kit.edited(watcher.web, level="debug", version="12")))
    assert [(d.count, d.repaired) for d in watcher.drifts] == [(1, Repair.REPORTED)]
    watcher.see(Changed(kit.live(watcher.web, version="13")))
    assert [(d.count, d.repaired) for d in watcher.drifts] == [(1, Repair.REVERTED)]


def test_another_object_under_its_name_is_told_once_and_by_whom(watcher: Watcher, kit: Any) -> None:
    made = kit.entry(watcher.web.body, "kubectl-create")
    watcher.see(Changed(kit.live(watcher.web, made, uid="uid-2", owned=False, data={"level": "x"})))
    (drift,) = watcher.drifts
    assert (drift.kind, drift.path, drift.by) == (DriftKind.RECREATED, "", "kubectl-create (Update)")
    assert (kit.key, False) in watcher.looks, "it is met, not repaired"


async def test_what_came_while_a_repair_was_under_way_is_not_taken_for_repaired(
    watcher: Watcher, kit: Any, parents: Any, contents: Any, context: Context
) -> None:
    """A fight: our write is undone before its answer is read."""
    cluster, web = watcher.cluster, watcher.web
    cluster.objects[web.ref] = kit.edited(web, level="debug")
    watcher.see(Changed(cluster.objects[web.ref]))

    def undo(verb: str, name: str) -> None:
        if verb == "apply":
            watcher.see(Changed(kit.edited(web, by="operator", level="trace", version="5000")))

    cluster.before = undo
    work = unit_work(
        watcher.state,
        applier=cluster,
        parents=parents,
        contents=contents,
        context=context,
        sightings=watcher.sightings,
    )
    await work.run(kit.key)
    told = [(d.manager, d.repaired) for d in watcher.drifts]
    assert told == [("kubectl-edit", Repair.REPAIRED), ("operator", Repair.PENDING)]


# -- while our own write is under way --------------------------------------------------------------------------------


async def test_fact_39_events_wait_for_the_answer_to_our_write(watcher: Watcher, kit: Any) -> None:
    watcher.record.in_flight = True
    watcher.see(Changed(kit.edited(watcher.web, level="debug")))
    assert (watcher.looks, watcher.drifts) == ([], [])
    await watcher.apply()
    assert watcher.drifts == [], "it was before our write: the answer says what came of it"
    assert watcher.record.applied == watcher.web.digest


async def test_an_edit_after_our_write_that_comes_before_its_answer_is_drift(watcher: Watcher, kit: Any) -> None:
    watcher.record.in_flight = True
    watcher.see(Changed(kit.edited(watcher.web, level="debug", version="5000")))
    await watcher.apply()
    assert [d.path for d in watcher.drifts] == ["data.level"]
    assert watcher.looks == [(kit.key, True)]


async def test_a_deletion_while_our_write_is_under_way_is_not_forgotten(watcher: Watcher, kit: Any) -> None:
    watcher.record.in_flight = True
    watcher.see(Deleted(kit.live(watcher.web)))
    await watcher.apply()
    assert watcher.record.suspect


async def test_an_object_that_left_and_came_back_meanwhile_is_no_suspect(watcher: Watcher, kit: Any) -> None:
    watcher.record.in_flight = True
    watcher.see(Deleted(kit.live(watcher.web)), Changed(kit.live(watcher.web, uid="uid-2", version="5000")))
    await watcher.apply()
    assert (watcher.record.suspect, watcher.record.uid) == (False, "uid-2")


async def test_an_old_sight_of_an_object_that_left_since_is_not_taken_in(watcher: Watcher, kit: Any) -> None:
    watcher.record.in_flight = True
    watcher.see(Changed(kit.edited(watcher.web, level="debug", version="5000")), Deleted(kit.live(watcher.web)))
    await watcher.apply()
    assert (watcher.drifts, watcher.record.suspect) == ([], True)


def test_what_became_of_a_drift_is_noted_on_the_pending_ones(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(kit.edited(watcher.web, level="debug")))
    watcher.sightings.repaired(kit.key, watcher.web.ref, Repair.REPAIRED)
    watcher.sightings.repaired(kit.key, watcher.web.ref, Repair.CONTESTED)
    assert [d.repaired for d in watcher.drifts] == [Repair.REPAIRED]


# -- parents ---------------------------------------------------------------------------------------------------------


def parent(kit: Any, pause: str) -> dict[str, Any]:
    """The stored parent of the unit with a pause that somebody wrote on it."""
    store = ParentStore(None, reconciler=kit.reconciler, cluster=kit.cluster_name, manager=kit.manager)  # type: ignore[arg-type]
    record = kit.record(kit.desired("web"))
    body = store._body(record, parent_name(kit.key), encode_record(record))
    body["metadata"] |= {"uid": "p", "resourceVersion": "101"}
    body["metadata"]["annotations"][PAUSE_ANNOTATION] = pause
    return body


def test_a_pause_that_is_written_on_the_parent_is_seen_once(watcher: Watcher, kit: Any) -> None:
    event = Changed(parent(kit, "2999-01-01T00:00:00Z"))
    watcher.see(event, event)
    assert watcher.state.pauses == {kit.key: "2999-01-01T00:00:00Z"}
    assert watcher.looks == [(kit.key, False)]


def test_a_parent_without_pause_says_nothing(watcher: Watcher, kit: Any) -> None:
    watcher.see(Changed(parent(kit, "")))
    assert (watcher.state.pauses, watcher.looks) == ({}, [])


# -- secondary objects -----------------------------------------------------------------------------------------------


def child(uid: str, owner: str, name: str = "pod") -> dict[str, Any]:
    owners = [{"uid": owner, "kind": "X", "name": "x", "controller": True}]
    metadata = {"name": name, "namespace": "shop", "uid": uid, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def test_a_secondary_object_touches_the_unit_it_hangs_below_however_deep(watcher: Watcher, kit: Any) -> None:
    watcher.state.by_uid[watcher.record.uid] = kit.key
    watcher.sightings.child_event(Changed(child("rs", watcher.record.uid)))
    watcher.touched.clear()
    watcher.sightings.child_event(Changed(child("pod", "rs")))
    assert watcher.touched == [kit.key]
    watcher.touched.clear()
    watcher.sightings.child_event(Deleted(child("pod", "rs")))
    assert watcher.touched == [kit.key]
    assert len(watcher.sightings.owners) == 1


def test_a_declared_object_is_no_secondary_one(watcher: Watcher, kit: Any) -> None:
    watcher.state.by_uid[watcher.record.uid] = kit.key
    watcher.sightings.child_event(Changed(child(watcher.record.uid, "someone")))
    assert len(watcher.sightings.owners) == 0


# -- what is easily lost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "vanished"])
def test_r13_a_parent_that_somebody_deleted_is_to_be_stored_again(watcher: Watcher, kit: Any, how: str) -> None:
    """All that is known of the unit is in memory now; a crash would leave objects that nobody knows."""
    metadata = {"namespace": "gitops-system", "name": parent_name(kit.key), "uid": "p"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    watcher.see(Deleted(body) if how == "deleted" else Vanished(ref_of(body), "p"))
    assert watcher.state.parents[kit.key].resource_version == ""
    assert watcher.looks == [(kit.key, False)]


@pytest.mark.parametrize(("listed", "there", "missed"), [("20", False, True), ("20", True, False), ("3", False, False)])
@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "never seen"])
def test_r13_a_parent_that_is_not_in_a_list_newer_than_it_is_to_be_stored_again(
    watcher: Watcher, kit: Any, listed: str, there: bool, missed: bool, seen: bool
) -> None:
    """One watch of ConfigMaps replaces another when the first is declared: nobody tells what went in between."""
    stored = watcher.state.parents[kit.key] = replace(watcher.state.parents[kit.key], resource_version="7")
    live = parent(kit, "")
    if seen or there:
        watcher.see(Changed(live))

    def holds(ref: Any, uid: str) -> bool:
        return ref != ref_of(live) or (there and uid == live["metadata"].get("uid", ""))

    watcher.sightings.listed(CONFIG_MAP, listed, holds)
    again = replace(stored, resource_version="")
    assert watcher.state.parents[kit.key] == (again if missed else stored)
    assert watcher.looks == ([(kit.key, False)] if missed else [])


async def test_an_object_that_git_dropped_while_it_was_applied_leaves_no_record(watcher: Watcher, kit: Any) -> None:
    """Its uid among the live ones would make its own prune believe that it goes on under another name."""
    watcher.record.in_flight = True
    watcher.state.assign(kit.assignment(commit="c2"))
    watcher.state.record(watcher.web)
    watcher.record = watcher.state.objects[watcher.web.ref]
    await watcher.apply()
    assert watcher.state.objects == {}


async def test_an_apply_of_an_earlier_head_that_comes_late_makes_the_unit_look_again(
    watcher: Watcher, kit: Any
) -> None:
    """It may have come after the apply of this head, of another unit even: then it undid that one."""
    changed = kit.desired("web", level="debug")
    watcher.state.assign(kit.assignment(kit.unit(changed, key=kit.other_key()), commit="c2"))
    await watcher.apply()
    assert watcher.looks == [(kit.other_key(), False)]


@pytest.mark.parametrize(
    ("version", "held", "suspect"),
    [("11", False, True), ("9", False, False), ("11", True, False), ("", False, False)],
    ids=["not in a newer list", "in no older one", "in the list", "no numbers"],
)
def test_what_went_before_the_watch_had_ever_seen_it_is_missed_in_the_list(
    watcher: Watcher, kit: Any, version: str, held: bool, suspect: bool
) -> None:
    """It was created by our apply, and gone with its definition before the kind was first listed."""
    watcher.record.resource_version = "10"
    watcher.sightings.listed(watcher.web.gvk, version, lambda ref, uid: held)
    assert watcher.record.suspect is suspect
    assert watcher.looks == ([(kit.key, True)] if suspect else [])


async def test_an_answer_that_comes_after_a_list_without_its_object_is_suspect(watcher: Watcher) -> None:
    watcher.record.in_flight = True
    watcher.sightings.listed(watcher.web.gvk, "999999", lambda ref, uid: False)
    assert not watcher.record.suspect
    await watcher.apply()
    assert watcher.record.suspect
