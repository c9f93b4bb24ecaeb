"""Live state in the way of an apply, on a real API server: mended, reported, or told."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit, managers
from controlplane_kit.client import APPLY, MERGE, ApiServer

from gitops.reconcile.outcomes import SyncState

pytestmark = pytest.mark.controlplane

JSON_PATCH = "application/json-patch+json"
Json = dict[str, Any]


def service(namespace: str, *ports: Json, name: str = "web", kind: str = "ClusterIP") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": kind, "selector": {"app": "web"}, "ports": list(ports)},
    }


def deployment(namespace: str, **more: Any) -> Json:
    """Of one container; `more` goes into the spec of its pods."""
    pod = {"containers": [{"name": "c", "image": "x"}], **more}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }


def at(namespace: str, name: str = "web") -> str:
    return f"/api/v1/namespaces/{namespace}/services/{name}"


def edit(api: ApiServer, path: str, *operations: Json, manager: str = "kubectl-patch") -> None:
    api.request("PATCH", path, list(operations), content_type=JSON_PATCH, query={"fieldManager": manager})


def replace(path: str, value: Any) -> Json:
    return {"op": "replace", "path": path, "value": value}


HTTP, METRICS = {"name": "http", "port": 80}, {"name": "metrics", "port": 9090}


@pytest.mark.parametrize(
    "ports", [(HTTP,), (METRICS, HTTP), (HTTP, METRICS), ({"port": 80},)], ids=["one", "last", "first", "nameless"]
)
async def test_14_a_port_that_got_another_number_comes_back(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, ports: tuple[Json, ...]
) -> None:
    await live_unit.settled(service(namespace, *ports))
    where = [p["port"] for p in ports].index(80)
    edit(shared_api, at(namespace), replace(f"/spec/ports/{where}/port", 8080))
    outcome = await live_unit.see()
    live = shared_api.get(at(namespace))
    assert outcome.state is SyncState.SYNCED, outcome
    assert [(p.get("name"), p["port"]) for p in live["spec"]["ports"]] == [(p.get("name"), p["port"]) for p in ports]
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    told = [d for d in live_unit.drifts() if d.startswith("spec.ports[port=8080,protocol=TCP]")]
    assert len(told) == 1
    assert "by kubectl-patch (Update); repaired" in told[0]
    # and what Git drops afterwards goes
    await live_unit.settled(service(namespace, {"name": "other", "port": 81}))
    assert [p["port"] for p in shared_api.get(at(namespace))["spec"]["ports"]] == [81]


async def test_14_also_where_managed_fields_were_wiped(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Nothing tells then that the port was ours, nor what the key of the list is."""
    await live_unit.settled(service(namespace, HTTP, METRICS))
    edit(shared_api, at(namespace), replace("/spec/ports/0/port", 8080), replace("/metadata/managedFields", [{}]))
    outcome = await live_unit.see()
    live = shared_api.get(at(namespace))
    assert outcome.state is SyncState.SYNCED, outcome
    assert [(p["name"], p["port"]) for p in live["spec"]["ports"]] == [("http", 80), ("metrics", 9090)]
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    told = [d for d in live_unit.drifts() if d.startswith("spec.ports[name=http] ")]
    assert len(told) == 1
    assert "repaired" in told[0]


async def test_14_also_together_with_a_change_in_git_and_beside_ports_of_others(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    await live_unit.settled(service(namespace, HTTP))
    edit(shared_api, at(namespace), replace("/spec/ports/0/port", 8080))
    edit(
        shared_api,
        at(namespace),
        {"op": "add", "path": "/spec/ports/-", "value": {"name": "x", "port": 1}},
        manager="o",
    )
    changed = service(namespace, HTTP)
    changed["metadata"]["annotations"] = {"new": "1"}
    await live_unit.declare(changed)
    outcome = await live_unit.see()
    live = shared_api.get(at(namespace))
    assert outcome.state is SyncState.SYNCED, outcome
    assert [(p["name"], p["port"]) for p in live["spec"]["ports"]] == [("http", 80), ("x", 1)]


async def test_14_what_another_declares_is_left_and_the_object_is_blocked(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    await live_unit.settled(service(namespace, HTTP))
    edit(shared_api, at(namespace), replace("/spec/ports/0/port", 8080))
    theirs = {**service(namespace, {"name": "http", "port": 8080, "protocol": "TCP"})}
    del theirs["spec"]["selector"]
    query = {"fieldManager": "someone-who-applies", "force": "true"}
    shared_api.request("PATCH", at(namespace), theirs, content_type=APPLY, query=query)
    outcome = await live_unit.see()
    assert (outcome.state, outcome.retry_after is not None) == (SyncState.BLOCKED, True)
    assert "Duplicate value" in outcome.sentence
    assert [p["port"] for p in shared_api.get(at(namespace))["spec"]["ports"]] == [8080]


async def test_14_the_same_in_a_custom_resource(live_unit: LiveUnit, shared_api: ApiServer, namespace: str) -> None:
    unique = "self.all(a, self.exists_one(b, b.name == a.name))"
    rule = {"rule": unique, "message": "names are unique", "reason": "FieldValueDuplicate"}
    item = {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer"}, "name": {"type": "string", "maxLength": 9}},
    }
    listeners = {
        "type": "array",
        "maxItems": 9,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "x-kubernetes-validations": [rule],
    }
    group = "unblocking.gitops.example"
    shared_api.create_crd_objects([definition(group, {"listeners": listeners})])
    await live_unit.settled(thing(group, namespace, listeners=[{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]))
    path = f"/apis/{group}/v1/namespaces/{namespace}/things/one"
    edit(shared_api, path, replace("/spec/listeners/1/port", 3))
    outcome = await live_unit.see()
    assert outcome.state is SyncState.SYNCED, outcome
    assert shared_api.get(path)["spec"]["listeners"] == [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]


async def test_21_a_node_port_of_another_service_is_told_and_not_taken(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    theirs = service(namespace, {**HTTP, "nodePort": 31234}, name="theirs", kind="NodePort")
    shared_api.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    outcome = await live_unit.declare(service(namespace, {**HTTP, "nodePort": 31234}, kind="NodePort"))
    outcome = await live_unit.work() if outcome.state is SyncState.RETRYING else outcome
    assert outcome.state is SyncState.BLOCKED, outcome
    assert f"had by Service {namespace}/theirs (31234)" in outcome.sentence
    shared_api.kubectl("delete", "service", "-n", namespace, "theirs")
    assert (await live_unit.work()).state is SyncState.SYNCED


# -- the schema moved ------------------------------------------------------------------------------------------------


def definition(group: str, properties: Json, *versions: str) -> Json:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    served = [
        {"name": v, "served": True, "storage": v == (versions or ("v1",))[-1], "schema": {"openAPIV3Schema": schema}}
        for v in versions or ("v1",)
    ]
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": served},
    }


def thing(group: str, namespace: str, version: str = "v1", **spec: Any) -> Json:
    return {
        "apiVersion": f"{group}/{version}",
        "kind": "Thing",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": spec,
    }


KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def parts(kind: str) -> Json:
    item = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": kind}}}
    return {"size": {"type": kind}, "other": {"type": "string"}, "parts": {"type": "array", "items": item, **KEYED}}


@pytest.mark.parametrize("written_before", [False, True])
async def test_17_a_field_got_another_type(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, written_before: bool
) -> None:
    """Every apply is refused until the stored leaf is right, whatever it says; a write of anybody also wipes
    managedFields."""
    group = f"typed-{'b' if written_before else 'a'}.gitops.example"
    shared_api.create_crd_objects([definition(group, parts("string"))])
    await live_unit.settled(thing(group, namespace, size="7", other="x", parts=[{"name": "p", "size": "1"}]))
    path = f"/apis/{group}/v1/namespaces/{namespace}/things/one"
    shared_api.create_crd_objects([definition(group, parts("integer"))])
    new = thing(group, namespace, size=8, other="x", parts=[{"name": "p", "size": 2}])

    def refused() -> bool:
        try:
            shared_api.request(
                "PATCH", path, new, content_type=APPLY, query={"fieldManager": "x", "force": "true", "dryRun": "All"}
            )
        except Exception as failure:
            return "failed to create typed live object" in str(failure)
        return False

    shared_api.wait(refused, "the new schema to be used")
    if written_before:
        patch = {"metadata": {"labels": {"theirs": "x"}}}
        shared_api.request("PATCH", path, patch, content_type=MERGE, query={"fieldManager": "operator"})
    await live_unit.declare(new)
    outcome = await live_unit.see()
    live = shared_api.get(path)
    assert outcome.state is SyncState.SYNCED, outcome
    assert live["spec"] == new["spec"]
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    await live_unit.settled(thing(group, namespace, size=8))
    assert shared_api.get(path)["spec"] == {"size": 8}, "nothing stays behind"


# -- items twice -----------------------------------------------------------------------------------------------------


async def test_s02_15_items_that_are_live_twice_are_made_one(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    pod = {"containers": [{"name": "c", "image": "x", "env": [{"name": "LEVEL", "value": "info"}]}]}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }
    await live_unit.settled(body)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    again = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/env/-",
        "value": {"name": "LEVEL", "value": "debug"},
    }
    edit(shared_api, path, again, manager="kubectl-edit")
    assert len(shared_api.get(path)["spec"]["template"]["spec"]["containers"][0]["env"]) == 2
    outcome = await live_unit.see()
    assert outcome.state is SyncState.SYNCED, outcome
    env = shared_api.get(path)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env == [{"name": "LEVEL", "value": "info"}]
    assert any("is there more than once" in d and "kubectl-edit" in d for d in live_unit.drifts())


@pytest.mark.parametrize("by", ["kubectl", "Git"])
async def test_14_a_default_that_excludes_what_is_declared_goes(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str, by: str
) -> None:
    """`rollingUpdate` is filled in by the server, owned by nobody, and refused beside `Recreate`."""
    body = deployment(namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    if by == "Git":
        await live_unit.settled(copy.deepcopy(body))
    body["spec"]["strategy"] = {"type": "Recreate"}
    await live_unit.settled(body)
    if by == "kubectl":
        edit(shared_api, path, replace("/spec/strategy", {"type": "RollingUpdate"}))
        outcome = await live_unit.see()
        assert (outcome.state, outcome.repaired) == (SyncState.SYNCED, 1), outcome
    live = shared_api.get(path)
    assert live["spec"]["strategy"] == {"type": "Recreate"}
    assert (live_unit.state.manager, "Update") not in managers(live)
    assert len(live_unit.drifts()) == (1 if by == "kubectl" else 0)
    assert (await live_unit.see()).applied == 0


async def test_14_a_volume_that_got_another_source_gets_the_declared_one(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    body = deployment(namespace, volumes=[{"name": "other", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}])
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/tmp"}]
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    await live_unit.settled(body)
    host = {"name": "scratch", "hostPath": {"path": "/tmp"}}
    edit(shared_api, path, replace("/spec/template/spec/volumes/1", host), manager="kubectl-edit")
    outcome = await live_unit.see()
    assert (outcome.state, outcome.repaired) == (SyncState.SYNCED, 1), outcome
    assert shared_api.get(path)["spec"]["template"]["spec"]["volumes"][1] == {"name": "scratch", "emptyDir": {}}
    (drift,) = live_unit.drifts()
    assert "volumes[name=scratch].emptyDir" in drift

    # Without a source the server makes it an emptyDir, which excludes what is declared just so.
    await live_unit.settled(deployment(namespace, volumes=[host]))
    edit(shared_api, path, {"op": "remove", "path": "/spec/template/spec/volumes/0/hostPath"})
    assert (await live_unit.see()).repaired == 1
    assert shared_api.get(path)["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] == "/tmp"
    await live_unit.settled(body)

    # What another declares is left, and told.
    theirs = deployment(namespace, volumes=[host])
    del theirs["spec"]["template"]["spec"]["containers"]
    query = {"fieldManager": "another", "force": "true"}
    edit(shared_api, path, replace("/spec/template/spec/volumes/1", host))
    shared_api.request("PATCH", path, theirs, content_type=APPLY, query=query)
    outcome = await live_unit.see()
    assert outcome.state is SyncState.REFUSED
    assert "hostPath" in outcome.sentence
    assert "hostPath" in shared_api.get(path)["spec"]["template"]["spec"]["volumes"][1]


async def test_s02_an_object_that_has_items_twice_is_adopted(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    env = [{"name": "LEVEL", "value": "info"}, {"name": "LEVEL", "value": "debug"}]
    pod = {"containers": [{"name": "c", "image": "x", "env": env}]}
    body: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }
    shared_api.kubectl("create", "-f", "-", stdin=json.dumps(body))
    wanted = copy.deepcopy(body)
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = env[:1]
    await live_unit.settled(wanted)
    live = shared_api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    assert live["spec"]["template"]["spec"]["containers"][0]["env"] == env[:1]


async def test_s19_two_owner_references_of_one_owner_hold_nobody_up(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Older servers refuse every apply of such an object; the others of the unit go on either way."""
    await live_unit.settled(service(namespace, HTTP), service(namespace, HTTP, name="other"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-1"}
    twice = {"metadata": {"ownerReferences": [owner, {**owner, "blockOwnerDeletion": True}]}}
    shared_api.request("PATCH", at(namespace), twice, content_type=MERGE, query={"fieldManager": "operator"})
    await live_unit.declare(service(namespace, METRICS), service(namespace, METRICS, name="other"))
    outcome = await live_unit.see()
    assert outcome.state in (SyncState.SYNCED, SyncState.BLOCKED), outcome
    assert [p["port"] for p in shared_api.get(at(namespace, "other"))["spec"]["ports"]] == [9090]
    if outcome.state is SyncState.SYNCED:
        assert [p["port"] for p in shared_api.get(at(namespace))["spec"]["ports"]] == [9090]
    else:
        assert "ownerReferences" in outcome.sentence
        assert outcome.retry_after is not None
