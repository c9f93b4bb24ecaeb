"""Commits on the status branch over http and file: what is written, races, refusals, and what is never done."""

import random
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.gitserver import GitServer, Repository

from gitops.model.identity import ReconcilerName
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.mirror import FetchKind, Mirror
from gitops.source.paths import UnsafePath
from gitops.source.remotes import CredentialFiles, RemoteRefused
from gitops.source.status_branch import Author, StatusBranch
from gitops.source.status_folder import StatusFolder
from gitops.source.statuses import PushKind, PushOutcome, StatusStore

MakeMirror = Callable[..., Mirror]
STATUS = "gitops-status"


def status_of(mirror: Mirror, **options: Any) -> StatusBranch:
    """A StatusBranch that never sleeps."""
    given: dict[str, Any] = {"reconciler": ReconcilerName("fleet"), "sleep": lambda seconds: None} | options
    return StatusBranch(mirror, **given)


@pytest.fixture(params=["http", "path"])
def mirror(request: pytest.FixtureRequest, upstream: Repository, make_mirror: MakeMirror) -> Mirror:
    made = make_mirror(upstream.url if request.param == "http" else str(upstream.path))
    made.fetch()
    return made


def test_the_branch_begins_as_an_orphan_and_grows(mirror: Mirror, upstream: Repository) -> None:
    status = status_of(mirror, author=Author("GitOps Bot", "bot@example.com"), clock=lambda: 1_700_000_000.0)
    assert status.contents("status") == {}
    first = status.commit_and_push(
        {"status/README.md": b"# one\n", "status/units/a/x.yaml": b"x: 1\n"}, "Status of abc"
    )
    assert (first.kind, first.attempts, first.restarted) == (PushKind.PUSHED, 1, True)
    assert upstream.files(branch=STATUS) == ["status/README.md", "status/units/a/x.yaml"]
    assert upstream.log(branch=STATUS, form="%an <%ae> %cn %at %P") == [
        "GitOps Bot <bot@example.com> GitOps Bot 1700000000 "
    ]
    assert upstream.log(branch=STATUS, form="%(trailers:key=Gitops-Reconciler,valueonly)")[0] == "fleet"
    second = status.commit_and_push({"status/units/a/x.yaml": None, "status/units/b/y.yaml": b"y\n"}, "next")
    assert (second.kind, second.restarted) == (PushKind.PUSHED, False)
    assert upstream.files(branch=STATUS) == [*status.contents()] == ["status/README.md", "status/units/b/y.yaml"]
    assert status.contents("status/units") == {"status/units/b/y.yaml": b"y\n"}
    assert status.contents("status/README.md") == {}
    assert len(upstream.log(branch=STATUS)) == 2
    assert upstream.log(branch="main", form="%s") == ["first"], "the watched branch is not touched"


def test_g04_equal_status_makes_no_commit(mirror: Mirror, upstream: Repository) -> None:
    clock = iter(range(1_700_000_000, 1_800_000_000, 60))
    status = status_of(mirror, clock=lambda: float(next(clock)))
    status.commit_and_push({"status/a.yaml": b"a\n"}, "one")
    for _ in range(100):
        outcome = status.commit_and_push({"status/a.yaml": b"a\n", "status/gone.yaml": None}, "again")
        assert (outcome.kind, outcome.attempts) == (PushKind.UNCHANGED, 0)
    assert len(upstream.log(branch=STATUS)) == 1


def test_g03_own_commits_move_nothing(mirror: Mirror, upstream: Repository) -> None:
    status = status_of(mirror)
    for cycle in range(20):
        outcome = mirror.fetch()
        assert outcome.kind is FetchKind.UNCHANGED
        assert not outcome.status_moved
        status.commit_and_push({"status/a.yaml": b"steady\n"}, f"cycle {cycle}")
    assert len(upstream.log(branch=STATUS)) == 1
    theirs = upstream.commit({"status/a.yaml": "theirs\n"}, "Status", branch=STATUS)
    assert mirror.fetch().status_moved
    assert mirror.status_head == theirs


def test_g02_other_pushes_between_survive(mirror: Mirror, upstream: Repository) -> None:
    """Ten times a person pushes after our fetch: the server or libgit2 refuses ours, which is laid on theirs."""
    status = status_of(mirror)
    status.commit_and_push({"status/a.yaml": b"0\n"}, "begin")
    for turn in range(10):
        upstream.commit({f"notes/{turn}.md": f"mine {turn}\n"}, f"person {turn}", branch=STATUS)
        outcome = status.commit_and_push({"status/a.yaml": b"%d\n" % (turn + 1)}, f"status {turn}")
        assert (outcome.kind, outcome.attempts) == (PushKind.PUSHED, 2)
    assert upstream.files(branch=STATUS) == [*sorted(f"notes/{n}.md" for n in range(10)), "status/a.yaml"]
    assert upstream.read("status/a.yaml", branch=STATUS) == "10\n"
    titles = upstream.log(branch=STATUS, form="%s")
    assert titles == [t for n in reversed(range(10)) for t in (f"status {n}", f"person {n}")] + ["begin"]


def test_g02_a_race_that_only_the_server_sees(upstream: Repository, make_mirror: MakeMirror) -> None:
    """The ref moves while our push is on its way: a hook commits for somebody else before the update."""
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    status = status_of(mirror)
    status.commit_and_push({"status/a.yaml": b"0\n"}, "begin")
    upstream.git("update-ref", "refs/heads/theirs", STATUS)
    theirs = upstream.commit({"notes/n.md": "mine\n"}, "person", branch="theirs")
    upstream.hook(
        "pre-receive",
        "#!/bin/sh\n[ -e raced ] && exit 0\ntouch raced\nunset GIT_QUARANTINE_PATH\n"
        f"git update-ref refs/heads/{STATUS} {theirs}\n",
    )
    outcome = status.commit_and_push({"status/a.yaml": b"1\n"}, "status")
    assert (outcome.kind, outcome.attempts) == (PushKind.PUSHED, 2)
    assert upstream.files(branch=STATUS) == ["notes/n.md", "status/a.yaml"]
    assert upstream.log(branch=STATUS, form="%s") == ["status", "person", "begin"]


def test_g02_two_daemons_push_in_turn(upstream: Repository, make_mirror: MakeMirror) -> None:
    stores = []
    for name in ("one", "two"):
        mirror = make_mirror(upstream.url, name=name)
        mirror.fetch()
        stores.append(status_of(mirror, reconciler=ReconcilerName(name), rng=random.Random(name)))
    for turn in range(5):
        for number, status in enumerate(stores):
            outcome = status.commit_and_push({f"status/{number}.yaml": b"%d\n" % turn}, f"{number} {turn}")
            assert outcome.written, outcome.sentence
    assert upstream.files(branch=STATUS) == ["status/0.yaml", "status/1.yaml"]
    assert upstream.read("status/0.yaml", branch=STATUS) == upstream.read("status/1.yaml", branch=STATUS) == "4\n"
    assert len(upstream.log(branch=STATUS)) == 10


def test_g02_two_daemons_push_together(upstream: Repository, make_mirror: MakeMirror) -> None:
    """At the same time, from two threads: every commit of both arrives, in one line of history."""
    mirrors = [make_mirror(upstream.url, name=name) for name in ("one", "two")]
    for mirror in mirrors:
        mirror.fetch()
    start = threading.Barrier(2)

    def work(number: int) -> list[PushOutcome]:
        status = StatusBranch(mirrors[number], reconciler=ReconcilerName(f"d{number}"), attempts=50)
        start.wait(timeout=30)
        return [
            status.commit_and_push({f"status/{number}/{turn}.yaml": b"%d\n" % turn}, f"{number} {turn}")
            for turn in range(8)
        ]

    with ThreadPoolExecutor(2) as pool:
        outcomes = [outcome for found in pool.map(work, (0, 1)) for outcome in found]
    assert {outcome.kind for outcome in outcomes} == {PushKind.PUSHED}
    assert len(upstream.files(branch=STATUS)) == 16
    assert all(len(parents.split()) <= 1 for parents in upstream.log(branch=STATUS, form="%P"))
    assert len(upstream.log(branch=STATUS)) == 16


def test_g02_attempts_are_limited_and_pauses_random(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    pauses: list[float] = []
    count = iter(range(100))

    def sleep(seconds: float) -> None:
        pauses.append(seconds)

    status = status_of(mirror, sleep=sleep, rng=random.Random(7), attempts=4)
    fetch_status = mirror.fetch_status

    def fetch_then_somebody_pushes() -> Any:
        found = fetch_status()
        upstream.commit({"n": str(next(count))}, "person", branch=STATUS)
        return found

    mirror.fetch_status = fetch_then_somebody_pushes  # type: ignore[method-assign]
    upstream.commit({"n": "x"}, "person", branch=STATUS)
    outcome = status.commit_and_push({"status/a.yaml": b"1\n"}, "status")
    assert (outcome.kind, outcome.attempts, outcome.written) == (PushKind.RACED, 4, False)
    assert len(pauses) == 3
    assert len(set(pauses)) == 3
    assert all(0 <= pause <= 2 for pause in pauses)
    assert upstream.log(branch=STATUS, form="%s") == ["person"] * 4, "nothing of theirs was lost, nothing forced"


def test_g14_a_refusal_carries_the_words_and_is_not_retried(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    status = status_of(mirror)
    upstream.refuse_pushes("GH006: Protected branch update failed")
    git_http.requests.clear()
    outcome = status.commit_and_push({"status/a.yaml": b"1\n"}, "status")
    assert (outcome.kind, outcome.attempts, outcome.written) == (PushKind.REFUSED, 1, False)
    assert "GH006: Protected branch update failed" in outcome.sentence
    assert "pre-receive hook declined" in outcome.sentence
    assert sum("POST" in request for request in git_http.requests) == 1
    assert upstream.head(STATUS) is None
    assert mirror.status_head is None
    upstream.allow_pushes()
    assert status.commit_and_push({"status/a.yaml": b"1\n"}, "status").kind is PushKind.PUSHED


def test_g14_trouble_of_the_server_is_an_outcome(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    status = status_of(mirror)
    upstream.git("config", "http.receivepack", "false")
    denied = status.commit_and_push({"status/a.yaml": b"1\n"}, "status")
    assert (denied.kind, denied.error_class) == (PushKind.FAILED, SourceErrorClass.AUTH)
    upstream.git("config", "http.receivepack", "true")
    git_http.stop()
    away = status.commit_and_push({"status/a.yaml": b"1\n"}, "status")
    assert (away.kind, away.error_class) == (PushKind.FAILED, SourceErrorClass.UNREACHABLE)
    git_http.start()
    assert status.commit_and_push({"status/a.yaml": b"1\n"}, "status").kind is PushKind.PUSHED


def test_a_rewritten_status_branch_is_followed_not_forced(mirror: Mirror, upstream: Repository) -> None:
    status = status_of(mirror)
    status.commit_and_push({"status/a.yaml": b"1\n", "status/b.yaml": b"1\n"}, "one")
    theirs = upstream.rewrite({"status/a.yaml": "shortened\n"}, "history cut by a person", branch=STATUS)
    outcome = status.commit_and_push({"status/a.yaml": b"2\n"}, "two")
    assert outcome.kind is PushKind.PUSHED
    assert upstream.log(branch=STATUS, form="%s") == ["two", "history cut by a person"]
    assert upstream.git("rev-parse", f"{STATUS}^").strip() == theirs


def test_a_deleted_status_branch_begins_anew_and_says_so(mirror: Mirror, upstream: Repository) -> None:
    status = status_of(mirror)
    status.commit_and_push({"status/a.yaml": b"1\n", "status/b.yaml": b"1\n"}, "one")
    upstream.delete_branch(STATUS)
    outcome = status.commit_and_push({"status/a.yaml": b"2\n"}, "two")
    assert (outcome.kind, outcome.restarted) == (PushKind.PUSHED, True)
    assert upstream.log(branch=STATUS, form="%s") == ["two"]
    assert status.contents() == {"status/a.yaml": b"2\n"}


def test_only_changed_files_are_written(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({f"status/units/c{i}/u{j}.yaml": f"{i} {j}\n" for i in range(20) for j in range(50)}, branch=STATUS)
    upstream.commit({"tool.sh": "#!/bin/sh\r\n", ".gitattributes": "* text=auto\n"}, branch=STATUS)
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    before = mirror._store.count_loose()
    outcome = status_of(mirror).commit_and_push({"status/units/c3/u7.yaml": b"new\n"}, "one file")
    assert outcome.kind is PushKind.PUSHED
    assert mirror._store.count_loose() - before == 6, "a blob, four trees, a commit"
    assert upstream.git("diff", "--name-only", f"{STATUS}^", STATUS).split() == ["status/units/c3/u7.yaml"]


def test_files_and_folders_give_way_to_each_other(mirror: Mirror, upstream: Repository) -> None:
    status = status_of(mirror)
    status.commit_and_push({"status/a": b"file\n", "status/b/c": b"folder\n"}, "one")
    outcome = status.commit_and_push({"status/a/x": b"1\n", "status/b": b"2\n"}, "two")
    assert outcome.written
    assert upstream.files(branch=STATUS) == ["status/a/x", "status/b"]
    status.commit_and_push({"status/a/x": None, "status/b": None, "none": None}, "three")
    assert upstream.git("ls-tree", "-r", STATUS) == ""


def test_files_of_others_are_neither_listed_nor_harmed(mirror: Mirror, upstream: Repository) -> None:
    upstream.commit({".gitattributes": "x", ".github/ci.yaml": "x", "a b?.md": "x", "note.md": "x"}, branch=STATUS)
    upstream.commit({"large.bin": b"0" * 17_000_000}, branch=STATUS)
    mirror.fetch()
    status = status_of(mirror)
    assert status.contents() == {"note.md": b"x"}
    assert status.commit_and_push({"status/a.yaml": b"1\n"}, "one").written
    assert len(upstream.files(branch=STATUS)) == 6


def test_the_name_of_the_status_branch_may_come_later(
    git_http: GitServer, upstream: Repository, make_mirror: MakeMirror
) -> None:
    head = upstream.commit({"status/a.yaml": "1\n"}, branch="later")
    mirror = make_mirror(upstream.url, status_branch=None)
    mirror.fetch()
    assert mirror.status_head is None
    with pytest.raises(RemoteRefused):
        mirror.watch_status("main")
    git_http.stop()
    with pytest.raises(SourceError):
        mirror.watch_status("later")
    git_http.start()
    mirror.watch_status("later")
    assert mirror.status_head == head
    assert status_of(mirror).contents() == {"status/a.yaml": b"1\n"}


def test_a_damaged_mirror_is_an_outcome_and_heals(upstream: Repository, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    status = status_of(mirror)
    status.commit_and_push({"status/x/a.yaml": b"1\n"}, "one")
    folder = upstream.git("rev-parse", f"{STATUS}:status/x").strip()
    mirror.close()
    (Path(mirror.repo.path) / "objects" / folder[:2] / folder[2:]).unlink()
    restarted = make_mirror(upstream.url)
    status = status_of(restarted)
    outcome = status.commit_and_push({"status/x/b.yaml": b"2\n"}, "two")
    assert (outcome.kind, outcome.error_class) == (PushKind.FAILED, SourceErrorClass.CORRUPT)
    restarted.fetch()
    assert status.commit_and_push({"status/x/b.yaml": b"2\n"}, "two").kind is PushKind.PUSHED
    assert upstream.files(branch=STATUS) == ["status/x/a.yaml", "status/x/b.yaml"]


@pytest.mark.parametrize("lost", ["status/x", "status/x/a.yaml"])
def test_what_cannot_be_read_any_more_is_damage_and_heals(
    lost: str, upstream: Repository, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(upstream.url)
    mirror.fetch()
    status_of(mirror).commit_and_push({"status/x/a.yaml": b"1\n"}, "one")
    found = upstream.git("rev-parse", f"{STATUS}:{lost}").strip()
    mirror.close()
    (Path(mirror.repo.path) / "objects" / found[:2] / found[2:]).unlink()
    restarted = make_mirror(upstream.url)
    status = status_of(restarted)
    with pytest.raises(SourceError) as raised:
        status.contents("status")
    assert raised.value.error_class is SourceErrorClass.CORRUPT
    restarted.fetch()
    assert status.contents("status") == {"status/x/a.yaml": b"1\n"}


UNSAFE = [
    "../../.github/workflows/x",
    "status/../../x",
    ".git/config",
    "status/.git/hooks/x",
    "status/.GIT/x",
    "status/git~1/x",
    ".github/workflows/x.yaml",
    "/etc/passwd",
    "status//x",
    "status/",
    "",
    ".",
    "status/a\0b",
    "status/a\nb",
    "status/CON",
    "status/nul.yaml",
    "status/a\\b",
    "status/a:b",
    "status/-x",
    "status/x.",
    "status/x ",
    "status/.g\u200cit/x",
    "status/e\u0301.yaml",
    "status/\ud800",
    "status/" + "a" * 253,
    "a/" * 600 + "x",
]


@pytest.mark.parametrize("path", UNSAFE, ids=lambda path: ascii(path)[:30])
def test_x08_unsafe_paths_write_nothing(
    path: str, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = make_mirror(str(upstream.path))
    mirror.fetch()
    stores: list[StatusStore] = [status_of(mirror), StatusFolder(tmp_path / "out" / "status")]
    for store in stores:
        with pytest.raises(UnsafePath):
            store.commit_and_push({"status/good.yaml": b"x", path: b"x"}, "bad")
    assert upstream.head(STATUS) is None
    assert not (tmp_path / "out").exists()


def test_x08_usual_names_are_safe(mirror: Mirror) -> None:
    paths = ["status/units/dgx-a/function.llama-chat.h100-0.yaml", "status/functions/é.yaml", "drift/2026-11-30.md",
             "status/units/c/function." + "a" * 120 + ".yaml"]  # fmt: skip
    assert status_of(mirror).commit_and_push(dict.fromkeys(paths, b"x"), "names").written


def test_a_status_push_over_ssh(ssh_server: Any, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(ssh_server.known_hosts("ed25519"))
    files = CredentialFiles(private_key=ssh_server.key, known_hosts=tmp_path / "known_hosts")
    mirror = make_mirror(ssh_server.url(upstream.path), credentials=files)
    mirror.fetch()
    status = status_of(mirror)
    assert status.commit_and_push({"status/a.yaml": b"1\n"}, "one").kind is PushKind.PUSHED
    upstream.commit({"n": "1"}, "person", branch=STATUS)
    assert status.commit_and_push({"status/a.yaml": b"2\n"}, "two").attempts == 2
    upstream.refuse_pushes("not here")
    refused = status.commit_and_push({"status/a.yaml": b"3\n"}, "three")
    assert refused.kind is PushKind.REFUSED
    assert "not here" in refused.sentence


def test_a_working_copy_as_remote_says_why_it_takes_no_status(make_mirror: MakeMirror, tmp_path: Path) -> None:
    """libgit2 does not push into a repository with a work tree; people who point gitops at their clone are told."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    (work / "gitops.yaml").write_text("x\n")
    for command in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(work), *command], check=True)
    mirror = make_mirror(str(work))
    assert mirror.fetch().kind is FetchKind.FIRST
    outcome = status_of(mirror).commit_and_push({"status/a.yaml": b"1\n"}, "one")
    assert outcome.kind is PushKind.REFUSED
    assert "non-bare" in outcome.sentence


def test_status_folder_writes_only_what_differs(tmp_path: Path) -> None:
    store = StatusFolder(tmp_path / "status")
    assert store.contents() == {}
    assert store.commit_and_push({"a/b.yaml": b"1\n", "c.yaml": b"2\n"}, "m").kind is PushKind.PUSHED
    stamp = (tmp_path / "status/a/b.yaml").stat().st_ino
    assert store.commit_and_push({"a/b.yaml": b"1\n"}, "m").kind is PushKind.UNCHANGED
    assert (tmp_path / "status/a/b.yaml").stat().st_ino == stamp
    assert store.contents() == {"a/b.yaml": b"1\n", "c.yaml": b"2\n"}
    assert store.contents("a") == {"a/b.yaml": b"1\n"}
    assert store.commit_and_push({"a/b.yaml": None, "x/y": None}, "m").kind is PushKind.PUSHED
    assert store.contents() == {"c.yaml": b"2\n"}
    assert not (tmp_path / "status/a").exists()
    assert [p.name for p in (tmp_path / "status").iterdir()] == ["c.yaml"], "no temporary files stay"


def test_x08_status_folder_follows_no_link_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "status").mkdir()
    (tmp_path / "status/a").symlink_to(tmp_path / "outside")
    (tmp_path / "status/file").symlink_to(tmp_path / "outside/secret")
    (tmp_path / "outside/secret").write_text("secret")
    store = StatusFolder(tmp_path / "status")
    with pytest.raises(UnsafePath):
        store.commit_and_push({"a/x": b"1"}, "m")
    store.commit_and_push({"file": b"ours"}, "m")
    assert (tmp_path / "outside/secret").read_text() == "secret"
    assert list((tmp_path / "outside").iterdir()) == [tmp_path / "outside/secret"]
