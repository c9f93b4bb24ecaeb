"""A unit whose namespace is on its way out: nothing in it is tried, its holder is told, and its end is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.discovery import Resource
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.namespaces import LOOKED_INTO, NamespaceContents
from gitops.model.identity import GroupVersionKind
from gitops.plan.planning import plan_unit
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.terminating import TerminatingNamespaces
from gitops.reconcile.waiting import Need, Till


async def test_nothing_is_tried_in_it_and_everything_beside_it_is(kit: Any, cluster: Any, contents: Any) -> None:
    space, inside, beside = kit.desired("shop", "Namespace"), kit.desired("web"), kit.desired("b", namespace="other")
    state = kit.state(kit.unit(space, inside, beside))
    kit.settled(state, space).deleting = True
    cluster.objects[space.ref] = kit.live(space)
    plan = plan_unit(state.unit(kit.key), record=None, observed=state.observed([space, inside, beside]))
    run = Attempt(state.unit(kit.key), cluster)
    steps = await TerminatingNamespaces(state, contents).possible(run, plan.applies)
    assert [s.object.ref for s in steps] == [beside.ref]
    [problem] = run.problems
    assert problem.state is SyncState.WAITING
    assert (
        problem.message == "it is being deleted, held by test/hold on ConfigMap shop/stuck; made anew when it is gone"
    )
    assert run.needs == {Need(space.ref, Till.GONE)}


async def test_one_that_is_gone_or_another_one_is_looked_at_again_at_once(
    kit: Any, cluster: Any, contents: Any
) -> None:
    space = kit.desired("shop", "Namespace")
    state = kit.state(kit.unit(space, kit.desired("web")))
    record = kit.settled(state, space)
    record.deleting = True
    run = Attempt(state.unit(kit.key), cluster)
    await TerminatingNamespaces(state, contents).possible(run, ())
    assert run.look_again
    assert record.suspect, "it is read before anything is decided"
    assert run.problems == []


# -- who holds it ----------------------------------------------------------------------------------------------------


class Answer:
    ok = True

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self._items = items

    def json(self) -> dict[str, Any]:
        return {"items": self._items}


class Server:
    """A connection and discovery in one: these kinds, and what is of them."""

    def __init__(self, kinds: dict[str, GroupVersionKind], items: dict[str, list[dict[str, Any]]]) -> None:
        self.kinds, self.items, self.asked = kinds, items, list[str]()

    async def everything(self) -> dict[GroupVersionKind, Resource]:
        return {g: Resource(g, plural, True, frozenset({"list"})) for plural, g in self.kinds.items()}

    async def request(self, method: str, path: str, **_: Any) -> Answer:
        self.asked.append(path.rpartition("/")[2])
        return Answer(self.items.get(self.asked[-1], []))


KINDS = {
    "configmaps": GroupVersionKind("", "v1", "ConfigMap"),
    "nimcaches": GroupVersionKind("apps.nvidia.com", "v1alpha1", "NIMCache"),
}
HELD = {"metadata": {"name": "llm", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["nim/finalizer"]}}
NOT_YET = {"metadata": {"name": "other", "finalizers": ["x/y"]}}
FINALIZERS = "Some content in the namespace has finalizers remaining: nim/finalizer in 1 resource instances"


def remaining(*kinds: str) -> str:
    return "Some resources are remaining: " + ", ".join(f"{kind} has 1 resource instances" for kind in kinds)


@pytest.mark.parametrize(
    ("conditions", "items", "told"),
    [
        ({}, {}, ""),
        (
            {"NamespaceContentRemaining": remaining("configmaps.", "nimcaches.apps.nvidia.com")},
            {"configmaps": [NOT_YET], "nimcaches": [NOT_YET, HELD]},
            "held by nim/finalizer on NIMCache.apps.nvidia.com ns/llm",
        ),
        (
            {"NamespaceContentRemaining": remaining("gone.example.com"), "NamespaceFinalizersRemaining": FINALIZERS},
            {},
            FINALIZERS,
        ),
        (
            {"NamespaceDeletionDiscoveryFailure": "Discovery failed\nfor some groups"},
            {},
            "Discovery failed for some groups",
        ),
    ],
    ids=["nothing-said", "object-found", "kind-unknown", "discovery"],
)
async def test_the_holder_is_read_from_the_conditions_and_one_list_for_each_kind(
    conditions: dict[str, str], items: dict[str, list[dict[str, Any]]], told: str
) -> None:
    server = Server(KINDS, items)
    status = {"conditions": [{"type": t, "status": "True", "message": m} for t, m in conditions.items()]}
    live = {"metadata": {"name": "ns"}, "status": status}
    assert await NamespaceContents(server, server).held_by(live) == told  # type: ignore[arg-type]
    assert len(server.asked) <= len(KINDS)


async def test_however_many_kinds_remain_few_are_asked() -> None:
    kinds = {f"kind{i}s": GroupVersionKind("example.com", "v1", f"Kind{i}") for i in range(30)}
    server = Server(kinds, {})
    message = remaining(*(f"{plural}.example.com" for plural in kinds))
    condition = {"type": "NamespaceContentRemaining", "status": "True", "message": message}
    live = {"metadata": {"name": "ns"}, "status": {"conditions": [condition]}}
    assert await NamespaceContents(server, server).held_by(live)  # type: ignore[arg-type]
    assert len(server.asked) == LOOKED_INTO


async def test_a_namespace_that_cannot_be_read_is_no_end(kit: Any, cluster: Any, contents: Any) -> None:
    space = kit.desired("shop", "Namespace")
    state = kit.state(kit.unit(space, kit.desired("web")))
    kit.settled(state, space).deleting = True
    cluster.faults["get", "shop"] = ApiError(ErrorClass.UNREACHABLE, message="no")
    run = Attempt(state.unit(kit.key), cluster)
    assert await TerminatingNamespaces(state, contents).possible(run, ()) == []
    assert [p.state for p in run.problems] == [SyncState.RETRYING]
