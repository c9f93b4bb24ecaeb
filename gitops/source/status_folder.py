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

    def read(self, path: str) -> bytes | None:
        file = self._file(path)
        try:
            return file.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def files(self, prefix: str = "") -> list[str]:
        start = self._root / prefix.strip("/") if prefix.strip("/") else self._root
        found = []
        for folder, folders, names in os.walk(start):
            folders[:] = [name for name in folders if not name.startswith(".")]
            inside = Path(folder).relative_to(self._root)
            found += [(inside / name).as_posix() for name in names if not name.startswith(".")]
        return sorted(found)

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
        if self.read(path) == content:
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
