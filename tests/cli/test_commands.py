"""The commands around: init, version, mistakes, exit codes, defects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.gitserver import GitServer

from gitops.cli import application
from gitops.cli.exits import Exit
from gitops.cli.status import _cause
from gitops.cli.status_reading import reading
from gitops.model.document_kinds import KINDS
from gitops.settings import SettingsError, load_settings

TEMPLATE = Path(__file__).resolve().parents[2] / "repo-template"


def test_init_copies_a_repository_that_validates(gitops: Any, tmp_path: Path) -> None:
    target = tmp_path / "new" / "repository"
    result = gitops("init", target)
    assert result.code == 0
    expected = {p.relative_to(TEMPLATE): p.read_bytes() for p in TEMPLATE.rglob("*") if p.is_file()}
    files = {p.relative_to(target): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    schemas = {path for path in files if path.parts[0] == ".schemas"}
    assert {path: files[path] for path in files.keys() - schemas} == expected
    assert {path.stem for path in schemas} == {kind.lower() for kind in KINDS}
    assert gitops("validate", target).code == 0


def test_every_file_of_the_example_names_the_schema_of_its_kind(gitops: Any, tmp_path: Path) -> None:
    assert gitops("init", tmp_path / "new").code == 0
    named = 0
    for file in sorted((tmp_path / "new").rglob("*.yaml")):
        text = file.read_text()
        kind = re.search(r"^apiVersion: gitops/v1alpha1\nkind: (\w+)$", text, re.MULTILINE)
        if kind is None:
            assert "$schema" not in text
            continue
        schema = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        assert schema, file
        assert json.loads((file.parent / schema[1]).read_text())["title"] == kind[1]
        named += 1
    assert named >= 12


def test_init_accepts_a_folder_with_git_only(gitops: Any, tmp_path: Path) -> None:
    (tmp_path / "fresh" / ".git").mkdir(parents=True)
    assert gitops("init", tmp_path / "fresh").code == 0


def test_init_never_overwrites(gitops: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    result = gitops("init", tmp_path)
    assert result.code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_version(gitops: Any) -> None:
    assert gitops("--version").out.startswith("gitops ")


def test_help_of_every_command(gitops: Any) -> None:
    listed = gitops("--help").out
    for command in ("run", "validate", "plan", "apply", "drift", "status", "rbac", "init", "schema"):
        assert f"  {command} " in listed
        assert gitops(command, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "repository.url: name a Git repository"),
        (["run", "--path", "x", "--repository-url", "https://a.example/b"], "exclude each other"),
        (["run", "--path", "x", "--set", "poll_intervall=3"], "did you mean poll_interval?"),
        (["run", "--path", "x", "--set", "poll_interval"], "write it as NAME=VALUE"),
        (["run", "--path", "x", "--listen", "8080"], "listen: write an address and a port"),
        (["run", "--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read: No such file or directory"),
        (["run", "--repository-url", "ext::sh"], "https://, ssh://"),
        (["run", "--path", "/nowhere"], "/nowhere: there is no such folder"),
        (["apply"], "apply needs --once"),
        (["validate", "/nowhere"], "/nowhere: there is no such folder"),
        (["plan", "/dev/null"], "/dev/null is not a folder"),
        (["status"], "repository.url: name a Git repository"),
    ],
)
def test_mistakes_are_one_line_and_code_2(gitops: Any, arguments: list[str], words: str) -> None:
    result = gitops(*arguments)
    assert result.code == 2
    assert words in result.err
    assert "Traceback" not in result.err


def test_defect_is_a_redacted_traceback_and_code_70(gitops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("cannot read https://bot:s3cr3t@git.example/x.git?key=1")

    monkeypatch.setattr("gitops.cli.folders.compiled_folder", broken)
    result = gitops("validate", "x")
    assert result.code == 70
    assert "RuntimeError: cannot read https://git.example/x.git" in result.err
    assert "s3cr3t" not in result.err


def test_mistakes_are_told_from_defects_by_their_class() -> None:
    assert application._is_mistake(SettingsError("x"))
    assert application._is_mistake(FileNotFoundError("x"))
    assert not application._is_mistake(ValueError("x"))
    assert not application._is_mistake(KeyError("x"))


def test_exit_codes_do_not_collide() -> None:
    assert len({code.value for code in Exit}) == len(Exit)


def test_status_reads_past_what_others_keep_on_the_branch(gitops: Any, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "status" / "status"
    (folder / "functions").mkdir(parents=True)
    ours = 'apiVersion: gitops/v1alpha1\nkind: FunctionStatus\nname: chat\nstatus: ACTIVE\ncause: "a\\e[31m"\n'
    (folder / "functions" / "chat.yaml").write_text(ours)
    (folder / "notes.yaml").write_text("kind: Notes\n")
    (folder / "half.yaml").write_text("apiVersion: gitops/v1alpha1\nkind: Something\n")
    (folder / "broken.yaml").write_text("{")
    (tmp_path / "repository").mkdir()
    result = gitops("status", "chat", "--path", tmp_path / "repository", "--state-dir", tmp_path / "state")
    assert (result.code, result.err) == (0, "")
    assert "chat" in result.out
    assert "Notes" not in result.out
    assert "\x1b" not in result.out
    (folder / "tasks").mkdir()
    (folder / "tasks" / "warm.yaml").write_text(ours.replace("Function", "Task").replace("ACTIVE", "Empty"))
    result = gitops("status", "--path", tmp_path / "repository", "--state-dir", tmp_path / "state")
    assert result.code == 0  # a task that is not run has no unit that could be unready


def test_apply_of_a_repository_that_cannot_be_read_is_code_2_and_says_why(gitops: Any, tmp_path: Path) -> None:
    arguments = ["--repository-url", f"file://{tmp_path}/none.git", "--credentials-dir", tmp_path / "none"]
    result = gitops("apply", "--once", *arguments, "--state-dir", tmp_path / "state")
    assert result.code == 2
    assert "the repository was not found: there is none in that folder" in result.out
    assert "protocol" not in result.out
    assert "UNIT" not in result.out
    assert f"credentials_dir {tmp_path / 'none'} is not there" in result.err


def test_status_says_what_holds_a_workload_that_is_ready_all_the_same() -> None:
    body = {"kind": "FunctionStatus", "status": "ACTIVE", "held": ["a.yaml:1: error GO2002: unknown field", "more"]}
    assert _cause(body) == "held at its last good commit: a.yaml:1: error GO2002: unknown field (and 1 more)"
    assert _cause({"reason": "ObjectsReady"}) == "ObjectsReady"


def test_status_says_what_is_left_as_it_is_of_a_unit_that_is_ready_all_the_same() -> None:
    body = {
        "kind": "UnitStatus",
        "status": "Ready",
        "reason": "ObjectsReady",
        "outcome": {"message": "Contested: replicas"},
    }
    assert _cause(body) == "Contested: replicas"
    assert _cause({**body, "cause": "no pod is ready"}) == "Contested: replicas; no pod is ready"
    assert _cause({**body, "cause": "Contested"}) == "Contested: replicas", "said once"


def test_a_workload_that_nobody_knows_is_not_a_daemon_that_reported_nothing(gitops: Any, tmp_path: Path) -> None:
    where = ("--path", tmp_path, "--state-dir", tmp_path)
    assert gitops("status", "chat", *where).out == "Nothing is reported yet.\n"
    folder = tmp_path / "status" / "status" / "functions"
    folder.mkdir(parents=True)
    (folder / "chat.yaml").write_text("apiVersion: gitops/v1alpha1\nkind: FunctionStatus\nname: chat\nstatus: ACTIVE\n")
    shown = gitops("status", "chta", *where)
    assert (shown.code, shown.out) == (4, "Nothing is reported of workload chta.\n")


def test_reports_can_be_read_while_another_command_follows_them(
    gitops: Any, tmp_path: Path, git_http: GitServer
) -> None:
    repository = git_http.create()
    gitops_yaml = "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: demo}\n"
    repository.commit({"gitops.yaml": gitops_yaml}, "first")
    where = ("--repository-url", repository.url, "--state-dir", tmp_path / "state")
    settings = load_settings(flags={"repository.url": repository.url, "state_dir": tmp_path / "state"})
    with reading(settings) as followed:
        followed.read(("status",))
        told = gitops("status", *where)
        assert (told.code, told.out, told.err) == (4, "Nothing is reported yet.\n", "")
