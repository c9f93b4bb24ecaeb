"""Every manifest of Dynamo, NIM and Karta that there is: read to the same values as by kubectl, file by file."""

import pytest
from yaml_kit import kubectl

from gitops.manifests.canonical import same_json
from gitops.manifests.checking import check_object
from gitops.manifests.reading import read_documents

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(kubectl.PROGRAM is None, reason="NOT CHECKED against kubectl: there is no kubectl"),
]

FOLDERS = ["dynamo", "nim", "karta"]

TEMPLATES = {
    "dynamo/chart/deployment.yaml",
    "dynamo/chart/manager-rbac.yaml",
    "dynamo/chart/operator-config.yaml",
    "dynamo/chart/webhook-configuration.yaml",
    "dynamo/chart/webhook-rbac.yaml",
    "nim/helm-manager-rbac.yaml.tpl",
}
"""Chart templates: not YAML before they are rendered."""

NO_OBJECTS = {
    "dynamo/chart/operator-values.yaml",
    "dynamo/chart/platform-Chart.yaml",
    "dynamo/chart/platform-values.yaml",
    "dynamo/observability/dynamo-operator-dashboard.json",
    "nim/helm-values.yaml",
}
"""Values, a chart's description, a dashboard: kubectl reads objects only."""

BROKEN = {"karta/mpijob.yaml"}
"""Not valid YAML as its project has it."""

NAMELESS = {
    "dynamo/manifests/recipes__qwen3-235b-a22b-fp8__trtllm__disagg__blackwell__kustomize__base__kustomization.yaml",
    "dynamo/manifests/recipes__qwen3-235b-a22b-fp8__trtllm__disagg__blackwell__kustomize__overlays__gcp-roce__kustomization.yaml",
    "karta/jobset.yaml",
    "karta/milvus.yaml",
}
"""Read like all others, but without metadata.name: no objects for us."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_upstream_manifests_are_read_as_by_kubectl(shared, folder):
    root = shared / "upstream"
    files = [f for f in sorted((root / folder).rglob("*")) if f.suffix in (".yaml", ".yml", ".json", ".tpl")]
    assert len(files) > 15
    incomparable, unreadable, nameless = set(), set(), set()
    for file in files:
        name, data = file.relative_to(root).as_posix(), file.read_bytes()
        result, theirs = read_documents(data, file=name), kubectl.read_one(data)
        if theirs.refused:
            incomparable.add(name)
        else:
            ours = [kubectl.comparable(d.body) for d in result.documents]
            assert same_json(ours, theirs.objects), name
            assert ours, name
        if not result.complete:
            unreadable.add(name)
        elif any(check_object(document) for document in result.documents):
            nameless.add(name)
    assert incomparable == {n for n in TEMPLATES | NO_OBJECTS | BROKEN if n.startswith(f"{folder}/")}
    assert unreadable == {n for n in TEMPLATES | BROKEN if n.startswith(f"{folder}/")}
    assert nameless == {n for n in NO_OBJECTS | NAMELESS if n.startswith(f"{folder}/")}


def test_every_exception_is_a_file(shared):
    names = TEMPLATES | NO_OBJECTS | BROKEN | NAMELESS
    assert [n for n in names if not (shared / "upstream" / n).is_file()] == []
