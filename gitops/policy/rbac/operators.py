"""Operator types that a cluster may not use, because of the rights that their ServiceAccounts have there.

Three states, for ClusterFacts.refused. Passes: no entry. Refused: an entry with the first violation. Not readable (the
cluster answers that we may not look, 403): an entry too, since a gate that may not look cannot pass anything; its text
says so. A cluster that does not answer tells nothing, and what was known of it stays (gitops/cluster/rights.py). In
none of these states is anything deleted or moved: units of a refused type stay as they are and are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gitops.model.high_risk_rights import HighRiskRight
from gitops.model.operators import OperatorType
from gitops.policy.rbac.gate import Judgement, judge_accounts
from gitops.policy.rbac.roles import Account, RbacObjects

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class OperatorRights:
    """What a cluster's gate says of an operator type. `missing` are its accounts that are not on the cluster, and so
    have no rights; `judgement` is about the others."""

    accounts: tuple[Account, ...]
    missing: tuple[Account, ...]
    judgement: Judgement


def accounts_of(operator: OperatorType) -> tuple[Account, ...]:
    """ServiceAccounts that a type names; a type that names none is not judged."""
    return tuple(Account(a.namespace, a.name) for a in operator.spec.rbac.serviceAccounts)


def judge_operator(operator: OperatorType, objects: RbacObjects, rights: Collection[HighRiskRight]) -> OperatorRights:
    """Judge the accounts of a type that exist, by all roles and bindings of a cluster."""
    named = accounts_of(operator)
    present = tuple(account for account in named if account in objects.accounts)
    accepted = operator.spec.rbac.accepted
    judgement = judge_accounts(present, objects, rights, accepted, live=True)
    return OperatorRights(present, tuple(a for a in named if a not in objects.accounts), judgement)


def refused_types(
    operators: Iterable[OperatorType], objects: RbacObjects, rights: Collection[HighRiskRight] = ()
) -> Mapping[str, str]:
    """Name of each type that may not be used with these roles and bindings, with the reason in one sentence."""
    judged = ((operator, judge_operator(operator, objects, rights).judgement) for operator in operators)
    return {operator.metadata.name: _reason(judgement) for operator, judgement in judged if not judgement.passes}


def unreadable_types(operators: Iterable[OperatorType], reason: str) -> Mapping[str, str]:
    """Every type that would have been judged, because its rights may not be read."""
    text = f"the rights of its ServiceAccounts cannot be read: {reason}"[:_LONGEST]
    return {operator.metadata.name: text for operator in operators if accounts_of(operator)}


def _reason(judgement: Judgement) -> str:
    first, more = judgement.violations[0], len(judgement.violations) - 1
    return f"{first.code}: {first.message[:_LONGEST]}" + (f" (and {more} more)" if more else "")
