"""Two states of a repository: what is compared, and how often it is told."""

from __future__ import annotations

import pytest

from gitops.plan.revisions import check_revisions

GRAPH = "functions/chat/manifests/graph.yaml"
FUNCTION = "functions/chat/function.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"


@pytest.fixture
def compare(compile_small, compiler, small):
    files = small().files

    def run(*changes):
        """What is told of a change of the small repository: (file, old text, new text) each."""
        edited = dict(files)
        for path, old, new in changes:
            assert old in edited[path]
            edited[path] = edited[path].replace(old, new)
        before, after = compile_small(), compile_small({p: t for p, t in edited.items() if t != files[p]})
        return [(f.code, str(f.origin), str(f.workload)) for f in check_revisions(before, after, compiler.registry)]

    return run


RAISED = (FUNCTION, 'version: "1"', 'version: "2"')


def test_nothing_changed(compare):
    assert compare() == []


def test_a_problem_of_all_instances_is_told_once(compare):
    told = compare(RAISED, (GRAPH, "backendFramework: vllm", "backendFramework: sglang"))
    assert told == [("GO4527", f"{GRAPH}:6", "function/chat")]


def test_an_overlay_changes_an_object_and_no_base(compare):
    patch = (
        "  patches:\n    - target: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}\n"
        "      patch: {spec: {backendFramework: sglang}}\n"
    )
    told = compare((DEPLOYMENT, "spec:\n", "spec:\n" + patch))
    assert told == [("GO4527", f"{DEPLOYMENT}:8", "function/chat")]


def test_an_instance_that_is_made_anew_elsewhere_is_not_compared(compare):
    edit = (GRAPH, "backendFramework: vllm", "backendFramework: sglang")
    assert compare(RAISED, edit, (DEPLOYMENT, "id: h100", "id: other")) == []


def test_a_base_under_its_version_is_told_once_and_with_a_new_version_not_at_all(compare):
    edit = (GRAPH, "replicas: 1", "replicas: 2")
    assert compare(edit) == [("GO4530", f"{GRAPH}:1", "function/chat")]
    assert compare(edit, RAISED) == []


def test_a_workload_with_errors_is_not_compared(compare):
    assert compare((GRAPH, "example/worker:1.0.0", "example/worker:latest")) == []
