"""An admission webhook of the test's own: it changes or denies what is written in one namespace."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import trustme
from aiohttp import web
from controlplane_kit.client import ApiServer

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


class Webhook:
    """Denies with `code` when set, else applies `patch` to objects of `kind`."""

    def __init__(self) -> None:
        self.code = 0
        self.kind = "ConfigMap"
        self.patch: list[dict[str, Any]] = []
        self.dry_runs = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.dry_runs += bool(review["request"].get("dryRun"))
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": not self.code}
        if self.code:
            response["status"] = {"code": self.code, "message": "not today"}
        elif self.patch and review["request"]["kind"]["kind"] == self.kind:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(self.patch).encode()).decode()}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        answer = web.json_response(body)
        answer.force_close()  # nothing is left open when the test's loop ends
        return answer


@contextlib.asynccontextmanager
async def webhook_for(api: ApiServer, namespace: str) -> AsyncIterator[Webhook]:
    """Serves one, which the API server asks about every write in this namespace, also of status."""
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
    register(api, namespace, hook.url, authority.cert_pem.bytes())
    yield hook
    api.request("DELETE", f"{REGISTRATION}/mutatingwebhookconfigurations/{namespace}")
    await site.stop()
    await runner.cleanup()


def register(api: ApiServer, namespace: str, url: str, bundle: bytes) -> None:
    webhook = {
        "name": "gate.gitops.example",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(bundle).decode()},
        "rules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "Namespaced"}
        ],
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
