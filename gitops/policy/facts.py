"""What is known of a cluster beside its document in Git: what it serves, which operators run there, its schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.policy.schemas.schema_set import NO_SCHEMAS, SchemaSet


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Told by the cluster itself, or by the copy on the status branch. What is not known is never taken for absent."""

    served: Mapping[GroupVersionKind, bool] | None = None
    """Kinds that are served, and whether they are namespaced; None when that is not known."""
    silent: frozenset[str] = frozenset()
    """API versions (`nvidia.com/v1beta1`) of which the cluster could not say what they serve."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each operator type that runs there, where it could be told."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Operator types that may not be used there, each with its reason: the gate of their rights."""
    schemas: SchemaSet = NO_SCHEMAS
    server_version: str = ""

    @property
    def digest(self) -> str:
        """Over all of it: equal digests, equal units."""
        served = None if self.served is None else sorted([str(gvk), scope] for gvk, scope in self.served.items())
        told = [
            served,
            sorted(self.silent),
            sorted(self.versions.items()),
            sorted(self.refused.items()),
            self.schemas.digest.hex(),
            self.server_version,
        ]
        return digest(canonical_json(told)).hex()

    def serves(self, gvk: GroupVersionKind) -> bool | None:
        """Whether the kind is served at that version; None when that is not known."""
        if self.served is None:
            return None
        return True if gvk in self.served else None if gvk.api_version in self.silent else False


NOTHING_KNOWN = ClusterFacts()

Facts = Mapping[ClusterName, ClusterFacts]

NO_FACTS: Facts = {}
