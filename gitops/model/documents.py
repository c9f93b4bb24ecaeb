"""Documents people write: `apiVersion: gitops/v1alpha1`, one pydantic model per kind.

Strict: an unknown key, a wrong type or text where a number belongs is an error at its line (the reader turns pydantic's
errors into findings). Names and limits of functions follow NVCF's API (a name may hold capitals and underscores, so it
is not a DNS label).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

API_VERSION = "gitops/v1alpha1"

WorkloadName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9A-Z][a-z0-9A-Z\-_]*$", min_length=1, max_length=128)]
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)]
RepoPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Metadata(Document):
    name: str


class LabelMetadata(Document):
    name: DnsLabel


class WorkloadMetadata(Document):
    name: WorkloadName


# -- Repository ------------------------------------------------------------------------------------------------------


class RepositorySpec(Document):
    ncaId: str | None = None
    statusBranch: str = "gitops-status"
    adopt: Literal["always", "never"] = "always"


class Repository(Document):
    """gitops.yaml: `metadata.name` is the reconciler's name; never renamed on a claimed cluster."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["Repository"]
    metadata: LabelMetadata
    spec: RepositorySpec = RepositorySpec()


# -- Cluster ---------------------------------------------------------------------------------------------------------


class InstanceType(Document):
    name: str
    gpusPerInstance: Annotated[int, Field(ge=1)] = 1


class Gpu(Document):
    name: str
    instanceTypes: list[str] = []
    capacity: Annotated[int, Field(ge=0)] | None = None


class Tenancy(Document):
    ncaId: str


class NamespaceTemplate(Document):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClusterSpec(Document):
    credentials: DnsLabel
    region: str | None = None
    attributes: list[str] = []
    gpus: list[Gpu] = []
    tenancy: Tenancy | None = None
    mode: Literal["enforce", "report", "paused"] = "enforce"
    namespaceTemplate: NamespaceTemplate = NamespaceTemplate()


class Cluster(Document):
    """clusters/<name>.yaml: a target. `credentials` is a name that the daemon resolves, never a secret."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["Cluster"]
    metadata: LabelMetadata
    spec: ClusterSpec


# -- Function --------------------------------------------------------------------------------------------------------


class Health(Document):
    protocol: Literal["HTTP", "gRPC"]
    uri: Annotated[str, StringConstraints(min_length=1)]
    port: Annotated[int, Field(gt=0)]
    timeout: str
    expectedStatusCode: int


class FunctionSpec(Document):
    version: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    description: Annotated[str, StringConstraints(max_length=256)] | None = None
    operatorTypes: list[str] = []
    manifests: list[RepoPath] = []
    namespace: DnsLabel | None = None
    health: Health | None = None
    tags: list[str] = []


class Function(Document):
    """functions/<name>/function.yaml: the immutable base of one function version."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["Function"]
    metadata: WorkloadMetadata
    spec: FunctionSpec


class PatchTarget(Document):
    apiVersion: str
    kind: str
    name: str


class InlinePatch(Document):
    """A JSON Merge Patch (RFC 7386) with the base object it is for."""

    target: PatchTarget
    patch: dict[str, Any]


Patch = RepoPath | InlinePatch


class GpuSpecification(Document):
    id: DnsLabel
    gpu: str
    instanceType: str | None = None
    clusters: list[str] = []
    regions: list[str] = []
    attributes: list[str] = []
    minInstances: Annotated[int, Field(ge=0)] = 1
    maxInstances: Annotated[int, Field(ge=1)] | None = None
    perCluster: bool = False
    manifestMergePatches: list[Patch] = []


class FunctionDeploymentSpec(Document):
    serviceName: str | None = None
    servicePort: Annotated[int, Field(ge=1, le=65535)] | None = None
    mode: Literal["enforce", "report", "paused"] = "enforce"
    patches: list[Patch] = []
    clusterPatches: dict[str, list[Patch]] = {}
    gpuSpecifications: list[GpuSpecification]


class FunctionDeployment(Document):
    """functions/<name>/deployment.yaml: where and how often the function runs, and the overlays for it."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["FunctionDeployment"]
    metadata: WorkloadMetadata
    spec: FunctionDeploymentSpec


# -- Bundle ----------------------------------------------------------------------------------------------------------


class BundleSpec(Document):
    manifests: list[RepoPath]
    clusters: list[str] = []
    regions: list[str] = []
    attributes: list[str] = []
    mode: Literal["enforce", "report", "paused"] = "enforce"
    patches: list[Patch] = []
    clusterPatches: dict[str, list[Patch]] = {}


class Bundle(Document):
    """bundles/<name>/bundle.yaml: any manifests for selected clusters; names its own namespaces."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["Bundle"]
    metadata: WorkloadMetadata
    spec: BundleSpec


# -- OperatorType ----------------------------------------------------------------------------------------------------


class OperatorKind(Document):
    group: str
    version: str
    kind: str
    early: bool = False  # applied before the other custom resources of its unit (NIMCache before NIMService)


class ChildKind(Document):
    """A kind that the operator makes. `selector` is a server-side label selector; `role` says what it counts for."""

    group: str
    version: str
    kind: str
    selector: str
    role: Literal["gate", "diagnose", "inform"]


class OperatorTypeSpec(Document):
    clusterAttribute: str
    kinds: list[OperatorKind]
    children: list[ChildKind] = []
    reservedMetadataPrefixes: list[str] = []


class OperatorType(Document):
    """policies/operators/<name>.yaml: an operator as data, not code."""

    apiVersion: Literal["gitops/v1alpha1"]
    kind: Literal["OperatorType"]
    metadata: LabelMetadata
    spec: OperatorTypeSpec
