"""What is done for one unit, call by call, on a cluster in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.watch_events import Deleted
from gitops.plan.naming import PREFLIGHT_NAMESPACE
from gitops.plan.units import Mode, Stage
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from gitops.reconcile.unit_work import UnitWork
from gitops.report.drift import Repair
from tests.reconcile.conftest import unit_work


class Bench:
    """A unit's work over the fakes. `work(state)` makes one attempt at the unit."""

    def __init__(self, kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> None:
        self.kit, self.cluster, self.parents, self.contents, self.context = kit, cluster, parents, contents, context
        self.lease = True

    def may_write(self) -> bool:
        return self.lease

    def lose_lease_at(self, verb: str, name: str) -> None:
        """The Lease is lost while this call is under way."""

        def before(called: str, what: str) -> None:
            if (called, what) == (verb, name):
                self.lease = False

        self.cluster.before = before

    def unit_work(self, state: ClusterState) -> UnitWork:
        return unit_work(
            state,
            applier=self.cluster,
            parents=self.parents,
            contents=self.contents,
            context=self.context,
            may_write=self.may_write,
        )

    async def work(self, state: ClusterState, key: Any = None) -> UnitOutcome:
        key = key or self.kit.key
        outcome = await self.unit_work(state).run(key)
        if key in state.units:
            state.units[key].outcome = outcome
            state.units[key].attempts = 0 if outcome.retry_after is None else state.units[key].attempts + 1
        return outcome

    def stored(self, record: Any) -> Any:
        """As if this parent had been stored before."""
        self.parents.stored[record.unit] = record
        return record


@pytest.fixture
def bench(kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> Bench:
    return Bench(kit, cluster, parents, contents, context)


# -- order of calls --------------------------------------------------------------------------------------------------


async def test_the_parent_names_everything_before_the_first_apply_and_is_settled_after_the_last(
    bench: Bench, kit: Any
) -> None:
    unit = kit.unit(kit.desired("web"), kit.desired("app", stage=Stage.WORKLOAD))
    outcome = await bench.work(kit.state(unit))
    verbs = [verb for verb, _ in bench.cluster.calls]
    assert verbs == ["parent", "dry-run", "dry-run", "apply", "apply", "parent"]
    assert bench.cluster.verbs("apply") == ["web", "app"]
    before, after = bench.parents.writes
    assert {(m.ref.name, m.uid) for m in before.members} == {("web", ""), ("app", "")}
    assert {(m.ref.name, m.uid) for m in after.members} == {("web", "uid-web"), ("app", "uid-app")}
    assert (before.content_key, after.content_key) == ("", "content-1")
    assert (outcome.state, outcome.applied, outcome.retry_after) == (SyncState.SYNCED, 2, None)


async def test_a_unit_as_declared_costs_no_call_at_all(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    kit.settled(state, web)
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert bench.cluster.calls == []


async def test_a_repair_is_one_apply_with_its_uid_and_nothing_else(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    kit.settled(state, web).applied = b""
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("apply", "web")]
    assert (outcome.repaired, outcome.state) == (1, SyncState.SYNCED)


async def test_a_change_in_git_writes_no_parent_before_when_it_brings_no_new_object(bench: Bench, kit: Any) -> None:
    old, new = kit.desired("web"), kit.desired("web", data={"level": "debug"})
    state = kit.state(kit.unit(new, content="content-2", commit="c2"), records=[kit.record(old)])
    kit.settled(state, old)
    bench.cluster.objects[old.ref] = kit.live(old)
    await bench.work(state)
    assert bench.cluster.calls == [("dry-run", "web"), ("apply", "web"), ("parent", "base")]
    assert (bench.parents.writes[0].content_key, bench.parents.writes[0].commit) == ("content-2", "c2")


async def test_a_dependant_waits_until_what_it_depends_on_is_applied(bench: Bench, kit: Any) -> None:
    first = kit.desired("zz")
    second = kit.desired("aa", depends_on=(first.ref,))
    await bench.work(kit.state(kit.unit(first, second)))
    assert bench.cluster.verbs("apply") == ["zz", "aa"]


# -- preflight -------------------------------------------------------------------------------------------------------


async def test_a_refused_preflight_stops_its_component_only_and_every_refusal_is_told(bench: Bench, kit: Any) -> None:
    objects = [kit.desired(n, component=c) for n, c in (("a", 0), ("b", 0), ("c", 1), ("d", 2))]
    bench.cluster.faults |= {
        ("dry-run", "a"): kit.error(ErrorClass.REFUSED, "a is bad"),
        ("dry-run", "c"): kit.error(ErrorClass.DENIED, "c is denied"),
    }
    outcome = await bench.work(kit.state(kit.unit(*objects)))
    assert bench.cluster.verbs("apply") == ["d"]
    assert {p.object.name: p.state for p in outcome.problems} == {"a": SyncState.REFUSED, "c": SyncState.REFUSED}
    assert outcome.state is SyncState.REFUSED
    assert "a is bad" in outcome.sentence
    assert outcome.sentence.endswith("(and 1 more)")
    assert outcome.retry_after is not None


@pytest.mark.parametrize(
    "error", [{"cls": ErrorClass.WAITING}, {"cls": ErrorClass.REFUSED, "reason": "DryRunUnsupported"}]
)
async def test_what_a_dry_run_cannot_know_is_left_to_the_apply(bench: Bench, kit: Any, error: dict[str, Any]) -> None:
    bench.cluster.faults["dry-run", "web"] = kit.error(**error)
    assert (await bench.work(kit.state(kit.unit(kit.desired("web"))))).state is SyncState.SYNCED
    assert bench.cluster.verbs("apply") == ["web"]


async def test_objects_of_a_namespace_that_is_yet_to_be_made_are_checked_in_the_standing_one(
    bench: Bench, kit: Any
) -> None:
    unit = kit.unit(kit.desired("shop", "Namespace"), kit.desired("web"), kit.desired("x", namespace="there"))
    await bench.work(kit.state(unit))
    assert bench.cluster.places == {"shop": None, "web": PREFLIGHT_NAMESPACE, "x": None}


async def test_they_are_still_checked_there_after_the_namespace_could_not_be_made(bench: Bench, kit: Any) -> None:
    state = kit.state(kit.unit(kit.desired("shop", "Namespace"), kit.desired("web")))
    bench.cluster.faults["apply", "shop"] = kit.error(ErrorClass.RETRY)
    assert (await bench.work(state)).state is SyncState.RETRYING
    bench.cluster.places.clear()
    del bench.cluster.faults["apply", "shop"]
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert bench.cluster.places["web"] == PREFLIGHT_NAMESPACE


async def test_a_namespace_that_existed_unseen_is_looked_into_before_anything_is_put_there(
    bench: Bench, kit: Any
) -> None:
    space = kit.desired("shop", "Namespace")
    bench.cluster.objects[space.ref] = kit.live(space, owned=False)
    state = kit.state(kit.unit(space, kit.desired("web")))
    outcome = await bench.work(state)
    assert bench.cluster.verbs("apply") == ["shop"]
    assert (outcome.state, outcome.retry_after) == (SyncState.PENDING, 0), "not as declared yet"
    await bench.work(state)
    assert bench.cluster.verbs("apply") == ["shop", "web"]
    assert bench.cluster.places["web"] is None, "checked where it goes"


# -- objects that exist ----------------------------------------------------------------------------------------------


def foreign(kit: Any, desired: Any, *, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    live = kit.live(desired, kit.entry(desired.body, "kubectl-client-side-apply"), owned=False)
    live["metadata"] |= {"labels": labels or {}, "annotations": annotations}
    return live


async def test_an_object_made_by_kubectl_is_taken_over_before_the_first_apply(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = foreign(kit, web)
    assert (await bench.work(kit.state(kit.unit(web)))).state is SyncState.SYNCED
    assert [verb for verb, _ in bench.cluster.calls] == ["parent", "dry-run", "get", "adopt", "apply", "parent"]


async def test_an_object_of_helm_is_refused_and_left_alone(bench: Bench, kit: Any) -> None:
    web, other = kit.desired("web"), kit.desired("other", component=1)
    helm = {"meta.helm.sh/release-name": "shop"}
    bench.cluster.objects[web.ref] = foreign(kit, web, labels={"app.kubernetes.io/managed-by": "Helm"}, **helm)
    outcome = await bench.work(kit.state(kit.unit(web, other)))
    told = "ConfigMap shop/web: it exists and the Helm release shop declares it; `adoptFrom: [helm]` would take it over"
    assert outcome.sentence == told
    assert bench.cluster.verbs("adopt", "apply") == ["other"]


async def test_old_fields_that_are_invalid_beside_ours_are_folded_before_the_dry_run_is_repeated(
    bench: Bench, kit: Any
) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = foreign(kit, web)
    bench.cluster.faults["dry-run", "web"] = kit.error(ErrorClass.BLOCKED, status=422)

    def before(verb: str, name: str) -> None:
        if verb == "adopt":
            bench.cluster.faults.clear()

    bench.cluster.before = before
    assert (await bench.work(kit.state(kit.unit(web)))).state is SyncState.SYNCED
    calls = [verb for verb, _ in bench.cluster.calls]
    assert calls == ["parent", "dry-run", "get", "adopt", "dry-run", "apply", "parent"]


@pytest.mark.parametrize("status", [403, 500])
async def test_nothing_is_folded_of_an_object_whose_dry_run_is_refused_otherwise(
    bench: Bench, kit: Any, status: int
) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = foreign(kit, web)
    bench.cluster.faults["dry-run", "web"] = kit.error(ErrorClass.REFUSED, "no", status=status)
    outcome = await bench.work(kit.state(kit.unit(web)))
    assert outcome.state is SyncState.REFUSED
    assert bench.cluster.verbs("adopt", "apply") == []


@pytest.mark.parametrize(
    ("cls", "more"),
    [
        (ErrorClass.WAITING, {"waits_for": "service account x"}),
        (ErrorClass.REFUSED, {"reason": "DryRunUnsupported"}),
    ],
)
async def test_an_object_of_another_is_met_also_where_the_dry_run_says_nothing(
    bench: Bench, kit: Any, cls: ErrorClass, more: dict[str, str]
) -> None:
    web = kit.desired("web")
    helm = {"meta.helm.sh/release-name": "shop"}
    bench.cluster.objects[web.ref] = foreign(kit, web, **helm)
    bench.cluster.faults["dry-run", "web"] = kit.error(cls, **more)
    outcome = await bench.work(kit.state(kit.unit(web)))
    assert "the Helm release shop declares it" in outcome.sentence
    assert bench.cluster.verbs("adopt", "apply") == []


async def test_what_was_taken_over_is_told_when_all_is_done_however_many_attempts_that_takes(
    bench: Bench, kit: Any
) -> None:
    web, other = kit.desired("web"), kit.desired("other", component=1)
    bench.cluster.objects[web.ref] = foreign(kit, web)
    state = kit.state(kit.unit(web, other))
    bench.cluster.faults["apply", "other"] = kit.error(ErrorClass.RETRY)
    await bench.work(state)
    bench.cluster.faults.clear()
    outcome = await bench.work(state)
    assert outcome.sentence == "adopted ConfigMap shop/web (made by kubectl-client-side-apply)"
    assert bench.cluster.verbs("adopt") == ["web"]


async def test_s19_an_object_that_is_broken_on_the_cluster_holds_nobody_up(bench: Bench, kit: Any) -> None:
    web, other = kit.desired("web"), kit.desired("other", component=1)
    state = kit.state(kit.unit(web, other))
    for each in (web, other):
        bench.cluster.objects[each.ref] = kit.live(each)
    message = "failed to create typed live object: .metadata.ownerReferences: duplicate entries for key [uid=1]"
    bench.cluster.faults["apply", "web"] = kit.error(
        ErrorClass.BLOCKED, message, status=500, reason="LiveSchemaMismatch"
    )
    outcome = await bench.work(state)
    assert outcome.state is SyncState.BLOCKED
    assert "ConfigMap shop/web: " in outcome.sentence
    assert "duplicate entries" in outcome.sentence
    assert outcome.retry_after is not None
    assert bench.cluster.verbs("apply") == ["web", "other"]
    assert bench.cluster.verbs("patch") == [], "nothing of it is ours to change"


# -- the Lease -------------------------------------------------------------------------------------------------------


async def test_without_the_lease_nothing_is_called(bench: Bench, kit: Any) -> None:
    bench.lease = False
    outcome = await bench.work(kit.state(kit.unit(kit.desired("web"))))
    assert (outcome.state, bench.cluster.calls) == (SyncState.PENDING, [])
    assert outcome.retry_after is not None, "a renewal that is merely late tells nobody when it succeeds"


@pytest.mark.parametrize(
    ("verb", "name", "writes"),
    [
        pytest.param("parent", "base", [], id="while the parent is written"),
        pytest.param("dry-run", "web", [], id="in preflight"),
        pytest.param("apply", "web", ["web"], id="while the first object is applied"),
    ],
)
async def test_losing_the_lease_midway_stops_all_writes_at_once(
    bench: Bench, kit: Any, verb: str, name: str, writes: list[str]
) -> None:
    unit = kit.unit(kit.desired("web"), kit.desired("app", stage=Stage.WORKLOAD))
    bench.lose_lease_at(verb, name)
    state = kit.state(unit)
    outcome = await bench.work(state)
    assert bench.cluster.verbs("apply") == writes
    assert bench.cluster.verbs("parent") == ["base"], "the parent names what may have been created; not settled"
    assert outcome.state is SyncState.PENDING
    assert state.parents[kit.key].content_key == ""


async def test_nothing_is_taken_over_after_the_lease_was_lost(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = foreign(kit, web)
    bench.lose_lease_at("get", "web")
    await bench.work(kit.state(kit.unit(web)))
    assert bench.cluster.verbs("adopt", "apply") == []


async def test_what_was_skipped_without_the_lease_is_not_taken_for_done_when_it_comes_back(
    bench: Bench, kit: Any
) -> None:
    unit = kit.unit(
        kit.desired("web"), kit.desired("app", stage=Stage.WORKLOAD), kit.desired("z", stage=Stage.ADMISSION)
    )
    state = kit.state(unit)
    asked = iter([True, True, True, False, True, True])  # run, write-ahead, web, app: lost, z and the end: held again
    bench.may_write = lambda: next(asked, True)  # type: ignore[method-assign]
    outcome = await bench.work(state)
    assert "app" not in bench.cluster.verbs("apply")
    assert outcome.state is SyncState.PENDING
    assert state.parents[kit.key].content_key == ""


async def test_a_parent_is_not_deleted_after_the_lease_was_lost(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(records=[kit.record(web)])
    bench.lose_lease_at("get", "web")
    outcome = await bench.work(state)
    assert bench.cluster.verbs("delete parent", "parent") == []
    assert outcome.state is SyncState.PENDING


# -- the parent ------------------------------------------------------------------------------------------------------


async def test_the_content_key_advances_only_when_everything_is_done(bench: Bench, kit: Any) -> None:
    unit = kit.unit(kit.desired("web"), kit.desired("app", component=1))
    state = kit.state(unit)
    bench.cluster.faults["apply", "app"] = kit.error(ErrorClass.RETRY)
    await bench.work(state)
    assert state.parents[kit.key].content_key == ""
    assert {m.ref.name: m.uid for m in state.parents[kit.key].members} == {"web": "uid-web", "app": ""}
    bench.cluster.faults.clear()
    await bench.work(state)
    assert state.parents[kit.key].content_key == "content-1"


async def test_a_parent_that_another_wrote_is_read_again_and_believed(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(content="old")])
    newer = bench.stored(kit.record(web, content="newer", resource_version="200"))
    bench.parents.fault = kit.error(ErrorClass.STALE)
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("parent", "base"), ("load parent", "base")], "nothing is applied on old knowledge"
    assert state.parents[kit.key] == newer
    assert (outcome.state, outcome.retry_after is not None) == (SyncState.RETRYING, True)


async def test_a_parent_that_cannot_be_written_stops_the_unit_before_the_first_apply(bench: Bench, kit: Any) -> None:
    bench.parents.fault = kit.error(ErrorClass.FORBIDDEN, "no right to it")
    outcome = await bench.work(kit.state(kit.unit(kit.desired("web"))))
    assert bench.cluster.verbs("apply", "dry-run") == []
    assert outcome.state is SyncState.REFUSED
    assert "the parent cannot be written" in outcome.sentence
    assert "no right to it" in outcome.sentence


async def test_a_base_changed_under_the_same_version_is_told(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    unit = kit.unit(web, content="content-2", version="1", base_digest="new")
    state = kit.state(unit, records=[kit.record(web, version="1", base_digest="old")])
    kit.settled(state, web)
    assert "version 1 was changed in place" in (await bench.work(state)).sentence


@pytest.mark.parametrize("first", ["fails", "works"])
async def test_a_raised_version_is_never_called_a_change_in_place(bench: Bench, kit: Any, first: str) -> None:
    """Neither when it brings new objects nor when its first attempt failed."""
    web, new = kit.desired("web"), kit.desired("new")
    unit = kit.unit(web, new, content="content-2", version="2", base_digest="new")
    state = kit.state(unit, records=[kit.record(web, version="1", base_digest="old")])
    kit.settled(state, web)
    if first == "fails":
        bench.cluster.faults["apply", "new"] = kit.error(ErrorClass.RETRY)
        await bench.work(state)
        bench.cluster.faults.clear()
    assert (await bench.work(state)).sentence == "as declared"
    assert (state.parents[kit.key].version, state.parents[kit.key].base_digest) == ("2", "new")


# -- drift that may not be repaired ----------------------------------------------------------------------------------


def drifted(bench: Bench, kit: Any, mode: Mode = Mode.ENFORCE, **record: Any) -> ClusterState:
    web = kit.desired("web")
    state = kit.state(kit.unit(web, mode=mode), records=[kit.record(web, **record)])
    bench.cluster.objects[web.ref] = kit.edited(web, level="debug")
    kit.settled(state, web).applied = b""
    return state


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.PAUSED])
async def test_what_the_mode_forbids_is_told_and_not_done(bench: Bench, kit: Any, mode: Mode) -> None:
    outcome = await bench.work(drifted(bench, kit, mode))
    assert bench.cluster.calls == []
    assert (outcome.state, outcome.previews) == (SyncState.PAUSED, ("drift ConfigMap shop/web",))
    assert outcome.sentence == f"1 object differs; mode {mode} changes nothing"


async def test_a_pause_on_the_parent_suspends_repair_until_its_time(bench: Bench, kit: Any, clock: Any) -> None:
    until = datetime.datetime.fromtimestamp(clock.now + 60, datetime.UTC).isoformat()
    state = drifted(bench, kit, pause_until=until)
    outcome = await bench.work(state)
    assert (outcome.state, outcome.retry_after) == (SyncState.PAUSED, 60)
    assert "a pause on the parent" in outcome.sentence
    assert bench.cluster.calls == []
    clock.now += 61
    assert (await bench.work(state)).repaired == 1


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-40T00:00:00Z", "2999-01-01T00:00:00"])
async def test_a_pause_that_is_no_time_with_a_zone_is_ignored(bench: Bench, kit: Any, text: str) -> None:
    assert (await bench.work(drifted(bench, kit, pause_until=text))).repaired == 1


async def test_a_contested_object_is_left_alone_and_the_rest_stays_enforced(
    bench: Bench, kit: Any, context: Context, clock: Any
) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    state = kit.state(kit.unit(web, app), records=[kit.record(web, app)])
    for desired in (web, app):
        bench.cluster.objects[desired.ref] = kit.edited(desired, level="debug")
        kit.settled(state, desired).applied = b""
    for _ in range(10):
        state.objects[web.ref].heat = state.objects[web.ref].heat.heated(clock.now, context.options.fights)
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("apply", "app")]
    assert outcome.state is SyncState.CONTESTED
    assert outcome.retry_after is not None
    pause = state.objects[web.ref].heat.contested_for(clock.now, context.options.fights)
    assert outcome.retry_after >= pause
    clock.now += outcome.retry_after
    assert (await bench.work(state)).state is SyncState.SYNCED


async def test_repairs_heat_the_object(bench: Bench, kit: Any, context: Context, clock: Any) -> None:
    state = drifted(bench, kit)
    await bench.work(state)
    (record,) = state.objects.values()
    assert record.heat.now(clock.now, context.options.fights) == 1


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


# -- leaving Git -----------------------------------------------------------------------------------------------------


async def test_a_unit_that_left_git_goes_with_its_parent_last(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = kit.live(web)
    state = kit.state(records=[kit.record(web)])
    outcome = await bench.work(state)
    assert [verb for verb, _ in bench.cluster.calls] == ["get", "delete", "delete parent"]
    assert (outcome.state, outcome.pruned, state.parents) == (SyncState.REMOVED, 1, {})


async def test_an_object_that_another_unit_declares_now_stays_and_stays_known(bench: Bench, kit: Any) -> None:
    other = kit.other_key()
    moved = kit.desired("web", key=other)
    state = kit.state(kit.unit(moved, key=other), records=[kit.record(moved), kit.record(moved, key=other)])
    kit.settled(state, moved)
    bench.cluster.objects[moved.ref] = kit.live(moved)
    assert (await bench.work(state)).state is SyncState.REMOVED
    assert bench.cluster.verbs("delete") == []
    assert state.objects[moved.ref].applied == moved.digest, "the other unit's knowledge is not touched"


@pytest.mark.parametrize("reason", ["incomplete", "held"])
async def test_a_unit_that_the_compile_could_not_see_is_held(bench: Bench, kit: Any, reason: str) -> None:
    web = kit.desired("web")
    more = {"complete": False} if reason == "incomplete" else {"held": [kit.key.workload]}
    outcome = await bench.work(kit.state(records=[kit.record(web)], **more))
    assert (outcome.state, bench.cluster.calls) == (SyncState.HELD, [])


async def test_a_blown_fuse_deletes_nothing_and_applies_the_rest(bench: Bench, kit: Any) -> None:
    web, gone, new = kit.desired("web"), kit.desired("gone"), kit.desired("new")
    state = kit.state(kit.unit(web, new, content="content-2"), records=[kit.record(web, gone)])
    kit.settled(state, web)
    bench.cluster.objects[gone.ref] = kit.live(gone)
    state.units[kit.key].fused = "too much"
    outcome = await bench.work(state)
    assert (outcome.state, outcome.sentence) == (SyncState.FUSED, "too much")
    assert (bench.cluster.verbs("apply"), bench.cluster.verbs("delete")) == (["new"], [])
    assert state.parents[kit.key].content_key == "content-1"


async def test_nothing_is_pruned_while_something_is_refused(bench: Bench, kit: Any) -> None:
    web, gone = kit.desired("web"), kit.desired("gone")
    bench.cluster.objects[gone.ref] = kit.live(gone)
    bench.cluster.faults["dry-run", "web"] = kit.error(ErrorClass.REFUSED)
    state = kit.state(kit.unit(web, content="content-2"), records=[kit.record(gone)])
    await bench.work(state)
    assert bench.cluster.verbs("delete") == []
    assert gone.ref in state.parents[kit.key].member_uids()


async def test_nothing_is_pruned_before_what_takes_its_place_is_written(bench: Bench, kit: Any) -> None:
    """A head that comes meanwhile, and a namespace that existed unseen, end the applies without a problem."""
    web, changed, gone = kit.desired("web"), kit.desired("web", level="debug"), kit.desired("gone")
    bench.cluster.objects[gone.ref] = kit.live(gone)
    state = kit.state(kit.unit(web, content="content-2"), records=[kit.record(gone)])
    bench.cluster.before = lambda verb, name: (
        state.assign(kit.assignment(kit.unit(changed, content="content-3"), commit="c3")) if verb == "dry-run" else None
    )
    await bench.work(state)
    assert bench.cluster.verbs("apply", "delete") == []
    bench.cluster.before = lambda verb, name: None
    await bench.work(state)
    assert bench.cluster.verbs("apply", "delete") == ["web", "gone"]


async def test_one_that_went_unseen_and_that_helm_made_again_is_not_overwritten(bench: Bench, kit: Any) -> None:
    """A daemon that starts sees only what carries its label: what it once made is not there, and it may be anybody's
    under the same name."""
    web = kit.desired("web")
    helm = {"meta.helm.sh/release-name": "shop"}
    bench.cluster.objects[web.ref] = foreign(kit, web, labels={"app.kubernetes.io/managed-by": "Helm"}, **helm)
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    outcome = await bench.work(state)
    assert outcome.state is SyncState.REFUSED
    assert "the Helm release shop declares it" in outcome.sentence
    assert bench.cluster.verbs("adopt", "apply") == []


async def test_a_pruned_object_leaves_the_parent_and_one_that_holds_data_is_told(bench: Bench, kit: Any) -> None:
    web, gone, data = kit.desired("web"), kit.desired("gone"), kit.desired("disk", "PersistentVolumeClaim")
    for desired in (gone, data):
        bench.cluster.objects[desired.ref] = kit.live(desired)
    state = kit.state(kit.unit(web, content="content-2"), records=[kit.record(web, gone, data)])
    kit.settled(state, web)
    outcome = await bench.work(state)
    assert {r.name for r in state.parents[kit.key].member_uids()} == {"web", "disk"}
    assert (outcome.state, outcome.pruned) == (SyncState.RETAINED, 1)
    assert "it holds data" in outcome.sentence


async def test_a_removal_that_somebody_holds_for_too_long_is_blocked_and_looked_at_ever_more_rarely(
    bench: Bench, kit: Any
) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = kit.live(web)
    bench.cluster.objects[web.ref]["metadata"] |= {
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "finalizers": ["example/hold"],
    }
    state = kit.state(records=[bench.stored(kit.record(web))])
    looks = []
    for _ in range(14):
        outcome = await bench.work(state)
        looks.append(outcome.retry_after)
    said = "ConfigMap shop/web: its deletion is held by finalizer example/hold since 2020-01-01T00:00:00Z"
    assert (outcome.state, outcome.sentence) == (SyncState.BLOCKED, said)
    assert looks == [min(900.0, 2.0**n) for n in range(10)] + [900.0] * 4
    assert bench.cluster.verbs("delete", "patch", "parent") == []


async def test_a_unit_that_waits_for_a_deletion_is_looked_at_when_the_watch_says_that_it_ended(
    bench: Bench, kit: Any, context: Context
) -> None:
    web, looks = kit.desired("web"), []
    bench.cluster.objects[web.ref] = kit.live(web)
    bench.cluster.finalizers = ("example/hold",)
    state = kit.state(records=[bench.stored(kit.record(web))])
    sightings = Sightings(state, context, look=lambda key, urgent: looks.append(key), touched=lambda key: None)
    assert (await bench.work(state)).state is SyncState.REMOVING
    sightings.declared_event(Deleted(kit.live(web)))
    assert looks == [kit.key]
    del bench.cluster.objects[web.ref]
    assert (await bench.work(state)).state is SyncState.REMOVED
    sightings.declared_event(Deleted(kit.live(web)))
    assert looks == [kit.key], "nobody waits any more"


async def test_r13_what_a_removed_unit_leaves_behind_is_its_last_word(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    bench.cluster.objects[web.ref] = kit.live(web)
    bench.cluster.objects[web.ref]["metadata"]["labels"] = {}
    state = kit.state(records=[bench.stored(kit.record(web))])
    outcome = await bench.work(state)
    said = "left behind: ConfigMap shop/web (it no longer carries our labels)"
    assert (outcome.state, outcome.sentence) == (SyncState.REMOVED, said)
    assert state.orphans() == {web.ref: "it no longer carries our labels"}


@pytest.mark.parametrize(
    ("cls", "read"), [(ErrorClass.UNREACHABLE, True), (ErrorClass.RETRY, True), (ErrorClass.REFUSED, False)]
)
async def test_a_parent_whose_write_was_not_answered_is_read_before_the_next_run(
    bench: Bench, kit: Any, cls: ErrorClass, read: bool
) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    work = bench.unit_work(state)
    bench.parents.fault = kit.error(cls)
    await work.run(kit.key)
    bench.parents.fault = None
    bench.stored(kit.record(web, content="another"))
    bench.cluster.calls.clear()
    await work.run(kit.key)
    assert (("load parent", kit.key.name) in bench.cluster.calls) is read
    assert (bench.parents.writes[-1].members[0].uid, state.parents[kit.key].content_key) == ("uid-web", "content-1")
    bench.cluster.calls.clear()
    await work.run(kit.key)
    assert bench.cluster.calls == [], "once"


async def test_a_unit_of_which_nothing_is_known_is_removed_already(bench: Bench, kit: Any) -> None:
    assert (await bench.work(kit.state())).state is SyncState.REMOVED
    assert bench.cluster.calls == []


async def test_a_paused_cluster_deletes_nothing_and_says_what_would_go(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    lost = dataclasses.replace(kit.record(web), resource_version="")
    bench.cluster.objects[web.ref] = kit.live(web)
    for held in ([], [kit.key.workload]):
        state = kit.state(records=[lost])
        state.assign(dataclasses.replace(kit.assignment(held=held), mode=Mode.PAUSED))
        outcome = await bench.work(state)
        assert (bench.cluster.calls, bench.parents.writes) == ([], [])
        assert outcome.state is (SyncState.HELD if held else SyncState.PAUSED)
        assert outcome.previews == (() if held else ("delete ConfigMap shop/web",))
    assert state.assign(kit.assignment(commit="c2")) == [kit.key]
    assert (await bench.work(state)).state is SyncState.REMOVED
    assert bench.cluster.objects == {}


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


async def test_what_admission_changed_is_the_baseline_and_no_drift(bench: Bench, kit: Any) -> None:
    state = drifted(bench, kit)

    def admit(live: dict[str, Any]) -> None:
        live["data"] = {"level": "mutated"}

    bench.cluster.admit = admit
    state.units[kit.key].drifts = []
    assert (await bench.work(state)).state is SyncState.SYNCED
    (record,) = state.objects.values()
    assert record.overridden == (("data", "level"),)
    bench.cluster.calls.clear()
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert bench.cluster.calls == [], "not sent again and again"


# -- what is easily lost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
async def test_r13_a_lost_parent_is_stored_again_with_all_that_is_known(bench: Bench, kit: Any, held: bool) -> None:
    web = kit.desired("web")
    lost = dataclasses.replace(kit.record(web), resource_version="")
    state = kit.state(*([] if held else [kit.unit(web)]), records=[lost], held=[kit.key.workload] if held else [])
    kit.settled(state, web)
    await bench.work(state)
    assert bench.parents.stored[kit.key].members == lost.members
    assert state.parents[kit.key].resource_version
    bench.parents.writes.clear()
    await bench.work(state)
    assert bench.parents.writes == []


async def test_a_parent_that_is_gone_when_it_is_written_takes_no_knowledge_along(bench: Bench, kit: Any) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    state = kit.state(kit.unit(web, app), records=[kit.record(web)])
    kit.settled(state, web)
    bench.parents.fault = kit.error(ErrorClass.STALE)
    await bench.work(state)
    bench.parents.fault = None
    assert [m.ref for m in state.parents[kit.key].members] == [web.ref]


async def test_an_object_that_was_applied_by_an_attempt_for_an_earlier_head_is_pruned(bench: Bench, kit: Any) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    state = kit.state(kit.unit(web, app), records=[bench.stored(kit.record(web))])
    kit.settled(state, web)
    bench.cluster.objects[web.ref] = kit.live(web)

    def before(verb: str, name: str) -> None:
        if (verb, name) == ("parent", "base"):
            state.assign(kit.assignment(kit.unit(web, content="content-2"), commit="c2"))

    bench.cluster.before = before
    await bench.work(state)
    bench.cluster.before = lambda verb, name: None
    await bench.work(state)
    assert app.ref not in bench.cluster.objects


async def test_r06_an_object_that_moves_while_it_is_written_ends_as_its_new_unit_wants_it(
    bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes of one object under way may be answered in another order than they were done."""
    other = kit.other_key()
    old, new = kit.desired("web"), kit.desired("web", key=other)
    state = kit.state(kit.unit(old))
    apply, released, sent = bench.cluster.apply, asyncio.Event(), []

    async def slow(desired: Any, **options: Any) -> Any:
        if not options.get("dry_run"):
            sent.append(desired.digest)
            if desired.digest == old.digest:
                await released.wait()
        return await apply(desired, **options)

    monkeypatch.setattr(bench.cluster, "apply", slow)
    work = bench.unit_work(state)
    first = asyncio.create_task(work.run(kit.key))
    for _ in range(50):
        await asyncio.sleep(0)
    assert sent == [old.digest]
    state.assign(kit.assignment(kit.unit(new, key=other), commit="c2"))
    second = asyncio.create_task(work.run(other))
    for _ in range(50):
        await asyncio.sleep(0)
    assert sent == [old.digest], "the second write waits for the first"
    released.set()
    await asyncio.gather(first, second)
    labels = bench.cluster.objects[new.ref]["metadata"]["labels"]
    assert labels == new.body["metadata"]["labels"]
    assert state.objects[new.ref].applied == new.digest
    assert work._writer._turns == {}


async def test_what_a_newer_head_wants_otherwise_is_not_applied_any_more(bench: Bench, kit: Any) -> None:
    web, changed = kit.desired("web"), kit.desired("web", level="debug")
    state = kit.state(kit.unit(web))
    bench.cluster.before = lambda verb, name: (
        state.assign(kit.assignment(kit.unit(changed, content="content-2"), commit="c2")) if verb == "dry-run" else None
    )
    outcome = await bench.work(state)
    assert bench.cluster.verbs("apply") == []
    assert outcome.retry_after == 0.0
    assert state.parents[kit.key].content_key == ""
