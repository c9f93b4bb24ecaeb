"""`gitops apply --once`, `plan` and `status` against a real cluster, in the order people use them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gitops.sim import CRDS

ECHO = "/apis/apps/v1/namespaces/platform/deployments/echo"
CONFIG = "/api/v1/namespaces/platform/configmaps/echo-page"


@pytest.fixture
def fleet(private_api: Any, template: Path, tmp_path: Path) -> tuple[Any, list[object]]:
    """A cluster of its own under the name dgx-a, and the arguments that lead to it. dgx-b leaves the repository."""
    plane = private_api()
    plane.create_crds(CRDS)
    (template / "clusters/dgx-b.yaml").unlink()
    deployment = template / "functions/llama-chat/deployment.yaml"
    deployment.write_text(deployment.read_text().partition("  # On one cluster only")[0])
    credentials = tmp_path / "clusters"
    credentials.mkdir()
    shutil.copyfile(plane.kubeconfig, credentials / "dgx-a.yaml")
    return plane, ["--path", template, "--credentials-dir", credentials, "--state-dir", tmp_path / "state"]


def changes(body: dict[str, Any]) -> dict[str, str]:
    return {o["object"]: o["change"] for unit in body["units"].values() for o in unit["objects"]}


def test_plan_apply_plan_status(gitops: Any, template: Path, fleet: tuple[Any, list[object]]) -> None:
    plane, arguments = fleet
    plan = ["plan", template, *arguments[2:4]]

    before = gitops(*plan, "-f", "json", "--exit-code")
    assert before.code == 3
    assert set(changes(json.loads(before.out)).values()) == {"create"}
    assert plane.get("/api/v1/namespaces/platform") is None, "a plan changes nothing"

    applied = gitops("apply", "--once", *arguments, "-f", "json")
    report = json.loads(applied.out)
    assert applied.code == 0, report
    assert {u["state"] for u in report["units"].values()} == {"Synced"}
    assert plane.get(CONFIG)["metadata"]["labels"]["gitops/reconciler"] == "demo"

    after = gitops(*plan, "-f", "json", "--exit-code")
    assert after.code == 0
    assert set(changes(json.loads(after.out)).values()) == {"unchanged"}

    merge = {"content_type": "application/merge-patch+json"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "echo"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "echo"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9},
    }
    plane.request("POST", "/apis/autoscaling/v2/namespaces/platform/horizontalpodautoscalers", scaler)
    scaled = {"spec": {"replicas": 7}}
    plane.request("PATCH", f"{ECHO}/scale", scaled, query={"fieldManager": "kube-controller-manager"}, **merge)
    handed = gitops(*plan, "-f", "json", "--exit-code")
    assert (handed.code, set(changes(json.loads(handed.out)).values())) == (0, {"unchanged"})

    edit = {"data": {"index.html": "edited"}}
    query = {"fieldManager": "somebody"}
    plane.request("PATCH", CONFIG, edit, content_type="application/merge-patch+json", query=query)
    (template / "functions/embed/function.yaml").unlink()
    for file in sorted((template / "functions/embed").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (template / "functions/embed").rmdir()
    drifted = gitops(*plan)
    assert drifted.code == 0
    assert "~ ConfigMap platform/echo-page" in drifted.out
    assert "(by somebody)" in drifted.out
    assert "- NIMService.apps.nvidia.com" in drifted.out
    assert "· NIMCache.apps.nvidia.com fn-embed-h100-0/embed-cache  it holds data" in drifted.out
    assert "· Namespace fn-embed-h100-0" in drifted.out, "what is kept in it keeps it"
    assert "1 to change, 5 to delete, 2 kept" in drifted.out
    assert plane.get(CONFIG)["data"]["index.html"] == "edited"

    release = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "platform"}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "annotations": release}}
    plane.request("POST", "/api/v1/namespaces/platform/configmaps", theirs | {"data": {"a": "1"}})
    theirs["metadata"] = {"name": "theirs", "namespace": "platform"}
    bundle = template / "bundles/platform-base/bundle.yaml"
    (bundle.parent / "manifests/theirs.yaml").write_text(json.dumps(theirs | {"data": {"a": "2"}}))
    refused = " ".join(gitops(*plan).out.split())
    assert "! ConfigMap platform/theirs bundles/platform-base/manifests/theirs.yaml:1 it exists" in refused
    assert "the Helm release web declares it; `adoptFrom: [helm]` would take it over" in refused
    assert "1 to change, 5 to delete, 2 kept, 1 refused" in refused
    bundle.write_text(bundle.read_text() + "  adoptFrom: [helm]\n")
    allowed = " ".join(gitops(*plan).out.split())
    assert "~ ConfigMap platform/theirs" in allowed
    assert "data.a: 1 → 2" in allowed

    plane.kubectl("label", "-n", "platform", "configmap/echo-page", "team=ml")
    plane.kubectl("delete", "-n", "platform", "service", "echo")
    asked = gitops("drift", "--live", template, *arguments[2:4], "-f", "json")
    live = json.loads(asked.out)
    told = {(r["object"], r.get("path", r["kind"])): r["by"] for r in live["records"]}
    assert told == {
        ("ConfigMap platform/echo-page", 'data["index.html"]'): "somebody (Update)",
        ("Service platform/echo", "deleted"): "unknown",
    }, "what Git dropped or never applied is no drift"
    assert [(a["object"], a["path"], a["manager"]) for a in live["additions"]] == [
        ("ConfigMap platform/echo-page", "metadata.labels.team", "kubectl-label")
    ]
    assert asked.code == 3

    status = gitops("status", "--path", template, "--state-dir", arguments[5], "--units")
    assert "llama-chat" in status.out
    assert "function/llama-chat/h100-0@dgx-a" in status.out
    assert status.code == 4, "nothing plays the operators, so nothing is ready"
    only = json.loads(gitops("status", "embed", "--path", template, "--state-dir", arguments[5], "-f", "json").out)
    assert {body["kind"] for body in only.values()} == {"FunctionStatus", "UnitStatus"}


def test_r05_r11_a_renamed_function_and_a_blown_fuse_are_told_before_anything_is_done(
    gitops: Any, template: Path, fleet: tuple[Any, list[object]]
) -> None:
    plane, arguments = fleet
    assert gitops("apply", "--once", *arguments).code == 0
    old, new = template / "functions/embed", template / "functions/embed-two"
    old.rename(new)
    for file in ("function.yaml", "deployment.yaml"):
        (new / file).write_text((new / file).read_text().replace("name: embed\n", "name: embed-two\n"))
    plan = ["plan", template, *arguments[2:4], "--set", "fuse.count=5"]
    told = json.loads(gitops(*plan, "-f", "json").out)
    (warning,) = told["warnings"]
    cache = "NIMCache.apps.nvidia.com fn-embed-h100-0/embed-cache (the downloaded model"
    assert warning.startswith(
        "function/embed/h100-0@dgx-a is deleted and made anew as function/embed-two/h100-0@dgx-a; "
        f"data left behind until somebody consents to its deletion: {cache}"
    )
    fuse = told["units"]["function/embed/h100-0@dgx-a"]["fuse"]
    assert "objects on this cluster, more than 5; a commit with the trailer `Gitops-Allow-Prune: function/embed" in fuse
    # with consent on it, the data goes, and that is the first thing to be read
    cache_path = "/apis/apps.nvidia.com/v1alpha1/namespaces/fn-embed-h100-0/nimcaches/embed-cache"
    consent = {"metadata": {"annotations": {"gitops/allow-delete": "true"}}}
    plane.request("PATCH", cache_path, consent, content_type="application/merge-patch+json")
    said = " ".join(gitops(*plan).out.split())
    assert said.startswith("function/embed/h100-0@dgx-a is deleted and made anew as function/embed-two/h100-0@dgx-a")
    assert f"data lost: {cache}" in said
    assert "fuse: the commit would delete" in said


def test_apply_says_which_cluster_could_not_be_reached(
    gitops: Any, template: Path, fleet: tuple[Any, list[object]]
) -> None:
    plane, arguments = fleet
    plane.kill_apiserver()
    result = gitops("apply", "--once", *arguments)
    assert result.code == 4
    assert "cluster dgx-a: unreachable" in result.out


def test_apply_with_errors_still_applies_the_rest(gitops: Any, template: Path, fleet: tuple[Any, list[object]]) -> None:
    plane, arguments = fleet
    file = template / "functions/embed/deployment.yaml"
    file.write_text(file.read_text().replace("minInstances: 1", "minInstances: one"))
    result = gitops("apply", "--once", *arguments)
    assert result.code == 1
    assert "functions/embed/deployment.yaml" in result.out
    assert plane.get(CONFIG) is not None


def test_n06_what_a_live_object_does_not_take_is_told_before_it_is_sent(
    gitops: Any, template: Path, fleet: tuple[Any, list[object]]
) -> None:
    _, arguments = fleet
    assert gitops("apply", "--once", *arguments).code == 0
    file = "functions/embed/manifests/cache.yaml"
    text = (template / file).read_text()
    (template / file).write_text(text.replace("modelPuller: nvcr.io", "modelPuller: other.example"))
    line = next(n for n, written in enumerate(text.splitlines(), 1) if "modelPuller" in written)
    plan = gitops("plan", template, *arguments[2:4], "-f", "json")
    found = [f for f in json.loads(plan.out)["findings"] if f["severity"] == "error"]
    assert plan.code == 1
    assert [(f["code"], f["file"], f["line"]) for f in found] == [("GO4527", file, line)]
    assert "it needs a new object name" in found[0]["message"]


def test_what_a_schema_says_of_changes_is_told_before_they_are_sent(
    gitops: Any, template: Path, fleet: tuple[Any, list[object]]
) -> None:
    plane, arguments = fleet
    kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nimservices.apps.nvidia.com"
    definition = plane.get(kind)
    service = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    service.setdefault("x-kubernetes-validations", []).append(
        {"rule": "self.image.tag == oldSelf.image.tag", "message": "the tag stays"}
    )
    plane.request("PUT", kind, definition)
    assert gitops("apply", "--once", *arguments).code == 0
    file = "functions/embed/manifests/service.yaml"
    text = (template / file).read_text()
    (template / file).write_text(text.replace('tag: "1.6.0"', 'tag: "1.6.1"').replace("cpu: 4", "cpu: 5"))
    plan = gitops("plan", template, *arguments[2:4], "-f", "json")
    found = [f for f in json.loads(plan.out)["findings"] if f["severity"] == "error"]
    assert plan.code == 1
    assert [(f["code"], f["file"]) for f in found] == [("GO4528", file)]
    assert "the tag stays" in found[0]["message"]
