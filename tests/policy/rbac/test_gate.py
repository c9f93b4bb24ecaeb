"""The gate: who has which roles, what is refused, and what somebody has to accept."""

from __future__ import annotations

import pytest

from gitops.model.operators import OperatorType
from gitops.policy.rbac.gate import judge_roles, scope_of
from gitops.policy.rbac.operators import accepted_by, refused_types, unreadable_types
from gitops.policy.rbac.resolving import accounts_in, unbound_roles
from gitops.policy.rbac.reviewing import shipped_rights
from gitops.policy.rbac.roles import Account
from gitops.policy.registry import OperatorRegistry


def rule(verbs="get", resources="pods", groups="", **more):
    parts = {"verbs": verbs, "resources": resources, "apiGroups": groups}
    return {**{key: value.split(",") for key, value in parts.items()}, **more}


WIDE = rule(verbs="*")
READ = rule(resources="secrets")


def codes(judgement):
    return [violation.code for violation in judgement.violations]


def rights(judgement):
    return [review.right.id for review in judgement.reviews]


SUBJECTS = [
    ({"kind": "ServiceAccount", "namespace": "ops", "name": "manager"}, True),
    ({"kind": "ServiceAccount", "namespace": "ops", "name": "other"}, False),
    ({"kind": "ServiceAccount", "namespace": "web", "name": "manager"}, False),
    ({"kind": "ServiceAccount", "name": "manager"}, False),
    ({"kind": "User", "name": "system:serviceaccount:ops:manager"}, True),
    ({"kind": "User", "name": "system:serviceaccount:web:manager"}, False),
    ({"kind": "User", "name": "manager"}, False),
    ({"kind": "Group", "name": "system:serviceaccounts"}, True),
    ({"kind": "Group", "name": "system:serviceaccounts:ops"}, True),
    ({"kind": "Group", "name": "system:serviceaccounts:web"}, False),
    ({"kind": "Group", "name": "system:authenticated"}, True),
    ({"kind": "Group", "name": "system:unauthenticated"}, False),
    ({"kind": "Group", "name": "manager"}, False),
    ({"kind": "Robot", "name": "x"}, True),
    (None, True),
]


@pytest.mark.parametrize(("subject", "bound"), SUBJECTS)
def test_who_is_bound(rbac, subject, bound):
    rbac.role("wide", WIDE).bind("wide", subject)
    assert codes(rbac.judge()) == (["GO4411"] if bound else [])


def test_a_service_account_without_namespace_is_one_of_the_bindings_own(rbac):
    rbac.role("wide", WIDE).bind("wide", {"kind": "ServiceAccount", "name": "manager"}, namespace="ops")
    assert codes(rbac.judge()) == ["GO4411"]
    assert codes(rbac.judge(Account("web", "manager"))) == []


@pytest.mark.parametrize(
    ("held", "code"),
    [
        (rule(verbs="*"), "GO4411"),
        (rule(groups="*"), "GO4411"),
        (rule(resources="*"), "GO4411"),
        (rule(resources="*/scale"), "GO4411"),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, "GO4411"),
        (rule(verbs="escalate", groups="rbac.authorization.k8s.io", resources="roles"), "GO4412"),
        (rule(verbs="bind", groups="rbac.authorization.k8s.io", resources="roles", resourceNames=["view"]), "GO4412"),
        (rule(verbs="impersonate", resources="users"), "GO4412"),
        ({"verbs": "get", "apiGroups": [""], "resources": ["pods"]}, "GO4415"),
        ("all", "GO4415"),
        (rule(), None),
        (rule(resources="pods/*"), None),
    ],
)
def test_what_closes_the_gate(rbac, held, code):
    rbac.role("r", rule(), held).bind("r")
    judgement = rbac.judge()
    assert codes(judgement) == ([code] if code else [])
    assert judgement.passes is (code is None)
    if code in ("GO4411", "GO4412"):
        assert "ClusterRole.rbac.authorization.k8s.io r rule 2, everywhere" in judgement.violations[0].message


@pytest.mark.parametrize("rules", [5, "x", {"verbs": ["get"]}])
def test_rules_that_are_no_list_close_the_gate(rbac, rules):
    rbac.role("r").bind("r")
    rbac.bodies[0]["rules"] = rules
    assert codes(rbac.judge()) == ["GO4415"]


def test_rules_that_are_null_grant_nothing(rbac):
    rbac.role("r").bind("r")
    rbac.bodies[0]["rules"] = None
    assert rbac.judge().passes


@pytest.mark.parametrize("known", [True, False])
def test_cluster_admin_is_told_by_its_name(rbac, known):
    if known:
        rbac.role("cluster-admin", rule("*", "*", "*"))
    rbac.bind("cluster-admin")
    assert codes(rbac.judge())[0] == "GO4413"


@pytest.mark.parametrize(
    "reference",
    [
        {"kind": "ClusterRole", "name": "gone"},
        {"kind": "Role", "name": "r"},
        {"kind": "Robot", "name": "r"},
        {"kind": "ClusterRole", "name": "r", "apiGroup": "example.com"},
        {"kind": "ClusterRole"},
        {},
        None,
    ],
)
def test_a_role_that_is_not_known_closes_the_gate(rbac, reference):
    rbac.role("r", rule()).bind("r")
    rbac.bodies[-1]["roleRef"] = reference
    assert codes(rbac.judge()) == ["GO4414"]


def test_a_role_counts_in_its_own_namespace_only(rbac):
    rbac.role("r", rule(), namespace="a").bind("r", kind="Role", namespace="b")
    assert codes(rbac.judge()) == ["GO4414"]
    rbac.role("r", WIDE, namespace="b")
    assert [v.message for v in rbac.judge().violations] == [
        "Role.rbac.authorization.k8s.io b/r rule 1, in b: `*` in verbs"
    ]


def test_a_role_declared_twice_is_judged_twice(rbac):
    rbac.role("r", rule()).role("r", WIDE).bind("r")
    assert codes(rbac.judge()) == ["GO4411"]


def aggregated(*selectors):
    return {"aggregationRule": {"clusterRoleSelectors": [*selectors]}}


def test_aggregation_is_followed_also_through_aggregated_roles_and_in_circles(rbac):
    into = "ClusterRole.rbac.authorization.k8s.io top"
    rbac.role("top", **aggregated({"matchLabels": {"to": "top"}}))
    rbac.role(
        "middle", labels={"to": "top"}, **aggregated({"matchExpressions": [{"key": "deep", "operator": "Exists"}]})
    )
    rbac.role("bottom", WIDE, labels={"deep": "1"}, **aggregated({"matchLabels": {"to": "top"}}))
    rbac.role("aside", WIDE, labels={"to": "other"}).bind("top")
    judgement = rbac.judge()
    assert [v.message for v in judgement.violations] == [
        f"ClusterRole.rbac.authorization.k8s.io bottom rule 1, aggregated into {into}, everywhere: `*` in verbs"
    ]
    assert len(judgement.notes) == 3


def test_a_copy_in_an_aggregated_role_is_told_once_as_its_original(rbac):
    rbac.role("top", WIDE, READ, **aggregated({"matchLabels": {"to": "top"}}))
    rbac.role("part", WIDE, labels={"to": "top"}).bind("top")
    judgement = rbac.judge(live=True)
    assert [v.object.name for v in judgement.violations] == ["part"]
    assert [r.granted.role.ref.name for r in judgement.reviews] == ["top"]
    (note,) = judgement.notes
    assert note.endswith("k8s.io top is not aggregated up to date: 0 rules to come, 1 to go; both are judged")


def test_an_aggregated_role_up_to_date_needs_no_note(rbac):
    rbac.role("top", READ, **aggregated({"matchLabels": {"to": "top"}})).role("part", READ, labels={"to": "top"})
    assert rbac.bind("top").judge(live=True).notes == ()


def test_an_empty_selector_takes_every_role(rbac):
    rbac.role("top", **aggregated({})).role("far", WIDE).bind("top")
    assert codes(rbac.judge()) == ["GO4411"]


@pytest.mark.parametrize(
    "rule_", [{}, 5, {"clusterRoleSelectors": {}}, {"clusterRoleSelectors": [{"matchLabels": [1]}]}]
)
def test_a_selector_that_cannot_be_read_closes_the_gate(rbac, rule_):
    rbac.role("top", aggregationRule=rule_).bind("top")
    assert codes(rbac.judge()) == ["GO4415"]


# -- the list of high-risk rights -------------------------------------------------------------------------------------

RBAC = "rbac.authorization.k8s.io"
HIGH_RISK = [
    (rule("get", "secrets"), "secrets-read"),
    (rule("list", "secrets"), "secrets-read"),
    (rule("watch", "secrets"), "secrets-read"),
    (rule("patch", "secrets"), "secrets-write"),
    (rule("delete", "secrets"), None),
    (rule("create", "pods"), "pods-create"),
    (rule("delete", "pods"), None),
    (rule("create", "deployments", "apps"), "workloads-write"),
    (rule("patch", "cronjobs", "batch"), "workloads-write"),
    (rule("create", "deployments", "example.com"), None),
    (rule("create", "pods/exec"), "pods-exec"),
    (rule("get", "pods/attach"), "pods-exec"),
    (rule("get", "pods/log"), None),
    (rule("get", "nodes/proxy"), "nodes-proxy"),
    (rule("get", "nodes"), None),
    (rule("patch", "nodes"), "nodes-write"),
    (rule("create", "serviceaccounts/token"), "service-account-tokens"),
    (rule("create", "serviceaccounts"), None),
    (rule("create", "rolebindings", RBAC), "roles-write"),
    (rule("update", "clusterroles", RBAC), "cluster-roles-write"),
    (rule("list", "clusterroles", RBAC), None),
    (rule("delete", "customresourcedefinitions", "apiextensions.k8s.io"), "crds-write"),
    (rule("patch", "mutatingwebhookconfigurations", "admissionregistration.k8s.io"), "webhooks-write"),
    (rule("update", "apiservices", "apiregistration.k8s.io"), "apiservices-write"),
    (rule("update", "certificatesigningrequests/approval", "certificates.k8s.io"), "certificates-sign"),
    (rule("approve", "signers", "certificates.k8s.io"), "certificates-sign"),
    (rule("create", "persistentvolumes"), "persistent-volumes-create"),
    (rule("create", "persistentvolumeclaims"), None),
    (rule("patch", "namespaces"), "namespaces-write"),
    (rule("create", "priorityclasses", "scheduling.k8s.io"), "priority-classes-write"),
    (rule("use", "securitycontextconstraints", "security.openshift.io"), "scc-use"),
    (rule("update", "securitycontextconstraints", "security.openshift.io"), "scc-write"),
    (rule("create", "tokenreviews", "authentication.k8s.io"), "reviews"),
    (rule("create", "subjectaccessreviews", "authorization.k8s.io"), "reviews"),
    (rule("update", "leases", "coordination.k8s.io"), "kube-system-leases"),
    (rule("create", "endpointslices", "discovery.k8s.io"), "endpoints-write"),
]


@pytest.mark.parametrize(("held", "right"), HIGH_RISK)
def test_high_risk_rights(rbac, held, right):
    judgement = rbac.role("r", held).bind("r").judge()
    assert rights(judgement) == ([right] if right else [])
    assert judgement.passes


def test_every_high_risk_right_has_a_case():
    assert {right for _, right in HIGH_RISK if right} == {right.id for right in shipped_rights()}


@pytest.mark.parametrize(
    ("held", "namespace", "found"),
    [
        (rule("get", "secrets"), "ops", []),
        (rule("get", "secrets"), "kube-system", ["secrets-read"]),
        (rule("get", "secrets"), "gitops-secrets", ["secrets-read"]),
        (rule("create", "pods"), "ops", ["pods-create"]),
        (rule("create", "persistentvolumes"), "ops", []),
        (rule("update", "leases", "coordination.k8s.io"), "ops", []),
        (rule("update", "leases", "coordination.k8s.io"), "kube-system", ["kube-system-leases"]),
        (rule("patch", "namespaces"), "ops", ["namespaces-write"]),
    ],
)
def test_a_binding_in_a_namespace_gives_less(rbac, held, namespace, found):
    judgement = rbac.role("r", held).bind("r", namespace=namespace).judge()
    assert rights(judgement) == found
    assert {scope_of(review.granted) for review in judgement.reviews} <= {f"in {namespace}"}


def test_places_of_one_role_are_told_together(rbac):
    rbac.role("r", rule("create", "pods"))
    for namespace in ("d", "a", "c", "b"):
        rbac.bind("r", namespace=namespace)
    (review,) = rbac.judge().reviews
    assert scope_of(review.granted) == "in a, b, c and 1 more"
    (review,) = rbac.bind("r").judge().reviews
    assert scope_of(review.granted) == "everywhere"


@pytest.mark.parametrize(
    ("held", "verbs"),
    [
        (rule("get,list", "secrets", resourceNames=["own"]), None),
        (rule("create,update", "roles", RBAC, resourceNames=["own"]), ("update",)),
        (rule("create", "pods", resourceNames=["own"]), None),
        (rule("create", "serviceaccounts/token", resourceNames=["own"]), ("create",)),
        (rule("use", "securitycontextconstraints", "security.openshift.io", resourceNames=["anyuid"]), ("use",)),
    ],
)
def test_resource_names_narrow(rbac, held, verbs):
    reviews = rbac.role("r", held).bind("r").judge().reviews
    assert [review.verbs for review in reviews] == ([verbs] if verbs else [])


def test_a_rule_with_a_wildcard_is_refused_and_not_listed_besides(rbac):
    judgement = rbac.role("r", rule("get", "*"), rule("create", "pods")).bind("r").judge()
    assert (codes(judgement), rights(judgement)) == (["GO4411"], ["pods-create"])


def test_what_an_operator_type_accepts_is_marked(rbac):
    rbac.role("r", rule("get,create", "secrets")).bind("r")
    judgement = rbac.judge(accepted=["secrets-read"])
    assert {r.right.id: r.accepted for r in judgement.reviews} == {"secrets-read": True, "secrets-write": False}


def test_links_lead_to_sections_of_one_page():
    assert {right.see for right in shipped_rights()} >= {"listing-secrets", "workload-creation", "token-request"}


# -- files and clusters -----------------------------------------------------------------------------------------------


def test_accounts_of_files_are_those_declared_and_those_bound(rbac):
    rbac.bodies.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own", "namespace": "a"}})
    rbac.role("r", WIDE)
    rbac.bind("r", {"kind": "User", "name": "system:serviceaccount:b:user"}, {"kind": "Group", "name": "people"})
    rbac.bind("r", {"kind": "Group", "name": "system:serviceaccounts:c"}, {"kind": "User", "name": "somebody"})
    rbac.bind("r", {"kind": "Group", "name": "system:authenticated"})
    rbac.bind("r", {"kind": "ServiceAccount", "name": "here"}, namespace="d")
    found = ["*/*", "a/own", "b/user", "c/*", "d/here"]
    assert [str(account) for account in accounts_in(rbac.objects)] == found


def test_a_group_binds_accounts_that_nobody_names(rbac):
    rbac.role("r", WIDE).bind("r", {"kind": "Group", "name": "system:serviceaccounts"})
    assert codes(rbac.judge(*accounts_in(rbac.objects))) == ["GO4411"]


def test_roles_that_nobody_has_are_named(rbac):
    rbac.role("had", **aggregated({"matchLabels": {"to": "had"}})).role("part", labels={"to": "had"})
    rbac.role("free", WIDE).bind("had")
    assert [ref.name for ref in unbound_roles(accounts_in(rbac.objects), rbac.objects)] == ["free"]


def test_roles_without_bindings_are_judged_as_if_bound(rbac):
    rbac.role("r", rule("create", "persistentvolumes")).role("own", rule("get", "secrets"), WIDE, namespace="a")
    judgement = judge_roles(rbac.objects, shipped_rights())
    assert (codes(judgement), rights(judgement), judgement.bound) == (["GO4411"], ["persistent-volumes-create"], False)


def operator(name="x"):
    spec = {
        "clusterAttribute": "X",
        "kinds": [{"group": "example.com", "version": "v1", "kind": "Thing", "resource": "things"}],
    }
    head = {"apiVersion": "gitops/v1alpha1", "kind": "OperatorType", "metadata": {"name": name}}
    return OperatorType.model_validate({**head, "spec": spec})


def test_refused_types_say_why(rbac):
    rbac.role("r", WIDE, rule("bind")).bind("r")
    accounts = {"bad": [Account("ops", "fine"), Account("ops", "manager")], "good": [Account("ops", "fine")]}
    refused = refused_types(map(operator, ("bad", "good", "absent")), accounts, rbac.objects)
    assert refused == {
        "bad": "GO4411: ClusterRole.rbac.authorization.k8s.io r rule 1, everywhere: `*` in verbs (and 1 more)"
    }


def test_an_operator_without_accounts_is_not_refused(rbac):
    """Neither for a binding that outlived it, nor for one of every ServiceAccount."""
    rbac.role("r", WIDE).bind("r").bind("r", {"kind": "Group", "name": "system:serviceaccounts"}, name="all")
    assert refused_types([operator()], {"x": []}, rbac.objects) == {}
    assert set(refused_types([operator()], {"x": [Account("ops", "any")]}, rbac.objects)) == {"x"}


def test_rights_that_may_not_be_read_refuse_every_type():
    refused = unreadable_types([operator("x")], "403 Forbidden")
    assert refused == {"x": "the rights of its ServiceAccounts cannot be read: 403 Forbidden"}


def test_shipped_types_accept_rights_that_are_on_the_list():
    known = {right.id for right in shipped_rights()}
    accepted = {name: accepted_by(each) for name, each in OperatorRegistry.shipped().types.items()}
    assert {right for ids in accepted.values() for right in ids} <= known
    assert {name for name, ids in accepted.items() if ids} >= {"dynamo", "nim"}
