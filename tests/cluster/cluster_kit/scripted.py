"""A scripted server over real sockets, where a real API server cannot be made to misbehave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, message: str = "x", **fields: Any) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "message": message, "code": code, **fields}
    return web.json_response(body, status=code)


async def fine(request: web.Request) -> web.Response:
    return web.json_response({"kind": "Thing"})


class Scripted:
    """An HTTP server whose handler a test replaces; `seen` are the requests so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handler: Handler = fine
        self.seen: list[web.Request] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await self.handler(request)

    def kubeconfig(self, user: dict[str, Any] | None = None, *, server: str = "", name: str = "kubeconfig") -> Path:
        path = self.folder / name
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server or self.url}}],
            "users": [{"name": "u", "user": user or {}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


async def serve(script: Scripted) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    script.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner
