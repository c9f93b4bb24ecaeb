"""`gitops schemas pull`, and checks without a cluster that say what its API server would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import ApiFailure

from gitops.model.identity import ClusterName
from gitops.policy.facts import ClusterFacts
from gitops.policy.published import published_files
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.source.schema_files import write_copy

APPLY = "application/apply-patch+yaml"
SERVICE = "functions/embed/manifests/service.yaml"
GRAPH = "functions/llama-chat/manifests/graph.yaml"
PULLED = ".gitops/schemas/dgx-a"

WRONG = {
    "n07 a field of before": (
        SERVICE,
        "  replicas: 1\n",
        "  scale: {enabled: false, hpaSpec: {}}\n",
        "hpaSpec",
    ),
    "a value that is none of those": (GRAPH, "backendFramework: vllm", "backendFramework: vlm", "backendFramework"),
    "text for a number": (GRAPH, "      replicas: 1", "      replicas: one", "replicas"),
}


VERDICTS = {
    **dict.fromkeys(("ConfigMap", "Namespace", "ServiceAccount"), "valid"),
    **dict.fromkeys(("DynamoGraphDeployment.nvidia.com", "NIMCache.apps.nvidia.com"), "valid"),
    "NIMService.apps.nvidia.com": "valid",
    # The API server's own code checks more of these than their schemas say.
    **dict.fromkeys(("Deployment.apps", "LimitRange", "ResourceQuota", "Service"), "unverified"),
    "NetworkPolicy.networking.k8s.io": "unverified",
}


def verdicts(body: dict[str, Any]) -> dict[str, str]:
    """Verdict by kind; one kind has one in the example repository."""
    return {v["object"].partition(" ")[0]: v["verdict"] for v in body["verdicts"]}


@pytest.fixture
def one_cluster(template: Path) -> Path:
    """The example repository without dgx-b."""
    (template / "clusters/dgx-b.yaml").unlink()
    deployment = template / "functions/llama-chat/deployment.yaml"
    deployment.write_text(deployment.read_text().partition("  # On one cluster only")[0])
    return template


@pytest.fixture
def cluster(private_api: Any, shared: Path, tmp_path: Path) -> tuple[Any, Path]:
    """An API server with the operators' own definitions, and the folder with the credentials of dgx-a."""
    plane = private_api()
    plane.create_crds(shared / "upstream/dynamo/crds", shared / "upstream/nim/crds")
    credentials = tmp_path / "clusters"
    credentials.mkdir()
    shutil.copyfile(plane.kubeconfig, credentials / "dgx-a.yaml")
    return plane, credentials


def refusal(plane: Any, manifest: Path) -> str:
    """What the server says to a dry run of the manifest."""
    body = yaml.safe_load(manifest.read_text())
    plural = {"NIMService": "nimservices", "DynamoGraphDeployment": "dynamographdeployments"}[body["kind"]]
    path = f"/apis/{body['apiVersion']}/namespaces/default/{plural}/{body['metadata']['name']}"
    query = {"fieldManager": "test", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
    with pytest.raises(ApiFailure) as failure:
        plane.request("PATCH", path, body, content_type=APPLY, query=query)
    return str(failure.value)


def test_with_a_pulled_copy_a_check_without_a_cluster_refuses_what_the_server_refuses(
    gitops: Any, one_cluster: Path, cluster: tuple[Any, Path]
) -> None:
    plane, credentials = cluster
    pull = ("schemas", "pull", one_cluster, "--credentials-dir", credentials)
    pulled = gitops(*pull)
    assert pulled.code == 0, pulled.err
    assert "kinds" in pulled.out
    again = gitops(*pull)
    assert "as they were" in again.out

    sound = gitops("validate", one_cluster, "-f", "json")
    body = json.loads(sound.out)
    assert sound.code == 0
    assert verdicts(body) == VERDICTS
    assert [f["code"] for f in body["findings"] if f["code"].startswith("GO45")] == ["GO4509"]

    said = {}
    for name, (file, right, wrong, _) in WRONG.items():
        manifest = one_cluster / file
        text = manifest.read_text()
        assert right in text
        manifest.write_text(text.replace(right, wrong, 1))
        said[name] = (refusal(plane, manifest), manifest.read_text(), text)
        manifest.write_text(text)
    plane.kill_apiserver()
    for name, (file, _, _, field) in WRONG.items():
        server, broken, text = said[name]
        (one_cluster / file).write_text(broken)
        for command in (("validate", one_cluster), ("plan", one_cluster)):
            result = gitops(*command, "-f", "json")
            assert result.code == 1, name
            found = [f for f in json.loads(result.out)["findings"] if f["code"] == "GO4505"]
            assert found, name
            assert found[0]["file"] == file
            assert found[0]["line"] > 1
            assert field in found[0]["message"]
            assert field in server
        explained = gitops("explain", one_cluster, "NIMService.apps.nvidia.com/embed")
        assert explained.code == 0, "what is refused can be explained"
        (one_cluster / file).write_text(text)


def test_plan_asks_the_clusters_for_their_schemas(gitops: Any, one_cluster: Path, cluster: tuple[Any, Path]) -> None:
    _, credentials = cluster
    manifest = one_cluster / GRAPH
    manifest.write_text(manifest.read_text().replace("backendFramework: vllm", "backendFramework: vlm"))
    result = gitops("plan", one_cluster, "--credentials-dir", credentials, "-f", "json")
    body = json.loads(result.out)
    assert result.code == 1
    assert [f["file"] for f in body["findings"] if f["code"] == "GO4505"] == [GRAPH]
    refused = body["units"]["function/llama-chat/h100-0@dgx-a"]
    assert refused["refused"]
    assert "invalid" in {o["verdict"] for o in refused["objects"]}
    served = {
        o["object"].partition(" ")[0]: o["verdict"] for o in body["units"]["function/embed/h100-0@dgx-a"]["objects"]
    }
    assert served["NIMService.apps.nvidia.com"] == "valid"


def git(*arguments: object) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def remote(one_cluster: Path, tmp_path: Path) -> str:
    """The repository as a bare one that can be pushed to."""
    git("init", "-q", "--initial-branch=main", one_cluster)
    git("-C", one_cluster, "add", "--all")
    git("-C", one_cluster, "commit", "-qm", "all")
    git("clone", "-q", "--bare", one_cluster, tmp_path / "remote.git")
    return (tmp_path / "remote.git").as_uri()


def test_what_the_daemon_published_is_pulled_without_a_cluster(
    gitops: Any, one_cluster: Path, cluster: tuple[Any, Path], remote: str, tmp_path: Path
) -> None:
    plane, credentials = cluster
    where = ("--repository-url", remote, "--state-dir", tmp_path / "state")
    empty = gitops("schemas", "pull", one_cluster, "--from-status-branch", *where)
    assert empty.code == 4
    assert "the status branch has no schemas" in empty.err
    assert not (one_cluster / ".gitops").exists()

    gitops("apply", "--once", *where, "--credentials-dir", credentials)
    plane.kill_apiserver()
    pulled = gitops("schemas", "pull", one_cluster, "--from-status-branch", *where)
    assert pulled.code == 0, pulled.err
    assert (one_cluster / PULLED / "nvidia.com/v1beta1/DynamoGraphDeployment.json").is_file()
    index = yaml.safe_load((one_cluster / PULLED / "index.yaml").read_text())
    assert index["serverVersion"].startswith("v1.")
    assert verdicts(json.loads(gitops("validate", one_cluster, "-f", "json").out)) == VERDICTS

    unknown = gitops("schemas", "pull", one_cluster, "--from-status-branch", "--cluster", "dgx-z", *where)
    assert unknown.code == 2
    assert "the status branch has no cluster dgx-z (known: dgx-a)" in unknown.err


# -- without a server ------------------------------------------------------------------------------------------------


def definition(kind: str, group: str, **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
        },
    }


GRAPHS = definition("DynamoGraphDeployment", "nvidia.com", backendFramework={"type": "string", "enum": ["sglang"]})
FILE = "nvidia.com/v1beta1/DynamoGraphDeployment.json"


@pytest.fixture
def copy(one_cluster: Path) -> Path:
    """A pulled copy of dgx-a, whose graphs must be of sglang."""
    facts = ClusterFacts(schemas=schemas_of_definitions([GRAPHS]))
    write_copy(one_cluster / PULLED, published_files(ClusterName("dgx-a"), facts))
    return one_cluster / PULLED


def test_the_pulled_copy_is_found_without_being_named(gitops: Any, one_cluster: Path, copy: Path) -> None:
    result = gitops("validate", one_cluster)
    assert result.code == 1
    assert "GO4505" in result.out
    assert "backendFramework" in result.out


Damage = Callable[[Path], None]


def cut(copy: Path) -> None:
    (copy / FILE).write_bytes((copy / FILE).read_bytes()[:40])


def edited(copy: Path) -> None:
    (copy / FILE).write_bytes((copy / FILE).read_bytes().replace(b"sglang", b"vllm"))


def missing(copy: Path) -> None:
    (copy / FILE).unlink()


def deep(copy: Path) -> None:
    (copy / FILE).write_bytes(b'{"schema":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def bad_index(copy: Path) -> None:
    (copy / "index.yaml").write_text("apiVersion: gitops/v1alpha1\nkind: ClusterFacts\ncluster: dgx-a\nschemas: [a]\n")


def bomb(copy: Path) -> None:
    (copy / "index.yaml").write_text("a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(9)))


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (cut, f"{PULLED}/{FILE}:1"),
        (edited, f"{PULLED}/{FILE}:1"),
        (missing, f"{PULLED}/{FILE}"),
        (deep, f"{PULLED}/{FILE}:1"),
        (bad_index, f"{PULLED}/index.yaml:4"),
        (bomb, f"{PULLED}/index.yaml:1"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_damaged_copy_is_an_error_at_its_line_and_judges_nothing(
    gitops: Any, one_cluster: Path, copy: Path, damage: Damage, place: str
) -> None:
    damage(copy)
    result = gitops("validate", one_cluster, "-f", "json")
    body = json.loads(result.out)
    assert result.code == 1
    found = [f for f in body["findings"] if f["code"] == "GO4508"]
    assert place in {f"{f['file']}:{f['line']}" if f["line"] else f["file"] for f in found}
    assert "GO4505" not in {f["code"] for f in body["findings"]}
    assert {v["verdict"] for v in body["verdicts"]} == {"unverified"}, "never valid"


def test_a_file_of_definitions_counts_for_every_cluster(gitops: Any, one_cluster: Path, tmp_path: Path) -> None:
    file = tmp_path / "graphs.yaml"
    file.write_text(yaml.safe_dump(GRAPHS))
    assert "GO4505" in gitops("validate", one_cluster, "--schemas", file).out
    assert "GO4505" in gitops("plan", one_cluster, "--schemas", tmp_path).out
    file.write_text("kind: [\n")
    damaged = gitops("validate", one_cluster, "--schemas", file)
    assert damaged.code == 1
    assert "GO4508" in damaged.out
    (tmp_path / "notes.txt").write_text("no schemas\n")
    assert "GO4508: not used: " in gitops("validate", one_cluster, "--schemas", tmp_path / "notes.txt").out
    (tmp_path / "empty").mkdir()
    empty = gitops("validate", one_cluster, "--schemas", tmp_path / "empty")
    assert (empty.code, empty.err) == (2, f"gitops: {tmp_path}/empty: there is no YAML or JSON file in this folder\n")
    refused = gitops("run", "--path", one_cluster, "--schemas", file, "--state-dir", tmp_path / "state")
    assert refused.code == 2
    assert "settings: schemas: " in refused.err


def test_what_cannot_be_pulled_is_said_and_what_was_there_stays(
    gitops: Any, one_cluster: Path, copy: Path, tmp_path: Path
) -> None:
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    (tmp_path / "none").mkdir()
    pull = ("schemas", "pull", one_cluster, "--credentials-dir", tmp_path / "none")
    unknown = gitops(*pull, "--cluster", "dgx-z")
    assert unknown.code == 2
    assert "the repository has no cluster dgx-z (known: dgx-a)" in unknown.err
    unreachable = gitops(*pull)
    assert unreachable.code == 4
    assert "cluster dgx-a: " in unreachable.err
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before


def test_a_folder_that_is_no_copy_is_left_alone(gitops: Any, one_cluster: Path, tmp_path: Path) -> None:
    from gitops.cli.schemas import Pulled, _write

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    pulled = Pulled()
    _write(tmp_path / "mine", {"index.yaml": b""}, pulled, "mine")
    assert "left alone" in pulled.failed["mine"]
    assert (tmp_path / "mine/notes.txt").read_text() == "keep"


def test_a_copy_is_put_in_place_whole_or_not_at_all(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    rename = os.rename

    def interrupted(source: Any, target: Any) -> None:
        if Path(target) == copy and ".pulling-" in str(source):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_copy(copy, {"index.yaml": b"other"})
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before
    assert [p.name for p in copy.parent.iterdir()] == ["dgx-a"], "nothing half written is left"
