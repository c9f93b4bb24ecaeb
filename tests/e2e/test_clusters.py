"""Clusters come, go, and change: what their documents and credentials mean for what is on them."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.fixtures import StartFleet, bundle, cluster, config_map, one_bundle, until

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]


def settings(plane: ControlPlane, namespace: str) -> Any:
    return plane.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")


async def test_a_cluster_that_leaves_git_is_released_and_its_objects_stay(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-released"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    uid = settings(plane, "t-released")["metadata"]["uid"]
    running.push({"clusters/one.yaml": None, "clusters/two.yaml": cluster("two")}, "the cluster leaves")
    await until(lambda: "one" not in running.engine.workers, "the cluster to be let go")

    def unmarked() -> bool:
        metadata = settings(plane, "t-released")["metadata"]
        return "labels" not in metadata and "gitops/source" not in metadata.get("annotations", {})

    await until(unmarked, "our marks to be gone")
    assert settings(plane, "t-released")["metadata"]["uid"] == uid
    assert [w for w in running.writes("one") if w.method == "DELETE" and "configmaps/settings" in w.path] == []
    parents = "/api/v1/namespaces/gitops-system/configmaps"

    def parents_left() -> list[str]:
        items = plane.get(parents)["items"]
        return [i["metadata"]["name"] for i in items if i["metadata"]["name"].startswith("bundle-")]

    await until(lambda: not parents_left(), "the parents to be gone")


async def test_a_cluster_added_later_gets_what_is_declared_for_it(
    fleet: StartFleet, repo: Repository, plane: ControlPlane, planes: Any
) -> None:
    other = planes("other")
    repo.commit(one_bundle("t-added"), "first")
    running = await fleet(repo, {"one": plane, "later": other})
    await running.settled()
    assert settings(other, "t-added") is None
    commit = running.push({"clusters/later.yaml": cluster("later")}, "another cluster")
    await running.settled(commit)
    assert settings(other, "t-added")["data"] == {"key": "1"}


async def test_a_paused_cluster_is_not_written_and_says_what_would_be_done(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-paused"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    running.clear()
    change = {"clusters/one.yaml": cluster("one", mode="paused"), **one_bundle("t-paused", "2")}
    change["clusters/one.yaml"] = cluster("one", mode="paused")
    running.push(change, "pause, and a change")
    await until(lambda: running.outcome("bundle/base@one").state == "Paused", "the unit to be paused")
    assert running.outcome("bundle/base@one").previews == ("changed ConfigMap t-paused/settings",)
    assert running.writes("one") == []
    files = one_bundle("t-paused", "2")
    gone: dict[str, str | None] = {path: None for path in files if path.startswith("bundles/")}
    running.push({**gone, "gitops.yaml": files["gitops.yaml"] + "spec:\n  allowEmpty: true\n"}, "drop the bundle")
    await until(lambda: "left Git" in running.outcome("bundle/base@one").sentence, "the removal to be held back")
    assert running.writes("one") == []
    running.push(files, "go on, with the bundle")
    await until(lambda: settings(plane, "t-paused")["data"] == {"key": "2"}, "the change")


async def test_credentials_that_appear_or_change_are_used_without_a_restart(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    repo.commit(one_bundle("t-credentials"), "first")
    running = await fleet(repo, {"one": plane})
    await running.settled()
    folder = running.credentials
    shutil.move(folder / "one", folder / "elsewhere")
    commit = running.push(one_bundle("t-credentials", "2"), "without credentials")
    await running.settled(commit)
    assert settings(plane, "t-credentials")["data"] == {"key": "2"}, "a file that is gone ends nothing that works"
    (folder / "one").write_bytes(plane.kubeconfig.read_bytes())  # around the proxy: other credentials
    running.clear()
    running.engine.credentials_changed()
    commit = running.push(one_bundle("t-credentials", "3"), "with other credentials")
    await running.settled(commit)
    await until(lambda: (settings(plane, "t-credentials")["data"]) == {"key": "3"}, "the change by the new credentials")


async def test_adopt_never_leaves_objects_made_by_other_means_alone(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    plane.create_namespace("t-adopt")
    plane.kubectl("apply", "-f", "-", stdin=config_map("settings", "t-adopt", key="theirs"))
    files = one_bundle("t-adopt")
    files["gitops.yaml"] += "spec:\n  adopt: never\n"
    repo.commit(files, "first")
    running = await fleet(repo, {"one": plane})
    await until(lambda: running.outcome("bundle/base@one").state == "Refused", "the refusal")
    assert "adopt: never" in running.outcome("bundle/base@one").sentence
    assert settings(plane, "t-adopt")["data"] == {"key": "theirs"}
    commit = running.push(one_bundle("t-adopt"), "adopt after all")
    await running.settled(commit)
    assert settings(plane, "t-adopt")["data"] == {"key": "1"}
    assert "adopted" in running.outcome("bundle/base@one").sentence


async def test_a_kind_that_comes_later_is_applied_when_it_comes(
    fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    """Cases O02: everything else is applied, and no call is made while waiting for the definition."""
    widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata:\n  name: w\n  namespace: t-later\nspec:\n  size: 1\n"
    files = one_bundle("t-later") | {
        "bundles/widgets/bundle.yaml": bundle("widgets"),
        "bundles/widgets/manifests/widget.yaml": widget,
    }
    repo.commit(files, "first")
    running = await fleet(repo, {"one": plane})
    await until(lambda: running.outcome("bundle/widgets@one").state == "Waiting", "the unit to wait")
    await until(lambda: settings(plane, "t-later"), "the other bundle")
    assert "Widget" in running.outcome("bundle/widgets@one").sentence
    plane.create_crd_objects(
        [
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.org"},
                "spec": {
                    "group": "example.org",
                    "scope": "Namespaced",
                    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {
                                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
                                    },
                                }
                            },
                        }
                    ],
                },
            }
        ]
    )
    await running.settled()
    found = plane.get("/apis/example.org/v1/namespaces/t-later/widgets/w")
    assert found["spec"] == {"size": 1}
