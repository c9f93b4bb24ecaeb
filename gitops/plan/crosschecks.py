"""Checks that need all units at once: two owners of one object, objects in another's namespace, GPUs beyond capacity.

Run over a compact index on every commit, whatever changed: a new unit can collide with one that did not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ObjectRef, UnitKey, WorkloadRef
from gitops.model.kinds import NAMESPACE
from gitops.plan import codes
from gitops.plan.units import DesiredObject, Unit
from gitops.plan.workloads import ClusterEntry, Demand


def check_units(units: Iterable[Unit]) -> list[Finding]:
    """Collisions between units on one cluster; a finding for every workload that takes part."""
    by_cluster: defaultdict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        by_cluster[unit.key.cluster].append(unit)
    found: list[Finding] = []
    for cluster in sorted(by_cluster):
        found += _owners(by_cluster[cluster])
        found += _namespaces(by_cluster[cluster])
    return found


def _owners(units: list[Unit]) -> list[Finding]:
    """An instance's objects are all in its namespace, so its Namespace object stands for them."""
    first: dict[ObjectRef, tuple[Unit, DesiredObject]] = {}
    found = []
    for unit in units:
        for item in unit.objects:
            if unit.namespace and item.ref.namespace:
                continue
            other = first.setdefault(item.ref, (unit, item))
            if other[0] is not unit:
                found.append(_two_owners(item, unit, *other))
                found.append(_two_owners(other[1], other[0], unit, item))
    return found


def _two_owners(item: DesiredObject, unit: Unit, other: Unit, other_item: DesiredObject) -> Finding:
    message = f"{item.ref} of {unit.key} is also declared by {other.key} at {other_item.origin}"
    return finding(codes.TWO_OWNERS, message, item.origin, object=item.ref, workload=unit.key.workload)


def _namespaces(units: list[Unit]) -> list[Finding]:
    instances: dict[str, UnitKey] = {unit.namespace: unit.key for unit in units if unit.namespace}
    found = []
    for unit in units:
        if unit.namespace:
            continue
        for item in unit.objects:
            owner = instances.get(item.ref.namespace) if item.ref.namespace else None
            if owner is not None:
                message = f"{item.ref} of {unit.key} is in the namespace of {owner}"
                found.append(
                    finding(
                        codes.IN_INSTANCE_NAMESPACE,
                        message,
                        item.origin,
                        object=item.ref,
                        workload=unit.key.workload,
                    )
                )
    return found


def check_places(units: Iterable[Unit]) -> list[Finding]:
    """Namespaces of bundles that nobody declares while one of nearly that name is declared (cases.md O03).

    Others may well have made it on the cluster, so nothing is said of names that are like no other: most bundles of a
    fleet are put into namespaces that were there before. One finding for a bundle and namespace, on any cluster."""
    bundles: list[Unit] = []
    declared: defaultdict[str, set[str]] = defaultdict(set)
    for unit in units:
        if not unit.namespace:
            bundles.append(unit)
            declared[unit.key.cluster].update(o.ref.name for o in unit.objects if o.gvk == NAMESPACE)
    found: list[Finding] = []
    seen: set[tuple[WorkloadRef, str]] = set()
    for unit in bundles:
        known = declared[unit.key.cluster]
        for item in unit.objects:
            place, key = item.ref.namespace, (unit.key.workload, item.ref.namespace)
            if not place or place in known or key in seen:
                continue
            seen.add(key)
            if nearly := get_close_matches(place, (n for n in known if _may_be_meant(n, place)), 1, ALIKE):
                message = f"nobody declares the namespace {place} of {item.ref} for {unit.key.cluster}, but {nearly[0]}"
                code, workload = codes.NAMESPACE_MISSPELLED, unit.key.workload
                found.append(finding(code, message, item.origin, object=item.ref, workload=workload))
    return found


ALIKE = 0.75
"""difflib's ratio: two letters swapped in a name of four are 0.75."""


def _may_be_meant(declared: str, written: str) -> bool:
    """`team-b` is no misspelled `team-a`, and `shop-2` no misspelled `shop-1`."""
    ours, theirs = declared.split("-"), written.split("-")
    other = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
    siblings = len(ours) == len(theirs) and all(len(a) == len(b) == 1 or (a + b).isdigit() for a, b in other)
    return abs(len(declared) - len(written)) <= 1 and not siblings


def check_capacity(demands: Iterable[Demand], clusters: Mapping[str, ClusterEntry]) -> list[Finding]:
    """GPUs asked for against those that Cluster documents declare (this repository's own workloads only)."""
    wanted: defaultdict[tuple[str, str], int] = defaultdict(int)
    for demand in demands:
        wanted[demand.cluster, demand.gpu] += demand.gpus
    found = []
    for name in sorted(clusters):
        entry = clusters[name]
        for position, gpu in enumerate(entry.document.spec.gpus):
            total = wanted[name, gpu.name.casefold()]
            if gpu.capacity is not None and total > gpu.capacity:
                origin = Origin(entry.file, entry.lines.line_of(("spec", "gpus", position)))
                message = f"{total} GPUs {gpu.name} are asked of {name}, which has {gpu.capacity}"
                found.append(finding(codes.OVER_CAPACITY, message, origin))
    return found
