"""The roles and bindings of a cluster, and what they mean for the operator types there.

Complete or not at all: a list that ends early would hide the one role that matters. Four lists (paged) and one GET for
each ServiceAccount that an operator type names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.model.operators import OperatorType
from gitops.policy.rbac.operators import accounts_of, refused_types, unreadable_types
from gitops.policy.rbac.roles import BINDINGS, GROUP, ROLES, Account, RbacObjects, Source

_SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")


async def read_rights(objects: Objects, accounts: Iterable[Account]) -> RbacObjects | ApiError:
    """All roles and bindings, and those of the accounts that exist; ApiError when any of it could not be read."""
    kinds = [GroupVersionKind(GROUP, "v1", kind) for kind in (*ROLES, *BINDINGS)]
    found = RbacObjects()
    for listing in await asyncio.gather(*(objects.list_objects(kind) for kind in kinds)):
        if isinstance(listing, ApiError):
            return listing
        for item in listing.items:
            found.add(Source(item))
    for account in accounts:
        ref = ObjectRef("", "ServiceAccount", account.namespace, account.name)
        live = await objects.get(_SERVICE_ACCOUNT, ref)
        if isinstance(live, ApiError):
            return live
        if live is not None:
            found.add(Source(live))
    return found


async def read_refused(objects: Objects, operators: Collection[OperatorType]) -> Mapping[str, str] | ApiError:
    """ClusterFacts.refused: operator types that may not be used there, each with its reason.

    ApiError when the cluster did not say (unreachable, throttled, …): what was known before stays. When it says that we
    may not look, every type that names ServiceAccounts is refused.
    """
    wanted = {account for operator in operators for account in accounts_of(operator)}
    if not wanted:
        return {}
    found = await read_rights(objects, sorted(wanted))
    if isinstance(found, RbacObjects):
        return refused_types(operators, found)
    return unreadable_types(operators, str(found)) if found.cls is ErrorClass.FORBIDDEN else found
