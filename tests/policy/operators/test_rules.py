"""Every rule of the shipped operator types has an object that satisfies it and one that breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.manifests.lines import dotted
from gitops.model.identity import ObjectRef
from gitops.model.object_rules import FieldRule
from gitops.policy.operator_rules import judged, manifest_problems
from gitops.policy.registry import OperatorRegistry
from gitops.policy.rule_expressions import compiled
from gitops.policy.updates import update_problems

HERE = Path(__file__).parent
REGISTRY = OperatorRegistry.shipped()
TABLES: dict[str, dict[str, Any]] = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(HERE.glob("*.yaml"))
}
RULES = {(name, rule.id): rule for name, operator in REGISTRY.types.items() for rule in operator.spec.rules}
CASES = [(name, id) for name, table in TABLES.items() for id in table]


def whole(value: dict[str, Any], rule: FieldRule, version: str) -> dict[str, Any]:
    """A spec, or an object, as an object of the rule's kind."""
    body = value if "metadata" in value else {"metadata": {"name": "x"}, "spec": value}
    group = f"{rule.group}/" if rule.group else ""
    return {"apiVersion": f"{group}{version}", "kind": rule.kind, **body}


def told(rule: FieldRule, case: dict[str, Any], which: str) -> list[tuple[str, str]]:
    """(path, message) of what the rule says of an object; of nothing else."""
    version = case.get("version", rule.versions[0] if rule.versions else "v1alpha1")
    body, ref = whole(case[which], rule, version), ObjectRef(rule.group, rule.kind, "", "x")
    if rule.about == "change":
        before = whole(case["before"], rule, version)
        problems = list(update_problems(REGISTRY, ref, before, body))
    else:
        problems = list(manifest_problems(REGISTRY, ref.group_kind, body))
    assert not [message for code, message, _ in problems if code == "GO4523"]
    return [(dotted(path), message) for _, message, path in problems if rule.message in message]


def test_every_expression_compiles():
    for operator in REGISTRY.types.values():
        for text in (*(rule.rule for rule in operator.spec.rules), *(each.when for each in operator.spec.handovers)):
            assert compiled(text) is not None


def test_every_rule_has_both():
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize(("operator", "id"), CASES)
def test_a_rule_takes_what_is_right_and_refuses_what_is_wrong(operator, id):
    rule, case = RULES[operator, id], TABLES[operator][id]
    assert told(rule, case, "good") == []
    assert [path for path, _ in told(rule, case, "bad")] == [case["at"]]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_no_rule_says_yes_to_nonsense_by_accident(rule):
    """Values of the wrong type are told, or judged wrong; they never raise."""
    for value in ("x", 1, [], {}, [1], {"a": 1}):
        variables = {"self": value, "object": {"spec": value}, "oldSelf": value, "oldObject": {"spec": value}}
        for code, message, _ in judged(rule, ("spec",), variables):
            assert code in ("GO4521", "GO4522", "GO4523")
            assert rule.source in message
