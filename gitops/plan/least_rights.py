"""The least rights that the reconciler needs on one cluster, told from what a repository declares there.

Kinds are granted on the whole cluster: instance namespaces come and go with Git, watches are one per kind, and a right
in a namespace that does not exist yet cannot be given. What is always in one place is granted there alone. Never
`escalate` or `bind`: who applies roles must hold what they grant, or name an account that does (Kubernetes
documentation, "Using RBAC Authorization", "Restrictions on role creation or update").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, GroupKind, GroupVersionKind, ReconcilerName
from gitops.model.kinds import (
    API_SERVICE,
    CLAIM,
    DEFINITION,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    OF_CONTROLLERS,
    SECRET,
    SERVICE,
    STORAGE_CLASS,
    VOLUME,
)
from gitops.plan.naming import PREFLIGHT_NAMESPACE, SECRETS_NAMESPACE
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.plan.references import defined_kind
from gitops.plan.units import Compilation, Unit
from gitops.policy.rbac.roles import BINDINGS, GROUP, ROLES
from gitops.policy.registry import OperatorRegistry, gvk_of
from gitops.policy.scopes import is_builtin_group, namespaced_builtins

READ = ("get", "list", "watch")
WATCH = ("list", "watch")
WRITE = (*READ, "create", "patch", "delete")
"""A dry run needs what the real call does; an apply of an object that is not there needs `create` beside `patch`."""

_ASKED: tuple[tuple[bytes, str, tuple[GroupKind, ...], tuple[str, ...]], ...] = (
    (b'"replicas":', "who scales it", (GroupKind("autoscaling", "HorizontalPodAutoscaler"),), WATCH),
    (b'"serviceAccountName":', "accounts that are waited for", (GroupKind("", "ServiceAccount"),), WATCH),
    (b'"roleRef":', "roles that are waited for", tuple(GroupKind(GROUP, kind) for kind in ROLES), WATCH),
    (b'"kind":"ResourceQuota"', "quotas that are waited for", (GroupKind("", "ResourceQuota"),), WATCH),
    (
        b'"priorityClassName":',
        "priorities that are waited for",
        (GroupKind("scheduling.k8s.io", "PriorityClass"),),
        WATCH,
    ),
    (b'"runtimeClassName":', "runtimes that are waited for", (GroupKind("node.k8s.io", "RuntimeClass"),), WATCH),
)
"""What the payload of an object has (canonical JSON), and what is looked at because of it."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """What may be done to one resource, and why it is needed. Without `names`: to all of its objects."""

    why: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeastRights:
    """`everywhere` on the whole cluster, `within` namespaces; `emptiness` is what only the deletion of instance
    namespaces needs. `accounts` are the ServiceAccounts that workloads name, `granting` the kinds of roles declared."""

    everywhere: tuple[Right, ...] = ()
    within: dict[str, tuple[Right, ...]] = field(default_factory=dict)
    emptiness: tuple[Right, ...] = ()
    accounts: tuple[str, ...] = ()
    granting: bool = False


def least_rights(
    compilation: Compilation, cluster: ClusterName, registry: OperatorRegistry, *, reconciler: ReconcilerName
) -> LeastRights:
    """For a cluster of the compilation. Raises KeyError for another."""
    document = compilation.clusters[cluster]
    every = {**compilation.units, **compilation.refused, **compilation.not_run}
    units = [unit for key, unit in sorted(every.items()) if key.cluster == cluster]
    plurals = _Plurals(registry, units)
    needs = _Needs(units, document, registry, plurals)
    accounts = sorted({unit.service_account for unit in units} - {""})
    own = {o.gvk.group_kind for unit in units if not unit.service_account for o in unit.objects}
    return LeastRights(
        everywhere=_merged([*needs.declared(), *needs.made(), *needs.asked(), *needs.told()]),
        within={
            **_impersonated(accounts),
            **({SECRETS_NAMESPACE: (plurals.right("Secrets to copy", SECRET, WATCH),)} if needs.copies() else {}),
            SYSTEM_NAMESPACE: (*_bookkeeping(reconciler), *_impersonated(accounts).get(SYSTEM_NAMESPACE, ())),
        },
        emptiness=needs.emptiness(),
        accounts=tuple(accounts),
        granting=any(kind.group == GROUP for kind in own),
    )


class _Plurals:
    """Resources of kinds: as operator types and definitions in Git say, else as Kubernetes itself would guess
    (k8s.io/apimachinery, meta.UnsafeGuessKindToResource), which is right for all of its own kinds."""

    def __init__(self, registry: OperatorRegistry, units: Iterable[Unit]) -> None:
        self._known: dict[GroupKind, str] = {}
        for operator in registry.types.values():
            self._known |= {gvk_of(kind).group_kind: kind.resource for kind in operator.spec.children}
            for kind in (*operator.spec.companions, *operator.spec.kinds):
                self._known[gvk_of(kind).group_kind] = kind.resource
        for item in (o for unit in units for o in unit.objects if o.gvk == DEFINITION):
            defined = item.body.get("spec") or {}
            names = defined.get("names") or {}
            self._known[GroupKind(str(defined.get("group")), str(names.get("kind")))] = str(names.get("plural"))

    def of(self, kind: GroupKind) -> str:
        name = kind.kind.lower()
        guess = f"{name}es" if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        return self._known.get(kind, name if name == "endpoints" else guess)

    def right(self, why: str, kind: GroupVersionKind | GroupKind, verbs: tuple[str, ...], *names: str) -> Right:
        plain = kind.group_kind if isinstance(kind, GroupVersionKind) else kind
        return Right(why, plain.group, self.of(plain), verbs, names)


class _Needs:
    def __init__(self, units: list[Unit], document: Cluster, registry: OperatorRegistry, plurals: _Plurals) -> None:
        self._units = units
        self._document = document
        self._registry = registry
        self._plurals = plurals

    def declared(self) -> Iterator[Right]:
        """Of kinds that units declare; who writes in another name only watches."""
        for unit in self._units:
            kinds = {o.gvk.group_kind for o in unit.objects} | ({SECRET.group_kind} if _copies(unit) else set())
            for kind in kinds:
                if unit.service_account:
                    yield self._plurals.right("declared, written in the name of an account", kind, WATCH)
                else:
                    yield self._plurals.right("declared", kind, WRITE)

    def copies(self) -> bool:
        return any(map(_copies, self._units))

    def made(self) -> Iterator[Right]:
        """What operators make of it, and who answers for a function."""
        types = sorted({name for unit in self._units for name in unit.operator_types})
        for child in self._registry.children_of(types):
            yield self._plurals.right("made by operators", gvk_of(child), WATCH)
        if any(unit.service_name for unit in self._units):
            yield self._plurals.right("endpoints of functions", ENDPOINT_SLICE, WATCH)
            yield self._plurals.right("endpoints of functions", SERVICE, ("get",))

    def asked(self) -> Iterator[Right]:
        """What is looked at because of something that is declared: who scales it, what it waits for, what would be lost
        with it."""
        objects = [o for unit in self._units for o in unit.objects]
        for part, why, kinds, verbs in _ASKED:
            if any(part in o.payload for o in objects):
                yield from (self._plurals.right(why, kind, verbs) for kind in kinds)
        declared = {o.gvk.group_kind for o in objects}
        if CLAIM.group_kind in declared:
            yield self._plurals.right("what becomes of a volume", VOLUME, ("get",))
            yield self._plurals.right("what becomes of a volume", STORAGE_CLASS, ("get",))
        if any(not is_builtin_group(kind.group) for kind in declared):
            yield self._plurals.right("whether a kind is gone", API_SERVICE, ("list",))
        for item in objects:
            if item.gvk == DEFINITION and (kind := defined_kind(item.body)) is not None:
                yield self._plurals.right("whether a definition is in use", kind, ("list",))

    def told(self) -> Iterator[Right]:
        """What the cluster tells of itself."""
        yield self._plurals.right("what is served", DEFINITION, READ)
        ours = (SYSTEM_NAMESPACE, PREFLIGHT_NAMESPACE)
        yield self._plurals.right("which cluster it is", NAMESPACE, ("get",), "kube-system", *ours)
        yield self._plurals.right("labels of our namespaces", NAMESPACE, ("patch",), *ours)
        yield self._plurals.right("namespaces that are waited for", NAMESPACE, WATCH)
        attributes = set(self._document.spec.attributes)
        if any(t.spec.clusterAttribute in attributes for t in self._registry.types.values()):
            yield Right("operators and their rights", "apps", "deployments", ("list",))
            yield Right("operators and their rights", "", "serviceaccounts", ("list",))
            for kind in (*ROLES, *BINDINGS):
                yield self._plurals.right("operators and their rights", GroupKind(GROUP, kind), ("list",))

    def emptiness(self) -> tuple[Right, ...]:
        if not any(unit.namespace for unit in self._units):
            return ()
        own = (
            GroupKind(k.group, k.kind)
            for t in self._registry.types.values()
            for k in t.spec.kinds
            if k.scope != "Cluster"
        )
        there = {o.gvk.group_kind for unit in self._units for o in unit.objects if o.ref.namespace}
        kinds = ({*namespaced_builtins(), *own} | there) - OF_CONTROLLERS
        why = "whether a namespace is empty"
        return _merged(self._plurals.right(why, kind, ("list",)) for kind in kinds)


def _copies(unit: Unit) -> bool:
    return bool(unit.secret_refs)


def _bookkeeping(reconciler: ReconcilerName) -> Iterator[Right]:
    yield Right("parents and the claim", "", "configmaps", WRITE)
    yield Right("the Lease", LEASE.group, "leases", ("create",))
    yield Right("the Lease", LEASE.group, "leases", ("get", "update"), (f"gitops-{reconciler}",))


def _impersonated(accounts: Iterable[str]) -> dict[str, tuple[Right, ...]]:
    found: dict[str, list[str]] = {}
    for account in accounts:
        namespace, _, name = account.partition("/")
        found.setdefault(namespace, []).append(name)
    return {
        namespace: (Right("accounts of workloads", "", "serviceaccounts", ("get", "impersonate"), tuple(names)),)
        for namespace, names in found.items()
    }


def _merged(rights: Iterable[Right]) -> tuple[Right, ...]:
    """One right for each resource and set of names, with all of its verbs in a fixed order and the first reason."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    why: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for right in rights:
        key = (right.group, right.resource, right.names)
        verbs.setdefault(key, set()).update(right.verbs)
        why.setdefault(key, right.why)
    order = (*WRITE, "update", "impersonate")
    return tuple(
        Right(why[key], key[0], key[1], tuple(v for v in order if v in found), key[2])
        for key, found in sorted(verbs.items())
    )
