"""docs/drift.md: its commands are run as they stand there, in the order of the page, and do what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.model.identity import UnitKey
from gitops.plan.parents import parent_name
from gitops.report.drift import Repair

PAGE = (Path(__file__).parents[2] / "docs" / "drift.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
PARENT = f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(UnitKey.parse('bundle/app@dgx-a'))}"

DOCUMENT = {"apiVersion": "gitops/v1alpha1"}
FILES: dict[str, dict[str, Any]] = {
    "gitops.yaml": {**DOCUMENT, "kind": "Repository", "metadata": {"name": "demo"}},
    "clusters/dgx-a.yaml": {**DOCUMENT, "kind": "Cluster", "metadata": {"name": "dgx-a"}, "spec": {"credentials": "a"}},
    "bundles/app/bundle.yaml": {
        **DOCUMENT,
        "kind": "Bundle",
        "metadata": {"name": "app"},
        "spec": {"manifests": ["manifests/"]},
    },
    "bundles/app/manifests/settings.yaml": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"level": "info"},
    },
}


@pytest.fixture
def home(private_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gitops: Any) -> Any:
    """The folder that people are in: the repository, whose clusters are named in their home. Gives its API server."""
    plane, home = private_api(), tmp_path / "home"
    for name, body in FILES.items():
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_text(yaml.safe_dump(body))
    clusters = home / ".config/gitops/clusters"
    clusters.mkdir(parents=True)
    shutil.copyfile(plane.kubeconfig, clusters / "a.yaml")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("GITOPS_PATH", str(tmp_path / "here"))
    monkeypatch.setenv("GITOPS_STATE_DIR", str(tmp_path / "state"))
    return plane


def test_the_commands_of_the_page_work(home: Any, gitops: Any, tmp_path: Path) -> None:
    assert len(COMMANDS) == 8
    assert gitops("apply", "--once").code == 0
    home.kubectl("patch", "configmap/settings", "--type=merge", "-p", '{"data":{"level":"debug","manual":"1"}}')
    done = {command: run(command, home, gitops, tmp_path) for command in COMMANDS}
    assert done["gitops drift"].out == "Nothing differs from Git.\n", "no daemon has seen it"
    assert all(done[command].code == 0 for command in COMMANDS[:4])
    live = done[next(c for c in COMMANDS if "--live" in c)]
    assert live.code == 3
    assert 'data.level of ConfigMap default/settings is "debug"' in live.out
    assert "data.manual of ConfigMap default/settings; by kubectl-patch (Update)" in live.out
    assert "the drift of a unit" in done[next(c for c in COMMANDS if c.startswith("git "))].out
    assert "gitops/pause-until" not in home.get(PARENT)["metadata"].get("annotations", {})


def run(command: str, plane: Any, gitops: Any, tmp_path: Path) -> Any:
    program, *arguments = shlex.split(command)
    if program == "gitops":
        return gitops(*(str(Path(a).expanduser()) if a.startswith("~") else a for a in arguments))
    if program == "kubectl":
        plane.kubectl(*arguments)
        noted = plane.get(PARENT)["metadata"]["annotations"].get("gitops/pause-until", "")
        assert command.endswith(f"gitops/pause-until={noted}" if noted else "gitops/pause-until-")
        return None
    assert program == "git"
    folder = tmp_path / "clone"
    (folder / "drift").mkdir(parents=True)
    (folder / "drift/README.md").write_text("the drift of a unit\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for step in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", *step], cwd=folder, check=True)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/gitops-status", "HEAD"], cwd=folder, check=True)
    said = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return type("Done", (), {"out": said.stdout, "code": said.returncode})


def test_the_page_names_every_outcome() -> None:
    table = PAGE.partition("| outcome | |")[2].partition("\n\n")[0]
    words = {row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")}
    assert all(any(repair.words.removeprefix("repair ").startswith(word) for word in words) for repair in Repair), words
    assert len(words) == len(Repair)
