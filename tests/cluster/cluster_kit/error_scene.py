"""What errors are produced with: an API server, a namespace, and a register of producers by row."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane_kit.answering import Answering, Reply
from controlplane_kit.client import ApiServer, write_kubeconfig
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.plugin import fresh_name

from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError
from gitops.plan.units import DesiredObject

Body = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass
class Scene:
    """An API server with a namespace of this test. `leaving` undoes what is scoped to the cluster."""

    api: ApiServer
    namespace: str
    folder: Path
    connect: Callable[..., Awaitable[Connection]]
    desired: Callable[[Body], DesiredObject]
    leaving: contextlib.ExitStack
    own: Callable[[], ControlPlane]

    async def applier(self, kubeconfig: Path | None = None, settings: ConnectionSettings | None = None) -> Applier:
        connection = await self.connect(kubeconfig or self.api.kubeconfig, settings)
        return Applier(connection, Discovery(connection), manager="gitops-test")

    async def refused(self, body: Body, applier: Applier | None = None, **options: Any) -> ApiError:
        """The error of applying `body`, which must have one."""
        outcome = await (applier or await self.applier()).apply(self.desired(body), **options)
        assert outcome.error is not None, outcome
        return outcome.error

    async def refused_at_last(self, body: Body, row: str, applier: Applier | None = None) -> ApiError:
        """The same once the API server knows of a rule: it learns of webhooks and policies by a watch."""
        applier = applier or await self.applier()
        async with asyncio.timeout(30):
            while True:
                outcome = await applier.apply(self.desired(body), dry_run=True)
                if outcome.error is not None and outcome.error.row == row:
                    return outcome.error
                await asyncio.sleep(0.02)

    async def applied(self, body: Body, applier: Applier | None = None) -> Body:
        outcome = await (applier or await self.applier()).apply(self.desired(body))
        assert outcome.error is None, outcome.error
        assert outcome.live is not None
        return outcome.live

    def post(self, path: str, body: Body) -> Body:
        """Create something that is scoped to the cluster; it is deleted after the test."""
        made: Body = self.api.request("POST", path, body)
        at = f"{path}/{body['metadata']['name']}"
        self.leaving.callback(self.api.request, "DELETE", at)
        return made

    def proxy(self) -> FaultProxy:
        return self.leaving.enter_context(FaultProxy(self.api, self.folder / "proxy"))

    def serve(self, answer: Callable[[str, str, Any], Reply]) -> Answering:
        return self.leaving.enter_context(Answering(answer))

    def kubeconfig(self, url: str, authority: bytes) -> Path:
        """An administrator's for this address and authority."""
        (self.folder / "other.crt").write_bytes(authority)
        client = self.api.certificates.admin
        return write_kubeconfig(self.folder / "other", url=url, authority=self.folder / "other.crt", client=client)

    # -- objects -----------------------------------------------------------------------------------------------------

    def body(self, api_version: str, kind: str, name: str = "one", **content: Any) -> Body:
        metadata = {"name": name, "namespace": self.namespace, **content.pop("metadata", {})}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    def config_map(self, name: str = "one", **content: Any) -> Body:
        return self.body("v1", "ConfigMap", name, **({"data": {"a": "1"}} | content))

    def pod(self, **spec: Any) -> Body:
        return self.body("v1", "Pod", spec={"containers": [{"name": "c", "image": "x"}], **spec})

    def service(self, name: str, *ports: Body, **spec: Any) -> Body:
        return self.body("v1", "Service", name, spec={"ports": list(ports), **spec})

    @property
    def here(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def ours(self) -> Body:
        """A selector of this test's namespace, for webhooks and policies."""
        return {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}

    def webhook(self, url: str, bundle: str) -> None:
        """A validating webhook for ConfigMaps of the namespace."""
        name = self.namespace
        hook = {
            "name": "gate.gitops.example",
            "clientConfig": {"url": url, "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            "namespaceSelector": self.ours,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 2,
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
        self.post(f"{REGISTRATION}/validatingwebhookconfigurations", body)

    def policy(self, expression: str, *, missing_parameters: bool = False) -> None:
        """A ValidatingAdmissionPolicy for ConfigMaps of the namespace, bound to it."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        spec: Body = {
            "matchConstraints": {"namespaceSelector": self.ours, "resourceRules": [rule]},
            "validations": [{"expression": expression}],
        }
        binding: Body = {"policyName": self.namespace, "validationActions": ["Deny"]}
        if missing_parameters:
            spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
            ref = {"name": "ghost", "namespace": self.namespace, "parameterNotFoundAction": "Deny"}
            binding["paramRef"] = ref
        metadata = {"name": self.namespace}
        version = "admissionregistration.k8s.io/v1"
        for plural, kind, content in (
            ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec),
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding),
        ):
            body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": content}
            self.post(f"{REGISTRATION}/{plural}", body)

    def definition(self, *versions: str, **spec: Any) -> str:
        """A CustomResourceDefinition of this test, with `spec.size` text in each version; gives its group."""
        group = f"{self.namespace}.example"
        size = {"type": "object", "properties": {"size": {"type": "string"}, "name": {"type": "string"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": size}}}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [
                    {"name": v, "served": True, "storage": v == versions[-1], "schema": schema} for v in versions
                ],
                **spec,
            },
        }
        self.api.create_crd_objects([body])
        return group

    def rights(self, user: str, *rules: Body) -> Path:
        """A user with these rights in the namespace, as a kubeconfig."""
        group, at = "rbac.authorization.k8s.io", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}"
        role = self.body(f"{group}/v1", "Role", user, rules=list(rules))
        subject = {"apiGroup": group, "kind": "User", "name": user}
        ref = {"apiGroup": group, "kind": "Role", "name": user}
        self.api.request("POST", f"{at}/roles", role)
        binding = self.body(f"{group}/v1", "RoleBinding", user, roleRef=ref, subjects=[subject])
        self.api.request("POST", f"{at}/rolebindings", binding)
        return self.api.kubeconfig_for(user)

    async def raw(self, method: str, path: str, **options: Any) -> ApiError:
        """The error of a call below all layers that know kinds."""
        connection = await self.connect(self.api.kubeconfig)
        response = await connection.request(method, path, **options)
        assert not response.ok
        return response.error(resource=path.split("/")[-2])


Producer = Callable[[Scene], Awaitable[list[ApiError]]]
PRODUCERS: dict[str, Producer] = {}


def produces(row: str) -> Callable[[Producer], Producer]:
    """Registers the producer of a row, by its id."""

    def register(producer: Producer) -> Producer:
        assert PRODUCERS.setdefault(row, producer) is producer, row
        return producer

    return register


def etcd(plane: ControlPlane, method: str, **body: Any) -> Body:
    """One call to etcd's JSON gateway."""
    request = urllib.request.Request(f"{plane.etcd_url}/v3/{method}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        decoded: Body = json.loads(answer.read())
        return decoded


def edit_stored(plane: ControlPlane, key: str, edit: Callable[[bytes], bytes]) -> None:
    """Change what is stored, past all validation, as an older version of Kubernetes may have left it."""
    name = base64.b64encode(key.encode()).decode()
    before = base64.b64decode(etcd(plane, "kv/range", key=name)["kvs"][0]["value"])
    after = edit(before)
    assert after != before
    etcd(plane, "kv/put", key=name, value=base64.b64encode(after).decode())


def aggregated(scene: Scene, name: str, port: int) -> None:
    """An aggregated API behind a port of this machine; a Service by name is what the API server can reach."""
    version, _, group = name.partition(".")
    service = scene.service(fresh_name("agg"), {"port": port}, type="ExternalName", externalName="localhost")
    scene.api.request("POST", f"{scene.here}/services", service)
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": service["metadata"]["name"], "namespace": scene.namespace, "port": port},
        },
    }
    scene.post("/apis/apiregistration.k8s.io/v1/apiservices", body)
