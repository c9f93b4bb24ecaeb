"""The daemon as a process of its own, so that it can be killed like one: `gitops run` behind fault proxies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane_kit.faultproxy import FaultProxy

ROOT = Path(__file__).resolve().parents[3]


class DaemonProcess:
    """A context manager around `gitops run`; what still runs at the end is killed. `folder` holds its state and may be
    given to the next process, as a disk that survives a restart. One `identity` for all: a restarted pod keeps its
    name, and with it the Lease."""

    def __init__(
        self,
        folder: Path,
        url: str,
        proxies: Mapping[str, FaultProxy],
        *,
        identity: str = "daemon-0",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._credentials = folder / "credentials"
        self._credentials.mkdir(parents=True, exist_ok=True)
        for name, proxy in proxies.items():
            (self._credentials / name).write_bytes(proxy.kubeconfig.read_bytes())
        self._arguments = {
            "repository.url": url,
            "repository.allow_http": "true",
            "state_dir": folder / "state",
            "credentials_dir": self._credentials,
            "listen": "127.0.0.1:0",
            "poll_interval": "1h",
            "status.debounce": "50ms",
            "status.interval": "200ms",
            "identity": identity,
            **(settings or {}),
        }
        self._popen: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GITOPS_")} | {"PYTHONPATH": str(ROOT)}
        arguments = [f"--set={name}={value}" for name, value in self._arguments.items()]
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "gitops.cli", "run", *arguments], stderr=log, stdout=log, env=environ, cwd=ROOT
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            print(self.log.read_text()[-4000:])
        self.kill()

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing is said."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: nothing of it runs, its connections stay open, and the kernel still takes bytes for it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on where it was, and does not know that time has passed."""
        self._signal(signal.SIGCONT)

    def look(self) -> None:
        """SIGHUP: look at the repository at once."""
        self._signal(signal.SIGHUP)

    def _signal(self, which: signal.Signals) -> None:
        assert self._popen is not None
        self._popen.send_signal(which)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._popen is None:
            return 0
        self._popen.send_signal(how)
        code = self._popen.wait(timeout=20)
        self._popen = None
        return code
