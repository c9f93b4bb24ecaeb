"""Deleting with proof, stage by stage, on a cluster in memory. The proof itself: tests/plan/test_pruning.py."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.namespaces import Contents
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.pruning import LOOK_AGAIN, LOOK_AGAIN_RETAINED, Pruner, PruneReport, Removal


@pytest.fixture
def prune(kit: Any, cluster: Any, contents: Any, context: Any) -> Any:
    """prune(*objects, declared=(), applied_uids=(), may_write=True): one attempt at these members of the unit."""

    async def run(
        *objects: Any, declared: Any = (), applied_uids: Any = (), may_write: bool = True, **more: Any
    ) -> PruneReport:
        pruner = Pruner(
            contents,
            reconciler=kit.reconciler,
            context=context,
            may_write=lambda: may_write,
        )
        record = kit.record(*objects)
        return await pruner.prune(
            Removal(kit.key, record.members, cluster, declared=declared, applied_uids=applied_uids, **more)
        )

    return run


@pytest.fixture
def there(kit: Any, cluster: Any) -> Any:
    """there(name, kind): an object of ours that is on the cluster. `key` is the unit whose label it carries."""

    def make(name: str, kind: str = "ConfigMap", **of_unit: Any) -> Any:
        desired = kit.desired(name, kind, **of_unit)
        cluster.objects[desired.ref] = kit.live(desired)
        return desired

    return make


# -- order -----------------------------------------------------------------------------------------------------------


async def test_stages_go_in_reverse_and_the_namespace_last(cluster: Any, prune: Any, there: Any) -> None:
    space, settings, web = there("shop", "Namespace"), there("settings"), there("web", "Deployment")
    report = await prune(space, settings, web)
    assert cluster.verbs("delete") == ["web", "settings", "shop"]
    assert report.complete
    assert report.done == {space.ref, settings.ref, web.ref}


async def test_the_next_stage_waits_until_this_one_is_gone(cluster: Any, prune: Any, there: Any) -> None:
    settings, web = there("settings"), there("web", "Deployment")
    cluster.finalizers = ("example/hold",)
    report = await prune(settings, web)
    assert cluster.verbs("delete", "get") == ["web", "web"]
    assert report.sentence == "waiting for Deployment.apps shop/web: being deleted, held by finalizer example/hold"
    assert report.retry_after == LOOK_AGAIN

    cluster.calls.clear()
    report = await prune(settings, web)
    assert cluster.calls == [("get", "web")], "not deleted twice"
    assert not report.complete

    cluster.finalizers = ()
    del cluster.objects[web.ref]
    assert (await prune(settings, web)).complete
    assert settings.ref not in cluster.objects


async def test_an_error_keeps_its_member_and_ends_the_attempt_after_its_stage(
    kit: Any, cluster: Any, prune: Any, there: Any
) -> None:
    settings, web, app = there("settings"), there("web", "Deployment"), there("app", "Deployment")
    cluster.faults["delete", "web"] = kit.error(ErrorClass.STALE)
    report = await prune(settings, web, app)
    assert report.done == {app.ref}
    assert len(report.errors) == 1
    assert cluster.verbs("delete") == ["web", "app"] or cluster.verbs("delete") == ["app", "web"]
    assert not report.complete


async def test_a_member_that_cannot_be_read_is_no_absent_one(kit: Any, cluster: Any, prune: Any, there: Any) -> None:
    web = there("web")
    cluster.faults["get", "web"] = kit.error(ErrorClass.UNREACHABLE)
    report = await prune(web)
    assert (report.done, cluster.verbs("delete"), report.complete) == (set(), [], False)


async def test_without_the_lease_nothing_is_deleted(cluster: Any, prune: Any, there: Any) -> None:
    report = await prune(there("web"), may_write=False)
    assert (cluster.verbs("delete"), report.complete) == ([], False)


# -- kinds -----------------------------------------------------------------------------------------------------------


async def test_a_kind_that_is_gone_took_its_objects_along(kit: Any, cluster: Any, prune: Any, there: Any) -> None:
    gadget = there("g", "Gadget")
    cluster.served = [GroupVersionKind("", "v1", "ConfigMap")]
    report = await prune(gadget)
    assert (report.done, report.complete) == ({gadget.ref}, True)


async def test_r08_a_kind_that_discovery_does_not_know_yet_is_not_gone(
    kit: Any, cluster: Any, prune: Any, there: Any
) -> None:
    """Its definition is there: discovery lags behind, and what is of that kind may well exist."""
    gadget = there("g", "Gadget")
    cluster.served = [GroupVersionKind("", "v1", "ConfigMap")]
    cluster.definitions = [{"spec": {"group": "test.example", "names": {"kind": "Gadget"}}}]
    report = await prune(gadget)
    assert (report.done, len(report.errors)) == (set(), 1)


async def test_a_kind_of_which_nothing_is_known_is_not_gone(kit: Any, cluster: Any, prune: Any, there: Any) -> None:
    """Discovery has not answered yet: an empty answer proves nothing."""
    gadget = there("g", "Gadget")
    cluster.served = []
    report = await prune(gadget)
    assert (report.done, len(report.errors)) == (set(), 1)


async def test_a_member_is_found_at_the_version_that_is_served_now(cluster: Any, prune: Any, there: Any) -> None:
    gadget = there("g", "Gadget")
    cluster.served = [GroupVersionKind("test.example", "v2", "Gadget")]
    report = await prune(gadget)
    assert cluster.verbs("delete") == ["g"]
    assert report.done == {gadget.ref}


async def test_r08_a_kind_that_an_api_service_stands_for_is_not_gone(
    kit: Any, cluster: Any, prune: Any, there: Any
) -> None:
    """An aggregated API server that is down takes its kinds out of discovery; its objects live on behind it."""
    gadget = there("g", "Gadget")
    cluster.served = [GroupVersionKind("", "v1", "ConfigMap")]
    cluster.services = [{"spec": {"group": "test.example", "service": {"name": "gadgets"}}}]
    report = await prune(gadget)
    assert (report.done, len(report.errors)) == (set(), 1)
    cluster.services = [{"spec": {"group": "test.example"}}]
    assert (await prune(gadget)).done == {gadget.ref}, "that of a definition that is just going stands for nothing"


# -- operators, definitions and their objects ------------------------------------------------------------------------


@pytest.fixture
def operator(kit: Any, cluster: Any, there: Any) -> Any:
    """The objects of an operator: definition, Deployment, webhook configuration, namespace; and one object of its."""
    spec = {"group": "test.example", "names": {"kind": "Gadget"}, "versions": [{"name": "v1", "served": True}]}
    gadgets = there("gadgets.test.example", "CustomResourceDefinition", spec=spec)
    cluster.objects[gadgets.ref]["metadata"]["annotations"] = {"gitops/allow-delete": "true"}
    return (there("shop", "Namespace"), gadgets, there("operator", "Deployment"), there("own", "Gadget"))


async def test_o07_custom_resources_go_before_their_operator_its_definition_and_the_namespace(
    cluster: Any, prune: Any, operator: Any
) -> None:
    cluster.finalizers = ("test.example/hold",)
    report = await prune(*operator)
    assert (cluster.verbs("delete"), report.complete) == (["own"], False)
    cluster.finalizers = ()
    del cluster.objects[operator[-1].ref]
    report = await prune(*operator)
    assert cluster.verbs("delete") == ["own", "operator", "gadgets.test.example", "shop"]
    assert report.complete


async def test_r08_a_definition_whose_objects_nobody_deletes_stays_with_all_that_serves_it(
    cluster: Any, prune: Any, there: Any, operator: Any
) -> None:
    for number in range(7):
        there(f"their-{number}", "Gadget", namespace="elsewhere")
    report = await prune(*operator)
    assert cluster.verbs("delete") == ["own"], "what Git dropped goes"
    report = await prune(*operator[:-1])
    assert set(report.kept) == {o.ref for o in operator[:-1]}
    assert report.complete
    for sentence in report.kept.values():
        assert sentence.startswith("7 Gadget live and nobody deletes them: Gadget.test.example elsewhere/their-0, ")
        assert sentence.endswith("their-4 and 2 more")


async def test_r08_without_consent_a_definition_stays_and_its_operator_goes(
    cluster: Any, prune: Any, operator: Any
) -> None:
    del cluster.objects[operator[1].ref]["metadata"]["annotations"]
    report = await prune(*operator)
    assert cluster.verbs("delete") == ["own", "operator", "shop"]
    assert "every object of the kind" in report.kept[operator[1].ref]


@pytest.mark.parametrize(
    ("change", "deleted"),
    [
        pytest.param({"versions": [{"name": "v1", "served": False}]}, False, id="no version is served"),
        pytest.param({"names": {}}, True, id="it defines nothing"),
    ],
)
async def test_r08_a_definition_whose_objects_cannot_be_told_stays(
    cluster: Any, prune: Any, operator: Any, change: Any, deleted: bool
) -> None:
    cluster.objects[operator[1].ref]["spec"] |= change
    report = await prune(operator[1])
    assert (operator[1].ref in report.done, bool(report.errors)) == (deleted, not deleted)


async def test_r08_a_definition_stays_while_its_objects_cannot_be_listed(
    kit: Any, cluster: Any, prune: Any, operator: Any
) -> None:
    cluster.faults["list", "Gadget"] = kit.error(ErrorClass.RETRY)
    report = await prune(*operator[:-1])
    assert (cluster.verbs("delete"), report.complete) == ([], False)


async def test_o07_an_operator_waits_for_custom_resources_of_other_units(
    kit: Any, cluster: Any, prune: Any, operator: Any
) -> None:
    """Its definition may be in another bundle, or in none; without it their finalizers would never clear."""
    theirs = {kit.ref("cache", "NIMCache"): kit.other_key(), kit.ref("cache-2", "NIMCache"): kit.other_key()}
    space, _, deployment, _ = operator
    report = await prune(space, deployment, elsewhere=lambda: theirs)
    assert (cluster.verbs("delete"), report.retry_after) == ([], LOOK_AGAIN)
    assert "it may serve NIMCache.apps.nvidia.com shop/cache of bundle/other@a" in report.sentence
    assert (await prune(space, deployment)).complete


async def test_what_serves_nothing_waits_for_no_other_unit(kit: Any, cluster: Any, prune: Any, there: Any) -> None:
    report = await prune(there("settings"), elsewhere=lambda: {kit.ref("c", "NIMCache"): kit.other_key()})
    assert (cluster.verbs("delete"), report.complete) == (["settings"], True)


async def test_what_an_operator_made_goes_before_the_custom_resource_and_nothing_else_waits_so(
    cluster: Any, prune: Any, there: Any
) -> None:
    """ssa-live 42: in the foreground, what owns goes last; in the background it is gone while its pods still run."""
    cache = there("cache", "NIMCache")
    cluster.objects[cache.ref]["metadata"]["annotations"] = {"gitops/allow-delete": "true"}
    await prune(there("web", "Deployment"), there("g", "Gadget"), cache)
    assert cluster.propagations == {"web": "Background", "g": "Background", "cache": "Foreground"}


# -- finalizers ------------------------------------------------------------------------------------------------------


def deleted_at(cluster: Any, desired: Any, moment: str, *finalizers: str) -> None:
    cluster.objects[desired.ref]["metadata"] |= {"deletionTimestamp": moment, "finalizers": list(finalizers)}


async def test_a_deletion_that_somebody_holds_for_too_long_is_told_with_who_and_since_when(
    cluster: Any, prune: Any, there: Any, clock: Any, context: Any
) -> None:
    web = there("web")
    deleted_at(cluster, web, "2027-01-15T08:00:00Z", "example/hold", "example/other")
    clock.now = datetime.datetime(2027, 1, 15, 8, 10, tzinfo=datetime.UTC).timestamp()
    report = await prune(web)
    assert (report.overdue, report.problems) == ({}, ())
    clock.now += 1
    report = await prune(web)
    said = "its deletion is held by finalizer example/hold since 2027-01-15T08:00:00Z"
    (problem,) = report.problems
    assert (problem.object, problem.state, problem.message) == (web.ref, SyncState.BLOCKED, said)
    assert report.sentence == f"ConfigMap shop/web: {said}"
    assert not report.complete
    assert cluster.verbs("delete", "patch") == [], "finalizers are never taken off"


async def test_a_foreground_deletion_that_never_ends_is_let_go_in_the_background(
    cluster: Any, prune: Any, there: Any, clock: Any
) -> None:
    """An operator that does not look whether its object is being deleted makes the children again and again."""
    cache = there("cache", "NIMCache")
    cluster.objects[cache.ref]["metadata"]["annotations"] = {"gitops/allow-delete": "true"}
    deleted_at(cluster, cache, "2027-01-15T08:00:00Z", "foregroundDeletion")
    clock.now = datetime.datetime(2027, 1, 15, 8, 5, tzinfo=datetime.UTC).timestamp()
    assert not (await prune(cache)).complete
    assert cluster.verbs("delete") == []
    clock.now += 3600
    report = await prune(cache)
    assert cluster.propagations == {"cache": "Background"}
    assert (report.done, report.complete) == ({cache.ref}, True)


# -- what is left behind ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "left_behind"),
    [
        pytest.param({}, True, id="somebody stripped our labels"),
        pytest.param({"gitops/reconciler": "main"}, True, id="one of them"),
        pytest.param({"applyset.kubernetes.io/part-of": "x", "gitops/reconciler": "main"}, False, id="another unit"),
    ],
)
async def test_r13_what_lost_our_labels_stays_and_is_told_as_left_behind(
    cluster: Any, prune: Any, there: Any, labels: Any, left_behind: bool
) -> None:
    web = there("web")
    cluster.objects[web.ref]["metadata"]["labels"] = labels
    report = await prune(web)
    assert (cluster.verbs("delete"), report.done) == ([], {web.ref})
    expected = "left behind: ConfigMap shop/web (it no longer carries our labels)" if left_behind else "pruned"
    assert report.sentence == expected


@pytest.mark.parametrize("labels", [{}, {"applyset.kubernetes.io/part-of": "x", "gitops/reconciler": "main"}])
async def test_what_lost_our_labels_is_not_forgotten_while_a_held_workload_names_it(
    cluster: Any, prune: Any, there: Any, labels: Any
) -> None:
    """That one may go on with it, and then the uid here is the proof of whose it was."""
    web = there("web")
    cluster.objects[web.ref]["metadata"]["labels"] = labels
    report = await prune(web, withheld=lambda ref: "a workload that is held names it")
    assert (report.done, report.kept) == (set(), {web.ref: "a workload that is held names it"})


# -- what stays ------------------------------------------------------------------------------------------------------


async def test_what_another_unit_declares_and_has_is_handed_over(
    kit: Any, cluster: Any, prune: Any, there: Any
) -> None:
    web = there("web", key=kit.other_key())
    report = await prune(web, declared={web.ref})
    assert (report.done, report.kept, cluster.verbs("delete")) == ({web.ref}, {}, [])


async def test_an_object_just_applied_under_another_group_is_renamed_not_deleted(
    cluster: Any, prune: Any, there: Any
) -> None:
    web = there("web")
    report = await prune(web, applied_uids={"uid-web"})
    assert (report.done, cluster.verbs("delete")) == ({web.ref}, [])


async def test_an_object_that_holds_data_is_kept_and_told(cluster: Any, prune: Any, there: Any) -> None:
    disk = there("disk", "PersistentVolumeClaim")
    report = await prune(disk)
    assert (report.done, cluster.verbs("delete"), report.complete) == (set(), [], True)
    (problem,) = report.problems
    assert (problem.object, problem.state) == (disk.ref, SyncState.RETAINED)
    assert 'gitops/allow-delete: "true"' in report.sentence


async def test_r12_what_becomes_of_the_volume_is_told_and_nothing_is_promised(
    kit: Any, cluster: Any, prune: Any, there: Any
) -> None:
    disk = there("disk", "PersistentVolumeClaim", spec={"volumeName": "pv-1"})
    volume = ObjectRef("", "PersistentVolume", "", "pv-1")
    for policy, words in (("Delete", "are deleted with the claim"), ("Retain", "the volume stays")):
        cluster.objects[volume] = {"spec": {"persistentVolumeReclaimPolicy": policy}}
        report = await prune(disk)
        assert f"volume pv-1 has reclaim policy {policy}: " in report.kept[disk.ref]
        assert words in report.kept[disk.ref]
    cluster.faults["get", "pv-1"] = kit.error(ErrorClass.FORBIDDEN, "no right")
    assert "the reclaim policy of volume pv-1 is not known" in (await prune(disk)).kept[disk.ref]
    unbound = there("unbound", "PersistentVolumeClaim", spec={"storageClassName": "fast"})
    cluster.objects[ObjectRef("storage.k8s.io", "StorageClass", "", "fast")] = {"reclaimPolicy": "Retain"}
    assert "no volume is bound yet; class fast has reclaim policy Retain" in (await prune(unbound)).sentence


@pytest.mark.parametrize(
    ("found", "words", "complete"),
    [
        pytest.param(["foreign"], "it still holds ConfigMap shop/theirs", True, id="foreign objects"),
        pytest.param(["foreign", "more"], "theirs and 1 more", True, id="several of them"),
        pytest.param(["going"], "ConfigMap shop/theirs is not gone yet", False, id="objects on their way out"),
    ],
)
async def test_a_namespace_stays_while_something_is_in_it(
    kit: Any, cluster: Any, contents: Any, prune: Any, there: Any, found: list[str], words: str, complete: bool
) -> None:
    theirs = tuple(kit.ref("theirs") for _ in found)
    contents.found = Contents(going=theirs) if "going" in found else Contents(foreign=theirs)
    report = await prune(there("shop", "Namespace"))
    assert cluster.verbs("delete") == []
    assert words in report.sentence
    assert report.complete is complete
    assert report.retry_after == (LOOK_AGAIN_RETAINED if complete else LOOK_AGAIN)


async def test_a_namespace_of_unknown_contents_stays(
    kit: Any, cluster: Any, contents: Any, prune: Any, there: Any
) -> None:
    contents.found = kit.error(ErrorClass.RETRY, "metrics API down")
    report = await prune(there("shop", "Namespace"))
    assert (cluster.verbs("delete"), report.complete) == ([], False)
    assert "metrics API down" in report.sentence


async def test_data_in_the_unit_keeps_its_namespace(
    kit: Any, cluster: Any, contents: Any, prune: Any, there: Any
) -> None:
    disk, space = there("disk", "PersistentVolumeClaim"), there("shop", "Namespace")
    contents.found = Contents(foreign=(disk.ref,))
    report = await prune(disk, space)
    assert set(report.kept) == {disk.ref, space.ref}
    assert cluster.verbs("delete") == []


async def test_nothing_to_prune_costs_nothing(cluster: Any, prune: Any) -> None:
    report = await prune()
    assert (cluster.calls, report.complete, report.retry_after) == ([], True, None)


# -- heads that come meanwhile ---------------------------------------------------------------------------------------


async def test_r15_what_is_declared_again_before_the_delete_is_sent_stays(
    kit: Any, cluster: Any, contents: Any, context: Any, there: Any
) -> None:
    """The plan is of one head; the next may have come while objects were read or the server asked for a pause."""
    web, app = there("web"), there("app")
    declared: set[Any] = set()
    pruner = Pruner(
        contents,
        reconciler=kit.reconciler,
        context=context,
        may_write=lambda: True,
    )
    meanwhile = {("get", "web"): web.ref, ("delete", "app"): app.ref}
    cluster.before = lambda verb, name: declared.update({meanwhile[verb, name]} if (verb, name) in meanwhile else ())
    record = kit.record(web, app)
    report = await pruner.prune(
        Removal(
            kit.key,
            record.members,
            cluster,
            withheld=lambda ref: "it is declared" if ref in declared else "",
        )
    )
    assert set(cluster.objects) == {web.ref, app.ref}
    assert (report.done, report.kept) == (set(), {web.ref: "it is declared"})
    assert [e.cls for e in report.errors] == [ErrorClass.STALE]
