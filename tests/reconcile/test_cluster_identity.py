"""A cluster is the uid of its kube-system namespace, whatever its name in Git is at the moment."""

from __future__ import annotations

import types
from typing import Any

import pytest

from gitops.cluster.claims import Claim
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, ClusterUid
from gitops.readiness.aggregating import UnitMemory
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.session import Refused


@pytest.fixture
def worker(kit: Any, context: Any) -> Any:
    """worker(name, identities): a worker that was never started."""

    def make(name: str, identities: dict[ClusterUid, ClusterName]) -> ClusterWorker:
        document = {
            "apiVersion": "gitops/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"credentials": name},
        }
        return ClusterWorker(
            Cluster.model_validate(document),
            reconciler=kit.reconciler,
            claim=Claim(kit.reconciler, "https://git.example/x.git", ""),
            connector=None,  # type: ignore[arg-type]
            context=context,
            parents_known=lambda: None,
            facts_known=lambda: None,
            touched=lambda name, key: None,
            identities=identities,
            recall=lambda key: UnitMemory(),
        )

    return make


async def test_another_cluster_under_an_old_name_is_first_contact(kit: Any, worker: Any) -> None:
    """What the old one had says nothing about the new one: nothing there may be pruned by it."""
    identities: dict[ClusterUid, ClusterName] = {}
    met = worker("a", identities)
    met._identify(ClusterUid("old"))
    web = kit.desired("web")
    met.state.parents = {kit.key: kit.record(web)}
    assignment = kit.assignment(kit.unit(web))
    met.state.assign(assignment)
    kit.settled(met.state, web)

    met._identify(ClusterUid("old"))
    assert met.state.parents, "the same cluster again"
    met._identify(ClusterUid("new"))
    assert (met.state.parents, met.state.objects, met.state.assignment) == ({}, {}, assignment)
    assert identities == {ClusterUid("new"): ClusterName("a")}


async def test_one_cluster_under_two_names_is_refused_to_the_second(worker: Any) -> None:
    identities: dict[ClusterUid, ClusterName] = {}
    worker("a", identities)._identify(ClusterUid("one"))
    with pytest.raises(Refused, match="the same cluster as a"):
        worker("b", identities)._identify(ClusterUid("one"))
    assert identities == {ClusterUid("one"): ClusterName("a")}


@pytest.mark.parametrize("replaced", [False, True])
async def test_an_audit_of_a_cluster_that_was_replaced_under_it_is_not_believed(worker: Any, replaced: bool) -> None:
    """What it found is about another cluster, perhaps."""
    met, report = worker("a", {}), object()

    class Session:
        """Whose audit ends after another session began."""

        def __init__(self) -> None:
            self.queue = types.SimpleNamespace(active=False)
            self.auditor = self

        def may_write(self) -> bool:
            return True

        async def run(self) -> object:
            if replaced:
                met._session = Session()
            return report

    met._session = Session()
    assert await met.make_audit() is not replaced
    assert met.audit is (None if replaced else report)
