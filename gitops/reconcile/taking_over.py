"""Objects that exist although we never applied them: met in preflight, refused or taken over, and told.

A takeover is a JSON patch right before our apply (gitops/cluster/adopting.py), again after it as long as entries of
earlier managers are left. Nothing is written before the object has passed its dry run, unless what is live itself is in
the way of that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from gitops.cluster import adopting, fields, leftovers, tools
from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.errors import ApiError
from gitops.model.adoption import Adoption
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION, DesiredObject, Unit
from gitops.reconcile.attempts import Attempt, Met
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)

ROUNDS = 4
"""Steps of one takeover at most: one for each API version of earlier entries."""

SHOWN = 3
"""Paths that a sentence names; of more it tells the number."""


class Adopter:
    """Takeovers on one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(self, state: ClusterState, *, may_write: Callable[[], bool]) -> None:
        self._state = state
        self._may_write = may_write

    async def meet(self, run: Attempt, desired: DesiredObject) -> bool:
        """Read what is there and decide. True when it may be applied, taken over or not; False when it is refused."""
        live = await run.applier.get(desired.gvk, desired.ref)
        if isinstance(live, ApiError):
            run.fail(desired, live)
            return False
        if live is None:
            return True
        adoption = adoption_of(self._state, run.unit)
        applyset, manager = applyset_id(parent_name(run.unit.key)), self._state.manager
        reconciler = self._state.reconciler
        refusal = adopting.refusal(live, adoption, reconciler=reconciler, applyset=applyset, manager=manager)
        if refusal:
            run.refuse(desired, refusal)
            return False
        ours = adopting.is_ours(live, reconciler=reconciler, manager=manager)
        owners = adopting.foreign_owners(live, reconciler=reconciler, applyset=applyset, manager=manager)
        earlier = adopting.old_entries(live, adoption.tools)
        run.met[desired.ref] = Met(live, live, earlier, adoption.tools, owners, ours)
        return True

    async def prepare(self, run: Attempt, desired: DesiredObject) -> ApplyOutcome | None:
        """Fold what earlier managers own into our entry, right before our apply. An outcome when that failed."""
        met = run.met.get(desired.ref)
        if met is None:
            return None
        outcome = await run.applier.adopt(desired, met.now, tools=met.tools)
        if outcome.error is not None:
            return outcome
        run.met[desired.ref] = replace(met, now=outcome.live or met.now)
        return None

    async def finish(self, run: Attempt, desired: DesiredObject, outcome: ApplyOutcome) -> ApplyOutcome:
        """What is left of earlier managers after our apply, folded and applied again; then tell of the takeover."""
        met = run.met.get(desired.ref)
        if met is None:
            return outcome
        for _ in range(ROUNDS):
            if outcome.error is not None or outcome.live is None or not self._may_write():
                return outcome
            earlier = adopting.old_entries(outcome.live, met.tools)
            met = replace(met, earlier=(*met.earlier, *earlier))
            step = await run.applier.adopt(desired, outcome.live, tools=met.tools, applied=True)
            if step.error is not None:
                return replace(outcome, result=ApplyResult.ERROR, error=step.error)
            if step.result is ApplyResult.UNCHANGED:
                break
            outcome = await run.applier.apply(desired, uid=outcome.uid)
        if outcome.error is None and not met.ours:
            run.adopted.append(_told(desired, met, outcome.live or {}, self._state.manager))
            _log.info("adopted %s", run.adopted[-1])
        return outcome


def adoption_of(state: ClusterState, unit: Unit) -> Adoption:
    """What the repository and the unit's workload say of objects that exist."""
    return unit.adoption if state.assignment is None else state.assignment.adoption.with_(unit.adoption)


def left_over_sentence(found: Collection[tuple[str, tuple[str, ...]]]) -> str:
    """What people read of fields that nobody declares any more: (object, paths) of each; "" for none."""
    told = [
        f"{_count(paths)} of {ref} {'is' if len(paths) == 1 else 'are'} owned by nobody who declares"
        f" {'it' if len(paths) == 1 else 'them'}: {_some(paths)}"
        for ref, paths in found
    ]
    more = f" (and of {len(told) - 1} more objects)" if len(told) > 1 else ""
    return told[0] + more if told else ""


def _told(desired: DesiredObject, met: Met, live: Mapping[str, Any], manager: str) -> str:
    """One sentence: whose it was, what changed, what stays, and what an earlier owner may still do."""
    by = [owner.words for owner in met.owners] or [*adopting.managers(met.earlier)] or ["unknown means"]
    changed = [d.pointer for d in fields.compare(_without_marks(desired.body), met.live, manager).differences]
    marks = {mark for tool in met.tools for mark in tools.marks(met.live, tool)}
    removed = leftovers.removed(met.live, live, met.earlier)
    gone = [leftovers.shown(p) for p in removed if tuple(e.value for e in p[1:]) not in marks]
    left = [leftovers.shown(p) for p in leftovers.left_over(live, met.earlier, manager=manager)]
    parts = [f"{word} {_some(paths)}" for word, paths in (("changed", changed), ("removed", gone)) if paths]
    if left:
        parts.append(f"left as it is, declared by nobody: {_some(left)}")
    parts += [tools.AFTERWARDS[owner.tool] for owner in met.owners if owner.tool is not None]
    return "; ".join([f"{desired.ref} (made by {', '.join(by)})", *parts])


def _without_marks(body: dict[str, Any]) -> dict[str, Any]:
    """The payload without what every object of ours carries."""
    metadata = body["metadata"]
    for place, marks in (("labels", (RECONCILER_LABEL, PART_OF_LABEL)), ("annotations", (SOURCE_ANNOTATION,))):
        kept = {k: v for k, v in metadata.pop(place, {}).items() if k not in marks}
        if kept:
            metadata[place] = kept
    return body


def _count(paths: Collection[str]) -> str:
    return "1 field" if len(paths) == 1 else f"{len(paths)} fields"


def _some(paths: Collection[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(sorted(paths)[:SHOWN]) + more
