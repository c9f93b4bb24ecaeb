"""Files of a revision, read from the objects of the repository that a folder belongs to."""

from __future__ import annotations

from pathlib import Path

import pygit2
import pytest

from gitops.model.trees import EntryKind
from gitops.source.revisions import NoSuchRevision, fork_point

AUTHOR = pygit2.Signature("a", "a@example.com", 0)


class Work:
    """A work tree whose commits are made of maps from path to text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repo = pygit2.init_repository(str(path), initial_head="main")

    def commit(self, files: dict[str, str], *parents: pygit2.Oid, branch: str = "main") -> pygit2.Oid:
        index = pygit2.Index()
        for name, text in files.items():
            mode = pygit2.enums.FileMode.LINK if text.startswith("->") else pygit2.enums.FileMode.BLOB
            index.add(pygit2.IndexEntry(name, self.repo.create_blob(text.encode()), mode))
        tree = index.write_tree(self.repo)
        return self.repo.create_commit(f"refs/heads/{branch}", AUTHOR, AUTHOR, "m", tree, list(parents))


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path / "work")


def paths(tree):
    return [entry.path for entry in tree.entries()]


def test_the_point_where_two_branches_parted_is_compared_with(work):
    base = work.commit({"a.yaml": "a: 1\n", "gone.yaml": "x"})
    work.commit({"a.yaml": "a: 2\n", "later.yaml": "x"}, base)
    work.commit({"a.yaml": "a: 3\n"}, base, branch="feature")
    work.repo.set_head("refs/heads/feature")
    tree = fork_point(work.path, "main")
    assert (tree.commit, paths(tree), tree.read("a.yaml")) == (str(base), ["a.yaml", "gone.yaml"], b"a: 1\n")


def test_a_folder_of_the_work_tree_is_that_folder(work):
    work.commit({"fleet/a.yaml": "a", "fleet/.github/x.yaml": "x", "other.yaml": "b"})
    (work.path / "fleet" / "sub").mkdir(parents=True)
    tree = fork_point(work.path / "fleet", "HEAD")
    assert paths(tree) == ["a.yaml"]
    assert paths(fork_point(work.path / "fleet" / "sub", "HEAD")) == []


def test_links_folders_and_nothing_are_not_read(work):
    work.commit({"folder/a.yaml": "a", "link": "->folder/a.yaml"})
    work.path.joinpath("folder").mkdir()
    tree = fork_point(work.path, "HEAD")
    assert {entry.path: entry.kind for entry in tree.entries()}["link"] is EntryKind.SYMLINK
    for path, error in (("link", IsADirectoryError), ("folder", IsADirectoryError), ("none", FileNotFoundError)):
        with pytest.raises(error):
            tree.read(path)


def test_what_cannot_be_compared_is_one_sentence(work, tmp_path):
    with pytest.raises(NoSuchRevision, match="there is no revision HEAD"):
        fork_point(work.path, "HEAD")
    work.commit({"a": "a"})
    with pytest.raises(NoSuchRevision, match="there is no revision nowhere"):
        fork_point(work.path, "nowhere")
    work.commit({"a": "a"}, branch="island")
    other = work.commit({"b": "b"}, branch="other")
    with pytest.raises(NoSuchRevision, match="no commit in common"):
        fork_point(work.path, str(other))
    (tmp_path / "plain").mkdir()
    with pytest.raises(NoSuchRevision, match="belongs to no Git repository"):
        fork_point(tmp_path / "plain", "main")
