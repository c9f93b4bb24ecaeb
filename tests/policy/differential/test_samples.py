"""What becomes of every object of the upstream files, told by a table that misses none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from differential_kit.ground import applied, gvk_of, is_object
from differential_kit.samples import CURRENT, Sample, read_definitions, read_samples

from gitops.manifests.lines import dotted
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Judgement, Verdict

pytestmark = pytest.mark.upstream

TABLE: dict[str, list[dict[str, str]]] = yaml.safe_load((Path(__file__).parent / "data/samples.yaml").read_text())


@pytest.fixture(scope="module")
def samples(shared: Path) -> list[Sample]:
    return list(read_samples(shared / "upstream"))


@pytest.fixture(scope="module")
def schemas(shared: Path) -> SchemaSet:
    return schemas_of_definitions(read_definitions(*(shared / "upstream" / folder for folder in CURRENT)))


def rows(samples: list[Sample]) -> Iterator[tuple[Sample, dict[str, str]]]:
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


def agrees(judgement: Judgement, row: dict[str, str]) -> bool:
    """A template whose kind is defined is refused like anything else: where and by what is told."""
    if "rule" in row:
        named = {(dotted(problem.path), problem.rule) for problem in judgement.problems}
        return judgement.verdict is Verdict.INVALID and (row["at"], row["rule"]) in named
    expected = {"valid": Verdict.VALID, "unverified": Verdict.UNVERIFIED, "template": Verdict.UNVERIFIED}
    return judgement.verdict is expected[row["is"]]
