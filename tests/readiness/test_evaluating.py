"""The machinery of rules: holds, deadlines, order, messages, expressions that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from gitops.model.status_mappings import StatusMapping, seconds_of
from gitops.readiness.evaluating import evaluate, foresee
from gitops.readiness.expressions import cut, fields_used
from gitops.readiness.mapping import CompiledMapping, MappingError, Mappings, compile_mapping
from gitops.readiness.statuses import Flag, Status
from gitops.readiness.texts import one_line

Make = Callable[..., dict[str, Any]]


def mapping(*rules: dict[str, Any], **spec: Any) -> CompiledMapping:
    body = {
        "apiVersion": "gitops/v1alpha1",
        "kind": "StatusMapping",
        "metadata": {"name": "test"},
        "spec": {
            "match": [{"group": "example.com", "kind": "Thing"}],
            "generation": {"mode": "ignore"},
            "phase": "status.state",
            "rules": [*rules],
            **spec,
        },
    }
    return compile_mapping(StatusMapping.model_validate(body))


def thing(make: Make, state: str, **metadata: Any) -> dict[str, Any]:
    return make("example.com/v1", "Thing", metadata={"uid": "u", **metadata}, status={"state": state})


BAD = {"status": "Failed", "hold": "2m", "phase": {"in": ["bad"]}}
BUSY = {"status": "Progressing", "phase": {"in": ["bad", "busy"]}}
GOOD = {"status": "Ready", "phase": {"in": ["good"]}}


def test_a_condition_about_an_earlier_spec_does_not_count(make: Make, now: float) -> None:
    """The operator has seen the new spec and not judged it yet: it still shows the old Ready."""
    rule = {"status": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}
    rules = mapping(rule, generation={"mode": "auto"}, otherwise={"status": "Progressing"})
    for seen, status in ((1, Status.PROGRESSING), (2, Status.READY)):
        condition = {"type": "Ready", "status": "True", "observedGeneration": seen}
        found = {"observedGeneration": 2, "conditions": [condition]}
        obj = make("example.com/v1", "Thing", metadata={"uid": "u", "generation": 2}, status=found)
        assert evaluate(obj, rules, now=now)[0].status is status


def test_a_hold_counts_only_without_a_break(make: Make, now: float) -> None:
    rules = mapping(BAD, BUSY, GOOD)
    status, memory = evaluate(thing(make, "good"), rules, now=now)
    status, memory = evaluate(thing(make, "bad"), rules, now=now + 1, memory=memory)
    assert (status.status, status.next_check) == (Status.PROGRESSING, now + 121)
    status, memory = evaluate(thing(make, "busy"), rules, now=now + 100, memory=memory)
    status, memory = evaluate(thing(make, "bad"), rules, now=now + 101, memory=memory)
    status, memory = evaluate(thing(make, "bad"), rules, now=now + 130, memory=memory)
    assert status.status is Status.PROGRESSING
    status, memory = evaluate(thing(make, "bad"), rules, now=now + 221, memory=memory)
    assert (status.status, status.since) == (Status.FAILED, now + 221)


def test_a_new_generation_starts_holds_and_deadlines_again(make: Make, now: float) -> None:
    rules = mapping(BAD, BUSY, deadlines=[{"after": "1h"}])
    _, memory = evaluate(thing(make, "bad"), rules, now=now)
    _, memory = evaluate(thing(make, "bad", generation=2), rules, now=now + 119, memory=memory)
    status, _ = evaluate(thing(make, "bad", generation=2), rules, now=now + 121, memory=memory)
    assert status.status is Status.PROGRESSING
    assert memory.progressing_at == now + 119


def test_a_hold_met_after_a_restart_runs_from_the_last_transition(make: Make, now: float) -> None:
    obj = thing(make, "bad", creationTimestamp="2026-11-30T10:00:00Z")
    obj["status"]["conditions"] = [{"type": "X", "status": "True", "lastTransitionTime": "2026-11-30T11:50:00Z"}]
    status, _ = evaluate(obj, mapping(BAD, BUSY), now=now)
    assert status.status is Status.FAILED, "it had been so for ten minutes"
    obj["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-30T11:59:30Z"
    status, _ = evaluate(obj, mapping(BAD, BUSY), now=now)
    assert status.status is Status.PROGRESSING


def test_foreseen_verdicts_are_those_of_later_evaluations(make: Make, now: float) -> None:
    rules = mapping(BAD, BUSY, deadlines=[{"after": "30s", "status": "Degraded", "reason": "Slow"}])
    obj = thing(make, "bad")
    outlook = foresee(obj, rules, now=now)
    _, memory = evaluate(obj, rules, now=now)
    for later in (0, 29, 30, 119, 120, 5000):
        assert outlook.at(now + later)[0].status is evaluate(obj, rules, now=now + later, memory=memory)[0].status
    assert outlook.next_change(now) == now + 30
    assert outlook.next_change(now + 120) is None


def test_listed_order_takes_the_first_match(make: Make, now: float) -> None:
    both = ({"status": "Ready", "expr": "true"}, {"status": "Failed", "expr": "true"})
    assert evaluate(thing(make, "x"), mapping(*both), now=now)[0].status is Status.READY


def test_precedence_takes_the_worst_match_unless_a_rule_stops(make: Make, now: float) -> None:
    both = ({"status": "Ready", "expr": "true"}, {"status": "Failed", "expr": "true"})
    assert evaluate(thing(make, "x"), mapping(*both, order="precedence"), now=now)[0].status is Status.FAILED
    stopping = ({"status": "Ready", "expr": "true", "stop": True}, both[1])
    assert evaluate(thing(make, "x"), mapping(*stopping, order="precedence"), now=now)[0].status is Status.READY


def test_an_expression_that_fails_skips_its_rule_and_is_reported(make: Make, now: float) -> None:
    rules = mapping({"status": "Failed", "expr": "self.spec.nope == 3"}, GOOD)
    status, _ = evaluate(thing(make, "good"), rules, now=now)
    assert status.status is Status.READY
    assert len(status.problems) == 1
    assert "mapping test, rule 1" in status.problems[0]


def test_an_expression_that_never_ends_is_stopped(make: Make, now: float) -> None:
    ones = "[" + ",".join(["1"] * 200) + "]"
    rules = mapping(
        {"status": "Failed", "expr": f"{ones}.all(a, {ones}.all(b, {ones}.all(c, {ones}.all(d, true))))"}, GOOD
    )
    status, _ = evaluate(thing(make, "good"), rules, now=now)
    assert (status.status, len(status.problems)) == (Status.READY, 1)


def test_conditions_not_true_also_when_absent(make: Make, now: float) -> None:
    rules = mapping(
        {"status": "Progressing", "conditions": [{"type": "Done", "notTrue": True}]},
        {"status": "Ready", "expr": "true"},
    )
    obj = thing(make, "x")
    assert evaluate(obj, rules, now=now)[0].status is Status.PROGRESSING
    obj["status"]["conditions"] = [{"type": "Done", "status": "True"}]
    assert evaluate(obj, rules, now=now)[0].status is Status.READY


def test_otherwise_after_its_time(make: Make, now: float) -> None:
    rules = mapping(otherwise={"status": "Ready", "after": "10s", "flags": ["unverified"], "reason": "Nothing"})
    outlook = foresee(thing(make, "x"), rules, now=now)
    assert outlook.at(now)[0].status is Status.PROGRESSING
    assert outlook.at(now + 10)[0].flags == {Flag.UNVERIFIED}


def test_messages_take_the_first_filled_template(make: Make, now: float) -> None:
    templates = ["{conditions.Ready.message}", "state is {phase} of {self.spec.size}"]
    obj = thing(make, "good") | {"spec": {"size": 3}}
    rule = {**GOOD, "message": templates}
    assert evaluate(obj, mapping(rule), now=now)[0].message == "state is good of 3"


@pytest.mark.parametrize(
    "rule",
    [
        {"status": "Ready", "expr": "self.("},
        {"status": "Ready", "expr": "nobody.knows == 1"},
        {"status": "Ready"},
        {**GOOD, "message": ["{conditions.Ready}"]},
        {**GOOD, "message": ["{secret}"]},
    ],
)
def test_mappings_that_cannot_work_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(MappingError, match="test, rule 1"):
        mapping(rule)


@pytest.mark.parametrize("rule", [{"status": "Green"}, {"status": "Ready", "hold": "2 minutes"}, {**GOOD, "when": {}}])
def test_mappings_that_do_not_fit_the_document_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        mapping(rule)


def test_a_version_beats_any_version_and_later_documents_beat_earlier_ones() -> None:
    def document(name: str, *versions: str, kind: str = "Thing") -> StatusMapping:
        match = [{"group": "*" if kind == "*" else "g", "kind": kind, "versions": [*versions]}]
        spec = {"match": match}
        body = {"apiVersion": "gitops/v1alpha1", "kind": "StatusMapping", "metadata": {"name": name}, "spec": spec}
        return StatusMapping.model_validate(body)

    known = Mappings([document("rest", kind="*"), document("old"), document("v2", "v2"), document("new")])
    assert known.for_object({"apiVersion": "g/v2", "kind": "Thing"}).name == "v2"
    assert known.for_object({"apiVersion": "g/v1", "kind": "Thing"}).name == "new"
    assert known.for_object({"apiVersion": "h/v1", "kind": "Thing"}).name == "rest"


def test_only_the_fields_an_expression_reads_are_converted() -> None:
    tree = fields_used(["self.?spec.?replicas.orValue(1) > 0 && has(self.status.state)"])
    obj = {
        "spec": {"replicas": 2, "big": "x"},
        "status": {"state": "a", "other": 1},
        "metadata": {"managedFields": [1]},
    }
    assert cut(obj, tree) == {"spec": {"replicas": 2}, "status": {"state": "a"}}
    assert cut(obj, fields_used(["size(self) > 0"])) == {**obj, "metadata": {}}


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("500ms", 0.5), (3, 3)])
def test_durations(text: object, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\t c", "a b c"),
        ("pull https://bot:s3cr3t@git.example/x", "pull https://***@git.example/x"),
        ("key nvapi-abcdefgh1234 refused", "key *** refused"),
        (None, ""),
        ("x" * 500, "x" * 299 + "…"),
    ],
)
def test_foreign_text_is_one_bounded_line_without_credentials(text: object, line: str) -> None:
    assert one_line(text) == line
