"""The arithmetic of the fight breaker: no cluster, a clock moved by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.reconcile.fights import MOST_PATHS, WHOLE, Fight, FightLimits, Fights, may_be_left_out

LIMITS = FightLimits(limit=5, half_life=60, longest=3600)


def fought(fight: Fight, now: float, seconds: float) -> tuple[Fight, list[float]]:
    """A writer that undoes everything at once, for so long; the times of our writes."""
    writes, end = [], now + seconds
    while now <= end:
        fight = fight.undone(now, LIMITS)
        if (pause := fight.contested_for(now, LIMITS)) > 0:
            now += pause
            continue
        fight = fight.repaired(now, LIMITS)
        writes.append(now)
        now += 0.01
    return fight, writes


def test_d06_repairs_at_once_then_one_try_after_each_pause_and_each_pause_twice_as_long() -> None:
    _, writes = fought(Fight(), 1000.0, 7200)
    at_once = [t for t in writes if t < 1001]
    assert len(at_once) == LIMITS.limit
    tries = writes[len(at_once) :]
    gaps = [round(b - a) for a, b in zip([at_once[-1], *tries], tries, strict=False)]
    assert gaps == [60, 120, 240, 480, 960, 1920]


@given(st.lists(st.floats(min_value=0.001, max_value=30), min_size=1, max_size=200))
def test_d06_whatever_the_other_writer_s_pace_writes_per_minute_are_bounded(pauses: list[float]) -> None:
    fight, now, writes = Fight(), 1000.0, []
    for pause in pauses:
        now += pause
        fight = fight.undone(now, LIMITS)
        if fight.contested_for(now, LIMITS) == 0:
            fight = fight.repaired(now, LIMITS)
            writes.append(now)
    for start in writes:
        assert len([t for t in writes if start <= t < start + 60]) <= 2 * LIMITS.limit


def test_repairs_far_apart_never_contest() -> None:
    fight = Fight()
    for hour in range(100):
        fight = fight.undone(hour * 3600, LIMITS)
        assert fight.contested_for(hour * 3600, LIMITS) == 0
        fight = fight.repaired(hour * 3600, LIMITS)


def test_a_pause_is_never_longer_than_the_longest_wherever_the_clock_goes() -> None:
    fight, _ = fought(Fight(), 1_000_000.0, 60)
    assert fight.contested_for(0.0, LIMITS) == LIMITS.longest
    assert LIMITS.pause(10_000) == LIMITS.longest


def test_who_gave_in_is_forgotten_after_as_long_as_the_last_pause() -> None:
    fight, _ = fought(Fight(), 1000.0, 30)
    tried = fight.until
    fight = fight.repaired(tried, LIMITS)
    assert not fight.is_over(tried + 59, LIMITS)
    assert fight.is_over(tried + 60, LIMITS)


@pytest.mark.parametrize(
    ("path", "leaf"),
    [
        (("spec", "replicas"), True),
        (("spec", "containers", 0, "image"), True),
        (("metadata", "annotations", "a/b"), True),
        (("spec", "args"), True),
        (("spec", "containers"), False),
        (("spec", "gone", "field"), True),
        (("spec", "containers", 1), False),
        (("metadata", "labels", "gitops/reconciler"), False),
        (WHOLE, False),
    ],
)
def test_what_can_be_left_to_the_other_side(path: Any, leaf: bool) -> None:
    body = {"spec": {"replicas": 1, "args": ["a"], "containers": [{"name": "a", "image": "b"}, {"name": "b"}]}}
    assert may_be_left_out(path, body) is leaf


# -- what is remembered ----------------------------------------------------------------------------------------------


def contested(fights: Fights, desired: Any, *paths: Any, now: float = 1000.0) -> None:
    for _ in range(int(LIMITS.limit)):
        fights.repaired(desired, paths, now=now, limits=LIMITS)
    assert fights.undone(desired.ref, dict.fromkeys(paths), now=now, limits=LIMITS) == list(paths)


def test_nothing_is_kept_of_objects_that_are_not_fought_over(kit: Any) -> None:
    fights = Fights()
    for number in range(200):
        fights.repaired(kit.desired(f"o{number}"), [("data", "level")], now=1000.0 + number, limits=LIMITS)
    fights.repaired(kit.desired("last"), [("data", "level")], now=2000.0, limits=LIMITS)
    assert len(fights) == 1


def test_paths_of_one_object_are_told_apart(kit: Any) -> None:
    web, fights = kit.desired("web", data={"a": "1", "b": "2"}), Fights()
    contested(fights, web, ("data", "a"))
    fights.repaired(web, [("data", "b")], now=1000.0, limits=LIMITS)
    assert fights.undone(web.ref, {("data", "b"): None}, now=1000.0, limits=LIMITS) == []
    assert set(fights.contested(web.ref, now=1001.0, limits=LIMITS)) == {("data", "a")}


@pytest.mark.parametrize(
    ("path", "change", "forgotten"),
    [
        (("data", "a"), {"a": "1", "b": "x"}, False),  # another field
        (("data", "a"), {"a": "x", "b": "2"}, True),
        (("data", "a"), {"b": "2"}, True),
        (WHOLE, {"a": "1", "b": "x"}, True),
        (("data", "list", 0, "v"), {"a": "1", "b": "2", "list": [{"v": "0"}, {"v": "1"}]}, True),  # positions moved
    ],
)
def test_a_change_in_git_of_that_very_path_ends_the_fight(kit: Any, path: Any, change: Any, forgotten: bool) -> None:
    fights = Fights()
    contested(fights, kit.desired("web", data={"a": "1", "b": "2", "list": [{"v": "1"}]}), path)
    fights.review(kit.desired("web", data={"list": [{"v": "1"}], **change}))
    assert (len(fights) == 0) is forgotten


def test_what_a_parent_remembers_is_what_it_was(kit: Any) -> None:
    web, before, after = kit.desired("web", data={"a": "1"}), Fights(), Fights()
    contested(before, web, ("data", "a"))
    stored = before.stored([web.ref], now=1001.0, limits=LIMITS)
    after.restore([web.ref], stored, now=1002.0, limits=LIMITS)
    after.review(web)
    assert set(after.contested(web.ref, now=1002.0, limits=LIMITS)) == {("data", "a")}
    assert after.stored([web.ref], now=1002.0, limits=LIMITS) == stored
    assert before.stored([web.ref], now=9000.0, limits=LIMITS) == (), "over"


def test_a_parent_remembers_a_bounded_number_and_nothing_of_a_secret_s_values(kit: Any) -> None:
    secret, fights = kit.desired("keys", "Secret", data={f"k{n}": "djE=" for n in range(40)}), Fights()
    contested(fights, secret, *(("data", f"k{n}") for n in range(40)))
    stored = fights.stored([secret.ref], now=1001.0, limits=LIMITS)
    assert len(stored) == MOST_PATHS
    assert {value.split(" ")[2] for _, value in stored} == {""}
    again = Fights()
    again.restore([secret.ref], stored, now=1001.0, limits=LIMITS)
    again.review(secret)
    assert len(again) == MOST_PATHS


@pytest.mark.parametrize(
    "key", ["", "x", "[]", '["ConfigMap shop/web",["data"],1]', '["ConfigMap shop/other",["data"]]']
)
@pytest.mark.parametrize("value", ["", "1 2", "x y z", "0 9999999999 ", "1 9999999999 zz"])
def test_what_a_parent_says_wrongly_is_forgotten(kit: Any, key: str, value: str) -> None:
    fights = Fights()
    fights.restore([kit.ref("web")], [(key, value)], now=1000.0, limits=LIMITS)
    assert len(fights) == 0
