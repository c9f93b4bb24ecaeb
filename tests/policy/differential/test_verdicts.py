"""Our verdict on thousands of mutated objects is the API server's.

What the server refuses is never VALID here, what it takes is never INVALID, and for custom kinds nearly nothing stays
UNVERIFIED. GITOPS_DIFFERENTIAL_SEED and GITOPS_DIFFERENTIAL_COUNT choose other mutations and more of them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from controlplane_kit.binaries import Binaries
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.plugin import PrivateApi
from differential_kit.comparing import Case, Outcome, reasons_of_unverified, table_of_outcomes, table_of_places
from differential_kit.ground import NAMESPACE, Base, Ground, gvk_of
from differential_kit.mutating import OPERATORS, Mutation, mutations
from differential_kit.samples import Body
from differential_kit.walking import Schema

from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.verdicts import Verdict

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
    calls = ((change.body, name_of(change), NAMESPACE) for change in changes)
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


@pytest.fixture(autouse=True)
def shown(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The tables of agreement are for people, also when nothing failed."""
    yield
    tables = capsys.readouterr().out
    with capsys.disabled():
        print(tables)


def print_tables(cases: Sequence[Case]) -> None:
    print(f"\n{table_of_outcomes(cases)}\n{table_of_places(cases)}\n{reasons_of_unverified(cases)}")


def assert_agreement(cases: Sequence[Case]) -> None:
    print_tables(cases)
    for outcome in (Outcome.MISSED, Outcome.OVERCAUTIOUS):
        wrong = [case for case in cases if case.outcome is outcome]
        assert not wrong, f"{len(wrong)} are {outcome}:\n" + "\n".join(str(case) for case in wrong[:20])


def assert_verified(cases: Sequence[Case]) -> None:
    doubtful = [case for case in cases if case.outcome in (Outcome.UNVERIFIED, Outcome.UNVERIFIED_REFUSED)]
    assert len(doubtful) <= CEILING * len(cases), "\n".join(str(case) for case in doubtful[:20])


def assert_telling(cases: Sequence[Case]) -> None:
    """That the mutations are worth something: both answers are common, every kind and operator is there."""
    refused = sum(not case.answer.accepted for case in cases) / len(cases)
    assert 0.3 < refused < 0.8
    used = {operator for case in cases for operator in case.mutation.operators}
    assert used == set(OPERATORS)


def changes_of(bases: Sequence[Base], count: int, *, update: bool = False) -> list[Mutation]:
    return list(mutations([(b.name, b.body, b.schema) for b in bases], seed=SEED, count=count, update=update))


def test_every_base_that_is_ours_is_accepted(ground: Ground) -> None:
    """So that no part of the probe goes untried."""
    names = {base.name for base in (*ground.bases, *ground.core_bases)}
    assert {name for name in names if name.startswith("probes.yaml")} == {f"probes.yaml#{n}" for n in range(3)}
    assert {name for name in names if name.startswith("core.yaml")} == {f"core.yaml#{n}" for n in range(11)}
    assert {base.kind for base in ground.bases} == set(ground.custom) - WITHOUT_BASE


WITHOUT_BASE = {("nvidia.com/v1beta2", "DynamoGraphDeploymentRun")}
"""Its rules need many fields at once: no value made at random keeps them all."""


def test_new_custom_objects(ground: Ground) -> None:
    cases = judged(ground, changes_of(ground.bases, COUNT), ground.by_definitions)
    assert_agreement(cases)
    assert_verified(cases)
    assert_telling(cases)


def test_definitions_and_openapi_give_the_same_verdicts(ground: Ground) -> None:
    """But for two things that a document does not tell: limits of metadata, and where numbers of replicas are."""
    for change in changes_of(ground.bases, COUNT // 3):
        gvk = gvk_of((change.body["apiVersion"], change.body["kind"]))
        by_definition, by_document = ground.by_definitions.get(gvk), ground.by_openapi.get(gvk)
        assert by_definition is not None
        assert by_document is not None
        one, other = by_definition.judge(change.body), by_document.judge(change.body)
        untold = [problem for problem in one.problems if problem.rule == "scale" or "metadata" in problem.path]
        if untold and len(untold) == len(one.problems):
            assert other.verdict is not Verdict.VALID or gvk.kind == "Probe", str(change)
        else:
            assert one.verdict is other.verdict, f"{change}\n{one}\n{other}"


def test_built_in_objects(ground: Ground) -> None:
    """The server's own code checks more than the schema tells: UNVERIFIED is right, a wrong certainty is not."""
    assert_agreement(judged(ground, changes_of(ground.core_bases, COUNT // 3), ground.by_openapi))


def test_updates(ground: Ground) -> None:
    """Over a live object: rules about old and new values, and fields that another manager declares too."""
    bases = named_apart(ground.bases)
    live = {base.name: created(ground, base.body) for base in bases}
    for base in bases[::3]:
        live[base.name] = shared_with_another(ground, base) or live[base.name]
    cases = judged(ground, over(live, changes_of(bases, COUNT // 2, update=True)), ground.by_definitions, live)
    assert_agreement(cases)
    assert_verified(cases)


def over(live: Mapping[str, Any], changes: Iterable[Mutation]) -> list[Mutation]:
    """Those that still name the live object."""
    return [change for change in changes if name_of(change) == live[change.base]["metadata"]["name"]]


def named_apart(bases: Iterable[Base]) -> list[Base]:
    """Each with a name of its own: objects of some kinds are the whole cluster's."""
    return [replace(base, body=renamed(base.body, f"live-{number}")) for number, base in enumerate(bases)]


def renamed(body: Body, name: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "name": name}}


def test_an_older_release(private_api: PrivateApi, shared: Path) -> None:
    """The same objects where the operator is some months older: another version is stored, fields are missing."""
    ground = Ground(private_api(), shared / "upstream", ["dynamo/crds-2026-04"])
    cases = judged(ground, changes_of(ground.bases, COUNT // 6), ground.by_definitions)
    ground.oracle.close()
    assert_agreement(cases)
    assert_verified(cases)


def test_what_broke_the_schema_before(private_api: PrivateApi, shared: Path) -> None:
    """Over live objects that were made before their definition became strict: what stays as it was may stay."""
    ground = Ground(private_api(), shared / "upstream")
    bases = [base for base in ground.bases if base.kind[1] in {"Probe", "NIMService", "DynamoGraphDeployment"}]
    ground.api.create_crd_objects([loosened(body) for body in ground.definitions])
    live, broken = {}, []
    for base in named_apart(Base(str(change), change.body, base.schema) for base, change in broken_ones(bases)):
        answer = ground.oracle.apply(base.body, name=base.body["metadata"]["name"], namespace=NAMESPACE, dry_run=False)
        if answer.accepted:
            live[base.name] = answer.live
            broken.append(base)
    ground.api.create_crd_objects(ground.definitions)
    ground.api.wait(lambda: is_strict(ground), "the strict definitions to hold")
    cases = judged(ground, over(live, changes_of(broken, COUNT // 6, update=True)), ground.by_definitions, live)
    ground.oracle.close()
    assert_agreement(cases)
    assert_verified(cases)


def broken_ones(bases: list[Base]) -> Iterator[tuple[Base, Mutation]]:
    """Mutations whose metadata can be given another name, each with its base."""
    for base, change in zip(bases * 2, changes_of(bases, len(bases) * 2), strict=True):
        if isinstance(change.body["metadata"], dict):
            yield base, change


def loosened(definition: Body) -> Body:
    """The definition with structure only: types and lists, and nothing that a value could break."""
    made = copy.deepcopy(definition)
    for version in made["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = loose(version["schema"]["openAPIV3Schema"])
        version["schema"]["openAPIV3Schema"]["properties"].pop("metadata", None)
    return made


def loose(schema: Schema) -> Schema:
    made = {word: value for word, value in schema.items() if word in STRUCTURE}
    if "properties" in schema:
        made["properties"] = {name: loose(child) for name, child in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            made[word] = loose(schema[word])
    if schema.get("x-kubernetes-list-type") == "map":  # a key has to be there, or to have a default
        made["items"]["required"] = schema["items"].get("required", [])
    return made


STRUCTURE = {
    *("type", "properties", "items", "additionalProperties", "nullable", "default", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
}


def is_strict(ground: Ground) -> bool:
    body = {"apiVersion": "gitops.example/v1", "kind": "Probe", "metadata": {"name": "forbidden"}}
    return not ground.oracle.apply(body, name="forbidden", namespace=NAMESPACE).accepted


def created(ground: Ground, body: Body) -> Any:
    answer = ground.oracle.apply(body, name=body["metadata"]["name"], namespace=NAMESPACE, dry_run=False)
    assert answer.accepted, answer
    return answer.live


def shared_with_another(ground: Ground, base: Base) -> Any:
    """Another manager declares some of the same fields, with the same values; None when it may not."""
    name = base.body["metadata"]["name"]
    spec = base.body.get("spec") or {}
    part = {key: spec[key] for key in list(spec)[::2]} if isinstance(spec, dict) else spec
    identity = {word: base.body[word] for word in ("apiVersion", "kind")}
    body = {**identity, "metadata": {"name": name, "labels": {"other": "x"}}, "spec": part}
    return ground.oracle.apply(body, name=name, namespace=NAMESPACE, dry_run=False, manager="somebody").live
