"""Edits of what operators made: told when they stay, taken back when they do not, and nothing kept of all others."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops.cluster.reflecting import Changed, Deleted, Vanished
from gitops.manifests.canonical import canonical_json, digest
from gitops.model.identity import GroupVersionKind
from gitops.readiness.owners import ref_of
from gitops.reconcile.child_drift import HEALS_WITHIN, MOST_TOLD
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.sightings import Sightings
from gitops.report.drift import DriftKind, Repair
from gitops.report.drift_history import recalled
from tests.reconcile.conftest import Clock, unit_work
from tests.reconcile.unit_bench import Bench

Json = dict[str, Any]


class Scene:
    """A unit with one declared object, and what comes by the watches."""

    def __init__(self, kit: Any, context: Context, declared: Json) -> None:
        self.kit, self.clock = kit, context.wall
        base, body = kit.desired("web", declared["kind"]), copy.deepcopy(declared)
        for name in ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"):
            body["metadata"].pop(name, None)
        gvk = GroupVersionKind.parse(declared["apiVersion"], declared["kind"])
        payload = canonical_json({k: v for k, v in body.items() if k != "status"})
        self.desired = dataclasses.replace(base, ref=ref_of(declared), gvk=gvk, payload=payload, digest=digest(payload))
        self.state = kit.state(kit.unit(self.desired), records=[kit.record(self.desired)])
        self.looks: list[Any] = []
        self.sightings = Sightings(
            self.state, context, look=lambda key, urgent: self.looks.append(key), touched=lambda key: None
        )

    def event(self, type_: str, obj: Json) -> None:
        event = Deleted(obj) if type_ == "DELETED" else Changed(obj)
        own = ref_of(obj) == self.desired.ref
        (self.sightings.declared_event if own else self.sightings.child_event)(event)

    def told(self) -> list[str]:
        notes, _ = self.sightings.children.tell(self.state.unit(self.kit.key))  # type: ignore[arg-type]
        return notes

    @property
    def drifts(self) -> list[Any]:
        return [d for d in self.state.units[self.kit.key].drifts if d.kind is DriftKind.CHILD]


def recorded(shared: Path, name: str) -> Iterator[tuple[float, str, Json]]:
    with gzip.open(shared / "recordings" / f"{name}.jsonl.gz") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["t"], row["type"], row["object"]


def played(shared: Path, kit: Any, context: Context, clock: Clock, name: str, kind: str) -> tuple[Scene, list[Any]]:
    """A recording through the sightings, with a look at every event and every second; (t, what is told) when it
    changes."""
    started, scene, story = clock.now, None, []
    for t, type_, obj in recorded(shared, name):
        if scene is None and obj["kind"] == kind:
            scene = Scene(kit, context, obj)
        if scene is None:
            continue
        while clock.now < started + t:
            clock.now = min(clock.now + 1.0, started + t)
            if (now := scene.told()) != (story[-1][1] if story else []):
                story.append((round(clock.now - started, 1), now))
        scene.event(type_, obj)
    assert scene is not None
    return scene, story


@pytest.mark.upstream
def test_nim_an_edit_of_the_generated_deployment_that_the_operator_does_not_put_back_is_told(
    shared: Path, kit: Any, context: Context, clock: Clock
) -> None:
    """At 45 s; its CR stays Ready. The Service that is deleted at 51 s comes back, and is no edit."""
    scene, story = played(shared, kit, context, clock, "nim-service", "NIMService")
    [(told_at, [sentence]), (over_at, [])] = story
    assert 45.0 + HEALS_WITHIN <= told_at <= 47.0 + HEALS_WITHIN
    assert over_at > 97, "until the service was deleted"
    assert sentence.endswith(
        "llama, made by an operator, was edited by kubectl-set and not put back: "
        "spec.template.spec.containers[name=llama-ctr].image"
    )
    [drift] = scene.drifts
    assert (drift.object.kind, drift.manager, drift.operation) == ("Deployment", "kubectl-set", "Update")
    assert drift.declared_at == scene.desired.origin
    assert "which an operator made of what is declared at" in drift.sentence


@pytest.mark.upstream
def test_n02_dynamo_puts_its_deployment_back_and_nothing_is_told(
    shared: Path, kit: Any, context: Context, clock: Clock
) -> None:
    scene, story = played(shared, kit, context, clock, "dynamo-graph", "DynamoGraphDeployment")
    assert (story, scene.drifts, len(scene.sightings.children)) == ([], [], 0)
    assert scene.looks.count(kit.key) >= 1


# -- by hand ---------------------------------------------------------------------------------------------------------

OWNER: Json = {
    "apiVersion": "apps.nvidia.com/v1alpha1",
    "kind": "NIMCache",
    "metadata": {"name": "llama", "namespace": "shop", "uid": "uid-llama", "resourceVersion": "5", "managedFields": []},
}


def child(name: str = "llama", *, edited: bool, image: str = "evil") -> Json:
    def entry(manager: str, **tree: Any) -> Json:
        return {"manager": manager, "operation": "Update", "apiVersion": "batch/v1", "fieldsV1": tree}

    fields = {"f:spec": {"f:image": {}}}
    made = entry("nim-operator", **{"f:metadata": {"f:ownerReferences": {}}, **({} if edited else fields)})
    owner = {"uid": "uid-llama", "kind": "NIMCache", "name": "llama", "controller": True}
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}-job",
        "resourceVersion": "6",
        "ownerReferences": [owner],
        "managedFields": [made, *([entry("kubectl-edit", **fields)] if edited else [])],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"image": image}}


@pytest.fixture
def scene(kit: Any, context: Context) -> Scene:
    made = Scene(kit, context, OWNER)
    made.event("ADDED", OWNER)
    made.looks.clear()
    return made


def test_an_edit_is_looked_at_and_told_when_it_stays(scene: Scene, clock: Clock, kit: Any) -> None:
    scene.event("MODIFIED", child(edited=True))
    assert scene.looks == [kit.key]
    notes, again = scene.sightings.children.tell(scene.state.unit(kit.key))  # type: ignore[arg-type]
    assert (notes, again) == ([], HEALS_WITHIN)
    clock.now += HEALS_WITHIN
    assert len(scene.told()) == 1
    assert [d.repaired for d in scene.drifts] == [Repair.REPORTED]
    scene.told()
    assert len(scene.drifts) == 1, "once"


@pytest.mark.parametrize("how", ["healed", "deleted", "vanished"])
def test_what_is_put_back_or_gone_is_told_no_more(scene: Scene, clock: Clock, kit: Any, how: str) -> None:
    scene.event("MODIFIED", child(edited=True))
    clock.now += HEALS_WITHIN
    assert scene.told()
    scene.looks.clear()
    if how == "healed":
        scene.event("MODIFIED", child(edited=False))
    elif how == "deleted":
        scene.event("DELETED", child(edited=True))
    else:
        scene.sightings.child_event(Vanished(ref_of(child(edited=True)), "uid-llama-job"))
    assert (scene.told(), scene.looks, len(scene.sightings.children)) == ([], [kit.key], 0)
    assert [d.repaired for d in scene.drifts] == [Repair.REVERTED]


def test_another_edit_is_told_anew_and_a_status_write_beside_it_is_not(scene: Scene, clock: Clock) -> None:
    scene.event("MODIFIED", child(edited=True))
    clock.now += HEALS_WITHIN
    scene.told()
    scene.event("MODIFIED", {**child(edited=True), "status": {"active": 1}})
    assert scene.told()
    scene.event("MODIFIED", child(edited=True, image="worse"))
    assert scene.told() == []
    clock.now += HEALS_WITHIN
    assert scene.told()
    [drift] = scene.drifts
    assert (drift.live, drift.count, drift.repaired) == ("worse", 2, Repair.REPORTED)


@pytest.mark.parametrize("still", [True, False])
def test_what_a_file_told_before_a_restart_goes_on_or_is_over(
    scene: Scene, clock: Clock, kit: Any, context: Context, still: bool
) -> None:
    scene.event("MODIFIED", child(edited=True))
    clock.now += HEALS_WITHIN
    scene.told()
    (told,) = scene.drifts
    again = Scene(kit, context, OWNER)
    again.state.units[kit.key].drifts = recalled([told], [], settled=lambda ref: True, at=context.moment())
    again.event("ADDED", OWNER)
    again.event("ADDED", child(edited=still))
    _, later = again.sightings.children.tell(again.state.unit(kit.key))  # type: ignore[arg-type]
    assert later == HEALS_WITHIN
    assert [d.repaired for d in again.drifts] == [Repair.REPORTED], "not known yet"
    clock.now += HEALS_WITHIN
    assert len(again.told()) == still
    assert [(d.repaired, d.count) for d in again.drifts] == [(Repair.REPORTED if still else Repair.REVERTED, 1)]


def test_children_may_come_before_the_object_they_belong_to(kit: Any, context: Context, clock: Clock) -> None:
    scene = Scene(kit, context, OWNER)
    scene.event("ADDED", child(edited=True))
    assert scene.looks == []
    clock.now += HEALS_WITHIN
    assert scene.told() == []
    scene.event("ADDED", OWNER)
    assert kit.key in scene.looks
    assert scene.told()


def test_a_unit_s_sentence_names_a_bounded_number(scene: Scene, clock: Clock) -> None:
    for number in range(30):
        scene.event("MODIFIED", child(f"job{number}", edited=True))
        scene.event("MODIFIED", child(f"fine{number}", edited=False))
    assert len(scene.sightings.children) == 30, "nothing of those that nobody edited"
    clock.now += HEALS_WITHIN
    told = scene.told()
    assert (len(told), told[-1]) == (MOST_TOLD + 1, f"{30 - MOST_TOLD} more objects of operators are edited")


async def test_an_edited_child_is_in_the_unit_s_status_and_never_written(
    bench: Bench, kit: Any, context: Context, clock: Clock
) -> None:
    web = kit.desired("llama")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    sightings = Sightings(state, context, look=lambda key, urgent: None, touched=lambda key: None)
    work = unit_work(
        state,
        applier=bench.cluster,
        parents=bench.parents,
        contents=bench.contents,
        context=context,
        sightings=sightings,
    )
    sightings.declared_event(Changed(kit.live(web)))
    sightings.child_event(Changed(child(edited=True)))
    assert (await work.run(kit.key)).retry_after == HEALS_WITHIN
    clock.now += HEALS_WITHIN
    outcome = await work.run(kit.key)
    assert outcome.state is SyncState.SYNCED
    assert outcome.sentence == (
        "Job.batch shop/llama, made by an operator, was edited by kubectl-edit and not put back: spec.image"
    )
    assert bench.cluster.calls == []
