"""What is done for a unit that leaves Git, or of which something does, call by call, on a cluster in memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.watch_events import Deleted
from gitops.plan.units import Mode
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.sightings import Sightings
from tests.reconcile.unit_bench import Bench, foreign


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
