"""Files that cannot be read are findings of their workload, with what to do."""

from __future__ import annotations

import errno

import pytest

from gitops.model.trees import EntryKind, FileTree, TreeEntry
from gitops.plan.loading import Loader


class Unreadable:
    def __init__(self, error: OSError) -> None:
        self._error = error

    def entries(self) -> tuple[TreeEntry, ...]:
        return ()

    def read(self, path: str) -> bytes:
        raise self._error

    def tree_id(self, path: str = "") -> str | None:
        return None


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.EFBIG, "larger than 16 bytes", "a.yaml"), "GO1001", "larger than 16 bytes"),
        (PermissionError(errno.EACCES, "Permission denied", "a.yaml"), "GO2104", "Permission denied"),
        (FileNotFoundError("a.yaml"), "GO2104", "FileNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_reason(error: OSError, code: str, words: str) -> None:
    tree: FileTree = Unreadable(error)
    loaded = Loader().load(tree, TreeEntry("a.yaml", "0" * 40, EntryKind.FILE))
    assert not loaded.complete
    assert [(str(f.code), f.message) for f in loaded.findings] == [(code, f"a.yaml cannot be read: {words}")]
