"""The gate: what of an operator's rights is refused, and what somebody has to accept.

Refused are wildcards, verbs that lead to any right, cluster-admin, and everything that cannot be resolved: a gate that
does not know what a role holds cannot pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.high_risk_rights import HighRiskRight
from gitops.policy.rbac import codes
from gitops.policy.rbac.resolving import (
    Grant,
    Granted,
    Grants,
    aggregation_lag,
    as_if_bound,
    grants_of,
    parts_of,
    rules_of,
)
from gitops.policy.rbac.reviewing import Review, reviews_of
from gitops.policy.rbac.roles import Account, RbacObjects
from gitops.policy.rbac.rules import escalating_verbs, wildcards

CLUSTER_ADMIN = "cluster-admin"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of the rights of some accounts (`bound`), or of roles as if they were bound. `violations` close the gate, `notes`
    are sentences that say how far the judgement reaches."""

    violations: tuple[Finding, ...]
    reviews: tuple[Review, ...]
    notes: tuple[str, ...] = ()
    bound: bool = True

    @property
    def passes(self) -> bool:
        return not self.violations


def judge_accounts(
    accounts: Iterable[Account],
    objects: RbacObjects,
    rights: Collection[HighRiskRight],
    accepted: Collection[str] = (),
    *,
    live: bool = False,
) -> Judgement:
    """Judge every role that the accounts have. `accepted` are ids of high-risk rights; `live`: the objects are all that
    a cluster has, and not just those of some files."""
    return _judge(grants_of(accounts, objects), objects, rights, accepted, bound=True, live=live)


def judge_roles(objects: RbacObjects, rights: Collection[HighRiskRight], accepted: Collection[str] = ()) -> Judgement:
    """Judge every role as if it were bound."""
    return _judge(as_if_bound(objects), objects, rights, accepted, bound=False, live=False)


def _judge(
    grants: Grants,
    objects: RbacObjects,
    rights: Collection[HighRiskRight],
    accepted: Collection[str],
    *,
    bound: bool,
    live: bool,
) -> Judgement:
    rules = rules_of(grants.grants, objects)
    violations = [*_bindings(grants), *_unreadable(grants, objects)]
    fine = []
    for granted in rules:
        found = list(_rule(granted))
        violations += found
        if not any(f.code == codes.WILDCARD for f in found):
            fine.append(granted)
    notes = _aggregation_notes(grants.grants, objects, live=live)
    return Judgement(tuple(violations), tuple(reviews_of(fine, rights, accepted)), tuple(notes), bound)


def _bindings(grants: Grants) -> Iterator[Finding]:
    every = {g.binding.ref: g.binding for g in grants.grants if g.binding is not None}
    unresolved = {binding.ref: binding for binding in grants.unresolved}
    for ref, binding in sorted({**every, **unresolved}.items()):
        role = binding.role
        if role is not None and role.kind == "ClusterRole" and role.name == CLUSTER_ADMIN:
            yield finding(codes.CLUSTER_ADMIN, f"{ref} binds {CLUSTER_ADMIN}", binding.origin, object=ref)
        elif ref in unresolved:
            wanted = "what it refers to is no role" if role is None else f"there is no {role}"
            yield finding(codes.UNRESOLVED_ROLE, f"{ref}: {wanted}", binding.origin, object=ref)


def _unreadable(grants: Grants, objects: RbacObjects) -> Iterator[Finding]:
    told: set[int] = set()
    clusters = objects.cluster_roles
    for grant in grants.grants:
        for part in parts_of(grant.role, clusters):
            for problem in part.problems if id(part) not in told else ():
                yield finding(codes.UNREADABLE_ROLE, f"{part.ref}: {problem}", part.origin, object=part.ref)
            told.add(id(part))


def _rule(granted: Granted) -> Iterator[Finding]:
    rule, role = granted.rule, granted.role
    into = f", aggregated into {granted.into}" if granted.into is not None else ""
    where = f"{role.ref} rule {rule.number}{into}, {scope_of(granted)}"
    if wide := list(wildcards(rule)):
        yield finding(codes.WILDCARD, f"{where}: {', '.join(wide)}", rule.origin, object=role.ref)
    if verbs := escalating_verbs(rule):
        word = "verb" if len(verbs) == 1 else "verbs"
        yield finding(codes.ESCALATING_VERB, f"{where}: {word} {', '.join(verbs)}", rule.origin, object=role.ref)


def scope_of(granted: Granted) -> str:
    """Where a rule counts, in words."""
    if granted.namespaces is None:
        return "everywhere"
    names = sorted(granted.namespaces)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"in {', '.join(names[:3])}{more}"


def _aggregation_notes(grants: Iterable[Grant], objects: RbacObjects, *, live: bool) -> Iterator[str]:
    clusters = objects.cluster_roles
    parts = {id(part): part for grant in grants for part in parts_of(grant.role, clusters)}
    for role in (part for part in parts.values() if part.selectors is not None):
        missing, besides = aggregation_lag(role, clusters)
        if not live:
            yield f"{role.ref} is aggregated: on a cluster roles beside these files may add to it"
        elif missing or besides:
            yield f"{role.ref} is not aggregated up to date: {missing} rules to come, {besides} to go; both are judged"


def located(findings: Iterable[Finding], file: str) -> tuple[Finding, ...]:
    """Findings about what has no file, with a name that stands in for one: that of the cluster."""
    return tuple(f if f.origin.file else replace(f, origin=Origin(file)) for f in findings)
