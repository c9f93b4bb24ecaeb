"""The daemon as people run it: a process with a settings file, a git server over HTTP, and a signed push webhook."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane, free_port
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import STATUS, one_bundle, until

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SECRET = "only the forge knows"


class Daemon:
    """`gitops run` in a process of its own."""

    def __init__(self, folder: Path, settings: dict[str, Any], port: int) -> None:
        self.port = port
        self.log = folder / "daemon.log"
        config = folder / "settings.yaml"
        config.write_text(yaml.safe_dump(settings))
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "gitops.cli", "run", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def push_event(self, *, secret: str = SECRET) -> int:
        """POST what a forge posts after a push; its HTTP status."""
        body = json.dumps({"ref": "refs/heads/main"}).encode()
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/json"}
            connection.request("POST", "/webhook", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


StartDaemon = Callable[..., Daemon]


@pytest.fixture
def daemon(tmp_path: Path, plane: ControlPlane, repo: Repository) -> Iterator[StartDaemon]:
    """`daemon()` starts one on `repo` and cluster `one`; what still runs at the end is killed."""
    started: list[Daemon] = []
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "one").write_bytes(plane.kubeconfig.read_bytes())
    secret = tmp_path / "webhook-secret"
    secret.write_text(SECRET)

    def start(**more: Any) -> Daemon:
        port = free_port()
        settings = {
            "repository": {"url": repo.url},
            "credentials_dir": str(credentials),
            "state_dir": str(tmp_path / "state"),
            "listen": f"127.0.0.1:{port}",
            "poll_interval": "1h",
            "webhook": {"secret_file": str(secret)},
            "status": {"interval": "200ms", "debounce": "50ms"},
            "log": {"format": "json"},
            **more,
        }
        made = Daemon(tmp_path, settings, port)
        started.append(made)
        return made

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def live(plane: ControlPlane, namespace: str) -> Any:
    found = plane.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    return found["data"]["key"] if found else None


async def test_push_webhook_brings_a_commit_to_the_cluster_and_the_status_back(
    daemon: StartDaemon, plane: ControlPlane, repo: Repository
) -> None:
    repo.commit(one_bundle("t-daemon"), "first")
    running = daemon()
    await until(lambda: running.get("/readyz")[0] == 200, "the daemon to be ready")
    await until(lambda: live(plane, "t-daemon") == "1", "the first apply")
    commit = repo.commit(one_bundle("t-daemon", "2"), "second")
    assert running.push_event(secret="guessed") in (401, 403), "a wrong signature is refused"
    assert live(plane, "t-daemon") == "1"
    assert running.push_event() in (200, 202, 204)
    await until(lambda: live(plane, "t-daemon") == "2", "the commit to arrive by the push signal")

    def reported() -> bool:
        text = repo.read("status/units/one/bundle.base.yaml", branch=STATUS)
        return text is not None and yaml.safe_load(text).get("commit") == commit

    await until(reported, "the commit in the unit's status file")
    status, metrics = running.get("/metrics")
    assert status == 200
    assert 'gitops_applies_total{cluster="one",result="created"} 2.0' in metrics
    plane.kubectl("patch", "-n", "t-daemon", "configmap", "settings", "--type=merge", "-p", '{"data":{"key":"x"}}')
    await until(lambda: live(plane, "t-daemon") == "2", "the repair")

    running.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert running.process.wait(timeout=10) == 0
    assert time.monotonic() - began < 10
    drift = next(line for line in running.lines() if line["message"].startswith("drift: "))
    assert drift["unit"] == "bundle/base@one"
    assert (
        'data.key of ConfigMap t-daemon/settings is "x", declared at bundles/base/manifests/settings.yaml'
        in drift["message"]
    )
    lease = plane.get("/apis/coordination.k8s.io/v1/namespaces/gitops-system/leases/gitops-demo")
    assert not lease["spec"].get("holderIdentity"), "the Lease is given back"


async def test_without_a_secret_the_webhook_is_closed(daemon: StartDaemon, repo: Repository) -> None:
    repo.commit(one_bundle("t-closed"), "first")
    running = daemon(webhook={})
    await until(lambda: running.get("/readyz")[0] == 200, "the daemon to be ready")
    assert running.push_event() in (403, 404)
