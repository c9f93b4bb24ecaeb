"""One conversation with a Git server: credentials once each, host keys strict, time limits, no host configuration.

libgit2 keeps the place of known_hosts, its certificate store and its time limits for the whole process. `session` sets
them under one lock for the length of a conversation, so several mirrors in a process take turns and never see each
other's known_hosts. Certificates added by a `ca` file stay trusted until the process ends (libgit2 cannot remove them).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pygit2
from pygit2.enums import ConfigLevel, CredentialType

from gitops.logs import REDACTOR
from gitops.source.errors import SourceError, SourceErrorClass, translate
from gitops.source.remotes import Remote, RemoteRefused, Secret, read_credential

OBJECT_CACHE_BYTES = 16 * 1024 * 1024
"""libgit2 caches up to 256 MB of objects by default; we keep what we need ourselves."""

_process = threading.Lock()
_isolated: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds until a connection must stand, and until a silent server is given up. libgit2's own default is never."""

    connect: float = 10.0
    silence: float = 30.0


class _Refused(Exception):
    """Raised inside a callback; libgit2 ends the conversation and pygit2 raises it again."""

    def __init__(self, error_class: SourceErrorClass, sentence: str) -> None:
        super().__init__(sentence)
        self.error_class = error_class


class Interrupted(SourceError):
    """The transfer was ended by `interrupt`, at shutdown."""

    def __init__(self) -> None:
        super().__init__(SourceErrorClass.INTERRUPTED, "the transfer was ended by the shutdown")


class Callbacks(pygit2.RemoteCallbacks):
    """Answers libgit2's questions during one conversation with `remote`.

    Collects what a push needs to know: `refusals` (reference → the server's words; libgit2 raises nothing for those),
    `remote_words` (what hooks printed) and, when `expected` is set, refuses to push over any other commit.
    """

    def __init__(self, remote: Remote, interrupted: threading.Event) -> None:
        super().__init__()
        self._remote = remote
        self._interrupted = interrupted
        self._asked: set[CredentialType] = set()
        self.secrets: list[str] = list(remote.secrets)
        self.refusals: dict[str, str] = {}
        self.remote_words = ""
        self.expected: pygit2.Oid | None = None
        self.moved = False

    # -- who we are

    def credentials(self, url: str, username_from_url: str | None, allowed_types: CredentialType) -> Any:
        """The configured credential, once. libgit2 asks again and again while a server refuses: accounts get locked."""
        remote = self._remote
        if remote.scheme in ("http", "https"):
            parts = urlsplit(url)
            if (parts.scheme, parts.hostname) != (remote.scheme, urlsplit(remote.transport_url).hostname):
                raise _Refused(
                    SourceErrorClass.AUTH,
                    f"the server sends us on to {parts.hostname or 'elsewhere'}, which gets no credentials of ours",
                )
            return self._password(allowed_types)
        return self._key(remote.user or username_from_url or "git", allowed_types)

    def _password(self, allowed: CredentialType) -> pygit2.UserPass:
        self._once(CredentialType.USERPASS_PLAINTEXT)
        remote, files = self._remote, self._remote.credentials
        secret = self._read(files.token) or self._read(files.password) or remote.inline_password
        username = read_credential(files.username)
        # Forges take any user name beside a token; an empty one is refused by some.
        name = username.value if username else remote.user or "git"
        if secret is None and remote.user and username is None:
            return pygit2.UserPass(remote.user, "")  # https://<token>@host, as some forges document it
        if secret is None:
            raise _Refused(SourceErrorClass.AUTH, "the server asks for credentials and none are configured")
        if not allowed & CredentialType.USERPASS_PLAINTEXT:
            raise _Refused(SourceErrorClass.AUTH, "the server takes neither a password nor a token")
        return pygit2.UserPass(name, secret.value)

    def _key(self, user: str, allowed: CredentialType) -> Any:
        if allowed & CredentialType.USERNAME and not allowed & CredentialType.SSH_KEY:
            self._once(CredentialType.USERNAME)
            return pygit2.Username(user)
        self._once(CredentialType.SSH_KEY)
        files = self._remote.credentials
        key, passphrase = self._read(files.private_key), self._read(files.passphrase)
        if key is None:
            raise _Refused(SourceErrorClass.AUTH, "the server asks for a key and none is configured")
        if not allowed & CredentialType.SSH_MEMORY:
            raise _Refused(SourceErrorClass.AUTH, "the server does not accept log-in by key")
        return pygit2.KeypairFromMemory(user, None, key.value + "\n", passphrase.value if passphrase else None)

    def _once(self, kind: CredentialType) -> None:
        if kind in self._asked:
            raise _Refused(SourceErrorClass.AUTH, "the server refused the configured credential")
        self._asked.add(kind)

    def _read(self, path: Path | None) -> Secret | None:
        secret = read_credential(path)
        if secret:
            self.secrets += [secret.value, *secret.value.splitlines()]
            REDACTOR.add(secret.value)
        return secret

    # -- who they are

    def certificate_check(self, certificate: None, valid: bool, host: bytes) -> bool:
        """What libgit2 found. pygit2's own default says yes to every ssh key, so this must not pass through."""
        return valid

    # -- what happens

    def transfer_progress(self, stats: Any) -> None:
        self._check_interrupt()

    def sideband_progress(self, string: str) -> None:
        self._check_interrupt()
        if len(self.remote_words) < 4096:
            self.remote_words += string

    def push_negotiation(self, updates: list[Any]) -> None:
        self._check_interrupt()
        if self.expected is not None and any(update.src != self.expected for update in updates):
            self.moved = True
            raise _Refused(SourceErrorClass.PROTOCOL, "the branch has moved")

    def push_update_reference(self, refname: str, message: str | None) -> None:
        if message is not None:
            self.refusals[refname] = message

    def _check_interrupt(self) -> None:
        if self._interrupted.is_set():
            raise Interrupted


@contextlib.contextmanager
def session(remote: Remote, *, home: Path, timeouts: Timeouts, interrupted: threading.Event) -> Iterator[Callbacks]:
    """Settings and callbacks for one conversation with `remote`. Raises SourceError for whatever goes wrong in it.

    `home` is a private folder; the known_hosts file is copied into it anew each time, because libgit2 only reads
    `.ssh/known_hosts` below one folder, and the configured file may be rotated.
    """
    callbacks = Callbacks(remote, interrupted)
    with _process:
        try:
            _prepare(remote, home, timeouts)
            yield callbacks
        except SourceError:
            raise
        except _Refused as error:
            raise SourceError(error.error_class, f"{remote.display}: {error}") from None
        except RemoteRefused as error:
            raise SourceError(SourceErrorClass.CONFIGURATION, f"{remote.display}: {error}") from None
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            # `from None`: a chained library error would carry the secrets that translate() removes.
            raise translate(error, display=remote.display, scheme=remote.scheme, secrets=callbacks.secrets) from None


def isolate(home: Path) -> None:
    """Keep libgit2 from the machine's and the user's Git configuration.

    There, `url.*.insteadOf`, proxies, `safe.directory = *` and ssh commands would change what we talk to and trust.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "done" not in _isolated:
        empty = home / "no-config"
        empty.mkdir(exist_ok=True)
        for level in (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
            pygit2.settings.search_path[level] = str(empty)
        pygit2.settings.cache_max_size(OBJECT_CACHE_BYTES)
        _isolated.add("done")


def _prepare(remote: Remote, home: Path, timeouts: Timeouts) -> None:
    pygit2.settings.server_connect_timeout = int(timeouts.connect * 1000)
    pygit2.settings.server_timeout = int(timeouts.silence * 1000)
    if remote.scheme == "ssh":
        known_hosts = read_credential(remote.credentials.known_hosts)
        if known_hosts is None or not known_hosts.value.strip():
            raise RemoteRefused("the known_hosts file is empty; an unknown server is never trusted")
        folder = home / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "known_hosts").write_text(known_hosts.value + "\n", encoding="utf-8")
        pygit2.settings.homedir = str(home)
    ca = remote.credentials.ca
    if remote.scheme == "https" and ca is not None:
        content = read_credential(ca)
        if content is not None and content.value not in _isolated:
            pygit2.settings.set_ssl_cert_locations(str(ca), None)
            _isolated.add(content.value)
