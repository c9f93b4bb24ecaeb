"""What admission does to an apply: webhooks and policies of a real API server, the webhooks served by the test."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
import trustme
from aiohttp import web
from controlplane_kit.client import MERGE, ApiServer

from gitops.cluster.applying import Applier, ApplyResult
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ErrorClass
from gitops.plan.units import DesiredObject

Desired = Callable[[dict[str, Any]], DesiredObject]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


class Webhook:
    """An admission webhook for ConfigMaps of one namespace: denies with `code` when set, else patches when told to."""

    def __init__(self) -> None:
        self.code = 0
        self.patch: list[dict[str, Any]] = []
        self.dry_runs = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.dry_runs += bool(review["request"].get("dryRun"))
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": not self.code}
        if self.code:
            response["status"] = {"code": self.code, "message": "not today"}
        elif self.patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(self.patch).encode()).decode()}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        answer = web.json_response(body)
        answer.force_close()  # nothing is left open when the test's loop ends
        return answer


@pytest_asyncio.fixture
async def webhook(shared_api: ApiServer, namespace: str) -> AsyncIterator[Webhook]:
    hook, authority = Webhook(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_post("/", hook.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    register(shared_api, namespace, hook.url, authority.cert_pem.bytes())
    yield hook
    shared_api.request("DELETE", f"{REGISTRATION}/mutatingwebhookconfigurations/{namespace}")
    await site.stop()
    await runner.cleanup()


def register(api: ApiServer, namespace: str, url: str, bundle: bytes) -> None:
    webhook = {
        "name": "gate.gitops.example",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(bundle).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 2,
    }
    api.request(
        "POST",
        f"{REGISTRATION}/mutatingwebhookconfigurations",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [webhook],
        },
    )


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


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 429, 500, 503])
async def test_23_a_denial_is_a_denial_whatever_its_code(
    applier: Applier, namespace: str, desired: Desired, webhook: Webhook, code: int
) -> None:
    webhook.code = code
    obj = desired(config_map(namespace, a="1"))
    await until(applier, obj, lambda outcome: outcome.error is not None)
    outcome = await applier.apply(obj)
    assert outcome.error is not None
    assert outcome.error.cls is ErrorClass.DENIED
    assert "not today" in outcome.error.message
    assert applier.connection.stats.throttled == 0


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


async def test_o05_a_webhook_that_does_not_answer_is_transient(
    applier: Applier, namespace: str, desired: Desired, shared_api: ApiServer
) -> None:
    register(shared_api, namespace, "https://127.0.0.1:1/", trustme.CA().cert_pem.bytes())
    try:
        outcome = await until(applier, desired(config_map(namespace, a="1")), lambda outcome: outcome.error is not None)
        assert (outcome.error.status, outcome.error.cls) == (500, ErrorClass.RETRY)
        assert outcome.error.reason == "WebhookUnreachable"
    finally:
        shared_api.request("DELETE", f"{REGISTRATION}/mutatingwebhookconfigurations/{namespace}")


@pytest.fixture
def policy(shared_api: ApiServer, namespace: str) -> Iterator[Callable[..., None]]:
    """Makes a ValidatingAdmissionPolicy for ConfigMaps of the test's namespace, bound to it."""
    made: list[str] = []

    def make(expression: str, *, params: bool = False) -> None:
        kind = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}} if params else {}
        ref = {"paramRef": {"name": "ghost", "namespace": namespace, "parameterNotFoundAction": "Deny"}}
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
        match = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [rule],
        }
        for plural, spec in (
            (
                "validatingadmissionpolicies",
                {**kind, "matchConstraints": match, "validations": [{"expression": expression}]},
            ),
            (
                "validatingadmissionpolicybindings",
                {"policyName": namespace, "validationActions": ["Deny"], **(ref if params else {})},
            ),
        ):
            shared_api.request(
                "POST",
                f"{REGISTRATION}/{plural}",
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingAdmissionPolicy" + ("Binding" if plural.endswith("bindings") else ""),
                    "metadata": {"name": namespace},
                    "spec": spec,
                },
            )
            made.append(f"{REGISTRATION}/{plural}/{namespace}")

    yield make
    for path in made:
        shared_api.request("DELETE", path)


async def test_23_a_policy_that_denies(
    applier: Applier, namespace: str, desired: Desired, policy: Callable[..., None]
) -> None:
    policy("!('a' in object.data)")
    outcome = await until(applier, desired(config_map(namespace, a="1")), lambda outcome: outcome.error is not None)
    assert outcome.error.cls is ErrorClass.DENIED
    assert outcome.error.reason == "PolicyDenied"


async def test_20_a_policy_without_its_parameters_is_waited_for(
    applier: Applier, namespace: str, desired: Desired, policy: Callable[..., None]
) -> None:
    policy("params.data.x == 'y'", params=True)
    outcome = await until(applier, desired(config_map(namespace, a="1")), lambda outcome: outcome.error is not None)
    assert (outcome.error.cls, outcome.error.waits_for) == (ErrorClass.WAITING, "parameters of an admission policy")


async def test_23_pod_security(applier: Applier, desired: Desired, shared_api: ApiServer, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    shared_api.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}}, content_type=MERGE)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}]},
    }
    outcome = await until(applier, desired(pod), lambda outcome: outcome.error is not None)
    assert (outcome.error.status, outcome.error.cls) == (403, ErrorClass.DENIED)
    assert outcome.error.reason == "PodSecurity"


async def test_20_quota_is_waited_for(
    applier: Applier, desired: Desired, shared_api: ApiServer, namespace: str
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/secrets": "0"}},
    }
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    shared_api.request("POST", path, quota)
    counted = {"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}}
    shared_api.request("PATCH", f"{path}/few/status", counted, content_type=MERGE)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}}
    outcome = await until(applier, desired(secret), lambda outcome: outcome.error is not None)
    assert (outcome.error.status, outcome.error.cls, outcome.error.waits_for) == (403, ErrorClass.WAITING, "quota few")


async def test_23_rights_are_told_from_policies(
    connect: Callable[..., Any], shared_api: ApiServer, namespace: str, desired: Desired
) -> None:
    connection = await connect(shared_api.kubeconfig_for("nobody"))
    applier = Applier(connection, Discovery(connection), manager="gitops-test")
    outcome = await applier.apply(desired(config_map(namespace, a="1")))
    assert outcome.error is not None
    assert (outcome.error.status, outcome.error.cls) == (403, ErrorClass.FORBIDDEN)


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


async def test_23_escalation_is_about_rights(
    connect: Callable[..., Any], shared_api: ApiServer, namespace: str, desired: Desired
) -> None:
    api_version = "rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [api_version.split("/")[0]], "resources": ["roles"], "verbs": ["create", "get", "patch"]}
    ]  # not "escalate"
    base = f"/apis/{api_version}/namespaces/{namespace}"
    metadata = {"name": "editor", "namespace": namespace}
    shared_api.request(
        "POST", f"{base}/roles", {"apiVersion": api_version, "kind": "Role", "metadata": metadata, "rules": rules}
    )
    shared_api.request(
        "POST",
        f"{base}/rolebindings",
        {
            "apiVersion": api_version,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "climber"}],
        },
    )
    connection = await connect(shared_api.kubeconfig_for("climber"))
    applier = Applier(connection, Discovery(connection), manager="gitops-test")
    more = {
        "apiVersion": api_version,
        "kind": "Role",
        "metadata": {"name": "more", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    outcome = await until(applier, desired(more), lambda outcome: "granted" not in str(outcome.error))
    assert (outcome.error.status, outcome.error.cls, outcome.error.reason) == (403, ErrorClass.FORBIDDEN, "Escalation")
