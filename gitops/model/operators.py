"""OperatorType and OperatorInstall: what an operator is, as data, and which version of it is expected where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gitops.model.documents import (
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    Document,
    LabelMetadata,
    NonBlank,
    Problem,
    Rule,
)
from gitops.model.object_rules import (
    ComponentSet,
    EmbeddedObject,
    FieldRule,
    FixedField,
    HandoverField,
    ImmutableField,
    NameLimit,
    OnceOnlyKind,
    RequiredField,
    TextField,
    TriggerField,
)
from gitops.model.onboarding import SECTIONS, Detection, Install, Manage, Observe, OperatorTenancy, Playbook, Rights
from gitops.model.pod_templates import PodTemplate, ServiceField
from gitops.model.versions import OperatorVersion, VersionRange

Scope = Literal["Namespaced", "Cluster"]


class OperatorKind(Document):
    """A kind that people may declare, exactly this version."""

    group: Applied[str]
    version: Applied[NonBlank]
    kind: Applied[NonBlank]
    resource: Applied[NonBlank]
    scope: Applied[Scope] = "Namespaced"
    early: Applied[bool] = False
    """Applied before the other custom resources of its unit (NIMCache before NIMService)."""
    afterReady: Applied[list[NonBlank]] = []
    """Kinds of its group: one that an object names must be ready before the object is applied. For operators that do
    not look again when what they wait for becomes ready."""
    deprecated: Checked[bool] = False
    """Still served, but the operator asks to move on: a warning."""
    holdsData: Applied[str] = ""
    """What is lost with an object of this kind and Git cannot bring back ("" = nothing): such an object is deleted only
    with consent on it (`gitops/allow-delete`)."""


class ChildKind(Document):
    """A kind that the operator makes. `selector` is a server-side label selector ("" = all); `role` what it counts for:
    gate (the owner is not ready before it is), diagnose (explains why not), inform (only links others)."""

    group: Applied[str]
    version: Applied[NonBlank]
    kind: Applied[NonBlank]
    resource: Applied[NonBlank]
    selector: Applied[str]
    role: Applied[Literal["gate", "diagnose", "inform"]]


class OperatorTypeSpec(Document):
    clusterAttribute: Applied[NonBlank]
    kinds: Applied[Annotated[list[OperatorKind], Field(min_length=1)]]
    companions: Applied[list[OperatorKind]] = []
    """Helper kinds that a function of this type may contain beside the operator's own."""
    children: Applied[list[ChildKind]] = []
    reservedMetadataPrefixes: Checked[list[NonBlank]] = []
    """Labels and annotations that only the operator may write."""
    nameLimits: Checked[list[NameLimit]] = []
    textFields: Checked[list[TextField]] = []
    componentSets: Checked[list[ComponentSet]] = []
    fixedFields: Checked[list[FixedField]] = []
    podTemplates: Checked[list[PodTemplate]] = []
    serviceTypes: Checked[list[ServiceField]] = []
    requireExplicit: Checked[list[RequiredField]] = []
    immutable: Checked[list[ImmutableField]] = []
    onceOnly: Checked[list[OnceOnlyKind]] = []
    triggers: Checked[list[TriggerField]] = []
    handovers: Applied[list[HandoverField]] = []
    rules: Checked[list[FieldRule]] = []
    embedded: Checked[list[EmbeddedObject]] = []
    supportedVersions: Checked[VersionRange | None] = None
    """Versions of the operator that this type is right for; the kinds, rules and children of others may differ."""
    detection: Applied[Detection | None] = None
    install: Checked[Install | None] = None
    manage: Checked[Manage | None] = None
    observe: Checked[Observe | None] = None
    rbac: Checked[Rights | None] = None
    tenancy: Applied[OperatorTenancy | None] = None
    playbooks: Checked[Annotated[list[Playbook], Field(min_length=1)] | None] = None

    @property
    def definitions(self) -> tuple[str, ...]:
        """Names of the CustomResourceDefinitions that hold the schemas of its kinds."""
        return tuple(sorted({f"{kind.resource}.{kind.group}" for kind in self.kinds}))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Sections of the onboarding checklist (gitops/model/onboarding.py) that are not there."""
        return tuple(name for name in SECTIONS if getattr(self, name) is None)

    def problems(self) -> Iterator[Problem]:
        """Two rules with one id."""
        first: dict[str, int] = {}
        for position, rule in enumerate(self.rules):
            if first.setdefault(rule.id, position) != position:
                message = f"rules has {rule.id} twice"
                yield Problem(Rule.NOT_UNIQUE, ("rules", position, "id"), message)


class OperatorType(Document):
    """policies/operators/<name>.yaml: an operator as data, not code."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["OperatorType"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[OperatorTypeSpec]


class OperatorInstallSpec(Document):
    operatorType: Checked[DnsLabel]
    version: Applied[OperatorVersion]
    """Version that is expected there; `operatorVersions` of GPU specifications are compared with it."""
    clusters: Applied[list[DnsLabel]] = []
    regions: Applied[list[NonBlank]] = []
    attributes: Applied[list[NonBlank]] = []


class OperatorInstall(Document):
    """operators/<name>.yaml: which operator and version is expected on which clusters. Nothing is installed by it."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["OperatorInstall"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[OperatorInstallSpec]
