"""Watches that lie or fall silent, and what the audit makes of it; on a real API server, through the fault proxy."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from controlplane_kit import faults
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faults import on
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, STATUS, Fleet, StartFleet, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, app, body_of, bundle_files, repository, unit

from gitops.reconcile.observing import Observation, Sighting

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

NAMES = tuple(f"map-{i:02}" for i in range(24))
AUDITED = replace(OPTIONS, audit_interval=0.7, audit_sample=0)  # its lists alone: the one who reads is who deletes


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


def maps(namespace: str) -> dict[str, str]:
    """A namespace with ConfigMaps, each of which says its name."""
    named = {f"{name}.yaml": config_map(name, namespace, level="info", of=name) for name in NAMES}
    return {"namespace.yaml": namespace_yaml(namespace), **named}


def live_maps(plane: ControlPlane, namespace: str) -> dict[str, dict[str, Any]]:
    items = plane.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    return {item["metadata"]["name"]: item for item in items}


def wrong(plane: ControlPlane, namespace: str) -> list[str]:
    """Names of the ConfigMaps that are not as declared."""
    found = live_maps(plane, namespace)
    return [
        name
        for name in NAMES
        if name not in found
        or found[name].get("data") != {"level": "info", "of": name}
        or found[name]["metadata"]["labels"].get("gitops/reconciler") != "demo"
    ]


def disturb(plane: ControlPlane, namespace: str, rng: random.Random) -> None:
    """Edit, delete, relabel and re-create, some of them twice."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in rng.choices(NAMES, k=30):
        kind = rng.choice(("edit", "edit", "delete", "relabel", "replace"))
        there = plane.get(f"{path}/{name}") is not None
        if there and kind in ("delete", "replace"):
            plane.request("DELETE", f"{path}/{name}")
        if not there or kind == "replace":
            body = {"metadata": {"name": name, "labels": {"gitops/reconciler": "demo"}}, "data": {"level": "theirs"}}
            plane.request("POST", path, body)
        elif kind == "edit":
            plane.request("PATCH", f"{path}/{name}", {"data": {"level": "x"}}, content_type=MERGE)
        elif kind == "relabel":
            labels = {"metadata": {"labels": {"gitops/reconciler": None}}}
            plane.request("PATCH", f"{path}/{name}", labels, content_type=MERGE)


def audit_ended(running: Fleet) -> float:
    report = running.engine.workers[DGX].audit
    return 0.0 if report is None else report.ended


async def test_d08_a07_a_watch_that_lies_for_ever_converges_by_audits_and_misleads_no_deletion(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit({**repository(), **bundle_files("app", maps("lies"))}, "app")
    running = await fleet(repo, {DGX: plane}, options=AUDITED)
    await running.settled()
    proxy, rng = running.proxies[DGX], random.Random(5)
    proxy.fail(faults.Lie(rng), on("GET", "/configmaps$", watch=True), times=None)
    proxy.cut()
    await until(lambda: proxy.seen("GET", "/configmaps$", watch=True), "watches through the liar")
    disturb(plane, "lies", rng)
    await until(lambda: not wrong(plane, "lies"), "all ConfigMaps to be as declared")
    worker = running.engine.workers[DGX]
    assert len(unit(running, "app").drifts) > 0
    mark = audit_ended(running)
    report = await until(lambda: audit_ended(running) > mark and worker.audit, "an audit of what is right")
    assert (report.defects, report.unlisted) == ((), ())

    # Whatever the liar said of them: only the very objects that are ours, as they are now, are deleted.
    path, hold = "/api/v1/namespaces/lies/configmaps", faults.Hold()
    proxy.fail(hold, on("GET", "/configmaps/map-00$"))
    running.clear()
    running.push({f"bundles/app/manifests/{name}.yaml": None for name in NAMES[:4]}, "four go")
    await until(hold.arrived.is_set, "the read before the deletion")
    plane.request("DELETE", f"{path}/map-00")
    plane.request("POST", path, {"metadata": {"name": "map-00"}, "data": {"whose": "theirs"}})
    hold.release()
    await running.settled()
    left = live_maps(plane, "lies")
    assert set(left) & set(NAMES[:4]) == {"map-00"}
    assert left["map-00"]["data"] == {"whose": "theirs"}
    deletes = [r for r in running.writes(DGX) if r.method == "DELETE"]
    assert sorted(r.path.rpartition("/")[2] for r in deletes) == list(NAMES[1:4])
    for delete in deletes:
        assert body_of(delete)["preconditions"].keys() == {"uid", "resourceVersion"}
        assert any(read.began < delete.began for read in proxy.seen("GET", f"{delete.path}$")), "read first"


async def test_an_audit_of_what_is_right_costs_its_calls_and_no_commit_and_tells_what_digests_do_not_see(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({**repository(), **bundle_files("app", app("proof"))}, "app")
    running = await fleet(repo, {DGX: plane}, options=replace(OPTIONS, audit_sample=100))
    await running.settled()
    worker = running.engine.workers[DGX]
    await until(lambda: running.status(f"status/units/{DGX}/bundle.app.yaml").get("commit"), "the status")
    await until(lambda: not running.engine.status_pending, "all of it")
    commits, kinds = repo.head(STATUS), len(worker._session._watches.listed())  # type: ignore[union-attr]
    running.clear()
    assert await worker.make_audit()
    report = worker.audit
    assert report is not None
    assert (report.kinds, report.found, report.checked, report.sentences) == (kinds, 0, 3, ())
    calls = running.calls(DGX)
    assert sorted(r.method + ("" if not r.is_dry_run else " dry") for r in calls) == (
        ["GET"] * (kinds + 3) + ["PATCH dry"] * 3
    ), "a list of each kind, a read and a dry run of each object"
    await until(lambda: not running.engine.status_pending, "status to be looked at")
    assert repo.head(STATUS) == commits, "nothing to tell"

    # A defect in what compares: from now on nothing is ever seen.
    quiet = Observation(Sighting.QUIET)
    monkeypatch.setattr("gitops.reconcile.sightings.observe", lambda *args, **more: quiet)
    plane.kubectl("patch", "configmap", "settings", "-n", "proof", "--type=merge", "-p", '{"data":{"level":"debug"}}')
    assert await worker.make_audit()
    told = await until(lambda: running.status(f"status/clusters/{DGX}.yaml").get("auditFindings"), "the defect")
    assert len(told) == 1
    assert "ConfigMap proof/settings: an apply would change" in told[0]
    assert "data.level" in told[0]
    assert "debug" not in told[0], "paths only"
    assert running.status(f"status/clusters/{DGX}.yaml")["lastAudit"]
    assert not running.writes(DGX)
