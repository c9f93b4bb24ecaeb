"""The namespace template: objects in every instance namespace on the cluster, with the lines of its document."""

from __future__ import annotations

import pytest

from gitops.model.findings import Origin
from gitops.plan.units import Stage

CLUSTER = """\
apiVersion: gitops/v1alpha1
kind: Cluster
metadata:
  name: a
spec:
  credentials: a
  region: North
  attributes: [dynamooperatorsupport, NIMOperatorSupport]
  gpus:
    - name: H100
  namespaceTemplate:
    labels: {team: ml}
    resourceQuota:
      hard:
        requests.nvidia.com/gpu: 8
        limits.cpu: 0.5
    limitRange:
      limits:
        - type: Container
          default:
            cpu: 1
    networkPolicies:
      - name: deny
        spec:
          podSelector: {}
    serviceAccounts:
      - name: workload
        annotations:
          example.com/role: reader
        imagePullSecrets: [pull]
        automountServiceAccountToken: false
"""
ONLY_A = {"clusters/a.yaml": CLUSTER, "clusters/b.yaml": None}


def instance(result):
    return next(u for k, u in result.units.items() if str(k) == "function/chat/h100-0@a")


def test_every_instance_gets_the_objects_of_the_template(compile_small):
    result = compile_small(ONLY_A)
    assert result.findings == ()
    unit = instance(result)
    made = {o.ref.kind: o for o in unit.objects if o.origin.file == "clusters/a.yaml"}
    assert {kind: o.body.get("spec") for kind, o in made.items()} == {
        "ResourceQuota": {"hard": {"requests.nvidia.com/gpu": "8", "limits.cpu": "500m"}},
        "LimitRange": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
        "NetworkPolicy": {"podSelector": {}},
        "ServiceAccount": None,
    }
    account = made["ServiceAccount"].body
    assert account["imagePullSecrets"] == [{"name": "pull"}]
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["annotations"]["example.com/role"] == "reader"
    assert {o.ref.namespace for o in made.values()} == {unit.namespace}
    assert {o.ref.name for o in made.values()} == {"gitops", "deny", "workload"}


def test_the_template_goes_before_everything_but_the_namespace(compile_small):
    stages = [o.stage for o in instance(compile_small(ONLY_A)).objects]
    assert stages == sorted(stages)
    assert stages[:5] == [Stage.NAMESPACE, Stage.BOUNDS, Stage.BOUNDS, Stage.BOUNDS, Stage.ACCESS]


def test_values_have_the_lines_of_the_cluster_document(compile_small):
    made = {o.ref.kind: o.provenance for o in instance(compile_small(ONLY_A)).objects}
    expected = {
        ("ResourceQuota", ("spec", "hard", "limits.cpu")): 16,
        ("LimitRange", ("spec", "limits", 0, "default", "cpu")): 21,
        ("NetworkPolicy", ("spec", "podSelector")): 25,
        ("ServiceAccount", ("automountServiceAccountToken",)): 31,
        ("ServiceAccount", ("metadata", "annotations", "example.com/role")): 29,
        ("ServiceAccount", ("imagePullSecrets", 0, "name")): 30,
    }
    assert {key: made[key[0]].origin_of(key[1]) for key in expected} == {
        key: Origin("clusters/a.yaml", line) for key, line in expected.items()
    }


def test_bundles_get_nothing_of_it(compile_small):
    result = compile_small(ONLY_A)
    (bundle,) = (u for k, u in result.units.items() if k.kind == "bundle")
    assert [o.ref.kind for o in bundle.objects] == ["ConfigMap"]


def test_what_is_wrong_with_the_template_makes_the_cluster_unusable(compile_small):
    bad = CLUSTER.replace("cpu: 1\n", "cpu: null\n").replace("example.com/role", "gitops/role")
    result = compile_small({"clusters/a.yaml": bad})
    assert [(f.code, str(f.origin)) for f in result.errors] == [
        ("GO4107", "clusters/a.yaml:21"),
        ("GO4301", "clusters/a.yaml:29"),
    ]
    assert result.unreadable_clusters == {"a"}


def test_an_object_of_the_function_cannot_be_the_templates_too(compile_small):
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: workload\n"
    result = compile_small({**ONLY_A, "functions/chat/manifests/account.yaml": account})
    (found,) = result.errors
    assert (found.code, str(found.origin)) == ("GO5001", "functions/chat/manifests/account.yaml:1")
    assert "clusters/a.yaml:27" in found.message


def test_a_comment_in_the_template_moves_the_lines(compile_small):
    compile_small(ONLY_A)
    moved = CLUSTER.replace("    limitRange:", "    # why\n    limitRange:")
    made = {o.ref.kind: o.provenance for o in instance(compile_small({**ONLY_A, "clusters/a.yaml": moved})).objects}
    assert made["LimitRange"].origin_of(("spec", "limits", 0, "default", "cpu")) == Origin("clusters/a.yaml", 22)


def test_regions_and_attributes_compare_without_case(compile_small):
    spec = (
        "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n  gpuSpecifications:\n"
        "    - {id: h100, gpu: h100, regions: [NORTH], manifestMergePatches: [overlays/h100.yaml]}\n"
    )
    result = compile_small({**ONLY_A, "functions/chat/deployment.yaml": spec})
    assert result.findings == ()
    assert len([k for k in result.units if k.kind == "function"]) == 1


@pytest.mark.parametrize("key", ["gitops/x", "applyset.kubernetes.io/part-of"])
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_the_template_writes_no_mark_of_ours(compile_small, small, key, field):
    text = small().files["clusters/a.yaml"].replace("labels: {team: ml}", f"{field}: {{{key}: v}}")
    found = [f for f in compile_small({"clusters/a.yaml": text}).findings if f.code == "GO4301"]
    assert [str(f.origin) for f in found] == ["clusters/a.yaml:14"]
