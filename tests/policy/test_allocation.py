"""Allocation: deterministic, even, stable, and never beyond what clusters have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.identity import ClusterName, WorkloadKind, WorkloadRef
from gitops.policy.allocation import NO_BOUND, Ask, Placed, allocate, keep
from gitops.policy.placement import Candidate, Placement

NAMES = [ClusterName(f"c{i}") for i in range(6)]
GPU = "h100"


def function(name):
    return WorkloadRef(WorkloadKind.FUNCTION, name)


def open_at(*clusters, gpus=1, **more):
    return tuple(Candidate(c, gpus=gpus, **more) for c in sorted(clusters))


def ask(clusters, count=1, *, name="chat", pins=(), **more):
    candidates = more.pop("candidates", None) or open_at(*clusters)
    fields = {"per_cluster": False, "gpu": GPU, "workload": function(name), **more}
    return Ask(spec_id="s", count=count, candidates=candidates, pins=frozenset(pins), **fields)


def placed(one, capacity=NO_BOUND):
    (found,) = allocate([one], capacity).values()
    return found


def at(*pairs):
    return tuple(Placement(index, ClusterName(cluster)) for index, cluster in pairs)


names = st.sets(st.sampled_from(NAMES), min_size=1)
counts = st.integers(0, 12)

# -- one specification ------------------------------------------------------------------------------------------------


@given(names, counts)
def test_instances_are_spread_evenly(clusters, count):
    placements = placed(ask(clusters, count)).every
    assert [p.index for p in placements] == list(range(count))
    load = Counter(p.cluster for p in placements)
    sizes = [load[c] for c in clusters]
    assert max(sizes) - min(sizes) <= 1


@given(names, names, counts)
def test_a_new_cluster_moves_nothing_that_lives(clusters, joined, count):
    before = placed(ask(clusters, count)).every
    after = placed(ask(clusters | joined, count, pins=before))
    assert (after.kept, after.new) == (before, ())


@given(names, counts, counts)
def test_scaling_down_removes_the_highest_and_up_adds_above(clusters, one, other):
    small, large = sorted((one, other))
    full = placed(ask(clusters, large)).every
    assert placed(ask(clusters, small, pins=full)).every == full[:small]
    part = placed(ask(clusters, small)).every
    assert placed(ask(clusters, large, pins=part)).every[:small] == part


@given(names, st.integers(1, 12), st.data())
def test_only_instances_of_a_removed_cluster_move(clusters, count, data):
    before = placed(ask(clusters, count)).every
    gone = data.draw(st.sampled_from(sorted(clusters)))
    rest = clusters - {gone}
    after = placed(ask(rest, count, pins=before)).every if rest else ()
    staying = {p for p in before if p.cluster != gone}
    assert staying <= set(after) or not rest
    assert not rest or len(after) == count


@given(names, st.integers(1, 12), st.data())
def test_unreadable_cluster_keeps_its_pins_and_nothing_new_is_placed(clusters, count, data):
    before = placed(ask(clusters, count)).every
    hidden = data.draw(st.sampled_from(sorted(clusters)))
    rest = open_at(*clusters - {hidden})
    one = ask((), count + 3, pins=before, hidden=frozenset({hidden}), waits_for=("clusters/x.yaml",))
    assert placed(replace(one, candidates=rest)).every == before


@given(names, st.integers(1, 12), st.data())
def test_what_becomes_known_or_unknown_of_a_cluster_moves_nothing(clusters, count, data):
    """Closed, out of range, not told, barred, paused: none of them moves what lives there."""
    before = placed(ask(clusters, count)).every
    kinds = [{"closed": ("x",)}, {"unmet": ("x",), "unversioned": True}, {"closed": ("x",), "barred": True}]
    changed = tuple(
        replace(c, **data.draw(st.sampled_from([{}, {"paused": True}, *kinds]))) for c in open_at(*clusters)
    )
    after = placed(ask((), count, pins=before, candidates=changed))
    assert (after.kept, after.new, after.short) == (before, (), 0)


@given(names, counts, st.data())
def test_nothing_new_goes_to_a_closed_cluster(clusters, count, data):
    closed = data.draw(st.sets(st.sampled_from(sorted(clusters))))
    changed = tuple(replace(c, closed=("x",) if c.cluster in closed else ()) for c in open_at(*clusters))
    found = placed(ask((), count, candidates=changed)).every
    assert not closed.intersection(p.cluster for p in found)
    assert len(found) == (count if closed != clusters else 0)


def test_a_paused_cluster_is_chosen_last():
    both = (*open_at("c0", paused=True), *open_at("c1"))
    assert {p.cluster for p in placed(ask((), 4, candidates=both)).every} == {"c1"}
    assert len(placed(ask((), 2, candidates=both[:1])).every) == 2, "the only one is taken, and waits there"
    assert Counter(p.cluster for p in placed(ask((), 4, candidates=both), {(NAMES[1], GPU): 3}).every) == {
        "c0": 1,
        "c1": 3,
    }


def test_different_workloads_start_on_different_clusters():
    first = Counter(placed(ask(NAMES[:4], name=f"f{i}")).every[0].cluster for i in range(400))
    assert all(60 < first[c] < 140 for c in NAMES[:4])


def test_of_an_instance_that_lives_twice_only_a_place_that_fits_counts():
    """An instance that moves has two parents for a while: its new place holds, and is not chosen anew."""
    pins = at((0, "c0"), (0, "c5"))
    leaving = (Candidate(NAMES[0], unfit=("x",), gpus=1), *open_at(*NAMES[1:]))
    assert placed(ask((), 1, pins=pins, candidates=leaving)).every == at((0, "c5"))
    assert placed(ask(NAMES, 1, pins=pins)).every == at((0, "c0"))


# -- on each cluster --------------------------------------------------------------------------------------------------


def test_on_each_cluster():
    found = placed(ask(("c1", "c0"), 2, per_cluster=True)).every
    assert found == at((0, "c0"), (0, "c1"), (1, "c0"), (1, "c1"))


def test_on_each_cluster_what_lives_stays_and_the_closed_one_gets_nothing_new():
    candidates = (*open_at("c0", closed=("x",)), *open_at("c1"))
    found = placed(ask((), 2, per_cluster=True, candidates=candidates, pins=at((1, "c0"), (5, "c0"), (0, "c4"))))
    assert found.kept == at((1, "c0"))
    assert found.new == at((0, "c1"), (1, "c1"))


def test_what_may_live_on_a_silent_cluster_does():
    silent = frozenset(NAMES[:1])
    each = ask(NAMES[:2], 2, per_cluster=True, unheard=silent)
    assert keep(each) == at((0, "c0"), (1, "c0"))
    assert keep(ask(NAMES[:1], 2, unheard=silent)) == at((0, "c0"), (1, "c0"))
    assert keep(ask(NAMES[:2], 2, unheard=silent)) == ()


# -- all together -----------------------------------------------------------------------------------------------------


@st.composite
def repositories(draw):
    """Asks of several workloads with pins anywhere, and what clusters have."""
    asks = []
    for position in range(draw(st.integers(1, 5))):
        candidates = tuple(
            Candidate(c, gpus=draw(st.sampled_from([1, 2, 8])), closed=draw(st.sampled_from([(), (), ("x",)])))
            for c in sorted(draw(st.sets(st.sampled_from(NAMES[:4]), min_size=1)))
        )
        pins = draw(st.sets(st.builds(Placement, st.integers(0, 3), st.sampled_from(NAMES[:5])), max_size=4))
        kind = draw(st.sampled_from([WorkloadKind.FUNCTION, WorkloadKind.TASK]))
        asks.append(
            ask(
                (),
                draw(st.integers(0, 5)),
                candidates=candidates,
                pins=pins,
                per_cluster=draw(st.booleans()),
                workload=WorkloadRef(kind, f"w{position}"),
            )
        )
    capacity = draw(st.dictionaries(st.sampled_from([(c, GPU) for c in NAMES[:4]]), st.integers(0, 16)))
    return asks, capacity


def taken(asks, result, which):
    """GPUs by cluster of these placements: kept, new or every."""
    found = Counter()
    for one in asks:
        gpus = {c.cluster: c.gpus for c in one.candidates}
        for placement in getattr(result[one.workload, "s"], which):
            found[placement.cluster, GPU] += gpus[placement.cluster]
    return found


@given(repositories())
def test_nothing_new_is_ever_placed_beyond_capacity(repository):
    asks, capacity = repository
    result = allocate(asks, capacity)
    kept, new = taken(asks, result, "kept"), taken(asks, result, "new")
    for place, most in capacity.items():
        assert not new[place] or kept[place] + new[place] <= most


@given(repositories(), st.randoms())
def test_order_of_inputs_does_not_matter(repository, random):
    asks, capacity = repository
    shuffled = random.sample(asks, len(asks))
    assert allocate(shuffled, dict(reversed(capacity.items()))) == allocate(asks, capacity)


@given(repositories())
def test_what_was_placed_stays_when_it_lives(repository):
    """The next compile, with what this one made as pins, changes nothing; what waited still waits."""
    asks, capacity = repository
    result = allocate(asks, capacity)
    living = [replace(one, pins=one.pins | set(result[one.workload, "s"].every)) for one in asks]
    again = allocate(living, capacity)
    assert {key: p.every for key, p in again.items()} == {key: p.every for key, p in result.items()}
    assert {key: p.short for key, p in again.items()} == {key: p.short for key, p in result.items()}
    assert not any(p.new for p in again.values())


@given(repositories())
def test_without_a_shortage_nobody_is_told_from_others(repository):
    asks, capacity = repository
    alone = {key: value for one in asks for key, value in allocate([one]).items()}
    if all(gpus <= capacity.get(place, gpus) for place, gpus in taken(asks, alone, "every").items()):
        assert allocate(asks, capacity) == alone


@given(repositories())
def test_what_lives_is_kept_whatever_there_is_room_for(repository):
    asks, capacity = repository
    result = allocate(asks, capacity)
    for one in asks:
        assert result[one.workload, "s"].kept == keep(one) == allocate([one])[one.workload, "s"].kept


@given(repositories())
def test_whoever_waits_found_no_room(repository):
    asks, capacity = repository
    result = allocate(asks, capacity)
    used = taken(asks, result, "every")
    for one in asks:
        found = result[one.workload, "s"]
        assert bool(found.short) == bool(found.shortages)
        for shortage in found.shortages:
            assert shortage.free == capacity[shortage.cluster, GPU] - used[shortage.cluster, GPU] < shortage.needed


@given(repositories())
def test_functions_lose_no_place_to_tasks(repository):
    asks, capacity = repository
    functions = [one for one in asks if one.workload.kind is WorkloadKind.FUNCTION]
    held = Counter(taken(asks, allocate(asks, capacity), "kept"))
    held.subtract(taken(functions, allocate(functions, capacity), "kept"))
    without = allocate(functions, capacity, reserved=held)
    result = allocate(asks, capacity)
    assert {key: p.every for key, p in without.items()} == {key: result[key].every for key in without}


def test_turns_are_by_index_first():
    """Every function gets its first instance before any gets a second."""
    asks = [ask(NAMES[:1], 3, name=name) for name in ("a", "b", "c")]
    result = allocate(asks, {(NAMES[0], GPU): 5})
    assert [len(result[function(name), "s"].every) for name in "abc"] == [2, 2, 1]
    assert result[function("c"), "s"].short == 2


def test_the_broken_get_nothing_new_and_keep_what_they_have():
    broken = ask(NAMES[:1], 3, name="a", pins=at((1, "c0")))
    other = ask(NAMES[:1], 3, name="b")
    result = allocate([broken, other], {(NAMES[0], GPU): 3}, only_kept={function("a")})
    assert result[function("a"), "s"] == Placed(kept=at((1, "c0")))
    assert len(result[function("b"), "s"].new) == 2


def test_reserved_gpus_are_taken():
    found = allocate([ask(NAMES[:1], 3)], {(NAMES[0], GPU): 3}, reserved={(NAMES[0], GPU): 2})[function("chat"), "s"]
    assert (len(found.new), found.short, found.shortages[0].free) == (1, 2, 0)


@pytest.mark.parametrize(("capacity", "fits"), [(7, 0), (8, 1), (15, 1), (16, 2)])
def test_gpus_that_just_suffice(capacity, fits):
    found = placed(ask((), 2, candidates=open_at("c0", gpus=8)), {(NAMES[0], GPU): capacity})
    assert len(found.new) == fits
    assert found.short == 2 - fits
