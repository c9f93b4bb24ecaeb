"""Names, limits and exclusions of NVCF's API: for every rule a document that breaks it, and the place that is named."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gitops.model.clusters import ClusterSpec
from gitops.model.documents import Rule, Use, problems_in, use_of
from gitops.model.durations import seconds_of
from gitops.model.functions import (
    FunctionDeploymentSpec,
    FunctionSpec,
    GpuSpecification,
    Health,
    InvocationPriority,
    LlmConfig,
    Model,
    RateLimit,
    ScaleDetails,
    Stickiness,
)
from gitops.model.patches import JsonPatch
from gitops.model.rates import _check
from gitops.model.serving import Telemetries
from gitops.model.tasks import TaskGpuSpecification, TaskSpec
from gitops.model.versions import satisfies

FUNCTION = {"version": "1", "operatorTypes": ["dynamo"], "manifests": ["manifests/"]}
IMAGE = {"version": "1", "containerImage": "registry.example/app:1.0"}
CHART = {"version": "1", "helmChart": "https://charts.example/app-1.0.tgz", "helmChartServiceName": "app"}
TASK = {**FUNCTION, "gpuSpecification": {"gpu": "H100"}}
GPU = {"id": "h100", "gpu": "H100"}
MODEL = {"name": "m", "version": "1", "uri": "https://models.example/m"}
UUID = "0123abcd-0123-0123-0123-0123456789ab"


def specs(*gpu_specifications):
    return {"gpuSpecifications": list(gpu_specifications)}


VALID = [
    (FunctionSpec, FUNCTION),
    (FunctionSpec, {**IMAGE, "containerArgs": "--x", "containerEnvironment": [{"key": "A", "value": ""}]}),
    (FunctionSpec, {**CHART, "models": [MODEL]}),
    (FunctionSpec, {**FUNCTION, "tags": ["a:b=c_d-E"] * 64, "description": "x" * 256}),
    (FunctionSpec, {**FUNCTION, "functionType": "LLM", "models": [{"name": "m", "llmConfig": {"uris": ["u"]}}]}),
    (
        FunctionSpec,
        {
            **FUNCTION,
            "health": {
                "protocol": "gRPC",
                "uri": "/grpc",
                "port": 65535,
                "timeout": "PT10S",
                "expectedStatusCode": 200,
            },
        },
    ),
    (FunctionSpec, {**FUNCTION, "rateLimit": {"rateLimit": "10-S,500-H", "exemptedNcaIds": ["a"]}}),
    (FunctionSpec, {**FUNCTION, "telemetries": {"logsTelemetryId": UUID}}),
    (FunctionSpec, {**FUNCTION, "llmInvocationConfig": {"priority": {"defaultPriority": 4294967295}}}),
    (FunctionSpec, {**FUNCTION, "secretRefs": [{"name": "ngc-api-secret"}]}),
    (GpuSpecification, {**GPU, "maxRequestConcurrency": 16384, "minInstances": 0, "maxInstances": 1}),
    (GpuSpecification, {**GPU, "operatorVersions": {"dynamo": ">=1.2,<2"}}),
    (
        GpuSpecification,
        {
            **GPU,
            "autoscalingConfiguration": {
                "scaleUpDetails": {
                    "factor": 2,
                    "threshold": 80,
                    "stickiness": {"size": "PT1H", "threshold": "PT59M"},
                },
                "scaleDownDetails": {"factor": 0.5, "threshold": 20.5},
            },
        },
    ),
    (TaskSpec, {**TASK, "maxRuntimeDuration": "PT1H"}),
    (TaskSpec, {**TASK, "maxRuntimeDuration": "PT30M", "terminationGracePeriodDuration": "PT30M"}),
    (TaskSpec, {**TASK, "resultHandlingStrategy": "NONE", "ttlAfterFinished": "P7D"}),
]


@pytest.mark.parametrize(("model", "fields"), VALID)
def test_within_the_limits(model, fields):
    assert list(problems_in(model.model_validate(fields))) == []


OUT_OF_BOUNDS = [
    (FunctionSpec, {**FUNCTION, "version": ""}, "version"),
    (FunctionSpec, {**FUNCTION, "version": "v" * 65}, "version"),
    (FunctionSpec, {**FUNCTION, "description": "x" * 257}, "description"),
    (FunctionSpec, {**FUNCTION, "tags": ["x"] * 65}, "tags"),
    (FunctionSpec, {**FUNCTION, "tags": ["x" * 129]}, "tags"),
    (FunctionSpec, {**FUNCTION, "tags": ["a b"]}, "tags"),
    (FunctionSpec, {**FUNCTION, "operatorTypes": []}, "operatorTypes"),
    (FunctionSpec, {**FUNCTION, "manifests": []}, "manifests"),
    (FunctionSpec, {**FUNCTION, "functionType": "llm"}, "functionType"),
    (FunctionSpec, {**FUNCTION, "apiBodyFormat": "openai"}, "apiBodyFormat"),
    (FunctionSpec, {**FUNCTION, "inferencePort": 0}, "inferencePort"),
    (FunctionSpec, {**FUNCTION, "inferencePort": 65536}, "inferencePort"),
    (FunctionSpec, {**FUNCTION, "health": {"protocol": "HTTP"}}, "health"),
    (FunctionSpec, {**FUNCTION, "secretRefs": [{"name": "A_B"}]}, "secretRefs"),
    (FunctionSpec, {**FUNCTION, "secretRefs": [{"name": "a", "value": "b"}]}, "secretRefs"),
    (FunctionSpec, {**FUNCTION, "telemetries": {"logsTelemetryId": "x"}}, "telemetries"),
    (FunctionSpec, {**FUNCTION, "rateLimit": {"rateLimit": "10-W"}}, "rateLimit"),
    (FunctionSpec, {**FUNCTION, "rateLimit": {"rateLimit": "10-S,20-S"}}, "rateLimit"),
    (
        FunctionSpec,
        {**FUNCTION, "rateLimit": {"perNcaIdRate": {f"a{i}": "1-S" for i in range(33)}}},
        "rateLimit",
    ),
    (FunctionSpec, {**CHART, "helmChart": "http://charts.example/x.tgz"}, "helmChart"),
    (FunctionSpec, {**CHART, "helmChart": "https://user:pass@charts.example/x.tgz"}, "helmChart"),
    (FunctionSpec, {**IMAGE, "containerImage": "a b"}, "containerImage"),
    (FunctionSpec, {**FUNCTION, "models": [{"name": "m", "llmConfig": {"uris": []}}]}, "models"),
    (
        FunctionSpec,
        {**FUNCTION, "models": [{"name": "m", "llmConfig": {"uris": ["u"], "routingMethod": "best"}}]},
        "models",
    ),
    (
        FunctionSpec,
        {**FUNCTION, "llmInvocationConfig": {"priority": {"defaultPriority": 4294967296}}},
        "llmInvocationConfig",
    ),
    (GpuSpecification, {**GPU, "id": "H_100"}, "id"),
    (GpuSpecification, {**GPU, "gpu": " "}, "gpu"),
    (GpuSpecification, {**GPU, "minInstances": -1}, "minInstances"),
    (GpuSpecification, {**GPU, "maxInstances": 0}, "maxInstances"),
    (GpuSpecification, {**GPU, "maxRequestConcurrency": 16385}, "maxRequestConcurrency"),
    (GpuSpecification, {**GPU, "preferredOrder": 100}, "preferredOrder"),
    (GpuSpecification, {**GPU, "operatorVersions": {"dynamo": "new"}}, "operatorVersions"),
    (GpuSpecification, {**GPU, "validationPolicy": {"extraKubernetesTypes": []}}, "validationPolicy"),
    (TaskSpec, {**TASK, "maxRuntimeDuration": "PT0S"}, "maxRuntimeDuration"),
    (TaskSpec, {**TASK, "maxRuntimeDuration": "8h"}, "maxRuntimeDuration"),
    (TaskSpec, {**TASK, "maxQueuedDuration": "PT0H"}, "maxQueuedDuration"),
    (TaskSpec, {**TASK, "ttlAfterFinished": "P1W"}, "ttlAfterFinished"),
    (TaskSpec, {**TASK, "containerEnvironment": [{"key": "A-B", "value": "x"}]}, "containerEnvironment"),
    (TaskSpec, {**TASK, "containerEnvironment": [{"key": "A", "value": " "}]}, "containerEnvironment"),
    (TaskSpec, FUNCTION, "gpuSpecification"),
    (ClusterSpec, {"credentials": "a", "namespaceTemplate": {"resourceQuota": {"hard": {}}}}, "namespaceTemplate"),
]


@pytest.mark.parametrize(("model", "fields", "at"), OUT_OF_BOUNDS)
def test_out_of_bounds(model, fields, at):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    assert {error["loc"][0] for error in caught.value.errors()} == {at}


BROKEN = [
    (FunctionSpec, {"version": "1"}, Rule.MISSING, ()),
    (FunctionSpec, {**FUNCTION, "containerImage": "a:1"}, Rule.EXCLUSIVE, ("manifests",)),
    (FunctionSpec, {**FUNCTION, **CHART}, Rule.EXCLUSIVE, ("manifests",)),
    (FunctionSpec, {**IMAGE, **CHART}, Rule.EXCLUSIVE, ("helmChart",)),
    (FunctionSpec, {"version": "1", "manifests": ["a"]}, Rule.MISSING, ("operatorTypes",)),
    (FunctionSpec, {"version": "1", "operatorTypes": ["nim"]}, Rule.MISSING, ("manifests",)),
    (FunctionSpec, {**CHART, "containerArgs": ""}, Rule.EXCLUSIVE, ("containerArgs",)),
    (FunctionSpec, {**CHART, "containerEnvironment": []}, Rule.EXCLUSIVE, ("containerEnvironment",)),
    (FunctionSpec, {**FUNCTION, "containerEnvironment": []}, Rule.EXCLUSIVE, ("containerEnvironment",)),
    (FunctionSpec, {**FUNCTION, "helmChartServiceName": "a"}, Rule.MISSING, ("helmChartServiceName",)),
    (FunctionSpec, {k: v for k, v in CHART.items() if k != "helmChartServiceName"}, Rule.MISSING, ("helmChart",)),
    (FunctionSpec, {**FUNCTION, "operatorTypes": ["nim", "nim"]}, Rule.NOT_UNIQUE, ("operatorTypes", 1)),
    (
        FunctionSpec,
        {**IMAGE, "containerEnvironment": [{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]},
        Rule.NOT_UNIQUE,
        ("containerEnvironment", 1),
    ),
    (FunctionSpec, {**FUNCTION, "models": [{"name": "m"}]}, Rule.MISSING, ("models", 0)),
    (FunctionSpec, {**FUNCTION, "models": [MODEL, MODEL]}, Rule.NOT_UNIQUE, ("models", 1)),
    (
        FunctionSpec,
        {**FUNCTION, "models": [{**MODEL, "llmConfig": {"uris": ["u"]}}]},
        Rule.CONTRADICTION,
        ("models", 0, "llmConfig"),
    ),
    (FunctionSpec, {**FUNCTION, "functionType": "LLM"}, Rule.MISSING, ("functionType",)),
    (FunctionSpec, {**FUNCTION, "functionType": "LLM", "models": [MODEL]}, Rule.MISSING, ("models", 0)),
    (FunctionSpec, {**FUNCTION, "telemetries": {}}, Rule.MISSING, ("telemetries",)),
    (FunctionSpec, {**FUNCTION, "telemetries": {"logsTelemetryId": None}}, Rule.MISSING, ("telemetries",)),
    (FunctionSpec, {**FUNCTION, "rateLimit": {"syncCheck": True}}, Rule.MISSING, ("rateLimit",)),
    (
        FunctionSpec,
        {**FUNCTION, "rateLimit": {"perUserRate": "1-S", "exemptedNcaIds": ["a"]}},
        Rule.CONTRADICTION,
        ("rateLimit", "exemptedNcaIds"),
    ),
    (
        FunctionSpec,
        {**FUNCTION, "rateLimit": {"rateLimit": "1-S", "perNcaIdRate": {"a": "2-S"}, "exemptedNcaIds": ["a"]}},
        Rule.CONTRADICTION,
        ("rateLimit", "exemptedNcaIds", 0),
    ),
    (
        FunctionSpec,
        {**FUNCTION, "llmInvocationConfig": {"priority": {"perAccountPriority": {"a": 1}}}},
        Rule.MISSING,
        ("llmInvocationConfig", "priority", "perAccountPriority"),
    ),
    (
        FunctionSpec,
        {**FUNCTION, "secretRefs": [{"name": "a"}, {"name": "a"}]},
        Rule.NOT_UNIQUE,
        ("secretRefs", 1),
    ),
    (GpuSpecification, {**GPU, "minInstances": 3, "maxInstances": 2}, Rule.MIN_ABOVE_MAX, ("minInstances",)),
    (GpuSpecification, {**GPU, "clusters": ["a", "a"]}, Rule.NOT_UNIQUE, ("clusters", 1)),
    (GpuSpecification, {**GPU, "regions": ["EU", "eu"]}, Rule.NOT_UNIQUE, ("regions", 1)),
    (
        GpuSpecification,
        {**GPU, "autoscalingConfiguration": {"scaleUpDetails": {"factor": 1, "threshold": 1}}},
        Rule.CONTRADICTION,
        ("autoscalingConfiguration", "scaleUpDetails", "factor"),
    ),
    (
        GpuSpecification,
        {**GPU, "autoscalingConfiguration": {"scaleDownDetails": {"factor": 1, "threshold": 1}}},
        Rule.CONTRADICTION,
        ("autoscalingConfiguration", "scaleDownDetails", "factor"),
    ),
    (
        GpuSpecification,
        {
            **GPU,
            "autoscalingConfiguration": {},
            "autoscalingConfigurationPolicy": "PLATFORM_CONFIGURATION",
        },
        Rule.EXCLUSIVE,
        ("autoscalingConfigurationPolicy",),
    ),
    (
        FunctionDeploymentSpec,
        specs(GPU, {**GPU, "gpu": "A100"}),
        Rule.NOT_UNIQUE,
        ("gpuSpecifications", 1, "id"),
    ),
    (FunctionDeploymentSpec, {**specs(GPU), "servicePort": 80}, Rule.MISSING, ("servicePort",)),
    (TaskSpec, {**TASK, "maxRuntimeDuration": "PT30M"}, Rule.CONTRADICTION, ("maxRuntimeDuration",)),
    (
        TaskSpec,
        {**TASK, "maxRuntimeDuration": "PT1H", "terminationGracePeriodDuration": "PT61M"},
        Rule.CONTRADICTION,
        ("terminationGracePeriodDuration",),
    ),
    (TaskSpec, {**TASK, "resultHandlingStrategy": "UPLOAD"}, Rule.CONTRADICTION, ("resultHandlingStrategy",)),
    (
        ClusterSpec,
        {"credentials": "a", "gpus": [{"name": "H100"}, {"name": "h100"}]},
        Rule.NOT_UNIQUE,
        ("gpus", 1),
    ),
    (
        JsonPatch,
        {
            "target": {"apiVersion": "v1", "kind": "K", "name": "n"},
            "operations": [{"op": "add"}],
            "path": "a.yaml",
        },
        Rule.EXCLUSIVE,
        ("path",),
    ),
    (JsonPatch, {"target": {"apiVersion": "v1", "kind": "K", "name": "n"}}, Rule.MISSING, ()),
]


@pytest.mark.parametrize(("model", "fields", "rule", "path"), BROKEN)
def test_rules_between_fields(model, fields, rule, path):
    assert [(p.rule, p.path) for p in problems_in(model.model_validate(fields))] == [(rule, path)]


def test_stickiness_is_bounded():
    window = {"factor": 2, "threshold": 1, "stickiness": {"size": "PT61M", "threshold": "PT61M"}}
    spec = GpuSpecification.model_validate({**GPU, "autoscalingConfiguration": {"scaleUpDetails": window}})
    at = ("autoscalingConfiguration", "scaleUpDetails", "stickiness")
    assert [p.path for p in problems_in(spec)] == [(*at, "size"), (*at, "threshold")]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT10S", 10), ("PT1H30M", 5400), ("P1DT12H", 129_600), ("PT0.5S", 0.5), ("P0D", 0)],
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1H ", "P1Y", "PT-1S", "pt1h", "PT1.S.S"])
def test_no_durations(text):
    with pytest.raises(ValueError, match="a duration is written"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["", "0-S", "1-s", "1S", "1-S,", "1-S, 2-M", "-1-S", "1-X", "١-S"])
def test_no_rates(text):
    with pytest.raises(ValueError, match="rate"):
        _check(text, "SMHDW")


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.2.1", ">=1.2,<2", True),
        ("v3.1.0", "==3.1.*", True),
        ("2.0.0", ">=1.2,<2", False),
        ("0.1.0-alpha.11", ">=0.1.0-alpha.9", True),
        ("0.1.0-alpha.11", ">=0.1.0", False),
        ("1.10.0", ">1.9.0", True),
    ],
)
def test_versions(version, wanted, fits):
    assert satisfies(version, wanted) is fits


NVCF = {
    FunctionSpec: """
        inferenceUrl inferencePort health healthUri containerImage helmChart helmChartServiceName models containerArgs
        containerEnvironment resources apiBodyFormat functionType tags description secrets rateLimit telemetries
        llmInvocationConfig utilsContainerImage
    """,
    Health: "protocol uri port timeout expectedStatusCode",
    Model: "name version uri llmConfig",
    LlmConfig: "uris tokenRateLimit tokenizer routingMethod",
    RateLimit: "rateLimit perUserRate perNcaIdRate exemptedNcaIds syncCheck",
    Telemetries: "logsTelemetryId metricsTelemetryId tracesTelemetryId",
    InvocationPriority: "defaultPriority perAccountPriority",
    GpuSpecification: """
        gpu instanceType minInstances maxInstances maxRequestConcurrency backend clusters regions attributes
        availabilityZones configuration helmValidationPolicy autoscalingConfiguration autoscalingConfigurationPolicy
        preferredOrder cpuArch os driverVersion storage systemMemory gpuMemory gpuSpecificationId
    """,
    ScaleDetails: "metric factor threshold stickiness",
    Stickiness: "size threshold",
    TaskSpec: """
        gpuSpecification containerImage helmChart containerArgs containerEnvironment models resources tags description
        maxRuntimeDuration maxQueuedDuration terminationGracePeriodDuration resultHandlingStrategy resultsLocation
        secrets telemetries
    """,
    TaskGpuSpecification: "gpu instanceType backend clusters configuration helmValidationPolicy",
}
"""Fields of NVCF's requests (create function, deploy, update of a GPU specification, create task) beside the name."""


@pytest.mark.parametrize("model", NVCF, ids=lambda model: model.__name__)
def test_every_field_of_nvcf_is_known(model):
    """One that is known is never called a misspelling: it is used, or refused with what to write instead."""
    assert set(NVCF[model].split()) <= set(model.model_fields)
    refused = [name for name in model.model_fields if use_of(model, name) is Use.REFUSED]
    rendered_later = {"containerImage", "helmChart"}
    assert all(model.model_fields[name].description for name in refused if name not in rendered_later)
