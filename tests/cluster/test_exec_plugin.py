"""Exec plugins of kubeconfigs: real processes that do what plugins should not."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cluster_kit.scripted import Scripted, status

from gitops.cluster import exec_plugin
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.errors import ErrorClass, RequestFailed
from gitops.cluster.exec_plugin import run_plugin
from gitops.cluster.kubeconfig import Unusable

Connect = Callable[..., Awaitable[Connection]]
SECRET = "s3cr3t-that-nobody-may-see"
VERSION = "client.authentication.k8s.io/v1"


def script(folder: Path, body: str) -> dict[str, Any]:
    """A plugin of this shell script, relative to the kubeconfig."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return {"apiVersion": VERSION, "command": "./plugin"}


def credential(**fields: Any) -> str:
    return json.dumps({"kind": "ExecCredential", "apiVersion": VERSION, "status": fields})


def printing(folder: Path, **fields: Any) -> dict[str, Any]:
    return script(folder, f"echo run >> {folder}/runs\necho '{credential(**fields)}'")


def runs(folder: Path) -> int:
    path = folder / "runs"
    return path.read_text().count("run") if path.exists() else 0


def runs_still(process: str) -> bool:
    """Is there such a process, and not only what is left until its parent asks for it?"""
    state = Path("/proc", process, "stat")
    return state.exists() and ") Z " not in state.read_text()


async def test_it_is_told_what_it_needs_and_gives_a_token(tmp_path: Path) -> None:
    plugin = script(
        tmp_path,
        f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\nprintf "%s %s" "$1" "$EXTRA" > {tmp_path}/told\n'
        f"echo '{credential(token='t', expirationTimestamp='2030-01-02T03:04:05Z')}'",
    )
    plugin |= {"args": ["get-token"], "env": [{"name": "EXTRA", "value": "x"}], "provideClusterInfo": True}
    gave = await run_plugin(plugin, folder=tmp_path, cluster={"server": "https://api.example"})
    assert (gave.token, gave.expires) == ("t", datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC))
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://api.example"}},
    }
    assert (tmp_path / "told").read_text() == "get-token x"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 3", "the exec plugin ended with 3"),
        (f"echo {SECRET}", "printed no ExecCredential"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "printed no ExecCredential"),
        (f"echo '{credential()}'", "neither a token nor a certificate"),
        (f"echo '{credential(clientCertificateData=SECRET)}'", "neither a token nor a certificate"),
        (f"echo '{credential(token=SECRET)}' | sed s,k8s.io/v1,k8s.io/v1beta1,", "of another apiVersion"),
        (f"echo '{credential(token=SECRET, expirationTimestamp=SECRET)}'", "an expirationTimestamp that is no time"),
        (f"exec yes {SECRET}", "prints without end"),
        (f"echo {SECRET}; sleep 3600", "did not end within 0.5 s"),
    ],
)
async def test_a_failure_is_told_in_words_without_what_it_printed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: str, words: str
) -> None:
    plugin = script(tmp_path, body)
    with pytest.raises(Unusable, match=words) as failed:
        await run_plugin(plugin, folder=tmp_path, cluster={}, timeout=0.5)
    assert SECRET not in f"{failed.value!r} {failed.value.__cause__!r} {caplog.text}"


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ({"apiVersion": VERSION, "command": "./nothing"}, "cannot be started: No such file or directory"),
        ({"apiVersion": VERSION, "command": "."}, "cannot be started: Permission denied"),
        ({"apiVersion": VERSION}, "has no command"),
        ({"apiVersion": VERSION, "command": "x", "interactiveMode": "Always"}, "wants a terminal"),
    ],
)
async def test_one_that_cannot_run(tmp_path: Path, plugin: dict[str, Any], words: str) -> None:
    with pytest.raises(Unusable, match=words):
        await run_plugin(plugin, folder=tmp_path, cluster={})


async def test_one_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    plugin = script(tmp_path, f"sleep 3600 &\necho $! > {tmp_path}/child\nwait")
    with pytest.raises(Unusable, match="did not end"):
        await run_plugin(plugin, folder=tmp_path, cluster={}, timeout=0.5)
    child = tmp_path / "child"
    async with asyncio.timeout(5):
        while await asyncio.to_thread(runs_still, child.read_text().strip()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def test_one_whose_output_a_process_that_got_away_holds_open_holds_nobody(tmp_path: Path) -> None:
    """A kill of its process group does not reach it, and the pipe has no end while it lives."""
    child = tmp_path / "child"
    plugin = script(tmp_path, f"echo '{credential(token='t')}'\nsetsid sleep 3600 &\necho $! > {child}")
    try:
        with pytest.raises(Unusable, match="did not end within"):
            await asyncio.wait_for(run_plugin(plugin, folder=tmp_path, cluster={}, timeout=0.5), 10)
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)


# -- behind a connection ---------------------------------------------------------------------------------------------


class Accepting:
    """Answers 401 to every token but one."""

    def __init__(self, scripted: Scripted, token: str) -> None:
        self.token = token
        self.refused = 0
        scripted.handler = self._answer

    async def _answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == f"Bearer {self.token}":
            return web.json_response({})
        self.refused += 1
        return status(401, "Unauthorized")


async def test_a03_it_runs_again_only_when_its_token_is_refused(scripted: Scripted, connect: Connect) -> None:
    accepting = Accepting(scripted, "one")
    user = {"exec": printing(scripted.folder, token="one")}
    connection = await connect(scripted.kubeconfig(user), ConnectionSettings(credentials_check=0.0))
    for _ in range(3):
        assert (await connection.request("GET", "/x")).ok
    assert runs(scripted.folder) == 1
    accepting.token = "two"
    printing(scripted.folder, token="two")
    answers = await asyncio.gather(*(connection.request("GET", "/x") for _ in range(8)))
    assert all(answer.ok for answer in answers)
    assert runs(scripted.folder) == 2


async def test_a03_one_whose_tokens_are_refused_is_not_run_for_each_request(
    scripted: Scripted, connect: Connect
) -> None:
    Accepting(scripted, "never")
    connection = await connect(scripted.kubeconfig({"exec": printing(scripted.folder, token="one")}))
    for _ in range(20):
        answer = await connection.request("GET", "/x")
        assert answer.error().cls is ErrorClass.UNAUTHORIZED
    assert runs(scripted.folder) == 2


async def test_a_token_is_renewed_before_it_ends_while_requests_go_on_with_it(
    scripted: Scripted, connect: Connect
) -> None:
    """A plugin that asks a slow identity provider holds nobody up."""
    accepting = Accepting(scripted, "one")
    soon = datetime.datetime.now(datetime.UTC).isoformat()
    user = {"exec": printing(scripted.folder, token="one", expirationTimestamp=soon)}
    connection = await connect(scripted.kubeconfig(user), ConnectionSettings(credentials_check=0.0))
    os.mkfifo(scripted.folder / "gate")
    script(scripted.folder, f"echo run >> {scripted.folder}/runs\ncat {scripted.folder}/gate")
    for _ in range(10):
        assert (await connection.request("GET", "/x")).ok
    await asyncio.to_thread((scripted.folder / "gate").write_text, credential(token="two"))
    async with asyncio.timeout(10):
        while not connection.stats.renewals:  # noqa: ASYNC110 - a counter, not an event
            await asyncio.sleep(0.01)
    accepting.token = "two"
    assert (await connection.request("GET", "/x")).ok
    assert (accepting.refused, runs(scripted.folder)) == (0, 2)


async def test_one_that_hangs_at_a_401_ends_the_wait_in_words_and_not_the_lease(
    scripted: Scripted, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "TIMEOUT", 1.0)
    accepting = Accepting(scripted, "one")
    connection = await connect(scripted.kubeconfig({"exec": printing(scripted.folder, token="one")}))
    script(scripted.folder, f"echo run >> {scripted.folder}/runs; sleep 3600")
    accepting.token = "two"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):  # whoever needs an answer sooner does not wait
            await connection.request("GET", "/lease", urgent=True)
    with pytest.raises(RequestFailed) as failed:
        await connection.request("GET", "/x")
    assert failed.value.error.cls is ErrorClass.UNAUTHORIZED
    assert failed.value.error.message == "kubeconfig cannot be used: the exec plugin did not end within 1 s"
    assert runs(scripted.folder) == 2, "who came second waited for the same run"
