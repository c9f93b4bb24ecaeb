"""Fetching over real transports: what becomes of the head, and what survives failures."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest
from controlplane_kit.gitserver import GitServer, Repository

from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.mirror import LAST_GOOD, FetchKind, Mirror

MakeMirror = Callable[..., Mirror]


@pytest.fixture(params=["http", "path", "file-url"])
def url(request: pytest.FixtureRequest, upstream: Repository) -> str:
    """The same repository by each transport that needs no log-in."""
    forms = {"http": upstream.url, "path": str(upstream.path), "file-url": f"file://{upstream.path}"}
    return forms[request.param]


def test_first_unchanged_advanced(url: str, upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(url)
    assert mirror.head is None
    first = mirror.fetch()
    assert (first.kind, first.head, first.previous) == (FetchKind.FIRST, upstream.head(), None)
    again = mirror.fetch()
    assert (again.kind, again.moved) == (FetchKind.UNCHANGED, False)
    new = upstream.commit({"gitops.yaml": "kind: Repository\n# 2\n"}, "second")
    outcome = mirror.fetch()
    assert (outcome.kind, outcome.head, outcome.previous) == (FetchKind.ADVANCED, new, first.head)
    assert mirror.tree(outcome.head).read("gitops.yaml") == b"kind: Repository\n# 2\n"


def test_an_unchanged_fetch_transfers_nothing(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    git_http.requests.clear()
    mirror.fetch()
    assert git_http.requests == ["GET /fleet.git/info/refs?service=git-upload-pack"]


def test_g01_force_push_is_followed_and_told(url: str, upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({f"functions/f{i}/function.yaml": "x\n" for i in range(10)}, "many")
    mirror = make_mirror(url)
    old = mirror.fetch().head
    assert old is not None
    amended = upstream.git("commit-tree", f"{old}^{{tree}}", "-p", f"{old}^", "-m", "amended").strip()
    upstream.git("update-ref", "refs/heads/main", amended)
    outcome = mirror.fetch()
    assert (outcome.kind, outcome.previous, outcome.head) == (FetchKind.REWRITTEN, old, amended)
    assert old[:12] in outcome.sentence
    assert amended[:12] in outcome.sentence
    smaller = upstream.git("commit-tree", f"{old}^^{{tree}}", "-p", f"{old}^", "-m", "half is gone").strip()
    upstream.git("update-ref", "refs/heads/main", smaller)
    outcome = mirror.fetch()
    assert (outcome.kind, outcome.previous, outcome.head) == (FetchKind.REWRITTEN, amended, smaller)
    assert len(mirror.tree(outcome.head).entries()) == 2
    assert len(mirror.tree(old).entries()) == 12, "the commit that was in force stays readable"


def test_g01_rewind_is_a_rewrite(upstream: Repository, make_mirror: MakeMirror) -> None:
    first = upstream.head()
    upstream.commit({"b.yaml": "b\n"}, "second")
    mirror = make_mirror(upstream.url)
    second = mirror.fetch().head
    upstream.git("update-ref", "refs/heads/main", first or "")
    outcome = mirror.fetch()
    assert (outcome.kind, outcome.previous, outcome.head) == (FetchKind.REWRITTEN, second, first)


def test_g22_unrelated_history_is_followed_and_told(url: str, upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(url)
    old = mirror.fetch().head
    assert old is not None
    before = mirror.tree(old).tree_id()
    new = upstream.rewrite({"gitops.yaml": "kind: Repository\n", "functions/a/function.yaml": "a: 1\n"}, "made anew")
    outcome = mirror.fetch()
    assert (outcome.kind, outcome.previous, outcome.head) == (FetchKind.UNRELATED, old, new)
    assert mirror.tree(outcome.head).tree_id() == before, "equal contents give equal ids, so an empty plan"
    assert [c.id for c in mirror.commits_between(old, new).commits] == [new]


def test_g13_a_deleted_branch_keeps_the_last_good_head(url: str, upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(url)
    head = mirror.fetch().head
    upstream.commit({"x": "x"}, "elsewhere", branch="other")
    upstream.delete_branch("main")
    for _ in range(2):
        outcome = mirror.fetch()
        assert (outcome.kind, outcome.head, outcome.moved) == (FetchKind.BRANCH_GONE, head, False)
    assert "no branch main" in outcome.sentence
    assert mirror.head == head
    assert mirror.tree(head).read("gitops.yaml") == b"kind: Repository\n"
    new = upstream.rewrite({"gitops.yaml": "kind: Repository\n# elsewhere\n"})
    assert mirror.fetch().kind is FetchKind.UNRELATED
    assert mirror.head == new


def test_g13_a_branch_that_never_was(git_http: GitServer, make_mirror: MakeMirror) -> None:
    outcome = make_mirror(git_http.create("empty").url).fetch()
    assert (outcome.kind, outcome.head, outcome.previous) == (FetchKind.BRANCH_GONE, None, None)


def test_last_good_survives_a_restart_and_an_unreachable_server(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    mirror.close()
    git_http.stop()
    restarted = make_mirror(upstream.url)
    with pytest.raises(SourceError) as raised:
        restarted.fetch()
    assert raised.value.error_class is SourceErrorClass.UNREACHABLE
    assert restarted.head == head
    assert restarted.tree(head).read("functions/a/function.yaml") == b"a: 1\n"
    git_http.start()
    assert restarted.fetch().kind is FetchKind.UNCHANGED


def test_the_folder_of_another_repository_is_not_taken_for_this_one(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    mirror.close()
    other = git_http.create("other")
    moved = make_mirror(other.url)
    assert moved.head is None
    new = other.commit({"gitops.yaml": "kind: Repository\n# other\n"})
    outcome = moved.fetch()
    assert (outcome.kind, outcome.head) == (FetchKind.FIRST, new)


def test_g05_stale_locks_of_a_killed_process_are_cleared(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    repository = Path(mirror.repo.path)
    mirror.close()
    for lock in ("refs/mirror/main.lock", "refs/gitops/last-good.lock", "packed-refs.lock", "config.lock", "HEAD.lock",
                 "index.lock", "shallow.lock"):  # fmt: skip
        (repository / lock).touch()
    (repository / "objects/pack/pack_git2_a1b2c3").write_bytes(b"half a pack")
    restarted = make_mirror(upstream.url)
    assert restarted.head == head
    new = upstream.commit({"b.yaml": "b\n"})
    assert restarted.fetch().head == new
    assert not list(repository.rglob("*.lock"))
    assert not (repository / "objects/pack/pack_git2_a1b2c3").exists()


def test_g05_a_kill_in_the_middle_of_a_fetch(upstream: Repository, make_mirror: MakeMirror, tmp_path: Path) -> None:
    """A process that dies while objects arrive leaves a folder that the next one can use."""
    upstream.commit({f"big/{i}": os.urandom(4096) for i in range(300)}, "big")
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom gitops.source.mirror import Mirror\n"
        "from gitops.source.remotes import Remote\nfrom gitops.source import transport\n"
        "transport.Callbacks.transfer_progress = lambda self, s: s.received_objects > 150 and os.kill(os.getpid(), 9)\n"
        "Mirror(Path(sys.argv[1]), Remote(sys.argv[2])).fetch()\n"
    )
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path / "mirror"), upstream.url], timeout=60)
    assert died.returncode == -9
    assert list((tmp_path / "mirror").rglob("*_git2_*")), "the kill came after the transfer began"
    mirror = make_mirror(upstream.url)
    assert mirror.fetch().head == upstream.head()
    assert not list((tmp_path / "mirror").rglob("*_git2_*"))


def test_g05_a_live_holder_is_not_robbed(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    with pytest.raises(SourceError, match=f"in use by another process .pid {os.getpid()}") as raised:
        make_mirror(upstream.url)
    assert raised.value.error_class is SourceErrorClass.STATE
    assert mirror.fetch().head == head
    mirror.close()
    assert make_mirror(upstream.url).head == head


def _objects(mirror: Mirror) -> list[Path]:
    return [p for p in (Path(mirror.repo.path) / "objects").rglob("*") if p.is_file()]


def test_a_corrupt_repository_is_cloned_anew(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    damaged = Path(mirror.repo.path)
    mirror.close()
    for file in (p for p in (damaged / "objects").rglob("*") if p.is_file()):
        file.chmod(0o644)
        file.write_bytes(b"junk")
    restarted = make_mirror(upstream.url)
    assert restarted.head == head, "which commit was in force is still known"
    new = upstream.commit({"b.yaml": "b\n"})
    outcome = restarted.fetch()
    assert (outcome.kind, outcome.head, outcome.previous) == (FetchKind.ADVANCED, new, head)
    assert restarted.tree(head).read("gitops.yaml") == b"kind: Repository\n"
    assert restarted.rebuilds == 1
    assert not damaged.exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_object_cut_short_is_not_waited_for(share: float, upstream: Repository, make_mirror: MakeMirror) -> None:
    """As a power cut leaves a file: libgit2 reads a loose object without its end for ever."""
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    kept = str(mirror.repo.create_blob(b"".join(b"%d\n" % (n * n) for n in range(999))))
    file = Path(mirror.repo.path) / "objects" / kept[:2] / kept[2:]
    mirror.close()
    raw = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(raw[: int(len(raw) * share)])
    restarted = make_mirror(upstream.url)
    assert kept not in restarted.repo
    assert restarted.fetch().kind is FetchKind.UNCHANGED


@pytest.mark.parametrize("content", ["", "0123\n", "\0garbage"], ids=["empty", "cut", "garbage"])
@pytest.mark.parametrize("name", ["refs/mirror/main", "refs/gitops/last-good", "refs/mirror/gitops-status"])
def test_a_reference_that_a_power_cut_broke_is_written_anew(
    name: str, content: str, upstream: Repository, make_mirror: MakeMirror
) -> None:
    upstream.commit({"status/README.md": "x\n"}, branch="gitops-status")
    mirror = make_mirror(upstream.url, status_branch="gitops-status")
    head = mirror.fetch().head
    mirror.close()
    (Path(mirror.repo.path) / name).write_text(content)
    restarted = make_mirror(upstream.url, status_branch=None)
    assert restarted.fetch().head == head
    assert restarted.tree(head).entries()
    with contextlib.suppress(SourceError):  # found only now; the next look builds anew
        restarted.watch_status("gitops-status")
    restarted.fetch()
    restarted.watch_status("gitops-status")
    assert restarted.fetch_status() == upstream.head("gitops-status")
    new = upstream.commit({"b.yaml": "b\n"})
    assert restarted.fetch().head == new


def test_a_corrupt_repository_stays_until_the_server_is_back(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    mirror.close()
    for file in _objects(mirror):
        file.chmod(0o644)
        file.write_bytes(b"junk")
    git_http.stop()
    restarted = make_mirror(upstream.url)
    with pytest.raises(SourceError) as raised:
        restarted.fetch()
    assert raised.value.error_class is SourceErrorClass.UNREACHABLE
    assert restarted.head == head
    with pytest.raises(SourceError):
        restarted.tree(head).entries()
    git_http.start()
    assert restarted.fetch().kind is FetchKind.UNCHANGED
    assert restarted.tree(head).entries()


def test_an_object_missing_deep_below_is_found_when_read_and_repaired(
    upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    tree = mirror.tree(head)
    assert (
        tree.tree_id("functions/a/function.yaml") == upstream.git("rev-parse", "main:functions/a/function.yaml").strip()
    )
    mirror.close()
    damaged = Path(mirror.repo.path)
    _explode(damaged)
    blob = upstream.git("rev-parse", "main:functions/a/function.yaml").strip()
    (damaged / "objects" / blob[:2] / blob[2:]).unlink()
    restarted = make_mirror(upstream.url)
    assert restarted.fetch().kind is FetchKind.UNCHANGED
    with pytest.raises(SourceError) as raised:
        restarted.tree(head).read("functions/a/function.yaml")
    assert raised.value.error_class is SourceErrorClass.CORRUPT
    assert restarted.fetch().kind is FetchKind.UNCHANGED
    assert restarted.tree(head).read("functions/a/function.yaml") == b"a: 1\n"


def _explode(repository: Path) -> None:
    """Turn packs into loose objects."""
    packs = list((repository / "objects/pack").glob("*.pack"))
    for pack in packs:
        content = pack.read_bytes()
        for part in pack.parent.glob(f"{pack.stem}.*"):
            part.unlink()
        subprocess.run(["git", "-C", str(repository), "unpack-objects", "-q"], input=content, check=True)


def test_g12_a_folder_of_another_user_is_replaced_or_named(upstream: Repository, make_mirror: MakeMirror) -> None:
    if os.getuid() != 0:
        pytest.skip("changing the owner needs root: ownership of the state folder is NOT tested")
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    mirror.close()
    for file in [Path(mirror.repo.path), *Path(mirror.repo.path).rglob("*")]:
        os.chown(file, 12345, 12345)
    restarted = make_mirror(upstream.url)
    assert restarted.rebuilds == 1
    assert restarted.fetch().head == head
    assert Path(restarted.repo.path).stat().st_uid == 0


def test_g12_a_state_folder_that_cannot_be_used_is_named(tmp_path: Path, make_mirror: MakeMirror) -> None:
    (tmp_path / "mirror").write_text("a file")
    with pytest.raises(SourceError, match="mirror") as raised:
        make_mirror("/srv/x.git")
    assert raised.value.error_class is SourceErrorClass.STATE


def test_g06_two_commits_are_read_at_the_same_time(upstream: Repository, make_mirror: MakeMirror) -> None:
    old = upstream.commit({"app.yaml": "v: 1\n"})
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    new = upstream.commit({"app.yaml": "v: 2\n"})
    mirror.fetch()
    trees = [mirror.tree(old), mirror.tree(new)]
    assert [tree.read("app.yaml") for tree in trees * 10] == [b"v: 1\n", b"v: 2\n"] * 10
    assert [tree.commit for tree in trees] == [old, new]


def test_g17_only_the_tree_of_the_commit_counts(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    (Path(mirror.repo.path) / "ghost.yaml").write_text("ghost")
    assert [e.path for e in mirror.tree(head).entries()] == ["functions/a/function.yaml", "gitops.yaml"]
    with pytest.raises(FileNotFoundError):
        mirror.tree(head).read("ghost.yaml")


def test_maintenance_takes_a_small_generation_and_loses_nothing(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    held = mirror.fetch().head
    assert held is not None
    mirror.keep([held])
    new = upstream.rewrite({"gitops.yaml": "kind: Repository\n# rewritten\n"})
    mirror.fetch()
    for i in range(50):
        mirror.repo.create_blob(b"waste %d" % i)
    tree = mirror.tree(held)
    assert not mirror.maintenance().renewed
    report = mirror.maintenance(max_loose=49)
    assert report.renewed
    assert report.loose >= 50
    assert mirror.maintenance().loose == 0
    assert mirror.head == new
    assert tree.read("gitops.yaml") == b"kind: Repository\n", "a tree that was open is still readable"
    assert mirror.fetch().kind is FetchKind.UNCHANGED
    assert len(list(Path(mirror.repo.path).parent.glob("git-*"))) == 1
    mirror.keep([])
    mirror.repo.create_blob(b"waste")
    mirror.maintenance(max_loose=0)
    assert not mirror.has(held), "what nothing holds is dropped"


def test_maintenance_keeps_no_old_files_open(upstream: Repository, make_mirror: MakeMirror, tmp_path: Path) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    assert head is not None
    tree = mirror.tree(head)
    for turn in range(3):
        tree.read("gitops.yaml")
        mirror.repo.create_blob(b"waste %d" % turn)
        assert mirror.maintenance(max_loose=0).renewed
    still_open = [os.readlink(f) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
    assert not [name for name in still_open if name.startswith(str(tmp_path)) and "(deleted)" in name]


def test_a_full_disk_keeps_last_good(upstream: Repository, make_mirror: MakeMirror, tmp_path: Path) -> None:
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small file system needs root: a full disk is NOT tested")
    small = tmp_path / "mirror"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here: a full disk is NOT tested")
    try:
        mirror = make_mirror(upstream.url)
        head = mirror.fetch().head
        upstream.commit({"big": os.urandom(1_000_000)})
        with pytest.raises(SourceError) as raised:
            mirror.fetch()
        assert raised.value.error_class is SourceErrorClass.DISK_FULL
        assert mirror.head == head
        assert mirror.tree(head).entries()
        mirror.close()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_last_good_is_a_reference_that_git_itself_reads(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    seen = subprocess.run(
        ["git", "--git-dir", mirror.repo.path, "rev-parse", LAST_GOOD], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == head
    assert isinstance(mirror.repo, pygit2.Repository)
