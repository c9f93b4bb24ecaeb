"""What every manifest must be, whatever its kind: an object with an identity, and text where all kinds want text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitops.manifests import codes, scalars
from gitops.manifests.file_state import DEFAULT_LIMITS
from gitops.manifests.lines import Path, bounded
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin


def check_object(document: RawDocument) -> tuple[Finding, ...]:
    """Findings for a document that shall be a Kubernetes object; empty when it has an identity to work with.

    A file that holds something else is never skipped: with it the objects its author meant would silently be pruned.
    """
    found: list[Finding] = []
    for code, path, message in _problems(document):
        if len(found) == DEFAULT_LIMITS.findings:
            code, path, message = codes.TOO_MANY_FINDINGS, (), "further errors are not listed"
        origin = Origin(document.file, document.lines.line_of(path))
        found.append(finding(code, f"document {document.index}: {message}", origin, path=bounded(path)))
        if code == codes.TOO_MANY_FINDINGS:
            break
    return tuple(found)


def _problems(document: RawDocument) -> Iterator[tuple[str, Path, str]]:
    body = document.body
    if not isinstance(body, dict):
        yield codes.NOT_AN_OBJECT, (), f"a {_kind_of(body)}, not an object"
        return
    for key in ("apiVersion", "kind"):
        if not isinstance(body.get(key), str) or not body[key]:
            yield codes.NOT_AN_OBJECT, _similar(body, key), _missing(body, key)
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        yield codes.NOT_AN_OBJECT, _similar(body, "metadata"), _missing(body, "metadata")
        return
    yield from _metadata_problems(document, metadata)


def _metadata_problems(document: RawDocument, metadata: dict[str, Any]) -> Iterator[tuple[str, Path, str]]:
    name = metadata.get("name")
    if "generateName" in metadata:
        yield codes.GENERATE_NAME, ("metadata", "generateName"), "generateName gives no stable identity"
    elif not isinstance(name, str) or not name:
        what = (
            "has no metadata.name" if name is None else f"metadata.name is {_written(document, ('metadata', 'name'))}"
        )
        yield codes.NOT_AN_OBJECT, ("metadata", "name"), what
    if "namespace" in metadata and not isinstance(metadata["namespace"], str):
        path: Path = ("metadata", "namespace")
        yield codes.NOT_AN_OBJECT, path, f"metadata.namespace is {_written(document, path)}"
    if metadata.get("ownerReferences"):
        yield codes.OWNER_REFERENCES, ("metadata", "ownerReferences"), "ownerReferences cannot be declared"
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield codes.METADATA_NOT_TEXT, ("metadata", field), f"{field} are a {_kind_of(values)}, not a map"
            continue
        for key, value in values.items():
            if not isinstance(value, str):
                path = ("metadata", field, key)
                yield codes.METADATA_NOT_TEXT, path, f"{field[:-1]} {scalars.shown(key)} is {_written(document, path)}"


def _missing(body: dict[str, Any], key: str) -> str:
    similar = _similar(body, key)
    if similar != (key,) and similar:
        return f"has no {key} (did you mean it by {scalars.shown(str(similar[0]))}?)"
    return f"{key} is missing or empty" if body.get(key) in (None, "") else f"{key} is a {_kind_of(body[key])}"


def _similar(body: dict[str, Any], key: str) -> Path:
    """The key, or one that differs in its case only, or the root."""
    return next(((k,) for k in body if k == key or k.lower() == key.lower()), ())


def _written(document: RawDocument, path: Path) -> str:
    """What is at the path instead of text, in the author's words."""
    value = document.body
    for segment in path:
        value = value[segment]
    if isinstance(value, (bool, int, float)):
        text = document.lines.text_of(path)
        return scalars.described(value) + (f" (written {scalars.shown(text)})" if text else "") + ", not text"
    return f"{'null' if value is None else 'a ' + _kind_of(value)}, not text"


def _kind_of(value: Any) -> str:
    names = {dict: "map", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
