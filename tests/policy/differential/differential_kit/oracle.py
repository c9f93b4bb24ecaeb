"""The API server as the judge: what it answers to a server-side apply, dry-run or real.

Calls go over one kept connection per thread; a handful of threads keep a server busy that shares two cores with us.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
import urllib.parse
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from controlplane_kit.client import APPLY, ApiServer

from differential_kit.samples import Body
from gitops.cluster.payloads import as_yaml

MANAGER = "gitops-differential"
THREADS = 4

_TYPED = "failed to create typed patch object"
_TYPED_FIELD = re.compile(r"(?:\): |\n *)\.((?:\[[^]]*\]|[^\n:\[])+): ")


@dataclass(frozen=True, slots=True)
class Answer:
    """`fields` are the paths that a refusal names, as the server writes them; `live` is what an apply gave."""

    accepted: bool
    status: int
    reason: str = ""
    message: str = ""
    fields: tuple[str, ...] = ()
    live: Body | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Resource:
    """Where objects of a kind are, under /apis/<apiVersion> or /api/<apiVersion>."""

    plural: str
    namespaced: bool


class Oracle:
    """One API server with everything installed; safe from several threads."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._local = threading.local()
        self._resources: dict[str, dict[str, Resource]] = {}
        self._connections: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.close()

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """None when the server does not serve the kind."""
        if api_version not in self._resources:
            found = self._api.get(_root(api_version)) or {"resources": ()}
            self._resources[api_version] = {
                entry["kind"]: Resource(entry["name"], entry["namespaced"])
                for entry in found["resources"]
                if "/" not in entry["name"]
            }
        return self._resources[api_version].get(kind)

    def apply(self, body: Body, *, name: str, namespace: str, dry_run: bool = True) -> Answer:
        """One forced apply with strict validation, as the product sends it. The name in the URL is `name`."""
        resource = self.resource(body["apiVersion"], body["kind"])
        if resource is None:
            return Answer(False, 404, "NotFound", "the kind is not served")
        place = f"namespaces/{namespace}/" if resource.namespaced else ""
        query = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = f"{_root(body['apiVersion'])}/{place}{resource.plural}/{urllib.parse.quote(name, safe='')}"
        status, answer = self._send(
            f"{path}?{urllib.parse.urlencode(query)}", as_yaml(json.dumps(body, ensure_ascii=False).encode())
        )
        if status < 400:
            return Answer(True, status, live=answer)
        return _refusal(status, answer)

    def apply_all(self, calls: Iterable[tuple[Body, str, str]]) -> Iterator[Answer]:
        """Dry runs of (body, name, namespace), in their order."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(lambda call: self.apply(call[0], name=call[1], namespace=call[2]), calls)

    def _send(self, target: str, data: bytes) -> tuple[int, Any]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            host, port = self._api.url.removeprefix("https://").split(":")
            connection = http.client.HTTPSConnection(host, int(port), context=self._api._tls, timeout=60)
            self._local.connection = connection
            self._connections.append(connection)
        connection.request("PATCH", target, data, {"Content-Type": APPLY})
        response = connection.getresponse()
        raw = response.read()
        if "json" not in (response.getheader("Content-Type") or ""):
            return response.status, {"message": raw.decode(errors="replace")}
        return response.status, json.loads(raw)


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _refusal(status: int, answer: Body) -> Answer:
    message = answer.get("message", "")
    causes = (answer.get("details") or {}).get("causes") or ()
    fields = [cause["field"] for cause in causes if cause.get("field")]
    if not fields and message.startswith(_TYPED):
        fields = _TYPED_FIELD.findall(message)
    return Answer(False, status, answer.get("reason", ""), message, tuple(dict.fromkeys(fields)))
