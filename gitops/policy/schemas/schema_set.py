"""The schemas of one cluster, or of a folder of files, by exact kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gitops.model.identity import GroupVersionKind
from gitops.policy.verdicts import Judgement


class KindSchema(Protocol):
    """What an API server knows of one kind at one version."""

    def judge(self, body: Mapping[str, object], old: Mapping[str, object] | None = None) -> Judgement:
        """Whether the server takes `body`, sent by server-side apply; over `old`, the live object, if there is one."""


@dataclass(frozen=True, slots=True)
class SchemaSet:
    """Immutable; `digest` is over all of it: equal digests, equal verdicts."""

    kinds: Mapping[GroupVersionKind, KindSchema] = field(default_factory=dict)
    digest: bytes = b""

    def get(self, gvk: GroupVersionKind) -> KindSchema | None:
        return self.kinds.get(gvk)


NO_SCHEMAS = SchemaSet()
