"""Files of roles and bindings, as `gitops rbac check` is given them: read as every manifest is, and never half.

Charts keep roles as templates, some of which are valid YAML by accident and then name no role that exists. So Go
template text in an object of RBAC makes its file unreadable, as a syntax error does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, Severity
from gitops.policy.rbac import codes
from gitops.policy.rbac.olm import add_csv, is_csv
from gitops.policy.rbac.roles import GROUP, RbacObjects, Source, ref_of

_ACTION = re.compile(rb"\{\{")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What came of a file: whether it could be read as a whole, and what is to say about it."""

    readable: bool
    findings: tuple[Finding, ...]


def add_file(objects: RbacObjects, data: bytes, *, file: str) -> ManifestFile:
    """Read a file's roles, bindings, ServiceAccounts and ClusterServiceVersions into `objects`; other kinds are passed
    over. Nothing of a file that cannot be read as a whole is used."""
    result = read_documents(data, file=file)
    if not result.complete and (action := _ACTION.search(data)) is not None:
        origin = Origin(file, data.count(b"\n", 0, action.start()) + 1)
        return ManifestFile(False, (finding(codes.TEMPLATE, "the file has Go template text", origin),))
    findings = [*result.findings, *(f for document in result.documents for f in _problems(document))]
    if not result.complete or any(f.severity is Severity.ERROR for f in findings):
        return ManifestFile(False, tuple(findings))
    for document in result.documents:
        source = Source(document.body, _Lines(document))
        if is_csv(document.body):
            add_csv(objects, source)
        else:
            objects.add(source)
    return ManifestFile(True, tuple(findings))


@dataclass(frozen=True, slots=True)
class _Lines:
    document: RawDocument

    def __call__(self, path: Path) -> Origin:
        return Origin(self.document.file, self.document.lines.line_of(path))


def _problems(document: RawDocument) -> Iterator[Finding]:
    body, lines = document.body, _Lines(document)
    if not isinstance(body, dict) or not all(isinstance(body.get(key), str) for key in ("apiVersion", "kind")):
        yield finding(codes.NO_MANIFEST, f"document {document.index} has no apiVersion and kind", lines(()))
        return
    ref = ref_of(body)
    if ref.group != GROUP and not is_csv(body):
        return
    if not ref.name:
        yield finding(codes.NO_MANIFEST, f"document {document.index}: {ref.kind} without metadata.name", lines(()))
    for path in _templates(body, ()):
        yield finding(codes.TEMPLATE, f"document {document.index} has Go template text", lines(path), object=ref)
        return


def _templates(value: Any, path: Path) -> Iterator[Path]:
    """Places of texts with a template action."""
    if isinstance(value, str):
        if "{{" in value:
            yield path
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _templates(child, (*path, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _templates(child, (*path, number))
