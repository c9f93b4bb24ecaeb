"""In whose name a unit's objects are read, written and deleted: a ServiceAccount of the cluster, or the daemon itself.

The API server asks only whether the daemon may impersonate the name; whether there is such an account it does not look
at (Kubernetes documentation, "User impersonation"). But to delete an account is to withdraw it, so each attempt that
would do something asks for it first. Nothing is ever done with the daemon's own rights instead.
"""

from __future__ import annotations

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.identity import ObjectRef
from gitops.model.kinds import SERVICE_ACCOUNT


async def in_name_of(account: str, applier: Applier) -> Applier | ApiError:
    """What makes calls with the rights of this account (`namespace/name`; "" for the daemon's own); an error when it
    does not exist or that is not known. One call, made with the daemon's rights; none for "".
    """
    if not account:
        return applier
    namespace, _, name = account.partition("/")
    found = await applier.get(SERVICE_ACCOUNT, ObjectRef("", "ServiceAccount", namespace, name))
    if isinstance(found, ApiError):
        return found
    if found is None:
        message = f"there is no ServiceAccount {account}, in whose name its objects are to be written and deleted"
        return ApiError(ErrorClass.WAITING, reason="NoAccount", message=message, waits_for=f"service account {account}")
    return applier.in_name_of(account)
