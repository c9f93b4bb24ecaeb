"""A plain folder as a tree: same ids as Git, no way out, no mixed states."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from gitops.model.trees import EntryKind, FileTree
from gitops.source.folders import FolderChanged, FolderTree, blob_id
from gitops.source.watching import watch_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "functions/a").mkdir(parents=True)
    (root / "functions/a/function.yaml").write_text("a: 1\n")
    (root / "gitops.yaml").write_text("kind: Repository\n")
    return root


def test_ids_are_those_of_git(folder: Path) -> None:
    (folder / "link").symlink_to("gitops.yaml")
    tree: FileTree = FolderTree(folder)
    for entry in tree.entries():
        path = folder / entry.path
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        git = subprocess.run(["git", "hash-object", "--stdin"], input=content, capture_output=True, check=True)
        assert entry.content_id == git.stdout.decode().strip() == blob_id(content)
    assert [entry.path for entry in tree.entries()] == ["functions/a/function.yaml", "gitops.yaml", "link"]


def test_git_and_hidden_folders_are_left_out(folder: Path) -> None:
    for hidden in (".git/x", ".github/workflows/ci.yaml", "functions/.cache/x"):
        (folder / hidden).parent.mkdir(parents=True)
        (folder / hidden).write_text("x")
    (folder / "vendored/.git").mkdir(parents=True)
    (folder / "vendored/x.yaml").write_text("x")
    kinds = {entry.path: entry.kind for entry in FolderTree(folder).entries()}
    assert kinds == {
        "functions/a/function.yaml": EntryKind.FILE,
        "gitops.yaml": EntryKind.FILE,
        "vendored": EntryKind.SUBMODULE,
    }


def test_g09_links_are_never_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.yaml").write_text("hidden")
    (folder / "file.yaml").symlink_to(tmp_path / "secret")
    (folder / "dir").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    tree = FolderTree(folder)
    kinds = {entry.path: entry.kind for entry in tree.entries()}
    assert kinds["file.yaml"] is kinds["dir"] is EntryKind.SYMLINK
    assert "pipe" not in kinds
    for path in ("file.yaml", "dir", "functions", ""):
        with pytest.raises(IsADirectoryError):
            tree.read(path)
    for path in ("dir/x.yaml", "../secret", "/etc/hostname", "pipe", "missing"):
        with pytest.raises(FileNotFoundError):
            tree.read(path)


def test_a_change_underneath_never_mixes_two_states(folder: Path, tmp_path: Path) -> None:
    tree = FolderTree(folder)
    commit = tree.commit
    assert commit.startswith("folder-")
    (folder / "gitops.yaml").write_text("kind: Other\n")
    with pytest.raises(FolderChanged):
        tree.read("gitops.yaml")
    assert tree.read("functions/a/function.yaml") == b"a: 1\n"
    assert tree.commit == commit
    (folder / "gitops.yaml").unlink()
    with pytest.raises(FolderChanged):
        tree.read("gitops.yaml")
    (tmp_path / "secret").write_text("kind: Repository\n")
    (folder / "gitops.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(FolderChanged):
        tree.read("gitops.yaml")
    (folder / "gitops.yaml").unlink()
    (folder / "gitops.yaml").write_text("kind: Repository\n")
    assert tree.read("gitops.yaml") == b"kind: Repository\n"
    assert FolderTree(folder).commit == commit, "equal content, equal id"


def test_a_new_snapshot_sees_every_change_also_with_equal_times(folder: Path) -> None:
    file = folder / "gitops.yaml"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    first = FolderTree(folder)
    before = first.commit
    file.write_text("kind: Repositorx\n")  # same length
    os.utime(file, (1_000_000_000, 1_000_000_000))
    second = FolderTree(folder, previous=first)
    assert second.commit != before
    assert second.read("gitops.yaml") == b"kind: Repositorx\n"
    assert FolderTree(folder, previous=second).commit == second.commit


def test_tree_id_of_a_folder_moves_with_its_files_only(folder: Path) -> None:
    first = FolderTree(folder)
    ids = {path: first.tree_id(path) for path in ("", "functions", "functions/a", "functions/a/function.yaml")}
    assert None not in ids.values()
    (folder / "gitops.yaml").write_text("kind: Other\n")
    second = FolderTree(folder)
    assert second.tree_id("") != ids[""]
    assert second.tree_id("functions") == ids["functions"]
    assert second.tree_id("missing") is None


def test_what_is_no_folder_is_refused(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FolderTree(folder / "missing")
    with pytest.raises(NotADirectoryError):
        FolderTree(folder / "gitops.yaml")


async def test_the_watcher_tells_what_changed(folder: Path) -> None:
    (folder / ".git").mkdir()
    seen: asyncio.Queue[frozenset[str]] = asyncio.Queue()

    async def watch() -> None:
        async for paths in watch_folder(folder, debounce=0.05):
            await seen.put(paths)

    task = asyncio.create_task(watch())
    try:
        found: set[str] = set()
        for attempt in range(200):  # the watch begins some time after its task does
            (folder / ".git/index").write_text(str(attempt))
            (folder / "functions/a/function.yaml").write_text(f"a: {attempt}\n")
            assert not task.done(), task.exception()
            with contextlib.suppress(TimeoutError):
                found |= await asyncio.wait_for(seen.get(), 0.2)
                break
        assert found == {"functions/a/function.yaml"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
