"""Thousands of pods, judged here and by a real API server in namespaces of every level: the same controls are named."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from controlplane_kit import ApiServer
from generated_pods import PodMaker

from gitops.model.identity import GroupVersionKind
from gitops.policy.pods.levels import PREFIX, Applies, Standard
from gitops.policy.pods.places import pod_parts
from gitops.policy.pods.standards import Level, violations

Ask = Callable[[str, object], tuple[int, dict[str, Any], list[str]]]

CONTROLS = [
    "host namespaces",
    "privileged",
    "hostProcess",
    "hostPort",
    "non-default capabilities",
    "unrestricted capabilities",
    "hostPath volumes",
    "restricted volume types",
    "forbidden AppArmor profile",
    "seLinuxOptions",
    "procMount",
    "seccompProfile",
    "forbidden sysctls",
    "probe or lifecycle host",
    "allowPrivilegeEscalation != false",
    "runAsNonRoot != true",
    "runAsUser=0",
]
SERVER = 34  # the control plane's minor version, which is what `latest` means there

STANDARDS = [
    *[(Level.BASELINE, version) for version in (None, 0, 18, 26, 28, 30, 31, 33)],
    *[(Level.RESTRICTED, version) for version in (None, 7, 18, 19, 21, 22, 24, 25, 33)],
]
EACH = 180


@pytest.fixture(scope="module")
def ask(shared_api: ApiServer) -> Iterator[Ask]:
    """Dry-run POSTs over one connection: status, body, warnings."""
    host, port = shared_api.url.removeprefix("https://").split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=shared_api._tls, timeout=30)

    def post(path: str, body: object) -> tuple[int, dict[str, Any], list[str]]:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{path}?dryRun=All", json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []

    yield post
    connection.close()


def labelled(api: ApiServer, name: str, labels: Mapping[str, str]) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": f"{name}-", "labels": dict(labels)}}
    made: dict[str, Any] = api.request("POST", "/api/v1/namespaces", body)
    return str(made["metadata"]["name"])


def named(message: str) -> set[str]:
    """Controls of a refusal; the server writes one of them in the plural."""
    _, _, text = message.partition("violate")
    return {control for control in CONTROLS if f"{control} (" in text or f"{control}s (" in text}


def ours(body: Mapping[str, Any], standard: Standard) -> set[str]:
    kind = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    every = (found for part in pod_parts(body, kind, ()) for found in violations(part))
    return {found.control for found in every if standard.applies(found) is Applies.YES}


def ports_of(template: Mapping[str, Any]) -> list[Any]:
    spec = template["spec"]
    return [p for c in (*spec["containers"], *spec.get("initContainers", ())) for p in c.get("ports", ())]


@pytest.mark.parametrize(("level", "version"), STANDARDS, ids=str)
def test_the_server_refuses_the_same_pods_for_the_same_controls(
    shared_api: ApiServer, ask: Ask, level: Level, version: int | None
) -> None:
    labels = {PREFIX + "enforce": level.value}
    if version is not None:
        labels[PREFIX + "enforce-version"] = f"v1.{version}"
    namespace = labelled(shared_api, "psa", labels)
    standard = Standard(level, version or SERVER, version or SERVER) if version != 0 else Standard(level, 0, 0)
    make = PodMaker(seed=version or 0)
    seen: Counter[int] = Counter()
    while seen[201] + seen[403] < EACH:
        template = make.template()
        body = {"apiVersion": "v1", "kind": "Pod", **template}
        body["metadata"] = {**template["metadata"], "name": "generated"}
        status, answer, _ = ask(f"/api/v1/namespaces/{namespace}/pods", body)
        seen[status] += 1
        if status not in (201, 403):
            assert status == 422, answer  # not a pod at all
            continue
        theirs = named(answer.get("message", "")) if status == 403 else set()
        assert (status == 403) == bool(theirs), answer
        mine = ours(body, standard)
        if template["spec"].get("hostNetwork") and not any(p.get("hostPort") for p in ports_of(template)):
            theirs.discard("hostPort")  # the server's own defaulting of ports with hostNetwork, which is refused anyway
        assert mine == theirs, json.dumps(template)
    assert seen[201] > EACH // 20, seen
    assert seen[403] > EACH // 4, seen


KINDS = [
    ("v1", "ReplicationController", "replicationcontrollers", lambda t: {"spec": {"template": t}}),
    ("v1", "PodTemplate", "podtemplates", lambda t: {"template": t}),
    ("apps/v1", "Deployment", "deployments", lambda t: {"spec": {"selector": SELECTOR, "template": t}}),
    ("apps/v1", "ReplicaSet", "replicasets", lambda t: {"spec": {"selector": SELECTOR, "template": t}}),
    ("apps/v1", "DaemonSet", "daemonsets", lambda t: {"spec": {"selector": SELECTOR, "template": t}}),
    ("apps/v1", "StatefulSet", "statefulsets", lambda t: {"spec": {"selector": SELECTOR, "template": t}}),
    ("batch/v1", "Job", "jobs", lambda t: {"spec": {"template": ended(t)}}),
    ("batch/v1", "CronJob", "cronjobs", lambda t: {"spec": cron(t)}),
]
SELECTOR = {"matchLabels": {"app": "a"}}


def ended(template: dict[str, Any]) -> dict[str, Any]:
    return {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}


def cron(template: dict[str, Any]) -> dict[str, Any]:
    return {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ended(template)}}}


@pytest.mark.parametrize(("version", "kind", "resource", "wrap"), KINDS, ids=[kind[1] for kind in KINDS])
def test_the_server_warns_of_the_same_templates(
    shared_api: ApiServer, ask: Ask, version: str, kind: str, resource: str, wrap: Callable[[Any], dict[str, Any]]
) -> None:
    namespace = labelled(shared_api, "psa-warn", {PREFIX + "warn": "restricted"})
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    make = PodMaker(seed=len(kind))
    seen: Counter[int] = Counter()
    warned = 0
    while seen[201] < 40:
        body = {"apiVersion": version, "kind": kind, **wrap(make.template())}
        body["metadata"] = {"name": "generated"}
        status, answer, warnings = ask(f"{root}/namespaces/{namespace}/{resource}", body)
        seen[status] += 1
        if status != 201:
            assert status == 422, answer
            continue
        theirs = set().union(*(named(text) for text in warnings if "PodSecurity" in text))
        assert ours(body, Standard(Level.RESTRICTED, SERVER, SERVER)) == theirs, json.dumps(body)
        warned += bool(theirs)
    assert warned > 10


@pytest.mark.parametrize("labels", [{"enforce": "basline"}, {"warn": ""}, {"audit-version": "1.30"}, {"enforce": "x"}])
def test_the_server_refuses_the_labels_that_we_refuse(ask: Ask, labels: dict[str, str]) -> None:
    from gitops.policy.pods.levels import bad_labels

    written = {PREFIX + key: value for key, value in labels.items()}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": written}}
    status, answer, _ = ask("/api/v1/namespaces", body)
    assert status == 422, answer
    assert [key for key, _ in bad_labels(written)] == list(written)
    assert all(key in answer["message"] for key in written)
