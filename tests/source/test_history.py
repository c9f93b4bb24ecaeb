"""Commits between two heads and the trailers in them."""

from collections.abc import Callable

from controlplane_kit.gitserver import Repository

from gitops.model.identity import Commit
from gitops.plan.pruning import ALLOW_PRUNE_TRAILER
from gitops.source.history import trailer_values
from gitops.source.mirror import Mirror
from gitops.source.sources import GitSource
from gitops.source.status_branch import Author

MakeMirror = Callable[..., Mirror]

SQUASHED = """Remove two functions (#12)

* Remove chat

Gitops-Allow-Prune: function/chat/*

* Remove embed

It is not used.

gitops-allow-prune: function/embed/*, function/rerank/*
"""


def test_trailers_are_found_in_squash_bodies() -> None:
    assert trailer_values(SQUASHED, ALLOW_PRUNE_TRAILER) == ("function/chat/*", "function/embed/*", "function/rerank/*")


def test_what_is_no_trailer() -> None:
    for body in (
        "> Gitops-Allow-Prune: *",
        "    Gitops-Allow-Prune: *",
        "see Gitops-Allow-Prune: *",
        "Gitops-Allow-Prune:",
        "Gitops-Allow-Prunes: *",
        "Gitops-Allow-Prune : *",
    ):
        assert trailer_values(f"title\n\n{body}\n", ALLOW_PRUNE_TRAILER) == (), body
    assert trailer_values("Gitops-Allow-Prune: *", ALLOW_PRUNE_TRAILER) == (), "the title is not a trailer"


def test_all_commits_since_the_last_applied_count(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({"old": "1"}, "before\n\nGitops-Allow-Prune: function/ancient/*")
    mirror = make_mirror(upstream.url)
    applied = mirror.fetch().head
    assert applied is not None
    upstream.commit({"a": "1"}, "one\n\nGitops-Allow-Prune: function/one/*")
    upstream.git("update-ref", "refs/heads/side", "main")
    upstream.commit({"s": "1"}, "side\n\nGitops-Allow-Prune: function/side/*", branch="side")
    upstream.commit({"b": "1"}, "two")
    tree = upstream.git("merge-tree", "--write-tree", "main", "side").split()[0]
    merge = upstream.git(
        "commit-tree", tree, "-p", "main", "-p", "side", "-m", "merge\n\nGitops-Allow-Prune: function/merge/*"
    ).strip()
    upstream.git("update-ref", "refs/heads/main", merge)
    head = mirror.fetch().head
    assert head == merge
    history = mirror.commits_between(applied, head)
    assert history.complete
    assert history.commits[0].id == merge
    assert {commit.title for commit in history.commits} == {"one", "two", "side", "merge"}
    assert set(history.allowed_prunes()) == {"function/one/*", "function/side/*", "function/merge/*"}
    assert mirror.commits_between(head, head).commits == ()
    cut = mirror.commits_between(applied, head, limit=2)
    assert (len(cut.commits), cut.complete) == (2, False)


async def test_of_several_starts_the_newest_counts(upstream: Repository, make_mirror: MakeMirror) -> None:
    """Parents name the commits that last changed their units: what was allowed before the newest is used up."""
    starts = [upstream.commit({"a": "1"}, "one")]
    upstream.commit({"a": "2"}, "two\n\nGitops-Allow-Prune: function/old/*")
    starts.append(upstream.commit({"a": "3"}, "three"))
    head = upstream.commit({"a": "4"}, "four\n\nGitops-Allow-Prune: function/new/*")
    source = GitSource(lambda: make_mirror(upstream.url), author=Author())
    await source.open()
    await source.look()
    for order in (starts, starts[::-1], [*starts, "0" * 40]):
        history = await source.history([Commit(c) for c in order], Commit(head))
        assert history.allowed_prunes() == ("function/new/*",)
    await source.close()


def test_without_a_known_start_only_the_head_counts(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({"a": "1"}, "old\n\nGitops-Allow-Prune: *")
    upstream.commit({"a": "2"}, "new")
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    assert head is not None
    for start in (None, "0" * 40):
        history = mirror.commits_between(start, head)  # type: ignore[arg-type]
        assert [commit.title for commit in history.commits] == ["new"]
        assert not history.complete
        assert history.allowed_prunes() == ()


def test_a_rewritten_branch_counts_from_the_common_commit(upstream: Repository, make_mirror: MakeMirror) -> None:
    base = upstream.head()
    upstream.commit({"a": "1"}, "dropped")
    mirror = make_mirror(upstream.url)
    applied = mirror.fetch().head
    assert applied is not None
    upstream.git("update-ref", "refs/heads/main", base or "")
    upstream.commit({"b": "1"}, "instead\n\nGitops-Allow-Prune: function/x/*")
    head = mirror.fetch().head
    assert head is not None
    history = mirror.commits_between(applied, head)
    assert [commit.title for commit in history.commits] == ["instead"]
    assert history.complete


def test_author_and_time(upstream: Repository, make_mirror: MakeMirror) -> None:
    upstream.commit({"a": "1"}, "by someone", author="Zoë Ä <zoe@example.com>", when=1_700_000_000)
    mirror = make_mirror(upstream.url)
    head = mirror.fetch().head
    assert head is not None
    (info,) = mirror.commits_between(None, head).commits
    assert (info.author, info.author_email, info.title) == ("Zoë Ä", "zoe@example.com", "by someone")
    assert info.time.isoformat() == "2023-11-14T22:13:20+00:00"
