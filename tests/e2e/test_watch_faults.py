"""Watches and lists that fail, through the whole engine on a real API server: drift is repaired all the same, what
cannot be seen is told, and nothing is ever concluded from silence."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.definitions import definition
from controlplane_kit.faults import on
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import (
    DGX,
    app,
    bundle_files,
    deployment,
    except_parents,
    key_of,
    live,
    outcome_is,
    repository,
    unit,
)

from gitops.cluster.collection import ReflectorSettings
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

LISTS, WATCHES = on("GET", "/configmaps$", watch=False), on("GET", "/configmaps$", watch=True)


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


def edit(plane: ControlPlane, namespace: str, level: str, name: str = "settings") -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    plane.request("PATCH", path, {"data": {"level": level}}, content_type=MERGE, query={"fieldManager": "someone"})


def level(plane: ControlPlane, namespace: str, name: str = "settings") -> str | None:
    found = live(plane, namespace, "configmaps", name)
    result: str | None = found["data"]["level"] if found else None
    return result


async def test_a02_a10_fact_36_drift_behind_a_silent_watch_is_repaired_and_cut_lists_prune_nothing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = functools.partial(ReflectorSettings, silence_limit=1.0)
    monkeypatch.setattr("gitops.cluster.reflecting.ReflectorSettings", short)
    more = {f"{name}.yaml": config_map(name, "silent", level="info") for name in ("one", "two", "three")}
    repo.commit({**repository(), **bundle_files("app", {**app("silent"), **more})}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    proxy, heard = running.proxies[DGX], running.engine.workers[DGX]._session._watches.heard  # type: ignore[union-attr]

    # Half-open: the watch stays open and says nothing more.
    running.clear()
    frozen = proxy.fail(faults.FreezeAfter(0), WATCHES)
    proxy.cut()
    await until(lambda: frozen.used, "the frozen watch")
    silent_since = heard()["ConfigMap"]
    edit(plane, "silent", "debug")
    await until(lambda: level(plane, "silent") == "info", "the repair")
    assert heard()["ConfigMap"] > silent_since, "the age of a kind that is seen again begins anew"
    assert [w.path.rpartition("/")[2] for w in except_parents(running.writes(DGX))] == ["settings"]
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")

    # The list that follows an expired version breaks off in the middle, again and again; what goes is found, no more.
    running.clear()
    cut = proxy.fail(faults.CutAfter(2500), LISTS, times=3)
    proxy.fail(faults.WatchError(410), WATCHES)
    proxy.cut()
    await until(lambda: cut.used, "a list that was cut")
    plane.request("DELETE", "/api/v1/namespaces/silent/configmaps/two")
    await until(lambda: level(plane, "silent", "two") == "info", "what was deleted to be made again")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert cut.used == 3
    writes = except_parents(running.writes(DGX))
    assert [(w.method, w.path.rpartition("/")[2]) for w in writes] == [("PATCH", "two")]
    assert len(unit(running, "app").drifts) == 2


def converted(conversion: dict[str, Any]) -> dict[str, Any]:
    """A kind that is stored at v1 and declared at v2."""
    made = definition("Gauge", "faults.example")
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    made["spec"]["conversion"] = conversion
    return made


NOBODY = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]},
}


async def test_fact_37_a_conversion_webhook_that_is_down_blinds_for_its_kind_only_and_that_is_told(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops.reconcile.watches.BLIND_AFTER", 0.5)
    plane.create_crd_objects([converted({"strategy": "None"})])
    gauge = {"apiVersion": "faults.example/v2", "kind": "Gauge", "metadata": {"name": "g", "namespace": "blind"}}
    gauges = {"gauge.yaml": yaml.safe_dump({**gauge, "spec": {"size": 1}})}
    files = {**bundle_files("app", app("blind")), **bundle_files("gauges", gauges)}
    repo.commit({**repository(), **files}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    of_unit, of_cluster = f"status/units/{DGX}/bundle.gauges.yaml", f"status/clusters/{DGX}.yaml"
    await until(lambda: running.status(of_unit).get("status") == "Ready", "it to be Ready")
    running.clear()

    plane.request(
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.faults.example",
        {"spec": {"conversion": NOBODY}},
        content_type=MERGE,
    )
    stale = await until(lambda: running.status(of_cluster).get("stale"), "the blindness to be told")
    assert [kind["kind"] for kind in stale] == ["faults.example/v2 Gauge"]
    assert "conversion webhook" in stale[0]["message"]
    told = await until(
        lambda: running.status(of_unit).get("status") == "Unknown" and running.status(of_unit), "Unknown"
    )
    assert (told["reason"], told["since"]) == ("NotSeen", stale[0]["since"])
    assert "stale" in told["flags"]

    # Everything else is repaired as ever, and reads as ever.
    edit(plane, "blind", "debug")
    await until(lambda: level(plane, "blind") == "info", "the repair of another kind")
    assert running.status(f"status/units/{DGX}/bundle.app.yaml")["status"] != "Unknown"
    assert [w.path.rpartition("/")[2] for w in running.writes(DGX)] == ["settings"], "nothing of the blind kind"

    plane.request(
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.faults.example",
        {"spec": {"conversion": {"strategy": "None", "webhook": None}}},
        content_type=MERGE,
    )
    await until(lambda: running.status(of_unit).get("status") == "Ready", "it to be seen again")
    await until(lambda: "stale" not in running.status(of_cluster), "the cluster to say so")
    assert not unit(running, "gauges").drifts


async def test_fact_35_an_api_server_that_restarts_in_the_middle_of_a_rollout_ends_with_all_of_it_once(
    fleet: StartFleet, repo: Repository, private_api: Callable[..., ControlPlane]
) -> None:
    plane = await asyncio.to_thread(private_api)
    names = [f"web-{i:02}" for i in range(30)]
    objects = {"namespace.yaml": namespace_yaml("rollout"), **{f"{n}.yaml": deployment(n, "rollout") for n in names}}
    repo.commit({**repository(), **bundle_files("app", objects)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    path = "/apis/apps/v1/namespaces/rollout/deployments"
    uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in plane.get(path)["items"]}

    running.clear()
    changed = {f"bundles/app/manifests/{n}.yaml": deployment(n, "rollout", replicas=3) for n in names[1:]}
    added = {"bundles/app/manifests/new.yaml": config_map("new", "rollout", level="info")}
    gone = {f"bundles/app/manifests/{names[0]}.yaml": None}
    commit = running.push({**changed, **added, **gone}, "more of each")
    await until(lambda: len(except_parents(running.writes(DGX))) >= 8, "the middle of it")
    await asyncio.to_thread(plane.kill_apiserver)
    running.clear()
    await asyncio.to_thread(plane.start_apiserver)
    await running.settled(commit, timeout=60)

    found = {item["metadata"]["name"]: item for item in plane.get(path)["items"]}
    assert {name: item["metadata"]["uid"] for name, item in found.items()} == {n: uids[n] for n in names[1:]}
    assert {item["spec"]["replicas"] for item in found.values()} == {3}
    assert level(plane, "rollout", "new") == "info"
    deletes = [w.path.rpartition("/")[2] for w in running.writes(DGX) if w.method == "DELETE"]
    assert set(deletes) == {names[0]}
    record = running.engine.workers[DGX].state.parents[key_of("app")]
    assert {m.ref.name for m in record.members} == {"rollout", "new", *names[1:]}
    lists = [r for r in running.proxies[DGX].seen("GET", watch=False) if r.path == "/apis/apps/v1/deployments"]
    assert len([r for r in lists if r.status == 200]) <= 2, "listed again, not over and over"
    edit(plane, "rollout", "debug", "new")
    await until(lambda: level(plane, "rollout", "new") == "info", "watches to go on")
