"""Cluster documents: read, checked, and the objects that their template puts into every instance namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitops.manifests.canonical import canonical_json, copy_json, digest
from gitops.manifests.lines import Path, dotted, hash_of
from gitops.manifests.quantities import LIMIT_RANGE_LISTS, is_quantity
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.clusters import Cluster, NamespaceTemplate
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import GroupVersionKind
from gitops.model.repositories import Repository
from gitops.overlays.patches import RESERVED_PREFIXES
from gitops.overlays.provenance import Provenance
from gitops.plan import codes
from gitops.plan.bases import BaseObject
from gitops.plan.building import CleanObject, clean
from gitops.plan.patching import MergedObject
from gitops.plan.workloads import ClusterEntry
from gitops.policy import codes as policy_codes
from gitops.policy.pods.levels import bad_labels
from gitops.policy.registry import OperatorRegistry

TEMPLATE: Path = ("spec", "namespaceTemplate")
TEMPLATE_NAME = "gitops"
"""Name of the ResourceQuota and LimitRange in an instance namespace."""


def usable_cluster(
    document: RawDocument, cluster: Cluster, *, name: str, repository: Repository | None, registry: OperatorRegistry
) -> tuple[ClusterEntry | None, tuple[Finding, ...]]:
    """A cluster by the name of its file; None when a finding is an error."""
    objects, problems = _template_objects(document, cluster.spec.namespaceTemplate, registry)
    findings = (*_check(document, cluster, name, repository), *problems)
    if has_errors(findings):
        return None, findings
    lines = sorted([document.lines.line_of(path), *map(str, path)] for path in _paths(document.body, TEMPLATE))
    entry = ClusterEntry(cluster, document.file, document.lines, objects, digest(canonical_json(lines)))
    return entry, findings


def _check(document: RawDocument, cluster: Cluster, name: str, repository: Repository | None) -> Iterator[Finding]:
    def say(code: str, message: str, *path: str | int) -> Finding:
        return finding(code, message, Origin(document.file, document.lines.line_of(path)), path=path)

    if cluster.metadata.name != name:
        message = f"metadata.name is {cluster.metadata.name}, the file {name}.yaml"
        yield say(codes.NAME_IS_NOT_PLACE, message, "metadata", "name")
    if repository is not None and (why := _foreign(cluster, repository)):
        yield say(policy_codes.FOREIGN_ACCOUNT, why, "spec", "tenancy")
    template = cluster.spec.namespaceTemplate
    for at, value in _quantities(template):
        if value is not None and not is_quantity(value):
            yield say(codes.WRONG_VALUE, f"{dotted(at)} is no quantity such as 4, 500m or 16Gi", *at)
    for key, problem in bad_labels(template.labels):
        yield say(policy_codes.BAD_LEVEL, f"{key} {problem}", "spec", "namespaceTemplate", "labels", key)
    for field, values in (("labels", template.labels), ("annotations", template.annotations)):
        for key in sorted(values):
            if key.startswith(RESERVED_PREFIXES):
                message = f"{key} may not be set in Git"
                yield say(policy_codes.OUR_METADATA, message, "spec", "namespaceTemplate", field, key)


def _quantities(template: NamespaceTemplate) -> Iterator[tuple[Path, Any]]:
    """Path and value of everything in the template that is a quantity for every API server."""
    if template.resourceQuota is not None:
        for resource, value in template.resourceQuota.hard.items():
            yield (*TEMPLATE, "resourceQuota", "hard", resource), value
    for position, limit in enumerate(template.limitRange.limits if template.limitRange is not None else ()):
        for name in sorted(LIMIT_RANGE_LISTS.intersection(limit)):
            for resource, value in limit[name].items() if isinstance(limit[name], dict) else ():
                yield (*TEMPLATE, "limitRange", "limits", position, name, resource), value


def _foreign(cluster: Cluster, repository: Repository) -> str:
    """Why the cluster is not for this repository; "" when both name the same account, or both none. Compared to the
    letter: an account that is almost the same is another one."""
    theirs, ours = cluster.spec.tenancy, repository.spec.ncaId
    if (theirs.ncaId if theirs is not None else None) == ours:
        return ""
    name = f"cluster {cluster.metadata.name}"
    if theirs is None:
        return f"{name} names no account in spec.tenancy, the repository belongs to {ours}"
    if ours is None:
        return f"{name} belongs to account {theirs.ncaId}, and gitops.yaml names none in spec.ncaId"
    almost = " (compared to the letter)" if theirs.ncaId.casefold() == ours.casefold() else ""
    return f"{name} belongs to account {theirs.ncaId}, the repository to {ours}{almost}"


def same_credentials(clusters: Mapping[str, ClusterEntry]) -> dict[str, Finding]:
    """A finding for every cluster whose credentials another one names too: which of them is meant cannot be said."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(clusters):
        by_name[clusters[name].document.spec.credentials].append(name)
    found: dict[str, Finding] = {}
    for credentials, names in by_name.items():
        for name in names if len(names) > 1 else ():
            entry = clusters[name]
            others = ", ".join(f"clusters/{other}.yaml" for other in names if other != name)
            message = f"the credentials {credentials} are also named by {others}"
            path: Path = ("spec", "credentials")
            origin = Origin(entry.file, entry.lines.line_of(path))
            found[name] = finding(policy_codes.SAME_CREDENTIALS, message, origin, path=path)
    return found


def _template_objects(
    document: RawDocument, template: NamespaceTemplate, registry: OperatorRegistry
) -> tuple[tuple[CleanObject, ...], tuple[Finding, ...]]:
    merged = [
        _object(document, at, api_version, kind, name, fields)
        for at, api_version, kind, name, fields in _declared(template)
    ]
    return clean(merged, workload=None, registry=registry)


_Declared = tuple[Path, str, str, str, dict[str, Any]]
"""Path in the document, apiVersion, kind, name, and the fields of the object beside them."""


def _declared(template: NamespaceTemplate) -> Iterator[_Declared]:
    if template.resourceQuota is not None:
        fields: dict[str, Any] = {"spec": {"hard": dict(template.resourceQuota.hard)}}
        yield (*TEMPLATE, "resourceQuota"), "v1", "ResourceQuota", TEMPLATE_NAME, fields
    if template.limitRange is not None:
        fields = {"spec": {"limits": copy_json(template.limitRange.limits)}}
        yield (*TEMPLATE, "limitRange"), "v1", "LimitRange", TEMPLATE_NAME, fields
    for position, policy in enumerate(template.networkPolicies):
        at: Path = (*TEMPLATE, "networkPolicies", position)
        yield at, "networking.k8s.io/v1", "NetworkPolicy", policy.name, {"spec": copy_json(policy.spec)}
    for position, account in enumerate(template.serviceAccounts):
        fields = {"imagePullSecrets": [{"name": name} for name in account.imagePullSecrets]}
        if account.automountServiceAccountToken is not None:
            fields["automountServiceAccountToken"] = account.automountServiceAccountToken
        if account.annotations:
            fields["metadata"] = {"annotations": dict(account.annotations)}
        at = (*TEMPLATE, "serviceAccounts", position)
        yield at, "v1", "ServiceAccount", account.name, {k: v for k, v in fields.items() if v != []}


def _object(
    document: RawDocument, at: Path, api_version: str, kind: str, name: str, fields: dict[str, Any]
) -> MergedObject:
    metadata = {**fields.pop("metadata", {}), "name": name}
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    origins = {}
    for path in _paths(body, ()):
        # ResourceQuota and LimitRange are written without `spec`, annotations without `metadata`.
        written = path[1:] if path[:1] in (("metadata",), ("spec",)) and kind != "NetworkPolicy" else path
        origins[hash_of(path)] = Origin(document.file, document.lines.line_of((*at, *written)))
    provenance = Provenance.build(origins, Origin(document.file, document.lines.line_of(at)))
    read = RawDocument(body, document.index, document.lines.line_of(at), document.lines.at(at), document.file)
    base = BaseObject(read, GroupVersionKind.parse(api_version, kind), "", name)
    return MergedObject(base, body, provenance)


def _paths(value: Any, path: Path) -> Iterable[Path]:
    """Paths of everything at and below the path; those of a missing path are none."""
    here = value
    for segment in path:
        if not isinstance(here, dict) or segment not in here:
            return
        here = here[segment]
    stack: list[tuple[Path, Any]] = [(path, here)]
    while stack:
        at, node = stack.pop()
        yield at
        children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        stack += [((*at, key), child) for key, child in children]
