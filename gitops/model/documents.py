"""Documents people write: `apiVersion: gitops/v1alpha1`, one pydantic model per kind.

Strict: an unknown key, a wrong type or text where a number belongs is an error at its line (gitops/plan/documents.py
turns pydantic's errors into findings). Names and limits of functions follow NVCF's API (a name may hold capitals and
underscores, so it is not a DNS label).

Every field says what the reconciler does with it: applied (it changes what runs), checked (it only refuses), recorded
(kept and shown, does nothing yet: a finding of level info says so) or refused (known, but not supported by this
version: an error, never a silent skip).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

API_VERSION = "gitops/v1alpha1"


class Use(enum.StrEnum):
    """What the reconciler does with a field."""

    APPLIED = "applied"
    CHECKED = "checked"
    RECORDED = "recorded"
    REFUSED = "refused"


T = TypeVar("T")
Applied = Annotated[T, Use.APPLIED]
Checked = Annotated[T, Use.CHECKED]
Recorded = Annotated[T, Use.RECORDED]
Refused = Annotated[T, Use.REFUSED]

WorkloadName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9A-Z][a-z0-9A-Z\-_]*$", min_length=1, max_length=128)]
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)]
RepoPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
NonBlank = Annotated[str, StringConstraints(pattern=r"\S", max_length=253)]
Manifests = Annotated[list[RepoPath], Field(min_length=1)]
Mode = Literal["enforce", "report", "paused"]


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class LabelMetadata(Document):
    name: Applied[DnsLabel]


class WorkloadMetadata(Document):
    name: Applied[WorkloadName]


# -- Repository ------------------------------------------------------------------------------------------------------


class RepositorySpec(Document):
    ncaId: Checked[NonBlank | None] = None
    """Account the repository belongs to; a cluster of another account is refused."""
    statusBranch: Applied[NonBlank] = "gitops-status"
    adopt: Applied[Literal["always", "never"]] = "always"
    """What to do with an object that exists and carries no owner marks."""
    allowEmpty: Applied[bool] = False
    """Consent to a tree without any workload or without any cluster; otherwise such a tree prunes nothing."""


class Repository(Document):
    """gitops.yaml: `metadata.name` is the reconciler's name; never renamed on a claimed cluster."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["Repository"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[RepositorySpec] = RepositorySpec()


# -- Cluster ---------------------------------------------------------------------------------------------------------


class InstanceType(Document):
    name: Applied[NonBlank]
    gpusPerInstance: Checked[Annotated[int, Field(ge=1)]] = 1


class Gpu(Document):
    name: Applied[NonBlank]
    instanceTypes: Applied[list[InstanceType]] = []
    capacity: Checked[Annotated[int, Field(ge=0)] | None] = None
    """GPUs of this name in the cluster; more instances than fit are a finding."""


class Tenancy(Document):
    ncaId: Checked[NonBlank]


class NamespaceTemplate(Document):
    labels: Applied[dict[str, str]] = {}
    annotations: Applied[dict[str, str]] = {}


class ClusterSpec(Document):
    credentials: Applied[DnsLabel]
    region: Applied[NonBlank | None] = None
    attributes: Applied[list[NonBlank]] = []
    gpus: Applied[list[Gpu]] = []
    tenancy: Checked[Tenancy | None] = None
    mode: Applied[Mode] = "enforce"
    namespaceTemplate: Applied[NamespaceTemplate] = NamespaceTemplate()


class Cluster(Document):
    """clusters/<name>.yaml: a target. `credentials` is a name that the daemon resolves, never a secret."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["Cluster"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[ClusterSpec]


# -- Function --------------------------------------------------------------------------------------------------------


class Health(Document):
    protocol: Recorded[Literal["HTTP", "gRPC"]]
    uri: Recorded[NonBlank]
    port: Recorded[Annotated[int, Field(gt=0, le=65535)]]
    timeout: Recorded[NonBlank]
    expectedStatusCode: Recorded[Annotated[int, Field(ge=100, le=599)]]


class FunctionSpec(Document):
    version: Applied[Annotated[str, StringConstraints(min_length=1, max_length=64)]]
    description: Recorded[Annotated[str, StringConstraints(max_length=256)] | None] = None
    operatorTypes: Applied[list[DnsLabel]] = []
    manifests: Applied[Manifests | None] = None
    """Files or folders (every YAML or JSON file below one, sorted by path), relative to the function's folder."""
    namespace: Applied[DnsLabel | None] = None
    """Instance namespace by name; the function may then have only one instance on each cluster."""
    health: Recorded[Health | None] = None
    tags: Recorded[Annotated[list[Annotated[str, StringConstraints(max_length=128)]], Field(max_length=64)]] = []
    containerImage: Refused[Any] = None
    helmChart: Refused[Any] = None
    secretRefs: Refused[Any] = None
    secrets: Refused[Any] = None


class Function(Document):
    """functions/<name>/function.yaml: the immutable base of one function version."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["Function"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[FunctionSpec]


class PatchTarget(Document):
    """One object of the base, exactly. `namespace` is for bundles, where two objects may share a name."""

    apiVersion: Applied[NonBlank]
    kind: Applied[NonBlank]
    name: Applied[NonBlank]
    namespace: Applied[DnsLabel | None] = None


class InlinePatch(Document):
    """A JSON Merge Patch (RFC 7386) with the base object it is for."""

    target: Applied[PatchTarget]
    patch: Applied[dict[str, Any]]


def _patch_form(value: Any) -> str:
    return "file" if isinstance(value, str) else "inline"


Patch = Annotated[
    Annotated[RepoPath, Tag("file")] | Annotated[InlinePatch, Tag("inline")],
    Discriminator(_patch_form),
]
"""Path of a patch file relative to the workload's folder, or the patch itself."""


class GpuSpecification(Document):
    id: Applied[DnsLabel]
    gpu: Applied[NonBlank]
    instanceType: Applied[NonBlank | None] = None
    clusters: Applied[list[DnsLabel]] = []
    regions: Applied[list[NonBlank]] = []
    attributes: Applied[list[NonBlank]] = []
    minInstances: Applied[Annotated[int, Field(ge=0, le=10_000)]] = 1
    maxInstances: Recorded[Annotated[int, Field(ge=1)] | None] = None
    perCluster: Applied[bool] = False
    manifestMergePatches: Applied[list[Patch]] = []
    jsonPatches: Refused[Any] = None
    operatorVersions: Refused[Any] = None
    validationPolicy: Refused[Any] = None


class FunctionDeploymentSpec(Document):
    serviceName: Applied[DnsLabel | None] = None
    servicePort: Applied[Annotated[int, Field(ge=1, le=65535)] | None] = None
    mode: Applied[Mode] = "enforce"
    patches: Applied[list[Patch]] = []
    clusterPatches: Applied[dict[str, list[Patch]]] = {}
    gpuSpecifications: Applied[list[GpuSpecification]]


class FunctionDeployment(Document):
    """functions/<name>/deployment.yaml: where and how often the function runs, and the overlays for it."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["FunctionDeployment"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[FunctionDeploymentSpec]


# -- Bundle ----------------------------------------------------------------------------------------------------------


class BundleSpec(Document):
    manifests: Applied[Manifests]
    """Files or folders (every YAML or JSON file below one, sorted by path), relative to the bundle's folder."""
    clusters: Applied[list[DnsLabel]] = []
    regions: Applied[list[NonBlank]] = []
    attributes: Applied[list[NonBlank]] = []
    mode: Applied[Mode] = "enforce"
    patches: Applied[list[Patch]] = []
    clusterPatches: Applied[dict[str, list[Patch]]] = {}


class Bundle(Document):
    """bundles/<name>/bundle.yaml: any manifests for selected clusters; names its own namespaces."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["Bundle"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[BundleSpec]


# -- OperatorType ----------------------------------------------------------------------------------------------------

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
    """

    group: Checked[str]
    kind: Checked[NonBlank]
    parts: Checked[NonBlank]
    limit: Checked[Annotated[int, Field(ge=1)]]
    unlessAnnotation: Checked[str] = ""
    """`key=value`: does not hold for an object with this annotation."""


class OperatorTypeSpec(Document):
    clusterAttribute: Applied[NonBlank]
    kinds: Applied[Annotated[list[OperatorKind], Field(min_length=1)]]
    companions: Applied[list[OperatorKind]] = []
    """Helper kinds that a function of this type may contain beside the operator's own."""
    children: Applied[list[ChildKind]] = []
    reservedMetadataPrefixes: Checked[list[NonBlank]] = []
    """Labels and annotations that only the operator may write."""
    nameLimits: Checked[list[NameLimit]] = []


class OperatorType(Document):
    """policies/operators/<name>.yaml: an operator as data, not code."""

    apiVersion: Checked[Literal["gitops/v1alpha1"]]
    kind: Checked[Literal["OperatorType"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[OperatorTypeSpec]


KINDS: dict[str, type[Document]] = {
    model.__name__: model for model in (Repository, Cluster, Function, FunctionDeployment, Bundle, OperatorType)
}
"""Every kind of document that this version reads."""


def use_of(model: type[Document], field: str) -> Use:
    """How a field is used. Raises KeyError for an unknown field, LookupError for one that says nothing."""
    for marker in model.model_fields[field].metadata:
        if isinstance(marker, Use):
            return marker
    raise LookupError(f"{model.__name__}.{field} does not say what it is used for")


def written_fields(document: Document, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Use]]:
    """Every field that the author wrote, with its use; a recorded or refused field is not looked into."""
    for name in sorted(document.model_fields_set):
        here = (*path, name)
        use = use_of(type(document), name)
        yield here, use
        if use in (Use.APPLIED, Use.CHECKED):
            yield from _inside(getattr(document, name), here)


def _inside(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Use]]:
    if isinstance(value, Document):
        yield from written_fields(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _inside(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(item, (*path, key))
