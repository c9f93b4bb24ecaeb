"""Files with schemas are read from where somebody said, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitops.source.schema_files import DEFAULT_FOLDER, default_folders, read_schema_files


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that a pull request would like to have read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "config.yaml").write_text("token: abc")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("link", [".gitops", ".gitops/schemas"])
def test_g09_a_copy_that_is_a_link_out_of_the_repository_is_not_read(
    repository: Path, outside: Path, link: str
) -> None:
    (outside / "schemas").mkdir()
    (repository / link).parent.mkdir(exist_ok=True)
    (repository / link).symlink_to(outside)
    with pytest.raises(OSError, match="leads out of"):
        default_folders(repository)


def test_g09_a_file_that_is_a_link_out_of_its_folder_is_not_read(repository: Path, outside: Path) -> None:
    folder = repository / DEFAULT_FOLDER
    folder.mkdir(parents=True)
    (folder / "b.yaml").write_text("a: 1")
    assert default_folders(repository) == [folder]
    (folder / "a.yaml").symlink_to(outside / "config.yaml")
    with pytest.raises(OSError, match="leads out of"):
        read_schema_files([folder])


def test_a_mounted_config_map_is_read_through_its_links(repository: Path) -> None:
    (repository / "..2026").mkdir()
    (repository / "..2026/a.yaml").write_text("a: 1")
    (repository / "..data").symlink_to("..2026")
    (repository / "a.yaml").symlink_to("..data/a.yaml")
    assert read_schema_files([repository]) == {f"{repository}/a.yaml": b"a: 1"}


def test_no_copy_is_no_error(repository: Path) -> None:
    assert default_folders(repository) == []
