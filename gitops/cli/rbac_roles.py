"""The least rights of the daemon as manifests: what `gitops rbac roles` prints, to be read and applied by people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitops.model.identity import ReconcilerName
from gitops.plan.least_rights import LeastRights, Right
from gitops.plan.naming import PREFLIGHT_NAMESPACE, SECRETS_NAMESPACE
from gitops.plan.parents import SYSTEM_NAMESPACE
from gitops.policy.rbac.roles import GROUP, Account

_GRANTING = """\
# Roles are declared there: the API server takes them only from somebody who holds the rights that they grant. Neither
# `escalate` nor `bind` is given here. Let those workloads name a serviceAccount that holds them."""

_EMPTINESS = """\
# Only for deleting instance namespaces: the daemon looks first whether anything else is in one. `list` on secrets shows
# their values. Without this role such namespaces stay, and that is reported."""


def manifests(
    rights: LeastRights,
    account: Account,
    *,
    cluster: str,
    reconciler: ReconcilerName,
    preflight_labels: Mapping[str, str],
) -> str:
    """YAML documents: namespaces, the account, roles and their bindings."""
    name = f"gitops-{reconciler}"
    parts = [f"# Least rights of the reconciler {reconciler} on cluster {cluster}."]
    namespaces = sorted(
        {SYSTEM_NAMESPACE, PREFLIGHT_NAMESPACE, account.namespace} | (rights.within.keys() & {SECRETS_NAMESPACE})
    )
    for namespace in namespaces:
        labels = {"app.kubernetes.io/managed-by": "gitops"}
        parts.append(_namespace(namespace, labels | dict(preflight_labels if namespace == PREFLIGHT_NAMESPACE else {})))
    parts.append(
        f"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {account.name}\n  namespace: {account.namespace}"
    )
    note = _GRANTING if rights.granting else ""
    parts += _role("ClusterRole", name, "", rights.everywhere, account, note=note)
    if rights.emptiness:
        parts += _role("ClusterRole", f"{name}-namespaces", "", rights.emptiness, account, note=_EMPTINESS)
    for namespace, within in sorted(rights.within.items()):
        parts += _role("Role", name, namespace, within, account)
    return "\n---\n".join(parts) + "\n"


def _namespace(name: str, labels: Mapping[str, str]) -> str:
    lines = [f"    {key}: {_text(value)}" for key, value in sorted(labels.items())]
    return "\n".join(["apiVersion: v1", "kind: Namespace", "metadata:", f"  name: {name}", "  labels:", *lines])


def _role(
    kind: str, name: str, namespace: str, rights: Iterable[Right], account: Account, *, note: str = ""
) -> Iterator[str]:
    place = [f"  namespace: {namespace}"] if namespace else []
    head = [f"apiVersion: {GROUP}/v1", f"kind: {kind}", "metadata:", f"  name: {name}", *place]
    yield "\n".join([*([note] if note else []), *head, "rules:", *_rules(rights)])
    head[1] = f"kind: {kind}Binding"
    yield "\n".join(
        [
            *head,
            f"roleRef:\n  apiGroup: {GROUP}\n  kind: {kind}\n  name: {name}",
            f"subjects:\n  - kind: ServiceAccount\n    name: {account.name}\n    namespace: {account.namespace}",
        ]
    )


def _rules(rights: Iterable[Right]) -> Iterator[str]:
    """A rule for each group, set of verbs and names, with its reasons."""
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Right]] = {}
    for right in rights:
        found.setdefault((right.group, right.verbs, right.names), []).append(right)
    for (group, verbs, names), same in sorted(found.items()):
        yield f"  # {'; '.join(dict.fromkeys(right.why for right in same))}"
        yield f"  - apiGroups: [{_text(group)}]"
        yield f"    resources: [{_list([right.resource for right in same])}]"
        if names:
            yield f"    resourceNames: [{_list(names)}]"
        yield f"    verbs: [{_list(verbs)}]"


def _list(items: Sequence[str]) -> str:
    return ", ".join(items)


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
