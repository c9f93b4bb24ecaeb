"""Deleting with proof: read, decide (gitops/plan/pruning.py), delete with preconditions, wait until it is gone.

Stages go in the order of gitops/plan/removal.py. A stage is waited for before the next one begins; waiting is a retry
of the whole attempt, never a blocked task. Finalizers are never taken off: who holds an object too long is named.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError
from gitops.cluster.instances import instances
from gitops.cluster.members import read_member
from gitops.cluster.namespaces import NamespaceContents
from gitops.cluster.objects import DeleteResult, Propagation
from gitops.cluster.volumes import reclaim_policy
from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef, ReconcilerName, UnitKey
from gitops.model.kinds import CLAIM, DEFINITION, NAMESPACE
from gitops.plan.data_held import data_held
from gitops.plan.ordering import stage_of
from gitops.plan.parents import Member, applyset_id, parent_name
from gitops.plan.pruning import PruneDecision, Verdict, decide_prune, held_by
from gitops.plan.removal import CUSTOM, may_serve, rank
from gitops.plan.units import Stage
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import ObjectProblem, SyncState

_log = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds until a deletion that is under way is looked at again."""

LOOK_AGAIN_RETAINED = 300.0
"""Seconds until what is kept is looked at again: consent is written on the object, which nobody watches any more, and
what a namespace holds may go."""

FOREGROUND = "foregroundDeletion"
"""The finalizer that the API server sets for a foreground deletion."""

ANYTHING = "anything"

NAMED = 5
"""Objects that a sentence names at most."""


@dataclass(slots=True)
class PruneReport:
    """`done`: members that are no longer ours to track; `left_behind` those of them that we made and nobody has now.
    `deleted`: deletes sent. `kept`: stays, with the reason. `going`: accepted, not gone yet; `overdue` those of them
    that somebody holds for longer than the deadline."""

    done: set[ObjectRef] = field(default_factory=set)
    deleted: set[ObjectRef] = field(default_factory=set)
    kept: dict[ObjectRef, str] = field(default_factory=dict)
    going: dict[ObjectRef, str] = field(default_factory=dict)
    overdue: dict[ObjectRef, str] = field(default_factory=dict)
    left_behind: dict[ObjectRef, str] = field(default_factory=dict)
    errors: list[ApiError] = field(default_factory=list)
    retry_after: float | None = None

    @property
    def complete(self) -> bool:
        """Nothing is left to be done without somebody's decision."""
        return not (self.going or self.errors)

    @property
    def problems(self) -> tuple[ObjectProblem, ...]:
        kept = (ObjectProblem(ref, SyncState.RETAINED, reason) for ref, reason in sorted(self.kept.items()))
        held = (ObjectProblem(ref, SyncState.BLOCKED, reason) for ref, reason in sorted(self.overdue.items()))
        return (*held, *kept)

    @property
    def sentence(self) -> str:
        if self.errors:
            return str(self.errors[0])
        for word, found in (("", self.overdue), ("waiting for ", self.going), ("kept ", self.kept)):
            if found:
                ref, reason = next(iter(found.items()))
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                return f"{word}{ref}: {reason}{more}"
        return self.behind or "pruned"

    @property
    def behind(self) -> str:
        """What may be an orphan now; "" when nothing is."""
        found = [f"{ref} ({reason})" for ref, reason in sorted(self.left_behind.items())]
        return f"left behind: {', '.join(found[:NAMED])}{_more(len(found))}" if found else ""


@dataclass(frozen=True, slots=True)
class Removal:
    """One attempt at deleting members of a unit.

    `declared` are objects that other units declare; `not_taken_over` those of them whose new unit's parent does not
    name them yet. `withheld` says why an object may not be deleted at the present head, and is asked last of all.
    `elsewhere` are custom resources of other units that are being deleted, with their unit. `account` says, for the
    log, for what the members are deleted.
    """

    unit: UnitKey
    candidates: Sequence[Member]
    applier: Applier
    declared: Collection[ObjectRef] = ()
    applied_uids: Collection[str] = ()
    not_taken_over: Collection[ObjectRef] = ()
    withheld: Callable[[ObjectRef], str] = lambda _: ""
    elsewhere: Callable[[], Mapping[ObjectRef, UnitKey]] = dict
    account: str = ""
    report: PruneReport = field(default_factory=PruneReport)

    @property
    def own(self) -> Applier:
        """With the daemon's rights: what has to be known of other objects is not the business of who had these."""
        return self.applier.in_name_of("")


class Pruner:
    """`may_write` is False as soon as another daemon may be writing."""

    def __init__(
        self,
        contents: NamespaceContents,
        *,
        reconciler: ReconcilerName,
        context: Context,
        may_write: Callable[[], bool],
    ) -> None:
        self._contents = contents
        self._reconciler = reconciler
        self._context = context
        self._may_write = may_write

    async def prune(self, run: Removal) -> PruneReport:
        """Delete what of the candidates has its proof, stage by stage, as far as that goes now. What is still to be
        taken over by another unit stays a member until that unit's parent names it."""
        report = run.report
        for member in run.candidates:
            if member.ref in run.not_taken_over:
                report.going[member.ref] = "another unit declares it and has not taken it over yet"
        candidates = [m for m in run.candidates if m.ref not in report.going]
        run = replace(run, candidates=await self._without_served(run, candidates))
        by_stage = sorted(run.candidates, key=lambda m: (rank(self._stage(m)), m.ref))
        for _, members in itertools.groupby(by_stage, key=self._stage):
            await asyncio.gather(*(self._one(run, member) for member in members))
            if not report.complete:
                break
        if report.going:
            report.retry_after = LOOK_AGAIN
        elif report.kept:
            report.retry_after = LOOK_AGAIN_RETAINED
        return report

    def _stage(self, member: Member) -> Stage:
        return stage_of(member.gvk, self._context.registry)

    # -- what serves custom resources --------------------------------------------------------------------------------

    async def _without_served(self, run: Removal, candidates: list[Member]) -> list[Member]:
        """The candidates that may go now. An operator with its definitions stays as long as objects live that nobody
        deletes (they would go with the definition, or never go at all), and waits for those that other units delete."""
        elsewhere = dict(run.elsewhere()) if may_serve(run.unit, map(self._stage, candidates)) else {}
        reason, kept = "", False
        own = {m.ref for m in candidates}
        for definition in (m for m in candidates if m.ref.group_kind == DEFINITION.group_kind):
            found = await self._instances(run, definition)
            if isinstance(found, ApiError):
                run.report.errors.append(found)
                return [m for m in candidates if self._stage(m) in CUSTOM]
            outside = sorted(set(found) - own - elsewhere.keys())
            if outside:
                reason, kept = _instances_live(outside), True
                break
        if not reason and elsewhere:
            ref, unit = min(elsewhere.items())
            reason = f"it may serve {ref} of {unit}, which is not gone yet{_more(len(elsewhere), shown=1)}"
        if not reason:
            return candidates
        for member in candidates:
            if self._stage(member) not in CUSTOM:
                (run.report.kept if kept else run.report.going)[member.ref] = reason
        return [m for m in candidates if self._stage(m) in CUSTOM]

    async def _instances(self, run: Removal, definition: Member) -> list[ObjectRef] | ApiError:
        """Objects of the kind that a definition defines, if that is one that would be deleted."""
        live, _ = await read_member(run.applier, definition, definitions=run.own)
        if isinstance(live, ApiError):
            return live
        if live is None or self._decide(run, definition, live, ANYTHING).forget:
            return []
        found = await instances(run.own, live)
        return found if isinstance(found, ApiError) else [*found.live, *found.going]

    # -- one object --------------------------------------------------------------------------------------------------

    async def _holds(self, run: Removal, member: Member, live: dict[str, Any] | None) -> str:
        kind = member.ref.group_kind
        found = data_held(kind, live or {}, registry=self._context.registry, manager=run.applier.manager)
        if found and live is not None and kind == CLAIM.group_kind:
            return f"{found} ({await reclaim_policy(run.own, live)})"
        return found

    def _decide(self, run: Removal, member: Member, live: dict[str, Any] | None, holds: str) -> PruneDecision:
        return decide_prune(
            member,
            live,
            applyset=applyset_id(parent_name(run.unit)),
            reconciler=self._reconciler,
            manager=run.applier.manager,
            declared=run.declared,
            applied_uids=run.applied_uids,
            holds=holds,
        )

    async def _one(self, run: Removal, member: Member) -> None:
        report, ref = run.report, member.ref
        live, gvk = await read_member(run.applier, member, definitions=run.own)
        if isinstance(live, ApiError):
            report.errors.append(live)
            return
        holds = await self._holds(run, member, live)
        decision = self._decide(run, member, live, holds)
        if decision.verdict is Verdict.DELETE and is_namespace(ref):
            decision = await self._namespace(decision, report)
        elif decision.verdict is Verdict.DELETE and ref.group_kind == DEFINITION.group_kind and live is not None:
            decision = await self._definition(run, decision, live)
        if decision.forget and not decision.moved and (why := run.withheld(ref)):
            report.kept[ref] = why  # who names it and is held may go on with it: its uid is known here only
        elif decision.verdict is Verdict.GONE or decision.forget:
            report.done.add(ref)
            if decision.left_behind:
                report.left_behind[ref] = decision.reason
        elif decision.verdict is Verdict.GOING:
            if live is not None and is_namespace(ref) and is_deleted(live):
                held = await self._contents.held_by(live)
                decision = replace(decision, reason=f"deleting, {held}" if held else "deleting")
            await self._going(run, decision, gvk)
        elif decision.verdict is Verdict.KEEP:
            report.kept[ref] = decision.reason
        elif why := run.withheld(ref):
            report.kept[ref] = why
        else:
            await self._delete(run, decision, gvk, holds=holds)

    async def _definition(self, run: Removal, decision: PruneDecision, live: dict[str, Any]) -> PruneDecision:
        """Asked again right before a definition goes: an object that was made meanwhile would go with it."""
        found = await instances(run.own, live)
        if isinstance(found, ApiError):
            run.report.errors.append(found)
            return replace(decision, verdict=Verdict.GOING, reason=f"its objects are not known: {found}")
        if found.live or found.going:
            return replace(decision, verdict=Verdict.GOING, reason=f"{(*found.live, *found.going)[0]} is not gone yet")
        return decision

    async def _namespace(self, decision: PruneDecision, report: PruneReport) -> PruneDecision:
        """A namespace goes last, and only when nothing is in it that would be lost with it."""
        left = await self._contents.foreign(decision.member.ref.name)
        if isinstance(left, ApiError):
            report.errors.append(left)
            return PruneDecision(Verdict.GOING, decision.member, f"its contents are not known: {left}")
        if left.foreign:
            return PruneDecision(
                Verdict.KEEP, decision.member, f"it still holds {left.foreign[0]}{_more(len(left.foreign), shown=1)}"
            )
        if left.going:
            return PruneDecision(Verdict.GOING, decision.member, f"{left.going[0]} is not gone yet")
        return decision

    async def _going(self, run: Removal, decision: PruneDecision, gvk: GroupVersionKind) -> None:
        report, ref = run.report, decision.member.ref
        report.going[ref] = decision.reason
        if not self._overdue(decision.since):
            return
        if decision.finalizers == (FOREGROUND,) and not run.withheld(ref):
            # What it owns is made again and again, or never goes. A second delete lets the object go (ssa-live 42).
            await self._delete(run, decision, gvk, propagation="Background")
            return
        holder = f"is held by {decision.holder}" if decision.holder else "has not ended"
        report.overdue[ref] = report.going[ref] = f"its deletion {holder} since {decision.since}"

    def _overdue(self, since: str) -> bool:
        try:
            began = datetime.datetime.fromisoformat(since).timestamp()
        except ValueError:
            return False
        return self._context.wall() - began > self._context.options.deletion_deadline

    async def _delete(
        self,
        run: Removal,
        decision: PruneDecision,
        gvk: GroupVersionKind,
        *,
        holds: str = "",
        propagation: Propagation | None = None,
    ) -> None:
        report, ref = run.report, decision.member.ref
        if not self._may_write():
            report.going[ref] = "another daemon holds the Lease"
            return
        outcome = await run.applier.delete(
            gvk,
            ref,
            uid=decision.uid,
            resource_version=decision.resource_version,
            propagation=propagation or self._propagation(ref.group_kind),
            wanted=lambda: self._may_write() and not run.withheld(ref),
        )
        if outcome.error is not None:
            report.errors.append(outcome.error)
            return
        report.deleted.add(ref)
        _log.info(
            "deleted %s (uid %s): Git no longer declares it; %s, parent %s%s",
            *(ref, decision.uid, run.account, parent_name(run.unit), f"; with it goes {holds}" if holds else ""),
        )
        if outcome.result is DeleteResult.DELETING:
            report.going[ref] = held_by({"metadata": {"finalizers": list(outcome.finalizers)}})
        else:
            report.going.pop(ref, None)
            report.done.add(ref)

    def _propagation(self, kind: GroupKind) -> Propagation:
        """What an operator makes of a custom resource goes before it: gone is gone then, and what comes next does not
        pull a namespace or a definition from under pods. Everything else is left to the garbage collector, for which
        nothing has to wait: the namespace is asked for what it still holds."""
        return "Foreground" if self._context.registry.makes_children(kind) else "Background"


def _instances_live(refs: Sequence[ObjectRef]) -> str:
    verb = "lives" if len(refs) == 1 else "live"
    shown = ", ".join(map(str, refs[:NAMED]))
    return f"{len(refs)} {refs[0].kind} {verb} and nobody deletes them: {shown}{_more(len(refs))}"


def _more(number: int, *, shown: int = NAMED) -> str:
    return f" and {number - shown} more" if number > shown else ""


def is_namespace(ref: ObjectRef) -> bool:
    return ref.group_kind == NAMESPACE.group_kind


def is_deleted(live: Mapping[str, Any]) -> bool:
    """Has its deletion begun?"""
    return bool((live.get("metadata") or {}).get("deletionTimestamp"))
