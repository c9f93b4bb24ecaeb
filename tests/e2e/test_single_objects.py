"""Single objects that reconcilers are known to fight over for ever, or to be stopped by: one daemon, the real server.

Ids are those of the failure cases: what is declared in an odd way settles at the first run, and another daemon after it
writes nothing and reports no drift.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import MERGE, ApiFailure
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, outcome_is, repository, unit

from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SETTLES: dict[str, str] = {
    "s05": """
        {apiVersion: v1, kind: ConfigMap, metadata: {name: s05, namespace: odd, uid: "1111", resourceVersion: "7"},
         data: {a: b}}""",
    "s06": """
        {apiVersion: apps/v1, kind: Deployment, metadata: {name: s06, namespace: odd, creationTimestamp: null}, spec:
          {selector: {matchLabels: {app: s06}}, template: {metadata: {creationTimestamp: null, labels: {app: s06}},
           spec: {containers: [{name: main, image: example.com/web}]}}}}""",
    "s10": """
        {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s10, namespace: odd}, spec:
          {serviceName: s10, replicas: 0, selector: {matchLabels: {app: s10}},
           template: {metadata: {labels: {app: s10}}, spec: {containers: [{name: main, image: example.com/web}]}},
           volumeClaimTemplates: [{metadata: {name: data}, spec:
             {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}""",
    "s11": """
        {apiVersion: apps/v1, kind: Deployment, metadata: {name: s11, namespace: odd}, spec:
          {replicas: 0, selector: {matchLabels: {app: s11}}, template: {metadata: {labels: {app: s11}}, spec:
            {containers: [{name: main, image: example.com/web, resources:
              {limits: {cpu: 12000m, memory: 1000M}, requests: {cpu: 0.5, memory: 1000000k}}}]}}}}""",
    "s12": """
        {apiVersion: apps/v1, kind: Deployment, metadata: {name: s12, namespace: odd}, spec:
          {replicas: 0, minReadySeconds: 0, paused: false, selector: {matchLabels: {app: s12}},
           template: {metadata: {labels: {app: s12}, annotations: {}}, spec: {automountServiceAccountToken: false,
            nodeName: "", containers: [{name: main, image: example.com/web, env: [{name: EMPTY, value: ""}],
              resources: {requests: {}, limits: {}}}, {name: other, image: example.com/web, resources:
              {limits: {cpu: 4}}}]}}}}""",
    "s13": """
        {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: dropped.odd.example},
         spec: {group: odd.example, scope: Namespaced, preserveUnknownFields: false,
          names: {kind: Dropped, plural: dropped}, versions: [{name: v1, served: true, storage: true, schema:
            {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]}}""",
    "s14": """
        {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: exported.odd.example},
         status: {conditions: [], storedVersions: [], acceptedNames: {kind: "", plural: ""}},
         spec: {group: odd.example, scope: Namespaced, names: {kind: Exported, plural: exported},
          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}""",
    "s21": """
        {apiVersion: v1, kind: Service, metadata: {name: s21, namespace: odd, labels: {team: a}},
         spec: {type: NodePort, selector: {app: s21}, ports: [{port: 80}]}}""",
    "s22": """
        {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: odd-s22, namespace: odd},
         rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}""",
}
SERVICE = "/api/v1/namespaces/odd/services/s21"


def bundle_of(name: str, *objects: dict[str, Any] | str) -> dict[str, str]:
    texts = [o if isinstance(o, str) else yaml.safe_dump(o) for o in objects]
    return bundle_files(name, {"objects.yaml": "---\n".join(f"{text.strip()}\n" for text in texts)})


@pytest.fixture
def full_plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    """With controllers: what is deleted in the foreground goes, and StatefulSets and Jobs are seen to."""
    made = planes("full", controllers=True)
    forget(made)
    return made


async def test_s05_s06_s10_s11_s12_s13_s14_s21_s22_settle_and_a_second_daemon_writes_nothing(
    fleet: StartFleet, repo: Repository, full_plane: ControlPlane
) -> None:
    files = {**repository(), **bundle_files("odd", {"namespace.yaml": namespace_yaml("odd")})}
    for name, text in SETTLES.items():
        files |= bundle_of(name, text)
    repo.commit(files, "odd objects")
    first = await fleet(repo, {DGX: full_plane})
    await first.settled()
    ports = full_plane.get(SERVICE)["spec"]["ports"], full_plane.get(SERVICE)["spec"]["clusterIP"]
    first.push(bundle_of("s21", SETTLES["s21"].replace("team: a", "team: b")), "a label")
    await first.settled()
    service = full_plane.get(SERVICE)
    assert service["metadata"]["labels"]["team"] == "b"
    assert (service["spec"]["ports"], service["spec"]["clusterIP"]) == ports
    for name in SETTLES:
        assert unit(first, name).drifts == [], name
    assert "s22" in "".join(str(ref) for ref in first.engine.workers[DGX].state.objects)
    await _stop(first)
    second = await fleet(repo, {DGX: full_plane}, name="two")
    await second.settled()
    assert except_parents(second.writes(DGX)) == []
    for name in SETTLES:
        assert unit(second, name).drifts == [], name


async def _stop(fleet: Fleet) -> None:
    fleet.stop.set()
    await fleet.task


# -- fields that cannot change -----------------------------------------------------------------------------------------

POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/a:1"}]}


def stateful_set(storage: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "fixed"},
        "spec": {
            "serviceName": "db",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "example.com/db:1"}]},
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
                }
            ],
        },
    }


def job(image: str) -> dict[str, Any]:
    pod = {**POD, "containers": [{"name": "main", "image": image}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "fixed"},
        "spec": {"template": {"spec": pod}},
    }


def plain(kind: str, name: str, api: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "fixed"}, **parts}


def claim(storage_class: str) -> dict[str, Any]:
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return plain("PersistentVolumeClaim", "claim", spec={**request, "storageClassName": storage_class})


def binding(role: str) -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    return plain("RoleBinding", "binding", "rbac.authorization.k8s.io/v1", roleRef=ref, subjects=[])


IMMUTABLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "job": (job("example.com/a:1"), job("example.com/a:2"), "spec.template.spec.containers[0].image"),
    "set": (stateful_set("1Gi"), stateful_set("2Gi"), "spec.volumeClaimTemplates"),
    "claim": (claim("a"), claim("b"), "spec.storageClassName"),
    "map": (
        plain("ConfigMap", "map", data={"a": "b"}, immutable=True),
        plain("ConfigMap", "map", data={"a": "c"}, immutable=True),
        "data.a",
    ),
    "secret": (plain("Secret", "secret", type="Opaque"), plain("Secret", "secret", type="example.com/x"), "type"),
    "binding": (binding("a"), binding("b"), "roleRef"),
}


async def test_s08_s09_what_cannot_change_needs_recreate_names_the_field_and_is_made_anew_once_where_allowed(
    fleet: StartFleet, repo: Repository, full_plane: ControlPlane
) -> None:
    files = {**repository(), **bundle_files("fixed", {"namespace.yaml": namespace_yaml("fixed")})}
    for name, (before, _, _) in IMMUTABLE.items():
        files |= bundle_of(name, before, plain("ConfigMap", f"beside-{name}", data={"a": "1"}))
    repo.commit(files, "before")
    made = await fleet(repo, {DGX: full_plane})
    await made.settled()
    sets, jobs = "/apis/apps/v1/namespaces/fixed/statefulsets/db", "/apis/batch/v1/namespaces/fixed/jobs/work"
    claims = "/api/v1/namespaces/fixed/persistentvolumeclaims"
    pods = "/api/v1/namespaces/fixed/pods"
    await until(lambda: _names(full_plane, pods) & {"db-0"}, "the pod of the set")
    uids = {
        path: full_plane.get(path)["metadata"]["uid"] for path in (sets, jobs, f"{pods}/db-0", f"{claims}/data-db-0")
    }

    changed = {}
    for name, (_, after, _) in IMMUTABLE.items():
        changed |= bundle_of(name, after, plain("ConfigMap", f"beside-{name}", data={"a": "2"}))
    made.clear()
    made.push(changed, "what cannot change")
    for name, (_, _, field) in IMMUTABLE.items():
        await until(outcome_is(made, name, SyncState.NEEDS_RECREATE), f"{name}: {unit(made, name).outcome}")
        assert field in unit(made, name).outcome.sentence, name
        beside = f"/api/v1/namespaces/fixed/configmaps/beside-{name}"
        await until(lambda at=beside: full_plane.get(at)["data"] == {"a": "2"}, f"what is beside {name}")
    assert "--cascade=orphan" in unit(made, "set").outcome.sentence
    assert not [r for r in made.writes(DGX) if r.method == "DELETE"]

    consent = {"gitops/recreate": "true"}
    made.clear()
    allowed: dict[str, str] = {}
    for name in ("job", "set", "map"):
        after = IMMUTABLE[name][1]
        consenting = {**after, "metadata": {**after["metadata"], "annotations": consent}}
        allowed |= bundle_of(name, consenting, plain("ConfigMap", f"beside-{name}", data={"a": "2"}))
    made.push(allowed, "may be made anew")
    for name in ("job", "set", "map"):
        await until(outcome_is(made, name, SyncState.SYNCED), f"{name} to be made anew")
    deletes = [r.path for r in made.writes(DGX) if r.method == "DELETE"]
    assert sorted(deletes) == sorted([jobs, sets, "/api/v1/namespaces/fixed/configmaps/map"])
    template = full_plane.get(jobs)["spec"]["template"]["spec"]["containers"][0]
    assert template["image"] == "example.com/a:2"
    for path in (sets, jobs):
        assert full_plane.get(path)["metadata"]["uid"] != uids[path]
    for path in (f"{pods}/db-0", f"{claims}/data-db-0"):  # neither pod nor claim of the set was touched
        assert full_plane.get(path)["metadata"]["uid"] == uids[path]
    assert unit(made, "job").drifts == unit(made, "set").drifts == []
    await _stop(made)
    again = await fleet(repo, {DGX: full_plane}, name="two")
    for name in ("job", "set", "map"):
        await until(outcome_is(again, name, SyncState.SYNCED), f"{name} after a restart")
    for name in ("claim", "secret", "binding"):
        await until(outcome_is(again, name, SyncState.NEEDS_RECREATE), f"{name} after a restart")
    assert not [r for r in except_parents(again.writes(DGX)) if r.method == "DELETE" or r.path[-3:] == "map"]


def _names(plane: ControlPlane, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in plane.get(path)["items"]}


# -- what is done once -------------------------------------------------------------------------------------------------

GRAPH = "/apis/nvidia.com/v1beta1/namespaces/once/dynamographdeployments/graph"
REQUEST = "/apis/nvidia.com/v1beta1/namespaces/once/dynamographdeploymentrequests/profile"


def graph(restart: str | None, **component: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "example.com/worker:1.0.0"}]}}
    spec: dict[str, Any] = {"components": [{"name": "decode", "replicas": 1, "podTemplate": pod, **component}]}
    if restart is not None:
        spec["restart"] = {"id": restart}
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "graph", "namespace": "once"},
        "spec": spec,
    }


def request(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "profile", "namespace": "once"},
        "spec": {"model": "example/model", "autoApply": False, **spec},
    }


@pytest.fixture
def dynamo(full_plane: ControlPlane, shared: Path) -> ControlPlane:
    kinds = ("dynamographdeployments", "dynamographdeploymentrequests")
    if full_plane.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kinds[-1]}.nvidia.com") is None:
        full_plane.create_crds(*(shared / f"upstream/dynamo/crds/nvidia.com_{kind}.yaml" for kind in kinds))
    return full_plane


@pytest.mark.upstream
async def test_a_trigger_starts_once_for_each_value_whatever_becomes_of_its_object(
    fleet: StartFleet, repo: Repository, dynamo: ControlPlane
) -> None:
    """`spec.restart` of a DynamoGraphDeployment: its own definition refuses it on create."""
    files = {**repository(), **bundle_files("once", {"namespace.yaml": namespace_yaml("once")})}
    repo.commit({**files, **bundle_of("graph", graph("first"))}, "a graph with a restart")
    made = await fleet(repo, {DGX: dynamo})
    await made.settled()
    assert "restart" not in dynamo.get(GRAPH)["spec"]

    async def pushed(restart: str | None, **component: Any) -> list[str]:
        """Managers in whose name the graph was written."""
        made.clear()
        made.push(bundle_of("graph", graph(restart, **component)), "graph")
        await made.settled()
        assert unit(made, "graph").drifts == []
        return [r.query["fieldManager"] for r in made.writes(DGX) if r.path == GRAPH and "dryRun" not in r.query]

    starter, ours = "gitops-demo-trigger", "gitops-demo"
    assert await pushed("second") == [starter]
    assert dynamo.get(GRAPH)["spec"]["restart"] == {"id": "second"}
    assert await pushed("second", replicas=2) == [ours]  # what else changes does not start it
    assert await pushed("first", replicas=2) == []  # a revert
    assert await pushed("second", replicas=2) == []  # and its revert
    dynamo.request("PATCH", GRAPH, {"spec": {"restart": {"id": "by-hand"}}}, content_type=MERGE)
    assert await pushed("second", replicas=3) == [ours]
    assert dynamo.get(GRAPH)["spec"]["restart"] == {"id": "by-hand"}  # theirs, and no drift
    before = dynamo.get(GRAPH)["metadata"]["uid"]
    dynamo.request("DELETE", GRAPH)
    await until(lambda: _uid(dynamo, GRAPH) not in ("", before), "the graph to be made again")
    await made.settled()
    assert "restart" not in dynamo.get(GRAPH)["spec"]
    unit(made, "graph").drifts.clear()
    assert await pushed(None, replicas=3) == []  # what is not declared any more is no part of it either
    assert await pushed("third", replicas=3) == [starter]
    await _stop(made)
    again = await fleet(repo, {DGX: dynamo}, name="two")
    await again.settled()
    assert except_parents(again.writes(DGX)) == []
    assert dynamo.get(GRAPH)["spec"]["restart"] == {"id": "third"}

    # A rule of its definition about changes (CEL) makes a field immutable: made anew, it is not started either.
    part = {"replicas": 3, "minAvailable": 1}
    again.push(bundle_of("graph", graph("third", **part)), "a first value")
    await again.settled()
    part["minAvailable"], before = 2, dynamo.get(GRAPH)["metadata"]["uid"]
    again.push(bundle_of("graph", graph("fourth", **part)), "another value")
    await until(outcome_is(again, "graph", SyncState.NEEDS_RECREATE), "the change to be refused")
    assert "spec.components[0].minAvailable cannot change" in unit(again, "graph").outcome.sentence
    allowed = graph("fourth", **part)
    allowed["metadata"]["annotations"] = {"gitops/recreate": "true"}
    again.push(bundle_of("graph", allowed), "may be made anew")
    await until(lambda: _uid(dynamo, GRAPH) != before or _is_deleted(dynamo, GRAPH), "the delete")
    with contextlib.suppress(ApiFailure):  # as the garbage collector does, which looks for new kinds every 30 s only
        dynamo.request("PATCH", GRAPH, {"metadata": {"uid": before, "finalizers": None}}, content_type=MERGE)
    await until(lambda: _uid(dynamo, GRAPH) not in ("", before), "the graph to be made anew")
    await again.settled()
    assert unit(again, "graph").outcome.state is SyncState.SYNCED
    live = dynamo.get(GRAPH)
    assert live["metadata"]["uid"] != before
    assert live["spec"]["components"][0]["minAvailable"] == 2
    assert "restart" not in live["spec"]


@pytest.mark.upstream
async def test_a_once_only_object_is_not_made_again_by_any_daemon(
    fleet: StartFleet, repo: Repository, dynamo: ControlPlane
) -> None:
    files = {**repository(), **bundle_files("once", {"namespace.yaml": namespace_yaml("once")})}
    repo.commit({**files, **bundle_of("profile", request())}, "a profiling run")
    made = await fleet(repo, {DGX: dynamo})
    await made.settled()
    dynamo.request("DELETE", REQUEST)
    await until(lambda: _is_completed(made), "the run to be reported as done")
    await _stop(made)
    again = await fleet(repo, {DGX: dynamo}, name="two")
    await again.settled()
    await until(lambda: _is_completed(again), "the run to be reported as done by another daemon")
    assert except_parents(again.writes(DGX)) == []
    again.push(bundle_of("profile", request(searchStrategy="thorough", backend="vllm")), "another run")
    await until(outcome_is(again, "profile", SyncState.BLOCKED), "the change to be refused")
    assert "new name" in unit(again, "profile").outcome.sentence
    again.push(bundle_of("profile", request()), "revert")
    await again.settled()
    assert _uid(dynamo, REQUEST) == ""


async def test_what_kubectl_rollout_restart_stamps_is_no_drift(
    fleet: StartFleet, repo: Repository, full_plane: ControlPlane
) -> None:
    files = {**repository(), **bundle_files("stamps", {"namespace.yaml": namespace_yaml("stamps")})}
    repo.commit({**files, **bundle_of("web", deployment("web", "stamps", replicas=0))}, "web")
    made = await fleet(repo, {DGX: full_plane})
    await made.settled()
    made.clear()
    full_plane.kubectl("rollout", "restart", "deployment/web", "--namespace", "stamps")
    path = "/apis/apps/v1/namespaces/stamps/deployments/web"
    version = full_plane.get(path)["metadata"]["resourceVersion"]

    def seen() -> bool:
        records = made.engine.workers[DGX].state.objects.values()
        return any(r.ref.name == "web" and int(r.resource_version) >= int(version) for r in list(records))

    await until(seen, "the stamp to be seen")
    await made.settled()
    assert except_parents(made.writes(DGX)) == []
    assert unit(made, "web").drifts == []
    template = full_plane.get(path)["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def _is_deleted(plane: ControlPlane, path: str) -> bool:
    found = plane.get(path)
    return found is None or bool(found["metadata"].get("finalizers"))


def _uid(plane: ControlPlane, path: str) -> str:
    live = plane.get(path)
    return "" if live is None else str(live["metadata"]["uid"])


def _is_completed(fleet: Fleet) -> bool:
    status = unit(fleet, "profile").status
    return status is not None and any(row.reason == "DoneOnce" for row in status.objects)
