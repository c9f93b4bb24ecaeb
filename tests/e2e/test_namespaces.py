"""Namespaces that are ours: their template at run time, deleted by hand, wanted again while they go, stuck, shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, cluster, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, GPUS, bundle_files, except_parents, function_files, live, plain_map, repository

from gitops.model.identity import UnitKey
from gitops.plan.parents import parent_name
from gitops.reconcile.outcomes import SyncState, UnitOutcome

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

HOLD = "test.example/hold"
REST = bundle_files("rest", {"rest.yaml": config_map("rest", "default", value="1")})


def target(**template: Any) -> dict[str, str]:
    """The Cluster document with this namespace template."""
    text = cluster(DGX, gpus=GPUS, attributes=["NIMOperatorSupport"], namespaceTemplate=template)
    return {f"clusters/{DGX}.yaml": text}


def function(name: str, *, instances: int = 1, level: str = "info") -> dict[str, str]:
    """A function with one ConfigMap."""
    return function_files(name, {"settings.yaml": plain_map("settings", level=level)}, instances=instances)


def key(name: str, index: int = 0) -> str:
    return f"function/{name}/any-{index}@{DGX}"


def stands(fleet: Fleet, unit: str, state: SyncState, words: str = "") -> Callable[[], UnitOutcome | None]:
    def condition() -> UnitOutcome | None:
        found = fleet.outcome(unit)
        return found if found.state is state and words in found.sentence else None

    return condition


def removal(repo: Repository, prefix: str) -> dict[str, str | None]:
    return {path: None for path in repo.files() if path.startswith(prefix)}


def uid(plane: ControlPlane, namespace: str) -> str:
    found = plane.get(f"/api/v1/namespaces/{namespace}")
    return found["metadata"]["uid"] if found else ""


def stuck(plane: ControlPlane, namespace: str, name: str = "stuck") -> None:
    """An object there whose finalizer nobody serves."""
    metadata = {"name": name, "finalizers": [HOLD]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


def ends(plane: ControlPlane, namespace: str) -> bool:
    found = plane.get(f"/api/v1/namespaces/{namespace}")
    return found is None or found["status"]["phase"] == "Terminating"


def release(plane: ControlPlane, namespace: str, name: str = "stuck") -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    plane.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    """With the namespace controller. What a test leaves has names of its own."""
    made = planes("full", controllers=True)
    forget(made)
    return made


async def test_r09_a_stuck_namespace_is_told_with_its_holder_and_comes_back_where_git_wants_it(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Three at once: `gone` leaves Git while its namespace cannot end, `hand` is deleted by hand while Git wants it,
    and `back` leaves Git and returns before its namespace is gone."""
    repo.commit(
        {**repository(), **REST, **target(), **function("gone"), **function("hand"), **function("back")}, "first"
    )
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    before = {name: uid(plane, f"fn-{name}-any-0") for name in ("gone", "hand", "back")}
    stuck(plane, "fn-gone-any-0")
    stuck(plane, "fn-hand-any-0")
    for name in ("gone", "hand"):
        plane.request("DELETE", f"/api/v1/namespaces/fn-{name}-any-0")
    running.push({**removal(repo, "functions/gone/"), **removal(repo, "functions/back/")})
    await until(lambda: ends(plane, "fn-back-any-0"), "the namespace of `back` to begin to end")
    running.push(function("back", level="debug"))

    holder = f"held by {HOLD} on ConfigMap fn-{{}}-any-0/stuck"
    await until(stands(running, key("gone"), SyncState.REMOVING, f"deleting, {holder.format('gone')}"), "its holder")
    await until(stands(running, key("hand"), SyncState.WAITING, holder.format("hand")), "the other's holder")
    # other units go on meanwhile
    running.push({"bundles/rest/manifests/rest.yaml": config_map("rest", "default", value="2")})
    await until(lambda: (live(plane, "default", "configmaps", "rest") or {})["data"]["value"] == "2", "another unit")
    assert uid(plane, "fn-hand-any-0") == before["hand"], "nothing strips a finalizer"

    release(plane, "fn-gone-any-0")
    release(plane, "fn-hand-any-0")
    await until(lambda: uid(plane, "fn-hand-any-0") not in ("", before["hand"]), "it to be made anew")
    await until(stands(running, key("hand"), SyncState.SYNCED), "everything in it")
    assert live(plane, "fn-hand-any-0", "configmaps", "settings") is not None
    await until(lambda: uid(plane, "fn-gone-any-0") == "", "the other one to be gone")
    # the one that came back is there anew, whole
    await until(stands(running, key("back"), SyncState.SYNCED), "`back` to be back")
    assert uid(plane, "fn-back-any-0") not in ("", before["back"])
    assert (live(plane, "fn-back-any-0", "configmaps", "settings") or {})["data"] == {"level": "debug"}
    assert not running.engine.workers[DGX].state.units[UnitKey.parse(key("back"))].drifts, "Git did it, nobody drifted"
    parent = f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(UnitKey.parse(key('hand')))}"
    assert uid(plane, "fn-hand-any-0") in str(plane.get(parent)), "the parent knows the new one"


async def test_the_namespace_template_reaches_all_instance_namespaces_at_run_time(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Labels, quota, limits, policies and accounts of 52 instances; what leaves the template leaves all of them, and
    the fuse takes that for the one line that it is."""
    deny = {"name": "deny", "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    full = {
        "labels": {"pod-security.kubernetes.io/enforce": "baseline", "team": "ml"},
        "resourceQuota": {"hard": {"pods": "10"}},
        "limitRange": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
        "networkPolicies": [deny],
        "serviceAccounts": [{"name": "runner"}],
    }
    instances = 52
    repo.commit({**repository(), **REST, **target(**full), **function("many", instances=instances)}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    spaces = [f"fn-many-any-{i}" for i in range(instances)]
    assert labels(plane, "gitops-preflight") == full["labels"]
    first = [w.path for w in running.writes(DGX) if f"/{spaces[7]}" in w.path and not w.is_dry_run]
    assert first[0] == f"/api/v1/namespaces/{spaces[7]}"
    kinds = [path.split("/")[-2] for path in first[1:]]
    assert sorted(kinds[:3]) == ["limitranges", "networkpolicies", "resourcequotas"]
    assert kinds[3:] == ["serviceaccounts", "configmaps"], "the template before anything of the function"

    running.clear()
    less = {**full, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}, "networkPolicies": []}
    less["resourceQuota"] = {"hard": {"pods": "20"}}
    running.push(target(**less), "less")
    await running.settled()
    policies = plane.get("/apis/networking.k8s.io/v1/networkpolicies")["items"]
    assert not [p for p in policies if p["metadata"]["namespace"] in spaces]
    quotas = plane.get("/api/v1/resourcequotas")["items"]
    assert {q["spec"]["hard"]["pods"] for q in quotas if q["metadata"]["namespace"] in spaces} == {"20"}
    assert labels(plane, spaces[51]) == less["labels"]
    writes = except_parents(running.writes(DGX))
    assert len([w for w in writes if w.method == "DELETE"]) == instances
    patched = [w.path for w in writes if w.method == "PATCH"]
    assert len(patched) == 2 * instances + 1, "every namespace and quota once, and nothing else of them"
    assert patched[0] == "/api/v1/namespaces/gitops-preflight", "before anything is dry-run there"
    assert labels(plane, "gitops-preflight") == less["labels"]


def labels(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Those of the template."""
    found = plane.get(f"/api/v1/namespaces/{namespace}")["metadata"]["labels"]
    own = ("kubernetes.io/", "app.", "gitops/", "applyset.")
    return {k: v for k, v in found.items() if not k.startswith(own)}


async def test_r07_a_shared_namespace_stays_while_anything_in_it_is_of_others(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Two bundles that both declare it are told so, and the present owner keeps it; with one owner, and objects of the
    other in it, it stays when the owner goes."""
    a = bundle_files("a", {"ns.yaml": namespace_yaml("team"), "a.yaml": config_map("a", "team", value="1")})
    b = bundle_files("b", {"b.yaml": config_map("b", "team", value="1")})
    repo.commit({**repository(), **REST, **a, **b}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    team = uid(plane, "team")
    running.push({"bundles/b/manifests/ns.yaml": namespace_yaml("team")})

    def told() -> bool:
        found = [f for f in running.engine.findings if f.code == "GO5002"]
        return {str(f.workload) for f in found} == {"bundle/a", "bundle/b"}

    await until(told, "a finding for both")
    running.push({"bundles/b/manifests/ns.yaml": None})
    await running.settled()
    running.clear()
    running.push(removal(repo, "bundles/a/"))
    await until(stands(running, f"bundle/a@{DGX}", SyncState.RETAINED, "ConfigMap team/b"), "it to be kept, with why")
    assert live(plane, "team", "configmaps", "a") is None
    assert live(plane, "team", "configmaps", "b") is not None
    assert uid(plane, "team") == team
    assert [w.path for w in running.writes(DGX) if w.method == "DELETE"] == ["/api/v1/namespaces/team/configmaps/a"]
