"""pytest fixtures over the kit, and honesty about what a run left out.

One API server serves a whole run, also when xdist splits it over workers: the first worker that needs it starts it
under a file lock, its guard ends it with the main process. Tests get a namespace each; what is scoped to the cluster
they share, so a test that lists or deletes such objects, or that kills the server, asks for `private_api`.

A machine without Go and without KUBEBUILDER_ASSETS passes, and one closing line says what was left out.
GITOPS_REQUIRE_CONTROLPLANE=1 and GITOPS_REQUIRE_SHARED=1 turn that into failures: CI sets both.
"""

import collections
import contextlib
import fcntl
import itertools
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from controlplane_kit import binaries as programs
from controlplane_kit import controlplane
from controlplane_kit.binaries import Binaries, BinariesMissing
from controlplane_kit.client import ApiServer
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.gitserver import GitServer

_SERVERS = {"controlplane_binaries", "shared_api", "full_api", "private_api"}
_CATEGORY = "left out"
_LEFT_OUT = f"{_CATEGORY}: "
_started: list[ApiServer] = []


class PrivateApi(Protocol):
    """What the `private_api` fixture gives: call it for a control plane of your own."""

    def __call__(self, *, controllers: bool = False, nodes: int = 0, api_flags: tuple[str, ...] = ()) -> ControlPlane:
        """Start one; it is stopped at the end of the test."""


@pytest.fixture(scope="session")
def controlplane_binaries() -> Binaries:
    """The control plane's programs; skips (or fails, in CI) where there are none and none can be built."""
    found, reason = None, "needs Go or KUBEBUILDER_ASSETS"
    try:
        found = programs.locate() or (programs.build() if programs.can_build() else None)
    except BinariesMissing as error:
        reason = str(error)
    if found is None:
        leave_out("the real control plane", reason, "GITOPS_REQUIRE_CONTROLPLANE")
    return found


@pytest.fixture(scope="session")
def shared_api(controlplane_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """etcd and kube-apiserver for the whole run: for apply, watch, drift, prune. Nothing is collected or run there."""
    yield from _serve("shared", controlplane_binaries, tmp_path_factory)


@pytest.fixture(scope="session")
def full_api(controlplane_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """As `shared_api`, with controllers, scheduler and two nodes of eight GPUs whose pods become Ready."""
    yield from _serve("full", controlplane_binaries, tmp_path_factory, nodes=2)


@pytest.fixture
def private_api(controlplane_binaries: Binaries, tmp_path: Path) -> Iterator[PrivateApi]:
    """Gives a function that starts control planes for this test only, which may kill, pause and restart them."""
    mine: list[ControlPlane] = []

    def start(*, controllers: bool = False, nodes: int = 0, api_flags: tuple[str, ...] = ()) -> ControlPlane:
        folder = tmp_path / f"api-{len(mine)}"
        plane = ControlPlane(
            folder, binaries=controlplane_binaries, controllers=controllers, nodes=nodes, api_flags=api_flags
        )
        mine.append(plane)
        _started.append(plane)
        return plane.start()

    yield start
    for plane in mine:
        plane.stop()
        _started.remove(plane)


@pytest.fixture
def namespace(shared_api: ApiServer, request: pytest.FixtureRequest) -> str:
    """A fresh namespace on `shared_api`. It stays: without controllers nobody could finish its deletion."""
    return shared_api.create_namespace(fresh_name(request.node.name))


@pytest.fixture
def full_namespace(full_api: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace on `full_api`, deleted in the background afterwards so that its pods free their GPUs."""
    name = full_api.create_namespace(fresh_name(request.node.name))
    yield name
    full_api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def fault_proxy(tmp_path: Path) -> Iterator[Callable[[ApiServer], FaultProxy]]:
    """Gives a function that puts a fault proxy before an API server for this test."""
    with contextlib.ExitStack() as stack:
        count = itertools.count()
        yield lambda api: stack.enter_context(FaultProxy(api, tmp_path / f"proxy-{next(count)}"))


@pytest.fixture
def git_http(tmp_path: Path) -> Iterator[GitServer]:
    """A git server over HTTP without login; for other kinds use GitServer itself."""
    with GitServer(tmp_path / "git") as server:
        yield server


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Path:
    """The folder with upstream CRDs, samples and recordings: GITOPS_SHARED, else `shared` beside the repository."""
    folder = Path(os.environ.get("GITOPS_SHARED") or pytestconfig.rootpath.parent / "shared")
    if not (folder / "upstream").is_dir():
        leave_out("upstream data", f"no folder {folder}/upstream (set GITOPS_SHARED)", "GITOPS_REQUIRE_SHARED")
    return folder


def leave_out(what: str, reason: str, required_by: str) -> NoReturn:
    """Skip the running test loudly, or fail it when the environment variable `required_by` demands this suite."""
    if os.environ.get(required_by) == "1":
        pytest.fail(f"{what} is required ({required_by}=1): {reason}", pytrace=False)
    pytest.skip(f"{_LEFT_OUT}{what}: {reason}")


def fresh_name(base: str) -> str:
    """A DNS label that nobody else uses and that still tells which test made it."""
    readable = re.sub(r"[^a-z0-9]+", "-", base.lower()).removeprefix("test-").strip("-")[:40]
    return f"t-{readable}-{uuid.uuid4().hex[:8]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by what a test asks for, so that `-m "not controlplane"` never misses one."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & _SERVERS:
            item.add_marker(pytest.mark.controlplane)
        if "shared" in names:
            item.add_marker(pytest.mark.upstream)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the first test, whose time limit a compiler would not keep."""
    if session.config.option.collectonly or not any(item.get_closest_marker("controlplane") for item in session.items):
        return
    try:
        if programs.locate() is None and programs.can_build():
            with _uncaptured(session.config):
                programs.build()
    except BinariesMissing:
        return  # each test that needs them says so


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Show where the logs are, and the API server's last complaints, under a failed test."""
    report = yield
    if report.failed and report.when != "teardown":
        arguments = getattr(item, "funcargs", {})
        servers = {id(s): s for s in (*arguments.values(), *_started) if isinstance(s, ApiServer)}
        if set(getattr(item, "fixturenames", ())) & _SERVERS:
            report.sections.extend((f"control plane in {s.folder}", s.log_tail()) for s in servers.values())
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Count what was left out apart from other skips, so that one line stands for all of it."""
    return (_CATEGORY, "-", _CATEGORY.upper()) if _reason(report) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    """One closing line, after pytest's own, on what this run left out."""
    result = yield
    reporter: Any = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None and (reports := reporter.stats.get(_CATEGORY)):
        counts = collections.Counter(_reason(report) for report in reports)
        parts = [f"{count} tests of {reason}" for reason, count in counts.items()]
        reporter.write_line(f"LEFT OUT: {'; '.join(parts)}", yellow=True, bold=True)
    return result


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    text = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    return text.partition(_LEFT_OUT)[2]


def _serve(name: str, found: Binaries, factory: pytest.TempPathFactory, *, nodes: int = 0) -> Iterator[ApiServer]:
    """Start the named server once per run, or join the one that another worker started."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    root = factory.getbasetemp().parent if worker else factory.getbasetemp()
    folder = root / f"controlplane-{name}"
    if nodes and not found.has(*programs.COMPLETE):
        leave_out("the complete control plane", f"{found.folder} has no controllers", "GITOPS_REQUIRE_CONTROLPLANE")
    server: ApiServer | None
    mine: ControlPlane | None = None
    with (root / f"controlplane-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = controlplane.attach(folder)
        if server is None:
            # Under xdist the parent, which outlives every worker, is the owner; its guard ends the server.
            owner = os.getppid() if worker else os.getpid()
            mine = ControlPlane(folder, binaries=found, nodes=nodes, owner=owner).start()
            server = controlplane.attach(folder)
            if worker:
                mine.hand_over()
            assert server is not None
    _started.append(server)
    yield server
    _started.remove(server)
    if mine is not None and not worker:
        mine.stop()


class _uncaptured:
    """Let the builder's progress reach the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")

    def __enter__(self) -> None:
        if self._capture:
            self._capture.suspend_global_capture(in_=True)

    def __exit__(self, *_: object) -> None:
        if self._capture:
            self._capture.resume_global_capture()
