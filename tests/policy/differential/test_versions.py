"""One manifest, two clusters: what their versions of a definition say of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from differential_kit.ground import applied, gvk_of
from differential_kit.samples import CURRENT, Body, Sample, read_definitions, read_samples

from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Judgement, Verdict

pytestmark = pytest.mark.upstream

NIM = ("apps.nvidia.com/v1alpha1", "NIMService")
GRAPH = ("nvidia.com/v1beta1", "DynamoGraphDeployment")
OLD_GRAPH = ("nvidia.com/v1alpha1", "DynamoGraphDeployment")
REQUEST = ("nvidia.com/v1beta1", "DynamoGraphDeploymentRequest")


@pytest.fixture(scope="module")
def definitions(shared: Path) -> list[Body]:
    return list(read_definitions(*(shared / "upstream" / folder for folder in CURRENT)))


@pytest.fixture(scope="module")
def current(definitions: list[Body]) -> SchemaSet:
    return schemas_of_definitions(definitions)


@pytest.fixture(scope="module")
def of_april(shared: Path) -> SchemaSet:
    """Of a cluster whose Dynamo is some months older."""
    return schemas_of_definitions(read_definitions(shared / "upstream/dynamo/crds-2026-04"))


@pytest.fixture(scope="module")
def samples(shared: Path) -> list[Sample]:
    return list(read_samples(shared / "upstream"))


def older_nim(definitions: list[Body], change: Callable[[Body], None]) -> SchemaSet:
    """As if NIMService were of an older release: `change` gets the properties of its spec."""
    found = next(body for body in definitions if body["spec"]["names"]["kind"] == "NIMService")
    older = copy.deepcopy(found)
    change(older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
    return schemas_of_definitions([older])


def judge(schemas: SchemaSet, body: Mapping[str, Any]) -> Judgement:
    schema = schemas.get(gvk_of((body["apiVersion"], body["kind"])))
    assert schema is not None
    return schema.judge(body)


def first(samples: list[Sample], kind: tuple[str, str]) -> Body:
    return next(applied(sample) for sample in samples if sample.body and sample.gvk == kind)


def nim_with(samples: list[Sample], **fields: Any) -> Body:
    body = first(samples, NIM)
    return {**body, "spec": {**{k: v for k, v in body["spec"].items() if k != "replicas"}, **fields}}


def test_n07_a_renamed_field_is_valid_on_the_cluster_that_has_it(
    definitions: list[Body], current: SchemaSet, samples: list[Sample]
) -> None:
    def rename(spec: Body) -> None:
        scale = spec["scale"]["properties"]
        scale["hpaSpec"] = scale.pop("hpa")

    older = older_nim(definitions, rename)
    limits = {"minReplicas": 1, "maxReplicas": 2}
    new_name = nim_with(samples, scale={"enabled": True, "hpa": limits})
    old_name = nim_with(samples, scale={"enabled": True, "hpaSpec": limits})
    assert judge(current, new_name).verdict is Verdict.VALID
    assert judge(older, old_name).verdict is Verdict.VALID
    assert unknown(judge(current, old_name)) == [("spec", "scale", "hpaSpec")]
    assert unknown(judge(older, new_name)) == [("spec", "scale", "hpa")]


def unknown(judgement: Judgement) -> list[tuple[str | int, ...]]:
    assert judgement.verdict is Verdict.INVALID
    return [problem.path for problem in judgement.problems if problem.rule == "unknown field"]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (OLD_GRAPH, ("priorityClassName",), "high"),
        (REQUEST, ("sla", "optimizationType"), "latency"),
        (REQUEST, ("runtimeVersionOverride",), "1.2.3"),
    ],
    ids=str,
)
def test_n07_a_field_that_a_later_release_added(
    current: SchemaSet,
    of_april: SchemaSet,
    samples: list[Sample],
    kind: tuple[str, str],
    field: tuple[str, ...],
    value: str,
) -> None:
    body = copy.deepcopy(first([s for s in samples if "dynamographdeployment.yaml" not in s.file], kind))
    parent = body["spec"]
    for step in field[:-1]:
        parent = parent.setdefault(step, {})
    parent[field[-1]] = value
    assert judge(current, body).verdict is Verdict.VALID
    assert unknown(judge(of_april, body)) == [("spec", *field)]


def test_n07_a_version_that_a_later_release_added_is_not_guessed(of_april: SchemaSet) -> None:
    assert of_april.get(gvk_of(GRAPH)) is None
    assert of_april.get(gvk_of(OLD_GRAPH)) is not None


def test_n08_no_replicas_is_refused_where_the_schema_demands_one(
    definitions: list[Body], current: SchemaSet, samples: list[Sample]
) -> None:
    older = older_nim(definitions, lambda spec: spec["replicas"].update(minimum=1))
    none = nim_with(samples, replicas=0)
    assert judge(current, none).verdict is Verdict.VALID
    judgement = judge(older, none)
    assert [(problem.path, problem.rule) for problem in judgement.problems] == [(("spec", "replicas"), "minimum")]
    assert judge(older, nim_with(samples, replicas=1)).verdict is Verdict.VALID


def test_n08_a_component_may_have_no_replicas(current: SchemaSet, samples: list[Sample]) -> None:
    body = copy.deepcopy(first(samples, GRAPH))
    body["spec"]["components"][0]["replicas"] = 0
    assert judge(current, body).verdict is Verdict.VALID
    body["spec"]["components"][0]["replicas"] = -1
    assert judge(current, body).verdict is Verdict.INVALID
