"""What the objects on one cluster are judged with: schemas of the repository's definitions, the cluster, and files."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.identity import GroupKind, GroupVersionKind
from gitops.plan.references import defined_kind
from gitops.plan.units import DesiredObject
from gitops.policy.facts import ClusterFacts
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import kinds_of_definition


class Gap(enum.Enum):
    """Why there is nothing to judge an object with."""

    NOTHING = enum.auto()  # nothing is known of the cluster's schemas
    NO_SCHEMA = enum.auto()
    SILENT = enum.auto()  # discovery of the kind's API version fails
    NOT_SERVED = enum.auto()
    UNCHECKED = enum.auto()  # judged, but for a part of it


@dataclass(frozen=True, slots=True)
class Defined:
    """What a definition in the repository gives: its kind, and the schemas of the versions that it serves."""

    kind: GroupKind | None
    schemas: tuple[KindSchema, ...]


class Definitions:
    """Definitions by their digest. They are on every cluster, differ there by a mark alone, and take milliseconds to
    read: each spec is read once for all of them, and each object once for all commits that have it."""

    def __init__(self) -> None:
        self._before: dict[bytes, Defined] = {}
        self._now: dict[bytes, Defined] = {}

    def get(self, item: DesiredObject) -> Defined:
        found = self._now.get(item.digest) or self._before.get(item.digest)
        if found is None:
            body = item.body
            of_spec = digest(canonical_json(body.get("spec")))
            found = self._now.get(of_spec) or self._before.get(of_spec)
            if found is None:
                found = Defined(defined_kind(body), tuple(kinds_of_definition(body)))
            self._now[of_spec] = found
        self._now[item.digest] = found
        return found

    def forget(self) -> None:
        """Those that the last compile had no use for."""
        self._before, self._now = self._now, {}


class Known:
    """What objects on one cluster are judged with: definitions of the repository win, since they will be there; then
    what the cluster tells, then files."""

    def __init__(self, facts: ClusterFacts, files: SchemaSet, defined: Sequence[tuple[bytes, Defined]]) -> None:
        self.facts = facts
        self.defined = {each.kind for _, each in defined if each.kind is not None}
        self._declared = {schema.gvk: schema for _, each in defined for schema in each.schemas}
        self._files = files
        parts = [facts.digest, files.digest.hex(), sorted(content.hex() for content, _ in defined)]
        self.digest = digest(canonical_json(parts))
        self._digests: dict[GroupVersionKind, bytes] = {}
        self.nothing = not (facts.schemas.kinds or facts.served or files.kinds or defined)

    def schema(self, gvk: GroupVersionKind) -> KindSchema | None:
        declared = self._declared.get(gvk)
        if declared is not None or gvk.group_kind in self.defined:
            return declared
        return self.facts.schemas.get(gvk) or self._files.get(gvk)

    def digest_of(self, schema: KindSchema) -> bytes:
        """Of what it says: clusters have the same schemas."""
        known = self._digests.get(schema.gvk)
        if known is None:
            known = self._digests[schema.gvk] = digest(schema.content)
        return known

    def gap(self, gvk: GroupVersionKind) -> Gap:
        """Why there is no schema of the kind."""
        if gvk.group_kind in self.defined:
            return Gap.NOT_SERVED if self._versions(gvk.group_kind, self._declared) else Gap.NO_SCHEMA
        served = self.facts.serves(gvk)
        if served is None:
            return Gap.SILENT if self.facts.served is not None else Gap.NO_SCHEMA
        return Gap.NO_SCHEMA if served else Gap.NOT_SERVED

    def versions(self, kind: GroupKind) -> list[str]:
        """Other versions of a kind that is there at none of those that are asked for."""
        declared = self._versions(kind, self._declared)
        return declared or self._versions(kind, self.facts.served or ())

    @staticmethod
    def _versions(kind: GroupKind, kinds: Iterable[GroupVersionKind]) -> list[str]:
        return sorted(gvk.api_version for gvk in kinds if gvk.group_kind == kind)
