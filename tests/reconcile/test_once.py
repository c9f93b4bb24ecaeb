"""What is done once is done once: triggers, once-only kinds and recreations, over every order of writes and crashes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gitops.cluster.errors import DRY_RUN_UNSUPPORTED, ApiError, Cause, ErrorClass, classify_status
from gitops.plan.immutable import under_another_name
from gitops.plan.units import Handling, Mode, Stage, Trigger
from gitops.reconcile.outcomes import SyncState
from tests.reconcile.unit_bench import Bench


def restart(value: str) -> Handling:
    return Handling(triggers=(Trigger(("spec", "restart"), json.dumps({"id": value}).encode()),))


def answered(code: int, message: str, **more: Any) -> ApiError:
    return classify_status({"kind": "Status", "status": "Failure", "code": code, "message": message, **more})


class Story:
    """One ConfigMap as any object, over heads, losses and daemons. What a daemon knows is rebuilt from the cluster and
    the stored parent each time, as after a restart."""

    def __init__(self, bench: Bench, kit: Any) -> None:
        self.bench, self.kit = bench, kit

    def state(self, handling: Handling, *, content: str, mode: Mode = Mode.ENFORCE, **parts: Any) -> Any:
        self.wanted = self.kit.desired("web", handling=handling, **parts)
        stored = self.bench.parents.stored.get(self.kit.key)
        unit = self.kit.unit(self.wanted, content=content, mode=mode)
        state = self.kit.state(unit, records=[stored] if stored else [])
        live = self.bench.cluster.objects.get(self.wanted.ref)
        if live is not None:
            record = self.kit.settled(state, self.wanted)
            record.uid = live["metadata"]["uid"]
            if not all(live.get(k) == v for k, v in self.wanted.body.items() if k in ("data", "spec")):
                record.applied, record.last_desired = b"", b"before"
        return state

    async def run(self, handling: Handling, content: str = "1", **more: Any) -> Any:
        """A daemon that starts, makes one attempt and is gone."""
        self.last = self.state(handling, content=content, **more)
        outcome = await self.bench.work(self.last)
        if outcome.retry_after == 0.0:
            outcome = await self.bench.work(self.last)
        return outcome

    def lose(self) -> None:
        del self.bench.cluster.objects[self.wanted.ref]

    @property
    def started(self) -> int:
        return len(self.bench.cluster.verbs("start"))

    @property
    def applied(self) -> int:
        return len(self.bench.cluster.verbs("apply"))


@pytest.fixture
def story(bench: Bench, kit: Any) -> Story:
    return Story(bench, kit)


# -- triggers ----------------------------------------------------------------------------------------------------------


async def test_a_trigger_is_sent_once_and_only_when_git_changes_it_on_an_object_that_lives(story: Story) -> None:
    assert (await story.run(restart("x"))).state is SyncState.SYNCED
    assert story.started == 0  # there when the object was made
    await story.run(restart("y"), "2")
    assert story.started == 1
    await story.run(restart("y"), "2")  # a restart of the daemon
    await story.run(restart("y"), "3")  # a head that changes something else
    assert story.started == 1
    story.lose()
    await story.run(restart("y"), "3")
    await story.run(restart("y"), "3")
    assert (story.started, story.applied) == (1, 2)
    await story.run(restart("x"), "2")  # a revert
    await story.run(restart("y"), "3")  # and its revert
    assert story.started == 1
    await story.run(restart("z"), "4")
    assert story.started == 2


async def test_a_trigger_that_git_adds_to_a_living_object_is_sent(story: Story) -> None:
    await story.run(Handling())
    await story.run(restart("x"), "2")
    await story.run(Handling(), "1")
    await story.run(restart("x"), "2")
    assert story.started == 1


async def test_an_object_that_is_met_for_the_first_time_is_not_started(story: Story) -> None:
    await story.run(Handling())
    story.bench.parents.stored.clear()  # a lost parent, or another reconciler's cluster
    await story.run(restart("x"), "2")
    await story.run(restart("x"), "2")
    assert story.started == 0


async def test_the_parent_says_what_is_satisfied_before_the_object_is_made(story: Story) -> None:
    await story.run(restart("x"))
    verbs = [verb for verb, _ in story.bench.cluster.calls]
    assert verbs == ["parent", "dry-run", "apply", "parent"]
    assert [name for name, _ in story.bench.parents.writes[0].satisfied] == ["spec.restart ConfigMap shop/web"]


async def test_a_crash_between_making_the_object_and_the_parent_starts_nothing(story: Story) -> None:
    story.bench.lose_lease_at("apply", "web")
    await story.run(restart("x"))
    story.bench.lease, story.bench.cluster.before = True, lambda verb, name: None
    await story.run(restart("x"))
    await story.run(restart("x"))
    assert story.started == 0


async def test_a_crash_after_a_trigger_was_sent_sends_the_same_value_to_the_same_object_at_most(story: Story) -> None:
    """The server takes it for no change (a plain apply of what is there); a new object never gets it."""
    await story.run(restart("x"))
    story.bench.lose_lease_at("start", "web")
    await story.run(restart("y"), "2")
    story.bench.lease, story.bench.cluster.before = True, lambda verb, name: None
    story.lose()
    await story.run(restart("y"), "2")
    await story.run(restart("y"), "2")
    assert story.started == 1


async def test_a_trigger_that_is_denied_waits_and_is_sent_later(story: Story) -> None:
    await story.run(restart("x"))
    fault = ApiError(ErrorClass.DENIED, 403, message="a rolling update is under way")
    story.bench.cluster.faults["start", "web"] = fault
    outcome = await story.run(restart("y"), "2", data={"level": "debug"})
    assert (outcome.state, outcome.applied) == (SyncState.WAITING, 1)  # what else changed goes on
    assert "spec.restart is not sent yet" in outcome.sentence
    assert outcome.retry_after is not None
    assert story.bench.parents.stored[story.kit.key].content_key == "1"
    del story.bench.cluster.faults["start", "web"]
    outcome = await story.run(restart("y"), "2", data={"level": "debug"})
    assert (outcome.state, outcome.started) == (SyncState.SYNCED, 1)


async def test_a_refused_object_is_not_started(story: Story) -> None:
    await story.run(restart("x"))
    story.bench.cluster.faults["dry-run", "web"] = ApiError(ErrorClass.REFUSED, 500, message="no")
    await story.run(restart("y"), "2", data={"level": "debug"})
    assert story.started == 0
    story.bench.cluster.faults.clear()
    await story.run(restart("y"), "2", data={"level": "debug"})
    assert story.started == 1


async def test_paused_starts_nothing_and_forgets_nothing(story: Story) -> None:
    await story.run(restart("x"))
    await story.run(restart("y"), "2", mode=Mode.PAUSED)
    assert story.started == 0
    await story.run(restart("y"), "2")
    assert story.started == 1


async def test_what_left_the_unit_is_forgotten(story: Story) -> None:
    await story.run(restart("x"))
    state = story.kit.state(
        story.kit.unit(story.kit.desired("other"), content="2"), records=[story.bench.parents.stored[story.kit.key]]
    )
    await story.bench.work(state)
    assert story.bench.parents.stored[story.kit.key].satisfied == ()


# -- kinds that do their work once -------------------------------------------------------------------------------------

ONCE = Handling(once=True)


async def test_a_once_only_object_is_made_once_and_never_again(story: Story) -> None:
    await story.run(ONCE)
    verbs = [verb for verb, _ in story.bench.cluster.calls]
    assert verbs == ["parent", "dry-run", "parent", "apply", "parent"]  # said before it is made
    story.lose()
    for content in ("1", "1", "2", "1"):  # other daemons, another head, a revert
        outcome = await story.run(ONCE, content)
        assert outcome.state is SyncState.SYNCED
    assert story.applied == 1


async def test_one_that_is_gone_and_changes_needs_a_new_name(story: Story) -> None:
    await story.run(ONCE)
    await story.run(ONCE, "2", data={"level": "debug"})  # while it lives it can be changed
    assert story.applied == 2
    story.lose()
    outcome = await story.run(ONCE, "3", data={"level": "trace"})
    assert (outcome.state, story.applied) == (SyncState.BLOCKED, 2)
    assert "new name" in outcome.sentence
    assert (await story.run(ONCE, "2", data={"level": "debug"})).state is SyncState.SYNCED


async def test_one_that_vanishes_while_it_is_changed_is_not_made_by_the_change(story: Story) -> None:
    await story.run(ONCE)
    story.bench.cluster.before = lambda verb, name: story.lose() if verb == "apply" else None
    await story.run(ONCE, "2", data={"level": "debug"})
    assert story.bench.cluster.objects == {}


async def test_a_crash_after_it_was_made_does_not_make_another(story: Story) -> None:
    story.bench.lose_lease_at("apply", "web")
    await story.run(ONCE)
    story.bench.lease, story.bench.cluster.before = True, lambda verb, name: None
    assert (await story.run(ONCE)).state is SyncState.SYNCED  # it is seen alive
    story.lose()
    await story.run(ONCE)
    assert story.applied == 1


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(ErrorClass.UNREACHABLE, message="no answer"), id="no answer"),
        pytest.param(answered(500, "etcdserver: request timed out"), id="its storage timed out"),
        pytest.param(
            answered(504, "request did not complete within the allotted timeout", reason="Timeout"), id="it timed out"
        ),
    ],
)
async def test_a_crash_before_its_end_was_seen_is_told_and_nothing_is_made(story: Story, error: ApiError) -> None:
    story.bench.cluster.faults["apply", "web"] = error
    await story.run(ONCE)
    story.bench.cluster.faults.clear()
    outcome = await story.run(ONCE)  # another daemon
    assert (outcome.state, story.applied) == (SyncState.BLOCKED, 1)
    assert "new name" in outcome.sentence


async def test_the_daemon_that_got_no_answer_goes_on_itself(story: Story) -> None:
    story.bench.cluster.faults["apply", "web"] = ApiError(ErrorClass.UNREACHABLE, message="no answer")
    await story.run(ONCE)
    story.bench.cluster.faults.clear()
    assert (await story.bench.work(story.last)).state is SyncState.SYNCED
    assert story.applied == 2


async def test_one_that_was_refused_is_tried_again_by_any_daemon(story: Story) -> None:
    story.bench.cluster.faults["apply", "web"] = ApiError(ErrorClass.WAITING, 404, waits_for="namespace shop")
    await story.run(ONCE)
    assert not story.bench.parents.stored[story.kit.key].satisfied
    story.bench.cluster.faults.clear()
    assert (await story.run(ONCE)).state is SyncState.SYNCED


async def test_nothing_is_said_of_one_whose_component_failed_before(story: Story, kit: Any) -> None:
    config, request = kit.desired("config"), kit.desired("web", stage=Stage.CUSTOM, handling=ONCE)
    story.bench.cluster.faults["apply", "config"] = ApiError(ErrorClass.REFUSED, 422, message="no")
    await story.bench.work(kit.state(kit.unit(config, request)))
    assert story.bench.cluster.verbs("apply") == ["config"]
    assert story.bench.parents.stored[kit.key].satisfied == ()


async def test_a_parent_that_cannot_be_written_makes_nothing(story: Story) -> None:
    def before(verb: str, name: str) -> None:
        if verb == "dry-run":
            story.bench.parents.fault = ApiError(ErrorClass.RETRY, 500, message="etcd is gone")

    story.bench.cluster.before = before
    outcome = await story.run(ONCE)
    assert (story.applied, outcome.state) == (0, SyncState.RETRYING)
    story.bench.cluster.before, story.bench.parents.fault = lambda verb, name: None, None
    assert (await story.run(ONCE)).state is SyncState.SYNCED


async def test_a_head_that_comes_while_the_word_is_stored_is_not_made(story: Story, kit: Any) -> None:
    state = story.state(ONCE, content="1")
    other = kit.desired("web", handling=ONCE, data={"level": "other"})
    writes = 0

    def before(verb: str, name: str) -> None:
        nonlocal writes
        writes += verb == "parent"
        if verb == "parent" and writes == 2:
            state.assign(kit.assignment(kit.unit(other, content="2")))

    story.bench.cluster.before = before
    outcome = await story.bench.work(state)
    assert (outcome.retry_after, story.applied) == (0.0, 0)
    await story.bench.work(state)
    assert story.bench.cluster.objects[other.ref]["data"] == {"level": "other"}


# -- fields that cannot change -----------------------------------------------------------------------------------------

IMMUTABLE = ApiError(
    ErrorClass.REFUSED, 422, "Invalid", "no", causes=(Cause("FieldValueForbidden", "data", "field is immutable"),)
)
ANEW = Handling(recreate=True)


@pytest.fixture
def frozen(story: Story) -> Story:
    """The API server lets no field of `data` change."""
    cluster = story.bench.cluster

    def before(verb: str, name: str) -> None:
        live = next((o for ref, o in cluster.objects.items() if ref.name == name), None)
        changes = live is not None and live["data"] != story.wanted.body["data"]
        for call in ("dry-run", "apply"):
            if changes:
                cluster.faults[call, name] = IMMUTABLE
            else:
                cluster.faults.pop((call, name), None)

    cluster.before = before
    return story


async def test_it_is_told_which_field_and_nothing_is_deleted(frozen: Story) -> None:
    await frozen.run(Handling())
    outcome = await frozen.run(Handling(), "2", data={"level": "debug"})
    assert outcome.state is SyncState.NEEDS_RECREATE
    assert "data.level cannot change" in outcome.sentence
    assert "gitops/recreate" in outcome.sentence
    assert not frozen.bench.cluster.verbs("delete")


async def test_with_consent_it_is_made_anew_once(frozen: Story) -> None:
    await frozen.run(ANEW)
    frozen.bench.cluster.calls.clear()
    outcome = await frozen.run(ANEW, "2", data={"level": "debug"})
    assert outcome.state is SyncState.SYNCED
    verbs = [verb for verb, _ in frozen.bench.cluster.calls]
    # its dry run, who owns what, a read, the dry run of the proof; the parent; the delete; and it is made as any other
    assert verbs == ["dry-run", "get", "get", "dry-run", "parent", "delete", "parent", "dry-run", "apply", "parent"]
    assert frozen.bench.cluster.propagations == {"web": "Foreground"}
    assert (await frozen.run(ANEW, "2", data={"level": "debug"})).state is SyncState.SYNCED
    assert len(frozen.bench.cluster.verbs("delete")) == 1


async def test_what_only_the_apply_finds_immutable_is_made_anew_too(frozen: Story) -> None:
    """What the dry run could not know, as when its definition changed in between, is no reason to call the unit as
    declared."""
    await frozen.run(ANEW)
    cluster = frozen.bench.cluster
    before, unasked = cluster.before, ApiError(ErrorClass.REFUSED, 400, DRY_RUN_UNSUPPORTED, "no dry run")

    def blind(verb: str, name: str) -> None:
        before(verb, name)
        if ("dry-run", name) in cluster.faults:
            cluster.faults["dry-run", name] = unasked

    cluster.before = blind
    outcome = await frozen.run(ANEW, "2", data={"level": "debug"})
    assert outcome.state is SyncState.SYNCED
    assert cluster.verbs("delete") == ["web"]
    assert cluster.objects[frozen.wanted.ref]["data"] == {"level": "debug"}


async def test_a_typo_is_no_reason_to_delete(frozen: Story) -> None:
    await frozen.run(ANEW)
    name = under_another_name(frozen.wanted).ref.name
    before, cluster = frozen.bench.cluster.before, frozen.bench.cluster

    def refuse_new(verb: str, called: str) -> None:
        before(verb, called)
        cluster.faults["dry-run", name] = IMMUTABLE

    cluster.before = refuse_new
    outcome = await frozen.run(ANEW, "2", data={"level": "debug"})
    assert outcome.state is SyncState.REFUSED
    assert not cluster.verbs("delete")


@pytest.mark.parametrize("after", ["parent", "delete", "dry-run"])
async def test_s08_a_crash_at_any_point_of_making_anew_is_gone_on_with(frozen: Story, after: str) -> None:
    await frozen.run(ANEW)
    cluster, guard = frozen.bench.cluster, frozen.bench.cluster.before

    deleted = False

    def die(verb: str, name: str) -> None:
        nonlocal deleted
        guard(verb, name)
        deleted = deleted or verb == "delete"
        if verb == after and (verb != "dry-run" or deleted):
            frozen.bench.lease = False

    cluster.before = die
    await frozen.run(ANEW, "2", data={"level": "debug"})
    assert (frozen.wanted.ref in cluster.objects) is (after != "dry-run")
    frozen.bench.lease, cluster.before = True, guard
    assert (await frozen.run(ANEW, "2", data={"level": "debug"})).state is SyncState.SYNCED
    assert cluster.objects[frozen.wanted.ref]["data"] == {"level": "debug"}
    await frozen.run(ANEW, "2", data={"level": "debug"})
    assert len([m for m, _ in cluster.calls if m == "apply"]) == 2


async def test_while_a_finalizer_holds_it_the_unit_waits_and_nothing_is_sent(frozen: Story) -> None:
    await frozen.run(ANEW)
    frozen.bench.cluster.finalizers = ("example.org/held",)
    outcome = await frozen.run(ANEW, "2", data={"level": "debug"})
    assert (outcome.state, outcome.retry_after) == (SyncState.WAITING, None)
    assert "made anew" in outcome.sentence
    assert "example.org/held" in outcome.sentence
    calls = len(frozen.bench.cluster.calls)
    assert (await frozen.bench.work(frozen.last)).state is SyncState.WAITING
    assert len(frozen.bench.cluster.calls) == calls


@pytest.mark.parametrize("foreign", ["uid", "labels"])
async def test_what_is_not_proven_ours_is_not_deleted(frozen: Story, foreign: str) -> None:
    await frozen.run(ANEW)
    metadata = frozen.bench.cluster.objects[frozen.wanted.ref]["metadata"]
    metadata[foreign] = "another" if foreign == "uid" else {}
    outcome = await frozen.run(ANEW, "2", data={"level": "debug"})
    assert outcome.state is SyncState.NEEDS_RECREATE
    assert not frozen.bench.cluster.verbs("delete")


async def test_one_that_somebody_made_again_after_us_is_not_deleted_twice(frozen: Story) -> None:
    await frozen.run(ANEW)
    await frozen.run(ANEW, "2", data={"level": "debug"})
    live = frozen.bench.cluster.objects[frozen.wanted.ref]
    live["metadata"]["uid"], live["data"] = "theirs", {"level": "info"}
    record = frozen.bench.parents.stored[frozen.kit.key]
    members = tuple(dataclasses.replace(m, uid="theirs") for m in record.members)
    frozen.bench.parents.stored[frozen.kit.key] = dataclasses.replace(record, members=members)
    outcome = await frozen.run(ANEW, "3", data={"level": "debug"})
    assert outcome.state is SyncState.NEEDS_RECREATE
    assert "once already" in outcome.sentence
    assert len(frozen.bench.cluster.verbs("delete")) == 1


async def test_a_webhook_that_denies_a_field_which_its_operator_calls_immutable_needs_a_new_object(
    story: Story, kit: Any
) -> None:
    """Its words are its own and prove nothing; the rule of the operator does. Any other denial is one."""
    denied = ApiError(ErrorClass.DENIED, 403, "WebhookDenied", "admission webhook denied the request: no")
    bench = story.bench

    async def attempt(before: dict[str, Any], after: dict[str, Any]) -> Any:
        old = kit.desired("graph", "DynamoGraphDeployment", spec=before)
        new = kit.desired("graph", "DynamoGraphDeployment", spec=after)
        bench.cluster.objects[new.ref] = kit.live(old)
        bench.cluster.faults["dry-run", "graph"] = denied
        state = kit.state(kit.unit(new, content="2"), records=[kit.record(old)])
        kit.settled(state, new).applied = b""
        state.objects[new.ref].last_desired = old.digest
        return await bench.work(state)

    outcome = await attempt({"backendFramework": "vllm"}, {"backendFramework": "sglang"})
    assert outcome.state is SyncState.NEEDS_RECREATE
    assert "spec.backendFramework cannot change" in outcome.sentence
    assert (await attempt({"priorityClassName": "a"}, {"priorityClassName": "b"})).state is SyncState.REFUSED


async def test_s20_a_dry_run_that_lies_makes_no_drift(bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server version doubled atomic lists in its answers to dry runs: what they hold is looked at by nobody."""
    before, after = kit.desired("web", data={"a": "1"}), kit.desired("web", data={"a": "2"})
    state = kit.state(kit.unit(after, content="2"), records=[kit.record(before)])
    bench.cluster.objects[after.ref] = kit.live(before)
    kit.settled(state, after).applied = b""
    state.objects[after.ref].last_desired = before.digest
    honest = bench.cluster.apply

    async def lying(obj: Any, *, dry_run: bool = False, **more: Any) -> Any:
        outcome = await honest(obj, dry_run=dry_run, **more)
        if not dry_run:
            return outcome
        return dataclasses.replace(outcome, overridden=(("data", "a"),), live=kit.live(after, data={"a": "22"}))

    monkeypatch.setattr(bench.cluster, "apply", lying)
    assert (await bench.work(state)).state is SyncState.SYNCED
    assert state.units[kit.key].drifts == []
    assert bench.cluster.calls == [("dry-run", "web"), ("apply", "web"), ("parent", "base")]
    bench.cluster.calls.clear()
    await bench.work(state)
    assert bench.cluster.calls == []
