"""Operator types that a cluster may not use, because of the rights that their ServiceAccounts have there.

Three states, for ClusterFacts.refused. Passes: no entry; so does a type without a ServiceAccount on the cluster.
Refused: an entry with the first violation. Not readable (the cluster answers that we may not look, 403): an entry too,
since a gate that may not look cannot pass anything; its text says so. A cluster that does not answer tells nothing, and
what was known of it stays (gitops/cluster/rights.py). In none of these states is anything deleted or moved: units of a
refused type stay as they are and are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gitops.model.high_risk_rights import HighRiskRight
from gitops.model.operators import OperatorType
from gitops.policy.rbac.gate import Judgement, judge_accounts
from gitops.policy.rbac.roles import Account, RbacObjects

_LONGEST = 300

Accounts = Mapping[str, Sequence[Account]]
"""Name of an operator type → the ServiceAccounts that its pods run as on a cluster."""


def accepted_by(operator: OperatorType) -> tuple[str, ...]:
    """Ids of the high-risk rights that were accepted when the operator was taken in."""
    return () if operator.spec.rbac is None else tuple(each.right for each in operator.spec.rbac.accepted)


def judge_operator(
    operator: OperatorType, accounts: Accounts, objects: RbacObjects, rights: Collection[HighRiskRight]
) -> Judgement:
    """Judge a type's accounts by all roles and bindings of a cluster."""
    own = accounts.get(operator.metadata.name, ())
    return judge_accounts(own, objects, rights, accepted_by(operator), live=True)


def refused_types(operators: Iterable[OperatorType], accounts: Accounts, objects: RbacObjects) -> Mapping[str, str]:
    """Name of each type that may not be used with these roles and bindings, with the reason in one sentence."""
    judged = {operator.metadata.name: judge_operator(operator, accounts, objects, ()) for operator in operators}
    return {name: _reason(judgement) for name, judgement in judged.items() if not judgement.passes}


def unreadable_types(operators: Iterable[OperatorType], reason: str) -> Mapping[str, str]:
    """Every type, because what its accounts may do cannot be read."""
    text = f"the rights of its ServiceAccounts cannot be read: {reason}"[:_LONGEST]
    return {operator.metadata.name: text for operator in operators}


def _reason(judgement: Judgement) -> str:
    first, more = judgement.violations[0], len(judgement.violations) - 1
    return f"{first.code}: {first.message[:_LONGEST]}" + (f" (and {more} more)" if more else "")
