"""The part of an OpenAPI v3 document that describes some kinds, without decoding the rest of it.

A group's document has megabytes, most of it descriptions of calls and of types that nobody asked for. What is not
needed stays text, so that reading a document takes little more memory than its bytes, whatever a server sends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from gitops.model.identity import GroupVersionKind

LARGEST = 16 << 20
"""Bytes of one document. Those of Kubernetes 1.34 have 1.5 MiB at most, those of Dynamo's group 2 MiB."""

_MARK = b"x-kubernetes-group-version-kind"


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


class _Call(msgspec.Struct):
    served: _Kind | None = msgspec.field(default=None, name="x-kubernetes-group-version-kind")


class _Path(msgspec.Struct):
    patch: _Call | None = None


class _Type(msgspec.Struct):
    kinds: list[_Kind] = msgspec.field(default_factory=list, name="x-kubernetes-group-version-kind")


class _Components(msgspec.Struct):
    schemas: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class _Document(msgspec.Struct):
    paths: dict[str, _Path] = msgspec.field(default_factory=dict)
    components: _Components = msgspec.field(default_factory=_Components)


class _Place(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Place] = msgspec.field(default_factory=dict)


def read_index(data: bytes) -> dict[str, str]:
    """`apis/apps/v1` → URL path of its document, with the hash of its content. Raises msgspec.MsgspecError."""
    index = msgspec.json.decode(data, type=_Index)
    return {name: place.url for name, place in index.paths.items() if place.url.startswith("/openapi/v3/")}


def document_of(gvk: GroupVersionKind) -> str:
    """Which document of the index describes a kind."""
    return f"apis/{gvk.api_version}" if gvk.group else f"api/{gvk.version}"


def part_of(data: bytes, kinds: Collection[GroupVersionKind]) -> dict[str, Any]:
    """The document with the paths of these kinds, their types, and all types that those refer to.

    Raises msgspec.MsgspecError or RecursionError for what is no such document, ValueError for one that is too large.
    """
    document = msgspec.json.decode(data, type=_Document)
    objects = {
        path: call.served
        for path, item in document.paths.items()
        if (call := item.patch) is not None and call.served is not None and call.served.gvk in kinds
    }
    paths: dict[str, Any] = {path: {"patch": {_MARK.decode(): msgspec.to_builtins(k)}} for path, k in objects.items()}
    for path in document.paths:
        if path not in paths and path.rpartition("/")[0] in objects:
            paths[path] = {}
    types = document.components.schemas
    wanted = [name for name, raw in types.items() if _MARK in bytes(raw) and _describes(raw, kinds)]
    return {"paths": paths, "components": {"schemas": _closure(wanted, types)}}


def _describes(raw: msgspec.Raw, kinds: Collection[GroupVersionKind]) -> bool:
    return any(kind.gvk in kinds for kind in msgspec.json.decode(raw, type=_Type).kinds)


def _closure(wanted: list[str], types: dict[str, msgspec.Raw]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting, size = list(wanted), 0
    while waiting:
        name = waiting.pop()
        if name in found or name not in types:
            continue
        size += len(bytes(types[name]))
        if size > LARGEST:
            raise ValueError("the types of the document are too large")
        found[name] = msgspec.json.decode(types[name])
        waiting += _references(found[name])
    return found


def _references(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                yield reference.rpartition("/")[2]
            stack += node.values()
        elif isinstance(node, list):
            stack += node
