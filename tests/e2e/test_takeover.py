"""Two daemons on one cluster while processes, networks and API servers fail: one writes, nothing is lost.

Each daemon has a proxy of its own, so what a process sent, and when, is known from outside of it. The Lease's times are
those of a duration of 3 s; with the default everything takes five times as long (tests/cluster/test_leases.py, in
virtual time: below 20 s, at any skew of the clocks).
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Request
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet, one_bundle, until
from fleet_kit.process import DaemonProcess
from fleet_kit.scenes import DGX, app, bundle_files, live, repository

from gitops.cluster.leases import LeaseTimes

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

DURATION = 3.0
TIMES = LeaseTimes.of(DURATION)
SLACK = 2.0
"""Seconds for starting to write once the Lease is had, on a busy machine."""


def env_of(plane: ControlPlane, namespace: str) -> dict[str, str]:
    container = (live(plane, namespace, "deployments", "web") or {})["spec"]["template"]["spec"]["containers"][0]
    return {e["name"]: e["value"] for e in container["env"]}


def renewals(proxy: FaultProxy, *, since: float = 0.0) -> list[Request]:
    """Calls about the Lease that were answered."""
    return [r for r in list(proxy.requests) if r.is_lease and r.status and r.began >= since]


def writes(proxy: FaultProxy, *, since: float = 0.0) -> list[Request]:
    return [r for r in proxy.writes() if r.began >= since]


async def stands_by(proxy: FaultProxy, *, since: float = 0.0) -> None:
    """Until a daemon asked for the Lease twice: whatever it meant to do when it last ran is over."""
    await until(lambda: len([r for r in renewals(proxy, since=since) if r.method == "GET"]) >= 2, "a daemon to ask")


async def test_a_stopped_and_a_killed_writer_are_replaced(
    tmp_path: Path, repo: Repository, plane: ControlPlane, fault_proxy: Callable[..., FaultProxy]
) -> None:
    """SIGSTOP with one write under way and the next to follow, SIGCONT after the take-over, and SIGKILL."""
    plane.kubectl("create", "namespace", "gitops-system", check=False)
    space = "t-takeover"

    def files(number: int) -> dict[str, str]:
        text = app(space, FIRST=str(number))
        web = yaml.safe_load(text["web.yaml"])
        (container,) = web["spec"]["template"]["spec"]["containers"]
        container["envFrom"] = [{"configMapRef": {"name": "settings"}}]  # so it follows them
        settings = text["settings.yaml"].replace("info", f"v{number}")
        return bundle_files("app", {**text, "settings.yaml": settings, "web.yaml": yaml.safe_dump(web)})

    def daemon(name: str) -> tuple[DaemonProcess, FaultProxy]:
        proxy, options = fault_proxy(plane), {"lease_duration": DURATION}
        return DaemonProcess(tmp_path / name, repo.url, {DGX: proxy}, identity=name, settings=options), proxy

    async def applied(number: int) -> None:
        await until(lambda: env_of(plane, space) == {"FIRST": str(number)}, f"commit {number} to be applied")

    (one, to_one), (two, to_two) = daemon("one"), daemon("two")
    repo.commit({**repository(), **files(1)}, "1")
    with one:
        await until(lambda: live(plane, space, "deployments", "web"), "the first commit")
        with two:
            await stands_by(to_two)
            hold = faults.Hold()
            to_one.fail(hold, lambda r: r.is_write and r.path.endswith("/configmaps/settings"))
            repo.commit(files(2), "2")
            one.look()
            await until(hold.arrived.is_set, "a write to be under way")
            one.pause()
            stopped = time.monotonic()
            hold.release()  # what was on the wire arrives
            two.look()
            await applied(2)
            (first, *_) = writes(to_two)
            assert first.began - stopped < DURATION + TIMES.poll + SLACK
            assert all(w.ended is not None and w.ended < first.began for w in writes(to_one)), "one after the other"

            one.resume()
            resumed = time.monotonic()
            await stands_by(to_one, since=resumed)
            assert writes(to_one, since=resumed) == [], "what it meant to write is not written"

            repo.commit(files(3), "3")
            await asyncio.to_thread(two.kill)
            killed = time.monotonic()
            one.look()
            await applied(3)
            (first, *_) = writes(to_one, since=killed)
            assert first.began - killed < DURATION + TIMES.poll + SLACK


@pytest.fixture
async def pair(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> tuple[Fleet, Fleet]:
    """Two engines on one cluster: one that writes, with a bundle applied, and one that stands by."""
    options = dataclasses.replace(OPTIONS, lease=TIMES, first_contact=1.0)
    repo.commit(one_bundle("t-pair"), "first")
    first = await fleet(repo, {"one": plane}, name="first", options=dataclasses.replace(options, identity="first"))
    await first.settled()
    second = await fleet(repo, {"one": plane}, name="second", options=dataclasses.replace(options, identity="second"))
    await until(lambda: second.engine.workers and second.engine.workers["one"].standby == "first", "the stand-by")
    return first, second


def may_write(fleet: Fleet) -> bool:
    return fleet.engine.workers["one"].may_write


async def applied(plane: ControlPlane, value: str) -> None:
    path = "/api/v1/namespaces/t-pair/configmaps/settings"
    await until(lambda: plane.get(path)["data"] == {"key": value}, f"{value} to be applied")


def one_after_the_other(first: FaultProxy, second: FaultProxy) -> None:
    """No write of the first began after one of the second, and none of it that was answered ended later."""
    begun = min(w.began for w in second.writes())
    assert [w for w in first.writes() if w.began >= begun or (w.status and (w.ended or 0) >= begun)] == []


async def test_a_writer_behind_half_open_connections_gives_up_before_the_next_begins(
    pair: tuple[Fleet, Fleet], repo: Repository, plane: ControlPlane
) -> None:
    first, second = pair
    second.clear()
    first.proxies["one"].blackhole()
    first.push(one_bundle("t-pair", "2"), "second")
    second.engine.request_fetch()
    await until(lambda: may_write(second), "the take-over")
    assert not may_write(first)
    await applied(plane, "2")
    first.proxies["one"].restore()
    await until(lambda: first.engine.workers["one"].standby == "second", "the first to stand by")
    one_after_the_other(first.proxies["one"], second.proxies["one"])


async def test_a_slow_api_server_never_lets_two_write(
    pair: tuple[Fleet, Fleet], repo: Repository, plane: ControlPlane
) -> None:
    """Answers about the Lease come too late; then it is deleted by hand, and one who had it once asks first."""
    first, second = pair
    to_first, to_second = first.proxies["one"], second.proxies["one"]
    second.clear()
    lease = faults.on(None, "/leases/")
    to_first.fail(faults.Delay(TIMES.renew_deadline + 0.2), lease, times=None)
    await until(lambda: not may_write(first), "the first to give up")
    first.push(one_bundle("t-pair", "2"), "second")
    second.engine.request_fetch()
    await until(lambda: may_write(second), "the take-over")
    await applied(plane, "2")
    one_after_the_other(to_first, to_second)

    to_first.restore()
    await until(lambda: first.engine.workers["one"].standby == "second", "the first to stand by")
    to_first.clear()
    plane.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases/gitops-demo")
    path = "/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases/gitops-demo"
    await until(lambda: plane.get(path), "the Lease to be made again")
    assert plane.get(path)["spec"]["holderIdentity"] == "second", "who holds it makes it again"
    assert to_first.writes() == []


async def test_an_api_server_that_is_killed_and_comes_back_has_one_writer(
    pair: tuple[Fleet, Fleet], repo: Repository, plane: ControlPlane
) -> None:
    first, second = pair
    await asyncio.to_thread(plane.kill_apiserver)
    first.push(one_bundle("t-pair", "2"), "second")
    second.engine.request_fetch()
    await until(lambda: not may_write(first), "the first to give up")
    await asyncio.to_thread(plane.start_apiserver)
    await applied(plane, "2")
    await until(lambda: may_write(first) != may_write(second), "one to write")
    writers = [f for f in pair if any(w.path.endswith("/settings") for w in f.writes("one")[-3:])]
    assert len(writers) == 1 or [f for f in writers if f is first] == [first]
