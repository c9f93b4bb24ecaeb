"""Roles and bindings as values: what is read from objects of rbac.authorization.k8s.io, from files or from a cluster.

Nothing here raises for what an object holds. What cannot be read is kept as a sentence beside the role or binding it
belongs to: a gate that leaves out what it does not understand passes what it should refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef
from gitops.policy.rbac.rules import Rule, read_rule
from gitops.policy.rbac.selectors import BadSelectorError, Selector, read_selector

GROUP = "rbac.authorization.k8s.io"
ROLES = ("Role", "ClusterRole")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")

Place = Callable[[Path], Origin]


@dataclass(frozen=True, slots=True, order=True)
class Account:
    """A ServiceAccount. Without a name it stands for any in its namespace, without both for any on the cluster."""

    namespace: str = ""
    name: str = ""

    @property
    def username(self) -> str:
        """As the API server names it in an authenticated request."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> frozenset[str]:
        """Groups of its requests (docs: authentication, "Service account tokens")."""
        own = {f"system:serviceaccounts:{self.namespace}"} if self.namespace else set()
        return frozenset({"system:serviceaccounts", "system:authenticated"} | own)

    def __str__(self) -> str:
        return f"{self.namespace or '*'}/{self.name or '*'}"


@dataclass(frozen=True, slots=True)
class Source:
    """An object to read, and where a part of it stands: by default nowhere, as for one that a cluster told."""

    body: Mapping[str, Any]
    place: Place = lambda path: Origin("")


@dataclass(frozen=True, slots=True)
class Role:
    """`selectors` is None but for an aggregated ClusterRole. `problems` are sentences about what cannot be read."""

    ref: ObjectRef
    rules: tuple[Rule, ...]
    origin: Origin
    labels: Mapping[str, str] = field(default_factory=dict)
    selectors: tuple[Selector, ...] | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Binding:
    """`namespace` is where its role counts, "" for everywhere. `role` is None when the reference cannot be read."""

    ref: ObjectRef
    namespace: str
    role: ObjectRef | None
    subjects: tuple[Subject, ...]
    origin: Origin

    def binds(self, account: Account) -> bool:
        """Whether a subject stands for the account (kubernetes/plugin/pkg/auth/authorizer/rbac, appliesToUser): a
        ServiceAccount without a namespace is one of the binding's own. A subject that cannot be read may be anybody."""
        return any(self._is(subject, account) for subject in self.subjects)

    def _is(self, subject: Subject, account: Account) -> bool:
        if subject.kind == "Group":
            return subject.name in account.groups
        if subject.kind == "User":
            return bool(account.name) and subject.name == account.username
        if subject.kind == "ServiceAccount":
            return bool(account.name) and self.account_of(subject) == account
        return True

    def account_of(self, subject: Subject) -> Account:
        return Account(subject.namespace or self.namespace, subject.name)


@dataclass(slots=True)
class RbacObjects:
    """Everything that was read. A role that is declared twice is there twice: what is bound may be either."""

    roles: dict[ObjectRef, list[Role]] = field(default_factory=dict)
    bindings: list[Binding] = field(default_factory=list)
    accounts: set[Account] = field(default_factory=set)

    @classmethod
    def of(cls, sources: Iterable[Source]) -> RbacObjects:
        """Of objects of any kind; other kinds are passed over. Each needs apiVersion, kind and metadata.name."""
        objects = cls()
        for source in sources:
            objects.add(source)
        return objects

    def add(self, source: Source) -> None:
        ref = ref_of(source.body)
        if ref.group == GROUP and ref.kind in ROLES:
            self.add_role(read_role(ref, source))
        elif ref.group == GROUP and ref.kind in BINDINGS:
            self.bindings.append(read_binding(ref, source))
        elif (ref.group, ref.kind) == ("", "ServiceAccount"):
            self.accounts.add(Account(ref.namespace, ref.name))

    def add_role(self, role: Role) -> None:
        self.roles.setdefault(role.ref, []).append(role)

    @property
    def cluster_roles(self) -> list[Role]:
        return [role for ref, found in sorted(self.roles.items()) if ref.kind == "ClusterRole" for role in found]


def ref_of(body: Mapping[str, Any]) -> ObjectRef:
    """Who an object is; parts that are no text are "". Cluster-scoped kinds keep no namespace."""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind = _text(body.get("kind"))
    group = _text(body.get("apiVersion")).rpartition("/")[0]
    scoped = not (group == GROUP and kind.startswith("Cluster"))
    return ObjectRef(group, kind, _text(metadata.get("namespace")) if scoped else "", _text(metadata.get("name")))


def read_rules(value: Any, source: Source, path: Path) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules of a list at a path, and sentences about what in it cannot be read."""
    if value is None:
        return (), ()
    if not isinstance(value, list):
        return (), ("rules are no list",)
    read = [read_rule(item, n + 1, source.place((*path, n))) for n, item in enumerate(value)]
    problems = tuple(f"rule {rule.number} {problem}" for rule, problem in read if problem)
    return tuple(rule for rule, _ in read), problems


def read_role(ref: ObjectRef, source: Source) -> Role:
    """A Role or ClusterRole from its object."""
    body = source.body
    rules, problems = read_rules(body.get("rules"), source, ("rules",))
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    labels = {k: v for k, v in labels.items() if isinstance(v, str)} if isinstance(labels, dict) else {}
    selectors = None
    if ref.kind == "ClusterRole" and body.get("aggregationRule") is not None:
        selectors, more = _selectors(body["aggregationRule"])
        problems += more
    return Role(ref, rules, source.place(()), labels, selectors, problems)


def _selectors(value: Any) -> tuple[tuple[Selector, ...], tuple[str, ...]]:
    listed = value.get("clusterRoleSelectors") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return (), ("aggregationRule has no list of clusterRoleSelectors",)
    found, problems = [], []
    for number, item in enumerate(listed):
        try:
            found.append(read_selector(item))
        except BadSelectorError as error:
            problems.append(f"aggregationRule.clusterRoleSelectors[{number}] {error}")
    return tuple(found), tuple(problems)


def read_binding(ref: ObjectRef, source: Source) -> Binding:
    """A RoleBinding or ClusterRoleBinding from its object."""
    body = source.body
    wanted, subjects = body.get("roleRef"), body.get("subjects")
    role = None
    if isinstance(wanted, dict) and (wanted.get("apiGroup") or GROUP) == GROUP:
        kind, name = _text(wanted.get("kind")), _text(wanted.get("name"))
        allowed = ROLES if ref.kind == "RoleBinding" else ("ClusterRole",)
        if kind in allowed and name:
            role = ObjectRef(GROUP, kind, ref.namespace if kind == "Role" else "", name)
    listed = subjects if isinstance(subjects, list) else [] if subjects is None else [None]
    return Binding(ref, ref.namespace, role, tuple(map(_subject, listed)), source.place(("roleRef",)))


def _subject(value: Any) -> Subject:
    parts = value if isinstance(value, dict) else {}
    return Subject(_text(parts.get("kind")), _text(parts.get("namespace")), _text(parts.get("name")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
