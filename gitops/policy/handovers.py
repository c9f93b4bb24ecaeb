"""Handovers: fields that belong to somebody else while a condition holds, whoever owns them at the moment. Pure.

The rules are those of the operator types (`handovers`), what the object's own annotation leaves to whoever comes
(gitops/policy/ignoring.py), and one of Kubernetes: what an autoscaler targets is scaled by it. An autoscaler that finds
the number it wants takes no ownership, so nothing in managedFields tells (ssa-live 27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.object_rules import HandoverField
from gitops.policy.cel.expressions import EvaluationError
from gitops.policy.field_rules import named_values_at
from gitops.policy.ignoring import ignored
from gitops.policy.registry import KindRules
from gitops.policy.rule_expressions import holds, require_plain, scope

REPLICAS: Path = ("spec", "replicas")
"""Where kinds that can be scaled keep their number. `specReplicasPath` of a definition may say otherwise; none of the
kinds that people autoscale does."""


def handed_over(
    body: Mapping[str, Any], live: Mapping[str, Any] | None, rules: KindRules, *, scaler: str = ""
) -> Iterator[tuple[Path, str]]:
    """Declared fields that are somebody else's now, each with whose: the path in `body`, the holder, "" for whoever.

    A condition counts when it holds for the declared owner of the field or for the live one: both an admission webhook
    that guards a handed over field and the holder look at what was there before (DGD webhook,
    validateReplicasChanges). `scaler` names an autoscaler that targets the object.
    """
    if scaler and isinstance(body.get("spec"), dict) and "replicas" in body["spec"]:
        yield REPLICAS, scaler
    for rule in rules.handovers:
        yield from _handed(rule, body, live)
    for path in ignored(body):
        yield path, ""


def _handed(rule: HandoverField, body: Mapping[str, Any], live: Mapping[str, Any] | None) -> Iterator[tuple[Path, str]]:
    around, _, name = rule.path.rpartition("/")
    owners = {identity: owner for identity, _, owner in named_values_at(live, around)} if live is not None else {}
    for identity, path, owner in named_values_at(body, around):
        if isinstance(owner, dict) and name in owner and (_holds(rule, owner) or _holds(rule, owners.get(identity))):
            yield (*path, name), rule.holder


def _holds(rule: HandoverField, owner: Any) -> bool:
    """An owner of which it cannot be told is left alone: what is not sent moves nothing."""
    if not isinstance(owner, dict):
        return False
    try:
        require_plain(owner)
        return holds(rule.when, scope(self=owner))
    except EvaluationError:
        return True
