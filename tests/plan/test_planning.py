"""A unit's plan in tables: what is seen on the left, what is to be done on the right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, Commit, GroupVersionKind, ObjectRef, UnitKey, WorkloadKind
from gitops.plan.parents import Member, ParentRecord
from gitops.plan.planning import (
    SHARED,
    Apply,
    Observed,
    Reason,
    course,
    plan_removal,
    plan_unit,
    settled_members,
    unjudgeable,
)
from gitops.plan.units import DesiredObject, Mode, Stage, Unit

KEY = UnitKey(WorkloadKind.BUNDLE, "base", "", ClusterName("a"))
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def ref(name: str) -> ObjectRef:
    return ObjectRef("", "ConfigMap", "ns", name)


def desired(name: str, digest: bytes = b"new", stage: Stage = Stage.CONFIG) -> DesiredObject:
    provenance: Any = None
    return DesiredObject(ref(name), CONFIG_MAP, b"{}", digest, Origin("a.yaml", 1), provenance, stage)


def unit(*objects: DesiredObject, mode: Mode = Mode.ENFORCE) -> Unit:
    return Unit(KEY, "content-2", Commit("c2"), "", objects, mode)


def record(*names: str, content: str = "content-1") -> ParentRecord:
    return ParentRecord(KEY, tuple(Member(ref(n), "v1", f"uid-{n}") for n in names), content, Commit("c1"))


def test_a_new_unit_records_every_name_before_the_first_apply() -> None:
    plan = plan_unit(unit(desired("b"), desired("a")), record=None, observed={})
    assert plan.write_ahead == (Member(ref("a"), "v1"), Member(ref("b"), "v1"))
    assert [(a.object.ref.name, a.reason) for a in plan.applies] == [("b", Reason.CREATE), ("a", Reason.CREATE)]
    assert plan.prune == ()


def names(levels: Iterable[Iterable[Apply]]) -> list[list[str]]:
    return [[s.object.ref.name for s in level] for level in levels]


def test_levels_end_with_the_stage_and_before_a_dependant() -> None:
    first, second = desired("a"), desired("b")
    waits = dataclasses.replace(desired("c"), depends_on=(second.ref,))
    later = desired("d", stage=Stage.WORKLOAD)
    steps = plan_unit(unit(first, second, waits, later), record=None, observed={}).applies
    (lane,) = course(steps).lanes
    assert names(lane) == [["a", "b"], ["c"], ["d"]]


def test_what_a_namespace_needs_goes_first_and_then_each_component_by_itself() -> None:
    places = {"ns": Stage.NAMESPACE, "quota": Stage.BOUNDS, "role": Stage.ACCESS}
    shared = [dataclasses.replace(desired(n, stage=s), component=i) for i, (n, s) in enumerate(places.items())]
    parts = [(0, Stage.CONFIG), (1, Stage.CONFIG), (0, Stage.WORKLOAD), (1, Stage.WORKLOAD)]
    rest = [dataclasses.replace(desired(f"{s.name}-{c}", stage=s), component=c) for c, s in parts]
    way = course(plan_unit(unit(*shared, *rest), record=None, observed={}).applies)
    assert names(way.shared) == [["ns"], ["quota"], ["role"]]
    assert [names(lane) for lane in way.lanes] == [[["CONFIG-0"], ["WORKLOAD-0"]], [["CONFIG-1"], ["WORKLOAD-1"]]]


@given(st.lists(st.tuples(st.sampled_from(Stage), st.integers(0, 3), st.booleans()), max_size=14))
def test_a_course_has_every_apply_once_after_all_that_it_needs(parts: list[tuple[Stage, int, bool]]) -> None:
    """An object may depend on the one of its component that the unit's order has right before it."""
    objects: list[DesiredObject] = []
    last: dict[int, ObjectRef] = {}
    for number, (stage, component, depends) in enumerate(sorted(parts, key=lambda p: p[0])):
        wanted = (last[component],) if depends and component in last else ()
        item = dataclasses.replace(desired(f"o{number}", stage=stage), component=component, depends_on=wanted)
        last[component] = item.ref
        objects.append(item)
    way = course(plan_unit(unit(*objects), record=None, observed={}).applies)
    begun: dict[ObjectRef, tuple[int, int, int]] = {}  # shared or lane, which, level: only equal lanes have an order
    for lane, levels in enumerate((way.shared, *way.lanes)):
        for place, level in enumerate(levels):
            begun |= {s.object.ref: (min(lane, 1), lane, place) for s in level}
    assert sorted(begun) == sorted(o.ref for o in objects)
    assert sum(len(level) for levels in (way.shared, *way.lanes) for level in levels) == len(objects)
    for item in objects:
        shared, lane, place = begun[item.ref]
        assert shared == (item.stage > SHARED)
        for other in objects:
            if other.component == item.component and (other.stage < item.stage or other.ref in item.depends_on):
                before, its_lane, its_place = begun[other.ref]
                assert before < shared or (its_lane == lane and its_place < place)


@pytest.mark.parametrize(
    ("definition", "known"),
    [
        pytest.param(None, False, id="it is new: no server can judge"),
        pytest.param(Observed("u", b"old", b"old"), False, id="it changes: the old one would judge"),
        pytest.param(Observed("u", b"", b"new"), True, id="somebody changed it: it is only repaired"),
        pytest.param(Observed("u", b"new", b"new"), True, id="it is as declared"),
    ],
)
def test_o01_a_resource_is_judged_by_the_definition_of_its_own_commit(definition: Observed | None, known: bool) -> None:
    crd = desired("crd", stage=Stage.DEFINITION)
    resource = dataclasses.replace(desired("r", stage=Stage.CUSTOM), after_ready=(crd.ref,))
    seen = {} if definition is None else {crd.ref: definition}
    steps = plan_unit(unit(crd, resource), record=record("crd"), observed=seen).applies
    assert unjudgeable(steps) == (frozenset() if known else {resource.ref})


def test_what_is_as_declared_is_not_touched() -> None:
    seen = {ref("a"): Observed("uid-a", b"new", b"new")}
    assert plan_unit(unit(desired("a")), record=record("a", content="content-2"), observed=seen).empty


@pytest.mark.parametrize(
    ("seen", "content", "reason", "uid"),
    [
        pytest.param(
            Observed("u", b"", b"new"), "content-2", Reason.DRIFT, "u", id="foreign edit: repaired with its uid"
        ),
        pytest.param(Observed("u", b"", b"new"), "content-1", Reason.DRIFT, "u", id="edit while a sibling is refused"),
        pytest.param(Observed("u", b"old", b"old"), "content-1", Reason.CHANGED, "u", id="Git changed it"),
        pytest.param(Observed("u", b"", b""), "content-1", Reason.UNKNOWN, "u", id="never compared"),
        pytest.param(None, "content-2", Reason.DRIFT, "", id="deleted by somebody"),
        pytest.param(None, "content-1", Reason.CREATE, "", id="new in Git"),
    ],
)
def test_why_an_object_is_applied(seen: Observed | None, content: str, reason: Reason, uid: str) -> None:
    observed = {} if seen is None else {ref("a"): seen}
    plan = plan_unit(unit(desired("a")), record=record("a", content=content), observed=observed)
    assert [(a.reason, a.uid) for a in plan.applies] == [(reason, uid)]
    assert plan.applies[0].preflight == (reason is not Reason.DRIFT or not uid)


def test_an_object_being_deleted_is_left_alone() -> None:
    seen = {ref("a"): Observed("u", b"", b"new", deleting=True)}
    assert plan_unit(unit(desired("a")), record=record("a", content="content-2"), observed=seen).applies == ()


def test_what_left_git_is_a_candidate_for_prune_only_when_the_compile_was_complete() -> None:
    seen = {ref("a"): Observed("uid-a", b"new", b"new")}
    assert plan_unit(unit(desired("a")), record=record("a", "b"), observed=seen).prune == (
        Member(ref("b"), "v1", "uid-b"),
    )
    assert plan_unit(unit(desired("a")), record=record("a", "b"), observed=seen, may_prune=False).prune == ()


def test_removal_of_a_unit_prunes_exactly_its_members() -> None:
    plan = plan_removal(record("a", "b"))
    assert [m.ref.name for m in plan.prune] == ["a", "b"]
    assert plan.applies == ()


@pytest.mark.parametrize(
    ("mode", "seen", "applied"),
    [
        (Mode.REPORT, Observed("u", b"old", b"old"), True),
        (Mode.REPORT, Observed("u", b"", b"new"), False),
        (Mode.PAUSED, Observed("u", b"old", b"old"), False),
        (Mode.PAUSED, Observed("u", b"", b"new"), False),
    ],
)
def test_modes_forbid_steps_but_still_name_them(mode: Mode, seen: Observed, applied: bool) -> None:
    plan = plan_unit(unit(desired("a"), mode=mode), record=record("a", "b"), observed={ref("a"): seen})
    assert (len(plan.applies), len(plan.suppressed)) == ((1, 0) if applied else (0, 1))
    if mode is Mode.PAUSED:
        assert plan.prune == ()
        assert plan.write_ahead is None


def test_settled_members_keep_what_is_not_pruned_and_the_last_known_uid() -> None:
    after = settled_members(
        record("a", "b", "c"), unit(desired("a"), desired("d")), uids={ref("d"): "uid-d"}, pruned={ref("b")}
    )
    assert after == (Member(ref("a"), "v1", "uid-a"), Member(ref("c"), "v1", "uid-c"), Member(ref("d"), "v1", "uid-d"))
