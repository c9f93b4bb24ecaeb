"""What moves between units is handed over: the same object, never deleted, whatever the new unit is going through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.definitions import definition
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, cluster, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import (
    DGX,
    GPUS,
    bundle_files,
    deployment,
    function_files,
    key_of,
    outcome_is,
    plain_map,
    repository,
    unit,
)

from gitops.model.identity import UnitKey
from gitops.plan.parents import applyset_id, parent_name
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

SPACE = "moving"
FUNCTION = function_files("chat", {"b.yaml": plain_map("b", value="1")}, namespace="lent")
COG = {"apiVersion": "moving.example/v1", "kind": "Cog", "metadata": {"name": "one", "namespace": SPACE}}

PATHS = {
    "namespace": f"/api/v1/namespaces/{SPACE}",
    "a": f"/api/v1/namespaces/{SPACE}/configmaps/a",
    "web": f"/apis/apps/v1/namespaces/{SPACE}/deployments/web",
    "crd": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cogs.moving.example",
    "lent": "/api/v1/namespaces/lent",
    "b": "/api/v1/namespaces/lent/configmaps/b",
    "cog": f"/apis/moving.example/v1/namespaces/{SPACE}/cogs/one",
}
MOVED = ("namespace", "a", "web", "crd", "cog")
MANIFESTS = {
    "namespace.yaml": namespace_yaml(SPACE),
    "a.yaml": config_map("a", SPACE, value="1"),
    "web.yaml": deployment("web", SPACE),
    "crd.yaml": yaml.safe_dump(definition("Cog", "moving.example")),
    "cog.yaml": yaml.safe_dump(COG),
}


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


def uids(plane: ControlPlane) -> dict[str, str]:
    return {name: plane.get(path)["metadata"]["uid"] for name, path in PATHS.items()}


def owner(plane: ControlPlane, name: str) -> str:
    return str(plane.get(PATHS[name])["metadata"]["labels"]["applyset.kubernetes.io/part-of"])


def deletes(running: Fleet) -> list[str]:
    paths = (w.path for w in running.writes(DGX) if w.method == "DELETE")
    return [path for path in paths if "/namespaces/gitops-system/" not in path]


def moved(repo: Repository, old: str, new: str, *files: str) -> dict[str, str | None]:
    """The change that moves manifests between the folders of two workloads."""
    found: dict[str, str | None] = {}
    for file in files:
        text = repo.read(f"{old}/manifests/{file}")
        found |= {f"{old}/manifests/{file}": None, f"{new}/manifests/{file}": text}
    return found


async def test_r05_r06_renames_and_moves_hand_over_whatever_the_kind(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    lent = {"namespace.yaml": namespace_yaml("lent"), "b.yaml": config_map("b", "lent", value="1")}
    files = {
        **repository(),
        f"clusters/{DGX}.yaml": cluster(DGX, gpus=GPUS, attributes=["NIMOperatorSupport"]),
        **bundle_files("lender", lent),
        **bundle_files("web", MANIFESTS),
        **bundle_files("room", {"stay.yaml": config_map("stay", "default", value="1")}),
    }
    repo.commit(files, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    before = uids(plane)
    running.clear()
    # R05: the bundle is renamed, with everything in it
    gone: dict[str, str | None] = {path: None for path in repo.files() if path.startswith("bundles/web/")}
    running.push({**gone, **bundle_files("site", MANIFESTS)}, "web is called site")
    await until(lambda: key_of("web") not in running.engine.workers[DGX].state.units, "the old unit to be gone")
    await running.settled()
    assert (uids(plane), deletes(running)) == (before, [])
    assert {owner(plane, name) for name in MOVED} == {applyset_id(parent_name(key_of("site")))}
    # R06: single objects go on to another bundle: the namespace itself, the definition, a workload
    running.push(moved(repo, "bundles/site", "bundles/room", "namespace.yaml", "crd.yaml", "web.yaml"))
    await running.settled()
    assert (uids(plane), deletes(running)) == (before, [])
    assert {n for n in MOVED if owner(plane, n) == applyset_id(parent_name(key_of("room")))} == {
        "namespace",
        "crd",
        "web",
    }
    # between a bundle and a function that says its namespace, there and back
    running.push({**dict.fromkeys(bundle_files("lender", lent)), **FUNCTION}, "a function now")
    await until(lambda: key_of("lender") not in running.engine.workers[DGX].state.units, "the bundle to be gone")
    await running.settled()
    assert (uids(plane), deletes(running)) == (before, [])
    function = applyset_id(parent_name(UnitKey.parse(f"function/chat/any-0@{DGX}")))
    assert {owner(plane, "lent"), owner(plane, "b")} == {function}
    running.push({**dict.fromkeys(FUNCTION), **bundle_files("lender", lent)}, "and back")
    await until(lambda: len(running.engine.workers[DGX].state.units) == 3, "the function to be gone")
    await running.settled()
    assert (uids(plane), deletes(running)) == (before, [])
    assert {owner(plane, "lent"), owner(plane, "b")} == {applyset_id(parent_name(key_of("lender")))}
    # the members are each in one parent only
    members = [m.ref for r in running.engine.workers[DGX].state.parents.values() for m in r.members]
    assert len(members) == len(set(members))


def broken(text: str) -> str:
    return text + "x: [\n"


@pytest.mark.parametrize("trouble", ["refused", "waiting", "paused", "broken"])
async def test_r06_an_object_that_moves_into_a_unit_in_trouble_stays_and_is_handed_over_later(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, trouble: str
) -> None:
    space = f"trouble-{trouble}"
    plane.create_namespace(space)
    name = f"into-{trouble}"
    path = f"/apis/apps/v1/namespaces/{space}/deployments/web"
    web = deployment("web", space)
    old = bundle_files("old", {"web.yaml": web, "rest.yaml": config_map("rest", space, value="1")})
    new = bundle_files(name, {"other.yaml": config_map("other", space, value="1")})
    repo.commit({**repository(), **old, **new}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    before = plane.get(path)["metadata"]["uid"]
    running.clear()
    arriving: dict[str, Any] = {"bundles/old/manifests/web.yaml": None, f"bundles/{name}/manifests/web.yaml": web}
    good = dict(arriving)
    if trouble == "refused":  # the selector of a Deployment is for ever
        arriving[f"bundles/{name}/manifests/web.yaml"] = web.replace("matchLabels:", "matchLabels:\n      tier: x")
    if trouble == "waiting":
        wait = {"metadata": {"annotations": {"gitops/depends-on": f"Cog.nowhere.example/{space}/one"}}}
        cog = {"apiVersion": "nowhere.example/v1", "kind": "Cog", "metadata": {"name": "one", "namespace": space}}
        late = yaml.safe_load(web)
        late["metadata"] |= wait["metadata"]
        arriving[f"bundles/{name}/manifests/web.yaml"] = yaml.safe_dump(late)
        arriving[f"bundles/{name}/manifests/cog.yaml"] = yaml.safe_dump(cog)
        good[f"bundles/{name}/manifests/cog.yaml"] = None
    if trouble == "paused":
        arriving |= bundle_files(name, {}, mode="paused")
        good |= bundle_files(name, {})
    if trouble == "broken":
        arriving[f"bundles/{name}/manifests/other.yaml"] = broken(config_map("other", space, value="1"))
        good[f"bundles/{name}/manifests/other.yaml"] = config_map("other", space, value="1")
    commit = running.push(arriving, "into trouble")
    await until(lambda: running.engine.health().head == commit and not running.engine.looking, "the head")
    still = (SyncState.REMOVING, SyncState.RETAINED)
    await until(outcome_is(running, "old", *still), "the old unit to wait")
    assert (plane.get(path)["metadata"]["uid"], deletes(running)) == (before, [])
    assert key_of("old") in {
        k for k, r in running.engine.workers[DGX].state.parents.items() if any(m.ref.name == "web" for m in r.members)
    }, unit(running, "old").outcome
    good.pop("bundles/old/manifests/web.yaml")
    running.push(good, "mended")
    await running.settled(timeout=60)
    assert (plane.get(path)["metadata"]["uid"], deletes(running)) == (before, [])
    label = plane.get(path)["metadata"]["labels"]["applyset.kubernetes.io/part-of"]
    assert label == applyset_id(parent_name(key_of(name)))
