"""X05: what roles and bindings of a pull request may give away."""

from __future__ import annotations

import pytest

from gitops.model.identity import ObjectRef
from gitops.policy.rbac.declared import problems_of

GROUP = "rbac.authorization.k8s.io"


def declared(kind, name="page", **body):
    namespace = "" if kind.startswith("Cluster") else "web"
    ref = ObjectRef(GROUP, kind, namespace, name)
    metadata = {"name": name, "labels": body.pop("labels", {})}
    return list(problems_of({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **body}, ref))


def rule(verbs="get", resources="pods", groups="", **more):
    parts = {"verbs": verbs, "resources": resources, "apiGroups": groups}
    return {**{key: value.split(",") for key, value in parts.items()}, **more}


def found(problems):
    return [(code, path) for code, _, path in problems]


EVERYTHING = rule("*", "*", "*")


@pytest.mark.parametrize(
    ("kind", "held", "code"),
    [
        ("ClusterRole", EVERYTHING, "GO4402"),
        ("ClusterRole", {**EVERYTHING, "resourceNames": ["a"]}, "GO4401"),
        ("Role", EVERYTHING, "GO4401"),
        ("Role", rule("*"), "GO4401"),
        ("Role", rule("get", "*/scale"), "GO4401"),
        ("ClusterRole", rule("escalate", "clusterroles", GROUP), "GO4401"),
        ("ClusterRole", rule("bind", "clusterroles", GROUP), "GO4401"),
        ("ClusterRole", rule("impersonate", "users"), "GO4401"),
        ("ClusterRole", {"verbs": ["get"], "nonResourceURLs": ["*"]}, "GO4401"),
        ("ClusterRole", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, None),
        ("ClusterRole", rule("get,list,create", "pods,pods/log,secrets"), None),
        ("ClusterRole", "text", None),
    ],
)
def test_x05_rules(kind, held, code):
    assert found(declared(kind, rules=[rule(), held])) == ([(code, ("rules", 1))] if code else [])


@pytest.mark.parametrize(
    ("kind", "role", "code"),
    [
        ("ClusterRoleBinding", {"kind": "ClusterRole", "name": "cluster-admin"}, "GO4402"),
        ("RoleBinding", {"kind": "ClusterRole", "name": "cluster-admin"}, "GO4401"),
        ("ClusterRoleBinding", {"kind": "ClusterRole", "name": "admin"}, "GO4401"),
        ("ClusterRoleBinding", {"kind": "ClusterRole", "name": "edit"}, "GO4401"),
        ("RoleBinding", {"kind": "ClusterRole", "name": "admin"}, None),
        ("RoleBinding", {"kind": "Role", "name": "cluster-admin"}, None),
        ("ClusterRoleBinding", {"kind": "ClusterRole", "name": "view"}, None),
        ("ClusterRoleBinding", {"kind": "ClusterRole", "name": "page"}, None),
        ("ClusterRoleBinding", 5, None),
    ],
)
def test_x05_bound_roles(kind, role, code):
    subject = {"kind": "ServiceAccount", "namespace": "web", "name": "page"}
    assert found(declared(kind, roleRef=role, subjects=[subject])) == ([(code, ("roleRef",))] if code else [])


@pytest.mark.parametrize(
    ("kind", "subject", "code"),
    [
        ("ClusterRoleBinding", {"kind": "Group", "name": "system:masters"}, "GO4403"),
        ("ClusterRoleBinding", {"kind": "Group", "name": "system:unauthenticated"}, "GO4403"),
        ("RoleBinding", {"kind": "User", "name": "system:anonymous"}, "GO4403"),
        ("ClusterRoleBinding", {"kind": "Group", "name": "system:authenticated"}, "GO4404"),
        ("RoleBinding", {"kind": "Group", "name": "system:serviceaccounts"}, "GO4404"),
        ("RoleBinding", {"kind": "ServiceAccount", "namespace": "build", "name": "x"}, "GO4405"),
        ("RoleBinding", {"kind": "User", "name": "system:serviceaccount:build:x"}, "GO4405"),
        ("RoleBinding", {"kind": "Group", "name": "system:serviceaccounts:build"}, "GO4405"),
        ("RoleBinding", {"kind": "ServiceAccount", "namespace": "web", "name": "x"}, None),
        ("RoleBinding", {"kind": "ServiceAccount", "name": "x"}, None),
        ("RoleBinding", {"kind": "Group", "name": "system:serviceaccounts:web"}, None),
        ("RoleBinding", {"kind": "User", "name": "jane"}, None),
        ("RoleBinding", {"kind": "Group", "name": "ml-team"}, None),
        ("ClusterRoleBinding", {"kind": "ServiceAccount", "namespace": "build", "name": "x"}, None),
        ("ClusterRoleBinding", 5, None),
    ],
)
def test_x05_subjects(kind, subject, code):
    role = {"kind": "ClusterRole", "name": "page"}
    problems = declared(kind, roleRef=role, subjects=[{"kind": "User", "name": "a"}, subject])
    assert found(problems) == ([(code, ("subjects", 1))] if code else [])


def test_x05_a_binding_of_an_instance_is_for_its_own_namespace():
    """A function's objects have no namespace when they are judged: whichever is named is another."""
    role = {"kind": "ClusterRole", "name": "page"}
    for subject, codes in (({"name": "x"}, []), ({"name": "x", "namespace": "web"}, ["GO4405"])):
        body = {"roleRef": role, "subjects": [{"kind": "ServiceAccount", **subject}]}
        assert [code for code, _, _ in problems_of(body, ObjectRef(GROUP, "RoleBinding", "", "page"))] == codes


@pytest.mark.parametrize(
    ("into", "held", "words"),
    [
        ("view", rule("list", "secrets"), "everybody with view gets secrets-read"),
        ("edit", rule("create", "pods/exec"), "everybody with edit gets pods-exec"),
        ("admin", rule("*", "things", "example.com"), "everybody with admin gets rights without bounds"),
        ("view", rule("get", "things", "example.com"), None),
        ("other", rule("list", "secrets"), None),
    ],
)
def test_x05_aggregated_rights(into, held, words):
    label = f"rbac.authorization.k8s.io/aggregate-to-{into}"
    problems = [p for p in declared("ClusterRole", rules=[held], labels={label: "true"}) if p[0] == "GO4406"]
    assert problems == ([("GO4406", words, ("metadata", "labels", label))] if words else [])
    assert not [p for p in declared("ClusterRole", rules=[held], labels={label: "false"}) if p[0] == "GO4406"]
    assert not [p for p in declared("Role", rules=[held], labels={label: "true"}) if p[0] == "GO4406"]


@pytest.mark.parametrize(
    ("selector", "refused"),
    [
        ({}, True),
        ({"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, True),
        ({"matchExpressions": [{"key": "mine", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"mine": "true"}}, False),
    ],
)
def test_x05_a_role_that_aggregates_cluster_admin(selector, refused):
    problems = declared("ClusterRole", rules=[], aggregationRule={"clusterRoleSelectors": [selector]})
    assert found(problems) == ([("GO4402", ("aggregationRule",))] if refused else [])


@pytest.mark.parametrize("kind", ["ClusterRole", "ClusterRoleBinding"])
@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("cluster-admin", True),
        ("view", True),
        ("system:discovery", True),
        ("system:metrics-server", False),
        ("x", False),
    ],
)
def test_x05_roles_of_the_api_server(kind, name, refused):
    assert found(declared(kind, name)) == ([("GO4407", ("metadata", "name"))] if refused else [])
    assert declared(kind.removeprefix("Cluster"), name) == []
