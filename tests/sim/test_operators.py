"""The played operators on a real API server with controllers and nodes: what comes out is what the real ones do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gitops.sim import CRDS
from gitops.sim.operators import install_definitions, play

APPLY = "application/apply-patch+yaml"
GRAPHS = "/apis/nvidia.com/v1beta1/namespaces/{ns}/dynamographdeployments"
COMPONENTS = "/apis/nvidia.com/v1beta1/namespaces/{ns}/dynamocomponentdeployments"
SERVICES = "/apis/apps.nvidia.com/v1alpha1/namespaces/{ns}/nimservices"
CACHES = "/apis/apps.nvidia.com/v1alpha1/namespaces/{ns}/nimcaches"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"

Json = dict[str, Any]


@pytest.fixture
async def cluster(full_api: Any) -> AsyncIterator[Any]:
    """The complete control plane with our definitions and the operators playing."""
    await install_definitions(full_api.kubeconfig)
    playing = asyncio.create_task(play(full_api.kubeconfig))
    yield full_api
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing


async def until(api: Any, condition: Callable[[], Any], what: str) -> Any:
    return await asyncio.to_thread(api.wait, condition, what, timeout=40)


def graph(*, image: str = "runtime:1", replicas: int = 1) -> Json:
    def pod(image: str) -> Json:
        container = {"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        return {"spec": {"containers": [container]}}

    components = [
        {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": pod("frontend:1")},
        {"name": "decode", "type": "decode", "replicas": replicas, "podTemplate": pod(image)},
    ]
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama"},
        "spec": {"backendFramework": "vllm", "components": components},
    }


def nim(**spec: Any) -> Json:
    image = {"repository": "nvcr.io/nim/meta/llama", "tag": "1.0", "pullSecrets": ["ngc-secret"]}
    return {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMService",
        "metadata": {"name": "llama"},
        "spec": {"image": image, "replicas": 1, **spec},
    }


def cache() -> Json:
    pvc = {"create": True, "size": "10Gi", "storageClass": "fast", "volumeAccessMode": "ReadWriteMany"}
    source = {"ngc": {"modelPuller": "nvcr.io/nim/meta/llama:1.0", "authSecret": "ngc", "model": {"engine": "vllm"}}}
    return {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMCache",
        "metadata": {"name": "weights"},
        "spec": {"source": source, "storage": {"pvc": pvc}},
    }


def apply(api: Any, path: str, body: Json) -> Json:
    query = {"fieldManager": "gitops-test", "force": "true", "fieldValidation": "Strict"}
    applied: Json = api.request("PATCH", f"{path}/{body['metadata']['name']}", body, content_type=APPLY, query=query)
    return applied


def owner(body: Json) -> str:
    (reference,) = body["metadata"]["ownerReferences"]
    assert reference["controller"] is True
    return f"{reference['kind']}/{reference['name']}"


def condition(body: Json, type_: str) -> Json:
    found: Json = next(c for c in body["status"]["conditions"] if c["type"] == type_)
    return found


async def test_graph_becomes_ready_through_its_components(cluster: Any, full_namespace: str) -> None:
    path, components = GRAPHS.format(ns=full_namespace), COMPONENTS.format(ns=full_namespace)
    apply(cluster, path, graph())

    def successful() -> Json | None:
        live: Json = cluster.get(f"{path}/llama")
        return live if live.get("status", {}).get("state") == "successful" else None

    live = await until(cluster, successful, "the graph to be ready")
    assert live["status"]["observedGeneration"] == live["metadata"]["generation"] == 1
    ready = condition(live, "Ready")
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("True", "all_resources_are_ready", 1)
    worker_hash = live["metadata"]["annotations"]["nvidia.com/current-worker-hash-v2"]
    assert live["metadata"]["finalizers"] == ["nvidia.com/finalizer"]
    assert live["status"]["components"]["decode"]["componentNames"] == [f"llama-decode-{worker_hash}"]
    ours = next(e for e in live["metadata"]["managedFields"] if e["manager"] == "gitops-test")
    assert ours["operation"] == "Apply"

    names = {c["metadata"]["name"]: c for c in cluster.get(components)["items"]}
    assert set(names) == {"llama-frontend", f"llama-decode-{worker_hash}"}
    assert all(owner(c) == "DynamoGraphDeployment/llama" for c in names.values())
    for deployment in cluster.get(DEPLOYMENTS.format(ns=full_namespace))["items"]:
        assert owner(deployment) == f"DynamoComponentDeployment/{deployment['metadata']['name']}"
        assert deployment["metadata"]["labels"]["nvidia.com/dynamo-graph-deployment-name"] == "llama"


async def test_new_worker_image_renames_workers_and_drops_the_old(cluster: Any, full_namespace: str) -> None:
    path, components = GRAPHS.format(ns=full_namespace), COMPONENTS.format(ns=full_namespace)
    apply(cluster, path, graph())

    def current(generation: int) -> set[str] | None:
        live = cluster.get(f"{path}/llama")
        status = live.get("status", {})
        if (status.get("state"), status.get("observedGeneration")) != ("successful", generation):
            return None
        names = {c["metadata"]["name"] for c in cluster.get(components)["items"]}
        return names if len(names) == 2 else None

    before = await until(cluster, lambda: current(1), "the first roll-out")
    apply(cluster, path, graph(image="runtime:2"))
    after = await until(cluster, lambda: current(2), "the second roll-out")
    assert before & after == {"llama-frontend"}


async def test_edited_child_of_a_graph_is_put_back(cluster: Any, full_namespace: str) -> None:
    path = f"{DEPLOYMENTS.format(ns=full_namespace)}/llama-frontend"
    apply(cluster, GRAPHS.format(ns=full_namespace), graph())
    await until(cluster, lambda: cluster.get(path), "the Deployment")
    patch = {"spec": {"replicas": 4}}
    cluster.request("PATCH", path, patch, content_type="application/merge-patch+json", query={"fieldManager": "human"})
    await until(cluster, lambda: cluster.get(path)["spec"]["replicas"] == 1, "the replicas to be put back")


async def test_deleted_graph_goes_with_its_children(cluster: Any, full_namespace: str) -> None:
    path, components = GRAPHS.format(ns=full_namespace), COMPONENTS.format(ns=full_namespace)
    apply(cluster, path, graph())
    await until(cluster, lambda: len(cluster.get(components)["items"]) == 2, "the components")
    cluster.request("DELETE", f"{path}/llama")
    await until(cluster, lambda: cluster.get(f"{path}/llama") is None, "the graph to be gone")
    await until(cluster, lambda: not cluster.get(components)["items"], "the components to be collected")


async def test_nim_service_is_rewritten_and_becomes_ready(cluster: Any, full_namespace: str) -> None:
    path = SERVICES.format(ns=full_namespace)
    assert apply(cluster, path, nim(resources={"limits": {"nvidia.com/gpu": 1}}))["metadata"]["generation"] == 1

    def state(wanted: str) -> Json | None:
        live: Json = cluster.get(f"{path}/llama")
        return live if live.get("status", {}).get("state") == wanted else None

    live = await until(cluster, lambda: state("Ready"), "the NIMService to be ready")
    assert live["metadata"]["generation"] == 2
    assert live["spec"]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert live["spec"]["scale"] == {"hpa": {"maxReplicas": 0, "minReplicas": 1}}
    assert "observedGeneration" not in live["status"]
    assert condition(live, "Ready")["reason"] == "Ready"
    assert condition(live, "Failed")["status"] == "False"
    taken = next(e for e in live["metadata"]["managedFields"] if e["manager"] == "k8s-nim-operator")
    assert "f:nvidia.com/gpu" in taken["fieldsV1"]["f:spec"]["f:resources"]["f:limits"]
    deployment = cluster.get(f"{DEPLOYMENTS.format(ns=full_namespace)}/llama")
    assert owner(deployment) == "NIMService/llama"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "k8s-nim-operator"


async def test_edited_child_of_a_nim_service_stays(cluster: Any, full_namespace: str) -> None:
    path, child = SERVICES.format(ns=full_namespace), f"{DEPLOYMENTS.format(ns=full_namespace)}/llama"
    apply(cluster, path, nim())
    await until(cluster, lambda: cluster.get(f"{path}/llama").get("status", {}).get("state") == "Ready", "ready")
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "edited:1"}]
    cluster.request("PATCH", child, image, content_type="application/json-patch+json")
    replicas = {"spec": {"replicas": 2}}
    cluster.request("PATCH", f"{path}/llama", replicas, content_type="application/merge-patch+json")

    def scaled() -> Json | None:
        live: Json = cluster.get(child)
        return live if live["spec"]["replicas"] == 2 else None

    live = await until(cluster, scaled, "the change of the NIMService")  # only now is the child written again
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nvcr.io/nim/meta/llama:1.0"


async def test_nim_service_waits_for_its_cache(cluster: Any, full_namespace: str) -> None:
    path, caches = SERVICES.format(ns=full_namespace), CACHES.format(ns=full_namespace)
    apply(cluster, path, nim(storage={"nimCache": {"name": "weights"}}))

    def failed() -> Json | None:
        live: Json = cluster.get(f"{path}/llama")
        return live if live.get("status", {}).get("state") == "Failed" else None

    live = await until(cluster, failed, "the NIMService to miss its cache")
    assert condition(live, "Failed")["reason"] == "NIMCacheNotFound"
    apply(cluster, caches, cache())
    ready = await until(
        cluster,
        lambda: (c := cluster.get(f"{caches}/weights")).get("status", {}).get("state") == "Ready" and c,
        "the NIMCache to be ready",
    )
    assert ready["status"]["pvc"] == "weights-pvc"
    assert condition(ready, "NIM_CACHE_JOB_COMPLETED")["status"] == "True"
    assert ready["spec"]["resources"] == {"cpu": "0", "memory": "0"}
    claim = cluster.get(f"/api/v1/namespaces/{full_namespace}/persistentvolumeclaims/weights-pvc")
    assert claim["status"]["phase"] == "Bound"
    assert owner(claim) == "NIMCache/weights"
    await until(cluster, lambda: cluster.get(f"{path}/llama")["status"]["state"] == "Ready", "the NIMService")


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda p: p.stem)
def test_definition_rejects_a_misspelt_field(full_api: Any, full_namespace: str, path: Path) -> None:
    (name,) = full_api.create_crds(path)
    plural, _, group = name.partition(".")
    version = full_api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")["spec"]["versions"][0][
        "name"
    ]
    kind = path.read_text().partition("names: {kind: ")[2].partition(",")[0]
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": {"replicass": 1}}
    with pytest.raises(Exception, match=r"(?s)replicass|unknown"):
        apply(full_api, f"/apis/{group}/{version}/namespaces/{full_namespace}/{plural}", body)
