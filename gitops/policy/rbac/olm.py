"""Rights that a ClusterServiceVersion of the Operator Lifecycle Manager asks for.

`spec.install.spec.clusterPermissions` become ClusterRoles with ClusterRoleBindings. `permissions` become Roles in the
namespaces that the operator watches, and ClusterRoles when it may watch all of them (install mode AllNamespaces).
Source: the OLM documentation, "ClusterServiceVersion" and "OperatorGroup".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gitops.manifests.lines import Path
from gitops.policy.rbac.roles import Binding, RbacObjects, Role, Source, Subject, read_rules, ref_of

GROUP = "operators.coreos.com"
KIND = "ClusterServiceVersion"


def is_csv(body: Mapping[str, Any]) -> bool:
    ref = ref_of(body)
    return (ref.group, ref.kind) == (GROUP, KIND)


def add_csv(objects: RbacObjects, source: Source) -> None:
    """The roles of a ClusterServiceVersion, bound to its ServiceAccounts, named by where they stand in it."""
    ref = ref_of(source.body)
    everywhere = _watches_all(source.body)
    for field in ("clusterPermissions", "permissions"):
        for number, entry in enumerate(_entries(source.body, field)):
            path: Path = ("spec", "install", "spec", field, number)
            own = replace(ref, name=f"{ref.name} {field}[{number}]")
            place = source.place(path)
            rules, problems = read_rules(entry.get("rules"), source, (*path, "rules"))
            objects.add_role(Role(own, rules, place, problems=problems))
            account = entry.get("serviceAccountName")
            subject = Subject("ServiceAccount" if isinstance(account, str) else "", ref.namespace, str(account))
            scope = "" if field == "clusterPermissions" or everywhere else ref.namespace or "(its own)"
            objects.bindings.append(Binding(own, scope, own, (subject,), place))


def _entries(body: Mapping[str, Any], field: str) -> Iterator[Mapping[str, Any]]:
    listed = _inside(body, "spec", "install", "spec").get(field)
    for item in listed if isinstance(listed, list) else [] if listed is None else [None]:
        yield item if isinstance(item, dict) else {"rules": "unreadable"}


def _watches_all(body: Mapping[str, Any]) -> bool:
    modes = _inside(body, "spec").get("installModes")
    return not isinstance(modes, list) or any(
        isinstance(mode, dict) and mode.get("type") == "AllNamespaces" and mode.get("supported") is not False
        for mode in modes
    )


def _inside(body: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found: Any = body
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
