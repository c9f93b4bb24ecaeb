"""Functions with one NIMService each, and what its operator makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from fleet_repo import CLUSTER

CRDS = Path(__file__).parents[2] / "gitops/sim/crds"

SERVICE = {
    "apiVersion": "apps.nvidia.com/v1alpha1",
    "kind": "NIMService",
    "spec": {
        "image": {"repository": "registry.example/nim/embed", "tag": "1.6.0"},
        "authSecret": "ngc-api-secret",
        "storage": {"emptyDir": {}},
        "replicas": 2,
        "expose": {"service": {"port": 8000}},
    },
}


def nim_name(index: int) -> str:
    return f"n-{index:04d}"


def instance_namespace(index: int) -> str:
    """Where the only instance of a function is."""
    return f"fn-{nim_name(index)}-h100-0"


def nim_files(functions: int) -> dict[str, str]:
    """All files of the functions, and the Cluster document, which has to offer what they need."""
    cluster = {
        "credentials": CLUSTER,
        "attributes": ["NIMOperatorSupport"],
        "gpus": [{"name": "H100", "instanceTypes": [{"name": "H100x1", "gpusPerInstance": 1}]}],
    }
    files = {f"clusters/{CLUSTER}.yaml": _document("Cluster", CLUSTER, cluster)}
    for index in range(functions):
        name = nim_name(index)
        folder = f"functions/{name}"
        specification = {"id": "h100", "gpu": "H100", "instanceType": "H100x1", "minInstances": 1}
        files[f"{folder}/function.yaml"] = _document(
            "Function", name, {"version": "1", "operatorTypes": ["nim"], "manifests": ["manifests/"]}
        )
        files[f"{folder}/deployment.yaml"] = _document(
            "FunctionDeployment", name, {"gpuSpecifications": [specification]}
        )
        files[f"{folder}/manifests/service.yaml"] = yaml.safe_dump({**SERVICE, "metadata": {"name": name}})
    return files


def child(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The Deployment that the operator makes of a NIMService."""
    metadata, app = owner["metadata"], {"app": owner["metadata"]["name"]}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    container = {"name": "server", "image": "registry.example/nim/embed:1.6.0"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {"app.kubernetes.io/managed-by": "k8s-nim-operator"},
            "ownerReferences": [reference],
        },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": {"containers": [container]}},
        },
    }


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    body = {"apiVersion": "gitops/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
    return yaml.safe_dump(body)
