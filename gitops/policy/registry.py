"""The operator registry: which custom resources people may declare, and what their operators make of them.

An operator is data (policies/operators/*.yaml, kind OperatorType), never code. The files are shipped beside the code in
a checkout and as gitops/_data/policies inside the wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from gitops.manifests.canonical import digest
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupKind, GroupVersionKind
from gitops.model.object_rules import (
    FieldRule,
    HandoverField,
    ImmutableField,
    KindRule,
    NameLimit,
    OnceOnlyKind,
    RequiredField,
    TriggerField,
)
from gitops.model.operators import ChildKind, OperatorKind, OperatorType, OperatorTypeSpec
from gitops.model.pod_templates import PodTemplate
from gitops.model.serving import KubernetesType
from gitops.overlays.parts import Parts
from gitops.policy.builtin_rules import restart_stamps
from gitops.policy.rule_expressions import compiled
from gitops.policy.schemas.shapes import NO_SCHEMAS, SchemaIndex
from gitops.policy.scopes import builtin_namespaced

DATA_FOLDER = "_data"
"""Where the wheel keeps the folders policies/ and repo-template/ of a checkout."""


def shipped_folder(name: str) -> Traversable:
    """A data folder that ships with the product: `policies` or `repo-template`. Raises FileNotFoundError."""
    package = files("gitops")
    for candidate in (package / DATA_FOLDER / name, Path(str(package)).parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"shipped folder {name!r} is in neither the package nor the checkout")


def gvk_of(kind: OperatorKind | ChildKind | KubernetesType) -> GroupVersionKind:
    return GroupVersionKind(kind.group, kind.version, kind.kind)


@dataclass(frozen=True, slots=True)
class KindRules:
    """What operator types say of the objects of one kind (gitops/policy/operator_rules.py, updates.py)."""

    rules: tuple[FieldRule, ...] = ()
    required: tuple[RequiredField, ...] = ()
    immutable: tuple[ImmutableField, ...] = ()
    once_only: tuple[OnceOnlyKind, ...] = ()
    triggers: tuple[TriggerField, ...] = ()
    handovers: tuple[HandoverField, ...] = ()


_NO_RULES = KindRules()


@dataclass(frozen=True, slots=True)
class OperatorRegistry:
    """Operator types by name, and schemas, with look-ups by kind. Immutable; `policy_digest` is over both and part of
    every content key."""

    types: Mapping[str, OperatorType]
    refused: Mapping[str, frozenset[GroupVersionKind]] = field(default_factory=dict)
    """Kinds of a type that may not be declared all the same (gitops/policy/narrowing.py)."""
    schemas: SchemaIndex = NO_SCHEMAS
    extra_types: frozenset[GroupVersionKind] = frozenset()
    """Kinds of no operator type that validation policies may allow: the daemon's settings say which."""
    policy_digest: bytes = field(init=False)
    _kinds: Mapping[GroupVersionKind, OperatorKind] = field(init=False, repr=False)
    _owners: Mapping[GroupVersionKind, str] = field(init=False, repr=False)
    _scopes: Mapping[GroupKind, bool] = field(init=False, repr=False)
    _rules: Mapping[GroupKind, KindRules] = field(init=False, repr=False)
    _pods: Mapping[GroupVersionKind, tuple[PodTemplate, ...]] = field(init=False, repr=False)

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
        object.__setattr__(self, "_rules", _by_kind(self.types.values()))
        object.__setattr__(self, "_pods", _pods_by_kind(self.types.values()))
        object.__setattr__(
            self, "policy_digest", digest([content, self.schemas.digest.hex(), sorted(map(str, self.extra_types))])
        )

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
        """Read every *.yaml of a folder. Trusted data: raises ValueError (pydantic's too) for a file that is wrong, and
        for a type whose onboarding checklist is not complete."""
        types = []
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            if not file.name.endswith(".yaml"):
                continue
            result = read_documents(file.read_bytes(), file=file.name)
            if result.findings:
                raise ValueError("; ".join(map(str, result.findings)))
            types += [OperatorType.model_validate(document.body) for document in result.documents]
        return cls.of(_onboarded(types), schemas)

    @classmethod
    def shipped(cls) -> OperatorRegistry:
        """The operator types and schemas that ship with this version (read once per process)."""
        return _shipped()

    def extended(self, types: Iterable[OperatorType]) -> OperatorRegistry:
        """This registry and more types, of whoever runs the daemon; a repository may only narrow. Raises ValueError as
        of() does, for a type whose onboarding checklist is not complete and for a rule that is no CEL."""
        more = _onboarded(types)
        for spec in (operator.spec for operator in more):
            for text in (*(rule.rule for rule in spec.rules), *(handover.when for handover in spec.handovers)):
                compiled(text)
        return OperatorRegistry.of([*self.types.values(), *more], self.schemas)

    def permitting(self, extra: Iterable[GroupVersionKind]) -> OperatorRegistry:
        """This registry, with more kinds that validation policies may allow; never one known to be cluster-scoped."""
        namespaced = (kind for kind in extra if builtin_namespaced(kind.group_kind) is not False)
        return replace(self, extra_types=self.extra_types.union(namespaced))

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

    def data_held(self, kind: GroupKind) -> str:
        """What is lost with an object of this kind; "" when Git brings back all of it."""
        kinds = (k for t in self.types.values() for k in t.spec.kinds if (k.group, k.kind) == (kind.group, kind.kind))
        return next((k.holdsData for k in kinds if k.holdsData), "")

    def makes_children(self, kind: GroupKind) -> bool:
        """Whether an operator makes other objects of one of this kind."""
        with_children = (t.spec.kinds for t in self.types.values() if t.spec.children)
        return any((k.group, k.kind) == (kind.group, kind.kind) for kinds in with_children for k in kinds)

    def rules_of(self, kind: GroupKind) -> KindRules:
        """Rules about objects of this kind, of all types."""
        return self._rules.get(kind, _NO_RULES)

    def reserved_prefixes(self) -> tuple[str, ...]:
        """Metadata prefixes that only operators write, of all types."""
        return tuple(sorted({p for t in self.types.values() for p in t.spec.reservedMetadataPrefixes}))

    def text_fields(self, kind: GroupKind) -> tuple[str, ...]:
        """Paths of fields of this kind that are text, though people write numbers there."""
        every = (field for t in self.types.values() for field in t.spec.textFields)
        return tuple(field.path for field in every if (field.group, field.kind) == (kind.group, kind.kind))

    def pod_templates(self, kind: GroupVersionKind) -> tuple[PodTemplate, ...]:
        """Where an object of exactly this kind writes what its pods are."""
        return self._pods.get(kind, ())

    def service_types(self, kind: GroupKind) -> tuple[str, ...]:
        """Paths of fields of this kind that say of which type a Service will be."""
        every = (field for t in self.types.values() for field in t.spec.serviceTypes)
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


_LISTS = {
    "rules": "rules",
    "requireExplicit": "required",
    "immutable": "immutable",
    "onceOnly": "once_only",
    "triggers": "triggers",
    "handovers": "handovers",
}
"""Lists of rules in an OperatorType → in KindRules."""


def _by_kind(types: Iterable[OperatorType]) -> dict[GroupKind, KindRules]:
    found: dict[GroupKind, dict[str, tuple[KindRule, ...]]] = {
        GroupKind(stamp.group, stamp.kind): {"triggers": (stamp,)} for stamp in restart_stamps()
    }
    for spec in (t.spec for t in types):
        for written, name in _LISTS.items():
            for rule in (*getattr(spec, written), *(_embedded(spec) if written == "rules" else ())):
                lists = found.setdefault(GroupKind(rule.group, rule.kind), {})
                lists[name] = (*lists.get(name, ()), rule)
    return {kind: KindRules(**lists) for kind, lists in found.items()}  # type: ignore[arg-type]


def _embedded(spec: OperatorTypeSpec) -> Iterator[FieldRule]:
    """Rules about the spec of one kind, for where another kind holds such a spec."""
    for place in spec.embedded:
        for rule in spec.rules:
            if (rule.group, rule.kind, rule.about) == (place.group, place.holds, "manifest") and rule.path:
                path = place.path + rule.path.removeprefix("/spec")
                yield rule.model_copy(update={"kind": place.kind, "versions": [], "path": path})


def _onboarded(types: Iterable[OperatorType]) -> list[OperatorType]:
    """The types as they are. Raises ValueError for one of which not all is known that its operation needs."""
    found = list(types)
    for operator in found:
        if missing := operator.spec.unanswered:
            raise ValueError(
                f"operator type {operator.metadata.name!r} lacks {', '.join(missing)} (docs/onboarding.md)"
            )
    return found


def _pods_by_kind(types: Iterable[OperatorType]) -> dict[GroupVersionKind, tuple[PodTemplate, ...]]:
    found: dict[GroupVersionKind, tuple[PodTemplate, ...]] = {}
    for place in (place for t in types for place in t.spec.podTemplates):
        for version in place.versions:
            kind = GroupVersionKind(place.group, version, place.kind)
            found[kind] = (*found.get(kind, ()), place)
    return found


@lru_cache(maxsize=1)
def _shipped() -> OperatorRegistry:
    policies = shipped_folder("policies")
    return OperatorRegistry.load(policies / "operators", SchemaIndex.load(policies / "schemas"))
