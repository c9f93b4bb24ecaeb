"""How to reach and authenticate to one cluster, and when that has to be looked at again.

From a kubeconfig, or from the service account of the pod that we run in, come an SSL context and an Authorization
header; the HTTP session is ours (transport.py). All is read here and not by kubernetes.aio, which has no limit of time
for a plugin, logs what a failing one prints, keeps private keys in files, and costs 46 MB; only users with an
`auth-provider` (OIDC) still need it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import gc
import hashlib
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from gitops.cluster.errors import RequestFailed, given
from gitops.cluster.exec_plugin import TIMEOUT, PluginCredentials, encoded, run_plugin
from gitops.cluster.kubeconfig import Files, Kubeconfig, Section, Unusable, identity_of, read_file, read_kubeconfig

YOUNG_OBJECTS = 20_000
"""How many objects are made, beyond those that go, until cycles are looked for among them."""

EXPIRY_MARGIN = datetime.timedelta(minutes=5)
"""Credentials are renewed so long before they end, or when four fifths of what is left of them have passed."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the cluster's authority."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account of the pod that we run in; the kubelet replaces its token long before it ends (KEP-1205)."""

    folder: Path
    host: str
    port: str

    @classmethod
    def of_pod(cls, environ: Mapping[str, str] | None = None, *, folder: Path = SERVICE_ACCOUNT) -> ServiceAccount:
        environ = os.environ if environ is None else environ
        return cls(folder, environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", ""))


Source = Path | ServiceAccount
"""Where access comes from: a kubeconfig, or a pod's account."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which API server is meant, and how it is known to be that. Another endpoint may be another cluster."""

    host: str
    proxy: str = field(default="", repr=False)
    """May have a password in it."""
    server_name: str = ""
    authority: str = ""
    """Digest of the certificates that may have signed the server's; "" = the system's."""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Access:
    """One loaded source. `renew_at` is when its credentials should be renewed, None where nobody knows."""

    endpoint: Endpoint
    ssl_context: ssl.SSLContext | None
    certificate: str
    """Digest of the client certificate and its key; sockets opened with another one are not used on."""
    authorization: str = field(repr=False)
    """Value of the Authorization header; "" for none."""
    files: Files
    renew_at: datetime.datetime | None = None
    slow: bool = False
    """Does loading it run a program or ask an identity provider?"""

    def outdated(self, now: datetime.datetime) -> bool:
        """Has a file behind it changed, or do its credentials end soon?"""
        if self.renew_at is not None and now >= self.renew_at:
            return True
        return any(identity_of(path) != identity for path, identity in self.files.items())


def freeze_libraries() -> None:
    """For daemons, once at the start, on any thread: take all that is loaded out of the garbage collector's sight. Some
    hundred thousand objects of libraries never become garbage, and looking through them stopped everything for 60 ms
    and more now and then. What comes later lives long too, and hardly anything is ever a cycle: looked for at each 700
    new objects, cycles took a tenth of a restart's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


async def load_access(source: Source) -> Access:
    """Read it, and run its exec plugin if it has one. Raises RequestFailed (UNAUTHORIZED) when it cannot be used."""
    what = "kubeconfig" if isinstance(source, Path) else "service account of this pod"
    try:
        if isinstance(source, ServiceAccount):
            return _of_pod(source)
        return await _of_kubeconfig(source)
    except Unusable as unusable:
        # Unchained: a traceback would show what quotes the file after all.
        raise RequestFailed(given("CredentialsUnusable", f"{what} cannot be used: {unusable}")) from None


# -- sources ---------------------------------------------------------------------------------------------------------


def _of_pod(account: ServiceAccount) -> Access:
    if not account.host or not account.port:
        raise Unusable("this process does not run in a pod (KUBERNETES_SERVICE_HOST is not set)")
    files: Files = {}
    token = read_file(account.folder / "token", "token", files)
    authority = read_file(account.folder / "ca.crt", "ca.crt", files)
    host = f"[{account.host}]" if ":" in account.host else account.host
    endpoint = Endpoint(f"https://{host}:{account.port}", authority=_digest(authority))
    return Access(
        endpoint=endpoint,
        ssl_context=_ssl_context(endpoint, authority),
        certificate="",
        authorization=_bearer(token),
        files=files,
    )


async def _of_kubeconfig(path: Path) -> Access:
    config = read_kubeconfig(path)
    cluster, user = config.cluster, config.user
    server = _address(cluster, "server").rstrip("/")
    if any(sign in server for sign in "@?#"):
        raise Unusable("its server has a user, a query or a fragment, which no address of an API server has")
    authority = cluster.material("certificate-authority")
    endpoint = Endpoint(
        server,
        proxy=_address(cluster, "proxy-url") if cluster.text("proxy-url") else "",
        server_name=cluster.text("tls-server-name"),
        authority=_digest(authority),
        verified=not cluster.flag("insecure-skip-tls-verify"),
    )
    plugin = user.values.get("exec")
    gave = await _from_plugin(plugin, config, endpoint, authority) if plugin is not None else PluginCredentials()
    certificate = gave.certificate or user.material("client-certificate")
    key = gave.key or user.material("client-key")
    authorization = _bearer(encoded(gave.token)) if gave.token else await _authorization(path, user)
    context = _ssl_context(endpoint, authority, certificate, key) if server.startswith("https:") else None
    return Access(
        endpoint=endpoint,
        ssl_context=context,
        certificate=_digest(certificate + key),
        authorization=authorization,
        files=config.files,
        renew_at=_renew_at(gave.expires),
        slow=plugin is not None or "auth-provider" in user.values,
    )


async def _from_plugin(plugin: object, config: Kubeconfig, endpoint: Endpoint, authority: bytes) -> PluginCredentials:
    if not isinstance(plugin, dict):
        raise Unusable("exec is no map")
    told = {
        "server": endpoint.host,
        "tls-server-name": endpoint.server_name,
        "insecure-skip-tls-verify": not endpoint.verified,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": endpoint.proxy,
    }
    return await run_plugin(plugin, folder=config.user.folder, cluster={k: v for k, v in told.items() if v})


async def _authorization(path: Path, user: Section) -> str:
    """The header of a user without a plugin's token: a token file (before a token, as in client-go: it is the one that
    somebody renews), a token, a name with a password, a provider."""
    if name := user.text("tokenFile"):
        return _bearer(read_file(user.folder / name, "tokenFile", user.files))
    if token := user.text("token"):
        return _bearer(encoded(token))
    if name := user.text("username"):
        pair = f"{name}:{user.text('password')}"
        return f"Basic {base64.b64encode(encoded(pair)).decode()}"
    return await _from_provider(path) if "auth-provider" in user.values else ""


async def _from_provider(path: Path) -> str:
    """A token of an `auth-provider` (OIDC), renewed when it has ended."""
    from kubernetes.aio import client, config

    configuration = client.Configuration()
    try:
        async with asyncio.timeout(TIMEOUT):
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(path), client_configuration=configuration, persist_config=False
            )
    except Exception as error:
        raise Unusable(f"its auth-provider gave no token ({type(error).__name__})") from None
    if not (token := configuration.api_key.get("BearerToken")):
        raise Unusable("its auth-provider gave no token")
    return str(token)


def _bearer(token: bytes) -> str:
    text = token.strip()
    if not all(0x20 < byte < 0x7F for byte in text):
        raise Unusable("its token has characters that no token has")
    return f"Bearer {text.decode('ascii')}"


def _renew_at(expires: datetime.datetime | None) -> datetime.datetime | None:
    if expires is None:
        return None
    now = datetime.datetime.now(datetime.UTC)
    return expires - min(EXPIRY_MARGIN, max(expires - now, datetime.timedelta()) / 5)


def _address(cluster: Section, key: str) -> str:
    """Looked at here: what a request would say of one that is none quotes it."""
    text = cluster.text(key)
    with contextlib.suppress(ValueError):
        address = URL(text, encoded=True)
        if address.scheme in ("http", "https") and address.host and text.isprintable() and " " not in text:
            return text
    raise Unusable(f"its {key} is no http:// or https:// address")


# -- TLS -------------------------------------------------------------------------------------------------------------


def _ssl_context(endpoint: Endpoint, authority: bytes, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
        # Python 3.13 began to refuse what Kubernetes' own tools take: authorities without all extensions of RFC 5280.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not endpoint.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    except (ssl.SSLError, ValueError):
        raise Unusable("its certificate authority is no certificate in PEM form") from None
    if bool(certificate) != bool(key):
        raise Unusable("it has a client certificate without its key, or a key without its certificate")
    if certificate:
        try:
            _load_chain(context, certificate + b"\n" + key)
        except (ssl.SSLError, ValueError):
            raise Unusable("its client certificate and key do not belong together, or are not in PEM form") from None
    return context


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """OpenSSL's function takes a file only. Where there is memory that looks like one, no key touches a disk."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("chain"), "wb") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_no_password)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name, password=_no_password)


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # without this, OpenSSL would ask on the terminal


def _digest(material: bytes) -> str:
    return hashlib.sha256(material).hexdigest() if material else ""
