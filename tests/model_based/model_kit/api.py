"""The API server as a story sees it: beside every proxy, over one connection that stays open."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import Any

from controlplane_kit.client import APPLY, MERGE, ApiFailure, ApiServer

JSON_PATCH = "application/json-patch+json"
SYSTEM = "/api/v1/namespaces/gitops-system/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases"

__all__ = ["APPLY", "JSON_PATCH", "LEASES", "MERGE", "SYSTEM", "Api", "ApiFailure"]


class Api:
    """Calls as administrator. Raises ApiFailure for status 400 and above."""

    def __init__(self, server: ApiServer) -> None:
        self._host, port = server.url.removeprefix("https://").split(":")
        self._port = int(port)
        self._tls = ssl.create_default_context(cafile=str(server.certificates.authority))
        self._tls.load_cert_chain(*server.certificates.admin)
        self._connection: http.client.HTTPSConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data else {}
        for again in (True, False):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=30)
            try:
                self._connection.request(method, target, data, headers)
                response = self._connection.getresponse()
                raw = response.read()
                break
            except (http.client.HTTPException, OSError):  # the server closed it meanwhile
                self.close()
                if not again:
                    raise
        if response.status >= 400:
            raise ApiFailure(response.status, raw.decode(errors="replace"))
        return json.loads(raw) if "json" in (response.getheader("Content-Type") or "") else raw.decode()

    def get(self, path: str, **query: str) -> Any:
        """One GET; None when it is not there (404)."""
        try:
            return self.request("GET", path, query=query)
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        found = self.get(path, **query)
        return found["items"] if found else []
