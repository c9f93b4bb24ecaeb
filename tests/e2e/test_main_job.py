"""The main job on the template repository, with the operators' real CRDs and a git server over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, forget, template_files, until

pytestmark = [pytest.mark.controlplane, pytest.mark.upstream, pytest.mark.e2e]

GRAPHS = "/apis/nvidia.com/v1beta1/namespaces/{}/dynamographdeployments/llama-chat"


@pytest.fixture
def clusters(planes: Callable[..., ControlPlane], shared: Path) -> dict[str, ControlPlane]:
    """Two clusters with the operators' CRDs, and nothing of an earlier test."""
    made = {name: planes(name) for name in ("dgx-a", "dgx-b")}
    for plane in made.values():
        if plane.get("/apis/apps.nvidia.com/v1alpha1") is None:
            plane.create_crds(
                shared / "upstream/dynamo/crds/nvidia.com_dynamographdeployments.yaml",
                shared / "upstream/dynamo/crds/nvidia.com_dynamocomponentdeployments.yaml",
                shared / "upstream/nim/crds/apps.nvidia.com_nimservices.yaml",
                shared / "upstream/nim/crds/apps.nvidia.com_nimcaches.yaml",
            )
        forget(plane)
    return made


def decode_component(graph: dict[str, Any]) -> dict[str, Any]:
    return next(c for c in graph["spec"]["components"] if c["name"] == "decode")


async def test_from_an_empty_cluster_to_all_objects_applied_with_overlays_merged(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane]
) -> None:
    commit = repo.commit(template_files(), "template")
    running = await fleet(repo, clusters)
    await running.settled(commit)
    graphs = {}
    for name, plane in clusters.items():
        for key, record in running.engine.workers[name].state.parents.items():
            for member in record.members:
                assert member.uid, f"{member} of {key} has no uid in its parent"
        instance = {"dgx-a": "fn-llama-chat-h100-0", "dgx-b": "fn-llama-chat-h100-1"}[name]
        graphs[name] = plane.get(GRAPHS.format(instance))
        config = plane.get(f"/api/v1/namespaces/{instance}/configmaps/llama-chat-settings")
        assert config["data"]["LOG_LEVEL"] == {"dgx-a": "info", "dgx-b": "debug"}[name]
        deployment = plane.get("/apis/apps/v1/namespaces/platform/deployments/echo")
        assert deployment["metadata"]["labels"]["gitops/reconciler"] == "demo"
    for graph in graphs.values():
        decode = decode_component(graph)
        assert decode["replicas"] == 2
        limits = decode["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {"nvidia.com/gpu": "2"}
        assert graph["metadata"]["annotations"]["gitops/source"] == "functions/llama-chat/manifests/graph.yaml"
    nim = clusters["dgx-b"].get("/apis/apps.nvidia.com/v1alpha1/namespaces/fn-embed-h100-0/nimservices/embed")
    assert nim["spec"]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    await until(
        lambda: running.status("status/functions/llama-chat.yaml").get("status") == "DEPLOYING", "the function's status"
    )
    assert commit in (repo.read("status/README.md", branch="gitops-status") or "")


async def test_an_overlay_commit_costs_two_calls_an_object_and_touches_only_its_unit_then_revert_brings_it_back(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane]
) -> None:
    repo.commit(template_files(), "template")
    running = await fleet(repo, clusters)
    await running.settled()
    before = {
        (name, str(member.ref)): member.uid
        for name in clusters
        for record in running.engine.workers[name].state.parents.values()
        for member in record.members
    }
    running.clear()
    path = "functions/llama-chat/overlays/h100.yaml"
    overlay = yaml.safe_load(template_files()[path])
    overlay["spec"]["components"][0]["replicas"] = 3
    commit = running.push({path: yaml.safe_dump(overlay)}, "three decode workers")
    await running.settled(commit)
    for name, plane in clusters.items():
        instance = {"dgx-a": "fn-llama-chat-h100-0", "dgx-b": "fn-llama-chat-h100-1"}[name]
        assert decode_component(plane.get(GRAPHS.format(instance)))["replicas"] == 3
        calls = running.calls(name)
        assert len(calls) <= 2 * 1 + 3, calls
        touched = {w.path for w in running.writes(name)}
        assert all(instance in p or "function-llama-chat" in p for p in touched), touched

    running.clear()
    reverted = repo.revert(commit)
    running.engine.request_fetch()
    await running.settled(reverted)
    for name, plane in clusters.items():
        instance = {"dgx-a": "fn-llama-chat-h100-0", "dgx-b": "fn-llama-chat-h100-1"}[name]
        assert decode_component(plane.get(GRAPHS.format(instance)))["replicas"] == 2
        assert len(running.calls(name)) <= 5
    after = {
        (name, str(member.ref)): member.uid
        for name in clusters
        for record in running.engine.workers[name].state.parents.values()
        for member in record.members
    }
    assert after == before, "nothing was recreated"


async def test_at_rest_nothing_is_called_and_nothing_is_committed(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane]
) -> None:
    repo.commit(template_files(), "template")
    running = await fleet(repo, clusters)
    await running.settled()
    await until(lambda: running.status("status/units/dgx-a/function.llama-chat.h100-0.yaml"), "the unit's status file")
    running.clear()
    for _ in range(20):  # heads that change nothing are looked at and acknowledged, no more
        running.engine.request_fetch()
        await until(lambda: not running.engine.looking, "the look to end")
    assert running.calls("dgx-a") == []
    assert running.calls("dgx-b") == []
