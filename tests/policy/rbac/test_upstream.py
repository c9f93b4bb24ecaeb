"""The operators' own roles: they pass the gate, and what they may do is on the list and accepted."""

from __future__ import annotations

import re

import pytest
import yaml

from gitops.policy.rbac.gate import judge_accounts, judge_roles
from gitops.policy.rbac.manifests import add_file
from gitops.policy.rbac.operators import accepted_by
from gitops.policy.rbac.resolving import accounts_in
from gitops.policy.rbac.reviewing import shipped_rights
from gitops.policy.rbac.roles import RbacObjects
from gitops.policy.registry import OperatorRegistry

DYNAMO = {
    "secrets-read",
    "secrets-write",
    "workloads-write",
    "roles-write",
    "crds-write",
    "reviews",
    "kube-system-leases",
}
DYNAMO_CHART = DYNAMO | {"pods-create", "cluster-roles-write", "webhooks-write"}
NIM = {
    *("secrets-read", "secrets-write", "pods-create", "workloads-write", "roles-write", "priority-classes-write"),
    *("scc-use", "scc-write", "endpoints-write"),
}


def judged(data, file, operator):
    objects = RbacObjects()
    result = add_file(objects, data, file=file)
    assert result.readable, result.findings
    accepted = accepted_by(OperatorRegistry.shipped().types[operator])
    if not objects.bindings:
        return judge_roles(objects, shipped_rights(), accepted)
    return judge_accounts(accounts_in(objects), objects, shipped_rights(), accepted)


def rights(judgement):
    return {review.right.id for review in judgement.reviews}


@pytest.mark.parametrize(
    ("file", "operator", "expected"),
    [
        ("dynamo/rbac/role.yaml", "dynamo", DYNAMO),
        ("dynamo/rbac/manager-role.yaml", "dynamo", DYNAMO),
        ("nim/role.yaml", "nim", NIM),
        ("nim/bundle-clusterserviceversion.yaml", "nim", NIM | {"reviews", "kube-system-leases"}),
    ],
)
def test_operators_pass_and_get_their_list(shared, file, operator, expected):
    path = shared / "upstream" / file
    judgement = judged(path.read_bytes(), path.name, operator)
    assert judgement.violations == ()
    assert rights(judgement) == expected
    assert all(review.accepted for review in judgement.reviews)
    lines = path.read_text().splitlines()
    for review in judgement.reviews:
        assert lines[review.granted.rule.origin.line - 1].lstrip().startswith("- ")


@pytest.mark.parametrize("operator", ["dynamo", "nim"])
def test_charts_pass_once_they_are_rendered(shared, operator):
    upstream = shared / "upstream"
    if operator == "dynamo":
        rules = yaml.safe_load((upstream / "dynamo/rbac/manager-role.yaml").read_text())["rules"]
        text = rendered((upstream / "dynamo/chart/manager-rbac.yaml").read_text(), yaml.safe_dump(rules))
        expected = DYNAMO_CHART
    else:
        text = rendered((upstream / "nim/helm-manager-rbac.yaml.tpl").read_text(), "")
        expected = NIM | {"reviews", "webhooks-write"}
    judgement = judged(text.encode(), "rendered.yaml", operator)
    assert (judgement.violations, judgement.bound) == ((), True)
    assert rights(judgement) == expected
    assert all(review.accepted for review in judgement.reviews)


def rendered(text, rules):
    """As Helm does with default values, for the few actions that these two files have."""
    lines, shown = [], [True]
    for line in text.splitlines():
        action = re.fullmatch(r"\s*\{\{-?\s*(.*?)\s*-?\}\}\s*", line)
        words = action[1] if action else ""
        if words.startswith("if "):
            shown.append(words.startswith("if not "))  # namespaceRestriction.enabled is false
        elif words == "else":
            shown[-1] = not shown[-1]
        elif words == "end":
            shown.pop()
        elif all(shown) and "$managerRole.rules" in words:
            lines.append(rules)
        elif all(shown) and not action:
            lines.append(re.sub(r"\{\{[^}]*\}\}", "release", line))
    return "\n".join(lines)


@pytest.mark.parametrize(
    "file", ["dynamo/chart/manager-rbac.yaml", "dynamo/chart/webhook-rbac.yaml", "nim/helm-manager-rbac.yaml.tpl"]
)
def test_a_template_is_not_passed_over(shared, file):
    objects = RbacObjects()
    path = shared / "upstream" / file
    result = add_file(objects, path.read_bytes(), file=path.name)
    assert not result.readable
    assert (objects.roles, objects.bindings) == ({}, [])
    (first,) = result.findings  # what the reader makes of a template helps nobody
    assert (first.code, first.origin.file) == ("GO4416", path.name)
    assert "{{" in path.read_text().splitlines()[first.origin.line - 1]
    assert "helm template" in first.hint


ROLE = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\nrules: []\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ROLE.replace("name: r", "name: '{{ .Release.Name }}-r'"), "GO4416"),
        (ROLE.replace("[]", "[{verbs: ['{{ x }}']}]"), "GO4416"),
        (ROLE.replace("name: r", ""), "GO4417"),
        ("replicas: 1\n", "GO4417"),
        ("- a\n", "GO4417"),
        ("apiVersion: v1\nkind: [x]\n", "GO4417"),
        (ROLE + "rules: []\n", "GO1010"),
    ],
)
def test_files_that_cannot_be_read_as_a_whole(text, code):
    objects = RbacObjects()
    result = add_file(objects, f"{ROLE}---\n{text}".encode(), file="x.yaml")
    assert not result.readable
    assert code in {finding.code for finding in result.findings}
    assert not objects.roles


def test_other_kinds_may_have_templates_of_their_own():
    text = ROLE + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: alerts}\ndata: {text: '{{ $value }}'}\n"
    objects = RbacObjects()
    assert add_file(objects, text.encode(), file="x.yaml").readable
    assert len(objects.roles) == 1


def test_a_list_as_kubectl_prints_it(rbac):
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: rbac.authorization.k8s.io/v1\n  kind: ClusterRole\n"
    text += "  metadata: {name: r}\n  rules:\n  - {verbs: ['*'], apiGroups: [''], resources: [pods]}\n"
    objects = RbacObjects()
    assert add_file(objects, text.encode(), file="x.yaml").readable
    assert [str(v.origin) for v in judge_roles(objects, shipped_rights()).violations] == ["x.yaml:8"]


CSV = """\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op, namespace: ops}
spec:
  installModes: [{type: AllNamespaces, supported: %s}]
  install:
    spec:
      permissions:
      - serviceAccountName: manager
        rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
"""


@pytest.mark.parametrize(("everywhere", "expected"), [("true", {"secrets-read"}), ("false", set())])
def test_permissions_of_an_olm_bundle_count_where_it_may_watch(everywhere, expected):
    assert rights(judged((CSV % everywhere).encode(), "x.yaml", "nim")) == expected


@pytest.mark.parametrize("entry", ["5", "{serviceAccountName: m, rules: 5}", "{rules: [{verbs: [bind]}]}"])
def test_permissions_of_an_olm_bundle_that_cannot_be_read_or_pass(entry):
    text = CSV.partition("      - service")[0] % "true" + f"      - {entry}\n"
    assert not judged(text.encode(), "x.yaml", "nim").passes
