"""Copies of what clusters tell, as files that anybody may have written."""

from __future__ import annotations

import json

import pytest
import yaml

from gitops.manifests.canonical import digest
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.policy.facts import ClusterFacts
from gitops.policy.published import published_files, read_published
from gitops.policy.schemas.sources import schemas_of_definitions

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}
THING = GroupVersionKind("example.org", "v1", "Thing")
FILE = "example.org/v1/Thing.json"


def copy(name: str, folder: str) -> dict[str, bytes]:
    facts = ClusterFacts(schemas=schemas_of_definitions([DEFINITION]), server_version="v1.34.0")
    return {f"{folder}{path}": content for path, content in published_files(ClusterName(name), facts).items()}


@pytest.mark.parametrize(("outer", "inner"), [("", "a/"), ("s/a/", "s/a/b/")])
def test_a_copy_inside_another_has_its_files_to_itself(outer: str, inner: str) -> None:
    read = read_published({**copy("a", outer), **copy("b", inner)})
    assert read.findings == ()
    assert {name: set(facts.schemas.kinds) for name, facts in read.facts.items()} == {"a": {THING}, "b": {THING}}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"schema":' * 5000 + b"1" + b"}" * 5000, b"\xff", json.dumps({"x": 1}).encode()],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_damaged_schema_is_told_and_judges_nothing(content: bytes, named: bool) -> None:
    """Also when the index has its digest."""
    files = copy("a", "s/a/")
    files[f"s/a/{FILE}"] = content
    if named:
        index = yaml.safe_load(files["s/a/index.yaml"])
        index["schemas"][FILE] = digest(content).hex()
        index["digest"] = digest({k: v for k, v in index.items() if k != "digest"}).hex()
        files["s/a/index.yaml"] = yaml.safe_dump(index).encode()
    read = read_published(files)
    assert [(f.code, f.origin.file) for f in read.findings] == [("GO4508", f"s/a/{FILE}")]
    assert read.facts[ClusterName("a")].schemas.kinds == {}


def test_of_two_copies_of_one_cluster_that_is_said() -> None:
    (found,) = read_published({**copy("a", "x/"), **copy("a", "y/")}).findings
    assert found.message.endswith("there is another copy of cluster a")
