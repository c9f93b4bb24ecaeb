"""`gitops rbac`: the gate of rights for files or for the operators of a cluster, and the least rights of the daemon."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.cli.rbac_output import Checked
    from gitops.cluster.errors import ApiError
    from gitops.cluster.rights import LiveRights
    from gitops.model.operators import OperatorType
    from gitops.policy.rbac.roles import Account
    from gitops.settings import Settings

application = typer.Typer(
    help="What operators may do on a cluster, and what the daemon must.", no_args_is_help=True, rich_markup_mode=None
)


@application.callback()
def _group() -> None:
    pass


@application.command("check")
def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Manifests with roles and bindings; - is standard input.", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="Name of the cluster's credentials: read its roles.", show_default=False),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option("--operator", help="Operator type whose accepted rights count.", show_default=False),
    ] = None,
    config: options.Config = None,
    credentials_dir: options.Credentials = None,
    format: options.Format = "text",
    set_: options.Set = None,
) -> None:
    """Judge what roles give to an operator's ServiceAccounts: wildcards and escalation are refused, the rest is listed.

    With files every ServiceAccount in them is judged, or, without bindings, every role as if it were bound. With
    --cluster each operator type is, by all roles of the cluster. Exits with 1 when rights are refused, with 2 when
    something could not be read.
    """
    from gitops.cli import rbac_output, terminal

    if bool(files) == (cluster is not None):
        _fail("name files to check, or a cluster with --cluster")
    flags: dict[str, object] = {"credentials_dir": credentials_dir}
    settings = options.settings_from(config=config, pairs=set_, flags=flags, quiet=True)
    chosen = _operator(operator, settings)
    checked = _of_files(files or [], chosen) if cluster is None else _of_cluster(cluster, settings, chosen)
    if format == "json":
        terminal.print_json(rbac_output.as_json(checked))
    else:
        rbac_output.print_text(checked)
    if not checked.readable:
        raise typer.Exit(Exit.USAGE)
    if not all(part.judgement.passes for part in checked.parts):
        raise typer.Exit(Exit.FINDINGS)


def _fail(sentence: str) -> NoReturn:
    from gitops.readiness.texts import printable

    typer.echo(f"gitops: {printable(sentence)}", err=True)
    raise typer.Exit(Exit.USAGE)


def _operator(name: str | None, settings: Settings) -> OperatorType | None:
    types = settings.operator_registry().types
    if name is not None and name not in types:
        _fail(f"there is no operator type {name}; choose one of {', '.join(sorted(types))}")
    return None if name is None else types[name]


def _of_files(names: list[str], operator: OperatorType | None) -> Checked:
    from gitops.cli.rbac_output import Checked, Part
    from gitops.policy.rbac.gate import judge_accounts, judge_roles
    from gitops.policy.rbac.manifests import add_file
    from gitops.policy.rbac.operators import accepted_by
    from gitops.policy.rbac.resolving import accounts_in, unbound_roles
    from gitops.policy.rbac.reviewing import shipped_rights
    from gitops.policy.rbac.roles import RbacObjects

    objects = RbacObjects()
    checked = Checked(operator=operator.metadata.name if operator is not None else "")
    for name in dict.fromkeys(names):
        checked.files[name] = _read(name)
        result = add_file(objects, checked.files[name], file=name)
        checked.findings += result.findings
        checked.readable = checked.readable and result.readable
    accepted = accepted_by(operator) if operator is not None else ()
    if objects.bindings:
        accounts = accounts_in(objects)
        judgement = judge_accounts(accounts, objects, shipped_rights(), accepted)
        checked.parts.append(Part("files", judgement, accounts, unbound=unbound_roles(accounts, objects)))
    elif objects.roles:
        checked.parts.append(Part("files", judge_roles(objects, shipped_rights(), accepted)))
    elif checked.readable:
        _fail("there is no role in these files")
    return checked


def _read(name: str) -> bytes:
    """A file's bytes, or what is on standard input; not more than a manifest may have."""
    from gitops.manifests.file_state import DEFAULT_LIMITS

    if name == "-":
        return sys.stdin.buffer.read(DEFAULT_LIMITS.file_bytes + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(DEFAULT_LIMITS.file_bytes + 1)
    except OSError as error:
        _fail(f"{name}: cannot be read: {error.strerror}")


def _of_cluster(name: str, settings: Settings, operator: OperatorType | None) -> Checked:
    import asyncio

    from gitops.cli.rbac_output import Checked, Part
    from gitops.cluster.errors import ApiError, RequestFailed
    from gitops.policy.rbac.operators import judge_operator
    from gitops.policy.rbac.reviewing import shipped_rights

    types = list(settings.operator_registry().types.values()) if operator is None else [operator]
    try:
        found = asyncio.run(_live(name, settings, types))
    except RequestFailed as error:
        found = error.error
    if isinstance(found, ApiError):
        _fail(f"{name}: the roles cannot be read: {found}")
    checked = Checked(cluster=name, operator=operator.metadata.name if operator is not None else "")
    for each in types:
        judgement = judge_operator(each, found.accounts, found.objects, shipped_rights())
        checked.parts.append(Part(each.metadata.name, judgement, found.accounts[each.metadata.name]))
    return checked


async def _live(name: str, settings: Settings, types: list[OperatorType]) -> LiveRights | ApiError:
    """Roles and bindings of a cluster. Raises RequestFailed."""
    from gitops.cluster.connection import Connection
    from gitops.cluster.credentials import CredentialsFolder, MissingCredentials
    from gitops.cluster.discovery import Discovery
    from gitops.cluster.errors import RequestFailed, given
    from gitops.cluster.objects import Objects
    from gitops.cluster.rights import read_rights
    from gitops.model.identity import ClusterName

    found = CredentialsFolder(settings.credentials_dir).find(name)
    if isinstance(found, MissingCredentials):
        raise RequestFailed(given("NoCredentials", found.sentence))
    connection = await Connection.open(found.path, name=ClusterName(name))
    try:
        return await read_rights(Objects(connection, Discovery(connection)), types)
    finally:
        await connection.close()


@application.command("roles")
def roles(
    cluster: Annotated[str, typer.Argument(help="Name of a Cluster document.", show_default=False)],
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.")] = Path(),
    service_account: Annotated[
        str, typer.Option(help="Who gets the rights: NAMESPACE/NAME of the daemon's account there.")
    ] = "gitops-system/gitops",
    config: options.Config = None,
    set_: options.Set = None,
) -> None:
    """Print the least roles that the daemon needs on a cluster for what the repository declares there, as YAML.

    Nothing is changed anywhere; docs/rights.md explains each rule. Exits with 1 when the repository has errors: what
    they hide is not in the roles.
    """
    from gitops.cli import terminal
    from gitops.cli.folders import compiled_folder
    from gitops.cli.rbac_roles import manifests
    from gitops.model.identity import ClusterName, ReconcilerName
    from gitops.plan.least_rights import least_rights

    account = _account(service_account)
    settings = options.settings_from(config=config, pairs=set_, flags={}, quiet=True)
    registry = settings.operator_registry()
    tree, compilation = compiled_folder(path, registry=registry)
    if compilation.repository is None or cluster not in compilation.clusters:
        terminal.print_findings(compilation.errors, tree.read, terminal.console(stderr=True))
        _fail(f"the repository has no cluster {cluster} that can be used")
    reconciler = ReconcilerName(compilation.repository.metadata.name)
    rights = least_rights(compilation, ClusterName(cluster), registry, reconciler=reconciler)
    labels = compilation.clusters[cluster].spec.namespaceTemplate.labels
    text = manifests(rights, account, cluster=cluster, reconciler=reconciler, preflight_labels=labels)
    typer.echo(text, nl=False)
    if compilation.errors:
        terminal.print_findings(compilation.errors, tree.read, terminal.console(stderr=True))
        raise typer.Exit(Exit.FINDINGS)


def _account(text: str) -> Account:
    """`namespace/name` of a ServiceAccount; what has another form ends the command."""
    from pydantic import TypeAdapter, ValidationError

    from gitops.model.documents import AccountName
    from gitops.policy.rbac.roles import Account

    namespace, slash, name = text.partition("/")
    try:
        TypeAdapter(AccountName).validate_python(text)
    except ValidationError:
        slash = ""
    if not slash:
        _fail(f"--service-account {text}: write NAMESPACE/NAME, as in gitops-system/gitops")
    return Account(namespace, name)
