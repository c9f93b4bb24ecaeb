"""From a head to what each cluster should have: compile, keep what is held at its last good commit, assign.

A workload with errors at the head keeps its last good units, also after a restart (the parent names the commit). What
cannot be read at all changes nothing. A unit that its own cluster would refuse is kept in the same way, alone: the
workload goes on elsewhere.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.adoption import Adoption
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, Commit, GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.plan import codes
from gitops.plan.compiling import Compiler
from gitops.plan.parents import ParentRecord
from gitops.plan.pruning import Consent
from gitops.plan.units import Compilation, Mode, Unit
from gitops.policy.facts import Facts
from gitops.policy.placement import pins_of
from gitops.reconcile.state import Assignment
from gitops.source.errors import SourceError
from gitops.source.sources import Source

_log = logging.getLogger(__name__)

NO_WORKLOADS: frozenset[WorkloadRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Head:
    """A compiled head with what holds it together. `units` includes the last good ones of what is held or refused."""

    compilation: Compilation
    units: Mapping[UnitKey, Unit]
    held: frozenset[WorkloadRef]
    named: Mapping[WorkloadRef, frozenset[ObjectRef]] = field(default_factory=dict)

    @property
    def troubled(self) -> frozenset[WorkloadRef]:
        """Workloads of which something stays at its last good commit."""
        return self.held | {key.workload for key in self.compilation.refused}

    @property
    def commit(self) -> Commit:
        return self.compilation.commit

    @property
    def tells(self) -> tuple[object, ...]:
        """What status files say of the head itself, besides of its units."""
        return self.compilation.findings, self.troubled, self.units.keys()

    def kinds_of(self, cluster: ClusterName) -> frozenset[GroupVersionKind]:
        """Kinds that it declares for a cluster, and those that stay there."""
        kept = (unit for key, unit in self.units.items() if key.cluster == cluster)
        return kinds_of(self.compilation, cluster).union(o.gvk for unit in kept for o in unit.objects)

    def for_cluster(self, name: ClusterName, consent: Consent) -> Assignment:
        repository, document = self.compilation.repository, self.compilation.clusters.get(name)
        held = self.held | {key.workload for key in self.compilation.refused if key.cluster == name}
        return Assignment(
            commit=self.commit,
            units={key: unit for key, unit in self.units.items() if key.cluster == name},
            held=held,
            kept=frozenset(key for key in self.compilation.kept if key.cluster == name),
            complete=self.compilation.complete,
            consent=consent,
            adoption=Adoption() if repository is None else repository.spec.adoption,
            named=frozenset().union(*self.named.values()),
            opaque=held - self.named.keys(),
            mode=Mode.ENFORCE if document is None else Mode(document.spec.mode),
        )


def kinds_of(compilation: Compilation, cluster: ClusterName) -> frozenset[GroupVersionKind]:
    """Kinds that are declared for a cluster, also in what is refused there or not run."""
    units = {**compilation.units, **compilation.refused, **compilation.not_run}
    return frozenset(o.gvk for key, unit in units.items() if key.cluster == cluster for o in unit.objects)


def _claims(units: Mapping[UnitKey, Unit], kept: Mapping[UnitKey, Unit]) -> list[Finding]:
    """Objects that are declared now and that a kept unit still has: the present owner keeps them, whoever claims one
    is held too."""
    had = {(key.cluster, o.ref): key for key, unit in kept.items() for o in unit.objects}
    claims = []
    for key, unit in units.items() if had else ():
        for item in unit.objects:
            owner = had.get((key.cluster, item.ref))
            if owner is not None:
                message = f"{item.ref} of {key} is still had by {owner}, which stays at its last good commit"
                claims.append(finding(codes.TWO_OWNERS, message, item.origin, object=item.ref, workload=key.workload))
    return claims


def _apart(kept: Mapping[UnitKey, Unit], parents: Mapping[UnitKey, ParentRecord]) -> dict[UnitKey, Unit]:
    """The kept units without what another kept one has: each stands at a commit of its own, and an object that moved
    between those commits is in both. Two that apply it would never come to rest. It is the one's whose parent alone
    names it, else the first's. What a unit is left with is other content, by key too."""
    claimed: dict[tuple[ClusterName, ObjectRef], list[UnitKey]] = defaultdict(list)
    for key, unit in sorted(kept.items()):
        for item in unit.objects:
            claimed[key.cluster, item.ref].append(key)
    given: dict[UnitKey, set[ObjectRef]] = defaultdict(set)
    for (_, ref), keys in claimed.items():
        if len(keys) > 1:
            named = [key for key in keys if key in parents and any(m.ref == ref for m in parents[key].members)]
            owner = named[0] if len(named) == 1 else keys[0]
            for key in keys:
                if key != owner:
                    given[key].add(ref)
    apart = dict(kept)
    for key, refs in given.items():
        left = tuple(o for o in kept[key].objects if o.ref not in refs)
        without = digest(canonical_json([kept[key].content_key, *sorted(map(str, refs))])).hex()
        apart[key] = replace(kept[key], objects=left, content_key=without)
    return apart


class Heads:
    """Compiles on the source's thread, where the repository may be read."""

    def __init__(self, source: Source, compiler: Compiler) -> None:
        self._source = source
        self._compiler = compiler
        self._good: dict[UnitKey, Unit] = {}
        self._before: dict[UnitKey, Unit] = {}  # what was good before the present head came
        self._commit: Commit | None = None

    async def survey(self, commit: Commit) -> Compilation | None:
        """What a head says of the repository and its clusters, without any workload: milliseconds. None when its files
        are not here. Raises SourceError."""
        tree = await self._source.tree(commit)
        return None if tree is None else await self._source.call(self._compiler.compile, tree, only=NO_WORKLOADS)

    async def compile(
        self,
        commit: Commit,
        parents: Mapping[UnitKey, ParentRecord],
        *,
        unheard: frozenset[ClusterName] = frozenset(),
        facts: Facts | None = None,
    ) -> Head | None:
        """The head at `commit`, placed by the pins of `parents`; None when its files are not here. The parents of
        `unheard` clusters are not known yet. `facts` are what clusters told so far. Raises SourceError."""
        tree = await self._source.tree(commit)
        if tree is None:
            return None
        if commit != self._commit:
            self._before, self._commit = self._good, commit
        compilation = await self._source.call(
            self._compiler.compile, tree, pins=pins_of(parents), unheard=unheard, facts=facts
        )
        held, named, collisions = set(compilation.held), dict(compilation.named), list[Finding]()
        while True:
            units = {key: unit for key, unit in compilation.units.items() if key.workload not in held}
            kept = await self._kept(units.keys(), held, compilation, parents)
            claims = _claims(units, kept)
            if not claims:
                break
            collisions += claims
            for workload in {f.workload for f in claims if f.workload is not None}:
                theirs = (u for k, u in compilation.units.items() if k.workload == workload)
                named[workload] = frozenset(ref for unit in theirs for ref in unit.names)
                held.add(workload)
        self._good = units | kept
        told = replace(compilation, findings=(*compilation.findings, *collisions)) if collisions else compilation
        return Head(told, units | _apart(kept, parents), frozenset(held), named)

    async def _kept(
        self,
        present: Collection[UnitKey],
        held: Collection[WorkloadRef],
        compilation: Compilation,
        parents: Mapping[UnitKey, ParentRecord],
    ) -> dict[UnitKey, Unit]:
        """The last good units of what is held, refused or kept, or of all that is absent from an incomplete compile."""
        absent = {*self._good, *parents} - set(present)
        stays = {*compilation.refused, *compilation.kept}
        missing = {k for k in absent if k.workload in held or k in stays or not compilation.complete}
        kept = {key: unit for key in sorted(missing) if (unit := self._last(key, parents.get(key))) is not None}
        forgotten = {key: parents[key] for key in missing if key not in kept and key in parents}
        return kept | await self._last_good(forgotten, parents)

    def _last(self, key: UnitKey, record: ParentRecord | None) -> Unit | None:
        """The last good unit that is remembered. One of the present head was good only as long as less was known,
        unless it is what runs there."""
        unit = self._good.get(key)
        if unit is None or unit.commit != self._commit or (record and record.content_key == unit.content_key):
            return unit
        return self._before.get(key)

    async def _last_good(
        self, wanted: Mapping[UnitKey, ParentRecord], parents: Mapping[UnitKey, ParentRecord]
    ) -> dict[UnitKey, Unit]:
        """Units of held workloads, compiled anew from the commits that their parents name."""
        by_commit: dict[Commit, set[WorkloadRef]] = defaultdict(set)
        for key, record in wanted.items():
            if record.commit:
                by_commit[record.commit].add(key.workload)
        found: dict[UnitKey, Unit] = {}
        for commit, workloads in sorted(by_commit.items()):
            try:
                tree = await self._source.tree(commit)
                if tree is None:
                    _log.warning("commit %s is not here any more; its held units are left as they are", commit[:12])
                    continue
                old = await self._source.call(
                    self._compiler.compile, tree, pins=pins_of(parents), only=frozenset(workloads)
                )
            except SourceError as error:
                _log.warning("commit %s cannot be read (%s); its held units are left as they are", commit[:12], error)
                continue
            found |= {key: unit for key, unit in old.units.items() if key in wanted}
        return found
