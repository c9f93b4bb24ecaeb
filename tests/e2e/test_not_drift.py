"""What is no drift although Git declares it: restarts, and fields that Git itself leaves to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, outcome_is, repository, unit

from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

PATH = "/apis/apps/v1/namespaces/stamped/deployments/web"
FILE = "bundles/app/manifests/web.yaml"
STAMP = "kubectl.kubernetes.io/restartedAt"


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


def web(stamp: str, **env: str) -> str:
    """With a stamp in Git, an annotation beside it, and a number that is anybody's."""
    body = yaml.safe_load(deployment("web", "stamped", **(env or {"MODE": "a"})))
    body["metadata"]["annotations"] = {"gitops/ignore-drift": "/spec/replicas"}
    body["spec"]["template"]["metadata"]["annotations"] = {"example.com/mine": "1", STAMP: stamp}
    return yaml.safe_dump(body)


def annotations(plane: ControlPlane) -> dict[str, str]:
    """Of the pods."""
    found: dict[str, str] = plane.get(PATH)["spec"]["template"]["metadata"]["annotations"]
    return found


async def seen(running: Fleet, plane: ControlPlane) -> None:
    """The watch has delivered the present state of the Deployment, and nothing is being done."""
    version = plane.get(PATH)["metadata"]["resourceVersion"]
    records = running.engine.workers[DGX].state.objects
    await until(lambda: any(r.resource_version == version for r in list(records.values())), "the write to be seen")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")


async def test_d07_restarts_and_ignored_fields_are_no_drift_and_git_can_restart_again(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    manifests = {"namespace.yaml": namespace_yaml("stamped"), "web.yaml": web("one")}
    repo.commit({**repository(), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    assert annotations(plane) == {"example.com/mine": "1"}, "a new object needs no restart"
    running.clear()

    plane.kubectl("rollout", "restart", "-n", "stamped", "deployment/web")
    plane.kubectl("scale", "-n", "stamped", "deployment/web", "--replicas=7")
    await seen(running, plane)
    assert running.calls(DGX) == []
    by_hand = annotations(plane)[STAMP]

    # Another change leaves both; another stamp in Git restarts once more, and is not fought over later.
    running.push({FILE: web("one", MODE="b")}, "a variable")
    await running.settled()
    assert (annotations(plane)[STAMP], plane.get(PATH)["spec"]["replicas"]) == (by_hand, 7)
    running.push({FILE: web("two", MODE="b")}, "restart")
    await until(lambda: annotations(plane)[STAMP] == "two", "the restart")
    await running.settled()
    running.clear()
    plane.kubectl("rollout", "restart", "-n", "stamped", "deployment/web")
    await seen(running, plane)
    assert except_parents(running.writes(DGX)) == []
    assert unit(running, "app").drifts == []
    told = running.status(f"status/units/{DGX}/bundle.app.yaml")["leftToOthers"]
    assert told == ["Deployment.apps stamped/web spec.replicas: ignored, by gitops/ignore-drift"]
