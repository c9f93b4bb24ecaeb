"""Task: something that runs to its end, once per version and cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from gitops.model.adoption import AdoptionRules
from gitops.model.documents import (
    AccountName,
    ApiVersion,
    Applied,
    Checked,
    Document,
    Mode,
    Problem,
    Recorded,
    Refused,
    Rule,
    WorkloadMetadata,
)
from gitops.model.durations import PositiveDuration, seconds_of
from gitops.model.patches import Patch
from gitops.model.serving import (
    Artifact,
    Base,
    GpuTarget,
    Version,
)
from gitops.model.uniqueness import repeated


class TaskVariable(Document):
    key: Checked[Annotated[str, StringConstraints(pattern=r"^[a-z0-9A-Z][a-z0-9A-Z_]*$", max_length=253)]]
    value: Checked[Annotated[str, StringConstraints(pattern=r"\S", max_length=32768)]]


class TaskGpuSpecification(GpuTarget):
    """Where the task runs: one cluster of those that fit, or each of them."""

    perCluster: Applied[bool] = False
    """Once on each cluster that fits, instead of once."""


class TaskSpec(AdoptionRules, Base):
    version: Applied[Version]
    """A task runs once for each version: raise it to run it again."""
    gpuSpecification: Applied[TaskGpuSpecification]
    containerEnvironment: Checked[list[TaskVariable] | None] = None  # type: ignore[assignment]  # stricter than a function's
    mode: Applied[Mode] = "enforce"
    serviceAccount: Applied[AccountName | None] = None
    """ServiceAccount of the cluster with whose rights the objects are written, read and deleted: `namespace/name`, or
    the name of one in gitops-system. Without it the reconciler's own rights count (docs/rights.md)."""
    patches: Applied[list[Patch]] = []
    """Patches for every cluster; then come those of the GPU specification, then those of the cluster."""
    clusterPatches: Applied[dict[str, list[Patch]]] = {}
    models: Recorded[list[Artifact]] = []
    maxRuntimeDuration: Recorded[PositiveDuration | None] = None
    """The task is ended after this long; no limit when left out."""
    maxQueuedDuration: Recorded[PositiveDuration] = "PT72H"
    terminationGracePeriodDuration: Recorded[PositiveDuration] = "PT1H"
    """Not above maxRuntimeDuration, also when it is left out (NVCF compares its default)."""
    ttlAfterFinished: Recorded[PositiveDuration] = "PT24H"
    """What the task made is removed this long after its end."""
    rerunOnNewCluster: Recorded[bool] = False
    """Run again when it is placed on another cluster; without it, a task that ran stays done."""
    resultHandlingStrategy: Checked[Literal["NONE", "UPLOAD"]] = "NONE"
    resultsLocation: Refused[Any] = None
    """Where NVCF uploads results to: store them from within the task."""

    def problems(self) -> Iterable[Problem]:
        yield from super().problems()
        if self.maxRuntimeDuration is not None and seconds_of(self.terminationGracePeriodDuration) > seconds_of(
            self.maxRuntimeDuration
        ):
            message = (
                f"terminationGracePeriodDuration {self.terminationGracePeriodDuration} is above maxRuntimeDuration"
            )
            field = (self.wrote("terminationGracePeriodDuration") or ["maxRuntimeDuration"])[0]
            yield Problem(Rule.CONTRADICTION, (field,), message)
        if self.resultHandlingStrategy == "UPLOAD":
            message = "UPLOAD needs a key in the task and is not supported: store results from within the task"
            yield Problem(Rule.CONTRADICTION, ("resultHandlingStrategy",), message)
        for position, name in repeated(artifact.name for artifact in self.models):
            yield Problem(Rule.NOT_UNIQUE, ("models", position), f"{name} is listed twice")


class Task(Document):
    """tasks/<name>/task.yaml: runs to its end once per version and cluster."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["Task"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[TaskSpec]
