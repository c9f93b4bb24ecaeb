"""A real git server: git's own http-backend behind a small CGI bridge, on a loopback port.

Nothing of git's protocol is imitated, so refused hooks, push races and authentication behave as on a forge.
Repositories are bare; `Repository.commit` writes through `git fast-import`, one process per commit and no work tree.
"""

import asyncio
import base64
import hmac
import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from types import TracebackType
from typing import Self

import trustme
from aiohttp import web

from controlplane_kit.loopthread import LoopThread

_IDENTITY = "Test Author <author@example.com>"


@dataclass(frozen=True, slots=True)
class Repository:
    """One bare repository: `path` on disk, `url` for clients."""

    path: Path
    url: str

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        """Run git in it and give its standard output; raises CalledProcessError with git's words."""
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments], input=stdin, capture_output=True, check=False, env=_environment()
        )
        if done.returncode:
            error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
            error.add_note(done.stderr.decode(errors="replace"))
            raise error
        return done.stdout.decode()

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        message: str = "change",
        *,
        branch: str = "main",
        author: str = _IDENTITY,
        when: int | None = None,
    ) -> str:
        """Commit on top of `branch` (made when missing): a value is a file's content, None removes it. Gives the id.

        `when` is seconds since 1970, by default now. Goes around hooks and HTTP: it is the upstream's doing, not a
        push.
        """
        parent = self.head(branch)
        return self._import(files, message, branch=branch, author=author, when=when, parent=parent)

    def rewrite(
        self, files: Mapping[str, str | bytes | None], message: str = "rewritten", *, branch: str = "main"
    ) -> str:
        """A force-push: `branch` becomes one new commit with exactly `files` and no history."""
        return self._import(files, message, branch=branch, author=_IDENTITY, when=None, parent=None)

    def revert(self, commit: str, *, branch: str = "main") -> str:
        """Commit on `branch` what `git revert` of its newest commit gives: the parent's tree and git's own message."""
        if self.head(branch) != commit:
            raise ValueError(f"{commit} is not the head of {branch}")
        subject = self.git("log", "-1", "--format=%s", commit).strip()
        message = f'Revert "{subject}"\n\nThis reverts commit {commit}.\n'
        tree = self.git("rev-parse", f"{commit}^^{{tree}}").strip()
        new = self.git("commit-tree", tree, "-p", commit, "-m", message).strip()
        self.git("update-ref", f"refs/heads/{branch}", new, commit)
        return new

    def head(self, branch: str = "main") -> str | None:
        """The branch's commit id, or None when there is no such branch."""
        name = f"refs/heads/{branch}"
        return self.git("for-each-ref", "--format=%(objectname)", name).strip() or None

    def read(self, path: str, *, branch: str = "main") -> str | None:
        """A file's text at the branch's head, or None."""
        try:
            return self.git("show", f"refs/heads/{branch}:{path}")
        except subprocess.CalledProcessError:
            return None

    def files(self, *, branch: str = "main") -> list[str]:
        """Paths of all files at the branch's head."""
        return self.git("ls-tree", "-r", "--name-only", f"refs/heads/{branch}").splitlines()

    def log(self, *, branch: str = "main", form: str = "%H") -> list[str]:
        """One line per commit, newest first, in git's pretty format `form`; empty without the branch."""
        return (
            self.git("log", f"--format={form}", f"refs/heads/{branch}", "--").splitlines() if self.head(branch) else []
        )

    def delete_branch(self, branch: str) -> None:
        """Remove the branch, as someone would on the forge."""
        self.git("update-ref", "-d", f"refs/heads/{branch}")

    def refuse_pushes(self, words: str = "branch is protected") -> None:
        """From now on a pre-receive hook refuses every push, saying `words`."""
        self.hook("pre-receive", f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")

    def allow_pushes(self) -> None:
        """Remove the refusing hook."""
        (self.path / "hooks" / "pre-receive").unlink(missing_ok=True)

    def hook(self, name: str, script: str) -> None:
        """Install a hook."""
        file = self.path / "hooks" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(script)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def _import(
        self,
        files: Mapping[str, str | bytes | None],
        message: str,
        *,
        branch: str,
        author: str,
        when: int | None,
        parent: str | None,
    ) -> str:
        date = "now" if when is None else f"{when} +0000"
        stream = [f"commit refs/heads/{branch}\ncommitter {author} {date}\n".encode(), _data(message)]
        if parent:
            stream.append(f"from {parent}\n".encode())
        for path, content in files.items():
            if content is None:
                stream.append(f"D {path}\n".encode())
            else:
                stream += [f"M 100644 inline {path}\n".encode(), _data(content)]
        form = "now" if when is None else "raw"
        self.git("fast-import", "--quiet", "--force", f"--date-format={form}", stdin=b"".join(stream))
        head = self.head(branch)
        assert head is not None
        return head


class GitServer:
    """Serves the bare repositories in `folder` over HTTP, or HTTPS with `tls`; a context manager.

    `login` (user, password) demands basic authentication for everything. `requests` lists "METHOD path" of what came
    in.
    """

    def __init__(self, folder: Path, *, login: tuple[str, str] | None = None, tls: bool = False) -> None:
        self.folder = folder
        self.login = login
        self.requests: list[str] = []
        self.authority: Path | None = None
        """With `tls`: the certificate that a client must trust."""
        self._tls = self._make_tls() if tls else None
        self._port = 0
        self._thread: LoopThread | None = None
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Without a trailing slash."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def create(self, name: str = "fleet", *, branch: str = "main") -> Repository:
        """An empty bare repository whose HEAD names `branch`."""
        path = self.folder / f"{name}.git"
        path.mkdir(parents=True)
        repository = Repository(path, f"{self.url}/{name}.git")
        repository.git("init", "--quiet", "--bare", f"--initial-branch={branch}", ".")
        repository.git("config", "http.receivepack", "true")
        return repository

    def start(self) -> None:
        """Listen; after a `stop`, on the same port as before."""
        self._thread = LoopThread("git-server")
        self._thread.run(self._listen())

    def stop(self) -> None:
        """Refuse connections from now on. Safe to call twice."""
        if self._thread is not None and self._runner is not None:
            self._thread.run(self._runner.cleanup())
            self._thread.close()
            self._thread = self._runner = None

    async def _listen(self) -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        if self.login and not _logged_in(request, self.login):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        body = await request.read()  # decompressed by aiohttp
        environment = _environment() | {
            "GIT_PROJECT_ROOT": str(self.folder.resolve()),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_USER": self.login[0] if self.login else "",
        }
        backend = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        answer, _ = await backend.communicate(body)
        return _cgi_response(answer)

    def _make_tls(self) -> SSLContext:
        authority = trustme.CA()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority = self.folder / "git-ca.crt"
        authority.cert_pem.write_to_path(str(self.authority))
        context = SSLContext(PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        return context


def clone(url: str, into: Path, *options: str) -> "WorkTree":
    """Clone with the git program, for tests that act as a person would."""
    subprocess.run(["git", "clone", "--quiet", *options, url, str(into)], check=True, env=_environment())
    return WorkTree(into)


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A person's clone."""

    path: Path

    def git(self, *arguments: str) -> str:
        """Run git in it; raises CalledProcessError with git's words as a note."""
        return Repository(self.path, "").git(*arguments)

    def push(self, files: Mapping[str, str], message: str = "change", options: Sequence[str] = ()) -> str:
        """Write `files`, commit and push; gives the commit id."""
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)
        self.git("push", "--quiet", *options, "origin", "HEAD")
        return self.git("rev-parse", "HEAD").strip()


def _environment() -> dict[str, str]:
    """Nothing of the user's git configuration, and an identity for commits."""
    name, _, address = _IDENTITY.removesuffix(">").partition(" <")
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return own | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
    }


def _data(content: str | bytes) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return b"data %d\n" % len(raw) + raw + b"\n"


def _logged_in(request: web.Request, login: tuple[str, str]) -> bool:
    expected = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    return hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected.encode())


def _cgi_response(answer: bytes) -> web.Response:
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n") if b": " in line)
    status = int(headers.pop("Status", "200 OK").split()[0])
    return web.Response(status=status, headers=headers, body=body)
