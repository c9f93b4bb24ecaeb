"""Waiting: a state with a reason, ended by the event that brings what is missing, and in nobody else's way."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.client import ApiFailure
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.definitions import definition
from controlplane_kit.faults import Request, on
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import REPOSITORY, Fleet, StartFleet, config_map, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, outcome_is, repository, unit

from gitops.cluster.error_table import TREATMENTS, Treatment
from gitops.cluster.errors import ErrorClass
from gitops.model.identity import UnitKey
from gitops.model.kinds import NAMESPACE
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.unit_work import UnitWork
from gitops.reconcile.watches import Watch

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

ALLOW_EMPTY = f"{REPOSITORY}spec:\n  allowEmpty: true\n"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def widget(group: str, **properties: Any) -> dict[str, Any]:
    """The definition of a kind whose spec has these properties."""
    spec = {"type": "object", "properties": properties or {"size": {"type": "integer"}}}
    return definition("Widget", group, spec=spec)


def custom(kind: str, group: str, namespace: str, **spec: Any) -> str:
    metadata = {"name": "one", "namespace": namespace}
    return yaml.safe_dump({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec})


def real_writes(requests: list[Request]) -> list[Request]:
    return [r for r in except_parents(requests) if r.is_write and not r.is_dry_run]


def parents(requests: list[Request]) -> list[Request]:
    return [r for r in requests if r.is_write and re.search("/gitops-system/configmaps", r.path)]


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody comes back by himself: whatever goes on, an event began it."""
    monkeypatch.setitem(TREATMENTS, ErrorClass.WAITING, Treatment("", 3600.0, 3600.0))


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[UnitOutcome]:
    """What became of each attempt at any unit."""
    found: list[UnitOutcome] = []
    run = UnitWork.run

    async def spied(work: UnitWork, key: UnitKey) -> UnitOutcome:
        found.append(await run(work, key))
        return found[-1]

    monkeypatch.setattr(UnitWork, "run", spied)
    return found


async def started(fleet: StartFleet, repo: Repository, plane: ControlPlane) -> Fleet:
    """An engine that has nothing to do yet."""
    repo.commit(repository(), "nothing yet")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    running.clear()
    return running


async def test_o01_a_definition_and_its_resource_are_live_after_one_attempt(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, no_backoff: None
) -> None:
    group, namespace = "o01.gitops.example", "t-o01"
    running = await started(fleet, repo, plane)
    manifests = {
        "namespace.yaml": namespace_yaml(namespace),
        "crd.yaml": yaml.safe_dump(widget(group)),
        "widget.yaml": custom("Widget", group, namespace, size=1),
    }
    commit = running.push(bundle_files("new", manifests), "a definition and its resource")
    await running.settled(commit)
    assert plane.get(f"/apis/{group}/v1/namespaces/{namespace}/widgets/one")["spec"] == {"size": 1}
    assert len(parents(running.writes(DGX))) == 2, "named before, settled after: one attempt"
    paths = [r.path for r in real_writes(running.writes(DGX))]
    assert paths[:2] == [f"/api/v1/namespaces/{namespace}", f"{DEFINITIONS}/widgets.{group}"]

    # A field that comes with the resource that uses it: what is served until then would refuse it.
    running.clear()
    manifests |= {
        "crd.yaml": yaml.safe_dump(widget(group, size={"type": "integer"}, color={"type": "string"})),
        "widget.yaml": custom("Widget", group, namespace, size=1, color="red"),
    }
    commit = running.push(bundle_files("new", manifests), "a new field and its use")
    await running.settled(commit)
    assert plane.get(f"/apis/{group}/v1/namespaces/{namespace}/widgets/one")["spec"] == {"size": 1, "color": "red"}
    assert len(parents(running.writes(DGX))) == 1, "one attempt"


async def test_o02_o03_what_is_missing_holds_up_nothing_else_and_its_coming_ends_the_wait(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, no_backoff: None
) -> None:
    group, here, later = "o02.gitops.example", "t-o02", "t-o02-later"
    running = await started(fleet, repo, plane)
    manifests = {
        "namespace.yaml": namespace_yaml(here),
        "settings.yaml": config_map("settings", here, key="1"),
        "widget.yaml": custom("Widget", group, here, size=1),
        "elsewhere.yaml": config_map("elsewhere", later, key="1"),
        "web.yaml": deployment("web", here),
    }
    running.push(bundle_files("app", manifests), "half of what it needs is missing")
    await until(outcome_is(running, "app", SyncState.WAITING), "the unit to wait")
    assert plane.get(f"/api/v1/namespaces/{here}/configmaps/settings")["data"] == {"key": "1"}
    assert plane.get(f"/apis/apps/v1/namespaces/{here}/deployments/web"), "of a later stage than what waits"
    problems = {str(p.object.name): p.message for p in unit(running, "app").outcome.problems}
    assert problems.keys() == {"one", "elsewhere"}
    assert problems["one"].startswith(f"waiting for kind Widget.{group} at v1: ")
    assert problems["elsewhere"].startswith(f"waiting for namespace {later}: ")

    def told() -> bool:
        return later in yaml.safe_dump(running.status(f"status/units/{DGX}/bundle.app.yaml"), width=1000)

    await until(told, "the status file to name what is missing")
    watches = running.engine.workers[DGX]._session._watches._tasks
    assert Watch(NAMESPACE, "", lean=True) in watches

    plane.create_namespace(later)  # by hand
    await until(lambda: plane.get(f"/api/v1/namespaces/{later}/configmaps/elsewhere"), "the namespace's object")
    await until(lambda: Watch(NAMESPACE, "", lean=True) not in watches, "nobody to wait for a namespace any more")
    plane.create_crd_objects([widget(group)])
    await running.settled()
    assert plane.get(f"/apis/{group}/v1/namespaces/{here}/widgets/one")["spec"] == {"size": 1}


async def test_o03_a_namespace_of_another_unit_is_waited_for_and_a_typo_is_told(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, no_backoff: None
) -> None:
    team, typo = "t-o03-team", "t-o03-taem"
    running = await started(fleet, repo, plane)
    running.push(bundle_files("app", {"a.yaml": config_map("a", typo, key="1")}), "nobody has this namespace")
    await until(outcome_is(running, "app", SyncState.WAITING), "the unit to wait")
    assert f"waiting for namespace {typo}" in unit(running, "app").outcome.sentence
    # Another commit replaces what is waited for; the namespace comes with another unit.
    files = bundle_files("app", {"a.yaml": config_map("a", team, key="1")})
    commit = running.push(files | bundle_files("space", {"n.yaml": namespace_yaml(team)}), "spelled right")
    await running.settled(commit)
    assert plane.get(f"/api/v1/namespaces/{team}/configmaps/a")["data"] == {"key": "1"}


async def test_o02_a_commit_without_what_is_waited_for_ends_the_wait(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, no_backoff: None
) -> None:
    namespace = "t-o02-commit"
    running = await started(fleet, repo, plane)
    manifests = {
        "namespace.yaml": namespace_yaml(namespace),
        "widget.yaml": custom("Widget", "never.gitops.example", namespace, size=1),
    }
    running.push(bundle_files("app", manifests), "a kind that nobody serves")
    await until(outcome_is(running, "app", SyncState.WAITING), "the unit to wait")
    commit = running.push({"bundles/app/manifests/widget.yaml": None}, "without it")
    await running.settled(commit)
    assert unit(running, "app").outcome.problems == ()


async def test_o05_a_webhook_that_does_not_answer_holds_up_only_its_kind(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, outcomes: list[UnitOutcome]
) -> None:
    namespace = "t-o05"
    plane.create_namespace(namespace)
    running = await started(fleet, repo, plane)
    message = 'Internal error occurred: failed calling webhook "gate.example": connection refused'
    refused = faults.Answer(500, "InternalError", message)
    rule = running.proxies[DGX].fail(refused, on("PATCH", "/deployments/web"), times=None)
    manifests = {"settings.yaml": config_map("settings", namespace, key="1"), "web.yaml": deployment("web", namespace)}
    outcomes.clear()
    commit = running.push(bundle_files("app", manifests), "while the operator restarts")
    await until(outcome_is(running, "app", SyncState.RETRYING), "the unit to be retried")
    assert plane.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")["data"] == {"key": "1"}
    assert "failed calling webhook" in unit(running, "app").outcome.sentence
    assert "invalid" not in unit(running, "app").outcome.sentence
    running.proxies[DGX].rules.remove(rule)
    await running.settled(commit)
    assert {o.state for o in outcomes} == {SyncState.RETRYING, SyncState.SYNCED}
    pauses = {o.retry_after for o in outcomes if o.retry_after is not None}
    assert all(0.1 < pause <= 60 for pause in pauses), "soon, and with jitter"
    assert [r for r in running.writes(DGX) if r.method == "DELETE"] == []


def webhook_unit(namespace: str) -> dict[str, str]:
    """A fail-closed webhook and the Deployment behind it."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "gate", "namespace": namespace},
        "spec": {"selector": {"app": "gate"}, "ports": [{"port": 443}]},
    }
    hook = {
        "name": "gate.gitops.example",
        "clientConfig": {"service": {"name": "gate", "namespace": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }
    return {
        "namespace.yaml": namespace_yaml(namespace),
        "a-hook.yaml": yaml.safe_dump(configuration),
        "service.yaml": yaml.safe_dump(service),
        "gate.yaml": deployment("gate", namespace, replicas=1),
    }


async def test_o06_a_webhook_comes_when_its_deployment_is_ready_and_goes_first(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, no_backoff: None
) -> None:
    namespace = "t-o06"
    hook = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace}"
    gate = f"/apis/apps/v1/namespaces/{namespace}/deployments/gate"
    running = await started(fleet, repo, plane)
    files = bundle_files("gate", webhook_unit(namespace))
    commit = running.push(files, "a webhook and what answers for it")
    await until(outcome_is(running, "gate", SyncState.WAITING), "the webhook to wait")
    assert plane.get(gate), "what it waits for is there"
    assert plane.get(hook) is None
    assert f"waiting for Deployment.apps {namespace}/gate to be ready" in unit(running, "gate").outcome.sentence
    running.clear()
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    condition = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "ready"}
    status = {"observedGeneration": plane.get(gate)["metadata"]["generation"], "conditions": [condition], **counts}
    plane.request("PATCH", f"{gate}/status", {"status": status}, content_type="application/merge-patch+json")
    await running.settled(commit)
    assert plane.get(hook), "its event begins the next attempt"
    assert [r.path for r in real_writes(running.writes(DGX))] == [hook]

    running.clear()
    consent = "drop it\n\nGitops-Allow-Prune: bundle/gate*"
    running.push({**dict.fromkeys(files), "gitops.yaml": ALLOW_EMPTY}, consent)
    await until(lambda: plane.get(gate) is None, "the Deployment to be deleted")
    deleted = [r.path for r in running.writes(DGX) if r.method == "DELETE"]
    assert deleted[0] == hook
    assert deleted.index(hook) < deleted.index(gate)


def guard(plane: ControlPlane, namespace: str) -> None:
    """A policy for the ConfigMap `guarded` there, whose parameters are another one."""
    base, name = "/apis/admissionregistration.k8s.io/v1", "t-20"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    match = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceRules": [{**rule, "resourceNames": ["guarded"]}],
    }
    parameters = {"name": "parameters", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": match,
        "validations": [{"expression": "params.data.key == '1'"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"], "paramRef": parameters}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        plural = "validatingadmissionpolicies" if spec is policy else "validatingadmissionpolicybindings"
        body = {"apiVersion": base[6:], "kind": kind, "metadata": {"name": name}, "spec": spec}
        plane.request("POST", f"{base}/{plural}", body)


async def test_20_nothing_that_the_same_unit_brings_is_ever_called_refused(
    fleet: StartFleet, repo: Repository, private_api: Any, outcomes: list[UnitOutcome]
) -> None:
    """Each row of what a dry run cannot know, in one new unit on a cluster with its controllers."""
    plane, namespace, group = private_api(controllers=True), "t-20", "o20.gitops.example"
    running = await started(fleet, repo, plane)

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace}
        container = {"name": "c", "image": "example.com/web:1"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}

    def named(api_version: str, kind: str, name: str, **parts: Any) -> dict[str, Any]:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **parts}

    def everywhere(api_version: str, kind: str, name: str, **parts: Any) -> dict[str, Any]:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}

    rbac = "rbac.authorization.k8s.io"
    objects = [
        everywhere("v1", "Namespace", namespace),
        named("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "10", "pods": "10"}}),
        named("v1", "ServiceAccount", "runner"),
        named(f"{rbac}/v1", "Role", "reader", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        named(
            f"{rbac}/v1",
            "RoleBinding",
            "reader",
            roleRef={"apiGroup": rbac, "kind": "Role", "name": "reader"},
            subjects=[{"kind": "ServiceAccount", "name": "runner", "namespace": namespace}],
        ),
        everywhere("scheduling.k8s.io/v1", "PriorityClass", "t-20-urgent", value=1000),
        everywhere("node.k8s.io/v1", "RuntimeClass", "t-20-runtime", handler="runc"),
        widget(group),
        yaml.safe_load(custom("Widget", group, namespace, size=1)),
        pod("with-account", serviceAccountName="runner"),
        pod("with-priority", serviceAccountName="runner", priorityClassName="t-20-urgent"),
        pod("with-runtime", serviceAccountName="runner", runtimeClassName="t-20-runtime"),
    ]
    manifests = {f"{number:02}.yaml": yaml.safe_dump(each) for number, each in enumerate(objects)}
    outcomes.clear()
    commit = running.push(bundle_files("all", manifests), "everything at once")
    await running.settled(commit)
    assert {o.state for o in outcomes} <= {SyncState.SYNCED, SyncState.WAITING}
    assert {p.state for o in outcomes for p in o.problems} <= {SyncState.WAITING}
    assert {p["metadata"]["name"] for p in plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]} == {
        "with-account",
        "with-priority",
        "with-runtime",
    }
    # A dry run of what goes into a namespace that does not exist yet was sent to the standing one.
    dry_runs = [r.path for r in running.calls(DGX) if r.is_dry_run]
    assert "/api/v1/namespaces/gitops-preflight/pods/with-account" in dry_runs

    # The parameters of a policy that is there, in the same commit as what it guards.
    guard(plane, namespace)
    unparametrized = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guarded"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def in_force() -> bool:
        try:
            plane.request("POST", path, unparametrized, query={"dryRun": "All"})
        except ApiFailure as failure:
            return "no params found" in str(failure)
        return False

    await until(in_force, "the policy to be in force")
    outcomes.clear()
    pair = {f"bundles/all/manifests/{n}.yaml": config_map(n, namespace, key="1") for n in ("guarded", "parameters")}
    await running.settled(running.push(pair, "parameters and what they are for"))
    assert {o.state for o in outcomes} <= {SyncState.SYNCED, SyncState.WAITING}

    # Raised in the same commit as what needs more of it.
    outcomes.clear()
    quota = named("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "10", "pods": "3"}})
    commit = running.push({"bundles/all/manifests/01.yaml": yaml.safe_dump(quota)}, "no more pods than there are")
    await running.settled(commit)

    def counted() -> bool:
        return plane.get(f"/api/v1/namespaces/{namespace}/resourcequotas/few")["status"]["hard"]["pods"] == "3"

    await until(counted, "the quota to be in force")
    raised = named("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "10", "pods": "4"}})
    files = {
        "bundles/all/manifests/01.yaml": yaml.safe_dump(raised),
        "bundles/all/manifests/99.yaml": yaml.safe_dump(pod("one-more", serviceAccountName="runner")),
    }
    outcomes.clear()
    await running.settled(running.push(files, "one more"))
    assert {o.state for o in outcomes} <= {SyncState.SYNCED, SyncState.WAITING}
    assert {p.message.partition(":")[0] for o in outcomes for p in o.problems} <= {"waiting for quota few"}
