"""`gitops explain` on the example repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SETTINGS = "functions/llama-chat/manifests/settings.yaml"
GRAPH = "DynamoGraphDeployment.nvidia.com/llama-chat"


def test_a_field_with_what_it_overrode(gitops: Any, template: Path) -> None:
    result = gitops("explain", template, "ConfigMap/llama-chat-settings", "data.LOG_LEVEL", "--cluster", "dgx-b")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[1] == "in function/llama-chat/h100-1@dgx-b"
    assert lines[2].startswith('  data.LOG_LEVEL: "debug"  functions/llama-chat/deployment.yaml:')
    assert lines[3].endswith(" LOG_LEVEL: debug")
    assert lines[4].startswith(f'    before: "info"  {SETTINGS}:')


def test_units_that_are_the_same_are_told_once(gitops: Any, template: Path) -> None:
    result = gitops("explain", template, "Deployment.apps/platform/echo", "spec.replicas")
    assert result.code == 0
    assert result.out.splitlines()[1] == "in bundle/platform-base@dgx-a, bundle/platform-base@dgx-b"
    both = gitops("explain", template, "ConfigMap/llama-chat-settings", "data.LOG_LEVEL")
    assert both.out.count("ConfigMap/llama-chat-settings") == 2


def test_what_differs_in_units_that_are_the_same_is_not_told_of_all(gitops: Any, template: Path) -> None:
    result = gitops("explain", template, GRAPH, "metadata")
    assert "h100-0@dgx-a, function/llama-chat/h100-1@dgx-b" in result.out
    assert 'metadata.namespace: "(another in each of these units)"' in result.out
    assert 'metadata.labels.gitops/reconciler: "demo"' in result.out
    assert "fn-llama-chat" not in result.out


def test_json(gitops: Any, template: Path) -> None:
    result = gitops("explain", template, GRAPH, "spec.components[name=decode].replicas", "-f", "json")
    (group,) = json.loads(result.out)
    (field,) = group["fields"]
    assert (field["value"], field["removed"], [b["value"] for b in field["before"]]) == (2, False, [1])
    source = (template / field["file"]).read_text().splitlines()[field["line"] - 1]
    assert "2" in source


def test_a_task_is_explained_too(gitops: Any, template: Path) -> None:
    result = gitops("explain", template, "NIMCache.apps.nvidia.com/rerank-cache", "spec.storage.pvc.size")
    assert result.code == 0
    assert "tasks/warm-cache/manifests/cache.yaml:" in result.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["echo"], "write Kind.group/name"),
        (["Service/a/b/c"], "write Kind.group/name"),
        (["Service/ech"], "no unit has Service/ech; there is Service/echo"),
        (["Service/echo", "spec.nothing"], "has no field spec.nothing"),
        (["Service/echo", "spec.ports[name=x]"], "no item has name=x"),
        (["Service/echo", "--cluster", "none"], "Service/echo is on dgx-a, dgx-b, not on none"),
    ],
)
def test_mistakes(gitops: Any, template: Path, arguments: list[str], words: str) -> None:
    result = gitops("explain", template, *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_an_object_of_a_workload_with_errors(gitops: Any, template: Path) -> None:
    file = template / "functions/llama-chat/deployment.yaml"
    file.write_text(file.read_text().replace("minInstances: 2", "minInstances: two"))
    result = gitops("explain", template, GRAPH)
    assert result.code == 1
    assert "GO2004" in result.out


def test_a_misspelled_object_is_guessed_beside_errors_of_others(gitops: Any, template: Path) -> None:
    (template / "tasks" / "warm-cache" / "task.yaml").write_text("a: [")
    result = gitops("explain", template, "Service/ech")
    assert result.code == 1
    assert "no unit without errors has Service/ech; there is Service/echo" in result.err


def test_a_credential_is_not_shown(gitops: Any, template: Path) -> None:
    token = "nvapi-" + "k" * 60
    file = template / SETTINGS
    text = file.read_text().replace("LOG_LEVEL: info", f"LOG_LEVEL: {token}")
    file.write_text(text.replace("  name:", "  annotations: {gitops/allow-credential-like: 'true'}\n  name:"))
    result = gitops("explain", template, "ConfigMap/llama-chat-settings", "data.LOG_LEVEL")
    assert result.code == 0
    assert "(a credential)" in result.out
    assert token not in result.out
