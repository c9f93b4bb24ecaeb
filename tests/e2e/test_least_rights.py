"""A daemon with exactly the roles that `gitops rbac roles` prints, on an API server that enforces them.

What was asked and what was refused is read from the API server's own audit log.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, config_map, one_bundle, template_files, until
from fleet_kit.process import ROOT
from fleet_kit.scenes import bundle_files, deployment

from gitops.policy.rbac.gate import judge_roles
from gitops.policy.rbac.roles import RbacObjects, Source
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

DAEMON = "system:serviceaccount:gitops-system:gitops"
SPACE = "t-rights"
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


class Direct:
    """In the place of a fault proxy, which would log in as an administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def clear(self) -> None:
        pass


@pytest.fixture
def plane(private_api: Any, tmp_path: Path) -> ControlPlane:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path / 'audit.log'}")
    made: ControlPlane = private_api(api_flags=flags)
    return made


@pytest.fixture
def audit(tmp_path: Path) -> Callable[..., list[Mapping[str, Any]]]:
    """audit(): the daemon's finished calls; audit(403): those with this answer."""

    def calls(code: int | None = None) -> list[Mapping[str, Any]]:
        lines = map(json.loads, (tmp_path / "audit.log").read_text().splitlines())
        own = [e for e in lines if e["user"]["username"] == DAEMON and e["stage"] == "ResponseComplete"]
        return [e for e in own if code in (None, e["responseStatus"]["code"])]

    return calls


def printed_roles(repo: Repository, folder: Path, cluster: str = "one") -> str:
    """What the command prints for the repository's head."""
    for path, text in ((p, repo.read(p)) for p in repo.files()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text or "")
    command = [sys.executable, "-m", "gitops.cli", "rbac", "roles", cluster, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def as_daemon(plane: ControlPlane, folder: Path) -> Direct:
    """A kubeconfig with a token of the daemon's account."""
    path = "/api/v1/namespaces/gitops-system/serviceaccounts/gitops/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = plane.request("POST", path, body)["status"]["token"]
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (folder / "kubeconfig-daemon").write_text(yaml.safe_dump(config))
    return Direct(folder / "kubeconfig-daemon")


async def test_a_daemon_with_the_printed_roles_is_never_refused(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, audit: Any, tmp_path: Path
) -> None:
    """It applies, repairs, adopts and deletes; in its own name and in that of an account that may do one thing."""
    files = one_bundle(SPACE) | {f"bundles/base/manifests/{n}.yaml": config_map(n, SPACE, k="1") for n in ("a", "b")}
    files["bundles/base/manifests/web.yaml"] = deployment("web", SPACE)
    files |= bundle_files("team", {"own.yaml": config_map("own", "t-team", k="1")}, serviceAccount="t-team/deployer")
    repo.commit(files, "first")
    roles = printed_roles(repo, tmp_path / "tree")
    judged = judge_roles(RbacObjects.of(map(Source, yaml.safe_load_all(roles))), (), ())
    assert {f.code for f in judged.violations} == {"GO4412"}, "nothing without bounds; impersonate, of one name"
    plane.create_namespace("t-team")
    plane.kubectl("apply", "-f", "-", stdin=roles)
    plane.kubectl("create", "serviceaccount", "deployer", "-n", "t-team")
    proxies = {"one": as_daemon(plane, tmp_path)}

    running = await fleet(repo, {"one": plane}, proxies=proxies)
    own = "/api/v1/namespaces/t-team/configmaps/own"
    await until(lambda: "t-team:deployer" in running.outcome("bundle/team@one").sentence, "the refusal of the account")
    assert plane.get(own) is None
    await until(lambda: running.outcome("bundle/base@one").state is SyncState.SYNCED, "the other unit to go on")
    refused = audit(403)
    assert refused
    assert {e.get("impersonatedUser", {}).get("username") for e in refused} == {"system:serviceaccount:t-team:deployer"}

    plane.kubectl("create", "role", "d", "-n", "t-team", "--verb=get,create,patch,delete", "--resource=configmaps")
    plane.kubectl("create", "rolebinding", "d", "-n", "t-team", "--role=d", "--serviceaccount=t-team:deployer")
    await until(lambda: plane.get(own), "it to be written in the name of the account", timeout=90)
    await running.settled()
    known = len(audit(403))

    path = f"/api/v1/namespaces/{SPACE}/configmaps/a"
    plane.request("PATCH", path, {"data": {"k": "other"}}, content_type=MERGE)
    await until(lambda: plane.get(path)["data"] == {"k": "1"}, "the repair")
    gone = {"bundles/base/manifests/b.yaml": None, **{p: None for p in files if p.startswith("bundles/team/")}}
    await running.settled(running.push(gone, "second"))
    assert plane.get(f"/api/v1/namespaces/{SPACE}/configmaps/b") is None
    await until(lambda: plane.get(own) is None, "the removal in the name of the account")
    assert audit(403)[known:] == [], "nothing is refused"
    names = {e["impersonatedUser"]["username"] for e in audit() if e.get("objectRef", {}).get("name") == "own"}
    assert names == {"system:serviceaccount:t-team:deployer"}, "and its objects are touched in no other name"
    groups = next(e["impersonatedUser"]["groups"] for e in audit() if "impersonatedUser" in e)
    assert set(groups) == {"system:serviceaccounts", "system:serviceaccounts:t-team", "system:authenticated"}


async def test_every_printed_rule_is_needed(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, audit: Any, tmp_path: Path
) -> None:
    """No right was given that was not used: each (verb, resource) of the roles is in the audit log of one life."""
    repo.commit(one_bundle(SPACE) | {"bundles/base/manifests/a.yaml": config_map("a", SPACE, k="1")}, "first")
    roles = printed_roles(repo, tmp_path / "tree")
    plane.kubectl("apply", "-f", "-", stdin=roles)
    running = await fleet(repo, {"one": plane}, proxies={"one": as_daemon(plane, tmp_path)})
    await running.settled()
    await running.settled(running.push({"bundles/base/manifests/a.yaml": None}, "second"))
    await until(lambda: any(e["verb"] == "update" for e in audit()), "the Lease to be renewed")
    granted = {
        (verb, resource)
        for role in yaml.safe_load_all(roles)
        for rule in role.get("rules") or ()
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    used = {(e["verb"], e["objectRef"]["resource"]) for e in audit() if "objectRef" in e}
    used |= {("watch", e["objectRef"]["resource"]) for e in audit() if e["verb"] == "watch"}
    # Watches are complete when they end; an apply of what is not there is a patch that also asks for `create`.
    allowed = {("create", r) for v, r in used if v == "patch"} | {("watch", r) for v, r in used if v == "list"}
    unused = granted - used - allowed
    assert unused <= {("get", "customresourcedefinitions"), ("delete", "namespaces")}, unused
    assert audit(403) == []


@pytest.mark.upstream
async def test_the_template_with_a_copied_secret_runs_with_the_printed_roles(
    fleet: StartFleet,
    repo: Repository,
    plane: ControlPlane,
    planes: Callable[[str], ControlPlane],
    audit: Any,
    tmp_path: Path,
    shared: Path,
) -> None:
    """Operators, namespace template and copies of Secrets: made, repaired and removed, and nothing is refused."""
    files = template_files()
    function = yaml.safe_load(files["functions/llama-chat/function.yaml"])
    function["spec"]["secretRefs"] = [{"name": "key"}]
    files["functions/llama-chat/function.yaml"] = yaml.safe_dump(function)
    repo.commit(files, "template")
    kinds = ("dynamo/crds/nvidia.com_dynamographdeployments", "nim/crds/apps.nvidia.com_nimcaches")
    both = {"dgx-a": plane, "dgx-b": planes("dgx-b")}
    for api in both.values():
        api.create_crds(*(shared / f"upstream/{kind}.yaml" for kind in kinds))
        api.create_namespace("gitops-secrets")
        api.kubectl("create", "secret", "generic", "key", "-n", "gitops-secrets", "--from-literal=token=one")
    plane.kubectl("apply", "-f", "-", stdin=printed_roles(repo, tmp_path / "tree", "dgx-a"))
    running = await fleet(repo, both, proxies={"dgx-a": as_daemon(plane, tmp_path)})
    await running.settled_on("dgx-a")
    space = "/api/v1/namespaces/fn-llama-chat-h100-0"
    assert plane.get(f"{space}/secrets/key") is not None
    settings = f"{space}/configmaps/llama-chat-settings"
    plane.request("PATCH", settings, {"data": {"LOG_LEVEL": "other"}}, content_type=MERGE)
    await until(lambda: plane.get(settings)["data"]["LOG_LEVEL"] == "info", "the repair")

    running.push({path: None for path in files if path.startswith("functions/")}, "no functions")
    graph = "/apis/nvidia.com/v1beta1/namespaces/fn-llama-chat-h100-0/dynamographdeployments/llama-chat"
    await until(lambda: plane.get(graph)["metadata"].get("deletionTimestamp"), "the graph to be deleted")
    plane.request("PATCH", graph, {"metadata": {"finalizers": None}}, content_type=MERGE)  # no garbage collector here
    await until(lambda: plane.get(f"{space}/secrets/key") is None, "the removal to come to the copy")
    await until(lambda: plane.get(space)["metadata"].get("deletionTimestamp"), "the namespace to be deleted")
    assert audit(403) == []
