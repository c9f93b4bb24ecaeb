"""Small repositories with one bundle, and questions about what became of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml
from controlplane_kit.client import ApiServer
from controlplane_kit.faults import Request

from fleet_kit.fixtures import REPOSITORY, Fleet, bundle, cluster, config_map, namespace_yaml, until
from gitops.model.identity import UnitKey
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.state import UnitState

DGX = "dgx-a"

MARKS = ("gitops/reconciler", "applyset.kubernetes.io/part-of")


def repository(*clusters: str) -> dict[str, str]:
    """A repository without workloads, for these clusters."""
    return {"gitops.yaml": REPOSITORY, **{f"clusters/{name}.yaml": cluster(name) for name in clusters or (DGX,)}}


def bundle_files(name: str, manifests: dict[str, str], **spec: Any) -> dict[str, str]:
    """Files of a bundle; `manifests` by file name, `spec` goes into the Bundle document."""
    folder = f"bundles/{name}"
    return {
        f"{folder}/bundle.yaml": bundle(name, **spec),
        **{f"{folder}/manifests/{file}": text for file, text in manifests.items()},
    }


GPUS = [{"name": "H100", "capacity": 80, "instanceTypes": [{"name": "H100x1", "gpusPerInstance": 1}]}]
"""What a cluster has that runs functions of `function_files`."""


def function_files(
    name: str, manifests: dict[str, str], *, operator: str = "nim", instances: int = 1, **spec: Any
) -> dict[str, str]:
    """Files of a function with the GPU specification `any`; `spec` goes into the Function document."""
    head, folder = {"apiVersion": "gitops/v1alpha1", "metadata": {"name": name}}, f"functions/{name}"
    spec = {"version": "1", "operatorTypes": [operator], "manifests": ["manifests/"], **spec}
    gpus = {"gpuSpecifications": [{"id": "any", "gpu": "H100", "minInstances": instances}]}
    return {
        f"{folder}/function.yaml": yaml.safe_dump({**head, "kind": "Function", "spec": spec}),
        f"{folder}/deployment.yaml": yaml.safe_dump({**head, "kind": "FunctionDeployment", "spec": gpus}),
        **{f"{folder}/manifests/{file}": text for file, text in manifests.items()},
    }


def plain_map(name: str, **data: str) -> str:
    """A ConfigMap of a function: its namespace is the instance's."""
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def settings(namespace: str, **data: str) -> str:
    return config_map("settings", namespace, **data)


def deployment(name: str, namespace: str, *, replicas: int = 2, **env: str) -> str:
    """A Deployment of one container `web`, with environment variables."""
    variables = [{"name": key, "value": value} for key, value in env.items()]
    container = {"name": "web", "image": "example.com/web:1", "env": variables}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            },
        },
        sort_keys=False,
    )


def app(namespace: str, **env: str) -> dict[str, str]:
    """Manifests of a namespace with a ConfigMap and a Deployment."""
    return {
        "namespace.yaml": namespace_yaml(namespace),
        "settings.yaml": settings(namespace, level="info", mode="fast"),
        "web.yaml": deployment("web", namespace, **(env or {"FIRST": "1", "SECOND": "2"})),
    }


def key_of(name: str, cluster_name: str = DGX) -> UnitKey:
    return UnitKey.parse(f"bundle/{name}@{cluster_name}")


def unit(fleet: Fleet, name: str, cluster_name: str = DGX) -> UnitState:
    """Where a bundle's unit stands in the engine."""
    return fleet.engine.workers[cluster_name].state.units[key_of(name, cluster_name)]


def outcome_is(fleet: Fleet, name: str, *states: SyncState, cluster_name: str = DGX) -> Callable[[], bool]:
    """A condition: the bundle's unit stands so, and nothing is being done."""

    def condition() -> bool:
        worker = fleet.engine.workers.get(cluster_name)
        found = worker.state.units.get(key_of(name, cluster_name)) if worker is not None else None
        return found is not None and found.outcome.state in states and not worker.busy and not fleet.engine.looking

    return condition


def live(api: ApiServer, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
    """An object of a few kinds as it is now; None when there is none."""
    group = "/apis/apps/v1" if kind in {"deployments", "replicasets"} else "/api/v1"
    found: dict[str, Any] | None = api.get(f"{group}/namespaces/{namespace}/{kind}/{name}")
    return found


def writes_to(requests: Iterable[Request], path: str) -> list[Request]:
    """The requests whose path ends so."""
    pattern = re.compile(f"{path}$")
    return [r for r in requests if pattern.search(r.path)]


def except_parents(requests: Iterable[Request]) -> list[Request]:
    """Without the parents' bookkeeping."""
    return [r for r in requests if "/namespaces/gitops-system/" not in r.path]


def body_of(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(request.body)
    return decoded


def drift_file(fleet: Fleet, name: str, cluster_name: str = DGX) -> list[dict[str, Any]]:
    """The drifts that the status branch tells of a bundle's unit, open ones first, each the newest first."""
    body = fleet.status(f"drift/{cluster_name}/bundle.{name}.yaml")
    return [*body.get("open", []), *body.get("recent", [])]


async def drift_reported(fleet: Fleet, name: str, **wanted: str) -> dict[str, Any]:
    """Wait until the drift file has a record with these texts in these fields (`declared_at`: declaredAt)."""
    fields = {key.replace("_at", "At"): value for key, value in wanted.items()}

    def found() -> dict[str, Any] | None:
        return next(
            (d for d in drift_file(fleet, name) if all(v in str(d.get(k, "")) for k, v in fields.items())), None
        )

    record: dict[str, Any] = await until(found, f"a drift record with {fields}")
    return record


def line_of(text: str, part: str) -> int:
    """Number, from 1, of the first line that has this text."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)
