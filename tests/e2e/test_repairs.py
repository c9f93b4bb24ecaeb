"""Repairs in the unit's own queue: at the version that is desired then, bounded in a burst, and no unit waits for
another. One daemon; what is under way is held in the fault proxy."""

from __future__ import annotations

import asyncio

import pytest
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, config_map, until
from fleet_kit.scenes import DGX, app, body_of, bundle_files, live, outcome_is, repository, settings, unit, writes_to

from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

UNITS = 12
EDITS = 30


def edit(plane: ControlPlane, namespace: str, name: str, level: str) -> None:
    plane.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/{name}",
        {"data": {"level": level}},
        content_type="application/merge-patch+json",
        query={"fieldManager": "somebody"},
    )


def level(plane: ControlPlane, namespace: str, name: str) -> str:
    found = live(plane, namespace, "configmaps", name)
    assert found is not None
    return str(found["data"]["level"])


def applied(running: Fleet, path: str) -> list[str]:
    """What our applies of a ConfigMap set, dry runs left out."""
    writes = (w for w in writes_to(running.writes(DGX), path) if "dryRun" not in w.query)
    return [body_of(write)["data"]["level"] for write in writes]


async def test_repairs_are_of_the_version_desired_then_and_each_unit_s_own(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    names = [f"c{number:02}" for number in range(UNITS)]
    others = [bundle_files(n, {"map.yaml": config_map(n, "default", level="info")}) for n in names]
    files = {**repository(), **bundle_files("app", app("repairs"))}
    for other in others:
        files |= other
    repo.commit(files, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    proxy = running.proxies[DGX]

    # A commit comes while a repair of its unit is under way, after an edit that waits: only what it says is written.
    running.clear()
    under_way = faults.Hold()
    proxy.fail(under_way, faults.on("PATCH", "/deployments/web$"))
    plane.kubectl("scale", "-n", "repairs", "deployment/web", "--replicas=7")
    await until(under_way.arrived.is_set, "the repair to be under way")
    edit(plane, "repairs", "settings", "theirs")
    await until(lambda: any(d.path == "data.level" for d in unit(running, "app").drifts), "the edit to be seen")
    commit = running.push({"bundles/app/manifests/settings.yaml": settings("repairs", level="newer", mode="fast")})
    await until(lambda: running.engine.workers[DGX].state.head == commit, "the commit to be assigned")
    under_way.release()
    await until(lambda: level(plane, "repairs", "settings") == "newer", "the commit to be applied")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert applied(running, "configmaps/settings") == ["newer"]
    assert len(writes_to(running.writes(DGX), "deployments/web")) == 1

    # A burst of edits of one object while its repair is under way is one more repair.
    running.clear()
    under_way = faults.Hold()
    proxy.fail(under_way, faults.on("PATCH", "/configmaps/settings$"))
    edit(plane, "repairs", "settings", "theirs")
    await until(under_way.arrived.is_set, "the repair to be under way")
    for number in range(EDITS):
        edit(plane, "repairs", "settings", f"theirs-{number}")
    under_way.release()
    await until(lambda: level(plane, "repairs", "settings") == "newer", "the repair")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert applied(running, "configmaps/settings") in (["newer"], ["newer", "newer"])
    assert len(running.calls(DGX)) <= 2

    # One repair that hangs holds up its own unit only.
    running.clear()
    under_way = faults.Hold()
    proxy.fail(under_way, faults.on("PATCH", f"/configmaps/{names[0]}$"))
    edits = (asyncio.to_thread(edit, plane, "default", name, "theirs") for name in names for _ in range(2))
    await asyncio.gather(*edits)
    await until(
        lambda: all(level(plane, "default", name) == "info" for name in names[1:]), "the other units to be repaired"
    )
    assert under_way.arrived.is_set()
    assert level(plane, "default", names[0]) == "theirs"
    under_way.release()
    await until(lambda: level(plane, "default", names[0]) == "info", "the last repair")
    await until(lambda: all(outcome_is(running, name, SyncState.SYNCED)() for name in names), "all units to be settled")
    assert all(1 <= len(applied(running, f"configmaps/{name}")) <= 2 for name in names)
    assert len(running.calls(DGX)) == sum(len(applied(running, f"configmaps/{name}")) for name in names)
