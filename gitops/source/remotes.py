"""Where the repository is: a URL that may be used, a branch, and the files that hold the credentials.

Only schemes that libgit2 speaks itself and that run no command are let through: https, ssh (also written like scp),
file and absolute paths; http only to the local machine or where settings allow it. `ext::`, anything relative and
whatever begins with a dash is refused, because other Git tools read those as commands and options. A secret in a URL is
used, and never shown: `display_url` is the only form that messages, reports and representations carry.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from gitops.model.branches import is_branch_name

MAX_URL = 2048
MAX_CREDENTIAL_BYTES = 1024 * 1024

_SCP = re.compile(r"^(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._+-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^:].*)$")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class RemoteRefused(ValueError):
    """This URL, branch or set of credential files must not be used. The text names no secret."""


def display_url(url: str) -> str:
    """`url` as it may be shown: without user information (an ssh user name stays), query and fragment."""
    url = _CONTROL.sub("", url)[:MAX_URL]
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        user = parts.username
    except ValueError:
        return f"{url.partition('://')[0]}://(unreadable)"
    if parts.scheme == "ssh" and user and re.fullmatch(r"[A-Za-z0-9._+-]+", user):
        netloc = f"{user}@{netloc}"
    return urlunsplit((parts.scheme, netloc, parts.path, "", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialFiles:
    """Files that hold credentials; they are read again for every attempt, so a rotated Secret works at once.

    https: `token`, or `username` and `password`; `ca` adds trusted certificates (for the whole process: libgit2 has one
    store). ssh: `private_key` (with `passphrase`, if it has one) and `known_hosts`, without which ssh is refused.
    """

    username: Path | None = None
    password: Path | None = None
    token: Path | None = None
    private_key: Path | None = None
    passphrase: Path | None = None
    known_hosts: Path | None = None
    ca: Path | None = None

    @classmethod
    def from_folder(cls, folder: Path) -> CredentialFiles:
        """The files of a mounted Secret, by the names of Kubernetes' own Secret types and of other GitOps tools.

        Raises RemoteRefused when the folder does not exist.
        """
        if not folder.is_dir():
            raise RemoteRefused(f"the credentials folder {folder} does not exist")

        def first(*names: str) -> Path | None:
            return next((folder / name for name in names if (folder / name).is_file()), None)

        return cls(
            username=first("username"),
            password=first("password"),
            token=first("token", "bearerToken"),
            private_key=first("ssh-privatekey", "identity"),
            passphrase=first("passphrase"),
            known_hosts=first("known_hosts"),
            ca=first("ca.crt", "ca.pem"),
        )


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that prints as `***`."""

    value: str

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


def read_credential(path: Path | None) -> Secret | None:
    """The text of a credential file without its trailing line break. Raises RemoteRefused when it cannot be read."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CREDENTIAL_BYTES + 1)
        if len(data) > MAX_CREDENTIAL_BYTES:
            raise RemoteRefused(f"the credential file {path} is larger than {MAX_CREDENTIAL_BYTES} bytes")
        return Secret(data.decode("utf-8").rstrip("\r\n"))
    except OSError as error:
        raise RemoteRefused(f"cannot read the credential file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RemoteRefused(f"the credential file {path} is not UTF-8 text") from None


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository on a server and the branch to follow.

    `url` is what the user wrote; `transport_url` is what libgit2 gets (no user information for http), `display` is what
    people get. `proxy`: None = none, "env" = from the environment, else a URL. Raises RemoteRefused.
    """

    url: str = field(repr=False)
    branch: str = "main"
    credentials: CredentialFiles = field(default_factory=CredentialFiles, repr=False)
    allow_http: bool = field(default=False, kw_only=True, repr=False)
    proxy: str | None = field(default=None, kw_only=True, repr=False)
    scheme: str = field(init=False, default="", repr=False)
    host: str = field(init=False, default="", repr=False)
    transport_url: str = field(init=False, default="", repr=False)
    user: str = field(init=False, default="", repr=False)
    inline_password: Secret | None = field(init=False, default=None, repr=False)
    display: str = field(init=False, default="")

    def __post_init__(self) -> None:
        display = display_url(self.url)
        object.__setattr__(self, "display", display)
        bad = not self.url or len(self.url) > MAX_URL or _CONTROL.search(self.url) or self.url[0] in " -"
        if bad or (" " in self.url and not self.url.startswith("/")):
            raise RemoteRefused(
                f"the repository URL {display[:200]!r} is empty, too long, begins with a dash or holds spaces"
            )
        check_branch(self.branch)
        if self.url.startswith("/"):
            self._set("file", "", self.url, "", None)
        elif "://" in self.url:
            self._parse(display)
        elif (scp := _SCP.match(self.url)) and "::" not in self.url:
            _no_dash(display, scp["path"])
            self._set("ssh", scp["host"], self.url, scp["user"] or "", None)
        else:
            raise RemoteRefused(
                f"the repository URL {display!r} is none of https://, ssh://, user@host:path, file:// and absolute path"
            )
        if self.scheme == "http" and not (self.allow_http or _is_loopback(self.host)):
            raise RemoteRefused(
                f"{display}: plain http sends credentials in clear text; use https, or allow it in settings"
            )
        if self.scheme == "ssh" and self.credentials.known_hosts is None:
            raise RemoteRefused(f"{display}: ssh needs a known_hosts file; an unknown server is never trusted")

    def _parse(self, display: str) -> None:
        try:
            parts = urlsplit(self.url)
            host, port, user, password = parts.hostname or "", parts.port, parts.username, parts.password
        except ValueError:
            raise RemoteRefused(f"the repository URL {display!r} cannot be read") from None
        scheme = parts.scheme.lower()
        if scheme not in ("https", "http", "ssh", "file"):
            raise RemoteRefused(
                f"the repository URL {display!r} uses the scheme {scheme!r}; https, ssh and file are allowed"
            )
        if parts.query or parts.fragment:
            raise RemoteRefused(f"{display}: a repository URL has no query and no fragment; credentials go into files")
        _no_dash(display, host, unquote(user or ""), parts.path)
        if scheme == "file":
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
                raise RemoteRefused(f"{display}: a file URL names an absolute path on this machine")
            self._set(scheme, "", unquote(parts.path), "", None)
            return
        if not host or parts.path in ("", "/"):
            raise RemoteRefused(f"{display}: the host or the path of the repository is missing")
        if scheme == "ssh":
            if password:
                raise RemoteRefused(f"{display}: ssh logs in with a key file, not with a password in the URL")
            self._set(scheme, host, self.url, unquote(user or ""), None)
            return
        netloc = f"[{host}]" if ":" in host else host
        bare = urlunsplit(SplitResult(scheme, f"{netloc}:{port}" if port else netloc, parts.path, "", ""))
        self._set(scheme, host, bare, unquote(user or ""), Secret(unquote(password)) if password else None)

    def _set(self, scheme: str, host: str, transport_url: str, user: str, password: Secret | None) -> None:
        for name, value in (
            ("scheme", scheme),
            ("host", host),
            ("transport_url", transport_url),
            ("user", user),
            ("inline_password", password),
        ):
            object.__setattr__(self, name, value)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the URL itself that must never be shown (credential files are added when they are read)."""
        found = [self.inline_password.value, quote(self.inline_password.value)] if self.inline_password else []
        if "@" in self.url and self.scheme in ("http", "https"):
            found.append(self.url)
            if self.user and not self.inline_password:  # a token in the place of the user name
                found += [self.user, quote(self.user)]
        if self.proxy and "@" in self.proxy:
            found += [self.proxy, self.proxy.partition("://")[2].rpartition("@")[0]]
        return tuple(found)

    def __str__(self) -> str:
        return f"{self.display} ({self.branch})"


def check_branch(branch: str) -> None:
    """Raises RemoteRefused unless `branch` is a plain branch name: no refspec signs, no leading dash."""
    if not is_branch_name(branch):
        raise RemoteRefused(f"{branch[:200]!r} is not a branch name")


def _no_dash(display: str, *parts: str) -> None:
    # CVE-2017-1000117: ssh://-oProxyCommand=... is read as an option by the ssh program.
    if any(part.lstrip("/").startswith("-") for part in parts):
        raise RemoteRefused(f"{display}: host, user and path must not begin with a dash")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
