"""Parents are read beside the renewals of the Lease, and by a stand-by too: they pin instances to clusters."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, StartFleet, until
from fleet_kit.scenes import app, bundle_files, repository

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]


async def test_a_slow_answer_does_not_cost_the_lease(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> None:
    repo.commit({**repository("one"), **bundle_files("app", app("slow"))}, "app")
    first = await fleet(repo, {"one": plane})
    await first.settled()
    first.stop.set()
    await first.task
    proxy, hold = first.proxies["one"], faults.Hold()
    proxy.fail(hold, faults.on("GET", "/gitops-system/configmaps$"))
    second = await fleet(repo, {"one": plane}, proxies=first.proxies, name="second")
    assert await asyncio.to_thread(hold.arrived.wait, 10)
    renewals = len(proxy.seen("PUT", "/leases/"))
    await until(lambda: len(proxy.seen("PUT", "/leases/")) > renewals, "a renewal while parents are being read")
    hold.release()
    await second.settled()


async def test_a_stand_by_knows_the_parents(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> None:
    """It may write to other clusters, and must not place there what lives here."""
    repo.commit({**repository("one"), **bundle_files("app", app("pins"))}, "app")
    first = await fleet(repo, {"one": plane})
    await first.settled()
    options = replace(OPTIONS, identity="second")
    second = await fleet(repo, {"one": plane}, options=options, name="second")
    await until(lambda: second.engine.workers and second.engine.workers["one"].standby == "test", "the second to wait")  # type: ignore[index]
    worker = second.engine.workers["one"]  # type: ignore[index]
    await until(lambda: [key.name for key in worker.state.parents] == ["app"], "the second to know the parents")
    assert not worker.may_write
    assert second.writes("one") == []
