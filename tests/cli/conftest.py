"""A `gitops` to call in this process, and copies of the example repository to break."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitops.cli.application import run_application

TEMPLATE = Path(__file__).resolve().parents[2] / "repo-template"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Gitops = Callable[..., Result]


@pytest.fixture
def gitops(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gitops:
    """Runs a command as the shell would: `gitops("validate", folder)`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def call(*arguments: object) -> Result:
        code = 0
        try:
            run_application([str(a) for a in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return call


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A copy of the example repository."""
    return Path(shutil.copytree(TEMPLATE, tmp_path / "repository"))
