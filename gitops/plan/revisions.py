"""Two states of a repository, compared: what a change would ask of objects that live, before it is merged.

Units are matched by key and objects by reference. What the earlier state does not hold is new, whatever lives: nothing
is said of it here.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import UnitKey, WorkloadRef
from gitops.plan.data_held import data_held
from gitops.plan.immutable import recreates
from gitops.plan.units import Compilation, Unit
from gitops.policy import codes
from gitops.policy.registry import OperatorRegistry
from gitops.policy.updates import Update, check_updates


def check_revisions(before: Compilation, after: Compilation, registry: OperatorRegistry) -> tuple[Finding, ...]:
    """Findings about what changed: fields that living objects do not take, and bases that changed under one version.

    An instance that moves to another cluster is made anew there, so it is not compared. Each problem is told once,
    however many instances have it.
    """
    found: dict[tuple[str, str, str], Finding] = {}
    for problem in (
        *_changed_bases(before, after),
        *check_updates(registry, _updates(before, after, registry), after.schemas),
    ):
        found.setdefault((problem.code, str(problem.origin), problem.message), problem)
    return tuple(sorted(found.values(), key=lambda f: (f.origin, f.code, f.message)))


def _updates(before: Compilation, after: Compilation, registry: OperatorRegistry) -> Iterator[Update]:
    earlier = _all(before)
    for key, unit in sorted(_all(after).items()):
        old = earlier.get(key)
        known = {} if old is None or old.content_key == unit.content_key else {o.ref: o for o in old.objects}
        for desired in unit.objects:
            was = known.get(desired.ref)
            if was is not None and was.digest != desired.digest:
                holds = data_held(desired.ref.group_kind, {}, registry=registry, manager="")
                recreate = recreates(desired, holds=holds)
                yield Update(
                    key.cluster,
                    desired.ref,
                    was.body,
                    desired.body,
                    desired.provenance,
                    key.workload,
                    recreate=recreate,
                )


def _changed_bases(before: Compilation, after: Compilation) -> Iterator[Finding]:
    """A version stands for one base: what runs under it must be the same whenever it is placed."""
    bases: dict[WorkloadRef, Unit] = {}
    for key, unit in _all(before).items():
        bases.setdefault(key.workload, unit)
    told = set()
    for key, unit in sorted(_all(after).items()):
        old = bases.get(key.workload)
        same = old is None or not unit.version or old.version != unit.version or old.base_digest == unit.base_digest
        if same or key.workload in told:
            continue
        told.add(key.workload)
        message = f"{key.workload}: the base of version {unit.version} changed; raise spec.version with it"
        yield finding(codes.BASE_CHANGED, message, _changed_object(old, unit), workload=key.workload)


def _changed_object(old: Unit | None, unit: Unit) -> Origin:
    """Where the first object is written that is not as it was, else where the unit's last object is."""
    known = {} if old is None else {o.ref: o.digest for o in old.objects}
    changed = (o.origin for o in unit.objects if known.get(o.ref, o.digest) != o.digest)
    return next(changed, unit.objects[-1].origin)


def _all(state: Compilation) -> dict[UnitKey, Unit]:
    """Those that their cluster refuses too: one mistake hides no other."""
    return {**state.not_run, **state.refused, **state.units}
