"""Placement: which clusters an instance may run on, and on which one it does. Pure; the same answer everywhere.

Rules: `minInstances` is the total over all eligible clusters, spread by fewest
instances, then by rendezvous hash, so that no state is needed to agree; index i is stable, scaling down removes the
highest. A live instance is a pin: a new cluster moves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, WorkloadRef
from gitops.model.serving import GpuTarget
from gitops.model.versions import satisfies

Pins = Mapping[tuple[WorkloadRef, str], Mapping[int, ClusterName]]
"""Where instances live: (workload, id of the GPU specification) → index → cluster; from the live parents."""

NO_PINS: Pins = {}

Versions = Mapping[tuple[ClusterName, str], str]
"""Version of an operator by cluster and operator type."""

NO_VERSIONS: Versions = {}


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Clusters that may run something, sorted, and for each other one the reason why it may not. Of those that are
    `unversioned` the reason is only that nothing says which version of an operator they have."""

    clusters: tuple[ClusterName, ...]
    refused: Mapping[ClusterName, str]
    unversioned: frozenset[ClusterName] = frozenset()

    def why_none(self) -> str:
        """One sentence for the case that no cluster is left."""
        if not self.refused:
            return "there is no cluster"
        return "; ".join(f"{name}: {reason}" for name, reason in sorted(self.refused.items()))


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """One instance on one cluster."""

    index: int
    cluster: ClusterName


@dataclass(frozen=True, slots=True)
class Selection:
    """What a workload asks of a cluster. Empty lists ask nothing; regions, attributes, GPU and instance type compare
    without case, as NVCF's API does."""

    clusters: Sequence[str] = ()
    regions: Sequence[str] = ()
    attributes: Sequence[str] = ()
    gpu: str | None = None
    instance_type: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # operator type → range

    @classmethod
    def of(cls, spec: GpuTarget, *, implied: Iterable[str]) -> Selection:
        """From a GPU specification and the attributes that its operators imply."""
        attributes = [*spec.attributes, *implied]
        return cls(spec.clusters, spec.regions, attributes, spec.gpu, spec.instanceType, spec.operatorVersions)


def eligible(selection: Selection, clusters: Mapping[str, Cluster], versions: Versions = NO_VERSIONS) -> Eligibility:
    """Which of the declared clusters satisfy a selection; `versions` are those of the operators on each."""
    found: list[ClusterName] = []
    refused: dict[ClusterName, str] = {}
    unversioned: set[ClusterName] = set()
    for name in sorted(map(ClusterName, clusters)):
        reason = _refusal(selection, name, clusters[name]) or _version_refusal(selection, name, versions)
        if reason is not None:
            refused[name] = reason
        elif missing := [o for o in sorted(selection.versions) if (name, o) not in versions]:
            refused[name] = f"no OperatorInstall says which version of {missing[0]} it has"
            unversioned.add(name)
        else:
            found.append(name)
    return Eligibility(tuple(found), refused, frozenset(unversioned))


def _refusal(selection: Selection, name: str, cluster: Cluster) -> str | None:
    spec = cluster.spec
    if selection.clusters and name not in selection.clusters:
        return "not listed under clusters"
    if selection.regions and (spec.region is None or spec.region.casefold() not in map(_fold, selection.regions)):
        return f"its region is {spec.region or 'not set'}"
    have = set(map(_fold, spec.attributes))
    if missing := sorted({attribute for attribute in selection.attributes if _fold(attribute) not in have}):
        return f"lacks attribute {', '.join(missing)}"
    if selection.gpu is None:
        return None
    gpus = [gpu for gpu in spec.gpus if gpu.name.casefold() == selection.gpu.casefold()]
    if not gpus:
        return f"has no GPU {selection.gpu}"
    if selection.instance_type is not None:
        wanted = selection.instance_type.casefold()
        if not any(kind.name.casefold() == wanted for gpu in gpus for kind in gpu.instanceTypes):
            return f"has no instance type {selection.instance_type}"
    return None


def _fold(text: str) -> str:
    return text.casefold()


def _version_refusal(selection: Selection, name: ClusterName, versions: Versions) -> str | None:
    """Of the versions that are known."""
    for operator, wanted in sorted(selection.versions.items()):
        version = versions.get((name, operator))
        if version is not None and not satisfies(version, wanted):
            return f"its {operator} {version} is not {wanted}"
    return None


def place(
    *,
    workload: WorkloadRef,
    spec_id: str,
    count: int,
    clusters: Iterable[ClusterName],
    pins: Mapping[int, ClusterName],
    keep_pins_on: Iterable[ClusterName] = (),
    place_new: bool = True,
) -> tuple[Placement, ...]:
    """Where instances 0…count-1 run, sorted by index.

    `clusters` are the eligible ones. A pin holds while its cluster is eligible or in `keep_pins_on` (clusters whose
    document cannot be read now: their instances stay). With `place_new` False an index without such a pin is left out.
    """
    candidates = sorted(set(clusters))
    keep = {*candidates, *keep_pins_on}
    placed = {index: pins[index] for index in range(count) if index in pins and pins[index] in keep}
    load = dict.fromkeys(candidates, 0)
    for cluster in placed.values():
        if cluster in load:
            load[cluster] += 1
    if place_new and candidates:
        for index in range(count):
            if index not in placed:
                chosen = min(candidates, key=lambda c: (load[c], -_weight(workload, spec_id, index, c), c))
                placed[index] = chosen
                load[chosen] += 1
    return tuple(Placement(index, placed[index]) for index in sorted(placed))


def place_on_each(*, count: int, clusters: Iterable[ClusterName]) -> tuple[Placement, ...]:
    """`perCluster: true`: instances 0…count-1 on every eligible cluster."""
    return tuple(sorted(Placement(index, cluster) for cluster in set(clusters) for index in range(count)))


def _weight(workload: WorkloadRef, spec_id: str, index: int, cluster: str) -> int:
    """Rendezvous (highest random weight) hashing: every reader ranks the clusters alike without shared state."""
    text = "\0".join((str(workload), spec_id, str(index), cluster))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
