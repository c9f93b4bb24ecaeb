"""Our verdict on thousands of mutated objects is the API server's.

What the server refuses is never VALID here, what it takes is never INVALID, and for custom kinds nearly nothing stays
UNVERIFIED. GITOPS_DIFFERENTIAL_SEED and GITOPS_DIFFERENTIAL_COUNT choose other mutations and more of them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.binaries import Binaries
from controlplane_kit.controlplane import ControlPlane
from differential_kit.comparing import Case, Outcome, reasons_of_unverified, table_of_outcomes, table_of_places
from differential_kit.ground import NAMESPACE, Base, Ground, gvk_of
from differential_kit.mutating import Mutation, mutations

from gitops.policy.schemas.schema_set import SchemaSet

pytestmark = [pytest.mark.controlplane, pytest.mark.upstream, pytest.mark.timeout(3600)]

SEED = os.environ.get("GITOPS_DIFFERENTIAL_SEED", "1")
COUNT = int(os.environ.get("GITOPS_DIFFERENTIAL_COUNT", "3000"))
CEILING = 0.01
"""Share of custom objects that may stay unverified."""


@pytest.fixture(scope="module")
def ground(controlplane_binaries: Binaries, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ControlPlane(tmp_path_factory.mktemp("differential"), binaries=controlplane_binaries) as plane:
        made = Ground(plane, shared / "upstream")
        yield made
        made.oracle.close()


def judged(
    ground: Ground, changes: Sequence[Mutation], schemas: SchemaSet, live: Mapping[str, Any] | None = None
) -> list[Case]:
    """What the server and we say of each. `live` are the objects that updates go over, by the name of their base."""
    calls = (
        (change.body, name_of(change), f"{NAMESPACE}-{change.base_number}" if live else NAMESPACE) for change in changes
    )
    answers = ground.oracle.apply_all(calls)
    cases = []
    for change, answer in zip(changes, answers, strict=True):
        kind = (change.body["apiVersion"], change.body["kind"])
        schema = schemas.get(gvk_of(kind))
        assert schema is not None
        sent = copy.deepcopy(change.body)
        judgement = schema.judge(change.body, live[change.base] if live else None)
        assert change.body == sent, "the verdict changed the object"
        cases.append(Case(" ".join(kind), change, answer, judgement))
    return cases


def name_of(change: Mutation) -> str:
    """For the URL: where the product takes it from as well."""
    name = change.body["metadata"].get("name")
    return name if isinstance(name, str) and name else "unnamed"


def told(cases: Sequence[Case]) -> str:
    return f"\n{table_of_outcomes(cases)}\n{table_of_places(cases)}\n{reasons_of_unverified(cases)}"


def assert_agreement(cases: Sequence[Case]) -> None:
    print(told(cases))
    for outcome in (Outcome.MISSED, Outcome.OVERCAUTIOUS):
        wrong = [case for case in cases if case.outcome is outcome]
        assert not wrong, f"{len(wrong)} are {outcome}:\n" + "\n".join(str(case) for case in wrong[:20])


def assert_verified(cases: Sequence[Case]) -> None:
    open_ = [case for case in cases if case.outcome in (Outcome.UNVERIFIED, Outcome.UNVERIFIED_REFUSED)]
    assert len(open_) <= CEILING * len(cases), "\n".join(str(case) for case in open_[:20])


def test_new_custom_objects(ground: Ground) -> None:
    bases = ground.bases()
    assert {base.kind for base in bases} >= set(ground.custom) - WITHOUT_BASE
    changes = list(mutations([(b.name, b.body, b.schema) for b in bases], seed=SEED, count=COUNT))
    cases = judged(ground, changes, ground.by_definitions)
    assert_agreement(cases)
    assert_verified(cases)


WITHOUT_BASE = {("nvidia.com/v1beta2", "DynamoGraphDeploymentRun")}
"""Its rules need many fields at once: no value made at random keeps them all."""


def test_definitions_and_openapi_give_the_same_verdicts(ground: Ground) -> None:
    bases = ground.bases()
    changes = list(mutations([(b.name, b.body, b.schema) for b in bases], seed=SEED, count=COUNT // 3))
    for change in changes:
        gvk = gvk_of((change.body["apiVersion"], change.body["kind"]))
        one, other = ground.by_definitions.get(gvk), ground.by_openapi.get(gvk)
        assert one is not None
        assert other is not None
        assert one.judge(change.body).verdict == other.judge(change.body).verdict, str(change)


def test_built_in_objects(ground: Ground) -> None:
    """The server's own code checks more than the schema tells: UNVERIFIED is right, a wrong certainty is not."""
    bases = ground.core_bases()
    changes = list(mutations([(b.name, b.body, b.schema) for b in bases], seed=SEED, count=COUNT // 3))
    assert_agreement(judged(ground, changes, ground.by_openapi))


def test_updates(ground: Ground) -> None:
    """Over a live object: rules about old and new values, and problems that were there before."""
    bases = ground.bases()
    live = {base.name: create(ground, base, f"{NAMESPACE}-{number}") for number, base in enumerate(bases)}
    changes = mutations([(b.name, b.body, b.schema) for b in bases], seed=SEED, count=COUNT, update=True)
    kept = [change for change in changes if name_of(change) == live[change.base]["metadata"]["name"]]
    cases = judged(ground, kept, ground.by_definitions, live)
    assert_agreement(cases)
    assert_verified(cases)


def create(ground: Ground, base: Base, namespace: str) -> Any:
    ground.api.create_namespace(namespace)
    answer = ground.oracle.apply(base.body, name=base.body["metadata"]["name"], namespace=namespace, dry_run=False)
    assert answer.accepted, answer
    return answer.live
