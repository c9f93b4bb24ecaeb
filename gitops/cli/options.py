"""Options that several commands share, and settings made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from gitops.settings import Settings

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings file (or GITOPS_CONFIG).", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of docs/settings.md.", show_default=False),
]
Url = Annotated[str | None, typer.Option("--repository-url", help="URL of the Git repository.", show_default=False)]
Branch = Annotated[str | None, typer.Option("--branch", help="Branch to apply.", show_default=False)]
Folder = Annotated[
    Path | None, typer.Option("--path", help="Folder to use instead of a Git repository.", show_default=False)
]
State = Annotated[Path | None, typer.Option("--state-dir", help="Folder for caches.", show_default=False)]
Credentials = Annotated[
    Path | None, typer.Option("--credentials-dir", help="Folder of kubeconfigs, by name.", show_default=False)
]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="REV",
        help="Also check what changes since the folder's repository parted from this revision.",
        show_default=False,
    ),
]
Format = Annotated[Literal["text", "json"], typer.Option("--format", "-f", help="text for people, json for scripts.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.", show_default=False)]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="auto, json or text.", show_default=False)]


def settings_from(
    *, config: Path | None, pairs: list[str] | None, flags: dict[str, object], quiet: bool = False
) -> Settings:
    """Settings of file, environment, `--set` pairs and flags (strongest last). Raises SettingsError.

    Logging is set up from them; `quiet` shows warnings only, for commands whose output is something else.
    """
    from gitops import logs
    from gitops.settings import SettingsError, load_settings

    given: dict[str, object] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"flags: --set {pair}: write it as NAME=VALUE")
        given[name.strip()] = value
    given |= {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(config=config, flags=given)
    level = settings.log.level
    logs.configure(level="warning" if quiet and level == "info" else level, format=settings.log.format)
    return settings
