"""What compiling one workload needs and gives, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import LineMap, Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.clusters import Cluster
from gitops.model.documents import Document
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.model.patches import Patch, patch_path
from gitops.model.serving import Base, GpuTarget
from gitops.model.trees import FileTree, TreeEntry
from gitops.plan import codes
from gitops.plan.building import CleanObject
from gitops.plan.explaining import Trace
from gitops.plan.layout import MANIFEST_ENDINGS, WorkloadFolder
from gitops.plan.loading import Loader
from gitops.plan.naming import refused_for_function
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.plan.units import Unit
from gitops.policy import codes as policy_codes
from gitops.policy.facts import NO_FACTS, NOTHING_KNOWN, ClusterFacts, Facts
from gitops.policy.placement import Candidates, Selection, Versions, candidates
from gitops.policy.rbac import codes as rbac_codes
from gitops.policy.registry import OperatorRegistry, gvk_of
from gitops.policy.validation import DEFAULT, WITHOUT_CHOICE, ValidationRules, refused_extra

FORMAT = "1"
"""Raised when the same input gives other objects than before: changes every content key."""


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """A usable Cluster document and where it is written."""

    document: Cluster
    file: str
    lines: LineMap
    objects: tuple[CleanObject, ...] = ()  # of its namespace template, without a namespace
    template_lines: bytes = b""  # digest of the paths in the template with their lines

    def template_origin(self, field: str, key: str) -> Origin:
        """Where a label or annotation of its namespace template is written."""
        return Origin(self.file, self.lines.line_of(("spec", "namespaceTemplate", field, key)))


@dataclass(frozen=True, slots=True)
class Context:
    """What is the same for all workloads of one compile."""

    tree: FileTree
    loader: Loader
    registry: OperatorRegistry
    reconciler: str
    clusters: Mapping[str, ClusterEntry]
    unreadable: frozenset[str]  # clusters that exist, but whose document cannot be used now
    unheard: frozenset[ClusterName]  # clusters that have not told yet what lives there
    validation: Mapping[str, ValidationRules] = field(default_factory=dict)  # validation policies by name
    versions: Versions = field(default_factory=dict)  # of operators
    unusable_installs: frozenset[str] = frozenset()  # files that would say more of them
    facts: Facts = field(default_factory=lambda: NO_FACTS)  # what clusters tell of themselves
    trace: Trace | None = None  # keeps what overlays overrode
    kinds: dict[tuple[WorkloadRef, bytes], frozenset[GroupVersionKind]] = field(default_factory=dict)
    """Of the manifests of a workload's folder at this content, where they were needed: read once."""
    _candidates: dict[Selection, Candidates] = field(default_factory=dict, init=False, repr=False)

    @property
    def documents(self) -> dict[str, Cluster]:
        return {name: entry.document for name, entry in self.clusters.items()}

    @property
    def validation_material(self) -> list[Any]:
        """What the validation policies add to the keys of results: they decide of findings, not of objects."""
        policies = (self.validation[name] for name in sorted(self.validation))
        return [[rules.name, rules.strict, sorted(map(str, rules.extra_types))] for rules in policies]

    def rules_of(self, target: GpuTarget) -> ValidationRules:
        """The validation policy that a GPU specification chooses, with the types of its own that the settings allow.
        An unknown one is a finding, and as strict as can be."""
        choice = target.validationPolicy
        if choice is None:
            return WITHOUT_CHOICE
        rules = self.validation.get(choice.name, DEFAULT)
        extra = (gvk_of(extra) for extra in choice.extraKubernetesTypes or ())
        return replace(rules, extra_types=rules.extra_types | self.registry.extra_types.intersection(extra))

    def facts_of(self, cluster: ClusterName) -> ClusterFacts:
        return self.facts.get(cluster, NOTHING_KNOWN)

    def candidates(self, selection: Selection) -> Candidates:
        """What every cluster is to a selection; many workloads ask the same."""
        if selection not in self._candidates:
            self._candidates[selection] = candidates(selection, self.documents, self.versions, self.facts)
        return self._candidates[selection]


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs that one workload asks of a cluster."""

    cluster: ClusterName
    gpu: str  # case-folded
    gpus: int


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """Units of one workload, or none when something about it is wrong: then `suspects` are what else can be judged."""

    units: tuple[Unit, ...] = ()
    findings: tuple[Finding, ...] = ()
    demands: tuple[Demand, ...] = field(default=())
    kept: tuple[UnitKey, ...] = ()  # live units that stay as they are: neither changed nor removed
    named: frozenset[ObjectRef] | None = (
        None  # what its files name; None when that cannot be read, or when all of it is in its units
    )
    suspects: tuple[Unit, ...] = ()


def check_name(document: Document, folder: WorkloadFolder, *, file: str, line: int) -> tuple[Finding, ...]:
    """The folder is the name: a file that cannot be read then still tells whose it is."""
    name = document.metadata.name  # type: ignore[attr-defined]  # every workload document has metadata
    if name == folder.ref.name:
        return ()
    message = f"metadata.name is {name}, the folder {folder.ref.name}"
    return (finding(codes.NAME_IS_NOT_PLACE, message, Origin(file, line), workload=folder.ref),)


def check_sources(
    context: Context, spec: Base, namespace: str | None, document: RawDocument, workload: WorkloadRef
) -> list[Finding]:
    """What a function's or task's base must not be: of an unknown operator, or in a namespace it cannot have alone."""
    found: list[Finding] = []

    def say(code: str, message: str, *path: str | int) -> None:
        origin = Origin(document.file, document.lines.line_of(path))
        found.append(finding(code, message, origin, workload=workload, path=path))

    if namespace is not None and refused_for_function(namespace):
        message = f"a {workload.kind} cannot have the namespace {namespace} for itself"
        say(policy_codes.NAMESPACE_FORBIDDEN, message, "spec", "namespace")
    known = ", ".join(sorted(context.registry.types))
    for position, name in enumerate(spec.operatorTypes or ()):
        if name not in context.registry.types:
            message = f"unknown operator type {name} (known: {known})"
            say(codes.UNKNOWN_OPERATOR, message, "spec", "operatorTypes", position)
    return found


def operators_known(context: Context, spec: Base) -> bool:
    """Whether the operator types are told and known: only then can it be said which kinds they allow."""
    return spec.operatorTypes is not None and context.registry.types.keys() >= set(spec.operatorTypes)


def account_of(written: str | None) -> str:
    """A ServiceAccount as `namespace/name`; "" for none."""
    return "" if written is None else written if "/" in written else f"{SYSTEM_NAMESPACE}/{written}"


def check_account(written: str | None, document: RawDocument, workload: WorkloadRef) -> list[Finding]:
    """Accounts of Kubernetes' own controllers have rights that nobody else shall have."""
    if not account_of(written).startswith("kube-"):
        return []
    path = ("spec", "serviceAccount")
    origin = Origin(document.file, document.lines.line_of(path))
    message = f"{written} is an account of Kubernetes itself"
    return [finding(rbac_codes.SYSTEM_ACCOUNT, message, origin, workload=workload, path=path)]


def read_everything(context: Context, folder: WorkloadFolder) -> list[Finding]:
    """What cannot be read of a folder whose documents do not say what its files are."""
    found: list[Finding] = []
    for entry in folder.entries.values():
        if entry.path.endswith(MANIFEST_ENDINGS):
            found += context.loader.load(context.tree, entry, workload=folder.ref).findings
    return found


def unknown_clusters(
    names: Iterable[tuple[str, Path]], context: Context, *, lines: LineMap, file: str, workload: WorkloadRef
) -> list[Finding]:
    """Findings for names that are neither a Cluster document nor the place of an unreadable one."""
    found = []
    for name, at in names:
        if name not in context.clusters and name not in context.unreadable:
            known = ", ".join(sorted(context.clusters)) or "none"
            origin = Origin(file, lines.line_of(at))
            message = f"there is no cluster {name} (known: {known})"
            found.append(finding(codes.UNKNOWN_CLUSTER, message, origin, workload=workload, path=at))
    return found


def target_problems(
    spec: GpuTarget, context: Context, operator_types: Sequence[str]
) -> Iterator[tuple[str, str, Path]]:
    """(code, message, path below the specification) of what does not fit the workload or the repository's policies."""
    policy = spec.validationPolicy
    if policy is not None and policy.name not in context.validation:
        known = ", ".join(sorted(context.validation))
        message = f"there is no validation policy {policy.name} (known: {known})"
        yield codes.UNKNOWN_POLICY, message, ("validationPolicy", "name")
    for position, extra in enumerate(policy.extraKubernetesTypes or () if policy is not None else ()):
        if (refused := refused_extra(context.registry, extra)) is not None:
            yield policy_codes.EXTRA_TYPE_REFUSED, refused, ("validationPolicy", "extraKubernetesTypes", position)
    for name in sorted(spec.operatorVersions):
        if name not in operator_types:
            message = f"operatorVersions names {name}, which is not among the operatorTypes"
            yield codes.CONTRADICTION, message, ("operatorVersions", name)
    if spec.configuration is not None:
        yield codes.EXCLUSIVE, "configuration goes with helmChart only, also when empty", ("configuration",)


def patch_material(patches: Sequence[Patch], folder: WorkloadFolder) -> list[Any]:
    """What a list of patches adds to a content key: path and content of files, inline patches themselves."""
    material: list[Any] = []
    for patch in patches:
        path = patch_path(patch)
        entry = folder.entries.get(f"{folder.root}/{path}") if path is not None else None
        written = patch if isinstance(patch, str) else patch.model_dump(mode="json")
        material.append([written, entry.content_id if entry else ""])
    return material


def content_key(context: Context, *parts: Any, manifests: Iterable[TreeEntry]) -> str:
    """Digest of everything a unit is made from: equal keys, equal objects. What its cluster tells decides where it goes
    and whether it is refused, and changes no object: a new CRD there must not look like a change in Git."""
    files = [[entry.path, entry.content_id] for entry in manifests]
    policy = context.registry.policy_digest.hex()
    return digest(canonical_json([FORMAT, context.reconciler, policy, files, list(parts)])).hex()
