"""The layout of a repository: which files belong to which workload, before anything is read.

Only entries are looked at (path, kind, content id), so this costs the same on every commit. The folder name is the
workload's name: a file that cannot be read then holds a known workload, and never hides one (I1).
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gitops.manifests.canonical import digest
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import WorkloadKind, WorkloadRef
from gitops.model.trees import EntryKind, TreeEntry
from gitops.plan import codes
from gitops.plan.naming import folded
from gitops.policy import codes as policy_codes

REPOSITORY_FILE = "gitops.yaml"
CLUSTERS = "clusters"
POLICIES = "policies"
OPERATORS = "operators"
FOLDERS: dict[str, WorkloadKind] = {
    "functions": WorkloadKind.FUNCTION,
    "bundles": WorkloadKind.BUNDLE,
    "tasks": WorkloadKind.TASK,
}
OURS = frozenset({REPOSITORY_FILE, CLUSTERS, POLICIES, OPERATORS, *FOLDERS})
"""First parts of the paths that are read; everything else in the repository is none of our business."""

DOCUMENT_FILES = {"function.yaml": "functions", "bundle.yaml": "bundles", "task.yaml": "tasks"}
MANIFEST_ENDINGS = (".yaml", ".yml", ".json")
"""Files that a folder entry reads (JSON is YAML)."""

_LONGEST_NAME = 32
"""Characters of a folder's name that are compared with ours."""

HARMLESS = frozenset({".gitkeep", ".gitignore", ".gitattributes", ".editorconfig", "CODEOWNERS", "OWNERS"})


@dataclass(frozen=True, slots=True)
class WorkloadFolder:
    """One workload's files, sorted by path. `content` is a digest over all of them."""

    ref: WorkloadRef
    root: str
    entries: dict[str, TreeEntry]
    content: bytes

    @property
    def origin(self) -> Origin:
        return Origin(self.root)


@dataclass(frozen=True, slots=True)
class Layout:
    """A tree sorted into its parts.

    `unreadable` are workloads with a link, submodule or the like among their files; `whole` is False when something
    may hide a workload or a cluster altogether, `policies_whole` when it may hide a policy. `broken_installs` are paths
    below operators/ that may hide an OperatorInstall.
    """

    repository: TreeEntry | None
    clusters: dict[str, TreeEntry]
    workloads: dict[WorkloadRef, WorkloadFolder]
    policies: tuple[TreeEntry, ...]
    findings: tuple[Finding, ...]
    unreadable: frozenset[WorkloadRef]
    broken_clusters: frozenset[str]
    broken_installs: frozenset[str]
    whole: bool
    policies_whole: bool


def is_prose(path: str) -> bool:
    """Files that people keep beside manifests and that are never read: notes, licences, Git's own."""
    name = path.rpartition("/")[2]
    if name.startswith(("README", "LICENSE")):
        return not name.endswith(MANIFEST_ENDINGS)
    return name in HARMLESS or name.endswith((".md", ".txt", ".adoc", ".rst"))


def read_layout(entries: Iterable[TreeEntry]) -> Layout:
    """Sort a tree's entries into repository document, clusters, workloads and policies."""
    sorter = _Sorter()
    for entry in entries:
        sorter.add(entry)
    return sorter.result()


def _looks_like(folder: str) -> str:
    """The folder of ours that this one is probably meant to be: other case, one of them, or a slip."""
    name = folder.casefold()
    if name == "policy":
        return POLICIES
    close = difflib.get_close_matches(name[:_LONGEST_NAME], sorted(OURS - {REPOSITORY_FILE}), n=1, cutoff=0.85)
    return close[0] if close else ""


class _Sorter:
    def __init__(self) -> None:
        self.repository: TreeEntry | None = None
        self.clusters: dict[str, TreeEntry] = {}
        self.files: defaultdict[WorkloadRef, dict[str, TreeEntry]] = defaultdict(dict)
        self.roots: dict[WorkloadRef, str] = {}
        self.policies: list[TreeEntry] = []
        self.findings: list[Finding] = []
        self.unreadable: set[WorkloadRef] = set()
        self.broken: set[str] = set()
        self.broken_installs: set[str] = set()
        self.whole = True
        self.policies_whole = True
        self.elsewhere: set[str] = set()
        self.seen: dict[str, str] = {}
        self.prefix = "\0"  # of the folder that the last entry was in, and its files
        self.current: dict[str, TreeEntry] = {}

    def add(self, entry: TreeEntry) -> None:
        if entry.path.startswith(self.prefix) and entry.kind is EntryKind.FILE:
            # Entries are sorted, so almost all of them belong to the workload of the one before.
            self._case(entry.path)
            self.current[entry.path] = entry
            return
        parts = entry.path.split("/")
        if parts[0] not in OURS:
            self._elsewhere(entry, parts[0] if len(parts) > 1 else "")
            if parts[-1] in DOCUMENT_FILES and entry.kind is EntryKind.FILE:
                self.hidden(codes.MISPLACED, f"{parts[-1]} belongs into {DOCUMENT_FILES[parts[-1]]}/<name>/", entry)
            return
        self._case(entry.path)
        if entry.path == REPOSITORY_FILE:
            if self._plain(entry, None):
                self.repository = entry
        elif len(parts) == 1:
            # A file, link or submodule where a folder of ours should be: everything in it may be hidden.
            if self._plain(entry, None):
                self.hidden(codes.UNEXPECTED_FILE, f"{entry.path} is a file; it should be a folder", entry)
            self.whole = False
            if entry.path == POLICIES:
                self.policies_whole = False
            elif entry.path == OPERATORS:
                self.broken_installs.add(entry.path)
        elif parts[0] == REPOSITORY_FILE:
            message = f"{REPOSITORY_FILE} is a folder; it should be a file"
            self.findings.append(finding(codes.UNEXPECTED_FILE, message, Origin(REPOSITORY_FILE)))
        elif parts[0] == CLUSTERS:
            self._cluster(entry, parts)
        elif parts[0] == POLICIES:
            if not self._plain(entry, None):
                self.policies_whole = False
            elif not is_prose(entry.path):
                self.policies.append(entry)
        elif parts[0] == OPERATORS:
            self._operator(entry, parts)
        else:
            self._workload(entry, parts)

    def hidden(self, code: str, message: str, entry: TreeEntry) -> None:
        """An error that may hide which workloads or clusters exist."""
        self.findings.append(finding(code, message, Origin(entry.path)))
        self.whole = False

    def _elsewhere(self, entry: TreeEntry, folder: str) -> None:
        """A folder that is not ours and may be meant: told once, at its first YAML or JSON file."""
        if folder and folder not in self.elsewhere and entry.path.endswith(MANIFEST_ENDINGS):
            self.elsewhere.add(folder)
            if meant := _looks_like(folder):
                message = f"{folder}/ is not read; did you mean {meant}/?"
                self.findings.append(finding(policy_codes.LIKE_A_FOLDER, message, Origin(entry.path)))

    def _case(self, path: str) -> None:
        key = folded(path)
        other = self.seen.setdefault(key, path)
        if other != path:
            message = f"{path} and {other} are one path where case or accents are folded"
            self.findings.append(finding(codes.CASE_COLLISION, message, Origin(path)))

    def _plain(self, entry: TreeEntry, workload: WorkloadRef | None) -> bool:
        """Whether the entry is a real file; a finding otherwise. A link's target is neither read nor shown."""
        if entry.kind is EntryKind.FILE:
            return True
        code = codes.SYMLINK if entry.kind is EntryKind.SYMLINK else codes.SUBMODULE
        what = "a symbolic link" if entry.kind is EntryKind.SYMLINK else "a submodule"
        self.findings.append(finding(code, f"{entry.path} is {what}", Origin(entry.path), workload=workload))
        if workload is not None:
            self.unreadable.add(workload)
        return False

    def _cluster(self, entry: TreeEntry, parts: list[str]) -> None:
        if is_prose(entry.path) and entry.kind is EntryKind.FILE:
            return
        name = parts[1].removesuffix(".yaml")
        if not self._plain(entry, None):
            self.broken.add(name)
            self.whole = False
        elif len(parts) == 2 and parts[1].endswith(".yaml"):
            self.clusters[name] = entry
        else:
            self.broken.add(parts[1].partition(".")[0])
            self.hidden(codes.UNEXPECTED_FILE, "clusters/ holds one file <name>.yaml for each cluster", entry)

    def _operator(self, entry: TreeEntry, parts: list[str]) -> None:
        if is_prose(entry.path) and entry.kind is EntryKind.FILE:
            return
        ref = WorkloadRef(WorkloadKind.OPERATOR, parts[1].removesuffix(".yaml"))
        if entry.kind is EntryKind.FILE and (len(parts) > 2 or not parts[1].endswith(".yaml")):
            self.hidden(codes.UNEXPECTED_FILE, "operators/ holds one file <name>.yaml for each operator", entry)
            self.broken_installs.add(entry.path)
        else:
            if entry.kind is not EntryKind.FILE:
                self.broken_installs.add(entry.path)
            self._belongs(ref, entry, f"{OPERATORS}/{parts[1]}")

    def _workload(self, entry: TreeEntry, parts: list[str]) -> None:
        kind = FOLDERS[parts[0]]
        if len(parts) == 2 and entry.kind is EntryKind.FILE:
            if not is_prose(entry.path):
                self.hidden(codes.UNEXPECTED_FILE, f"{parts[0]}/ holds one folder for each {kind}", entry)
            return
        ref = WorkloadRef(kind, parts[1])
        self._belongs(ref, entry, f"{parts[0]}/{parts[1]}")

    def _belongs(self, ref: WorkloadRef, entry: TreeEntry, root: str) -> None:
        self.roots.setdefault(ref, root)
        if self._plain(entry, ref):
            self.files[ref][entry.path] = entry
            if ref.kind is not WorkloadKind.OPERATOR:  # that is one file
                self.prefix, self.current = f"{root}/", self.files[ref]

    def result(self) -> Layout:
        workloads = {}
        for ref in sorted(self.roots):
            files = self.files.get(ref, {})
            content = digest("\0".join(f"{e.content_id} {e.path}" for e in files.values()).encode())
            workloads[ref] = WorkloadFolder(ref, self.roots[ref], files, content)
        return Layout(
            repository=self.repository,
            clusters=self.clusters,
            workloads=workloads,
            policies=tuple(self.policies),
            findings=tuple(self.findings),
            unreadable=frozenset(self.unreadable),
            broken_clusters=frozenset(self.broken),
            broken_installs=frozenset(self.broken_installs),
            whole=self.whole,
            policies_whole=self.policies_whole,
        )
