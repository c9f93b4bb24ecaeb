"""Scope mistakes of kinds that only their definition, or the cluster, tells of."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef
from gitops.plan.units import Compilation
from gitops.policy.facts import ClusterFacts

WIDE = GroupVersionKind("x.example", "v1", "Wide")
BUNDLE = "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: defs}\nspec: {manifests: [objects.yaml]}\n"
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wides.x.example}
spec:
  group: x.example
  scope: Cluster
  names: {plural: wides, kind: Wide}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""


def wide(namespace: str = "", name: str = "one") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: x.example/v1\nkind: Wide\nmetadata: {{name: {name}{place}}}\n---\n"


def refs(compiled: Compilation) -> set[ObjectRef]:
    return {o.ref for u in compiled.units.values() if u.key.kind == "bundle" for o in u.objects if o.gvk == WIDE}


def said(compiled: Compilation, code: str) -> list[str]:
    return [f.message for f in compiled.findings if f.code == code]


ONE = ObjectRef("x.example", "Wide", "", "one")


@pytest.mark.parametrize("namespace", ["", "team"])
def test_s22_one_identity_with_and_without_a_namespace_as_the_cluster_says(compile_small: Any, namespace: str) -> None:
    told = {ClusterName(name): ClusterFacts(served={WIDE: False}) for name in ("a", "b")}
    compiled = compile_small({"bundles/base/objects.yaml": wide(namespace)}, facts=told)
    assert refs(compiled) == {ONE}
    assert len(said(compiled, "GO4111")) == (2 if namespace else 0)  # on each cluster
    (key,) = [k for k in compiled.units if k.kind == "bundle" and k.cluster == "a"]
    (item,) = compiled.units[key].objects
    assert "namespace" not in item.body["metadata"]


def test_s22_as_another_bundle_defines(compile_small: Any) -> None:
    change = {
        "bundles/base/objects.yaml": wide("team"),
        "bundles/defs/bundle.yaml": BUNDLE,
        "bundles/defs/objects.yaml": DEFINITION,
    }
    assert refs(compile_small(change)) == {ONE}


@pytest.mark.parametrize("told", [{}, {ClusterName("a"): ClusterFacts(served={WIDE: True})}])
def test_what_is_namespaced_or_not_known_keeps_its_namespace(compile_small: Any, told: Any) -> None:
    assert refs(compile_small({"bundles/base/objects.yaml": wide("team")}, facts=told)) == {
        ObjectRef("x.example", "Wide", "team", "one")
    }


def test_s22_two_that_turn_out_to_be_one_are_an_error(compile_small: Any) -> None:
    told = {ClusterName("a"): ClusterFacts(served={WIDE: False})}
    compiled = compile_small({"bundles/base/objects.yaml": wide("team") + wide("other")}, facts=told)
    assert len(said(compiled, "GO5001")) == 1
    assert not [k for k in compiled.units if k.kind == "bundle"]
