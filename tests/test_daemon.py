"""Wiring and signals: settings reach the engine, the process starts, answers, and ends when it should."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pygit2
import pytest

from gitops import daemon
from gitops.reconcile.options import EngineOptions
from gitops.settings import SettingsError, load_settings
from gitops.source.remotes import RemoteRefused

ROOT = Path(__file__).resolve().parent.parent


def test_every_option_of_the_engine_comes_from_a_setting() -> None:
    flags: dict[str, object] = {
        "identity": "me",
        "poll_interval": "11s",
        "poll_jitter": "1s",
        "parallel_units": 3,
        "requests_in_flight": 2,
        "first_contact": "4s",
        "first_look": "9s",
        "status.debounce": "50ms",
        "status.interval": "7s",
        "shutdown_timeout": "20s",
        "fuse.count": 9,
        "fuse.share": 0.25,
        "fuse.share_floor": 2,
        "fights.limit": 8,
        "fights.half_life": "2m",
        "fights.longest": "30m",
        "deletion_deadline": "5m",
        "audit.interval": "6h",
        "audit.sample": 3,
        "lease_duration": "25s",
    }
    changed = daemon.engine_options(load_settings(environ={}, flags=flags))
    default = EngineOptions(identity="default")
    for field in dataclasses.fields(EngineOptions):
        assert getattr(changed, field.name) != getattr(default, field.name), f"{field.name} is not set from settings"
    assert (changed.fuse.count, changed.fuse.share, changed.fuse.share_floor) == (9, 0.25, 2)
    assert (changed.fights.limit, changed.fights.half_life, changed.fights.longest) == (8, 120, 1800)


def test_types_that_the_settings_allow_reach_the_compiler() -> None:
    settings = load_settings(environ={}, flags={"extra_kubernetes_types": "batch/v1/Job"})
    assert {str(kind) for kind in daemon.context(settings, None).registry.extra_types} == {"batch/v1 Job"}
    assert daemon.context(load_settings(environ={}), None).registry.extra_types == frozenset()


def test_defaults_of_settings_are_those_of_the_engine() -> None:
    ours, engine = daemon.engine_options(load_settings(environ={})), EngineOptions(identity="x")
    for field in dataclasses.fields(EngineOptions):
        if field.name not in ("identity", "shutdown"):
            assert getattr(ours, field.name) == getattr(engine, field.name), field.name
    assert ours.shutdown < 10


def test_identity_differs_for_each_process_on_one_host() -> None:
    settings = load_settings(environ={})
    assert daemon.engine_options(settings).identity != daemon.engine_options(settings).identity


def test_credential_files_come_from_a_folder_and_single_ones_win(tmp_path: Path) -> None:
    for name in ("username", "password", "known_hosts"):
        (tmp_path / name).write_text(name)
    flags = {
        "repository.url": "https://git.example/x.git",
        "repository.credentials_dir": tmp_path,
        "repository.password_file": tmp_path / "other",
    }
    remote = daemon.remote(load_settings(environ={}, flags=flags).repository)
    assert remote.credentials.username == tmp_path / "username"
    assert remote.credentials.password == tmp_path / "other"
    assert remote.credentials.known_hosts == tmp_path / "known_hosts"
    assert remote.credentials.token is None


def test_no_repository_and_bad_ones_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"repository\.url"):
        daemon.remote(load_settings(environ={}).repository)
    with pytest.raises(RemoteRefused, match="known_hosts"):
        daemon.remote(load_settings(environ={}, flags={"repository.url": "git@host.example:x.git"}).repository)


# -- the process -----------------------------------------------------------------------------------------------------


class Process:
    """A Python process whose standard error is read line by line."""

    def __init__(self, arguments: list[str], **environ: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environ}
        self.popen = subprocess.Popen(
            [sys.executable, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=env,
            cwd=ROOT,
        )
        self.seen: list[str] = []

    @property
    def stderr(self) -> IO[str]:
        assert self.popen.stderr is not None
        return self.popen.stderr

    def until(self, words: str) -> str:
        """Read until a line holds `words`; gives it. The test's time limit is the timeout."""
        for line in self.stderr:
            self.seen.append(line)
            if words in line:
                return line
        pytest.fail(f"ended without {words!r}: {self.seen}")

    def ends(self, timeout: float) -> int:
        self.seen += self.stderr.readlines()
        return self.popen.wait(timeout)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    running: list[Process] = []

    def one(*arguments: str, **environ: str) -> Process:
        running.append(Process(list(arguments), **environ))
        return running[-1]

    yield one
    for process in running:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.wait()
        process.stderr.close()


def get(url: str | urllib.request.Request) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def daemon_arguments(tmp_path: Path, folder: Path) -> list[str]:
    """A daemon on a folder, without credentials for any cluster."""
    (tmp_path / "clusters").mkdir(exist_ok=True)
    places = ["--credentials-dir", str(tmp_path / "clusters"), "--state-dir", str(tmp_path / "state")]
    run = ["-m", "gitops.cli", "run", "--path", str(folder), "--listen", "127.0.0.1:0", "--log-format", "json"]
    return [*run, *places, "--set", "first_contact=100ms", "--set", "status.debounce=10ms"]


def test_daemon_starts_answers_and_stops_cleanly(start: Callable[..., Process], tmp_path: Path) -> None:
    process = start(*daemon_arguments(tmp_path, ROOT / "repo-template"))
    line = json.loads(process.until("watching folder"))
    assert line["level"] == "info"
    url = re.search(r"http://\S+", line["message"])
    assert url is not None
    process.until("new head")
    assert get(f"{url[0]}/healthz") == (200, b"ok\n")
    assert get(f"{url[0]}/webhook")[0] == 405
    assert b"gitops_fetches_total" in get(f"{url[0]}/metrics")[1]
    ready = f"{url[0]}/readyz"
    deadline = time.monotonic() + 20
    while get(ready)[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    status, body = get(ready)
    assert status == 200
    assert set(json.loads(body)["clusters"]) == {"dgx-a", "dgx-b"}, "a cluster that is away is no reason to restart"
    process.popen.send_signal(signal.SIGTERM)
    started = time.monotonic()
    assert process.ends(10) == 0
    assert time.monotonic() - started < 10
    assert json.loads(process.seen[-1])["message"] == "stopped"
    assert all(json.loads(line) for line in process.seen), "every line is JSON"


def test_signed_push_is_looked_at_at_once(start: Callable[..., Process], tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    commit(origin, "one")
    (tmp_path / "secret").write_text("the-forges-secret\n")
    process = start(
        *("-m", "gitops.cli", "run", "--repository-url", str(origin), "--state-dir", str(tmp_path / "state")),
        *("--credentials-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--poll-interval", "1h"),
        *("--set", f"webhook.secret_file={tmp_path / 'secret'}", "--log-format", "json"),
    )
    process.until("new head")
    url = re.search(r"http://\S+[0-9]", "".join(process.seen))
    assert url is not None
    head = commit(origin, "two")
    body = b"{}"
    signature = hmac.new(b"the-forges-secret", body, hashlib.sha256).hexdigest()
    post = urllib.request.Request(f"{url[0]}/webhook", data=body, headers={"X-Gitea-Signature": signature})
    assert get(post)[0] == 202
    assert json.loads(process.until("new head"))["commit"] == head
    process.popen.send_signal(signal.SIGTERM)
    assert process.ends(10) == 0


def commit(origin: Path, text: str) -> str:
    """A commit on main of a bare repository, made when missing; gives its id."""
    exists = origin.exists()
    repository = pygit2.init_repository(str(origin), bare=True, initial_head="main")
    author = pygit2.Signature("Test", "test@localhost")
    tree = repository.TreeBuilder()
    tree.insert("notes.txt", repository.create_blob(text.encode()), pygit2.enums.FileMode.BLOB)
    parents = [repository.references["refs/heads/main"].target] if exists else []
    return str(repository.create_commit("refs/heads/main", author, author, text, tree.write(), parents))


def test_second_daemon_on_the_same_state_is_told_so(start: Callable[..., Process], tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    pygit2.init_repository(str(origin), bare=True)
    arguments = ["-m", "gitops.cli", "run", "--repository-url", str(origin), "--state-dir", str(tmp_path / "state")]
    arguments += ["--credentials-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    first = start(*arguments)
    first.until("watching")
    second = start(*arguments)
    assert second.ends(20) == 2
    assert "in use by another process" in second.seen[-1]
    first.popen.send_signal(signal.SIGINT)
    assert first.ends(10) == 0


def test_port_in_use_is_told_and_ends_the_daemon(start: Callable[..., Process], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = start(*daemon_arguments(tmp_path, ROOT / "repo-template"), "--listen", address)
        assert process.ends(20) == 2
    assert "address already in use" in "".join(process.seen)


STUCK = """
import asyncio, sys, time
from gitops import daemon, logs
logs.configure(level="info", format="text")
async def main():
    stop = asyncio.Event()
    with daemon.handled_signals(stop, lambda: print("reload", file=sys.stderr), float(sys.argv[1])):
        print("up", file=sys.stderr, flush=True)
        if sys.argv[2:] != ["at-once"]: await stop.wait()
        while True: time.sleep(0.01)  # the loop is stuck
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_a_stuck_daemon_at_once(start: Callable[..., Process], number: signal.Signals) -> None:
    process = start("-c", STUCK, "60")
    process.until("up")
    process.popen.send_signal(number)
    process.until("stopping")
    process.popen.send_signal(number)
    assert process.ends(5) == 130


def test_two_signals_end_a_daemon_that_was_stuck_before_the_first(start: Callable[..., Process]) -> None:
    process = start("-c", STUCK, "60", "at-once")
    process.until("up")
    process.popen.send_signal(signal.SIGTERM)
    process.popen.send_signal(signal.SIGINT)
    assert process.ends(5) == 130


def test_stuck_shutdown_ends_after_its_time(start: Callable[..., Process]) -> None:
    process = start("-c", STUCK, "0.3")
    process.until("up")
    process.popen.send_signal(signal.SIGTERM)
    assert process.ends(5) == 130
    assert "not stopped within 0.3 s" in process.seen[-1]


def test_hangup_asks_for_a_fetch(start: Callable[..., Process]) -> None:
    process = start("-c", STUCK, "60")
    process.until("up")
    process.popen.send_signal(signal.SIGHUP)
    process.until("reload")
