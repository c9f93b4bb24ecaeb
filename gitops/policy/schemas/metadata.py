"""What the API server checks in the metadata of any object (apimachinery, `api/validation` and `util/validation`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path
from gitops.policy.schemas.reading import Schema
from gitops.policy.verdicts import Problem

_RULE = "metadata"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MOST_ANNOTATIONS = 256 << 10

_LABEL_WORDS = (
    "must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS = _LABEL_WORDS.replace("or '-'", "'-' or '.'")
_QUALIFIED_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def dns_subdomain(name: str) -> Iterator[str]:
    """What is wrong with it as a DNS subdomain (RFC 1123); the text never quotes the name."""
    if _length(name) > 253:
        yield "must be no more than 253 bytes"
    if not _DNS_SUBDOMAIN.fullmatch(name):
        yield f"a lowercase RFC 1123 subdomain {_SUBDOMAIN_WORDS}"


def dns_label(name: str) -> Iterator[str]:
    if _length(name) > 63:
        yield "must be no more than 63 bytes"
    if not _DNS_LABEL.fullmatch(name):
        yield f"a lowercase RFC 1123 label {_LABEL_WORDS}"


def dns_1035_label(name: str) -> Iterator[str]:
    if _length(name) > 63:
        yield "must be no more than 63 bytes"
    if not _DNS_1035.fullmatch(name):
        yield "a DNS-1035 label must start with a lower case letter and consist of such, digits and '-'"


def path_segment(name: str) -> Iterator[str]:
    """The least that every name has to be: a part of an address."""
    if name in (".", "..") or "/" in name or "%" in name:
        yield "may not be '.' or '..' nor contain '/' or '%'"


def qualified_name(name: str) -> Iterator[str]:
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        yield f"a qualified name {_QUALIFIED_WORDS} with an optional DNS subdomain prefix and '/'"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {wrong}" for wrong in dns_subdomain(prefix))
    if not rest:
        yield "name part must be non-empty"
    elif _length(rest) > 63:
        yield "name part must be no more than 63 bytes"
    if not _QUALIFIED.fullmatch(rest):
        yield f"name part {_QUALIFIED_WORDS}"


def label_value(value: str) -> Iterator[str]:
    if _length(value) > 63:
        yield "must be no more than 63 bytes"
    if value and not _QUALIFIED.fullmatch(value):
        yield f"a valid label must be an empty string or {_QUALIFIED_WORDS.removeprefix('must ')}"


NAMES = {"subdomain": dns_subdomain, "label": dns_label, "1035": dns_1035_label, "segment": path_segment}


def metadata_problems(
    metadata: Mapping[str, Any],
    path: Path = ("metadata",),
    *,
    name: str = "subdomain",
    live: Mapping[str, Any] | None = None,
) -> Iterator[Problem]:
    """Of metadata whose types fit. `name`: what a name of the kind has to be, a word of NAMES. `live` is the metadata
    that it is applied over: then nobody looks at generateName."""
    yield from _named(metadata, path, name)
    if live is None:
        yield from _prefixed(metadata, path, name)
    elif metadata.get("deletionGracePeriodSeconds") != live.get("deletionGracePeriodSeconds"):
        yield Problem((*path, "deletionGracePeriodSeconds"), "field is immutable", _RULE)
    if namespace := metadata.get("namespace"):
        yield from _said(dns_label(namespace), (*path, "namespace"))
    for key, value in (metadata.get("labels") or {}).items():
        yield from _said(qualified_name(key), (*path, "labels"))
        yield from _said(label_value(value or ""), (*path, "labels", key))
    yield from _annotations(metadata.get("annotations") or {}, (*path, "annotations"))
    yield from _owners(metadata.get("ownerReferences") or [], (*path, "ownerReferences"))
    finalizers = metadata.get("finalizers") or []
    for finalizer in finalizers:
        yield from _said(qualified_name(finalizer or ""), (*path, "finalizers"))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield Problem((*path, "finalizers"), "orphan and foregroundDeletion cannot be both set", _RULE)


def _named(metadata: Mapping[str, Any], path: Path, rule: str) -> Iterator[Problem]:
    check = NAMES[rule]
    if found := metadata.get("name"):
        yield from _said(check(found), (*path, "name"))
        yield from _said(() if rule == "segment" else path_segment(found), (*path, "name"))
    else:
        yield Problem((*path, "name"), "Required value: name is required", _RULE)


def _prefixed(metadata: Mapping[str, Any], path: Path, rule: str) -> Iterator[Problem]:
    check = NAMES[rule]
    if prefix := metadata.get("generateName"):
        # A trailing dash is meant, for the server puts characters behind it: apimachinery, maskTrailingDash.
        whole = prefix[:-2] + "a" if rule != "segment" and len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from _said(check(whole), (*path, "generateName"))


def _annotations(annotations: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for key in annotations:
        yield from _said(qualified_name(key.lower()), path)
    if sum(_length(key) + _length(value or "") for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        yield Problem(path, f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes", _RULE)


def _owners(owners: list[Any], path: Path) -> Iterator[Problem]:
    for at, owner in enumerate(owners):
        owner = owner or {}
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                yield Problem((*path, at, field), "must not be empty", _RULE)
        api_version = owner.get("apiVersion") or ""
        if not api_version.rpartition("/")[2] or api_version.count("/") > 1:
            yield Problem((*path, at, "apiVersion"), "version must not be empty", _RULE)
        if (api_version, owner.get("kind")) == ("v1", "Event"):
            yield Problem((*path, at), "an Event is disallowed from being an owner", _RULE)
    if sum(1 for owner in owners if (owner or {}).get("controller")) > 1:
        yield Problem(path, "Only one reference can have Controller set to true", _RULE)


def _said(wrongs: Iterator[str] | tuple[()], path: Path) -> Iterator[Problem]:
    return (Problem(path, wrong, _RULE) for wrong in wrongs)


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# -- types and embedded objects ----------------------------------------------------------------------------------------

_STRING = {"type": "string"}
_KEY = {**_STRING, "default": ""}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
_TIME = {"type": "string", "format": "date-time"}
_BOOLEAN = {"type": "boolean"}
_INTEGER = {"type": "integer"}

OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _STRING),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "managedFields": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("manager", "operation", "apiVersion", "fieldsType", "subresource"), _STRING),
                    "time": _TIME,
                    "fieldsV1": {"type": "object"},
                },
            },
        },
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _KEY),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOLEAN),
                },
            },
        },
    },
}
"""Types of metadata: io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta."""


def with_metadata(schema: Schema, *, root: bool = True) -> Schema:
    """The schema as the server's types see it: what an object is at the root and where resources are embedded."""
    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: with_metadata(child, root=False) for name, child in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(child := schema.get(word), dict):
            changed[word] = with_metadata(child, root=False)
    if root or schema.get("x-kubernetes-embedded-resource"):
        described = {"apiVersion": _STRING, "kind": _STRING, "metadata": {"$ref": "ObjectMeta"}}
        changed["properties"] = changed.get("properties", {}) | described
    return changed


def embedded_problems(schema: Schema, value: object, path: Path = (), *, root: bool = True) -> Iterator[Problem]:
    """Of the objects inside an object whose types fit (apiextensions-apiserver, schema/objectmeta/validation.go)."""
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource") and not root:
            yield from _embedded(value, path)
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, child in value.items():
            below = fields.get(key, others)
            if isinstance(below, dict):
                yield from embedded_problems(below, child, (*path, key), root=False)
    elif isinstance(value, list) and "items" in schema:
        for at, item in enumerate(value):
            yield from embedded_problems(schema["items"], item, (*path, at), root=False)


def _embedded(value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for field in ("apiVersion", "kind"):
        if field not in value:
            yield Problem((*path, field), "Required value", "required")
        elif not isinstance(value[field], str):
            yield Problem((*path, field), "must be a string", _RULE)
        elif not value[field]:
            yield Problem((*path, field), "must not be empty", _RULE)
        elif field == "kind":
            yield from _said(dns_1035_label(value[field].lower()), (*path, field))
        elif value[field].count("/") > 1:
            yield Problem((*path, field), "unexpected GroupVersion string", _RULE)
    if isinstance(metadata := value.get("metadata"), dict):
        named = {**metadata, "name": metadata.get("name") or "fakename"}
        yield from metadata_problems(named, (*path, "metadata"), name="segment")
