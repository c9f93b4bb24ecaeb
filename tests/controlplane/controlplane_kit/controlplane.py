"""Start, pause, kill and stop a real control plane on loopback: etcd and kube-apiserver in three seconds, or all of it.

What each part is good for: the API server alone serves apply, drift and prune; controllers add Deployments, Jobs,
garbage collection, service accounts and the deletion of namespaces; scheduler and kwok nodes add pods that become
Ready.

Every process is in a session of its own, so that Ctrl-C in a terminal reaches the test run and not the servers under
it; a guard process (guard.py) ends them when the owner dies in whatever way.
"""

import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane_kit import binaries as programs
from controlplane_kit import guard
from controlplane_kit.binaries import Binaries
from controlplane_kit.certificates import make_certificates
from controlplane_kit.client import ApiFailure, ApiServer, write_kubeconfig

_NODE_CONTROLLERS = (
    "nodeipam",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
    "node-lifecycle-controller",
)
_CONTROLLERS = ",".join(["*", "-service-lb-controller", *(f"-{name}" for name in _NODE_CONTROLLERS)])


class StartFailed(Exception):
    """A process of the control plane ended or did not become ready; the text holds the end of its log."""


class ControlPlane(ApiServer):
    """One control plane in a folder of its own.

    Use it as a context manager, or call `start()` and `stop()`. `binaries` defaults to what is on this machine, built
    when missing. `nodes` > 0 starts scheduler and kwok with that many nodes, `gpus` nvidia.com/gpu each, and implies
    controllers. `owner` is the process whose end ends everything here, by default this one. `api_flags` are added to
    kube-apiserver's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Binaries | None = None,
        controllers: bool = False,
        nodes: int = 0,
        gpus: int = 8,
        owner: int | None = None,
        api_flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(folder.resolve(), "", binaries or programs.obtain())
        self.controllers = controllers or nodes > 0
        self.nodes = nodes
        self.gpus = gpus
        self.started_in = 0.0
        """Seconds from start() to ready."""
        self._owner = owner or os.getpid()
        self._api_flags = api_flags
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self.etcd_url = ""
        """For tests that change what is stored."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self, *, timeout: float = 60) -> Self:
        """Start everything and return when it is ready; raises StartFailed, and leaves nothing running then."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            make_certificates(self.certificates.folder)
            self._start_guard()
            self._start_etcd(timeout)
            self._pick_port()
            self.start_apiserver(timeout=timeout)
            if self.controllers:
                self._start_controllers(timeout)
            if self.nodes:
                self._start_nodes(timeout)
        except BaseException:
            self.stop()
            raise
        self.started_in = time.monotonic() - began
        state = {"url": self.url, "binaries": str(self.binaries.folder), "started_in": self.started_in}
        (self.folder / "state.json").write_text(json.dumps(state))
        return self

    def stop(self) -> None:
        """End every process at once and remove the data; logs and certificates stay. Safe to call twice."""
        (self.folder / "state.json").unlink(missing_ok=True)
        for name in reversed(list(self._running)):
            self._kill(name)
        if self._guard is not None:
            self._guard.terminate()
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def hand_over(self) -> None:
        """Leave everything running, for others to `attach` to, until the owner ends; `stop` then does nothing."""
        for process in self._running.values():
            process.returncode = 0  # not ours to wait for; Popen would warn that it still runs
        self._running.clear()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.returncode = 0
            self._guard = None

    def start_apiserver(self, *, timeout: float = 60) -> None:
        """Start the API server (again) on its port, and return when it serves."""
        certificate, key = self.certificates.server
        public, private = self.certificates.tokens
        # ServiceAccount admission refuses pods until a controller has made the namespace's default account.
        disabled = "TaintNodesByCondition" if self.controllers else "TaintNodesByCondition,ServiceAccount"
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.url.rpartition(':')[2]}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={self.certificates.folder}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.certificates.authority}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={private}",
            # Service addresses stay on loopback: nothing that dials a ClusterIP leaves the machine.
            "--service-cluster-ip-range=127.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
            f"--disable-admission-plugins={disabled}",
            *self._api_flags,
        )
        write_kubeconfig(
            self.kubeconfig, url=self.url, authority=self.certificates.authority, client=self.certificates.admin
        )
        self._await("kube-apiserver", self._api_ready, timeout)

    def kill_apiserver(self) -> None:
        """SIGKILL: connections break in the middle, nobody listens afterwards."""
        self._kill("kube-apiserver")

    def restart_apiserver(self) -> None:
        """Kill it and start it again on the same port with the same data."""
        self.kill_apiserver()
        self.start_apiserver()

    def back_up(self) -> Path:
        """A copy of all that is stored, for `restore`; everything is down for the moment it takes."""
        self._kill_storage()
        backup = self.folder / f"backup-{time.monotonic_ns()}"
        shutil.copytree(self.folder / "etcd", backup)
        self._start_storage()
        return backup

    def restore(self, backup: Path) -> None:
        """Make it what it was at `back_up`: resourceVersions go back too, and count on from there."""
        self._kill_storage()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(backup, self.folder / "etcd")
        self._start_storage()

    def _kill_storage(self) -> None:
        self._kill("kube-apiserver")
        self._kill("etcd")

    def _start_storage(self) -> None:
        self._start_etcd(60)
        self.start_apiserver()

    def pause_apiserver(self) -> None:
        """SIGSTOP: the kernel still accepts connections, nobody answers."""
        self._running["kube-apiserver"].send_signal(signal.SIGSTOP)

    def resume_apiserver(self) -> None:
        """Undo `pause_apiserver`."""
        self._running["kube-apiserver"].send_signal(signal.SIGCONT)

    def process_ids(self) -> dict[str, int]:
        """The process id of each running part, by program name."""
        return {name: process.pid for name, process in self._running.items()}

    def _start_guard(self) -> None:
        with (self.folder / "guard.log").open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-SE", guard.__file__, str(self._owner), str(self.folder / "etcd")],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def _start_etcd(self, timeout: float) -> None:
        port = free_port()
        self.etcd_url = f"http://127.0.0.1:{port}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )
        self._await("etcd", lambda: _listens(port), timeout)

    def _pick_port(self) -> None:
        self.url = f"https://127.0.0.1:{free_port()}"

    def _start_controllers(self, timeout: float) -> None:
        self._run(
            "kube-controller-manager",
            *self._as_component(),
            f"--service-account-private-key-file={self.certificates.tokens[1]}",
            f"--root-ca-file={self.certificates.authority}",
            "--use-service-account-credentials=true",
            f"--controllers={_CONTROLLERS}",
            # The defaults (20/s) are for clusters that share an API server with many others.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # The default of 15 s is for metrics that are gathered as rarely.
            "--horizontal-pod-autoscaler-sync-period=500ms",
        )
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        self._await("kube-controller-manager", lambda: self.get(path), timeout)

    def _start_nodes(self, timeout: float) -> None:
        self._run("kube-scheduler", *self._as_component(), "--kube-api-qps=500", "--kube-api-burst=1000")
        self._run("kwok", f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true")
        for index in range(self.nodes):
            self.request("POST", "/api/v1/nodes", _node(f"gpu-{index}", self.gpus))
        self._await("kwok", self._nodes_ready, timeout)

    def _as_component(self) -> list[str]:
        config = self.kubeconfig
        flags = [f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")]
        return [*flags, "--leader-elect=false", "--secure-port=0", "--profiling=false"]

    def _nodes_ready(self) -> bool:
        nodes = self.request("GET", "/api/v1/nodes")["items"]
        ready = [
            c for n in nodes for c in n["status"].get("conditions", ()) if (c["type"], c["status"]) == ("Ready", "True")
        ]
        return len(ready) >= self.nodes

    def _api_ready(self) -> bool:
        try:
            self.request("GET", "/readyz", timeout=5)
        except (OSError, ssl.SSLError, ApiFailure):
            return False
        # These two come a moment after /readyz, and everything that identifies a cluster or writes to it needs them.
        return all(self.get(f"/api/v1/namespaces/{name}") for name in ("kube-system", "default"))

    def _run(self, name: str, *flags: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(self.binaries.path(name)), *flags],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running[name] = process
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.write(b"%d\n" % process.pid)
        self._guard.stdin.flush()

    def _kill(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def _await(self, name: str, ready: Callable[[], object], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            code = self._running[name].poll()
            if code is not None or time.monotonic() > deadline:
                happened = f"not ready after {timeout:g} s" if code is None else f"ended with {code}"
                log = (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]
                raise StartFailed(f"{name}: {happened}\n{log}")
            time.sleep(0.02)


def attach(folder: Path) -> ApiServer | None:
    """The API server that another process started in `folder`, or None when none is ready there."""
    try:
        state = json.loads((folder / "state.json").read_text())
    except FileNotFoundError:
        return None
    return ApiServer(folder.resolve(), state["url"], programs.obtain())


def free_port() -> int:
    """A loopback port that nobody holds, below the range that the kernel takes ports of outgoing connections from.

    So it is still free a moment later, and when an API server is started again on it.
    """
    while True:
        port = random.randint(15000, 31999)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _node(name: str, gpus: int) -> dict[str, object]:
    capacity = {"cpu": "640", "memory": "5120Gi", "pods": "10000", "nvidia.com/gpu": str(gpus)}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
        "feature.node.kubernetes.io/pci-10de.present": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
        "status": {"allocatable": capacity, "capacity": capacity},
    }
