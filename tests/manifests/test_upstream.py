"""Real manifests: samples and CRDs of Dynamo and NIM, each read to the same values as by kubectl."""

import json
import subprocess
from pathlib import Path

import pytest
from controlplane_kit import binaries

from gitops.manifests.canonical import same_json
from gitops.manifests.reading import read_documents

pytestmark = pytest.mark.upstream

FOLDERS = ["upstream/dynamo/manifests", "upstream/dynamo/crds", "upstream/nim/samples", "upstream/nim/crds"]


def kubectl_reads(file: Path) -> list | None:
    command = [str(binaries.kubectl()), "label", "--local", "-f", str(file), "l=1", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return None
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(done.stdout):
        body, at = decoder.raw_decode(done.stdout, at)
        at = len(done.stdout) - len(done.stdout[at:].lstrip())
        found.extend(body["items"] if body["kind"] == "List" else [body])
    return found


def without_label(body: dict) -> dict:
    """The object without labels: the command needs to set one."""
    return {**body, "metadata": {k: v for k, v in body.get("metadata", {}).items() if k != "labels"}}


@pytest.mark.skipif(binaries.kubectl() is None, reason="NOT CHECKED against kubectl: there is no kubectl")
@pytest.mark.parametrize("folder", FOLDERS)
def test_upstream_manifests_are_read_as_by_kubectl(shared, folder):
    files = sorted((shared / folder).rglob("*.yaml"))
    assert files
    compared = 0
    for file in files:
        result = read_documents(file.read_bytes(), file=file.name)
        theirs = kubectl_reads(file)
        if theirs is None:
            continue  # no objects of the cluster (kustomization files), or not valid
        assert result.complete, result.findings
        ours = [without_label(d.body) for d in result.documents]
        assert len(ours) == len(theirs), file
        for mine, other in zip(ours, theirs, strict=True):
            assert same_json(mine, without_label(other)), file
        compared += 1
    assert compared > len(files) // 2
