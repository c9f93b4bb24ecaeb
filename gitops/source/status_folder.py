"""Status files in a plain folder, for runs without a Git server. Same interface as the status branch."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gitops.source.errors import SourceError, translate
from gitops.source.paths import UnsafePath, check_path
from gitops.source.statuses import PushKind, PushOutcome


class StatusFolder:
    """StatusStore in the folder `path` (created at the first write). Each file is replaced whole, in one rename."""

    def __init__(self, path: Path) -> None:
        self._root = path

    def contents(self, folder: str = "") -> dict[str, bytes]:
        inside = folder.strip("/")
        found = []
        for place, folders, names in os.walk(self._root / inside if inside else self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(place) / name for name in names if not name.startswith(".")]
        return {file.relative_to(self._root).as_posix(): file.read_bytes() for file in sorted(found)}

    def commit_and_push(self, changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        """Write what differs. `message` is not kept: a folder has no history."""
        for path in changes:
            check_path(path)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            written = sum(self._write(path, content) for path, content in changes.items())
        except OSError as error:
            failure: SourceError = translate(error, display=str(self._root), scheme="state")
            return PushOutcome(kind=PushKind.FAILED, sentence=failure.sentence, error_class=failure.error_class)
        if not written:
            return PushOutcome(kind=PushKind.UNCHANGED, sentence=f"{self._root} holds this status already")
        return PushOutcome(kind=PushKind.PUSHED, sentence=f"{written} status files written to {self._root}", attempts=1)

    def _write(self, path: str, content: bytes | None) -> bool:
        file = self._file(path)
        if _read(file) == content:
            return False
        if content is None:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
            with contextlib.suppress(OSError):  # not empty, or the root
                for folder in file.parents:
                    if folder == self._root:
                        break
                    folder.rmdir()
            return True
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
                os.fchmod(out.fileno(), 0o644)
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
        return True

    def _file(self, path: str) -> Path:
        """Where `path` is on disk. Raises UnsafePath, also when a link in the folder leads out of it."""
        file = self._root / check_path(path)
        root = self._root.resolve()
        if not file.parent.resolve().is_relative_to(root):
            raise UnsafePath(f"a link in the status folder leads out of it: {path[:200]!r}")
        return file


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
