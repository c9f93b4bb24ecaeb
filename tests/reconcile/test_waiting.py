"""What an error says is waited for, and whom an event wakes."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.identity import ObjectRef
from gitops.model.kinds import NAMESPACE, SERVICE_ACCOUNT
from gitops.reconcile.waiting import PRIORITY_CLASS, QUOTA, ROLES, RUNTIME_CLASS, Need, Till, Waiting, need_of

RBAC = "rbac.authorization.k8s.io"
SPACE = Need(ObjectRef("", "Namespace", "", "shop"), Till.THERE, NAMESPACE)


@pytest.mark.parametrize(
    ("waits_for", "need"),
    [
        ("namespace team", Need(ObjectRef("", "Namespace", "", "team"), Till.THERE, NAMESPACE)),
        (
            "end of the deletion of namespace team",
            Need(ObjectRef("", "Namespace", "", "team"), Till.GONE, NAMESPACE),
        ),
        ("end of the namespace's deletion", Need(ObjectRef("", "Namespace", "", "shop"), Till.GONE, NAMESPACE)),
        ("service account team/x", Need(ObjectRef("", "ServiceAccount", "team", "x"), Till.THERE, SERVICE_ACCOUNT)),
        (
            "priority class x",
            Need(ObjectRef("scheduling.k8s.io", "PriorityClass", "", "x"), Till.THERE, PRIORITY_CLASS),
        ),
        ("runtime class x", Need(ObjectRef("node.k8s.io", "RuntimeClass", "", "x"), Till.THERE, RUNTIME_CLASS)),
        ("quota x", Need(ObjectRef("", "ResourceQuota", "shop", "x"), Till.CHANGED, QUOTA)),
        ("secret team/x", Need(ObjectRef("", "Secret", "team", "x"), Till.THERE)),
        ("role x", Need(ObjectRef(RBAC, "Role", "shop", "x"), Till.THERE, ROLES["Role"])),
        ("kind Widget.example.org at v1", None),
        ("parameters of an admission policy", None),
        ("", None),
    ],
)
def test_what_an_error_waits_for(kit: Any, waits_for: str, need: Need | None) -> None:
    desired = kit.desired("a", roleRef={"kind": "Role", "name": "x"})
    assert need_of(ApiError(ErrorClass.WAITING, waits_for=waits_for), desired) == need
    assert need_of(ApiError(ErrorClass.RETRY, waits_for=waits_for), desired) is None


def test_a_cluster_role_has_no_namespace_and_an_object_that_goes_is_its_own_need(kit: Any) -> None:
    binding = kit.desired("a", roleRef={"kind": "ClusterRole", "name": "x"})
    role = Need(ObjectRef(RBAC, "ClusterRole", "", "x"), Till.THERE, ROLES["ClusterRole"])
    assert need_of(ApiError(ErrorClass.WAITING, waits_for="role x"), binding) == role
    going = ApiError(ErrorClass.WAITING, reason="Deleting", waits_for=f"end of the deletion of {binding.ref}")
    assert need_of(going, binding) == Need(binding.ref, Till.GONE)


@pytest.mark.parametrize(
    ("till", "wakes"),
    [
        (Till.THERE, {"there"}),
        (Till.GONE, {"gone", "listed"}),
        (Till.CHANGED, {"there", "gone"}),
        (Till.READY, set()),  # no event tells it: the gate is asked
    ],
)
def test_whom_an_event_wakes(kit: Any, till: Till, wakes: set[str]) -> None:
    waiting, ref, others = Waiting(), ObjectRef("", "Namespace", "", "shop"), ObjectRef("", "Namespace", "", "else")
    waiting.note(kit.key, [Need(ref, till, NAMESPACE)])
    waiting.note(kit.other_key(), [Need(others, till, NAMESPACE)])
    events = {
        "there": waiting.seen(ref, there=True),
        "gone": waiting.seen(ref, there=False),
        "listed": [k for k in waiting.listed(NAMESPACE) if k == kit.key],
    }
    assert {event for event, keys in events.items() if keys == [kit.key]} == wakes
    assert all(keys in ([], [kit.key]) for keys in events.values())


def test_what_is_watched_is_watched_only_while_somebody_waits(kit: Any) -> None:
    waiting = Waiting()
    assert not waiting
    waiting.note(kit.key, [SPACE])
    waiting.note(kit.other_key(), [SPACE])
    waiting.note(kit.key, [Need(kit.ref("a"), Till.READY)])
    assert (waiting.watched(), waiting.seen(SPACE.ref, there=True)) == ({NAMESPACE}, [kit.other_key()])
    waiting.note(kit.other_key(), [])
    assert (waiting.watched(), waiting.seen(SPACE.ref, there=True)) == (frozenset(), [])
    assert waiting.of(kit.key) == {Need(kit.ref("a"), Till.READY)}
    waiting.note(kit.key, [])
    assert not waiting
