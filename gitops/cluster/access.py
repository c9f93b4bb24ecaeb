"""How to reach and authenticate to one cluster, from a kubeconfig, and when that has to be looked at again.

`kubernetes.aio.config` is the authentication layer (tokens, client certificates, exec plugins, OIDC); it is imported
only when the first cluster is opened, because it costs 0.4 s and 46 MB that offline commands should not pay. From it
come an SSL context and an Authorization header; the HTTP session is ours (gitops/cluster/connection.py).
"""

from __future__ import annotations

import datetime
import gc
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gitops.cluster.credentials import FileIdentity, file_identity
from gitops.cluster.errors import RequestFailed, given

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

YOUNG_OBJECTS = 20_000
"""How many objects are made, beyond those that go, until cycles are looked for among them."""

EXPIRY_MARGIN = datetime.timedelta(minutes=5)
"""An exec plugin's token is renewed this long before it ends, as kubernetes.aio itself does."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a cluster is and how TLS is done there. Equal endpoints can share one HTTP session."""

    host: str
    proxy: str
    server_name: str
    tls: tuple[str, ...]  # identities of CA, certificate and key, and whether the server is verified


@dataclass(frozen=True, slots=True)
class Access:
    """One loaded kubeconfig. `renew_at` is when an exec plugin's token has to be renewed, None where nobody knows."""

    endpoint: Endpoint
    ssl_context: ssl.SSLContext | None
    configuration: Configuration
    files: tuple[tuple[Path, FileIdentity | None], ...]
    renew_at: datetime.datetime | None = None

    async def authorization(self) -> str | None:
        """Value of the Authorization header. Asked for each request: it is what triggers kubernetes' refresh hooks."""
        return await self.configuration.get_api_key_with_prefix("BearerToken") or None

    def outdated(self, now: datetime.datetime) -> bool:
        """Has a file behind it changed (kubeconfig, token file), or does its token end soon?"""
        if self.renew_at is not None and now >= self.renew_at - EXPIRY_MARGIN:
            return True
        return any(_identity(path) != identity for path, identity in self.files)


def load_libraries() -> None:
    """For daemons, once at the start, on any thread: import what the first connection would, and take all that is
    loaded out of the garbage collector's sight. Some hundred thousand objects of libraries never become garbage, and
    looking through them stopped everything for 60 ms and more now and then. What comes later lives long too, and hardly
    anything is ever a cycle: looked for at each 700 new objects, cycles took a tenth of a restart's time."""
    import kubernetes.aio.client
    import kubernetes.aio.config  # noqa: F401 - for its effect

    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


async def load_access(kubeconfig: Path) -> Access:
    """Read a kubeconfig, and run its exec plugin if it has one. Raises RequestFailed (UNAUTHORIZED) when unusable."""
    from kubernetes.aio import client, config

    configuration = client.Configuration()
    try:
        user = _user(kubeconfig)
        loader = await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
        )
        context = _ssl_context(configuration) if configuration.host.startswith("https:") else None
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        # Of YAML errors nothing more is told: their text quotes the file.
        words = "it is not valid YAML" if isinstance(error, yaml.YAMLError) else str(error)
        # Unchained: a traceback would show what quotes the file after all.
        raise _unusable(f"kubeconfig cannot be used: {words}") from None
    if "exec" in user and not (configuration.api_key.get("BearerToken") or configuration.cert_file):
        # kubernetes.aio only logs a failing plugin; going on would mean to ask as nobody.
        raise _unusable("the exec plugin of the kubeconfig gave no credentials")
    token_file = user.get("tokenFile")
    watched = [kubeconfig] + ([kubeconfig.parent / token_file] if isinstance(token_file, str) else [])
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return Access(
        endpoint=Endpoint(
            host=configuration.host.rstrip("/"),
            proxy=configuration.proxy or "",
            server_name=configuration.tls_server_name or "",
            tls=(*(_file_state(path) for path in files), str(configuration.verify_ssl)),
        ),
        ssl_context=context,
        configuration=configuration,
        files=tuple((path, _identity(path)) for path in watched),
        renew_at=getattr(loader, "exec_plugin_expiry", None),
    )


def _unusable(sentence: str) -> RequestFailed:
    return RequestFailed(given("CredentialsUnusable", sentence))


def _ssl_context(configuration: Configuration) -> ssl.SSLContext:
    from kubernetes.aio import client

    context = client.ApiClient(configuration).rest_client.ssl_context
    assert isinstance(context, ssl.SSLContext)
    return context


def _user(kubeconfig: Path) -> dict[str, Any]:
    """The user section of the current context; {} when there is none (the loader complains about what is wrong)."""
    document = yaml.safe_load(kubeconfig.read_bytes())
    wanted = document.get("current-context")
    for context in document.get("contexts") or ():
        if context["name"] == wanted:
            name = context["context"].get("user")
            for user in document.get("users") or ():
                if user["name"] == name:
                    return dict(user.get("user") or {})
    return {}


def _file_state(path: str | None) -> str:
    return f"{path}:{_identity(Path(path))}" if path else ""


def _identity(path: Path) -> FileIdentity | None:
    try:
        return file_identity(path)
    except OSError:
        return None
