"""The git server is a real one: clones, pushes, refusals, login and TLS, with the git program as the client."""

import subprocess
from pathlib import Path

import pytest
from controlplane_kit.gitserver import GitServer, clone


def test_commits_made_on_the_server_arrive_by_clone(git_http: GitServer, tmp_path: Path) -> None:
    repository = git_http.create()
    first = repository.commit({"a.yaml": "a: 1\n", "b/c.yaml": b"c: 2\n"}, "first", when=1_700_000_000)
    second = repository.commit({"a.yaml": None}, "second")
    work = clone(repository.url, tmp_path / "work")
    assert work.git("log", "--format=%H").split() == [second, first]
    assert repository.files() == ["b/c.yaml"]
    assert repository.read("b/c.yaml") == "c: 2\n"
    assert repository.log(form="%s") == ["second", "first"]
    assert any("git-upload-pack" in line for line in git_http.requests)


def test_a_push_arrives(git_http: GitServer, tmp_path: Path) -> None:
    repository = git_http.create()
    repository.commit({"a": "1"})
    work = clone(repository.url, tmp_path / "work")
    pushed = work.push({"big": "x" * 3_000_000})
    assert repository.head() == pushed


def test_a_hook_refuses_a_push_with_its_words(git_http: GitServer, tmp_path: Path) -> None:
    repository = git_http.create()
    before = repository.commit({"a": "1"})
    repository.refuse_pushes("main is protected")
    work = clone(repository.url, tmp_path / "work")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        work.push({"a": "2"})
    assert b"main is protected" in refused.value.stderr
    assert b"pre-receive hook declined" in refused.value.stderr
    assert repository.head() == before
    repository.allow_pushes()
    work.git("push", "--quiet", "origin", "HEAD")
    assert repository.head() != before


def test_revert_restores_the_tree_and_rewrite_drops_the_history(git_http: GitServer) -> None:
    repository = git_http.create()
    first = repository.commit({"a": "1"})
    second = repository.commit({"a": "2"}, "two")
    third = repository.revert(second)
    assert repository.git("rev-parse", f"{third}^{{tree}}") == repository.git("rev-parse", f"{first}^{{tree}}")
    assert f"This reverts commit {second}." in "\n".join(repository.log(form="%B"))
    fourth = repository.rewrite({"z": "9"})
    assert repository.log() == [fourth]


def test_login_and_tls(tmp_path: Path) -> None:
    with GitServer(tmp_path / "git", login=("bot", "secret"), tls=True) as server:
        repository = server.create()
        repository.commit({"a": "1"})
        trust = ("-c", f"http.sslCAInfo={server.authority}")
        with pytest.raises(subprocess.CalledProcessError):
            clone(repository.url, tmp_path / "refused", *trust)
        clone(repository.url.replace("://", "://bot:secret@"), tmp_path / "work", *trust)
    assert (tmp_path / "work" / "a").read_text() == "1"


def test_a_stopped_server_comes_back_on_its_port(git_http: GitServer, tmp_path: Path) -> None:
    repository = git_http.create()
    repository.commit({"a": "1"})
    git_http.stop()
    with pytest.raises(subprocess.CalledProcessError):
        clone(repository.url, tmp_path / "refused")
    git_http.start()
    clone(repository.url, tmp_path / "work")
