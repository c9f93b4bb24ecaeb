"""Whatever stands in a role, binding or bundle is judged or refused, and never an exception."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gitops.policy.rbac.declared import problems_of
from gitops.policy.rbac.gate import judge_accounts, judge_roles
from gitops.policy.rbac.manifests import add_file
from gitops.policy.rbac.olm import add_csv
from gitops.policy.rbac.resolving import accounts_in, unbound_roles
from gitops.policy.rbac.reviewing import shipped_rights
from gitops.policy.rbac.roles import RbacObjects, Source, ref_of

WORDS = [
    *(
        "verbs",
        "apiGroups",
        "resources",
        "resourceNames",
        "nonResourceURLs",
        "rules",
        "*",
        "*/x",
        "get",
        "bind",
        "r",
        "",
    ),
    *("clusterRoleSelectors", "matchLabels", "matchExpressions", "key", "operator", "In", "values", "kind", "name"),
    *(
        "ServiceAccount",
        "Group",
        "User",
        "namespace",
        "system:serviceaccount:a:b",
        "system:serviceaccounts",
        "ClusterRole",
    ),
]
text = st.sampled_from(WORDS)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
)
KINDS = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]
bodies = st.fixed_dictionaries(
    {"apiVersion": st.just("rbac.authorization.k8s.io/v1"), "kind": st.sampled_from(KINDS)},
    optional={
        "metadata": st.one_of(anything, st.fixed_dictionaries({"name": st.just("r")}, optional={"labels": anything})),
        "rules": anything,
        "aggregationRule": anything,
        "roleRef": st.one_of(anything, st.just({"kind": "ClusterRole", "name": "r"})),
        "subjects": anything,
    },
)


@given(st.lists(bodies, max_size=4))
def test_roles_and_bindings(objects_read):
    objects = RbacObjects.of(map(Source, objects_read))
    accounts = accounts_in(objects)
    unbound_roles(accounts, objects)
    for judgement in (judge_accounts(accounts, objects, shipped_rights()), judge_roles(objects, shipped_rights())):
        assert judgement.passes is (judgement.violations == ())
    for body in objects_read:
        assert all(code.startswith("GO44") for code, _, _ in problems_of(body, ref_of(body)))


@given(anything, anything)
def test_olm_bundles(spec, install):
    for body in ({"spec": spec}, {"spec": {"install": {"spec": install}}}):
        objects = RbacObjects()
        add_csv(
            objects, Source({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", **body})
        )
        judge_accounts(accounts_in(objects), objects, shipped_rights())
        assert len(objects.roles) == len(objects.bindings)


@given(st.lists(st.one_of(anything, bodies), max_size=3))
def test_files(documents):
    data = "\n---\n".join(json.dumps(document) for document in documents).encode()
    objects = RbacObjects()
    result = add_file(objects, data, file="x.yaml")
    assert result.readable or result.findings
    assert result.readable or not objects.roles
