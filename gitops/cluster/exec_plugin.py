"""Running the exec plugin of a kubeconfig: a program that prints an ExecCredential (client.authentication.k8s.io).

It runs as a process of its own, in a session of its own, with a limit of time and of output; when it does not end, it
and what it started are killed. What it prints may be secret on either channel, so a failure is told by its exit code or
by what is missing, never by its words.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitops.cluster.kubeconfig import Unusable

TIMEOUT = 30.0
"""Seconds that a plugin may take. Some ask a slow identity provider; none may hold a cluster for longer."""

LONGEST_OUTPUT = 1 << 20
"""Bytes; a certificate chain with its key has some thousand."""


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    """What a plugin gave: a token, or a certificate with its key (PEM), and when they end, if it told."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: datetime.datetime | None = None


async def run_plugin(
    plugin: Mapping[str, Any], *, folder: Path, cluster: Mapping[str, Any], timeout: float | None = None
) -> PluginCredentials:
    """Run `user.exec` of a kubeconfig in `folder`; `timeout` in seconds. `cluster` is what a plugin with
    `provideClusterInfo` is told. Raises Unusable."""
    command, version = plugin.get("command"), plugin.get("apiVersion")
    if not isinstance(command, str) or not command or not isinstance(version, str):
        raise Unusable("the exec plugin has no command or no apiVersion")
    if plugin.get("interactiveMode") == "Always":
        raise Unusable("the exec plugin wants a terminal (interactiveMode: Always), and a daemon has none")
    # As client-go: a command with a separator is relative to the kubeconfig, one without is looked for in PATH.
    program = str(folder / command) if os.sep in command else command
    arguments = plugin.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise Unusable("the args of the exec plugin are no list of texts")
    output = await _output(program, arguments, _environment(plugin, version, cluster), timeout or TIMEOUT)
    return _credentials(output, version)


def _environment(plugin: Mapping[str, Any], version: str, cluster: Mapping[str, Any]) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo") is True:
        spec["cluster"] = dict(cluster)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    pairs = plugin.get("env") or []
    try:
        own = {pair["name"]: pair["value"] for pair in pairs}
    except (KeyError, TypeError):
        own = {"": None}
    if not all(isinstance(text, str) for pair in own.items() for text in pair):
        raise Unusable("the env of the exec plugin is no list of names and values")
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


async def _output(program: str, arguments: list[str], environment: dict[str, str], timeout: float) -> bytes:
    """The pipe is ours and not the subprocess transport's: `Process.wait` of that one also waits for the end of its
    pipes, so for ever when nobody reads on or when a process that got away holds one (python/cpython#119710)."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), io.FileIO(reading)
    )
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(timeout):
                output = await _read(reader)
                code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # also what it started and left behind
            await asyncio.shield(process.wait())
    except TimeoutError:
        raise Unusable(f"the exec plugin did not end within {timeout:g} s") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its arguments cannot be passed on"
        raise Unusable(f"the exec plugin cannot be started: {why}") from None
    finally:
        transport.close()
    if code:
        raise Unusable(f"the exec plugin ended with {code}")
    return output


async def _read(reader: asyncio.StreamReader) -> bytes:
    output = b""
    while more := await reader.read(LONGEST_OUTPUT):
        output += more
        if len(output) >= LONGEST_OUTPUT:
            raise Unusable("the exec plugin prints without end")
    return output


def _credentials(output: bytes, version: str) -> PluginCredentials:
    try:
        document = json.loads(output)
        status = document["status"]
        assert document["kind"] == "ExecCredential"
        assert isinstance(status, dict)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        raise Unusable("the exec plugin printed no ExecCredential with a status") from None
    if document.get("apiVersion") != version:
        raise Unusable("the exec plugin printed an ExecCredential of another apiVersion than asked for")
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key) or not (token or certificate):
        raise Unusable("the exec plugin gave neither a token nor a certificate with its key")
    return PluginCredentials(token, encoded(certificate), encoded(key), _moment(status.get("expirationTimestamp")))


def encoded(text: str) -> bytes:
    """Never fails: what no token or certificate may have in it is refused where it is used."""
    return text.encode(errors="surrogatepass")


def _moment(text: object) -> datetime.datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        raise Unusable("the exec plugin gave an expirationTimestamp that is no time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
