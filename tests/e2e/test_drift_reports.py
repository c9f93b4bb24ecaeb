"""What people read of drift: files on the status branch and `gitops drift`, over an edit, a restart and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import STATUS, Fleet, StartFleet, forget, until
from fleet_kit.scenes import DGX, app, bundle_files, drift_file, key_of, line_of, live, repository, settings, unit

from gitops.cli import drift_output
from gitops.cli.drift_view import FOLDERS, By, DriftView, Filter, view_of
from gitops.cli.status_reading import read_branch
from gitops.reconcile.outcomes import SyncState
from gitops.settings import load_settings

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

FILE, TABLE = f"drift/{DGX}/bundle.app.yaml", "drift/README.md"
CANARY = "canary-4b1d77-value"
TOKEN = "hf_canary4b1d77canary4b1d77canary4b1d77"


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


async def shown(repo: Repository, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[DriftView, str]:
    """What `gitops drift` reads of the repository, and prints of it in each of its ways."""
    flags = {"repository.url": repo.url, "repository.allow_http": True, "state_dir": folder / "state"}
    view = view_of(await asyncio.to_thread(read_branch, load_settings(flags=flags), *FOLDERS), Filter())
    capsys.readouterr()
    for arguments in WAYS:
        drift_output.show(view, by=arguments[0], format=arguments[1])
    return view, capsys.readouterr().out


WAYS: tuple[tuple[By | None, str], ...] = ((None, "text"), (None, "json"), (None, "markdown"), ("manager", "text"))


def patch(plane: ControlPlane, what: str, change: dict[str, Any]) -> None:
    plane.kubectl("patch", what, "-n", "told", "--type=strategic", "-p", json.dumps(change))


def everything(repo: Repository) -> str:
    """All that ever was on the status branch."""
    return repo.git("log", "-p", STATUS)


async def test_x01_open_drift_is_told_without_secrets_known_again_after_a_restart_and_ends(
    fleet: StartFleet,
    repo: Repository,
    plane: ControlPlane,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifests = app("told", FIRST="1", HF_TOKEN_FILE="/run/token")
    manifests["settings.yaml"] = settings("told", level="info", mode="fast", session_token="none")
    repo.commit({**repository(), **bundle_files("app", manifests, mode="report")}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    running.clear()

    patch(plane, "configmap/settings", {"data": {"session_token": CANARY, "level": TOKEN, "manual": CANARY}})
    env = [{"name": "HF_TOKEN_FILE", "value": CANARY}]
    patch(plane, "deployment/web", {"spec": {"template": {"spec": {"containers": [{"name": "web", "env": env}]}}}})
    await until(lambda: len(drift_file(running, "app")) == 3, "the reports")
    await until(lambda: not running.engine.status_pending, "all to be told")
    body = running.status(FILE)
    assert {(r["path"], r["outcome"], r["manager"], r["hidden"]) for r in body["open"]} == {
        ("data.session_token", "reported", "kubectl-patch", True),
        ("data.level", "reported", "kubectl-patch", True),
        ("spec.template.spec.containers[name=web].env[name=HF_TOKEN_FILE].value", "reported", "kubectl-patch", True),
    }
    assert [(a["path"], a["manager"]) for a in body["additions"]] == [("data.manual", "kubectl-patch")]
    place = f"bundles/app/manifests/settings.yaml:{line_of(manifests['settings.yaml'], 'level:')}"
    assert next(r for r in body["open"] if r["path"] == "data.level")["declaredAt"] == place
    assert f"| {DGX} | kubectl-patch | 3 | 3 | 1 |" in (repo.read(TABLE, branch=STATUS) or "")
    assert running.writes(DGX) == []

    view, printed = await shown(repo, tmp_path, capsys)
    assert (view.open_count, view.nothing, view.unreachable) == (3, "", {})
    assert printed.count("kubectl-patch") > 12
    for text in (printed, everything(repo), caplog.text):
        assert CANARY not in text
        assert TOKEN not in text

    # Another process knows it, with the first time, and has nothing new to say.
    before = repo.read(FILE, branch=STATUS)
    running.stop.set()
    await running.task
    again = await fleet(repo, {DGX: plane}, name="two")
    await until(lambda: DGX in again.engine.workers and known(again), "the unit to be looked at")
    await until(lambda: not again.engine.status_pending, "all to be told")
    assert repo.read(FILE, branch=STATUS) == before
    assert {d.count for d in unit(again, "app").drifts} == {1}

    # Somebody puts right what is open; the additions are left.
    patch(plane, "configmap/settings", {"data": {"session_token": "none", "level": "info"}})
    env[0]["value"] = "/run/token"
    patch(plane, "deployment/web", {"spec": {"template": {"spec": {"containers": [{"name": "web", "env": env}]}}}})
    await until(lambda: "open" not in again.status(FILE), "the end of it")
    assert {r["outcome"] for r in again.status(FILE)["recent"]} == {"reverted"}
    view, printed = await shown(repo, tmp_path, capsys)
    assert (view.open_count, "Nothing differs from Git." in printed, "data.manual" in printed) == (0, True, True)
    found = live(plane, "told", "configmaps", "settings")
    assert found is not None
    assert found["data"]["manual"] == CANARY


def known(running: Fleet) -> bool:
    """Whether the unit was looked at, and its drift found again."""
    found = running.engine.workers[DGX].state.units.get(key_of("app"))
    return found is not None and found.outcome.state is SyncState.PAUSED and len(found.drifts) == 3
