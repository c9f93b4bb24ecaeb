"""Tasks are compiled like functions, all errors at once, and left alone: this version does not run them."""

from __future__ import annotations

import pytest

from gitops.model.identity import WorkloadKind, WorkloadRef

TASK = """\
apiVersion: gitops/v1alpha1
kind: Task
metadata:
  name: bake
spec:
  version: "1"
  operatorTypes: [nim]
  manifests: [cache.yaml]
  gpuSpecification:
    gpu: H100
"""
CACHE = """\
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMCache
metadata:
  name: cache
spec:
  storage:
    pvc: {create: true, size: 50Gi}
"""
PATCHES = """\
  patches:
    - target: {apiVersion: apps.nvidia.com/v1alpha1, kind: NIMCache, name: cache}
      patch: {spec: {storage: {pvc: {size: 60Gi}}}}
  clusterPatches:
    b:
      - target: {apiVersion: apps.nvidia.com/v1alpha1, kind: NIMCache, name: cache}
        patch: {spec: {storage: {pvc: {size: 70Gi}}}}
"""
REF = WorkloadRef(WorkloadKind.TASK, "bake")
FILE = "tasks/bake/task.yaml"


MISSING_FILE = [("GO2106", "tasks/bake/cache.yaml"), ("GO2104", f"{FILE}:8")]
NULLS = [("GO4107", "tasks/bake/cache.yaml:8"), ("GO4107", "tasks/bake/cache.yaml:9")]
BOTH = [("GO1010", "tasks/bake/cache.yaml:9"), ("GO2002", f"{FILE}:11")]


def files(task=TASK, cache=CACHE):
    return {FILE: task, "tasks/bake/cache.yaml": cache}


def codes(result):
    return [(f.code, str(f.origin)) for f in result.findings]


@pytest.fixture
def units(compile_small):
    """The units a task would have."""

    def make(task: str):
        result = compile_small(files(task))
        assert result.errors == ()
        return list(result.not_run.values())

    return make


def test_a_task_is_checked_held_and_told(compile_small):
    result = compile_small(files())
    assert codes(result) == [("GO2011", FILE)]
    assert "(1 unit)" in result.findings[0].message
    assert result.held == result.left_alone == {REF}
    assert all(key.kind != "task" for key in result.units)
    assert result.complete


def test_tasks_beyond_what_clusters_have_wait_and_take_no_place_of_a_function(compile_small, small):
    """Two instances of chat have 1 GPU each, 16 are there: 14 of 20 tasks have a place."""
    many = {
        f"tasks/{name}/{file}": text.replace("bake", name)
        for name in (f"a{i:02}" for i in range(20))
        for file, text in (("task.yaml", TASK), ("cache.yaml", CACHE))
    }
    result = compile_small(many)
    assert {f.code for f in result.findings} == {"GO2011", "GO4008"}
    assert len(result.not_run) == 14
    assert len([key for key in result.units if key.kind == "function"]) == 2
    waiting = sorted(f.origin.file for f in result.findings if f.code == "GO4008")
    assert waiting == [f"tasks/a{i}/task.yaml" for i in range(14, 20)]


def test_one_cluster_or_each(units):
    (once,) = units(TASK)
    assert str(once.key) in ("task/bake@a", "task/bake@b")
    assert once.namespace.startswith("fn-bake-x")
    each = units(TASK + "    perCluster: true\n")
    assert [str(u.key) for u in each] == ["task/bake@a", "task/bake@b"]


def test_patches_in_their_order(units):
    sizes = {
        unit.key.cluster: item.body["spec"]["storage"]["pvc"]["size"]
        for unit in units(TASK + "    perCluster: true\n" + PATCHES)
        for item in unit.objects
        if item.ref.kind == "NIMCache"
    }
    assert sizes == {"a": "60Gi", "b": "70Gi"}


def test_a_namespace_by_name(units):
    (unit,) = units(TASK.replace("spec:\n", "spec:\n  namespace: bakery\n", 1))
    assert unit.namespace == "bakery"
    assert {o.ref.namespace for o in unit.objects[1:]} == {"bakery"}


@pytest.mark.parametrize(
    ("task", "cache", "expected"),
    [
        (TASK.replace("bake", "bread"), CACHE, [("GO2008", f"{FILE}:4")]),
        (TASK.replace("[nim]", "[ray]"), CACHE, [("GO2013", f"{FILE}:7")]),
        (
            TASK.replace("cache.yaml", "none.yaml"),
            CACHE,
            MISSING_FILE,
        ),
        (TASK.replace("H100", "T4"), CACHE, [("GO4001", f"{FILE}:9")]),
        (TASK + "    clusters: [c]\n", CACHE, [("GO4001", f"{FILE}:9"), ("GO2014", f"{FILE}:11")]),
        (TASK + "  namespace: kube-system\n", CACHE, [("GO4105", f"{FILE}:11")]),
        (TASK + "  maxRuntimeDuration: PT30M\n", CACHE, [("GO2010", f"{FILE}:11"), ("GO2020", f"{FILE}:11")]),
        (TASK + "  resultHandlingStrategy: UPLOAD\n", CACHE, [("GO2020", f"{FILE}:11")]),
        (TASK + "  secrets: [{name: a, value: b}]\n", CACHE, [("GO4204", f"{FILE}:11")]),
        (TASK + "    validationPolicy: {name: x}\n", CACHE, [("GO2022", f"{FILE}:11")]),
        (TASK, CACHE.replace("NIMCache", "Widget"), [("GO4101", "tasks/bake/cache.yaml:2")]),
        (
            TASK,
            CACHE + "  a: null\n  b: null\n",
            NULLS,
        ),
        (
            TASK + "  x: 1\n",
            CACHE + "  a: 1\n  a: 2\n",
            BOTH,
        ),
    ],
)
def test_what_is_wrong_with_a_task(compile_small, task, cache, expected):
    result = compile_small(files(task, cache))
    assert codes(result) == expected
    assert result.held == {REF}
    assert result.left_alone == set()


def test_a_folder_without_task_document(compile_small):
    assert codes(compile_small({"tasks/bake/cache.yaml": CACHE})) == [("GO2016", "tasks/bake")]


def test_recorded_fields_are_told(compile_small):
    result = compile_small(files(TASK + "  rerunOnNewCluster: true\n  ttlAfterFinished: PT1H\n"))
    assert [f.code for f in result.findings] == ["GO2011", "GO2010", "GO2010"]
