"""OperatorType and OperatorInstall: what an operator is, as data, and which version of it is expected where."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import (
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    Document,
    LabelMetadata,
    NonBlank,
)
from gitops.model.onboarding import Detection
from gitops.model.versions import OperatorVersion

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
    deprecated: Checked[bool] = False
    """Still served, but the operator asks to move on: a warning."""


class ChildKind(Document):
    """A kind that the operator makes. `selector` is a server-side label selector ("" = all); `role` what it counts for:
    gate (the owner is not ready before it is), diagnose (explains why not), inform (only links others)."""

    group: Applied[str]
    version: Applied[NonBlank]
    kind: Applied[NonBlank]
    resource: Applied[NonBlank]
    selector: Applied[str]
    role: Applied[Literal["gate", "diagnose", "inform"]]


class NameLimit(Document):
    """The object's name plus the longest name found at `parts` may not exceed `limit` characters.

    `parts` is a path with `*` for every item of a list or every key of a map; ending in `*` means the keys themselves.
    Without it the object's name alone is limited.
    """

    group: Checked[str]
    kind: Checked[NonBlank]
    parts: Checked[str] = ""
    limit: Checked[Annotated[int, Field(ge=1)]]
    unlessAnnotation: Checked[str] = ""
    """`key=value`: does not hold for an object with this annotation."""


PartsPath = Annotated[str, StringConstraints(pattern=r"^(/[^/*]+)+/\*(/[^/*]+)?$", max_length=253)]
"""`/spec/services/*` are the keys of a map, `/spec/components/*/name` the items of a list by that field."""
FieldPath = Annotated[str, StringConstraints(pattern=r"^(/[^/]+)+$", max_length=253)]


class ComponentSet(Document):
    """Names of the parts of an object whose set must not change once it lives, and should not by an overlay's accident.

    `parts` is a path to a map whose keys they are, or to a list with the field that names its items.
    """

    group: Checked[str]
    kind: Checked[NonBlank]
    parts: Checked[PartsPath]


class FixedField(Document):
    """A field that may not go away once it is set. `path` has `*` for the items of a list, told apart by `name`, or the
    keys of a map."""

    group: Checked[str]
    kind: Checked[NonBlank]
    path: Checked[FieldPath]


class TextField(Document):
    """A field that is text and in which people write numbers, such as the tag of an image. `path` as in FixedField."""

    group: Checked[str]
    kind: Checked[NonBlank]
    path: Checked[FieldPath]


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
    detection: Applied[Detection | None] = None


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
