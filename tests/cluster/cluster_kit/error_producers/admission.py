"""What webhooks, policies and rights say no to."""

from __future__ import annotations

import base64
import json

import trustme
from controlplane_kit import faults
from controlplane_kit.answering import review
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import free_port

from cluster_kit.error_scene import Scene, edit_stored, produces
from gitops.cluster.errors import ApiError

# -- webhooks and policies ---------------------------------------------------------------------------------------------


@produces("webhook-denied")
async def _webhook_denied(scene: Scene) -> list[ApiError]:
    server = scene.serve(review(False))
    scene.webhook(server.url, server.bundle)
    applier = await scene.applier()
    errors = [await scene.refused_at_last(scene.config_map(), "webhook-denied", applier)]
    for code in (400, 404, 409, 410, 422, 429, 500, 503, 504):
        server.answer = review(False, code=code)
        errors.append(await scene.refused(scene.config_map(), applier))
    assert applier.connection.stats.throttled == 0  # a denial with 429 is no wish for fewer calls
    assert [error.status for error in errors] == [403, 400, 404, 409, 410, 422, 429, 500, 503, 504]
    return errors


@produces("webhook-no-dry-run")
async def _webhook_no_dry_run(scene: Scene) -> list[ApiError]:
    # A v1 configuration cannot say so any more; one that was stored by v1beta1 still does. So it is edited in etcd.
    scene.api = scene.own()
    scene.api.create_namespace(scene.namespace)
    server = scene.serve(review(True))
    scene.webhook(server.url, server.bundle)
    key = f"/registry/validatingwebhookconfigurations/{scene.namespace}"
    edit_stored(scene.own(), key, lambda value: value.replace(b"\x04None", b"\x04Some"))
    return [await scene.refused_at_last(scene.config_map(), "webhook-no-dry-run")]


@produces("policy-without-parameters")
async def _policy_without_parameters(scene: Scene) -> list[ApiError]:
    scene.policy("params.data.x == 'y'", missing_parameters=True)
    return [await scene.refused_at_last(scene.config_map(), "policy-without-parameters")]


@produces("policy-denied")
async def _policy_denied(scene: Scene) -> list[ApiError]:
    scene.policy("!('a' in object.data)")
    return [await scene.refused_at_last(scene.config_map(), "policy-denied")]


@produces("pod-security")
async def _pod_security(scene: Scene) -> list[ApiError]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    path = f"/api/v1/namespaces/{scene.namespace}"
    scene.api.request("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE)
    return [await scene.refused_at_last(scene.pod(hostNetwork=True), "pod-security")]


@produces("webhook-unreachable")
async def _webhook_unreachable(scene: Scene) -> list[ApiError]:
    bundle = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    scene.webhook(f"https://127.0.0.1:{free_port()}/", bundle)
    return [await scene.refused_at_last(scene.config_map(), "webhook-unreachable")]


@produces("conversion-webhook")
async def _conversion_webhook(scene: Scene) -> list[ApiError]:
    client = {
        "url": f"https://127.0.0.1:{free_port()}/",
        "caBundle": base64.b64encode(trustme.CA().cert_pem.bytes()).decode(),
    }
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    group = scene.definition("v1", "v2", conversion=conversion)
    return [await scene.refused(scene.body(f"{group}/v1", "Thing", spec={"size": "x"}))]


# -- rights ------------------------------------------------------------------------------------------------------------


@produces("escalation")
async def _escalation(scene: Scene) -> list[ApiError]:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "get", "patch"]}
    applier = await scene.applier(scene.rights("climber", rule))
    more = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    body = scene.body("rbac.authorization.k8s.io/v1", "Role", "more", rules=more)
    return [await scene.refused_at_last(body, "escalation", applier)]


@produces("rbac")
async def _rbac(scene: Scene) -> list[ApiError]:
    applier = await scene.applier(scene.api.kubeconfig_for("nobody"))
    # Impersonating a service account without the right to is the same.
    connection = applier.connection
    headers = {"Impersonate-User": "system:serviceaccount:x:y"}
    response = await connection.request("GET", f"{scene.here}/configmaps", headers=headers)
    return [await scene.refused(scene.config_map(), applier), response.error()]


@produces("admission-denied")
async def _admission_denied(scene: Scene) -> list[ApiError]:
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    body = scene.body("v1", "LimitRange", "small", spec={"limits": limits})
    scene.api.request("POST", f"{scene.here}/limitranges", body)
    large = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    return [
        await scene.refused_at_last(scene.pod(containers=[large]), "admission-denied"),
        await scene.raw("DELETE", "/api/v1/namespaces/kube-system"),
    ]


@produces("forbidden")
async def _forbidden(scene: Scene) -> list[ApiError]:
    proxy = scene.proxy()
    applier = await scene.applier(proxy.kubeconfig)
    await scene.applied(scene.config_map(), applier)
    proxy.fail(faults.Answer(403, "Forbidden", "blocked by the firewall"), faults.on("PATCH"))
    return [await scene.refused(scene.config_map(), applier)]


@produces("unauthorized")
async def _unauthorized(scene: Scene) -> list[ApiError]:
    scene.api.request("POST", f"{scene.here}/serviceaccounts", scene.body("v1", "ServiceAccount"))
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = scene.api.request("POST", f"{scene.here}/serviceaccounts/one/token", asked)["status"]["token"]
    scene.api.request("DELETE", f"{scene.here}/serviceaccounts/one")
    cluster = {"server": scene.api.url, "certificate-authority": str(scene.api.certificates.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path = scene.folder / "token"
    path.write_text(json.dumps(config))
    return [await scene.refused(scene.config_map(), await scene.applier(path))]
