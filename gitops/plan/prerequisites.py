"""What must be ready on the cluster, not only applied, before an object of the same unit is applied.

Only where applying too early does harm that nobody mends:
- a custom resource goes after its definition is established (an apply before that is refused as an unknown kind);
- a webhook configuration or an APIService goes after the workload behind its Service is ready: one that fails closed
  would block the very pods that should answer it (tektoncd/operator#592);
- what an operator type says (`afterReady`): a kind that its operator does not look at again by itself.
Everything else is left to the operators, which wait on their own: a NIMService says so while its cache is not ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.model import kinds
from gitops.model.identity import GroupKind
from gitops.plan.references import Index, Node, references
from gitops.policy.registry import OperatorRegistry

_ADMISSION = "admissionregistration.k8s.io"
_WEBHOOKS = (
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"),
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"),
)
_API_SERVICE = GroupKind("apiregistration.k8s.io", "APIService")
_POD = GroupKind("", "Pod")
_WITH_PODS = frozenset(
    {
        _POD,
        GroupKind("", "ReplicationController"),
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "ReplicaSet"),
    }
)


def prerequisites(node: Node, index: Index, registry: OperatorRegistry) -> Iterator[int]:
    """Positions of the objects that must be ready before this one is applied."""
    kind = node.ref.group_kind
    if (definition := index.definitions.get(kind)) is not None:
        yield definition
    if kind in _WEBHOOKS or kind == _API_SERVICE:
        for namespace, name in _services(node):
            yield from _behind(index, namespace, name)
        return
    operator_kind = registry.kind(node.gvk)
    after = operator_kind.afterReady if operator_kind is not None else ()
    if after:
        for named, namespace, name in references(node.body):
            if named.group == node.gvk.group and named.kind in after:
                found = index.get(named, namespace or node.ref.namespace, name)
                yield from () if found is None else (found,)


def _services(node: Node) -> Iterator[tuple[str, str]]:
    """Namespace and name of each Service that answers for it; a webhook may name a URL instead."""
    if node.ref.group_kind == _API_SERVICE:
        holders = [node.body.get("spec")]
    else:
        webhooks = node.body.get("webhooks")
        hooks = webhooks if isinstance(webhooks, list) else []
        holders = [hook.get("clientConfig") for hook in hooks if isinstance(hook, Mapping)]
    for holder in holders:
        service = holder.get("service") if isinstance(holder, Mapping) else None
        if isinstance(service, Mapping):
            namespace, name = service.get("namespace"), service.get("name")
            if isinstance(namespace, str) and isinstance(name, str):
                yield namespace, name


def _behind(index: Index, namespace: str, name: str) -> Iterator[int]:
    """The workloads of the unit whose pods a Service of the unit selects."""
    service = index.get(kinds.SERVICE.group_kind, namespace, name)
    spec = None if service is None else index.nodes[service].body.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    if not isinstance(selector, Mapping) or not selector:
        return
    for position, node in enumerate(index.nodes):
        if node.ref.namespace == namespace and node.ref.group_kind in _WITH_PODS:
            labels = _pod_labels(node)
            if all(labels.get(key) == value for key, value in selector.items()):
                yield position


def _pod_labels(node: Node) -> Mapping[str, Any]:
    body: Any = node.body
    path = ("metadata", "labels") if node.ref.group_kind == _POD else ("spec", "template", "metadata", "labels")
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}
