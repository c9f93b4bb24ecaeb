"""What a cluster is, and whose: restored from a backup, replaced under its name, claimed by another, let go."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.client import MERGE, ApiServer
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import GitServer, Repository
from fleet_kit.fixtures import OPTIONS, StartFleet, cluster, config_map, forget, one_bundle, until

from gitops.cluster.leases import LeaseTimes

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SPACE = "t-identity"
FOLDER = "bundles/base/manifests"
CLAIM = "/api/v1/namespaces/gitops-system/configmaps/gitops-claim"
FAST = dataclasses.replace(OPTIONS, lease=LeaseTimes.of(3.0))


def uids_of(api: ApiServer) -> dict[str, str]:
    found = api.get(f"/api/v1/namespaces/{SPACE}/configmaps")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def config_maps(api: ApiServer) -> set[str]:
    return set(uids_of(api))


def extra(name: str) -> dict[str, str]:
    return {f"{FOLDER}/{name}.yaml": config_map(name, SPACE, key="1")}


def by_other_means(api: ApiServer, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    api.request("POST", f"/api/v1/namespaces/{SPACE}/configmaps", body)


def claim_says(api: ApiServer, **data: str) -> None:
    api.request("PATCH", CLAIM, {"data": data}, content_type=MERGE)


async def test_fact_36_a_cluster_restored_from_a_backup_is_brought_to_the_head_again(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Its uid is the same, its parents and objects are those of then. A watch from a version of the future would say
    nothing for minutes."""
    repo.commit(one_bundle(SPACE) | extra("before"), "first")
    running = await fleet(repo, {"one": plane}, options=FAST)
    await running.settled()
    by_other_means(plane, "foreign")
    backup = await asyncio.to_thread(plane.back_up)
    commit = running.push({f"{FOLDER}/before.yaml": None, **extra("after")}, "second")
    await until(lambda: config_maps(plane) == {"settings", "after", "foreign"}, "the second commit", timeout=60)
    await running.settled(commit)
    uids = uids_of(plane)
    known = {record.content_key for record in running.engine.workers["one"].state.parents.values()}

    await asyncio.to_thread(plane.restore, backup)
    await until(lambda: uids_of(plane).get("after", uids["after"]) != uids["after"], "it to be made again")
    await until(lambda: config_maps(plane) == {"settings", "after", "foreign"}, "the second commit again")
    await running.settled(commit)
    assert {name for name, uid in uids_of(plane).items() if uid != uids[name]} == {"after"}
    stored = plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector="gitops/workload=base")["items"]
    assert [item for item in stored if not any(key in item["data"]["record"] for key in known)] == []


async def test_another_cluster_under_an_old_name_is_first_contact(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, planes: Callable[[str], ControlPlane]
) -> None:
    """What the old one had proves nothing in the new one, and the old one is left as it is."""
    repo.commit(one_bundle(SPACE) | extra("going"), "first")
    running = await fleet(repo, {"one": plane}, options=FAST)
    await running.settled()
    new = planes("replacement")
    forget(new)
    new.create_namespace(SPACE)
    by_other_means(new, "going")
    before = new.get(f"/api/v1/namespaces/{SPACE}/configmaps/going")["metadata"]["uid"]
    (running.credentials / "one").write_bytes(new.kubeconfig.read_bytes())
    commit = running.push({f"{FOLDER}/going.yaml": None}, "not declared when it is met")
    await until(lambda: "settings" in config_maps(new), "the new cluster to be served")
    await running.settled(commit)
    assert new.get(f"/api/v1/namespaces/{SPACE}/configmaps/going")["metadata"]["uid"] == before
    assert config_maps(plane) >= {"settings"}
    assert new.get(CLAIM)["data"]["reconciler"] == "demo"


async def test_a_claim_that_is_changed_by_hand_ends_the_writing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle(SPACE), "first")
    running = await fleet(repo, {"one": plane}, options=FAST)
    await running.settled()
    worker = running.engine.workers["one"]

    plane.request("DELETE", CLAIM)
    again = await until(lambda: plane.get(CLAIM), "the claim to be made again: another must not take what we write to")
    await until(lambda: worker.may_write, "it to go on")

    claim_says(plane, repository="https://git.example/another.git")
    await until(lambda: worker.contact.reason == "Refused", "the refusal")
    running.clear()
    running.push(one_bundle(SPACE, "2"), "second")
    await until(lambda: worker.state.head == repo.head(), "the second head")
    assert not worker.may_write
    assert running.writes("one") == []
    assert "is claimed by reconciler demo of https://git.example/another.git" in worker.contact.message

    claim_says(plane, repository=again["data"]["repository"])
    worker.retry()
    path = f"/api/v1/namespaces/{SPACE}/configmaps/settings"
    await until(lambda: plane.get(path)["data"] == {"key": "2"}, "the second head to be applied")


async def test_a_claim_is_read_again_when_a_stand_by_takes_over(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """While it stood by, the cluster was given to another repository."""
    repo.commit(one_bundle(SPACE), "first")
    first = await fleet(repo, {"one": plane}, name="first", options=FAST)
    await first.settled()
    options = dataclasses.replace(FAST, identity="second", first_contact=1.0)
    second = await fleet(repo, {"one": plane}, name="second", options=options)
    await until(lambda: second.engine.workers and second.engine.workers["one"].standby == "test", "the stand-by")
    claim_says(plane, repository="https://git.example/another.git")
    await until(lambda: second.engine.workers["one"].contact.reason == "Refused", "the refusal")
    assert second.writes("one") == []


async def test_a_cluster_that_leaves_git_can_be_taken_by_another_repository(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, tmp_path: Path
) -> None:
    """Handing over: the objects stay, marks, parents and claim go, and the next one adopts what it declares."""
    repo.commit(one_bundle(SPACE) | {"clusters/other.yaml": cluster("other")}, "first")
    running = await fleet(repo, {"one": plane}, name="giver", options=dataclasses.replace(FAST, first_contact=0.5))
    await running.settled_on("one")
    uid = plane.get(f"/api/v1/namespaces/{SPACE}/configmaps/settings")["metadata"]["uid"]
    running.push({"clusters/one.yaml": None}, "let it go")
    await until(lambda: plane.get(CLAIM) is None, "the claim to be given up")

    def parents() -> list[Any]:
        found: list[Any] = plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector="gitops/workload")
        return found["items"]

    assert parents() == []
    assert "labels" not in plane.get(f"/api/v1/namespaces/{SPACE}/configmaps/settings")["metadata"]
    with GitServer(tmp_path / "other-git") as server:
        other = server.create("other")
        other.commit(one_bundle(SPACE, "2"), "first")
        taker = await fleet(other, {"one": plane}, name="taker", options=dataclasses.replace(FAST, identity="taker"))
        await taker.settled()
        live = plane.get(f"/api/v1/namespaces/{SPACE}/configmaps/settings")
        assert (live["metadata"]["uid"], live["data"]) == (uid, {"key": "2"})
        taker.stop.set()
        await taker.task
