"""What a commit's tree shows: kinds, odd names, bytes as stored, and the price of a one-file commit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from controlplane_kit.gitserver import Repository

from gitops.model.trees import EntryKind, FileTree, TreeEntry
from gitops.source import treewalk
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.mirror import Mirror

MakeMirror = Callable[..., Mirror]


def raw_tree(upstream: Repository, entries: list[tuple[str, str, str, bytes]]) -> str:
    """Commit a tree of (mode, type, id, raw name) on main, as no work tree could hold it."""
    listing = b"".join(f"{mode} {kind} {oid}\t".encode() + name + b"\0" for mode, kind, oid, name in entries)
    tree = upstream.git("mktree", "-z", "--missing", stdin=listing).strip()
    commit = upstream.git("commit-tree", tree, "-m", "odd").strip()
    upstream.git("update-ref", "refs/heads/main", commit)
    return commit


def blob(upstream: Repository, content: bytes) -> str:
    return upstream.git("hash-object", "-w", "--stdin", stdin=content).strip()


def test_g09_g07_links_and_submodules_are_entries_and_never_followed(
    upstream: Repository, make_mirror: MakeMirror
) -> None:
    outside, inside = blob(upstream, b"/etc/hostname"), blob(upstream, b"a.yaml")
    entries = [
        ("100644", "blob", blob(upstream, b"a\n"), b"a.yaml"),
        ("100755", "blob", blob(upstream, b"b\n"), b"run.sh"),
        ("120000", "blob", outside, b"host.yaml"),
        ("120000", "blob", inside, b"inner.yaml"),
        ("160000", "commit", "1" * 40, b"sub"),
    ]
    commit = raw_tree(upstream, entries)
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    tree: FileTree = mirror.tree(commit)  # type: ignore[arg-type]
    kinds = {entry.path: entry.kind for entry in tree.entries()}
    assert kinds == {
        "a.yaml": EntryKind.FILE,
        "host.yaml": EntryKind.SYMLINK,
        "inner.yaml": EntryKind.SYMLINK,
        "run.sh": EntryKind.FILE,
        "sub": EntryKind.SUBMODULE,
    }
    assert tree.read("run.sh") == b"b\n"
    for path in ("host.yaml", "inner.yaml", "sub", ""):
        with pytest.raises(IsADirectoryError):
            tree.read(path)
    for path in ("sub/x", "a.yaml/x", "missing", "../a.yaml", "/a.yaml", "a//b", "."):
        with pytest.raises(FileNotFoundError):
            tree.read(path)


def test_g16_odd_names_are_listed_and_read(upstream: Repository, make_mirror: MakeMirror) -> None:
    names = ["über app.yaml", 'a"b.yaml', "new\nline.yaml", "-f.yaml", "a b.yaml", "Ünï/ö.yaml", "z.yaml", "a\\b.yaml"]
    upstream.rewrite({"plain": "x"})
    entries = [("100644", "blob", blob(upstream, name.encode()), name.encode()) for name in names if "/" not in name]
    entries.append(("100644", "blob", blob(upstream, b"latin"), b"caf\xe9.yaml"))
    commit = raw_tree(upstream, entries)
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    tree = mirror.tree(commit)  # type: ignore[arg-type]
    listed = [entry.path for entry in tree.entries()]
    assert listed == sorted(listed)
    assert set(listed) == {name for name in names if "/" not in name} | {"caf\\xe9.yaml"}
    for name in names:
        if "/" not in name:
            assert tree.read(name) == name.encode()
    assert tree.read("caf\\xe9.yaml") == b"latin"
    assert all(path.encode() for path in listed), "every path can be written as UTF-8"


def test_g18_content_is_read_as_stored(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({".gitattributes": "* text=auto\n", "crlf.yaml": b"a: 1\r\nb: 2\r\n"})
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    assert head is not None
    assert mirror.tree(head).read("crlf.yaml") == b"a: 1\r\nb: 2\r\n"


def test_entries_agree_with_git_ls_tree(upstream: Repository, make_mirror: MakeMirror) -> None:
    files = {
        f"functions/f{i}/{name}.yaml": f"{i}{name}" for i in range(12) for name in ("a", "manifests/b", "a-b", "a0")
    }
    upstream.commit(files | {"functions.yaml": "x", "functions-x/y": "z"})
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    assert head is not None
    raw = upstream.git("ls-tree", "-r", "-z", "main").split("\0")[:-1]
    expected = [TreeEntry(line.split("\t")[1], line.split()[2], EntryKind.FILE) for line in raw]
    assert list(mirror.tree(head).entries()) == expected == sorted(expected)
    assert mirror.tree(head).tree_id("functions") == upstream.git("rev-parse", "main:functions").strip()
    assert mirror.tree(head).tree_id("nothing/here") is None


def test_a_one_file_commit_reads_only_the_folders_above_it(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({f"functions/f{i}/manifests/m{j}.yaml": f"{i} {j}" for i in range(500) for j in range(20)})
    mirror = make_mirror(upstream.url)
    first = mirror.fetch().head
    assert first is not None
    before = mirror.tree(first).entries()
    assert len(before) == 10_002
    upstream.commit({"functions/f7/manifests/m3.yaml": "changed"})
    second = mirror.fetch().head
    assert second is not None
    read_before = mirror._listing.trees_read
    after = mirror.tree(second).entries()
    assert mirror._listing.trees_read - read_before == 4, "root, functions, f7, manifests"
    assert sum(a is not b for a, b in zip(before, after, strict=True)) == 21, "entries of other folders are shared"


def test_too_large_and_too_deep_are_refused(
    upstream: Repository, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treewalk, "MAX_FILE_BYTES", 1000)
    monkeypatch.setattr(treewalk, "MAX_DEPTH", 5)
    shallow = upstream.commit({"large.yaml": "x" * 1001, "fits.yaml": "x" * 1000})
    deep = upstream.commit({"/".join("abcdefgh"): "x"})
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    tree = mirror.tree(shallow)  # type: ignore[arg-type]
    assert len(tree.read("fits.yaml")) == 1000
    with pytest.raises(OSError, match="larger than"):
        tree.read("large.yaml")
    with pytest.raises(SourceError) as raised:
        mirror.tree(deep).entries()  # type: ignore[arg-type]
    assert raised.value.error_class is SourceErrorClass.PROTOCOL
    assert "nested deeper" in raised.value.sentence
    assert not mirror._store.damaged


def test_an_unknown_commit_is_an_error(upstream: Repository, make_mirror: MakeMirror, tmp_path: Path) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    for commit in ("0" * 40, "not a commit", upstream.git("rev-parse", "main^{tree}").strip()):
        with pytest.raises(SourceError) as raised:
            mirror.tree(commit)  # type: ignore[arg-type]
        assert raised.value.error_class is SourceErrorClass.NOT_FOUND
