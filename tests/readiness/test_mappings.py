"""The shipped mappings, kind by kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops.model.identity import GroupVersionKind
from gitops.readiness.evaluating import evaluate, foresee
from gitops.readiness.mapping import MappingError, Mappings
from gitops.readiness.statuses import Flag, ObjectStatus, Status

Make = Callable[..., dict[str, Any]]
Judge = Callable[..., ObjectStatus]


@pytest.fixture
def judge(mappings: Mappings, now: float) -> Judge:
    """The verdict `after` seconds from first sight, with no event in between."""

    def run(obj: dict[str, Any], after: float = 0.0, **context: Any) -> ObjectStatus:
        outlook = foresee(obj, mappings.for_object(obj), now=now, context=context)
        status = outlook.at(now + after)[0]
        assert status.problems == ()
        return status

    return run


def condition(type_: str, status: str = "True", reason: str = "", **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, **more}


# -- Job, CronJob ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="limit")]}, Status.FAILED),
        ({"active": 1}, Status.PROGRESSING),
        ({"conditions": [condition("Complete")]}, Status.COMPLETED),
        ({"conditions": [condition("Complete", "False")], "active": 1}, Status.PROGRESSING),
        ({}, Status.PROGRESSING),
    ],
)
def test_l01_failed_running_and_complete_job(make: Make, judge: Judge, status: dict[str, Any], wanted: Status) -> None:
    assert judge(make("batch/v1", "Job", spec={}, status=status)).status is wanted


def test_l01_job_of_the_wrong_group_is_no_known_kind(mappings: Mappings) -> None:
    assert mappings.known(GroupVersionKind("batch", "v1", "Job"))
    assert not mappings.known(GroupVersionKind("", "v1", "Job"))


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_l02_suspended_by_declaration(make: Make, judge: Judge, kind: str) -> None:
    assert judge(make("batch/v1", kind, spec={"suspend": True}, status={})).status is Status.SUSPENDED


# -- Deployment ------------------------------------------------------------------------------------------------------


def deployment(make: Make, *, available: int, reason: str = "NewReplicaSetAvailable", **spec: Any) -> dict[str, Any]:
    failed = reason == "ProgressDeadlineExceeded"
    return make(
        "apps/v1",
        "Deployment",
        spec={"replicas": 3, **spec},
        status={
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "availableReplicas": available,
            "conditions": [
                condition("Progressing", "False" if failed else "True", reason),
                condition("Available", "True" if available == 3 else "False"),
            ],
        },
    )


def test_l03_pods_lost_after_the_rollout_are_degraded(make: Make, judge: Judge) -> None:
    status = judge(deployment(make, available=1))
    assert (status.status, status.message) == (Status.DEGRADED, "1 of 3 replicas available")


def test_l03_progress_deadline_exceeded_is_failed(make: Make, judge: Judge) -> None:
    assert judge(deployment(make, available=1, reason="ProgressDeadlineExceeded")).status is Status.FAILED


def test_l03_paused_is_not_failed(make: Make, judge: Judge) -> None:
    obj = deployment(make, available=1, reason="ProgressDeadlineExceeded", paused=True)
    assert judge(obj).status is Status.SUSPENDED


def test_deployment_scaled_to_zero_is_ready_with_a_flag(make: Make, judge: Judge) -> None:
    obj = make("apps/v1", "Deployment", spec={"replicas": 0}, status={"observedGeneration": 1})
    status = judge(obj)
    assert (status.status, status.flags) == (Status.READY, {Flag.SCALED_TO_ZERO})


def test_deployment_with_old_pods_left_is_progressing(make: Make, judge: Judge) -> None:
    obj = deployment(make, available=3)
    assert judge(obj).status is Status.READY
    obj["status"]["replicas"] = 4
    assert judge(obj).status is Status.PROGRESSING


# -- no status yet ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api_version", "kind", "deadline"),
    [
        ("nvidia.com/v1beta1", "DynamoGraphDeployment", 3600),
        ("apps.nvidia.com/v1alpha1", "NIMService", 2700),
        ("apps.nvidia.com/v1alpha1", "NIMCache", 6 * 3600),
    ],
)
def test_l04_no_status_is_progressing_then_failed(
    make: Make, judge: Judge, api_version: str, kind: str, deadline: float
) -> None:
    """The operator is scaled to zero: nothing is ever written."""
    obj = make(api_version, kind, spec={"x": 1})
    assert judge(obj).status is Status.PROGRESSING
    assert judge(obj, deadline - 1).status is Status.PROGRESSING
    overdue = judge(obj, deadline + 1)
    assert (overdue.status, overdue.reason) == (Status.FAILED, "ProgressDeadline")


def test_l04_a_default_state_is_not_an_observation(make: Make, judge: Judge) -> None:
    """`initializing` is written by the API server's defaulting, `successful` may be a leftover."""
    for state in ("initializing", "successful"):
        obj = make("nvidia.com/v1beta1", "DynamoGraphDeployment", status={"state": state})
        assert judge(obj).status is Status.PROGRESSING


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("v1", "Service"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ],
)
def test_l04_kinds_without_status_are_ready_at_once(make: Make, judge: Judge, api_version: str, kind: str) -> None:
    assert judge(make(api_version, kind)).status is Status.READY


def test_unknown_kind_without_conditions_is_ready_but_unverified_after_its_settle_time(
    make: Make, judge: Judge
) -> None:
    obj = make("example.com/v1", "Thing", spec={})
    assert judge(obj).status is Status.PROGRESSING
    later = judge(obj, 11)
    assert (later.status, later.flags) == (Status.READY, {Flag.UNVERIFIED})


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ([condition("Ready")], Status.READY),
        ([condition("Ready", "False")], Status.PROGRESSING),
        ([condition("Reconciling"), condition("Ready")], Status.PROGRESSING),
        ([condition("Stalled"), condition("Ready")], Status.FAILED),
        ([condition("Available")], Status.READY),
        ([condition("Succeeded", "Unknown")], Status.PROGRESSING),
    ],
)
def test_unknown_kind_by_its_conditions(
    make: Make, judge: Judge, conditions: list[dict[str, Any]], wanted: Status
) -> None:
    obj = make("example.com/v1", "Thing", status={"observedGeneration": 1, "conditions": conditions})
    assert judge(obj).status is wanted


# -- PVC, Service, CRD -----------------------------------------------------------------------------------------------


def test_l06_claim_that_waits_for_its_first_consumer_holds_nothing_up(make: Make, judge: Judge) -> None:
    claim = make("v1", "PersistentVolumeClaim", status={"phase": "Pending"})
    status = judge(claim, volumeBindingMode="WaitForFirstConsumer")
    assert (status.status, status.flags) == (Status.READY, {Flag.UNVERIFIED})


def test_l06_immediate_claim_is_progressing_then_failed(make: Make, judge: Judge) -> None:
    claim = make("v1", "PersistentVolumeClaim", status={"phase": "Pending"})
    assert judge(claim, volumeBindingMode="Immediate").status is Status.PROGRESSING
    assert judge(claim, 901, volumeBindingMode="Immediate").status is Status.FAILED
    annotated = {"annotations": {"volume.kubernetes.io/storage-provisioner": "csi.example.com"}}
    claim = make("v1", "PersistentVolumeClaim", status={"phase": "Pending"}, metadata=annotated)
    assert judge(claim, 901).status is Status.FAILED, "provisioning has started, so the class does not wait"


def test_l06_claim_of_an_unknown_class_never_fails_by_time(make: Make, judge: Judge) -> None:
    claim = make("v1", "PersistentVolumeClaim", status={"phase": "Pending"})
    assert judge(claim, 1e6).status is Status.PROGRESSING


def test_bound_and_lost_claims(make: Make, judge: Judge) -> None:
    assert judge(make("v1", "PersistentVolumeClaim", status={"phase": "Bound"})).status is Status.READY
    assert judge(make("v1", "PersistentVolumeClaim", status={"phase": "Lost"})).status is Status.FAILED


def test_load_balancer_waits_for_its_address(make: Make, judge: Judge) -> None:
    service = make("v1", "Service", spec={"type": "LoadBalancer"}, status={"loadBalancer": {}})
    assert judge(service).status is Status.PROGRESSING
    service["status"]["loadBalancer"]["ingress"] = [{"ip": "10.0.0.1"}]
    assert judge(service).status is Status.READY


# -- Pod -------------------------------------------------------------------------------------------------------------


def waiting(reason: str, restarts: int = 0, message: str = "") -> dict[str, Any]:
    container = {"name": "main", "ready": False, "restartCount": restarts, "lastState": {}}
    container["state"] = {"waiting": {"reason": reason, "message": message}}
    if restarts:
        container["lastState"] = {"terminated": {"exitCode": 137}}
    return {"phase": "Pending", "containerStatuses": [container], "conditions": [condition("Ready", "False")]}


def test_pod_that_cannot_pull_its_image_fails_only_when_it_lasts(make: Make, judge: Judge) -> None:
    pod = make("v1", "Pod", status=waiting("ImagePullBackOff", message="not found"))
    assert judge(pod).status is Status.PROGRESSING
    failed = judge(pod, 61)
    assert (failed.status, failed.message) == (Status.FAILED, "ImagePullBackOff: not found")


def test_pod_in_a_crash_loop_names_container_and_exit_code(make: Make, judge: Judge) -> None:
    failed = judge(make("v1", "Pod", status=waiting("CrashLoopBackOff", 4)), 61)
    assert (failed.reason, failed.message) == ("CrashLoop", "container main keeps exiting with code 137")


def test_pod_failure_in_an_init_container_is_seen(make: Make, judge: Judge) -> None:
    status = waiting("CreateContainerConfigError", message="secret not found")
    status["initContainerStatuses"] = status.pop("containerStatuses")
    assert judge(make("v1", "Pod", status=status), 61).status is Status.FAILED


def test_unschedulable_pod_gets_ten_minutes_for_a_node(make: Make, judge: Judge) -> None:
    unschedulable = condition("PodScheduled", "False", "Unschedulable", message="0/3 nodes have GPUs")
    pod = make("v1", "Pod", status={"phase": "Pending", "conditions": [unschedulable]})
    assert judge(pod, 599).status is Status.PROGRESSING
    assert judge(pod, 601).message == "0/3 nodes have GPUs"
    assert judge(pod, 601).status is Status.FAILED


# -- NIM and Dynamo --------------------------------------------------------------------------------------------------


def test_n05_conditions_are_read_by_meaning_not_position(make: Make, judge: Judge) -> None:
    cache = make(
        "apps.nvidia.com/v1alpha1",
        "NIMCache",
        status={
            "conditions": [
                condition("NIM_CACHE_PVC_CREATED", reason="PVCCreated"),
                condition("NIM_CACHE_RECONCILE_FAILED", reason="ReconcileFailed", message="cannot parse 0"),
            ]
        },
    )
    status = judge(cache, 20)
    assert (status.status, status.message) == (Status.PROGRESSING, "cannot parse 0")


def nim(make: Make, state: str, *conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"replicas": 1, **spec}
    return make(
        "apps.nvidia.com/v1alpha1", "NIMService", spec=spec, status={"state": state, "conditions": [*conditions]}
    )


def test_n08_nim_scaled_to_zero_is_never_a_false_not_ready(make: Make, judge: Judge) -> None:
    service = nim(make, "NotReady", condition("Ready", "False", "NotReady", message="scaled down"), replicas=0)
    status = judge(service, 11)
    assert status.status is Status.READY
    assert Flag.SCALED_TO_ZERO in status.flags


def test_n08_dynamo_component_with_zero_replicas_is_ready_when_observed(make: Make, judge: Judge) -> None:
    graph = make(
        "nvidia.com/v1beta1",
        "DynamoGraphDeployment",
        spec={"components": [{"name": "decode", "replicas": 0}]},
        status={
            "state": "successful",
            "observedGeneration": 1,
            "conditions": [condition("Ready", reason="all_resources_are_ready", observedGeneration=1)],
        },
    )
    assert judge(graph).status is Status.READY
    graph["metadata"]["generation"] = 2
    assert judge(graph).status is Status.PROGRESSING


def test_n09_nim_waiting_for_its_cache_is_no_failure(make: Make, judge: Judge) -> None:
    failed = condition("Failed", "True", "NIMCacheNotFound", message="NIMCache c not found")
    status = judge(nim(make, "Failed", failed, condition("Ready", "False", "Failed")), 1000)
    assert (status.status, status.reason) == (Status.PROGRESSING, "NIMCacheNotFound")


def test_nim_failed_is_held_two_minutes(make: Make, judge: Judge) -> None:
    failed = condition("Failed", "True", "DeploymentFailed", message="quota exceeded")
    service = nim(make, "Failed", failed, condition("Ready", "False", "Failed"))
    assert judge(service, 20).status is Status.PROGRESSING
    later = judge(service, 140)
    assert (later.status, later.reason, later.message) == (Status.FAILED, "DeploymentFailed", "quota exceeded")


def graph_status(state: str, reason: str, *, observed: int, condition_generation: int) -> dict[str, Any]:
    ready = condition("Ready", "False", reason, message="why", observedGeneration=condition_generation)
    return {"state": state, "observedGeneration": observed, "conditions": [ready]}


def test_dynamo_failure_is_seen_though_observed_generation_stays_behind(make: Make, judge: Judge) -> None:
    graph = make("nvidia.com/v1beta1", "DynamoGraphDeployment", metadata={"generation": 3})
    graph["status"] = graph_status("failed", "ValidationFailed", observed=2, condition_generation=3)
    assert judge(graph).status is Status.FAILED, "at once"
    graph["status"] = graph_status("failed", "some_error", observed=2, condition_generation=3)
    assert judge(graph).status is Status.PROGRESSING, "mostly transient"
    assert judge(graph, 181).status is Status.FAILED, "held"
    graph["status"] = graph_status("failed", "some_error", observed=2, condition_generation=2)
    assert judge(graph, 181).status is Status.PROGRESSING, "about the spec before"


def test_not_ready_for_long_is_degraded_only_where_it_was_ready_before(
    make: Make, mappings: Mappings, judge: Judge, now: float
) -> None:
    """A first rollout may load a model for half an hour, also across a restart of ours."""
    pending = graph_status("pending", "some_resources_are_not_ready", observed=1, condition_generation=1)
    graph = make("nvidia.com/v1beta1", "DynamoGraphDeployment", status=pending)
    assert judge(graph, 1800).status is Status.PROGRESSING
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    was = {**graph, "status": {"state": "successful", "observedGeneration": 1, "conditions": [ready]}}
    _, memory = evaluate(was, mappings.for_object(graph), now=now)
    outlook = foresee(graph, mappings.for_object(graph), now=now + 60, memory=memory)
    assert outlook.at(now + 60)[0].status is Status.PROGRESSING
    late = outlook.at(now + 91)[0]
    assert (late.status, late.reason) == (Status.DEGRADED, "some_resources_are_not_ready")


def test_no_shipped_mapping_stumbles_over_an_object_without_fields(make: Make, mappings: Mappings, now: float) -> None:
    for mapping in mappings:
        for body in ({}, {"status": {}}, {"spec": {}, "status": {"observedGeneration": 1}}):
            outlook = foresee(make("g/v1", "Kind", **body), mapping, now=now)
            assert [s.problems for _, s, _ in outlook.steps if s.problems] == [], mapping.name


def test_dynamo_rolling_update_is_progressing_whatever_the_state(make: Make, judge: Judge) -> None:
    graph = make("nvidia.com/v1beta1", "DynamoGraphDeployment")
    graph["status"] = {
        "state": "successful",
        "observedGeneration": 1,
        "rollingUpdate": {"phase": "InProgress"},
        "conditions": [condition("Ready", observedGeneration=1)],
    }
    assert judge(graph).reason == "RollingUpdate"
    assert judge(graph).status is Status.PROGRESSING


# -- robustness ------------------------------------------------------------------------------------------------------

ODD: list[Any] = [None, 0, "text", [], {}, [None], {"conditions": "x"}, {"conditions": [1, None, {"type": 3}]}, True]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("nvidia.com/v1beta1", "DynamoGraphDeployment"),
        ("apps.nvidia.com/v1alpha1", "NIMService"),
        ("apps/v1", "Deployment"),
        ("v1", "Pod"),
        ("v1", "PersistentVolumeClaim"),
        ("grove.io/v1alpha1", "PodCliqueSet"),
        ("example.com/v1", "Thing"),
    ],
)
def test_odd_objects_are_never_ready_by_accident_and_never_raise(
    make: Make, mappings: Mappings, now: float, api_version: str, kind: str, odd: Any
) -> None:
    obj = make(api_version, kind, spec=odd, status=odd)
    status, memory = evaluate(obj, mappings.for_object(obj), now=now)
    assert status.status not in (Status.READY, Status.COMPLETED)
    assert evaluate(obj, mappings.for_object(obj), now=now, memory=memory)[0].status is status.status


def test_terminating_wins_over_everything(make: Make, judge: Judge) -> None:
    obj = deployment(make, available=3)
    obj["metadata"] |= {"deletionTimestamp": "2026-11-30T11:59:00Z", "finalizers": ["a/b"]}
    status = judge(obj)
    assert (status.status, status.message) == (Status.TERMINATING, "waiting for a/b")


@pytest.mark.parametrize(
    "text",
    ["a: [\n", "kind: StatusMapping\nkind: StatusMapping\n", "kind: StatusMapping\n"],
    ids=["no YAML", "a key twice", "fields missing"],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    (tmp_path / "README.md").write_text("not read")
    with pytest.raises(MappingError, match=r"^odd\.yaml"):
        Mappings.read(tmp_path)
