"""The NIM operator: NIMService → ServiceAccount, Service, Deployment; NIMCache → PersistentVolumeClaim, Job.

Played after recordings of the real one (3.1 line), its oddities included, because they are what a GitOps tool has to
live with: it rewrites the spec of the object it is given (canonical quantities, empty structs), its status says nothing
about generations, and it does not undo edits of its children.
"""

from __future__ import annotations

import copy
import hashlib
import json
from datetime import UTC, datetime
from typing import Any, ClassVar

from gitops.sim.api import Body, Kind
from gitops.sim.controlling import Operator, reference, set_condition
from gitops.sim.kinds import CLAIM, DEPLOYMENT, JOB, NIM_CACHE, NIM_SERVICE, SERVICE, SERVICE_ACCOUNT

_PARENT_HASH = "nvidia.com/parent-spec-hash"
_LAST_HASH = "nvidia.com/last-applied-hash"

_EMPTY_SERVICE: Body = {
    "expose": {"ingress": {"spec": {}}, "router": {}, "service": {}},
    "livenessProbe": {},
    "readinessProbe": {},
    "startupProbe": {},
    "metrics": {"serviceMonitor": {}},
    "scale": {"hpa": {"maxReplicas": 0, "minReplicas": 1}},
    "storage": {"nimCache": {}, "pvc": {}},
}
"""What the real operator's typed Update adds, because its Go structs have no pointers."""

_EMPTY_CACHE: Body = {"resources": {"cpu": "0", "memory": "0"}}


class NimOperator(Operator):
    manager: ClassVar[str] = "k8s-nim-operator"
    primaries: ClassVar[tuple[Kind, ...]] = (NIM_SERVICE, NIM_CACHE)
    children: ClassVar[tuple[Kind, ...]] = (DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, CLAIM, JOB)

    async def reconcile(self, kind: str, namespace: str, name: str) -> float | None:
        resource = NIM_SERVICE if kind == NIM_SERVICE.kind else NIM_CACHE
        body = self.get(resource, namespace, name)
        if body is None:
            return None
        body = await self._own(resource, copy.deepcopy(body))
        if "deletionTimestamp" in body["metadata"]:
            return None
        if resource is NIM_SERVICE:
            await self._service(body)
        else:
            await self._cache(body)
            for service in self._users(namespace, name):
                self.enqueue((NIM_SERVICE.kind, namespace, service))
        return None

    async def _own(self, kind: Kind, body: Body) -> Body:
        """Finalizer on or off, and the spec as our types would write it: one full Update, as the real operator does."""
        finalizer = f"finalizer.{kind.kind.lower()}.apps.nvidia.com"
        finalizers = body["metadata"].setdefault("finalizers", [])
        if "deletionTimestamp" in body["metadata"]:
            if finalizer in finalizers:
                finalizers.remove(finalizer)
                return copy.deepcopy(await self.write(kind, body))
            return body
        if finalizer in finalizers:
            return body
        finalizers.append(finalizer)
        empty = _EMPTY_SERVICE if kind is NIM_SERVICE else _EMPTY_CACHE
        body["spec"] = _with_defaults(_canonical_quantities(body["spec"]), empty)
        return copy.deepcopy(await self.write(kind, body))

    def _users(self, namespace: str, cache: str) -> list[str]:
        return [
            name
            for (kind, place, name), body in list(self.cache.items())
            if kind == NIM_SERVICE.kind and place == namespace and _cache_name(body) == cache
        ]

    # -- NIMService -------------------------------------------------------------------------------------------------

    async def _service(self, nim: Body) -> None:
        waiting = self._waits_for_cache(nim)
        if waiting is not None:
            await self._service_status(nim, *waiting)
            return
        deployment = None
        for kind, wanted in _children(nim):
            written = await self._sync(kind, nim, wanted)
            deployment = written if kind is DEPLOYMENT else deployment
        ready, message = _rolled_out(deployment or {})
        state = "Ready" if ready else "NotReady"
        await self._service_status(nim, state, state, message)

    def _waits_for_cache(self, nim: Body) -> tuple[str, str, str] | None:
        """State, reason and message while the NIMCache it names is missing or not ready."""
        name = _cache_name(nim)
        if not name:
            return None
        cache = self.get(NIM_CACHE, nim["metadata"]["namespace"], name)
        if cache is None:
            return "Failed", "NIMCacheNotFound", f"NIMCache {name} not found"
        state = cache.get("status", {}).get("state")
        if state == "Failed":
            return "Failed", "NIMCacheFailed", ""
        return None if state == "Ready" else ("NotReady", "NIMCacheNotReady", f"NIMCache {name} not ready")

    async def _service_status(self, nim: Body, state: str, reason: str, message: str) -> None:
        status = copy.deepcopy(nim.get("status", {}))
        conditions = status.setdefault("conditions", [])
        failed, now = state == "Failed", _now()
        ready = {"status": "True" if state == "Ready" else "False", "reason": "Failed" if failed else reason}
        set_condition(conditions, {"type": "Ready", "message": "" if failed else message, **ready}, now=now)
        broken = {"status": "True" if failed else "False", "reason": reason if failed else "Ready"}
        set_condition(conditions, {"type": "Failed", "message": message if failed else "", **broken}, now=now)
        status["state"] = state
        if state == "Ready":
            service = self.get(SERVICE, nim["metadata"]["namespace"], nim["metadata"]["name"]) or {}
            endpoint = f"{service.get('spec', {}).get('clusterIP', '')}:{_port(nim)}"
            model = nim["spec"]["image"]["repository"].partition("/nim/")[2]
            status["model"] = {"name": model, "clusterEndpoint": endpoint, "externalEndpoint": ""}
        if status != nim.get("status"):
            await self.write(NIM_SERVICE, {**nim, "status": status}, subresource="status")

    async def _sync(self, kind: Kind, owner: Body, wanted: Body) -> Body:
        """Create the child, or replace it when the owner's spec has changed. An edited child stays as it was edited."""
        namespace = owner["metadata"]["namespace"]
        parent, digest = _hash(owner["spec"]), _hash(wanted)
        wanted["metadata"] |= {
            "namespace": namespace,
            "ownerReferences": [reference(owner)],
            "annotations": {_LAST_HASH: digest, _PARENT_HASH: parent, "openshift.io/required-scc": "nonroot"},
        }
        live = self.get(kind, namespace, wanted["metadata"]["name"])
        if live is None:
            return await self.write(kind, wanted)
        annotations = live["metadata"].get("annotations", {})
        if annotations.get(_PARENT_HASH) == parent or annotations.get(_LAST_HASH) == digest:
            return live
        updated = copy.deepcopy(live)
        updated["metadata"]["annotations"] = {**annotations, **wanted["metadata"]["annotations"]}
        updated["metadata"]["labels"] = wanted["metadata"]["labels"]
        if "spec" in wanted:
            updated["spec"] = {**updated["spec"], **wanted["spec"]} if kind is SERVICE else wanted["spec"]
        return await self.write(kind, updated)

    # -- NIMCache ---------------------------------------------------------------------------------------------------

    async def _cache(self, cache: Body) -> None:
        if cache.get("status", {}).get("state") == "Ready":
            return  # sticky: the real one never looks again
        claim = await self._claim(cache)
        if claim is None:
            await self._cache_status(cache, "NotReady", "", ("NIM_CACHE_RECONCILE_FAILED", "True", "ReconcileFailed"))
            return
        name = claim["metadata"]["name"]
        job = next(self.owned(JOB, cache), None)
        if job is None:
            job = await self.write(JOB, _job(cache, name))
        counts = job.get("status", {})
        if any(c["type"] == "Complete" and c["status"] == "True" for c in counts.get("conditions", ())):
            state, condition = "Ready", ("NIM_CACHE_JOB_COMPLETED", "True", "JobCompleted")
        elif counts.get("failed"):
            state, condition = "Failed", ("NIM_CACHE_JOB_COMPLETED", "False", "JobFailed")
        elif counts.get("ready"):
            state, condition = "InProgress", ("NIM_CACHE_JOB_PENDING", "False", "JobRunning")
        elif counts.get("active"):
            state, condition = "Pending", ("NIM_CACHE_JOB_PENDING", "True", "JobPending")
        else:
            state, condition = "Started", ("NIM_CACHE_JOB_CREATED", "True", "JobCreated")
        await self._cache_status(cache, state, name, condition)

    async def _claim(self, cache: Body) -> Body | None:
        """The claim that the cache names, made when it says so; None when it is not there."""
        wanted = cache["spec"].get("storage", {}).get("pvc", {})
        meta = cache["metadata"]
        name = wanted.get("name") or f"{meta['name']}-pvc"
        live = self.get(CLAIM, meta["namespace"], name)
        if live is not None or not wanted.get("create"):
            return live
        labels = {
            **_cache_labels(cache),
            "app.kubernetes.io/instance": meta["name"],
            "app.kubernetes.io/part-of": "nim-cache",
        }
        spec: Body = {
            "accessModes": [wanted.get("volumeAccessMode") or "ReadWriteOnce"],
            "resources": {"requests": {"storage": str(wanted.get("size") or "1Gi")}},
        }
        if wanted.get("storageClass"):
            spec["storageClassName"] = wanted["storageClass"]
        metadata = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [reference(cache)],
        }
        return await self.write(CLAIM, _object(CLAIM, metadata, spec))

    async def _cache_status(self, cache: Body, state: str, claim: str, condition: tuple[str, str, str]) -> None:
        status = copy.deepcopy(cache.get("status", {}))
        conditions, now = status.setdefault("conditions", []), _now()
        if claim:
            made = {"type": "NIM_CACHE_PVC_CREATED", "status": "True", "reason": "PVCCreated", "message": ""}
            set_condition(conditions, made, now=now)
            status["pvc"] = claim
        type_, value, reason = condition
        set_condition(conditions, {"type": type_, "status": value, "reason": reason, "message": ""}, now=now)
        status["state"] = state
        if status != cache.get("status"):
            await self.write(NIM_CACHE, {**cache, "status": status}, subresource="status")


def _object(kind: Kind, metadata: Body, spec: Body | None = None) -> Body:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}


def _children(nim: Body) -> list[tuple[Kind, Body]]:
    name, spec = nim["metadata"]["name"], nim["spec"]
    labels = {
        **spec.get("labels", {}),
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/part-of": "nim-service",
        "app.kubernetes.io/managed-by": "k8s-nim-operator",
        "app.kubernetes.io/operator-version": "",
    }
    image = spec["image"]
    container = {
        "name": f"{name}-ctr",
        "image": f"{image['repository']}:{image['tag']}",
        "ports": [{"name": "api", "containerPort": _port(nim), "protocol": "TCP"}],
        "env": spec.get("env", []),
        "resources": {k: v for k, v in spec.get("resources", {}).items() if k in ("limits", "requests")},
    }
    pod = {
        "containers": [container],
        "serviceAccountName": name,
        "imagePullSecrets": [{"name": secret} for secret in image.get("pullSecrets", ())],
        "nodeSelector": spec.get("nodeSelector", {}),
        "tolerations": spec.get("tolerations", []),
    }
    deployment = {
        "replicas": spec.get("replicas", 1),
        "selector": {"matchLabels": {"app": name}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
        "template": {"metadata": {"labels": {**labels, "app": name}}, "spec": pod},
    }
    service = {
        "type": spec.get("expose", {}).get("service", {}).get("type") or "ClusterIP",
        "selector": {"app": name},
        "ports": [{"name": "api", "port": _port(nim), "targetPort": "api", "protocol": "TCP"}],
    }
    meta = {"name": name, "labels": labels}
    return [
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, dict(meta))),
        (SERVICE, _object(SERVICE, dict(meta), service)),
        (DEPLOYMENT, _object(DEPLOYMENT, dict(meta), deployment)),
    ]


def _job(cache: Body, claim: str) -> Body:
    meta = cache["metadata"]
    labels = _cache_labels(cache)
    pod = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "nim-cache-ctr",
                "image": _puller(cache),
                "volumeMounts": [{"name": "nim-cache-volume", "mountPath": "/model-store"}],
            }
        ],
        "volumes": [{"name": "nim-cache-volume", "persistentVolumeClaim": {"claimName": claim}}],
    }
    spec = {
        "backoffLimit": 5,
        "ttlSecondsAfterFinished": 600,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    metadata = {
        "name": f"{meta['name']}-job",
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [reference(cache)],
    }
    return _object(JOB, metadata, spec)


def _cache_labels(cache: Body) -> dict[str, str]:
    return {
        "app": "k8s-nim-operator",
        "app.kubernetes.io/name": cache["metadata"]["name"],
        "app.kubernetes.io/managed-by": "k8s-nim-operator",
    }


def _puller(cache: Body) -> str:
    for source in cache["spec"].get("source", {}).values():
        if isinstance(source, dict) and source.get("modelPuller"):
            return str(source["modelPuller"])
    return "nvcr.io/nvidia/nim-model-puller:latest"


def _cache_name(nim: Body) -> str:
    return str(nim["spec"].get("storage", {}).get("nimCache", {}).get("name") or "")


def _port(nim: Body) -> int:
    return int(nim["spec"].get("expose", {}).get("service", {}).get("port") or 8000)


def _rolled_out(deployment: Body) -> tuple[bool, str]:
    """The real operator's rule: it does not compare observedGeneration, and no replicas are not ready."""
    wanted, status = deployment.get("spec", {}).get("replicas", 0), deployment.get("status", {})
    name = deployment.get("metadata", {}).get("name", "")
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if not wanted:
        return False, f'deployment "{name}" is scaled down\n'
    if updated < wanted:
        return False, f'Waiting for deployment "{name}" rollout to finish: {updated} of {wanted} are updated\n'
    if available < updated:
        return False, f'Waiting for deployment "{name}" rollout to finish: {available} of {updated} are available\n'
    return True, f'deployment "{name}" successfully rolled out\n'


def _canonical_quantities(spec: Body) -> Body:
    """`nvidia.com/gpu: 1` → `"1"`: a Go Quantity is always written as text."""
    changed = copy.deepcopy(spec)
    resources = changed.get("resources", {})
    for amounts in (resources, resources.get("limits"), resources.get("requests")):
        for name, amount in list((amounts or {}).items()):
            if isinstance(amount, int | float) and not isinstance(amount, bool):
                amounts[name] = str(amount)
    return changed


def _with_defaults(value: Any, defaults: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(defaults, dict):
        return value
    merged = {
        key: _with_defaults(value[key], default) if key in value else default for key, default in defaults.items()
    }
    return {**value, **copy.deepcopy(merged)}


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
