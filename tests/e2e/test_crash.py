"""SIGKILL in the middle of an apply: the next process converges with no orphan and no work done twice.

The proxy keeps one request (or its answer) back; there the process is killed. What was kept back before it reached the
API server never happens; what was kept back on its way home has happened, and nobody knows.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import config_map, forget, until
from fleet_kit.process import DaemonProcess
from fleet_kit.scenes import DGX, app, bundle_files, except_parents, key_of, live, repository

from gitops.plan.parents import parent_name

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

PARENT = parent_name(key_of("app"))
PARENTS = "/namespaces/gitops-system/configmaps"


@dataclass(frozen=True)
class Point:
    """Where the process is killed: at a real write whose method and path match, before or after it was done; and what
    exists of the unit's objects then."""

    name: str
    method: str
    path: str
    done: bool
    exists: frozenset[str]


def objects(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVERYTHING = objects("namespaces configmaps/settings configmaps/extra deployments/web")
SOME = objects("namespaces configmaps/settings configmaps/extra")

POINTS = (
    Point("before-the-parent-is-made", "POST", f"{PARENTS}$", False, objects("")),
    Point("the-parent-is-made-and-its-answer-lost", "POST", f"{PARENTS}$", True, objects("")),
    Point("before-the-first-apply", "PATCH", r"/namespaces/crash-[\w-]+$", False, objects("")),
    Point(
        "the-first-apply-is-done-and-its-answer-lost",
        "PATCH",
        r"/namespaces/crash-[\w-]+$",
        True,
        objects("namespaces"),
    ),
    Point("between-two-objects", "PATCH", "/deployments/web$", False, SOME),
    Point("the-last-apply-is-done-and-its-answer-lost", "PATCH", "/deployments/web$", True, EVERYTHING),
    Point("before-the-parent-is-settled", "PATCH", f"{PARENTS}/{PARENT}$", False, EVERYTHING),
    Point("the-parent-is-settled-and-its-answer-lost", "PATCH", f"{PARENTS}/{PARENT}$", True, EVERYTHING),
)


class Stage:
    """One repository, one cluster behind a proxy, and daemons one after the other."""

    def __init__(self, folder: Path, repo: Repository, plane: ControlPlane, proxy: FaultProxy, namespace: str) -> None:
        self.folder = folder
        self.repo = repo
        self.plane = plane
        self.proxy = proxy
        self.namespace = namespace

    def daemon(self) -> DaemonProcess:
        return DaemonProcess(self.folder, self.repo.url, {DGX: self.proxy})

    def manifests(self) -> dict[str, str]:
        return {**app(self.namespace), "extra.yaml": config_map("extra", self.namespace, value="1")}

    def uids(self) -> dict[str, str]:
        """What is labelled as ours in the namespace, the namespace included, by resource and name."""
        found = {}
        ours = {"labelSelector": "gitops/reconciler=demo"}
        for path in ("/api/v1/{}/configmaps", "/apis/apps/v1/{}/deployments"):
            resource = path.rpartition("/")[2]
            for item in self.plane.get(path.format(f"namespaces/{self.namespace}"), **ours)["items"]:
                found[f"{resource}/{item['metadata']['name']}"] = item["metadata"]["uid"]
        own = self.plane.get(f"/api/v1/namespaces/{self.namespace}")
        return found | ({"namespaces": own["metadata"]["uid"]} if own else {})

    def record(self) -> dict[str, Any]:
        """The parent's record; {} while there is none."""
        stored = self.plane.get(f"/api/v1{PARENTS}/{PARENT}")
        decoded: dict[str, Any] = json.loads(stored["data"]["record"]) if stored else {}
        return decoded

    async def settled(self, commit: str) -> None:
        await until(lambda: self.record().get("commit") == commit, f"{commit} to be applied")

    def check_members(self) -> None:
        """The parent names exactly what is there, by uid: nothing is an orphan, nothing is a phantom."""
        members = {
            uid for kinds in self.record()["members"].values() for names in kinds.values() for uid in names.values()
        }
        assert members == set(self.uids().values())


@pytest.fixture
def stage(
    tmp_path: Path,
    repo: Repository,
    planes: Callable[..., ControlPlane],
    fault_proxy: Callable[..., FaultProxy],
    request: pytest.FixtureRequest,
) -> Stage:
    plane = planes(DGX)
    forget(plane)
    plane.kubectl("create", "namespace", "gitops-system", check=False)
    namespace = "crash-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-50:].strip("-")
    return Stage(tmp_path / "daemon", repo, plane, fault_proxy(plane), namespace)


def is_write(point: Point) -> Callable[[faults.Request], bool]:
    matches = faults.on(point.method, point.path)
    return lambda request: request.is_write and matches(request)


async def killed_at(stage: Stage, point: Point) -> None:
    """Start the daemon and kill it at the point."""
    hold: faults.Hold = faults.HoldAnswer() if point.done else faults.Hold()
    stage.proxy.fail(hold, is_write(point), times=None)
    with stage.daemon() as daemon:
        await until(hold.arrived.is_set, f"the daemon to come to {point.name}")
        await asyncio.to_thread(daemon.kill)
    stage.proxy.rules.clear()
    stage.proxy.cut()
    stage.proxy.clear()


@pytest.mark.parametrize("point", POINTS, ids=lambda p: p.name)
async def test_killed_in_an_apply_the_next_daemon_does_only_what_is_missing(stage: Stage, point: Point) -> None:
    commit = stage.repo.commit({**repository(), **bundle_files("app", stage.manifests())}, "app")
    await killed_at(stage, point)
    before = stage.uids()
    assert before.keys() == point.exists
    with stage.daemon():
        await stage.settled(commit)
    after = stage.uids()
    assert after.keys() == EVERYTHING
    assert {name: after[name] for name in before} == before, "nothing was made anew"
    written = [w.path for w in except_parents(stage.proxy.writes())]
    assert len(written) == len(EVERYTHING) - len(before), written
    stage.check_members()


@pytest.mark.parametrize("point", POINTS[1::2], ids=lambda p: p.name)
async def test_an_object_removed_from_git_after_the_kill_is_no_orphan(stage: Stage, point: Point) -> None:
    stage.repo.commit({**repository(), **bundle_files("app", stage.manifests())}, "app")
    await killed_at(stage, point)
    before = stage.uids()
    commit = stage.repo.commit({"bundles/app/manifests/extra.yaml": None}, "without one of them")
    with stage.daemon():
        await stage.settled(commit)
        await until(lambda: "configmaps/extra" not in stage.uids(), "the removed one to be gone")
    after = stage.uids()
    assert after.keys() == EVERYTHING - {"configmaps/extra"}
    assert {n: u for n, u in after.items() if n in before} == {n: u for n, u in before.items() if n in after}
    written = [w.path for w in except_parents(stage.proxy.writes())]
    assert len(written) == len(before.keys() ^ after.keys()), written
    stage.check_members()


async def test_the_whole_unit_removed_after_the_kill_leaves_nothing(stage: Stage) -> None:
    rest = bundle_files("rest", {"rest.yaml": config_map("rest", "default", value="1")})
    stage.repo.commit({**repository(), **rest, **bundle_files("app", stage.manifests())}, "app")
    await killed_at(stage, next(p for p in POINTS if p.name == "the-last-apply-is-done-and-its-answer-lost"))
    gone = {path: None for path in stage.repo.files() if path.startswith("bundles/app/")}
    stage.repo.commit(dict(gone), "removed")
    with stage.daemon():
        await until(lambda: set(stage.uids()) <= {"namespaces"}, "the objects to go")
        # without a controller nobody ends the namespace's deletion; that it was asked for is what can be seen
        path = f"/api/v1/namespaces/{stage.namespace}"
        await until(lambda: stage.plane.get(path)["metadata"].get("deletionTimestamp"), "the namespace to go")


async def test_an_object_moved_when_the_kill_comes_between_the_two_units_is_no_orphan(stage: Stage) -> None:
    """The old unit must not forget it before the new one's parent names it."""
    moving = config_map("moving", stage.namespace, value="1")
    new = bundle_files("new", {"stay.yaml": config_map("stay", "default", value="1")})
    old = bundle_files("app", {**stage.manifests(), "moving.yaml": moving})
    first = stage.repo.commit({**repository(), **old, **new}, "first")
    with stage.daemon():
        await stage.settled(first)
    uid = stage.uids()["configmaps/moving"]
    stage.repo.commit({"bundles/app/manifests/moving.yaml": None, "bundles/new/manifests/moving.yaml": moving}, "move")
    await killed_at(stage, Point("", "PATCH", f"{PARENTS}/{parent_name(key_of('new'))}$", False, EVERYTHING))
    assert stage.uids()["configmaps/moving"] == uid
    assert uid in json.dumps(stage.record()), "somebody still knows it"
    stage.repo.commit({"bundles/new/manifests/moving.yaml": None}, "and not wanted any more")
    with stage.daemon():
        await until(lambda: "configmaps/moving" not in stage.uids(), "the moved one to be gone")


async def test_a_warm_restart_with_nothing_changed_lists_each_kind_once_and_writes_nothing(stage: Stage) -> None:
    commit = stage.repo.commit({**repository(), **bundle_files("app", stage.manifests())}, "app")
    with stage.daemon() as daemon:
        await stage.settled(commit)
        await asyncio.to_thread(daemon.kill)
    stage.proxy.clear()
    with stage.daemon():
        # an edit tells when it is at work: it is repaired like any other
        plane, namespace = stage.plane, stage.namespace
        await until(lambda: stage.proxy.seen("GET", "/configmaps$", watch=True), "the watch of the ConfigMaps")
        patch = '{"data":{"level":"x"}}'
        plane.kubectl("patch", "configmap", "settings", "-n", namespace, "--type=merge", "-p", patch)
        await until(
            lambda: (live(plane, namespace, "configmaps", "settings") or {})["data"]["level"] == "info", "the repair"
        )
    assert len(stage.proxy.writes()) == 1
    lists = Counter(r.path for r in stage.proxy.calls() if r.method == "GET" and re.search(r"/v1/.*[a-z]+s$", r.path))
    kinds = {"/api/v1/namespaces", "/api/v1/configmaps", "/apis/apps/v1/deployments", f"/api/v1{PARENTS}"}
    assert kinds <= lists.keys()
    assert set(lists.values()) == {1}, lists
