"""Files with schemas, from folders on disk, and a pulled copy written there. Only plain files are read, and not more
than a cluster could ever have; a copy is put in place whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitops.policy.published import Published, read_published
from gitops.source.paths import check_path

DEFAULT_FOLDER = Path(".gitops/schemas")
"""Where `gitops schemas pull` puts them in a repository's work tree. Hidden folders are no part of what is compiled."""

LARGEST_FILE = 16 << 20
MOST_BYTES = 256 << 20
MOST_FILES = 20_000


def default_folders(repository: Path) -> list[Path]:
    """The pulled copy in a work tree, if there is one. Raises OSError for one that is elsewhere: the tree may be
    anybody's pull request."""
    folder = repository / DEFAULT_FOLDER
    if not folder.resolve().is_relative_to(repository.resolve()):
        raise OSError(f"{folder}: a link that leads out of {repository}")
    return [folder] if any(_below(folder)) else []


def load_published(places: Iterable[Path], *, repository: Path | None = None) -> Published:
    """What files and folders say of clusters; those in the repository are shown by their path there, others by their
    whole path. Raises OSError."""
    files = read_schema_files(places)
    if repository is None:
        return read_published(files)
    root = Path(os.path.abspath(repository))
    return read_published({_shown(Path(os.path.abspath(path)), root): content for path, content in files.items()})


def _shown(file: Path, root: Path) -> str:
    return (file.relative_to(root) if file.is_relative_to(root) else file).as_posix()


def read_schema_files(places: Iterable[Path]) -> dict[str, bytes]:
    """Path → content, of files and of all files below folders. Links are followed inside of a folder only: a mounted
    ConfigMap is made of them.

    Raises OSError for a place that cannot be read or holds nothing, a link that leads out of its folder, or when there
    is too much.
    """
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    for file in _files(places):
        content = _read(file, min(left, LARGEST_FILE))
        left -= len(content)
        found[file.as_posix()] = content
        if len(found) > MOST_FILES:
            raise OSError(f"more than {MOST_FILES} files with schemas")
    return found


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if not place.is_dir():
            yield place
            continue
        below = _below(place)
        first = next(below, None)
        if first is None:
            raise OSError(f"{place}: there is no YAML or JSON file in this folder")
        yield first
        yield from below


def _below(place: Path) -> Iterator[Path]:
    real = place.resolve()
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.endswith((".yaml", ".yml", ".json")) or name.startswith("."):
                continue
            file = Path(folder) / name
            if file.is_symlink() and not file.resolve().is_relative_to(real):
                raise OSError(f"{file}: a link that leads out of {place}")
            yield file


def _read(file: Path, limit: int) -> bytes:
    with contextlib.ExitStack() as stack:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, handle)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{file}: not a plain file")
        if status.st_size > limit:
            raise OSError(f"{file}: larger than is read of schemas ({limit} bytes are left)")
        with os.fdopen(os.dup(handle), "rb") as reader:
            return reader.read(limit)


def write_copy(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Put exactly these files into `folder`, whatever was there, in one rename; False when they were there already.

    Raises UnsafePath before anything is written, OSError.
    """
    for path in files:
        check_path(path)
    if _same(folder, files):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".pulling-"))
    try:
        made.chmod(0o755)
        for path, content in files.items():
            file = made / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        _swap(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return True


def _swap(made: Path, folder: Path) -> None:
    """A folder cannot be renamed over one that has files: the old one steps aside for a moment."""
    if not folder.exists():
        os.rename(made, folder)
        return
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".replaced-"))
    try:
        os.rename(folder, aside / "old")
        try:
            os.rename(made, folder)
        except BaseException:
            os.rename(aside / "old", folder)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _same(folder: Path, files: Mapping[str, bytes]) -> bool:
    if not folder.is_dir():
        return False
    there = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return there.keys() == files.keys() and all(there[path].read_bytes() == files[path] for path in files)
