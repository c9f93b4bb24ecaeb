"""Nothing is deleted without proof, and mass deletion needs consent (cases.md R)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.identity import ClusterName, GroupKind, ObjectRef, UnitKey, WorkloadKind
from gitops.plan.data_held import data_held
from gitops.plan.parents import Member, applyset_id, parent_name
from gitops.plan.pruning import Consent, FuseLimits, Verdict, blown_fuses, decide_prune
from gitops.policy.registry import OperatorRegistry

UNIT = UnitKey(WorkloadKind.FUNCTION, "llama-chat", "h100-0", ClusterName("dgx-a"))
REF = ObjectRef("", "ConfigMap", "ns", "a")
MEMBER = Member(REF, "v1", "uid-a")


def live(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "a",
        "uid": "uid-a",
        "resourceVersion": "7",
        "labels": {"gitops/reconciler": "demo", "applyset.kubernetes.io/part-of": "set"},
        "managedFields": [{"manager": "gitops-demo", "operation": "Apply", "fieldsV1": {}}],
    }
    return {"metadata": {**metadata, **changes}}


def decide(
    member: Member = MEMBER,
    obj: dict[str, Any] | None = None,
    declared: set[ObjectRef] | None = None,
    holds: str = "",
    **more: Any,
) -> Any:
    names: Any = {"applyset": "set", "reconciler": "demo", "manager": "gitops-demo"}
    return decide_prune(member, obj, **names, declared=declared or set(), holds=holds, **more)


def test_proven_delete_carries_uid_and_version() -> None:
    decision = decide(obj=live())
    assert (decision.verdict, decision.uid, decision.resource_version) == (Verdict.DELETE, "uid-a", "7")


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param(live(uid="other"), "taken the name", id="another object with that name"),
        pytest.param(live(labels={}), "our labels", id="relabelled"),
        pytest.param(
            live(labels={"gitops/reconciler": "demo", "applyset.kubernetes.io/part-of": "x"}),
            "our labels",
            id="other set",
        ),
        pytest.param(
            live(labels={"gitops/reconciler": "other", "applyset.kubernetes.io/part-of": "set"}),
            "our labels",
            id="another reconciler's",
        ),
        pytest.param(live(managedFields=[]), "field manager", id="r10 label copied by an operator"),
        pytest.param(live(ownerReferences=[{"controller": True}]), "controller", id="owned by a controller"),
    ],
)
def test_r10_without_proof_it_stays_and_is_forgotten(obj: dict[str, Any], why: str) -> None:
    decision = decide(obj=obj)
    assert decision.verdict is Verdict.KEEP
    assert decision.forget
    assert why in decision.reason


def test_r06_an_object_that_another_unit_declares_is_a_member_until_that_one_has_taken_it_over() -> None:
    """Forgotten before, it would belong to nobody when Git drops it from the other unit before its apply."""
    assert decide(obj=live(), declared={REF}).verdict is Verdict.GOING
    taken = live(labels={"gitops/reconciler": "demo", "applyset.kubernetes.io/part-of": "other"})
    decision = decide(obj=taken, declared={REF})
    assert (decision.verdict, decision.forget) == (Verdict.KEEP, True)
    assert decide(obj=None, declared={REF}).verdict is Verdict.GONE


def test_what_was_just_applied_under_another_group_is_renamed_and_not_deleted() -> None:
    """An Ingress of extensions and of networking.k8s.io is one object: deleting the old name deletes the new one."""
    decision = decide(MEMBER, live(), applied_uids={"uid-a"})
    assert (decision.verdict, decision.forget) == (Verdict.KEEP, True)
    assert decide(MEMBER, live(), applied_uids={"uid-b"}).verdict is Verdict.DELETE


def test_r04_a_member_recorded_before_a_crash_has_no_uid_and_is_proven_by_label_and_manager() -> None:
    assert decide(Member(REF, "v1"), live()).verdict is Verdict.DELETE


def test_what_is_gone_or_going_needs_no_delete() -> None:
    assert decide(obj=None).verdict is Verdict.GONE
    going = decide(obj=live(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"]))
    assert (going.verdict, going.reason) == (Verdict.GOING, "being deleted, held by finalizer x/y")


def test_r12_objects_that_hold_data_need_consent_on_the_object() -> None:
    kept = decide(obj=live(), holds="what is on its volume")
    assert (kept.verdict, kept.forget) == (Verdict.KEEP, False)
    assert "with it would go what is on its volume" in kept.reason
    assert decide(obj=live(annotations={"gitops/allow-delete": "true"}), holds="all").verdict is Verdict.DELETE


def entry(manager: str, *keys: str) -> dict[str, Any]:
    fields = {"f:data": {f"f:{key}": {} for key in keys}}
    return {"manager": manager, "operation": "Apply", "fieldsV1": fields}


@pytest.mark.parametrize(
    ("kind", "obj", "words"),
    [
        ("PersistentVolumeClaim", {}, "on its volume"),
        ("CustomResourceDefinition.apiextensions.k8s.io", {}, "every object"),
        ("NIMCache.apps.nvidia.com", {}, "model"),
        ("DynamoCheckpoint.nvidia.com", {}, "checkpoint"),
        ("NIMService.apps.nvidia.com", {}, ""),
        ("StatefulSet.apps", {}, ""),
        ("StatefulSet.apps", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}}, ""),
        ("StatefulSet.apps", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}}, "claims"),
        ("ConfigMap", {"data": {"a": "1"}}, ""),
        ("Secret", {}, ""),
        ("Secret", {"data": {"a": "MQ=="}}, "something else"),
        ("Secret", {"data": {"a": "MQ=="}, "metadata": {"managedFields": [entry("gitops-demo", "a")]}}, ""),
        ("Secret", {"data": {"a": "MQ=="}, "metadata": {"managedFields": [entry("vault", "a")]}}, "something else"),
        ("Secret", {"data": {"token": "MQ=="}, "type": "kubernetes.io/service-account-token"}, ""),
    ],
)
def test_r12_what_would_be_lost_with_an_object(kind: str, obj: dict[str, Any], words: str) -> None:
    """A Secret counts when something else wrote into it: what Git, or a copy, brought comes back."""
    name, _, group = kind.partition(".")
    found = data_held(GroupKind(group, name), obj, registry=OperatorRegistry.shipped(), manager="gitops-demo")
    assert (words in found) if words else found == ""


def members(count: int) -> list[Member]:
    return [Member(ObjectRef("", "ConfigMap", "ns", f"m{i}"), "v1", f"u{i}") for i in range(count)]


def fuse(count: int, size: int, *, declared: bool = True, globs: tuple[str, ...] = ()) -> dict[UnitKey, str]:
    return blown_fuses(
        {UNIT: members(count)},
        sizes={UNIT: size},
        declared={UNIT} if declared else set(),
        consent=Consent(globs),
        limits=FuseLimits(),
    )


def test_r11_a_commit_that_drops_most_of_a_unit_is_stopped() -> None:
    assert "34 of the unit's 40 objects" in fuse(34, 40)[UNIT]
    assert fuse(3, 40) == {}


@pytest.mark.parametrize(
    ("count", "size", "stopped"),
    [(20, 40, False), (21, 40, True), (3, 4, True), (2, 4, False), (3, 3, False), (50, 500, False), (51, 500, True)],
)
def test_r11_the_fuse_blows_above_its_limits_and_not_at_them(count: int, size: int, stopped: bool) -> None:
    assert bool(fuse(count, size)) is stopped


def test_a_unit_that_left_git_is_meant_to_go_but_not_a_hundred_objects_at_once() -> None:
    assert fuse(10, 10, declared=False) == {}
    assert "51 objects" in fuse(51, 51, declared=False)[UNIT]


@pytest.mark.parametrize("glob", ["function/llama-*@dgx-a", "function/llama-chat/h100-0", "*"])
def test_a_trailer_that_names_the_unit_allows_it(glob: str) -> None:
    assert fuse(34, 40, globs=(glob,)) == {}


def test_a_trailer_for_another_unit_does_not() -> None:
    assert fuse(34, 40, globs=("function/other*",)) != {}


NAMES = st.text("abcXYZ-_09", min_size=1, max_size=128).map(lambda s: "a" + s)


@given(NAMES, NAMES)
def test_r14_parent_names_are_valid_and_distinct(one: str, other: str) -> None:
    keys = [UnitKey(WorkloadKind.FUNCTION, n, "h100-0", ClusterName("a")) for n in (one, other)]
    names = [parent_name(k) for k in keys]
    assert all(len(n) <= 63 and n == n.lower() and n[0].isalnum() for n in names)
    assert (names[0] == names[1]) == (one == other)


def test_applyset_id_is_the_one_of_kep_3659() -> None:
    assert len(applyset_id("unit-one")) == 55
    assert applyset_id("unit-one").startswith("applyset-")


def test_a_line_of_the_namespace_template_that_goes_is_one_deletion_however_many_instances_lose_it() -> None:
    def of(kind: str, group: str, unit_kind: WorkloadKind, *, declared: bool) -> dict[UnitKey, str]:
        units = [UnitKey(unit_kind, f"f{i}", "h100-0", ClusterName("dgx-a")) for i in range(60)]
        prunes = {u: [Member(ObjectRef(group, kind, f"fn-{u.name}", "deny"), "v1", u.name)] for u in units}
        sizes = dict.fromkeys(units, 10)
        return blown_fuses(
            prunes, sizes=sizes, declared=set(units) if declared else set(), consent=Consent(), limits=FuseLimits()
        )

    function = WorkloadKind.FUNCTION
    assert of("NetworkPolicy", "networking.k8s.io", function, declared=True) == {}
    assert len(of("ConfigMap", "", function, declared=True)) == 60
    assert len(of("NetworkPolicy", "networking.k8s.io", function, declared=False)) == 60
    assert len(of("NetworkPolicy", "networking.k8s.io", WorkloadKind.BUNDLE, declared=True)) == 60
