"""Placing workloads: what each of their specifications asks for, what is said about the places it got, and the kinds
that a cluster must serve for it. The rules are in gitops/policy/placement.py and allocation.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitops.manifests.lines import Path
from gitops.model.bundles import Bundle
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.functions import GpuSpecification
from gitops.model.identity import ClusterName, GroupVersionKind, UnitKey, WorkloadKind, WorkloadRef
from gitops.model.tasks import TaskGpuSpecification
from gitops.model.trees import TreeEntry
from gitops.plan.bases import read_base
from gitops.plan.layout import WorkloadFolder
from gitops.plan.workloads import Context
from gitops.policy import codes
from gitops.policy.allocation import Ask, Decision, Placed
from gitops.policy.placement import Candidates, Pins, Placement, Selection, why_none

MOST_INSTANCES = 10_000
"""Instances of all functions and tasks together. Compiling as many of two objects each takes some 4 s and 40 MB."""

_MOST_NAMED = 5

Problem = tuple[str, str, Path]
"""Code, message, and the path below the specification."""


Kinds = frozenset[GroupVersionKind]

NOWHERE: frozenset[ClusterName] = frozenset()
"""One for all: every bundle says so of each cluster, and an empty set takes 216 bytes."""


def declared_kinds(context: Context, folder: WorkloadFolder, manifests: Sequence[TreeEntry]) -> Kinds:
    """Kinds of a workload's manifests, while something is known that makes them matter; costs reading them once."""
    if not any(known.served is not None or known.refused for known in context.facts.values()):
        return frozenset()
    key = (folder.ref, folder.content)
    if key not in context.kinds:
        base = read_base(context.loader, context.tree, manifests, folder.ref)
        context.kinds[key] = frozenset(item.gvk for item in base.objects)
    return context.kinds[key]


def ask_of(
    context: Context,
    workload: WorkloadRef,
    spec: GpuSpecification | TaskGpuSpecification,
    *,
    operators: Sequence[str],
    kinds: Kinds,
    pins: Pins,
) -> Ask:
    """What a GPU specification of a function or task asks for."""
    types = context.registry.types
    known = [name for name in operators if name in types]
    implied = [types[name].spec.clusterAttribute for name in known]
    selection = Selection.of(spec, implied=implied, operators=known, kinds=kinds)
    candidates = context.candidates(selection)
    spec_id = spec.id if isinstance(spec, GpuSpecification) else ""
    fitting = [c.cluster for c in candidates if c.fits]
    hidden = frozenset(ClusterName(n) for n in context.unreadable if not spec.clusters or n in spec.clusters)
    unheard = context.unheard.intersection(fitting)
    waits: list[str] = []
    if not spec.perCluster:
        waits += [f"clusters/{n}.yaml" for n in sorted(hidden)]
        waits += sorted(context.unusable_installs) if any(c.unversioned and c.fits for c in candidates) else ()
        waits += [f"cluster {n}" for n in sorted(unheard)]
    return Ask(
        workload=workload,
        spec_id=spec_id,
        count=spec.minInstances if isinstance(spec, GpuSpecification) else 1,
        per_cluster=spec.perCluster,
        candidates=candidates,
        gpu=spec.gpu.casefold(),
        pins=pins.get((workload, spec_id), frozenset()),
        hidden=hidden,
        unheard=unheard,
        waits_for=tuple(waits),
    )


def ask_of_bundle(context: Context, workload: WorkloadRef, bundle: Bundle, *, kinds: Kinds, pins: Pins) -> Ask:
    """A bundle is once on each cluster that it selects. Kinds that are not served are waited for there, not here:
    it may bring them itself."""
    spec = bundle.spec
    operators = sorted(context.registry.types_of(kinds))
    selection = Selection(tuple(spec.clusters), tuple(spec.regions), tuple(spec.attributes), operators=tuple(operators))
    candidates = context.candidates(selection)
    return Ask(
        workload=workload,
        spec_id="",
        count=1,
        per_cluster=True,
        candidates=candidates,
        pins=pins.get((workload, ""), frozenset()),
        hidden=frozenset(map(ClusterName, context.unreadable)) or NOWHERE,
        unheard=context.unheard.intersection(c.cluster for c in candidates if c.fits) or NOWHERE,
    )


def units_of(decision: Decision) -> tuple[list[Placement], list[Placement]]:
    """Placements that become units, and those that are held: their operator may not be used where they live."""
    candidates = {c.cluster: c for c in decision.ask.candidates}
    here = [p for p in decision.placed.every if p.cluster in candidates]
    return (
        [p for p in here if not candidates[p.cluster].barred],
        [p for p in here if candidates[p.cluster].barred],
    )


def unit_key(ask: Ask, placement: Placement) -> UnitKey:
    instance = f"{ask.spec_id}-{placement.index}" if ask.workload.kind is WorkloadKind.FUNCTION else ""
    return UnitKey(ask.workload.kind, ask.workload.name, instance, placement.cluster)


def placement_problems(context: Context, decision: Decision) -> Iterator[Problem]:
    """What has no place and why, and what stays although nothing new would go there."""
    ask, placed = decision.ask, decision.placed
    yield from _kept_problems(ask, placed)
    name = ask.spec_id or str(ask.workload)
    if placed.short:
        places = "; ".join(map(str, placed.shortages))
        yield codes.CAPACITY_WAITS, f"{_count(placed.short, ask)} of {name} wait for GPUs {ask.gpu}: {places}", ()
    closed, missing = _without_a_place(ask, placed)
    waits = ask.waits_for or tuple(sorted(context.unusable_installs) if any(c.unversioned for c in closed) else ())
    if missing and waits:
        yield codes.PLACEMENT_WAITS, f"{_count(missing, ask)} of {name} wait for {', '.join(waits)}", ()
    elif not ask.fitting:
        yield from nowhere(ask)
    elif missing and (any(c.closed for c in closed) or (placed.every and not ask.per_cluster)):
        yield codes.CLUSTER_CLOSED, f"{_count(missing, ask)} of {name} wait: {why_none(closed)}", ()
    elif missing and not placed.every:
        yield codes.NO_CLUSTER, f"no cluster for {name}: {why_none(ask.candidates)}", ()


def nowhere(ask: Ask) -> Iterator[Problem]:
    """That no cluster is what is asked for, whatever lives where."""
    if ask.count and not ask.fitting and not ask.hidden:
        yield codes.NO_CLUSTER, f"no cluster for {ask.spec_id or ask.workload}: {why_none(ask.candidates)}", ()


def _without_a_place(ask: Ask, placed: Placed) -> tuple[Candidates, int]:
    """Clusters that fit and can take nothing new, and how many instances lack a place for another reason than room."""
    closed = tuple(c for c in ask.fitting if not c.open)
    if not ask.per_cluster:
        return closed, ask.count - len(placed.every) - placed.short
    have = set(placed.kept)
    lacking = {c: sum(Placement(i, c.cluster) not in have for i in range(ask.count)) for c in closed}
    return tuple(c for c, missing in lacking.items() if missing), sum(lacking.values())


def _kept_problems(ask: Ask, placed: Placed) -> Iterator[Problem]:
    candidates = {c.cluster: c for c in ask.candidates}
    for placement in placed.kept:
        candidate = candidates.get(placement.cluster)
        if candidate is None or placement not in ask.pins:
            continue
        key = unit_key(ask, placement)
        if candidate.barred:
            yield codes.OPERATOR_REFUSED, f"{key} is held as it is: {', '.join(candidate.closed)}", ()
        elif candidate.unmet and not candidate.unversioned:
            yield codes.VERSION_UNMET, f"{key} stays, although {', '.join(candidate.unmet)}", ()


def _count(missing: int, ask: Ask) -> str:
    if ask.per_cluster:
        return f"{missing} {'instance' if missing == 1 else 'instances'}"
    return f"{missing} of {ask.count} instances"


def lost(workload: WorkloadRef, pins: Pins, declared: set[str]) -> str:
    """The sentence about live instances whose specification is declared no more; "" when there are none."""
    gone = [
        f"{workload}/{spec_id}-{pin.index}@{pin.cluster}"
        for (ref, spec_id), found in sorted(pins.items())
        if ref == workload and spec_id not in declared
        for pin in sorted(found)
    ]
    more = f" and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
    return f"nothing declares {', '.join(gone[:_MOST_NAMED])}{more} any more: deleted" if gone else ""


def too_many(folder: WorkloadFolder, asked: int, room: int) -> Finding:
    """The finding about a workload that asks for more instances than are left for it."""
    message = f"{folder.ref} asks for {asked} instances; of {MOST_INSTANCES} in all, {room} are left"
    return finding(codes.TOO_MANY_INSTANCES, message, folder.origin, workload=folder.ref)
