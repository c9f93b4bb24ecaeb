from __future__ import annotations

from gitops.reconcile.fights import FightLimits, Heat

LIMITS = FightLimits(limit=5, half_life=60)


def test_d06_repairs_in_a_row_make_an_object_contested_until_it_cools() -> None:
    heat = Heat()
    for second in range(5):
        assert heat.contested_for(second, LIMITS) == 0
        heat = heat.heated(second, LIMITS)
    heat = heat.heated(5, LIMITS)
    pause = heat.contested_for(5, LIMITS)
    assert pause > 0
    assert heat.contested_for(5 + pause, LIMITS) == 0


def test_repairs_far_apart_never_contest() -> None:
    heat = Heat()
    for hour in range(100):
        assert heat.contested_for(hour * 3600, LIMITS) == 0
        heat = heat.heated(hour * 3600, LIMITS)
