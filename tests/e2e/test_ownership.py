"""Fields that are others': autoscalers, planners, injectors. What is shown of a value is shown of all its history.

The API server's own watch tells afterwards every state that an object ever had: a value that moved for a moment only
would be seen there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.client import APPLY, MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, forget, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, deployment, except_parents, outcome_is, repository, settings, unit

from gitops.cluster.objects import JSON_PATCH
from gitops.reconcile.outcomes import SyncState
from gitops.report.drift import DriftKind

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

MANIFESTS = "bundles/app/manifests"


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes("full", controllers=True)
    forget(made)
    return made


def autoscaler(namespace: str, least: int) -> str:
    """One that scales up at once: a target below its minimum needs no metrics."""
    return yaml.safe_dump(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": least,
                "maxReplicas": 9,
            },
        }
    )


def history(plane: ControlPlane, path: str, since: str) -> list[dict[str, Any]]:
    """Every state of one object after a resourceVersion, oldest first."""
    folder, _, name = path.rpartition("/")
    query = f"watch=1&resourceVersion={since}&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}"
    lines = plane.kubectl("get", "--raw", f"{folder}?{query}").splitlines()
    return [json.loads(line)["object"] for line in lines]


def values(states: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """The values that something had, one after the other."""
    found: list[Any] = []
    for state in states:
        value = read(state)
        if not found or found[-1] != value:
            found.append(value)
    return found


def replicas(state: dict[str, Any]) -> Any:
    return state["spec"].get("replicas")


def owners(state: dict[str, Any], *path: str) -> set[str]:
    """Managers that own a field."""
    return {e["manager"] for e in state["metadata"]["managedFields"] if _has(e["fieldsV1"], path)}


def _has(tree: dict[str, Any], path: tuple[str, ...]) -> bool:
    return not path or (path[0] in tree and _has(tree[path[0]], path[1:]))


async def stopped(running: Fleet) -> None:
    running.stop.set()
    await running.task


async def test_d01_27_28_replicas_are_an_autoscalers_from_its_first_day_to_its_last(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    path = "/apis/apps/v1/namespaces/scaled/deployments/web"
    manifests = {"namespace.yaml": namespace_yaml("scaled"), "web.yaml": deployment("web", "scaled", replicas=2)}
    repo.commit({**repository(), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()

    # An autoscaler comes that wants what is there: it takes nothing, and yet the number is its from now on.
    running.push({f"{MANIFESTS}/hpa.yaml": autoscaler("scaled", least=2)}, "scale it")
    await running.settled()
    await until(lambda: not owners(plane.get(path), "f:spec", "f:replicas"), "replicas to be let go")
    await running.settled()
    assert plane.get(path)["metadata"]["generation"] == 1

    # Git says another number: it is the first number of a Deployment that is made anew, and nothing else.
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", "scaled", replicas=3)}, "three")
    await running.settled()
    running.push({f"{MANIFESTS}/hpa.yaml": autoscaler("scaled", least=5)}, "at least five")
    await until(lambda: replicas(plane.get(path)) == 5, "the autoscaler to scale")
    await running.settled()
    assert owners(plane.get(path), "f:spec", "f:replicas") == set(), "scaling what nobody owns leaves no trace"

    # Another change of the Deployment, and a new daemon: the number stays.
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", "scaled", replicas=3, MODE="fast")}, "a variable")
    await running.settled()
    assert plane.get(path)["metadata"]["generation"] == 3
    told = running.status(f"status/units/{DGX}/bundle.app.yaml")
    assert told["leftToOthers"] == [
        "Deployment.apps scaled/web spec.replicas: handed over to HorizontalPodAutoscaler.autoscaling scaled/web"
    ]
    assert unit(running, "app").drifts == []
    await stopped(running)
    running = await fleet(repo, {DGX: plane}, name="two")
    running.clear()
    await running.settled()
    assert except_parents(running.writes(DGX)) == []

    # Made anew, it is made whole, and handed over again.
    before = plane.get(path)["metadata"]["uid"]
    plane.kubectl("delete", "deployment", "web", "-n", "scaled")
    await until(lambda: (plane.get(path) or {"metadata": {"uid": before}})["metadata"]["uid"] != before, "a new one")
    await until(lambda: replicas(plane.get(path)) == 5, "the autoscaler to scale it")
    await running.settled()

    # It goes: Git's number holds again.
    running.push({f"{MANIFESTS}/hpa.yaml": None}, "no autoscaler")
    await until(lambda: replicas(plane.get(path)) == 3, "the number of Git")
    await running.settled()
    assert owners(plane.get(path), "f:spec", "f:replicas") == {"gitops-demo"}
    assert [drift.kind for drift in unit(running, "app").drifts] == [DriftKind.DELETED]
    assert values(history(plane, path, since), replicas) == [2, 5, 3, 5, 3]


@pytest.mark.parametrize("made_by", ["git", "kubectl, scaled", "kubectl, not scaled"])
async def test_an_autoscaler_that_is_not_in_git_is_one_too(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, made_by: str
) -> None:
    """Also one of an object that people made with kubectl, which is taken over without moving what is not ours."""
    name = f"foreign-{len(made_by)}"
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    path = f"/apis/apps/v1/namespaces/{name}/deployments/web"
    scaler = autoscaler(name, least=4)
    if made_by != "git":
        plane.create_namespace(name)
        number = 4 if made_by == "kubectl, not scaled" else 2
        plane.kubectl("apply", "-f", "-", stdin=deployment("web", name, replicas=number))
        plane.kubectl("apply", "-f", "-", stdin=scaler)
        await until(lambda: replicas(plane.get(path)) == 4, "the autoscaler to scale")
    manifests = {"namespace.yaml": namespace_yaml(name), "web.yaml": deployment("web", name, replicas=2)}
    repo.commit({**repository(), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    plane.kubectl("apply", "-f", "-", stdin=scaler)
    await until(lambda: replicas(plane.get(path)) == 4, "the autoscaler to scale")
    await until(outcome_is(running, "app", SyncState.SYNCED), "the unit to be settled")
    running.push({f"{MANIFESTS}/web.yaml": deployment("web", name, replicas=2, MODE="fast")}, "a variable")
    await running.settled()
    assert (replicas(plane.get(path)), unit(running, "app").drifts) == (4, [])
    plane.kubectl("delete", "hpa", "web", "-n", name)
    await until(lambda: replicas(plane.get(path)) == 2, "the number of Git")
    await running.settled()
    assert values(history(plane, path, since), replicas) == ([4, 2] if "not" in made_by else [2, 4, 2])

    # People who scale are no autoscaler.
    plane.kubectl("scale", "deployment/web", "-n", name, "--replicas=7")
    await until(lambda: replicas(plane.get(path)) == 2, "the number of Git again")
    (drift,) = unit(running, "app").drifts
    assert (drift.path, drift.live, drift.manager, drift.subresource) == ("spec.replicas", 7, "kubectl", "scale")


# -- the planner of a graph ------------------------------------------------------------------------------------------

GRAPHS = "/apis/nvidia.com/v1beta1/namespaces/{}/dynamographdeployments/llama"

GUARD = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "replicas"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["nvidia.com"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["dynamographdeployments"],
                }
            ]
        },
        "validations": [
            {
                "expression": (
                    "request.userInfo.username == 'planner' || oldObject.spec.components.all(o, "
                    "object.spec.components.all(n, n.name != o.name || "
                    "!(has(o.scalingAdapter) || has(n.scalingAdapter)) || "
                    "(has(n.replicas) ? n.replicas : 1) == (has(o.replicas) ? o.replicas : 1)))"
                ),
                "message": "replicas cannot be modified directly when scalingAdapter is set",
            }
        ],
    },
}
"""What the operator's webhook refuses (DGD webhook, validateReplicasChanges), as the API server itself can say it."""

BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "replicas"},
    "spec": {"policyName": "replicas", "validationActions": ["Deny"]},
}


def component(name: str, kind: str, replicas: int, *, scaled: bool, mode: str = "a") -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/runtime:1.5.0", "env": [{"name": "MODE", "value": mode}]}
    adapter = {"scalingAdapter": {}} if scaled else {}
    return {
        "name": name,
        "type": kind,
        "replicas": replicas,
        "podTemplate": {"spec": {"containers": [container]}},
        **adapter,
    }


def graph(namespace: str, *components: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": namespace},
            "spec": {"backendFramework": "vllm", "components": list(components)},
        },
        sort_keys=False,
    )


def of(state: dict[str, Any], name: str) -> Any:
    return next(c.get("replicas") for c in state["spec"]["components"] if c["name"] == name)


def plan(plane: ControlPlane, namespace: str, name: str, number: int) -> None:
    """What the planner does through the scaling adapter."""
    live = plane.get(GRAPHS.format(namespace))
    position = [c["name"] for c in live["spec"]["components"]].index(name)
    patch = [{"op": "replace", "path": f"/spec/components/{position}/replicas", "value": number}]
    arguments = ("patch", "dynamographdeployments.v1beta1.nvidia.com/llama", "-n", namespace, "--type=json")
    user = ("--as=planner", "--as-group=system:masters", "--field-manager=manager")
    plane.kubectl(*arguments, *user, "-p", json.dumps(patch))


@pytest.fixture
def graphs(planes: Callable[..., ControlPlane], shared: Path) -> ControlPlane:
    made = planes("graphs")
    if made.get("/apis/nvidia.com/v1beta1") is None:
        made.create_crds(shared / "upstream/dynamo/crds/nvidia.com_dynamographdeployments.yaml")
        made.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": [GUARD, BINDING]})
        )
    forget(made)
    return made


@pytest.mark.upstream
async def test_n01_27_28_29_replicas_under_a_scaling_adapter_are_the_planners(
    fleet: StartFleet, repo: Repository, graphs: ControlPlane
) -> None:
    path, file = GRAPHS.format("planned"), f"{MANIFESTS}/graph.yaml"
    since = graphs.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    front = component("frontend", "frontend", 1, scaled=False)
    manifests = {
        "namespace.yaml": namespace_yaml("planned"),
        "graph.yaml": graph("planned", component("decode", "decode", 2, scaled=True), front),
    }
    repo.commit({**repository("graphs"), **bundle_files("app", manifests)}, "app")

    # A daemon that dies between the apply and the letting go: the next one goes on from what is there.
    running = await fleet(repo, {"graphs": graphs}, name="first")
    letting_go = running.proxies["graphs"].fail(faults.Answer(503), is_json_patch, times=None)
    await until(lambda: letting_go.used, "the graph to be made")
    decode = ("f:spec", "f:components", 'k:{"name":"decode"}', "f:replicas")
    assert owners(graphs.get(path), *decode) == {"gitops-demo"}
    await stopped(running)
    running = await fleet(repo, {"graphs": graphs}, name="second")
    await running.settled()
    state = graphs.get(path)
    assert (of(state, "decode"), owners(state, *decode), state["metadata"]["generation"]) == (2, set(), 1)
    assert owners(state, "f:spec", "f:components", 'k:{"name":"frontend"}', "f:replicas") == {"gitops-demo"}

    # The planner scales, Git changes the order and a variable, somebody edits what is ours.
    plan(graphs, "planned", "decode", 5)
    running.push({file: graph("planned", front, component("decode", "decode", 3, scaled=True, mode="b"))}, "b")
    await running.settled()
    assert of(graphs.get(path), "decode") == 5
    plan(graphs, "planned", "frontend", 4)
    await until(lambda: of(graphs.get(path), "frontend") == 1, "the repair")
    await until(outcome_is(running, "app", SyncState.SYNCED, cluster_name="graphs"), "the unit to be settled")
    (drift,) = unit(running, "app", "graphs").drifts
    assert drift.path == "spec.components[name=frontend].replicas"

    # The adapter goes; only then is the number ours, and not in one write with it, which the operator would refuse.
    running.push(
        {file: graph("planned", front, component("decode", "decode", 3, scaled=False, mode="b"))}, "no adapter"
    )
    await until(lambda: of(graphs.get(path), "decode") == 3, "the number of Git")
    await running.settled()
    assert owners(graphs.get(path), *decode) == {"gitops-demo"}

    # And comes again.
    running.push({file: graph("planned", front, component("decode", "decode", 4, scaled=True, mode="b"))}, "adapter")
    await running.settled()
    await until(lambda: owners(graphs.get(path), *decode) == set(), "replicas to be let go")
    assert of(graphs.get(path), "decode") == 3
    states = history(graphs, path, since)
    assert values(states, lambda s: of(s, "decode")) == [2, 5, 3]
    assert values(states, lambda s: of(s, "frontend")) == [1, 4, 1]
    assert len(unit(running, "app", "graphs").drifts) == 1


@pytest.mark.upstream
async def test_s01_a_graph_that_people_made_is_taken_over_with_the_number_of_its_planner(
    fleet: StartFleet, repo: Repository, graphs: ControlPlane
) -> None:
    """Even its dry run is refused as long as Git's number is in it."""
    path, name = GRAPHS.format("found"), "found"
    since = graphs.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    graphs.create_namespace(name)
    text = graph(name, component("decode", "decode", 2, scaled=True))
    graphs.kubectl("apply", "-f", "-", stdin=text)
    plan(graphs, name, "decode", 6)
    manifests = {"namespace.yaml": namespace_yaml(name), "graph.yaml": text.replace("value: a", "value: b")}
    repo.commit({**repository("graphs"), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {"graphs": graphs})
    await running.settled()
    state = graphs.get(path)
    assert "value: b" in yaml.safe_dump(state["spec"])
    assert values(history(graphs, path, since), lambda s: of(s, "decode")) == [2, 6]
    assert unit(running, "app", "graphs").drifts == []


def is_json_patch(request: faults.Request) -> bool:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return headers.get("content-type") == "application/json-patch+json"


# -- injected certificates, and what is left of a block --------------------------------------------------------------

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/injected"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.own.example"


def hooks(authority: str, timeout: int) -> str:
    service = {"name": "hooks", "namespace": "default"}
    return yaml.safe_dump(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "injected"},
            "webhooks": [
                {
                    "name": f"{name}.own.example",
                    "clientConfig": {"service": service, "caBundle": authority},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "timeoutSeconds": timeout,
                    "rules": [
                        {
                            "apiGroups": ["own.example"],
                            "apiVersions": ["v1"],
                            "operations": ["DELETE"],
                            "resources": ["widgets"],
                        }
                    ],
                }
                for name in ("first", "second")
            ],
        }
    )


def definition(*, converts: bool) -> str:
    client = {"service": {"name": "hooks", "namespace": "default"}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return yaml.safe_dump(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.own.example"},
            "spec": {
                "group": "own.example",
                "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Namespaced",
                "versions": [version],
                **({"conversion": conversion} if converts else {}),
            },
        }
    )


def inject(plane: ControlPlane, path: str, patch: list[dict[str, Any]]) -> None:
    query = {"fieldManager": "cert-manager-cainjector"}
    plane.request("PATCH", path, patch, content_type=JSON_PATCH, query=query)


async def test_d02_s15_29_an_injected_certificate_stays_and_what_is_left_of_a_block_is_named(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes("graphs")
    forget(plane)
    pems = (plane.certificates.authority, plane.certificates.server[0])
    ours, theirs = (base64.b64encode(pem.read_bytes()).decode() for pem in pems)
    manifests = {
        "namespace.yaml": namespace_yaml("injected"),
        "settings.yaml": settings("injected", level="info"),
        "hooks.yaml": hooks(ours, 5),
        "definition.yaml": definition(converts=True),
    }
    repo.commit({**repository("graphs"), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {"graphs": plane})
    await running.settled()
    running.clear()
    others = {"labels": {"theirs": "1"}, "annotations": {"theirs/rolled": "1"}, "finalizers": ["theirs/hold"]}
    plane.request("PATCH", HOOKS, {"metadata": others}, content_type=MERGE, query={"fieldManager": "operator"})
    inject(plane, HOOKS, [{"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": theirs}])
    inject(plane, DEFINITION, [{"op": "add", "path": CA, "value": theirs}])
    await until(lambda: len(left(running)) == 1, "the certificate to be left to its injector")

    # The rest of the objects stays ours; what others put beside it survives, and nothing is ever replaced.
    running.push({f"{MANIFESTS}/hooks.yaml": hooks(ours, 7)}, "patience")
    await running.settled()
    first, second = plane.get(HOOKS)["webhooks"]
    assert (first["clientConfig"]["caBundle"], second["clientConfig"]["caBundle"]) == (ours, theirs)
    assert (first["timeoutSeconds"], second["timeoutSeconds"]) == (7, 7)
    metadata = plane.get(HOOKS)["metadata"]
    assert metadata["labels"]["theirs"] == metadata["annotations"]["theirs/rolled"] == "1"
    assert metadata["finalizers"] == ["theirs/hold"]
    assert left(running) == [
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io injected "
        "webhooks[name=second.own.example].clientConfig.caBundle: yielded to cert-manager-cainjector"
    ]
    inject(plane, HOOKS, [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 9}])
    await until(lambda: plane.get(HOOKS)["webhooks"][0]["timeoutSeconds"] == 7, "what it may not write to be repaired")
    await running.settled()

    # Git drops a block of which the injector has a part: refused by the server, told in full, and the rest goes on.
    running.clear()
    changed = {f"{MANIFESTS}/definition.yaml": definition(converts=False)}
    running.push({**changed, f"{MANIFESTS}/settings.yaml": settings("injected", level="debug")}, "no conversion")
    await until(outcome_is(running, "app", SyncState.REFUSED, cluster_name="graphs"), "the refusal")
    message = unit(running, "app", "graphs").outcome.sentence
    assert "spec.conversion.webhook.clientConfig.caBundle (of cert-manager-cainjector)" in message
    assert plane.get("/api/v1/namespaces/injected/configmaps/settings")["data"] == {"level": "debug"}
    tries = [c for c in running.calls("graphs") if c.path == DEFINITION and c.is_dry_run]
    assert len(tries) == 1
    inject(plane, DEFINITION, [{"op": "remove", "path": CA}])
    running.push({f"{MANIFESTS}/settings.yaml": settings("injected", level="info")}, "again")
    await running.settled()
    assert plane.get(DEFINITION)["spec"]["conversion"] == {"strategy": "None"}

    # The injector gives the field up, and it is ours again.
    entries = plane.get(HOOKS)["metadata"]["managedFields"]
    place = next(i for i, e in enumerate(entries) if e["manager"] == "cert-manager-cainjector")
    inject(plane, HOOKS, [{"op": "remove", "path": f"/metadata/managedFields/{place}"}])
    await until(lambda: ca_bundles(plane) == [ours] * 2, "the certificate of Git")
    await running.settled()
    await until(lambda: left(running) == [], "the status file to say so")
    inject(plane, HOOKS, [{"op": "remove", "path": "/metadata/finalizers"}])
    assert {w.method for w in running.writes("graphs")} <= {"PATCH", "DELETE"}


CA = "/spec/conversion/webhook/clientConfig/caBundle"


def ca_bundles(plane: ControlPlane) -> list[str]:
    return [hook["clientConfig"]["caBundle"] for hook in plane.get(HOOKS)["webhooks"]]


def left(running: Fleet) -> list[str]:
    """What the status file of the unit says is left to others."""
    told: list[str] = running.status("status/units/graphs/bundle.app.yaml").get("leftToOthers", [])
    return told


# -- asking ----------------------------------------------------------------------------------------------------------


def asking(namespace: str, answer: str, **data: str) -> str:
    body = yaml.safe_load(settings(namespace, **data))
    body["metadata"]["annotations"] = {"gitops/conflicts": answer}
    return yaml.safe_dump(body)


async def test_s16_30_31_a_field_in_conflict_is_taken_or_asked_about_and_never_flips(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes("graphs")
    forget(plane)
    path, file = "/api/v1/namespaces/asked/configmaps/settings", f"{MANIFESTS}/settings.yaml"
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    manifests = {"namespace.yaml": namespace_yaml("asked"), "settings.yaml": asking("asked", "ask", a="git", b="git")}
    repo.commit({**repository("graphs"), **bundle_files("app", manifests)}, "app")
    running = await fleet(repo, {"graphs": plane})
    await running.settled()

    def applied(**data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}
        plane.request("PATCH", path, body, content_type=APPLY, query={"fieldManager": "tuner", "force": "true"})

    # Asked: what is in conflict stays as it is and is told; everything else of the object is Git's.
    applied(a="tuned")
    await until(outcome_is(running, "app", SyncState.CONFLICT, cluster_name="graphs"), "the question")
    problem = unit(running, "app", "graphs").outcome.problems[0]
    assert (str(problem.object), "data.a has another value, of the manager tuner" in problem.message) == (
        "ConfigMap asked/settings",
        True,
    )
    running.push({file: asking("asked", "ask", a="git", b="new")}, "b")
    await until(lambda: plane.get(path)["data"] == {"a": "tuned", "b": "new"}, "the rest of the object")
    merge = {"data": {"b": "typed"}}
    plane.kubectl("patch", "configmap/settings", "-n", "asked", "--type=merge", "-p", json.dumps(merge))
    await until(lambda: plane.get(path)["data"]["b"] == "new", "what a person typed to be taken back")
    await until(outcome_is(running, "app", SyncState.CONFLICT, cluster_name="graphs"), "the question to stand")
    assert [d.path for d in unit(running, "app", "graphs").drifts] == ["data.b"]
    await until(lambda: "data.a" in str(running.status("status/units/graphs/bundle.app.yaml").get("outcome")), "status")

    # Answered in Git: the same value, then a decision.
    running.push({file: asking("asked", "ask", a="tuned", b="new")}, "agreed")
    await running.settled()
    assert owners(plane.get(path), "f:data", "f:a") == {"gitops-demo", "tuner"}
    running.push({file: asking("asked", "yield", a="git", b="new")}, "theirs")
    await running.settled()
    assert owners(plane.get(path), "f:data", "f:a") == {"tuner"}
    assert values(history(plane, path, since), lambda s: s["data"]["a"]) == ["git", "tuned"]
    running.push({file: asking("asked", "take", a="git", b="new")}, "ours")
    await running.settled()
    assert plane.get(path)["data"] == {"a": "git", "b": "new"}

    # Taken: written over, and the report names the field and who had changed it.
    applied(a="tuned")
    await until(lambda: plane.get(path)["data"]["a"] == "git", "the value of Git")
    await until(lambda: len(unit(running, "app", "graphs").drifts) == 2, "the report")
    drift = unit(running, "app", "graphs").drifts[-1]
    assert (drift.path, drift.manager, drift.operation, drift.live) == ("data.a", "tuner", "Apply", "tuned")
