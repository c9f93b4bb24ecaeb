"""Deletion in the right order, with what needs it: operators, definitions, their objects, and who holds them.

The operators are played by the test: it puts a finalizer on their objects and takes it off again.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, key_of, outcome_is, repository, unit

from gitops.plan.parents import parent_name
from gitops.reconcile import removing
from gitops.reconcile.outcomes import SyncState
from gitops.sim import CRDS

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

KEEP = bundle_files("keep", {"keep.yaml": config_map("keep", "default", value="1")})
"""A tree without any workload deletes nothing."""


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes("full", controllers=True)
    forget(made)
    return made


def definition(group: str, **annotations: str) -> str:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gears.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    return yaml.safe_dump(body)


def gear(group: str, name: str, namespace: str) -> str:
    metadata = {"name": name, "namespace": namespace}
    return yaml.safe_dump({"apiVersion": f"{group}/v1", "kind": "Gear", "metadata": metadata, "spec": {"teeth": 3}})


CONSENT = {"gitops/allow-delete": "true"}


def removal(repo: Repository, *bundles: str) -> dict[str, str | None]:
    prefixes = tuple(f"bundles/{name}/" for name in bundles)
    return {path: None for path in repo.files() if path.startswith(prefixes)}


def deleted(running: Fleet) -> list[str]:
    """Names of what was asked to be deleted, in order, without parents."""
    paths = [w.path for w in running.writes(DGX) if w.method == "DELETE"]
    return [path.rpartition("/")[2] for path in paths if "/namespaces/gitops-system/" not in path]


def hold(plane: ControlPlane, path: str, *finalizers: str) -> None:
    patch: dict[str, Any] = {"metadata": {"finalizers": list(finalizers)}}
    plane.request("PATCH", path, patch, content_type="application/merge-patch+json")


async def test_o07_r09_an_operator_and_all_of_its_removed_at_once(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "LONGEST_LOOK_OVERDUE", 0.5)
    group, space = "stack.example", "stack"
    stack = {
        "namespace.yaml": namespace_yaml(space),
        "crd.yaml": definition(group, **CONSENT),
        "gear.yaml": gear(group, "own", space),
        "operator.yaml": deployment("operator", space),
    }
    repo.commit({**repository(), **KEEP, **bundle_files("stack", stack)}, "first")
    running = await fleet(repo, {DGX: plane}, options=dataclasses.replace(OPTIONS, deletion_deadline=0.5))
    await running.settled()
    path = f"/apis/{group}/v1/namespaces/{space}/gears/own"
    hold(plane, path, "stack.example/cleanup")
    running.clear()
    running.push(removal(repo, "stack"))
    await until(outcome_is(running, "stack", SyncState.BLOCKED), "the deadline to pass")
    assert deleted(running) == ["own"]
    since = plane.get(path)["metadata"]["deletionTimestamp"]
    said = f"Gear.{group} {space}/own: its deletion is held by finalizer stack.example/cleanup since {since}"
    assert unit(running, "stack").outcome.sentence == said
    await until(
        lambda: said in str(running.status("status/units/dgx-a/bundle.stack.yaml").get("outcome")), "its status"
    )
    # others go on meanwhile
    running.push({"bundles/keep/manifests/keep.yaml": config_map("keep", "default", value="2")})
    await until(lambda: plane.get("/api/v1/namespaces/default/configmaps/keep")["data"]["value"] == "2", "the other")
    hold(plane, path)
    await until(lambda: key_of("stack") not in running.engine.workers[DGX].state.units, "all of it to go")
    assert deleted(running) == ["own", "operator", f"gears.{group}", space]
    assert all(w.method != "PATCH" or "finalizers" not in str(w.body) for w in running.writes(DGX))
    deletions = {w.path.rpartition("/")[2]: w.body for w in running.writes(DGX) if w.method == "DELETE"}
    assert all(b'"preconditions"' in body for body in deletions.values())


async def test_r08_a_definition_waits_for_its_objects_in_other_bundles_and_outside_git(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gitops.reconcile.pruning")
    group, space = "parts.example", "parts"
    plane.create_namespace(space)
    files = {
        **bundle_files("crds", {"crd.yaml": definition(group, **CONSENT)}),
        **bundle_files("operator", {"operator.yaml": deployment("operator", space)}),
        **bundle_files("gears", {f"{n}.yaml": gear(group, n, space) for n in ("one", "two", "three")}),
    }
    repo.commit({**repository(), **KEEP, **files}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    plane.kubectl("create", "-f", "-", stdin=gear(group, "stranger", "default"))
    running.clear()
    # 1: the definition alone: blocked, and told by whom
    running.push(removal(repo, "crds"))
    await until(outcome_is(running, "crds", SyncState.RETAINED), "the definition to be kept")
    names = ", ".join(
        f"Gear.{group} {n}" for n in ("default/stranger", f"{space}/one", f"{space}/three", f"{space}/two")
    )
    assert f"4 Gear live and nobody deletes them: {names}" in unit(running, "crds").outcome.sentence
    assert deleted(running) == []
    # 2: all of it: the operator waits for the objects, whose finalizer it serves; the definition for the stranger, too
    hold(plane, f"/apis/{group}/v1/namespaces/{space}/gears/one", "parts.example/cleanup")
    running.push(removal(repo, "crds", "operator", "gears"))
    waits = re.compile(rf"it may serve Gear\.{group} {space}/\w+ of bundle/gears@dgx-a, which is not gone yet")
    await until(lambda: waits.search(unit(running, "operator").outcome.sentence), "the operator to wait")
    await until(lambda: len(deleted(running)) == 3, "the objects to be deleted")
    assert sorted(deleted(running)) == ["one", "three", "two"]
    hold(plane, f"/apis/{group}/v1/namespaces/{space}/gears/one")
    await until(lambda: key_of("operator") not in running.engine.workers[DGX].state.units, "the operator to go")
    await until(outcome_is(running, "crds", SyncState.RETAINED), "the definition to be kept for the stranger")
    assert plane.get(f"/apis/{group}/v1/namespaces/default/gears/stranger") is not None
    # 3: somebody deletes the definition by hand: a kind that is gone counts as done
    plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.{group}")
    running.push({"README.md": "look again"})
    running.engine.workers[DGX]._session.queue.poke(key_of("crds"))  # what is kept is looked at every five minutes
    await until(lambda: key_of("crds") not in running.engine.workers[DGX].state.units, "the definition's unit to go")
    assert f"gears.{group}" not in deleted(running)
    # R15: each deletion says for which commit, content and parent it was done
    told = [r.getMessage() for r in caplog.records if r.getMessage().startswith(f"deleted Gear.{group} {space}/two")]
    assert len(told) == 1
    assert re.search(rf"commit [0-9a-f]{{40}}, content \S+, parent {parent_name(key_of('gears'))}$", told[0])


async def test_what_an_operator_made_goes_before_its_custom_resource(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    """ssa-live 42: with Background the NIMService would be gone at once, while what runs for it goes on. The garbage
    collector, which learns of a new kind only after half a minute, is played here."""
    plane = planes("bare")
    space = "serving"
    plane.create_namespace(space)
    plane.create_crds(CRDS)
    spec = {"image": {"repository": "nvcr.io/nim/a", "tag": "1"}, "authSecret": "key", "storage": {"emptyDir": {}}}
    metadata = {"name": "chat", "namespace": space}
    service = {"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService", "metadata": metadata, "spec": spec}
    nims = bundle_files("nims", {"chat.yaml": yaml.safe_dump(service)})
    repo.commit({**repository(), **KEEP, **nims}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    path = f"/apis/apps.nvidia.com/v1alpha1/namespaces/{space}/nimservices/chat"
    running.push(removal(repo, "nims"))
    await until(outcome_is(running, "nims", SyncState.REMOVING), "the deletion to begin")
    assert plane.get(path)["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "held by finalizer foregroundDeletion" in unit(running, "nims").outcome.sentence
    hold(plane, path)
    await until(lambda: key_of("nims") not in running.engine.workers[DGX].state.units, "the unit to go")
    assert plane.get(path) is None
