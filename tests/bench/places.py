"""Where a benchmark happens: a control plane, a Git server, and the engine in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane_kit import ControlPlane
from controlplane_kit.client import ApiServer
from controlplane_kit.gitserver import GitServer, Repository
from fleet_repo import CLUSTER

HERE = Path(__file__).parent


class Engine:
    """The engine's process and its answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.opened: dict[str, Any] = {}
        """CPU seconds and memory before anything was done: what Python and imports take."""

    @classmethod
    async def open(cls, repository: Repository, credentials: Path, folder: Path) -> Engine:
        """A process with everything imported. `credentials` are kubeconfigs by the name of the cluster; the mirror and
        the log are kept in `folder`."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "bench-pycache")  # as when installed
        environment.setdefault("MALLOC_TRIM_THRESHOLD_", "131072")  # as in the image
        with (folder / "engine.log").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(HERE / "engine_process.py"),
                repository.url,
                str(credentials),
                str(folder / "mirror"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        engine = cls(process)
        engine.opened = await engine._answer()
        return engine

    async def ask(self, command: str) -> dict[str, Any]:
        self.tell(command)
        return await self._answer()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine's process ended with {await self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def stop(self) -> dict[str, Any]:
        """A clean end."""
        answer = await self.ask("stop")
        await self._process.wait()
        return answer


def certificates(api: ApiServer) -> dict[str, str]:
    """Paths by which bare_process.session logs in as administrator."""
    certificate, key = api.certificates.admin
    return {"authority": str(api.certificates.authority), "certificate": str(certificate), "key": str(key)}


def give_credentials(folder: Path, kubeconfigs: Mapping[str, Path]) -> Path:
    """A folder with these kubeconfigs, by the name of the cluster."""
    folder.mkdir(exist_ok=True)
    for name, kubeconfig in kubeconfigs.items():
        (folder / name).write_bytes(kubeconfig.read_bytes())
    return folder


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster, an empty repository, a folder."""

    plane: ControlPlane
    repo: Repository
    folder: Path

    async def engine(self) -> Engine:
        credentials = give_credentials(self.folder / "credentials", {CLUSTER: self.plane.kubeconfig})
        return await Engine.open(self.repo, credentials, self.folder)

    async def bare(self, mode: str, *arguments: str) -> asyncio.subprocess.Process:
        """The bare loop, in a process of its own too."""
        where = {"url": self.plane.url, **certificates(self.plane)}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "bare_process.py"),
            mode,
            json.dumps(where),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
        )


@contextmanager
def one_place() -> Iterator[Place]:
    """A control plane that has served some calls (a fresh one is slow at first) and a Git server, on this machine."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with ControlPlane(folder / "plane") as plane, GitServer(folder / "git") as server:
            plane.create_namespace("warm")
            for index in range(100):
                plane.request("POST", "/api/v1/namespaces/warm/configmaps", {"metadata": {"name": f"w-{index}"}})
            plane.request("DELETE", "/api/v1/namespaces/warm/configmaps")
            yield Place(plane, server.create(), folder)
