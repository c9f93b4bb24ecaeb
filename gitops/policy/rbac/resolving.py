"""Which roles accounts have, and the rules of a role with those that are aggregated into it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gitops.model.identity import ObjectRef
from gitops.policy.rbac.roles import Account, Binding, RbacObjects, Role
from gitops.policy.rbac.rules import Rule


@dataclass(frozen=True, slots=True)
class Granted:
    """A rule that accounts have. `role` wrote it, `into` is the aggregated role that brings it; `namespaces` is where
    it counts, None for everywhere."""

    rule: Rule
    role: Role
    into: ObjectRef | None
    namespaces: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that a binding gives. `namespace` is where, "" for everywhere; `binding` None: judged as if bound."""

    role: Role
    namespace: str
    binding: Binding | None


@dataclass(frozen=True, slots=True)
class Grants:
    """What accounts have, and the bindings whose role is not known."""

    grants: tuple[Grant, ...]
    unresolved: tuple[Binding, ...] = ()


def grants_of(accounts: Iterable[Account], objects: RbacObjects) -> Grants:
    """Roles that any of the accounts has: by its own name, by its user name, or by a group of all ServiceAccounts."""
    known = tuple(accounts)
    bound = [binding for binding in objects.bindings if any(binding.binds(account) for account in known)]
    grants, unresolved = [], []
    for binding in bound:
        roles = objects.roles.get(binding.role, ()) if binding.role is not None else ()
        grants += [Grant(role, binding.namespace, binding) for role in roles]
        if not roles:
            unresolved.append(binding)
    return Grants(tuple(grants), tuple(unresolved))


def as_if_bound(objects: RbacObjects) -> Grants:
    """Every role, a ClusterRole everywhere and a Role in its namespace: for files that do not say who has them."""
    roles = [role for _, found in sorted(objects.roles.items()) for role in found]
    return Grants(tuple(Grant(role, role.ref.namespace or _own(role), None) for role in roles))


def _own(role: Role) -> str:
    return "(its own)" if role.ref.kind == "Role" else ""


def accounts_in(objects: RbacObjects) -> tuple[Account, ...]:
    """Every ServiceAccount that the objects declare or bind. Groups of them stand for accounts without a name."""
    found = set(objects.accounts)
    for binding in objects.bindings:
        for subject in binding.subjects:
            if subject.kind == "ServiceAccount":
                found.add(binding.account_of(subject))
            elif subject.kind == "User" and subject.name.startswith("system:serviceaccount:"):
                namespace, _, name = subject.name.removeprefix("system:serviceaccount:").partition(":")
                found.add(Account(namespace, name))
            elif subject.kind == "Group" and subject.name.startswith("system:serviceaccounts:"):
                found.add(Account(subject.name.removeprefix("system:serviceaccounts:")))
            elif subject.kind != "User" and (subject.kind != "Group" or subject.name in Account().groups):
                found.add(Account())
    return tuple(sorted(found))


def parts_of(role: Role, cluster_roles: Collection[Role]) -> Iterator[Role]:
    """The role, and those whose rules the API server copies into it, also through roles that are aggregated themselves.

    What stands in an aggregated role is judged beside what its selectors find: the first counts now (and until the
    controller has looked), the second soon. Source: kubernetes/pkg/controller/clusterroleaggregation.
    """
    seen, waiting = {id(role)}, [role]
    while waiting:
        current = waiting.pop()
        yield current
        for other in cluster_roles if current.selectors is not None else ():
            if id(other) not in seen and any(s.matches(other.labels) for s in current.selectors or ()):
                seen.add(id(other))
                waiting.append(other)


def aggregation_lag(role: Role, cluster_roles: Collection[Role]) -> tuple[int, int]:
    """How many rules the selectors of an aggregated role find that are not in it, and how many it has besides."""
    own = set(role.rules)
    found = {rule for part in parts_of(role, cluster_roles) if part is not role for rule in part.rules}
    return len(found - own), len(own - found)


def rules_of(grants: Iterable[Grant], objects: RbacObjects) -> list[Granted]:
    """Every rule once, with all the places where it counts, in the order of roles and rules. A rule that was copied
    into an aggregated role is told as the one that it is a copy of."""
    places: dict[tuple[ObjectRef, int, int], tuple[Granted, set[str]]] = {}
    clusters = objects.cluster_roles
    for grant in grants:
        parts = list(parts_of(grant.role, clusters))
        written = {rule for part in parts if part.selectors is None for rule in part.rules}
        for part in parts:
            into = None if part is grant.role else grant.role.ref
            for rule in part.rules:
                if part.selectors is not None and rule in written:
                    continue
                first = Granted(rule, part, into, None)
                places.setdefault((part.ref, id(part), rule.number), (first, set()))[1].add(grant.namespace)
    ordered = sorted(places.items(), key=lambda item: (item[0][0], item[0][2]))
    return [
        Granted(one.rule, one.role, one.into, None if "" in found else frozenset(found)) for _, (one, found) in ordered
    ]


def unbound_roles(accounts: Iterable[Account], objects: RbacObjects) -> tuple[ObjectRef, ...]:
    """Roles that none of the accounts has, neither directly nor by aggregation."""
    clusters = objects.cluster_roles
    grants = grants_of(accounts, objects).grants
    had = {part.ref for grant in grants for part in parts_of(grant.role, clusters)}
    return tuple(sorted(objects.roles.keys() - had))
