"""The setting `operator_types`: who runs the daemon adds an operator by one file; what is wrong has its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "operator-example.yaml"

FUNCTION = """\
apiVersion: gitops/v1alpha1
kind: Function
metadata: {name: train}
spec:
  version: "1"
  operatorTypes: [trainer]
  manifests: [run.yaml]
"""
RUN = """\
apiVersion: training.example.com/v1
kind: TrainingRun
metadata: {name: first}
spec:
  checkpoints: {enabled: true}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "functions/train").mkdir(parents=True)
    (folder / "functions/train/function.yaml").write_text(FUNCTION)
    (folder / "functions/train/run.yaml").write_text(RUN)
    (folder / "gitops.yaml").write_text(
        "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: mine}\nspec: {}\n"
    )
    return folder


def test_a_type_from_a_file_or_a_folder_is_judged_by_its_own_rules(
    gitops: Any, repository: Path, tmp_path: Path
) -> None:
    unknown = gitops("validate", repository)
    assert "GO2005" in unknown.out or "unknown operator type trainer" in unknown.out
    (tmp_path / "types").mkdir()
    (tmp_path / "types/trainer.yaml").write_text(EXAMPLE.read_text())
    for place in (EXAMPLE, tmp_path / "types"):
        known = gitops("validate", repository, "--set", f"operator_types={place}")
        assert "unknown operator type" not in known.out
        assert "functions/train/run.yaml:5: error GO4521" in known.out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kind: OperatorType", "kind: Other", "trainer.yaml:3"),
        ("  clusterAttribute:", "  clusterAtribute:", "trainer.yaml:8"),
        ("\n  tenancy:", "\n  tenanty:", "trainer.yaml"),
        ("name: trainer", "name: nim", "nim"),
        (
            "kind: TrainingRun, resource: trainingruns",
            "kind: TrainingRun, resource: trainingruns, x: 1",
            "trainer.yaml:10",
        ),
    ],
)
def test_a_wrong_file_ends_the_command_with_its_line(
    gitops: Any, repository: Path, tmp_path: Path, old: str, new: str, told: str
) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    (tmp_path / "trainer.yaml").write_text(text.replace(old, new, 1))
    result = gitops("validate", repository, "--set", f"operator_types={tmp_path / 'trainer.yaml'}")
    assert result.code == 2
    assert "operator_types" in result.err
    assert told in result.err
    assert "Traceback" not in result.err


def test_a_type_without_its_checklist_is_refused(gitops: Any, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "trainer.yaml").write_text(EXAMPLE.read_text().partition("\n  tenancy:")[0] + "\n")
    result = gitops("plan", repository, "--set", f"operator_types={tmp_path / 'trainer.yaml'}")
    assert result.code == 2
    assert "lacks" in result.err
    assert "tenancy" in result.err
    assert "docs/onboarding.md" in result.err


def test_a_place_that_is_not_there(gitops: Any, repository: Path, tmp_path: Path) -> None:
    result = gitops("rbac", "check", "--set", f"operator_types={tmp_path / 'none.yaml'}", EXAMPLE)
    assert result.code == 2
    assert "operator_types" in result.err


def test_a_file_that_is_not_there_is_named(gitops: Any, repository: Path, tmp_path: Path) -> None:
    for setting, command in (("operator_types", "validate"), ("ownership_tables", "plan")):
        places = ("--credentials-dir", tmp_path) if command == "plan" else ()
        result = gitops(command, repository, *places, "--set", f"{setting}={tmp_path / 'none.yaml'}")
        assert result.code == 2
        assert result.err == f"gitops: settings: {setting}: {tmp_path / 'none.yaml'}: No such file or directory\n"
