"""What a compiler remembers of a workload, the inputs that make it worth remembering, and the step in which workloads
meet: who gets the GPUs when together they ask for more than there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.findings import Finding, has_errors
from gitops.model.identity import ClusterName, UnitKey, WorkloadKind, WorkloadRef
from gitops.plan.layout import Layout, WorkloadFolder
from gitops.plan.workloads import Context, Demand, WorkloadResult
from gitops.policy.allocation import Decision, allocate, keep
from gitops.policy.facts import ClusterFacts
from gitops.policy.placement import Pins, Placement

Pinned = tuple[str, frozenset[Placement]]
"""A GPU specification and where its instances are."""

OfWorkload = tuple[bytes, bytes, tuple[Pinned, ...]]
"""Its folder, what surrounds it, its pins: equal inputs, equal asks, and an equal result in equal places."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What every workload of one compile is made from, beside its folder."""

    surroundings: bytes
    pins: Pins
    pinned: Mapping[WorkloadRef, tuple[Pinned, ...]]

    @classmethod
    def of(cls, context: Context, layout: Layout, pins: Pins) -> Inputs:
        pinned: dict[WorkloadRef, list[Pinned]] = {}
        for (ref, spec_id), places in pins.items():
            pinned.setdefault(ref, []).append((spec_id, places))
        by_workload = {ref: tuple(sorted(found, key=lambda p: p[0])) for ref, found in pinned.items()}
        return cls(_surroundings(context, layout), pins, by_workload)

    def of_workload(self, folder: WorkloadFolder) -> OfWorkload:
        return folder.content, self.surroundings, self.pinned.get(folder.ref, ())


@dataclass(frozen=True, slots=True)
class Memory:
    """A workload as it was compiled the last time: by itself (`alone`, `first`), and in the places that it got when all
    were looked at (`decisions`, `result`). `room` is set when it asks for more instances than that. A `broken` one has
    errors: it keeps what it has, and gets nothing new. `gpus` are those that it takes alone."""

    inputs: OfWorkload
    alone: tuple[Decision, ...]
    first: WorkloadResult
    asked: int
    room: int | None
    broken: bool
    gpus: tuple[tuple[tuple[ClusterName, str], int], ...]
    decisions: tuple[Decision, ...]
    result: WorkloadResult

    @property
    def size(self) -> int:
        """Instances that count: none of a workload that is refused for their number."""
        return self.asked if self.room is None else 0

    @classmethod
    def of(
        cls, inputs: OfWorkload, alone: tuple[Decision, ...], result: WorkloadResult, asked: int, room: int
    ) -> Memory:
        broken = has_errors(result.findings)
        gpus = tuple((gpu, count) for decision in alone for _, gpu, count in decision.gpus)
        return cls(inputs, alone, result, asked, room if asked > room else None, broken, gpus, alone, result)


def together(
    context: Context, memories: Mapping[WorkloadRef, Memory], pins: Pins, *, unreadable: Collection[WorkloadRef]
) -> dict[WorkloadRef, tuple[Decision, ...]]:
    """The places when all workloads are looked at: those of each alone, unless that is more than clusters have."""
    decided = {ref: memory.alone for ref, memory in memories.items()}
    capacity = {
        (ClusterName(name), gpu.name.casefold()): gpu.capacity
        for name, entry in context.clusters.items()
        for gpu in entry.document.spec.gpus
        if gpu.capacity is not None
    }
    broken = {ref for ref, memory in memories.items() if memory.broken}
    reserved = _reserved(context, pins, {*unreadable, *broken}, [d for ref in broken for d in decided[ref]])
    taken = Counter(reserved)
    for memory in memories.values():
        for gpu, count in memory.gpus:
            taken[gpu] += count
    if all(count <= capacity.get(gpu, count) for gpu, count in taken.items()):
        return decided
    asks = [decision.ask for decisions in decided.values() for decision in decisions]
    places = allocate(asks, capacity, only_kept=broken, reserved=reserved)
    for ref, decisions in decided.items():
        if ref not in broken:
            decided[ref] = tuple(Decision(d.ask, places[ref, d.ask.spec_id]) for d in decisions)
    return decided


def _reserved(
    context: Context, pins: Pins, held: Collection[WorkloadRef], decisions: Iterable[Decision]
) -> Counter[tuple[ClusterName, str]]:
    """GPUs of what lives somewhere, stays since its workload is held, and is not in `decisions`, which are what can be
    said of held workloads: it is asked for no more, or its document cannot be read. Then it counts as the largest
    instance there."""
    found: Counter[tuple[ClusterName, str]] = Counter()
    asks = {(d.ask.workload, d.ask.spec_id): d.ask for d in decisions}
    for place, live in pins.items():
        if place[0] not in held or place[0].kind is WorkloadKind.BUNDLE:
            continue
        ask = asks.get(place)
        sizes = {} if ask is None else {c.cluster: c.gpus for c in ask.candidates}
        for pin in live.difference(() if ask is None else keep(ask)):
            entry = context.clusters.get(pin.cluster)
            if ask is not None and entry is not None:
                found[pin.cluster, ask.gpu] += sizes[pin.cluster]
                continue
            for gpu in entry.document.spec.gpus if entry is not None else ():
                largest = max((kind.gpusPerInstance for kind in gpu.instanceTypes), default=1)
                found[pin.cluster, gpu.name.casefold()] += largest
    return found


def _surroundings(context: Context, layout: Layout) -> bytes:
    """Digest of everything outside its folder that a workload is compiled from."""
    facts = [_told(context.facts_of(ClusterName(name))) for name in sorted(context.clusters)]
    clusters = [[name, layout.clusters[name].content_id] for name in sorted(context.clusters)]
    policy = context.registry.policy_digest.hex()
    unknown = [sorted(context.unreadable), sorted(context.unheard), sorted(context.unusable_installs)]
    names = [context.validation_material, sorted([*key, version] for key, version in context.versions.items())]
    return digest(canonical_json([context.reconciler, policy, clusters, facts, unknown, names]))


def _told(facts: ClusterFacts) -> list[Any]:
    """What is made of a cluster's facts, beside versions of operators: placement, and the level of its pods."""
    served = None if facts.served is None else sorted(map(str, facts.served))
    return [served, sorted(facts.silent), sorted(facts.refused.items()), facts.server_version]


def cache_key(
    context: Context,
    folder: WorkloadFolder,
    units: Sequence[tuple[UnitKey, str]],
    findings: Iterable[Finding],
    kept: Iterable[UnitKey],
    demands: Iterable[Demand] = (),
) -> tuple[WorkloadRef, bytes]:
    """Everything a result depends on: the folder (lines included), its units' keys, the validation policies, and of
    each cluster the lines of its document, its version and the GPUs of an instance."""
    keys = [[str(unit), content] for unit, content in units]
    places: dict[str, str] = {}
    if folder.ref.kind is not WorkloadKind.BUNDLE:
        places = {unit.cluster: context.clusters[unit.cluster].template_lines.hex() for unit, _ in units}
    remarks = [str(f) for f in findings]
    gpus = [[d.cluster, d.gpu, d.gpus] for d in demands]
    policy = context.registry.policy_digest.hex()
    left = [str(key) for key in kept]
    servers = {unit.cluster: context.facts_of(unit.cluster).server_version for unit, _ in units}
    judged = [context.validation_material, servers]
    material = [folder.content.hex(), context.reconciler, policy, judged, keys, remarks, places, gpus, left]
    return folder.ref, digest(canonical_json(material))
