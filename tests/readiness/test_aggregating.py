"""Combination of roots, gates and pods; units, functions, clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitops.model.identity import GroupKind, ObjectRef, UnitKey
from gitops.readiness.aggregating import TABLE_LIMIT, DeclaredStatus, UnitMemory, UnitStatus, unit_status
from gitops.readiness.functions import FunctionState, InstanceView, bundle_status, cluster_status, function_status
from gitops.readiness.mapping import Mappings
from gitops.readiness.owners import OwnerIndex, project
from gitops.readiness.statuses import ChildRecord, Flag, ObjectMemory, ObjectStatus, Outlook, Role, Status

Make = Callable[..., dict[str, Any]]
S = Status
ROLES = {GroupKind("g", "Gate"): Role.GATE, GroupKind("", "Pod"): Role.DIAGNOSE}


def ref(name: str, kind: str = "Root", group: str = "g") -> ObjectRef:
    return ObjectRef(group, kind, "ns", name)


def root(status: Status | None, name: str = "r", *, settled: bool = False, **more: Any) -> DeclaredStatus:
    flags = more.pop("flags", frozenset())
    verdict = None if status is None else ObjectStatus(status, f"Is{status}", flags=flags, settled=settled)
    return DeclaredStatus(ref(name), verdict, uid=f"uid-{name}", **more)


def below(*children: tuple[str, str, Status, str] | tuple[str, str, Status, str, str]) -> OwnerIndex:
    """(kind, name, status, name of the owner[, reason])"""
    index = OwnerIndex()
    for kind, name, status, owner, *reason in children:
        group = "" if kind == "Pod" else "g"
        verdict = ObjectStatus(status, reason[0] if reason else f"Is{status}", settled=True)
        memory = ObjectMemory(f"uid-{name}", 1, 0.0, True)
        gone = status is S.TERMINATING
        outlook = Outlook(((0.0, verdict, memory),))
        index.put(ChildRecord(ref(name, kind, group), f"uid-{name}", (f"uid-{owner}",), gone, outlook))
    return index


def look(*declared: DeclaredStatus, owners: OwnerIndex | None = None, **options: Any) -> UnitStatus:
    options = {"now": 100.0, "roles": ROLES, "ready_hold": 0.0, **options}
    return unit_status(declared, owners=owners or OwnerIndex(), **options)[0]


# -- one root --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "children", "wanted"),
    [
        (root(S.READY), [("Gate", "g", S.READY, "r")], S.READY),
        (root(S.READY), [("Gate", "g", S.DEGRADED, "r")], S.DEGRADED),
        (root(S.READY), [("Gate", "g", S.FAILED, "r")], S.DEGRADED),
        (root(S.READY), [("Gate", "g", S.PROGRESSING, "r")], S.PROGRESSING),
        (root(S.READY), [("Gate", "g", S.TERMINATING, "r")], S.READY),
        (root(S.PROGRESSING), [("Pod", "p", S.FAILED, "r")], S.FAILED),
        (root(S.PROGRESSING), [("Gate", "g", S.FAILED, "r", "ProgressDeadlineExceeded")], S.PROGRESSING),
        (root(S.PROGRESSING, settled=True), [("Gate", "g", S.DEGRADED, "r")], S.DEGRADED),
        (root(S.PROGRESSING, flags=frozenset({Flag.STALE})), [("Pod", "p", S.FAILED, "r")], S.PROGRESSING),
        (root(S.UNKNOWN), [("Gate", "g", S.READY, "r")], S.READY),
        (root(S.UNKNOWN), [], S.UNKNOWN),
        (root(S.COMPLETED), [("Gate", "g", S.FAILED, "r")], S.COMPLETED),
        (root(S.FAILED), [("Gate", "g", S.READY, "r")], S.FAILED),
        (root(None), [], S.MISSING),
        (root(None, applied=False), [], S.PROGRESSING),
        (root(S.READY, refused="schema"), [], S.FAILED),
    ],
)
def test_matrix(declared: DeclaredStatus, children: list[Any], wanted: Status) -> None:
    assert look(declared, owners=below(*children)).status is wanted


def test_n03_ready_graph_with_pods_in_a_crash_loop_shows_the_disagreement(
    make: Make, mappings: Mappings, now: float
) -> None:
    container = {"name": "main", "ready": False, "restartCount": 9, "lastState": {"terminated": {"exitCode": 1}}}
    container["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    pod = make("v1", "Pod", "decode-1", status={"phase": "Running", "containerStatuses": [container]})
    pod["metadata"]["ownerReferences"] = [{"uid": "uid-r"}]
    index = OwnerIndex()
    index.put(project(pod, mappings.for_object(pod), now=now))
    assert look(root(S.READY), owners=index, now=now).status is S.READY, "it may recover"
    later = look(root(S.READY), owners=index, now=now + 600)
    assert later.status is S.DEGRADED
    assert "Pod decode-1 CrashLoop: container main keeps exiting with code 1" in later.cause


def test_a_ready_root_forgives_a_lagging_gate_for_a_while_once_it_was_ready() -> None:
    fine, lagging = below(("Gate", "g", S.READY, "r")), below(("Gate", "g", S.PROGRESSING, "r"))
    _, memory = unit_status([root(S.READY)], owners=fine, now=0.0, roles=ROLES, ready_hold=0.0)
    seen = []
    for now in (10.0, 39.0, 40.0, 100.0):
        status, memory = unit_status([root(S.READY)], owners=lagging, now=now, roles=ROLES, memory=memory)
        seen.append(status.status)
    assert seen == [S.READY, S.READY, S.DEGRADED, S.DEGRADED]
    assert status.ready_count == 0


def test_n04_a_graph_that_says_not_ready_over_children_that_all_are_is_degraded_in_the_end() -> None:
    owners, memory = below(("Gate", "g", S.READY, "r")), UnitMemory.restored(S.READY, 0.0)
    for now, wanted in [(10.0, S.PROGRESSING), (309.0, S.PROGRESSING), (310.0, S.DEGRADED)]:
        status, memory = unit_status([root(S.PROGRESSING)], owners=owners, now=now, roles=ROLES, memory=memory)
        assert status.status is wanted
    assert status.cause == "Root r is Degraded: everything below it is ready"
    assert status.since == 310.0


def test_counts_are_of_the_deepest_gates_and_leave_out_what_is_being_deleted() -> None:
    index = below(
        ("Gate", "dcd-1", S.READY, "r"),
        ("Gate", "deployment-1", S.READY, "dcd-1"),
        ("Gate", "dcd-2", S.PROGRESSING, "r"),
        ("Gate", "deployment-2", S.PROGRESSING, "dcd-2"),
        ("Gate", "old", S.TERMINATING, "r"),
        ("Gate", "old-deployment", S.READY, "old"),
        ("Pod", "p", S.READY, "deployment-1"),
    )
    status = look(root(S.PROGRESSING), root(S.READY, "config", counted=False), owners=index)
    assert (status.ready_count, status.expected_count) == (1, 2)


# -- several objects -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        ([S.READY, S.READY, S.UNKNOWN], S.UNKNOWN),
        ([S.READY, S.FAILED], S.FAILED),
        ([S.UNKNOWN, S.FAILED, S.PROGRESSING], S.FAILED),
        ([S.READY, S.PROGRESSING, S.UNKNOWN], S.PROGRESSING),
        ([S.READY, S.COMPLETED], S.READY),
        ([S.COMPLETED, S.COMPLETED], S.COMPLETED),
        ([], S.READY),
    ],
)
def test_l08_worst_of_with_unknown_below_failed(statuses: list[Status], wanted: Status) -> None:
    status = look(*(root(s, f"r{n}") for n, s in enumerate(statuses)))
    assert status.status is wanted
    assert status.empty is (not statuses)


def test_l02_a_suspended_part_does_not_spoil_the_rest() -> None:
    assert look(root(S.SUSPENDED, "a"), root(S.READY, "b")).status is S.READY
    assert look(root(S.SUSPENDED, "a")).status is S.SUSPENDED


def test_an_optional_object_lowers_to_degraded_at_most() -> None:
    assert look(root(S.READY, "a"), root(S.FAILED, "b", required=False)).status is S.DEGRADED


def test_ready_must_hold_and_anything_else_is_said_at_once() -> None:
    owners, memory, seen = OwnerIndex(), UnitMemory(), []
    for now, verdict in [(0.0, S.READY), (0.3, S.PROGRESSING), (0.4, S.READY), (0.8, S.READY), (0.9, S.READY)]:
        status, memory = unit_status([root(verdict)], owners=owners, now=now, memory=memory)
        seen.append(status.status)
    assert seen == [S.PROGRESSING] * 4 + [S.READY]
    status, memory = unit_status([root(S.FAILED)], owners=owners, now=1.0, memory=memory)
    assert (status.status, status.since) == (S.FAILED, 1.0)


def test_a_restart_keeps_since_and_needs_no_hold() -> None:
    memory = UnitMemory.restored(S.READY, 5.0)
    status, _ = unit_status([root(S.READY)], owners=OwnerIndex(), now=100.0, memory=memory)
    assert (status.status, status.since) == (S.READY, 5.0)


def test_conditions_say_what_is_waited_for() -> None:
    status = look(root(None, "a", applied=False, waiting="waiting for namespace ns"), root(S.READY, "b"))
    found = {c.type: (c.status, c.reason, c.message) for c in status.conditions}
    assert found["InstallSuccessful"] == ("False", "WaitingOnObjects", "Root a")
    assert found["Observed"] == ("True", "SpecObserved", "")
    assert status.phase == "Installing"
    assert status.cause == "Root a is Progressing: waiting for namespace ns"


def test_the_table_is_bounded_with_the_worst_first() -> None:
    declared = [root(S.READY, f"r{n:03}") for n in range(150)] + [root(S.FAILED, "zz")]
    status = look(*declared)
    assert (len(status.objects), status.omitted) == (TABLE_LIMIT, 151 - TABLE_LIMIT)
    assert status.objects[0].ref.name == "zz"


# -- functions and clusters ------------------------------------------------------------------------------------------


def view(status: Status, index: int = 0, *, reachable: bool = True, **more: Any) -> InstanceView:
    cluster = "b" if not reachable else "a"
    key = UnitKey.parse(f"function/f/h100-{index}@{cluster}")
    return InstanceView(key, status, 10.0, reachable=reachable, **more)


@pytest.mark.parametrize(
    ("instances", "active", "wanted"),
    [
        ([], True, "INACTIVE"),
        ([view(S.PROGRESSING)], False, "DEPLOYING"),
        ([view(S.PROGRESSING)], True, "DEGRADED"),
        ([view(S.READY), view(S.READY, 1)], False, "ACTIVE"),
        ([view(S.READY), view(S.FAILED, 1)], False, "DEGRADING"),
        ([view(S.FAILED), view(S.FAILED, 1)], False, "ERROR"),
        ([view(S.FAILED), view(S.PROGRESSING, 1)], False, "DEPLOYING"),
        ([view(S.READY), view(S.READY, 1, reachable=False)], True, "DEGRADING"),
        ([view(S.FAILED), view(S.READY, 1, reachable=False)], False, "DEPLOYING"),
        ([view(S.READY, reachable=False)], True, "DEGRADED"),
        ([view(S.READY, serving=False)], True, "DEGRADED"),
        ([view(S.READY, serving=True)], False, "ACTIVE"),
    ],
)
def test_function_states(instances: list[InstanceView], active: bool, wanted: str) -> None:
    status = function_status(instances, previously_active=active, now=50.0)
    assert status.state == wanted
    assert status.state in set(FunctionState)
    assert status.previously_active is (bool(instances) and (active or status.live > 0))


def test_l08_an_unreachable_cluster_hides_nothing_and_is_never_green() -> None:
    ready, gone = view(S.READY), view(S.READY, 1, reachable=False)
    function = function_status([ready, gone], previously_active=True, now=50.0)
    assert (function.live, function.expected, function.unreachable) == (1, 2, 1)
    assert function.cause == "h100-1@b: cluster b is unreachable"
    bundle = bundle_status([ready, gone], now=50.0)
    assert (bundle.state, bundle.live) == ("Unknown", 1)
    b = cluster_status(gone.key.cluster, reachable=False, now=60.0, units=[gone], previous=("Unreachable", 7.0))
    assert (b.state, b.since, b.units) == ("Unreachable", 7.0, (("Unknown", 1),))
    a = cluster_status(ready.key.cluster, reachable=True, now=60.0, units=[ready], previous=("Reachable", 5.0))
    assert (a.state, a.units) == ("Reachable", (("Ready", 1),))


def test_l08_a_bundle_without_clusters_is_empty() -> None:
    assert bundle_status([], now=1.0).state == "Empty"


def test_since_moves_with_the_state_only() -> None:
    kept = function_status([view(S.READY)], previously_active=True, now=50.0, previous=("ACTIVE", 3.0))
    moved = function_status([view(S.PROGRESSING)], previously_active=True, now=50.0, previous=("ACTIVE", 3.0))
    assert (kept.since, moved.since) == (3.0, 50.0)
