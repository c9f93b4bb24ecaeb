"""One repository with every feature at once, and what becomes of it: kills at any call, warm restarts, rest.

A function with a copied Secret and an object that is made once; a bundle with a definition and its resource, a
Deployment that an autoscaler scales, and a Job that may be made anew.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, cluster, forget, namespace_yaml, until
from fleet_kit.process import DaemonProcess
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, repository

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e, pytest.mark.upstream]

GPUS = [{"name": "H100", "capacity": 8, "instanceTypes": [{"name": "H100x1", "gpusPerInstance": 1}]}]
CHAT, APP = "fn-chat-any-0", "app"
UNITS = (f"function/chat/any-0@{DGX}", f"bundle/app@{DGX}")

SECRET = f"/api/v1/namespaces/{CHAT}/secrets/key"
REQUEST = f"/apis/nvidia.com/v1beta1/namespaces/{CHAT}/dynamographdeploymentrequests/profile"
WEB = f"/apis/apps/v1/namespaces/{APP}/deployments/web"
JOB = f"/apis/batch/v1/namespaces/{APP}/jobs/work"
ROBOT = f"/apis/every.example/v1/namespaces/{APP}/robots/r2"


def text(kind: str, name: str, api: str = "v1", namespace: str = "", **body: Any) -> str:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    metadata |= body.pop("metadata", {})
    return yaml.safe_dump({"apiVersion": api, "kind": kind, "metadata": metadata, **body})


def document(kind: str, name: str, **spec: Any) -> str:
    return text(kind, name, "gitops/v1alpha1", spec=spec)


def robots() -> str:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Robot", "plural": "robots"}
    spec = {"group": "every.example", "scope": "Namespaced", "names": names, "versions": [version]}
    return text("CustomResourceDefinition", "robots.every.example", "apiextensions.k8s.io/v1", spec=spec)


def everything(value: str, *, level: str = "1") -> dict[str, str]:
    """All of it; what `value` changes is the Job, which cannot change, and what `level` changes can."""
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
    function = document(
        "Function",
        "chat",
        version="1",
        operatorTypes=["dynamo"],
        manifests=["manifests/"],
        secretRefs=[{"name": "key"}],
    )
    deployed = document(
        "FunctionDeployment", "chat", gpuSpecifications=[{"id": "any", "gpu": "H100", "minInstances": 1}]
    )
    request = {"model": "example/model", "autoApply": False}
    return {
        **repository(),
        f"clusters/{DGX}.yaml": cluster(DGX, gpus=GPUS, attributes=["DynamoOperatorSupport"]),
        **bundle_files("app", manifests),
        "functions/chat/function.yaml": function,
        "functions/chat/deployment.yaml": deployed,
        "functions/chat/manifests/account.yaml": text("ServiceAccount", "uses-key", imagePullSecrets=[{"name": "key"}]),
        "functions/chat/manifests/settings.yaml": text("ConfigMap", "settings", data={"level": level}),
        "functions/chat/manifests/profile.yaml": text(
            "DynamoGraphDeploymentRequest", "profile", "nvidia.com/v1beta1", spec=request
        ),
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


async def test_killed_again_and_again_all_is_as_declared_and_nothing_was_made_twice(
    repo: Repository, plane: ControlPlane, fault_proxy: Callable[..., FaultProxy], tmp_path: Path
) -> None:
    import os
    seed = int(os.environ.get("SEED", "0"))
    rng = random.Random(seed)
    put_secret(plane, "one")
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    proxy = fault_proxy(plane)
    def daemon():
        return DaemonProcess(tmp_path / "daemon", repo.url, {DGX: proxy})
    def parents():
        items = plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector="gitops/workload")["items"]
        return {i["metadata"]["name"]: json.loads(i["data"]["record"]) for i in items}
    async def rounds(kills):
        for _ in range(kills):
            n = rng.randrange(5, 50)
            hold = rng.choice([faults.Hold, faults.HoldAnswer])()
            count = 0
            only_writes = rng.random() < 0.7
            if only_writes: n = rng.randrange(1, 9)
            def nth(request):
                nonlocal count
                if request.is_watch or request.is_lease or (only_writes and not request.is_write): return False
                count += 1
                return count >= n
            proxy.fail(hold, nth, times=None)
            with daemon() as d:
                try:
                    await until(lambda: hold.arrived.is_set() or settled(repo.head())(), "x", timeout=10)
                except BaseException:
                    print("no arrival", n, count)
                print("KILL at", n, count, hold.arrived.is_set(), type(hold).__name__, [str(r) for r in proxy.requests if r.status == 0 and not r.is_watch][:3])
                await asyncio.to_thread(d.kill)
            proxy.rules.clear(); proxy.cut(); proxy.clear()
            hold.release()
    def settled(commit):
        def done():
            found = parents()
            return len(found) == 2 and all(r.get("commit") == commit for r in found.values())
        return done
    commit = repo.commit(everything("1"), "first")
    await rounds(3)
    with daemon():
        await until(settled(commit), f"first {parents()}")
        await until(lambda: plane.get(WEB)["spec"]["replicas"] == 5, "the autoscaler to scale")
    proxy.cut()
    put_secret(plane, "two")
    commit = repo.commit(everything("2", level="2"), "second")
    await rounds(3)
    with daemon() as d:
        try:
            await until(settled(commit), f"second {parents()}")
            await until(lambda: plane.get(SECRET)["data"] == {"token": encoded("two")}, "copy")
        finally:
            print(d.log.read_text()[-6000:] if False else "")
    for path in (SECRET, REQUEST, WEB, JOB):
        seen = states(plane, path, since)
        uids = list(dict.fromkeys(s["metadata"]["uid"] for s in seen))
        print("UIDS", path, len(uids), Counter(s["metadata"]["uid"][:4] for s in seen))
        if path == WEB:
            print("REPLICAS", [s["spec"].get("replicas") for s in seen], [s["metadata"]["generation"] for s in seen])
        if path == JOB: print([s["spec"]["template"]["spec"]["containers"][0]["image"] for s in seen])
        assert len(uids) == (2 if path == JOB else 1), path
    assert plane.get(JOB)["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/a:2"
    assert plane.get(ROBOT)["spec"] == {"level": "2"}
    assert plane.get(WEB)["spec"]["replicas"] == 5
    for r in parents().values(): print(json.dumps(r)[:600])


async def test_rest(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> None:
    import os
    from gitops.reconcile.outcomes import SyncState
    from fleet_kit.fixtures import STATUS, config_map
    from fleet_kit.scenes import outcome_is
    put_secret(plane, "one")
    later = bundle_files("later", {"later.yaml": config_map("later", "t-later", k="1")})
    account = text("ServiceAccount", "x")
    quota = ""
    plain = bundle_files("plain", {f"d{i}.yaml": deployment(f"d{i}", "app", replicas=2) for i in range(5)} | {f"z{i}.yaml": deployment(f"z{i}", "app").replace("replicas: 2", "replicas: 0") for i in range(2)})
    repo.commit(everything("1") | later | plain, "first")
    running = await fleet(repo, {DGX: plane})
    proxy = running.proxies[DGX]
    await until(outcome_is(running, "later", SyncState.WAITING), "it to wait")
    def lean(): return [r for r in proxy.requests if r.is_watch and r.ended is None and "PartialObject" in r.headers.get("Accept", "")]
    await until(lambda: [r for r in lean() if r.path == "/api/v1/namespaces"], "a lean watch of namespaces")
    plane.create_namespace("t-later")
    await running.settled()
    await until(lambda: plane.get(WEB)["spec"]["replicas"] == 5, "the autoscaler to scale")
    put_secret(plane, "two")
    await until(lambda: plane.get(SECRET)["data"] == {"token": encoded("two")}, "copy")
    await running.settled()
    await until(lambda: not [r for r in lean() if r.path == "/api/v1/namespaces"], "the lean watch to end")
    await until(lambda: not running.engine.status_pending, "the last status to be pushed")
    for u in running.engine.workers[DGX].state.units.values(): print(u.key, u.outcome.sentence, u.status.status, u.drifts)
    await asyncio.sleep(float(os.environ.get("SETTLE", "8")))
    before = repo.head(STATUS)
    open_before = sorted(str(r) for r in proxy.requests if r.is_watch and r.ended is None)
    began = len(proxy.requests)
    n0 = len(proxy.calls())
    await asyncio.sleep(float(os.environ.get("REST", "60")))
    print("AT REST", [str(r) for r in proxy.calls()[n0:]], Counter(r.path for r in proxy.requests[began:]))
    print("COMMITS", repo.git("log", "--oneline", "--stat", f"{before}..{repo.head(STATUS)}"))
    if before != repo.head(STATUS): print(repo.git("diff", before, repo.head(STATUS)))
    print("OPEN", *(sorted(f"{r.path} {r.query.get('labelSelector','')} {'lean' if 'Partial' in r.headers.get('Accept','') else ''}" for r in proxy.requests if r.is_watch and r.ended is None)), sep="\n  ")
    before = repo.head(STATUS)
    running.stop.set(); await running.task
    again = await fleet(repo, {DGX: plane}, name="two")
    await again.settled()
    await until(lambda: not again.engine.status_pending, "the last status to be pushed")
    await asyncio.sleep(5)
    print("WARM writes", again.writes(DGX))
    calls = again.calls(DGX)
    lists = Counter(f"{r.path}?{r.query.get('labelSelector','')}" for r in calls if r.method == "GET" and "limit" in r.query)
    print("LISTS", *lists.items(), sep="\n  ")
    print("OTHER", *[str(r) for r in calls if "limit" not in r.query], sep="\n  ")
    if before != repo.head(STATUS): print("COMMITTED", repo.git("diff", before, repo.head(STATUS)))
