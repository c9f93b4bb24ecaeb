"""What only a change is refused for: rules of a schema that need the object as it was."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.model.identity import ClusterName
from gitops.plan.revisions import check_revisions
from gitops.policy.facts import ClusterFacts
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.updates import Update, check_updates

A = ClusterName("a")
OBJECTS = "bundles/base/objects.yaml"
WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata:
  name: page
  namespace: web
spec:
  size: {size}
  labels: {labels}
"""


def definition(rule: str = "self == oldSelf", *, least: int = 0) -> dict[str, Any]:
    rules = [{"rule": rule, "message": "a size stays"}]
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": least, "x-kubernetes-validations": rules},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture
def change(compile_small: Any, compiler: Any) -> Any:
    """(code, line, message) of what is told when the widget goes from one state to another."""

    def run(before: tuple[int, str], after: tuple[int, str], *, live: Any = None, **options: Any) -> list[Any]:
        facts = {A: ClusterFacts(schemas=schemas_of_definitions([definition(**options)]))}
        states = [
            compile_small({OBJECTS: WIDGET.format(size=size, labels=labels)}, facts=facts)
            for size, labels in (before, after)
        ]
        if live is None:
            found = check_revisions(*states, compiler.registry)
        else:
            (key,) = [key for key in states[-1].units if key.cluster == A and key.kind == "bundle"]
            (old,), (new,) = states[0].units[key].objects, states[-1].units[key].objects
            update = Update(A, new.ref, old.body, new.body, new.provenance, key.workload, {**old.body, **live})
            found = check_updates(compiler.registry, [update], states[-1].schemas)
        return [(f.code, f.origin.line, f.message.removeprefix("Widget page: ")) for f in found]

    return run


def test_a_transition_rule_of_a_definition_at_the_line_of_the_new_value(change: Any) -> None:
    assert change((1, "{a: b}"), (2, "{a: b}")) == [("GO4528", 7, "spec.size: a size stays (rule: self == oldSelf)")]
    assert change((1, "{a: b}"), (1, "{a: c}")) == []


def test_a_rule_about_growth_lets_the_right_way_pass(change: Any) -> None:
    assert change((1, "{a: b}"), (2, "{a: b}"), rule="self >= oldSelf") == []
    (told,) = change((2, "{a: b}"), (1, "{a: b}"), rule="self >= oldSelf")
    assert told[:2] == ("GO4528", 7)


def test_what_is_wrong_as_a_new_object_too_is_told_where_it_is_compiled(change: Any) -> None:
    assert change((3, "{a: b}"), (1, "{a: b}"), rule="self <= oldSelf", least=2) == []


def test_a_map_that_loses_its_last_member_becomes_null(change: Any) -> None:
    """What Git declared before is ours to lose; of a live object managedFields tell, and without them it is a doubt."""
    (told,) = change((1, "{a: b}"), (1, "{}"))
    assert told[:2] == ("GO4528", 8)
    (doubt,) = change((1, "{a: b}"), (1, "{}"), live={})
    assert doubt[0] == "GO4509"
    assert "depends on who owns" in doubt[2]


def test_a_cluster_whose_schema_is_not_known_says_nothing(compile_small: Any, compiler: Any) -> None:
    states = [compile_small({OBJECTS: WIDGET.format(size=size, labels="{a: b}")}) for size in (1, 2)]
    assert check_revisions(*states, compiler.registry) == ()
