"""What clusters hold beside what a repository declares: the live side of `gitops plan`. Reads only, changes nothing.

Objects are compared as the daemon compares them (owned fields, quantities by value), one GET each. Deletions come from
the parents: members that are declared no more, proven as the daemon proves them and counted as its fuse does. Whether
they are really deleted is decided by the daemon, which also looks into namespaces and knows what commits consent to.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.cluster.additions import NOTHING_ADDED, Additions, additions
from gitops.cluster.adopting import refusal
from gitops.cluster.applying import manager_name
from gitops.cluster.comparison import FieldDifference, compare
from gitops.cluster.discovery import Discovery
from gitops.cluster.earlier import earlier_state
from gitops.cluster.errors import ApiError, RequestFailed
from gitops.cluster.facts import FactsReader
from gitops.cluster.field_claims import claims_of
from gitops.cluster.members import read_member
from gitops.cluster.objects import Objects
from gitops.cluster.parents import ParentStore
from gitops.cluster.reflecting import Changed
from gitops.cluster.volumes import reclaim_policy
from gitops.model.adoption import WITHOUT_A_WORD
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, ObjectRef, ReconcilerName, UnitKey
from gitops.model.kinds import CLAIM, NAMESPACE
from gitops.plan.compiling import Compiler
from gitops.plan.data_held import data_held
from gitops.plan.immutable import recreates
from gitops.plan.naming import is_instance_namespace
from gitops.plan.parents import Member, ParentRecord, applyset_id, parent_name
from gitops.plan.pruning import Consent, FuseLimits, Verdict, applied_by, blown_fuses, decide_prune
from gitops.plan.sending import as_sent
from gitops.plan.units import Compilation, DesiredObject, Unit
from gitops.policy.facts import ClusterFacts
from gitops.policy.ownership import Ownership
from gitops.policy.placement import pins_of
from gitops.policy.published import NOTHING_PUBLISHED, Published
from gitops.policy.registry import OperatorRegistry
from gitops.policy.updates import Update, check_updates
from gitops.reconcile.cluster_worker import Connector
from gitops.reconcile.facts import Wanted
from gitops.reconcile.heads import kinds_of
from gitops.reconcile.scalers import AUTOSCALER, Scalers, scalers_watch
from gitops.source.folders import FolderTree


class Change(enum.StrEnum):
    CREATE = "create"
    UPDATE = "update"
    NONE = "unchanged"
    DELETE = "delete"
    KEEP = "keep"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What applying would do to one object. `differences` for UPDATE, `problem` for UNKNOWN and, why, for REFUSED, an
    object of others that is not taken over, and for KEEP, one that is declared no more and stays."""

    ref: ObjectRef
    change: Change
    source: str = ""
    differences: tuple[FieldDifference, ...] = ()
    problem: str = ""
    holds: str = ""  # what would be lost with it, of one that is declared no more
    added: Additions = NOTHING_ADDED  # what others added to it by hand


@dataclass(slots=True)
class LivePlan:
    """`unreachable`: cluster → why it could not be asked; its units are then missing from `changes`."""

    compilation: Compilation
    changes: dict[UnitKey, list[ObjectChange]] = field(default_factory=dict)
    refused: list[Finding] = field(default_factory=list)
    """Changes that the live objects would not take."""
    unreachable: dict[ClusterName, str] = field(default_factory=dict)
    fused: dict[UnitKey, str] = field(default_factory=dict)
    """Units whose deletions need a trailer in a commit since the last one that was applied, with the sentence."""
    parents: Mapping[UnitKey, ParentRecord] = field(default_factory=dict)
    """What the clusters know of units."""
    warnings: list[str] = field(default_factory=list)
    """What is to be read before anything else: data that would be lost."""

    @property
    def changing(self) -> bool:
        return any(
            c.change not in (Change.NONE, Change.KEEP, Change.REFUSED) for found in self.changes.values() for c in found
        )


async def compare_with_clusters(
    tree: FolderTree,
    compiler: Compiler,
    connector: Connector,
    registry: OperatorRegistry,
    ownership: Ownership,
    *,
    only: frozenset[str],
    fuse: FuseLimits,
    known: Published = NOTHING_PUBLISHED,
) -> LivePlan:
    """Compile with the clusters' pins, so that instances stay where they are, and with what they tell of themselves,
    and compare. `only` = names of clusters to compare (empty: all); the others are asked for their pins all the same.
    What may live on one that does not answer is not placed elsewhere; what is `known` of it beforehand holds."""
    compilation = await asyncio.to_thread(compiler.compile, tree)
    if compilation.repository is None:
        return LivePlan(compilation)
    reconciler = ReconcilerName(compilation.repository.metadata.name)
    names = [ClusterName(name) for name in sorted(compilation.clusters)]
    clusters = [_Cluster(name, compilation, connector, reconciler, registry, ownership) for name in names]
    try:
        await asyncio.gather(*(cluster.open() for cluster in clusters))
        parents = {key: record for cluster in clusters for key, record in cluster.parents.items()}
        silent = frozenset(cluster.name for cluster in clusters if cluster.problem)
        facts = {**known.facts, **{cluster.name: cluster.facts for cluster in clusters if cluster.facts is not None}}
        compiled = await asyncio.to_thread(compiler.compile, tree, pins=pins_of(parents), unheard=silent, facts=facts)
        plan = LivePlan(replace(compiled, findings=(*known.findings, *compiled.findings)), parents=parents)
        compared = [c for c in clusters if not only or c.name in only]
        for found in await asyncio.gather(*(cluster.compare(plan.compilation) for cluster in compared)):
            plan.changes |= found
        for cluster in compared:
            plan.fused |= blown_fuses(
                cluster.prunes(plan),
                sizes={key: len(record.members) for key, record in cluster.parents.items()},
                declared=plan.compilation.units.keys(),
                consent=Consent(),
                limits=fuse,
            )
            plan.warnings += cluster.losses(plan)
        updates = [update for cluster in compared for update in cluster.updates]
        plan.refused = list(check_updates(compiler.registry, updates, compiled.schemas))
        plan.unreachable = {c.name: c.problem for c in clusters if c.problem}
        return plan
    finally:
        await asyncio.gather(*(cluster.close() for cluster in clusters))


class _Cluster:
    def __init__(
        self,
        name: ClusterName,
        compilation: Compilation,
        connector: Connector,
        owner: ReconcilerName,
        registry: OperatorRegistry,
        ownership: Ownership,
    ) -> None:
        self.name = name
        self.facts: ClusterFacts | None = None
        self.parents: Mapping[UnitKey, ParentRecord] = {}
        self.problem = ""
        self.updates: list[Update] = []
        self._document = compilation.clusters[name]
        self._wanted = Wanted.of(self._document, kinds_of(compilation, name), registry)
        self._connector = connector
        self._reconciler = owner
        self._manager = manager_name(owner)
        self._registry = registry
        self._objects: Objects | None = None
        self._scalers = Scalers(ownership)
        self._adoption = compilation.repository.spec.adoption if compilation.repository else WITHOUT_A_WORD

    async def open(self) -> None:
        try:
            connection = await self._connector.open(self._document)
            discovery = Discovery(connection)
            self._objects = Objects(connection, discovery)
            store = ParentStore(self._objects, reconciler=self._reconciler, cluster=self.name, manager=self._manager)
            stored = await store.load_all()
            version = await discovery.server_version()
            reader, told = FactsReader(connection, discovery), "" if isinstance(version, ApiError) else str(version)
            reading = await reader.read(self._wanted.kinds, self._wanted.types, server_version=told)
            self.facts = reading.facts
        except RequestFailed as error:
            self.problem = str(error)
            return
        if isinstance(stored, ApiError):
            self.problem = str(stored)
        else:
            self.parents = stored.records

    async def close(self) -> None:
        if self._objects is not None:
            await self._objects.connection.close()

    async def compare(self, compilation: Compilation) -> dict[UnitKey, list[ObjectChange]]:
        """Changes of every unit here: of what is declared, and of what was applied and is declared no more."""
        if self._objects is None or self.problem:
            return {}
        units = {key: unit for key, unit in compilation.units.items() if key.cluster == self.name}
        found: dict[UnitKey, list[ObjectChange]] = {}
        await self._learn_scalers(self._objects, units)
        declared = {ref for unit in units.values() for ref in unit.names}
        for key, unit in sorted(units.items()):
            compared = (self._compare(self._objects, unit, desired) for desired in unit.objects)
            changes = await asyncio.gather(*compared)
            deleted = await self._deleted(self._objects, key, own=unit.names, declared=declared)
            found[key] = [*changes, *deleted]
        if compilation.complete:
            for key in sorted(self.parents):
                left = key.workload in compilation.held or key in compilation.refused or key in compilation.kept
                if key not in units and not left:
                    found[key] = await self._deleted(self._objects, key, own=set(), declared=declared)
        return found

    async def _learn_scalers(self, objects: Objects, units: Mapping[UnitKey, Unit]) -> None:
        """Whose replicas are whose, as the daemon learns it from its watch."""
        self._scalers.declare(units)
        if scalers_watch(units.values()) is None:
            return
        listed = await objects.list_objects(AUTOSCALER.gvk)
        if not isinstance(listed, ApiError):
            self._scalers.known = True
            for scaler in listed.items:
                self._scalers.event(Changed(scaler))

    def prunes(self, plan: LivePlan) -> dict[UnitKey, list[Member]]:
        """Members of each unit here that nobody declares any more, as the fuse counts them."""
        units = (unit for key, unit in plan.compilation.units.items() if key.cluster == self.name)
        declared = {ref for unit in units for ref in unit.names}
        return {
            key: [m for m in record.members if m.ref not in declared]
            for key, record in self.parents.items()
            if key in plan.changes
        }

    def losses(self, plan: LivePlan) -> list[str]:
        """A sentence for each function here that is deleted and made anew under another name: its namespace is another
        one, and what it holds does not come along."""
        new = {
            key: unit
            for key, unit in plan.compilation.units.items()
            if key.cluster == self.name and key not in self.parents
        }
        sentences = []
        for key, record in sorted(self.parents.items()):
            gone = plan.changes.get(key, [])
            if key in plan.compilation.units or not gone or not is_instance_namespace(record.namespace):
                continue
            names = _names(m.ref for m in record.members)
            heir = next((k for k, u in sorted(new.items()) if names & _names(o.ref for o in u.objects)), None)
            lost = ", ".join(f"{c.ref} ({c.holds})" for c in gone if c.holds and c.change is Change.DELETE)
            left = ", ".join(f"{c.ref} ({c.holds})" for c in gone if c.holds and c.change is Change.KEEP)
            if heir is not None or lost:
                sentences.append(
                    f"{key} is deleted"
                    + (f" and made anew as {heir}" if heir is not None else "")
                    + (f"; data lost: {lost}" if lost else "")
                    + (f"; data left behind until somebody consents to its deletion: {left}" if left else "")
                )
        return sentences

    async def _compare(self, objects: Objects, unit: Unit, desired: DesiredObject) -> ObjectChange:
        source = str(desired.origin)
        try:
            live = await objects.get(desired.gvk, desired.ref)
        except RequestFailed as error:
            return ObjectChange(desired.ref, Change.UNKNOWN, source, problem=str(error))
        if isinstance(live, ApiError):
            return ObjectChange(desired.ref, Change.UNKNOWN, source, problem=str(live))
        if live is None:
            return ObjectChange(desired.ref, Change.CREATE, source)
        refused = "" if applied_by(live.get("metadata") or {}, self._manager) else self._refusal(unit, live)
        if refused:
            return ObjectChange(desired.ref, Change.REFUSED, source, problem=refused)
        left = claims_of(
            desired,
            live,
            self._manager,
            table=self._scalers.table,
            registry=self._registry,
            scaler=self._scalers.of(desired.ref),
            scaled=self._scalers.may_scale(desired.ref),
        )
        kind, table = desired.ref.group_kind, self._scalers.table
        added = additions(live, self._manager, declared=desired.body, kind=kind, table=table)
        desired = as_sent(desired, left.left_out)
        body = desired.body
        compared = compare(body, live, self._manager)
        change = Change.NONE if compared.in_sync_as_applied else Change.UPDATE
        if change is Change.UPDATE:
            before = earlier_state(body, live, compared)
            holds = data_held(desired.ref.group_kind, live, registry=self._registry, manager=self._manager)
            allowed = recreates(desired, holds=holds)
            update = Update(self.name, desired.ref, before, body, desired.provenance, unit.key.workload, live, allowed)
            self.updates.append(update)
        return ObjectChange(desired.ref, change, source, compared.differences, added=added)

    def _refusal(self, unit: Unit, live: Mapping[str, Any]) -> str:
        """Why the daemon would not take over what others made."""
        return refusal(
            live,
            self._adoption.with_(unit.adoption),
            reconciler=self._reconciler,
            applyset=applyset_id(parent_name(unit.key)),
            manager=self._manager,
        )

    async def _deleted(
        self, objects: Objects, key: UnitKey, *, own: Collection[ObjectRef], declared: Collection[ObjectRef]
    ) -> list[ObjectChange]:
        """What becomes of the members that the unit declares no more; `own` and `declared`: what it and all do."""
        record = self.parents.get(key)
        members = [m for m in (() if record is None else record.members) if m.uid and m.ref not in own]
        decided = await asyncio.gather(*(self._decide(objects, key, member, declared) for member in members))
        found = [change for change in decided if change is not None]
        kept = {change.ref.namespace for change in found if change.change is not Change.DELETE}
        return [
            replace(c, change=Change.KEEP, problem="not everything in it is deleted")
            if c.change is Change.DELETE and c.ref.group_kind == NAMESPACE.group_kind and c.ref.name in kept
            else c
            for c in found
        ]

    async def _decide(
        self, objects: Objects, key: UnitKey, member: Member, declared: Collection[ObjectRef]
    ) -> ObjectChange | None:
        try:
            live, _ = await read_member(objects, member)
        except RequestFailed as error:
            return ObjectChange(member.ref, Change.UNKNOWN, problem=str(error))
        if isinstance(live, ApiError):
            return ObjectChange(member.ref, Change.UNKNOWN, problem=str(live))
        holds = data_held(member.ref.group_kind, live or {}, registry=self._registry, manager=self._manager)
        if holds and live is not None and member.ref.group_kind == CLAIM.group_kind:
            holds = f"{holds}, {await reclaim_policy(objects, live)}"
        decision = decide_prune(
            member,
            live,
            applyset=applyset_id(parent_name(key)),
            reconciler=self._reconciler,
            manager=self._manager,
            declared=declared,
            holds=holds,
        )
        if decision.verdict is Verdict.GONE:
            return None
        change = Change.KEEP if decision.verdict is Verdict.KEEP else Change.DELETE
        return ObjectChange(member.ref, change, problem=decision.reason, holds="" if decision.forget else holds)


def _names(refs: Iterable[ObjectRef]) -> set[tuple[str, str, str]]:
    """What stays of objects when their namespace is another one."""
    return {(r.group, r.kind, r.name) for r in refs if r.namespace}
