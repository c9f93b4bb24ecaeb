"""Lengths of names from which operators make other names: DGD 24, with components 45 and 62, services 63, caches 59."""

from __future__ import annotations

import pytest

from gitops.manifests.reading import read_documents
from gitops.model.identity import ObjectRef, WorkloadKind, WorkloadRef
from gitops.overlays.provenance import Provenance
from gitops.policy.objects import judge
from gitops.policy.registry import OperatorRegistry

GRAPH = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: NAME
spec:
  components:
    - name: PART
"""
OLD_GRAPH = GRAPH.replace("v1beta1", "v1alpha1").replace("components:\n    - name: PART", "services:\n    PART: {}")
WITHOUT_GROVE = GRAPH.replace("spec:", "  annotations: {nvidia.com/enable-grove: 'false'}\nspec:")
SERVICE = "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata:\n  name: NAME\n"
CACHE = SERVICE.replace("NIMService", "NIMCache")


def told(text: str, name: int, part: int = 0) -> list[tuple[int, str]]:
    (document,) = read_documents(
        text.replace("NAME", "n" * name).replace("PART", "p" * part).encode(), file="x.yaml"
    ).documents
    group = document.body["apiVersion"].partition("/")[0]
    findings = judge(
        document.body,
        ref=ObjectRef(group, document.body["kind"], "", document.body["metadata"]["name"]),
        provenance=Provenance.of_document(document),
        workload=WorkloadRef(WorkloadKind.FUNCTION, "f"),
        registry=OperatorRegistry.shipped(),
    ).findings
    return [(f.origin.line, f.message.rpartition(", ")[2]) for f in findings if f.code == "GO4110"]


@pytest.mark.parametrize(
    ("text", "name", "part", "expected"),
    [
        (GRAPH, 24, 21, []),
        (GRAPH, 25, 5, [(4, "24 are allowed")]),
        (GRAPH, 24, 22, [(7, "45 are allowed")]),
        (GRAPH, 24, 60, [(7, "45 are allowed")]),
        (WITHOUT_GROVE, 24, 38, []),
        (WITHOUT_GROVE, 24, 39, [(8, "62 are allowed")]),
        (OLD_GRAPH, 24, 22, [(7, "45 are allowed")]),
        (SERVICE, 63, 0, []),
        (SERVICE, 64, 0, [(4, "63 are allowed")]),
        (CACHE, 59, 0, []),
        (CACHE, 60, 0, [(4, "59 are allowed")]),
    ],
)
def test_n10_names_that_add_up_to_too_much(text, name, part, expected):
    assert told(text, name, part) == expected
