"""Drift: what people and controllers change on a cluster, and what becomes of it. kubectl is the other writer.

Each repair is counted in the fault proxy's log. "Nothing happened" is shown by doing something afterwards that must be
noticed by the same watch: events of one kind come in order, so what came before it was seen and left alone.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet, forget, until
from fleet_kit.scenes import (
    DGX,
    app,
    body_of,
    bundle_files,
    deployment,
    drift_reported,
    except_parents,
    key_of,
    line_of,
    live,
    outcome_is,
    repository,
    unit,
    writes_to,
)

from gitops.plan.parents import parent_name
from gitops.reconcile.fights import FightLimits
from gitops.reconcile.outcomes import SyncState
from gitops.report.drift import DriftKind, Repair

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes(DGX)
    forget(made)
    return made


async def started(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, namespace: str, **extra: str | None
) -> Fleet:
    """The bundle `app` in a namespace of the test's own, applied, and the log empty."""
    files = {**repository(), **bundle_files("app", app(namespace)), **extra}
    repo.commit(files, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    running.clear()
    return running


def merge(plane: ControlPlane, namespace: str, change: dict[str, object]) -> None:
    """Change the ConfigMap with kubectl patch."""
    plane.kubectl("patch", "configmap", "settings", "-n", namespace, "--type=merge", "-p", json.dumps(change))


def value(plane: ControlPlane, namespace: str, key: str) -> str | None:
    found = live(plane, namespace, "configmaps", "settings")
    data = (found or {}).get("data") or {}
    result: str | None = data.get(key)
    return result


# -- edits -----------------------------------------------------------------------------------------------------------


async def test_an_edited_value_is_repaired_with_one_write_and_reported_with_path_manager_and_line(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "edit")
    merge(plane, "edit", {"data": {"level": "debug"}})
    await until(lambda: value(plane, "edit", "level") == "info", "the repair")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert [w.path for w in running.writes(DGX)] == ["/api/v1/namespaces/edit/configmaps/settings"]
    assert len(running.calls(DGX)) == 1, "one apply, nothing read, nothing dry-run"
    [drift] = unit(running, "app").drifts
    assert (drift.path, drift.declared, drift.live) == ("data.level", "info", "debug")
    assert (drift.manager, drift.operation) == ("kubectl-patch", "Update")
    assert drift.repaired is Repair.REPAIRED
    text = repo.read("bundles/app/manifests/settings.yaml") or ""
    place = f"bundles/app/manifests/settings.yaml:{line_of(text, 'level: info')}"
    assert str(drift.declared_at) == place
    record = await drift_reported(running, "app", path="data.level", by="kubectl-patch", outcome="repaired")
    assert record["declaredAt"] == place
    assert (record["declared"], record["live"]) == ("info", "debug")


async def test_a_value_set_by_an_overlay_is_reported_with_the_overlays_line(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    overlay = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "overlaid"},
            "data": {"level": "warning"},
        },
        sort_keys=False,
    )
    files = bundle_files("app", app("overlaid"), patches=["overlays/level.yaml"])
    running = await started(fleet, repo, plane, "overlaid", **{**files, "bundles/app/overlays/level.yaml": overlay})
    assert value(plane, "overlaid", "level") == "warning"
    merge(plane, "overlaid", {"data": {"level": "x"}})
    line = line_of(overlay, "level: warning")
    record = await drift_reported(running, "app", path="data.level", outcome="repaired")
    assert record["declaredAt"] == f"bundles/app/overlays/level.yaml:{line}"
    assert value(plane, "overlaid", "level") == "warning"


async def test_a_changed_image_and_a_changed_variable_are_each_repaired_with_one_write(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "images")

    def container() -> dict[str, object]:
        found = live(plane, "images", "deployments", "web")
        assert found is not None
        first: dict[str, object] = found["spec"]["template"]["spec"]["containers"][0]
        return first

    plane.kubectl("set", "image", "-n", "images", "deployment/web", "web=example.com/web:evil")
    record = await drift_reported(running, "app", path="image", outcome="repaired")
    assert record["by"] == "kubectl-set (Update)"
    assert container()["image"] == "example.com/web:1"
    plane.kubectl("set", "env", "-n", "images", "deployment/web", "SECOND=changed")
    record = await drift_reported(running, "app", path="env", outcome="repaired", live="changed")
    text = repo.read("bundles/app/manifests/web.yaml") or ""
    assert record["declaredAt"] == f"bundles/app/manifests/web.yaml:{line_of(text, 'value: ') + 2}"
    assert container()["env"] == [{"name": "FIRST", "value": "1"}, {"name": "SECOND", "value": "2"}]
    assert [w.path.rpartition("/")[2] for w in running.writes(DGX)] == ["web", "web"]


async def test_a_scale_is_undone_with_one_write_and_the_subresource_named(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "scaled")
    plane.kubectl("scale", "-n", "scaled", "deployment/web", "--replicas=7")
    record = await drift_reported(running, "app", path="spec.replicas", outcome="repaired")
    assert record["by"] == "kubectl (Update, scale)"
    assert (record["declared"], record["live"]) == (2, 7)
    found = live(plane, "scaled", "deployments", "web")
    assert found is not None
    assert found["spec"]["replicas"] == 2
    assert len(running.writes(DGX)) == 1


async def test_items_put_in_another_order_are_put_back(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "order")
    found = live(plane, "order", "deployments", "web")
    assert found is not None
    found["spec"]["template"]["spec"]["containers"][0]["env"].reverse()
    plane.kubectl("replace", "-f", "-", stdin=json.dumps(found))
    await drift_reported(running, "app", path="env", outcome="repaired", detail="order")
    found = live(plane, "order", "deployments", "web")
    assert found is not None
    assert [e["name"] for e in found["spec"]["template"]["spec"]["containers"][0]["env"]] == ["FIRST", "SECOND"]
    assert len(running.writes(DGX)) == 1


async def test_an_object_that_lost_our_label_is_found_and_labelled_again_with_one_write(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "relabel")
    plane.kubectl("label", "-n", "relabel", "configmap", "settings", "gitops/reconciler-")

    def label() -> str | None:
        found = live(plane, "relabel", "configmaps", "settings")
        assert found is not None
        result: str | None = found["metadata"].get("labels", {}).get("gitops/reconciler")
        return result

    await until(lambda: label() == "demo", "our label to be back")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert [w.path for w in running.writes(DGX)] == ["/api/v1/namespaces/relabel/configmaps/settings"]
    assert unit(running, "app").drifts[0].kind is DriftKind.RELABELLED or unit(running, "app").drifts[1].kind
    record = await drift_reported(running, "app", kind="relabelled", outcome="repaired")
    assert record["declaredAt"].startswith("bundles/app/manifests/settings.yaml:")


# -- deletions -------------------------------------------------------------------------------------------------------


async def test_a_deleted_object_is_made_anew_with_one_write_to_it(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "deleted")
    before = live(plane, "deleted", "configmaps", "settings")
    plane.kubectl("delete", "-n", "deleted", "configmap", "settings")
    record = await drift_reported(running, "app", kind="deleted", outcome="repaired")
    assert record["declaredAt"] == "bundles/app/manifests/settings.yaml:1"
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    after = live(plane, "deleted", "configmaps", "settings")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert len(except_parents(running.writes(DGX))) == 1
    assert len(running.writes(DGX)) == 3, "the others are the parent's: before without the old uid, after with the new"
    parent = plane.get(f"/api/v1/namespaces/gitops-system/configmaps/{parent_name(key_of('app'))}")
    assert after["metadata"]["uid"] in parent["data"]["record"]


async def test_an_object_that_is_being_deleted_is_left_alone_until_it_is_gone_and_then_made_anew(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "going")
    merge(plane, "going", {"metadata": {"finalizers": ["a.b/c"]}})
    plane.kubectl("delete", "-n", "going", "configmap", "settings", "--wait=false")
    merge(plane, "going", {"data": {"level": "x"}})
    await drift_reported(running, "app", path="data.level")
    assert running.writes(DGX) == []
    merge(plane, "going", {"metadata": {"finalizers": None}})
    await until(lambda: value(plane, "going", "level") == "info", "a new object")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert len(except_parents(running.writes(DGX))) == 1


# -- what is not drift -----------------------------------------------------------------------------------------------


async def test_d03_d07_additions_beside_ours_stay_and_cause_no_call(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "beside")
    plane.kubectl("label", "-n", "beside", "configmap", "settings", "theirs=yes")
    plane.kubectl("annotate", "-n", "beside", "configmap", "settings", "note=hello")
    merge(plane, "beside", {"data": {"extra": "1"}})
    merge(plane, "beside", {"metadata": {"finalizers": ["a.b/c"]}})
    plane.kubectl("set", "env", "-n", "beside", "deployment/web", "THIRD=3")
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    plane.kubectl("patch", "-n", "beside", "deployment", "web", "--type=strategic", "-p", json.dumps(sidecar))
    status = {"status": {"observedGeneration": 1, "replicas": 2}}
    of_status = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    plane.kubectl("patch", "-n", "beside", "deployment", "web", *of_status)
    found = live(plane, "beside", "deployments", "web")
    assert found is not None
    version = found["metadata"]["resourceVersion"]
    records = running.engine.workers[DGX].state.objects
    await until(lambda: any(r.resource_version == version for r in list(records.values())), "the last write to be seen")
    found = live(plane, "beside", "configmaps", "settings")
    assert found is not None
    version = found["metadata"]["resourceVersion"]
    await until(lambda: any(r.resource_version == version for r in list(records.values())), "the other to be seen")
    assert unit(running, "app").outcome.state is SyncState.SYNCED
    assert running.calls(DGX) == []
    assert unit(running, "app").drifts == []
    # also a repair leaves them
    plane.kubectl("set", "image", "-n", "beside", "deployment/web", "web=example.com/web:evil")
    merge(plane, "beside", {"data": {"level": "x"}})
    await drift_reported(running, "app", path="image", outcome="repaired")
    await drift_reported(running, "app", path="data.level", outcome="repaired")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the repairs")
    found = live(plane, "beside", "configmaps", "settings")
    assert found is not None
    assert found["data"] == {"level": "info", "mode": "fast", "extra": "1"}
    assert found["metadata"]["labels"]["theirs"] == "yes"
    assert found["metadata"]["annotations"]["note"] == "hello"
    assert found["metadata"]["finalizers"] == ["a.b/c"]
    found = live(plane, "beside", "deployments", "web")
    assert found is not None
    containers = found["spec"]["template"]["spec"]["containers"]
    by_name = {c["name"]: c for c in containers}
    assert sorted(by_name) == ["side", "web"]
    assert [e["name"] for e in by_name["web"]["env"]] == ["FIRST", "SECOND", "THIRD"]
    assert len(running.writes(DGX)) == 2


# -- modes, pauses and fights ----------------------------------------------------------------------------------------


async def test_in_mode_report_drift_is_reported_and_not_repaired_and_undoing_it_ends_it(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    files = bundle_files("app", app("report"), mode="report")
    running = await started(fleet, repo, plane, "report", **files)
    merge(plane, "report", {"data": {"level": "x"}})
    await drift_reported(running, "app", path="data.level", outcome="reported")
    assert unit(running, "app").outcome.state is SyncState.PAUSED
    assert running.writes(DGX) == []
    assert value(plane, "report", "level") == "x"
    # a change in Git is applied all the same
    running.push({"bundles/app/manifests/web.yaml": deployment("web", "report", FIRST="changed")})
    await until(lambda: len(except_parents(running.writes(DGX))) == 1, "the commit to be applied")
    assert value(plane, "report", "level") == "x"
    merge(plane, "report", {"data": {"level": "info"}})
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be as declared again")
    assert writes_to(running.writes(DGX), "settings") == []


async def test_a_pause_on_the_parent_suspends_repair_until_it_is_taken_away(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "pause")
    parent = ("configmap", parent_name(key_of("app")), "-n", "gitops-system")
    until_then = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat(timespec="seconds")
    state = running.engine.workers[DGX].state
    for _ in range(2):  # twice: a pause can be set again after it was ended
        running.clear()
        plane.kubectl("annotate", *parent, f"gitops/pause-until={until_then}")
        await until(lambda: state.pauses.get(key_of("app")) == until_then, "the pause to be seen")
        merge(plane, "pause", {"data": {"level": "x"}})
        await until(outcome_is(running, "app", SyncState.PAUSED), "the unit to be paused")
        assert running.writes(DGX) == []
        plane.kubectl("annotate", *parent, "gitops/pause-until-")
        await until(lambda: value(plane, "pause", "level") == "info", "the repair")
        await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
        assert len(writes_to(running.writes(DGX), "settings")) == 1


async def test_a_pause_ends_by_itself(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> None:
    running = await started(fleet, repo, plane, "pause-ends")
    parent = ("configmap", parent_name(key_of("app")), "-n", "gitops-system")
    until_then = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)).isoformat()
    plane.kubectl("annotate", *parent, f"gitops/pause-until={until_then}")
    state = running.engine.workers[DGX].state
    await until(lambda: state.pauses.get(key_of("app")) == until_then, "the pause to be seen")
    merge(plane, "pause-ends", {"data": {"level": "x"}})
    await until(outcome_is(running, "app", SyncState.PAUSED), "the unit to be paused")
    await until(lambda: value(plane, "pause-ends", "level") == "info", "the repair")
    assert len(running.writes(DGX)) == 1


async def test_a_pause_is_seen_by_a_unit_without_config_maps(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("no-maps")
    files = {**repository(), **bundle_files("app", {"web.yaml": deployment("web", "no-maps", FIRST="1")})}
    repo.commit(files, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    running.clear()
    until_then = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat(timespec="seconds")
    plane.kubectl(
        "annotate", "-n", "gitops-system", "configmap", parent_name(key_of("app")), f"gitops/pause-until={until_then}"
    )
    state = running.engine.workers[DGX].state
    await until(lambda: state.pauses.get(key_of("app")) == until_then, "the pause to be seen")
    plane.kubectl("scale", "-n", "no-maps", "deployment/web", "--replicas=5")
    await until(outcome_is(running, "app", SyncState.PAUSED), "the unit to be paused")
    assert running.writes(DGX) == []


async def test_d06_a_path_that_another_writer_keeps_undoing_is_given_up_and_the_rest_stays_enforced(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    limits = FightLimits(limit=3, half_life=3600)
    files = {**repository(), **bundle_files("app", app("fight"))}
    repo.commit(files, "app")
    running = await fleet(repo, {DGX: plane}, options=replace(OPTIONS, fights=limits))
    await running.settled()
    running.clear()
    web, over = "/apis/apps/v1/namespaces/fight/deployments/web", threading.Event()

    def replicas() -> int:
        found = live(plane, "fight", "deployments", "web")
        assert found is not None
        number: int = found["spec"]["replicas"]
        return number

    def fight() -> None:
        while not over.is_set():
            if replicas() != 5:
                plane.request(
                    "PATCH",
                    web,
                    {"spec": {"replicas": 5}},
                    content_type="application/merge-patch+json",
                    query={"fieldManager": "stubborn-operator"},
                )

    fighter = asyncio.create_task(asyncio.to_thread(fight))
    try:
        await until(outcome_is(running, "app", SyncState.CONTESTED), "the fight to be given up")
        writes = len(writes_to(running.writes(DGX), "deployments/web"))
        assert writes == limits.limit
        text = repo.read("bundles/app/manifests/web.yaml") or ""
        place = f"bundles/app/manifests/web.yaml:{line_of(text, 'replicas: ')}"
        sentence = unit(running, "app").outcome.sentence
        assert f"spec.replicas: ours 2 ({place}), stubborn-operator (Update) writes 5; contested until 20" in sentence
        record = await drift_reported(running, "app", path="spec.replicas", outcome="contested")
        assert (record["by"], record["declaredAt"]) == ("stubborn-operator (Update)", place)
        # another path of that very object, and another object
        plane.kubectl("set", "image", "-n", "fight", "deployment/web", "web=example.com/web:evil")
        merge(plane, "fight", {"data": {"level": "x"}})
        await drift_reported(running, "app", path="image", outcome="repaired")
        await drift_reported(running, "app", path="data.level", outcome="repaired")
        repairs = writes_to(running.writes(DGX), "deployments/web")[writes:]
        assert ["replicas" in body_of(write)["spec"] for write in repairs] == [False]
        assert len(running.calls(DGX)) == writes + 3, "the parent has it: a restart must not begin the fight anew"
        assert unit(running, "app").outcome.state is SyncState.CONTESTED
        # a commit of another field leaves theirs alone
        running.push({"bundles/app/manifests/web.yaml": deployment("web", "fight", FIRST="changed")})
        await until(
            lambda: running.status(f"status/units/{DGX}/bundle.app.yaml")["commit"] == repo.head(), "the commit"
        )
        assert replicas() == 5
    finally:
        over.set()
        await fighter
    # the other one gives in: the unit is as declared, without a write of ours
    running.clear()
    plane.kubectl("scale", "-n", "fight", "deployment/web", "--replicas=2")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the end of the fight")
    assert running.writes(DGX) == []
    # a commit of that very path ends it for good
    running.push({"bundles/app/manifests/web.yaml": deployment("web", "fight", replicas=3, FIRST="changed")})
    await until(lambda: replicas() == 3, "the commit to be applied")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert running.engine.workers[DGX].state.parents[key_of("app")].contested == ()


# -- while nobody watched --------------------------------------------------------------------------------------------


async def test_an_edit_made_while_the_watch_was_cut_is_found_after_the_list(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "cut")
    proxy = running.proxies[DGX]
    hold = faults.Hold()
    expired = proxy.fail(faults.WatchError(410), faults.on("GET", "/configmaps$", watch=True))
    listing = proxy.fail(hold, faults.on("GET", "/configmaps$", watch=False))
    proxy.cut()
    await until(hold.arrived.is_set, "the list after the expired watch")
    merge(plane, "cut", {"data": {"level": "x"}})
    hold.release()
    await until(lambda: value(plane, "cut", "level") == "info", "the repair")
    assert expired.used == listing.used == 1
    record = await drift_reported(running, "app", path="data.level", outcome="repaired")
    assert record["by"] == "kubectl-patch (Update)"
    assert len(running.writes(DGX)) == 1


async def test_an_object_deleted_while_the_watch_was_cut_is_found_missing_in_the_list(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "cut-delete")
    proxy = running.proxies[DGX]
    hold = faults.Hold()
    proxy.fail(faults.WatchError(410), faults.on("GET", "/configmaps$", watch=True))
    proxy.fail(hold, faults.on("GET", "/configmaps$", watch=False))
    proxy.cut()
    await until(hold.arrived.is_set, "the list after the expired watch")
    plane.kubectl("delete", "-n", "cut-delete", "configmap", "settings")
    hold.release()
    await until(lambda: value(plane, "cut-delete", "level") == "info", "the repair")
    await drift_reported(running, "app", kind="deleted", outcome="repaired")
    assert len(except_parents(running.writes(DGX))) == 1


async def test_an_object_deleted_while_the_repair_of_it_is_under_way_is_made_anew(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Our apply carries the uid: it must not re-create what it means to repair; the deletion is found afterwards."""
    running = await started(fleet, repo, plane, "race")
    hold = faults.Hold()
    running.proxies[DGX].fail(hold, faults.on("PATCH", "/configmaps/settings$"))
    merge(plane, "race", {"data": {"level": "x"}})
    await until(hold.arrived.is_set, "the repair to be under way")
    uid = (live(plane, "race", "configmaps", "settings") or {})["metadata"]["uid"]
    assert body_of(writes_to(running.writes(DGX), "settings")[0])["metadata"]["uid"] == uid
    plane.kubectl("delete", "-n", "race", "configmap", "settings")
    hold.release()
    await until(lambda: value(plane, "race", "level") == "info", "a new object")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    assert len(writes_to(running.writes(DGX), "settings")) == 2


async def test_a_deletion_seen_before_the_answer_to_our_own_repair_is_not_forgotten(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "answer")
    hold = faults.HoldAnswer()
    running.proxies[DGX].fail(hold, faults.on("PATCH", "/configmaps/settings$"))
    merge(plane, "answer", {"data": {"level": "x"}})
    await until(hold.arrived.is_set, "the repair to be done")
    plane.kubectl("delete", "-n", "answer", "configmap", "settings")
    records = running.engine.workers[DGX].state.objects
    await until(lambda: any(r.left_in_flight for r in list(records.values())), "the deletion to be seen")
    hold.release()
    await until(lambda: value(plane, "answer", "level") == "info", "a new object")
    await drift_reported(running, "app", kind="deleted", outcome="repaired")


async def test_drift_of_a_time_without_a_daemon_is_found_at_start_and_told_from_a_change_in_git(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    running = await started(fleet, repo, plane, "restart")
    running.stop.set()
    await running.task
    merge(plane, "restart", {"data": {"level": "x"}})
    plane.kubectl("delete", "-n", "restart", "deployment", "web")
    again = await fleet(repo, {DGX: plane}, name="two")
    await again.settled()
    assert value(plane, "restart", "level") == "info"
    assert live(plane, "restart", "deployments", "web") is not None
    assert sorted(w.path.rpartition("/")[2] for w in except_parents(again.writes(DGX))) == ["settings", "web"]
    record = await drift_reported(again, "app", path="data.level", outcome="repaired")
    assert record["by"] == "kubectl-patch (Update)"
    await drift_reported(again, "app", kind="deleted", object="Deployment.apps restart/web", outcome="repaired")
