"""Policies of a repository narrow and never widen; while one cannot be used, every workload is held."""

from __future__ import annotations

import pytest

from gitops.model.trees import EntryKind

NIM = """\
apiVersion: gitops/v1alpha1
kind: OperatorType
metadata:
  name: nim
spec:
  clusterAttribute: NIMOperatorSupport
  kinds:
    - {group: apps.nvidia.com, version: v1alpha1, kind: NIMService, resource: nimservices}
"""
POLICY = """\
apiVersion: gitops/v1alpha1
kind: ValidationPolicy
metadata:
  name: lenient
spec: {base: Unrestricted}
"""
DYNAMO = """\
apiVersion: gitops/v1alpha1
kind: OperatorType
metadata:
  name: dynamo
spec:
  clusterAttribute: DynamoOperatorSupport
  kinds:
    - {group: nvidia.com, version: v1beta1, kind: DynamoGraphDeployment, resource: dynamographdeployments}
  companions:
    - {group: "", version: v1, kind: Secret, resource: secrets}
"""


def codes(result):
    return [(f.code, str(f.origin)) for f in result.findings]


def test_a_narrowed_type_refuses_what_it_leaves_out(compile_small):
    result = compile_small({"policies/operators/dynamo.yaml": DYNAMO})
    assert codes(result) == [("GO4101", "functions/chat/manifests/settings.yaml:2")]
    assert {str(w) for w in result.held} == {"function/chat"}


def test_companions_that_are_not_mentioned_stay_allowed(compile_small):
    text = DYNAMO.partition("  companions")[0]
    result = compile_small({"policies/operators/dynamo.yaml": text})
    assert result.findings == ()
    assert len(result.units) == 4


def test_no_companion_is_allowed_when_none_is_listed(compile_small):
    result = compile_small(
        {"policies/operators/dynamo.yaml": DYNAMO.partition("  companions")[0] + "  companions: []\n"}
    )
    assert codes(result) == [("GO4101", "functions/chat/manifests/settings.yaml:2")]


@pytest.mark.parametrize("path", ["policies/operators/dynamo.yaml", "policies"])
@pytest.mark.parametrize("kind", [EntryKind.SYMLINK, EntryKind.SUBMODULE])
def test_a_policy_that_a_link_may_hide_holds_all(compile_small, path, kind):
    result = compile_small({path: kind})
    assert {str(w) for w in result.held} == {"function/chat", "bundle/base"}
    assert not result.units


def test_another_type_changes_nothing_but_the_content_keys(compile_small):
    before, after = compile_small(), compile_small({"policies/nim.yaml": NIM})
    assert after.findings == ()
    assert before.units.keys() == after.units.keys()
    for key, unit in before.units.items():
        assert [o.payload for o in unit.objects] == [o.payload for o in after.units[key].objects]
        assert unit.content_key != after.units[key].content_key


def test_limits_are_added(compile_small):
    text = NIM.replace("name: nim", "name: dynamo").replace("NIMOperator", "DynamoOperator")
    text = text.replace(
        "{group: apps.nvidia.com, version: v1alpha1, kind: NIMService, resource: nimservices}",
        "{group: nvidia.com, version: v1beta1, kind: DynamoGraphDeployment, resource: dynamographdeployments}",
    )
    of = "group: nvidia.com, kind: DynamoGraphDeployment"
    limit = f"  nameLimits:\n    - {{{of}, parts: /spec/components/*/name, limit: 9}}\n"
    result = compile_small({"policies/dynamo.yaml": text + limit})
    assert codes(result) == [("GO4110", "functions/chat/manifests/graph.yaml:8")]


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("name: nim", "name: ray"), 4, "there is no operator type ray"),
        (("NIMOperatorSupport", "Any"), 6, "clusterAttribute of nim is NIMOperatorSupport"),
        (("v1alpha1, kind", "v1, kind"), 8, "apps.nvidia.com/v1 NIMService is not among the kinds of nim"),
        (("resource: nimservices", "resource: services"), 8, "has another resource or scope in nim"),
        (("resource: nimservices", "resource: nimservices, scope: Cluster"), 8, "has another resource or scope in nim"),
    ],
)
def test_what_widens_is_refused(compile_small, change, line, words):
    result = compile_small({"policies/nim.yaml": NIM.replace(*change)})
    (found,) = result.findings
    assert (found.code, str(found.origin)) == ("GO4112", f"policies/nim.yaml:{line}")
    assert words in found.message


def test_companions_cannot_be_added(compile_small):
    more = "  companions:\n    - {group: apps, version: v1, kind: Deployment, resource: deployments}\n"
    result = compile_small({"policies/nim.yaml": NIM + more})
    assert codes(result) == [("GO4112", "policies/nim.yaml:10")]


KIND = "group: apps.nvidia.com, kind: NIMService"


@pytest.mark.parametrize(
    "field",
    [
        "children: []",
        "supportedVersions: '>=1'",
        f"immutable: [{{{KIND}, path: /spec/x, message: m, source: s}}]",
        f"onceOnly: [{{{KIND}, message: m, source: s}}]",
        f"triggers: [{{{KIND}, path: /spec/x, message: m, source: s}}]",  # a judged field would not be what is sent
        f"rules: [{{id: a, {KIND}, rule: 'true', message: m, source: s}}]",
        f"handovers: [{{{KIND}, path: /spec/x, holder: h, when: 'true', source: s}}]",
        "detection: {deployments: [{selector: a=b, container: c}]}",
        "rbac: {serviceAccounts: [{name: x}]}",
        "tenancy: {scope: cluster, claimLease: null, isolation: none}",
        "playbooks: [{name: x, symptom: s, steps: [a]}]",
    ],
)
def test_what_no_repository_can_set_is_refused_though_it_would_widen_nothing(compile_small, field):
    result = compile_small({"policies/nim.yaml": NIM + f"  {field}\n"})
    (found,) = [f for f in result.findings if f.severity == "error"]
    assert (found.code, str(found.origin)) == ("GO4532", "policies/nim.yaml:9")
    assert field.partition(":")[0] in found.message
    assert not result.units


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("requireExplicit: [{KIND, path: /spec/priorityClassName, message: m, source: s}]", "GO4524"),
    ],
)
def test_rules_of_a_repository_refuse_more(compile_small, field, expected):
    text = DYNAMO.partition("  companions")[0] + f"  {field}\n"
    text = text.replace("KIND", "group: nvidia.com, kind: DynamoGraphDeployment")
    result = compile_small({"policies/dynamo.yaml": text})
    assert [f.code for f in result.errors] == [expected]
    assert {str(w) for w in result.held} == {"function/chat"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"policies/x.yaml": "a: [\n"}, [("GO1005", "policies/x.yaml:1")]),
        ({"policies/x.yaml": "kind: ConfigMap\n"}, [("GO2005", "policies/x.yaml:1")]),
        ({"policies/x.yaml": "- 1\n"}, [("GO2005", "policies/x.yaml:1")]),
        ({"policies/x.json": "{}"}, [("GO2108", "policies/x.json")]),
        (
            {"policies/x.yaml": NIM.replace("kinds:", "kind:")},
            [("GO2003", "policies/x.yaml:5"), ("GO2002", "policies/x.yaml:7")],
        ),
        ({"policies/a.yaml": NIM, "policies/b.yaml": NIM}, [("GO2015", "policies/b.yaml:4")]),
        ({"policies/a.yaml": NIM + "---\n" + NIM}, [("GO2015", "policies/a.yaml:13")]),
        ({"policies/p.yaml": POLICY.replace("lenient", "default")}, [("GO2015", "policies/p.yaml:4")]),
    ],
)
def test_a_policy_that_cannot_be_used_holds_everything(compile_small, files, expected):
    result = compile_small(files)
    assert sorted(codes(result)) == sorted(expected)
    assert result.units == {}
    assert {str(w) for w in result.held} == {"function/chat", "bundle/base"}
    assert result.complete


def test_policies_do_not_hide_what_is_wrong_with_workloads(compile_small):
    result = compile_small({"policies/x.yaml": "kind: X\n", "bundles/base/objects.yaml": "kind: X\n"})
    assert [f.code for f in result.findings] == ["GO1101", "GO1101", "GO2005"]


def test_notes_beside_policies_are_not_read(compile_small):
    assert compile_small({"policies/README.md": "# why\n"}).findings == ()


def test_a_validation_policy_is_chosen_by_name(compile_small):
    deployment = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  gpuSpecifications:
    - id: h100
      gpu: H100
      validationPolicy: {name: lenient}
      manifestMergePatches: [overlays/h100.yaml]
"""
    change = {"functions/chat/deployment.yaml": deployment}
    (unknown,) = compile_small(change).findings
    assert (unknown.code, str(unknown.origin)) == ("GO2022", "functions/chat/deployment.yaml:9")
    known = compile_small({**change, "policies/lenient.yaml": POLICY})
    assert codes(known) == []


def test_two_types_are_narrowed_side_by_side(compile_small):
    """The second one does not bring back what the first one left out."""
    result = compile_small({"policies/dynamo.yaml": DYNAMO, "policies/nim.yaml": NIM})
    assert [code for code, _ in codes(result)] == ["GO4101"]


def test_fixed_fields_are_added(compile_small):
    field = "  fixedFields:\n    - {group: '', kind: ConfigMap, path: /data/LEVEL}\n"
    overlay = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {LEVEL: null}\n"
    change = {"functions/chat/overlays/h100.yaml": overlay}
    assert codes(compile_small(change)) == []
    text = DYNAMO.partition("  companions")[0] + field
    assert [code for code, _ in codes(compile_small({**change, "policies/dynamo.yaml": text}))] == ["GO3106"]
