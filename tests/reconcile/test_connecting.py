"""Which credentials the name in a Cluster document stands for."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
import yaml

from gitops.cluster.access import ServiceAccount
from gitops.cluster.errors import ErrorClass, RequestFailed
from gitops.model.clusters import Cluster
from gitops.reconcile.connecting import FolderConnector


def document(credentials: str) -> Cluster:
    spec = {"credentials": credentials}
    body = {"apiVersion": "gitops/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": spec}
    return Cluster.model_validate(body)


def kubeconfig(server: str, *, token: str = "t") -> str:
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
    )


@pytest.fixture
def account(tmp_path: Path) -> ServiceAccount:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("projected")
    trustme.CA().cert_pem.write_to_path(str(folder / "ca.crt"))
    return ServiceAccount(folder, "10.0.0.1", "443")


async def host_of(connector: FolderConnector, credentials: str) -> str:
    connection = await connector.open(document(credentials))
    await connection.close()
    return connection.host


async def test_in_cluster_is_the_pod_s_own_account_where_the_settings_allow_it(
    tmp_path: Path, account: ServiceAccount
) -> None:
    allowed = FolderConnector(tmp_path, account=account)
    assert await host_of(allowed, "in-cluster") == "https://10.0.0.1:443"
    assert not allowed.changed(document("in-cluster"))
    with pytest.raises(RequestFailed, match="no credentials named 'other'"):
        await allowed.open(document("other"))
    with pytest.raises(RequestFailed, match="the setting in_cluster is off") as failed:
        await FolderConnector(tmp_path).open(document("in-cluster"))
    assert failed.value.error.cls is ErrorClass.UNAUTHORIZED
    (tmp_path / "in-cluster").write_text(kubeconfig("http://a.example"))
    assert await host_of(allowed, "in-cluster") == "http://a.example"


async def test_only_another_name_or_file_ends_a_session(tmp_path: Path) -> None:
    """What changes within the file is the connection's to follow."""
    connector = FolderConnector(tmp_path)
    (tmp_path / "a.yaml").write_text(kubeconfig("http://a.example"))
    (tmp_path / "b").write_text(kubeconfig("http://b.example"))
    assert not connector.changed(document("a")), "nothing is open yet"
    await host_of(connector, "a")
    (tmp_path / "a.yaml").write_text(kubeconfig("http://a.example", token="other"))
    assert not connector.changed(document("a"))
    assert connector.changed(document("b"))
    (tmp_path / "a.yaml").unlink()
    assert not connector.changed(document("a")), "a file that is gone ends nothing that works"
    (tmp_path / "a").write_text(kubeconfig("http://a.example"))
    assert connector.changed(document("a"))
