"""Quantities written as numbers, and an operator whose typed Update writes them as strings.

The NIM operator writes the whole object once when it adds its finalizer: quantities in their canonical form, and an
empty struct for every one of its Go structs without a pointer. Nothing of that is drift.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, forget, template_files, until
from fleet_kit.scenes import DGX, writes_to

from gitops.model.identity import UnitKey
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.upstream, pytest.mark.e2e]

NAMESPACE = "fn-embed-h100-0"
SERVICE = f"/apis/apps.nvidia.com/v1alpha1/namespaces/{NAMESPACE}/nimservices/embed"
CACHE = f"/apis/apps.nvidia.com/v1alpha1/namespaces/{NAMESPACE}/nimcaches/embed-cache"
KEY = UnitKey.parse(f"function/embed/h100-0@{DGX}")

RESOURCES = {
    "limits": {"nvidia.com/gpu": 1, "cpu": "2000m", "memory": "16384Mi"},
    "requests": {"cpu": 0.5, "memory": 1073741824},
}
CANONICAL = {
    "limits": {"nvidia.com/gpu": "1", "cpu": "2", "memory": "16Gi"},
    "requests": {"cpu": "500m", "memory": "1073741824"},
}
"""What Kubernetes' resource.Quantity prints for them, and so what the operator's Update writes."""

EMPTY_STRUCTS: dict[str, dict[str, Any]] = {
    "livenessProbe": {},
    "readinessProbe": {},
    "startupProbe": {},
    "metrics": {"serviceMonitor": {}},
    "scale": {"hpa": {"maxReplicas": 0, "minReplicas": 1}},
}


def files() -> dict[str, str]:
    """The template's NIM function alone, on one cluster, with quantities in every form."""
    template = template_files()
    found = {p: t for p, t in template.items() if p == "gitops.yaml" or p.startswith(("functions/embed/", "policies/"))}
    found[f"clusters/{DGX}.yaml"] = template[f"clusters/{DGX}.yaml"]
    path = "functions/embed/manifests/service.yaml"
    service = yaml.safe_load(found[path])
    service["spec"]["resources"] = RESOURCES
    return {**found, path: yaml.safe_dump(service)}


def operator_writes(plane: ControlPlane, path: str, resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A full Update of the live object, as the operator's typed client sends it."""
    body = plane.get(path)
    body["metadata"]["finalizers"] = ["finalizer.nimservice.apps.nvidia.com"]
    body["spec"]["resources"] = resources
    for name, value in more.items():
        body["spec"].setdefault(name, value)
    stored: dict[str, Any] = plane.request("PUT", path, body, query={"fieldManager": "k8s-nim-operator"})
    return stored


def operator_reports(plane: ControlPlane, path: str, state: str) -> dict[str, Any]:
    """A status update through the subresource, with the whole object in its body."""
    body = plane.get(path)
    body["status"] = {"state": state, "conditions": []}
    stored: dict[str, Any] = plane.request("PUT", f"{path}/status", body, query={"fieldManager": "k8s-nim-operator"})
    return stored


@pytest.fixture
async def running(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane], shared: Path
) -> tuple[Fleet, ControlPlane]:
    plane = planes(DGX)
    forget(plane)
    plane.create_crds(
        shared / "upstream/nim/crds/apps.nvidia.com_nimservices.yaml",
        shared / "upstream/nim/crds/apps.nvidia.com_nimcaches.yaml",
    )
    repo.commit(files(), "embed")
    made = await fleet(repo, {DGX: plane})
    await made.settled()
    made.clear()
    return made, plane


async def seen(made: Fleet, body: dict[str, Any]) -> None:
    """Until the watch has delivered the object as this answer tells it, and what follows from it is done."""
    worker, version = made.engine.workers[DGX], body["metadata"]["resourceVersion"]

    def caught_up() -> bool:
        known = [int(r.resource_version or 0) for r in list(worker.state.objects.values())]
        unit = worker.state.units[KEY]
        return max(known) >= int(version) and not worker.busy and unit.outcome.state is SyncState.SYNCED

    await until(caught_up, "the operator's write to be seen")


async def test_numbers_are_sent_as_kubernetes_prints_them(running: tuple[Fleet, ControlPlane]) -> None:
    _, plane = running
    assert plane.get(SERVICE)["spec"]["resources"] == CANONICAL


async def test_an_operators_full_update_with_strings_and_empty_structs_is_no_drift_and_costs_nothing(
    running: tuple[Fleet, ControlPlane],
) -> None:
    made, plane = running
    await seen(made, operator_writes(plane, SERVICE, CANONICAL, **EMPTY_STRUCTS))
    await seen(made, operator_reports(plane, SERVICE, "Ready"))
    assert made.calls(DGX) == []
    assert made.engine.workers[DGX].state.units[KEY].drifts == []
    live = plane.get(SERVICE)
    assert live["spec"]["scale"] == EMPTY_STRUCTS["scale"]
    assert live["metadata"]["finalizers"] == ["finalizer.nimservice.apps.nvidia.com"]


async def test_13_an_operator_that_writes_equal_quantities_in_another_form_gets_one_silent_apply_and_no_report(
    running: tuple[Fleet, ControlPlane],
) -> None:
    made, plane = running
    other = {"limits": {"nvidia.com/gpu": 1, "cpu": "2000m", "memory": "16Gi"}, "requests": CANONICAL["requests"]}
    stored = operator_writes(plane, SERVICE, other)
    await until(lambda: plane.get(SERVICE)["spec"]["resources"] == CANONICAL, "the silent apply")
    await seen(made, stored)
    assert len(writes_to(made.writes(DGX), "/nimservices/embed")) == 1
    assert made.engine.workers[DGX].state.units[KEY].drifts == []
    made.clear()
    # the operator agrees: nothing is left to say
    await seen(made, operator_writes(plane, SERVICE, CANONICAL))
    await seen(made, operator_reports(plane, SERVICE, "NotReady"))
    assert made.calls(DGX) == []


async def test_a_cache_whose_unset_quantities_the_operator_writes_as_zero_is_no_drift(
    running: tuple[Fleet, ControlPlane],
) -> None:
    made, plane = running
    declared = plane.get(CACHE)["spec"]["resources"]
    await seen(made, operator_writes(plane, CACHE, {"cpu": "0", "memory": "0", **declared}))
    await seen(made, operator_reports(plane, CACHE, "Ready"))
    assert made.calls(DGX) == []
    assert made.engine.workers[DGX].state.units[KEY].drifts == []


async def test_a_really_changed_quantity_is_drift(running: tuple[Fleet, ControlPlane]) -> None:
    made, plane = running
    change = '{"spec":{"resources":{"limits":{"nvidia.com/gpu":8}}}}'
    plane.kubectl("patch", "nimservice", "embed", "-n", NAMESPACE, "--type=merge", "-p", change)
    await until(lambda: plane.get(SERVICE)["spec"]["resources"] == CANONICAL, "the repair")
    [drift] = made.engine.workers[DGX].state.units[KEY].drifts
    assert (drift.live, drift.declared, drift.manager) == (8, "1", "kubectl-patch")
