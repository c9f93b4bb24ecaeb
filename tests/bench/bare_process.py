"""The bare loop: the same calls without an engine, as the floor that the engine is measured against.

`replay FILE` sends the calls that an engine made, in their order and with its concurrency, to other namespaces, and
looks at nothing; with `without-dry-runs` those of the preflight are left out. `repair NAMESPACE` watches the four kinds
and patches every foreign value back at once.
Both are one asyncio process with one aiohttp session, as the engine is.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import msgspec
import yarl
from engine_process import Call
from fleet_repo import KINDS, Kind

CONCURRENCY = 8
"""As ConnectionSettings.max_in_flight."""


def session(certificates: Mapping[str, str]) -> aiohttp.ClientSession:
    """A session as administrator; `certificates` are paths: authority, certificate, key."""
    context = ssl.create_default_context(cafile=certificates["authority"])
    context.load_cert_chain(certificates["certificate"], certificates["key"])
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**21,
        headers={"Accept-Encoding": "identity"},
    )


def moved(calls: list[Call], names: Mapping[str, str]) -> list[tuple[str, str, dict[str, str], bytes | None]]:
    """The calls with other namespaces: (method, path with query, headers, body). Made before the clock starts."""
    made = []
    for call in calls:
        path, body = call.path, call.body
        for old, new in names.items():
            path = path.replace(f"/namespaces/{old}", f"/namespaces/{new}")
            if body is not None:
                body = body.replace(f'"namespace":"{old}"'.encode(), f'"namespace":"{new}"'.encode())
        if body is not None:  # or the engine would watch them too
            body = body.replace(b'"gitops/reconciler":"bench"', b'"gitops/reconciler":"plain"')
        if body is not None and call.content_type == "application/merge-patch+json":
            document = msgspec.json.decode(body)
            document["metadata"].pop("resourceVersion", None)  # of the other object
            body = msgspec.json.encode(document)
        headers = {"Accept": call.accept} | ({"Content-Type": call.content_type} if body is not None else {})
        suffix = f"?{urlencode(call.query)}" if call.query else ""
        made.append((call.method, f"{path}{suffix}", headers, body))
    return made


async def replay(
    url: str, certificates: Mapping[str, str], recorded: bytes, names: Mapping[str, str], *, dry_runs: bool
) -> None:
    made = msgspec.msgpack.decode(recorded, type=list[Call])
    calls = moved([call for call in made if dry_runs or "dryRun" not in call.query], names)
    statuses: Counter[int] = Counter()
    waiting = iter(calls)
    async with session(certificates) as http:

        async def work() -> None:
            for method, path, headers, body in waiting:
                target = yarl.URL(f"{url}{path}", encoded=True)
                async with http.request(method, target, headers=headers, data=body) as answer:
                    await answer.read()
                    statuses[answer.status] += 1

        began, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    failed = sum(count for status, count in statuses.items() if status >= 400)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "calls": len(calls), "failed": failed}), flush=True)


async def repair(url: str, certificates: Mapping[str, str], namespace: str) -> None:
    """Until killed. Says `{}` when all watches are open."""
    async with session(certificates) as http:
        opened = asyncio.Semaphore(0)

        async def follow(kind: Kind) -> None:
            base = f"{url}{kind.collection(namespace)}"
            async with http.get(base) as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
            query = {"watch": "1", "resourceVersion": version}
            async with http.get(base, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                opened.release()
                async for line in answer.content:
                    obj = msgspec.json.decode(line)["object"]
                    if kind.value(obj) == kind.foreign():
                        name = obj["metadata"]["name"]
                        body = msgspec.json.encode(kind.patch(kind.declared(name)))
                        headers = {"Content-Type": "application/merge-patch+json"}
                        async with http.patch(f"{base}/{name}", data=body, headers=headers) as patched:
                            await patched.read()

        tasks = [asyncio.create_task(follow(kind)) for kind in KINDS]
        for _ in KINDS:
            await opened.acquire()
        print("{}", flush=True)
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    mode, where, rest = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
    address = where.pop("url")
    if mode == "replay":
        recorded, dry_runs = Path(rest[0]).read_bytes(), "without-dry-runs" not in rest
        asyncio.run(replay(address, where, recorded, json.loads(rest[1]), dry_runs=dry_runs))
    else:
        asyncio.run(repair(address, where, rest[0]))
