"""Codes of the gate of rights (GO4411 and on): what `gitops rbac check` finds and a cluster is refused for."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.findings import Severity

E = Severity.ERROR

WILDCARD = define(
    "GO4411",
    E,
    "A right without bounds in a role of an operator",
    "Name every verb, API group, resource and URL: a wildcard also grants what is installed later.",
    example='`resources: ["*"]`, or `*/scale`',
)
ESCALATING_VERB = define(
    "GO4412",
    E,
    "A verb that leads to any right",
    "Remove escalate, bind and impersonate: who has one of them can take rights that no role names.",
    example="`verbs: [impersonate]` on users",
)
CLUSTER_ADMIN = define(
    "GO4413",
    E,
    "An operator is bound to cluster-admin",
    "Bind a role that names what the operator needs.",
    example="a ClusterRoleBinding of the operator's ServiceAccount to cluster-admin",
)
UNRESOLVED_ROLE = define(
    "GO4414",
    E,
    "A binding whose role is not known",
    "Check the role's file too (`kubectl get clusterrole NAME -o yaml`), or remove the binding.",
    example="a ClusterRoleBinding to a role that is in none of the files",
)
UNREADABLE_ROLE = define(
    "GO4415",
    E,
    "A role that cannot be read",
    "Rules are lists of texts, selectors have matchLabels and matchExpressions.",
    example='`verbs: "get"` in a role',
)
SYSTEM_ACCOUNT = define(
    "GO4418",
    E,
    "A workload is applied in the name of a part of Kubernetes",
    "Name a ServiceAccount that was made for this workload: those of kube-* namespaces belong to Kubernetes itself.",
    example="`serviceAccount: kube-system/clusterrole-aggregation-controller`",
)
TEMPLATE = define(
    "GO4416",
    E,
    "A template, not a manifest",
    "Render it first: helm template RELEASE CHART | gitops rbac check -",
    example="`name: {{ .Release.Name }}-manager`",
)
NO_MANIFEST = define(
    "GO4417",
    E,
    "A document that is no object",
    "Give files of manifests; every document needs apiVersion, kind and metadata.name.",
    example="a file of Helm values",
)
