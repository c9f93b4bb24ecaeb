"""Which trailers count for a cluster, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gitops.model.identity import ClusterName, Commit
from gitops.reconcile.consenting import Consents
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.source.history import CommitInfo, History


class Log:
    """A linear history of messages, c1 first."""

    def __init__(self, *messages: str) -> None:
        self.commits = [
            CommitInfo(
                id=Commit(f"c{n}"),
                title="t",
                message=f"t\n\n{m}\n",
                author="a",
                author_email="",
                time=datetime.now(UTC),
                parents=(),
            )
            for n, m in enumerate(messages, 1)
        ]
        self.asked: list[tuple[list[str], str]] = []

    async def history(self, since: Iterable[Commit], head: Commit) -> History:
        since = list(since)
        self.asked.append((since, head))
        ids = [c.id for c in self.commits]
        newest = max((ids.index(c) for c in since), default=-1)
        return History(tuple(reversed(self.commits[newest + 1 : ids.index(head) + 1])), complete=True)


@pytest.fixture
def worker(kit: Any) -> Any:
    """A cluster with one unit, settled at c1."""
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    state.units[kit.key].outcome = UnitOutcome(SyncState.SYNCED, "")
    return SimpleNamespace(name=ClusterName("a"), state=state)


ALLOW = "Gitops-Allow-Prune: bundle/base"


async def test_trailers_since_the_settled_commit_count(kit: Any, worker: Any) -> None:
    consents = Consents(Log("", "", ALLOW))  # type: ignore[arg-type]
    consent = await consents.of(worker, Commit("c3"))
    assert consent.covers(kit.key)
    assert not consent.covers(kit.other_key())


async def test_trailers_of_what_was_settled_before_allow_nothing_again(kit: Any, worker: Any) -> None:
    assert not (await Consents(Log(ALLOW, "")).of(worker, Commit("c2"))).covers(kit.key)  # type: ignore[arg-type]


@pytest.mark.parametrize("waiting", ["fused", "removing"])
async def test_a_consent_stays_as_long_as_something_waits_for_it(kit: Any, worker: Any, waiting: str) -> None:
    consents = Consents(Log("", ALLOW, ""))  # type: ignore[arg-type]
    assert (await consents.of(worker, Commit("c2"))).covers(kit.key)
    worker.state.assign(kit.assignment(*worker.state.assignment.units.values(), commit="c2"))
    unit_state = worker.state.units[kit.key]
    if waiting == "fused":
        unit_state.fused = "too much"
    else:
        unit_state.outcome = UnitOutcome(SyncState.REMOVING, "")
    assert (await consents.of(worker, Commit("c3"))).covers(kit.key)


async def test_and_ends_with_the_next_commit_when_nothing_does(kit: Any, worker: Any) -> None:
    consents = Consents(Log("", ALLOW, ""))  # type: ignore[arg-type]
    await consents.of(worker, Commit("c2"))
    worker.state.assign(kit.assignment(*worker.state.assignment.units.values(), commit="c2"))
    assert not (await consents.of(worker, Commit("c3"))).covers(kit.key)


async def test_after_a_restart_history_begins_at_what_parents_name(kit: Any, worker: Any) -> None:
    log = Log("", "", ALLOW)
    worker.state.assignment = None
    assert (await Consents(log).of(worker, Commit("c3"))).covers(kit.key)  # type: ignore[arg-type]
    assert log.asked == [(["c1"], "c3")]


async def test_the_same_head_again_asks_nothing(kit: Any, worker: Any) -> None:
    log = Log("")
    await Consents(log).of(worker, Commit("c1"))  # type: ignore[arg-type]
    assert log.asked == []
