"""What a restart and a stand-by leave on the status branch: nothing that is not true."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, STATUS, StartFleet, one_bundle, until

from gitops.model.trees import FileTree
from gitops.plan.compiling import Compiler
from gitops.plan.units import Compilation
from gitops.reconcile.heads import NO_WORKLOADS

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

UNIT = "status/units/one/bundle.base.yaml"
BUNDLE = "status/bundles/base.yaml"


def history(repo: Repository, path: str) -> list[str]:
    """The status word of a file in every commit of the status branch, oldest first; "" where there is no file."""
    found = []
    for commit in reversed(repo.log(branch=STATUS, form="%H")):
        text = repo.read(path, branch=commit)
        found.append(yaml.safe_load(text)["status"] if text else "")
    return found


async def test_a_warm_restart_commits_nothing_and_compiles_once(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(one_bundle("t-warm"), "first")
    first = await fleet(repo, {"one": plane}, name="first")
    await first.settled()
    await until(lambda: first.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    await until(lambda: not first.engine.status_pending, "the last status to be pushed")
    first.stop.set()
    await first.task
    before = repo.head(STATUS)

    compiled, compile_tree = [], Compiler.compile

    def noted(self: Compiler, tree: FileTree, **known: Any) -> Compilation:
        compiled.append(known.get("only"))
        return compile_tree(self, tree, **known)

    monkeypatch.setattr(Compiler, "compile", noted)
    second = await fleet(repo, {"one": plane}, name="second")
    await second.settled()
    await until(lambda: not second.engine.status_pending, "all to be told that is to be told")
    assert compiled == [NO_WORKLOADS, None], "the clusters first, and then everything, which takes long"
    (unit_state,) = second.engine.workers["one"].state.units.values()
    assert unit_state.status is not None
    assert str(unit_state.status.status) == "Ready"
    assert repo.head(STATUS) == before


async def test_what_was_removed_while_no_daemon_wrote_status_is_swept_afterwards(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-swept"), "first")
    stale = {
        "status/units/one/bundle.old.yaml": "x",
        "status/bundles/old.yaml": "x",
        "status/clusters/old.yaml": "x",
        "drift/old/bundle.old.yaml": "x",
        "notes.md": "of a person",
    }
    repo.commit(stale, "left over", branch=STATUS)
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    await until(lambda: not running.engine.status_pending, "the last status to be pushed")
    assert set(stale) & set(repo.files(branch=STATUS)) == {"notes.md"}


async def test_a_stand_by_writes_no_status_and_after_taking_over_tells_what_is(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-quiet"), "first")
    first = await fleet(repo, {"one": plane}, name="first")
    await first.settled()
    await until(lambda: first.status(BUNDLE).get("status") == "Ready", "the bundle to be Ready")
    options = dataclasses.replace(OPTIONS, identity="the second", first_contact=1.0)
    second = await fleet(repo, {"one": plane}, name="second", options=options)
    await until(
        lambda: second.engine.workers and second.engine.workers["one"].standby == "test", "the second to stand by"
    )
    commit = first.push(one_bundle("t-quiet", "2"), "second")
    second.engine.request_fetch()
    await first.settled(commit)
    await until(lambda: first.status(UNIT).get("commit") == commit, "the status of the second commit")
    await until(lambda: not second.engine.looking, "the second to have looked")
    first.stop.set()
    await first.task
    await second.settled(commit)
    commit = second.push(one_bundle("t-quiet", "3"), "third")
    await second.settled(commit)
    await until(lambda: second.status(UNIT).get("commit") == commit, "the status of the third commit")
    assert "Empty" not in history(repo, BUNDLE)
    assert second.status("status/clusters/one.yaml")["status"] == "Reachable"


async def test_a_take_over_of_what_is_steady_commits_nothing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """The stand-by started before there was any status, and long ago: it reads what the other wrote, and only then
    judges."""
    repo.commit(one_bundle("t-steady"), "first")
    first = await fleet(repo, {"one": plane}, name="first")
    await until(lambda: first.engine.workers and first.engine.workers["one"].may_write, "the first to write")
    options = dataclasses.replace(OPTIONS, identity="the second", first_contact=1.0)
    second = await fleet(repo, {"one": plane}, name="second", options=options)
    await until(
        lambda: second.engine.workers and second.engine.workers["one"].standby == "test", "the second to stand by"
    )
    second.engine._started -= options.first_look
    await first.settled()
    await until(lambda: first.status(UNIT).get("status") == "Ready", "the unit to be Ready")
    await until(lambda: not first.engine.status_pending, "the last status to be pushed")
    first.stop.set()
    await first.task
    before = repo.head(STATUS)

    await until(lambda: second.engine.workers["one"].may_write, "the second to take over")
    await second.settled()
    await until(lambda: not second.engine.status_pending, "all to be told that is to be told")
    (unit_state,) = second.engine.workers["one"].state.units.values()
    assert unit_state.status is not None
    assert str(unit_state.status.status) == "Ready"
    assert repo.head(STATUS) == before
