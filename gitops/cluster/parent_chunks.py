"""Chunks of a parent: where the members are that its one ConfigMap does not hold.

A chunk is an immutable ConfigMap whose name is of its content, so none is ever changed and one that is named is whole
or missing. A member's chunk follows from its identity: a member more or less rewrites one chunk, not all behind it. A
chunk is owned by its parent, so that one without a parent goes by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.parents import Member

CHUNK_KEY = "members"
CHUNK_OF_LABEL = "gitops/chunk-of"
"""Name of the parent that a chunk belongs to."""

MAX_CHUNKS = 64

Grouped = dict[str, dict[str, dict[str, str]]]
"""Members as they are written: version and kind, then namespace, then name → uid."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One part of a member list. `digest` is SHA-256 of `text`, in hexadecimal digits."""

    name: str
    text: bytes
    digest: str

    def body(self, namespace: str, labels: Mapping[str, str], *, parent: str, parent_uid: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "labels": {**labels, CHUNK_OF_LABEL: parent},
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": parent, "uid": parent_uid}],
            },
            "immutable": True,
            "data": {CHUNK_KEY: self.text.decode()},
        }


def split(members: Sequence[Member], *, limit: int, parent: str, parent_uid: str) -> list[Chunk] | None:
    """The members in chunks of at most `limit` bytes; None when they are too many. The name carries the uid of the
    parent, since a chunk of a parent that was deleted is about to go with it."""
    number = 2
    while number <= MAX_CHUNKS:
        buckets: list[list[Member]] = [[] for _ in range(number)]
        for member in members:
            identity = hashlib.sha256(str(member.ref).encode()).digest()
            buckets[int.from_bytes(identity[:4]) % number].append(member)
        texts = [msgspec.json.encode(grouped(bucket), order="sorted") for bucket in buckets if bucket]
        if all(len(text) <= limit for text in texts):
            return [_chunk(text, parent, parent_uid) for text in texts]
        number *= 2
    return None


def _chunk(text: bytes, parent: str, parent_uid: str) -> Chunk:
    name = hashlib.sha256(parent_uid.encode() + text).hexdigest()[:16]
    return Chunk(f"{parent}-{name}", text, hashlib.sha256(text).hexdigest())


def is_chunk(body: Mapping[str, Any]) -> bool:
    return CHUNK_OF_LABEL in (body["metadata"].get("labels") or {})


def parent_of(body: Mapping[str, Any]) -> str:
    """Name of the parent that a chunk belongs to."""
    return str(body["metadata"]["labels"][CHUNK_OF_LABEL])


def read(body: Mapping[str, Any], wanted: str) -> list[Member]:
    """The members in a chunk ConfigMap. Raises ValueError when its content is not the one with the digest `wanted`."""
    text = (body.get("data") or {}).get(CHUNK_KEY)
    encoded = text.encode() if isinstance(text, str) else b""
    if hashlib.sha256(encoded).hexdigest() != wanted:
        raise ValueError("it is not the one that the parent names")
    return ungrouped(msgspec.json.decode(encoded, type=Grouped))


def grouped(members: Iterable[Member]) -> Grouped:
    found: Grouped = {}
    for member in sorted(members):
        kinds = found.setdefault(f"{member.gvk.api_version}/{member.gvk.kind}", {})
        kinds.setdefault(member.ref.namespace, {})[member.ref.name] = member.uid
    return found


def ungrouped(found: Grouped) -> list[Member]:
    """Raises ValueError for a kind that is not written as version/kind."""
    members = []
    for written, namespaces in found.items():
        api_version, _, kind = written.rpartition("/")
        if not (api_version and kind):
            raise ValueError("a member's kind is not written as version/kind")
        gvk = GroupVersionKind.parse(api_version, kind)
        for namespace, names in namespaces.items():
            for name, uid in names.items():
                members.append(Member(ObjectRef(gvk.group, gvk.kind, namespace, name), gvk.version, uid))
    return members
