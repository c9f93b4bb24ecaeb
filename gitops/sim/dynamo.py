"""The Dynamo operator, component provider: graph → component deployments → Deployments and Services.

Played after recordings of the real one (1.5.0): names with a hash of the worker template, labels, annotations
last-applied-hash and last-applied-generation by which it notices and undoes edits of its children, status with
observedGeneration on both levels, and the state `pending` until every Deployment is ready.
"""

from __future__ import annotations

import copy
import hashlib
import json
from datetime import UTC, datetime
from typing import Any, ClassVar

from gitops.sim.api import Body, Kind
from gitops.sim.controlling import Operator, reference, set_condition
from gitops.sim.kinds import COMPONENT, DEPLOYMENT, GRAPH, SERVICE

FINALIZER = "nvidia.com/finalizer"
VERSION = "1.5.0"
_HASH = "nvidia.com/last-applied-hash"
_GENERATION = "nvidia.com/last-applied-generation"
_WORKERS = ("worker", "prefill", "decode")


class DynamoOperator(Operator):
    manager: ClassVar[str] = "dynamo-operator"
    primaries: ClassVar[tuple[Kind, ...]] = (GRAPH, COMPONENT)
    children: ClassVar[tuple[Kind, ...]] = (DEPLOYMENT, SERVICE)

    async def reconcile(self, kind: str, namespace: str, name: str) -> float | None:
        if kind == GRAPH.kind:
            graph = self.get(GRAPH, namespace, name)
            if graph is not None:
                await self._graph(copy.deepcopy(graph))
        else:
            component = self.get(COMPONENT, namespace, name)
            if component is not None and "deletionTimestamp" not in component["metadata"]:
                await self._component(copy.deepcopy(component))
        return None

    # -- the graph --------------------------------------------------------------------------------------------------

    async def _graph(self, graph: Body) -> None:
        meta = graph["metadata"]
        finalizers = meta.setdefault("finalizers", [])
        if "deletionTimestamp" in meta:
            if FINALIZER in finalizers:
                finalizers.remove(FINALIZER)
                await self.write(GRAPH, graph)
            return
        worker_hash = _worker_hash(graph)
        wanted = {
            "nvidia.com/dynamo-operator-origin-version": VERSION,
            "nvidia.com/workload-provider": "component",
            "nvidia.com/current-worker-hash-v2": worker_hash,
        }
        annotations = meta.setdefault("annotations", {})
        if FINALIZER not in finalizers or any(annotations.get(k) != v for k, v in wanted.items()):
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)
            annotations.update(wanted)
            graph = copy.deepcopy(await self.write(GRAPH, graph))
        current = [await self._sync(COMPONENT, graph, c) for c in _components(graph, worker_hash)]
        ready = [_available(component) for component in current]
        if all(ready):
            names = {component["metadata"]["name"] for component in current}
            for old in self.owned(COMPONENT, graph):
                if old["metadata"]["name"] not in names:
                    await self.api.delete(COMPONENT, old)
        await self._graph_status(graph, current)

    async def _graph_status(self, graph: Body, components: list[Body]) -> None:
        generation = graph["metadata"]["generation"]
        waiting = [c["metadata"]["name"] for c in components if not _available(c)]
        status = copy.deepcopy(graph.get("status", {}))
        status["state"] = "pending" if waiting else "successful"
        status["observedGeneration"] = generation
        status["components"] = {
            c["spec"]["name"]: c["status"]["component"] for c in components if c.get("status", {}).get("component")
        }
        condition = {
            "type": "Ready",
            "status": "False" if waiting else "True",
            "reason": "some_resources_are_not_ready" if waiting else "all_resources_are_ready",
            "message": f"Resources not ready: {', '.join(waiting)}" if waiting else "All resources are ready",
            "observedGeneration": generation,
        }
        set_condition(status.setdefault("conditions", []), condition, now=_now())
        await self._write_status(GRAPH, graph, status)

    # -- one component ----------------------------------------------------------------------------------------------

    async def _component(self, component: Body) -> None:
        deployment = await self._sync(DEPLOYMENT, component, _deployment(component))
        await self._sync(SERVICE, component, _service(component))
        observed = deployment.get("status", {})
        replicas = deployment["spec"].get("replicas", 1)
        ready = _deployment_ready(deployment)
        status = copy.deepcopy(component.get("status", {}))
        status["observedGeneration"] = component["metadata"]["generation"]
        status["component"] = {
            "componentKind": "Deployment",
            "componentNames": [deployment["metadata"]["name"]],
            "replicas": observed.get("replicas", 0),
            "updatedReplicas": observed.get("updatedReplicas", 0),
            "readyReplicas": observed.get("readyReplicas", 0),
            "availableReplicas": observed.get("availableReplicas", 0),
            "runtimeNamespace": component["metadata"]["labels"]["nvidia.com/dynamo-namespace"],
        }
        conditions = status.setdefault("conditions", [])
        for type_, reason in (("Available", "Deployment"), ("DynamoComponentReady", "Component")):
            condition = {
                "type": type_,
                "status": "True" if ready else "False",
                "reason": f"{reason}{'Ready' if ready else 'NotReady'}",
                "message": f"{observed.get('availableReplicas', 0)} of {replicas} replicas are available",
            }
            set_condition(conditions, condition, now=_now())
        await self._write_status(COMPONENT, component, status)

    # -- both -------------------------------------------------------------------------------------------------------

    async def _sync(self, kind: Kind, owner: Body, wanted: Body) -> Body:
        """Create the child, or write it again when what we want or what is there has changed."""
        meta = wanted["metadata"]
        meta["namespace"] = owner["metadata"]["namespace"]
        meta["ownerReferences"] = [reference(owner)]
        digest = hashlib.sha256(_canonical(wanted["spec"])).hexdigest()
        live = self.get(kind, meta["namespace"], meta["name"])
        if live is None:
            meta["annotations"] = {_HASH: digest, _GENERATION: "1"}
            return await self.write(kind, wanted)
        annotations = live["metadata"].get("annotations", {})
        generation = live["metadata"].get("generation", 1)  # a Service has none
        if annotations.get(_HASH) == digest and generation <= int(annotations.get(_GENERATION, "0")):
            return live
        updated = copy.deepcopy(live)
        updated["spec"] = {**updated["spec"], **wanted["spec"]} if kind is SERVICE else wanted["spec"]
        updated["metadata"].setdefault("annotations", {}).update({_HASH: digest, _GENERATION: str(generation + 1)})
        written = await self.write(kind, updated)
        if written["metadata"].get("generation", 1) != generation + 1:  # defaults only: nothing really changed
            updated = copy.deepcopy(written)
            updated["metadata"]["annotations"][_GENERATION] = str(written["metadata"].get("generation", 1))
            written = await self.write(kind, updated)
        return written

    async def _write_status(self, kind: Kind, body: Body, status: Body) -> None:
        if status != body.get("status"):
            await self.write(kind, {**body, "status": status}, subresource="status")


def _components(graph: Body, worker_hash: str) -> list[Body]:
    name, namespace = graph["metadata"]["name"], graph["metadata"]["namespace"]
    found = []
    for spec in graph["spec"].get("components", ()):
        worker = spec.get("type") in _WORKERS
        labels = {
            "nvidia.com/dynamo-component": spec["name"],
            "nvidia.com/dynamo-graph-deployment-name": name,
            "nvidia.com/dynamo-namespace": f"{namespace}-{name}".replace(".", "-")[:63],
        }
        if worker:
            labels["nvidia.com/dynamo-worker-hash"] = worker_hash
        child = f"{name}-{spec['name'].lower()}" + (f"-{worker_hash}" if worker else "")
        body = {k: v for k, v in spec.items() if k != "scalingAdapter"}
        if "backendFramework" in graph["spec"]:
            body["backendFramework"] = graph["spec"]["backendFramework"]
        found.append(
            {
                "apiVersion": COMPONENT.api_version,
                "kind": COMPONENT.kind,
                "metadata": {"name": child, "labels": labels},
                "spec": body,
            }
        )
    return found


def _deployment(component: Body) -> Body:
    name, spec = component["metadata"]["name"], component["spec"]
    labels = dict(component["metadata"]["labels"])
    template = copy.deepcopy(spec.get("podTemplate") or {})
    pod = template.setdefault("spec", {})
    containers = pod.setdefault("containers", [])
    main = next((c for c in containers if c["name"] == "main"), None)
    if main is None:
        main = {"name": "main"}
        containers.insert(0, main)
    main.setdefault("image", f"nvcr.io/nvidia/ai-dynamo/runtime:{VERSION}")
    main.setdefault("ports", [{"name": "system", "containerPort": 9090, "protocol": "TCP"}])
    type_ = spec.get("type", "worker")
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {
        **metadata.get("labels", {}),
        **labels,
        "nvidia.com/dynamo-component-type": type_,
        "nvidia.com/dynamo-discovery-backend": "kubernetes",
        "nvidia.com/dynamo-discovery-enabled": "true",
        "nvidia.com/metrics-enabled": "true",
        "nvidia.com/selector": name,
    }
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": {"nvidia.com/selector": name}},
            "template": template,
        },
    }


def _service(component: Body) -> Body:
    name = component["metadata"]["name"].replace(".", "-").lower()
    labels = dict(component["metadata"]["labels"])
    frontend = component["spec"].get("type") == "frontend"
    port = {"name": "http", "port": 8000} if frontend else {"name": "system", "port": 9090}
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {
                "nvidia.com/dynamo-component": labels["nvidia.com/dynamo-component"],
                "nvidia.com/dynamo-namespace": labels["nvidia.com/dynamo-namespace"],
            },
            "ports": [{**port, "protocol": "TCP", "targetPort": port["port"]}],
        },
    }


def _worker_hash(graph: Body) -> str:
    """Over the pod templates of all workers: one changed image renames every worker."""
    workers = [c for c in graph["spec"].get("components", ()) if c.get("type") in _WORKERS]
    return hashlib.sha256(_canonical([(c["name"], c.get("podTemplate")) for c in workers])).hexdigest()[:8]


def _available(component: Body) -> bool:
    status = component.get("status", {})
    if status.get("observedGeneration") != component["metadata"]["generation"]:
        return False
    return any(c["type"] == "Available" and c["status"] == "True" for c in status.get("conditions", ()))


def _deployment_ready(deployment: Body) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return False
    if wanted == 0:
        return True
    enough = all(status.get(k, 0) >= wanted for k in ("updatedReplicas", "availableReplicas"))
    return enough and status.get("replicas", 0) == wanted


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
