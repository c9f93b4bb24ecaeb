"""One repository with every feature at once: killed in the middle, at rest, and started again.

A function with a copied Secret and an object that is made once; a bundle with a definition and its resource, a
Deployment that an autoscaler scales, and a Job that may be made anew.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Request
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import STATUS, Fleet, StartFleet, cluster, config_map, namespace_yaml, until
from fleet_kit.process import DaemonProcess
from fleet_kit.scenes import DGX, GPUS, bundle_files, deployment, function_files, outcome_is, plain_map, repository

from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e, pytest.mark.upstream]

CHAT, APP = "fn-chat-any-0", "app"

SECRET = f"/api/v1/namespaces/{CHAT}/secrets/key"
REQUEST = f"/apis/nvidia.com/v1beta1/namespaces/{CHAT}/dynamographdeploymentrequests/profile"
WEB = f"/apis/apps/v1/namespaces/{APP}/deployments/web"
JOB = f"/apis/batch/v1/namespaces/{APP}/jobs/work"
ROBOT = f"/apis/every.example/v1/namespaces/{APP}/robots/r2"


def text(kind: str, name: str, api: str = "v1", namespace: str = "", **body: Any) -> str:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    metadata |= body.pop("metadata", {})
    return yaml.safe_dump({"apiVersion": api, "kind": kind, "metadata": metadata, **body})


def robots() -> str:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Robot", "plural": "robots"}
    spec = {"group": "every.example", "scope": "Namespaced", "names": names, "versions": [version]}
    return text("CustomResourceDefinition", "robots.every.example", "apiextensions.k8s.io/v1", spec=spec)


def everything(value: str, *, level: str = "1") -> dict[str, str]:
    """All of it. `value` changes the Job, whose pods cannot change, and `level` what can."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": f"example.com/a:{value}"}]}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scale = {"scaleTargetRef": target, "minReplicas": 5, "maxReplicas": 9}
    manifests = {
        "namespace.yaml": namespace_yaml(APP),
        "robots.yaml": robots(),
        "r2.yaml": text("Robot", "r2", "every.example/v1", APP, spec={"level": level}),
        "web.yaml": deployment("web", APP, replicas=2, LEVEL=level),
        "scale.yaml": text("HorizontalPodAutoscaler", "web", "autoscaling/v2", APP, spec=scale),
        "work.yaml": text(
            "Job",
            "work",
            "batch/v1",
            APP,
            metadata={"annotations": {"gitops/recreate": "true"}},
            spec={"template": {"spec": pod}},
        ),
    }
    request = {"model": "example/model", "autoApply": False}
    chat = {
        "account.yaml": text("ServiceAccount", "uses-key", imagePullSecrets=[{"name": "key"}]),
        "settings.yaml": plain_map("settings", level=level),
        "profile.yaml": text("DynamoGraphDeploymentRequest", "profile", "nvidia.com/v1beta1", spec=request),
    }
    return {
        **repository(),
        f"clusters/{DGX}.yaml": cluster(DGX, gpus=GPUS, attributes=["DynamoOperatorSupport"]),
        **bundle_files("app", manifests),
        **function_files("chat", chat, operator="dynamo", secretRefs=[{"name": "key"}]),
    }


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def put_secret(plane: ControlPlane, value: str) -> None:
    plane.kubectl("create", "namespace", "gitops-secrets", check=False)
    body = text("Secret", "key", namespace="gitops-secrets", data={"token": encoded(value)})
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=body)


@pytest.fixture
def plane(private_api: Any, shared: Path) -> ControlPlane:
    made: ControlPlane = private_api(controllers=True)
    made.create_crds(shared / "upstream/dynamo/crds/nvidia.com_dynamographdeploymentrequests.yaml")
    return made


def states(plane: ControlPlane, path: str, since: str) -> list[dict[str, Any]]:
    """Every state of one object after a resourceVersion, oldest first."""
    folder, _, name = path.rpartition("/")
    query = f"watch=1&resourceVersion={since}&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}"
    return [json.loads(line)["object"] for line in plane.kubectl("get", "--raw", f"{folder}?{query}").splitlines()]


def records(plane: ControlPlane) -> list[dict[str, Any]]:
    """What the parents say."""
    stored = plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector="gitops/workload")["items"]
    return [json.loads(item["data"]["record"]) for item in stored]


def image(job: dict[str, Any]) -> str:
    found: str = job["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def real(method: str, path: str) -> Callable[[Request], bool]:
    """A call that is no dry run, to this object."""

    def matches(request: Request) -> bool:
        return (request.method, request.path) == (method, path) and not request.is_dry_run

    return matches


async def test_killed_in_its_middle_all_is_as_declared_and_nothing_was_made_twice(
    repo: Repository, plane: ControlPlane, fault_proxy: Callable[..., FaultProxy], tmp_path: Path
) -> None:
    put_secret(plane, "one")
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    proxy = fault_proxy(plane)

    def daemon() -> DaemonProcess:
        return DaemonProcess(tmp_path / "daemon", repo.url, {DGX: proxy})

    async def killed(holds: dict[Callable[[Request], bool], faults.Hold]) -> None:
        for match, hold in holds.items():
            proxy.fail(hold, match, times=None)
        with daemon() as running:
            await until(
                lambda: all(hold.arrived.is_set() for hold in holds.values()), "the daemon to come so far", timeout=60
            )
            await asyncio.to_thread(running.kill)
        proxy.rules.clear()
        proxy.cut()

    def settled(commit: str) -> bool:
        found = records(plane)
        return len(found) == 2 and all(record.get("commit") == commit for record in found)

    commit = repo.commit(everything("1"), "first")
    # What is made once is made, and nobody knows; the number of replicas is not let go of yet.
    await killed({real("PATCH", REQUEST): faults.HoldAnswer(), real("PATCH", WEB): faults.HoldAnswer()})
    with daemon():
        await until(lambda: settled(commit), "the first commit", timeout=60)
        await until(lambda: plane.get(WEB)["spec"]["replicas"] == 5, "the autoscaler to scale")
    proxy.cut()
    put_secret(plane, "two")
    commit = repo.commit(everything("2", level="2"), "second")
    await killed({real("DELETE", JOB): faults.HoldAnswer()})
    with daemon():
        await until(lambda: settled(commit), "the second commit", timeout=60)
        await until(lambda: plane.get(SECRET)["data"] == {"token": encoded("two")}, "the copy to follow")

    for path, made in {SECRET: 1, REQUEST: 1, WEB: 1, JOB: 2}.items():
        assert len({state["metadata"]["uid"] for state in states(plane, path, since)}) == made, path
    assert image(plane.get(JOB)) == "example.com/a:2"
    assert plane.get(ROBOT)["spec"] == {"level": "2"}
    numbers = [state["spec"]["replicas"] for state in states(plane, WEB, since)]
    assert numbers == sorted(numbers), "from Git's number to the autoscaler's, and never back"
    assert {numbers[0], numbers[-1]} == {2, 5}


def stands(running: Fleet, path: str) -> tuple[str, ...]:
    """Status and flags of a unit."""
    found = running.status(path)
    return (str(found.get("status")), *found.get("flags", ()))


def changed_files(repo: Repository, since: str) -> list[str]:
    """Files of the status branch that became other ones since a commit of it."""
    return repo.git("diff", "--name-only", since, STATUS).split()


def told(repo: Repository, since: str) -> str:
    """What status has said since a commit of it."""
    return repo.git("log", "-p", "--format=%s", f"{since}..{STATUS}")


def lean(running: Fleet) -> set[str]:
    """Kinds that are watched at the moment for their metadata only."""
    watches = [r for r in running.proxies[DGX].requests if r.is_watch and r.ended is None]
    return {r.path for r in watches if "PartialObjectMetadata" in r.headers.get("Accept", "")}


async def test_at_rest_it_only_watches_and_started_again_it_only_lists(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    put_secret(plane, "one")
    later = bundle_files("later", {"later.yaml": config_map("later", "later", key="1")})
    repo.commit({**everything("1"), **later}, "first")
    running = await fleet(repo, {DGX: plane})
    await until(outcome_is(running, "later", SyncState.WAITING), "a unit to wait for its namespace")
    await until(lambda: "/api/v1/namespaces" in lean(running), "namespaces to be watched")
    plane.create_namespace("later")
    await running.settled()
    await until(lambda: plane.get(WEB)["spec"]["replicas"] == 5, "the autoscaler to scale")
    put_secret(plane, "two")
    await until(lambda: plane.get(SECRET)["data"] == {"token": encoded("two")}, "the copy to follow")
    await running.settled()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await until(lambda: lean(running) == {definitions}, "what nobody waits for to be watched no more")
    for unit, last in (("bundle.app", ("Progressing", "unverified")), ("function.chat.any-0", ("Ready", "unverified"))):
        path = f"status/units/{DGX}/{unit}.yaml"
        # The last that time alone says: no operator looks at a Robot or a request.
        await until(lambda p=path, t=last: stands(running, p) == t, f"{unit} to be as it stays", timeout=60)
    await until(lambda: not running.engine.status_pending, "the last status to be pushed")
    before, objects = str(repo.head(STATUS)), running.engine.workers[DGX].state.objects

    running.clear()
    for path in (WEB, JOB, REQUEST, SECRET, "/api/v1/namespaces/gitops-secrets/secrets/key"):
        note = {"metadata": {"annotations": {"note": "of somebody else"}}}
        changed = plane.request("PATCH", path, note, content_type="application/merge-patch+json")
        uid, version = changed["metadata"]["uid"], int(changed["metadata"]["resourceVersion"])
        known = next((record for record in objects.values() if record.uid == uid), None)
        if known is not None:
            await until(lambda k=known, v=version: int(k.resource_version) >= v, f"{path} to be seen")
        running.engine.request_fetch()
        await until(lambda: not running.engine.looking, "the look to end")
    await until(lambda: not running.engine.status_pending, "the status to be as it was")
    assert running.calls(DGX) == []
    assert {path.partition("/")[0] for path in changed_files(repo, before)} == {"drift"}, "what others added is told"
    before = str(repo.head(STATUS))

    running.stop.set()
    await running.task
    again = await fleet(repo, {DGX: plane}, name="again")
    await again.settled()
    await until(lambda: not again.engine.status_pending, "all to be told that is to be told")
    assert again.writes(DGX) == []
    assert told(repo, before) == ""
    requests = again.proxies[DGX].requests
    watched = {(r.path, r.query.get("labelSelector")) for r in requests if r.is_watch}
    lists = Counter((r.path, r.query.get("labelSelector")) for r in again.calls(DGX) if "limit" in r.query)
    assert len(watched) > 15
    assert {lists[each] for each in watched} == {1}, lists
