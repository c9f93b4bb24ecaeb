"""Status files on their own branch: what others do there survives, refusals are told, our own commits cause nothing."""

from __future__ import annotations

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import STATUS, StartFleet, one_bundle, until

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

UNIT = "status/units/one/bundle.base.yaml"


async def test_g03_own_commits_trigger_nothing_and_a_steady_state_commits_nothing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-steady"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    await until(lambda: not running.engine.status_pending, "the last status to be pushed")
    commits = repo.log(branch=STATUS)
    running.clear()
    for _ in range(20):
        running.engine.request_fetch()
        await until(lambda: not running.engine.looking, "the look to end")
    assert repo.log(branch=STATUS) == commits
    assert running.calls("one") == []
    assert all("Gitops-Reconciler: demo" in body for body in repo.log(branch=STATUS, form="%b%x00") if body.strip("\0"))


async def test_g02_what_others_write_on_the_status_branch_survives(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-survives"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    repo.commit({"notes/by-a-person.md": "keep me"}, "a note", branch=STATUS)
    commit = running.push(one_bundle("t-survives", "2"), "second")
    await running.settled(commit)
    await until(lambda: running.status(UNIT).get("commit") == commit, "the new commit in the unit's file")
    assert repo.read("notes/by-a-person.md", branch=STATUS) == "keep me"


async def test_g14_a_refused_push_is_told_in_the_servers_words_and_stops_nothing_else(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-refused"), "first")
    repo.refuse_pushes("the branch is protected")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: "the branch is protected" in running.engine.health().status_problem, "the server's words")
    repo.allow_pushes()
    commit = running.push(one_bundle("t-refused", "2"), "second")
    await running.settled(commit)
    await until(lambda: running.status(UNIT).get("commit") == commit, "the status that could not be pushed before")
    await until(lambda: running.engine.health().status_problem == "", "the refusal to be over")


async def test_a_lost_status_branch_is_written_anew_as_a_whole(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-lost"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    await until(lambda: not running.engine.status_pending, "the last status to be pushed")
    before = set(repo.files(branch=STATUS))
    repo.delete_branch(STATUS)
    commit = running.push(one_bundle("t-lost", "2"), "second")
    await running.settled(commit)
    await until(lambda: repo.head(STATUS) and set(repo.files(branch=STATUS)) == before, "every file again")
