"""Patch entries of workload documents: merge patches (RFC 7386) and JSON patches (RFC 6902), in files or in line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gitops.model.documents import Applied, DnsLabel, Document, NonBlank, Problem, RepoPath, Rule


class PatchTarget(Document):
    """One object of the base, exactly. `namespace` is for bundles, where two objects may share a name."""

    apiVersion: Applied[NonBlank]
    kind: Applied[NonBlank]
    name: Applied[NonBlank]
    namespace: Applied[DnsLabel | None] = None


class PatchOptions(Document):
    optional: Applied[bool] = False
    """The target may be absent: a notice instead of an error."""
    changesComponents: Applied[bool] = False
    """Consent to adding or removing components of a graph; without it their set must stay as in the base."""


class MergePatchFile(PatchOptions):
    """A file of merge patches with options; a plain path is the same without."""

    path: Applied[RepoPath]
    lists: Applied[Literal["replace", "byKey"]] = "replace"
    """byKey: lists that the kind's schema keys (x-kubernetes-list-map-keys) are merged item by item."""


class InlineMergePatch(PatchOptions):
    """A JSON Merge Patch (RFC 7386) with the base object it is for."""

    target: Applied[PatchTarget]
    patch: Applied[dict[str, Any]]
    lists: Applied[Literal["replace", "byKey"]] = "replace"
    """byKey: lists that the kind's schema keys (x-kubernetes-list-map-keys) are merged item by item."""


class JsonPatch(PatchOptions):
    """Operations of RFC 6902 with the base object they are for: in line, or in a file that holds a list of them."""

    target: Applied[PatchTarget]
    operations: Applied[Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)] | None] = None
    path: Applied[RepoPath | None] = None

    def problems(self) -> Iterable[Problem]:
        if self.operations is not None and self.path is not None:
            yield Problem(Rule.EXCLUSIVE, ("path",), "operations are given both in line and in a file")
        elif self.operations is None and self.path is None:
            yield Problem(Rule.MISSING, (), "a JSON patch needs operations, or the path of a file with them")


def _form(value: Any) -> str:
    """Which form an entry has, for models and for what was read from YAML."""
    if isinstance(value, str):
        return "path"
    keys = value.keys() if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    if "patch" in keys:
        return "inline"
    return "json" if "operations" in keys or "target" in keys else "file"


MergePatch = Annotated[
    Annotated[RepoPath, Tag("path")]
    | Annotated[MergePatchFile, Tag("file")]
    | Annotated[InlineMergePatch, Tag("inline")],
    Discriminator(lambda value: {"json": "file"}.get(_form(value), _form(value))),
]
"""Path of a merge patch file relative to the workload's folder, the same with options, or the patch itself."""

Patch = Annotated[
    Annotated[RepoPath, Tag("path")]
    | Annotated[MergePatchFile, Tag("file")]
    | Annotated[InlineMergePatch, Tag("inline")]
    | Annotated[JsonPatch, Tag("json")],
    Discriminator(_form),
]
"""Any patch: see MergePatch and JsonPatch."""


def patch_path(entry: str | MergePatchFile | InlineMergePatch | JsonPatch) -> str | None:
    """The file that an entry names; None for one in line."""
    if isinstance(entry, str):
        return entry
    return None if isinstance(entry, InlineMergePatch) else entry.path
