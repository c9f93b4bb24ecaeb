"""Function and FunctionDeployment: the immutable base of a function version, and where and how often it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gitops.model.adoption import AdoptionRules
from gitops.model.documents import (
    AccountName,
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    Document,
    Mode,
    NonBlank,
    Problem,
    Recorded,
    Refused,
    Rule,
    WorkloadMetadata,
)
from gitops.model.durations import IsoDuration, PositiveDuration, seconds_of
from gitops.model.patches import Patch
from gitops.model.rates import Rate, TokenRate
from gitops.model.serving import (
    ApiBodyFormat,
    Base,
    GpuTarget,
    Port,
    Uri,
    Version,
)
from gitops.model.uniqueness import repeated

ROUTING_METHODS = frozenset(
    {
        "power-of-two",
        "wait-and-widen",
        "round-robin",
        "random",
        "pulsar",
        "pulsar-wait-and-widen",
        "groq-multiregion",
        "pulsar-multiregion",
    }
)
_Priority = Annotated[int, Field(ge=0, le=2**32 - 1)]
_LONGEST_STICKINESS = 3600.0


class Health(Document):
    """All five fields are needed."""

    protocol: Recorded[Literal["HTTP", "gRPC"]]
    uri: Recorded[NonBlank]
    port: Recorded[Port]
    timeout: Recorded[PositiveDuration]
    expectedStatusCode: Recorded[Annotated[int, Field(ge=100, le=599)]]


def _routing(text: str) -> str:
    if text.lower().replace("_", "-") not in ROUTING_METHODS:
        raise ValueError(f"not one of {', '.join(sorted(ROUTING_METHODS))}")
    return text


class LlmConfig(Document):
    uris: Recorded[Annotated[list[Uri], Field(min_length=1)]]
    tokenRateLimit: Recorded[TokenRate | None] = None
    tokenizer: Recorded[NonBlank | None] = None
    routingMethod: Recorded[Annotated[str, AfterValidator(_routing)] | None] = None


class Model(Document):
    """A model that the function serves: with version and uri, or, for functions of type LLM, with llmConfig."""

    name: Recorded[NonBlank]
    version: Recorded[NonBlank | None] = None
    uri: Recorded[Uri | None] = None
    llmConfig: Recorded[LlmConfig | None] = None


class RateLimit(Document):
    rateLimit: Recorded[Rate | None] = None
    perUserRate: Recorded[Rate | None] = None
    perNcaIdRate: Recorded[Annotated[dict[NonBlank, Rate], Field(max_length=32)]] = {}
    exemptedNcaIds: Recorded[Annotated[list[NonBlank], Field(max_length=32)]] = []
    syncCheck: Recorded[bool] = False

    def problems(self) -> Iterable[Problem]:
        if not (self.rateLimit or self.perUserRate or self.perNcaIdRate):
            yield Problem(Rule.MISSING, (), "one of rateLimit, perUserRate and perNcaIdRate is needed")
        if self.exemptedNcaIds and self.rateLimit is None:
            yield Problem(Rule.CONTRADICTION, ("exemptedNcaIds",), "exemptions are from rateLimit, which is not set")
        for position, name in enumerate(self.exemptedNcaIds):
            if name in self.perNcaIdRate:
                message = f"{name} is exempted and has a rate of its own"
                yield Problem(Rule.CONTRADICTION, ("exemptedNcaIds", position), message)


class InvocationPriority(Document):
    defaultPriority: Recorded[_Priority | None] = None
    perAccountPriority: Recorded[Annotated[dict[NonBlank, _Priority], Field(max_length=64)]] = {}

    def problems(self) -> Iterable[Problem]:
        if self.perAccountPriority and self.defaultPriority is None:
            yield Problem(Rule.MISSING, ("perAccountPriority",), "defaultPriority is needed beside perAccountPriority")


class LlmInvocation(Document):
    priority: Recorded[InvocationPriority]


class FunctionSpec(Base):
    version: Applied[Version]
    """Raised for every change of the base; the base of a version never changes."""
    functionType: Recorded[Literal["DEFAULT", "STREAMING", "LLM"]] = "DEFAULT"
    apiBodyFormat: Recorded[ApiBodyFormat] = "CUSTOM"
    inferenceUrl: Recorded[Uri | None] = None
    inferencePort: Recorded[Port | None] = None
    health: Recorded[Health | None] = None
    healthUri: Refused[Any] = None
    """Given up by NVCF: use health."""
    helmChartServiceName: Checked[DnsLabel | None] = None
    models: Recorded[list[Model] | None] = None
    rateLimit: Recorded[RateLimit | None] = None
    llmInvocationConfig: Recorded[LlmInvocation | None] = None
    utilsContainerImage: Refused[Any] = None
    """Internal to NVCF: an operator brings its own helpers."""

    def problems(self) -> Iterable[Problem]:
        yield from super().problems()
        if bool(self.wrote("helmChart")) != bool(self.wrote("helmChartServiceName")):
            have = "helmChart" if self.wrote("helmChart") else "helmChartServiceName"
            yield Problem(Rule.MISSING, (have,), "helmChart and helmChartServiceName go together: both or neither")
        yield from self._models()

    def _models(self) -> Iterator[Problem]:
        llm = self.functionType == "LLM"
        if llm and not self.models:
            yield Problem(Rule.MISSING, ("functionType",), "a function of type LLM needs models")
        models = self.models or []
        for position, model in enumerate(models):
            at = ("models", position)
            if llm and model.llmConfig is None:
                yield Problem(Rule.MISSING, at, "a model of a function of type LLM needs llmConfig")
            elif not llm and model.llmConfig is not None:
                yield Problem(Rule.CONTRADICTION, (*at, "llmConfig"), "llmConfig is for functions of type LLM")
            if not llm and (model.version is None or model.uri is None):
                yield Problem(Rule.MISSING, at, "a model needs version and uri")
        for position, name in repeated(model.name for model in models):
            yield Problem(Rule.NOT_UNIQUE, ("models", position), f"the model {name} is listed twice")


class Function(Document):
    """functions/<name>/function.yaml: the immutable base of one function version."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["Function"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[FunctionSpec]


# -- where and how often ---------------------------------------------------------------------------------------------


class Stickiness(Document):
    size: Recorded[IsoDuration]
    threshold: Recorded[IsoDuration]

    def problems(self) -> Iterable[Problem]:
        if seconds_of(self.size) > _LONGEST_STICKINESS:
            yield Problem(Rule.CONTRADICTION, ("size",), "a window of stickiness is at most PT1H")
        if seconds_of(self.threshold) >= seconds_of(self.size):
            yield Problem(Rule.CONTRADICTION, ("threshold",), "the threshold of stickiness must be below its size")


class ScaleDetails(Document):
    metric: Recorded[NonBlank | None] = None
    factor: Recorded[Annotated[float, Field(gt=0)]]
    threshold: Recorded[Annotated[float, Field(ge=0, le=100)]]
    stickiness: Recorded[Stickiness | None] = None


class Autoscaling(Document):
    scaleUpDetails: Recorded[ScaleDetails | None] = None
    scaleDownDetails: Recorded[ScaleDetails | None] = None

    def problems(self) -> Iterable[Problem]:
        if self.scaleUpDetails is not None and self.scaleUpDetails.factor <= 1:
            yield Problem(Rule.CONTRADICTION, ("scaleUpDetails", "factor"), "scaling up needs a factor above 1")
        if self.scaleDownDetails is not None and self.scaleDownDetails.factor >= 1:
            yield Problem(Rule.CONTRADICTION, ("scaleDownDetails", "factor"), "scaling down needs a factor below 1")


class GpuSpecification(GpuTarget):
    """One way to run the function: a GPU, how many instances, on which clusters, with which patches. A change of a
    specification with the same id is an update of it in place."""

    id: Applied[DnsLabel]
    """Names the instances of this specification: never positional, so that the list may be reordered."""
    minInstances: Applied[Annotated[int, Field(ge=0, le=1_000)]] = 1
    """Instances in total, spread over the clusters that fit. All functions and tasks together: 10,000."""
    maxInstances: Recorded[Annotated[int, Field(ge=1)] | None] = None
    perCluster: Applied[bool] = False
    """minInstances on each cluster that fits instead of in total."""
    maxRequestConcurrency: Recorded[Annotated[int, Field(ge=1, le=16_384)] | None] = None
    autoscalingConfiguration: Recorded[Autoscaling | None] = None
    autoscalingConfigurationPolicy: Recorded[Literal["CUSTOM_CONFIGURATION", "PLATFORM_CONFIGURATION"] | None] = None
    preferredOrder: Recorded[Annotated[int, Field(ge=1, le=99)] | None] = None

    def problems(self) -> Iterable[Problem]:
        yield from super().problems()
        if self.maxInstances is not None and self.minInstances > self.maxInstances:
            message = f"minInstances {self.minInstances} is above maxInstances {self.maxInstances}"
            yield Problem(Rule.MIN_ABOVE_MAX, ("minInstances",), message)
        if self.autoscalingConfigurationPolicy == "PLATFORM_CONFIGURATION" and self.autoscalingConfiguration:
            message = "PLATFORM_CONFIGURATION clears autoscalingConfiguration: write one of the two"
            yield Problem(Rule.EXCLUSIVE, ("autoscalingConfigurationPolicy",), message)


class FunctionDeploymentSpec(AdoptionRules):
    serviceName: Applied[DnsLabel | None] = None
    """Service behind which the function answers; it counts as live only with a ready endpoint there."""
    servicePort: Applied[Port | None] = None
    mode: Applied[Mode] = "enforce"
    serviceAccount: Applied[AccountName | None] = None
    """ServiceAccount of the cluster with whose rights the objects are written, read and deleted: `namespace/name`, or
    the name of one in gitops-system. Without it the reconciler's own rights count (docs/rights.md)."""
    patches: Applied[list[Patch]] = []
    """Patches for every instance; then come those of the GPU specification, then those of the cluster."""
    clusterPatches: Applied[dict[str, list[Patch]]] = {}
    gpuSpecifications: Applied[list[GpuSpecification]]

    def problems(self) -> Iterable[Problem]:
        yield from super().problems()
        for position, name in repeated(spec.id for spec in self.gpuSpecifications):
            yield Problem(Rule.NOT_UNIQUE, ("gpuSpecifications", position, "id"), f"the id {name} is used twice")
        if self.servicePort is not None and self.serviceName is None:
            yield Problem(Rule.MISSING, ("servicePort",), "servicePort is the port of serviceName, which is not set")


class FunctionDeployment(Document):
    """functions/<name>/deployment.yaml: where and how often the function runs, and the overlays for it."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["FunctionDeployment"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[FunctionDeploymentSpec]
