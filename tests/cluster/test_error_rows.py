"""Every row of the error table, produced for real: by an API server, or by what may stand before one.

A producer gives errors that the server's answers became; each must have fitted the row it is the producer of. A row
without a producer fails, so a text that nobody has seen cannot be in the table.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme
from controlplane_kit import faults
from controlplane_kit.answering import Answering, Reply, review
from controlplane_kit.client import APPLY, MERGE, ApiFailure, ApiServer, write_kubeconfig
from controlplane_kit.controlplane import ControlPlane, free_port
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.plugin import fresh_name

from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.discovery import Discovery
from gitops.cluster.error_table import BY_ID, IMMUTABLE, ROWS, TREATMENTS, ErrorClass
from gitops.cluster.errors import ApiError, FieldConflict, RequestFailed, classify_status
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.units import DesiredObject
from gitops.reconcile.attempts import STATE_OF, state_of

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


@pytest.fixture(scope="module")
def own_plane(controlplane_binaries: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Starts, once, a control plane with controllers of this module, whose etcd and priorities may be changed."""
    made: list[ControlPlane] = []

    def plane() -> ControlPlane:
        if not made:
            folder = tmp_path_factory.mktemp("rows") / "api"
            made.append(ControlPlane(folder, binaries=controlplane_binaries, controllers=True))
            made[0].start()
        return made[0]

    yield plane
    for one in made:
        one.stop()


@pytest_asyncio.fixture
async def scene(
    shared_api: ApiServer,
    namespace: str,
    tmp_path: Path,
    connect: Callable[..., Awaitable[Connection]],
    desired: Callable[[Body], DesiredObject],
    own_plane: Callable[[], ControlPlane],
) -> AsyncIterator[Scene]:
    with contextlib.ExitStack() as leaving:
        yield Scene(shared_api, namespace, tmp_path, connect, desired, leaving, own_plane)


def test_every_row_has_a_producer() -> None:
    assert set(PRODUCERS) == set(BY_ID)


@pytest.mark.parametrize("row", [row.id for row in ROWS])
async def test_a_row_is_what_a_server_answers(row: str, scene: Scene) -> None:
    errors = await PRODUCERS[row](scene)
    assert errors
    for error in errors:
        assert (error.row, error.cls) == (row, BY_ID[row].cls), error
        assert error.message
        if BY_ID[row].waits_for or error.cls is ErrorClass.WAITING:
            assert error.waits_for


def test_every_class_has_a_treatment_and_a_row() -> None:
    assert set(TREATMENTS) == set(ErrorClass) == {row.cls for row in ROWS}
    assert all(0 < t.first <= t.longest <= 3600 for t in TREATMENTS.values())
    assert {str(state_of(ApiError(cls))) for cls in ErrorClass if cls not in STATE_OF} == {"Retrying"}


def test_rows_are_told_apart_and_explained() -> None:
    assert len(BY_ID) == len(ROWS)
    for row in ROWS:
        if row.message is not None and not row.codes:
            assert row.message.search(row.example), row.id
        if row.cls in (ErrorClass.DENIED, ErrorClass.REFUSED, ErrorClass.BLOCKED, ErrorClass.FORBIDDEN):
            assert row.hint, row.id  # nothing happens by itself: people are told what to do


# -- no usable answer --------------------------------------------------------------------------------------------------


@produces("no-connection")
async def _no_connection(scene: Scene) -> list[ApiError]:
    proxy = scene.proxy()
    applier = await scene.applier(proxy.kubeconfig)
    await scene.applied(scene.config_map(), applier)
    await asyncio.to_thread(proxy.refuse)
    return [await scene.refused(scene.config_map(), applier)]


@produces("timeout")
async def _timeout(scene: Scene) -> list[ApiError]:
    proxy = scene.proxy()
    applier = await scene.applier(proxy.kubeconfig, ConnectionSettings(request_timeout=2.0))
    await scene.applied(scene.config_map(), applier)
    proxy.fail(faults.Hold(), times=None)
    connection = await scene.connect(proxy.kubeconfig, ConnectionSettings(request_timeout=0.2))
    return [await scene.refused(scene.config_map(), Applier(connection, applier.discovery, manager="gitops-test"))]


@produces("tls")
async def _tls(scene: Scene) -> list[ApiError]:
    stranger = scene.kubeconfig(scene.api.url, trustme.CA().cert_pem.bytes())
    return [await scene.refused(scene.config_map(), await scene.applier(stranger))]


@produces("not-kubernetes")
async def _not_kubernetes(scene: Scene) -> list[ApiError]:
    server = scene.serve(lambda *_: Reply("<html>Welcome</html>"))
    return [
        await scene.refused(scene.config_map(), await scene.applier(scene.kubeconfig(server.url, server.authority)))
    ]


@produces("redirected")
async def _redirected(scene: Scene) -> list[ApiError]:
    errors = []
    for code in (301, 302, 307, 308):
        server = scene.serve(lambda *_, code=code: Reply("", code, {"Location": "https://login.invalid/"}))
        connection = await scene.connect(scene.kubeconfig(server.url, server.authority))
        errors.append((await connection.request("GET", "/api/v1/namespaces")).error())
    return errors


@produces("credentials-unusable")
async def _credentials_unusable(scene: Scene) -> list[ApiError]:
    path = scene.folder / "broken"
    path.write_text(scene.api.kubeconfig.read_text().replace("current-context: local", "current-context: gone"))
    with pytest.raises(RequestFailed) as failed:
        await scene.connect(path)
    return [failed.value.error]


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


# -- permanent, and yet 500 --------------------------------------------------------------------------------------------


@produces("storage-starting")
async def _storage_starting(scene: Scene) -> list[ApiError]:
    group, turn = scene.definition("v1"), 0
    path = f"{DEFINITIONS}/things.{group}"
    versions = scene.api.get(path)["spec"]["versions"]
    properties = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    settings = ConnectionSettings(throttle_retries=0, longest_pause=0.01)
    connection = await scene.connect(scene.api.kubeconfig, settings)
    found: list[ApiError] = []

    async def from_cache() -> None:
        at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
        response = await connection.request("GET", at, query={"resourceVersion": "0"})
        if not response.ok and response.error().row == "storage-starting":
            found.append(response.error())

    async with asyncio.timeout(60):
        while not found:  # it lasts for milliseconds
            turn += 1
            properties["spec"]["description"] = f"change {turn}"
            change = asyncio.to_thread(
                scene.api.request, "PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE
            )
            await asyncio.gather(change, *(from_cache() for _ in range(40)))
    return found


@produces("schema-mismatch")
async def _schema_mismatch(scene: Scene) -> list[ApiError]:
    gadget = scene.api.create_crds(Path(__file__).parent / "data" / "gadgets.yaml")[0].partition(".")[2]
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    return [
        await scene.refused(scene.config_map(dta={"a": "1"})),
        await scene.refused(scene.config_map(data={"a": 1})),
        await scene.refused(scene.pod(containers=[{"name": "c", "image": "x", "env": twice}])),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"titel": "x"})),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"title": 7})),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"components": [{"replicas": 1}]})),
    ]


@produces("live-manager")
async def _live_manager(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    body = scene.body(f"{group}/v1", "Thing", spec={"size": "x"})
    applier = await scene.applier()
    await scene.applied(body, applier)
    size = {"type": "integer"}
    retype(scene, group, size)
    path = f"/apis/{group}/v1/namespaces/{scene.namespace}/things/one"
    scene.api.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    body["spec"] = {"size": 7}
    return [await scene.refused_at_last(body, "live-manager", applier)]


@produces("version-gone")
async def _version_gone(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1", "v2")
    applier = await scene.applier()
    await scene.applied(scene.body(f"{group}/v1", "Thing", spec={"size": "x"}), applier)
    path = f"{DEFINITIONS}/things.{group}"
    versions = [v for v in scene.api.get(path)["spec"]["versions"] if v["name"] == "v2"]
    scene.api.request("PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE)
    body = scene.body(f"{group}/v2", "Thing", spec={"size": "y"})
    return [await scene.refused_at_last(body, "version-gone", applier)]


@produces("live-object")
async def _live_object(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    body = scene.body(f"{group}/v1", "Thing", spec={"size": "x"})
    applier = await scene.applier()
    await scene.applied(body, applier)
    retype(scene, group, {"type": "integer"})
    body["spec"] = {"size": 7}
    return [await scene.refused_at_last(body, "live-object", applier)]


def retype(scene: Scene, group: str, schema: Body) -> None:
    """Gives `spec.size` of things another type, and waits until the API server says so."""
    path = f"{DEFINITIONS}/things.{group}"
    versions = scene.api.get(path)["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = schema
    scene.api.request("PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE)
    probe = scene.body(f"{group}/v1", "Thing", "probe", spec={"size": 7})
    at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things/probe"
    query = {"fieldManager": "probe", "dryRun": "All"}

    def changed() -> bool:
        try:
            scene.api.request("PATCH", at, probe, content_type=APPLY, query=query)
        except ApiFailure:
            return False
        return True

    scene.api.wait(changed, "the definition to have its new type")


@produces("too-large")
async def _too_large(scene: Scene) -> list[ApiError]:
    # etcd's limit, that of its client, and that of the API server's bodies.
    gadget = scene.api.create_crds(Path(__file__).parent / "data" / "gadgets.yaml")[0].partition(".")[2]
    applier = await scene.applier()
    return [
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"free": {"x": "y" * size}}), applier)
        for size in (1_700_000, 2_500_000, 3_500_000)
    ]


# -- what has to exist, or to go, first --------------------------------------------------------------------------------


@produces("namespace-terminating")
async def _namespace_terminating(scene: Scene) -> list[ApiError]:
    # Without controllers nobody finishes it.
    await asyncio.to_thread(scene.api.request, "DELETE", f"/api/v1/namespaces/{scene.namespace}")
    return [await scene.refused_at_last(scene.config_map(), "namespace-terminating")]


@produces("definition-terminating")
async def _definition_terminating(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    held = scene.body(f"{group}/v1", "Thing", metadata={"finalizers": ["test.example/hold"]})
    at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
    scene.api.request("POST", at, held)
    scene.api.request("DELETE", f"{DEFINITIONS}/things.{group}")
    scene.leaving.callback(
        scene.api.request, "PATCH", f"{at}/one", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    return [await scene.refused_at_last(scene.body(f"{group}/v1", "Thing", "two"), "definition-terminating")]


@produces("object-deleting")
async def _object_deleting(scene: Scene) -> list[ApiError]:
    scene.api.request("POST", f"{scene.here}/configmaps", scene.config_map(metadata={"finalizers": ["test.example/x"]}))
    scene.api.request("DELETE", f"{scene.here}/configmaps/one")
    return [await scene.refused(scene.config_map())]


@produces("service-account-missing")
async def _service_account_missing(scene: Scene) -> list[ApiError]:
    scene.api = scene.own()  # with the admission plugin that looks for it
    scene.api.create_namespace(scene.namespace)
    error = await scene.refused(scene.pod(serviceAccountName="ghost"))
    assert error.waits_for == f"service account {scene.namespace}/ghost"
    return [error]


@produces("priority-class-missing")
async def _priority_class_missing(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.pod(priorityClassName="urgent"))]


@produces("runtime-class-missing")
async def _runtime_class_missing(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.pod(runtimeClassName="nvidia"))]


@produces("quota-exceeded")
async def _quota_exceeded(scene: Scene) -> list[ApiError]:
    quota = scene.body("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "0"}})
    scene.api.request("POST", f"{scene.here}/resourcequotas", quota)
    counted = {"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}}
    scene.api.request("PATCH", f"{scene.here}/resourcequotas/few/status", counted, content_type=MERGE)
    return [await scene.refused_at_last(scene.body("v1", "Secret"), "quota-exceeded")]


@produces("quota-unknown")
async def _quota_unknown(scene: Scene) -> list[ApiError]:
    quota = scene.body("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "0"}})
    scene.api.request("POST", f"{scene.here}/resourcequotas", quota)
    known = {"status": {"hard": {"count/secrets": "0"}}}  # and nobody has counted
    scene.api.request("PATCH", f"{scene.here}/resourcequotas/few/status", known, content_type=MERGE)
    return [await scene.refused_at_last(scene.body("v1", "Secret"), "quota-unknown")]


@produces("kind-not-served")
async def _kind_not_served(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    applier = await scene.applier()
    await scene.applied(scene.body(f"{group}/v1", "Thing"), applier)
    scene.api.request("DELETE", f"{DEFINITIONS}/things.{group}")
    path = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
    scene.api.wait(lambda: scene.api.get(path) is None, "the kind to be gone")
    error = await scene.refused(scene.body(f"{group}/v1", "Thing"), applier)  # discovery still says it is served
    assert error.waits_for == f"kind Thing.{group} at v1"
    return [error]


@produces("kind-not-found")
async def _kind_not_found(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.body("nowhere.example/v1", "Thing"))]


@produces("kind-not-stored")
async def _kind_not_stored(scene: Scene) -> list[ApiError]:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {"name": "me"}}
    return [await scene.refused(review | {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})]


@produces("discovery-failed")
async def _discovery_failed(scene: Scene) -> list[ApiError]:
    aggregated(scene, "v1.dark.gitops.example", free_port())
    applier = await scene.applier()
    return [await scene.refused_at_last(scene.body("dark.gitops.example/v1", "Thing"), "discovery-failed", applier)]


@produces("namespace-missing")
async def _namespace_missing(scene: Scene) -> list[ApiError]:
    error = await scene.refused(scene.config_map(metadata={"namespace": "ghost"}))
    assert error.waits_for == "namespace ghost"
    return [error]


@produces("role-missing")
async def _role_missing(scene: Scene) -> list[ApiError]:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"]}
    applier = await scene.applier(scene.rights("binder", rule))  # who may bind anything is not asked for the role
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "x"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    body = scene.body("rbac.authorization.k8s.io/v1", "RoleBinding", "b", roleRef=ref, subjects=[subject])
    error = await scene.refused_at_last(body, "role-missing", applier)
    assert error.waits_for == "role reader"
    return [error]


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


# -- ownership and preconditions ---------------------------------------------------------------------------------------


@produces("conflict")
async def _conflict(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    path = f"{scene.here}/configmaps/one"
    for manager, key in (("first", "a"), ("second", "b")):
        body = scene.config_map(data={key: "theirs"})
        scene.api.request("PATCH", path, body, content_type=APPLY, query={"fieldManager": manager})
    one = await scene.refused(scene.config_map(data={"a": "ours"}), applier, force=False)
    several = await scene.refused(scene.config_map(data={"a": "ours", "b": "ours"}), applier, force=False)
    scaled = scene.body("apps/v1", "Deployment", spec=deployment(replicas=1))
    await scene.applied(scaled, applier)
    scale = {"spec": {"replicas": 3}}
    at = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/one/scale"
    scene.api.request("PATCH", at, scale, content_type=MERGE, query={"fieldManager": "scaler"})
    by_subresource = await scene.refused(scaled, applier, force=False)
    assert one.conflicts == (FieldConflict("first", ".data.a"),)
    assert set(several.conflicts) == {FieldConflict("first", ".data.a"), FieldConflict("second", ".data.b")}
    assert by_subresource.conflicts == (FieldConflict("scaler", ".spec.replicas", "scale"),)
    return [one, several, by_subresource]


@produces("precondition")
async def _precondition(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    live = await scene.applied(scene.config_map(), applier)
    version, uid = live["metadata"]["resourceVersion"], live["metadata"]["uid"]
    await scene.applied(scene.config_map(data={"a": "2"}), applier)
    gvk, ref = GroupVersionKind("", "v1", "ConfigMap"), ObjectRef("", "ConfigMap", scene.namespace, "one")
    deletes = [
        await applier.delete(gvk, ref, uid=uid, resource_version=version),
        await applier.delete(gvk, ref, uid="11111111-2222-3333-4444-555555555555", resource_version=version),
    ]
    created = await applier.create(gvk, ref, scene.config_map(), manager="x")
    assert isinstance(created, ApiError)
    errors = [d.error for d in deletes if d.error is not None]
    assert len(errors) == 2
    # A repair names the uid: of an object that is gone meanwhile none is made.
    gone = await scene.refused(scene.config_map("ghost"), applier, uid=uid)
    return [*errors, created, gone, await scene.refused(scene.config_map(), applier, resource_version=version)]


@produces("uid-mismatch")
async def _uid_mismatch(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    await scene.applied(scene.config_map(), applier)
    return [await scene.refused(scene.config_map(), applier, uid="11111111-2222-3333-4444-555555555555")]


@produces("patch-test-failed")
async def _patch_test_failed(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    await scene.applied(scene.config_map(), applier)
    gvk, ref = GroupVersionKind("", "v1", "ConfigMap"), ObjectRef("", "ConfigMap", scene.namespace, "one")
    operations = (
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
        [{"op": "remove", "path": "/data/nothing"}],
    )
    errors = [await applier.json_patch(gvk, ref, operation, manager="x") for operation in operations]
    assert all(isinstance(error, ApiError) for error in errors)
    return [error for error in errors if isinstance(error, ApiError)]


# -- live state in the way ---------------------------------------------------------------------------------------------


@produces("live-duplicate")
async def _live_duplicate(scene: Scene) -> list[ApiError]:
    scene.api.request("POST", f"{scene.here}/services", scene.service("one", {"name": "http", "port": 80}))
    return [await scene.refused(scene.service("one", {"name": "http", "port": 8080}))]


@produces("port-allocated")
async def _port_allocated(scene: Scene) -> list[ApiError]:
    made = scene.api.request("POST", f"{scene.here}/services", scene.service("one", {"port": 80}, type="NodePort"))
    taken = {"port": 80, "nodePort": made["spec"]["ports"][0]["nodePort"]}
    return [await scene.refused(scene.service("two", taken, type="NodePort"))]


# -- refused -----------------------------------------------------------------------------------------------------------


def deployment(**spec: Any) -> Body:
    labels = {"app": spec.pop("app", "one")}
    pod = {"containers": [{"name": "c", "image": spec.pop("image", "x")}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"selector": {"matchLabels": labels}, "template": template, **spec}


async def changed(scene: Scene, before: Body, after: Body) -> ApiError:
    """What the API server says when an object becomes another."""
    applier = await scene.applier()
    await scene.applied(before, applier)
    error = await scene.refused({**before, **after}, applier)
    assert error.reason == IMMUTABLE
    return error


@produces("immutable-field")
async def _immutable_field(scene: Scene) -> list[ApiError]:
    job = deployment()
    del job["selector"]
    job["template"]["spec"]["restartPolicy"] = "Never"
    other = json.loads(json.dumps(job).replace('"image": "x"', '"image": "y"'))
    group = "rbac.authorization.k8s.io"
    ref = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    return [
        await changed(scene, scene.body("apps/v1", "Deployment", spec=deployment()), {"spec": deployment(app="two")}),
        await changed(scene, scene.body("batch/v1", "Job", spec=job), {"spec": other}),
        await changed(scene, scene.body("v1", "Secret", type="a/b"), {"type": "c/d"}),
        await changed(
            scene, scene.body(f"{group}/v1", "RoleBinding", roleRef=ref), {"roleRef": {**ref, "name": "edit"}}
        ),
    ]


@produces("immutable-object")
async def _immutable_object(scene: Scene) -> list[ApiError]:
    def claim(size: str) -> Body:
        return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}

    def stateful(size: str) -> Body:
        template = {"metadata": {"name": "data"}, "spec": claim(size)}
        return deployment(serviceName="x", volumeClaimTemplates=[template])

    storage = scene.body("storage.k8s.io/v1", "StorageClass", scene.namespace, provisioner="a/b", parameters={"a": "1"})
    priority = scene.body("scheduling.k8s.io/v1", "PriorityClass", scene.namespace, value=1)
    for path in (
        f"/apis/storage.k8s.io/v1/storageclasses/{scene.namespace}",
        f"/apis/scheduling.k8s.io/v1/priorityclasses/{scene.namespace}",
    ):
        scene.leaving.callback(scene.api.request, "DELETE", path)
    volume = claim("1Gi") | {"storageClassName": "fast"}
    pod = scene.pod()
    return [
        await changed(scene, scene.body("apps/v1", "StatefulSet", spec=stateful("1Gi")), {"spec": stateful("2Gi")}),
        await changed(
            scene,
            scene.body("v1", "PersistentVolumeClaim", spec=volume),
            {"spec": volume | {"storageClassName": "slow"}},
        ),
        await changed(scene, scene.config_map("fixed", immutable=True), {"data": {"a": "2"}}),
        await changed(scene, storage, {"parameters": {"a": "2"}}),
        await changed(scene, storage | {"parameters": {"a": "1"}}, {"provisioner": "c/d"}),
        await changed(scene, priority, {"value": 2}),
        await changed(scene, pod, {"spec": {**pod["spec"], "hostNetwork": True}}),
    ]


@produces("invalid")
async def _invalid(scene: Scene) -> list[ApiError]:
    typo = scene.body("apps/v1", "Deployment", spec=deployment(replicas=-1))
    return [await scene.refused(scene.service("one")), await scene.refused(typo)]


@produces("bad-request")
async def _bad_request(scene: Scene) -> list[ApiError]:
    entry = {"manager": "x", "operation": "Apply", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": {}}
    return [await scene.refused(scene.config_map(metadata={"managedFields": [entry]}))]


# -- by code alone -----------------------------------------------------------------------------------------------------


@produces("path-not-found")
async def _path_not_found(scene: Scene) -> list[ApiError]:
    return [await scene.raw("GET", f"{scene.here}/nothings/one")]


@produces("object-gone")
async def _object_gone(scene: Scene) -> list[ApiError]:
    return [await scene.raw("GET", f"{scene.here}/configmaps/one")]


@produces("expired")
async def _expired(scene: Scene) -> list[ApiError]:
    scene.api = scene.own()
    at = f"/api/v1/namespaces/{scene.api.create_namespace(scene.namespace)}/configmaps"
    version = scene.api.get(at)["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        scene.api.request("POST", at, scene.config_map(name))
    etcd(scene.own(), "kv/compaction", revision=scene.api.get(at)["metadata"]["resourceVersion"], physical=True)
    await asyncio.to_thread(scene.own().restart_apiserver)  # with its cache of events
    exactly = {"resourceVersion": version, "resourceVersionMatch": "Exact", "limit": "1"}
    connection = await scene.connect(scene.api.kubeconfig)
    listed = await connection.request("GET", at, query=exactly)
    return [listed.error(resource="configmaps"), await watched(connection, at, version)]


async def watched(connection: Connection, path: str, version: str) -> ApiError:
    """The error that the first event of a watch tells: 410 comes inside a 200."""
    async with connection.stream(path, query={"watch": "1", "resourceVersion": version}) as lines:
        async for line in lines:
            event = json.loads(line)
            assert event["type"] == "ERROR"
            return classify_status(event["object"])
    raise AssertionError("the watch ended")


@produces("throttled")
async def _throttled(scene: Scene) -> list[ApiError]:
    """Priority and fairness with a single seat for one user, taken by a call that a webhook keeps waiting."""
    scene.api = scene.own()
    scene.api.create_namespace(scene.namespace)
    user, group = fresh_name("slow"), "flowcontrol.apiserver.k8s.io/v1"
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}}
    subject = {"kind": "User", "user": {"name": user}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    flow = {
        "matchingPrecedence": 2,
        "priorityLevelConfiguration": {"name": user},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    for plural, kind, spec in (
        ("prioritylevelconfigurations", "PriorityLevelConfiguration", level),
        ("flowschemas", "FlowSchema", flow),
    ):
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": user}, "spec": spec}
        scene.post(f"/apis/{group}/{plural}", body)
    release, patch = threading.Event(), {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "create"]}

    def hold(method: str, path: str, asked: Any) -> Reply:
        release.wait(20)
        return review(True)(method, path, asked)

    server = scene.serve(hold)
    scene.leaving.callback(release.set)
    scene.webhook(server.url, server.bundle)
    settings = ConnectionSettings(throttle_retries=0, longest_pause=0.05)
    applier = await scene.applier(scene.rights(user, patch), settings)
    tries: set[asyncio.Task[ApiError]] = set()
    async with asyncio.timeout(30):
        while True:  # until webhook, rights and priority are in force, no call is kept waiting
            tries.add(asyncio.create_task(scene.refused(scene.config_map(), applier)))
            done, _ = await asyncio.wait(tries, timeout=0.05)
            errors = [t.result() for t in done if not t.exception() and t.result().row == "throttled"]
            if errors:
                break
            tries -= done
    release.set()
    await asyncio.gather(*tries, return_exceptions=True)
    assert errors[0].retry_after == 1
    return errors


@produces("server-error")
async def _server_error(scene: Scene) -> list[ApiError]:
    aggregated(scene, "v1.down.gitops.example", free_port())
    path = f"/apis/down.gitops.example/v1/namespaces/{scene.namespace}/things/one"

    def answers() -> bool:  # until then the path is not known at all
        try:
            return scene.api.get(path) is not None
        except ApiFailure:
            return True

    scene.api.wait(answers, "the API to be aggregated")
    error = await scene.raw("GET", path)
    assert error.status == 503
    return [error]


@produces("neighbour-missing")
async def _neighbour_missing(scene: Scene) -> list[ApiError]:
    """An aggregated API that says of an apply that something else is missing."""
    group = fresh_name("agg")[-8:] + ".gitops.example"
    resource = {
        "name": "things",
        "singularName": "thing",
        "namespaced": True,
        "kind": "Thing",
        "verbs": ["list", "patch"],
    }
    listing = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/v1", "resources": [resource]}
    missing = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": 'models "llama" not found',
        "reason": "NotFound",
        "details": {"kind": "models", "name": "llama"},
        "code": 404,
    }

    def answer(method: str, path: str, body: Any) -> Reply:
        return Reply(missing, 404) if method == "PATCH" else Reply(listing)

    aggregated(scene, f"v1.{group}", scene.serve(answer).port)
    error = await scene.refused_at_last(scene.body(f"{group}/v1", "Thing"), "neighbour-missing")
    assert error.waits_for == "models llama"
    return [error]


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


# -- etcd --------------------------------------------------------------------------------------------------------------


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
