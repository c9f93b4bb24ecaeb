"""What functions and tasks have in common: sources of their objects, secrets, and what they ask of a cluster.

Names and limits are those of NVCF's API (create function, create task), so that what is valid here is valid there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import (
    Applied,
    Checked,
    DnsLabel,
    DnsName,
    Document,
    NonBlank,
    Problem,
    Recorded,
    Refused,
    RepoPath,
    Rule,
)
from gitops.model.patches import JsonPatch, MergePatch
from gitops.model.uniqueness import repeated
from gitops.model.versions import VersionRange

Uri = Annotated[str, StringConstraints(pattern=r"^\S+$", min_length=1, max_length=2048)]
ImageReference = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$", min_length=1, max_length=1024)
]
ChartUrl = Annotated[str, StringConstraints(pattern=r"^(https|oci)://[^\s/@]+/[^\s@]+$", max_length=2048)]
Tag = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9\-_:=]+$", max_length=128)]
Tags = Annotated[list[Tag], Field(max_length=64)]
Description = Annotated[str, StringConstraints(max_length=256)]
Version = Annotated[str, StringConstraints(pattern=r"\S", min_length=1, max_length=64)]
Manifests = Annotated[list[RepoPath], Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Uuid = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$")
]


class SecretRef(Document):
    """A Secret by name; the daemon copies it from gitops-secrets on the target cluster."""

    name: Applied[DnsName]


class EnvironmentVariable(Document):
    key: Checked[NonBlank]
    value: Checked[Annotated[str, StringConstraints(max_length=32768)]]


class Artifact(Document):
    """Files that the platform fetches for a workload (NVCF's `resources`)."""

    name: Recorded[NonBlank]
    version: Recorded[NonBlank]
    uri: Recorded[Uri]


class Telemetries(Document):
    logsTelemetryId: Recorded[Uuid | None] = None
    metricsTelemetryId: Recorded[Uuid | None] = None
    tracesTelemetryId: Recorded[Uuid | None] = None

    def problems(self) -> Iterable[Problem]:
        if not (self.logsTelemetryId or self.metricsTelemetryId or self.tracesTelemetryId):
            yield Problem(Rule.MISSING, (), "telemetries name at least one of logs, metrics and traces")


class KubernetesType(Document):
    """An API type. `group` is empty for Kubernetes' core group."""

    group: Applied[Annotated[str, StringConstraints(max_length=253)]]
    version: Applied[NonBlank]
    kind: Applied[NonBlank]


class PolicyChoice(Document):
    """Which validation policy a workload is judged by. It never widens what an operator type allows."""

    name: Checked[NonBlank]
    """Default, Unrestricted, or the name of a ValidationPolicy document. Without a choice: Unrestricted."""
    extraKubernetesTypes: Applied[Annotated[list[KubernetesType], Field(min_length=1)] | None] = None
    """Types besides those of the operators; never more than the daemon's settings allow."""


class GpuTarget(Document):
    """What is asked of a cluster, and what differs there. Empty lists ask nothing; names compare without case."""

    gpu: Applied[NonBlank]
    instanceType: Applied[NonBlank | None] = None
    clusters: Applied[list[DnsLabel]] = []
    regions: Applied[list[NonBlank]] = []
    attributes: Applied[list[NonBlank]] = []
    operatorVersions: Applied[dict[DnsLabel, VersionRange]] = {}
    """Operator type to range of versions, such as `dynamo: ">=1.2,<2"`: where new instances may go. What a cluster runs
    counts, else what an OperatorInstall says of it; with neither it satisfies no range."""
    validationPolicy: Applied[PolicyChoice | None] = None
    manifestMergePatches: Applied[list[MergePatch]] = []
    jsonPatches: Applied[list[JsonPatch]] = []
    """RFC 6902; applied after manifestMergePatches."""
    configuration: Checked[dict[str, Any] | None] = None
    """Helm values: only with helmChart."""
    availabilityZones: Recorded[list[NonBlank] | None] = None
    cpuArch: Recorded[NonBlank | None] = None
    os: Recorded[NonBlank | None] = None
    driverVersion: Recorded[NonBlank | None] = None
    storage: Recorded[NonBlank | None] = None
    systemMemory: Recorded[NonBlank | None] = None
    gpuMemory: Recorded[NonBlank | None] = None
    backend: Refused[Any] = None
    """NVCF's name of a cluster group: use clusters, regions and attributes."""
    helmValidationPolicy: Refused[Any] = None
    """NVCF's policy for Helm charts: use validationPolicy, which holds for manifests too."""
    gpuSpecificationId: Refused[Any] = None
    """Written by NVCF; here a specification is named by its id, a task has one only."""

    def problems(self) -> Iterable[Problem]:
        for field in ("clusters", "regions", "attributes"):
            for position, name in repeated(getattr(self, field), fold=field != "clusters"):
                yield Problem(Rule.NOT_UNIQUE, (field, position), f"{name} is listed twice")


class Base(Document):
    """What functions and tasks share. Their objects come from exactly one of containerImage, helmChart, and
    operatorTypes with manifests; the first two are checked and then refused: this version does not render them."""

    operatorTypes: Applied[Annotated[list[DnsLabel], Field(min_length=1)] | None] = None
    manifests: Applied[Manifests | None] = None
    """Files or folders (every YAML or JSON file below one, sorted by path), relative to the workload's folder."""
    containerImage: Refused[ImageReference | None] = None
    containerArgs: Checked[Annotated[str, StringConstraints(max_length=32768)] | None] = None
    containerEnvironment: Checked[list[EnvironmentVariable] | None] = None
    helmChart: Refused[ChartUrl | None] = None
    description: Recorded[Description | None] = None
    namespace: Applied[DnsLabel | None] = None
    """Namespace by name, instead of one that is derived; a function may then have only one instance on each cluster."""
    tags: Recorded[Tags] = []
    resources: Recorded[list[Artifact]] = []
    secretRefs: Applied[Annotated[list[SecretRef], Field(max_length=64)]] = []
    """Secrets by name, copied into the workload's namespace from gitops-secrets on the target cluster."""
    secrets: Refused[Any] = None
    """Values of secrets never are in Git: use secretRefs."""
    telemetries: Recorded[Telemetries | None] = None

    def problems(self) -> Iterable[Problem]:
        yield from self._exactly_one()
        only_container = self.wrote("containerArgs", "containerEnvironment")
        if "containerImage" not in self.model_fields_set:
            for field in only_container:
                yield Problem(Rule.EXCLUSIVE, (field,), f"{field} goes with containerImage only, also when empty")
        for position, key in repeated(variable.key for variable in self.containerEnvironment or ()):
            yield Problem(Rule.NOT_UNIQUE, ("containerEnvironment", position), f"{key} is set twice")
        for position, name in repeated(self.operatorTypes or ()):
            yield Problem(Rule.NOT_UNIQUE, ("operatorTypes", position), f"{name} is listed twice")
        for position, name in repeated(ref.name for ref in self.secretRefs):
            yield Problem(Rule.NOT_UNIQUE, ("secretRefs", position), f"the Secret {name} is named twice")
        for position, name in repeated(artifact.name for artifact in self.resources):
            yield Problem(Rule.NOT_UNIQUE, ("resources", position), f"{name} is listed twice")

    def _exactly_one(self) -> Iterator[Problem]:
        manifests = self.wrote("manifests", "operatorTypes")
        ways = [*self.wrote("containerImage", "helmChart"), *manifests[:1]]
        if not ways:
            message = "one of operatorTypes with manifests, containerImage and helmChart is needed"
            yield Problem(Rule.MISSING, (), message)
        for way in ways[1:]:
            yield Problem(Rule.EXCLUSIVE, (way,), f"{way} excludes {ways[0]}, also when empty")
        if not ways[1:]:
            for name in ("operatorTypes", "manifests"):
                if manifests and getattr(self, name) is None:
                    yield Problem(Rule.MISSING, (name,), f"operatorTypes and manifests go together: {name} is missing")


ApiBodyFormat = Literal["PREDICT_V2", "CUSTOM"]
