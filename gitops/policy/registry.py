"""The operator registry: which custom resources people may declare, and what their operators make of them.

An operator is data (policies/operators/*.yaml, kind OperatorType), never code. The files are shipped beside the code in
a checkout and as gitops/_data/policies inside the wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from gitops.manifests.canonical import digest
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupKind, GroupVersionKind
from gitops.model.operators import ChildKind, NameLimit, OperatorKind, OperatorType
from gitops.overlays.parts import Parts
from gitops.policy.schemas.shapes import NO_SCHEMAS, SchemaIndex

DATA_FOLDER = "_data"
"""Where the wheel keeps the folders policies/ and repo-template/ of a checkout."""


def shipped_folder(name: str) -> Traversable:
    """A data folder that ships with the product: `policies` or `repo-template`. Raises FileNotFoundError."""
    package = files("gitops")
    for candidate in (package / DATA_FOLDER / name, Path(str(package)).parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"shipped folder {name!r} is in neither the package nor the checkout")


def gvk_of(kind: OperatorKind | ChildKind) -> GroupVersionKind:
    return GroupVersionKind(kind.group, kind.version, kind.kind)


@dataclass(frozen=True, slots=True)
class OperatorRegistry:
    """Operator types by name, and schemas, with look-ups by kind. Immutable; `policy_digest` is over both and part of
    every content key."""

    types: Mapping[str, OperatorType]
    refused: Mapping[str, frozenset[GroupVersionKind]] = field(default_factory=dict)
    """Kinds of a type that may not be declared all the same (gitops/policy/narrowing.py)."""
    schemas: SchemaIndex = NO_SCHEMAS
    policy_digest: bytes = field(init=False)
    _kinds: Mapping[GroupVersionKind, OperatorKind] = field(init=False, repr=False)
    _owners: Mapping[GroupVersionKind, str] = field(init=False, repr=False)
    _scopes: Mapping[GroupKind, bool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {gvk_of(k): k for t in self.types.values() for k in t.spec.kinds}
        scopes = {
            GroupKind(k.group, k.kind): k.scope == "Namespaced"
            for t in self.types.values()
            for k in (*t.spec.companions, *t.spec.kinds)
        }
        content = {
            name: [t.model_dump(mode="json"), sorted(map(str, self.refused.get(name, ())))]
            for name, t in self.types.items()
        }
        object.__setattr__(self, "_kinds", kinds)
        owners = {gvk_of(k): name for name, t in self.types.items() for k in t.spec.kinds}
        object.__setattr__(self, "_owners", owners)
        object.__setattr__(self, "_scopes", scopes)
        object.__setattr__(self, "policy_digest", digest([content, self.schemas.digest.hex()]))

    @classmethod
    def of(cls, types: Iterable[OperatorType], schemas: SchemaIndex = NO_SCHEMAS) -> OperatorRegistry:
        """A registry of these types. Raises ValueError when two share a name or declare one kind."""
        by_name: dict[str, OperatorType] = {}
        owner: dict[GroupVersionKind, str] = {}
        for operator in sorted(types, key=lambda t: t.metadata.name):
            name = operator.metadata.name
            if name in by_name:
                raise ValueError(f"operator type {name!r} is defined twice")
            by_name[name] = operator
            for kind in operator.spec.kinds:
                if (other := owner.setdefault(gvk_of(kind), name)) != name:
                    raise ValueError(f"{gvk_of(kind)} belongs to two operator types: {other} and {name}")
        return cls(by_name, schemas=schemas)

    @classmethod
    def load(cls, folder: Traversable, schemas: SchemaIndex = NO_SCHEMAS) -> OperatorRegistry:
        """Read every *.yaml of a folder. Trusted data: raises ValueError (pydantic's too) for a file that is wrong."""
        types = []
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            if not file.name.endswith(".yaml"):
                continue
            result = read_documents(file.read_bytes(), file=file.name)
            if result.findings:
                raise ValueError("; ".join(map(str, result.findings)))
            types += [OperatorType.model_validate(document.body) for document in result.documents]
        return cls.of(types, schemas)

    @classmethod
    def shipped(cls) -> OperatorRegistry:
        """The operator types and schemas that ship with this version (read once per process)."""
        return _shipped()

    def extended(self, types: Iterable[OperatorType]) -> OperatorRegistry:
        """This registry and more types (from the daemon's settings; a repository may only narrow)."""
        return OperatorRegistry.of([*self.types.values(), *types], self.schemas)

    def kind(self, gvk: GroupVersionKind) -> OperatorKind | None:
        """The operator kind of exactly this group, version and kind; None when no operator type has it."""
        return self._kinds.get(gvk)

    def types_of(self, kinds: Iterable[GroupVersionKind]) -> frozenset[str]:
        """Operator types whose own kinds are among these."""
        return frozenset(self._owners[gvk] for gvk in kinds if gvk in self._owners)

    def namespaced(self, kind: GroupKind) -> bool | None:
        """Scope of a kind that the registry mentions; None for others."""
        return self._scopes.get(kind)

    def allowed(self, names: Iterable[str]) -> Mapping[GroupVersionKind, OperatorKind]:
        """What a function of these types may contain: their kinds and companions. Unknown names add nothing."""
        return {
            gvk_of(k): k
            for name in names
            if name in self.types
            for k in (*self.types[name].spec.companions, *self.types[name].spec.kinds)
            if gvk_of(k) not in self.refused.get(name, ())
        }

    def is_narrowed(self, names: Iterable[str], gvk: GroupVersionKind) -> bool:
        """Whether one of these types would allow the kind, had it not been narrowed."""
        return any(gvk in self.refused.get(name, ()) for name in names)

    def children_of(self, names: Iterable[str]) -> tuple[ChildKind, ...]:
        """Kinds that these operators make, sorted, each (kind, selector) once; the strongest role wins."""
        strength = {"inform": 0, "diagnose": 1, "gate": 2}
        found: dict[tuple[GroupVersionKind, str], ChildKind] = {}
        for name in names:
            for child in self.types[name].spec.children if name in self.types else ():
                key = (gvk_of(child), child.selector)
                if key not in found or strength[child.role] > strength[found[key].role]:
                    found[key] = child
        return tuple(found[key] for key in sorted(found))

    def reserved_prefixes(self) -> tuple[str, ...]:
        """Metadata prefixes that only operators write, of all types."""
        return tuple(sorted({p for t in self.types.values() for p in t.spec.reservedMetadataPrefixes}))

    def text_fields(self, kind: GroupKind) -> tuple[str, ...]:
        """Paths of fields of this kind that are text, though people write numbers there."""
        every = (field for t in self.types.values() for field in t.spec.textFields)
        return tuple(field.path for field in every if (field.group, field.kind) == (kind.group, kind.kind))

    def name_limits(self, kind: GroupKind) -> tuple[NameLimit, ...]:
        """Limits on the names of an object of this kind."""
        every = (limit for t in self.types.values() for limit in t.spec.nameLimits)
        return tuple(limit for limit in every if (limit.group, limit.kind) == (kind.group, kind.kind))

    def component_sets(self, kind: GroupKind) -> tuple[Parts, ...]:
        """Parts of an object of this kind whose set no overlay changes by accident."""
        every = (parts for t in self.types.values() for parts in t.spec.componentSets)
        return tuple(Parts.parse(p.parts) for p in every if (p.group, p.kind) == (kind.group, kind.kind))

    def fixed_fields(self, kind: GroupKind) -> tuple[str, ...]:
        """Paths of fields of this kind that may not go away once they are set."""
        every = (fixed for t in self.types.values() for fixed in t.spec.fixedFields)
        return tuple(f.path for f in every if (f.group, f.kind) == (kind.group, kind.kind))


@lru_cache(maxsize=1)
def _shipped() -> OperatorRegistry:
    policies = shipped_folder("policies")
    return OperatorRegistry.load(policies / "operators", SchemaIndex.load(policies / "schemas"))
