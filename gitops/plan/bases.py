"""The base of a workload: every object its manifests declare, before overlays, with identity and place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.checking import check_object
from gitops.manifests.raw import RawDocument
from gitops.manifests.scalars import shown
from gitops.model.catalogue import finding
from gitops.model.documents import API_VERSION
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import GroupVersionKind, ObjectRef, WorkloadRef
from gitops.model.trees import FileTree, TreeEntry
from gitops.plan import codes
from gitops.plan.loading import Loader
from gitops.policy import codes as policy_codes

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_PATH_SEGMENT = re.compile(r"(?!\.\.?\Z)[^/%\x00-\x20\x7f]+\Z")
_API_VERSION = re.compile(r"(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*\Z")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*\Z")

OUR_GROUP = API_VERSION.partition("/")[0]

SEGMENT_NAMED_GROUPS = frozenset({"rbac.authorization.k8s.io"})
"""Groups whose names only need to be a path segment (`system:node`); all others are DNS names (apimachinery,
pkg/api/validation/path)."""


@dataclass(frozen=True, slots=True)
class BaseObject:
    """One declared object. `namespace` is as written ("" when absent)."""

    document: RawDocument
    gvk: GroupVersionKind
    namespace: str
    name: str

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = self.document.body
        return body

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.gvk.group, self.gvk.kind, self.namespace, self.name)

    def origin(self, *path: str | int) -> Origin:
        return Origin(self.document.file, self.document.lines.line_of(path))


@dataclass(frozen=True, slots=True)
class Base:
    """`complete`: every document could be read and told which object it is."""

    objects: tuple[BaseObject, ...]
    findings: tuple[Finding, ...]
    complete: bool

    @property
    def sound(self) -> bool:
        """Whether units can be made of it."""
        return bool(self.objects) and self.complete and not has_errors(self.findings)


def read_base(loader: Loader, tree: FileTree, entries: Sequence[TreeEntry], workload: WorkloadRef) -> Base:
    """Read the manifests of a workload in the order given. Two objects of one identity are a finding (GO5001)."""
    objects: list[BaseObject] = []
    findings: list[Finding] = []
    complete = True
    for entry in entries:
        loaded = loader.load(tree, entry, workload=workload)
        findings += loaded.findings
        complete = complete and loaded.complete and not loaded.blank
        if loaded.blank:
            findings.append(empty_file(entry.path, workload))
        for document in loaded.documents:
            found = _identify(document, workload)
            if isinstance(found, list):
                findings += found
                complete = False
            else:
                objects.append(found)
    findings += _duplicates(objects, workload)
    if entries and complete and not objects and not findings:
        message = f"{workload} declares no object"
        findings.append(finding(codes.NO_OBJECTS, message, Origin(entries[0].path), workload=workload))
    return Base(tuple(objects), tuple(findings), complete)


def empty_file(path: str, workload: WorkloadRef | None = None) -> Finding:
    """One with comments alone is meant; one with nothing may be half of a save."""
    message = f"{path.rpartition('/')[2]} is empty"
    return finding(codes.EMPTY_FILE, message, Origin(path), workload=workload)


def _identify(document: RawDocument, workload: WorkloadRef) -> BaseObject | list[Finding]:
    if problems := check_object(document):
        return [replace(problem, workload=workload) for problem in problems]
    body = document.body
    gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    if gvk.group == OUR_GROUP:
        origin = Origin(document.file, document.lines.line_of(("kind",)))
        message = f"document {document.index}: a {gvk.kind} is read by the reconciler and is no manifest"
        return [finding(codes.WRONG_KIND, message, origin, workload=workload, path=("kind",))]
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    problems_found: list[tuple[str, tuple[str, ...]]] = []
    if not _API_VERSION.match(body["apiVersion"]):
        problems_found.append(("not an apiVersion", ("apiVersion",)))
    if not _KIND.match(gvk.kind):
        problems_found.append(("not a kind", ("kind",)))
    if not _valid_name(gvk.group, name):
        problems_found.append((f"{gvk.kind}: {shown(name)} is not a valid name", ("metadata", "name")))
    if "namespace" in body["metadata"] and (len(namespace) > 63 or not _LABEL.match(namespace)):
        problems_found.append((f"{gvk.kind} {name[:63]}: not a valid namespace", ("metadata", "namespace")))
    if problems_found:
        return [
            finding(
                policy_codes.BAD_NAME,
                f"document {document.index}: {message}",
                Origin(document.file, document.lines.line_of(path)),
                workload=workload,
                path=path,
            )
            for message, path in problems_found
        ]
    return BaseObject(document, gvk, namespace, name)


def _valid_name(group: str, name: str) -> bool:
    if len(name) > 253:
        return False
    pattern = _PATH_SEGMENT if group in SEGMENT_NAMED_GROUPS else _NAME
    return bool(pattern.match(name))


def _duplicates(objects: list[BaseObject], workload: WorkloadRef) -> list[Finding]:
    first: dict[ObjectRef, BaseObject] = {}
    found = []
    for item in objects:
        other = first.setdefault(item.ref, item)
        if other is not item:
            message = f"{item.ref} is also declared at {other.origin()}"
            found.append(finding(codes.DECLARED_TWICE, message, item.origin(), object=item.ref, workload=workload))
    return found
