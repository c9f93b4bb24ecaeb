"""The same tree gives the same result, byte for byte: in every process, and whatever was compiled before (I2)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitops.model.identity import ClusterName, GroupVersionKind, UnitKey
from gitops.plan.compiling import Compiler
from gitops.plan.units import Compilation
from gitops.policy.facts import ClusterFacts
from gitops.policy.placement import pins_of
from gitops.policy.registry import OperatorRegistry
from gitops.policy.schemas.sources import schemas_of_definitions

ROOT = Path(__file__).resolve().parents[2]
POOL = [
    {path: value for path, value in case.get("files", {}).items() if not isinstance(value, dict)}
    for case in yaml.safe_load((Path(__file__).parent / "data" / "findings.yaml").read_text(encoding="utf-8"))
]
"""Changes to the small repository, most of which break something in one place or another."""

CLUSTER = """\
apiVersion: gitops/v1alpha1
kind: Cluster
metadata:
  name: {name}
spec:
  credentials: {name}
  attributes: [DynamoOperatorSupport, NIMOperatorSupport]
  gpus:
    - name: H100
      capacity: 8
      instanceTypes: [{{name: H100x2, gpusPerInstance: 2}}]
"""
PINS = [
    pins_of(map(UnitKey.parse, keys))
    for keys in ([], ["function/chat/h100-0@a", "function/chat/h100-1@a"], ["function/chat/h100-1@b"])
]


def everything(result: Compilation) -> list[object]:
    """All of a compilation that anybody reads."""
    return [
        result.commit,
        result.repository,
        sorted(result.clusters),
        [
            (
                str(key),
                (u.content_key, u.commit, u.namespace, u.mode, u.version, u.operator_types, u.base_digest),
                [(o.ref, o.payload, o.digest, o.origin, o.stage, o.component, o.depends_on) for o in u.objects],
                [o.provenance for o in u.objects],
            )
            for units in (result.units, result.not_run, result.refused)
            for key, u in units.items()
        ],
        result.findings,
        result.held,
        result.left_alone,
        result.complete,
        result.unreadable_clusters,
        {ref: sorted(names) for ref, names in result.named.items()},
        result.kept,
        result.decisions,
        sorted(result.refused),
        {str(key): verdicts for key, verdicts in result.verdicts.items()},
    ]


Files = dict[str, str | None]


def deployed(name: str, count: int, more: str = "") -> dict[str, str]:
    """A second function, whose instances take 2 GPUs each."""
    head = "apiVersion: gitops/v1alpha1\nkind: {}\nmetadata:\n  name: " + name + "\nspec:\n"
    return {
        f"functions/{name}/function.yaml": head.format("Function")
        + "  version: '1'\n  operatorTypes: [dynamo]\n  manifests: [settings.yaml]\n",
        f"functions/{name}/deployment.yaml": head.format("FunctionDeployment")
        + f"  gpuSpecifications:\n    - {{id: g, gpu: h100, instanceType: H100x2, minInstances: {count}{more}}}\n",
        f"functions/{name}/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
    }


TASK = {
    "tasks/bake/task.yaml": "apiVersion: gitops/v1alpha1\nkind: Task\nmetadata: {name: bake}\nspec:\n  version: '1'\n"
    "  operatorTypes: [nim]\n  manifests: [s.yaml]\n  gpuSpecification: {gpu: H100, instanceType: H100x2}\n",
    "tasks/bake/s.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
}
A, B = ClusterName("a"), ClusterName("b")
SECURITY = "  namespaceTemplate:\n    labels: {{pod-security.kubernetes.io/enforce: {}}}\n"
POLICY = (
    "apiVersion: gitops/v1alpha1\nkind: ValidationPolicy\nmetadata: {{name: mine}}\n"
    "spec: {{base: {}, extraKubernetesTypes: [{{group: batch, version: v1, kind: Job}}]}}\n"
)
NARROW = (
    "apiVersion: gitops/v1alpha1\nkind: OperatorType\nmetadata: {name: dynamo}\nspec:\n"
    "  clusterAttribute: DynamoOperatorSupport\n"
    "  companions: [{group: '', version: v1, kind: Secret, resource: secrets}]\n"
    "  kinds: [{group: nvidia.com, version: v1beta1, kind: DynamoGraphDeployment, resource: dynamographdeployments}]\n"
)
CHAT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page", "namespace": "web"}}
SPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "web", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
}
WIDE: dict[str, Any] = {
    "hostNetwork": True,
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "example/x:1.0.0", "securityContext": {"procMount": "Unmasked"}}],
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "web"}, "spec": WIDE}
JOB = yaml.safe_dump(
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": WIDE}}}
)


def definition(framework: str) -> dict[str, Any]:
    """A definition of graphs that takes one backendFramework only."""
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {**open_object, "properties": {"backendFramework": {"type": "string", "enum": [framework]}}}
    schema = {"openAPIV3Schema": {**open_object, "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "dynamographdeployments.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "scope": "Namespaced",
            "names": {"kind": "DynamoGraphDeployment", "plural": "dynamographdeployments"},
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
        },
    }


HIDDEN: Files = {"clusters/b.yaml": "a: ["}
SHORT_OF_KINDS: Files = {"policies/operators/dynamo.yaml": NARROW}
MORE_KINDS: Files = {"policies/validation/mine.yaml": POLICY.format("Unrestricted")}
NO_MORE_KINDS: Files = {"policies/validation/mine.yaml": POLICY.format("Unrestricted").partition(", extra")[0] + "}\n"}
PLAIN: Files = {"clusters/a.yaml": CLUSTER.format(name="a")}
LARGER: Files = {"clusters/a.yaml": CLUSTER.format(name="a").replace("gpusPerInstance: 2", "gpusPerInstance: 5")}
USER: Files = {**deployed("late", 1, ", validationPolicy: {name: mine}")}
JOBS: Files = {"functions/late/settings.yaml": JOB}
GONE: Files = {"clusters/b.yaml": None}
UNREADABLE: Files = {"operators/dynamo.yaml": "a: ["}
SHORT: list[Files] = [
    deployed("early", 3),
    deployed("early", 7),
    deployed("early", 2, ", perCluster: true"),
    deployed("late", 5),
    deployed("late", 5, ", operatorVersions: {dynamo: '>=1.5'}"),
    {**deployed("early", 7), "functions/early/settings.yaml": "a: ["},
    {**deployed("early", 7), "functions/early/deployment.yaml": "a: ["},
    TASK,
    {"clusters/a.yaml": CLUSTER.format(name="a").replace("capacity: 8", "capacity: 3")},
    {"clusters/b.yaml": CLUSTER.format(name="b") + "  mode: paused\n"},
    {"clusters/c.yaml": CLUSTER.format(name="c")},
    HIDDEN,
    GONE,
    UNREADABLE,
    {"functions/chat/function.yaml": None, "functions/chat/deployment.yaml": None},
    {"clusters/a.yaml": CLUSTER.format(name="a") + SECURITY.format("restricted")},
    {"clusters/b.yaml": CLUSTER.format(name="b") + SECURITY.format("baseline")},
    {"policies/validation/mine.yaml": POLICY.format("Default")},
    MORE_KINDS,
    NO_MORE_KINDS,
    SHORT_OF_KINDS,
    USER,
    JOBS,
    {"bundles/base/objects.yaml": yaml.safe_dump_all([CHAT, definition("vllm")])},
    {"bundles/base/objects.yaml": yaml.safe_dump_all([CHAT, definition("sglang")])},
    {"bundles/base/objects.yaml": yaml.safe_dump_all([{**CHAT, "data": {"a": 1}}, definition("sglang")])},
    {"bundles/base/objects.yaml": yaml.safe_dump_all([SPACE, CHAT, POD])},
]
"""Changes by which workloads get into each other's way."""

LIVING = [
    [],
    ["function/early/g-0@a", "function/early/g-1@a", "function/early/g-2@a", "function/early/g-3@a"],
    ["function/late/g-0@a", "function/late/g-4@b", "function/chat/h100-0@a", "task/bake@b", "bundle/base@a"],
    ["function/chat/h100-0@c", "function/chat/h200-0@a", "function/early/g-0@c"],
]
KINDS = {GroupVersionKind("", "v1", "ConfigMap"): True}
TAKES, REFUSES = (schemas_of_definitions([definition(framework)]) for framework in ("vllm", "sglang"))
TOLD: list[dict[ClusterName, ClusterFacts]] = [
    {},
    {A: ClusterFacts(versions={"dynamo": "1.5.0"})},
    {A: ClusterFacts(refused={"dynamo": "*"}), B: ClusterFacts(versions={"dynamo": "1.6"})},
    {A: ClusterFacts(served=KINDS), B: ClusterFacts(served=KINDS, versions={"dynamo": "1.4"})},
    {A: ClusterFacts(schemas=TAKES, server_version="v1.34.1"), B: ClusterFacts(schemas=REFUSES)},
    {A: ClusterFacts(schemas=REFUSES, server_version="v1.30.0"), B: ClusterFacts(served=KINDS, schemas=TAKES)},
    {A: ClusterFacts(silent=frozenset({"nvidia.com/v1beta1"}), served=KINDS, refused={"nim": "*"})},
]
SILENT: list[frozenset[ClusterName]] = [frozenset(), frozenset({B})]
GRAPHS = frozenset({"nvidia.com/v1beta1"})
TWO = pins_of(map(UnitKey.parse, ["function/late/g-0@a", "function/late/g-1@a"]))
STEPS = [
    ClusterFacts(),
    ClusterFacts(served=KINDS),
    ClusterFacts(served=KINDS, silent=GRAPHS),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.5.0"}),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.4.0"}),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.4.0"}, refused={"dynamo": "*"}),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.4.0"}, schemas=REFUSES),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.4.0"}, schemas=TAKES),
    ClusterFacts(served=KINDS, silent=GRAPHS, versions={"dynamo": "1.4.0"}, schemas=TAKES, server_version="v1.34.0"),
]
"""One fact more or another at a time."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(
        st.tuples(
            st.lists(st.sampled_from(POOL), max_size=3),
            st.lists(st.sampled_from(SHORT), max_size=4),
            st.sampled_from([*PINS, *(pins_of(map(UnitKey.parse, keys)) for keys in LIVING)]),
            st.sampled_from(TOLD),
            st.sampled_from(SILENT),
        ),
        min_size=2,
        max_size=6,
    )
)
@example(story=[([], [], PINS[0], {}, SILENT[0]), ([], [], PINS[1], {}, SILENT[0]), ([], [], PINS[0], {}, SILENT[0])])
@example(story=[([], [SHORT[4]], PINS[0], {A: told, B: told}, SILENT[0]) for told in STEPS])
@example(story=[([], [deployed("late", 0), *more], PINS[0], {}, SILENT[0]) for more in ([], [SHORT_OF_KINDS])])
@example(story=[([], [deployed("late", 2), which], TWO, {}, SILENT[0]) for which in (PLAIN, LARGER)])
@example(story=[([], [USER, JOBS, which], PINS[0], {}, SILENT[0]) for which in (MORE_KINDS, NO_MORE_KINDS)])
@example(story=[([], change, PINS[0], {}, SILENT[0]) for change in ([GONE], [HIDDEN])])
@example(story=[([], [SHORT[4], *more], PINS[0], {}, SILENT[0]) for more in ([], [UNREADABLE])])
@example(story=[([], more, PINS[0], {}, SILENT[0]) for more in ([], [SHORT_OF_KINDS])])
@example(story=[([], [SHORT[n]], PINS[0], {}, SILENT[0]) for n in (3, 1, 5, 6, 0, 3)])
def test_a_compiler_with_memory_says_what_a_new_one_says(small, story):
    registry = OperatorRegistry.shipped().permitting([GroupVersionKind("batch", "v1", "Job")])
    old = Compiler(registry)
    for broken, short, pins, facts, silent in story:
        change = {path: value for files in (*broken, *short) for path, value in files.items()}
        known = {path: value for path, value in change.items() if value is not None or path in small().files}
        tree = small(known)
        new = Compiler(registry)
        first = old.compile(tree, pins=pins, facts=facts, unheard=silent)
        assert everything(first) == everything(new.compile(tree, pins=pins, facts=facts, unheard=silent))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    short=st.lists(st.sampled_from(SHORT), max_size=5),
    living=st.sampled_from(LIVING),
    facts=st.sampled_from(TOLD),
)
@example(short=[deployed("early", 3), deployed("late", 5), SHORT[-2]], living=LIVING[2], facts=TOLD[3])
@example(short=[deployed("early", 3), deployed("late", 5), SHORT[-3]], living=LIVING[2], facts=TOLD[3])
def test_what_was_placed_stays_placed_once_it_lives(small, short, living, facts):
    """The next compile, with what the last one made, moves nothing; nor do facts that come or go (I1)."""
    change = {path: value for files in short for path, value in files.items()}
    known = {path: value for path, value in change.items() if value is not None or path in small().files}
    compiler = Compiler(OperatorRegistry.shipped())
    first = compiler.compile(small(known), pins=pins_of(map(UnitKey.parse, living)), facts=facts)
    stays = {key for key in map(UnitKey.parse, living) if key.workload in first.held - first.left_alone}
    stays |= {key for key in map(UnitKey.parse, living) if key.cluster in first.unreadable_clusters}
    stays |= first.refused.keys() & set(map(UnitKey.parse, living))
    placed = {*first.units, *first.not_run, *first.kept}
    made = placed | stays
    for later in TOLD:
        again = compiler.compile(small(known), pins=pins_of(made), facts=later)
        stay = {*again.units, *again.not_run, *again.kept, *again.refused}
        assert {key for key in placed if key.workload not in again.held} <= stay
    assert {*compiler.compile(small(known), pins=pins_of(made), facts=facts).units} == set(first.units)


def unreadable(path: str) -> bytes:
    raise OSError(5, "Input/output error", path)


DOCUMENT = "clusters/a.yaml"
QUOTA = "    resourceQuota:\n      hard:\n        cpu: 8\n        memory: 1Gi\n"


def quota(text: str, *, lines_before: int = 0) -> str:
    return "# more\n" * lines_before + text + QUOTA


@pytest.mark.parametrize("case", ["gpus of an instance", "keys that change places", "lines that change clusters"])
def test_what_a_cluster_document_says_is_never_from_an_earlier_one(small, case):
    files = small().files
    typed = files["functions/chat/deployment.yaml"].replace("gpu: H100", "gpu: H100\n      instanceType: H100x2")
    a, b = files[DOCUMENT], files["clusters/b.yaml"]
    before, after = {
        "gpus of an instance": (
            {DOCUMENT: a, "functions/chat/deployment.yaml": typed},
            {DOCUMENT: a.replace("gpusPerInstance: 2", "gpusPerInstance: 9"), "functions/chat/deployment.yaml": typed},
        ),
        "keys that change places": (
            {DOCUMENT: quota(a)},
            {DOCUMENT: quota(a).replace("cpu: 8\n        memory: 1Gi", "memory: 1Gi\n        cpu: 8")},
        ),
        "lines that change clusters": (
            {DOCUMENT: quota(a), "clusters/b.yaml": quota(b, lines_before=1)},
            {DOCUMENT: quota(a, lines_before=1), "clusters/b.yaml": quota(b)},
        ),
    }[case]
    old, new = Compiler(OperatorRegistry.shipped()), Compiler(OperatorRegistry.shipped())
    first = everything(old.compile(small(before)))
    second = everything(old.compile(small(after)))
    assert second == everything(new.compile(small(after)))
    assert second[3:5] != first[3:5]


@pytest.mark.parametrize("part", ["gitops.yaml", "clusters/a", "function.yaml", "graph", "h100", "bundle.yaml"])
def test_a_file_that_could_not_be_read_once_is_read_again(small, monkeypatch, part):
    tree = small()
    (lost,) = [path for path in tree.files if part in path]
    old, new = Compiler(OperatorRegistry.shipped()), Compiler(OperatorRegistry.shipped())
    read = type(tree).read
    with monkeypatch.context() as patched:
        patched.setattr(type(tree), "read", lambda self, path: unreadable(path) if path == lost else read(self, path))
        broken = old.compile(tree)
    assert broken.errors
    assert broken.held or not broken.complete
    assert everything(old.compile(small())) == everything(new.compile(small()))


@pytest.mark.parametrize(
    "value",
    ["{{ randAlphaNum 16 }}", "$(date +%s)", "${RANDOM}", "{{ now | date }}", "!!python/object/apply:os.urandom [8]"],
)
def test_d05_nothing_that_is_written_is_evaluated(compile_small, value):
    """No template, no shell, no tag: it is the text that it is, or refused, and the same each time."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: web}\ndata:\n  a: %s\n"
    written = value if value.startswith("!!") else f"'{value}'"
    results = [compile_small({"bundles/base/objects.yaml": text % written}) for _ in range(2)]
    assert everything(results[0]) == everything(results[1])
    objects = (o for unit in results[0].units.values() for o in unit.objects)
    kept = [(o.body.get("data") or {}).get("a") for o in objects if o.ref.kind == "ConfigMap"]
    assert value in kept or results[0].errors


def test_d05_two_processes_with_other_hash_seeds_agree():
    command = [
        sys.executable,
        "-c",
        "import sys; from gitops.cli import main; sys.argv = ['gitops', 'plan', 'repo-template', '--format', 'json'];"
        "from gitops.cli.folders import compiled_folder; from pathlib import Path;"
        "from gitops.policy.registry import OperatorRegistry as R;"
        "tree, result = compiled_folder(Path('repo-template'), registry=R.shipped());"
        "print([(str(k), u.content_key, [(o.payload, o.provenance.files, o.provenance.blob) for o in u.objects])"
        " for k, u in result.units.items()]);"
        "print(result.findings); main()",
    ]
    outputs = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert b"DynamoGraphDeployment" in next(iter(outputs))
