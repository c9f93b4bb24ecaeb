"""Reading what the daemon writes: the status branch, fetched each time, or the status folder of a plain folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitops.settings import Settings
    from gitops.source.mirror import Mirror
    from gitops.source.statuses import StatusStore


class StatusReader:
    """Gives the present files, again and again. Make it with reading()."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mirror: Mirror | None = None
        self._store: StatusStore | None = None
        self._ends = ExitStack()

    def read(self, folders: Iterable[str]) -> dict[str, bytes]:
        """Path → content of what is below these folders now. Raises SettingsError, RemoteRefused, SourceError, OSError;
        after a SourceError or OSError it may be tried again."""
        if self._store is None:
            self._store = self._folder() if self._settings.path is not None else self._branch()
        elif self._mirror is not None:
            self._mirror.fetch_status()
        store = self._store
        return {path: data for folder in folders for path, data in store.contents(folder).items()}

    def close(self) -> None:
        self._mirror = None
        self._ends.close()

    def _folder(self) -> StatusStore:
        from gitops.source.status_folder import StatusFolder

        return StatusFolder(self._settings.state_dir / "status")

    def _branch(self) -> StatusStore:
        from gitops.model.identity import ReconcilerName, WorkloadRef
        from gitops.plan.compiling import Compiler
        from gitops.settings import SettingsError
        from gitops.source.status_branch import StatusBranch

        if self._mirror is None:
            self._mirror = self._open()
        mirror = self._mirror
        head = mirror.fetch().head
        if head is None:
            raise SettingsError(f"{mirror.remote.display} has no branch {mirror.remote.branch}")
        nothing: frozenset[WorkloadRef] = frozenset()
        compilation = Compiler(self._settings.operator_registry()).compile(mirror.tree(head), only=nothing)
        if compilation.repository is None:
            raise SettingsError(f"{mirror.remote.display}: gitops.yaml cannot be read at {head[:12]}")
        mirror.watch_status(compilation.repository.spec.statusBranch)
        mirror.fetch_status()
        return StatusBranch(mirror, reconciler=ReconcilerName(compilation.repository.metadata.name))

    def _open(self) -> Mirror:
        """A mirror of its own, since the daemon's is locked while it runs; in a temporary folder while another command
        (`gitops drift --watch`) has that one, or where nothing can be written."""
        from gitops import daemon
        from gitops.source.errors import SourceError, SourceErrorClass

        try:
            mirror = daemon.open_mirror(self._settings, self._settings.state_dir / "status-mirror")
        except SourceError as error:
            if error.error_class is not SourceErrorClass.STATE:
                raise
            folder = self._ends.enter_context(TemporaryDirectory(prefix="gitops-status-"))
            mirror = daemon.open_mirror(self._settings, Path(folder))
        self._ends.callback(mirror.close)
        return mirror


@contextmanager
def reading(settings: Settings) -> Iterator[StatusReader]:
    reader = StatusReader(settings)
    try:
        yield reader
    finally:
        reader.close()


def read_branch(settings: Settings, *folders: str) -> dict[str, bytes]:
    """Path → content of what is below these folders, read once. Raises SettingsError, RemoteRefused, SourceError,
    OSError."""
    with reading(settings) as reader:
        return reader.read(folders)
