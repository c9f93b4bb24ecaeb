"""What admission does to an apply that it lets pass; what it refuses is in test_error_rows.py."""

import asyncio
from collections.abc import Callable
from typing import Any

from cluster_kit.webhook import Webhook
from controlplane_kit.client import ApiServer

from gitops.cluster.applying import Applier, ApplyResult
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ErrorClass
from gitops.plan.units import DesiredObject

Desired = Callable[[dict[str, Any]], DesiredObject]


def config_map(namespace: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": namespace},
        "data": data,
    }


async def until(applier: Applier, obj: DesiredObject, wanted: Callable[[Any], bool]) -> Any:
    """Dry-run until a new admission rule is in force (the API server learns of it by a watch)."""
    async with asyncio.timeout(30):
        while not wanted(outcome := await applier.apply(obj, dry_run=True)):  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.02)
    return outcome


async def test_3_a_value_overridden_by_admission_is_seen(
    applier: Applier, namespace: str, desired: Desired, webhook: Webhook
) -> None:
    webhook.patch = [{"op": "replace", "path": "/data/a", "value": "theirs"}]
    obj = desired(config_map(namespace, a="ours", b="1"))
    dry = await until(applier, obj, lambda outcome: bool(outcome.overridden))
    assert dry.overridden == (("data", "a"),)
    first = await applier.apply(obj)
    assert (first.result, first.overridden) == (ApplyResult.CREATED, (("data", "a"),))
    again = await applier.apply(obj, known_version=first.resource_version)
    # The server says that nothing changed, and it will say so for ever.
    assert (again.result, again.overridden) == (ApplyResult.UNCHANGED, (("data", "a"),))


async def test_22_dry_runs_reach_webhooks_as_dry_runs(
    applier: Applier, namespace: str, desired: Desired, webhook: Webhook
) -> None:
    webhook.code = 403
    await until(applier, desired(config_map(namespace, a="1")), lambda outcome: outcome.error is not None)
    assert webhook.dry_runs >= 1


async def test_20_what_a_caller_with_few_rights_waits_for_is_not_called_refused(
    connect: Callable[..., Any], shared_api: ApiServer, namespace: str, desired: Desired
) -> None:
    """Somebody without `bind` is told of the missing role under the binding's name; of an unknown kind, that it is
    forbidden (which is why discovery is asked first)."""
    group = "rbac.authorization.k8s.io"
    base = f"/apis/{group}/v1/namespaces/{namespace}"
    metadata = {"name": "binder", "namespace": namespace}
    rules = [
        {"apiGroups": [group], "resources": ["roles", "rolebindings"], "verbs": ["create", "get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]
    subject = {"apiGroup": group, "kind": "User", "name": "binder"}
    role: dict[str, Any] = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding: dict[str, Any] = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "binder"},
        "subjects": [subject],
    }
    shared_api.request("POST", f"{base}/roles", role)
    shared_api.request("POST", f"{base}/rolebindings", binding)
    connection = await connect(shared_api.kubeconfig_for("binder"))
    applier = Applier(connection, Discovery(connection), manager="gitops-test")
    reader = {"name": "reader", "namespace": namespace}
    ours = desired({**binding, "metadata": reader, "roleRef": {**binding["roleRef"], "name": "reader"}})
    outcome = await until(applier, ours, lambda outcome: "cannot patch" not in str(outcome.error))
    assert (outcome.error.status, outcome.error.cls) == (404, ErrorClass.WAITING)
    assert outcome.error.waits_for == "role reader"
    unserved = await applier.apply(desired({**config_map(namespace), "apiVersion": "nowhere.example/v1"}))
    assert unserved.error is not None
    assert unserved.error.cls is ErrorClass.WAITING
    pods = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    assert (await applier.apply(desired({**role, "metadata": reader, "rules": pods}))).error is None
    assert (await until(applier, ours, lambda outcome: outcome.error is None)).error is None
