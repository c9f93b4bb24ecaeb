"""What a digest of ownership cannot see, and what it sees that is no drift. Numbers in names are items of the facts
about server-side apply (ssa-live); those about versions and schemas are in test_moved_versions_live.py, about state in
the way of a repair in test_unblocking_live.py."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit, managers
from cluster_kit.webhook import Webhook
from controlplane_kit.client import APPLY, MERGE, ApiServer

from gitops.cluster.fields import entry_digest
from gitops.manifests.sanitizing import prepare_body
from gitops.model.identity import GroupVersionKind
from gitops.plan.units import RECONCILER_LABEL
from gitops.reconcile.fights import FightLimits
from gitops.reconcile.others_fields import left_to_others
from gitops.reconcile.outcomes import SyncState
from gitops.report.drift import DriftRecord, Repair

pytestmark = pytest.mark.controlplane

JSON_PATCH = "application/json-patch+json"
Json = dict[str, Any]


def config_map(namespace: str, **data: str) -> Json:
    metadata = {"name": "settings", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def gadget(namespace: str, **spec: Any) -> Json:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": "test.gitops.example/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}


def deployment(namespace: str, **more: Any) -> Json:
    """Of one container; `more` goes into the spec of its pods."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "app", "image": "example/app:1"}], **more}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def path_of(body: Json) -> str:
    """Where the API server has an object of the kinds of these tests."""
    version, kind = body["apiVersion"], body["kind"]
    plural = {"NetworkPolicy": "networkpolicies"}.get(kind, f"{kind.lower()}s")
    base = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{base}/namespaces/{body['metadata']['namespace']}/{plural}/{body['metadata']['name']}"


def edit(api: ApiServer, body: Json, patch: Json, *, manager: str = "kubectl-edit", status: bool = False) -> None:
    path = path_of(body) + ("/status" if status else "")
    api.request("PATCH", path, patch, content_type=MERGE, query={"fieldManager": manager})


def applied_as(api: ApiServer, body: Json, manager: str) -> None:
    api.request("PATCH", path_of(body), body, content_type=APPLY, query={"fieldManager": manager, "force": "true"})


def touch(api: ApiServer, body: Json) -> Json:
    """Somebody writes something else of the object; the object as it is then."""
    number = str(time.monotonic_ns())
    edit(api, body, {"metadata": {"annotations": {"other": number}}}, manager="operator")
    found: Json = api.get(path_of(body))
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Repeated until it is true: the API server learns of a webhook by a watch. In a thread, as our loop serves it."""
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(condition):
            pass


def told(unit: LiveUnit) -> list[tuple[str, str, Repair]]:
    return [(d.path, d.by, d.repaired) for d in records(unit)]


def records(unit: LiveUnit) -> list[DriftRecord]:
    return unit.state.units[unit.key].drifts


ADMISSION = "an admission webhook, or a writer under our name"


# -- values that move under our ownership ----------------------------------------------------------------------------


async def test_2_3_admission_that_changes_a_value_in_passing(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, webhook: Webhook
) -> None:
    """A ConfigMap has no generation either: only its values tell."""
    body = config_map(namespace, level="ours", size="5")
    await live_unit.settled(body)
    webhook.patch = [{"op": "replace", "path": "/data/level", "value": "theirs"}]
    await until(lambda: touch(shared_api, body)["data"]["level"] == "theirs")
    before = shared_api.get(path_of(body))
    outcome = await live_unit.see()

    # Our repair is overridden as well: told, not tried again for a while, and not taken for what Git wants.
    assert (outcome.applied, outcome.repaired, outcome.retry_after) == (1, 0, pytest.approx(60, abs=5))
    assert told(live_unit) == [("data.level", ADMISSION, Repair.OVERRIDDEN)]
    assert shared_api.get(path_of(body))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (await live_unit.see()).applied == 0
    await asyncio.to_thread(touch, shared_api, body)
    assert (await live_unit.see()).applied == 0
    assert len(told(live_unit)) == 1

    # A third value is drift, although what we write is overridden again.
    webhook.patch = [{"op": "replace", "path": "/data/level", "value": "third"}]
    await asyncio.to_thread(touch, shared_api, body)
    webhook.patch = [{"op": "replace", "path": "/data/level", "value": "theirs"}]
    assert (await live_unit.see()).applied == 1
    assert [(d.repaired, d.live, d.count) for d in records(live_unit)] == [(Repair.OVERRIDDEN, "third", 2)]

    # Beside it everything is repaired as ever, and when admission lets go, so is this.
    await asyncio.to_thread(edit, shared_api, body, {"data": {"size": "7"}})
    await live_unit.see()
    assert told(live_unit)[1:] == [("data.size", "kubectl-edit (Update)", Repair.REPAIRED)]
    webhook.patch = []
    await asyncio.to_thread(edit, shared_api, body, {"data": {"level": "typed"}})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.repaired) == (SyncState.SYNCED, 1)
    assert shared_api.get(path_of(body))["data"] == {"level": "ours", "size": "5"}


async def test_3_what_admission_makes_of_a_new_object_is_told_and_repaired_when_the_rule_is_gone(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells that it went: no event, and until then every apply is answered with 200 and stores nothing."""
    monkeypatch.setattr(FightLimits, "pause", lambda limits, rounds: 0.1)
    webhook.patch = [{"op": "replace", "path": "/data/level", "value": "theirs"}]
    probe = config_map(namespace, level="probe")
    probe["metadata"]["name"] = "probe"
    await asyncio.to_thread(applied_as, shared_api, probe, "probe")
    await until(lambda: touch(shared_api, probe)["data"]["level"] == "theirs")
    body = config_map(namespace, level="ours", size="5")
    outcome = await live_unit.declare(body)
    sentence = 'declared "ours" (bundles/test/manifests.yaml:1), overridden by admission'
    assert (outcome.state, sentence in outcome.sentence) == (SyncState.SYNCED, True)
    assert told(live_unit) == [("data.level", ADMISSION, Repair.OVERRIDDEN)]
    version = shared_api.get(path_of(body))["metadata"]["resourceVersion"]
    for _ in range(2):
        while not (outcome := await live_unit.work()).applied:
            pass
    assert shared_api.get(path_of(body))["metadata"]["resourceVersion"] == version
    webhook.patch = []
    while not (outcome := await live_unit.work()).repaired:
        pass
    assert shared_api.get(path_of(body))["data"] == {"level": "ours", "size": "5"}
    assert (outcome.sentence, outcome.retry_after) == ("as declared", None)
    assert told(live_unit) == [("data.level", ADMISSION, Repair.REPAIRED)]


async def test_2_admission_that_changes_an_annotation_during_a_write_of_status(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, webhook: Webhook
) -> None:
    """Neither our entry nor the generation moves."""
    body = deployment(namespace)
    body["metadata"]["annotations"] = {"team": "ours"}
    await live_unit.settled(body)
    before = shared_api.get(path_of(body))
    webhook.kind, webhook.patch = "Deployment", [{"op": "replace", "path": "/metadata/annotations/team", "value": "x"}]

    def write_status() -> Json:
        edit(shared_api, body, {"status": {"replicas": 1}}, manager="operator", status=True)
        edit(shared_api, body, {"status": {"replicas": 0}}, manager="operator", status=True)
        found: Json = shared_api.get(path_of(body))
        return found

    await until(lambda: write_status()["metadata"]["annotations"]["team"] == "x")
    webhook.patch = []
    live = shared_api.get(path_of(body))
    assert live["metadata"]["generation"] == before["metadata"]["generation"]
    assert entry_digest(live, live_unit.state.manager) == entry_digest(before, live_unit.state.manager)
    assert (await live_unit.see()).repaired == 1
    assert told(live_unit) == [("metadata.annotations.team", ADMISSION, Repair.REPAIRED)]


async def test_4_another_client_applies_under_our_name(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Our entry may stay as it was to the byte, or lose everything: values tell, and then the label."""
    body = config_map(namespace, a="1", b="2")
    await live_unit.settled(body)
    live = shared_api.get(path_of(body))
    ours = {**body, "metadata": {k: live["metadata"][k] for k in ("name", "namespace", "labels")}}
    applied_as(shared_api, {**ours, "data": {"a": "theirs", "b": "2"}}, live_unit.state.manager)
    assert (await live_unit.see()).repaired == 1
    assert told(live_unit) == [("data.a", ADMISSION, Repair.REPAIRED)]

    # More than we declare: gone without a word, since nothing that Git declares was another.
    applied_as(shared_api, {**ours, "data": {"a": "1", "b": "2", "c": "3"}}, live_unit.state.manager)
    assert (await live_unit.see()).applied == 1
    assert shared_api.get(path_of(body))["data"] == {"a": "1", "b": "2"}
    assert len(told(live_unit)) == 1

    # Nothing at all: it wipes the object and takes it out of our watch.
    applied_as(shared_api, {k: body[k] for k in ("apiVersion", "kind", "metadata")}, live_unit.state.manager)
    wiped = shared_api.get(path_of(body))
    assert (wiped.get("data"), wiped["metadata"].get("labels")) == (None, None)
    outcome = await live_unit.see()
    live = shared_api.get(path_of(body))
    assert (outcome.state, outcome.applied) == (SyncState.SYNCED, 1)
    assert live["data"] == {"a": "1", "b": "2"}
    assert live["metadata"]["labels"][RECONCILER_LABEL] == "test"
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    assert (await live_unit.see()).applied == 0


# -- ownership that moves under our values ---------------------------------------------------------------------------


async def test_6_a_status_write_takes_our_label_out_of_our_entry(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, gadgets: GroupVersionKind
) -> None:
    """The value stays, so nobody is told; each time one apply, which the fight breaker counts."""
    body = gadget(namespace, title="ours")
    body["metadata"]["annotations"] = {"team": "a"}
    await live_unit.settled(body)

    def write_status(number: int) -> None:
        live = shared_api.get(path_of(body))
        live["metadata"]["labels"] = {"other": str(number)}
        live["metadata"]["annotations"] = {"other": str(number)}
        live["status"] = {"phase": str(number)}
        del live["metadata"]["managedFields"]
        shared_api.request("PUT", path_of(body) + "/status", live, query={"fieldManager": "operator"})

    limit = int(live_unit.context.options.fights.limit)
    for number in range(limit + 2):
        write_status(number)
        live = shared_api.get(path_of(body))
        assert live["metadata"]["annotations"] == {"team": "a"}, "metadata is not what a status write writes"
        outcome = await live_unit.see()
        assert outcome.state is SyncState.SYNCED
        if not outcome.applied:
            break
        assert (await live_unit.see()).applied == 0
    assert limit <= number <= limit + 1, "given up, as every fight; the heat decays a little between two repairs"
    assert told(live_unit) == []


# -- empties ---------------------------------------------------------------------------------------------------------


async def test_10_foreign_children_of_a_declared_empty_map_stay_and_nothing_loops(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    web = deployment(namespace, securityContext={}, volumes=[{"name": "scratch", "emptyDir": {}}])
    policy: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "all", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    empty: Json = {**config_map(namespace), "data": {}}
    await live_unit.settled(web, policy, empty)
    child = [
        {"op": "add", "path": "/spec/template/spec/securityContext/runAsUser", "value": 7},
        {"op": "add", "path": "/spec/template/spec/volumes/0/emptyDir/sizeLimit", "value": "1Gi"},
    ]
    shared_api.request("PATCH", path_of(web), child, content_type=JSON_PATCH, query={"fieldManager": "kubectl-edit"})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied, told(live_unit)) == (SyncState.SYNCED, 0, [])

    # The server does not store this one as long as it is empty: it is taken from us once, and then it is as the others.
    edit(shared_api, empty, {"data": {"theirs": "1"}})
    assert (await live_unit.see()).applied == 1
    edit(shared_api, empty, {"data": {"theirs": "2"}})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied, told(live_unit)) == (SyncState.SYNCED, 0, [])

    # An atomic map is one value, also when it is empty.
    edit(shared_api, policy, {"spec": {"podSelector": {"matchLabels": {"app": "web"}}}})
    assert (await live_unit.see()).applied == 1
    assert told(live_unit) == [("spec.podSelector", "kubectl-edit (Update)", Repair.REPAIRED)]
    assert shared_api.get(path_of(policy))["spec"]["podSelector"] == {}
    assert shared_api.get(path_of(empty))["data"] == {"theirs": "2"}


async def test_11_12_empties_are_stripped_or_own_nothing_and_no_apply_is_a_write(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    policy: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "all", "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": {}}, "policyTypes": ["Ingress"], "ingress": []},
    }
    web = deployment(namespace)
    web["spec"]["template"]["spec"]["containers"][0]["env"] = []
    bodies = [prepare_body(body)[0] for body in (policy, web)]
    await live_unit.settled(*bodies)
    before = [shared_api.get(path_of(body)) for body in bodies]
    for body in bodies:
        assert (await live_unit.applier.apply(live_unit.desired(body))).error is None
    assert [shared_api.get(path_of(body)) for body in bodies] == before
    env = [{"op": "add", "path": "/spec/template/spec/containers/0/env", "value": [{"name": "A", "value": "1"}]}]
    shared_api.request("PATCH", path_of(web), env, content_type=JSON_PATCH, query={"fieldManager": "kubectl-edit"})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied, told(live_unit)) == (SyncState.SYNCED, 0, [])


# -- who did it ------------------------------------------------------------------------------------------------------


async def test_16_after_many_writers_nobody_is_blamed_rather_than_the_wrong_one(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """The API server keeps ten Update entries and merges older ones into `ancient-changes`."""
    body = config_map(namespace, a="1")
    await live_unit.settled(body)
    edit(shared_api, body, {"data": {"a": "typed"}}, manager="culprit")
    for number in range(11):
        edit(shared_api, body, {"data": {f"theirs-{number}": "x"}}, manager=f"writer-{number}")
    assert ("ancient-changes", "Update") in managers(shared_api.get(path_of(body)))
    assert (await live_unit.see()).repaired == 1
    assert told(live_unit) == [("data.a", "unknown", Repair.REPAIRED)]


# -- what came and went ----------------------------------------------------------------------------------------------


async def test_a_change_that_is_undone_before_we_act_leaves_no_write_and_no_open_report(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    one, two = ({"name": name, "image": f"example/{name}:1"} for name in ("one", "two"))
    body = deployment(namespace, initContainers=[one, two])
    await live_unit.settled(body)
    live = shared_api.get(path_of(body))

    def put(*order: Json) -> None:
        changed = copy.deepcopy(live)
        changed["spec"]["template"]["spec"]["initContainers"] = list(order)
        for each in ("managedFields", "resourceVersion"):
            del changed["metadata"][each]
        shared_api.request("PUT", path_of(body), changed, query={"fieldManager": "kubectl-edit"})

    put(two, one)
    await live_unit.look()
    assert [outcome for _, _, outcome in told(live_unit)] == [Repair.PENDING]
    put(one, two)
    await live_unit.look()
    assert (await live_unit.work()).applied == 0
    assert [outcome for _, _, outcome in told(live_unit)] == [Repair.REVERTED]

    # Where ownership was lost on the way it is taken back, without another word.
    live = shared_api.get(path_of(body))
    image = {"spec": {"template": {"spec": {"initContainers": [{**one, "image": "example/evil:1"}, two]}}}}
    edit(shared_api, body, image)
    await live_unit.look()
    put(one, two)
    await live_unit.look()
    outcome = await live_unit.work()
    assert (outcome.state, outcome.applied) == (SyncState.SYNCED, 1)
    assert [outcome for _, _, outcome in told(live_unit)] == [Repair.REVERTED, Repair.REVERTED]


async def test_33_an_object_that_was_away_is_judged_by_what_it_is_when_it_comes_back(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Relabelled out of the watch, changed there, and put back by the same hands before we looked; then another one."""
    body = config_map(namespace, a="1", b="2")
    await live_unit.settled(body)
    before = shared_api.get(path_of(body))
    labels = before["metadata"]["labels"]
    live_unit.left(before)
    edit(shared_api, body, {"metadata": {"labels": {RECONCILER_LABEL: None}}, "data": {"a": "away"}})
    edit(shared_api, body, {"metadata": {"labels": labels}})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied) == (SyncState.SYNCED, 1)
    assert told(live_unit) == [("data.a", "kubectl-edit (Update)", Repair.REPAIRED)]

    # Deleted, and made again by somebody else with our labels: another object, adopted and not repaired.
    live_unit.left(shared_api.get(path_of(body)))
    shared_api.request("DELETE", path_of(body))
    shared_api.request(
        "POST",
        path_of(body).rpartition("/")[0],
        {**body, "metadata": {**body["metadata"], "labels": labels}, "data": {"a": "made"}},
        query={"fieldManager": "kubectl-create"},
    )
    outcome = await live_unit.see()
    live = shared_api.get(path_of(body))
    assert (outcome.state, live["data"]) == (SyncState.SYNCED, {"a": "1", "b": "2"})
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    assert (await live_unit.see()).applied == 0


# -- what is not to be drift -----------------------------------------------------------------------------------------


async def test_fields_that_git_ignores_are_left_to_whoever_writes_them(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    body = deployment(namespace)
    body["metadata"]["annotations"] = {"example.com/owner": "git"}
    body["spec"]["replicas"] = 2
    plain = copy.deepcopy(body)
    body["metadata"]["annotations"]["gitops/ignore-drift"] = (
        "/spec/replicas, /spec/template/spec/containers/app/image, /metadata/annotations/example.com~1owner"
    )
    await live_unit.settled(body)
    made = shared_api.get(path_of(body))
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (2, 1), "made whole"
    edit(shared_api, body, {"spec": {"replicas": 5}, "metadata": {"annotations": {"example.com/owner": None}}})
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example/app:2"}]
    shared_api.request("PATCH", path_of(body), image, content_type=JSON_PATCH, query={"fieldManager": "kubectl-edit"})
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied, told(live_unit)) == (SyncState.SYNCED, 0, [])
    unit = live_unit.state.unit(live_unit.key)
    assert unit is not None
    assert [text.partition("web ")[2] for text in left_to_others(live_unit.state, unit)] == [
        'metadata.annotations["example.com/owner"]: ignored, by gitops/ignore-drift',
        "spec.replicas: ignored, by gitops/ignore-drift",
        "spec.template.spec.containers[name=app].image: ignored, by gitops/ignore-drift",
    ]

    # Beside them everything is repaired and applied as ever, also by a daemon that knows nothing yet.
    live_unit.forget()
    await live_unit.see()
    body["spec"]["minReadySeconds"] = 3
    await live_unit.settled(copy.deepcopy(body))
    edit(shared_api, body, {"spec": {"minReadySeconds": 7}})
    assert (await live_unit.see()).repaired == 1
    live = shared_api.get(path_of(body))
    assert (live["spec"]["replicas"], live["spec"]["minReadySeconds"]) == (5, 3)
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "example/app:2"
    assert "example.com/owner" not in live["metadata"]["annotations"]

    # Not ignored any more, they are Git's again.
    await live_unit.settled(plain)
    live = shared_api.get(path_of(body))
    assert live["spec"]["replicas"] == 2
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "example/app:1"
    assert live["metadata"]["annotations"]["example.com/owner"] == "git"
    assert [path for path, _, _ in told(live_unit)] == ["spec.minReadySeconds"]


async def test_d07_a_restart_is_no_drift(live_unit: LiveUnit, shared_api: ApiServer, namespace: str) -> None:
    """Also where Git declares other annotations of the pods; and a later change of Git leaves the stamp."""
    body = deployment(namespace)
    body["spec"]["template"]["metadata"]["annotations"] = {"example.com/mine": "1"}
    await live_unit.settled(copy.deepcopy(body))
    shared_api.kubectl("-n", namespace, "rollout", "restart", "deployment/web")
    finalizer = {"metadata": {"finalizers": ["example.com/keep"], "annotations": {"deployment.kubernetes.io/x": "1"}}}
    edit(shared_api, body, finalizer, manager="operator")
    outcome = await live_unit.see()
    assert (outcome.state, outcome.applied, told(live_unit)) == (SyncState.SYNCED, 0, [])
    stamped = shared_api.get(path_of(body))["spec"]["template"]["metadata"]["annotations"]
    assert stamped.keys() == {"example.com/mine", "kubectl.kubernetes.io/restartedAt"}
    body["spec"]["template"]["metadata"]["annotations"]["example.com/mine"] = "2"
    await live_unit.settled(body)
    live = shared_api.get(path_of(body))
    assert live["spec"]["template"]["metadata"]["annotations"] == {**stamped, "example.com/mine": "2"}
    assert live["metadata"]["finalizers"] == ["example.com/keep"]
    assert live["metadata"]["annotations"]["deployment.kubernetes.io/x"] == "1"
    edit(shared_api, body, {"metadata": {"finalizers": None}})
