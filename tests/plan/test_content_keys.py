"""A unit's content key, and the compiler's memory with it, change with everything that the unit is made from."""

from __future__ import annotations

import pytest

from gitops.model.identity import ClusterName
from gitops.plan.compiling import Compiler
from gitops.policy.registry import OperatorRegistry

CLUSTER = "clusters/a.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"
TASK = "tasks/bake/task.yaml"
ADDED = {
    TASK: """\
apiVersion: gitops/v1alpha1
kind: Task
metadata: {name: bake}
spec:
  version: "1"
  operatorTypes: [nim]
  manifests: [cache.yaml]
  gpuSpecification: {gpu: H100, perCluster: true}
""",
    "tasks/bake/cache.yaml": "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMCache\nmetadata: {name: c}\n"
    "spec: {storage: {pvc: {name: models}}}\n",
    "bundles/more/bundle.yaml": "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: more}\n"
    "spec: {manifests: [m.yaml], patches: [p.yaml]}\n",
    "bundles/more/m.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: web}\n",
    "bundles/more/p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {level: low}\n",
}
MODE = (CLUSTER, "  region: north\n", "  region: north\n  mode: report\n")
TEMPLATE = (CLUSTER, "{team: ml}", "{team: web}")


@pytest.mark.parametrize(
    ("unit", "change"),
    [
        ("bundle/base@a", ("bundles/base/objects.yaml", "page: hello", "page: bye")),
        ("function/chat/h100-0@a", ("functions/chat/manifests/settings.yaml", "LEVEL: info", "LEVEL: warn\n  MORE: x")),
        ("function/chat/h100-0@a", ("functions/chat/overlays/h100.yaml", "debug", "trace")),
        ("task/bake@a", ("tasks/bake/cache.yaml", "models", "others")),
        ("bundle/more@a", ("bundles/more/p.yaml", "low", "high")),
        ("bundle/base@a", MODE),
        ("function/chat/h100-0@a", MODE),
        ("function/chat/h100-0@a", TEMPLATE),
        ("function/chat/h100-0@a", (DEPLOYMENT, "spec:\n", "spec:\n  serviceName: chat\n")),
        ("function/chat/h100-0@a", ("functions/chat/function.yaml", 'version: "1"', 'version: "2"')),
        ("function/chat/h100-0@a", ("functions/chat/function.yaml", 'version: "1"', 'version: "1"\n  namespace: own')),
        (
            "function/chat/h100-0@a",
            ("functions/chat/function.yaml", 'version: "1"', 'version: "1"\n  secretRefs: [{name: key}]'),
        ),
        ("task/bake@a", (TASK, 'version: "1"', 'version: "1"\n  secretRefs: [{name: key}]')),
        ("task/bake@a", MODE),
        ("task/bake@a", TEMPLATE),
        ("task/bake@a", (TASK, 'version: "1"', 'version: "2"')),
        ("task/bake@a", (TASK, 'version: "1"', 'version: "1"\n  namespace: own')),
        ("task/bake@a", (TASK, "[nim]", "[nim, dynamo]")),
        ("task/bake@a", (TASK, 'version: "1"', 'version: "1"\n  mode: paused')),
    ],
)
def test_the_key_is_another_and_the_unit_that_of_a_new_compiler(small, unit, change):
    file, old, new = change
    once = {DEPLOYMENT: small().files[DEPLOYMENT].replace("minInstances: 2", "minInstances: 1\n      clusters: [a]")}
    before = small({**once, **ADDED})
    after = small({**once, **ADDED, file: before.files[file].replace(old, new, 1)})
    assert before.files[file] != after.files[file]
    compiler = Compiler(OperatorRegistry.shipped())

    def made(tree, by):
        result = by.compile(tree)
        assert result.errors == ()
        return {str(key): u for key, u in {**result.units, **result.not_run}.items()}[unit]

    first, second = made(before, compiler), made(after, compiler)
    assert first.content_key != second.content_key
    assert second == made(after, Compiler(OperatorRegistry.shipped()))


def test_a_port_of_the_service_changes_the_key(compile_small, small):
    def key(port):
        text = small().files[DEPLOYMENT].replace("spec:\n", f"spec:\n  serviceName: chat\n  servicePort: {port}\n", 1)
        return {u.content_key for k, u in compile_small({DEPLOYMENT: text}).units.items() if k.kind == "function"}

    assert not key(80) & key(81)


def test_a_cluster_that_answers_is_placed_on(compiler, small):
    """The compiler remembers a workload by what surrounds it: also by who has not told yet what lives there."""
    silent = compiler.compile(small(), unheard=frozenset({ClusterName("b")}))
    heard = compiler.compile(small())
    assert len([k for k in heard.units if k.kind == "function"]) == 2
    assert len([k for k in silent.units if k.kind == "function"]) == 0


def test_a_task_stays_where_it_is_pinned_and_waits_for_a_cluster_that_cannot_be_read(compile_small):
    files = {**ADDED, TASK: ADDED[TASK].replace(", perCluster: true", "")}
    for name in ("a", "b"):
        result = compile_small(files, live=[f"task/bake@{name}"])
        assert [str(key) for key in result.not_run] == [f"task/bake@{name}"]
    assert not compile_small({**files, "clusters/b.yaml": "a: ["}).not_run
