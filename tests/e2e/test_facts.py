"""What clusters tell of themselves, from the watch of a definition to the units and the status branch."""

from __future__ import annotations

from typing import Any

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, bundle, one_bundle, until

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

UNIT = "bundle/widgets@one"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org"
INDEX = "schemas/one/index.yaml"
SCHEMA = "schemas/one/example.org/v1/Widget.json"


def definition(maximum: int) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "maximum": maximum}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def files(namespace: str, size: int) -> dict[str, str]:
    widget = f"apiVersion: example.org/v1\nkind: Widget\nmetadata: {{name: w, namespace: {namespace}}}\n"
    return one_bundle(namespace) | {
        "bundles/widgets/bundle.yaml": bundle("widgets"),
        "bundles/widgets/manifests/widget.yaml": f"{widget}spec:\n  size: {size}\n",
    }


def size(plane: ControlPlane, namespace: str) -> int:
    return int(plane.get(f"/apis/example.org/v1/namespaces/{namespace}/widgets/w")["spec"]["size"])


def codes(running: Any) -> set[str]:
    return {finding.code for finding in running.engine.findings}


async def test_a_manifest_that_the_cluster_would_refuse_is_never_sent(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_crd_objects([definition(5)])
    repo.commit(files("t-refused", 3), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(SCHEMA), "the schema on the status branch")
    assert "Widget" in running.status(INDEX)["served"]["example.org/v1"]["namespaced"]
    running.clear()
    running.push(files("t-refused", 9), "too large")
    await until(lambda: "GO4505" in codes(running), "the finding")
    await until(lambda: "held" in (running.status("status/bundles/widgets.yaml") or {}), "the status to tell it")
    assert running.writes("one") == []
    assert size(plane, "t-refused") == 3
    commit = running.push(files("t-refused", 4), "smaller")
    await running.settled(commit)
    assert size(plane, "t-refused") == 4


async def test_a_definition_that_changes_is_noticed_and_undoes_nothing_that_runs(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_crd_objects([definition(5)])
    repo.commit(files("t-moved", 3), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    commit = running.push(files("t-moved", 4), "second")
    await running.settled(commit)
    running.clear()
    plane.create_crd_objects([definition(2)])
    await until(lambda: "GO4505" in codes(running), "the finding")
    await until(lambda: not running.engine.looking, "the compile to be assigned")
    assert running.writes("one") == []
    assert size(plane, "t-moved") == 4, "what runs is neither rolled back nor removed"
    plane.create_crd_objects([definition(9)])
    await until(lambda: "GO4505" not in codes(running), "the finding to go")
    assert running.writes("one") == []
    assert size(plane, "t-moved") == 4


async def test_at_the_start_each_document_is_read_once(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_crd_objects([definition(5)])
    repo.commit(files("t-again", 3), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    await until(lambda: running.status(SCHEMA), "the schema on the status branch")
    wanted = ("/openapi/v3", DEFINITION)
    reads = [call.path for call in running.calls("one") if call.path.startswith(wanted)]
    assert {"/openapi/v3", "/openapi/v3/api/v1", DEFINITION} <= set(reads)
    assert len(reads) == len(set(reads))
