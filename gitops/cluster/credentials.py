"""Credentials by name: a folder of kubeconfig files.

A Cluster document names its credentials (`credentials: dgx-a`); which file that is lives with the daemon, so that a
pull request can neither choose a path nor bring a secret. A change is noticed by the file's identity (device, inode,
size, mtime) after links are followed: a mounted Secret swaps a link and leaves the file's name alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUFFIXES = ("", ".yaml", ".kubeconfig")

FileIdentity = tuple[int, int, int, int]
"""Device, inode, size in bytes, mtime in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A kubeconfig file as it was when it was looked up."""

    name: str
    path: Path
    identity: FileIdentity


@dataclass(frozen=True, slots=True)
class MissingCredentials:
    """Why there are none; `sentence` is for people and names no path outside the folder."""

    name: str
    sentence: str


class CredentialsFolder:
    """Looks names up as `<folder>/<name>`, `<name>.yaml` or `<name>.kubeconfig`. Reads metadata only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> Credentials | MissingCredentials:
        """The file for `name` now. Names are DNS labels, so no name leads out of the folder."""
        if not _NAME.fullmatch(name):
            return MissingCredentials(name[:63], f"{name[:63]!r} is not a valid credentials name (a DNS label)")
        for suffix in _SUFFIXES:
            path = self.folder / f"{name}{suffix}"
            try:
                identity = file_identity(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                return MissingCredentials(name, f"credentials {name!r} cannot be read: {error.strerror}")
            if identity is not None:
                return Credentials(name, path, identity)
        return MissingCredentials(
            name, f"there are no credentials named {name!r} in the credentials folder (credentials_dir)"
        )

    def changed(self, known: Credentials) -> bool:
        """Is the file another one than `known`, or gone? One stat call."""
        now = self.find(known.name)
        return not isinstance(now, Credentials) or now != known

    def names(self) -> tuple[str, ...]:
        """Every name that find() would accept now, sorted; empty when the folder does not exist."""
        try:
            files = sorted(self.folder.iterdir())
        except OSError:
            return ()
        stems = {file.name.removesuffix(".yaml").removesuffix(".kubeconfig") for file in files}
        return tuple(sorted(stem for stem in stems if isinstance(self.find(stem), Credentials)))


def file_identity(path: Path) -> FileIdentity | None:
    """Identity of the regular file behind `path`; None for a folder or device. Raises OSError."""
    stat = path.stat()
    if not path.is_file():
        return None
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
