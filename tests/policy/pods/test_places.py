"""Where pods are written: Kubernetes' own kinds, and every place that the shipped operator types name."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import pytest
import yaml

from gitops.manifests.lines import Path, dotted
from gitops.model.identity import GroupVersionKind
from gitops.model.pod_templates import PodTemplate
from gitops.policy.pods.levels import Applies, Standard
from gitops.policy.pods.places import PodPart, pod_parts
from gitops.policy.pods.standards import Level, violations
from gitops.policy.registry import OperatorRegistry
from gitops.policy.validation import refusals

SHIPPED = OperatorRegistry.shipped()
PRIVILEGED = {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}
TEMPLATE = {"spec": PRIVILEGED}


def parts_of(body: dict[str, Any]) -> list[PodPart]:
    kind = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    return list(pod_parts(body, kind, SHIPPED.pod_templates(kind)))


def broken(body: dict[str, Any], level: Level = Level.BASELINE) -> list[str]:
    standard = Standard(level)
    found = [(part, v) for part in parts_of(body) for v in violations(part) if standard.applies(v) is Applies.YES]
    return sorted(dotted(v.path) for part, v in found if part.complete or not v.missing)


def nested(path: str, value: Any) -> dict[str, Any]:
    """A map with a value at a path; `*` is a list of one, `@` a map of one."""
    for name in reversed(path.strip("/").split("/")):
        value = [value] if name == "*" else {"worker" if name == "@" else name: value}
    result: dict[str, Any] = value
    return result


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Pod", ""),
        ("v1", "PodTemplate", "/template"),
        ("v1", "ReplicationController", "/spec/template"),
        ("apps/v1", "DaemonSet", "/spec/template"),
        ("apps/v1", "Deployment", "/spec/template"),
        ("apps/v1", "ReplicaSet", "/spec/template"),
        ("apps/v1", "StatefulSet", "/spec/template"),
        ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
        ("batch/v1", "Job", "/spec/template"),
    ],
)
def test_kubernetes_own_kinds(version: str, kind: str, path: str) -> None:
    body = {"apiVersion": version, "kind": kind, **(nested(path, TEMPLATE) if path else TEMPLATE)}
    at = path.strip("/").replace("/", ".")
    assert broken(body) == [f"{at}.spec.containers[0].securityContext.privileged".lstrip(".")]
    assert [part.complete for part in parts_of(body)] == [True]


DGD, DCP = "DynamoGraphDeployment", "DynamoCheckpoint"
BETA, ALPHA = "nvidia.com/v1beta1", "nvidia.com/v1alpha1"
NIM = "apps.nvidia.com/v1alpha1"
FIRST = "spec.containers[0].securityContext.privileged"
CONTAINER = {"securityContext": {"privileged": True}}
PLACES = [
    (BETA, DGD, "/spec/components/*/podTemplate", TEMPLATE, f"spec.components[0].podTemplate.{FIRST}"),
    (
        BETA,
        DGD,
        "/spec/components/*/experimental/checkpoint/job/podTemplate",
        TEMPLATE,
        f"spec.components[0].experimental.checkpoint.job.podTemplate.{FIRST}",
    ),
    (
        BETA,
        DGD,
        "/spec/components/*/experimental/gpuMemoryService/extraClientPods/*/podTemplate",
        TEMPLATE,
        f"spec.components[0].experimental.gpuMemoryService.extraClientPods[0].podTemplate.{FIRST}",
    ),
    (ALPHA, DGD, "/spec/services/@/extraPodSpec", {"hostIPC": True}, "spec.services.worker.extraPodSpec.hostIPC"),
    (
        ALPHA,
        DGD,
        "/spec/services/@/extraPodSpec",
        {"mainContainer": CONTAINER},
        "spec.services.worker.extraPodSpec.mainContainer.securityContext.privileged",
    ),
    (
        ALPHA,
        DGD,
        "/spec/services/@/extraPodMetadata/annotations",
        {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
        "spec.services.worker.extraPodMetadata.annotations.container.apparmor.security.beta.kubernetes.io/main",
    ),
    (
        ALPHA,
        DGD,
        "/spec/services/@/checkpoint/job/podTemplate",
        TEMPLATE,
        f"spec.services.worker.checkpoint.job.podTemplate.{FIRST}",
    ),
    (ALPHA, DCP, "/spec/job/podTemplateSpec", TEMPLATE, f"spec.job.podTemplateSpec.{FIRST}"),
    (
        "grove.io/v1alpha1",
        "PodCliqueSet",
        "/spec/template/cliques/*/spec/podSpec",
        PRIVILEGED,
        "spec.template.cliques[0].spec.podSpec.containers[0].securityContext.privileged",
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "/spec/leaderWorkerTemplate/leaderTemplate",
        TEMPLATE,
        f"spec.leaderWorkerTemplate.leaderTemplate.{FIRST}",
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "/spec/leaderWorkerTemplate/workerTemplate",
        TEMPLATE,
        f"spec.leaderWorkerTemplate.workerTemplate.{FIRST}",
    ),
    (NIM, "NIMService", "/spec/initContainers/*", CONTAINER, "spec.initContainers[0].securityContext.privileged"),
    (NIM, "NIMService", "/spec/sidecarContainers/*", CONTAINER, "spec.sidecarContainers[0].securityContext.privileged"),
    (NIM, "NIMService", "/spec/storage/hostPath", "/models", "spec.storage.hostPath"),
    (NIM, "NIMService", "/spec/expose/router/eppConfig/containerSpec", CONTAINER, None),
    (NIM, "NIMPipeline", "/spec/services/*/spec/storage/hostPath", "/models", "spec.services[0].spec.storage.hostPath"),
    (
        NIM,
        "NIMPipeline",
        "/spec/services/*/spec/sidecarContainers/*",
        CONTAINER,
        "spec.services[0].spec.sidecarContainers[0].securityContext.privileged",
    ),
    (NIM, "NIMCache", "/spec/storage/hostPath", "/models", "spec.storage.hostPath"),
    (NIM, "NIMCache", "/spec/initContainers/*", CONTAINER, "spec.initContainers[0].securityContext.privileged"),
]


@pytest.mark.parametrize(("version", "kind", "path", "value", "at"), PLACES)
def test_places_of_operators(version: str, kind: str, path: str, value: Any, at: str | None) -> None:
    body = {"apiVersion": version, "kind": kind, **nested(path, value)}
    expected = at or f"{path.strip('/').replace('/', '.')}.securityContext.privileged"
    assert broken(body) == [expected]


USERS = [
    ("NIMService", "/spec/userID"),
    ("NIMCache", "/spec/userID"),
    ("NIMPipeline", "/spec/services/*/spec/userID"),
    ("NemoCustomizer", "/spec/userID"),
    ("NemoCustomizer", "/spec/modelDownloadJobs/securityContext/runAsUser"),
    ("NemoDatastore", "/spec/userID"),
    ("NemoEntitystore", "/spec/userID"),
    ("NemoEvaluator", "/spec/userID"),
    ("NemoGuardrail", "/spec/userID"),
]


@pytest.mark.parametrize(("kind", "path"), USERS)
def test_root_by_number(kind: str, path: str) -> None:
    def at(user: int) -> dict[str, Any]:
        return {"apiVersion": NIM, "kind": kind, **nested(path, user)}

    expected = path.strip("/").replace("/*", "[0]").replace("/", ".")
    assert broken(at(0), Level.RESTRICTED) == [expected]
    assert broken(at(1000), Level.RESTRICTED) == broken(at(0), Level.BASELINE) == []


def test_exact_versions_only() -> None:
    body = {"apiVersion": BETA, "kind": DGD, **nested("/spec/services/@/extraPodSpec", {"hostIPC": True})}
    assert parts_of(body) == []


def test_what_is_not_written_is_not_decided_for_an_operator() -> None:
    graph = {
        "apiVersion": BETA,
        "kind": DGD,
        **nested("/spec/components/*/podTemplate", {"spec": {"containers": [{}]}}),
    }
    assert broken(graph, Level.RESTRICTED) == []
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{}]}}
    assert len(broken(pod, Level.RESTRICTED)) == 4


def test_a_type_may_say_that_its_operator_adds_nothing() -> None:
    words = {
        "group": "a",
        "kind": "A",
        "versions": ["v1"],
        "path": "/spec/jobs/*/spec",
        "form": "spec",
        "complete": True,
    }
    template = PodTemplate.model_validate(words)
    (part,) = pod_parts(nested("/spec/jobs/*/spec", {"containers": [{}]}), GroupVersionKind("a", "v1", "A"), [template])
    assert part.complete


@pytest.mark.parametrize("form", ["template", "spec", "metadata", "containers", "container", "hostPath", "userID"])
@pytest.mark.parametrize("value", [5, None, [], {}, [None], "x", {"spec": 5, "metadata": [], "annotations": 3}])
def test_parts_of_another_shape_are_passed_over(form: str, value: Any) -> None:
    words = {"group": "a", "kind": "A", "versions": ["v1"], "path": "/spec/it", "form": form, "containerField": "main"}
    parts = pod_parts({"spec": {"it": value}}, GroupVersionKind("a", "v1", "A"), [PodTemplate.model_validate(words)])
    for part in parts:
        assert all(isinstance(v.path, tuple) for v in violations(part))


def test_a_user_namespace_counts_for_the_container_beside_the_spec() -> None:
    spec = {"hostUsers": False, "mainContainer": {"securityContext": {"runAsUser": 0}}}
    body = {"apiVersion": ALPHA, "kind": DGD, **nested("/spec/services/@/extraPodSpec", spec)}
    (found,) = (v for part in parts_of(body) for v in violations(part) if v.control == "runAsUser=0")
    assert (found.since, found.until) == (23, 35)


# -- upstream's own samples --------------------------------------------------------------------------------------------


def samples(shared: File) -> list[tuple[str, dict[str, Any]]]:
    files = [*(shared / "upstream/dynamo/manifests").glob("*.yaml"), *(shared / "upstream/nim/samples").glob("*.yaml")]
    found = []
    for file in sorted(files):
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        found += [(file.name, d) for d in documents if isinstance(d, dict) and "kind" in d]
    return found


def test_samples_write_pods_and_one_of_them_needs_the_node(shared: File) -> None:
    """Which is why the policy Default asks nothing of an operator's pods that they do not write."""
    refused: dict[str, list[Path]] = {}
    pods = 0
    for name, body in samples(shared):
        kind = GroupVersionKind.parse(body["apiVersion"], body["kind"])
        parts = [(part, tuple(violations(part))) for part in parts_of(body)]
        pods += len(parts)
        for path, _, _ in refusals(body, kind, parts, SHIPPED.service_types(kind.group_kind)):
            refused.setdefault(name, []).append(path)
    assert pods > 40
    assert refused == {
        "examples__backends__trtllm__deploy__snapshot-restore.yaml": [
            ("spec", "components", 1, "podTemplate", "spec", "volumes", 2, "hostPath")
        ]
    }
