"""Edits of what operators made of our objects, with the played operators: NIM leaves them, Dynamo puts them back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, cluster, forget, until
from fleet_kit.scenes import DGX, GPUS, except_parents, function_files, repository

from gitops.model.identity import UnitKey
from gitops.reconcile import child_drift
from gitops.reconcile.state import UnitState
from gitops.sim.operators import install_definitions, play

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

NIM: dict[str, Any] = {
    "apiVersion": "apps.nvidia.com/v1alpha1",
    "kind": "NIMService",
    "metadata": {"name": "embed"},
    "spec": {
        "image": {"repository": "nvcr.io/nim/embed", "tag": "1.0", "pullSecrets": ["ngc"]},
        "authSecret": "ngc",
        "replicas": 1,
        "storage": {"emptyDir": {"sizeLimit": "1Gi"}},
        "expose": {"service": {"port": 8000}},
    },
}
POD = {"spec": {"containers": [{"name": "main", "image": "example.com/front:1.0.0"}]}}
GRAPH: dict[str, Any] = {
    "apiVersion": "nvidia.com/v1beta1",
    "kind": "DynamoGraphDeployment",
    "metadata": {"name": "chat"},
    "spec": {
        "backendFramework": "vllm",
        "components": [{"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": POD}],
    },
}


@pytest.fixture
async def plane(planes: Callable[..., ControlPlane]) -> AsyncIterator[ControlPlane]:
    """With the definitions and the operators."""
    made = planes(DGX)
    forget(made)
    await install_definitions(made.kubeconfig)
    playing = asyncio.create_task(play(made.kubeconfig))
    yield made
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing


def unit(fleet: Fleet, name: str) -> UnitState:
    return fleet.engine.workers[DGX].state.units[UnitKey.parse(f"function/{name}/any-0@{DGX}")]


def deployment(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """The Deployment that an operator made."""
    found = plane.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
    return dict(found[0]) if found else {}


async def test_a_hand_edit_of_a_child_that_its_operator_leaves_is_told_and_never_repaired(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_drift, "HEALS_WITHIN", 0.5)
    attributes = ["NIMOperatorSupport", "DynamoOperatorSupport"]
    files = {
        **repository(),
        f"clusters/{DGX}.yaml": cluster(DGX, gpus=GPUS, attributes=attributes),
        **function_files("embed", {"nim.yaml": yaml.safe_dump(NIM)}),
        **function_files("chat", {"graph.yaml": yaml.safe_dump(GRAPH)}, operator="dynamo"),
    }
    repo.commit(files, "functions")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    made = {name: f"fn-{name}-any-0" for name in ("embed", "chat")}
    await until(lambda: all(deployment(plane, place) for place in made.values()), "the operators to make Deployments")
    running.clear()
    name = deployment(plane, made["embed"])["metadata"]["name"]
    plane.kubectl("set", "image", "-n", made["embed"], f"deployment/{name}", "*=example.com/evil:1")
    sentence = (
        f"Deployment.apps {made['embed']}/{name}, made by an operator, was edited by kubectl-set and not put back: "
        "spec.template.spec.containers["
    )
    await until(lambda: sentence in unit(running, "embed").outcome.sentence, "the edit to be told")
    place = f"{DGX}/function.embed.any-0.yaml"
    await until(lambda: running.status(f"drift/{place}").get("open"), "the drift file")
    [record] = running.status(f"drift/{place}")["open"]
    assert (record["kind"], record["live"]) == ("child", "example.com/evil:1")
    assert record["by"] == "kubectl-set (Update)"
    assert record["declaredAt"] == "functions/embed/manifests/nim.yaml:1"
    assert sentence in running.status(f"status/units/{place}")["outcome"]["message"]
    # N02: Dynamo puts its Deployment back, and that is no news
    graph = deployment(plane, made["chat"])["metadata"]["name"]
    plane.kubectl("scale", "-n", made["chat"], f"deployment/{graph}", "--replicas=4")
    await until(lambda: deployment(plane, made["chat"])["spec"]["replicas"] == 1, "the operator to put it back")
    children = running.engine.workers[DGX]._session.sightings.children  # type: ignore[union-attr]
    await until(lambda: len(children) == 1, "nothing to be kept of it")
    assert (unit(running, "chat").drifts, unit(running, "chat").outcome.sentence) == ([], "as declared")
    # a child that is made anew is as its operator wants it
    plane.kubectl("delete", "-n", made["embed"], f"deployment/{name}")
    await until(lambda: unit(running, "embed").outcome.sentence == "as declared", "the edit to be over")
    await until(lambda: not running.status(f"drift/{place}").get("open"), "the record to say so")
    assert running.status(f"drift/{place}")["recent"][0]["outcome"] == "reverted"
    assert except_parents(running.writes(DGX)) == []
