"""Letting a cluster go: marks off, objects stay, parents last."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.reconcile.releasing import release, unmarking


def labels(cluster: Any, desired: Any) -> dict[str, str]:
    found: dict[str, str] = cluster.objects[desired.ref]["metadata"]["labels"]
    return found


async def test_marks_go_objects_stay_and_the_parent_goes_last(kit: Any, cluster: Any, parents: Any) -> None:
    web = kit.desired("web")
    live = cluster.objects[web.ref] = kit.live(web)
    live["metadata"] |= {"annotations": {"gitops/source": "x.yaml", "team": "ml"}}
    live["metadata"]["labels"]["team"] = "ml"
    state = kit.state(records=[kit.record(web)])
    await release(state, cluster, parents)
    metadata = cluster.objects[web.ref]["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"team": "ml"}, {"team": "ml"})
    assert [verb for verb, _ in cluster.calls] == ["get", "patch", "delete parent"]
    assert state.parents == {}


async def test_a_parent_stays_while_one_of_its_objects_could_not_be_unmarked(
    kit: Any, cluster: Any, parents: Any
) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    cluster.objects |= {web.ref: kit.live(web), app.ref: kit.live(app)}
    cluster.faults["patch", "web"] = kit.error(ErrorClass.STALE)
    state = kit.state(records=[kit.record(web, app)])
    await release(state, cluster, parents)
    assert list(state.parents) == [kit.key]
    assert labels(cluster, app) == {}, "the others are released all the same"


async def test_an_object_that_cannot_be_read_keeps_the_parent(kit: Any, cluster: Any, parents: Any) -> None:
    web = kit.desired("web")
    cluster.faults["get", "web"] = kit.error(ErrorClass.UNREACHABLE)
    state = kit.state(records=[kit.record(web)])
    await release(state, cluster, parents)
    assert list(state.parents) == [kit.key]


async def test_another_object_of_that_name_is_not_touched(kit: Any, cluster: Any, parents: Any) -> None:
    web = kit.desired("web")
    cluster.objects[web.ref] = kit.live(web, uid="another")
    await release(kit.state(records=[kit.record(web)]), cluster, parents)
    assert cluster.verbs("patch") == []


@pytest.mark.parametrize("gone", [True, False], ids=["it is gone", "it has no marks"])
async def test_what_has_nothing_of_ours_needs_no_write(kit: Any, cluster: Any, parents: Any, gone: bool) -> None:
    web = kit.desired("web")
    if not gone:
        cluster.objects[web.ref] = kit.live(web)
        labels(cluster, web).clear()
    state = kit.state(records=[kit.record(web)])
    await release(state, cluster, parents)
    assert (cluster.verbs("patch"), state.parents) == ([], {})


def test_the_patch_holds_only_for_the_version_it_was_made_from() -> None:
    operations = unmarking({"resourceVersion": "7", "labels": {"gitops/reconciler": "main"}})
    assert operations == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/labels/gitops~1reconciler"},
    ]
