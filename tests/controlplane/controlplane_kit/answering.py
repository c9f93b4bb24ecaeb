"""A small HTTPS server on loopback that an API server calls, or that stands where one is expected.

Webhooks, aggregated APIs and login pages: whatever a test wants answered, by a function of its own.
"""

import base64
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import trustme
from aiohttp import web

from controlplane_kit.loopthread import LoopThread


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer; a `body` that is no text goes as JSON."""

    body: Any = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[str, str, Any], Reply]
"""Method, path and decoded JSON body (None without one) → what to answer. Called in the server's own thread."""


class Answering:
    """Serves `answer`, which may be replaced at any time, until the context ends."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._authority = trustme.CA()
        self._thread: LoopThread | None = None
        self._runner: web.ServerRunner | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread = LoopThread("answering")
        self._thread.run(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        assert self._thread is not None
        assert self._runner is not None
        self._thread.run(self._runner.cleanup())
        self._thread.close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> bytes:
        """Its certificate authority, in PEM."""
        return self._authority.cert_pem.bytes()

    @property
    def bundle(self) -> str:
        """The same as a `caBundle`."""
        return base64.b64encode(self.authority).decode()

    async def _start(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        text = await request.read()
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = None
        reply = self.answer(request.method, request.path, body)
        headers = {"Connection": "close", **reply.headers}
        if isinstance(reply.body, str):
            return web.Response(text=reply.body, status=reply.status, headers=headers)
        return web.json_response(reply.body, status=reply.status, headers=headers)


def review(allowed: bool, *, code: int = 403, message: str = "not today") -> Answer:
    """An admission webhook that always says the same."""

    def answer(method: str, path: str, body: Any) -> Reply:
        response: dict[str, Any] = {"uid": body["request"]["uid"], "allowed": allowed}
        if not allowed:
            response["status"] = {"code": code, "message": message}
        return Reply({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    return answer
