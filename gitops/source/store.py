"""The folder that holds our private bare repository: one owner, generations, repair by building anew.

Layout of the state folder:

    lock            held (flock) by the one process that uses the folder; the kernel frees it when that process dies
    current         symbolic link to the generation in use, replaced in one rename
    git-<n>/        a generation: a bare repository
    home/           what libgit2 is told is the home folder (known_hosts)

A damaged repository is never repaired in place: a new generation is filled and `current` is moved to it. The same
serves maintenance, since libgit2 never removes loose objects.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pygit2

from gitops.source.errors import SourceError, SourceErrorClass, translate
from gitops.source.transport import isolate


class ObjectStore:
    """Owner of the state folder `path`. `repo` belongs to the owning thread; `reading` lends a second handle to others.

    Raises SourceError(STATE) when another process owns the folder, or another user does and it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"
        self._read_lock = threading.RLock()
        self._lock_file: int | None = None
        self.rebuilds = 0
        self.damaged = False
        """Set by whoever finds an object missing or broken; the next fetch then takes a new generation."""
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = self._own()
            isolate(self.home)
            self.repo, self._reader = self._open()
        except OSError as error:
            self.close()
            raise translate(error, display=str(path), scheme="state") from None
        except SourceError:
            self.close()
            raise

    def close(self) -> None:
        """Give the folder free for another process. Idempotent."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Any]:
        """The repository handle for readers on any thread, one at a time; follows when a new generation is taken."""
        with self._read_lock:
            yield self._reader

    def count_loose(self) -> int:
        """How many loose objects the current generation holds."""
        objects = self._current() / "objects"
        return sum(
            len(os.listdir(folder.path))
            for folder in os.scandir(objects)
            if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False)
        )

    def count_packs(self) -> int:
        pack = self._current() / "objects" / "pack"
        return sum(name.endswith(".pack") for name in os.listdir(pack)) if pack.is_dir() else 0

    def renew(self, fill: Callable[[Any, Path], None]) -> None:
        """Take a new generation that `fill(fresh repository, folder of the present one)` has filled.

        Whatever `fill` raises, and SourceError for our own folder, leaves the present generation in use.
        """
        old, fresh = self._current(), self._next_generation()
        try:
            repo = pygit2.init_repository(str(fresh), bare=True)
            with contextlib.suppress(pygit2.GitError):  # a damaged configuration is written anew by the mirror
                for entry in self.repo.config:
                    if entry.name.startswith("gitops."):
                        repo.config[entry.name] = entry.value
            fill(repo, old)
            self._check(repo)
            reader = pygit2.Repository(str(fresh))
            self._point_to(fresh)
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise translate(error, display=str(self.path), scheme="state") from None
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        with self._read_lock:
            before = (self.repo, self._reader)
            self.repo, self._reader = repo, reader
            for handle in before:
                handle.free()  # closes the old packs now, and not when Python's collector finds the handle
        self.damaged = False
        self.rebuilds += 1
        shutil.rmtree(old, ignore_errors=True)

    # -- opening

    def _own(self) -> int:
        lock_file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock_file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock_file)
            raise SourceError(
                SourceErrorClass.STATE, f"{self.path}: the state folder is in use by another process (pid {owner})"
            ) from None
        os.ftruncate(lock_file, 0)
        os.pwrite(lock_file, f"{os.getpid()}\n".encode(), 0)
        return lock_file

    def _open(self) -> tuple[Any, Any]:
        """The current generation with locks and temporary files of a killed process removed, or a new empty one.

        Safe because we hold the lock: nobody else's work can be in this private repository.
        """
        current = self._current()
        if current.is_dir():
            try:
                _clear_leftovers(current)
                repo = pygit2.Repository(str(current))
                list(repo.references)
            except (pygit2.GitError, OSError, KeyError, ValueError):
                self.rebuilds += 1
            else:
                try:
                    self._check(repo)
                except (pygit2.GitError, OSError, KeyError, ValueError):
                    self.damaged = True  # its references still tell the last good commit
                self._remove_others(current)
                return repo, pygit2.Repository(str(current))
        fresh = self._next_generation()
        repo = pygit2.init_repository(str(fresh), bare=True)
        self._point_to(fresh)
        self._remove_others(fresh)
        return repo, pygit2.Repository(str(fresh))

    @staticmethod
    def _check(repo: Any) -> None:
        """Raises unless every reference leads to a commit with a tree. Deeper damage is found when it is read."""
        for name in repo.references:
            commit = repo.references[name].peel(pygit2.Commit)
            if commit.tree.type_str != "tree":
                raise ValueError(f"{name} has no tree")

    def _current(self) -> Path:
        link = self.path / "current"
        return self.path / os.readlink(link) if link.is_symlink() else self.path / "git-0"

    def _next_generation(self) -> Path:
        numbers = [int(p.name[4:]) for p in self.path.glob("git-*") if p.name[4:].isdigit()]
        return self.path / f"git-{max(numbers, default=0) + 1}"

    def _point_to(self, generation: Path) -> None:
        new_link = self.path / "current.new"
        new_link.unlink(missing_ok=True)
        new_link.symlink_to(generation.name)
        os.replace(new_link, self.path / "current")

    def _remove_others(self, keep: Path) -> None:
        for folder in self.path.glob("git-*"):
            if folder.name != keep.name:
                shutil.rmtree(folder, ignore_errors=True)


def _clear_leftovers(repository: Path) -> None:
    for folder, _, names in os.walk(repository):
        place = Path(folder).relative_to(repository).parts
        in_objects, loose = "objects" in place, len(place) == 2 and place[0] == "objects" and len(place[1]) == 2
        for name in names:
            unfinished = in_objects and ("_git2_" in name or name.startswith("tmp_"))
            if name.endswith(".lock") or unfinished or (loose and not _is_whole(Path(folder, name))):
                os.unlink(os.path.join(folder, name))


def _is_whole(loose: Path) -> bool:
    """Does the compressed stream of a loose object come to its end? libgit2 waits for ever for the rest of one that
    does not (1.9, read_loose), as a power cut leaves it; one that is not there it reports."""
    stream = zlib.decompressobj()
    try:
        with loose.open("rb") as file:
            while not stream.eof and (data := file.read(1 << 16)):
                while data:
                    stream.decompress(data, 1 << 20)
                    data = stream.unconsumed_tail
    except (OSError, zlib.error):
        return False
    return stream.eof
