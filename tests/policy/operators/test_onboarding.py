"""The example of docs/onboarding.md is an operator type that can be used as it stands, without any code."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitops.manifests.lines import dotted
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef
from gitops.model.operators import OperatorType
from gitops.policy.operator_rules import manifest_problems
from gitops.policy.registry import OperatorRegistry
from gitops.policy.updates import update_problems

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "operator-example.yaml"
RUN = GroupKind("training.example.com", "TrainingRun")


@pytest.fixture
def registry():
    (document,) = read_documents(EXAMPLE.read_bytes(), file=EXAMPLE.name).documents
    return OperatorRegistry.shipped().extended([OperatorType.model_validate(document.body)])


def run(**spec):
    return {"apiVersion": "training.example.com/v1", "kind": RUN.kind, "metadata": {"name": "a"}, "spec": spec}


def test_it_may_be_declared(registry):
    allowed = registry.allowed(["trainer"])
    assert GroupVersionKind(RUN.group, "v1", RUN.kind) in allowed
    assert registry.namespaced(RUN) is True
    assert [child.role for child in registry.children_of(["trainer"])] == ["diagnose", "gate"]


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ({"enabled": True, "claim": "a"}, []),
        ({"enabled": False}, []),
        ({"enabled": True}, [("GO4521", "spec.checkpoints.claim")]),
    ],
)
def test_its_rules_are_about_manifests(registry, checkpoints, expected):
    problems = manifest_problems(registry, RUN, run(checkpoints=checkpoints))
    assert [(code, dotted(path)) for code, _, path in problems] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"workers": 1}, {"workers": 2}, []),
        ({"workers": 2}, {}, [("GO4522", "spec.workers")]),
        ({"dataset": "a"}, {"dataset": "b"}, [("GO4527", "spec.dataset")]),
    ],
)
def test_its_rules_are_about_changes(registry, before, after, expected):
    ref = ObjectRef(RUN.group, RUN.kind, "", "a")
    problems = update_problems(registry, ref, run(**before), run(**after))
    assert [(code, dotted(path)) for code, _, path in problems] == expected
