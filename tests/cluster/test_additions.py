"""What of managedFields is an addition by hand: corner cases; what kubectl leaves there: test_additions_live.py."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.additions import MOST_ADDITIONS, Additions, additions, additions_digest
from gitops.model.identity import GroupKind
from gitops.policy.ownership import Ownership

OURS = "gitops-main"
TABLE = Ownership.shipped()
DECLARED: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
LEAF: dict[str, Any] = {}


def entry(manager: str, tree: dict[str, Any], **more: Any) -> dict[str, Any]:
    common = {"operation": "Apply" if manager == OURS else "Update", "apiVersion": "v1", "time": "2026-03-01T12:00:00Z"}
    return {"manager": manager, **common, "fieldsV1": tree, **more}


def live(*others: dict[str, Any], ours: dict[str, Any] | None = None) -> dict[str, Any]:
    mine = entry(OURS, {"f:data": {"f:a": LEAF}}) if ours is None else ours
    return {**DECLARED, "metadata": {"managedFields": [mine, *others]}}


def found(obj: dict[str, Any], declared: dict[str, Any] = DECLARED) -> Additions:
    kind = GroupKind("", str(declared["kind"]))
    return additions(obj, OURS, declared=declared, kind=kind, table=TABLE)


ADDED = {"f:data": {".": LEAF, "f:b": LEAF}}


@pytest.mark.parametrize(
    "other",
    [
        entry(OURS, ADDED, operation="Update"),  # what admission added to our own write
        entry("kube-controller-manager", ADDED),
        entry("ancient-changes", ADDED),
        entry("kubectl-edit", ADDED, subresource="scale"),
        entry("kubectl-edit", {"f:data": {"f:a": LEAF}}),  # ours too
        entry("kubectl-edit", {"f:metadata": {"f:finalizers": {'v:"x/y"': LEAF}}}),
        entry("", ADDED, fieldsV1=None),
    ],
    ids=lambda other: f"{other['manager']} {other['operation']}",
)
def test_d07_what_is_no_addition_by_hand(other: dict[str, Any]) -> None:
    assert found(live(other)) == Additions()


def test_another_version_cannot_be_read() -> None:
    assert found(live(entry("kubectl-edit", ADDED, apiVersion="v2"))) == Additions()
    assert found(live(entry("kubectl-edit", ADDED), ours=entry(OURS, {}, apiVersion="v2"))) == Additions()
    assert found({**DECLARED, "metadata": {"managedFields": [entry("kubectl-edit", ADDED)]}}) == Additions()


def test_what_was_taken_from_us_is_drift_and_what_is_beside_it_is_added() -> None:
    taken = entry("kubectl-edit", {"f:data": {"f:a": LEAF, "f:b": LEAF}})
    assert [row.path for row in found(live(taken, ours=entry(OURS, {"f:metadata": LEAF}))).rows] == ["data.b"]


def test_what_a_rule_gives_to_whoever_writes_it_is_no_addition() -> None:
    declared = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [], "type": "ClusterIP"}}
    rollout = entry("rollouts", {"f:spec": {"f:selector": {"f:hash": LEAF}}})
    ours = entry(OURS, {"f:spec": {"f:type": LEAF}})
    obj = {**declared, "metadata": {"managedFields": [ours, rollout]}}
    assert [row.path for row in found(obj, declared).rows] == ["spec.selector"]
    rollout["manager"] = "rollouts-controller"
    assert found(obj, declared) == Additions()


def test_additions_are_bounded_and_counted() -> None:
    many = {"f:data": {f"f:k{number:03}": LEAF for number in range(MOST_ADDITIONS + 9)}}
    told = found(live(entry("kubectl-edit", many)))
    assert (len(told.rows), told.rows[0].path, told.more) == (MOST_ADDITIONS, "data.k000", 9)


def test_the_digest_moves_with_what_is_added_and_not_with_time_or_status() -> None:
    def digest(*others: dict[str, Any], ours: bytes = b"x") -> bytes:
        return additions_digest(live(*others), OURS, ours, table=TABLE)

    status = entry("kube-controller-manager", {"f:status": LEAF}, subresource="status")
    edit = entry("kubectl-edit", ADDED)
    assert digest() == digest(status) == b""
    assert digest(edit) == digest(edit, status) == digest({**edit, "time": "2027-01-01T00:00:00Z"}) != b""
    assert len({digest(edit), digest(edit, ours=b"y"), digest(entry("k9s", ADDED))}) == 3
