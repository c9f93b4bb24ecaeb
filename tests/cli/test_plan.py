"""`gitops plan` without clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_units_and_objects_per_cluster(gitops: Any, template: Path) -> None:
    result = gitops("plan", template)
    assert result.code == 0
    out = result.out
    assert out.index("dgx-a  (2 units)") < out.index("dgx-b  (3 units)")
    assert "function/llama-chat/h100-0@dgx-a  in fn-llama-chat-h100-0" in out
    assert "DynamoGraphDeployment.nvidia.com fn-llama-chat-h100-0/llama-chat  functions/llama-chat/manifests/" in out
    assert out.index("NIMCache.apps") < out.index("NIMService.apps")


def test_one_cluster_only(gitops: Any, template: Path) -> None:
    out = gitops("plan", template, "--cluster", "dgx-b").out
    assert "dgx-b  (3 units)" in out
    assert "dgx-a  (" not in out
    assert "@dgx-a" not in out
    units = json.loads(gitops("plan", template, "--cluster", "dgx-b", "-f", "json").out)["units"]
    assert len(units) == 3
    assert {u["cluster"] for u in units.values()} == {"dgx-b"}


def test_cluster_that_the_repository_lacks_is_a_usage_error(gitops: Any, template: Path) -> None:
    result = gitops("plan", template, "--cluster", "dgx-z")
    assert (result.code, result.err) == (2, "gitops: the repository has no cluster dgx-z\n")


def test_workload_with_errors_is_held_and_the_others_are_shown(gitops: Any, template: Path) -> None:
    file = template / "functions/llama-chat/deployment.yaml"
    file.write_text(file.read_text().replace("minInstances: 2", "minInstances: two"))
    result = gitops("plan", template)
    assert result.code == 1
    assert "function/llama-chat has errors: what runs stays at its last good commit" in result.out
    assert "function/embed/h100-0@" in result.out
    body = json.loads(gitops("plan", template, "--format", "json").out)
    assert body["held"] == ["function/llama-chat"]


def test_clusters_without_credentials_cannot_be_asked(gitops: Any, template: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    result = gitops("plan", template, "--credentials-dir", tmp_path / "none")
    assert result.code == 4
    assert "cannot be asked" in result.out
    body = json.loads(gitops("plan", template, "--credentials-dir", tmp_path / "none", "-f", "json").out)
    assert set(body["unreachable"]) == {"dgx-a", "dgx-b"}
    one = gitops("plan", template, "--credentials-dir", tmp_path / "none", "--cluster", "dgx-a").out
    assert one.count("cannot be asked") == 2, "also the one that was not asked for: it changes the placement"


def test_every_cluster_says_why_it_was_chosen_or_not(gitops: Any, template: Path) -> None:
    deployment = template / "functions/llama-chat/deployment.yaml"
    deployment.write_text(
        deployment.read_text().replace("minInstances: 2", "minInstances: 1\n      regions: [us-east]")
    )
    out = gitops("plan", template).out
    assert out.index("placement") < out.index("dgx-a  (")
    part = out[out.index("function/llama-chat h100  1 of 1 instance") : out.index("task/warm-cache  ")]
    assert "dgx-a  no: its region is eu-north" in part
    assert "dgx-b  #0 new" in part
    assert "bundle/platform-base" not in out[out.index("placement") : out.index("dgx-a  (")]
    body = json.loads(gitops("plan", template, "-f", "json", "--cluster", "dgx-a").out)
    chosen = {p["workload"]: p["clusters"] for p in body["placement"]}
    assert chosen["function/llama-chat"] == {
        "dgx-a": {"live": [], "new": [], "leaving": [], "fits": False, "reasons": ["its region is eu-north"]}
    }
    assert chosen["bundle/platform-base"]["dgx-a"]["new"] == [0]


def test_what_may_live_on_a_cluster_that_cannot_be_asked_is_not_placed_elsewhere(
    gitops: Any, template: Path, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    body = json.loads(gitops("plan", template, "--credentials-dir", tmp_path / "none", "-f", "json").out)
    (embed,) = [p for p in body["placement"] if p["workload"] == "function/embed"]
    assert embed["waitsFor"] == ["cluster dgx-a", "cluster dgx-b"]
    assert not [key for key in body["units"] if key.startswith("function/")]
