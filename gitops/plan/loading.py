"""Files of a tree to parsed documents, each blob parsed once while it is in use.

The cache is keyed by path and content id (lines and messages name the path) and bounded by the text it stands for:
parsed, a text takes about fifteen times its size, and what stays in memory for good are the compiled units.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TypeVar

from gitops.manifests.codes import FILE_TOO_LARGE
from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import ReadResult, read_documents
from gitops.model.catalogue import finding
from gitops.model.documents import Document
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import WorkloadRef
from gitops.model.trees import FileTree, TreeEntry
from gitops.plan import codes
from gitops.plan.documents import typed

CACHED_BYTES = 64 * 1024
"""Of text whose documents are kept: the repository's and the clusters' documents, and what the last workloads share."""

LFS_MARK = b"version https://git-lfs.github.com/spec/"
"""First bytes of a Git LFS pointer file (git-lfs specification, "The Pointer")."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""A byte order mark and white space: what is left of a file that was to be written."""

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's documents. `complete` is False when something of the file could not be read; a `blank` one holds not
    even a comment."""

    documents: tuple[RawDocument, ...]
    findings: tuple[Finding, ...]
    complete: bool
    blank: bool = False


class Loader:
    """Reads files of one tree after another; not thread-safe."""

    def __init__(self, *, capacity: int = CACHED_BYTES) -> None:
        self._cache: OrderedDict[tuple[str, str], tuple[ReadResult, int, bool]] = OrderedDict()  # with bytes and blank
        self._cached = 0
        self._capacity = capacity
        self.parsed = 0  # files parsed since the start: what caches are measured by
        self.failed = 0  # reads that failed since the start: what was made without them is not to be kept

    def load(self, tree: FileTree, entry: TreeEntry, *, workload: WorkloadRef | None = None) -> Loaded:
        """All documents of a file. What is wrong with the file comes as findings of the workload."""
        key = (entry.path, entry.content_id)
        known = self._cache.get(key)
        if known is None:
            try:
                data = tree.read(entry.path)
            except OSError as error:
                self.failed += 1
                message = f"{entry.path} cannot be read: {error.strerror or type(error).__name__}"
                code = FILE_TOO_LARGE if error.errno == errno.EFBIG else codes.NO_SUCH_FILE
                found = finding(code, message, Origin(entry.path), workload=workload)
                return Loaded((), (found,), False)
            result = self._parse(data, entry.path)
            blank = not result.documents and not data.strip(_BLANK)
            self._keep(key, result, len(data), blank)
        else:
            result, _, blank = known
            self._cache.move_to_end(key)
        findings = result.findings
        if workload is not None:
            findings = tuple(replace(f, workload=workload) for f in findings)
        broken = has_errors(findings)
        return Loaded(result.documents, findings, result.complete and not broken, blank)

    def load_one(
        self,
        tree: FileTree,
        entry: TreeEntry,
        model: type[D],
        *,
        workload: WorkloadRef | None = None,
        partly: bool = False,
    ) -> tuple[RawDocument | None, D | None, tuple[Finding, ...]]:
        """The one document of a file, as a kind. The model is None when a finding is an error; `partly`: it may then be
        what is sound of the document, for further findings only."""
        loaded = self.load(tree, entry, workload=workload)
        if not loaded.complete:
            return None, None, loaded.findings
        if len(loaded.documents) != 1:
            message = f"{entry.path} holds {len(loaded.documents)} documents; expected one {model.__name__}"
            origin = Origin(entry.path, loaded.documents[1].line if len(loaded.documents) > 1 else 0)
            found = finding(codes.NOT_ONE_DOCUMENT, message, origin, workload=workload)
            return None, None, (*loaded.findings, found)
        document = loaded.documents[0]
        parsed, findings = typed(document, model, workload=workload, partly=partly)
        return document, parsed, (*loaded.findings, *findings)

    def _keep(self, key: tuple[str, str], result: ReadResult, size: int, blank: bool) -> None:
        """The last file always, however large: it may be used again at once."""
        self._cache[key] = (result, size, blank)
        self._cached += size
        while self._cached > self._capacity and len(self._cache) > 1:
            _, (_, dropped, _) = self._cache.popitem(last=False)
            self._cached -= dropped

    def _parse(self, data: bytes, path: str) -> ReadResult:
        if data.startswith(LFS_MARK):
            found = finding(codes.LFS_POINTER, f"{path} is a Git LFS pointer, not the file itself", Origin(path, 1))
            return ReadResult((), (found,), readable=False)
        self.parsed += 1
        return read_documents(data, file=path)
