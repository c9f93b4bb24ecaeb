"""Copies of the Secrets that a function names: made, followed, waited for, kept and removed, and never told of."""

from __future__ import annotations

import asyncio
import base64
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit import faults
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import Fleet, StartFleet, cluster, config_map, forget, until
from fleet_kit.scenes import DGX, GPUS, bundle_files, except_parents, function_files, live, plain_map, repository

from gitops.cluster.values import MASK
from gitops.model.identity import UnitKey
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL
from gitops.reconcile.outcomes import SyncState, UnitOutcome

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

KEY = UnitKey.parse(f"function/chat/any-0@{DGX}")
SPACE = "fn-chat-any-0"
CANARY = "canary-7f3a9c-value"
CLI = "import gitops.cli; gitops.cli.main()"
SOURCES_LISTED = faults.on("GET", "/namespaces/gitops-secrets/secrets$")
CLUSTER = cluster(DGX, gpus=GPUS, attributes=["NIMOperatorSupport"])
EMPTY = yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rest", "namespace": "default"}})
REST = bundle_files("rest", {"rest.yaml": config_map("rest", "default", value="1"), "secret.yaml": EMPTY})
"""Its Secret has Secrets watched whether there are copies or not."""


def account(name: str, secret: str) -> str:
    """A ServiceAccount that names a Secret."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    return yaml.safe_dump({**body, "imagePullSecrets": [{"name": secret}]})


def files(*secrets: str) -> dict[str, str]:
    """A function with ConfigMap `settings`, and for each Secret an account that names it."""
    accounts = {f"{name}.yaml": account(f"uses-{name}", name) for name in secrets}
    refs = [{"name": name} for name in secrets]
    return {
        **repository(),
        **REST,
        f"clusters/{DGX}.yaml": CLUSTER,
        **function_files("chat", {"settings.yaml": plain_map("settings"), **accounts}, secretRefs=refs),
    }


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def put(plane: ControlPlane, name: str, value: str, **more: Any) -> None:
    """Make or change a Secret of gitops-secrets, as people do: with kubectl, whose annotation repeats the values."""
    meta = {"name": name, "namespace": "gitops-secrets", "labels": {"team": "ml"}, "annotations": {"note": value}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"token": encoded(value)}, **more}
    plane.request(
        "PATCH",
        f"/api/v1/namespaces/gitops-secrets/secrets/{name}",
        body,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "people", "force": "true"},
    )


def drop(plane: ControlPlane, name: str, namespace: str = "gitops-secrets") -> None:
    plane.request("DELETE", f"/api/v1/namespaces/{namespace}/secrets/{name}")


def copy(plane: ControlPlane, name: str) -> dict[str, Any] | None:
    return live(plane, SPACE, "secrets", name)


def token(plane: ControlPlane, name: str) -> str:
    found = copy(plane, name)
    return base64.b64decode(found["data"]["token"]).decode() if found else ""


def outcome(fleet: Fleet) -> UnitOutcome:
    return fleet.outcome(str(KEY))


def stands(fleet: Fleet, state: SyncState, words: str = "") -> Callable[[], bool]:
    def condition() -> bool:
        worker = fleet.engine.workers.get(KEY.cluster)
        found = outcome(fleet)
        return worker is not None and not worker.busy and found.state is state and words in found.sentence

    return condition


async def stopped(fleet: Fleet) -> None:
    fleet.stop.set()
    await fleet.task


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    """As every test finds it: no function, no Secrets of people."""
    made = planes("full", controllers=True)
    forget(made)
    made.request("DELETE", "/api/v1/namespaces/gitops-secrets/secrets")
    if made.get(f"/api/v1/namespaces/{SPACE}") is not None:
        for kind in ("secrets", "configmaps", "serviceaccounts"):
            made.request("DELETE", f"/api/v1/namespaces/{SPACE}/{kind}")
        made.request("DELETE", f"/api/v1/namespaces/{SPACE}")
        ended = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}  # the controller takes 5 s
        made.request("PUT", f"/api/v1/namespaces/{SPACE}/finalize", {**ended, "spec": {"finalizers": []}})
    return made


async def test_a_missing_secret_holds_only_what_names_it_and_its_creation_ends_that(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """From a cluster without gitops-secrets to copies that follow their sources, in one run."""
    repo.commit(files("ngc-key", "hf-token"), "first")
    running = await fleet(repo, {DGX: plane})
    await until(stands(running, SyncState.WAITING, "waiting for Secret gitops-secrets/"), "the wait")
    assert {p.message for p in outcome(running).problems} == {
        "waiting for Secret gitops-secrets/ngc-key",
        "waiting for Secret gitops-secrets/hf-token",
    }
    assert outcome(running).retry_after is None, "it waits for an event, not for time"
    assert live(plane, SPACE, "configmaps", "settings") is not None
    assert live(plane, SPACE, "serviceaccounts", "uses-ngc-key") is None
    made_by_us = [w.path for w in running.writes(DGX) if w.method == "POST"]
    assert not [path for path in made_by_us if "secrets" in path], "people make that namespace"

    plane.kubectl("create", "namespace", "gitops-secrets", check=False)
    put(plane, "hf-token", "first")
    put(plane, "unrelated", "x")
    await until(stands(running, SyncState.WAITING, "gitops-secrets/ngc-key"), "only one to be waited for")
    await until(lambda: live(plane, SPACE, "serviceaccounts", "uses-hf-token"), "what names the other one")
    assert live(plane, SPACE, "serviceaccounts", "uses-ngc-key") is None
    put(plane, "ngc-key", "one")
    await running.settled()
    made = copy(plane, "ngc-key")
    assert made is not None
    assert token(plane, "ngc-key") == "one"
    assert (made["type"], made["metadata"]["labels"]) == (
        "Opaque",
        {RECONCILER_LABEL: "demo", PART_OF_LABEL: applyset_id(parent_name(KEY))},
    )
    assert made["metadata"]["annotations"] == {"gitops/source": "functions/chat/function.yaml"}
    assert live(plane, SPACE, "serviceaccounts", "uses-ngc-key") is not None
    assert copy(plane, "unrelated") is None

    # it follows the source, and nothing else is written
    running.clear()
    put(plane, "ngc-key", "two")
    await until(lambda: token(plane, "ngc-key") == "two", "the copy to follow")
    await running.settled()
    assert [w.path for w in running.writes(DGX)] == [f"/api/v1/namespaces/{SPACE}/secrets/ngc-key"]
    # a label of the source is no content
    running.clear()
    plane.kubectl("label", "secret", "ngc-key", "-n", "gitops-secrets", "more=yes")
    put(plane, "hf-token", "second")
    await until(lambda: token(plane, "hf-token") == "second", "the other copy to follow")
    await running.settled()
    assert [w.path for w in running.writes(DGX)] == [f"/api/v1/namespaces/{SPACE}/secrets/hf-token"]

    # drift of a copy is repaired, its deletion too
    plane.kubectl("patch", "secret", "ngc-key", "-n", SPACE, "-p", '{"data":{"token":"' + encoded("evil") + '"}}')
    await until(lambda: token(plane, "ngc-key") == "two", "the repair")
    drop(plane, "ngc-key", SPACE)
    await until(lambda: token(plane, "ngc-key") == "two", "the copy to come back")
    await running.settled()

    # I1: a source that is gone leaves its copy, and everything else of the unit goes on
    uid = (copy(plane, "ngc-key") or {})["metadata"]["uid"]
    running.clear()
    drop(plane, "ngc-key")
    await until(stands(running, SyncState.WAITING, "the copy that was made before stays as it is"), "the remark")
    changed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": "debug"}}
    running.push(
        {
            "functions/chat/manifests/settings.yaml": yaml.safe_dump(changed),
            "functions/chat/manifests/hf-token.yaml": None,
        }
    )
    await until(lambda: live(plane, SPACE, "serviceaccounts", "uses-hf-token") is None, "another object to be pruned")
    assert (live(plane, SPACE, "configmaps", "settings") or {})["data"] == {"level": "debug"}
    await until(stands(running, SyncState.WAITING, "gitops-secrets/ngc-key"), "the remark again")
    assert (copy(plane, "ngc-key") or {})["metadata"]["uid"] == uid
    # a restart in that state decides nothing about the copy
    await stopped(running)
    again = await fleet(repo, {DGX: plane}, name="two")
    await until(stands(again, SyncState.WAITING, "the copy that was made before stays as it is"), "the remark")
    assert except_parents(again.writes(DGX)) == []
    assert (copy(plane, "ngc-key") or {})["metadata"]["uid"] == uid
    # and the source, when it is back, is followed again
    put(plane, "ngc-key", "three")
    await until(lambda: token(plane, "ngc-key") == "three", "the copy to follow again")
    await again.settled()
    assert (copy(plane, "ngc-key") or {})["metadata"]["uid"] == uid

    # only a reference that left Git removes a copy
    again.clear()
    again.push(function_files("chat", {}, secretRefs=[{"name": "hf-token"}]))
    await until(lambda: copy(plane, "ngc-key") is None, "the copy to go")
    await again.settled()
    assert [w.path for w in again.writes(DGX) if w.method == "DELETE"] == [
        f"/api/v1/namespaces/{SPACE}/secrets/ngc-key"
    ]
    assert token(plane, "hf-token") == "second"
    # the function goes, its copies and its namespace with it
    again.push({path: None for path in repo.files() if path.startswith("functions/")})
    await until(lambda: not copy(plane, "hf-token"), "the other copy to go")
    await until(lambda: f"/api/v1/namespaces/{SPACE}" in [w.path for w in again.writes(DGX)], "the namespace to go")
    assert live(plane, "gitops-secrets", "secrets", "hf-token") is not None


async def test_a_warm_restart_writes_nothing_and_decides_nothing_before_the_sources_are_listed(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.kubectl("create", "namespace", "gitops-secrets", check=False)
    put(plane, "ngc-key", "one")
    repo.commit(files("ngc-key"), "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    uid = (copy(plane, "ngc-key") or {})["metadata"]["uid"]
    await stopped(running)

    # zero writes, and no read but the lists
    second = await fleet(repo, {DGX: plane}, name="two")
    await second.settled()
    assert except_parents(second.writes(DGX)) == []
    assert not [c for c in second.calls(DGX) if c.method == "GET" and c.path.endswith("/secrets/ngc-key")]
    await stopped(second)

    # the list of sources is slow: nothing is done to the copy, nor to what needs it
    proxy = second.proxies[DGX]
    proxy.clear()
    gate = faults.Hold()
    proxy.fail(gate, SOURCES_LISTED, times=None)
    third = await fleet(repo, {DGX: plane}, proxies={DGX: proxy}, name="three")
    await until(stands(third, SyncState.PENDING, "Secret objects are not listed yet"), "the wait for the list")
    await until(lambda: third.outcome(f"bundle/rest@{DGX}").state is SyncState.SYNCED, "the other unit")
    plane.kubectl("patch", "secret", "ngc-key", "-n", SPACE, "-p", '{"data":{"token":"' + encoded("evil") + '"}}')
    assert except_parents(third.writes(DGX)) == []
    gate.release()
    await third.settled()
    await until(lambda: token(plane, "ngc-key") == "one", "the drift meanwhile to be repaired")
    await third.settled()
    [drift] = third.engine.workers[KEY.cluster].state.units[KEY].drifts
    assert (drift.object.name, drift.manager) == ("ngc-key", "kubectl-patch")
    await stopped(third)
    assert (copy(plane, "ngc-key") or {})["metadata"]["uid"] == uid

    # the list is refused: unknown is not missing, the copy stays, the rest is enforced, and it ends by itself
    proxy.clear()
    proxy.restore()
    proxy.fail(faults.Answer(403, "Forbidden", "secrets is forbidden: no list there"), SOURCES_LISTED, times=None)
    put(plane, "ngc-key", "two")
    fourth = await fleet(repo, {DGX: plane}, proxies={DGX: proxy}, name="four")
    await until(stands(fourth, SyncState.REFUSED, "gitops-secrets/ngc-key is not known"), "it to be told")
    assert except_parents(fourth.writes(DGX)) == []
    plane.kubectl("delete", "configmap", "settings", "-n", SPACE)
    await until(lambda: live(plane, SPACE, "configmaps", "settings"), "a repair beside it")
    assert (copy(plane, "ngc-key") or {})["metadata"]["uid"] == uid
    assert token(plane, "ngc-key") == "one"
    proxy.restore()
    fourth.engine.workers[KEY.cluster]._session._watches.look_again()  # type: ignore[union-attr]  # not its back-off
    await until(lambda: token(plane, "ngc-key") == "two", "the change meanwhile to be followed")
    await fourth.settled()
    drifts = fourth.engine.workers[KEY.cluster].state.units[KEY].drifts
    told = [(d.object.kind, d.count) for d in drifts]
    assert told == [("Secret", 1), ("ConfigMap", 1)], "a source that changed is no drift of its copy"


POLICIES = "/apis/admissionregistration.k8s.io/v1"


def deny(plane: ControlPlane) -> Callable[[], None]:
    """A policy that refuses every change of a Secret of the function, and quotes it. Gives what removes it."""
    where = {"matchLabels": {"kubernetes.io/metadata.name": SPACE}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["secrets"]}
    validation = {"expression": "false", "messageExpression": "'not this: ' + string(object.data.token)"}
    specs = {
        "Policy": {
            "matchConstraints": {"namespaceSelector": where, "resourceRules": [rule]},
            "validations": [validation],
        },
        "PolicyBinding": {"policyName": "no-secrets", "validationActions": ["Deny"]},
    }
    paths = {"Policy": "validatingadmissionpolicies", "PolicyBinding": "validatingadmissionpolicybindings"}
    for kind, spec in specs.items():
        body = {"apiVersion": POLICIES[6:], "kind": f"ValidatingAdmission{kind}", "metadata": {"name": "no-secrets"}}
        plane.request("POST", f"{POLICIES}/{paths[kind]}", {**body, "spec": spec})

    def remove() -> None:
        for path in paths.values():
            plane.request("DELETE", f"{POLICIES}/{path}/no-secrets")

    return remove


def denied(plane: ControlPlane) -> bool:
    """Does the policy hold yet?"""
    try:
        plane.kubectl("label", "secret", "ngc-key", "-n", SPACE, "x=y", "--dry-run=server")
    except Exception:
        return True
    return False


async def test_no_value_of_a_secret_is_ever_told(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under drift of a copy, a denial that quotes it, a type that it cannot take, and a fault that repeats it."""
    caplog.set_level(logging.DEBUG)
    plane.kubectl("create", "namespace", "gitops-secrets", check=False)
    put(plane, "ngc-key", CANARY)
    repo.commit(files("ngc-key"), "first")
    running = await fleet(repo, {DGX: plane})
    await running.settled()
    said: list[str] = []

    def listen() -> None:
        worker = running.engine.workers[KEY.cluster]
        said.append(repr([worker.state.wanted, worker.state.units, worker.state.objects, worker.state.parents]))
        said.append(repr(vars(worker._session.secrets)))  # type: ignore[union-attr]

    # drift
    drifted = encoded(f"{CANARY}-drift")
    plane.kubectl("patch", "secret", "ngc-key", "-n", SPACE, "-p", '{"data":{"token":"' + drifted + '"}}')
    await until(lambda: token(plane, "ngc-key") == CANARY, "the repair")
    await until(lambda: running.status(f"drift/{DGX}/function.chat.any-0.yaml").get("recent"), "the report")
    await running.settled()
    listen()
    # what `gitops plan` compares with a drifted copy
    folder = tmp_path / "tree"
    for path, text in files("ngc-key").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    calls = [["plan", ".", "--credentials-dir", str(running.credentials)], ["explain", ".", "Secret/ngc-key"]]
    commands = ([sys.executable, "-c", CLI, *arguments] for arguments in calls)
    asked = (
        asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, text=True) for command in commands
    )
    for done in await asyncio.gather(*asked):
        assert "Traceback" not in done.stderr, done.stderr
        assert "delete" not in done.stdout, "a copy is no object that left Git"
        said.append(done.stdout + done.stderr)
    # denied, in words that quote it
    remove = deny(plane)
    await until(lambda: denied(plane), "the policy to hold")
    put(plane, "ngc-key", f"{CANARY}-2")
    await until(stands(running, SyncState.REFUSED, "denied request"), "the denial")
    listen()
    remove()
    await until(lambda: not denied(plane), "the policy to be gone")
    # a fault that repeats it; what names the Secret goes on, for its copy is there
    message = f"cannot store {encoded(CANARY + '-3')}, which is {CANARY}-3"
    running.proxies[DGX].fail(faults.Answer(500, "InternalError", message), faults.on("PATCH", "/secrets/ngc-key$"))
    put(plane, "ngc-key", f"{CANARY}-3")
    await until(lambda: token(plane, "ngc-key") == f"{CANARY}-3", "the copy to follow in the end")
    await running.settled()
    assert f"cannot store {MASK}, which is {MASK}" in caplog.text, "the fault was told, without the value"
    # made anew as what no Secret may become
    drop(plane, "ngc-key")
    login = encoded('{"auths":{"nvcr.io":{"auth":"' + CANARY + '"}}}')
    put(plane, "ngc-key", "", data={".dockerconfigjson": login}, type="kubernetes.io/dockerconfigjson")
    await until(stands(running, SyncState.REFUSED, "delete Secret fn-chat-any-0/ngc-key"), "it to be told")
    assert token(plane, "ngc-key") == f"{CANARY}-3", "the copy stays as it was"
    listen()
    drop(plane, "ngc-key", SPACE)
    await until(lambda: (copy(plane, "ngc-key") or {}).get("type") == "kubernetes.io/dockerconfigjson", "the new copy")
    await running.settled()
    listen()
    branch = repo.git("log", "-p", "--all")
    everything = "\n".join([caplog.text, branch, *said])
    for secret in (CANARY, encoded(CANARY)[:16], login[:40], drifted[:20]):
        assert secret not in everything, everything[everything.index(secret) - 200 :][:400]
    assert "(hidden" in branch
