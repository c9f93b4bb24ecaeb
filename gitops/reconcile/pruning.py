"""Deleting with proof: read, decide (gitops/plan/pruning.py), delete with preconditions, wait until it is gone.

Stages go in reverse: custom resources before the operators and definitions they need, the namespace last (cases.md
O07). A stage is waited for before the next one begins; waiting is a retry of the whole attempt, never a blocked task.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.namespaces import NamespaceContents
from gitops.cluster.objects import DeleteResult
from gitops.model.identity import GroupVersionKind, ObjectRef, ReconcilerName, UnitKey
from gitops.model.kinds import DEFINITION
from gitops.plan.parents import Member, applyset_id, parent_name
from gitops.plan.pruning import PruneDecision, Verdict, decide_prune
from gitops.plan.units import Stage
from gitops.reconcile.outcomes import ObjectProblem, SyncState

LOOK_AGAIN = 1.0
"""Seconds until a deletion that is under way is looked at again."""

LOOK_AGAIN_RETAINED = 300.0
"""Seconds until what is kept is looked at again: consent is written on the object, which nobody watches any more, and
what a namespace holds may go."""


@dataclass(slots=True)
class PruneReport:
    """`done`: members that are no longer ours to track. `deleted`: deletes sent. `kept`: stays, with the reason.
    `going`: accepted, not gone yet."""

    done: set[ObjectRef] = field(default_factory=set)
    deleted: set[ObjectRef] = field(default_factory=set)
    kept: dict[ObjectRef, str] = field(default_factory=dict)
    going: dict[ObjectRef, str] = field(default_factory=dict)
    errors: list[ApiError] = field(default_factory=list)
    problems: tuple[ObjectProblem, ...] = ()
    retry_after: float | None = None

    @property
    def complete(self) -> bool:
        """Nothing is left to be done without somebody's decision."""
        return not (self.going or self.errors)

    @property
    def sentence(self) -> str:
        if self.errors:
            return str(self.errors[0])
        for word, found in (("waiting for", self.going), ("kept", self.kept)):
            if found:
                ref, reason = next(iter(found.items()))
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                return f"{word} {ref}: {reason}{more}"
        return "pruned"


class Pruner:
    def __init__(
        self,
        contents: NamespaceContents,
        *,
        reconciler: ReconcilerName,
        stage_of: Callable[[GroupVersionKind], Stage],
        may_write: Callable[[], bool],
    ) -> None:
        self._contents = contents
        self._reconciler = reconciler
        self._stage_of = stage_of
        self._may_write = may_write

    async def prune(
        self,
        unit: UnitKey,
        candidates: Sequence[Member],
        *,
        applier: Applier,
        declared: Collection[ObjectRef],
        applied_uids: Collection[str],
        not_taken_over: Collection[ObjectRef] = (),
        withheld: Callable[[ObjectRef], str] = lambda _: "",
    ) -> PruneReport:
        """Delete what of `candidates` has its proof, stage by stage, as far as that goes now. What is still to be taken
        over by another unit stays a member until that unit's parent names it. `withheld` says why an object may not be
        deleted at the present head, and is asked last of all."""
        report = PruneReport()
        for member in candidates:
            if member.ref in not_taken_over:
                report.going[member.ref] = "another unit declares it and has not taken it over yet"
        candidates = [m for m in candidates if m.ref not in report.going]
        applyset = applyset_id(parent_name(unit))

        def decide(member: Member, live: dict[str, object] | None) -> PruneDecision:
            return decide_prune(
                member,
                live,
                applyset=applyset,
                reconciler=self._reconciler,
                manager=applier.manager,
                declared=declared,
                applied_uids=applied_uids,
            )

        by_stage = sorted(candidates, key=lambda m: (-self._stage_of(_gvk(m)), m.ref))
        for _, members in itertools.groupby(by_stage, key=lambda m: self._stage_of(_gvk(m))):
            await asyncio.gather(*(self._one(applier, report, m, decide, withheld) for m in members))
            if not report.complete:
                break
        report.problems = tuple(
            ObjectProblem(ref, SyncState.RETAINED, reason) for ref, reason in sorted(report.kept.items())
        )
        if report.going:
            report.retry_after = LOOK_AGAIN
        elif report.kept:
            report.retry_after = LOOK_AGAIN_RETAINED
        return report

    async def _one(
        self,
        applier: Applier,
        report: PruneReport,
        member: Member,
        decide: Callable[[Member, dict[str, object] | None], PruneDecision],
        withheld: Callable[[ObjectRef], str],
    ) -> None:
        live, gvk = await self._read(applier, member)
        if isinstance(live, ApiError):
            report.errors.append(live)
            return
        decision = decide(member, live)
        if decision.verdict is Verdict.DELETE and member.ref.kind == "Namespace" and not member.ref.group:
            decision = await self._namespace(decision, report)
        if decision.verdict is Verdict.GONE or decision.forget:
            report.done.add(member.ref)
        elif decision.verdict is Verdict.GOING:
            report.going[member.ref] = decision.reason
        elif decision.verdict is Verdict.KEEP:
            report.kept[member.ref] = decision.reason
        elif why := withheld(member.ref):
            report.kept[member.ref] = why
        else:
            await self._delete(
                applier, report, decision, gvk, wanted=lambda: self._may_write() and not withheld(member.ref)
            )

    async def _read(
        self, applier: Applier, member: Member
    ) -> tuple[dict[str, object] | ApiError | None, GroupVersionKind]:
        """The live member, at whatever version its kind is served now; a kind that is gone took its objects along."""
        gvk = _gvk(member)
        live = await applier.get(gvk, member.ref)
        if isinstance(live, ApiError) and live.cls is ErrorClass.WAITING and live.waits_for.startswith("kind"):
            known = applier.discovery.known()
            served = [g for g in known if g.group_kind == gvk.group_kind]
            if not served:
                defined = await self._defined(applier.in_name_of(""), gvk) if known else live
                return (live if defined is True else None if defined is False else defined), gvk
            gvk = sorted(served)[0]
            live = await applier.get(gvk, member.ref)
        return live, gvk

    async def _defined(self, applier: Applier, gvk: GroupVersionKind) -> bool | ApiError:
        """Is there a definition of the kind? For a moment after that was made, discovery does not know of it yet, and
        what is there already would be taken for gone."""
        listing = await applier.list_objects(DEFINITION, page_size=50)
        if isinstance(listing, ApiError):
            return listing
        specs = (d.get("spec") or {} for d in listing.items)
        return any(s.get("group") == gvk.group and (s.get("names") or {}).get("kind") == gvk.kind for s in specs)

    async def _namespace(self, decision: PruneDecision, report: PruneReport) -> PruneDecision:
        """A namespace goes last, and only when nothing is in it that would be lost with it."""
        left = await self._contents.foreign(decision.member.ref.name)
        if isinstance(left, ApiError):
            report.errors.append(left)
            return PruneDecision(Verdict.GOING, decision.member, f"its contents are not known: {left}")
        if left.foreign:
            more = f" and {len(left.foreign) - 1} more" if len(left.foreign) > 1 else ""
            return PruneDecision(Verdict.KEEP, decision.member, f"it still holds {left.foreign[0]}{more}")
        if left.going:
            return PruneDecision(Verdict.GOING, decision.member, f"{left.going[0]} is not gone yet")
        return decision

    async def _delete(
        self,
        applier: Applier,
        report: PruneReport,
        decision: PruneDecision,
        gvk: GroupVersionKind,
        *,
        wanted: Callable[[], bool],
    ) -> None:
        ref = decision.member.ref
        if not self._may_write():
            report.going[ref] = "another daemon holds the Lease"
            return
        outcome = await applier.delete(
            gvk, ref, uid=decision.uid, resource_version=decision.resource_version, wanted=wanted
        )
        if outcome.error is not None:
            report.errors.append(outcome.error)
            return
        report.deleted.add(ref)
        if outcome.result is DeleteResult.DELETING:
            held = f", held by {outcome.finalizers[0]}" if outcome.finalizers else ""
            report.going[ref] = f"being deleted{held}"
        else:
            report.done.add(ref)


def _gvk(member: Member) -> GroupVersionKind:
    return GroupVersionKind(member.ref.group, member.version, member.ref.kind)
