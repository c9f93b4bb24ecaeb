"""Peers for the source tests: real git servers over http and ssh, and scripted ones that misbehave."""

import contextlib
import getpass
import http.server
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from controlplane_kit.gitserver import GitServer, Repository

from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.transport import Timeouts


@pytest.fixture
def git_http(tmp_path: Path) -> Iterator[GitServer]:
    """git http-backend without log-in."""
    with GitServer(tmp_path / "served") as server:
        yield server


@pytest.fixture
def upstream(git_http: GitServer) -> Repository:
    """A repository with one commit on `main`, served over http."""
    repository = git_http.create()
    repository.commit({"gitops.yaml": "kind: Repository\n", "functions/a/function.yaml": "a: 1\n"}, "first")
    return repository


@pytest.fixture
def make_mirror(tmp_path: Path) -> Iterator[Callable[..., Mirror]]:
    """Mirrors that are closed at the end: `make_mirror(url, name=…, branch=…, credentials=…, status_branch=…)`."""
    with contextlib.ExitStack() as stack:

        def make(
            url: str,
            *,
            name: str = "mirror",
            branch: str = "main",
            credentials: CredentialFiles | None = None,
            status_branch: str | None = "gitops-status",
            timeouts: Timeouts | None = None,
        ) -> Mirror:
            remote = Remote(url, branch, credentials or CredentialFiles())
            mirror = Mirror(tmp_path / name, remote, status_branch=status_branch, timeouts=timeouts)
            stack.callback(mirror.close)
            return mirror

        yield make


@dataclass
class Scripted:
    """An http server that answers every request with what `answer` (path → status, headers) says, and remembers."""

    answer: Callable[[str], tuple[int, dict[str, str]]]
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, Authorization header)."""
    url: str = ""
    port: int = 0


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    """`scripted(lambda path: (404, {}))` starts a server on a loopback port."""
    with contextlib.ExitStack() as stack:

        def start(answer: Callable[[str], tuple[int, dict[str, str]]]) -> Scripted:
            script = Scripted(answer)

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    script.requests.append((self.path, self.headers.get("Authorization")))
                    status, headers = script.answer(self.path)
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

                def log_message(self, format: str, *args: object) -> None:
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(server.server_close)
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            script.port = server.server_port
            script.url = f"http://127.0.0.1:{server.server_port}"
            return script

        yield start


@dataclass(frozen=True)
class SshServer:
    port: int
    user: str
    key: Path
    host_keys: dict[str, str]
    """Type → public key line without comment."""

    def url(self, path: Path) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"

    def known_hosts(self, *kinds: str) -> str:
        return "".join(f"[127.0.0.1]:{self.port} {self.host_keys[kind]}\n" for kind in kinds)


@pytest.fixture
def ssh_server(tmp_path: Path, unused_tcp_port: int) -> Iterator[SshServer]:
    """sshd on a loopback port that lets the key `client` in; needs openssh-server."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None:
        pytest.skip("sshd is not installed (apt-get install openssh-server): ssh transport is NOT tested")
    folder = tmp_path / "sshd"
    folder.mkdir()
    with contextlib.suppress(OSError):
        Path("/run/sshd").mkdir(exist_ok=True)  # privilege separation, when root
    for name, kind in (("host_ed25519", "ed25519"), ("host_rsa", "rsa"), ("client", "ed25519"), ("other", "ed25519")):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(folder / name)], check=True, timeout=60
        )
    (folder / "authorized_keys").write_bytes((folder / "client.pub").read_bytes())
    (folder / "config").write_text(
        f"Port {unused_tcp_port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_ed25519\nHostKey {folder}/host_rsa\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        f"PermitRootLogin yes\nPidFile none\n"
    )
    server = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        if "Server listening" in line:
            break
    else:
        pytest.fail(f"sshd did not start: {said}")
    drain = threading.Thread(target=server.stderr.read)
    drain.start()
    keys = {kind: " ".join((folder / f"host_{kind}.pub").read_text().split()[:2]) for kind in ("ed25519", "rsa")} | {
        "other": " ".join((folder / "other.pub").read_text().split()[:2])
    }
    try:
        yield SshServer(unused_tcp_port, getpass.getuser(), folder / "client", keys)
    finally:
        server.terminate()
        server.wait(timeout=10)
        drain.join(timeout=10)
        server.stderr.close()
