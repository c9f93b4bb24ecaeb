"""FileTree over a plain folder (`gitops run --path`, `gitops validate PATH`).

A folder changes while it is read. The first look takes a snapshot: every file is read and hashed as Git would hash it.
A later `read` returns content only when it still has that hash, so a tree never mixes two states; the caller then takes
a new snapshot. `.git` and hidden folders are no part of it, links are never followed, and a folder with a repository of
its own counts as a submodule, as `git add` would have it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gitops.model.identity import Commit
from gitops.model.trees import EntryKind, TreeEntry
from gitops.source.treewalk import MAX_FILE_BYTES, decode_name

_NO_ID: Final = "0" * 40
_SETTLED_NS: Final = 1_000_000_000


class FolderChanged(OSError):
    """A file is no longer what it was in this snapshot. Take a new FolderTree."""


@dataclass(frozen=True, slots=True)
class _Seen:
    entry: TreeEntry
    file: str = ""
    """Where it is on disk (its name may not be UTF-8)."""
    stamp: tuple[int, int, int, int] | None = None
    """inode, size, mtime, ctime when it was hashed; None when it had changed so shortly before that a later change may
    show the same times (Git's "racily clean" files)."""


class FolderTree:
    """Snapshot of the folder `path`, taken at the first use. `previous` saves reading files whose stat is unchanged.

    Raises FileNotFoundError or NotADirectoryError when `path` is no folder.
    """

    def __init__(self, path: Path, *, previous: FolderTree | None = None) -> None:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such folder")
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a folder")
        self._path = path
        self._before: dict[str, _Seen] = previous._seen or {} if previous is not None else {}
        self._seen: dict[str, _Seen] | None = None
        self._commit: Commit | None = None

    @property
    def commit(self) -> Commit:
        """`folder-<digest of all paths and contents>`: equal for equal content."""
        if self._commit is None:
            self._commit = Commit(f"folder-{_digest(self.entries())}")
        return self._commit

    def entries(self) -> tuple[TreeEntry, ...]:
        return tuple(seen.entry for seen in self._snapshot().values())

    def read(self, path: str) -> bytes:
        """Content as in the snapshot. Raises FileNotFoundError, IsADirectoryError, FolderChanged, OSError (too big)."""
        seen = self._snapshot().get(path)
        if seen is None:
            if any(known.startswith(f"{path}/") for known in self._snapshot()) or path == "":
                raise IsADirectoryError(path)
            raise FileNotFoundError(path)
        if seen.entry.kind is not EntryKind.FILE:
            raise IsADirectoryError(path)
        data = _read_file(seen.file, path)
        if blob_id(data) != seen.entry.content_id:
            raise FolderChanged(f"{path} was changed while the folder was read")
        return data

    def tree_id(self, path: str = "") -> str | None:
        """A digest of the file or of everything below the folder `path`; None when nothing is there."""
        seen = self._snapshot()
        if path in seen:
            return seen[path].entry.content_id
        prefix = f"{path}/" if path else ""
        below = [s.entry for p, s in seen.items() if p.startswith(prefix)]
        if not below:
            return None
        return _digest(below)

    def _snapshot(self) -> dict[str, _Seen]:
        if self._seen is None:
            found = {seen.entry.path: seen for seen in self._walk(str(self._path), "")}
            self._seen = dict(sorted(found.items()))
        return self._seen

    def _walk(self, folder: str, prefix: str) -> Iterator[_Seen]:
        try:
            children = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return  # removed while we look: it is not in the snapshot
        for child in children:
            path = prefix + decode_name(os.fsencode(child.name))
            try:
                status = child.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    if child.name.startswith("."):
                        continue
                    if os.path.lexists(os.path.join(child.path, ".git")):
                        yield _Seen(TreeEntry(path, _NO_ID, EntryKind.SUBMODULE))
                    else:
                        yield from self._walk(child.path, f"{path}/")
                elif stat.S_ISLNK(status.st_mode):
                    yield _Seen(TreeEntry(path, blob_id(os.fsencode(os.readlink(child.path))), EntryKind.SYMLINK))
                elif stat.S_ISREG(status.st_mode) and child.name != ".git":
                    yield self._file(child.path, path, status)
            except FileNotFoundError:
                continue

    def _file(self, file: str, path: str, status: os.stat_result) -> _Seen:
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        before = self._before.get(path)
        if before is not None and before.stamp == stamp:
            return before
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
        return _Seen(TreeEntry(path, _hash_file(file, path)), file, stamp if settled else None)


def _digest(entries: Iterable[TreeEntry]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for entry in entries:
        digest.update(f"{entry.kind} {entry.content_id} {entry.path}\0".encode())
    return digest.hexdigest()


def blob_id(data: bytes) -> str:
    """The id Git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _hash_file(file: str, path: str) -> str:
    with _opened(file, path) as handle:
        left = os.fstat(handle.fileno()).st_size
        digest = hashlib.sha1(b"blob %d\0" % left, usedforsecurity=False)
        while left > 0 and (chunk := handle.read(min(left, 1024 * 1024))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def _read_file(file: str, path: str) -> bytes:
    with _opened(file, path) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(min(size, MAX_FILE_BYTES) + 1)  # as much as is asked for is allocated, whatever there is
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES} bytes", path)
    return data


def _opened(file: str, path: str) -> IO[bytes]:
    """Open a regular file and nothing else: between the listing and here it may have become a link, folder or pipe."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FolderChanged(f"{path} was removed while the folder was read") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
            raise FolderChanged(f"{path} is no longer a file") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FolderChanged(f"{path} is no longer a file")
    return os.fdopen(handle, "rb")
