"""Settings: one model, read from flags, environment and a YAML file, in that order of priority.

A setting has one name everywhere: `webhook.secret_file` in the file is `GITOPS_WEBHOOK__SECRET_FILE` in the environment
and `--set webhook.secret_file=…` as a flag. Secrets are never values here, only names of files that hold them, so that
neither a process list nor an environment dump shows one. docs/settings.md is generated from the docstrings below.

An unknown key is an error with the nearest known name. In the environment only near misses are: Kubernetes puts
variables of its own there (a Service called `gitops-x` yields GITOPS_X_PORT), which must not stop a pod from starting.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gitops.model.identity import GroupVersionKind

if TYPE_CHECKING:
    from gitops.plan.pruning import FuseLimits
    from gitops.policy.ownership import Ownership
    from gitops.policy.registry import OperatorRegistry

ENV_PREFIX = "GITOPS_"
ENV_DELIMITER = "__"
CONFIG_VARIABLE = "GITOPS_CONFIG"
"""Names the settings file when no --config is given."""

_DURATION = re.compile(
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?!s))?"
    r"(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+)ms)?"
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_TYPE = re.compile(r"(?:(?P<group>[a-z0-9][-a-z0-9.]*)/)?(?P<version>v[0-9][a-z0-9]*)/(?P<kind>[A-Z][A-Za-z0-9]*)\Z")

_SERVICE_VARIABLE = re.compile(
    r"_(PORT|SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_.*)$"
)  # Kubernetes, one set per Service


class SettingsError(ValueError):
    """What a person got wrong in the settings: one line per mistake, each naming the setting."""


@contextmanager
def _mistakes(setting: str) -> Iterator[None]:
    """What is wrong with files that a setting names, as SettingsError."""
    try:
        yield
    except (OSError, ValueError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        lines = text.splitlines()
        raise SettingsError("\n".join(f"settings: {setting}: {line}" for line in lines)) from None


def parse_duration(value: object) -> object:
    """`30s`, `1m30s`, `12h`, `500ms` or a plain number of seconds → seconds. Other types pass through to pydantic."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        return float(text)
    except ValueError:
        pass
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError("write a duration as 30s, 1m30s, 12h, 500ms or a number of seconds")
    return sum(float(amount) * _UNITS[unit] for unit, amount in match.groupdict().items() if amount)


Seconds = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]


def _expand(value: object) -> object:
    return Path(value).expanduser() if isinstance(value, str | Path) else value


def _listed(value: object) -> object:
    """Texts separated by commas, as variables and flags have them; lists pass through."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _parsed(types: tuple[str, ...]) -> tuple[str, ...]:
    for text in types:
        parse_type(text)
    return types


def parse_type(text: str) -> GroupVersionKind:
    """`batch/v1/Job`, or `v1/Pod` for the core group. Raises ValueError."""
    match = _TYPE.match(text)
    if match is None:
        raise ValueError("write a type as group/version/Kind, as in batch/v1/Job, or v1/Pod for the core group")
    return GroupVersionKind(match["group"] or "", match["version"], match["kind"])


ExtraTypes = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_parsed)]
NotNegative = Annotated[float, BeforeValidator(parse_duration), Field(ge=0, allow_inf_nan=False)]
FilePath = Annotated[Path, BeforeValidator(_expand)]


def _split(value: object) -> object:
    return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value


FilePaths = Annotated[list[FilePath], BeforeValidator(_split)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RepositorySettings(Group):
    """Where the manifests repository is and how to reach it."""

    url: str | None = None
    """URL of the Git repository: https://, ssh:// (or git@host:path) or file://. No credentials in it: use the files
    below. Exactly one of `repository.url` and `path` is needed to run."""

    branch: str = "main"
    """Branch whose head is applied."""

    credentials_dir: FilePath | None = None
    """Folder with the credential files under the names that Kubernetes' Secret types use: `username`, `password` or
    `token` for https, `ssh-privatekey`, `passphrase` and `known_hosts` for ssh, `ca.crt`. The files below replace
    single ones. All are read again at every fetch, so a rotated Secret needs no restart."""

    username_file: FilePath | None = None
    """File with the user name for https."""

    password_file: FilePath | None = None
    """File with the password for https."""

    token_file: FilePath | None = None
    """File with an access token for https, instead of user name and password."""

    private_key_file: FilePath | None = None
    """Private key for ssh (OpenSSH or PEM format)."""

    passphrase_file: FilePath | None = None
    """File with the passphrase of the private key, when it has one."""

    known_hosts_file: FilePath | None = None
    """Host keys that ssh accepts, as OpenSSH writes them. Needed for ssh: a host that is not in it is refused, because
    accepting any key would hand the clusters to whoever answers first."""

    ca_file: FilePath | None = None
    """PEM bundle of certificate authorities for https, added to the system's."""

    allow_http: bool = False
    """Allow plain http:// to other machines. It sends credentials in clear text; loopback needs no permission."""

    proxy: str | None = None
    """Proxy for https: a URL, or `env` for the one in the environment. Default: none, whatever the environment says."""

    timeout: Seconds = 30.0
    """Seconds after which a silent server is given up during a fetch or push; the last good head stays."""

    @field_validator("url")
    @classmethod
    def _no_password_in_url(cls, value: str | None) -> str | None:
        if value is not None and re.match(r"[a-z+]+://[^/@]*:[^/@]*@", value, re.IGNORECASE):
            raise ValueError("holds a password; put it into a file, named in repository.token_file or password_file")
        return value


class WebhookSettings(Group):
    """The endpoint that a forge calls after a push (POST /webhook)."""

    secret_file: FilePath | None = None
    """File with the secret shared with the forge. Without it the endpoint is closed (404 to everybody): an open one
    lets anybody make the daemon fetch as often as they like."""

    rate: Annotated[float, Field(gt=0)] = 5.0
    """Deliveries per second that are looked at, over all senders; more are answered 429 before the body is read. All
    that arrive during a fetch lead to one more fetch, so a low number loses nothing."""

    max_body: Annotated[int, Field(ge=1024)] = 1024 * 1024
    """Largest body accepted, in bytes; larger ones are answered 413 without being read."""


class LogSettings(Group):
    """What is logged, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level shown."""

    format: Literal["auto", "json", "text"] = "auto"
    """`json` is one object a line with time, level, logger, message, unit, cluster and commit; `text` is for people;
    `auto` is text on a terminal and json elsewhere."""


class StatusSettings(Group):
    """What the daemon commits to the status branch (its name is in the repository: gitops.yaml)."""

    author_name: str = "gitops-reconciler"
    """Author and committer of status commits."""

    author_email: str = "gitops-reconciler@localhost"
    """E-mail address of status commits; forges link it to an account."""

    debounce: Seconds = 0.5
    """Seconds to wait for more changes before a status commit, so that a burst becomes one."""

    interval: Seconds = 10.0
    """Least seconds between two status commits; keeps history short and forges calm while a rollout moves."""


class FuseSettings(Group):
    """Deletions that need a `Gitops-Allow-Prune` trailer in a commit message. A folder (`path`) has no commits: raise
    the limits for as long as it takes."""

    count: Annotated[int, Field(ge=0)] = 50
    """Deletions per commit and cluster that go without asking; one more and none happens."""

    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest part of a still declared unit's objects that one commit may delete without asking (0.5 = half)."""

    share_floor: Annotated[int, Field(ge=1)] = 4
    """Objects that a unit must have for `fuse.share` to count, so that small units can lose one without ceremony."""

    def limits(self) -> FuseLimits:
        from gitops.plan.pruning import FuseLimits

        return FuseLimits(self.count, self.share, self.share_floor)


class FightSettings(Group):
    """When repair gives way: another writer that keeps undoing it is reported instead of fought for ever."""

    limit: Annotated[float, Field(ge=1)] = 5.0
    """Repairs of one field (or deletions of one object) in quick succession that make it contested."""

    half_life: Seconds = 60.0
    """Seconds in which that count halves, so that rare repairs never add up; also the first pause before a contested
    field is tried again. Each try that is undone doubles it."""

    longest: Seconds = 3600.0
    """Seconds that such a pause lasts at most."""


class AuditSettings(Group):
    """The slow audit: what a watch may have kept from the daemon is found all the same."""

    interval: Seconds = 43200.0
    """Seconds between audits of one cluster, varied by up to a tenth at random; one cluster at a time. Every kind is
    listed in pages and compared, only what differs is repaired. The first is at a random time within the interval."""

    sample: Annotated[int, Field(ge=0, le=1000)] = 20
    """Objects of each audit for which a dry run proves that an apply would change nothing. Two calls each."""


class Settings(BaseSettings):
    """Settings of the daemon."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        use_attribute_docstrings=True,
        nested_model_default_partial_update=True,
        validate_default=True,
    )

    repository: RepositorySettings = RepositorySettings()

    path: FilePath | None = None
    """Folder to apply instead of a Git repository (`gitops run --path`): files are applied as they are saved, and
    status goes to a folder in `state_dir`, not to Git."""

    state_dir: FilePath = Path("~/.local/state/gitops")
    """Folder for the mirror of the repository and other caches. All of it may be lost at any time; keep it on a disk
    that survives restarts only to start faster."""

    credentials_dir: FilePath = Path("~/.config/gitops/clusters")
    """Folder of kubeconfig files, one per credential: `dgx-a` or `dgx-a.yaml` for `credentials: dgx-a` in a Cluster
    document. A changed file, and every file that it names (token, certificate, key, authority), is read again within
    seconds; docs/clusters.md tells what is supported."""

    in_cluster: bool = False
    """Let Cluster documents say `credentials: in-cluster`: the cluster that the daemon runs in, with the rights of its
    pod's service account. Whoever may change the repository may then use these rights."""

    schemas: FilePaths = []
    """Files and folders with CustomResourceDefinitions, or copies that `gitops schemas pull` made, for kinds of which
    the clusters themselves tell no schema. With `path` and none named: `.gitops/schemas` in that folder. In the
    environment and with --set they are separated by `:`."""

    poll_interval: Seconds = 60.0
    """Seconds between two looks at the repository when no webhook calls. A look costs one small request."""

    poll_jitter: NotNegative = 10.0
    """Seconds by which that varies at random, so that daemons started together do not fetch together."""

    first_contact: Seconds = 5.0
    """Seconds to wait at start for every cluster to answer: what runs there pins instances to clusters. One that is
    slow is then left out until it answers, so that it does not keep the others waiting."""

    first_look: Seconds = 15.0
    """Seconds after the start, or after taking over from another daemon, for which status files wait until what can be
    reached has been looked at, so that "unknown" is not written over what they say."""

    listen: str = "127.0.0.1:8080"
    """Address and port of /healthz, /readyz, /metrics and /webhook. Loopback by default; `0.0.0.0:8080` in a pod. Port
    0 takes a free one (the log says which)."""

    identity: str | None = None
    """Name of this process in the Lease that admits one writer per cluster. Default: host name and a random part, new
    at each start. Set it only where names are unique for sure (a StatefulSet's pod name)."""

    lease_duration: Annotated[Seconds, Field(ge=3, le=60)] = 15.0
    """Seconds without a sign of life after which another process takes over a cluster, 3 to 60. It is renewed every
    third of that; a process that could not for two thirds writes no more. Lower is faster, and takes over from one that
    is only slow."""

    parallel_units: Annotated[int, Field(ge=1, le=256)] = 16
    """Units worked on at the same time per cluster. More than `requests_in_flight`, to fill the gaps between a unit's
    stages."""

    requests_in_flight: Annotated[int, Field(ge=1, le=64)] = 8
    """Requests in flight to one cluster, watches not counted. An API server is busy with four; more mostly queue.
    Answers of 429 lower it for a while."""

    operator_types: FilePaths = []
    """Files and folders with OperatorType documents, beside the types that ship with the program (docs/onboarding.md).
    A repository can only narrow what is there. In the environment and with --set they are separated by `:`."""

    ownership_tables: FilePaths = []
    """Files and folders with OwnershipTable documents: whose a field is that other managers write too. Their rules come
    before those that ship with the program (docs/ownership.md). In the environment and with --set they are separated by
    `:`."""

    extra_kubernetes_types: ExtraTypes = ()
    """Kinds that functions and tasks may contain beside those of their operator types, where a validation policy of
    the repository names them: a list of `batch/v1/Job` or `v1/Pod`, in a variable or flag separated by commas. Whoever
    may change the repository may then create them with the daemon's rights: namespaced kinds only, and none that
    grants rights."""

    fuse: FuseSettings = FuseSettings()
    fights: FightSettings = FightSettings()
    audit: AuditSettings = AuditSettings()
    webhook: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    status: StatusSettings = StatusSettings()

    deletion_deadline: Seconds = 600.0
    """Seconds after which an object whose deletion a finalizer holds is reported as blocked, with who holds it since
    when. Finalizers are never taken off; it is looked at ever more rarely, and other units go on."""

    shutdown_timeout: Annotated[Seconds, Field(le=600)] = 10.0
    """Seconds a stop may take: calls in flight end, status is written, Leases are released. What is left then is
    dropped; a later start picks up from the clusters."""

    @property
    def permitted_types(self) -> list[GroupVersionKind]:
        """`extra_kubernetes_types`, read."""
        return [parse_type(text) for text in self.extra_kubernetes_types]

    def operator_registry(self) -> OperatorRegistry:
        """The operator types that ship, those of `operator_types`, and what `extra_kubernetes_types` permits. Raises
        SettingsError."""
        from gitops.policy.registry import OperatorRegistry
        from gitops.source.policy_files import with_operator_types

        with _mistakes("operator_types"):
            registry = with_operator_types(OperatorRegistry.shipped(), self.operator_types)
        return registry.permitting(self.permitted_types)

    def ownership(self) -> Ownership:
        """The ownership tables: those of `ownership_tables`, then those that ship. Raises SettingsError."""
        from gitops.policy.ownership import Ownership
        from gitops.source.policy_files import with_ownership_tables

        with _mistakes("ownership_tables"):
            return with_ownership_tables(Ownership.shipped(), self.ownership_tables)

    @field_validator("listen")
    @classmethod
    def _listen(cls, value: str) -> str:
        split_listen(value)
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Settings:
        if self.path is not None and self.repository.url is not None:
            raise ValueError("repository.url and path exclude each other: apply a Git repository or a folder")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # load_settings merges the three sources itself, to name the source of a mistake


def split_listen(value: str) -> tuple[str, int]:
    """`127.0.0.1:8080` or `[::1]:8080` → host and port. Raises ValueError."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError("write an address and a port, as in 127.0.0.1:8080 or [::1]:8080")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("put an IPv6 address into brackets, as in [::1]:8080")
    return host or "0.0.0.0", int(port)


def load_settings(
    *, config: Path | None = None, flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Read settings. `flags` are dotted names with values (None = not given); `environ` defaults to the process's.

    Raises SettingsError with every mistake found and where it came from (flag, variable or file).
    """
    environ = os.environ if environ is None else environ
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE]).expanduser()
    by_source: list[tuple[str, dict[str, Any]]] = []
    if config is not None:
        by_source.append((str(config), _read_file(config)))
    by_source.append(("environment", _read_environment(environ)))
    by_source.append(("flags", _nest({k: v for k, v in (flags or {}).items() if v is not None})))
    merged: dict[str, Any] = {}
    for _, values in by_source:
        merged = _merge(merged, values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(error, by_source))) from error


def known_settings() -> list[str]:
    """Dotted names of all settings, in the order of the model."""
    return [name for name, _ in _leaves(Settings)]


def _leaves(model: type[BaseModel], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += _leaves(inner, f"{prefix}{name}.")
        else:
            found.append((prefix + name, field))
    return found


class _Strict(yaml.SafeLoader):
    """Refuses a key that is written twice: PyYAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(None, None, f"line {line}: {key_node.value} is written twice")
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


def _read_file(config: Path) -> dict[str, Any]:
    try:
        value = yaml.load(config.read_text(encoding="utf-8"), _Strict)
    except OSError as error:
        raise SettingsError(f"{config}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{config}: cannot be read: it is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{config}: not valid YAML: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SettingsError(f"{config}: must be a map of settings")
    return value


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {ENV_PREFIX + name.replace(".", ENV_DELIMITER).upper(): name for name in known_settings()}
    flat: dict[str, object] = {}
    for variable, value in environ.items():
        if variable in known:
            flat[known[variable]] = value
        elif variable.startswith(ENV_PREFIX) and variable != CONFIG_VARIABLE:
            near = difflib.get_close_matches(variable, known, n=1, cutoff=0.87)
            if near and not _SERVICE_VARIABLE.search(variable):
                raise SettingsError(f"environment: unknown variable {variable}; did you mean {near[0]}?")
    return _nest(flat)


def _nest(flat: Mapping[str, object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")
        target = nested
        for group in groups:
            target = target.setdefault(group, {})
        target[last] = value
    return nested


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


_MESSAGES = {
    "model_type": "write a map of its settings",
    "dict_type": "write a map of its settings",
    "string_type": "write text; put quotes around a number or truth value",
}
"""In place of pydantic's words, which name its classes. Keys: pydantic's types of errors."""


def _explain(error: ValidationError, by_source: list[tuple[str, dict[str, Any]]]) -> list[str]:
    lines = []
    for detail in error.errors(include_input=False, include_url=False):
        path = [str(part) for part in detail["loc"]]
        name = ".".join(path) or "settings"
        source = next((source for source, values in reversed(by_source) if _has(values, path)), "settings")
        if detail["type"] == "extra_forbidden":
            near = difflib.get_close_matches(name, known_settings(), n=1)
            hint = f"; did you mean {near[0]}?" if near else "; docs/settings.md lists all"
            lines.append(f"{source}: unknown setting {name}{hint}")
        else:
            message = _MESSAGES.get(detail["type"], detail["msg"].removeprefix("Value error, "))
            lines.append(": ".join([source, *([name] if path else []), message]))
    return lines


def _has(values: object, path: list[str]) -> bool:
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return bool(path)
