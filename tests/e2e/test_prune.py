"""Removing: exactly what left Git goes, with proof, and nothing goes because of what is broken, moved or unknown.

Case numbers are those of the catalogue of failures of other GitOps tools.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, cluster, config_map, forget, namespace_yaml, until
from fleet_kit.scenes import (
    DGX,
    app,
    bundle_files,
    deployment,
    except_parents,
    function_files,
    key_of,
    live,
    outcome_is,
    plain_map,
    repository,
    settings,
    unit,
)

from gitops.model.identity import UnitKey
from gitops.plan.parents import parent_name
from gitops.reconcile import pruning
from gitops.reconcile.outcomes import SyncState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

FUNCTION = function_files("chat", {"settings.yaml": plain_map("settings", level="info")})


REST = bundle_files("rest", {"rest.yaml": config_map("rest", "rest", value="1")})
"""A tree without any workload deletes nothing; so something has to stay where something is meant to go."""


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


async def started(fleet: StartFleet, repo: Repository, plane: ControlPlane, files: dict[str, str]) -> Fleet:
    """The repository with these files and a bundle that stays, applied, and the log empty."""
    plane.kubectl("create", "namespace", "rest", check=False)
    repo.commit({**repository(), **REST, **files}, "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    running.clear()
    return running


def maps(names: str, namespace: str) -> dict[str, str]:
    """Manifests of a namespace and one ConfigMap for each name."""
    found = {f"{name}.yaml": config_map(name, namespace, value=name) for name in names.split()}
    return {"namespace.yaml": namespace_yaml(namespace), **found}


def uid_of(plane: ControlPlane, namespace: str, name: str, kind: str = "configmaps") -> str | None:
    found = live(plane, namespace, kind, name)
    return found["metadata"]["uid"] if found else None


def deletes(running: Fleet) -> list[str]:
    """Paths of the deletes since the log was cleared."""
    return [w.path for w in running.writes(DGX) if w.method == "DELETE"]


def parent(plane: ControlPlane, name: str) -> dict[str, object] | None:
    found: dict[str, object] | None = plane.get(
        f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(key_of(name))}"
    )
    return found


def removal(repo: Repository, prefix: str) -> dict[str, str | None]:
    """The change that removes all files below a folder."""
    return {path: None for path in repo.files() if path.startswith(prefix)}


# -- removing what was declared --------------------------------------------------------------------------------------


async def test_removing_a_unit_prunes_exactly_its_objects_and_its_parent(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("shared-room")
    files = {
        **bundle_files("one", {"one.yaml": settings("shared-room", level="info")}),
        **bundle_files("two", {"two.yaml": config_map("two", "shared-room", value="2")}),
    }
    running = await started(fleet, repo, plane, files)
    plane.kubectl("create", "configmap", "foreign", "-n", "shared-room")
    two, foreign = uid_of(plane, "shared-room", "two"), uid_of(plane, "shared-room", "foreign")
    running.push(removal(repo, "bundles/one/"))
    await until(lambda: parent(plane, "one") is None, "the parent to go")
    await running.settled()
    assert uid_of(plane, "shared-room", "settings") is None
    assert (uid_of(plane, "shared-room", "two"), uid_of(plane, "shared-room", "foreign")) == (two, foreign)
    assert deletes(running) == [
        "/api/v1/namespaces/shared-room/configmaps/settings",
        f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(key_of('one'))}",
    ]
    await until(lambda: running.status("status/bundles/one.yaml") == {}, "its status file to go")


async def test_removing_one_object_of_a_bundle_deletes_that_object_only_with_uid_and_version(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("some", maps("a b c d", "some")))
    before = {name: uid_of(plane, "some", name) for name in "abcd"}
    version = (live(plane, "some", "configmaps", "b") or {})["metadata"]["resourceVersion"]
    running.push({"bundles/some/manifests/b.yaml": None})
    await running.settled()
    assert deletes(running) == ["/api/v1/namespaces/some/configmaps/b"]
    [request] = [w for w in running.writes(DGX) if w.method == "DELETE"]
    conditions = yaml.safe_load(request.body)["preconditions"]
    assert conditions == {"uid": before["b"], "resourceVersion": version}
    assert {n: uid_of(plane, "some", n) for n in "abcd"} == {**before, "b": None}


async def test_a_function_goes_with_its_namespace_last(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes("full", controllers=True)
    forget(plane)
    gpus = [{"name": "H100", "capacity": 8, "instanceTypes": [{"name": "H100x1", "gpusPerInstance": 1}]}]
    files = {
        **repository(),
        **FUNCTION,
        f"clusters/{DGX}.yaml": cluster(DGX, gpus=gpus, attributes=["NIMOperatorSupport"]),
    }
    running = await started(fleet, repo, plane, files)
    assert uid_of(plane, "fn-chat-any-0", "settings") is not None
    running.clear()
    running.push(removal(repo, "functions/"))
    key = UnitKey.parse(f"function/chat/any-0@{DGX}")
    await until(lambda: key not in running.engine.workers[DGX].state.units, "the unit to be gone")
    assert plane.get("/api/v1/namespaces/fn-chat-any-0") is None
    assert deletes(running) == [
        "/api/v1/namespaces/fn-chat-any-0/configmaps/settings",
        "/api/v1/namespaces/fn-chat-any-0",
        f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(key)}",
    ]


async def test_a_namespace_with_foreign_objects_is_kept_and_that_is_said(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes("full", controllers=True)
    forget(plane)
    running = await started(fleet, repo, plane, bundle_files("room", app("room")))
    plane.kubectl("create", "configmap", "foreign", "-n", "room")
    running.push(removal(repo, "bundles/room/"))
    await until(outcome_is(running, "room", SyncState.RETAINED), "the rest to be gone")
    assert "foreign" in unit(running, "room").outcome.sentence
    assert uid_of(plane, "room", "foreign") is not None
    assert uid_of(plane, "room", "settings") is None
    assert plane.get("/api/v1/namespaces/room")["status"]["phase"] == "Active"
    await until(
        lambda: "foreign" in str(running.status("status/units/dgx-a/bundle.room.yaml").get("outcome")), "its status"
    )


# -- nothing known badly ever deletes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda repo: dict.fromkeys(repo.files()), id="r01-empty-tree"),
        pytest.param(lambda repo: {"gitops.yaml": None}, id="gitops-yaml-deleted"),
        pytest.param(lambda repo: {"gitops.yaml": "kind: [\n"}, id="gitops-yaml-broken"),
        pytest.param(lambda repo: {"bundles/safe/bundle.yaml": "kind: [\n"}, id="bundle-yaml-broken"),
        pytest.param(lambda repo: {"bundles/safe/bundle.yaml": None}, id="r02-bundle-yaml-deleted"),
        pytest.param(lambda repo: {"bundles/safe/manifests/a.yaml": "a: b: c\n"}, id="manifest-broken"),
        pytest.param(lambda repo: removal(repo, "bundles/safe/manifests/"), id="r01-r02-manifests-folder-deleted"),
        pytest.param(
            lambda repo: {
                **removal(repo, "bundles/safe/manifests/"),
                **{f"bundles/safe/moved/{n}": t for n, t in maps("a b", "safe").items()},
            },
            id="r02-manifests-folder-renamed",
        ),
        pytest.param(
            lambda repo: {
                "bundles/safe/manifests/a.yaml": None,
                "bundles/safe/manifests/a.yaml.bak": config_map("a", "safe", value="a"),
                "bundles/safe/manifests/b.yaml": None,
                "bundles/safe/manifests/namespace.yaml": None,
            },
            id="r01-every-manifest-renamed-to-bak",
        ),
        pytest.param(lambda repo: {f"clusters/{DGX}.yaml": "kind: [\n"}, id="cluster-yaml-broken"),
    ],
)
async def test_a_broken_or_empty_tree_deletes_nothing(
    fleet: StartFleet,
    repo: Repository,
    plane: ControlPlane,
    damage: Callable[[Repository], dict[str, str | None]],
) -> None:
    running = await started(fleet, repo, plane, bundle_files("safe", maps("a b", "safe")))
    before = {name: uid_of(plane, "safe", name) for name in "ab"}
    assert all(before.values())
    commit = running.push(damage(repo), "damage")
    await until(
        lambda: running.engine.health().head == commit and not running.engine.looking, "the commit to be looked at"
    )
    await until(lambda: not running.engine.workers[DGX].busy, "the cluster to be at rest")
    assert [w for w in running.writes(DGX) if "/namespaces/gitops-system/" not in w.path] == []
    assert {name: uid_of(plane, "safe", name) for name in "ab"} == before
    assert parent(plane, "safe") is not None
    # drift is repaired all the same, from the last good commit
    plane.kubectl("delete", "-n", "safe", "configmap", "a")
    await until(lambda: uid_of(plane, "safe", "a"), "the held object to be repaired")
    # and mending the tree goes on from there
    running.clear()
    mended = dict.fromkeys(repo.files())
    commit = repo.commit({**mended, **repository(), **REST, **bundle_files("safe", maps("a b c", "safe"))}, "mended")
    running.engine.request_fetch()
    await running.settled(commit)
    assert uid_of(plane, "safe", "b") == before["b"]
    assert uid_of(plane, "safe", "c") is not None
    assert deletes(running) == []


async def test_r01_emptying_a_bundle_on_purpose_needs_consent_in_the_commit(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("shrink", maps("a b c d e f", "shrink")))
    commit = running.push({f"bundles/shrink/manifests/{n}.yaml": None for n in "abcde"}, "drop most")
    await until(outcome_is(running, "shrink", SyncState.FUSED), "the fuse")
    assert unit(running, "shrink").outcome.sentence.startswith("the commit would delete 5 of the unit's 7 objects")
    assert deletes(running) == []
    assert running.engine.health().head == commit
    # a commit on top of it, without consent, changes nothing about that
    running.push({"bundles/shrink/manifests/f.yaml": config_map("f", "shrink", value="new")}, "another")
    await until(lambda: (live(plane, "shrink", "configmaps", "f") or {})["data"]["value"] == "new", "the other change")
    await until(outcome_is(running, "shrink", SyncState.FUSED), "the fuse to hold")
    assert deletes(running) == []
    running.push({"README.md": "yes"}, "Yes, drop them\n\nGitops-Allow-Prune: bundle/shrink\n")
    await running.settled()
    assert sorted(p.rpartition("/")[2] for p in deletes(running)) == list("abcde")
    assert uid_of(plane, "shrink", "f") is not None


async def test_the_fuse_holds_and_consent_counts_also_over_a_restart(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("shrink", maps("a b c d", "shrink-2")))
    running.push({f"bundles/shrink/manifests/{n}.yaml": None for n in "abc"}, "drop most")
    await until(outcome_is(running, "shrink", SyncState.FUSED), "the fuse")
    running.stop.set()
    await running.task
    again = await fleet(repo, {DGX: plane}, name="two")
    await until(outcome_is(again, "shrink", SyncState.FUSED), "the fuse after the restart")
    again.stop.set()
    await again.task
    repo.commit({"README.md": "yes"}, "Yes\n\nGitops-Allow-Prune: bundle/*\n")
    repo.commit({"README.md": "later"}, "a commit on top of the consent")
    third = await fleet(repo, {DGX: plane}, name="three")
    await third.settled()
    assert sorted(p.rpartition("/")[2] for p in deletes(third)) == list("abc")


# -- renames, moves and other writers --------------------------------------------------------------------------------


async def test_a_renamed_file_keeps_its_objects(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> None:
    running = await started(fleet, repo, plane, bundle_files("named", maps("a b", "named")))
    before = uid_of(plane, "named", "a")
    running.push(
        {"bundles/named/manifests/a.yaml": None, "bundles/named/manifests/z.yaml": config_map("a", "named", value="a")}
    )
    await running.settled()
    assert uid_of(plane, "named", "a") == before
    assert deletes(running) == []
    annotations = (live(plane, "named", "configmaps", "a") or {})["metadata"]["annotations"]
    assert annotations["gitops/source"] == "bundles/named/manifests/z.yaml"


@pytest.mark.parametrize("first", ["old", "new"])
async def test_r06_an_object_moved_between_bundles_keeps_its_uid_whichever_goes_first(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, first: str
) -> None:
    namespace = f"moved-{first}"
    plane.create_namespace(namespace)
    keep = {"keep.yaml": config_map("keep", namespace, value="1")}
    stay = {"stay.yaml": config_map("stay", namespace, value="1")}
    files = {
        **bundle_files("old", {**keep, "moving.yaml": config_map("moving", namespace, value="1")}),
        **bundle_files("new", stay),
    }
    running = await started(fleet, repo, plane, files)
    before = uid_of(plane, namespace, "moving")
    hold = faults.Hold()  # either the new one's parent is not written yet, or the old one has not read what is to go
    late = f"/configmaps/{parent_name(key_of('new'))}$" if first == "old" else "/configmaps/moving$"
    running.proxies[DGX].fail(hold, faults.on("PATCH" if first == "old" else "GET", late))
    running.push(
        {
            "bundles/old/manifests/moving.yaml": None,
            "bundles/new/manifests/moving.yaml": config_map("moving", namespace, value="1"),
        }
    )
    await until(hold.arrived.is_set, "the second one to be held")
    if first == "old":
        await until(lambda: unit(running, "old").outcome.state is SyncState.REMOVING, "the old one to wait for it")
        assert "has not taken it over yet" in unit(running, "old").outcome.sentence
    else:
        await until(lambda: taken_over(running, "new"), "the new one to be done")
    hold.release()
    await running.settled()
    assert uid_of(plane, namespace, "moving") == before
    assert deletes(running) == []
    labels = (live(plane, namespace, "configmaps", "moving") or {})["metadata"]["labels"]
    new_parent = parent(plane, "new")
    assert new_parent is not None
    assert labels["applyset.kubernetes.io/part-of"] == new_parent["metadata"]["labels"]["applyset.kubernetes.io/id"]
    # it is the new one's alone now: removing the old bundle leaves it
    running.push(removal(repo, "bundles/old/"))
    await until(lambda: parent(plane, "old") is None, "the old unit to go")
    await running.settled()
    assert uid_of(plane, namespace, "moving") == before
    assert uid_of(plane, namespace, "keep") is None


def taken_over(running: Fleet, name: str) -> bool:
    """Whether the unit's parent says that the head is applied."""
    state = running.engine.workers[DGX].state
    record, wanted = state.parents.get(key_of(name)), state.unit(key_of(name))
    return record is not None and wanted is not None and record.content_key == wanted.content_key


async def test_r10_a_child_that_carries_our_copied_labels_is_never_pruned(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("labels", maps("a b", "labels")))
    labels = (live(plane, "labels", "configmaps", "a") or {})["metadata"]["labels"]
    child = yaml.safe_load(config_map("child", "labels", made="by an operator"))
    child["metadata"]["labels"] = labels
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(child))
    before = uid_of(plane, "labels", "child")
    running.push({"bundles/labels/manifests/a.yaml": None})
    await running.settled()
    running.push(removal(repo, "bundles/labels/"))
    await until(lambda: uid_of(plane, "labels", "b") is None, "the unit's objects to go")
    await until(lambda: not running.engine.workers[DGX].busy, "the cluster to be at rest")
    assert uid_of(plane, "labels", "child") == before
    assert all("child" not in p for p in deletes(running))


async def test_an_object_that_another_has_replaced_is_not_pruned(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("taken", maps("a b", "taken"), mode="report"))
    plane.kubectl("delete", "configmap", "a", "-n", "taken")
    plane.kubectl("create", "configmap", "a", "-n", "taken", "--from-literal=mine=1")
    theirs = uid_of(plane, "taken", "a")
    running.push({"bundles/taken/manifests/a.yaml": None})
    await running.settled()
    assert uid_of(plane, "taken", "a") == theirs
    assert deletes(running) == []


# -- data ------------------------------------------------------------------------------------------------------------


def claim(namespace: str, **annotations: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data",
                "namespace": namespace,
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )


async def test_r12_a_removed_volume_claim_goes_when_somebody_annotates_the_kept_one(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LOOK_AGAIN_RETAINED", 0.5)
    files = bundle_files("told", {**maps("a", "told"), "pvc.yaml": claim("told")})
    running = await started(fleet, repo, plane, files)
    running.push({"bundles/told/manifests/pvc.yaml": None})
    await until(outcome_is(running, "told", SyncState.RETAINED), "the claim to be kept")
    plane.kubectl("annotate", "pvc", "data", "-n", "told", "gitops/allow-delete=true")
    await until(lambda: deletes(running), "its deletion")
    plane.kubectl("patch", "pvc", "data", "-n", "told", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await until(outcome_is(running, "told", SyncState.SYNCED), "the end of it")
    record = running.engine.workers[DGX].state.parents[key_of("told")]
    assert all(m.ref.kind != "PersistentVolumeClaim" for m in record.members)


async def test_r12_a_volume_claim_is_kept_until_consent_is_written_on_it(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("data", {**maps("a", "data"), "pvc.yaml": claim("data")}))
    kind = "persistentvolumeclaims"
    before = uid_of(plane, "data", "data", kind)
    running.push({"bundles/data/manifests/pvc.yaml": None})
    await until(lambda: unit(running, "data").outcome.problems, "the claim to be kept")
    assert unit(running, "data").outcome.problems[0].state is SyncState.RETAINED
    assert "gitops/allow-delete" in unit(running, "data").outcome.problems[0].message
    assert uid_of(plane, "data", "data", kind) == before
    # declared again with consent, then removed
    path = "bundles/data/manifests/pvc.yaml"
    running.push({path: claim("data", **{"gitops/allow-delete": "true"})})
    await running.settled()
    assert uid_of(plane, "data", "data", kind) == before
    running.push({path: None})
    await until(
        lambda: (live(plane, "data", kind, "data") or {}).get("metadata", {}).get("deletionTimestamp"), "delete"
    )
    assert deletes(running) == ["/api/v1/namespaces/data/persistentvolumeclaims/data"]
    plane.kubectl("patch", "pvc", "data", "-n", "data", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await running.settled()


# -- broken units, lost state ----------------------------------------------------------------------------------------


async def test_a_broken_workload_stays_at_its_last_good_commit_also_after_a_restart_and_others_go_on(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("held")
    files = {
        **bundle_files("bad", {"a.yaml": config_map("a", "held", value="1"), "b.yaml": config_map("b", "held", v="1")}),
        **bundle_files("fine", {"c.yaml": config_map("c", "held", value="1")}),
    }
    running = await started(fleet, repo, plane, files)
    good = repo.head()
    running.push(
        {
            "bundles/bad/manifests/a.yaml": "kind: [\n",
            "bundles/bad/manifests/b.yaml": None,
            "bundles/fine/manifests/c.yaml": config_map("c", "held", value="2"),
        },
        "one breaks, one changes",
    )
    await until(lambda: (live(plane, "held", "configmaps", "c") or {})["data"]["value"] == "2", "the other to go on")
    await running.settled()
    assert uid_of(plane, "held", "b") is not None
    await until(lambda: running.status("status/bundles/bad.yaml").get("held"), "the finding in the status file")
    assert "bundles/bad/manifests/a.yaml:" in running.status("status/bundles/bad.yaml")["held"][0]
    assert running.status("status/units/dgx-a/bundle.bad.yaml")["commit"] == good
    running.stop.set()
    await running.task
    again = await fleet(repo, {DGX: plane}, name="two")
    await again.settled()
    assert except_parents(again.writes(DGX)) == []
    plane.kubectl("delete", "configmap", "b", "-n", "held")
    await until(lambda: uid_of(plane, "held", "b"), "the held unit to be repaired from its last good commit")


async def test_r03_when_the_replacement_is_refused_the_old_object_stays_until_it_is_accepted(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    files = bundle_files("swap", {**maps("a b c", "swap"), "web.yaml": deployment("old", "swap", FIRST="1")})
    running = await started(fleet, repo, plane, files)
    before = uid_of(plane, "swap", "old", "deployments")
    path = "bundles/swap/manifests/web.yaml"
    wrong = deployment("new", "swap", FIRST="1").replace("matchLabels:", "matchLabels:\n      tier: other")
    running.push({path: wrong})  # the selector does not match the template: no API server takes it
    await until(outcome_is(running, "swap", SyncState.REFUSED), "the refusal")
    assert uid_of(plane, "swap", "old", "deployments") == before
    assert deletes(running) == []
    running.push({path: deployment("new", "swap", FIRST="2")})
    await running.settled()
    assert uid_of(plane, "swap", "old", "deployments") is None
    assert uid_of(plane, "swap", "new", "deployments") is not None


def left_behind(running: Fleet, namespace: str) -> list[str]:
    """What the cluster's status tells of a namespace; other tests leave their objects behind as well."""
    told = running.status(f"status/clusters/{DGX}.yaml").get("leftBehind") or []
    return [sentence for sentence in told if f" {namespace}/" in sentence]


async def test_r13_a_lost_parent_is_made_anew_adopts_what_is_declared_and_prunes_nothing(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, bundle_files("lost", maps("a b c", "lost")))
    before = {name: uid_of(plane, "lost", name) for name in "abc"}
    running.stop.set()
    await running.task
    plane.kubectl("delete", "configmap", "-n", "gitops-system", parent_name(key_of("lost")))
    repo.commit({"bundles/lost/manifests/c.yaml": None}, "removed while the parent is lost")
    again = await fleet(repo, {DGX: plane}, name="two")
    await again.settled()
    assert {name: uid_of(plane, "lost", name) for name in "abc"} == before
    assert except_parents(again.writes(DGX)) == []
    # what Git dropped meanwhile may be an orphan: it is kept, and told for as long as it is so
    told = ["ConfigMap lost/c: it carries our marks, and no parent names it"]
    await until(lambda: left_behind(again, "lost") == told, "the orphan to be told")
    # from then on it is as ever
    again.clear()
    again.push({"bundles/lost/manifests/b.yaml": None})
    await again.settled()
    assert deletes(again) == ["/api/v1/namespaces/lost/configmaps/b"]
    # somebody takes our labels off what Git drops next: it stays, and that is told too
    labels = {"metadata": {"labels": {"gitops/reconciler": None, "applyset.kubernetes.io/part-of": None}}}
    hold = faults.Hold()
    again.proxies[DGX].fail(hold, faults.on("GET", "/configmaps/a$"))
    again.push({"bundles/lost/manifests/a.yaml": None})
    await until(hold.arrived.is_set, "the daemon to read it before the deletion")
    path = "/api/v1/namespaces/lost/configmaps/a"
    plane.request("PATCH", path, labels, content_type="application/merge-patch+json")
    hold.release()
    await again.settled()
    assert uid_of(plane, "lost", "a") == before["a"]
    said = "left behind: ConfigMap lost/a (it no longer carries our labels)"
    assert unit(again, "lost").outcome.sentence == said
    told = ["ConfigMap lost/a: it no longer carries our labels", *told]
    await until(lambda: left_behind(again, "lost") == told, "both to be told")


async def test_s01_objects_made_by_kubectl_apply_are_adopted_and_fields_dropped_later_really_go(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("adopt")
    plane.kubectl("apply", "-f", "-", stdin=config_map("settings", "adopt", one="1", two="2", live="theirs"))
    before = uid_of(plane, "adopt", "settings")
    manifest = {"settings.yaml": config_map("settings", "adopt", one="1", two="2")}
    running = await started(fleet, repo, plane, bundle_files("adopt", manifest))
    assert uid_of(plane, "adopt", "settings") == before
    running.push({"bundles/adopt/manifests/settings.yaml": config_map("settings", "adopt", one="1")})
    await running.settled()
    assert (live(plane, "adopt", "configmaps", "settings") or {})["data"] == {"one": "1"}


async def test_an_object_of_a_helm_release_is_refused_and_not_touched(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("helm")
    plane.kubectl("create", "namespace", "rest", check=False)
    made = yaml.safe_load(config_map("settings", "helm", value="chart"))
    made["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    made["metadata"]["annotations"] = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "helm"}
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(made))
    before = live(plane, "helm", "configmaps", "settings")
    manifests = {"settings.yaml": config_map("settings", "helm", value="git"), "b.yaml": config_map("b", "helm", v="1")}
    repo.commit({**repository(), **REST, **bundle_files("helm", manifests)}, "helm")
    running = await fleet(repo, {DGX: plane})
    await until(outcome_is(running, "helm", SyncState.REFUSED), "the refusal")
    assert "it exists and the Helm release web declares it" in unit(running, "helm").outcome.sentence
    assert live(plane, "helm", "configmaps", "settings") == before
    assert uid_of(plane, "helm", "b") is not None, "the rest goes on"
    # removed from Git again: what was never ours stays
    running.clear()
    running.push(removal(repo, "bundles/helm/"))
    await until(lambda: parent(plane, "helm") is None, "the unit to go")
    assert live(plane, "helm", "configmaps", "settings") == before
