"""Which files of a workload's folder its documents name: manifests and patch files; and which nobody names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.patches import Patch, patch_path
from gitops.model.trees import TreeEntry
from gitops.plan import codes, paths
from gitops.plan.layout import WorkloadFolder, is_prose


@dataclass(frozen=True, slots=True)
class PatchList:
    """A list of patch entries and where it is written."""

    entries: Sequence[Patch]
    document: RawDocument
    at: Path


@dataclass(frozen=True, slots=True)
class Files:
    manifests: tuple[TreeEntry, ...]
    findings: tuple[Finding, ...]


def resolve_files(
    folder: WorkloadFolder,
    *,
    manifests: Sequence[str],
    document: RawDocument,
    patches: Iterable[PatchList],
    own: Iterable[str],
    complete: bool = True,
) -> Files:
    """The manifests in the order named (files below a folder sorted by path), with findings for every bad path.

    `document` is where `spec.manifests` is written; `own` are the workload's documents themselves. Of files that nobody
    names nothing is said unless the documents are `complete`.
    """
    resolver = _Resolver(folder, own)
    for position, path in enumerate(manifests):
        resolver.manifests(path, document, ("spec", "manifests", position))
    for listed in patches:
        for position, entry in enumerate(listed.entries):
            named = patch_path(entry)
            if named is not None:
                at = (*listed.at, position) if isinstance(entry, str) else (*listed.at, position, "path")
                resolver.patch(named, listed.document, at)
    if complete:
        resolver.unnamed()
    return Files(tuple(resolver.found.values()), tuple(resolver.findings))


class _Resolver:
    def __init__(self, folder: WorkloadFolder, own: Iterable[str]) -> None:
        self.folder = folder
        self.own = frozenset(own)
        self.found: dict[str, TreeEntry] = {}
        self.patches: set[str] = set()
        self.findings: list[Finding] = []

    def say(self, code: str, message: str, document: RawDocument, at: Path) -> None:
        origin = Origin(document.file, document.lines.line_of(at))
        self.findings.append(finding(code, message, origin, workload=self.folder.ref, path=at))

    def manifests(self, path: str, document: RawDocument, at: Path) -> None:
        for full in self._select(path, document, at):
            if full in self.found:
                self.say(codes.NAMED_TWICE, f"{full} is named twice", document, at)
            self.found[full] = self.folder.entries[full]

    def patch(self, path: str, document: RawDocument, at: Path) -> None:
        selected = self._select(path, document, at)
        if selected and f"{self.folder.root}/{path}" not in self.folder.entries:
            self.say(codes.NO_SUCH_FILE, f"{path} is a folder; a patch is one file", document, at)
        for full in selected:
            if full in self.found:
                self.say(codes.NAMED_TWICE, f"{full} is named as a manifest and as a patch", document, at)
        self.patches.update(selected)

    def _select(self, path: str, document: RawDocument, at: Path) -> list[str]:
        if (why := paths.refusal(path)) is not None:
            self.say(codes.BAD_PATH, f"not a path inside {self.folder.root}: {why}", document, at)
            return []
        selected = paths.select(self.folder, path)
        if selected is None:
            self.say(codes.NO_SUCH_FILE, f"{self.folder.root}/{path} does not exist", document, at)
            return []
        chosen = [full for full in selected if full not in self.own]
        if not chosen:
            self.say(codes.NO_SUCH_FILE, f"{self.folder.root}/{path} holds no manifest", document, at)
        return chosen

    def unnamed(self) -> None:
        for path in self.folder.entries:
            if path not in self.own and path not in self.found and path not in self.patches and not is_prose(path):
                message = f"{path} has no effect: neither a manifest nor a patch that is listed"
                self.findings.append(finding(codes.UNNAMED_FILE, message, Origin(path), workload=self.folder.ref))
