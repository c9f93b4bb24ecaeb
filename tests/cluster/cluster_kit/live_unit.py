"""A unit's work on a real API server, attempt by attempt: what a worker does, without its queues and watches.

`declare` is a head that says something else, `see` is what the watch would show, `work` an attempt.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterable
from typing import Any

from controlplane_kit.client import ApiServer

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError
from gitops.cluster.namespaces import Contents
from gitops.cluster.parents import ParentStore
from gitops.cluster.reflecting import Changed, Deleted
from gitops.manifests.canonical import canonical_json, digest
from gitops.model.adoption import WITHOUT_A_WORD, Adoption
from gitops.model.findings import Origin
from gitops.model.identity import (
    ClusterName,
    Commit,
    GroupVersionKind,
    ObjectRef,
    ReconcilerName,
    UnitKey,
    WorkloadKind,
)
from gitops.overlays.provenance import Provenance
from gitops.plan.ordering import stage_of
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.pruning import Consent
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, DesiredObject, Mode, Unit
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.context import Context
from gitops.reconcile.options import EngineOptions
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.pruning import Pruner
from gitops.reconcile.secret_sources import SecretSources
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import Assignment, ClusterState
from gitops.reconcile.terminating import TerminatingNamespaces
from gitops.reconcile.unit_work import UnitWork

Json = dict[str, Any]

RECONCILER = ReconcilerName("test")
CLUSTER = ClusterName("here")


class _Empty:
    async def foreign(self, namespace: str) -> Contents | ApiError:
        return Contents()


class LiveUnit:
    """One bundle on `api`. Bodies of objects come without our marks."""

    def __init__(self, api: ApiServer, applier: Applier, name: str) -> None:
        self.api, self.applier = api, applier
        self.key = UnitKey(WorkloadKind.BUNDLE, name, "", CLUSTER)
        self.state = ClusterState(CLUSTER, RECONCILER)
        registry = OperatorRegistry.shipped()
        self.context = Context(
            options=EngineOptions(identity="me"),
            registry=registry,
            mappings=Mappings.shipped(),
            clock=time.monotonic,
            wall=time.time,
            rng=random.Random(1),
        )
        self.looks: list[UnitKey] = []
        self.sightings = Sightings(
            self.state, self.context, look=lambda key, urgent: self.looks.append(key), touched=lambda key: None
        )
        contents: Any = _Empty()
        self._work = UnitWork(
            self.state,
            applier=applier,
            parents=ParentStore(applier, reconciler=RECONCILER, cluster=CLUSTER, manager=applier.manager),
            pruner=Pruner(contents, reconciler=RECONCILER, context=self.context, may_write=lambda: True),
            context=self.context,
            sightings=self.sightings,
            secrets=SecretSources(self.state, look=lambda key: None),
            terminating=TerminatingNamespaces(self.state, contents),
            may_write=lambda: True,
        )
        self._heads = 0

    async def declare(
        self,
        *bodies: Json,
        adoption: Adoption = WITHOUT_A_WORD,
        repository: Adoption = WITHOUT_A_WORD,
        mode: Mode = Mode.ENFORCE,
    ) -> UnitOutcome:
        """A head with these objects, and an attempt at it."""
        self._heads += 1
        objects = tuple(sorted((self.desired(body) for body in bodies), key=lambda o: o.stage))
        content = digest(canonical_json([o.payload.decode() for o in objects])).hex()
        unit = Unit(self.key, content, Commit(f"c{self._heads}"), "", objects, mode, adoption=adoption)
        self.state.assign(Assignment(unit.commit, {self.key: unit}, frozenset(), True, Consent(), adoption=repository))
        return await self.work()

    async def work(self) -> UnitOutcome:
        """Attempts, until the unit has nothing to do at once."""
        for _ in range(10):
            outcome = await self._work.run(self.key)
            self.state.units[self.key].outcome = outcome
            if outcome.retry_after != 0:
                break
        return outcome

    async def see(self) -> UnitOutcome:
        """The watch shows all declared objects as they are, and what that asks for is done."""
        await self.look()
        return await self.work()

    async def look(self) -> None:
        """The watch shows all declared objects as they are. To a watch with our selector one without our label is
        deleted (ssa-live 33)."""
        unit = self.state.unit(self.key)
        assert unit is not None
        for desired in unit.objects:
            live = await self.applier.get(desired.gvk, desired.ref)
            if isinstance(live, dict):
                ours = live["metadata"].get("labels", {}).get(RECONCILER_LABEL) == RECONCILER
                self.sightings.declared_event(Changed(live) if ours else Deleted(live))

    def left(self, live: Json) -> None:
        """The watch says that an object is gone from it, as it was."""
        self.sightings.declared_event(Deleted(live))

    async def settled(self, *bodies: Json, **more: Any) -> None:
        """Declared, and as declared."""
        outcome = await self.declare(*bodies, **more)
        assert outcome.state is SyncState.SYNCED, outcome

    def desired(self, body: Json) -> DesiredObject:
        gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
        metadata = body["metadata"]
        labels = {RECONCILER_LABEL: RECONCILER, PART_OF_LABEL: applyset_id(parent_name(self.key))}
        marked = {**body, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}
        payload, origin = canonical_json(marked), Origin("bundles/test/manifests.yaml", 1)
        return DesiredObject(
            ref=ObjectRef(gvk.group, gvk.kind, metadata.get("namespace", ""), metadata["name"]),
            gvk=gvk,
            payload=payload,
            digest=digest(payload),
            origin=origin,
            provenance=Provenance.of_origin(origin),
            stage=stage_of(gvk, self.context.registry),
        )

    def drifts(self) -> list[str]:
        return [d.sentence for d in self.state.units[self.key].drifts]

    def forget(self) -> None:
        """As after a restart: only parents are known."""
        parents, assignment = self.state.parents, self.state.assignment
        self.state.forget_live()
        self.state.units.clear()
        self.state.parents = parents
        if assignment is not None:
            self.state.assign(dataclasses.replace(assignment))


def managers(live: Json) -> set[tuple[str, str]]:
    return {(e["manager"], e["operation"]) for e in live["metadata"].get("managedFields") or ()}


def names(entries: Iterable[Any]) -> list[str]:
    return [e["name"] for e in entries]
