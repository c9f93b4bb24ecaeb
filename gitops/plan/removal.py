"""The order in which objects go, and what waits for what (cases.md O07).

Not simply the reverse of apply: custom resources go before the workloads, because one of those may be their operator,
without which their finalizers never clear. So webhook configurations first (nobody may refuse a deletion for a server
that is going), then custom resources, then workloads, then the rest in reverse: definitions after the operator that
serves them, the namespace last.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitops.model.identity import UnitKey, WorkloadKind
from gitops.plan.units import Stage

_ORDER = (
    Stage.ADMISSION,
    Stage.CUSTOM,
    Stage.CUSTOM_EARLY,
    Stage.WORKLOAD,
    Stage.DEFINITION,
    Stage.CONFIG,
    Stage.ACCESS,
    Stage.BOUNDS,
    Stage.NAMESPACE,
)
_RANK = {stage: rank for rank, stage in enumerate(_ORDER)}

CUSTOM = frozenset({Stage.CUSTOM, Stage.CUSTOM_EARLY})
_SERVING = frozenset({Stage.ADMISSION, Stage.WORKLOAD, Stage.DEFINITION, Stage.ACCESS})


def rank(stage: Stage) -> int:
    """Lower goes first."""
    return _RANK[stage]


def may_serve(unit: UnitKey, stages: Iterable[Stage]) -> bool:
    """Whether what goes may be an operator, or what an operator needs: only bundles hold one."""
    return unit.kind is WorkloadKind.BUNDLE and not _SERVING.isdisjoint(stages)
