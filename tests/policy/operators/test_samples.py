"""The operators' own samples, judged: what is wrong with each is written down here, all others are fine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.model.identity import GroupVersionKind
from gitops.policy.operator_rules import manifest_problems
from gitops.policy.registry import OperatorRegistry

REGISTRY = OperatorRegistry.shipped()

TAG = {"runtime-version"}
"""A placeholder for the tag of an image: whoever uses the sample has to write one."""
ONCE = {"GO4525"}

DYNAMO: dict[str, set[str]] = {
    "deploy__operator__config__samples__nvidia.com_v1alpha1_dynamographdeployment.yaml": {"services-present"},
    "dgdr__deployment__input.yaml": ONCE,
    "dgdr__grove__input.yaml": ONCE,
    "dgdr__lws__input.yaml": ONCE,
    "examples__backends__mocker__deploy__agg.yaml": TAG,
    "examples__backends__sglang__deploy__agg.yaml": TAG,
    "examples__backends__sglang__deploy__disagg-multinode.yaml": TAG,
    "examples__backends__trtllm__deploy__agg-with-config.yaml": TAG,
    "examples__backends__trtllm__deploy__snapshot-restore.yaml": TAG,
    "examples__backends__vllm__deploy__agg.yaml": TAG,
    "examples__backends__vllm__deploy__disagg-multinode.yaml": TAG,
    "examples__backends__vllm__deploy__disagg.yaml": TAG,
    "examples__backends__vllm__deploy__disagg_router.yaml": TAG,
    "examples__backends__vllm__deploy__gaie__disagg.yaml": TAG,
    "examples__deployments__dgdr__generated-dgd-override.yaml": ONCE,
    "examples__deployments__dgdr__mocker.yaml": ONCE,
    "examples__deployments__dgdr__model-cache.yaml": ONCE,
    "examples__deployments__dgdr__planner.yaml": ONCE,
    "examples__deployments__dgdr__profiling-artifacts.yaml": ONCE,
    "examples__deployments__dgdr__rapid.yaml": ONCE,
    "examples__deployments__dgdr__review-before-deploy.yaml": ONCE,
    "examples__deployments__dgdr__thorough.yaml": ONCE,
    "recipes__deepseek-v4__deepseek-v4-pro__vllm__disagg__gb200__deploy.yaml": {"names-of-scaling-groups-v1alpha1"},
    "recipes__gpt-oss-120b__trtllm__disagg__deploy.yaml": {"dynamo-namespace-ignored"},
}
NIM: dict[str, set[str]] = {
    "nim__serving__standalone__full__llm.yaml": {"ingress-is-deprecated"},
    "nim__serving__standalone__full__multi-llm.yaml": {"ingress-is-deprecated"},
}


def pruned(value: Any) -> Any:
    """Without nulls, as an API server reads it."""
    if isinstance(value, dict):
        return {key: pruned(child) for key, child in value.items() if child is not None}
    return [pruned(item) for item in value] if isinstance(value, list) else value


def told(file: Path) -> set[str]:
    found = set()
    for body in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
        if not isinstance(body, dict) or "kind" not in body:
            continue
        gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
        rules = [r for r in REGISTRY.rules_of(gvk.group_kind).rules if not r.versions or gvk.version in r.versions]
        for code, message, _ in manifest_problems(REGISTRY, gvk.group_kind, pruned(body)):
            found.add(next((rule.id for rule in rules if rule.message in message), code))
    return found


@pytest.mark.upstream
@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (("upstream/dynamo/manifests/*.yaml", "upstream/dynamo/golden/dgd*input.yaml"), DYNAMO),
        (("upstream/nim/samples/*.y*ml",), NIM),
    ],
    ids=["dynamo", "nim"],
)
def test_samples_of_the_operators(shared, folders, expected):
    files = [file for folder in folders for file in sorted(shared.glob(folder))]
    assert len(files) > 30
    assert {file.name: found for file in files if (found := told(file))} == expected
