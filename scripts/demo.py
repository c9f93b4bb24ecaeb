"""The whole thing on this machine: two small clusters, a Git repository, the operators (played), and the daemon.

    make demo                              keeps running until Ctrl-C and says what to try
    make demo ARGS=--exit-when-ready       ends when everything is ready: what CI runs

Needs the control plane's programs (etcd, kube-apiserver, …); they are built with Go when they are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pygit2
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "controlplane")]

from controlplane_kit.binaries import BinariesMissing, kubectl, obtain  # noqa: E402
from controlplane_kit.controlplane import ControlPlane, free_port  # noqa: E402

from gitops.sim.operators import install_definitions  # noqa: E402

CLUSTERS = ("dgx-a", "dgx-b")
STATUS = "refs/heads/gitops-status"
SETTINGS = """\
repository:
  url: {origin}
credentials_dir: {clusters}
state_dir: {state}
listen: 127.0.0.1:{port}
poll_interval: 2s
poll_jitter: 0
status:
  interval: 2s
log:
  format: text
"""


class Failed(Exception):
    """The demo did not get where it should; the text says how far."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the whole thing on this machine.")
    parser.add_argument("--exit-when-ready", action="store_true", help="stop when every unit is ready")
    parser.add_argument("--timeout", type=float, default=180, help="seconds to wait for that (180)")
    parser.add_argument("--folder", type=Path, help="where to put it (a temporary folder); kept at the end")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="gitops-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            settings, url = start(folder.resolve(), stack)
            wait_until_ready(folder.resolve() / "manifests.git", arguments.timeout)
            tell(folder.resolve(), settings, url)
            if not arguments.exit_when_ready:
                print("\nCtrl-C stops everything.", flush=True)
                signal.pause()
        return 0
    except KeyboardInterrupt:
        return 0
    except BinariesMissing as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except Failed as error:
        print(f"demo: {error}\n\nthe daemon's last words:\n{tail(folder / 'daemon.log')}", file=sys.stderr)
        return 1
    finally:
        if not (arguments.folder or arguments.keep):
            shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, stack: contextlib.ExitStack) -> tuple[Path, str]:
    """Start everything; the stack stops it in reverse order. Gives the settings file and the daemon's address."""
    binaries = obtain()
    say("starting two control planes")
    planes = {name: ControlPlane(folder / name, binaries=binaries, nodes=2, gpus=8) for name in CLUSTERS}
    for plane in planes.values():
        stack.callback(plane.stop)
    with ThreadPoolExecutor() as pool:
        list(pool.map(ControlPlane.start, planes.values()))
    credentials = folder / "clusters"
    credentials.mkdir(exist_ok=True)
    for name, plane in planes.items():
        kubeconfig = credentials / f"{name}.yaml"
        shutil.copyfile(plane.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o600)
        asyncio.run(install_definitions(kubeconfig))
        command = [sys.executable, "-m", "gitops.sim.operators", "--kubeconfig", str(kubeconfig)]
        stack.enter_context(running(command, folder / f"operators-{name}.log"))
    say("making a Git repository from repo-template/")
    origin = make_repository(folder)
    port = free_port()
    settings = folder / "settings.yaml"
    text = SETTINGS.format(origin=origin, clusters=credentials, state=folder / "state", port=port)
    settings.write_text(text, encoding="utf-8")
    say("starting the daemon")
    command = [sys.executable, "-m", "gitops.cli", "run", "--config", str(settings)]
    stack.enter_context(running(command, folder / "daemon.log"))
    return settings, f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """A process of ours, in a session of its own so that Ctrl-C reaches us first; stopped at the end."""
    with log.open("ab") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_repository(folder: Path) -> Path:
    """A bare repository with the template on main, and a clone of it to work in."""
    origin = folder / "manifests.git"
    pygit2.init_repository(str(origin), bare=True, initial_head="main")
    work = folder / "manifests"
    shutil.copytree(ROOT / "repo-template", work)
    repository = pygit2.init_repository(str(work), initial_head="main")
    repository.remotes.create("origin", str(origin))
    repository.index.add_all()
    repository.index.write()
    author = pygit2.Signature("Demo", "demo@localhost")
    repository.create_commit("refs/heads/main", author, author, "Start\n", repository.index.write_tree(), [])
    repository.remotes["origin"].push(["refs/heads/main"])
    repository.remotes["origin"].fetch()
    repository.branches.local["main"].upstream = repository.branches.remote["origin/main"]
    return origin


def wait_until_ready(origin: Path, timeout: float) -> None:
    """Until the status branch says that every unit is ready. Raises Failed."""
    deadline = time.monotonic() + timeout
    shown = ""
    while True:
        units = read_units(origin)
        ready = sorted(unit for unit, state in units.items() if state == "Ready")
        line = f"{len(ready)} of {len(units)} units are ready"
        if units and line != shown:
            say(line)
            shown = line
        if units and len(ready) == len(units) and everything_is_reported(origin, units):
            return
        if time.monotonic() > deadline:
            missing = "; ".join(f"{unit}: {state}" for unit, state in sorted(units.items()) if state != "Ready")
            raise Failed(f"after {timeout:g} s {line or 'nothing is reported'}: {missing}")
        time.sleep(0.2)


def read_units(origin: Path) -> dict[str, str]:
    """Unit → status, as the status branch has them now."""
    found = {}
    for body in status_files(origin, "status/units"):
        found[str(body.get("unit"))] = str(body.get("status"))
    return found


def everything_is_reported(origin: Path, units: dict[str, str]) -> bool:
    """Whether there is a unit for each that the placements name: a first commit may hold a part only."""
    placed = [p for body in status_files(origin, "status") for p in body.get("placements", {}).values()]
    return sum(len(instances) for instances in placed) == len(units)


def status_files(origin: Path, folder: str) -> list[dict[str, Any]]:
    """The YAML files below a folder of the status branch, decoded."""
    repository = pygit2.Repository(str(origin))
    if STATUS not in repository.references:
        return []
    tree = repository.references[STATUS].peel(pygit2.Commit).tree
    if folder not in tree:
        return []
    pending, found = [tree[folder]], []
    while pending:
        for entry in pending.pop():
            if isinstance(entry, pygit2.Tree):
                pending.append(entry)
            elif entry.name.endswith(".yaml"):
                found.append(yaml.safe_load(entry.data))
    return [body for body in found if isinstance(body, dict)]


def tell(folder: Path, settings: Path, url: str) -> None:
    """Where to look and what to try."""
    command = "kubectl" if shutil.which("kubectl") else kubectl() or "kubectl"
    a = f"{command} --kubeconfig {folder}/clusters/dgx-a.yaml"
    graph = "-n fn-llama-chat-h100-0 dgd/llama-chat"
    gitops = f"{sys.executable} -m gitops.cli"
    print(f"""
Everything is ready. Look:
  {gitops} status --units --config {settings}
  {a} get dgd,dcd,nimservice,nimcache,deploy,pods -A
  {gitops} drift --config {settings}   # after a try below: what it was, who did it, what became of it
  git -C {folder}/manifests.git show gitops-status:status/README.md
  git -C {folder}/manifests.git log --stat gitops-status
  curl -s {url}/readyz; curl -s {url}/metrics | grep ^gitops_
  tail -f {folder}/daemon.log

Try:
  drift      {a} patch {graph} --type merge -p '{{"spec":{{"backendFramework":"sglang"}}}}'
             {a} get {graph} -o jsonpath='{{.spec.backendFramework}}'   # vllm again
  a change   edit {folder}/manifests/functions/llama-chat/overlays/h100.yaml
             cd {folder}/manifests && git commit -am 'More workers' && git push
  take back  git revert --no-edit HEAD && git push""")


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def tail(log: Path, lines: int = 20) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(none)"


if __name__ == "__main__":
    sys.exit(main())
