"""The owner tree: by uid, bounded, safe against circles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitops.readiness.mapping import Mappings
from gitops.readiness.owners import OwnerIndex, link, owner_uids, project
from gitops.readiness.statuses import Status

Make = Callable[..., dict[str, Any]]


def names(index: OwnerIndex, uid: str, **options: Any) -> list[str]:
    return [record.ref.name for _, record in index.descendants(uid, **options)]


def test_descendants_breadth_first_and_ancestors(make: Make) -> None:
    root = make("g/v1", "Root", "root")
    chain = [root]
    index = OwnerIndex()
    for name in ("dcd", "deployment", "replicaset", "pod", "toodeep"):
        chain.append(make("g/v1", "Child", name, owner=chain[-1]))
        index.put(link(chain[-1]))
    uid = root["metadata"]["uid"]
    assert names(index, uid) == ["dcd", "deployment", "replicaset", "pod"]
    assert names(index, uid, depth=2) == ["dcd", "deployment"]
    assert index.ancestors(chain[4]["metadata"]["uid"]) == {o["metadata"]["uid"] for o in chain[:4]}


def test_a_recreated_owner_does_not_get_the_old_children(make: Make) -> None:
    old, new = make("g/v1", "Root", "same"), make("g/v1", "Root", "same")
    index = OwnerIndex()
    index.put(link(make("g/v1", "Child", "c", owner=old)))
    assert names(index, new["metadata"]["uid"]) == []


def test_a_circle_ends(make: Make) -> None:
    a, b = make("g/v1", "A", "a"), make("g/v1", "B", "b")
    a["metadata"]["ownerReferences"] = [{"uid": b["metadata"]["uid"]}]
    b["metadata"]["ownerReferences"] = [{"uid": a["metadata"]["uid"]}]
    index = OwnerIndex()
    index.put(link(a))
    index.put(link(b))
    assert names(index, a["metadata"]["uid"]) == ["b"]
    assert index.ancestors(a["metadata"]["uid"]) == {a["metadata"]["uid"], b["metadata"]["uid"]}


def test_another_namespace_is_not_owned(make: Make) -> None:
    root = make("g/v1", "Root", "root")
    index = OwnerIndex()
    index.put(link(make("g/v1", "Child", "here", owner=root)))
    index.put(link(make("g/v1", "Child", "there", owner=root, metadata={"namespace": "other"})))
    assert names(index, root["metadata"]["uid"], namespace="ns") == ["here"]


def test_moving_and_removing(make: Make) -> None:
    first, second = make("g/v1", "Root", "1"), make("g/v1", "Root", "2")
    child = make("g/v1", "Child", "c", owner=first)
    index = OwnerIndex()
    index.put(link(child))
    child["metadata"]["ownerReferences"] = [{"uid": second["metadata"]["uid"], "controller": True}]
    index.put(link(child))
    assert names(index, first["metadata"]["uid"]) == []
    assert names(index, second["metadata"]["uid"]) == ["c"]
    assert index.remove(child["metadata"]["uid"]) is not None
    assert index.remove(child["metadata"]["uid"]) is None
    assert (names(index, second["metadata"]["uid"]), len(index)) == ([], 0)


def test_the_controller_is_the_owner_where_there_is_one(make: Make) -> None:
    references = [{"uid": "a"}, {"uid": "b", "controller": True}, {"uid": "c"}]
    assert owner_uids({"metadata": {"ownerReferences": references}}) == ("b",)
    assert owner_uids({"metadata": {"ownerReferences": references[::2]}}) == ("a", "c")
    assert owner_uids({"metadata": {"ownerReferences": "odd"}}) == ()
    assert owner_uids(make("v1", "Pod")) == ()


def test_projection_keeps_the_verdict_and_drops_the_object(make: Make, mappings: Mappings, now: float) -> None:
    pod = make("v1", "Pod", status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    record = project(pod, mappings.for_object(pod), now=now)
    assert record.status(now).status is Status.READY
    assert not any(value is pod for value in (getattr(record, name) for name in record.__slots__))
