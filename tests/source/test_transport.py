"""Credentials, host keys, certificates and time limits, on real servers and on scripted bad ones."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.gitserver import GitServer, Repository

from gitops.logs import REDACTOR
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.mirror import FetchKind, Mirror
from gitops.source.remotes import CredentialFiles
from gitops.source.transport import Timeouts

MakeMirror = Callable[..., Mirror]
PASSWORD = "pa55-w0rd/@:é"


@pytest.fixture
def login(tmp_path: Path) -> CredentialFiles:
    (tmp_path / "username").write_text("bot\n")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    return CredentialFiles(username=tmp_path / "username", password=tmp_path / "password")


def failure(mirror: Mirror) -> SourceError:
    """What a fetch raises; every text of it is free of the password."""
    with pytest.raises(SourceError) as raised:
        mirror.fetch()
    shown: BaseException | None = raised.value
    while shown is not None:
        assert PASSWORD not in str(shown)
        assert "s3cr3t" not in str(shown)
        shown = shown.__cause__
    return raised.value


def test_g10_always_401_is_tried_once(
    scripted: Callable[..., Any], make_mirror: MakeMirror, login: CredentialFiles
) -> None:
    server = scripted(lambda path: (401, {"WWW-Authenticate": 'Basic realm="x"'}))
    mirror = make_mirror(f"{server.url}/x.git", credentials=login)
    for cycle in (1, 2):
        error = failure(mirror)
        assert error.error_class is SourceErrorClass.AUTH
        assert "refused the configured credential" in error.sentence
        with_login = [header for _, header in server.requests if header]
        assert len(with_login) == cycle, "one attempt per credential and cycle"


def test_g10_without_credentials_the_message_says_so(scripted: Callable[..., Any], make_mirror: MakeMirror) -> None:
    server = scripted(lambda path: (401, {"WWW-Authenticate": 'Basic realm="x"'}))
    error = failure(make_mirror(f"{server.url}/x.git"))
    assert error.error_class is SourceErrorClass.AUTH
    assert "none are configured" in error.sentence
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (403, SourceErrorClass.AUTH),
        (404, SourceErrorClass.NOT_FOUND),
        (429, SourceErrorClass.UNREACHABLE),
        (500, SourceErrorClass.PROTOCOL),
        (503, SourceErrorClass.UNREACHABLE),
        (200, SourceErrorClass.PROTOCOL),
    ],
)
def test_g10_answers_are_classified(
    status: int, error_class: SourceErrorClass, scripted: Callable[..., Any], make_mirror: MakeMirror
) -> None:
    server = scripted(lambda path: (status, {}))
    url = server.url.replace("http://", "http://bot:s3cr3t@")
    assert failure(make_mirror(f"{url}/x.git")).error_class is error_class
    assert len(server.requests) == 1


def test_g10_a_redirect_to_another_host_gets_no_credentials(
    scripted: Callable[..., Any], make_mirror: MakeMirror, login: CredentialFiles
) -> None:
    other = scripted(lambda path: (401, {"WWW-Authenticate": 'Basic realm="x"'}))
    elsewhere = f"http://localhost:{other.port}"
    server = scripted(lambda path: (302, {"Location": elsewhere + path}))
    error = failure(make_mirror(f"{server.url}/x.git", credentials=login))
    assert error.error_class is SourceErrorClass.AUTH
    assert "localhost" in error.sentence
    assert other.requests
    assert all(header is None for _, header in other.requests)


def test_g10_a_redirect_on_the_same_host_is_followed(
    scripted: Callable[..., Any], make_mirror: MakeMirror, tmp_path: Path, login: CredentialFiles
) -> None:
    with GitServer(tmp_path / "private", login=("bot", PASSWORD)) as git:
        upstream = git.create()
        upstream.commit({"gitops.yaml": "x\n"})
        door = scripted(lambda path: (302, {"Location": git.url + path.replace("/old.git", "/fleet.git")}))
        mirror = make_mirror(f"{door.url}/old.git", credentials=login)
        assert mirror.fetch().head == upstream.head()


def test_log_in_by_files_and_rotation(tmp_path: Path, make_mirror: MakeMirror, login: CredentialFiles) -> None:
    with GitServer(tmp_path / "private", login=("bot", PASSWORD)) as git:
        upstream = git.create()
        upstream.commit({"gitops.yaml": "x\n"})
        mirror = make_mirror(upstream.url, credentials=login)
        head = mirror.fetch().head
        git.login = ("bot", "rotated")
        assert failure(mirror).error_class is SourceErrorClass.AUTH
        assert mirror.head == head
        assert login.password is not None
        login.password.write_text("rotated")
        assert mirror.fetch().kind is FetchKind.UNCHANGED
        assert REDACTOR(f"{PASSWORD} and what came after it, rotated") == "*** and what came after it, ***"


def test_log_in_by_token_and_by_url(tmp_path: Path, make_mirror: MakeMirror) -> None:
    (tmp_path / "token").write_text("t0ken")
    with GitServer(tmp_path / "private", login=("git", "t0ken")) as git:
        upstream = git.create()
        upstream.commit({"gitops.yaml": "x\n"})
        by_file = make_mirror(upstream.url, credentials=CredentialFiles(token=tmp_path / "token"))
        assert by_file.fetch().kind is FetchKind.FIRST
        by_url = make_mirror(upstream.url.replace("://", "://git:t0ken@"), name="second")
        assert by_url.fetch().kind is FetchKind.FIRST
        assert "t0ken" not in by_url.fetch().sentence
        for file in (tmp_path / "second").rglob("*"):
            assert not file.is_file() or b"t0ken" not in file.read_bytes(), f"{file} holds the token"


def test_a_missing_credential_file_is_named(
    make_mirror: MakeMirror, tmp_path: Path, scripted: Callable[..., Any]
) -> None:
    server = scripted(lambda path: (401, {"WWW-Authenticate": 'Basic realm="x"'}))
    files = CredentialFiles(token=tmp_path / "missing-token")
    error = failure(make_mirror(f"{server.url}/x.git", credentials=files))
    assert error.error_class is SourceErrorClass.CONFIGURATION
    assert "missing-token" in error.sentence


def test_a_private_certificate_needs_its_authority(tmp_path: Path, make_mirror: MakeMirror) -> None:
    with GitServer(tmp_path / "tls", tls=True) as git:
        upstream = git.create()
        upstream.commit({"gitops.yaml": "x\n"})
        error = failure(make_mirror(upstream.url))
        assert error.error_class is SourceErrorClass.CERTIFICATE
        trusted = make_mirror(upstream.url, name="trusted", credentials=CredentialFiles(ca=git.authority))
        assert trusted.fetch().head == upstream.head()


def test_unreachable_and_silent_servers(make_mirror: MakeMirror, unused_tcp_port: int) -> None:
    closed = make_mirror(f"http://127.0.0.1:{unused_tcp_port}/x.git", name="closed")
    assert failure(closed).error_class is SourceErrorClass.UNREACHABLE
    unknown = make_mirror("https://nowhere.invalid/x.git", name="unknown")
    assert failure(unknown).error_class is SourceErrorClass.UNREACHABLE
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        mirror = make_mirror(url, name="silent", timeouts=Timeouts(connect=1, silence=0.3))
        assert failure(mirror).error_class is SourceErrorClass.TIMEOUT


def test_local_repositories_that_are_not_there(make_mirror: MakeMirror, tmp_path: Path) -> None:
    for name, url in (("a", "/nowhere/x.git"), ("b", "file:///nowhere/x.git"), ("c", str(tmp_path))):
        assert failure(make_mirror(url, name=name)).error_class is SourceErrorClass.NOT_FOUND


def ssh_files(tmp_path: Path, key: Path, known_hosts: str) -> CredentialFiles:
    (tmp_path / "known_hosts").write_text(known_hosts)
    return CredentialFiles(private_key=key, known_hosts=tmp_path / "known_hosts")


def test_ssh_fetch_and_g11_any_listed_key(
    ssh_server: Any, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    files = ssh_files(tmp_path, ssh_server.key, ssh_server.known_hosts("ed25519"))
    mirror = make_mirror(ssh_server.url(upstream.path), credentials=files)
    assert mirror.fetch().head == upstream.head()
    for listed in (("rsa", "ed25519"), ("ed25519", "rsa")):
        ssh_files(tmp_path, ssh_server.key, ssh_server.known_hosts(*listed))
        assert mirror.fetch().kind is FetchKind.UNCHANGED


@pytest.mark.parametrize("listed", ["wrong", "unknown", "empty"])
def test_g11_a_wrong_or_unknown_host_key_is_refused(
    listed: str, ssh_server: Any, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    known = {
        "wrong": ssh_server.known_hosts("other"),
        "unknown": ssh_server.known_hosts("ed25519").replace("127.0.0.1", "10.0.0.1"),
        "empty": "",
    }[listed]
    files = ssh_files(tmp_path, ssh_server.key, known)
    mirror = make_mirror(ssh_server.url(upstream.path), credentials=files)
    expected = SourceErrorClass.CONFIGURATION if listed == "empty" else SourceErrorClass.HOST_KEY
    error = failure(mirror)
    assert error.error_class is expected
    assert "known_hosts" in error.sentence
    assert mirror.head is None


def test_ssh_known_hosts_of_one_mirror_do_not_serve_another(
    ssh_server: Any, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    good = make_mirror(
        ssh_server.url(upstream.path),
        credentials=ssh_files(tmp_path, ssh_server.key, ssh_server.known_hosts("ed25519")),
    )
    (tmp_path / "b").mkdir()
    bad = make_mirror(
        ssh_server.url(upstream.path),
        name="bad",
        credentials=ssh_files(tmp_path / "b", ssh_server.key, ssh_server.known_hosts("other")),
    )
    assert good.fetch().kind is FetchKind.FIRST
    assert failure(bad).error_class is SourceErrorClass.HOST_KEY
    assert good.fetch().kind is FetchKind.UNCHANGED


def test_ssh_with_a_key_that_is_not_let_in(
    ssh_server: Any, upstream: Repository, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    files = ssh_files(tmp_path, ssh_server.key.with_name("other"), ssh_server.known_hosts("ed25519"))
    error = failure(make_mirror(ssh_server.url(upstream.path), credentials=files))
    assert error.error_class is SourceErrorClass.AUTH
    assert "PRIVATE KEY" not in error.sentence


def test_ssh_repository_that_is_not_there(ssh_server: Any, make_mirror: MakeMirror, tmp_path: Path) -> None:
    files = ssh_files(tmp_path, ssh_server.key, ssh_server.known_hosts("ed25519"))
    error = failure(make_mirror(ssh_server.url(Path("/nowhere/x.git")), credentials=files))
    assert error.error_class is SourceErrorClass.NOT_FOUND
