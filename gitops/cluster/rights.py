"""The roles and bindings of a cluster, and what they mean for the operator types there.

Complete or not at all: a list that ends early would hide the one role that matters. Whose rights they are is told by
the operator's own Deployments, wherever it was installed, and by what its type names besides. Calls: a list (paged) of
each kind of role and binding, and one for each selector or name of a type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.cluster.objects import Objects
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import SERVICE_ACCOUNT
from gitops.model.onboarding import OperatorDeployment
from gitops.model.operators import OperatorType
from gitops.policy.rbac.operators import Accounts, refused_types, unreadable_types
from gitops.policy.rbac.roles import BINDINGS, GROUP, ROLES, Account, RbacObjects, Source

_DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
_NO_ANSWER = frozenset(
    {ErrorClass.UNREACHABLE, ErrorClass.UNAUTHORIZED, ErrorClass.RETRY, ErrorClass.EXPIRED, ErrorClass.STALE}
)
"""What says nothing about the cluster; every other error is its word that this cannot be read."""


@dataclass(frozen=True, slots=True)
class LiveRights:
    """All roles and bindings, and the accounts of each operator type that was asked for (none: it is not there)."""

    objects: RbacObjects
    accounts: Accounts


async def read_rights(objects: Objects, operators: Collection[OperatorType]) -> LiveRights | ApiError:
    """ApiError when any of it could not be read."""
    found = RbacObjects()
    kinds = [GroupVersionKind(GROUP, "v1", kind) for kind in (*ROLES, *BINDINGS)]
    try:
        for kind in kinds:  # one after another: a refusal would leave its siblings to a connection that is closed
            for item in await _list(objects, kind):
                found.add(Source(item))
        accounts = {operator.metadata.name: await _accounts(objects, operator) for operator in operators}
    except RequestFailed as failed:
        return failed.error
    return LiveRights(found, accounts)


async def read_refused(objects: Objects, operators: Collection[OperatorType]) -> Mapping[str, str] | ApiError:
    """ClusterFacts.refused: operator types that may not be used there, each with its reason.

    ApiError when the cluster did not say (unreachable, throttled, …): what was known before stays, and who knows
    nothing yet has to ask again before anything is applied. When it says that we may not look, every type is refused.
    """
    live = await read_rights(objects, operators)
    if isinstance(live, LiveRights):
        return refused_types(operators, live.accounts, live.objects)
    return live if live.cls in _NO_ANSWER else unreadable_types(operators, str(live))


async def _accounts(objects: Objects, operator: OperatorType) -> tuple[Account, ...]:
    spec = operator.spec
    found: set[Account] = set()
    for wanted in spec.detection.deployments if spec.detection is not None else ():
        for item in await _list(objects, _DEPLOYMENT, selector=wanted.selector):
            found |= _account_of(item, wanted)
    for named in spec.rbac.serviceAccounts if spec.rbac is not None else ():
        fields = f"metadata.name={named.name}" if named.name else ""
        for item in await _list(objects, SERVICE_ACCOUNT, selector=named.selector, fields=fields):
            found.add(Account(item["metadata"]["namespace"], item["metadata"]["name"]))
    return tuple(sorted(found))


def _account_of(deployment: Mapping[str, Any], wanted: OperatorDeployment) -> set[Account]:
    """The account of a Deployment's pods, if it runs the operator's container (`default` is what a pod without one
    gets)."""
    spec = deployment["spec"]["template"]["spec"]
    if wanted.container not in {container["name"] for container in spec["containers"]}:
        return set()
    return {Account(deployment["metadata"]["namespace"], spec.get("serviceAccountName") or "default")}


async def _list(
    objects: Objects, kind: GroupVersionKind, *, selector: str = "", fields: str = ""
) -> tuple[dict[str, Any], ...]:
    """Raises RequestFailed."""
    listing = await objects.list_objects(kind, selector=selector, fields=fields)
    if isinstance(listing, ApiError):
        raise RequestFailed(listing)
    return listing.items
