"""One kind at one version, as bytes until somebody asks for a verdict.

The bytes are canonical JSON and are also what the published copy holds:

    builtin       whether the API server's own code checks more than the schema says
    namespaced    whether its objects live in namespaces
    subresources  sorted names, `status` and `scale` among them
    scale         paths of the numbers of replicas, where there is a scale subresource
    schema        the structural schema
    definitions   what `$ref`s of the schema name, by the last part of the reference
    unusable      why there is no schema that could decide
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from gitops.manifests.canonical import canonical_json
from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.reading import Schema, UnusableSchema, read_schema
from gitops.policy.verdicts import Judgement

LARGEST = 16 << 20
"""Bytes of one kind. The largest published definition has 0.3 MiB in this form; etcd stores 1.5 MiB."""


class Header(msgspec.Struct, frozen=True):
    """What is known of a kind without its schema."""

    builtin: bool = False
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    scale: dict[str, str] = {}
    unusable: str = ""


class KindSchema:
    """What an API server knows of one kind at one version. Immutable; equal bytes, equal verdicts."""

    __slots__ = ("_header", "content", "gvk")

    def __init__(self, gvk: GroupVersionKind, content: bytes) -> None:
        self.gvk = gvk
        self.content = content
        self._header: Header | None = None

    @classmethod
    def made(
        cls,
        gvk: GroupVersionKind,
        schema: object,
        *,
        definitions: Mapping[str, object] | None = None,
        header: Header = Header(),  # noqa: B008 - immutable
    ) -> KindSchema:
        """From a schema as it came; one that cannot be used says so in its verdicts."""
        told: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(header).items() if value}
        told |= {"builtin": header.builtin, "namespaced": header.namespaced}
        try:
            if not header.unusable:
                told["schema"] = read_schema(schema, references=definitions is not None)
            if definitions:
                told["definitions"] = {n: read_schema(part, references=True) for n, part in definitions.items()}
            content = canonical_json(told)
            if len(content) > LARGEST:
                raise UnusableSchema("the schema is too large")
        except (UnusableSchema, RecursionError, TypeError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            why = str(error) if isinstance(error, UnusableSchema) else "the schema holds what JSON cannot carry"
            told = {name: value for name, value in told.items() if name not in ("schema", "definitions")}
            content = canonical_json(told | {"unusable": why})
        return cls(gvk, content)

    @property
    def header(self) -> Header:
        if self._header is None:
            try:
                self._header = msgspec.json.decode(self.content, type=Header)
            except (msgspec.MsgspecError, RecursionError):
                self._header = Header(unusable="the file of the schema cannot be read")
        return self._header

    @property
    def namespaced(self) -> bool:
        return self.header.namespaced

    @property
    def builtin(self) -> bool:
        return self.header.builtin

    @property
    def subresources(self) -> tuple[str, ...]:
        return self.header.subresources

    def judge(
        self, body: Mapping[str, object], old: Mapping[str, object] | None = None, *, declared: bool = False
    ) -> Judgement:
        """Whether the server takes `body`, sent by server-side apply; over `old`, the live object, if there is one.
        `declared`: `old` is what was sent before, for want of what became of it.

        Never raises, whatever the schema and the object hold.
        """
        from gitops.policy.schemas.judging import judge  # the schema library takes 50 ms to load

        if self.header.unusable:
            return Judgement(unchecked=(f"the schema of {self.gvk} cannot be used: {self.header.unusable}",))
        return judge(self.gvk, self.content, self.header, body, old, declared=declared)


@functools.lru_cache(maxsize=8)
def decoded(content: bytes) -> tuple[Schema, dict[str, Schema]]:
    """Schema and definitions of a kind's bytes. Raises UnusableSchema."""
    try:
        told = msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        raise UnusableSchema("it cannot be read") from None
    parts = told.get("definitions") or {}
    if not isinstance(parts, dict):
        raise UnusableSchema("its definitions are no mapping")
    definitions = {name: read_schema(part, references=True) for name, part in parts.items()}
    return read_schema(told.get("schema"), references="definitions" in told), definitions
