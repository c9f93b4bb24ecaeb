"""Policies of a repository: policies/**/*.yaml, each document one OperatorType, StatusMapping or ValidationPolicy.

They may only narrow. A file of them that cannot be used holds every workload at its last good commit: what it would
have refused is not known, and nothing may be applied that it might have refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.document_kinds import KINDS
from gitops.model.documents import Document
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.operators import OperatorType
from gitops.model.policies import ValidationPolicy
from gitops.model.status_mappings import StatusMapping
from gitops.model.trees import FileTree, TreeEntry
from gitops.plan import codes
from gitops.plan.bases import empty_file
from gitops.plan.documents import typed
from gitops.plan.layout import POLICIES
from gitops.plan.loading import Loader
from gitops.policy import codes as policy_codes
from gitops.policy.narrowing import foreign_fields, narrowed, widenings
from gitops.policy.registry import OperatorRegistry, gvk_of
from gitops.policy.validation import DEFAULT, UNRESTRICTED, ValidationRules, refused_extra

_KINDS: tuple[type[OperatorType] | type[StatusMapping] | type[ValidationPolicy], ...] = (
    OperatorType,
    StatusMapping,
    ValidationPolicy,
)


_BASES = {rules.name: rules for rules in (DEFAULT, UNRESTRICTED)}
"""Policies that need no document."""


@dataclass(frozen=True, slots=True)
class RepositoryPolicies:
    """What a repository's policies make of the shipped ones. With `usable` False an error hides what they would say."""

    registry: OperatorRegistry
    validation: Mapping[str, ValidationRules] = field(default_factory=lambda: dict(_BASES))  # by name
    findings: tuple[Finding, ...] = ()
    usable: bool = True


def read_policies(
    loader: Loader, tree: FileTree, entries: Sequence[TreeEntry], registry: OperatorRegistry
) -> RepositoryPolicies:
    """Read every policy of the tree and narrow the registry by them, in the order of their paths."""
    reader = _Reader(registry)
    for entry in entries:
        if not entry.path.endswith(".yaml"):
            message = f"{POLICIES}/ holds files that end in .yaml"
            reader.findings.append(finding(codes.UNEXPECTED_FILE, message, Origin(entry.path)))
            continue
        loaded = loader.load(tree, entry)
        reader.findings += loaded.findings
        if loaded.blank:
            reader.findings.append(empty_file(entry.path))
        for document in loaded.documents:
            reader.add(document)
    usable = not has_errors(reader.findings)
    return RepositoryPolicies(reader.registry, reader.validation, tuple(reader.findings), usable)


@dataclass(slots=True)
class _Reader:
    registry: OperatorRegistry
    findings: list[Finding] = field(default_factory=list)
    seen: dict[tuple[str, str], Origin] = field(default_factory=dict)
    validation: dict[str, ValidationRules] = field(default_factory=lambda: dict(_BASES))

    def add(self, document: RawDocument) -> None:
        kind = document.body.get("kind") if isinstance(document.body, dict) else None
        model = next((m for m in _KINDS if m.__name__ == kind), None)
        if model is None:
            names = ", ".join(m.__name__ for m in _KINDS)
            words = f"a {kind}" if isinstance(kind, str) and kind in KINDS else "something else"
            self._say(document, ("kind",), codes.WRONG_KIND, f"{POLICIES}/ holds {names}, not {words}")
            return
        parsed, found = typed(document, model)
        self.findings += found
        if parsed is not None and self._is_first(document, parsed):
            self._use(document, parsed)

    def _is_first(self, document: RawDocument, parsed: OperatorType | StatusMapping | ValidationPolicy) -> bool:
        name, at = parsed.metadata.name, ("metadata", "name")
        if isinstance(parsed, ValidationPolicy) and name in {base.lower() for base in _BASES}:
            self._say(document, at, codes.NOT_UNIQUE, f"{name} is the name of a policy that needs no document")
            return False
        other = self.seen.setdefault((parsed.kind, name), Origin(document.file, document.lines.line_of(at)))
        if other != Origin(document.file, document.lines.line_of(at)):
            self._say(document, at, codes.NOT_UNIQUE, f"{parsed.kind} {name} is also declared at {other}")
            return False
        return True

    def _use(self, document: RawDocument, parsed: Document) -> None:
        if isinstance(parsed, StatusMapping):
            message = f"StatusMapping {parsed.metadata.name} is checked, and not used by this version"
            self._say(document, ("kind",), codes.POLICY_NOT_USED, message)
        elif isinstance(parsed, OperatorType):
            wide = [(policy_codes.WIDENS, *problem) for problem in widenings(self.registry, parsed)]
            foreign = [(policy_codes.NOT_FOR_REPOSITORIES, *problem) for problem in foreign_fields(parsed)]
            for code, path, message in (*wide, *foreign):
                self._say(document, path, code, message)
            if not wide and not foreign:
                self.registry = narrowed(self.registry, parsed)
        elif isinstance(parsed, ValidationPolicy):
            self._validation(document, parsed)

    def _validation(self, document: RawDocument, parsed: ValidationPolicy) -> None:
        name, spec = parsed.metadata.name, parsed.spec
        extra = spec.extraKubernetesTypes or []
        for position, kind in enumerate(extra):
            if (message := refused_extra(self.registry, kind)) is not None:
                at = ("spec", "extraKubernetesTypes", position)
                self._say(document, at, policy_codes.EXTRA_TYPE_REFUSED, message)
        allowed = self.registry.extra_types.intersection(map(gvk_of, extra))
        self.validation[name] = ValidationRules(name, _BASES[spec.base].strict, allowed)

    def _say(self, document: RawDocument, path: Path, code: str, message: str) -> None:
        origin = Origin(document.file, document.lines.line_of(path))
        self.findings.append(finding(code, message, origin, path=path))
