"""Fights on the real API server over what cannot be left out of an apply: orders of lists, and whole objects."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit
from controlplane_kit.client import ApiServer

from gitops.reconcile.outcomes import SyncState
from gitops.report.drift import Repair

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


def deployment(namespace: str) -> Json:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    pod = {"containers": [{"name": "web", "image": "example.com/web:1", "env": env}]}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": spec,
    }


async def test_d06_an_order_that_somebody_keeps_changing_is_not_repaired_for_its_own_sake(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Left out, the items would vanish, with what others have of them (ssa-live 29)."""
    body, path = deployment(namespace), f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    await live_unit.settled(body)

    def names() -> list[str]:
        return [e["name"] for e in shared_api.get(path)["spec"]["template"]["spec"]["containers"][0]["env"]]

    def reverse() -> None:
        live = shared_api.get(path)
        live["spec"]["template"]["spec"]["containers"][0]["env"].reverse()
        shared_api.request("PUT", path, live, query={"fieldManager": "sorter"})

    repairs = 0
    for _ in range(8):
        if names() == ["A", "B"]:
            reverse()
        outcome = await live_unit.see()
        repairs += outcome.repaired
    assert (repairs, outcome.state, names()) == (5, SyncState.CONTESTED, ["B", "A"])
    assert "spec.template.spec.containers[name=web].env: ours" in outcome.sentence
    assert outcome.retry_after == pytest.approx(60, abs=10)
    # another field is repaired; that write says the order too
    container = {"name": "web", "image": "example.com/evil:1"}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    shared_api.request("PATCH", path, patch, content_type="application/strategic-merge-patch+json")
    assert (await live_unit.see()).repaired == 1
    assert shared_api.get(path)["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/web:1"
    assert names() == ["A", "B"]


async def test_d06_an_object_that_somebody_deletes_again_and_again_is_left_deleted_for_a_while(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": namespace},
        "data": {"level": "info"},
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    await live_unit.settled(body)
    made = 0
    for _ in range(8):
        if (live := shared_api.get(path)) is not None:
            shared_api.request("DELETE", path)
            live_unit.left(live)
        outcome = await live_unit.work()
        made += shared_api.get(path) is not None
    assert (made, outcome.state) == (5, SyncState.CONTESTED)
    assert "somebody deletes it again and again" in outcome.sentence
    assert live_unit.state.units[live_unit.key].drifts[-1].repaired is Repair.CONTESTED
    assert live_unit.state.parents[live_unit.key].contested != ()
    # Git says something else of it: made at once
    outcome = await live_unit.declare({**body, "data": {"level": "debug"}})
    assert (outcome.state, shared_api.get(path)["data"]) == (SyncState.SYNCED, {"level": "debug"})
