"""Placing the workloads of a repository together: room, facts of clusters, what lives, bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef, UnitKey, WorkloadKind, WorkloadRef
from gitops.model.trees import EntryKind
from gitops.plan import placing
from gitops.policy.facts import ClusterFacts

A, B = ClusterName("a"), ClusterName("b")
GRAPH = GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment")
OLD_GRAPH = GroupVersionKind("nvidia.com", "v1alpha1", "DynamoGraphDeployment")
CONFIG = GroupVersionKind("", "v1", "ConfigMap")
LINK = EntryKind.SYMLINK
DEPLOYMENT = "functions/chat/deployment.yaml"
SERVED = {GRAPH: True, CONFIG: True}


def second(name, spec, *, manifest="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n"):
    """Another function with this GPU specification."""
    head = "apiVersion: gitops/v1alpha1\nkind: {}\nmetadata: {{name: {}}}\nspec:\n"
    return {
        f"functions/{name}/function.yaml": head.format("Function", name)
        + "  version: '1'\n  operatorTypes: [dynamo]\n  manifests: [s.yaml]\n",
        f"functions/{name}/deployment.yaml": head.format("FunctionDeployment", name)
        + f"  gpuSpecifications: [{{id: g, gpu: H100, {spec}}}]\n",
        f"functions/{name}/s.yaml": manifest,
    }


@pytest.fixture
def deployed(small):
    """The deployment of chat with more in its specification, and another number of instances."""

    def make(more="", instances=2):
        text = small().files[DEPLOYMENT].replace("minInstances: 2", f"minInstances: {instances}")
        return {DEPLOYMENT: text + "".join(f"      {line}\n" for line in more.splitlines())}

    return make


def functions(result):
    return sorted(str(key) for key in result.units if key.kind == "function")


VERDICTS = {"GO4506", "GO4507"}
"""What is said of schemas as soon as anything is known of a cluster (test_validating.py)."""


def told(result):
    return {(f.code, f.message) for f in result.findings if f.code not in VERDICTS}


# -- room -------------------------------------------------------------------------------------------------------------


def test_functions_share_what_a_cluster_has(compile_small, deployed):
    """8 GPUs: chat and early take turns, and the rest waits with the numbers."""
    result = compile_small(
        {**deployed("clusters: [a]", 6), **second("early", "clusters: [a], minInstances: 2, instanceType: H100x2")}
    )
    assert functions(result) == [
        *(f"function/chat/h100-{i}@a" for i in range(4)),
        *(f"function/early/g-{i}@a" for i in range(2)),
    ]
    assert told(result) == {
        ("GO4008", "2 of 6 instances of h100 wait for GPUs h100: a has 0 of 8 free, an instance takes 1")
    }


def test_a_new_function_takes_no_place_of_one_that_lives(compile_small, deployed):
    live = [f"function/chat/h100-{i}@a" for i in range(8)]
    files = {**deployed("clusters: [a]", 8), **second("aaa", "clusters: [a], minInstances: 1")}
    result = compile_small(files, live=live)
    assert functions(result) == live
    assert {f.code for f in result.findings} == {"GO4008"}


def test_room_that_gets_free_is_used(compiler, small, deployed):
    full = small({**deployed("clusters: [a]", 8), **second("late", "clusters: [a], minInstances: 1")})
    freed = small({**deployed("clusters: [a]", 7), **second("late", "clusters: [a], minInstances: 1")})
    assert "function/late/g-0@a" in functions(compiler.compile(full))
    assert "function/chat/h100-7@a" not in functions(compiler.compile(full)), "late got its first in the first turn"
    assert compiler.compile(freed).findings == ()


def test_what_lives_beyond_the_capacity_stays_and_is_told(compile_small, deployed):
    live = [f"function/chat/h100-{i}@a" for i in range(10)]
    result = compile_small(deployed("clusters: [a]", 10), live=live)
    assert functions(result) == sorted(live)
    assert told(result) == {("GO5005", "10 GPUs H100 are asked of a, which has 8")}


def test_on_each_cluster_only_as_many_as_fit(compile_small, deployed):
    result = compile_small(deployed("perCluster: true\ninstanceType: H100x2", 5), live=["function/chat/h100-4@b"])
    assert len(functions(result)) == 8
    assert "function/chat/h100-4@b" in functions(result)
    assert told(result) == {
        (
            "GO4008",
            "2 instances of h100 wait for GPUs h100: a has 0 of 8 free, an instance takes 2; "
            "b has 0 of 8 free, an instance takes 2",
        )
    }


def test_a_function_with_errors_takes_no_place(compile_small, deployed):
    """I3: what is not applied blocks nobody; what it has already is counted."""
    broken = second("aaa", "clusters: [a], minInstances: 8", manifest="a: [")
    files = {**deployed("clusters: [a]", 8), **broken}
    assert len(functions(compile_small(files))) == 8
    live = [f"function/aaa/g-{i}@a" for i in range(3)]
    assert len(functions(compile_small(files, live=live))) == 5


@pytest.mark.parametrize("broken", ["a: [", "kind: FunctionDeployment\n"])
def test_what_cannot_be_read_is_taken_for_the_largest(compile_small, deployed, broken):
    """Nobody can say how many GPUs its instances have: 3 of at most 2 each leave 2 of 8."""
    files = {**deployed("clusters: [a]", 8), **second("aaa", "minInstances: 1")}
    files["functions/aaa/deployment.yaml"] = broken
    live = [f"function/aaa/g-{i}@a" for i in range(3)]
    result = compile_small(files, live=live)
    assert functions(result) == ["function/chat/h100-0@a", "function/chat/h100-1@a"]


def test_a_folder_with_a_link_is_taken_for_the_largest_too(compile_small, deployed):
    files = {**deployed("clusters: [a]", 8), **second("aaa", "minInstances: 1"), "functions/aaa/x.yaml": LINK}
    result = compile_small(files, live=[f"function/aaa/g-{i}@a" for i in range(3)])
    assert functions(result) == ["function/chat/h100-0@a", "function/chat/h100-1@a"]


def test_without_a_declared_capacity_there_is_no_bound(compile_small, small, deployed):
    text = small().files["clusters/a.yaml"].replace("      capacity: 8\n", "")
    result = compile_small({**deployed("clusters: [a]", 100), "clusters/a.yaml": text})
    assert (len(functions(result)), result.findings) == (100, ())


def test_one_changed_file_compiles_one_workload_also_while_others_wait(compiler, small, deployed):
    files = {**deployed("clusters: [a]", 8), **second("early", "clusters: [a], minInstances: 4")}
    compiler.compile(small(files))
    before = compiler.statistics.compiled
    compiler.compile(small(files))
    assert compiler.statistics.compiled == before
    other = {"bundles/base/objects.yaml": small().files["bundles/base/objects.yaml"].replace("hello", "hi")}
    compiler.compile(small({**files, **other}))
    assert compiler.statistics.compiled == before + 1


# -- paused -----------------------------------------------------------------------------------------------------------


def test_a_paused_cluster_gets_new_instances_only_when_there_is_no_other(compile_small, small, deployed):
    paused = {name: small().files[f"clusters/{name}.yaml"] + "  mode: paused\n" for name in "ab"}
    only_a = {"clusters/a.yaml": paused["a"]}
    assert functions(compile_small(only_a)) == ["function/chat/h100-0@b", "function/chat/h100-1@b"]
    assert functions(compile_small(only_a, live=["function/chat/h100-0@a"]))[0] == "function/chat/h100-0@a"
    both = compile_small({**only_a, "clusters/b.yaml": paused["b"]})
    assert len(functions(both)) == 2
    assert {str(u.mode) for k, u in both.units.items() if k.kind == "function"} == {"paused"}
    assert len(functions(compile_small({**only_a, **deployed("clusters: [a]")}))) == 2


# -- facts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "clusters"),
    [
        (ClusterFacts(), "ab"),
        (ClusterFacts(served=SERVED), "ab"),
        (ClusterFacts(served={OLD_GRAPH: True, CONFIG: True}), "b"),
        (ClusterFacts(served={CONFIG: True}), "b"),
        (ClusterFacts(refused={"dynamo": "*"}), "b"),
        (ClusterFacts(refused={"nim": "*"}), "ab"),
    ],
    ids=["nothing", "served", "another version", "not served", "refused", "another refused"],
)
def test_new_instances_go_where_the_kind_is_served_and_the_operator_allowed(compile_small, a, clusters):
    result = compile_small(facts={A: a})
    assert {key[-1] for key in functions(result)} == set(clusters)
    assert told(result) == set()


def test_only_kinds_that_are_declared_count(compile_small):
    """The operator has more kinds; a function of ConfigMaps needs none of them."""
    facts = {A: ClusterFacts(served={CONFIG: True}), B: ClusterFacts(served={})}
    result = compile_small(second("plain", "minInstances: 3"), facts=facts)
    assert [key for key in functions(result) if "plain" in key] == [f"function/plain/g-{i}@a" for i in range(3)]


def test_what_no_cluster_serves_waits_and_says_so(compile_small):
    facts = {name: ClusterFacts(served={CONFIG: True}) for name in (A, B)}
    result = compile_small(facts=facts, live=["function/chat/h100-1@b"])
    assert functions(result) == ["function/chat/h100-1@b"]
    missing = "does not serve nvidia.com/v1beta1 DynamoGraphDeployment"
    assert told(result) == {("GO4010", f"1 of 2 instances of h100 wait: a: {missing}; b: {missing}")}
    assert not result.held


def test_a_barred_operator_holds_what_lives_there(compile_small):
    """Neither changed nor removed, and nothing new: `kept` and complete, and the other instance goes on."""
    live = ["function/chat/h100-0@a", "function/chat/h100-1@b"]
    result = compile_small(facts={A: ClusterFacts(refused={"dynamo": "a role has *"})}, live=live)
    assert functions(result) == ["function/chat/h100-1@b"]
    assert result.kept == {UnitKey.parse("function/chat/h100-0@a")}
    assert result.complete
    assert not result.held
    message = "function/chat/h100-0@a is held as it is: dynamo may not be used there: a role has *"
    assert told(result) == {("GO4012", message)}


def test_a_bundle_of_a_barred_operator_is_held_too(compile_small, small):
    graph = (
        small().files["functions/chat/manifests/graph.yaml"].replace("name: chat\n", "name: chat\n  namespace: web\n")
    )
    facts = {name: ClusterFacts(refused={"dynamo": "*"}) for name in (A, B)}
    result = compile_small({"bundles/base/objects.yaml": graph}, facts=facts, live=["bundle/base@a"])
    assert not [key for key in result.units if key.kind == "bundle"]
    assert result.kept == {UnitKey.parse("bundle/base@a")}
    assert {f.code for f in result.findings if "bundle" in str(f.workload)} == {"GO4012", "GO4010"}
    plain = compile_small(facts=facts)
    assert len([key for key in plain.units if key.kind == "bundle"]) == 2


@pytest.mark.parametrize("living", [[], ["bundle/ops@a"]], ids=["new", "living"])
def test_what_moved_to_a_bundle_of_a_barred_operator_is_named(compile_small, small, living):
    """Without the facts it would move; with them the unit that had it must not delete it (I1)."""
    files = small().files
    graph = files["functions/chat/manifests/graph.yaml"].replace("name: chat\n", "name: chat\n  namespace: web\n")
    page = files["bundles/base/objects.yaml"]
    change = {
        "bundles/ops/bundle.yaml": files["bundles/base/bundle.yaml"].replace("name: base", "name: ops"),
        "bundles/ops/objects.yaml": f"{graph}---\n{page}",
        "bundles/base/objects.yaml": page.replace("name: page", "name: other"),
    }
    result = compile_small(change, facts={A: ClusterFacts(refused={"dynamo": "*"})}, live=["bundle/base@a", *living])
    assert ObjectRef("", "ConfigMap", "web", "page") in result.named[WorkloadRef(WorkloadKind.BUNDLE, "ops")]
    assert not result.held
    assert UnitKey.parse("bundle/ops@b") in result.units
    assert not compile_small(change).named


INSTALL = (
    "apiVersion: gitops/v1alpha1\nkind: OperatorInstall\nmetadata: {name: dynamo}\n"
    "spec: {operatorType: dynamo, version: 1.5.0}\n"
)


@pytest.mark.parametrize(
    ("runs", "clusters", "codes"),
    [
        ({}, "ab", set()),
        ({"dynamo": "1.5.0"}, "ab", set()),
        ({"dynamo": "v1.5"}, "ab", set()),
        ({"dynamo": "1.4"}, "b", {"GO4011"}),
        ({"dynamo": "1.6"}, "ab", {"GO4011"}),
        ({"dynamo": "latest"}, "ab", set()),
        ({"nim": "1.4"}, "ab", set()),
    ],
)
def test_the_version_that_runs_counts_more_than_the_expected_one(compile_small, deployed, runs, clusters, codes):
    files = {**deployed('operatorVersions: {dynamo: ">=1.5"}'), "operators/dynamo.yaml": INSTALL}
    result = compile_small(files, facts={A: ClusterFacts(versions=runs)})
    assert {key[-1] for key in functions(result)} == set(clusters)
    assert {code for code, _ in told(result)} == codes


def test_a_version_that_runs_needs_no_install(compile_small, deployed):
    result = compile_small(
        deployed('operatorVersions: {dynamo: ">=1.5"}'), facts={B: ClusterFacts(versions={"dynamo": "1.5.2"})}
    )
    assert {key[-1] for key in functions(result)} == {"b"}


@pytest.mark.parametrize(
    "later",
    [
        ClusterFacts(),
        ClusterFacts(versions={"dynamo": "0.1"}),
        ClusterFacts(served={}),
        ClusterFacts(versions={"dynamo": "?"}),
    ],
    ids=["nothing known", "older", "nothing served", "no version"],
)
def test_i01_facts_that_change_move_nothing_that_lives(compile_small, deployed, later):
    files = deployed('operatorVersions: {dynamo: ">=1.5"}')
    facts = {A: ClusterFacts(versions={"dynamo": "1.5"}, served=SERVED), B: ClusterFacts(versions={"dynamo": "1.6"})}
    first = compile_small(files, facts=facts)
    live = functions(first)
    assert {key[-1] for key in live} == {"a", "b"}
    again = compile_small(files, facts={**facts, A: later}, live=live)
    assert functions(again) == live
    assert not again.held


# -- what lives -------------------------------------------------------------------------------------------------------


def test_on_each_cluster_what_lives_on_two_is_known_on_two(compile_small, deployed):
    """Also when neither could get it anew."""
    live = ["function/chat/h100-0@a", "function/chat/h100-0@b"]
    facts = {name: ClusterFacts(served={}) for name in (A, B)}
    assert functions(compile_small(deployed("perCluster: true", 1), live=live, facts=facts)) == live


def test_an_instance_that_moves_keeps_its_new_place(compile_small, deployed):
    """While the old one is being removed it has two parents."""
    live = ["function/chat/h100-0@a", "function/chat/h100-0@b"]
    assert functions(compile_small(deployed("clusters: [b]", 1), live=live)) == ["function/chat/h100-0@b"]


def test_instances_that_nothing_declares_any_more_are_named(compile_small, small, deployed):
    live = [f"function/chat/old-{i}@a" for i in range(7)]
    (message,) = [f.message for f in compile_small(live=live).findings]
    assert message == "nothing declares " + ", ".join(live[:5]) + " and 2 more any more: deleted"
    gone = {DEPLOYMENT: None, "functions/chat/overlays/h100.yaml": None}
    assert {f.code for f in compile_small(gone).findings} == {"GO4005"}
    result = compile_small(gone, live=["function/chat/h100-0@a"])
    assert [(f.code, f.message) for f in result.findings] == [
        ("GO4013", "nothing declares function/chat/h100-0@a any more: deleted")
    ]
    assert not compile_small(deployed("", 0), live=["function/chat/h100-0@a"]).findings, "none is what is asked for"


def test_silent_cluster_keeps_what_may_live_there_beyond_any_room(compile_small, deployed):
    result = compile_small(deployed("perCluster: true", 10), unheard=frozenset({A}))
    assert len([key for key in functions(result) if key.endswith("@a")]) == 10
    assert len([key for key in functions(result) if key.endswith("@b")]) == 8


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_repository_has_a_bound_of_instances(compile_small, deployed, monkeypatch):
    """What asks for too many is held, and takes nothing from the others."""
    monkeypatch.setattr(placing, "MOST_INSTANCES", 6)
    monkeypatch.setattr("gitops.plan.compiling.MOST_INSTANCES", 6)
    result = compile_small(
        {**deployed("perCluster: true", 3), **second("more", "minInstances: 1"), **second("aaa", "minInstances: 0")}
    )
    assert len(functions(result)) == 6
    assert {str(f.workload): f.message for f in result.errors} == {
        "function/more": "function/more asks for 1 instances; of 6 in all, 0 are left"
    }
    result = compile_small({**deployed("perCluster: true", 4), **second("more", "minInstances: 6")})
    assert {str(ref) for ref in result.held} == {"function/chat"}
    assert len(functions(result)) == 6
    assert result.complete


def test_how_many_are_left_is_never_from_an_earlier_time(compiler, small, deployed, monkeypatch):
    monkeypatch.setattr(placing, "MOST_INSTANCES", 6)
    monkeypatch.setattr("gitops.plan.compiling.MOST_INSTANCES", 6)
    left = []
    for instances in (2, 3, 5):
        tree = small({**deployed("", instances), **second("more", "minInstances: 5")})
        left.append([f.message.rpartition(", ")[2] for f in compiler.compile(tree).errors])
    assert left == [["4 are left"], ["3 are left"], ["1 are left"]]


def test_the_bound_is_far_above_what_a_specification_may_ask_for(compile_small, deployed):
    (found,) = compile_small(deployed("", 1001)).errors
    assert (found.code, found.message) == (
        "GO2004",
        "spec.gpuSpecifications[0].minInstances: input should be less than or equal to 1000",
    )


# -- decisions --------------------------------------------------------------------------------------------------------


def test_every_specification_has_a_decision(compile_small):
    decisions = {str(d.ask.workload): d for d in compile_small().decisions}
    assert decisions.keys() == {"bundle/base", "function/chat"}
    chat = decisions["function/chat"]
    assert [c.cluster for c in chat.ask.candidates] == ["a", "b"]
    assert len(chat.placed.new) == 2
    assert replace(chat.placed, new=()).every == ()


def test_another_capacity_compiles_nothing_again_that_was_compiled_alone(compiler, small):
    """Of more workloads in a shortage than the compiler keeps in reserve, each is made once, for what is told of it."""
    head = "apiVersion: gitops/v1alpha1\nkind: {}\nmetadata: {{name: {}}}\nspec:\n"
    files = {}
    for number in range(80):
        name, folder = f"f{number:02}", f"functions/f{number:02}"
        files[f"{folder}/function.yaml"] = (
            head.format("Function", name) + "  version: '1'\n  operatorTypes: [dynamo]\n  manifests: [s.yaml]\n"
        )
        files[f"{folder}/deployment.yaml"] = (
            head.format("FunctionDeployment", name) + "  gpuSpecifications: [{id: g, gpu: H100, minInstances: 2}]\n"
        )
        files[f"{folder}/s.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n"
    first = compiler.compile(small(files))
    assert len(functions(first)) == 16
    before = compiler.statistics.compiled
    larger = small().files["clusters/a.yaml"].replace("capacity: 8", "capacity: 9")
    assert len(functions(compiler.compile(small({**files, "clusters/a.yaml": larger})))) == 17
    assert compiler.statistics.compiled - before <= 81


@pytest.mark.parametrize(
    ("specification", "living"),
    [
        ("{id: g, gpu: H100, instanceType: H100x2, minInstances: 1}", ["g-0", "g-1", "g-2", "g-3"]),
        ("{id: new, gpu: H100, instanceType: H100x2, minInstances: 0}", ["g-0", "g-1", "g-2", "g-3"]),
        ("{id: g, gpu: H100, instanceType: H100x2, minInstances: 4, clusters: [b]}", ["g-0", "g-1", "g-2", "g-3"]),
    ],
    ids=["fewer", "another id", "elsewhere"],
)
def test_what_a_held_function_does_not_ask_for_any_more_still_takes_its_gpus(compile_small, specification, living):
    """It stays until the errors are gone."""
    head = "apiVersion: gitops/v1alpha1\nkind: {}\nmetadata: {{name: early}}\nspec:\n"
    files = {
        "functions/early/function.yaml": head.format("Function")
        + "  version: '1'\n  operatorTypes: [dynamo]\n  manifests: [s.yaml]\n",
        "functions/early/deployment.yaml": head.format("FunctionDeployment")
        + f"  gpuSpecifications: [{specification}]\n",
        "functions/early/s.yaml": "a: [",
    }
    lives = [f"function/early/{instance}@a" for instance in living]
    assert functions(compile_small(files, live=lives)) == ["function/chat/h100-0@b", "function/chat/h100-1@b"]
    mended = {**files, "functions/early/s.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n"}
    assert {key for key in functions(compile_small(mended, live=lives)) if "chat" in key and key.endswith("@a")}
