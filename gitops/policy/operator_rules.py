"""What the operators refuse in one manifest, told before it is sent: the rules of the operator types.

Schemas of the operators and the CEL rules in them are not repeated: they come with the CustomResourceDefinitions. These
are the rules of webhooks and controllers, which no client can see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.findings import Finding, Severity
from gitops.model.identity import GroupKind, WorkloadRef
from gitops.model.object_rules import FieldRule
from gitops.policy import codes
from gitops.policy.cel.expressions import EvaluationError
from gitops.policy.field_rules import Problem, named_values_at, values_at
from gitops.policy.registry import OperatorRegistry
from gitops.policy.rule_expressions import all_hold, holds, require_plain, scope

MOST_PLACES = 1000
"""Of one path in one object that rules look at: no kind of the operators has as many, and each costs microseconds."""


def manifest_problems(registry: OperatorRegistry, kind: GroupKind, body: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with a manifest, whatever is there now: (code, message, path) for each problem."""
    known, version = registry.rules_of(kind), version_of(body)
    for once in known.once_only:
        yield codes.ONCE_ONLY, f"{once.message} ({once.source})", ("kind",)
    for trigger in known.triggers:
        for path, _ in values_at(body, trigger.path):
            yield codes.TRIGGER, f"{dotted(path)}: {trigger.message} ({trigger.source})", path
    for required in known.required:
        path = tuple(required.path.strip("/").split("/"))
        if applies(required.versions, version) and not any(values_at(body, required.path)):
            yield codes.NOT_EXPLICIT, f"{dotted(path)}: {required.message} ({required.source})", path
    rules = [rule for rule in known.rules if rule.about == "manifest" and applies(rule.versions, version)]
    if rules:
        yield from _evaluated(rules, body)


def _evaluated(rules: Iterable[FieldRule], body: Mapping[str, Any]) -> Iterator[Problem]:
    try:
        require_plain(body)
    except EvaluationError as error:
        yield codes.RULE_UNDECIDED, f"no rule of the operator could be checked: {error}", ()
        return
    for place, group in by_place(rules).items():
        found = list(islice(named_values_at(body, place), MOST_PLACES + 1))
        if len(found) > MOST_PLACES:
            message = f"only the first {MOST_PLACES} of {place} were checked by rules of the operator"
            yield codes.RULE_UNDECIDED, message, found[MOST_PLACES][1]
        texts = tuple(rule.rule for rule in group)
        for _, path, value in found[:MOST_PLACES]:
            values = scope(self=value, object=body)
            for rule in () if all_hold(texts, values) else group:
                yield from judged(rule, path, values)


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """Without the rules that could not be checked at a place, or around one, that is wrong by itself: a null, a number
    that must be text, what a schema refuses."""
    undecided = {_named(f) for f in findings if f.code == codes.RULE_UNDECIDED}
    wrong = defaultdict(list)
    for f in findings if undecided else ():
        if f.path and f.severity == Severity.ERROR and _named(f) in undecided:
            wrong[_named(f)].append(f.path)

    def follows(f: Finding) -> bool:
        return any(f.path[: len(path)] == path[: len(f.path)] for path in wrong[_named(f)])

    return [f for f in findings if f.code != codes.RULE_UNDECIDED or not follows(f)]


def _named(f: Finding) -> tuple[WorkloadRef | None, str, str]:
    return f.workload, *((f.object.kind, f.object.name) if f.object else ("", ""))


def by_place(rules: Iterable[FieldRule]) -> dict[str, list[FieldRule]]:
    """Rules by their path."""
    found: dict[str, list[FieldRule]] = {}
    for rule in rules:
        found.setdefault(rule.path, []).append(rule)
    return found


def judged(rule: FieldRule, path: Path, values: Any) -> Iterator[Problem]:
    """The problem with one value that a rule is about, if there is one; `path` is that of `self`."""
    at: Path = (*path, *(rule.at.strip("/").split("/") if rule.at else ()))
    place = f"{dotted(at)}: " if at else ""
    try:
        if holds(rule.rule, values):
            return
    except EvaluationError as error:
        message = f"{place}rule {rule.id} could not be checked: {error} ({rule.source})"
        yield codes.RULE_UNDECIDED, message, at
        return
    code = codes.RULE_BROKEN if rule.severity == "error" else codes.RULE_ADVISES
    yield code, f"{place}{rule.message} ({rule.source})", at


def applies(versions: list[str], version: str) -> bool:
    return not versions or version in versions


def version_of(body: Mapping[str, Any]) -> str:
    """`v1beta1` of `nvidia.com/v1beta1`."""
    return str(body.get("apiVersion", "")).rpartition("/")[2]
