"""Moving in from other tools, with the whole engine: one story, and every call of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, config_map, until
from fleet_kit.scenes import DGX, bundle_files, live, outcome_is, repository, unit

from gitops.cluster.applying import APPLY_PATCH
from gitops.cluster.objects import JSON_PATCH
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "moving"},
}
OPERATOR = {"metadata": {"annotations": {"operator.example/x": "1"}, "finalizers": ["operator.example/guard"]}}


def service(port: int) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "moving"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port}]},
        }
    )


async def test_moving_in_from_kubectl_and_helm_without_a_single_put(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Adoption, consent in Git, drift, a blocked repair, a change and a deletion: objects are applied, their entries
    and marks patched, and nothing of operators is lost. What is refused is looked at again when Git allows it."""
    plane.create_namespace("moving")
    charted = yaml.safe_load(config_map("charted", "moving", one="1", two="2"))
    charted["metadata"] |= HELM
    path = "/api/v1/namespaces/moving/configmaps"
    plane.request("POST", path, charted, query={"fieldManager": "helm"})
    plane.request("PATCH", f"{path}/charted", OPERATOR, content_type=MERGE, query={"fieldManager": "operator"})
    plane.kubectl("apply", "-f", "-", stdin=service(80))

    manifests = {"charted.yaml": config_map("charted", "moving", one="1"), "web.yaml": service(8080)}
    repo.commit({**repository(), **bundle_files("moving", manifests)}, "first")
    running = await fleet(repo, {DGX: plane})
    await until(outcome_is(running, "moving", SyncState.REFUSED), "the refusal of what Helm declares")
    assert "adoptFrom: [helm]" in unit(running, "moving").outcome.sentence
    assert ports(plane) == [8080], "the Service is another component"

    commit = running.push(bundle_files("moving", manifests, adoptFrom=["helm"]), "from Helm too")
    await running.settled(commit)
    sentence = unit(running, "moving").outcome.sentence
    assert "ConfigMap moving/charted (made by the Helm release web); removed data.two; `helm uninstall`" in sentence
    assert "adopted" in sentence
    assert (
        "Service moving/web (made by kubectl-client-side-apply); changed spec.ports[name=http]; removed spec.ports"
        in (sentence)
    )
    status = running.status(f"status/units/{DGX}/bundle.moving.yaml")
    await until(
        lambda: "helm uninstall" in json.dumps(running.status(f"status/units/{DGX}/bundle.moving.yaml")),
        f"the status file to tell it ({status})",
    )

    plane.kubectl(
        "patch",
        "service",
        "web",
        "-n",
        "moving",
        "--type=json",
        "-p",
        '[{"op":"replace","path":"/spec/ports/0/port","value":81}]',
    )
    await until(lambda: ports(plane) == [8080], "the port to come back")
    await until(outcome_is(running, "moving", SyncState.SYNCED), "the unit to be at rest")
    manifests["charted.yaml"] = config_map("charted", "moving", one="2")
    commit = running.push(bundle_files("moving", manifests, adoptFrom=["helm"]), "changed")
    await running.settled(commit)
    found = live(plane, "moving", "configmaps", "charted")
    assert found is not None
    assert found["data"] == {"one": "2"}
    assert found["metadata"]["finalizers"] == ["operator.example/guard"]
    assert "operator.example/x" in found["metadata"]["annotations"]
    assert not any("helm" in key for key in found["metadata"]["annotations"])
    plane.request("PATCH", f"{path}/charted", {"metadata": {"finalizers": None}}, content_type=MERGE)
    commit = running.push({"bundles/moving/manifests/web.yaml": None, "gitops.yaml": repository()["gitops.yaml"]})
    await running.settled(commit)
    assert live(plane, "moving", "services", "web") is None

    calls = Counter(
        (r.method, r.headers.get("Content-Type", ""))
        for r in running.writes(DGX)
        if "/gitops-" not in r.path and "/moving/" in r.path
    )
    assert {method for method, _ in calls} == {"PATCH", "DELETE"}
    kinds = {content for method, content in calls if method == "PATCH"}
    assert kinds == {APPLY_PATCH, JSON_PATCH}
    assert sum(n for (method, _), n in calls.items() if method == "DELETE") == 1


def ports(plane: ControlPlane) -> list[Any]:
    found = live(plane, "moving", "services", "web") or {"spec": {"ports": []}}
    return [p["port"] for p in found["spec"]["ports"]]
