"""`gitops validate --base` and `gitops plan --base`: what a change asks of objects that live."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pygit2
import pytest

CACHE = "functions/embed/manifests/cache.yaml"
GRAPH = "functions/llama-chat/manifests/graph.yaml"


@pytest.fixture
def committed(template: Path) -> Path:
    """The example repository with its state on the branch main."""
    repo = pygit2.init_repository(str(template), initial_head="main")
    repo.index.add_all()
    author = pygit2.Signature("a", "a@example.com", 0)
    repo.create_commit("HEAD", author, author, "first", repo.index.write_tree(), [])
    return template


def edit(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def errors(gitops: Any, command: str, folder: Path) -> tuple[int, list[tuple[str, str, int]]]:
    result = gitops(command, folder, "--base", "main", "--format", "json")
    body = json.loads(result.out)
    found = [(f["code"], f["file"], f["line"]) for f in body["findings"] if f["severity"] != "info"]
    return result.code, found


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_n06_a_change_of_the_puller_is_an_error_at_its_line(gitops: Any, committed: Path, command: str) -> None:
    assert errors(gitops, command, committed) == (0, [])
    edit(committed, CACHE, "modelPuller: nvcr.io/nim/nvidia/llama-3.2-nv-embedqa-1b-v2:1.6.0", "modelPuller: other:1")
    line = next(n for n, text in enumerate((committed / CACHE).read_text().splitlines(), 1) if "other:1" in text)
    edit(committed, "functions/embed/function.yaml", 'version: "1', 'version: "2')
    assert errors(gitops, command, committed) == (1, [("GO4527", CACHE, line)])


SERVICE = "functions/embed/manifests/service.yaml"
TRANSITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nimservices.apps.nvidia.com}
spec:
  group: apps.nvidia.com
  names: {kind: NIMService, plural: nimservices}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-preserve-unknown-fields: true
              properties:
                expose:
                  type: object
                  properties:
                    service:
                      type: object
                      properties: {port: {type: integer}, type: {type: string}}
                      x-kubernetes-validations:
                        - {rule: "self.port == oldSelf.port", message: port stays}
                        - {rule: "self.port > 0", message: a port is positive}
                        - {rule: "has(self.type) || !has(oldSelf.type)", message: type stays}
"""


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_transition_rules_of_schemas_hold_for_what_changes(gitops: Any, committed: Path, command: str) -> None:
    (committed / ".gitops/schemas").mkdir(parents=True)
    (committed / ".gitops/schemas/services.yaml").write_text(TRANSITION)
    assert errors(gitops, command, committed) == (0, [])
    edit(committed, "functions/embed/function.yaml", 'version: "1', 'version: "2')
    edit(committed, SERVICE, "port: 8000", "port: 8001")
    line = next(n for n, text in enumerate((committed / SERVICE).read_text().splitlines(), 1) if "service:" in text)
    assert errors(gitops, command, committed) == (1, [("GO4528", SERVICE, line)])
    edit(committed, SERVICE, "port: 8001", "port: 8000")
    edit(committed, SERVICE, "      type: ClusterIP\n", "")
    assert errors(gitops, command, committed) == (1, [("GO4528", SERVICE, line)]), "what a declaration drops goes"
    edit(committed, SERVICE, "port: 8000", "port: 0")
    code, found = errors(gitops, command, committed)
    assert (code, sorted(set(found))) == (1, [("GO4505", SERVICE, line), ("GO4528", SERVICE, line)])


def test_a_base_that_changes_under_its_version_is_told(gitops: Any, committed: Path) -> None:
    edit(committed, GRAPH, "dynamo-planner:1.5.0", "dynamo-planner:1.5.1")
    assert errors(gitops, "validate", committed) == (0, [("GO4530", GRAPH, 3)])
    edit(committed, "functions/llama-chat/function.yaml", 'version: "1', 'version: "2')
    assert errors(gitops, "validate", committed) == (0, [])


def test_a_component_less_needs_a_new_graph(gitops: Any, committed: Path) -> None:
    text = (committed / GRAPH).read_text()
    start, end = text.index("    - name: Frontend"), text.index("    - name: decode")
    (committed / GRAPH).write_text(text[:start] + text[end:])
    edit(committed, "functions/llama-chat/function.yaml", 'version: "1', 'version: "2')
    deployment = (
        (committed / "functions/llama-chat/deployment.yaml").read_text().replace("components/1", "components/0")
    )
    (committed / "functions/llama-chat/deployment.yaml").write_text(deployment)
    code, found = errors(gitops, "validate", committed)
    assert (code, {f[0] for f in found}) == (1, {"GO4527"})


def test_a_revision_that_is_not_there_is_a_usage_error(gitops: Any, committed: Path) -> None:
    result = gitops("validate", committed, "--base", "nowhere")
    assert (result.code, result.err) == (2, "gitops: there is no revision nowhere\n")
    shutil.rmtree(committed / ".git")
    assert gitops("validate", committed, "--base", "main").code == 2
