"""Bundles of any kinds, cluster-scoped ones included, through the whole engine; what others fill in stays theirs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.definitions import definition
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, config_map, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, key_of, outcome_is, repository, unit, writes_to

from gitops.model.findings import Severity
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.state import ClusterState

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

HOOKS = "/apis/admissionregistration.k8s.io/v1"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/geese.birds.example"
INJECTOR = {"fieldManager": "cert-manager-cainjector"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="


def dumped(*bodies: dict[str, Any]) -> str:
    return "---\n".join(json.dumps(body) + "\n" for body in bodies)


def spec_of(filler: int = 0) -> dict[str, Any]:
    """The schema of a spec with a default, `filler` bytes of descriptions in it."""
    fields = {f"field{n}": {"type": "string", "description": "d" * 2_000} for n in range(filler // 2_000)}
    return {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, **fields}}


def hooks(kind: str, **client: Any) -> dict[str, Any]:
    rule = {"apiGroups": ["birds.example"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["geese"]}
    hook = {
        "clientConfig": {"service": {"name": "hook", "namespace": "birds"}, **client},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "birds"},
        "webhooks": [{"name": "one.birds.example", **hook}, {"name": "two.birds.example", **hook}],
    }


def role(name: str, *, labels: dict[str, str] | None = None, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, **content}


def aggregating(name: str, **content: Any) -> dict[str, Any]:
    rule = {"clusterRoleSelectors": [{"matchLabels": {"aggregate.example/to": "birds"}}]}
    return role(name, aggregationRule=rule, **content)


READS = {"apiGroups": ["birds.example"], "resources": ["geese"], "verbs": ["get"]}


def goose(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "birds.example/v1", "kind": "Goose", "metadata": metadata, "spec": spec}


def files() -> dict[str, str]:
    listed = {"apiVersion": "v1", "kind": "List", "items": [goose("birds", "listed"), goose("pond", "listed", size=4)]}
    scoped = role("birds-misplaced", rules=[READS])
    scoped["metadata"]["namespace"] = "birds"
    wide = {"apiVersion": "birds.example/v1", "kind": "Sky", "metadata": {"name": "blue", "namespace": "birds"}}
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-", "namespace": "birds"}}
    return {
        **repository(),
        **bundle_files(
            "birds",
            {
                "namespaces.yaml": namespace_yaml("birds") + "---\n" + namespace_yaml("pond"),
                "definition.json": dumped(definition("Goose", "birds.example", plural="geese", spec=spec_of(600_000))),
                "geese.yaml": yaml.safe_dump(goose("birds", "grey")) + "---\n" + yaml.safe_dump(listed),
                "settings.yaml": config_map("settings", "pond", depth="2"),
                "roles.json": dumped(
                    aggregating("birds-empty", rules=[]),
                    aggregating("birds-none"),
                    role("birds-reader", labels={"aggregate.example/to": "birds"}, rules=[READS]),
                    scoped,
                ),
                "hooks.json": dumped(
                    hooks("ValidatingWebhookConfiguration"),
                    hooks("MutatingWebhookConfiguration", caBundle="Cg=="),  # as charts have it: a line break
                ),
            },
        ),
        **bundle_files(
            "sky",
            {
                "definition.json": dumped(
                    definition("Sky", "birds.example", plural="skies", scope="Cluster", spec=spec_of())
                )
            },
        ),
        **bundle_files("blue", {"sky.json": dumped(wide)}),
        **bundle_files("nameless", {"settings.json": dumped(nameless)}),
    }


async def calm(fleet: Fleet) -> None:
    """Until nothing more is done, whatever controllers and foreign hands did before."""
    calls = -1

    def quiet() -> bool:
        nonlocal calls
        before, calls = calls, len(fleet.calls(DGX))
        return before == calls and not fleet.engine.workers[DGX].busy and not fleet.engine.status_pending

    await until(quiet, "nothing more to be done")


def seen(fleet: Fleet, kind: str, body: dict[str, Any]) -> Callable[[], bool]:
    """A condition: the watch has delivered this state of an object of the bundle."""

    def condition() -> bool:
        records = fleet.engine.workers[DGX].state.objects
        version = body["metadata"]["resourceVersion"]
        return any(r.ref.kind == kind and r.resource_version == version for r in list(records.values()))

    return condition


async def test_a_bundle_of_any_kinds_and_what_others_fill_in(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    plane = planes("any", controllers=True)
    repo.commit(files(), "birds")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    worker = running.engine.workers[DGX]

    # S07: a large definition is applied, copied nowhere, and its instances with it, in two namespaces and from a List.
    crd = plane.get(DEFINITION)
    assert len(json.dumps(crd["spec"])) > 600_000
    assert LAST_APPLIED not in crd["metadata"].get("annotations", {})
    for namespace, name, size in (("birds", "grey", 3), ("birds", "listed", 3), ("pond", "listed", 4)):
        assert plane.get(f"/apis/birds.example/v1/namespaces/{namespace}/geese/{name}")["spec"]["size"] == size
    await until(lambda: not running.engine.status_pending, "the status to be pushed")
    told = repo.read(f"status/units/{DGX}/bundle.birds.yaml", branch="gitops-status")
    assert told is not None
    assert len(told) < 20_000

    # S22: one identity for an object that needs no namespace, and a warning; no object without a name of its own.
    said = {(f.code, f.severity) for f in running.engine.findings}
    assert ("GO4111", Severity.WARNING) in said
    assert plane.get(f"{ROLES}/birds-misplaced") is not None
    assert plane.get("/apis/birds.example/v1/skies/blue") is not None
    assert {r.ref.namespace for r in worker.state.objects.values() if r.ref.kind == "Sky"} == {""}
    assert key_of("nameless") not in worker.state.units
    assert any("generateName" in f.message for f in running.engine.findings if f.severity is Severity.ERROR)

    # A controller fills the rules of an aggregated role, whether Git says `rules: []` or nothing.
    for name in ("birds-empty", "birds-none"):
        await until(lambda name=name: plane.get(f"{ROLES}/{name}")["rules"] == [READS], f"{name} to be filled")
    await calm(running)
    assert not unit(running, "birds").drifts

    # Certificates are injected: where nothing is declared, and where a placeholder is.
    running.clear()
    for plural, kind in (
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ):
        body = plane.get(f"{HOOKS}/{plural}/birds")
        for hook in body["webhooks"]:
            hook["clientConfig"]["caBundle"] = CERTIFICATE
        stored = plane.request("PUT", f"{HOOKS}/{plural}/birds", body, query=INJECTOR)
        await until(seen(running, kind, stored), "the injection to be seen")
    await calm(running)
    assert not unit(running, "birds").drifts
    assert unit(running, "birds").outcome.state is SyncState.SYNCED
    assert not writes_to(running.writes(DGX), "validatingwebhookconfigurations/birds")

    # What is changed elsewhere in them is put right, from there or from Git, and the certificates stay.
    for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        at = f"{HOOKS}/{plural}/birds"
        hook = plane.get(at)["webhooks"]
        hook[1]["sideEffects"] = "NoneOnDryRun"
        plane.request("PATCH", at, {"webhooks": hook}, content_type=MERGE, query={"fieldManager": "kubectl-edit"})
        await until(lambda at=at: plane.get(at)["webhooks"][1]["sideEffects"] == "None", "the repair")
    changed = files()
    path = "bundles/birds/manifests/hooks.json"
    running.push({path: changed[path].replace('"DELETE"', '"CONNECT"')}, "another operation")
    await running.settled()
    await calm(running)
    for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        for hook in plane.get(f"{HOOKS}/{plural}/birds")["webhooks"]:
            assert hook["rules"][0]["operations"] == ["CONNECT"]
            assert hook["clientConfig"]["caBundle"] == CERTIFICATE

    # The next attempt changes nothing any more.
    running.clear()
    assert worker._session is not None
    worker._session.queue.poke(key_of("birds"))
    await worker._session.queue.idle()
    assert running.calls(DGX) == []

    # What is answered and not kept cannot be enforced: that object is refused, and what is beside it applied.
    asking = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {"name": "may-i"}}
    running.push(
        bundle_files("asking", {"all.yaml": dumped(asking) + "---\n" + config_map("beside", "pond")}), "a question"
    )
    await until(outcome_is(running, "asking", SyncState.REFUSED), "the refusal")
    (problem,) = unit(running, "asking").outcome.problems
    assert problem.object.kind == "SelfSubjectAccessReview"
    assert "keeps nothing of it" in problem.message
    assert plane.get("/api/v1/namespaces/pond/configmaps/beside") is not None


async def test_o04_kinds_of_an_aggregated_api_and_what_happens_when_its_server_goes(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane]
) -> None:
    """Another API server behind an APIService: applied, watched and repaired like any kind, unknown while away."""
    behind, plane = planes("behind"), planes("before")
    behind.create_crd_objects([definition("Star", "far.example", spec=spec_of())])
    behind.create_namespace("far")
    anybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "anybody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [anybody],  # whom the front server is to it, without a certificate of its own
    }
    behind.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    port = int(behind.url.rpartition(":")[2])
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "behind", "namespace": "far"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    served = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.far.example"},
        "spec": {
            "group": "far.example",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "behind", "namespace": "far", "port": port},
        },
    }
    star = {
        "apiVersion": "far.example/v1",
        "kind": "Star",
        "metadata": {"name": "one", "namespace": "far"},
        "spec": {"size": 7},
    }
    manifests = {"far.json": dumped(service, served), "namespace.yaml": namespace_yaml("far")}
    repo.commit(
        {**repository(), **bundle_files("far", manifests), **bundle_files("stars", {"star.json": dumped(star)})}, "far"
    )
    running = await fleet(repo, {DGX: plane})
    await running.settled(timeout=60)
    at = "/apis/far.example/v1/namespaces/far/stars/one"
    assert behind.get(at)["spec"]["size"] == 7
    await calm(running)
    assert not unit(running, "far").drifts
    running.clear()
    plane.request("PATCH", at, {"spec": {"size": 8}}, content_type=MERGE, query={"fieldManager": "kubectl-edit"})
    await until(lambda: behind.get(at)["spec"]["size"] == 7, "the repair")
    await calm(running)
    assert len(writes_to(running.writes(DGX), "stars/one")) == 1

    # Its server goes: the group is unknown and not empty. Nothing of it is pruned, what is beside it goes on.
    member = plane.get(at)["metadata"]["uid"]
    await asyncio.to_thread(behind.kill_apiserver)
    await until(lambda: not available(plane, "v1.far.example"), "the group to fail")
    running.clear()
    beside = bundle_files("beside", {"settings.yaml": config_map("settings", "far", level="info")})
    running.push({"bundles/stars/manifests/star.json": dumped({**star, "spec": {"size": 9}}), **beside}, "go on")
    await until(outcome_is(running, "beside", SyncState.SYNCED), "what is beside it")
    assert worker_state(running).parents[key_of("stars")].members[0].uid == member
    running.push(dict.fromkeys(bundle_files("stars", {"star.json": ""})), "the stars go")
    await until(lambda: key_of("stars") not in worker_state(running).wanted, "the head")
    await until(lambda: not running.engine.workers[DGX].busy, "what can be done of it")
    assert key_of("stars") in worker_state(running).parents, "what cannot be looked at is not known to be gone"
    assert [w for w in running.writes(DGX) if w.method == "DELETE" and w.status < 300] == []
    await asyncio.to_thread(behind.start_apiserver)
    await until(lambda: available(plane, "v1.far.example"), "the group to be back")
    await until(lambda: key_of("stars") not in worker_state(running).parents, "the rest once it is back", timeout=60)
    assert behind.get(at) is None


def available(plane: ControlPlane, name: str) -> bool:
    """Whether the server behind an APIService answers; it is looked at anew when the APIService changes."""
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}"
    touched = {"metadata": {"annotations": {"touched": str(time.monotonic_ns())}}}
    service = plane.request("PATCH", path, touched, content_type=MERGE)
    return any(c["type"] == "Available" and c["status"] == "True" for c in service["status"]["conditions"])


def worker_state(running: Fleet) -> ClusterState:
    return running.engine.workers[DGX].state
