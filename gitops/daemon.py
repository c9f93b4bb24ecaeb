"""Wiring: from settings to a running engine, and from signals to its end. No decision about clusters is made here.

The first SIGINT or SIGTERM asks for a clean stop: no new work, calls in flight end, the last status is written,
Leases are released. It has `shutdown_timeout` seconds; then, or at a second signal, the process ends at once. Both
ways out work also when the event loop is stuck, because neither depends on it. Nothing is lost by that: a later
start picks up from what the clusters themselves hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

from gitops.cluster.access import ServiceAccount, freeze_libraries
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.leases import LeaseTimes
from gitops.http_server import HttpServer, Readiness, Webhook
from gitops.metrics import PrometheusMetrics
from gitops.model.clusters import Cluster
from gitops.policy.published import Published
from gitops.readiness.mapping import Mappings
from gitops.reconcile.accounts import OnceReport
from gitops.reconcile.connecting import FolderConnector
from gitops.reconcile.context import Context
from gitops.reconcile.engine import Engine
from gitops.reconcile.fights import FightLimits
from gitops.reconcile.options import EngineOptions
from gitops.settings import RepositorySettings, Settings, SettingsError, split_listen
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.schema_files import default_folders, load_published
from gitops.source.sources import FolderSource, GitSource, Source
from gitops.source.status_branch import Author
from gitops.source.transport import Timeouts
from gitops.source.watching import watch_folder

log = logging.getLogger(__name__)

INTERRUPTED = 130
"""Exit code of a stop that was not clean, as shells have it for Ctrl-C."""

_ENGINE_SHARE = 0.6
"""Part of the shutdown time that the engine gets; the rest is for closing sources and sockets."""


async def run(settings: Settings, *, signals: bool = True) -> None:
    """The daemon until it is told to stop. Raises SettingsError, RemoteRefused, SourceError (STATE), OSError at start.

    `signals=False` leaves the process's signals alone; then cancelling is the only way to stop.
    """
    stop = asyncio.Event()
    if not signals:
        await _run(settings, stop, reloaders=[])
        return
    reloaders: list[Callable[[], None]] = []
    with handled_signals(stop, lambda: [reload() for reload in reloaders], settings.shutdown_timeout):
        await _run(settings, stop, reloaders=reloaders)


async def _run(settings: Settings, stop: asyncio.Event, *, reloaders: list[Callable[[], None]]) -> None:
    metrics = PrometheusMetrics()
    async with opened_source(settings) as source:
        await asyncio.to_thread(freeze_libraries)
        engine = Engine(source, connector(settings, metrics), context(settings, metrics))
        reloaders.append(engine.request_fetch)
        running = asyncio.create_task(engine.run(stop), name="engine")
        server = _server(settings, engine, metrics, alive=lambda: not running.done())
        watchers: list[asyncio.Task[None]] = []
        try:
            url = await server.start()
            log.info("watching %s (%s); /healthz, /readyz and /metrics at %s", source.display, source.branch, url)
            watchers.append(
                asyncio.create_task(_watch(settings.credentials_dir, engine.credentials_changed, hidden=True))
            )
            if settings.path is not None:
                watchers.append(asyncio.create_task(_watch(settings.path, engine.request_fetch)))
            await running
        finally:
            for task in (*watchers, running):
                task.cancel()
            await asyncio.gather(*watchers, running, return_exceptions=True)
            await server.stop()
    log.info("stopped")


async def apply_once(settings: Settings) -> OnceReport:
    """One head, brought to all clusters once. Raises as `run` does."""
    async with opened_source(settings) as source:
        return await Engine(source, connector(settings), context(settings, None)).run_once()


# -- parts -----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def opened_source(settings: Settings) -> AsyncIterator[Source]:
    """The repository or folder that the settings name, closed at the end."""
    source: Source
    if settings.path is not None:
        if not settings.path.is_dir():
            raise NotADirectoryError(f"{settings.path}: there is no such folder")
        source = FolderSource(settings.path, status_folder=settings.state_dir / "status")
    else:
        author = Author(settings.status.author_name, settings.status.author_email)
        git = GitSource(lambda: open_mirror(settings, settings.state_dir / "mirror"), author=author)
        await git.open()
        source = git
    try:
        yield source
    finally:
        await source.close()


def open_mirror(settings: Settings, folder: Path) -> Mirror:
    """The mirror of the configured repository in `folder`. Raises SettingsError, RemoteRefused, SourceError (STATE)."""
    return Mirror(folder, remote(settings.repository), timeouts=Timeouts(silence=settings.repository.timeout))


def remote(repository: RepositorySettings) -> Remote:
    """The repository with its credential files. Raises SettingsError without a URL, RemoteRefused for a bad one."""
    if repository.url is None:
        raise SettingsError("settings: repository.url: name a Git repository, or a folder with path")
    folder = repository.credentials_dir
    base = CredentialFiles() if folder is None else CredentialFiles.from_folder(folder)
    credentials = CredentialFiles(
        username=repository.username_file or base.username,
        password=repository.password_file or base.password,
        token=repository.token_file or base.token,
        private_key=repository.private_key_file or base.private_key,
        passphrase=repository.passphrase_file or base.passphrase,
        known_hosts=repository.known_hosts_file or base.known_hosts,
        ca=repository.ca_file or base.ca,
    )
    proxy, http = repository.proxy, repository.allow_http
    return Remote(repository.url, repository.branch, credentials, allow_http=http, proxy=proxy)


class CountedConnector(FolderConnector):
    """Tells the metrics of every connection it opens."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: ConnectionSettings,
        account: ServiceAccount | None,
        metrics: PrometheusMetrics,
    ) -> None:
        super().__init__(folder, settings=settings, account=account)
        self._metrics = metrics

    async def open(self, cluster: Cluster) -> Connection:
        connection = await super().open(cluster)
        self._metrics.api.track(connection.name, connection.stats)
        return connection


def connector(settings: Settings, metrics: PrometheusMetrics | None = None) -> FolderConnector:
    if not settings.credentials_dir.is_dir():
        log.warning("credentials_dir %s is not there: no cluster can be reached", settings.credentials_dir)
    limits = ConnectionSettings(max_in_flight=settings.requests_in_flight)
    account = ServiceAccount.of_pod() if settings.in_cluster else None
    if metrics is None:
        return FolderConnector(settings.credentials_dir, settings=limits, account=account)
    return CountedConnector(settings.credentials_dir, settings=limits, account=account, metrics=metrics)


def context(settings: Settings, metrics: PrometheusMetrics | None) -> Context:
    """What the engine is given. Raises SettingsError or OSError for bad schema files, MappingError when shipped data is
    broken."""
    made = Context(
        options=engine_options(settings),
        registry=settings.operator_registry(),
        mappings=Mappings.shipped(),
        clock=time.monotonic,
        wall=time.time,
        files=schema_files(settings),
        ownership=settings.ownership(),
    )
    return made if metrics is None else replace(made, metrics=metrics)


def schema_files(settings: Settings) -> Published:
    """What the files that the settings name say. A file that cannot be used is a mistake, as in the settings."""
    named = settings.schemas or ([] if settings.path is None else default_folders(settings.path))
    files = load_published(named)
    if files.findings:
        raise SettingsError(
            "\n".join(f"settings: schemas: {found.origin}: {found.message}" for found in files.findings)
        )
    return files


def engine_options(settings: Settings) -> EngineOptions:
    return EngineOptions(
        identity=settings.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}",
        poll_interval=settings.poll_interval,
        poll_jitter=settings.poll_jitter,
        parallel_units=settings.parallel_units,
        requests_in_flight=settings.requests_in_flight,
        first_contact=settings.first_contact,
        first_look=settings.first_look,
        status_debounce=settings.status.debounce,
        status_interval=settings.status.interval,
        shutdown=settings.shutdown_timeout * _ENGINE_SHARE,
        deletion_deadline=settings.deletion_deadline,
        audit_interval=settings.audit.interval,
        audit_sample=settings.audit.sample,
        lease=LeaseTimes.of(settings.lease_duration),
        fuse=settings.fuse.limits(),
        fights=FightLimits(settings.fights.limit, settings.fights.half_life, settings.fights.longest),
    )


def _server(settings: Settings, engine: Engine, metrics: PrometheusMetrics, *, alive: Callable[[], bool]) -> HttpServer:
    host, port = split_listen(settings.listen)
    webhook = Webhook(
        secret_file=settings.webhook.secret_file,
        request_fetch=engine.request_fetch,
        metrics=metrics,
        rate=settings.webhook.rate,
        max_body=settings.webhook.max_body,
    )
    return HttpServer(
        host=host, port=port, alive=alive, readiness=lambda: readiness(engine), metrics=metrics, webhook=webhook
    )


def readiness(engine: Engine) -> Readiness:
    """Ready once a head is compiled. An unreachable cluster or repository does not make a daemon unready: a restart or
    less traffic would help neither, and the other clusters are served."""
    health = engine.health()
    problems = [text for text in (health.source_problem, health.status_problem) if text]
    message = "; ".join(problems) or ("ready" if health.ready else "no head has been read yet")
    return Readiness(health.ready, message, {"head": health.head, "clusters": dict(health.clusters)})


async def _watch(folder: Path, changed: Callable[[], None], *, hidden: bool = False) -> None:
    """Call `changed` after changes in a folder. A folder that cannot be watched is said once: polling covers it."""
    try:
        async for _ in watch_folder(folder, hidden=hidden):
            changed()
    except OSError as error:
        log.warning("%s cannot be watched, changes there are noticed later: %s", folder, error)


# -- signals ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def handled_signals(stop: asyncio.Event, reload: Callable[[], object], timeout: float) -> Iterator[None]:
    """First SIGINT or SIGTERM: set `stop`, and end the process if it is still there after `timeout` seconds. Second:
    end it at once. SIGHUP: `reload`."""
    loop = asyncio.get_running_loop()
    deadline = threading.Timer(timeout, _too_late, [timeout])
    deadline.daemon = True
    asked = False

    # Plain handlers and not the loop's: they run between two byte codes of the main thread, also in a stuck loop.
    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(INTERRUPTED)
        asked = True  # at once: a second signal may come in the middle of the next line
        deadline.start()
        loop.call_soon_threadsafe(begin)

    def begin() -> None:
        log.info("stopping; a second signal ends the process at once")
        stop.set()

    def hang_up(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(reload)

    wanted = {signal.SIGINT: end, signal.SIGTERM: end, signal.SIGHUP: hang_up}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        deadline.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _too_late(timeout: float) -> None:
    log.error("not stopped within %g s: ending the process", timeout)
    os._exit(INTERRUPTED)
