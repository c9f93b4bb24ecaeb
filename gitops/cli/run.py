"""`gitops run`: the daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from gitops.cli import options


def run(
    config: options.Config = None,
    repository_url: options.Url = None,
    branch: options.Branch = None,
    path: options.Folder = None,
    credentials_dir: options.Credentials = None,
    state_dir: options.State = None,
    schemas: options.Schemas = None,
    poll_interval: Annotated[
        str | None, typer.Option(help="Time between two looks at the repository (30s, 5m).", show_default=False)
    ] = None,
    listen: Annotated[str | None, typer.Option(help="Address and port of the endpoints.", show_default=False)] = None,
    identity: Annotated[str | None, typer.Option(help="Name in the Leases.", show_default=False)] = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    set_: options.Set = None,
) -> None:
    """Apply the repository to its clusters, repair drift, report readiness, until stopped.

    Ctrl-C stops cleanly within 10 s; a second one at once. SIGHUP looks at the repository now.
    """
    import asyncio
    import signal

    from gitops import daemon

    flags: dict[str, object] = {
        "repository.url": repository_url,
        "repository.branch": branch,
        "path": path,
        "credentials_dir": credentials_dir,
        "state_dir": state_dir,
        "schemas": schemas or None,
        "poll_interval": poll_interval,
        "listen": listen,
        "identity": identity,
        "log.level": log_level,
        "log.format": log_format,
    }
    asyncio.run(daemon.run(options.settings_from(config=config, pairs=set_, flags=flags)))
    # All is done; what is left is the interpreter's own end, which a signal may cut short without a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
