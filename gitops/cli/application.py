"""The `gitops` application: its commands, `--version`, and what becomes of exceptions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gitops.cli import apply, drift, explain, init, plan, rbac, run, schema, schemas, status, validate
from gitops.cli.exits import Exit

application = typer.Typer(
    name="gitops",
    help="Keeps GPU workloads on Kubernetes as a Git repository declares them, and commits their readiness back.",
    epilog="Exit codes: docs/exit-codes.md. Settings: docs/settings.md.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

application.command("run")(run.run)
application.command("validate")(validate.validate)
application.command("plan")(plan.plan)
application.command("explain")(explain.explain)
application.command("apply")(apply.apply)
application.command("status")(status.status)
application.command("drift")(drift.drift)
application.command("init")(init.init)
application.command("schema")(schema.schema)
application.add_typer(schemas.group, name="schemas")
application.add_typer(rbac.application, name="rbac")


def _version(wanted: bool) -> None:
    if wanted:
        from gitops.cli.version import installed_version

        typer.echo(f"gitops {installed_version() or '(not installed)'}")
        raise typer.Exit


@application.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run_application(arguments: list[str] | None = None) -> None:
    """Run one command and exit the process. What people got wrong is one line; a defect is a traceback and code 70."""
    try:
        application(arguments, prog_name="gitops")
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        if _is_mistake(error):
            for line in _sentence(error).splitlines():
                typer.echo(f"gitops: {line}", err=True)
            sys.exit(Exit.USAGE)
        import traceback

        from gitops.logs import REDACTOR

        typer.echo(REDACTOR("".join(traceback.format_exception(error))), err=True, nl=False)
        sys.exit(Exit.DEFECT)


def _sentence(error: Exception) -> str:
    """Without the number that Python puts before the words of the operating system."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _is_mistake(error: Exception) -> bool:
    """Mistakes of people and of their surroundings, told by one sentence. By name: none is imported for this."""
    names = {c.__name__ for c in type(error).__mro__}
    return bool(names & {"SettingsError", "RemoteRefused", "SourceError", "NoSuchRevision", "OSError"})
