"""The same tree gives the same result, byte for byte: in every process, and whatever was compiled before (I2)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitops.model.identity import UnitKey
from gitops.plan.compiling import Compiler
from gitops.plan.units import Compilation
from gitops.policy.placement import pins_of
from gitops.policy.registry import OperatorRegistry

ROOT = Path(__file__).resolve().parents[2]
POOL = [
    {path: value for path, value in case["files"].items() if not isinstance(value, dict)}
    for case in yaml.safe_load((Path(__file__).parent / "data" / "findings.yaml").read_text(encoding="utf-8"))
]
"""Changes to the small repository, most of which break something in one place or another."""

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
            for units in (result.units, result.not_run)
            for key, u in units.items()
        ],
        result.findings,
        result.held,
        result.left_alone,
        result.complete,
        result.unreadable_clusters,
        {ref: sorted(names) for ref, names in result.named.items()},
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(
        st.tuples(st.lists(st.integers(0, len(POOL) - 1), max_size=3), st.sampled_from(range(len(PINS)))),
        min_size=2,
        max_size=6,
    )
)
@example(story=[([], 0), ([], 1), ([], 0)])
def test_a_compiler_with_memory_says_what_a_new_one_says(small, story):
    old = Compiler(OperatorRegistry.shipped())
    for choices, pins in story:
        change = {path: value for choice in choices for path, value in POOL[choice].items()}
        known = {path: value for path, value in change.items() if value is not None or path in small().files}
        tree = small(known)
        new = Compiler(OperatorRegistry.shipped())
        assert everything(old.compile(tree, pins=PINS[pins])) == everything(new.compile(tree, pins=PINS[pins]))


def unreadable(path: str) -> bytes:
    raise OSError(5, "Input/output error", path)


CLUSTER = "clusters/a.yaml"
QUOTA = "    resourceQuota:\n      hard:\n        cpu: 8\n        memory: 1Gi\n"


def quota(text: str, *, lines_before: int = 0) -> str:
    return "# more\n" * lines_before + text + QUOTA


@pytest.mark.parametrize("case", ["gpus of an instance", "keys that change places", "lines that change clusters"])
def test_what_a_cluster_document_says_is_never_from_an_earlier_one(small, case):
    files = small().files
    typed = files["functions/chat/deployment.yaml"].replace("gpu: H100", "gpu: H100\n      instanceType: H100x2")
    a, b = files[CLUSTER], files["clusters/b.yaml"]
    before, after = {
        "gpus of an instance": (
            {CLUSTER: a, "functions/chat/deployment.yaml": typed},
            {CLUSTER: a.replace("gpusPerInstance: 2", "gpusPerInstance: 9"), "functions/chat/deployment.yaml": typed},
        ),
        "keys that change places": (
            {CLUSTER: quota(a)},
            {CLUSTER: quota(a).replace("cpu: 8\n        memory: 1Gi", "memory: 1Gi\n        cpu: 8")},
        ),
        "lines that change clusters": (
            {CLUSTER: quota(a), "clusters/b.yaml": quota(b, lines_before=1)},
            {CLUSTER: quota(a, lines_before=1), "clusters/b.yaml": quota(b)},
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


def test_two_processes_with_other_hash_seeds_agree():
    command = [
        sys.executable,
        "-c",
        "import sys; from gitops.cli import main; sys.argv = ['gitops', 'plan', 'repo-template', '--format', 'json'];"
        "from gitops.cli.folders import compiled_folder; from pathlib import Path;"
        "tree, result = compiled_folder(Path('repo-template'));"
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
