"""When a unit is looked at again after an attempt."""

from __future__ import annotations

import random
from typing import Any

from gitops.plan.planning import UnitPlan
from gitops.reconcile.attempts import AT_ONCE, Attempt, conclude
from gitops.reconcile.pruning import PruneReport
from gitops.reconcile.state import UnitState


def test_what_is_found_anew_each_time_is_soon_looked_at_with_pauses(kit: Any) -> None:
    unit, unit_state = kit.unit(kit.desired("web")), UnitState(kit.key)
    pauses = []
    for unit_state.attempts in range(AT_ONCE + 3):
        run = Attempt(unit, applier=None, look_again=True)  # type: ignore[arg-type]
        outcome = conclude(
            run, UnitPlan(kit.record(), None, (), ()), PruneReport(), unit_state=unit_state, rng=random.Random(1)
        )
        pauses.append(outcome.retry_after)
    assert pauses[:AT_ONCE] == [0.0] * AT_ONCE
    assert all(pause and pause > 0.1 for pause in pauses[AT_ONCE:])
