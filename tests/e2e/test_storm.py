"""A storm of status updates by foreign writers: every one is taken in, none causes a call, and few are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, STATUS, TEMPLATE, StartFleet, cluster, until
from fleet_kit.scenes import DGX, GPUS, app, bundle_files, function_files, repository

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

ROUNDS = 60
SERVICE = "/apis/apps.nvidia.com/v1alpha1/namespaces/fn-embed-any-0/nimservices/embed"
MADE = "/apis/apps/v1/namespaces/fn-embed-any-0/deployments"
DECLARED = "/apis/apps/v1/namespaces/storm/deployments/web"
MANIFEST = """\
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMService
metadata: {name: embed}
spec:
  image: {repository: example.com/nim/embed, tag: "1.6.0"}
  authSecret: ngc
  storage: {emptyDir: {}}
  replicas: 1
  expose: {service: {port: 8000}}
"""


def made_of(service: dict[str, Any]) -> dict[str, Any]:
    """The Deployment that the operator makes of a NIMService."""
    owner = {"apiVersion": service["apiVersion"], "kind": service["kind"], "name": "embed", "controller": True}
    container = {"name": "server", "image": "example.com/nim/embed:1.6.0"}
    template = {"metadata": {"labels": {"app": "embed"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "embed",
            "labels": {"app.kubernetes.io/managed-by": "k8s-nim-operator"},
            "ownerReferences": [owner | {"uid": service["metadata"]["uid"]}],
        },
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "embed"}}, "template": template},
    }


def deployment_status(ready: int) -> dict[str, Any]:
    condition = {"type": "Available", "status": str(ready == 2), "reason": "Count"}
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "availableReplicas": ready}
    return {"observedGeneration": 1, **counts, "conditions": [condition]}


def service_status(state: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": str(state == "Ready"), "reason": state, "message": ""}
    return {"state": state, "conditions": [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}


TURNS = {
    DECLARED: (deployment_status(1), deployment_status(2)),
    SERVICE: (service_status("NotReady"), service_status("Ready")),
    f"{MADE}/embed": (deployment_status(1), deployment_status(2)),
}
"""Whose status is written, and the two that it gets in turn."""


def storm(plane: ControlPlane, path: str) -> str:
    """Turn the status of an object to and fro; gives its last resourceVersion."""
    for turn in range(ROUNDS):
        body = {"status": TURNS[path][turn % 2]}
        written = plane.request("PATCH", f"{path}/status", body, content_type="application/merge-patch+json")
    return str(written["metadata"]["resourceVersion"])


async def test_a_storm_of_status_updates_causes_no_call_and_few_commits(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes(DGX)
    plane.create_crds(TEMPLATE.parent / "gitops" / "sim" / "crds")
    files = {**repository(), **bundle_files("app", app("storm")), **function_files("embed", {"service.yaml": MANIFEST})}
    files[f"clusters/{DGX}.yaml"] = cluster(DGX, attributes=["NIMOperatorSupport"], gpus=GPUS)
    repo.commit(files, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    plane.request("POST", MADE, made_of(plane.get(SERVICE)))
    await until(lambda: not running.engine.status_pending, "the first status to be pushed")
    running.clear()
    commits, began = len(repo.log(branch=STATUS)), time.monotonic()
    with ThreadPoolExecutor(len(TURNS)) as writers:
        wanted = await asyncio.gather(
            *(asyncio.get_running_loop().run_in_executor(writers, storm, plane, path) for path in TURNS)
        )
    worker = running.engine.workers[DGX]
    declared = {wanted[0], wanted[1]}
    await until(
        lambda: declared <= {r.resource_version for r in list(worker.state.objects.values())}, "the last to be seen"
    )
    for name in ("bundle.app", "function.embed.any-0"):
        path = f"status/units/{DGX}/{name}.yaml"
        await until(lambda path=path: running.status(path).get("status") == "Ready", f"{path} to say how it ended")
    await until(lambda: not running.engine.status_pending, "all to be told")
    told, seconds = len(repo.log(branch=STATUS)) - commits, time.monotonic() - began
    assert running.calls(DGX) == []
    assert 1 <= told <= seconds / OPTIONS.status_interval + 1, f"{told} commits in {seconds:.1f} s"
