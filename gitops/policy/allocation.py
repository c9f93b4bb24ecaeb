"""Allocation: which instance goes to which cluster, for all workloads of a repository at once. Pure, and the same for
every reader of the same tree and pins.

What lives somewhere is kept first, also beyond what the cluster has room for. Then new instances get their places in
turns: number 0 of every GPU specification, then number 1, and so on; within a turn by the names of the workload and the
specification; functions before tasks. Each goes to the cluster with the fewest instances of its specification, among
those by rendezvous hash, and never beyond the declared GPUs. What finds no room waits, and what comes later and is
smaller may still fit.

Without a shortage no workload can be told from this that others exist: `allocate([ask])` then gives the same places, so
a compiler need not look at all of them together (gitops/plan/compiling.py).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gitops.model.identity import ClusterName, WorkloadKind, WorkloadRef
from gitops.policy.placement import Candidate, Candidates, Placement

Capacity = Mapping[tuple[ClusterName, str], int]
"""GPUs by cluster and name (case-folded). What is not in it has no bound."""

NO_BOUND: Capacity = {}


@dataclass(frozen=True, slots=True)
class Ask:
    """What one GPU specification asks for: `count` instances in all, or that many on each cluster.

    `hidden` are clusters whose documents cannot be used now: their instances stay and are none of this compile.
    `unheard` have not told yet what lives there: whatever can only live there does. While `waits_for` names anything,
    nothing new is placed.
    """

    workload: WorkloadRef
    spec_id: str
    count: int
    per_cluster: bool
    candidates: Candidates
    gpu: str = ""  # case-folded
    pins: frozenset[Placement] = frozenset()
    hidden: frozenset[ClusterName] = frozenset()
    unheard: frozenset[ClusterName] = frozenset()
    waits_for: tuple[str, ...] = ()

    @property
    def fitting(self) -> list[Candidate]:
        return [c for c in self.candidates if c.fits]

    @property
    def size(self) -> int:
        """Instances that it may come to."""
        return self.count * (len(self.fitting) if self.per_cluster else 1)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A cluster without room for an instance: GPUs that are free there, of how many, and how many it needs."""

    cluster: ClusterName
    free: int
    capacity: int
    needed: int

    @property
    def room(self) -> str:
        return f"{max(self.free, 0)} of {self.capacity} free, an instance takes {self.needed}"

    def __str__(self) -> str:
        return f"{self.cluster} has {self.room}"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the instances of one specification are; `short` are those without room."""

    kept: tuple[Placement, ...] = ()
    new: tuple[Placement, ...] = ()
    short: int = 0
    shortages: tuple[Shortage, ...] = ()

    @property
    def every(self) -> tuple[Placement, ...]:
        return tuple(sorted((*self.kept, *self.new)))


@dataclass(frozen=True, slots=True)
class Decision:
    """A specification and what became of it: why each cluster was chosen or not."""

    ask: Ask
    placed: Placed

    @property
    def gpus(self) -> Iterator[tuple[Placement, tuple[ClusterName, str], int]]:
        """What each placement takes on clusters that are known."""
        sizes = {c.cluster: c.gpus for c in self.ask.candidates}
        for placement in self.placed.every if self.ask.gpu else ():
            if placement.cluster in sizes:
                yield placement, (placement.cluster, self.ask.gpu), sizes[placement.cluster]


def keep(ask: Ask) -> tuple[Placement, ...]:
    """What stays where it lives, or may only live there. Of an index that lives twice, the first cluster by name."""
    fitting = [c.cluster for c in ask.fitting]
    allowed = {*fitting, *ask.hidden}
    pins = sorted(p for p in ask.pins if p.index < ask.count and p.cluster in allowed)
    silent = ask.unheard.intersection(fitting)
    if ask.per_cluster:
        return tuple(sorted({*pins, *(Placement(i, c) for c in silent for i in range(ask.count))}))
    places: dict[int, Placement] = {}
    for pin in pins:
        places.setdefault(pin.index, pin)
    if silent and allowed == silent:  # the only choice
        for index in range(ask.count) if len(silent) == 1 else ():
            places.setdefault(index, Placement(index, fitting[0]))
    return tuple(places[index] for index in sorted(places))


def allocate(
    asks: Iterable[Ask],
    capacity: Capacity = NO_BOUND,
    *,
    only_kept: Collection[WorkloadRef] = (),
    reserved: Mapping[tuple[ClusterName, str], int] | None = None,
) -> dict[tuple[WorkloadRef, str], Placed]:
    """Places for all of these. The workloads in `only_kept` get nothing new; `reserved` GPUs are taken by others."""
    turns = [_Turns(ask, keep(ask)) for ask in sorted(asks, key=lambda a: (a.workload, a.spec_id))]
    room = _Room(capacity, Counter(reserved or {}))
    for turn in turns:
        for placement in turn.kept:
            room.take(turn.ask, turn.by_name.get(placement.cluster))
    wanted = [
        (turn.ask.workload.kind is WorkloadKind.TASK, index, position, cluster)
        for position, turn in enumerate(turns)
        if turn.ask.workload not in only_kept
        for index, cluster in turn.wanted()
    ]
    for _, index, position, cluster in sorted(wanted):
        turns[position].give(index, cluster, room)
    return {(t.ask.workload, t.ask.spec_id): t.placed(room) for t in turns}


@dataclass(slots=True)
class _Room:
    capacity: Capacity
    taken: Counter[tuple[ClusterName, str]]

    def free(self, ask: Ask, cluster: ClusterName) -> int | None:
        """GPUs that are left; None for no bound."""
        most = self.capacity.get((cluster, ask.gpu))
        return None if most is None else most - self.taken[cluster, ask.gpu]

    def has(self, ask: Ask, candidate: Candidate) -> bool:
        free = self.free(ask, candidate.cluster)
        return free is None or candidate.gpus <= free

    def take(self, ask: Ask, candidate: Candidate | None) -> None:
        if candidate is not None:
            self.taken[candidate.cluster, ask.gpu] += candidate.gpus


@dataclass(slots=True)
class _Turns:
    """One specification while places are given out."""

    ask: Ask
    kept: tuple[Placement, ...]
    new: list[Placement] = field(default_factory=list)
    short: Counter[ClusterName] = field(default_factory=Counter)  # "" where any cluster would have done
    load: Counter[ClusterName] = field(init=False)
    by_name: dict[ClusterName, Candidate] = field(init=False)

    def __post_init__(self) -> None:
        self.load = Counter(p.cluster for p in self.kept)
        self.by_name = {c.cluster: c for c in self.ask.candidates}

    @property
    def open(self) -> list[Candidate]:
        return [c for c in self.ask.candidates if c.open]

    def wanted(self) -> Iterator[tuple[int, ClusterName]]:
        """Instances that have no place yet, with their cluster where there is no choice."""
        ask = self.ask
        if ask.waits_for or not (candidates := self.open):
            return
        if ask.per_cluster:
            have = set(self.kept)
            places = (Placement(index, c.cluster) for c in candidates for index in range(ask.count))
            yield from ((p.index, p.cluster) for p in places if p not in have)
        else:
            taken = {p.index for p in self.kept}
            yield from ((index, ClusterName("")) for index in range(ask.count) if index not in taken)

    def give(self, index: int, cluster: ClusterName, room: _Room) -> None:
        choice = [self.by_name[cluster]] if cluster else self.open
        choice = [c for c in choice if room.has(self.ask, c)]
        if not choice:
            self.short[cluster] += 1
            return
        best = choice[0] if len(choice) == 1 else min(choice, key=lambda c: self._rank(index, c))
        self.new.append(Placement(index, best.cluster))
        self.load[best.cluster] += 1
        room.take(self.ask, best)

    def _rank(self, index: int, candidate: Candidate) -> tuple[bool, int, int]:
        weight = _weight(self.ask.workload, self.ask.spec_id, index, candidate.cluster)
        return candidate.paused, self.load[candidate.cluster], -weight

    def placed(self, room: _Room) -> Placed:
        lacking = [c for c in self.open if c.cluster in self.short or (self.short and not self.ask.per_cluster)]
        shortages = [
            Shortage(c.cluster, free, room.capacity[c.cluster, self.ask.gpu], c.gpus)
            for c in lacking
            if (free := room.free(self.ask, c.cluster)) is not None
        ]
        return Placed(self.kept, tuple(sorted(self.new)), self.short.total(), tuple(shortages))


def _weight(workload: WorkloadRef, spec_id: str, index: int, cluster: str) -> int:
    """Rendezvous (highest random weight) hashing: every reader ranks the clusters alike without shared state."""
    text = "\0".join((str(workload), spec_id, str(index), cluster))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
