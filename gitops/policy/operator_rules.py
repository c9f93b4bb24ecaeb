"""What the operators refuse in one manifest, told before it is sent: the rules of the operator types.

Schemas of the operators and the CEL rules in them are not repeated: they come with the CustomResourceDefinitions. These
are the rules of webhooks and controllers, which no client can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.identity import GroupKind
from gitops.model.object_rules import FieldRule
from gitops.policy import codes
from gitops.policy.cel.expressions import EvaluationError
from gitops.policy.field_rules import Problem, values_at
from gitops.policy.registry import OperatorRegistry
from gitops.policy.rule_expressions import holds, require_plain


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
        try:
            require_plain(body)
        except EvaluationError as error:
            yield codes.RULE_UNDECIDED, f"no rule of the operator could be checked: {error}", ()
            return
    for rule in rules:
        for path, value in values_at(body, rule.path) if rule.path else (((), body),):
            yield from judged(rule, path, {"self": value, "object": body})


def judged(rule: FieldRule, path: Path, variables: Mapping[str, Any]) -> Iterator[Problem]:
    """The problem with one value that a rule is about, if there is one; `path` is that of `self`."""
    at: Path = (*path, *(rule.at.strip("/").split("/") if rule.at else ()))
    place = f"{dotted(at)}: " if at else ""
    try:
        if holds(rule.rule, variables):
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
