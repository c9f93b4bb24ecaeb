"""A small client for one API server: what an operator needs and no more. It shares nothing with gitops/cluster on
purpose: the simulators are the other side of the wire in tests of that code."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

Body = dict[str, Any]


class ApiError(Exception):
    """An answer that is not a success; `code` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Kind:
    """An API resource."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        parts = [
            root,
            *(["namespaces", namespace] if namespace and self.namespaced else []),
            self.plural,
            name,
            subresource,
        ]
        return "/".join(part for part in parts if part)


class Api:
    """Calls as one field manager. Use as an asynchronous context manager."""

    def __init__(self, server: str, context: ssl.SSLContext, *, manager: str, headers: Mapping[str, str]) -> None:
        self.manager = manager
        self._server = server
        timeout = aiohttp.ClientTimeout(total=30)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False)

    @classmethod
    def open(cls, kubeconfig: Path, *, manager: str) -> Self:
        """From a kubeconfig's current context: certificates or a token, in line or in files. Needs a running loop."""
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        context = _named(config, "context", config["current-context"])
        cluster = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"])
        tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority", kubeconfig))
        certificate, key = _text(user, "client-certificate", kubeconfig), _text(user, "client-key", kubeconfig)
        if certificate and key:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # load_cert_chain reads files only
                file.write(f"{certificate}\n{key}")
                file.flush()
                tls.load_cert_chain(file.name)
        headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        return cls(cluster["server"], tls, manager=manager, headers={**headers, "User-Agent": manager})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await asyncio.sleep(0.1)  # TLS farewells that aiohttp says in the background, waited for by nobody else

    async def request(self, method: str, path: str, body: Body | None = None, **query: str) -> Body:
        """One call, JSON in and out. Raises ApiError, aiohttp.ClientError, TimeoutError."""
        if method != "GET":
            query.setdefault("fieldManager", self.manager)
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._server + path, data=data, params=query, headers=headers
        ) as answer:
            decoded: Body = await answer.json(content_type=None) or {}
            if answer.status >= 400:
                raise ApiError(answer.status, str(decoded.get("message", ""))[:300])
            return decoded

    async def create(self, kind: Kind, body: Body) -> Body:
        return await self.request("POST", kind.path(body["metadata"].get("namespace", "")), body)

    async def update(self, kind: Kind, body: Body, *, subresource: str = "") -> Body:
        """A full Update, as controller-runtime does: conflicts when the object moved on."""
        meta = body["metadata"]
        return await self.request("PUT", kind.path(meta.get("namespace", ""), meta["name"], subresource), body)

    async def delete(self, kind: Kind, body: Body) -> None:
        meta = body["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}, "propagationPolicy": "Background"}
        try:
            await self.request("DELETE", kind.path(meta.get("namespace", ""), meta["name"]), options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def list(self, kind: Kind) -> Body:
        return await self.request("GET", kind.path())

    async def watch(self, kind: Kind, version: str) -> AsyncGenerator[tuple[str, Body], None]:
        """Events after a resourceVersion until the server ends the stream. Raises ApiError, for errors in it too."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "290"}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
        async with self._session.get(self._server + kind.path(), params=query, timeout=timeout) as answer:
            try:
                if answer.status != 200:
                    raise ApiError(answer.status, (await answer.text())[:300])
                buffer = b""
                async for chunk in answer.content.iter_any():  # readline() has a limit that large objects exceed
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise ApiError(event["object"].get("code", 500), event["object"].get("message", ""))
                        yield event["type"], event["object"]
            finally:
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()  # a TLS farewell would outlive the event loop


def _named(config: Body, kind: str, name: str) -> Body:
    found: Body = next(entry[kind] for entry in config[f"{kind}s"] if entry["name"] == name)
    return found


def _text(entry: Body, key: str, kubeconfig: Path) -> str | None:
    if entry.get(f"{key}-data"):
        return base64.b64decode(entry[f"{key}-data"]).decode()
    if entry.get(key):
        path: str = entry[key]
        return (kubeconfig.parent / path).read_text(encoding="utf-8")
    return None
