"""Reading a kubeconfig: the cluster and the user of its current context, and the material that they name.

What `kubectl` documents of the format ("Organizing Cluster Access Using kubeconfig Files"): one file,
`current-context`, paths relative to the file, `*-data` before the path of the same name. A context that names a user or
a cluster which is not there is refused: a file that is only half written must not make us ask as nobody. Nothing of the
file is quoted in what people are told, except names of contexts, users and clusters.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gitops.cluster.credentials import FileIdentity, file_identity

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

LARGEST = 8 << 20
"""Bytes of a file. A kubeconfig with the certificates of a hundred clusters has one million."""

Files = dict[Path, FileIdentity | None]
"""Files that were read, as they were right before."""


class Unusable(Exception):
    """Credentials that cannot be used; the text is for people and holds nothing secret."""


@dataclass(frozen=True, slots=True)
class Section:
    """The cluster or the user of a context. `files` grows by every file that was read for it."""

    values: dict[str, Any]
    folder: Path
    files: Files

    def text(self, key: str) -> str:
        """A value as text; "" when it is not there. Raises Unusable."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Unusable(f"{key} is no text")
        return value

    def flag(self, key: str) -> bool:
        return self.values.get(key) is True

    def material(self, key: str) -> bytes:
        """What `<key>-data` (base64) or else the file `<key>` holds; b"" when neither is there. Raises Unusable."""
        if data := self.text(f"{key}-data"):
            try:  # in lines, too, as `base64` prints it and kubectl takes it
                return base64.b64decode(data.replace("\r", "").replace("\n", ""), validate=True)
            except ValueError:
                raise Unusable(f"{key}-data is not base64") from None
        name = self.text(key)
        return read_file(self.folder / name, key, self.files) if name else b""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """What the current context says."""

    cluster: Section
    user: Section
    files: Files


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Raises Unusable, with a sentence that does not quote the file."""
    files: Files = {}
    try:
        document = yaml.load(read_file(path, "kubeconfig", files), _LOADER)
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ):  # a date of month 13 is a ValueError, ten thousand "[" the last
        raise Unusable("it is not valid YAML") from None  # unchained: the traceback would quote the file
    if not isinstance(document, dict):
        raise Unusable("it is no map")
    current = document.get("current-context")
    if not isinstance(current, str) or not current:
        raise Unusable("it has no current-context")
    context = _named(document, "contexts", "context", current)
    cluster = _named(document, "clusters", "cluster", context.get("cluster"))
    wanted = context.get("user")
    user = _named(document, "users", "user", wanted) if wanted else {}
    folder = path.parent
    return Kubeconfig(Section(cluster, folder, files), Section(user, folder, files), files)


def _named(document: dict[str, Any], group: str, key: str, name: object) -> dict[str, Any]:
    """The one entry of that name in a list of a kubeconfig. Raises Unusable."""
    entries = document.get(group)
    found = [e for e in entries if isinstance(e, dict) and e.get("name") == name] if isinstance(entries, list) else []
    if len(found) != 1:
        raise Unusable(
            f"{group} has {'no entry' if not found else 'more than one entry'} of the name {str(name)[:63]!r}"
        )
    value = found[0].get(key)
    if value is not None and not isinstance(value, dict):
        raise Unusable(f"{key} {str(name)[:63]!r} is no map")
    return value or {}


def read_file(path: Path, what: str, files: Files) -> bytes:
    """The content of a small file, noted in `files`. Raises Unusable."""
    files[path] = identity_of(path)  # before it is read: what is written meanwhile makes it another one
    try:
        if path.exists() and not path.is_file():  # a pipe would keep the loop waiting for whoever writes to it
            raise Unusable(f"{what} is no file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise Unusable(f"{what} cannot be read: {error.strerror}") from None
    except ValueError:
        raise Unusable(f"{what} has a name that no file has") from None
    if len(content) > LARGEST:
        raise Unusable(f"{what} has more than {LARGEST >> 20} MiB")
    if not content.strip():
        raise Unusable(f"{what} is an empty file")
    return content


def identity_of(path: Path) -> FileIdentity | None:
    """None while there is no such file, or none that can be looked at."""
    try:
        return file_identity(path)
    except (OSError, ValueError):
        return None
