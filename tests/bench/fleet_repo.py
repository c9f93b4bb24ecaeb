"""The repository that the benchmarks declare: N bundles of four objects each, all in one namespace.

A unit is what a small service needs: ServiceAccount, ConfigMap, Service, Deployment. The peers' figures in
docs/performance.md were taken on the same four kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

CLUSTER = "bench"
FOREIGN = "foreign"
"""What the foreign writer puts in place of a declared value."""

REPLICAS = 2
FOREIGN_REPLICAS = 7


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the four kinds: its collection below a namespace, and the field that a foreign writer changes."""

    kind: str
    group: str
    plural: str
    field: tuple[str, ...]

    def collection(self, namespace: str) -> str:
        return f"{self.group}/namespaces/{namespace}/{self.plural}"

    def declared(self, name: str) -> Any:
        """The declared value of the field, of the object called `name`."""
        return REPLICAS if self.kind == "Deployment" else "v0" if self.kind == "ConfigMap" else name

    def foreign(self) -> Any:
        return FOREIGN_REPLICAS if self.kind == "Deployment" else FOREIGN

    def value(self, obj: Mapping[str, Any]) -> Any:
        found: Any = obj
        for step in self.field:
            found = (found or {}).get(step)
        return found

    def patch(self, value: Any) -> dict[str, Any]:
        """The merge patch that sets the field."""
        body: Any = value
        for step in reversed(self.field):
            body = {step: body}
        result: dict[str, Any] = body
        return result


KINDS = (
    Kind("ConfigMap", "/api/v1", "configmaps", ("data", "value")),
    Kind("Deployment", "/apis/apps/v1", "deployments", ("spec", "replicas")),
    Kind("Service", "/api/v1", "services", ("metadata", "labels", "app")),
    Kind("ServiceAccount", "/api/v1", "serviceaccounts", ("metadata", "labels", "app")),
)


def unit_name(index: int) -> str:
    return f"u-{index:04d}"


def config_path(index: int) -> str:
    """The file that a one-file commit changes."""
    return f"bundles/{unit_name(index)}/manifests/config.yaml"


def config_file(index: int, namespace: str, value: str) -> str:
    return _yaml(_config_map(unit_name(index), namespace, value))


def repository(units: int, *, namespace: str, reconciler: str) -> dict[str, str]:
    """All files of the first commit."""
    files = {
        "gitops.yaml": _yaml(_document("Repository", reconciler)),
        f"clusters/{CLUSTER}.yaml": _yaml({**_document("Cluster", CLUSTER), "spec": {"credentials": CLUSTER}}),
    }
    for index in range(units):
        name = unit_name(index)
        bundle = {**_document("Bundle", name), "spec": {"manifests": ["manifests/"]}}
        files[f"bundles/{name}/bundle.yaml"] = _yaml(bundle)
        files[config_path(index)] = config_file(index, namespace, "v0")
        rest = (_service_account(name, namespace), _service(name, namespace), _deployment(name, namespace))
        files[f"bundles/{name}/manifests/app.yaml"] = "---\n".join(_yaml(o) for o in rest)
    return files


def objects(units: int) -> Iterator[tuple[Kind, str]]:
    """Kind and name of every declared object, kinds in turn."""
    for index in range(units):
        for kind in KINDS:
            yield kind, unit_name(index)


def _document(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "gitops/v1alpha1", "kind": kind, "metadata": {"name": name}}


def _object(api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name, "team": "serving"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _service_account(name: str, namespace: str) -> dict[str, Any]:
    return _object("v1", "ServiceAccount", name, namespace)


def _config_map(name: str, namespace: str, value: str) -> dict[str, Any]:
    data = {"value": value, "LOG_LEVEL": "info", "settings.json": '{"model": "llama", "context": 8192}'}
    return {**_object("v1", "ConfigMap", name, namespace), "data": data}


def _service(name: str, namespace: str) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"}]
    return {**_object("v1", "Service", name, namespace), "spec": {"selector": {"app": name}, "ports": ports}}


def _deployment(name: str, namespace: str) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": "registry.example/server:1.2.3",
        "args": ["--port", "8000", "--model", "llama"],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "env": [{"name": "LOG_LEVEL", "valueFrom": {"configMapKeyRef": {"name": name, "key": "LOG_LEVEL"}}}],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}, "requests": {"cpu": "4", "memory": "64Gi"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10},
    }
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"serviceAccountName": name, "containers": [container]},
    }
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {**_object("apps/v1", "Deployment", name, namespace), "spec": spec}


def _yaml(body: Mapping[str, Any]) -> str:
    return yaml.dump(body, Dumper=yaml.CSafeDumper, sort_keys=False)
