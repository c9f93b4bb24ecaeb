"""What a cluster is, and whose: restored from a backup, replaced under its name, claimed by another, let go."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit import faults
from controlplane_kit.client import MERGE, ApiServer
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.gitserver import GitServer, Repository
from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet, cluster, config_map, forget, one_bundle, until

from gitops.cluster.connection import ConnectionSettings
from gitops.cluster.leases import LeaseTimes
from gitops.model.identity import ClusterUid

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SPACE = "t-identity"
FOLDER = "bundles/base/manifests"
CLAIM = "/api/v1/namespaces/gitops-system/configmaps/gitops-claim"
FAST = dataclasses.replace(OPTIONS, lease=LeaseTimes.of(3.0))


def uids_of(api: ApiServer, space: str = SPACE) -> dict[str, str]:
    found = api.get(f"/api/v1/namespaces/{space}/configmaps")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def config_maps(api: ApiServer, space: str = SPACE) -> set[str]:
    return set(uids_of(api, space))


def extra(name: str, space: str = SPACE) -> dict[str, str]:
    return {f"{FOLDER}/{name}.yaml": config_map(name, space, key="1")}


def by_other_means(api: ApiServer, name: str, space: str = SPACE) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    api.request("POST", f"/api/v1/namespaces/{space}/configmaps", body)


async def serving(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> Fleet:
    """A daemon that has brought one bundle to one cluster."""
    repo.commit(one_bundle(SPACE), "first")
    running = await fleet(repo, {"one": plane}, options=FAST)
    await running.settled()
    return running


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


async def test_a08_another_cluster_under_an_old_name_is_first_contact_and_so_is_the_way_back(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, planes: Callable[[str], ControlPlane], tmp_path: Path
) -> None:
    """What the old one had proves nothing in the new one, and the old one is left as it is. Pointed back, it is served
    by what it tells itself: what left Git meanwhile is pruned there, and only there."""
    space = "t-address"
    repo.commit(one_bundle(space) | extra("going", space), "first")
    running = await fleet(repo, {"one": plane}, options=FAST, limits=ConnectionSettings(credentials_check=0.0))
    await running.settled()
    worker, old_proxy = running.engine.workers["one"], running.proxies["one"]
    old_uid, old_objects = worker.uid, uids_of(plane, space)
    new = planes("replacement")
    forget(new)
    new.create_namespace(space)
    by_other_means(new, "going", space)
    foreign = uids_of(new, space)["going"]
    with FaultProxy(new, tmp_path / "proxy-new") as new_proxy:
        old_proxy.refuse()
        commit = running.push({f"{FOLDER}/going.yaml": None}, "not declared when it is met")
        await until(lambda: commit in (repo.read("status/README.md", branch="gitops-status") or ""), "the head")
        (running.credentials / "one").write_bytes(new_proxy.kubeconfig.read_bytes())
        old_proxy.restore()
        await until(lambda: "settings" in config_maps(new, space), "the new cluster to be served")
        await running.settled(commit)
        assert uids_of(new, space) == {"going": foreign, "settings": uids_of(new, space)["settings"]}
        assert new.get(CLAIM)["data"]["reconciler"] == "demo"
        (record,) = worker.state.parents.values()
        assert {m.uid for m in record.members if m.ref.name == "settings"} == {uids_of(new, space)["settings"]}
        await until(lambda: all(r.ended for r in list(old_proxy.requests) if r.is_watch), "the old watches to end")
        assert uids_of(plane, space) == old_objects
        told = await until(lambda: uid_told(running) not in ("", old_uid) and uid_told(running), "the status")
        assert told == worker.uid
        words = running.status("status/clusters/one.yaml")["message"]
        assert words.startswith(f"another cluster than before (its uid is {told}, and was {old_uid})")

        running.clear()
        (running.credentials / "one").write_bytes(old_proxy.kubeconfig.read_bytes())
        await until(lambda: config_maps(plane, space) == {"settings"}, "what left Git to be pruned where it was ours")
        await running.settled(commit)
        await until(lambda: uid_told(running) == old_uid, "the status")
        assert uids_of(plane, space) == {"settings": old_objects["settings"]}
        assert set(uids_of(new, space)) == {"going", "settings"}
        assert [r for r in new_proxy.requests if r.method == "DELETE"] == []


def uid_told(running: Fleet) -> str:
    """The uid of the cluster `one`, by its status file."""
    return str(running.status("status/clusters/one.yaml").get("uid", ""))


async def test_a08_a_cluster_made_anew_behind_the_same_address_is_first_contact(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, tmp_path: Path
) -> None:
    """Neither address nor certificates tell: our namespace is gone, so it is asked who is there."""
    running = await serving(fleet, repo, plane)
    old_uid = running.engine.workers["one"].uid
    empty = tmp_path / "empty"
    empty.mkdir()
    await asyncio.to_thread(plane.restore, empty)
    await until(
        lambda: plane.get(f"/api/v1/namespaces/{SPACE}") and "settings" in config_maps(plane), "it to be served"
    )
    await running.settled()
    await until(lambda: uid_told(running) not in ("", old_uid), "its uid in the status")
    assert running.engine.workers["one"].replaced
    assert plane.get(CLAIM)["data"]["reconciler"] == "demo"


async def test_a08_after_the_lease_was_lost_it_is_asked_again_who_is_there(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long enough for another cluster to have come in the place of this one, with a Lease of its own."""
    running = await serving(fleet, repo, plane)
    worker, proxy = running.engine.workers["one"], running.proxies["one"]
    session, asked = worker._session, []

    async def identify(*_: object) -> ClusterUid:
        asked.append(worker.uid)
        return ClusterUid("another") if len(asked) > 1 else worker.uid

    monkeypatch.setattr("gitops.reconcile.session.identify", identify)
    for _ in range(2):
        proxy.fail(faults.BROKEN, faults.on(path="/leases"), times=None)
        await until(lambda: not worker.may_write, "the Lease to be lost")
        proxy.restore()
        await until(lambda: worker.may_write, "it to write again")
        if len(asked) == 1:
            assert worker._session is session, "it is the same cluster"
    assert len(asked) == 2
    assert worker._session is not session, "whoever it is has to be found out before anything is written"
    await running.settled()


async def test_a08_another_lease_in_the_place_of_ours_is_taken_for_another_cluster_until_it_is_asked(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await serving(fleet, repo, plane)
    worker, proxy = running.engine.workers["one"], running.proxies["one"]
    session, leases = worker._session, "/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases"
    proxy.fail(faults.BROKEN, faults.on(path="/leases"), times=None)
    lease = plane.get(leases)["items"][0]
    plane.request("DELETE", f"{leases}/{lease['metadata']['name']}")
    lease["metadata"] = {"name": lease["metadata"]["name"]}
    plane.request("POST", leases, lease)  # our name and turn, and not our Lease
    proxy.restore()
    await until(lambda: worker._session not in (session, None), "all that was known to be read anew")
    await running.settled()


async def test_a_claim_that_is_changed_by_hand_ends_the_writing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await serving(fleet, repo, plane)
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
