"""A running API server as tests see it: where it is, how to log in, and a few calls that need no client library.

The calls here are synchronous and open a connection each: simple, safe from any thread, and nothing of the product is
involved in setting a test's scene or in judging what came of it.
"""

import base64
import functools
import http.client
import json
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane_kit.binaries import Binaries
from controlplane_kit.certificates import Certificates, issue_client

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiFailure(Exception):
    """The API server answered with an error; `status` is the HTTP code, the text is the server's, `body` all of it."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:2000]}")
        self.status = status
        self.body = body


class ApiServer:
    """An API server on this machine, started by us or by another worker of the same test run."""

    def __init__(self, folder: Path, url: str, binaries: Binaries) -> None:
        self.folder = folder
        """Certificates, kubeconfig and logs."""
        self.url = url
        self.binaries = binaries
        self.certificates = Certificates(folder / "pki")

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""
        return self.folder / "kubeconfig"

    def kubeconfig_for(self, user: str, group: str | None = None) -> Path:
        """A kubeconfig for a user of that name, who may do only what RBAC objects made by the test say."""
        path = self.folder / f"kubeconfig-{user}"
        return write_kubeconfig(
            path,
            url=self.url,
            authority=self.certificates.authority,
            client=issue_client(self.certificates, user, group),
        )

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Any:
        """One call as administrator; gives the decoded JSON. `body` goes as JSON (which is YAML, for apply patches).

        Raises ApiFailure for status 400 and above, OSError when the server is not there.
        """
        host, port = self.url.removeprefix("https://").split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=self._tls, timeout=timeout)
        try:
            target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, target, data, {"Content-Type": content_type} if data else {})
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiFailure(response.status, raw.decode(errors="replace"))
        return json.loads(raw) if "json" in (response.getheader("Content-Type") or "") else raw.decode()

    def get(self, path: str, **query: str) -> Any:
        """One GET; None when the object is not there (404)."""
        try:
            return self.request("GET", path, query=query)
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and give its standard output; raises CalledProcessError with its words."""
        done = subprocess.run(
            [str(self.binaries.path("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if check and done.returncode:
            error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
            error.add_note(done.stderr)
            raise error
        return done.stdout

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Create it and give its name back."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return name

    def create_crds(self, *paths: Path) -> list[str]:
        """Apply the CustomResourceDefinitions of YAML files, or of all files in folders; wait until they are served.

        Other kinds in the files are passed over. Gives the names of the definitions.
        """
        definitions = [body for path in paths for body in _definitions(path)]
        return self.create_crd_objects(definitions)

    def create_crd_objects(self, definitions: Iterable[Mapping[str, Any]]) -> list[str]:
        """As `create_crds`, for definitions that the caller holds already."""
        names = []
        for body in definitions:
            name = body["metadata"]["name"]
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            query = {"fieldManager": "controlplane-kit", "force": "true"}
            self.request("PATCH", path, body, content_type=APPLY, query=query)
            names.append(name)
        for name in names:
            self.wait(functools.partial(self._served, name), f"CustomResourceDefinition {name} to be served")
        return names

    def wait(self, condition: Callable[[], Any], what: str, *, timeout: float = 30, pause: float = 0.02) -> Any:
        """Ask `condition` until it gives something true, and give that; raises TimeoutError naming `what`."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout:g} s for {what}")
            time.sleep(pause)
        return value

    def log_tail(self, lines: int = 15) -> str:
        """The last warnings and errors of the API server, for a failed test's report."""
        log = self.folder / "kube-apiserver.log"
        if not log.exists():
            return "(no log)"
        noted = [line for line in log.read_text(errors="replace").splitlines() if _is_complaint(line)]
        return "\n".join(noted[-lines:])

    def _served(self, name: str) -> bool:
        crd = self.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {c["type"]: c["status"] for c in (crd or {}).get("status", {}).get("conditions") or ()}
        if conditions.get("Established") != "True":
            return False
        # Established may be set a moment before every handler knows the kind: ask for the thing itself.
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        return all(
            self.get(f"/apis/{group}/{version['name']}/{plural}", limit="1") is not None
            for version in crd["spec"]["versions"]
            if version["served"]
        )

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        context.load_cert_chain(*self.certificates.admin)
        return context


def _is_complaint(line: str) -> bool:
    return line[:1] in {"E", "F", "W"} and "because it has no resources" not in line


def write_kubeconfig(path: Path, *, url: str, authority: Path, client: tuple[Path, Path]) -> Path:
    """Write a kubeconfig with everything in line, so that it can be copied alone; gives `path`."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    certificate, key = client
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority-data": data(authority)}}],
        "users": [
            {"name": "local", "user": {"client-certificate-data": data(certificate), "client-key-data": data(key)}}
        ],
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    path.chmod(0o600)
    return path


def _definitions(path: Path) -> Iterable[dict[str, Any]]:
    files = sorted(p for p in path.rglob("*") if p.suffix in {".yaml", ".yml"}) if path.is_dir() else [path]
    for file in files:
        for body in yaml.load_all(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
                body.pop("status", None)
                yield body
