"""repo-template/: compiles without a word, and a real API server with the operators' CRDs accepts every object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitops.plan.units import Stage

TEMPLATE = Path(__file__).resolve().parents[2] / "repo-template"


@pytest.fixture
def template(compiler, tree_of):
    files = {str(p.relative_to(TEMPLATE)): p.read_bytes() for p in TEMPLATE.rglob("*") if p.is_file()}
    return compiler.compile(tree_of(files))


def test_template_compiles_and_only_says_what_this_version_does_not_use_yet(template):
    told = {(f.code, str(f.severity), f.origin.file) for f in template.findings}
    assert told == {
        ("GO2011", "info", "tasks/warm-cache/task.yaml"),
        ("GO2012", "info", "policies/status/queues.yaml"),
    }
    assert template.complete
    assert template.held == template.left_alone
    assert {u.key.workload.name for u in template.units.values()} == {"llama-chat", "embed", "platform-base"}
    assert {k.cluster for k in template.units} == {"dgx-a", "dgx-b"}


def test_template_merges_its_overlays(template):
    units = {str(k): u for k, u in template.units.items()}
    levels = {}
    for index, cluster in ((0, "dgx-a"), (1, "dgx-b")):
        objects = {o.ref.kind: o.body for o in units[f"function/llama-chat/h100-{index}@{cluster}"].objects}
        worker = objects["DynamoGraphDeployment"]["spec"]["components"][1]
        assert worker["replicas"] == 2
        limits = worker["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {"nvidia.com/gpu": "2"}
        levels[cluster] = objects["ConfigMap"]["data"]["LOG_LEVEL"]
    assert levels == {"dgx-a": "info", "dgx-b": "debug"}


def test_template_applies_the_cache_first_with_canonical_quantities(template):
    unit = next(u for u in template.units.values() if u.key.name == "embed")
    assert [(o.ref.kind, o.stage) for o in unit.objects] == [
        ("Namespace", Stage.NAMESPACE),
        ("NIMCache", Stage.CUSTOM_EARLY),
        ("NIMService", Stage.CUSTOM),
    ]
    cache, service = (o.body["spec"] for o in unit.objects[-2:])
    assert service["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "16Gi"}}
    assert cache["resources"] == {"cpu": "2", "memory": "8Gi"}
    assert unit.objects[-2].component == unit.objects[-1].component


def test_template_fills_namespaces_as_the_cluster_says(template):
    made = {
        unit.key.cluster: {o.ref.kind for o in unit.objects if o.origin.file.startswith("clusters/")}
        for unit in template.units.values()
        if unit.key.name == "llama-chat"
    }
    assert made == {"dgx-a": {"LimitRange", "NetworkPolicy", "ResourceQuota", "ServiceAccount"}, "dgx-b": set()}


@pytest.mark.controlplane
@pytest.mark.upstream
def test_template_is_accepted_by_a_real_api_server(template, private_api, shared):
    api = private_api()
    api.create_crds(
        *sorted(shared.glob("upstream/dynamo/crds/*.yaml")), *sorted(shared.glob("upstream/nim/crds/*.yaml"))
    )
    plurals = {"DynamoGraphDeployment": "dynamographdeployments", "NIMCache": "nimcaches", "NIMService": "nimservices"}
    plurals |= {"NetworkPolicy": "networkpolicies"}
    for unit in template.units.values():
        for item in unit.objects:
            prefix = f"/apis/{item.gvk.api_version}" if item.gvk.group else f"/api/{item.gvk.version}"
            place = f"/namespaces/{item.ref.namespace}" if item.ref.namespace else ""
            plural = plurals.get(item.ref.kind, f"{item.ref.kind.lower()}s")
            answer = api.request(
                "PATCH",
                f"{prefix}{place}/{plural}/{item.ref.name}?fieldManager=gitops-demo&fieldValidation=Strict&force=true",
                json.loads(item.payload),
                content_type="application/apply-patch+yaml",
            )
            assert answer["metadata"]["name"] == item.ref.name
