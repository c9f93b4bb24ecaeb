"""Connections by the name of the credentials: a folder of kubeconfigs, or the pod's own account."""

from __future__ import annotations

from pathlib import Path

from gitops.cluster.access import ServiceAccount, Source
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.credentials import Credentials, CredentialsFolder, MissingCredentials
from gitops.cluster.errors import RequestFailed, given
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName

IN_CLUSTER = "in-cluster"
"""Name of the credentials of the cluster that we run in."""


class FolderConnector:
    """Connector over `<folder>/<credentials name>`; what a Cluster document names is a name and never a path. `account`
    is what `in-cluster` means, where the settings allow it; a file of that name goes before it."""

    def __init__(
        self, folder: Path, *, settings: ConnectionSettings | None = None, account: ServiceAccount | None = None
    ) -> None:
        self._folder = CredentialsFolder(folder)
        self._settings = settings or ConnectionSettings()
        self._account = account
        self._used: dict[ClusterName, Source] = {}

    async def open(self, cluster: Cluster) -> Connection:
        name = ClusterName(cluster.metadata.name)
        found = self._find(cluster.spec.credentials)
        if isinstance(found, MissingCredentials):
            raise RequestFailed(given("NoCredentials", found.sentence))
        self._used[name] = found
        return await Connection.open(found, name=name, settings=self._settings)

    def changed(self, cluster: Cluster) -> bool:
        """Are other credentials named? What the file of the same ones says is the connection's to follow, and one that
        is gone ends nothing that works."""
        used = self._used.get(ClusterName(cluster.metadata.name))
        now = self._find(cluster.spec.credentials)
        return used is not None and not isinstance(now, MissingCredentials) and now != used

    def _find(self, name: str) -> Source | MissingCredentials:
        found = self._folder.find(name)
        if isinstance(found, Credentials):
            return found.path
        if name != IN_CLUSTER:
            return found
        return self._account or MissingCredentials(name, f"{found.sentence}, and the setting in_cluster is off")
