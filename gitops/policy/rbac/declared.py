"""What roles and bindings in Git may give away: whoever merges them acts with the reconciler's rights (cases.md X05).

Refused is what no workload needs and what opens the cluster at once: every right on every resource, whatever the role
is called, rights for callers without a login or for system:masters, and changes of the roles that the API server itself
keeps. The rest is what operators ship too, so it is a warning for whoever reviews. Source: Kubernetes documentation,
"Role Based Access Control Good Practices".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef
from gitops.policy import codes
from gitops.policy.rbac.gate import CLUSTER_ADMIN
from gitops.policy.rbac.resolving import Granted
from gitops.policy.rbac.reviewing import reviews_of, shipped_rights
from gitops.policy.rbac.roles import BINDINGS, ROLES, Binding, Role, Source, Subject, read_binding, read_role
from gitops.policy.rbac.rules import Rule, escalating_verbs, wildcards

_NOBODY = ("system:masters", "system:unauthenticated", "system:anonymous")
_EVERYBODY = ("system:authenticated", "system:serviceaccounts")
_OF_THE_SERVER = frozenset(
    f"{CLUSTER_ADMIN} admin edit view system:basic-user system:discovery system:public-info-viewer "
    "system:service-account-issuer-discovery".split()
)
"""ClusterRoles, and bindings of these names, that everybody or people's own rights depend on."""
_FOR_PEOPLE = ("admin", "edit", "view")
_DEFAULT_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
"""All labels of the ClusterRole cluster-admin."""

Problem = tuple[str, str, Path]
"""Code, sentence, place."""


def problems_of(body: Mapping[str, Any], ref: ObjectRef) -> Iterator[Problem]:
    """What is wrong or risky with a declared object of rbac.authorization.k8s.io; nothing for other kinds."""
    if ref.kind.startswith("Cluster") and ref.name in _OF_THE_SERVER:
        message = "the API server keeps this object itself, and others depend on it"
        yield codes.SERVER_ROLE, message, ("metadata", "name")
    if ref.kind in ROLES:
        role = read_role(ref, Source(body))
        for position, rule in enumerate(role.rules):
            yield from _rule(ref, rule, ("rules", position))
        if any(selector.matches(_DEFAULT_LABELS) for selector in role.selectors or ()):
            yield codes.ALL_RIGHTS, f"aggregates {CLUSTER_ADMIN}", ("aggregationRule",)
        yield from _aggregated(role)
    elif ref.kind in BINDINGS:
        yield from _binding(read_binding(ref, Source(body)))


def _rule(ref: ObjectRef, rule: Rule, path: Path) -> Iterator[Problem]:
    if ref.kind == "ClusterRole" and rule.is_everything:
        yield codes.ALL_RIGHTS, "every verb on every resource, as cluster-admin", path
        return
    words = [*wildcards(rule), *(f"verb {verb}" for verb in escalating_verbs(rule))]
    if words:
        yield codes.WIDE_RIGHTS, ", ".join(words), path


def _aggregated(role: Role) -> Iterator[Problem]:
    """Labels by which a ClusterRole becomes a part of those that people have."""
    into = [n for n in _FOR_PEOPLE if role.labels.get(f"rbac.authorization.k8s.io/aggregate-to-{n}") == "true"]
    if role.ref.kind != "ClusterRole" or not into:
        return
    wide = [rule for rule in role.rules if [*wildcards(rule)] or escalating_verbs(rule)]
    risky = reviews_of([Granted(rule, role, None, None) for rule in role.rules], shipped_rights(), ())
    what = dict.fromkeys([*(("rights without bounds",) if wide else ()), *(review.right.id for review in risky)])
    for name in into if what else ():
        path = ("metadata", "labels", f"rbac.authorization.k8s.io/aggregate-to-{name}")
        yield codes.AGGREGATED_RIGHTS, f"everybody with {name} gets {', '.join(what)}", path


def _binding(binding: Binding) -> Iterator[Problem]:
    name = binding.role.name if binding.role is not None and binding.role.kind == "ClusterRole" else ""
    everywhere = binding.ref.kind == "ClusterRoleBinding"
    if name == CLUSTER_ADMIN and everywhere:
        yield codes.ALL_RIGHTS, f"binds {name}", ("roleRef",)
    elif name == CLUSTER_ADMIN or (name in ("admin", "edit") and everywhere):
        yield codes.WIDE_RIGHTS, f"binds {name}", ("roleRef",)
    for position, subject in enumerate(binding.subjects):
        yield from _subject(binding, subject, ("subjects", position))


def _subject(binding: Binding, subject: Subject, path: Path) -> Iterator[Problem]:
    if subject.kind in ("Group", "User") and subject.name in _NOBODY:
        yield codes.NO_LOGIN, f"gives rights to {subject.name}", path
    elif subject.kind == "Group" and subject.name in _EVERYBODY:
        yield codes.EVERYBODY, f"gives rights to all of {subject.name}", path
    elif binding.ref.kind == "RoleBinding" and _namespace_of(subject) not in ("", binding.namespace):
        where = binding.namespace or "the instance's namespace"
        yield codes.OTHER_NAMESPACE, f"gives rights in {where} to ServiceAccounts of {_namespace_of(subject)}", path


def _namespace_of(subject: Subject) -> str:
    """Namespace of the ServiceAccounts that a subject stands for, "" when it is none or its own is not written."""
    if subject.kind == "ServiceAccount":
        return subject.namespace
    kind, _, rest = subject.name.removeprefix("system:").partition(":")
    return rest.partition(":")[0] if kind in ("serviceaccount", "serviceaccounts") else ""
