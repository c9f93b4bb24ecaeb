"""Credentials that are rotated under a connection to a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from controlplane_kit.certificates import issue_client
from controlplane_kit.client import ApiFailure, ApiServer, write_kubeconfig
from controlplane_kit.controlplane import ControlPlane

from gitops.cluster.access import ServiceAccount
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.errors import ErrorClass, RequestFailed

pytestmark = [pytest.mark.controlplane]

Connect = Callable[..., Awaitable[Connection]]
AT_ONCE = ConnectionSettings(credentials_check=0.0)
SLOW_ANSWER = "/api/v1/namespaces"
"""With watch=1 and read as one request: its answer ends when the server's time is over."""


async def who_am_i(connection: Connection) -> str:
    body = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    answer = await connection.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    assert answer.ok, answer.error()
    name: str = answer.json()["status"]["userInfo"]["username"]
    return name


def files_of(api: ApiServer, user: str) -> tuple[Path, Path]:
    return issue_client(api.certificates, user, "system:masters")


def in_line(folder: Path, api: ApiServer, user: str) -> None:
    """A mounted Secret: its kubeconfig is another one from the moment in which `..data` is."""
    (folder / user).mkdir()
    client = files_of(api, user)
    write_kubeconfig(folder / user / "kubeconfig", url=api.url, authority=api.certificates.authority, client=client)
    (folder / "..tmp").symlink_to(user)
    (folder / "..tmp").rename(folder / "..data")
    if not (folder / "kubeconfig").exists():
        (folder / "kubeconfig").symlink_to("..data/kubeconfig")


def in_files(folder: Path, api: ApiServer, user: str) -> None:
    """A kubeconfig that stays as it is and names files that do not."""
    for made, name in zip(files_of(api, user), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(made, folder / name)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": api.url, "certificate-authority": str(api.certificates.authority)}}
        ],
        "users": [{"name": "u", "user": {"client-certificate": "tls.crt", "client-key": "tls.key"}}],
    }
    if not (folder / "kubeconfig").exists():
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("rotate", [in_line, in_files])
async def test_a_rotated_client_certificate_is_used_without_a_failed_request(
    shared_api: ApiServer, tmp_path: Path, connect: Connect, rotate: Callable[[Path, ApiServer, str], None]
) -> None:
    """What is under way ends normally with the old one; watches are closed, to be opened with the new one."""
    rotate(tmp_path, shared_api, f"before-{rotate.__name__}")
    connection = await connect(tmp_path / "kubeconfig", AT_ONCE)
    assert await who_am_i(connection) == f"before-{rotate.__name__}"
    async with connection.stream(SLOW_ANSWER, query={"watch": "1"}) as lines:
        assert await anext(lines)
        query = {"watch": "1", "timeoutSeconds": "2"}
        under_way = asyncio.create_task(connection.request("GET", SLOW_ANSWER, query=query))
        while connection.stats.in_flight == 0:  # noqa: ASYNC110 - a counter, not an event
            await asyncio.sleep(0.01)
        rotate(tmp_path, shared_api, f"after-{rotate.__name__}")
        names = await asyncio.gather(*(who_am_i(connection) for _ in range(8)))
        assert set(names) == {f"after-{rotate.__name__}"}
        assert not under_way.done()
        with pytest.raises(RequestFailed):
            [line async for line in lines]
    assert (await under_way).ok
    assert (connection.stats.renewals, connection.moved) == (1, False)
    assert set(connection.stats.answers) <= {200, 201}


async def test_a_certificate_of_a_plugin_is_replaced_by_the_next_when_it_ends(
    shared_api: ApiServer, tmp_path: Path, connect: Connect
) -> None:
    """The plugin tells when: here at once."""

    def plugin(user: str, expires: str) -> None:
        certificate, key = (file.read_text() for file in files_of(shared_api, user))
        status = {"clientCertificateData": certificate, "clientKeyData": key, "expirationTimestamp": expires}
        credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}
        (tmp_path / "credential").write_text(json.dumps(credential))

    in_files(tmp_path, shared_api, "unused")
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    version, credential = "client.authentication.k8s.io/v1", str(tmp_path / "credential")
    config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "cat", "args": [credential]}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    plugin("ends", "2020-01-01T00:00:00Z")
    connection = await connect(tmp_path / "kubeconfig", AT_ONCE)
    plugin("follows", "2100-01-01T00:00:00Z")
    names = [await who_am_i(connection)]
    async with asyncio.timeout(10):
        while not connection.stats.renewals:  # noqa: ASYNC110 - a counter, not an event
            await asyncio.sleep(0.01)
    names += [await who_am_i(connection) for _ in range(3)]
    assert names == ["ends", "follows", "follows", "follows"]
    assert connection.stats.renewals == 1


@contextlib.contextmanager
def account(api: ApiServer, namespace: str, name: str) -> Iterator[Callable[[], str]]:
    """A service account, and tokens of it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.request("POST", path, {"metadata": {"name": name}})

    def token() -> str:
        spec: dict[str, Any] = {"spec": {"expirationSeconds": 600}}
        made: str = api.request("POST", f"{path}/{name}/token", spec)["status"]["token"]
        return made

    yield token
    with contextlib.suppress(ApiFailure):
        api.request("DELETE", f"{path}/{name}")


async def test_a03_the_account_of_a_pod_whose_token_the_kubelet_replaces(
    shared_api: ApiServer, namespace: str, tmp_path: Path, connect: Connect
) -> None:
    """As a projected volume: `token` and `ca.crt` are links into `..data`."""
    host, port = shared_api.url.removeprefix("https://").split(":")
    with account(shared_api, namespace, "first") as first, account(shared_api, namespace, "second") as second:
        for version, make in (("one", first), ("two", second)):
            (tmp_path / version).mkdir()
            (tmp_path / version / "token").write_text(make())
            shutil.copy(shared_api.certificates.authority, tmp_path / version / "ca.crt")
        (tmp_path / "..data").symlink_to("one")
        for name in ("token", "ca.crt"):
            (tmp_path / name).symlink_to(f"..data/{name}")
        connection = await connect(ServiceAccount(tmp_path, host, port), AT_ONCE)
        assert await who_am_i(connection) == f"system:serviceaccount:{namespace}:first"
        (tmp_path / "..tmp").symlink_to("two")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        assert await who_am_i(connection) == f"system:serviceaccount:{namespace}:second"
        assert not connection.moved
        assert 401 not in connection.stats.answers


async def test_an_api_server_with_a_new_authority_is_trusted_only_once_the_credentials_name_it(
    private_api: Callable[..., ControlPlane], tmp_path: Path, connect: Connect
) -> None:
    """And then it is another endpoint: who is there has to be found out anew."""
    plane = await asyncio.to_thread(private_api)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
    connection = await connect(kubeconfig, AT_ONCE)
    uid = (await connection.request("GET", "/api/v1/namespaces/kube-system")).json()["metadata"]["uid"]

    plane.kill_apiserver()
    replace_authority(plane)
    await asyncio.to_thread(plane.start_apiserver)
    with pytest.raises(RequestFailed) as failed:
        await connection.request("GET", "/api/v1/namespaces/kube-system")
    assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.UNREACHABLE, "Tls")

    kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
    with pytest.raises(RequestFailed, match="another API server"):
        await connection.request("GET", "/api/v1/namespaces/kube-system")
    assert connection.moved
    again = await connect(kubeconfig, AT_ONCE)
    found = (await again.request("GET", "/api/v1/namespaces/kube-system")).json()
    assert found["metadata"]["uid"] == uid


def replace_authority(plane: ControlPlane) -> None:
    """Another authority, and from it certificates of the server and of the administrator."""
    made = plane.certificates
    authority = trustme.CA(organization_name="another")
    authority.cert_pem.write_to_path(str(made.authority))
    server = authority.issue_cert("127.0.0.1", "localhost", common_name="kube-apiserver")
    admin = authority.issue_cert("admin.local", common_name="admin", organization_name="system:masters")
    for issued, (certificate, key) in ((server, made.server), (admin, made.admin)):
        issued.private_key_pem.write_to_path(str(key))
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    plane.__dict__.pop("_tls", None)  # the kit's own client trusts the new one, too
