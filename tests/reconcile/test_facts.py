"""When a cluster is asked about itself, and when it is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gitops.cluster.errors import RequestFailed, unreachable
from gitops.cluster.facts import Reading
from gitops.model.clusters import Cluster
from gitops.model.identity import GroupVersionKind
from gitops.policy.facts import ClusterFacts
from gitops.policy.registry import OperatorRegistry
from gitops.reconcile.facts import AGAIN_AFTER, AGAIN_AT_MOST, FactsKeeper, Wanted

pytestmark = pytest.mark.looptime

CONFIG = GroupVersionKind("", "v1", "ConfigMap")
GADGET = GroupVersionKind("test.example", "v1", "Gadget")
GRAPH = GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment")


class Desk:
    """A reader that gives what it is told to, and everything that was asked and told."""

    def __init__(self, context: Any) -> None:
        self.wanted = Wanted(frozenset({CONFIG}), ())
        self.answers: list[Reading | Exception] = []
        self.reads: list[frozenset[GroupVersionKind]] = []
        self.told: list[Reading | None] = []
        self.keeper = FactsKeeper(
            self,  # type: ignore[arg-type]
            context,
            name="a",
            wanted=lambda: self.wanted,
            unchanged=dict,
            server_version=lambda: "v1.34.0",
            told=self.told.append,
        )

    async def read(self, kinds: frozenset[GroupVersionKind], types: Any, **_: Any) -> Reading:
        self.reads.append(kinds)
        answer = self.answers.pop(0) if self.answers else Reading(ClusterFacts())
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def desk(context: Any) -> AsyncIterator[Desk]:
    made = Desk(context)
    yield made
    await made.keeper.close()


async def test_at_rest_nothing_is_read(desk: Desk) -> None:
    desk.keeper.look_soon()
    await asyncio.sleep(3600)
    assert desk.reads == [], "nothing before a session took over"
    desk.keeper.look()
    await asyncio.sleep(24 * 3600)
    assert len(desk.reads) == len(desk.told) == 1


async def test_definitions_that_come_together_are_read_once_they_keep_still(desk: Desk) -> None:
    desk.keeper.look()
    await asyncio.sleep(1)
    for _ in range(20):
        desk.keeper.look_soon()
        await asyncio.sleep(0.3)
    assert len(desk.reads) == 1
    await asyncio.sleep(10)
    assert len(desk.reads) == 2


async def test_a_kind_that_is_declared_for_the_first_time_is_read(desk: Desk) -> None:
    desk.keeper.look()
    await asyncio.sleep(1)
    desk.keeper.assigned()
    await asyncio.sleep(1)
    assert desk.reads == [{CONFIG}]
    desk.wanted = Wanted(frozenset({CONFIG, GADGET}), ())
    desk.keeper.assigned()
    await asyncio.sleep(1)
    assert desk.reads == [{CONFIG}, {CONFIG, GADGET}]
    desk.wanted = Wanted(frozenset({GADGET}), ())
    desk.keeper.assigned()
    await asyncio.sleep(1)
    assert len(desk.reads) == 2, "what is known more costs nothing"


async def test_what_met_passing_trouble_is_tried_again(desk: Desk) -> None:
    """Soon, since an operator whose rights are not known is closed meanwhile; then ever more rarely."""
    trouble = Reading(ClusterFacts(), unread=("something",), incomplete=True)
    desk.answers = [trouble] * 7 + [Reading(ClusterFacts())]
    desk.keeper.look()
    at, longest = AGAIN_AFTER, 0.0
    await asyncio.sleep(at / 2)
    for number in range(1, 8):
        assert len(desk.reads) == number
        await asyncio.sleep(at)
        at, longest = min(2 * at, AGAIN_AT_MOST), at
    assert longest == AGAIN_AT_MOST
    assert len(desk.reads) == 8
    await asyncio.sleep(24 * 3600)
    assert len(desk.reads) == 8


async def test_a_cluster_that_does_not_answer_is_told_and_asked_again(desk: Desk) -> None:
    desk.answers = [RequestFailed(unreachable("gone")), RequestFailed(unreachable("gone"))]
    desk.keeper.look()
    await asyncio.sleep(120)
    assert len(desk.reads) == 3
    assert desk.told[:2] == [None, None]
    assert desk.told[2] is not None


async def test_a_defect_ends_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.answers = [ValueError("defect")]
    desk.keeper.look()
    await asyncio.sleep(1)
    assert desk.told == [None], "nobody waits for it"
    assert "cannot be taken in" in caplog.text
    desk.keeper.look()
    await asyncio.sleep(1)
    assert len(desk.reads) == 2
    assert desk.told[1] is not None


def test_what_is_wanted_is_what_is_declared_and_what_the_clusters_operators_have() -> None:
    registry = OperatorRegistry.shipped()

    def wanted(*attributes: str) -> Wanted:
        spec = {"credentials": "a", "attributes": list(attributes)}
        body = {"apiVersion": "gitops/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": spec}
        return Wanted.of(Cluster.model_validate(body), frozenset({GADGET}), registry)

    assert wanted() == Wanted(frozenset({GADGET}), ())
    dynamo = wanted("DynamoOperatorSupport")
    assert {GADGET, GRAPH, CONFIG} <= dynamo.kinds
    assert [t.metadata.name for t in dynamo.types] == ["dynamo"]
