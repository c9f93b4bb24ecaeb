"""Deleting with proof, stage by stage, on a cluster in memory. The proof itself: tests/plan/test_pruning.py."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.namespaces import Contents
from gitops.model.identity import GroupVersionKind
from gitops.plan.ordering import stage_of
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.pruning import LOOK_AGAIN, LOOK_AGAIN_RETAINED, Pruner, PruneReport


@pytest.fixture
def prune(kit: Any, cluster: Any, contents: Any, context: Any) -> Any:
    """prune(*objects, declared=(), applied_uids=(), may_write=True): one attempt at these members of the unit."""

    async def run(*objects: Any, declared: Any = (), applied_uids: Any = (), may_write: bool = True) -> PruneReport:
        pruner = Pruner(
            contents,
            reconciler=kit.reconciler,
            stage_of=lambda gvk: stage_of(gvk, context.registry),
            may_write=lambda: may_write,
        )
        record = kit.record(*objects)
        return await pruner.prune(
            kit.key, record.members, applier=cluster, declared=declared, applied_uids=applied_uids
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
    assert report.sentence == "waiting for Deployment.apps shop/web: being deleted, held by example/hold"
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
        stage_of=lambda gvk: stage_of(gvk, context.registry),
        may_write=lambda: True,
    )
    meanwhile = {("get", "web"): web.ref, ("delete", "app"): app.ref}
    cluster.before = lambda verb, name: declared.update({meanwhile[verb, name]} if (verb, name) in meanwhile else ())
    record = kit.record(web, app)
    report = await pruner.prune(
        kit.key,
        record.members,
        applier=cluster,
        declared=(),
        applied_uids=(),
        withheld=lambda ref: "it is declared" if ref in declared else "",
    )
    assert set(cluster.objects) == {web.ref, app.ref}
    assert (report.done, report.kept) == (set(), {web.ref: "it is declared"})
    assert [e.cls for e in report.errors] == [ErrorClass.STALE]
