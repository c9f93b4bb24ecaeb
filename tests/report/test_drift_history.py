"""What is kept of drifts: laws over any sequence of sights and repairs, and what a restart makes of it."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.cluster.additions import Addition, Additions
from gitops.cluster.values import ABSENT, MASK_OTHER
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.report.drift import DriftKind, DriftRecord, Repair
from gitops.report.drift_files import MOST_OPEN, UnitDrift, read_drift, render_drift
from gitops.report.drift_history import HISTORY, HISTORY_KEPT, about_object, added, became, bounded, noted, recalled
from gitops.report.drift_readme import groups, render_drift_readme

UNIT = UnitKey.parse("bundle/app@dgx-a")
WEB, SETTINGS = ObjectRef("apps", "Deployment", "shop", "web"), ObjectRef("", "ConfigMap", "shop", "settings")
START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def record(path: str = "data.a", **more: object) -> DriftRecord:
    values = {
        "unit": UNIT,
        "object": WEB,
        "kind": DriftKind.CHANGED,
        "path": path,
        "field": (),
        "declared": "1",
        "declared_at": Origin("bundles/app/manifests/web.yaml", 7),
        "live": "2",
        "manager": "kubectl-edit",
        "operation": "Update",
        "subresource": "",
        "time": "2026-03-01T12:00:00Z",
        "detected_at": START,
    }
    return DriftRecord(**{**values, **more})  # type: ignore[arg-type]


def later(minutes: float) -> datetime.datetime:
    return START + datetime.timedelta(minutes=minutes)


# -- one object, sight by sight --------------------------------------------------------------------------------------


def test_what_is_not_among_the_differences_any_more_is_over() -> None:
    kept, _ = noted([], WEB, [record("a"), record("b")], at=START)
    kept, new = noted(kept, WEB, [record("b")], at=later(1))
    assert new == []
    assert {r.path: (r.repaired, r.ended_at) for r in kept} == {
        "a": (Repair.REVERTED, later(1)),
        "b": (Repair.PENDING, None),
    }
    other = record("c", object=SETTINGS)
    kept, new = noted(kept, SETTINGS, [other], at=later(2))
    assert [r.path for r in kept if r.is_open] == ["b", "c"]


def test_another_writer_at_the_same_path_replaces_the_drift_and_is_told_beside_it() -> None:
    kept, _ = noted([], WEB, [record(manager="a")], at=START)
    kept, new = noted(kept, WEB, [record(manager="b", live="3")], at=later(1))
    assert [(r.manager, r.repaired) for r in kept] == [("a", Repair.REPLACED), ("b", Repair.PENDING)]
    assert [r.manager for r in new] == ["b"]


def test_a_declared_value_that_moves_meanwhile_makes_no_new_drift() -> None:
    kept, _ = noted([], WEB, [record()], at=START)
    kept, new = noted(kept, WEB, [record(declared="5", declared_at=Origin("f", 9))], at=later(1))
    assert new == []
    assert (kept[0].declared, str(kept[0].declared_at), kept[0].count) == ("5", "f:9", 1)


def test_a_hidden_value_that_was_written_again_counts_again() -> None:
    hidden = {"live": MASK_OTHER, "masked": True}
    kept, _ = noted([], WEB, [record(**hidden)], at=START)
    assert noted(kept, WEB, [record(**hidden)], at=later(1))[1] == []
    _, (again,) = noted(kept, WEB, [record(**hidden, time="2026-03-01T12:05:00Z")], at=later(2))
    assert again.count == 2


def test_an_object_that_went_takes_its_differences_along() -> None:
    kept, _ = noted([], WEB, [record("a")], at=START)
    kept, _ = about_object(kept, record("", kind=DriftKind.DELETED), at=later(1))
    assert [(r.kind, r.repaired) for r in kept] == [
        (DriftKind.CHANGED, Repair.REPLACED),
        (DriftKind.DELETED, Repair.PENDING),
    ]
    made_anew = record("", kind=DriftKind.RECREATED)
    kept, _ = about_object(kept, made_anew, at=later(2))
    kept, _ = noted(kept, WEB, [record("b")], at=later(3))
    assert [r.kind for r in kept if r.is_open] == [DriftKind.RECREATED, DriftKind.CHANGED]
    kept, _ = noted(kept, WEB, [], at=later(4))
    assert not [r for r in kept if r.is_open]


MANAGERS = st.sampled_from(["a", "b", ""])
SIGHT = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.tuples(MANAGERS, st.sampled_from(["1", "2"])))
STEP = st.one_of(SIGHT, st.sampled_from([Repair.REPAIRED, Repair.REPORTED, Repair.CONTESTED, Repair.FAILED]))


@given(st.lists(STEP, max_size=30))
def test_d06_open_is_exactly_what_was_seen_last_and_each_drift_is_one_record(steps: list[object]) -> None:
    kept: list[DriftRecord] = []
    expected: set[str] = set()
    counted = 0
    for minute, step in enumerate(steps):
        if isinstance(step, Repair):
            kept = became(kept, WEB, lambda _, repair=step: repair, at=later(minute))
            expected = expected if step.is_open else set()
        else:
            assert isinstance(step, dict)
            seen = [record(p, manager=m, live=v, detected_at=later(minute)) for p, (m, v) in step.items()]
            kept, new = noted(kept, WEB, seen, at=later(minute))
            expected, counted = set(step), counted + len(new)
    assert {r.path for r in kept if r.is_open} == expected
    assert len({r.key for r in kept}) == len(kept)
    assert sum(r.count for r in kept) == counted
    assert all((r.ended_at is None) == r.is_open for r in kept)
    assert all(r.since <= r.detected_at for r in kept)


def test_what_is_over_is_bounded_by_number_and_age_and_the_rest_counted() -> None:
    over = [
        record(str(number), detected_at=later(number), repaired=Repair.REPAIRED, ended_at=later(number))
        for number in range(HISTORY_KEPT + 9)
    ]
    opened = record("open", detected_at=START - 2 * HISTORY)
    kept, left_out = bounded([opened, *over], 0, at=later(100))
    assert (len(kept), kept[0].path, kept[-1].path, left_out) == (HISTORY_KEPT + 1, "open", str(HISTORY_KEPT + 8), 9)
    again, left_out = bounded(kept, left_out, at=later(100))
    assert (again, left_out) == (kept, 9)
    kept, left_out = bounded(kept, left_out, at=later(9) + HISTORY)
    assert (len(kept), left_out) == (HISTORY_KEPT, 0), "who is left out is older than who is kept"


# -- files, and a restart --------------------------------------------------------------------------------------------

RECORDS = st.builds(
    lambda path, kind, live, manager, repaired, count, ref, minute: record(
        path,
        kind=kind,
        live=live,
        manager=manager,
        repaired=repaired,
        count=count,
        object=ref,
        detected_at=later(minute),
        first_at=START if count > 1 else None,
        ended_at=None if repaired.is_open else later(minute),
    ),
    path=st.text("abc.[]=\n'\"#: é", max_size=12),
    kind=st.sampled_from(DriftKind),
    live=st.one_of(
        st.just(ABSENT),
        st.none(),
        st.booleans(),
        st.integers(-9, 9),
        st.sampled_from(["", "no", "1e3", "x: y", "- a", "…", "0o17"]),
        st.lists(st.text("ab", max_size=2), max_size=2),
    ),
    manager=st.sampled_from(["", "kubectl-edit", "Mozilla", "a: b", "'\n- x"]),
    repaired=st.sampled_from(Repair),
    count=st.integers(1, 1000),
    ref=st.sampled_from([WEB, SETTINGS, ObjectRef("rbac.authorization.k8s.io", "ClusterRole", "", "system:x:y")]),
    minute=st.integers(0, 10_000),
)


@given(st.lists(RECORDS, max_size=8, unique_by=lambda r: r.key), st.integers(0, 3))
def test_a_file_is_read_as_it_was_written(records: list[DriftRecord], left_out: int) -> None:
    ordered = sorted(records, key=lambda r: (r.detected_at, r.is_open))
    added_by_hand = {WEB: Additions((Addition("data.x", "k9s", "Update", "2026-03-01T12:00:00Z"),), 2)}
    drift = UnitDrift(UNIT, tuple(ordered), left_out, added_by_hand)
    read = read_drift(render_drift(drift))
    assert read is not None
    assert sorted(read.records, key=repr) == sorted(ordered, key=repr)
    assert (read.left_out, read.added) == (left_out, added_by_hand)
    assert render_drift(drift) == render_drift(drift)


HOSTILE = [
    b"",
    b"\xff\xfe",
    b"a: &a [1]\nb: *a",
    b"[" * 5000,
    b"apiVersion: gitops/v1alpha1\nkind: DriftReport\nunit: nonsense\n",
    b"apiVersion: gitops/v1alpha1\nkind: UnitStatus\nunit: bundle/app@dgx-a\n",
]


@pytest.mark.parametrize("data", HOSTILE)
def test_what_is_no_file_of_ours_says_nothing(data: bytes) -> None:
    assert read_drift(data) is None


@pytest.mark.parametrize(
    "row",
    [
        "3",
        "{}",
        "{object: [], kind: changed}",
        "{object: 'ConfigMap a/b', kind: stolen, detectedAt: '2026-03-01T12:00:00Z', outcome: repaired}",
        "{object: 'ConfigMap a/b', kind: changed, detectedAt: yesterday, outcome: repaired}",
        "{object: 'ConfigMap a/b', kind: changed, detectedAt: '2026-03-01T12:00:00', outcome: repaired}",
    ],
)
def test_a_record_that_others_broke_is_left_out_and_the_rest_read(row: str) -> None:
    text = render_drift(UnitDrift(UNIT, (record(),))).decode().replace("open:\n", f"open:\n- {row}\n")
    read = read_drift(text.encode())
    assert read is not None
    assert read.records == (record(),)


def test_what_is_left_out_of_a_file_is_counted() -> None:
    many = tuple(record(str(number), detected_at=later(number)) for number in range(MOST_OPEN + 5))
    read = read_drift(render_drift(UnitDrift(UNIT, many)))
    assert read is not None
    assert (len(read.records), read.open_count, read.records[-1].path) == (MOST_OPEN, MOST_OPEN + 5, str(MOST_OPEN + 4))


def settled_never(_: ObjectRef) -> bool:
    return False


def test_open_drift_that_is_found_again_after_a_restart_is_the_same_one() -> None:
    before = record(repaired=Repair.REPORTED, count=3, first_at=START - HISTORY)
    now = record(detected_at=later(30), time="2026-03-01T12:09:00Z")
    (kept,) = recalled([before], [now], settled=settled_never, at=later(31))
    assert (kept.count, kept.since, kept.detected_at, kept.repaired) == (3, START - HISTORY, START, Repair.PENDING)


@pytest.mark.parametrize(
    ("now", "count"),
    [({"live": "3"}, 2), ({"repaired": Repair.REPAIRED}, 1), ({"live": "3", "count": 4}, 5)],
)
def test_drift_that_came_again_while_nobody_wrote_is_counted(now: dict[str, object], count: int) -> None:
    (kept,) = recalled([record()], [record(detected_at=later(30), **now)], settled=settled_never, at=later(31))
    assert (kept.count, kept.since) == (count, START)


def test_what_ended_while_nobody_looked_is_over() -> None:
    before = [record("a"), record("b", object=SETTINGS), record("c", manager="x")]
    now = [record("c", detected_at=later(5))]
    kept = recalled(before, now, settled=lambda ref: ref == SETTINGS, at=later(9))
    assert [(r.path, r.repaired) for r in kept] == [
        ("a", Repair.PENDING),
        ("b", Repair.REVERTED),
        ("c", Repair.REPLACED),
        ("c", Repair.PENDING),
    ]


@given(st.lists(RECORDS, max_size=6, unique_by=lambda r: r.key))
def test_recalling_what_is_known_changes_nothing(records: list[DriftRecord]) -> None:
    ordered = sorted(records, key=lambda r: r.detected_at)
    assert recalled(ordered, ordered, settled=settled_never, at=later(20_000)) == ordered


# -- the table -------------------------------------------------------------------------------------------------------


def test_the_table_groups_by_cluster_and_manager_and_is_inert() -> None:
    other = UnitKey.parse("bundle/app@dgx-b")
    drifts = [
        UnitDrift(UNIT, (record("a", count=3, repaired=Repair.REPAIRED), record("b", manager="<img src=x> @all|"))),
        UnitDrift(other, (record("a", unit=other, still_ours=True, manager=""),)),
    ]
    rows = [(g.cluster, g.manager, g.open, g.times) for g in groups(drifts)]
    assert rows == [
        ("dgx-a", "<img src=x> @all|", 1, 1),
        ("dgx-b", "(admission, or under our name)", 1, 1),
        ("dgx-a", "kubectl-edit", 0, 3),
    ]
    _, content = render_drift_readme(drifts)
    assert content is not None
    text = content.decode()
    assert text.startswith("# Drift\n\n2 open.")
    assert "<img" not in text
    assert "@all" not in text
    assert "(dgx-b/bundle.app.yaml) | 1 | 0 | 0 |" in text
    assert render_drift_readme(list(reversed(drifts)))[1] == content
    assert render_drift_readme([])[1] is None


def test_added_records_of_one_key_are_one() -> None:
    kept, _ = added([], [record(), record("b")])
    kept, new = added(kept, [replace(record(), detected_at=later(1))])
    assert [(r.path, r.count) for r in kept] == [("b", 1), ("data.a", 2)]
    assert list(itertools.chain(new)) == [kept[-1]]
