"""What is done for one unit, call by call, on a cluster in memory."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.plan.naming import PREFLIGHT_NAMESPACE
from gitops.plan.units import Stage
from gitops.reconcile.outcomes import SyncState
from tests.reconcile.unit_bench import Bench, foreign

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


async def test_a09_a_parent_that_another_wrote_is_read_again_and_believed(bench: Bench, kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(content="old")])
    newer = bench.stored(kit.record(web, content="newer", resource_version="200"))
    bench.parents.fault = kit.error(ErrorClass.STALE)
    outcome = await bench.work(state)
    assert bench.cluster.calls == [("parent", "base"), ("load parent", "base")], "nothing is applied on old knowledge"
    assert state.parents[kit.key] == newer
    assert (outcome.state, outcome.retry_after is not None) == (SyncState.RETRYING, True)
    bench.parents.fault = None
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert state.parents[kit.key].resource_version > "200", "from what the other had written"


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
