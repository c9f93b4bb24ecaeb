"""Patches before they are merged: which object they are for, and what none of them may do.

Checked once for each patch, not for each unit: nothing here depends on the base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gitops.manifests import sanitizing
from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.overlays import codes
from gitops.overlays.provenance import Provenance

RESERVED_PREFIXES = ("gitops/", "applyset.kubernetes.io/")
"""Labels and annotations by which the daemon tells what is its own."""

_DIRECTIVES = frozenset({"$patch", "$retainKeys"})
_DIRECTIVE_PREFIXES = ("$setElementOrder/", "$deleteFromPrimitiveList/")

MARKS = (("metadata", "labels"), ("metadata", "annotations"))
"""Where an object's labels and annotations are."""

IDENTITY_FIELDS = ("name", "namespace", "generateName")
"""Fields of metadata that say which object it is."""

OWNERSHIP_FIELDS = frozenset({"finalizers", "ownerReferences", *sanitizing.SERVER_METADATA})
"""Fields of metadata by which objects, controllers and the cluster hold on to it."""

_PATTERN = re.compile(r"[*?\[\]{}()|^$+\\]")


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """The one base object a patch is for: exact, no patterns. `namespace` "" means the target does not say."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def matches(self, body: dict[str, Any]) -> bool:
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            return False
        return (
            body.get("apiVersion") == self.api_version
            and body.get("kind") == self.kind
            and metadata.get("name") == self.name
            and (not self.namespace or metadata.get("namespace") == self.namespace)
        )

    def pattern_in(self) -> str | None:
        """The first field that looks like a glob or a regular expression, as patch entries call it."""
        fields = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "namespace": self.namespace}
        return next((field for field, value in fields.items() if _PATTERN.search(value)), None)

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {place}"


@dataclass(frozen=True, slots=True)
class MergePatchSource:
    """A merge patch with the origins of its values. `by_key`: lists that the kind's schema keys are merged by item."""

    patch: dict[str, Any]
    provenance: Provenance
    by_key: bool = False

    @property
    def origin(self) -> Origin:
        return self.provenance.origin_of(())


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A patch document taken apart. `target` is None when it names none (then there is a finding)."""

    target: Target | None
    source: MergePatchSource
    findings: tuple[Finding, ...]


def read_patch(document: RawDocument) -> PatchFile:
    """A document of a patch file: apiVersion, kind, metadata.name and namespace are its target, the rest the patch."""
    provenance = Provenance.of_document(document)
    body = document.body if isinstance(document.body, dict) else {}
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    patch = {k: v for k, v in body.items() if k not in ("apiVersion", "kind")}
    if isinstance(patch.get("metadata"), dict):
        patch["metadata"] = {k: v for k, v in metadata.items() if k not in ("name", "namespace")}
        if not patch["metadata"]:
            del patch["metadata"]
    source = MergePatchSource(patch, provenance)
    names = {"apiVersion": body.get("apiVersion"), "kind": body.get("kind"), "metadata.name": metadata.get("name")}
    wrong = [field for field, name in names.items() if not isinstance(name, str) or not name]
    namespace = metadata.get("namespace", "")
    if not isinstance(namespace, str):
        wrong.append("metadata.namespace")
    if wrong:
        message = f"document {document.index} does not name its target: {', '.join(wrong)} missing or not text"
        return PatchFile(None, source, (finding(codes.NOT_A_PATCH, message, provenance.origin_of(())),))
    target = Target(str(body["apiVersion"]), str(body["kind"]), str(metadata["name"]), str(namespace))
    if refused := check_target(target, provenance, names=("metadata",)):
        return PatchFile(None, source, refused)
    return PatchFile(target, source, check_patch(source, target))


def check_target(target: Target, provenance: Provenance, *, names: Path = ()) -> tuple[Finding, ...]:
    """A finding when the target is a pattern. `names` is where its name and namespace are written."""
    field = target.pattern_in()
    if field is None:
        return ()
    path = (*names, field) if field in ("name", "namespace") else (field,)
    message = f"the target's {field} is a pattern: {target}"
    return (finding(codes.TARGET_IS_PATTERN, message, provenance.origin_of(path), path=path),)


def check_patch(source: MergePatchSource, target: Target) -> tuple[Finding, ...]:
    """What the patch must not do. An identity that repeats the target's is let through: merging it changes nothing."""
    findings = [
        finding(code, f"patch of {target}: {message}", source.provenance.origin_of(path), path=path)
        for code, path, message in _problems(source.patch, target)
    ]
    if not source.patch:
        findings.append(finding(codes.EMPTY_PATCH, f"patch of {target} is empty", source.provenance.origin_of(())))
    return tuple(findings)


def _problems(patch: dict[str, Any], target: Target) -> Iterator[tuple[str, Path, str]]:
    same = {"apiVersion": target.api_version, "kind": target.kind}
    for key, expected in same.items():
        if key in patch and patch[key] != expected:
            yield codes.IDENTITY, (key,), f"sets {key}"
    if "metadata" in patch:
        metadata = patch["metadata"]
        if not isinstance(metadata, dict):
            yield codes.IDENTITY, ("metadata",), "replaces metadata as a whole"
        else:
            yield from _metadata_problems(metadata, target)
    yield from _walk(patch, ())


def content_problems(value: Any, path: Path) -> Iterator[tuple[str, Path, str]]:
    """Directives and reserved keys in a value that is put at a path, or removed from there (None)."""
    yield from _walk({path[-1]: value}, path[:-1])


def _metadata_problems(metadata: dict[str, Any], target: Target) -> Iterator[tuple[str, Path, str]]:
    for key, value in metadata.items():
        path = ("metadata", key)
        if key in OWNERSHIP_FIELDS:
            yield codes.OWNERSHIP, path, f"sets metadata.{key}"
        elif (
            (key == "name" and value != target.name)
            or (key == "namespace" and value != (target.namespace or None))
            or key == "generateName"
        ):
            yield codes.IDENTITY, path, f"sets metadata.{key}"
        elif key in ("labels", "annotations") and not isinstance(value, dict):
            yield codes.RESERVED, path, f"replaces metadata.{key} as a whole"


def _walk(value: Any, path: Path) -> Iterator[tuple[str, Path, str]]:
    """Strategic merge directives anywhere, and reserved keys of any metadata (pod templates have one too)."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from _walk(item, (*path, position))
    elif isinstance(value, dict):
        in_metadata = len(path) >= 2 and path[-2] == "metadata" and path[-1] in ("labels", "annotations")
        for key, child in value.items():
            below = (*path, key)
            if key in _DIRECTIVES or key.startswith(_DIRECTIVE_PREFIXES):
                yield codes.DIRECTIVE, below, f"`{key}` is a directive of strategic merge patches"
            elif in_metadata and key.startswith(RESERVED_PREFIXES):
                yield codes.RESERVED, below, f"changes the reserved key {key}"
            if isinstance(child, (dict, list)):
                yield from _walk(child, below)
