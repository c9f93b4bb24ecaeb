"""Whose a field is, over time: what is decided when, what is called for it, and in which order."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.reflecting import Changed, Deleted
from gitops.model.ownership import OwnershipTable
from gitops.plan.sending import Why
from gitops.plan.units import Mode, Stage
from gitops.policy.ownership import Ownership
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.owning import RELEASE_TRIES, Owning
from gitops.reconcile.sightings import Sightings
from tests.reconcile.conftest import unit_work

REPLICAS = ("spec", "replicas")


class Story:
    """One unit with a Deployment `web`, worked on by hand. `looks` are the runs that were asked for."""

    def __init__(self, kit: Any, cluster: Any, parents: Any, contents: Any, context: Context, *, scaled: bool) -> None:
        self.kit, self.cluster, self.context = kit, cluster, context
        self.web = kit.desired("web", "Deployment", stage=Stage.WORKLOAD, spec={"replicas": 2, "paused": False})
        self.hpa = self.autoscaler(kit)
        self.unit = kit.unit(self.web, *([self.hpa] if scaled else []))
        self.state = kit.state(self.unit)
        self.looks: list[bool] = []
        self.lease = True
        self.sightings = Sightings(
            self.state, context, look=lambda key, urgent: self.looks.append(urgent), touched=lambda key: None
        )
        self.work = unit_work(
            self.state,
            applier=cluster,
            parents=parents,
            contents=contents,
            context=context,
            sightings=self.sightings,
            may_write=self.may_write,
        )

    @staticmethod
    def autoscaler(kit: Any) -> Any:
        spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9}
        return kit.desired("web", "HorizontalPodAutoscaler", spec=spec)

    def may_write(self) -> bool:
        return self.lease

    async def run(self) -> Any:
        """One attempt; returns its outcome, and forgets the looks before it."""
        self.looks.clear()
        self.cluster.calls.clear()
        outcome = await self.work.run(self.kit.key)
        self.state.units[self.kit.key].outcome = outcome
        return outcome

    def assign(self, *objects: Any, content: str = "content-2", **more: Any) -> None:
        self.state.assign(self.kit.assignment(self.kit.unit(*objects, content=content, **more)))

    @property
    def live(self) -> Any:
        return self.cluster.objects[self.web.ref]

    def theirs(self, fields: dict[str, Any], manager: str, **more: Any) -> None:
        """Another manager writes, and the server moves ownership."""
        ours = next(e for e in self.live["metadata"]["managedFields"] if e["manager"] == self.kit.manager)
        for name, value in fields.items():
            self.live["spec"][name] = value
            ours["fieldsV1"]["f:spec"].pop(f"f:{name}", None)
        body = {"apiVersion": "apps/v1", "spec": fields}
        self.live["metadata"]["managedFields"].append(self.kit.entry(body, manager, **more))
        self.touch()

    def touch(self) -> None:
        version = int(self.live["metadata"]["resourceVersion"]) + 1
        self.live["metadata"]["resourceVersion"] = str(version)
        self.cluster._version = max(self.cluster._version, version)

    def see(self) -> None:
        self.sightings.declared_event(Changed(copy.deepcopy(self.live)))

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, name in self.cluster.calls if name == "web"]

    @property
    def left(self) -> list[tuple[Any, Why]]:
        return [(each.path, each.why) for each in self.state.left_out(self.web.ref)]

    @property
    def drifts(self) -> list[Any]:
        return self.state.units[self.kit.key].drifts


@pytest.fixture
def make(kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> Any:
    def story(*, scaled: bool = True, ownership: Ownership | None = None) -> Story:
        used = context if ownership is None else dataclasses.replace(context, ownership=ownership)
        return Story(kit, cluster, parents, contents, used, scaled=scaled)

    return story


def table(**rule: Any) -> Ownership:
    body = {"apiVersion": "gitops/v1alpha1", "kind": "OwnershipTable", "metadata": {"name": "mine"}}
    rules = [{"id": "one", "source": "a test", **rule}]
    return Ownership([OwnershipTable.model_validate({**body, "spec": {"rules": rules}})])


async def made(story: Story) -> None:
    """Applied, and let go."""
    await story.run()
    await story.run()
    story.looks.clear()


# -- handing over ----------------------------------------------------------------------------------------------------


async def test_made_whole_then_let_go_then_nothing_more(make: Any) -> None:
    story = make()
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs == ["dry-run", "dry-run", "apply", "apply"]
    assert "replicas" in story.live["spec"]
    assert story.left == [(REPLICAS, Why.HANDED_OVER)]
    assert story.looks, "what is to be let go is looked at again at once"
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs == ["get", "patch"]
    assert (await story.run()).state is SyncState.SYNCED
    assert (story.verbs, story.looks, story.drifts) == ([], [], [])


async def test_scaled_before_it_was_let_go(make: Any) -> None:
    """The autoscaler was faster: nothing is held any more, and nothing is written."""
    story = make()
    await story.run()
    story.theirs({"replicas": 7}, "kube-controller-manager", subresource="scale")
    story.see()
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs == []
    assert (story.live["spec"]["replicas"], story.drifts) == (7, [])


@pytest.mark.parametrize("times", [1, RELEASE_TRIES])
async def test_28_an_object_that_moves_under_the_release_is_read_again(make: Any, times: int) -> None:
    story = make()
    await story.run()
    left = [times]

    def before(verb: str, name: str) -> None:
        if verb == "patch" and left[0]:
            left[0] -= 1
            story.touch()

    story.cluster.before = before
    outcome = await story.run()
    assert story.verbs == ["get", "patch"] * min(times + 1, RELEASE_TRIES)
    assert outcome.state is (SyncState.SYNCED if times < RELEASE_TRIES else SyncState.RETRYING)
    assert "f:replicas" in str(story.live["metadata"]["managedFields"]) or times < RELEASE_TRIES
    assert (await story.run()).state is SyncState.SYNCED


@pytest.mark.parametrize("why", ["the Lease is lost", "paused"])
async def test_nothing_is_let_go_where_nothing_may_be_written(make: Any, why: str) -> None:
    story = make()
    await story.run()
    if why == "paused":
        story.assign(story.web, story.hpa, content="content-1", mode=Mode.PAUSED)
    else:
        story.cluster.before = lambda verb, name: setattr(story, "lease", False)
    await story.run()
    assert "patch" not in story.verbs
    assert "apply" not in story.verbs
    story.lease, story.cluster.before = True, lambda verb, name: None
    story.assign(story.web, story.hpa, content="content-1")
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs[-1] == "patch"


async def test_a_refused_release_stops_the_unit_before_anything_is_applied(make: Any, kit: Any) -> None:
    story = make()
    await story.run()
    story.cluster.faults["patch", "web"] = kit.error(ErrorClass.FORBIDDEN)
    changed = kit.desired("web", "Deployment", stage=Stage.WORKLOAD, spec={"replicas": 2, "paused": True})
    story.assign(changed, story.hpa)
    outcome = await story.run()
    assert (outcome.state, "let go" in outcome.sentence) == (SyncState.REFUSED, True)
    assert "apply" not in story.verbs


async def test_an_autoscaler_that_left_git_counts_until_it_is_gone_from_the_cluster(make: Any, kit: Any) -> None:
    story = make()
    await made(story)
    owning = story.sightings.owning
    live = {**story.hpa.body, "metadata": {**story.hpa.body["metadata"], "uid": "h", "resourceVersion": "1"}}
    owning.scaled(Changed(live))
    owning.scalers_known(True)
    story.theirs({"replicas": 7}, "kube-controller-manager", subresource="scale")
    story.see()
    story.assign(story.web)
    await story.run()
    assert story.left == [(REPLICAS, Why.HANDED_OVER)]
    story.looks.clear()
    owning.scaled(Deleted(live))
    assert story.looks == [False]
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs == ["get", "dry-run", "apply"]
    assert (story.left, story.live["spec"]["replicas"], story.drifts) == ([], 2, [])


async def test_where_autoscalers_cannot_be_listed_what_one_owns_is_its(make: Any) -> None:
    story = make(scaled=False)
    await made(story)
    story.theirs({"replicas": 7}, "kube-controller-manager", subresource="scale")
    story.see()
    assert (story.left, story.drifts) == ([(REPLICAS, Why.YIELDED)], [])
    story.sightings.owning.scalers_known(True)
    await story.run()
    assert (story.left, story.live["spec"]["replicas"]) == ([], 2), "none is there: its number is nobody's"


async def test_29_made_anew_it_is_made_whole(make: Any) -> None:
    story = make()
    await made(story)
    story.cluster.objects.pop(story.web.ref)
    story.state.objects[story.web.ref].suspect = True
    assert (await story.run()).state is SyncState.SYNCED
    assert story.verbs == ["get", "dry-run", "apply"]
    assert story.live["spec"]["replicas"] == 2
    await story.run()
    assert story.verbs == ["get", "patch"]


async def test_29_what_was_known_of_a_cluster_before_its_connection_was_lost_decides_nothing(make: Any) -> None:
    story = make()
    await made(story)
    story.state.forget_live()
    Owning(story.state, story.context, look=lambda key: None)
    assert story.left == []


# -- yielding and asking ---------------------------------------------------------------------------------------------


async def test_a_field_that_a_manager_takes_is_left_to_it_and_taken_back_when_given_up(make: Any) -> None:
    story = make(scaled=False, ownership=table(managers=["tuner"], answer="yield"))
    await made(story)
    story.theirs({"paused": True}, "tuner")
    story.see()
    assert (story.left, story.drifts) == ([(("spec", "paused"), Why.YIELDED)], [])
    await story.run()
    assert story.verbs == []
    story.live["metadata"]["managedFields"].pop()
    story.touch()
    story.see()
    assert story.looks
    await story.run()
    assert story.verbs == ["dry-run", "apply"]
    assert (story.left, story.live["spec"]["paused"], story.drifts) == ([], False, [])


async def test_31_what_was_left_out_after_a_look_is_applied_for_that_version_only(make: Any, kit: Any) -> None:
    story = make(scaled=False, ownership=table(managers=["tuner"], answer="yield"))
    await made(story)
    story.theirs({"paused": True}, "tuner")
    story.see()
    changed = kit.desired("web", "Deployment", stage=Stage.WORKLOAD, spec={"replicas": 3, "paused": False})
    story.assign(changed)

    def before(verb: str, name: str) -> None:
        if verb == "apply":
            story.cluster.before = lambda verb, name: None
            story.theirs({"replicas": 9}, "tuner")

    story.cluster.before = before
    outcome = await story.run()
    assert story.verbs == ["get", "dry-run", "apply"]
    assert (outcome.state, outcome.applied) == (SyncState.RETRYING, 0)
    assert (await story.run()).state is SyncState.SYNCED
    assert story.left == [(("spec", "paused"), Why.YIELDED), (REPLICAS, Why.YIELDED)], "nothing of it was overwritten"


async def test_31_an_object_that_is_met_is_applied_for_the_version_it_was_met_at_only(make: Any, kit: Any) -> None:
    """Somebody made it, a tuner has a field of it, and takes another one while it is taken over."""
    story = make(scaled=False, ownership=table(managers=["tuner"], answer="yield"))
    body = kit.live(story.web)
    body["metadata"] |= {"labels": {}, "annotations": {}}
    tuned = kit.entry({"apiVersion": "apps/v1", "spec": {"paused": True}}, "tuner")
    body["metadata"]["managedFields"] = [tuned]
    body["spec"]["paused"] = True
    story.cluster.objects[story.web.ref] = body
    taken = []

    def before(verb: str, name: str) -> None:
        if (verb, name) == ("apply", "web") and not taken:
            taken.append(True)
            story.live["spec"]["replicas"] = 9
            entry = kit.entry({"apiVersion": "apps/v1", "spec": {"replicas": 9}}, "tuner")
            story.live["metadata"]["managedFields"].append(entry)
            story.touch()

    story.cluster.before = before
    outcome = await story.run()
    assert (outcome.state, taken) == (SyncState.PENDING, []), "it is met, and what is the tuner's is left out"
    outcome = await story.run()
    assert (outcome.applied, taken) == (0, [True]), "nothing was overwritten"
    await story.run()
    assert story.left == [(("spec", "paused"), Why.YIELDED), (REPLICAS, Why.YIELDED)]


async def test_an_event_from_before_a_read_does_not_give_the_field_back(make: Any, kit: Any) -> None:
    story = make(scaled=False, ownership=table(managers=["tuner"], answer="yield"))
    await made(story)
    story.theirs({"paused": True}, "tuner")
    story.see()
    overtaken = copy.deepcopy(story.live)
    overtaken["metadata"]["managedFields"].pop()
    story.touch()
    story.state.objects[story.web.ref].suspect = True
    await story.run()
    story.sightings.declared_event(Changed(overtaken))
    assert (story.left, story.looks) == ([(("spec", "paused"), Why.YIELDED)], [])


async def test_what_is_read_twice_at_one_version_is_decided_twice(make: Any, kit: Any) -> None:
    """The object does not move between two reads, but an autoscaler comes and goes: a read is no echo of the first."""
    story = make(scaled=False)
    await made(story)
    owning = story.sightings.owning
    owning.scalers_known(True)
    live = {**story.hpa.body, "metadata": {**story.hpa.body["metadata"], "uid": "h", "resourceVersion": "1"}}
    story.theirs({"replicas": 7}, "kube-controller-manager", subresource="scale")
    owning.scaled(Changed(live))
    await story.run()
    assert (story.left, story.verbs) == ([(REPLICAS, Why.HANDED_OVER)], ["get"])
    owning.scaled(Deleted(live))
    await story.run()
    assert (story.left, story.live["spec"]["replicas"]) == ([], 2)


async def test_a_question_stands_beside_everything_else_and_does_not_hold_up_a_deletion(
    make: Any, kit: Any, parents: Any
) -> None:
    story = make(scaled=False, ownership=table(managers=["tuner"], answer="ask"))
    extra = kit.desired("extra")
    story.assign(story.web, extra)
    await made(story)
    story.theirs({"paused": True}, "tuner")
    story.see()
    assert story.looks == [False], "it is told at once"
    story.assign(story.web, content="content-3")
    outcome = await story.run()
    assert outcome.state is SyncState.CONFLICT
    assert "spec.paused has another value, of the manager tuner" in outcome.sentence
    assert outcome.retry_after is None
    assert (outcome.pruned, extra.ref in story.cluster.objects) == (1, False)
    assert parents.stored[kit.key].content_key == "content-3"
    # The manager comes to the value of Git by itself.
    story.live["spec"]["paused"] = False
    story.touch()
    story.see()
    assert (await story.run()).state is SyncState.SYNCED


# -- what it costs ---------------------------------------------------------------------------------------------------


async def test_a_change_in_git_is_read_for_only_where_somebody_may_have_a_claim(make: Any, kit: Any) -> None:
    story = make(scaled=False)
    await made(story)
    story.theirs({}, "kubectl-edit")
    story.see()
    changed = kit.desired("web", "Deployment", stage=Stage.WORKLOAD, spec={"replicas": 3, "paused": False})
    story.assign(changed)
    await story.run()
    assert story.verbs == ["dry-run", "apply"]


async def test_events_decide_anew_only_when_what_decides_moved(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    story = make()
    await made(story)
    decided: list[Any] = []
    owning = story.sightings.owning
    monkeypatch.setattr(owning, "_claims", lambda *a, f=owning._claims: decided.append(a) or f(*a))
    for number in range(5):
        story.live["status"] = {"replicas": number}
        story.touch()
        story.see()
    assert (decided, story.looks) == ([], [])
    story.theirs({"replicas": 5}, "kube-controller-manager", subresource="scale")
    story.see()
    assert len(decided) == 1


def test_an_object_that_is_here_beside_git_has_no_claims(make: Any, kit: Any) -> None:
    story = make(scaled=False, ownership=table(managers=["*"], answer="yield"))
    copied = kit.desired("copied")
    story.state.add(kit.key, [copied])
    record = story.state.record(copied)
    story.sightings.see(kit.key, copied, record, kit.edited(copied, level="x"))
    assert story.state.left_out(copied.ref) == ()
