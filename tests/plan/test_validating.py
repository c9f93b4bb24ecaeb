"""Verdicts on what a compile made: what is said, once, where, and what becomes of the units."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.model.identity import ClusterName, GroupVersionKind, WorkloadRef
from gitops.plan.compiling import Compiler
from gitops.plan.units import Compilation
from gitops.policy.facts import ClusterFacts
from gitops.policy.published import Published
from gitops.policy.registry import OperatorRegistry
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Verdict
from gitops.source.folders import FolderTree

A, B = ClusterName("a"), ClusterName("b")
GRAPH = GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment")
CONFIG = GroupVersionKind("", "v1", "ConfigMap")
ALL = (CONFIG, GroupVersionKind("", "v1", "Namespace"))
GRAPHS = "functions/chat/manifests/graph.yaml"
BUNDLE = "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: base}\nspec: {manifests: [objects.yaml]}\n"


def definition(kind: str = "DynamoGraphDeployment", *, group: str = "nvidia.com", **spec: Any) -> dict[str, Any]:
    """A definition whose objects have this schema under `spec`; other fields are taken as they are."""
    properties = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }


TAKES = definition(properties={"backendFramework": {"type": "string", "enum": ["vllm"]}})
REFUSES = definition(properties={"backendFramework": {"type": "string", "enum": ["sglang"]}})


def facts(*definitions: Mapping[str, Any], **more: Any) -> ClusterFacts:
    return ClusterFacts(schemas=schemas_of_definitions(definitions), **more)


def by_code(compiled: Compilation, code: str) -> list[str]:
    return [f"{f.origin}: {f.message}" for f in compiled.findings if f.code == code]


def names(compiled: Compilation) -> set[str]:
    return {str(key) for key in compiled.units}


# -- refused ---------------------------------------------------------------------------------------------------------


def test_n07_the_same_manifest_may_be_valid_on_one_cluster_and_not_on_another(compile_small: Any, small: Any) -> None:
    placed = {key.cluster for key in compile_small().units if key.kind == "function"}
    assert placed == {"a", "b"}
    compiled = compile_small(facts={A: facts(TAKES), B: facts(REFUSES)})
    (said,) = by_code(compiled, "GO4505")
    assert said.startswith(f"{GRAPHS}:6: DynamoGraphDeployment chat: spec.backendFramework: ")
    assert "(rule: enum)" in said
    assert said.endswith("refused by cluster b, valid on cluster a")
    assert [f.workload for f in compiled.errors] == [WorkloadRef("function", "chat")]  # type: ignore[arg-type]


def test_a_unit_that_its_cluster_refuses_is_held_and_the_others_go_on(compile_small: Any) -> None:
    everywhere = names(compile_small())
    compiled = compile_small(facts={A: facts(TAKES), B: facts(REFUSES)})
    assert {str(key) for key in compiled.refused} == {n for n in everywhere if n.endswith("@b") and "chat" in n}
    assert names(compiled) == everywhere - {str(key) for key in compiled.refused}
    assert compiled.held == frozenset(), "the workload goes on elsewhere"
    assert compiled.complete
    refused = next(iter(compiled.refused.values()))
    assert {o.ref for o in refused.objects} <= compiled.named[refused.key.workload]


def test_an_error_is_told_at_the_overlay_that_made_it(compile_small: Any, small: Any) -> None:
    overlay = small().files["functions/chat/overlays/h100.yaml"]
    graph = "---\napiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\n"
    change = {"functions/chat/overlays/h100.yaml": f"{overlay}{graph}spec:\n  backendFramework: trtllm\n"}
    compiled = compile_small(change, facts={A: facts(TAKES), B: facts(TAKES)})
    (said,) = by_code(compiled, "GO4505")
    assert said.startswith("functions/chat/overlays/h100.yaml:12: ")
    assert said.endswith("refused by clusters a, b"), "two instances, said once"


@pytest.mark.parametrize("where", ["functions", "bundles", "tasks"])
def test_other_errors_hide_no_refusal(compile_small: Any, small: Any, where: str) -> None:
    """An annotation of the operator is one error, a word that the schema lacks another: both are told, each once."""
    graph = (
        small()
        .files[GRAPHS]
        .replace("  name: chat\n", "  name: chat\n  annotations: {nvidia.com/workload-provider: grove}\n", 1)
    )
    task = (
        "apiVersion: gitops/v1alpha1\nkind: Task\nmetadata: {name: once}\nspec:\n  version: '1'\n"
        "  operatorTypes: [dynamo]\n  manifests: [graph.yaml]\n  gpuSpecification: {gpu: H100, clusters: [a]}\n"
    )
    file, files = {
        "functions": (GRAPHS, {GRAPHS: graph}),
        "bundles": (
            "bundles/base/objects.yaml",
            {"bundles/base/objects.yaml": graph.replace("  name: chat\n", "  name: chat\n  namespace: web\n")},
        ),
        "tasks": ("tasks/once/graph.yaml", {"tasks/once/task.yaml": task, "tasks/once/graph.yaml": graph}),
    }[where]
    compiled = compile_small(files, facts={A: facts(REFUSES), B: facts(REFUSES)})
    line = next(n for n, text in enumerate(files[file].splitlines(), 1) if "backendFramework" in text)
    told = [(f.code, f.origin.line) for f in compiled.errors if f.origin.file == file]
    assert sorted(told) == [("GO4302", line - 2), ("GO4505", line)]
    assert not any(unit.workload in compiled.held for unit in compiled.units)


def test_problems_of_one_object_are_bounded(compile_small: Any) -> None:
    wrong = definition(required=[f"field{n}" for n in range(100)])
    compiled = compile_small(facts={A: facts(wrong), B: facts(wrong)})
    found = [f for f in compiled.errors if f.code == "GO4505"]
    assert 1 < len(found) <= 21
    assert all(f.origin.file == GRAPHS for f in found)


def test_tasks_are_judged_and_not_run(compile_small: Any, small: Any) -> None:
    task = (
        "apiVersion: gitops/v1alpha1\nkind: Task\nmetadata: {name: once}\nspec:\n  version: '1'\n"
        "  operatorTypes: [dynamo]\n  manifests: [graph.yaml]\n  gpuSpecification: {gpu: H100, clusters: [a]}\n"
    )
    files = {"tasks/once/task.yaml": task, "tasks/once/graph.yaml": small().files[GRAPHS]}
    compiled = compile_small(files, facts={A: facts(REFUSES), B: facts(TAKES)})
    assert any("tasks/once/graph.yaml" in said for said in by_code(compiled, "GO4505"))
    assert "task/once@a" in {str(key) for key in compiled.refused}
    assert compiled.not_run == {}


# -- what wins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_git", [TAKES, REFUSES])
def test_a_definition_in_the_repository_wins_over_the_clusters(compile_small: Any, small: Any, in_git: Any) -> None:
    other = REFUSES if in_git is TAKES else TAKES
    objects = small().files["bundles/base/objects.yaml"] + "---\n" + yaml.safe_dump(in_git)
    compiled = compile_small({"bundles/base/objects.yaml": objects}, facts={A: facts(other), B: facts(other)})
    assert bool(compiled.refused) == (in_git is REFUSES)


def test_a_definition_counts_on_the_clusters_of_its_bundle_only(compile_small: Any, small: Any) -> None:
    files = {
        "bundles/crds/bundle.yaml": BUNDLE.replace("base", "crds").replace("spec: {", "spec: {clusters: [b], "),
        "bundles/crds/objects.yaml": yaml.safe_dump(REFUSES),
    }
    compiled = compile_small(files, facts={A: facts(TAKES), B: facts(TAKES)})
    assert {key.cluster for key in compiled.refused} == {"b"}


def test_files_say_what_the_cluster_does_not(small: Any) -> None:
    files = Published(schemas=schemas_of_definitions([REFUSES]))
    compiler = Compiler(OperatorRegistry.shipped(), files)
    told = compiler.compile(small(), facts={A: facts(TAKES)})
    assert {key.cluster for key in told.refused} == {"b"}
    copied = Compiler(OperatorRegistry.shipped(), Published(facts={A: facts(TAKES)}, schemas=files.schemas))
    assert {key.cluster for key in copied.compile(small(), facts={}).refused} == {"b"}, "a's own copy comes first"


# -- not verified ----------------------------------------------------------------------------------------------------


def test_without_facts_nothing_is_judged_and_nothing_said(compile_small: Any) -> None:
    assert compile_small().findings == ()
    assert {verdict for _, _, verdict in compile_small().judged()} == {Verdict.UNVERIFIED}


def test_what_is_not_verified_is_said_once_for_the_whole_repository(compile_small: Any) -> None:
    compiled = compile_small(facts={})
    assert by_code(compiled, "GO4506") == [
        "clusters/a.yaml: not verified: 8 objects of 3 kinds (ConfigMap, DynamoGraphDeployment, Namespace): "
        "no schemas of clusters a, b are known"
    ]
    assert compiled.errors == ()
    compiled = compile_small(facts={A: facts(TAKES), B: facts(TAKES)})
    (said,) = by_code(compiled, "GO4506")
    assert said.endswith("6 objects of 2 kinds (ConfigMap, Namespace): no schema is known for clusters a, b")


def test_every_object_has_its_verdict(compile_small: Any) -> None:
    compiled = compile_small(facts={A: facts(TAKES), B: facts(REFUSES)})
    verdicts = {(str(unit.key), item.ref.kind): verdict for unit, item, verdict in compiled.judged()}
    assert verdicts["function/chat/h100-0@a", "DynamoGraphDeployment"] is Verdict.VALID
    assert verdicts["function/chat/h100-1@b", "DynamoGraphDeployment"] is Verdict.INVALID
    assert verdicts["bundle/base@a", "ConfigMap"] is Verdict.UNVERIFIED
    assert len(verdicts) == sum(len(unit.objects) for unit in {**compiled.units, **compiled.refused}.values())


def test_n09_a_kind_that_is_not_served_waits_and_that_is_said(compile_small: Any) -> None:
    served = dict.fromkeys(ALL, True)
    old = {**served, GroupVersionKind("nvidia.com", "v1alpha1", "DynamoGraphDeployment"): True}
    live = ["function/chat/h100-0@a"]  # what is new goes where the kind is
    compiled = compile_small(facts={A: facts(served=served), B: facts(TAKES)}, live=live)
    assert by_code(compiled, "GO4507") == [f"{GRAPHS}:1: 1 object will wait: cluster a does not serve {GRAPH}"]
    assert compiled.errors == (), "the daemon waits for kinds"
    compiled = compile_small(facts={A: facts(served=old), B: facts(TAKES)}, live=live)
    (said,) = by_code(compiled, "GO4507")
    assert said.endswith(f"does not serve {GRAPH}, but nvidia.com/v1alpha1")


def test_a_kind_that_a_bundle_defines_is_not_waited_for(compile_small: Any, small: Any) -> None:
    served = {
        **dict.fromkeys(ALL, True),
        GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): False,
    }
    objects = small().files["bundles/base/objects.yaml"] + "---\n" + yaml.safe_dump(TAKES)
    change = {"bundles/base/objects.yaml": objects}
    compiled = compile_small(change, facts={A: facts(served=served), B: facts(served=served)})
    assert by_code(compiled, "GO4507") == []


def test_a_group_that_cannot_say_what_it_serves_is_unknown_not_empty(compile_small: Any) -> None:
    told = facts(served=dict.fromkeys(ALL, True), silent=frozenset({"nvidia.com/v1beta1"}))
    compiled = compile_small(facts={A: told, B: facts(TAKES)})
    assert by_code(compiled, "GO4507") == []
    assert any("cluster a cannot say what nvidia.com/v1beta1 serves" in said for said in by_code(compiled, "GO4506"))


# -- cost and state --------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[GroupVersionKind]:
    """Which kinds were judged, in order."""
    calls: list[GroupVersionKind] = []
    judge = KindSchema.judge

    def noted(self: KindSchema, body: Any, old: Any = None) -> Any:
        calls.append(self.gvk)
        return judge(self, body, old)

    monkeypatch.setattr(KindSchema, "judge", noted)
    return calls


def test_an_object_is_judged_once_for_all_its_instances_and_clusters(compile_small: Any, judged: Any) -> None:
    known = {A: facts(TAKES), B: facts(TAKES)}
    compiled = compile_small(facts=known)
    assert len([key for key in compiled.units if key.kind == "function"]) == 2
    assert judged == [GRAPH]
    compile_small(facts=known)
    compile_small(
        {"bundles/base/objects.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: w}\n"},
        facts=known,
    )
    assert judged == [GRAPH], "nothing that it is made of changed"
    other = definition("Other", group="example.com")
    compile_small(facts={A: facts(TAKES, other), B: facts(TAKES)})
    assert judged == [GRAPH], "another kind's schema changed"
    compile_small(facts={A: facts(REFUSES), B: facts(TAKES)})
    assert judged == [GRAPH, GRAPH]


def test_what_a_cluster_tells_changes_no_unit(compile_small: Any) -> None:
    """A new definition there must not look like a change in Git: nothing is sent for it."""
    before, after = compile_small(), compile_small(facts={A: facts(TAKES), B: facts(TAKES)})
    assert {k: u.content_key for k, u in before.units.items()} == {k: u.content_key for k, u in after.units.items()}
    assert after.units.keys() == before.units.keys()


def test_nothing_is_compiled_again_when_a_schema_changes(compiler: Compiler, small: Any) -> None:
    compiler.compile(small())
    made = compiler.statistics.compiled
    compiled = compiler.compile(small(), facts={A: facts(TAKES), B: facts(REFUSES)})
    assert compiled.refused
    assert compiler.statistics.compiled == made


def test_the_example_repository_has_no_error_and_no_warning_without_a_cluster() -> None:
    tree = FolderTree(Path(__file__).resolve().parents[2] / "repo-template")
    found = Compiler(OperatorRegistry.shipped()).compile(tree, facts={}).findings
    assert {str(f.severity) for f in found} == {"info"}
    assert len([f for f in found if f.code == "GO4506"]) == 1
