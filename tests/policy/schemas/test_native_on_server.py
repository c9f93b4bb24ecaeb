"""Kinds of Kubernetes itself, by the schemas that a real API server publishes: VALID only where all rules are known."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from controlplane_kit import ApiServer
from schema_kit.server import Asking, disagreement

from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.published import files_of, schemas_of_files
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_openapi
from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

V, U, X = Verdict.VALID, Verdict.UNVERIFIED, Verdict.INVALID
PATHS = {
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Secret": "/api/v1/namespaces/default/secrets",
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/namespaces/default/services",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
NOT_UTF8 = base64.b64encode(b"\xff" * 10).decode()
MEGABYTE = "x" * (1 << 20)
DOCKER = "kubernetes.io/dockerconfigjson"
TWO_PORTS = [{"port": 80, "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"}]


def pod(**more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", **more}]}}
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template}


CASES: dict[str, tuple[str, dict[str, Any], Verdict]] = {
    "map": ("ConfigMap", {"data": {"a": "b", "UPPER_case.x-y": ""}}, V),
    "map_empty": ("ConfigMap", {}, V),
    "map_null": ("ConfigMap", {"data": None, "immutable": None}, V),
    "map_null_value": ("ConfigMap", {"data": {"a": None}}, V),
    "map_number": ("ConfigMap", {"data": {"a": 1}}, X),
    "map_key_space": ("ConfigMap", {"data": {"a b": "c"}}, X),
    "map_key_empty": ("ConfigMap", {"data": {"": "c"}}, X),
    "map_key_dot": ("ConfigMap", {"data": {".": "c"}}, X),
    "map_key_dots": ("ConfigMap", {"data": {"..a": "c"}}, X),
    "map_key_hidden": ("ConfigMap", {"data": {".a": "c"}}, V),
    "map_key_long": ("ConfigMap", {"data": {"a" * 253: "c"}}, V),
    "map_key_longer": ("ConfigMap", {"data": {"a" * 254: "c"}}, X),
    "map_full": ("ConfigMap", {"data": {"a": MEGABYTE}}, V),
    "map_more": ("ConfigMap", {"data": {"a": MEGABYTE, "b": "x"}}, X),
    "map_binary": ("ConfigMap", {"binaryData": {"a": NOT_UTF8}}, V),
    "map_binary_wrapped": ("ConfigMap", {"binaryData": {"a": NOT_UTF8[:4] + "\n" + NOT_UTF8[4:]}}, V),
    "map_binary_wrong": ("ConfigMap", {"binaryData": {"a": "!"}}, X),
    "map_binary_unpadded": ("ConfigMap", {"binaryData": {"a": "YQ"}}, X),
    "map_binary_loose": ("ConfigMap", {"binaryData": {"a": "YR=="}}, V),
    "map_binary_url": ("ConfigMap", {"binaryData": {"a": "_-8="}}, X),
    "map_binary_null": ("ConfigMap", {"binaryData": {"a": None}}, V),
    "map_twice": ("ConfigMap", {"data": {"a": "b"}, "binaryData": {"a": "YQ=="}}, X),
    "map_unknown": ("ConfigMap", {"spec": {}}, X),
    "map_immutable": ("ConfigMap", {"immutable": True}, V),
    "map_immutable_text": ("ConfigMap", {"immutable": "true"}, X),
    "map_finalizer": ("ConfigMap", {"metadata": {"finalizers": ["a"]}}, X),
    "map_finalizer_known": ("ConfigMap", {"metadata": {"finalizers": ["kubernetes", "a/b"]}}, V),
    "map_name": ("ConfigMap", {"metadata": {"name": "A"}}, X),
    "map_label": ("ConfigMap", {"metadata": {"labels": {"a": "b c"}}}, X),
    "map_time": ("ConfigMap", {"metadata": {"creationTimestamp": "yesterday"}}, U),
    "map_time_null": ("ConfigMap", {"metadata": {"creationTimestamp": None}}, V),
    "secret": ("Secret", {"data": {"a": "YQ=="}, "stringData": {"b": "c"}, "type": "Opaque"}, V),
    "secret_text": ("Secret", {"data": {"a": "not base64"}}, X),
    "secret_tls": ("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}, V),
    "secret_tls_half": ("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}}, X),
    "secret_docker": ("Secret", {"type": DOCKER, "stringData": {".dockerconfigjson": "{}"}}, V),
    "secret_docker_list": ("Secret", {"type": DOCKER, "stringData": {".dockerconfigjson": "[]"}}, X),
    "secret_docker_none": ("Secret", {"type": DOCKER}, X),
    "secret_dockercfg": ("Secret", {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{"}}, X),
    "secret_ssh": ("Secret", {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": "x"}}, V),
    "secret_ssh_empty": ("Secret", {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}}, X),
    "secret_basic": ("Secret", {"type": "kubernetes.io/basic-auth", "stringData": {"username": ""}}, V),
    "secret_basic_none": ("Secret", {"type": "kubernetes.io/basic-auth"}, X),
    "secret_token": ("Secret", {"type": "kubernetes.io/service-account-token"}, X),
    "secret_own_type": ("Secret", {"type": "any thing"}, V),
    "account": ("ServiceAccount", {"automountServiceAccountToken": False, "secrets": [{"name": "a"}]}, V),
    "account_pull": ("ServiceAccount", {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}, V),
    "account_pull_twice": ("ServiceAccount", {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, V),
    "account_secrets_twice": ("ServiceAccount", {"secrets": [{"name": "a"}, {"name": "a"}]}, X),
    "account_secret_text": ("ServiceAccount", {"secrets": ["a"]}, X),
    "account_name": ("ServiceAccount", {"metadata": {"name": "a_b"}}, X),
    "namespace": ("Namespace", {}, V),
    "namespace_dots": ("Namespace", {"metadata": {"name": "a.b"}}, X),
    "namespace_finalizer": ("Namespace", {"spec": {"finalizers": ["a"]}}, X),
    "namespace_finalizers": ("Namespace", {"spec": {"finalizers": ["a/b", "kubernetes"]}}, V),
    "namespace_status": ("Namespace", {"status": {"phase": "Other"}}, V),
    "service": ("Service", {"spec": {"ports": [{"port": 80}]}}, U),
    "service_name": ("Service", {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}}, X),
    "service_ports_twice": ("Service", {"spec": {"ports": [{"port": 80}, {"port": 80}]}}, X),
    "service_ports_differ": ("Service", {"spec": {"ports": TWO_PORTS}}, U),
    "deployment": ("Deployment", {"spec": pod()}, U),
    "deployment_replicas_wrap": ("Deployment", {"spec": {**pod(), "replicas": 2**40}}, U),  # read as 0
    "deployment_replicas_float": ("Deployment", {"spec": {**pod(), "replicas": 1e19}}, U),
    "deployment_fraction": ("Deployment", {"spec": {**pod(), "replicas": 1.5}}, X),
    "deployment_text": ("Deployment", {"spec": {**pod(), "replicas": "1"}}, X),
    "deployment_env_twice": ("Deployment", {"spec": pod(env=[{"name": "A"}, {"name": "A"}])}, X),
    "deployment_env_nameless": ("Deployment", {"spec": pod(env=[{"value": "A"}])}, U),
    "deployment_env_null": ("Deployment", {"spec": pod(env=None)}, U),
    "deployment_unknown": ("Deployment", {"spec": pod(imagee="x")}, X),
    "deployment_quantity": ("Deployment", {"spec": pod(resources={"limits": {"cpu": 1, "memory": "1Gi"}})}, U),
    "deployment_quantity_map": ("Deployment", {"spec": pod(resources={"limits": {"cpu": {}}})}, X),
    "deployment_port": ("Deployment", {"spec": pod(ports=[{"containerPort": 80}, {"containerPort": 80}])}, X),
    "deployment_port_of_probe": ("Deployment", {"spec": pod(livenessProbe={"tcpSocket": {"port": "http"}})}, U),
    "deployment_label": ("Deployment", {"metadata": {"labels": {"a": "-"}}, "spec": pod()}, X),
    "role": ("Role", {"metadata": {"name": "Any:name"}, "rules": []}, U),
    "definition_anything": ("CustomResourceDefinition", {"spec": {"unknown": 1}}, X),
}  # fmt: skip


@pytest.fixture(scope="module")
def schemas(shared_api: ApiServer) -> SchemaSet:
    groups = ("api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1", "apis/apiextensions.k8s.io/v1")
    published = schemas_of_openapi([shared_api.get(f"/openapi/v3/{group}") for group in groups])
    files = files_of(published)
    read = schemas_of_files(files)
    assert read.digest == published.digest
    assert files_of(read) == files
    return read


@pytest.fixture(scope="module")
def asking(shared_api: ApiServer) -> Iterator[Asking]:
    with Asking(shared_api) as connection:
        yield connection


def gvk_of(kind: str) -> GroupVersionKind:
    group = PATHS[kind].split("/")[2] if PATHS[kind].startswith("/apis") else ""
    return GroupVersionKind(group, "v1", kind)


@pytest.mark.parametrize("name", CASES)
def test_native_kinds(name: str, schemas: SchemaSet, asking: Asking) -> None:
    kind, fields, expected = CASES[name]
    gvk = gvk_of(kind)
    body = {"apiVersion": gvk.api_version, "kind": kind, **fields}
    body["metadata"] = {"name": "x", **body.get("metadata", {})}
    schema = schemas.get(gvk)
    assert schema is not None
    said = disagreement(asking, PATHS[kind], schema, body)
    assert not said, said
    assert schema.judge(body).verdict is expected


def test_what_is_known_of_kinds(schemas: SchemaSet) -> None:
    deployment, namespace = schemas.kinds[gvk_of("Deployment")], schemas.kinds[gvk_of("Namespace")]
    assert (deployment.builtin, deployment.namespaced, deployment.subresources) == (True, True, ("scale", "status"))
    assert (namespace.builtin, namespace.namespaced) == (True, False)
    assert not [
        gvk for gvk in schemas.kinds if gvk.kind.endswith("List") or gvk.kind in ("Status", "Scale", "Eviction")
    ]
