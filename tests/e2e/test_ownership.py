"""Fields that are others': autoscalers, planners, injectors. What is shown of a value is shown of all its history.

The API server's own watch tells afterwards every state that an object ever had: a value that moved for a moment only
would be seen there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, outcome_is, repository, unit

from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

MANIFESTS = "bundles/app/manifests"


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes("full", controllers=True)
    forget(made)
    return made


def autoscaler(namespace: str, least: int) -> str:
    """One that scales up at once: a target below its minimum needs no metrics."""
    return yaml.safe_dump(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": least,
                "maxReplicas": 9,
            },
        }
    )


def history(plane: ControlPlane, path: str, since: str) -> list[dict[str, Any]]:
    """Every state of one object after a resourceVersion, oldest first."""
    folder, _, name = path.rpartition("/")
    query = f"watch=1&resourceVersion={since}&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}"
    lines = plane.kubectl("get", "--raw", f"{folder}?{query}").splitlines()
    return [json.loads(line)["object"] for line in lines]


def values(states: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """The values that something had, one after the other."""
    found: list[Any] = []
    for state in states:
        value = read(state)
        if not found or found[-1] != value:
            found.append(value)
    return found


def replicas(state: dict[str, Any]) -> Any:
    return state["spec"].get("replicas")


def owners(state: dict[str, Any], *path: str) -> set[str]:
    """Managers that own a field."""
    return {e["manager"] for e in state["metadata"]["managedFields"] if _has(e["fieldsV1"], path)}


def _has(tree: dict[str, Any], path: tuple[str, ...]) -> bool:
    return not path or (path[0] in tree and _has(tree[path[0]], path[1:]))


async def stopped(running: Fleet) -> None:
    running.stop.set()
    await running.task


async def test_d01_27_28_replicas_are_an_autoscalers_from_its_first_day_to_its_last(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    path = "/apis/apps/v1/namespaces/scaled/deployments/web"
    manifests = {"namespace.yaml": namespace_yaml("scaled"), "web.yaml": deployment("web", "scaled", replicas=2)}
    repo.commit({**repository(), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()

    # An autoscaler comes that wants what is there: it takes nothing, and yet the number is its from now on.
    running.push({f"{MANIFESTS}/hpa.yaml": autoscaler("scaled", least=2)}, "scale it")
    await running.settled()
    await until(lambda: not owners(plane.get(path), "f:spec", "f:replicas"), "replicas to be let go")
    await running.settled()
    assert plane.get(path)["metadata"]["generation"] == 1

    # Git says another number: it is the first number of a Deployment that is made anew, and nothing else.
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", "scaled", replicas=3)}, "three")
    await running.settled()
    running.push({f"{MANIFESTS}/hpa.yaml": autoscaler("scaled", least=5)}, "at least five")
    await until(lambda: replicas(plane.get(path)) == 5, "the autoscaler to scale")
    await running.settled()
    assert owners(plane.get(path), "f:spec", "f:replicas") == set(), "scaling what nobody owns leaves no trace"

    # Another change of the Deployment, and a new daemon: the number stays.
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", "scaled", replicas=3, MODE="fast")}, "a variable")
    await running.settled()
    assert plane.get(path)["metadata"]["generation"] == 3
    told = running.status(f"status/units/{DGX}/bundle.app.yaml")
    assert told["leftToOthers"] == [
        "Deployment.apps scaled/web spec.replicas: handed over to HorizontalPodAutoscaler.autoscaling scaled/web"
    ]
    assert unit(running, "app").drifts == []
    await stopped(running)
    running = await fleet(repo, {DGX: plane}, name="two")
    running.clear()
    await running.settled()
    assert except_parents(running.writes(DGX)) == []

    # It goes: Git's number holds again.
    running.push({f"{MANIFESTS}/hpa.yaml": None}, "no autoscaler")
    await until(lambda: replicas(plane.get(path)) == 3, "the number of Git")
    await running.settled()
    assert owners(plane.get(path), "f:spec", "f:replicas") == {"gitops-demo"}
    assert unit(running, "app").drifts == []
    assert values(history(plane, path, since), replicas) == [2, 5, 3]


async def test_an_autoscaler_that_is_not_in_git_is_one_too(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    path = "/apis/apps/v1/namespaces/foreign/deployments/web"
    manifests = {"namespace.yaml": namespace_yaml("foreign"), "web.yaml": deployment("web", "foreign", replicas=2)}
    repo.commit({**repository(), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    plane.kubectl("apply", "-f", "-", stdin=autoscaler("foreign", least=4))
    await until(lambda: replicas(plane.get(path)) == 4, "the autoscaler to scale")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", "foreign", replicas=2, MODE="fast")}, "a variable")
    await running.settled()
    assert (replicas(plane.get(path)), unit(running, "app").drifts) == (4, [])
    plane.kubectl("delete", "hpa", "web", "-n", "foreign")
    await until(lambda: replicas(plane.get(path)) == 2, "the number of Git")
    assert values(history(plane, path, since), replicas) == [2, 4, 2]

    # People who scale are no autoscaler.
    plane.kubectl("scale", "deployment/web", "-n", "foreign", "--replicas=7")
    await until(lambda: replicas(plane.get(path)) == 2, "the number of Git again")
    (drift,) = unit(running, "app").drifts
    assert (drift.path, drift.live, drift.manager, drift.subresource) == ("spec.replicas", 7, "kubectl", "scale")
