"""A plain folder as a source: what is being saved is not taken for what its author meant."""

from __future__ import annotations

from pathlib import Path

from gitops.source.sources import FolderSource


async def test_a_folder_counts_once_it_has_kept_still(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    file = folder / "a.yaml"
    file.write_text("")  # an editor has emptied it and is about to write
    saves = iter(["half", "whole"])

    async def pause(seconds: float) -> None:
        if (text := next(saves, None)) is not None:
            file.write_text(text)

    source = FolderSource(folder, status_folder=tmp_path / "status", pause=pause)
    commit, _ = await source.look()
    assert commit is not None
    tree = await source.tree(commit)
    assert tree is not None
    assert tree.read("a.yaml") == b"whole"
    await source.close()


async def test_a_folder_at_rest_is_looked_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text("a: 1")
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    source = FolderSource(folder, status_folder=tmp_path / "status", pause=pause)
    first, _ = await source.look()
    again, _ = await source.look()
    assert first == again
    assert len(pauses) == 1
    await source.close()
