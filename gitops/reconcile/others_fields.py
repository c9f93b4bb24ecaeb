"""What is told of fields that are others': the questions that people have to answer, and what is left to whom."""

from __future__ import annotations

from collections.abc import Iterator

from gitops.cluster.payloads import describe
from gitops.plan.sending import LeftOut, Why
from gitops.plan.units import DesiredObject, Unit
from gitops.policy.annotations import CONFLICTS, IGNORE_DRIFT
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.state import ClusterState


def questions(state: ClusterState, unit: Unit) -> list[ObjectProblem]:
    """Fields over which people have to decide."""
    return [
        ObjectProblem(
            desired.ref,
            SyncState.CONFLICT,
            f"{field} has another value, of the manager {each.holder}, and is not sent: declare that value, drop the "
            f"field, or decide with the annotation {CONFLICTS}",
        )
        for desired, each, field in _fields(state, unit)
        if each.why is Why.ASKED
    ]


def left_to_others(state: ClusterState, unit: Unit) -> tuple[str, ...]:
    """What of a unit is not ours now, a sentence for each field."""
    return tuple(
        f"{desired.ref} {field}: {_whose(each)}"
        for desired, each, field in _fields(state, unit)
        if each.why is not Why.ASKED
    )


def _whose(each: LeftOut) -> str:
    return f"{each.why}, by {IGNORE_DRIFT}" if each.why is Why.IGNORED else f"{each.why} to {each.holder}"


def _fields(state: ClusterState, unit: Unit) -> Iterator[tuple[DesiredObject, LeftOut, str]]:
    for desired in unit.objects:
        left = state.left_out(desired.ref)
        whole = state.in_git(desired.ref) if left else None
        body = whole.body if whole is not None else {}
        for each in left:
            yield desired, each, describe(each.path, body)
