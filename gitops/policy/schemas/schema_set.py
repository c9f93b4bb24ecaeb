"""The schemas of one cluster, or of a folder of files, by exact kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gitops.manifests.canonical import digest
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.policy.schemas.kind_schema import KindSchema


@dataclass(frozen=True, slots=True)
class SchemaSet:
    """Immutable; `digest` is over all of it: equal digests, equal verdicts."""

    kinds: Mapping[GroupVersionKind, KindSchema] = field(default_factory=dict)
    digest: bytes = b""

    @classmethod
    def of(cls, kinds: Iterable[KindSchema]) -> SchemaSet:
        """A later schema of the same kind wins."""
        found = {kind.gvk: kind for kind in kinds}
        if not found:
            return NO_SCHEMAS
        told = [[str(gvk), digest(found[gvk].content).hex()] for gvk in sorted(found)]
        return cls(found, digest(told))

    def get(self, gvk: GroupVersionKind) -> KindSchema | None:
        return self.kinds.get(gvk)

    def overlaid(self, other: SchemaSet) -> SchemaSet:
        """This set and `other`, whose kinds win: definitions of a repository over what the cluster has today."""
        return SchemaSet.of([*self.kinds.values(), *other.kinds.values()]) if other.kinds else self


NO_SCHEMAS = SchemaSet()

ClusterSchemas = Mapping[ClusterName, Callable[[GroupVersionKind], KindSchema | None]]
"""By cluster: the schema that objects of a kind are judged with there, None where there is none."""

NO_CLUSTER_SCHEMAS: ClusterSchemas = {}
