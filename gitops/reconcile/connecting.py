"""Connections by the name of the credentials: a folder of kubeconfigs, looked at again when a file changes."""

from __future__ import annotations

from pathlib import Path

from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.credentials import Credentials, CredentialsFolder, MissingCredentials
from gitops.cluster.errors import RequestFailed, given
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName


class FolderConnector:
    """Connector over `<folder>/<credentials name>`; what a Cluster document names is a name and never a path."""

    def __init__(self, folder: Path, *, settings: ConnectionSettings | None = None) -> None:
        self._folder = CredentialsFolder(folder)
        self._settings = settings or ConnectionSettings()
        self._used: dict[ClusterName, Credentials] = {}

    async def open(self, cluster: Cluster) -> Connection:
        name = ClusterName(cluster.metadata.name)
        found = self._folder.find(cluster.spec.credentials)
        if isinstance(found, MissingCredentials):
            raise RequestFailed(given("NoCredentials", found.sentence))
        self._used[name] = found
        return await Connection.open(found.path, name=name, settings=self._settings)

    def changed(self, cluster: Cluster) -> bool:
        """Other credentials are named, or the file is another one. A file that is gone ends nothing that works."""
        used = self._used.get(ClusterName(cluster.metadata.name))
        if used is None:
            return False
        now = self._folder.find(cluster.spec.credentials)
        return isinstance(now, Credentials) and now != used
