"""A cluster that does not answer: the other one is served as if alone, and the status files say so and since when."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, TEMPLATE, Fleet, StartFleet, forget, template_files, until
from fleet_kit.scenes import bundle_files, deployment, live, repository, settings

from gitops.cluster.connection import ConnectionSettings
from gitops.cluster.leases import LeaseTimes
from gitops.reconcile import cluster_worker

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SIM_CRDS = TEMPLATE.parent / "gitops" / "sim" / "crds"
NEAR, FAR = "dgx-a", "dgx-b"
MANIFEST = "bundles/app/manifests/settings.yaml"
FAST = dataclasses.replace(OPTIONS, lease=LeaseTimes.of(3.0), first_contact=1.0)
LIMITS = ConnectionSettings(connect_timeout=1.0)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster is called unreachable sooner."""
    monkeypatch.setattr(cluster_worker, "UNREACHABLE_AFTER", 1.0)


@pytest.fixture
def clusters(planes: Callable[..., ControlPlane]) -> dict[str, ControlPlane]:
    made = {name: planes(name) for name in (NEAR, FAR)}
    for plane in made.values():
        forget(plane)
    return made


def manifests(namespace: str, level: str) -> dict[str, str]:
    return {"settings.yaml": settings(namespace, level=level), "web.yaml": deployment("web", namespace, FIRST="1")}


def level(plane: ControlPlane, namespace: str) -> str | None:
    found = live(plane, namespace, "configmaps", "settings")
    result: str | None = found["data"]["level"] if found else None
    return result


def replicas(plane: ControlPlane, namespace: str) -> int:
    found = live(plane, namespace, "deployments", "web")
    assert found is not None
    count: int = found["spec"]["replicas"]
    return count


def of_cluster(running: Fleet, name: str) -> dict[str, Any]:
    return running.status(f"status/clusters/{name}.yaml")


def of_unit(running: Fleet, name: str) -> dict[str, Any]:
    return running.status(f"status/units/{name}/bundle.app.yaml")


FAULTS = {"refused": FaultProxy.refuse, "silent": FaultProxy.blackhole}


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """An address where connects are neither taken nor refused: Linux drops what a full queue of connections has no
    room for."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


async def test_a05_whatever_one_of_three_clusters_does_the_others_finish_as_if_alone(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    """By counts: a commit costs the others the same calls whether the third is well, swallows connects, is slow, fails
    at everything or says nothing."""
    others, third = ("dgx-a", "dgx-c"), "dgx-b"
    clusters = {name: planes(name) for name in sorted((*others, third))}
    for plane in clusters.values():
        forget(plane)
        plane.create_namespace("three")
    files = bundle_files("app", {"settings.yaml": settings("three", level="0")})
    repo.commit({**repository(*clusters), **files}, "app")
    running = await fleet(repo, clusters, options=FAST, limits=LIMITS)
    await running.settled()
    proxy, kubeconfig = running.proxies[third], running.credentials / third
    well, number = kubeconfig.read_bytes(), 0

    async def commit() -> dict[str, Counter[str]]:
        """What a commit costs each of the others, by verb and path."""
        nonlocal number
        number += 1
        running.clear()
        wanted = running.push({MANIFEST: settings("three", level=str(number))})
        for name in others:
            await until(lambda name=name: level(clusters[name], "three") == str(number), f"the commit on {name}")
            await until(lambda name=name: not running.engine.workers[name].busy, "its end")
        await until(
            lambda: wanted in (repo.read("status/README.md", branch="gitops-status") or ""), "the head to be told"
        )
        return {name: Counter(f"{r.method} {r.path} {r.is_dry_run}" for r in running.calls(name)) for name in others}

    lists: Counter[str] = Counter()
    alone = await commit()
    assert all(0 < cost.total() <= 2 * 1 + 3 for cost in alone.values())
    with black_hole() as nowhere:
        document = yaml.safe_load(well)
        document["clusters"][0]["cluster"]["server"] = nowhere
        for fault, words in (
            (lambda: kubeconfig.write_text(yaml.safe_dump(document)), "no answer in time"),
            (functools.partial(proxy.fail, faults.Delay(5.0), times=None), "no answer"),
            (functools.partial(proxy.fail, faults.BROKEN, times=None), "internal error"),
            (proxy.blackhole, "no answer"),
        ):
            fault()
            await until(lambda: of_cluster(running, third).get("status") == "Unreachable", "the third to be given up")
            told = of_cluster(running, third)
            assert words in told["message"], told
            assert told["units"] == {"Unknown": 1}
            assert await commit() == alone
            assert all(of_cluster(running, name)["status"] == "Reachable" for name in others)
            assert level(clusters[third], "three") != str(number)
            assert of_cluster(running, third)["since"] == told["since"]

            proxy.clear()
            proxy.restore()
            kubeconfig.write_bytes(well)
            await until(lambda: level(clusters[third], "three") == str(number), "the third to be as declared")
            await until(lambda: of_cluster(running, third).get("status") == "Reachable", "its status")
            await running.settled()
            assert proxy.seen("DELETE") == []
            # none, when the one that was on its way at the end of the fault came through
            seen = Counter(r.path for r in proxy.seen("GET", "/configmaps$", watch=False) if "limit" in r.query)
            assert max(seen.values(), default=0) <= 2, "it comes back without a herd"
            lists += seen
    assert lists


@pytest.mark.parametrize("fault", FAULTS)
async def test_one_cluster_unreachable_the_other_is_served_as_if_alone_and_status_says_since_when(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane], fault: str
) -> None:
    for plane in clusters.values():
        plane.create_namespace(fault)
    repo.commit({**repository(NEAR, FAR), **bundle_files("app", manifests(fault, "one"))}, "app")
    running = await fleet(repo, clusters, options=FAST, limits=LIMITS)
    await running.settled()
    await until(lambda: of_unit(running, FAR).get("status") == "Progressing", "the unit's first status")

    FAULTS[fault](running.proxies[FAR])
    running.clear()
    running.push({MANIFEST: settings(fault, level="two")})
    await until(lambda: level(clusters[NEAR], fault) == "two", "the commit on the cluster that answers")
    assert len(running.calls(NEAR)) <= 2 * 1 + 3
    await until(lambda: of_cluster(running, FAR).get("status") == "Unreachable", "the cluster's status")
    told = of_cluster(running, FAR)
    assert told["units"] == {"Unknown": 1}
    await until(lambda: of_unit(running, FAR).get("reason") == "Unreachable", "the unit's status")
    unit = of_unit(running, FAR)
    assert (unit["status"], unit["lastKnown"]) == ("Unknown", "Progressing")
    assert unit["since"] == told["since"]
    aggregate = running.status("status/bundles/app.yaml")
    assert aggregate["unreachable"] == 1
    assert aggregate["status"] != "Ready"
    assert of_cluster(running, NEAR)["status"] == "Reachable"
    assert of_unit(running, NEAR)["status"] == "Progressing"

    # time passes, commits come: since stays, and the other one goes on
    commit = running.push({MANIFEST: settings(fault, level="three")})
    await until(lambda: level(clusters[NEAR], fault) == "three", "the next commit on the cluster that answers")
    await until(lambda: commit in (repo.read("status/README.md", branch="gitops-status") or ""), "the head to be told")
    assert of_cluster(running, FAR)["since"] == told["since"]
    later, before = of_unit(running, FAR), dict(unit)
    for told_of_it in (later.pop("outcome", None), before.pop("outcome", None)):  # an attempt may have ended meanwhile
        assert told_of_it is None or "unreachable: no answer since" in told_of_it["message"]
    assert later == before
    assert level(clusters[FAR], fault) == "one"
    clusters[FAR].kubectl("scale", "-n", fault, "deployment/web", "--replicas=7")

    running.proxies[FAR].restore()
    await until(lambda: level(clusters[FAR], fault) == "three", "the commit on the cluster that is back")
    await running.settled()
    await until(lambda: replicas(clusters[FAR], fault) == 2, "what drifted meanwhile to be repaired")
    await until(lambda: of_cluster(running, FAR).get("status") == "Reachable", "the cluster's status")
    await until(lambda: of_unit(running, FAR).get("status") == "Progressing", "the unit's status")
    assert "lastKnown" not in of_unit(running, FAR)
    # and its watches see again
    clusters[FAR].kubectl("scale", "-n", fault, "deployment/web", "--replicas=8")
    await until(lambda: replicas(clusters[FAR], fault) == 2, "the repair")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_cluster_that_is_unreachable_at_start_keeps_nobody_waiting_and_is_served_when_it_answers(
    fleet: StartFleet,
    repo: Repository,
    clusters: dict[str, ControlPlane],
    fault_proxy: Callable[..., FaultProxy],
    fault: str,
) -> None:
    namespace = f"start-{fault}"
    for plane in clusters.values():
        plane.create_namespace(namespace)
    repo.commit({**repository(NEAR, FAR), **bundle_files("app", manifests(namespace, "one"))}, "app")
    proxy = fault_proxy(clusters[FAR])
    FAULTS[fault](proxy)
    running = await fleet(repo, clusters, proxies={FAR: proxy}, options=FAST, limits=LIMITS)
    await until(lambda: level(clusters[NEAR], namespace) == "one", "the cluster that answers")
    await until(lambda: of_cluster(running, FAR).get("status") == "Unreachable", "the cluster's status")
    told = of_cluster(running, FAR)
    assert told["since"]
    assert of_unit(running, FAR)["status"] == "Unknown"
    running.push({MANIFEST: settings(namespace, level="two")})
    await until(lambda: level(clusters[NEAR], namespace) == "two", "the next commit")
    assert of_cluster(running, FAR) == told
    proxy.restore()
    await until(lambda: level(clusters[FAR], namespace) == "two", "the cluster that is back")
    await running.settled()
    await until(lambda: of_cluster(running, FAR).get("status") == "Reachable", "the cluster's status")


async def test_a_restart_while_a_cluster_is_unreachable_keeps_since_and_what_was_known(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane]
) -> None:
    for plane in clusters.values():
        plane.create_namespace("again")
    repo.commit({**repository(NEAR, FAR), **bundle_files("app", manifests("again", "one"))}, "app")
    running = await fleet(repo, clusters, options=FAST, limits=LIMITS)
    await running.settled()
    await until(lambda: of_unit(running, FAR).get("status") == "Progressing", "the unit's first status")
    running.proxies[FAR].refuse()
    await until(lambda: of_unit(running, FAR).get("reason") == "Unreachable", "the unit's status")
    cluster, unit = of_cluster(running, FAR), of_unit(running, FAR)
    running.stop.set()
    await running.task
    second = await fleet(repo, clusters, proxies=running.proxies, name="two", options=FAST, limits=LIMITS)
    await until(lambda: level(clusters[NEAR], "again"), "the other")
    commit = second.push({MANIFEST: settings("again", level="two")})
    await until(lambda: level(clusters[NEAR], "again") == "two", "a commit")
    await until(lambda: commit in (repo.read("status/README.md", branch="gitops-status") or ""), "the head to be told")
    await until(lambda: second.engine.workers[FAR].contact.reason == "Unreachable", "the cluster to be given up")
    assert of_unit(second, FAR) == unit
    assert (of_cluster(second, FAR)["status"], of_cluster(second, FAR)["since"]) == ("Unreachable", cluster["since"])


async def test_a_restart_while_a_cluster_is_unreachable_starts_no_instance_twice(
    fleet: StartFleet, repo: Repository, clusters: dict[str, ControlPlane]
) -> None:
    """An unreachable cluster keeps what it has, also when a restart has forgotten what that is (design 5)."""
    for plane in clusters.values():
        plane.create_crds(SIM_CRDS)
    files = {path: text for path, text in template_files().items() if not path.startswith("bundles/")}
    near = files.pop(f"clusters/{NEAR}.yaml")
    repo.commit(files, "one cluster, which gets every instance")
    running = await fleet(repo, clusters, name="before")
    await running.settled()
    commit = running.push({f"clusters/{NEAR}.yaml": near}, "another cluster: nothing moves")
    await running.settled(commit)
    namespaces = [
        f"/api/v1/namespaces/fn-{name}" for name in ("llama-chat-h100-0", "llama-chat-h100-1", "embed-h100-0")
    ]
    assert all(clusters[FAR].get(path) for path in namespaces)
    running.stop.set()
    await running.task

    running.proxies[FAR].refuse()
    again = await fleet(repo, clusters, proxies=running.proxies, name="after")
    await again.settled_on(NEAR)
    waits = sorted(str(f.workload) for f in again.engine.findings if f.code == "GO4002")
    waiting = ["function/embed", "function/llama-chat", "task/warm-cache"]
    assert waits == waiting, "all that may be on the cluster that does not answer are told to wait for it"
    running.proxies[FAR].restore()
    await again.settled()
    assert [path for path in namespaces if clusters[NEAR].get(path)] == []
    assert all(clusters[FAR].get(path) for path in namespaces)
