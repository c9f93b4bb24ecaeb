"""What becomes of every object of the upstream files, told by a table that misses none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from differential_kit.ground import applied, gvk_of, is_object
from differential_kit.samples import CURRENT, Body, Sample, read_definitions, read_samples

from gitops.manifests.lines import dotted
from gitops.model.identity import GroupVersionKind
from gitops.policy.operator_rules import manifest_problems
from gitops.policy.registry import OperatorRegistry
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Judgement, Verdict

pytestmark = pytest.mark.upstream

TABLE: dict[str, list[dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "data/samples.yaml").read_text())


@pytest.fixture(scope="module")
def samples(shared: Path) -> list[Sample]:
    return list(read_samples(shared / "upstream"))


@pytest.fixture(scope="module")
def schemas(shared: Path) -> SchemaSet:
    return schemas_of_definitions(read_definitions(*(shared / "upstream" / folder for folder in CURRENT)))


def rows(samples: list[Sample]) -> Iterator[tuple[Sample, dict[str, Any]]]:
    for sample in samples:
        yield sample, TABLE[sample.file][sample.index]


def test_the_table_has_every_object(samples: list[Sample]) -> None:
    found = {file: [told(s) for s in samples if s.file == file] for file in dict.fromkeys(s.file for s in samples)}
    assert found == {file: [row.get("object") for row in rows] for file, rows in TABLE.items()}


def told(sample: Sample) -> str | None:
    """As the table names it."""
    if sample.body is None:
        return None
    name: Any = (sample.body.get("metadata") or {}).get("name")
    return f"{sample.body['kind']}/{name}" if name else sample.body["kind"]


def test_every_object_is_judged_as_the_table_says(samples: list[Sample], schemas: SchemaSet) -> None:
    wrong = []
    for sample, row in rows(samples):
        if not is_object(sample):
            assert row["is"] in {"not YAML", "kustomization", "without a name"}
            continue
        schema = schemas.get(gvk_of(sample.gvk))
        judgement = Judgement(unchecked=("no schema",)) if schema is None else schema.judge(applied(sample))
        if not agrees(judgement, row):
            wrong.append(f"{sample}: {row} but {judgement}")
    assert not wrong, "\n".join(wrong)


def test_operators_rules_say_what_the_table_says(samples: list[Sample]) -> None:
    """What webhooks and controllers refuse or mind, which no schema tells."""
    registry = OperatorRegistry.shipped()
    wrong = []
    for sample, row in rows(samples):
        said = sorted(mentioned(registry, sample.body)) if sample.body and is_object(sample) else []
        if said != row.get("operator", []):
            wrong.append(f"{sample}: {said}")
    assert not wrong, "\n".join(wrong)


def mentioned(registry: OperatorRegistry, body: Body) -> set[str]:
    """Ids of rules, and codes of what is no rule."""
    gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    rules = [r for r in registry.rules_of(gvk.group_kind).rules if not r.versions or gvk.version in r.versions]
    problems = manifest_problems(registry, gvk.group_kind, without_nulls(body))
    return {next((r.id for r in rules if r.message in message), code) for code, message, _ in problems}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def agrees(judgement: Judgement, row: dict[str, Any]) -> bool:
    """A template whose kind is defined is refused like anything else: where and by what is told."""
    if "rule" in row:
        named = {(dotted(problem.path), problem.rule) for problem in judgement.problems}
        return judgement.verdict is Verdict.INVALID and (row["at"], row["rule"]) in named
    expected = {"valid": Verdict.VALID, "unverified": Verdict.UNVERIFIED, "template": Verdict.UNVERIFIED}
    return judgement.verdict is expected[row["is"]]
