"""Which URLs and branches are let through, and that nothing shows a secret."""

import socket
from pathlib import Path

import pytest

from gitops.source.errors import scrub
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote, RemoteRefused, display_url, read_credential

KNOWN = CredentialFiles(known_hosts=Path("/nowhere/known_hosts"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://bot:s3cr3t@git.example/x.git?sshkey=abc", "https://git.example/x.git"),
        ("https://s3cr3t@git.example/x.git#s3cr3t", "https://git.example/x.git"),
        ("https://a:s3c@r3t@git.example:8443/x.git", "https://git.example:8443/x.git"),
        ("ssh://git:s3cr3t@git.example:22/x.git", "ssh://git@git.example:22/x.git"),
        ("git@git.example:team/x.git", "git@git.example:team/x.git"),
        ("/srv/git/x.git", "/srv/git/x.git"),
        ("https://bot:s3cr3t@[bad/x", "https://(unreadable)"),
    ],
)
def test_x02_display_url_shows_no_secret(url: str, shown: str) -> None:
    assert display_url(url) == shown


def test_x02_remote_with_userinfo_hides_it_everywhere() -> None:
    remote = Remote("https://bot:s3cr3t%2Fx@git.example/x.git", "main")
    assert remote.transport_url == remote.display == "https://git.example/x.git"
    assert remote.user == "bot"
    for text in (repr(remote), str(remote), f"{remote.inline_password}"):
        assert "s3cr3t" not in text
    words = "failed for https://bot:s3cr3t%2Fx@git.example/x.git with s3cr3t/x and https://o:ther@h/p?token=abc"
    cleaned = scrub(words, remote.secrets)
    assert "s3cr3t" not in cleaned
    assert "ther@" not in cleaned
    assert scrub("cannot reach https://a:s3c@r3t@git.example/x.git") == "cannot reach https://git.example/x.git"
    assert "abc" not in cleaned


def test_x02_refusal_of_a_query_does_not_repeat_it() -> None:
    with pytest.raises(RemoteRefused) as refused:
        Remote("https://bot:s3cr3t@git.example/x.git?sshkey=abc")
    assert "https://git.example/x.git" in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c x",
        "ext::sh",
        "--upload-pack=x",
        "-x",
        "",
        " https://git.example/x",
        "relative/x.git",
        "../x.git",
        "git://git.example/x.git",
        "ftp://git.example/x.git",
        "fd::17",
        "ssh://-oProxyCommand=x/y",
        "ssh://-x@git.example/y",
        "ssh://git.example/-x",
        "git@-host:x",
        "-git@host:x",
        "git@host:-x",
        "file://other.host/srv/x",
        "file://relative",
        "https://git.example",
        "https://git.example/x\n.git",
        "http://git.example/x.git",
        "ssh://git:pw@git.example/x",
        "https://" + "a" * 3000,
    ],
)
def test_x06_urls_that_are_refused(url: str) -> None:
    with pytest.raises(RemoteRefused):
        Remote(url, "main", KNOWN)


@pytest.mark.parametrize(
    ("url", "scheme", "host"),
    [
        ("https://git.example:8443/team/x.git", "https", "git.example"),
        ("http://127.0.0.1:3000/x.git", "http", "127.0.0.1"),
        ("http://[::1]:3000/x.git", "http", "::1"),
        ("http://localhost/x.git", "http", "localhost"),
        ("ssh://git@git.example:2222/x.git", "ssh", "git.example"),
        ("git@git.example:team/x.git", "ssh", "git.example"),
        ("file:///srv/with space/x.git".replace(" ", "%20"), "file", ""),
        ("/srv/with space/x.git", "file", ""),
    ],
)
def test_x06_urls_that_are_allowed(url: str, scheme: str, host: str) -> None:
    remote = Remote(url, "main", KNOWN)
    assert (remote.scheme, remote.host) == (scheme, host)


def test_http_elsewhere_needs_permission() -> None:
    assert Remote("http://git.example/x.git", "main", allow_http=True).scheme == "http"


@pytest.mark.parametrize(
    "branch", ["--output=x", "-x", "", "a..b", "a b", "+main", "a:b", "refs/heads/x", "a*", "x.lock"]
)
def test_x06_branch_names_that_are_refused(branch: str) -> None:
    with pytest.raises(RemoteRefused):
        Remote("/srv/x.git", branch)


def test_x06_nothing_is_executed_or_contacted(tmp_path: Path) -> None:
    """A refused URL never reaches libgit2: the listener gets no connection and the command leaves no trace."""
    trace = tmp_path / "executed"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        for url in (
            f"ext::sh -c 'touch {trace}'",
            f"git://127.0.0.1:{port}/x",
            f"ssh://-oProxyCommand=touch@127.0.0.1:{port}/x",
        ):
            with pytest.raises(RemoteRefused):
                Remote(url, "main", KNOWN)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not trace.exists()


def test_ssh_without_known_hosts_is_refused() -> None:
    with pytest.raises(RemoteRefused, match="known_hosts"):
        Remote("git@git.example:team/x.git")


def test_status_branch_must_be_another(tmp_path: Path) -> None:
    with pytest.raises(RemoteRefused, match="must not be the watched branch"):
        Mirror(tmp_path / "m", Remote("/srv/x.git", "main"), status_branch="main")


def test_credentials_folder_uses_the_names_of_secret_types(tmp_path: Path) -> None:
    for name in ("username", "password", "ssh-privatekey", "known_hosts", "ca.crt"):
        (tmp_path / name).write_text("x\n")
    files = CredentialFiles.from_folder(tmp_path)
    assert files.username == tmp_path / "username"
    assert files.private_key == tmp_path / "ssh-privatekey"
    assert files.token is None
    secret = read_credential(files.password)
    assert secret is not None
    assert secret.value == "x"
    assert "x" not in repr(secret)
    with pytest.raises(RemoteRefused):
        CredentialFiles.from_folder(tmp_path / "missing")
    with pytest.raises(RemoteRefused, match="cannot read"):
        read_credential(tmp_path / "missing")
