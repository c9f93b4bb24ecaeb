"""In whose name a unit's objects are written: its account's, and nobody else's instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.identity import ObjectRef
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.state import ClusterState
from tests.reconcile.conftest import unit_work

ACCOUNT, OTHER = "team/deployer", "team/other"
FORBIDDEN = ApiError(ErrorClass.FORBIDDEN, 403, "Forbidden", "User x cannot do that")

Work = Callable[[ClusterState], Awaitable[UnitOutcome]]


@pytest.fixture
def work(kit: Any, cluster: Any, parents: Any, contents: Any, context: Any) -> Work:
    """work(state): one attempt at the unit."""

    async def attempt(state: ClusterState) -> UnitOutcome:
        work = unit_work(state, applier=cluster, parents=parents, contents=contents, context=context)
        return await work.run(kit.key)

    return attempt


def account_ref(account: str) -> ObjectRef:
    namespace, _, name = account.partition("/")
    return ObjectRef("", "ServiceAccount", namespace, name)


@pytest.fixture
def accounts(cluster: Any) -> None:
    for account in (ACCOUNT, OTHER):
        ref = account_ref(account)
        cluster.objects[ref] = {"metadata": {"name": ref.name, "uid": account, "resourceVersion": "1"}}


def unit_of(kit: Any, account: str, *objects: Any, content: str = "content-1") -> Any:
    return dataclasses.replace(kit.unit(*objects, content=content), service_account=account)


@pytest.mark.usefixtures("accounts")
async def test_everything_of_a_units_objects_is_done_in_its_name(
    kit: Any, cluster: Any, parents: Any, work: Work
) -> None:
    state = kit.state(unit_of(kit, ACCOUNT, kit.desired("web")))
    assert (await work(state)).state is SyncState.SYNCED
    assert cluster.named == [(ACCOUNT, "dry-run", "web"), (ACCOUNT, "apply", "web")]
    assert cluster.verbs("dry-run", "apply") == ["web", "web"], "and nothing besides"
    assert parents.stored[kit.key].service_account == ACCOUNT
    cluster.calls.clear()
    await work(state)
    assert cluster.calls == [], "at rest nobody is asked for the account"


@pytest.mark.usefixtures("accounts")
async def test_another_account_looks_at_what_is_there_before_it_is_needed(
    kit: Any, cluster: Any, parents: Any, work: Work
) -> None:
    """Nothing else changed; its rights would be missing at the next repair."""
    web = kit.desired("web")
    state = kit.state(unit_of(kit, ACCOUNT, web))
    await work(state)
    cluster.named.clear()
    state.assign(kit.assignment(unit_of(kit, OTHER, web, content="content-2")))
    cluster.faults["dry-run", "web"] = FORBIDDEN
    outcome = await work(state)
    assert outcome.state is SyncState.REFUSED
    assert FORBIDDEN.message in outcome.sentence
    assert parents.stored[kit.key].service_account == ACCOUNT, "who wrote it may still remove it"
    cluster.faults.clear()
    assert (await work(state)).state is SyncState.SYNCED
    assert parents.stored[kit.key].service_account == OTHER
    assert {account for account, _, _ in cluster.named} == {OTHER}


@pytest.mark.usefixtures("accounts")
async def test_a_removal_goes_in_the_name_that_wrote_it(kit: Any, cluster: Any, work: Work) -> None:
    state = kit.state(unit_of(kit, ACCOUNT, kit.desired("web")))
    await work(state)
    state.assign(kit.assignment())
    cluster.named.clear()
    cluster.faults["delete", "web"] = FORBIDDEN
    outcome = await work(state)
    assert outcome.state is SyncState.REMOVING
    assert FORBIDDEN.message in outcome.sentence
    cluster.faults.clear()
    assert (await work(state)).state is SyncState.REMOVED
    assert {account for account, verb, _ in cluster.named if verb == "delete"} == {ACCOUNT}


@pytest.mark.usefixtures("accounts")
async def test_an_account_that_is_gone_was_withdrawn(kit: Any, cluster: Any, parents: Any, work: Work) -> None:
    """Nothing is deleted, neither in its name nor with the daemon's own rights; and that is told."""
    state = kit.state(unit_of(kit, ACCOUNT, kit.desired("web")))
    await work(state)
    state.assign(kit.assignment())
    del cluster.objects[account_ref(ACCOUNT)]
    cluster.named.clear()
    outcome = await work(state)
    assert outcome.state is SyncState.WAITING
    assert "it left Git and its objects stay" in outcome.sentence
    assert f"there is no ServiceAccount {ACCOUNT}" in outcome.sentence
    assert outcome.retry_after is not None
    assert (cluster.named, cluster.verbs("delete")) == ([], [])
    assert kit.key in parents.stored


async def test_without_its_account_nothing_is_written(kit: Any, cluster: Any, work: Work) -> None:
    outcome = await work(kit.state(unit_of(kit, ACCOUNT, kit.desired("web"))))
    assert (outcome.state, cluster.verbs("dry-run", "apply")) == (SyncState.WAITING, [])
    assert ACCOUNT in outcome.sentence


async def test_no_field_is_let_go_in_the_name_of_an_account_that_is_gone(kit: Any, cluster: Any, work: Work) -> None:
    web = kit.desired("web")
    unit = unit_of(kit, ACCOUNT, web)
    state = kit.state(unit, records=[dataclasses.replace(kit.record(web), service_account=ACCOUNT)])
    cluster.objects[web.ref] = kit.live(web)
    kit.settled(state, web).held = True
    outcome = await work(state)
    assert outcome.state is SyncState.WAITING
    assert f"there is no ServiceAccount {ACCOUNT}" in outcome.sentence
    assert cluster.named == []
