"""`gitops schema`: one kind on the terminal, all kinds into a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitops.model.document_kinds import KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_one_kind_is_printed(gitops: Any, kind: str) -> None:
    result = gitops("schema", kind)
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["title"] == kind
    assert gitops("schema", kind.lower()).out == result.out


def test_all_kinds_are_written_into_a_folder(gitops: Any, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    assert gitops("schema", "--out", folder).code == 0
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"{kind.lower()}.json" for kind in KINDS)
    for kind in KINDS:
        text = (folder / f"{kind.lower()}.json").read_text(encoding="utf-8")
        assert text == gitops("schema", kind).out


def test_one_kind_into_a_folder(gitops: Any, tmp_path: Path) -> None:
    assert gitops("schema", "Bundle", "--out", tmp_path / "s").code == 0
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["bundle.json"]


@pytest.mark.parametrize(("arguments", "words"), [([], "name a kind (Repository, "), (["Pod"], "there is no kind Pod")])
def test_without_a_kind_that_exists_it_is_a_usage_error(gitops: Any, arguments: list[str], words: str) -> None:
    result = gitops("schema", *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_a_folder_that_cannot_be_written_is_a_usage_error(gitops: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = gitops("schema", "--out", tmp_path / "file")
    assert result.code == 2
    assert "Traceback" not in result.err
