"""A cluster that answers and must not be written to: nothing is known of what runs there."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from gitops.cluster.claims import Claim
from gitops.cluster.connection import Connection
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, UnitKey
from gitops.readiness.aggregating import UnitMemory
from gitops.reconcile.accounts import once_report
from gitops.reconcile.cluster_worker import CREDENTIALS_CHECK, UNREACHABLE_AFTER, ClusterWorker
from gitops.reconcile.reporting import _pending_status
from gitops.reconcile.session import Refused

pytestmark = [pytest.mark.looptime]

DOCUMENT = Cluster.model_validate(
    {
        "apiVersion": "gitops/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "a"},
        "spec": {"credentials": "a"},
    }
)


class Refusing:
    async def open(self, cluster: Cluster) -> Connection:
        raise Refused("it is claimed by another repository")

    def changed(self, cluster: Cluster) -> bool:
        return False


async def test_what_was_seen_before_a_refusal_is_not_told_any_more_and_the_refusal_is_told_once(
    kit: Any, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as nobody watches, a unit that was ready is not known to be."""
    told: list[UnitKey | None] = []
    times = iter(range(1_000, 2_000))
    worker = ClusterWorker(
        DOCUMENT,
        reconciler=kit.reconciler,
        claim=Claim(kit.reconciler, "https://git.example/x.git", ""),
        connector=Refusing(),
        context=dataclasses.replace(context, wall=lambda: float(next(times))),
        parents_known=lambda: None,
        facts_known=lambda: None,
        touched=lambda name, key: told.append(key),
        identities={},
        recall=lambda key: UnitMemory(),
    )
    worker.assign(DOCUMENT, kit.assignment(kit.unit(kit.desired("web"))), frozenset())
    unit_state = worker.state.units[kit.key]
    unit_state.status = _pending_status(unit_state, 0.0)
    told.clear()
    worker.start()
    await asyncio.sleep(CREDENTIALS_CHECK * 5.5)
    assert worker.name == ClusterName("a")
    assert unit_state.status is None
    assert (worker.contact.reason, worker.contact.reachable) == ("Refused", True)
    assert told.count(None) == 1, "its words are the same each time, so no file changes"
    words = "cluster a is refused, nothing is written there: it is claimed by another repository"
    assert [r.message for r in caplog.records] == [words]
    once = once_report(None, {worker.name: worker}, sentence="")
    assert once.clusters == {worker.name: "refused: it is claimed by another repository"}
    await worker.stop()


async def test_why_a_cluster_does_not_answer_is_logged_once_for_each_cause(
    kit: Any, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [ApiError(ErrorClass.UNAUTHORIZED, message="the kubeconfig is garbage")]

    class Failing(Refusing):
        async def open(self, cluster: Cluster) -> Connection:
            raise RequestFailed(errors[-1])

    worker = ClusterWorker(
        DOCUMENT,
        reconciler=kit.reconciler,
        claim=Claim(kit.reconciler, "https://git.example/x.git", ""),
        connector=Failing(),
        context=context,
        parents_known=lambda: None,
        facts_known=lambda: None,
        touched=lambda name, key: None,
        identities={},
        recall=lambda key: UnitMemory(),
    )
    worker.start()
    await asyncio.sleep(1800)
    first = worker.contact.since
    errors.append(ApiError(ErrorClass.UNAUTHORIZED, message="the plugin ended with 3"))
    await asyncio.sleep(1800)
    for retry in ("no answer in time", "connection reset"):
        errors.append(ApiError(ErrorClass.UNREACHABLE, reason="Broken", message=retry))
        await asyncio.sleep(1800)
    errors.append(ApiError(ErrorClass.UNREACHABLE, reason="Tls", message="certificate has expired"))
    await asyncio.sleep(1800)
    assert [r.message for r in caplog.records] == [
        "cluster a does not answer: unauthorized: the kubeconfig is garbage",
        "cluster a still does not answer: unauthorized: the plugin ended with 3",
        "cluster a still does not answer: unreachable: no answer in time",
        "cluster a still does not answer: unreachable: certificate has expired",
    ]
    assert (worker.contact.message, worker.contact.since) == ("unreachable: certificate has expired", first)
    await worker.stop()


@pytest.mark.parametrize(
    ("cls", "unreachable"),
    [
        (ErrorClass.UNREACHABLE, True),
        (ErrorClass.RETRY, True),  # 500 or 429 to everything
        (ErrorClass.UNAUTHORIZED, True),
        (ErrorClass.FORBIDDEN, False),  # of the Lease alone: the rest may be seen
    ],
)
async def test_a_cluster_that_gives_no_good_answer_for_long_is_unreachable_since_the_last_good_one(
    kit: Any, context: Any, cls: ErrorClass, unreachable: bool
) -> None:
    now = [1_000.0]
    worker = ClusterWorker(
        DOCUMENT,
        reconciler=kit.reconciler,
        claim=Claim(kit.reconciler, "https://git.example/x.git", ""),
        connector=Refusing(),
        context=dataclasses.replace(context, wall=lambda: now[0]),
        parents_known=lambda: None,
        facts_known=lambda: None,
        touched=lambda name, key: None,
        identities={},
        recall=lambda key: UnitMemory(),
    )
    error = ApiError(cls, message="no")
    worker._heartbeat(None)
    now[0] += UNREACHABLE_AFTER / 2
    worker._heartbeat(error)
    assert worker.contact.reachable, "once may be chance"
    now[0] += UNREACHABLE_AFTER
    worker._heartbeat(error)
    assert worker.contact.reachable is not unreachable
    assert worker.contact.since == 1_000.0
    assert worker.contact.message.startswith(str(error))
    worker._heartbeat(None)
    assert (worker.contact.reachable, worker.contact.message) == (True, "")
