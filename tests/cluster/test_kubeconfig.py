"""What a kubeconfig may say, and what people are told about one that cannot be used."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from gitops.cluster.access import ServiceAccount, load_access
from gitops.cluster.errors import ErrorClass, RequestFailed

AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("admin.local")
CHAIN, KEY = ISSUED.cert_chain_pems[0].bytes(), ISSUED.private_key_pem.bytes()
OTHER_KEY = AUTHORITY.issue_cert("other.local").private_key_pem.bytes()
SECRET = "s3cr3t-that-nobody-may-see"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write(folder: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    config = {
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "nowhere", "user": "nobody"}},
            {"name": "b", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}, {"name": "other", "user": {"token": "wrong"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t0"}, "Bearer t0"),
        ({"tokenFile": "token"}, "Bearer from-the-file"),
        ({"tokenFile": "token", "token": "as-it-was-once"}, "Bearer from-the-file"),
        ({"username": "me", "password": "pass"}, f"Basic {b64(b'me:pass')}"),
        ({}, ""),
    ],
)
async def test_how_a_user_logs_in(tmp_path: Path, user: dict[str, Any], header: str) -> None:
    (tmp_path / "token").write_text("from-the-file\n")  # editors and `echo` end a file with a line end
    access = await load_access(write(tmp_path, user=user))
    assert access.authorization == header
    assert access.endpoint.host == "https://api.example:6443"
    assert not header or header not in repr(access)
    assert set(access.files) == {tmp_path / "kubeconfig"} | ({tmp_path / "token"} if "tokenFile" in user else set())


async def test_certificates_in_line_and_in_files_are_the_same_and_every_file_is_followed(tmp_path: Path) -> None:
    for name, data in (("ca.crt", AUTHORITY.cert_pem.bytes()), ("tls.crt", CHAIN), ("tls.key", KEY)):
        (tmp_path / name).write_bytes(data)
    in_files = await load_access(
        write(
            tmp_path,
            user={"client-certificate": "tls.crt", "client-key": str(tmp_path / "tls.key")},
            cluster={"certificate-authority": "ca.crt"},
        )
    )
    assert {path.name for path in in_files.files} == {"kubeconfig", "ca.crt", "tls.crt", "tls.key"}
    in_line = await load_access(
        write(
            tmp_path,
            user={"client-certificate-data": b64(CHAIN), "client-key-data": b64(KEY)},
            cluster={"certificate-authority-data": base64.encodebytes(AUTHORITY.cert_pem.bytes()).decode()},
        )
    )
    assert (in_line.endpoint, in_line.certificate) == (in_files.endpoint, in_files.certificate)
    assert in_line.endpoint.authority


async def test_how_the_server_is_reached_is_part_of_which_cluster_it_is(tmp_path: Path) -> None:
    plain = (await load_access(write(tmp_path))).endpoint
    for change in (
        {"server": "https://other.example"},
        {"proxy-url": "http://proxy.example:3128"},
        {"tls-server-name": "other"},
        {"insecure-skip-tls-verify": True},
        {"certificate-authority-data": b64(AUTHORITY.cert_pem.bytes())},
    ):
        assert (await load_access(write(tmp_path, cluster=change))).endpoint != plain


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"token": f"{SECRET}\nX-Evil: 1"}, {}, "its token has characters that no token has"),
        ({"tokenFile": "nothing"}, {}, "tokenFile cannot be read: No such file or directory"),
        ({"tokenFile": "empty"}, {}, "tokenFile is an empty file"),
        ({"tokenFile": "pipe"}, {}, "tokenFile is no file"),
        ({"tokenFile": "."}, {}, "tokenFile is no file"),
        ({"tokenFile": "huge"}, {}, "tokenFile has more than 8 MiB"),
        ({"tokenFile": f"{SECRET}\0"}, {}, "tokenFile has a name that no file has"),
        (
            {"client-certificate-data": f"{SECRET}é", "client-key-data": "x"},
            {},
            "client-certificate-data is not base64",
        ),
        ({"exec": {"command": "x", "apiVersion": "v1", "args": SECRET}}, {}, "args of the exec plugin are no list"),
        ({"exec": {"command": "x", "apiVersion": "v1", "args": [1]}}, {}, "args of the exec plugin are no list"),
        ({"exec": {"command": "x", "apiVersion": "v1", "env": 1}}, {}, "env of the exec plugin is no list"),
        ({"exec": {"command": "x", "apiVersion": "v1", "env": [{"name": SECRET}]}}, {}, "env of the exec plugin is no"),
        ({"client-key-data": b64(KEY)}, {}, "a key without its certificate"),
        ({"client-certificate-data": SECRET, "client-key-data": b64(KEY)}, {}, "client-certificate-data is not base64"),
        (
            {"client-certificate-data": b64(CHAIN), "client-key-data": b64(OTHER_KEY)},
            {},
            "client certificate and key do not belong together",
        ),
        (
            {"client-certificate-data": b64(CHAIN), "client-key-data": b64(SECRET.encode())},
            {},
            "client certificate and key do not belong together",
        ),
        ({"auth-provider": {"name": SECRET}}, {}, "its auth-provider gave no token"),
        ({"token": [SECRET]}, {}, "token is no text"),
        ({}, {"server": "api.example"}, "its server is no http:// or https:// address"),
        ({}, {"server": "https://api.example:https"}, "its server is no http:// or https:// address"),
        ({}, {"server": f"https://me:{SECRET}@api.example"}, "its server has a user, a query or a fragment"),
        ({}, {"server": f"https://api.example?token={SECRET}"}, "its server has a user, a query or a fragment"),
        ({}, {"proxy-url": f"socks5://{SECRET}@proxy"}, "its proxy-url is no http:// or https:// address"),
        ({}, {"proxy-url": f"http://me:{SECRET}@[::1"}, "its proxy-url is no http:// or https:// address"),
        ({}, {"proxy-url": f"http://me:{SECRET} @proxy"}, "its proxy-url is no http:// or https:// address"),
        ({}, {"certificate-authority-data": b64(SECRET.encode())}, "authority is no certificate in PEM form"),
    ],
)
async def test_what_cannot_be_used_is_told_in_words_and_not_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((8 << 20) + 1)
    with pytest.raises(RequestFailed) as failed:
        await load_access(write(tmp_path, user=user, cluster=cluster))
    error = failed.value.error
    assert (error.cls, error.reason) == (ErrorClass.UNAUTHORIZED, "CredentialsUnusable")
    assert words in error.message
    assert SECRET not in f"{failed.value} {caplog.text}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "kubeconfig is an empty file"),
        ("[1, 2]", "it is no map"),
        ("kind: Config", "it has no current-context"),
        ("since: 2024-13-45", "it is not valid YAML"),
        ("[" * 10_000, "it is not valid YAML"),
        ("{current-context: c}", "contexts has no entry of the name 'c'"),
        (
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
            "clusters: [{name: c, cluster: {server: 'https://x'}}]}",
            "users has no entry of the name 'u'",
        ),
        (
            "{current-context: c, contexts: [{name: c, context: {}}, {name: c, context: {}}]}",
            "contexts has more than one entry of the name 'c'",
        ),
    ],
)
async def test_a_file_that_is_half_written_makes_nobody_of_us(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(RequestFailed) as failed:
        await load_access(path)
    assert failed.value.error.message == f"kubeconfig cannot be used: {words}"


async def test_the_password_of_a_proxy_is_in_nothing_that_is_printed(tmp_path: Path) -> None:
    access = await load_access(write(tmp_path, cluster={"proxy-url": f"http://me:{SECRET}@proxy.example:3128"}))
    assert SECRET in access.endpoint.proxy
    assert SECRET not in f"{access!r} {access.endpoint}"


async def test_the_account_of_the_pod_that_we_run_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("projected")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.cert_pem.bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = await load_access(ServiceAccount.of_pod(environ, folder=tmp_path))
    assert (access.endpoint.host, access.authorization) == ("https://[fd00::1]:443", "Bearer projected")
    assert set(access.files) == {tmp_path / "token", tmp_path / "ca.crt"}
    with pytest.raises(RequestFailed, match="does not run in a pod"):
        await load_access(ServiceAccount.of_pod({}, folder=tmp_path))
