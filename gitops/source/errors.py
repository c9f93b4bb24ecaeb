"""What can go wrong with the repository's server, as few classes, decided in this one place.

    SourceError            has a class (SourceErrorClass) and one sentence without secrets

libgit2 gives a Python class, sometimes a number for the part that failed, and a text; the text is what tells most. The
texts below are those of libgit2 1.9, seen over http, https, ssh and file with misbehaving servers (tests/source). For a
path that does not exist it says "unsupported URL protocol".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Final

import pygit2

from gitops.logs import redact_urls

MAX_TEXT: Final = 300


class SourceErrorClass(enum.StrEnum):
    AUTH = "auth"
    """Credentials missing, refused, or without the right. People must act; trying often locks accounts."""
    NOT_FOUND = "not_found_or_no_access"
    """No repository there, or a private one that this credential may not see (forges answer 404 for both)."""
    HOST_KEY = "host_key"
    """The ssh server's key is unknown or another one. Never accepted by itself."""
    CERTIFICATE = "certificate"
    """The https server's certificate is not trusted."""
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    """The server answered with what is not Git, or with an error of its own."""
    DISK_FULL = "disk_full"
    STATE = "state"
    """Our own state folder: in use by another process, owned by another user, not writable."""
    CORRUPT = "corrupt"
    """Objects of our own mirror are damaged or missing; the next fetch builds it anew."""
    CONFIGURATION = "configuration"
    """A credential file cannot be read, or a remote is refused."""
    INTERRUPTED = "interrupted"
    """We ended the transfer ourselves, at shutdown."""


class SourceError(Exception):
    """Fetching or reading the repository failed. `str()` is one sentence for people, without secrets."""

    def __init__(self, error_class: SourceErrorClass, sentence: str) -> None:
        super().__init__(sentence)
        self.error_class = error_class
        self.sentence = sentence


_NET: Final = (
    (re.compile(r"no space left on device|disk quota exceeded", re.I), SourceErrorClass.DISK_FULL),
    (re.compile(r"timed out|timeout", re.I), SourceErrorClass.TIMEOUT),
    (re.compile(r"status code: (401|403|407)|authentication|username does not match|returned unsupported", re.I),
     SourceErrorClass.AUTH),
    (re.compile(r"unable to extract public key|wrong passphrase|invalid.*private key|private key file", re.I),
     SourceErrorClass.AUTH),
    (re.compile(r"status code: 404|repository not found|could not find repository|failed to resolve path"
                r"|not appear to be a git repository|does not exist|no such file"
                r"|unsupported url protocol", re.I), SourceErrorClass.NOT_FOUND),
    (re.compile(r"not owned by current user|permission denied", re.I), SourceErrorClass.STATE),
    (re.compile(r"failed to connect|failed to resolve address|connection (refused|reset)|network is unreachable"
                r"|no route to host|broken pipe|early eof|unexpected eof|could not (read|write)|unexpected disconnect"
                r"|socket disconnected|status code: (429|50[234])", re.I), SourceErrorClass.UNREACHABLE),
    (re.compile(r"ssl certificate|certificate", re.I), SourceErrorClass.CERTIFICATE),
)  # fmt: skip

_WORDS: Final = {
    SourceErrorClass.AUTH: "access was refused",
    SourceErrorClass.NOT_FOUND: "the repository was not found, or this credential has no access to it",
    SourceErrorClass.HOST_KEY: "the server's host key is not the one in known_hosts, or is not listed there",
    SourceErrorClass.CERTIFICATE: "the server's certificate is not trusted",
    SourceErrorClass.UNREACHABLE: "the server cannot be reached",
    SourceErrorClass.TIMEOUT: "the server did not answer in time",
    SourceErrorClass.PROTOCOL: "the server's answer was not understood",
    SourceErrorClass.DISK_FULL: "the disk is full",
    SourceErrorClass.STATE: "the state folder cannot be used",
    SourceErrorClass.CORRUPT: "the local mirror is damaged and will be built anew",
    SourceErrorClass.CONFIGURATION: "the source is not configured rightly",
    SourceErrorClass.INTERRUPTED: "the transfer was ended by the shutdown",
}

_ODB_CLASSES: Final = frozenset({5, 9, 14})
"""libgit2's numbers for zlib, odb and tree-object errors (git2/errors.h: ZLIB 5, ODB 9, TREE 14)."""


_BROKEN_REFERENCE: Final = re.compile(r"corrupted (loose|packed) reference", re.I)
"""libgit2's words (refdb_fs.c) for a reference in our own folder that a power cut left empty or half written."""


def classify(error: Exception, *, scheme: str) -> SourceErrorClass:
    """The class of an exception that libgit2 or the operating system raised. `scheme` is the remote's, or "state" when
    the work was in our own folder only."""
    text = str(error)
    damaged = getattr(error, "error_class", None) in _ODB_CLASSES or isinstance(error, KeyError)
    damaged = damaged or _BROKEN_REFERENCE.search(text) is not None
    if scheme == "state":
        if _NET[0][0].search(text):
            return SourceErrorClass.DISK_FULL
        return SourceErrorClass.CORRUPT if damaged else SourceErrorClass.STATE
    if isinstance(error, pygit2.CertificateError) or "hostkey" in text.lower():
        return SourceErrorClass.HOST_KEY if scheme == "ssh" else SourceErrorClass.CERTIFICATE
    if isinstance(error, pygit2.AuthError):
        return SourceErrorClass.AUTH
    for pattern, error_class in _NET:
        if pattern.search(text):
            if error_class is SourceErrorClass.STATE and scheme == "ssh":
                return SourceErrorClass.AUTH  # "Permission denied (publickey)"
            return error_class
    return SourceErrorClass.CORRUPT if damaged else SourceErrorClass.PROTOCOL


def translate(error: Exception, *, display: str, scheme: str, secrets: Iterable[str] = ()) -> SourceError:
    """A SourceError for `error`: what happened in our words, the library's words after it, scrubbed."""
    if isinstance(error, SourceError):
        return error
    error_class = classify(error, scheme=scheme)
    if scheme == "file" and error_class is SourceErrorClass.NOT_FOUND:  # libgit2's own words are about protocols
        return SourceError(error_class, f"{display}: the repository was not found: there is none in that folder")
    return SourceError(error_class, f"{display}: {_WORDS[error_class]} ({scrub(str(error), secrets)})")


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` on one line, cut, without any of `secrets` and without user information or queries in URLs."""
    for secret in sorted((s for s in secrets if s), key=len, reverse=True):
        text = text.replace(secret, "***")
    text = " ".join("".join(c if c.isprintable() else " " for c in redact_urls(text)).split())
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
