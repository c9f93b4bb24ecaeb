"""What people and controllers add to our objects on a real API server: which of it is told, and that it stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit
from controlplane_kit.client import APPLY, MERGE, ApiServer

from gitops.reconcile.outcomes import SyncState
from gitops.report.drift_files import UnitDrift, render_drift

pytestmark = pytest.mark.controlplane

CANARY = "hf_canaryCANARYcanaryCANARYcanaryCANARY"


def settings(namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": "settings", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"level": "info", **data}}


def web(namespace: str) -> dict[str, Any]:
    labels = {"app": "web"}
    container = {"name": "web", "image": "example/web:1", "env": [{"name": "A", "value": "1"}], "securityContext": {}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def told(unit: LiveUnit) -> list[tuple[str, str, str]]:
    """(name of the object, path, manager) of all additions."""
    added = unit.state.units[unit.key].additions
    return sorted((ref.name, row.path, row.manager) for ref, a in added.items() for row in a.rows)


@pytest.fixture
def kubectl(shared_api: ApiServer, namespace: str) -> Callable[..., str]:
    return lambda *arguments, **more: shared_api.kubectl("-n", namespace, *arguments, **more)


@pytest.fixture
def patch(shared_api: ApiServer, namespace: str) -> Callable[..., None]:
    def send(path: str, body: dict[str, Any], manager: str, content_type: str = MERGE) -> None:
        where = (
            f"/api/v1/namespaces/{namespace}" if path.startswith("conf") else f"/apis/apps/v1/namespaces/{namespace}"
        )
        shared_api.request("PATCH", f"{where}/{path}", body, content_type=content_type, query={"fieldManager": manager})

    return send


async def test_d04_what_people_add_is_told_apart_from_drift_and_never_removed(
    live_unit: LiveUnit, kubectl: Callable[..., str], patch: Callable[..., None], namespace: str, shared_api: ApiServer
) -> None:
    await live_unit.settled(settings(namespace), web(namespace))
    kubectl("patch", "configmap/settings", "--type=merge", "-p", json.dumps({"data": {"manual": CANARY}}))
    kubectl("label", "configmap/settings", "team=ml")
    kubectl("annotate", "deployment/web", "example.com/note=by hand")
    kubectl("set", "env", "deployment/web", "DEBUG=1")
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example/side:1"}]}}}}
    patch("deployments/web", side, "kubectl-edit", "application/strategic-merge-patch+json")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"tuned": "1"}}
    patch("configmaps/settings", applied, "terraform", APPLY)
    outcome = await live_unit.see()
    assert outcome.state is SyncState.SYNCED
    assert live_unit.drifts() == []
    assert told(live_unit) == [
        ("settings", "data.manual", "kubectl-patch"),
        ("settings", "data.tuned", "terraform"),
        ("settings", "metadata.labels.team", "kubectl-label"),
        ("web", 'metadata.annotations["example.com/note"]', "kubectl-annotate"),
        ("web", "spec.template.spec.containers[name=side]", "kubectl-edit"),
        ("web", "spec.template.spec.containers[name=web].env[name=DEBUG]", "kubectl-set"),
    ]
    rows = [row for a in live_unit.state.units[live_unit.key].additions.values() for row in a.rows]
    assert all(row.time.endswith("Z") for row in rows)
    drift = UnitDrift(live_unit.key, added=live_unit.state.units[live_unit.key].additions)
    assert CANARY not in render_drift(drift).decode(), "no value is told"

    # Drift of a declared value beside them is drift, no addition; its repair leaves them.
    kubectl("patch", "configmap/settings", "--type=merge", "-p", '{"data":{"level":"debug"}}')
    await live_unit.see()
    (only,) = live_unit.drifts()
    assert only.startswith("data.level of")
    assert len(told(live_unit)) == 6
    found = shared_api.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    assert found["data"] == {"level": "info", "manual": CANARY, "tuned": "1"}

    # Declared in Git or taken away by hand, it is none any more.
    await live_unit.settled(settings(namespace, manual=CANARY), web(namespace))
    kubectl("label", "configmap/settings", "team-")
    kubectl("set", "env", "deployment/web", "DEBUG-")
    await live_unit.see()
    assert [path for _, path, _ in told(live_unit)] == [
        "data.tuned",
        'metadata.annotations["example.com/note"]',
        "spec.template.spec.containers[name=side]",
    ]


async def test_d07_what_controllers_and_the_server_add_is_told_nobody(
    live_unit: LiveUnit, kubectl: Callable[..., str], patch: Callable[..., None], namespace: str, shared_api: ApiServer
) -> None:
    await live_unit.settled(settings(namespace), web(namespace))
    revision = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1", "other": "x"}}}
    patch("deployments/web", revision, "kube-controller-manager")
    patch("deployments/web", {"spec": {"replicas": 4}}, "kube-controller-manager")  # its own: repaired
    patch("deployments/web", {"metadata": {"finalizers": ["example.com/keep"]}}, "kubectl-edit")
    patch("deployments/web", {"metadata": {"labels": {"managed": "yes"}}}, "nim-operator")
    patch("configmaps/settings", {"data": {"ca.crt": "x"}}, "cert-manager-cainjector")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "00000000-0000-0000-0000-000000000001"}
    patch("configmaps/settings", {"metadata": {"ownerReferences": [owner]}}, "some-client")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("apply", "-f", "-", stdin=json.dumps(settings(namespace)))  # its note of what it applied
    status = json.dumps({"status": {"observedGeneration": 1, "replicas": 2}})
    kubectl("patch", "deployment/web", "--subresource=status", "--type=merge", "-p", status)
    await live_unit.see()
    assert told(live_unit) == []
    metadata = shared_api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")["metadata"]
    assert metadata["finalizers"] == ["example.com/keep"], "nor taken away"
    assert metadata["annotations"]["other"] == "x"
    await live_unit.settled(settings(namespace, new="1"), web(namespace))
    metadata = shared_api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")["metadata"]
    assert metadata["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert metadata["finalizers"] == ["example.com/keep"]
