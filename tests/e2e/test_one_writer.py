"""One writer per cluster: others stand by and take over; a cluster belongs to one repository."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import GitServer, Repository
from fleet_kit.fixtures import OPTIONS, StartFleet, cluster, one_bundle, until

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]


async def test_a_second_daemon_stands_by_and_takes_over_when_the_first_ends(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-writer"), "first")
    first = await fleet(repo, {"one": plane}, name="first")
    await first.settled()
    second = await fleet(
        repo,
        {"one": plane},
        name="second",
        options=dataclasses.replace(OPTIONS, identity="the second", first_contact=1.0),
    )
    await until(
        lambda: second.engine.workers and second.engine.workers["one"].standby == "test", "the second to stand by"
    )
    commit = first.push(one_bundle("t-writer", "2"), "second")
    second.engine.request_fetch()
    await first.settled(commit)
    assert second.writes("one") == [], "a stand-by writes nothing"

    first.stop.set()
    await first.task
    ended = time.monotonic()
    await until(lambda: second.engine.workers["one"].may_write, "the take-over")
    assert time.monotonic() - ended < 3, "it was given up, so nobody waits for it"
    await second.settled(commit)
    assert [w for w in second.writes("one") if "t-writer" in w.path] == [], "what is as declared is not written again"
    commit = second.push(one_bundle("t-writer", "3"), "third")
    await second.settled(commit)
    assert plane.get("/api/v1/namespaces/t-writer/configmaps/settings")["data"] == {"key": "3"}


async def test_a_cluster_of_another_repository_is_refused_and_left_alone(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, tmp_path: Path
) -> None:
    repo.commit(one_bundle("t-claimed"), "first")
    owner = await fleet(repo, {"one": plane}, name="owner")
    await owner.settled()
    with GitServer(tmp_path / "other-git") as server:
        other_repo = server.create("other")
        other_repo.commit(one_bundle("t-other"), "first")
        other = await fleet(
            other_repo, {"one": plane}, name="other", options=dataclasses.replace(OPTIONS, identity="o")
        )
        await until(lambda: "is claimed by" in other.engine.health().clusters.get("one", ""), "the refusal")
        status = await until(lambda: other.status("status/clusters/one.yaml"), "the cluster's status")
        assert "is claimed by reconciler demo" in status["message"]
        assert other.writes("one") == []
        assert plane.get("/api/v1/namespaces/t-other") is None
        other.stop.set()
        await other.task


async def test_one_cluster_under_two_names_is_refused_under_the_second(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    both = one_bundle("t-twice") | {"clusters/two.yaml": cluster("two")}
    repo.commit(both, "first")
    running = await fleet(repo, {"one": plane, "two": plane})
    await until(
        lambda: any("same cluster as" in words for words in running.engine.health().clusters.values()), "the refusal"
    )
    await until(lambda: plane.get("/api/v1/namespaces/t-twice/configmaps/settings"), "the first name to be served")
    words = running.engine.health().clusters
    refused = [name for name in words if "same cluster as" in words[name]]
    assert len(refused) == 1
    assert running.writes(refused[0]) == [], "nothing is written under the second name"
