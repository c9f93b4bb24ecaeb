"""Placement: what each cluster is to a workload. Pure; the same answer everywhere. Who gets which place is decided in
allocation.py.

Two kinds of reasons, which must not be mixed (I1, nothing that is known badly moves or deletes anything):

- What Git says of the workload and of the cluster (names, regions, attributes, GPUs) decides where instances *may* be.
  One that lives where it may not be any more leaves.
- What is found out about a cluster (versions of operators, served kinds, rights, room, its mode) decides only where
  *new* instances go. What lives there stays, whatever becomes known or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, GroupVersionKind, UnitKey, WorkloadRef
from gitops.model.serving import GpuTarget
from gitops.model.versions import satisfies
from gitops.policy.facts import NOTHING_KNOWN, ClusterFacts, Facts


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """One instance on one cluster."""

    index: int
    cluster: ClusterName


Pins = Mapping[tuple[WorkloadRef, str], frozenset[Placement]]
"""What lives where: (workload, id of the GPU specification) → instances; from the live parents. A task or bundle has
no specification by name and one instance on a cluster, number 0."""

NO_PINS: Pins = {}

Versions = Mapping[tuple[ClusterName, str], str]
"""Version of an operator by cluster and operator type."""

MOST_DIGITS = 9
"""Of an instance's index. Longer ones are not ours, and int() refuses thousands of them."""


def pins_of(parents: Iterable[UnitKey]) -> Pins:
    """Pins by the units that have a parent. Names that are none of ours are left out."""
    pins: dict[tuple[WorkloadRef, str], set[Placement]] = {}
    for key in parents:
        spec_id, dash, index = key.instance.rpartition("-")
        if not key.instance:
            pins.setdefault((key.workload, ""), set()).add(Placement(0, key.cluster))
        elif dash and index.isascii() and index.isdecimal() and len(index) <= MOST_DIGITS:
            pins.setdefault((key.workload, spec_id), set()).add(Placement(int(index), key.cluster))
    return {place: frozenset(found) for place, found in pins.items()}


@dataclass(frozen=True, slots=True)
class Selection:
    """What a workload asks of a cluster. Empty fields ask nothing; of clusters and regions one must match, of
    attributes all; regions, attributes, GPU and instance type compare without case, as in NVCF's API."""

    clusters: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    gpu: str | None = None
    instance_type: str | None = None
    versions: tuple[tuple[str, str], ...] = ()  # operator type, range
    operators: tuple[str, ...] = ()  # types whose kinds it uses
    kinds: frozenset[GroupVersionKind] = frozenset()  # that it declares; empty: not looked at

    @classmethod
    def of(
        cls,
        spec: GpuTarget,
        *,
        implied: Iterable[str],
        operators: Iterable[str] = (),
        kinds: frozenset[GroupVersionKind] = frozenset(),
    ) -> Selection:
        """From a GPU specification, the attributes that its operators imply, and what it declares."""
        return cls(
            tuple(spec.clusters),
            tuple(spec.regions),
            (*spec.attributes, *implied),
            spec.gpu,
            spec.instanceType,
            tuple(sorted(spec.operatorVersions.items())),
            tuple(sorted(operators)),
            kinds,
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one cluster is to a selection, with all reasons against it.

    `unfit`: by what Git says it may not have it. `unmet`: its operators are not of the wanted versions; `unversioned`
    when that is because nothing tells a version. `closed`: nothing new can go there as the cluster is now; with
    `barred` because the operator may not be used there at all. A paused one is chosen last: nothing is written there.
    """

    cluster: ClusterName
    unfit: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    unversioned: bool = False
    barred: bool = False
    paused: bool = False
    gpus: int = 0  # that one instance takes there

    @property
    def fits(self) -> bool:
        """May have it: what lives there stays."""
        return not self.unfit

    @property
    def open(self) -> bool:
        """May get a new one."""
        return not (self.unfit or self.unmet or self.closed)

    @property
    def reasons(self) -> tuple[str, ...]:
        return (*self.unfit, *self.unmet, *self.closed)


Candidates = tuple[Candidate, ...]
"""Every declared cluster, sorted by name."""


def candidates(
    selection: Selection, clusters: Mapping[str, Cluster], versions: Versions | None = None, facts: Facts | None = None
) -> Candidates:
    """What every declared cluster is to the selection. `versions` are those of operators, by whatever tells them."""
    return tuple(
        _candidate(selection, name, clusters[name], versions or {}, (facts or {}).get(name, NOTHING_KNOWN))
        for name in sorted(map(ClusterName, clusters))
    )


def why_none(found: Candidates) -> str:
    """One sentence for the case that no cluster is left."""
    if not found:
        return "there is no cluster"
    return "; ".join(f"{c.cluster}: {', '.join(c.reasons)}" for c in found if c.reasons)


def _candidate(
    selection: Selection, name: ClusterName, cluster: Cluster, versions: Versions, known: ClusterFacts
) -> Candidate:
    unmet, unversioned = _unmet(selection, name, versions)
    barred = [f"{o} may not be used there: {known.refused[o]}" for o in selection.operators if o in known.refused]
    return Candidate(
        cluster=name,
        unfit=tuple(_unfit(selection, name, cluster)),
        unmet=unmet,
        closed=(*barred, *_not_served(selection, known)),
        unversioned=unversioned,
        barred=bool(barred),
        paused=cluster.spec.mode == "paused",
        gpus=gpus_of_instance(selection, cluster),
    )


def _unfit(selection: Selection, name: str, cluster: Cluster) -> Iterator[str]:
    spec = cluster.spec
    if selection.clusters and name not in selection.clusters:
        yield "not listed under clusters"
    if selection.regions and (spec.region is None or spec.region.casefold() not in _folded(selection.regions)):
        yield f"its region is {spec.region or 'not set'}"
    have = _folded(spec.attributes)
    if missing := sorted({attribute for attribute in selection.attributes if attribute.casefold() not in have}):
        yield f"lacks attribute {', '.join(missing)}"
    if selection.gpu is None:
        return
    gpu = next((g for g in spec.gpus if g.name.casefold() == selection.gpu.casefold()), None)
    if gpu is None:
        yield f"has no GPU {selection.gpu}"
        return
    offered = _folded(kind.name for kind in gpu.instanceTypes)
    if selection.instance_type is not None and selection.instance_type.casefold() not in offered:
        yield f"has no instance type {selection.instance_type}"


def _unmet(selection: Selection, name: ClusterName, versions: Versions) -> tuple[tuple[str, ...], bool]:
    unmet: list[str] = []
    unknown = False
    for operator, wanted in selection.versions:
        version = versions.get((name, operator))
        if version is None:
            unmet.append(f"nothing says which version of {operator} it has")
            unknown = True
        elif not satisfies(version, wanted):
            unmet.append(f"its {operator} {version} is not {wanted}")
    return tuple(unmet), unknown


def _not_served(selection: Selection, known: ClusterFacts) -> Iterator[str]:
    missing = sorted(str(kind) for kind in selection.kinds if known.serves(kind) is False)
    if missing:
        yield f"does not serve {', '.join(missing)}"


def gpus_of_instance(selection: Selection, cluster: Cluster) -> int:
    """GPUs that one instance takes there: those of its instance type, else one; none where no GPU is asked for."""
    if selection.gpu is None:
        return 0
    wanted = (selection.gpu.casefold(), (selection.instance_type or "").casefold())
    sizes = {
        (gpu.name.casefold(), kind.name.casefold()): kind.gpusPerInstance
        for gpu in cluster.spec.gpus
        for kind in gpu.instanceTypes
    }
    return sizes.get(wanted, 1)


def _folded(texts: Iterable[str]) -> set[str]:
    return {text.casefold() for text in texts}
