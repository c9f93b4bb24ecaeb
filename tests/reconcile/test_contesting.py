"""Fights over single paths, event by event and attempt by attempt, on a cluster in memory."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from gitops.cluster.parents import encode_record
from gitops.cluster.reflecting import Changed, Deleted
from gitops.plan.units import RECONCILER_LABEL, Mode
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from gitops.report.drift import DriftKind, Repair
from tests.reconcile.conftest import unit_work
from tests.reconcile.unit_bench import Bench

LEVEL, MODE = ("data", "level"), ("data", "mode")


class Duel:
    """One daemon and the other writers of the ConfigMap `web`, which declares level and mode."""

    def __init__(self, bench: Bench, kit: Any, clock: Any) -> None:
        self.bench, self.kit, self.clock = bench, kit, clock
        self.web = kit.desired("web", data={"level": "info", "mode": "fast"})
        self.state: ClusterState = kit.state(kit.unit(self.web), records=[kit.record(self.web)])
        self.looks: list[Any] = []
        self.outcome = UnitOutcome(SyncState.PENDING, "")
        self.begin()
        bench.cluster.objects[self.web.ref] = kit.live(self.web)
        self.sightings.declared_event(Changed(kit.live(self.web)))

    def begin(self) -> None:
        """A session: what was live is not known."""
        self.sightings = Sightings(
            self.state, self.bench.context, look=lambda key, urgent: self.looks.append(key), touched=lambda key: None
        )
        self.work = unit_work(
            self.state,
            applier=self.bench.cluster,
            parents=self.bench.parents,
            contents=self.bench.contents,
            context=self.bench.context,
            sightings=self.sightings,
        )

    @property
    def live(self) -> dict[str, Any]:
        found: dict[str, Any] = self.bench.cluster.objects[self.web.ref]
        return found

    @property
    def writes(self) -> list[str]:
        return self.bench.cluster.verbs("apply", "patch")

    def sent(self) -> dict[str, Any]:
        """The data of what is wanted now."""
        found = self.state.declared(self.web.ref)
        assert found is not None
        data: dict[str, Any] = found[1].body["data"]
        return data

    def edit(self, by: str = "hpa", **data: str | None) -> None:
        """Another writer changes (None: removes) keys: the values are theirs, as on a real server."""
        live = copy.deepcopy(self.live)
        entries = {e["manager"]: e for e in live["metadata"]["managedFields"]}
        theirs = entries.setdefault(
            by, self.kit.entry({"apiVersion": "v1", "kind": "ConfigMap", "data": {"-": ""}}, by)
        )
        fields = theirs["fieldsV1"].setdefault("f:data", {})
        fields.pop("f:-", None)
        for name, value in data.items():
            for entry in entries.values():
                entry["fieldsV1"].get("f:data", {}).pop(f"f:{name}", None)
            if value is None:
                live["data"].pop(name, None)
            else:
                live["data"][name] = value
                fields[f"f:{name}"] = {}
        live["metadata"]["managedFields"] = [e for e in entries.values() if e["fieldsV1"].get("f:data")]
        self.bench.cluster._version += 1
        live["metadata"]["resourceVersion"] = str(self.bench.cluster._version)
        self.bench.cluster.objects[self.web.ref] = live
        self.sightings.declared_event(Changed(copy.deepcopy(live)))

    async def attempt(self) -> UnitOutcome:
        self.outcome = await self.work.run(self.kit.key)
        self.state.units[self.kit.key].outcome = self.outcome
        return self.outcome

    async def round(self, by: str = "hpa", **data: str | None) -> UnitOutcome:
        self.edit(by, **data)
        return await self.attempt()

    async def fight(self, by: str = "hpa", **data: str | None) -> UnitOutcome:
        """Until we give it up."""
        for _ in range(8):
            if (await self.round(by, **data)).state is SyncState.CONTESTED:
                return self.outcome
        raise AssertionError(f"not given up: {self.outcome}")

    def drifts(self, *path: str) -> list[Repair]:
        return [d.repaired for d in self.state.units[self.kit.key].drifts if d.field == path]


@pytest.fixture
def duel(bench: Bench, kit: Any, clock: Any) -> Duel:
    return Duel(bench, kit, clock)


# -- one path --------------------------------------------------------------------------------------------------------


async def test_d06_a_contested_path_is_left_out_and_both_sides_are_named(duel: Duel, context: Context) -> None:
    outcome = await duel.fight(level="debug")
    assert len(duel.writes) == context.options.fights.limit
    assert duel.sent() == {"mode": "fast"}
    assert outcome.sentence == (
        'ConfigMap shop/web: data.level: ours "info" (bundles/base/web.yaml:1), hpa (Update) writes "debug"; '
        "contested until 2027-01-15T08:01:00Z"
    )
    assert outcome.retry_after == context.options.fights.half_life
    assert duel.drifts(*LEVEL)[-1] is Repair.CONTESTED


async def test_the_rest_of_the_object_stays_enforced_and_its_repair_leaves_the_contested_path_alone(duel: Duel) -> None:
    await duel.fight(level="debug")
    before = len(duel.writes)
    outcome = await duel.round("kubectl-edit", mode="slow")
    assert (len(duel.writes) - before, outcome.state) == (1, SyncState.CONTESTED)
    assert duel.sent() == {"mode": "fast"}
    assert (duel.drifts(*MODE), duel.drifts(*LEVEL)[-1]) == ([Repair.REPAIRED], Repair.CONTESTED)


async def test_two_paths_of_two_writers_are_two_fights(duel: Duel, clock: Any) -> None:
    await duel.fight("hpa", level="debug")
    clock.now += 30
    outcome = UnitOutcome(SyncState.PENDING, "")
    while len(outcome.problems) < 2:
        outcome = await duel.round("vpa", mode="slow")
    assert sorted(p.message.rpartition(" ")[2] for p in outcome.problems) == [
        "2027-01-15T08:01:00Z",
        "2027-01-15T08:01:30Z",
    ]
    assert [("hpa" in p.message, "vpa" in p.message) for p in outcome.problems].count((True, False)) == 1
    assert outcome.retry_after == 30


async def test_d06_after_the_pause_one_try_then_a_pause_twice_as_long(duel: Duel, clock: Any) -> None:
    await duel.fight(level="debug")
    for pause in (60, 120, 240):
        assert duel.outcome.retry_after == pause
        before = len(duel.writes)
        clock.now += pause
        await duel.attempt()
        assert (len(duel.writes) - before, duel.live["data"]["level"]) == (1, "info")
        await duel.round(level="debug")
        assert len(duel.writes) - before == 1, "the one try"


async def test_a_try_is_one_read_and_one_apply(duel: Duel, clock: Any) -> None:
    await duel.fight(level="debug")
    duel.bench.cluster.calls.clear()
    clock.now += 60
    await duel.attempt()
    assert [verb for verb, _ in duel.bench.cluster.calls if verb != "parent"] == ["get", "apply"]


async def test_the_other_side_writes_something_else_meanwhile(duel: Duel) -> None:
    await duel.fight(level="debug")
    before = len(duel.writes)
    duel.looks.clear()
    outcome = await duel.round(level="trace")
    assert 'writes "trace"' in outcome.sentence
    assert (len(duel.writes), duel.looks) == (before, [duel.kit.key])
    assert duel.drifts(*LEVEL)[-1] is Repair.CONTESTED
    assert duel.state.units[duel.kit.key].drifts[-1].live == "trace"


async def test_the_other_side_gives_in(duel: Duel, clock: Any) -> None:
    """The value is right, so nothing is told; after the pause it is ours again, and nothing more happens."""
    await duel.fight(level="debug")
    before = len(duel.writes)
    outcome = await duel.round(level="info")
    assert (outcome.state, len(duel.writes)) == (SyncState.SYNCED, before)
    assert outcome.retry_after == 60
    clock.now += 60
    outcome = await duel.attempt()
    assert (outcome.state, len(duel.writes), outcome.retry_after) == (SyncState.SYNCED, before + 1, None)
    assert duel.sent() == {"level": "info", "mode": "fast"}


async def test_the_other_side_removes_the_field(duel: Duel) -> None:
    outcome = await duel.fight(level=None)
    assert 'ours "info" (bundles/base/web.yaml:1), unknown removes it' in outcome.sentence


async def test_a_fight_over_ownership_alone_ends_too_and_nothing_is_told(duel: Duel, context: Context) -> None:
    """The value is right each time, only its owner changes (ssa-live 6)."""
    for _ in range(20):
        assert (await duel.round(level="info")).state is SyncState.SYNCED
    assert len(duel.writes) == context.options.fights.limit
    assert duel.state.units[duel.kit.key].drifts == []


# -- Git -------------------------------------------------------------------------------------------------------------


def commit(duel: Duel, **data: str) -> None:
    """Git declares this."""
    duel.web = duel.kit.desired("web", data=data)
    duel.state.assign(duel.kit.assignment(duel.kit.unit(duel.web, content="content-2"), commit="c2"))


async def test_a_commit_of_another_field_leaves_the_contested_path_alone(duel: Duel) -> None:
    await duel.fight(level="debug")
    commit(duel, level="info", mode="faster")
    outcome = await duel.attempt()
    assert duel.live["data"] == {"mode": "faster"}, "as sent: the other's key is not in an apply of ours"
    assert outcome.state is SyncState.CONTESTED
    assert duel.state.parents[duel.kit.key].content_key == "content-2", "all of the commit is applied"


async def test_a_commit_of_that_very_path_tries_again_at_once(duel: Duel) -> None:
    await duel.fight(level="debug")
    commit(duel, level="warning", mode="fast")
    outcome = await duel.attempt()
    assert (outcome.state, duel.live["data"]["level"]) == (SyncState.SYNCED, "warning")
    assert duel.state.parents[duel.kit.key].contested == ()


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.PAUSED])
async def test_a_mode_that_repairs_nothing_fights_nothing(duel: Duel, mode: Mode) -> None:
    duel.state.assign(duel.kit.assignment(duel.kit.unit(duel.web, mode=mode)))
    for _ in range(20):
        outcome = await duel.round(level="debug")
    assert (outcome.state, duel.writes, len(duel.state.fights)) == (SyncState.PAUSED, [], 0)


# -- what cannot be left out -----------------------------------------------------------------------------------------


async def test_a_label_of_ours_is_not_left_out_and_not_fought_for(duel: Duel, clock: Any) -> None:
    def strip() -> None:
        live = copy.deepcopy(duel.live)
        if live["metadata"]["labels"].pop(RECONCILER_LABEL, None) is None:
            return
        ours = live["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"]
        ours.pop(f"f:{RECONCILER_LABEL}")
        duel.bench.cluster._version += 1
        live["metadata"]["resourceVersion"] = str(duel.bench.cluster._version)
        duel.bench.cluster.objects[duel.web.ref] = live
        duel.sightings.declared_event(Deleted(copy.deepcopy(live)))

    for _ in range(20):
        strip()
        outcome = await duel.attempt()
    assert len(duel.bench.cluster.verbs("apply")) == 5
    assert (outcome.state, outcome.retry_after) == (SyncState.CONTESTED, 60)
    assert RECONCILER_LABEL in duel.state.unit(duel.kit.key).objects[0].body["metadata"]["labels"]  # type: ignore[union-attr]
    clock.now += 60
    await duel.attempt()
    assert duel.live["metadata"]["labels"][RECONCILER_LABEL]


async def test_d06_an_object_that_somebody_deletes_again_and_again_is_left_deleted_for_a_while(
    duel: Duel, clock: Any
) -> None:
    async def delete() -> UnitOutcome:
        if (live := duel.bench.cluster.objects.pop(duel.web.ref, None)) is not None:
            duel.sightings.declared_event(Deleted(live))
        outcome = await duel.attempt()
        if (live := duel.bench.cluster.objects.get(duel.web.ref)) is not None:
            duel.sightings.declared_event(Changed(copy.deepcopy(live)))
        return outcome

    for _ in range(20):
        outcome = await delete()
    assert len(duel.bench.cluster.verbs("apply")) == 5
    assert outcome.state is SyncState.CONTESTED
    assert outcome.sentence == (
        "ConfigMap shop/web: somebody deletes it again and again (declared at bundles/base/web.yaml:1); "
        "contested until 2027-01-15T08:01:00Z"
    )
    last = duel.state.units[duel.kit.key].drifts[-1]
    assert (last.kind, last.repaired) == (DriftKind.DELETED, Repair.CONTESTED)
    duel.bench.cluster.calls.clear()
    clock.now += 60
    outcome = await duel.attempt()
    assert (duel.bench.cluster.verbs("apply"), outcome.state) == (["web"], SyncState.SYNCED)
    assert (await delete()).retry_after == 120


# -- a restart -------------------------------------------------------------------------------------------------------


async def test_d06_a_daemon_that_crashes_in_a_loop_does_not_begin_the_fight_anew(duel: Duel, kit: Any) -> None:
    await duel.fight(level="debug")
    stored = duel.bench.parents.stored[kit.key]
    assert b'"contested"' in encode_record(stored)
    writes = len(duel.writes)
    for _ in range(3):
        duel.state = kit.state(kit.unit(duel.web), records=[stored])
        duel.begin()
        duel.sightings.owning.contesting.restore()
        duel.sightings.declared_event(Changed(copy.deepcopy(duel.live)))
        outcome = await duel.attempt()
        assert (outcome.state, len(duel.writes)) == (SyncState.CONTESTED, writes)
        assert 'hpa (Update) writes "debug"' in outcome.sentence
        stored = dataclasses.replace(duel.state.parents[kit.key])


async def test_the_parent_is_written_when_a_path_is_given_up_and_not_with_each_repair(duel: Duel) -> None:
    parents: Callable[[], int] = lambda: len(duel.bench.cluster.verbs("parent"))  # noqa: E731
    for _ in range(5):
        await duel.round(level="debug")
    assert parents() == 0
    for value in ("debug", "trace", "debug"):
        await duel.round(level=value)
    assert parents() == 1
