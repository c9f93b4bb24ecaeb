"""Codes of findings about placement (GO40xx) and about the objects that a workload may declare (GO41xx to GO44xx)."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.findings import Severity

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741

# -- placement --------------------------------------------------------------------------------------------------------

NO_CLUSTER = define(
    "GO4001",
    E,
    "No cluster satisfies the workload",
    "Compare gpu, instanceType, clusters, regions, attributes and operatorVersions.",
    example="`gpu: H200`, and every cluster has H100 only",
)
PLACEMENT_WAITS = define(
    "GO4002",
    W,
    "An instance is not placed while a cluster that may have it is not known",
    "It may already live there. Repair the file that is named, or let the cluster answer; remove one that is gone.",
    example="`clusters/dgx-b.yaml` cannot be read, and instances of the function may be there",
)
NAMESPACE_SHARED = define(
    "GO4003",
    E,
    "spec.namespace with more than one instance on a cluster",
    "Remove spec.namespace, or ask for one instance on each cluster.",
    example="`namespace: chat` with `minInstances: 2` and one cluster",
)
FOREIGN_ACCOUNT = define(
    "GO4004",
    E,
    "The cluster belongs to another account",
    "spec.tenancy.ncaId of the cluster and spec.ncaId of gitops.yaml must be equal to the letter, or both left out.",
    example="`tenancy: {ncaId: other}`",
)
NOT_PLACED = define(
    "GO4005",
    I,
    "Nothing is placed",
    "Add deployment.yaml with at least one GPU specification.",
    example="a function without `deployment.yaml`",
)

UNMARKED_CLUSTER = define(
    "GO4006",
    W,
    "An operator is expected where the cluster does not say so",
    "Add the operator's attribute to the cluster's attributes, or select other clusters.",
    example="an OperatorInstall of dynamo for a cluster without DynamoOperatorSupport",
)
TWO_VERSIONS = define(
    "GO4007",
    E,
    "Two versions of one operator on one cluster",
    "Keep one of the documents for each operator and cluster.",
    example="two OperatorInstalls of dynamo, 1.2.1 and 1.5.0, that both select dgx-a",
)

CAPACITY_WAITS = define(
    "GO4008",
    W,
    "An instance waits for GPUs",
    "Nothing new is placed beyond the GPUs that Cluster documents declare. Free some, raise spec.gpus[].capacity, or "
    "lower minInstances.",
    example="five instances of 2 GPUs, and one cluster with `capacity: 8`",
)
TOO_MANY_INSTANCES = define(
    "GO4009",
    E,
    "More instances than a repository may have",
    "Lower minInstances or select fewer clusters. Until then what runs stays as it is.",
    example="`minInstances: 1000` with `perCluster: true` in eleven specifications",
)
CLUSTER_CLOSED = define(
    "GO4010",
    W,
    "An instance waits, since no cluster that may have it can take it now",
    "See the reasons. What lives there already stays.",
    example="the only cluster with H100 does not serve DynamoGraphDeployment",
)
OTHER_VERSION = define(
    "GO4011",
    W,
    "Another version of an operator runs than is expected",
    "Correct the OperatorInstall, or install what it says. Until then what really runs counts.",
    example="an OperatorInstall of dynamo 1.5.0 for a cluster that runs 1.2.1",
)
OPERATOR_REFUSED = define(
    "GO4012",
    W,
    "What runs is held, since its operator may not be used there",
    "Nothing new goes there, and what is there is neither changed nor removed. `gitops rbac check` shows the rights.",
    example="the role of an operator on dgx-a has a wildcard, and a function runs there",
)
UNDECLARED = define(
    "GO4013",
    W,
    "Instances that run are deleted, since nothing declares them any more",
    "If that is not meant, put the GPU specification back under its old id.",
    example="`id: h100` renamed to `id: gpu`, while instances of h100 run",
)
VERSION_UNMET = define(
    "GO4014",
    W,
    "What runs has another version of its operator than operatorVersions asks for",
    "It stays where it is. Move it by clusters, regions or attributes, or change the range.",
    example='`operatorVersions: {dynamo: ">=1.5"}`, and an instance on a cluster with 1.2.1',
)
SAME_CREDENTIALS = define(
    "GO4015",
    E,
    "Two clusters with one name of credentials",
    "They would be one cluster under two names: remove one document, or correct its spec.credentials.",
    example="`credentials: dgx-a` in `clusters/dgx-a.yaml` and in `clusters/dgx-b.yaml`",
)
LIKE_A_FOLDER = define(
    "GO4016",
    W,
    "A folder whose name looks like one of ours",
    "It is not read. Rename it, or ignore this.",
    example="`policy/` instead of `policies/`",
)

# -- objects ----------------------------------------------------------------------------------------------------------

KIND_REFUSED = define(
    "GO4101",
    E,
    "This kind is not allowed in a function",
    "A function holds the kinds of its operatorTypes and their companions; put anything else into a bundle.",
    example="`kind: ClusterRole` in a function",
)
VERSION_REFUSED = define(
    "GO4102",
    E,
    "This version of the kind is not allowed",
    "Use a version that the operator type lists.",
    example="`apiVersion: apps.nvidia.com/v1beta1` for a NIMService",
)
NAMESPACE_IN_FUNCTION = define(
    "GO4103",
    E,
    "A function's manifest names a namespace",
    "Remove it: every instance gets a namespace of its own.",
    example="`metadata: {name: chat, namespace: default}`",
)
NAMESPACE_MISSING = define(
    "GO4104",
    E,
    "Namespaced object without a namespace",
    "Add metadata.namespace.",
    example="a ConfigMap without `metadata.namespace` in a bundle",
)
NAMESPACE_FORBIDDEN = define(
    "GO4105",
    E,
    "Objects may not be declared in this namespace",
    "gitops-system, gitops-secrets, gitops-preflight and names that begin with fn- belong to the reconciler; a "
    "function cannot take default or kube-… either.",
    example="`namespace: gitops-system`",
)
BAD_NAME = define(
    "GO4106",
    E,
    "Not a valid name",
    "Lower-case letters, digits, `-` and `.`; at most 253 characters (namespaces: 63).",
    example="`metadata: {name: Llama_Chat}`",
)
NULL_VALUE = define(
    "GO4107",
    E,
    "A null in the object",
    "Write a value, `{}` or `[]`, or remove the key; comments below a key leave it null.",
    example="`env:` with nothing below it",
)
NOT_TEXT = define(
    "GO4108",
    E,
    "A number or truth value where Kubernetes wants text",
    "Put quotes around it.",
    example="`env: [{name: PORT, value: 8080}]`",
)
DEPRECATED_VERSION = define(
    "GO4109",
    W,
    "A deprecated version of the kind",
    "Move to the newer version that the operator stores.",
    example="`apiVersion: nvidia.com/v1alpha1` for a DynamoGraphDeployment",
)
NAME_TOO_LONG = define(
    "GO4110",
    W,
    "Names that add up to too much",
    "Shorten the name of the object or of its longest part.",
    example="a DynamoGraphDeployment and a service of it, both with names of 30 characters",
)
NAMESPACE_IGNORED = define(
    "GO4111",
    W,
    "A namespace on a cluster-scoped kind",
    "Remove it.",
    example="`kind: Namespace` with `metadata: {name: a, namespace: b}`",
)

WIDENS = define(
    "GO4112",
    E,
    "A policy of the repository that would allow more",
    "A repository may only narrow what ships with the daemon.",
    example="an OperatorType with a kind that the shipped one does not have",
)

BAD_MODE = define(
    "GO4113",
    E,
    "A file mode that is out of range",
    "Modes are octal: 0644 and 0o644 are 420. Without the zero it is another number.",
    example="`defaultMode: 644`",
)
EQUAL_ITEMS = define(
    "GO4114",
    E,
    "Two items of a list that cannot be told apart",
    "Server-side apply refuses lists in which two items have the same key. Keep one of them.",
    example="two variables of one name under `env`",
)

# -- secrets ----------------------------------------------------------------------------------------------------------

SECRET_DATA = define(
    "GO4201",
    E,
    "A Secret with data in Git",
    "Git holds names of Secrets only; make the Secret on the cluster itself.",
    example="`kind: Secret` with `stringData: {password: …}`",
)
CREDENTIAL = define(
    "GO4202",
    E,
    "A value looks like a credential",
    "Remove it and revoke it: it is in the history now. If it is none, set the annotation "
    'gitops/allow-credential-like: "true" on the object.',
    example="`NGC_API_KEY: nvapi-…`",
)
TOKEN_SECRET = define(
    "GO4203",
    E,
    "A Secret of type service-account-token",
    "It would make a token that never expires; use bound tokens.",
    example="`type: kubernetes.io/service-account-token`",
)

INLINE_SECRETS = define(
    "GO4204",
    E,
    "Values of secrets in a document",
    "Git holds names of Secrets only: make the Secret on the cluster and name it under secretRefs.",
    example="`secrets: [{name: KEY, value: …}]`",
)

# -- metadata ---------------------------------------------------------------------------------------------------------

OUR_METADATA = define(
    "GO4301",
    E,
    "A label or annotation with a prefix of the reconciler that may not be set in Git",
    "Remove it; see docs/documents.md for those you may set.",
    example="`labels: {gitops/reconciler: mine}`",
)
OPERATOR_METADATA = define(
    "GO4302",
    E,
    "A label or annotation that only the operator writes",
    "Remove it.",
    example="`annotations: {nvidia.com/current-worker-hash: 1a2b}`",
)
BAD_ANNOTATION = define(
    "GO4303",
    E,
    "An annotation of ours with a wrong value",
    "See docs/documents.md for its values.",
    example='`gitops/allow-delete: "yes"`',
)

# -- rights -----------------------------------------------------------------------------------------------------------

WIDE_RIGHTS = define(
    "GO4401",
    W,
    "Rights without bounds",
    "Name API groups, resources and verbs; avoid escalate, bind and impersonate.",
    example='`verbs: ["*"]` in a Role',
)
ALL_RIGHTS = define(
    "GO4402",
    E,
    "Every right on the cluster",
    "Bind a role that names what is needed.",
    example="a ClusterRoleBinding to cluster-admin, or a ClusterRole with `*` for verbs, apiGroups and resources",
)
NO_LOGIN = define(
    "GO4403",
    E,
    "Rights for callers without a login, or for system:masters",
    "Name users, groups or ServiceAccounts; members of system:masters have every right anyway.",
    example="`subjects: [{kind: Group, name: system:unauthenticated}]`",
)
EVERYBODY = define(
    "GO4404",
    W,
    "Rights for everybody",
    "Name the ServiceAccounts or groups that need them.",
    example="`subjects: [{kind: Group, name: system:authenticated}]`",
)
OTHER_NAMESPACE = define(
    "GO4405",
    W,
    "Rights for ServiceAccounts of another namespace",
    "Check that its owners may work in this one.",
    example="a RoleBinding in kube-system for a ServiceAccount of the namespace web",
)
AGGREGATED_RIGHTS = define(
    "GO4406",
    W,
    "Powerful rights that become a part of admin, edit or view",
    "Remove the label, or the rights: everybody who has that role gets them.",
    example='`aggregate-to-view: "true"` on a ClusterRole that reads Secrets',
)
SERVER_ROLE = define(
    "GO4407",
    E,
    "A role or binding of the API server itself",
    "Choose another name; to add rights to admin, edit or view, use the aggregation labels.",
    example="a ClusterRole named system:discovery",
)

# -- schemas ----------------------------------------------------------------------------------------------------------

REFUSED_BY_SCHEMA = define(
    "GO4505",
    E,
    "The API server would refuse the object",
    "The rule is the operator's or Kubernetes' own: see the version that runs on the clusters named.",
    example="`replicas: two` in a Deployment",
)
UNVERIFIED = define(
    "GO4506",
    I,
    "Not verified: no schema is known",
    "Run `gitops schemas pull`, or name files with --schemas.",
    example="a DynamoGraphDeployment, and nothing is known of its cluster",
)
NOT_SERVED = define(
    "GO4507",
    W,
    "The cluster does not serve the kind",
    "It waits until somebody installs the operator, or the version of it that serves the kind.",
    example="`apiVersion: nvidia.com/v1beta1` where the operator serves `v1alpha1` only",
)
BAD_SCHEMA_FILE = define(
    "GO4508",
    E,
    "A schema file that cannot be used",
    "What it was for is not verified: run `gitops schemas pull` again, or remove the file.",
    example="half of a file under `.gitops/schemas/dgx-a/`",
)
UNCHECKED = define(
    "GO4509",
    I,
    "Not verified: a part of the schema",
    "Everything else was checked. The API server has the last word.",
    example="a CEL rule that calls a function this version does not know",
)

# -- rules of operators ------------------------------------------------------------------------------------------------

RULE_BROKEN = define(
    "GO4521",
    E,
    "The operator refuses this, or cannot work with it",
    "See the rule that is named; the operator's own message would come only when the object is sent, or later.",
    example="an image without a version in its tag, and no `runtimeVersionOverride`",
)
RULE_ADVISES = define(
    "GO4522",
    W,
    "The operator takes this and does something that few people want",
    "See the rule that is named.",
    example="`multiNode` without `pipeline`: the service never gets ready",
)
RULE_UNDECIDED = define(
    "GO4523",
    W,
    "A rule of the operator could not be checked",
    "A value has another type than the rule expects; a schema of the kind would say more.",
    example="`replicas: two` where a rule compares numbers",
)
NOT_EXPLICIT = define(
    "GO4524",
    E,
    "A field that must be written out",
    "Write it, with the value that you want.",
    example="a DynamoGraphDeploymentRequest without `autoApply`",
)
ONCE_ONLY = define(
    "GO4525",
    I,
    "A kind that does its work once, every time it is made",
    "It is made once and never again under this name, whatever becomes of it. A new name makes another.",
    example="`kind: DynamoGraphDeploymentRequest`",
)
TRIGGER = define(
    "GO4526",
    I,
    "A field that starts something instead of describing a state",
    "Each value is sent once, when Git changes it on an object that lives, never to a new object. It is no part of "
    "what is compared: whoever sets it on the cluster causes no drift.",
    example="`spec: {restart: {id: again}}` in a DynamoGraphDeployment",
)
NEEDS_NEW_OBJECT = define(
    "GO4527",
    E,
    "A change that a living object does not take",
    "Declare an object with a new name and move over to it, or put the value back. Nothing is deleted by itself.",
    example="another `modelPuller` in a NIMCache that exists",
)
UPDATE_REFUSED = define(
    "GO4528",
    E,
    "A change that the operator or the API server refuses",
    "See the rule that is named.",
    example="other `replicas` of a component with a `scalingAdapter`",
)
UPDATE_UNCHECKED = define(
    "GO4529",
    W,
    "What may change was not checked",
    "The two states are of different versions of the kind; the cluster has the last word.",
    example="`nvidia.com/v1alpha1` becomes `nvidia.com/v1beta1`",
)
RECREATES = define(
    "GO4581",
    W,
    "A change for which a living object is deleted and made anew",
    "Its annotation `gitops/recreate` allows that. What its controller made of it goes with it, but for the pods of a "
    "StatefulSet. Give the new state a new name to have both for a while.",
    example='another `template` of a Job annotated with `gitops/recreate: "true"`',
)
BASE_CHANGED = define(
    "GO4530",
    W,
    "The base changed, and the version did not",
    "Raise spec.version: what runs under one version is then always the same.",
    example="another image in a function's manifests, and `version` as before",
)
UNTRIED_VERSION = define(
    "GO4531",
    W,
    "A version of an operator that this product does not know",
    "Its kinds, rules and children may differ from what is known here.",
    example="an OperatorInstall of dynamo 0.4.1",
)
NOT_FOR_REPOSITORIES = define(
    "GO4532",
    E,
    "A field of an operator type that a repository cannot set",
    "Remove it. A repository narrows what may be declared; what an operator is, its shipped type says.",
    example="`children` in an OperatorType of a repository",
)

# -- pods -------------------------------------------------------------------------------------------------------------

POD_REFUSED = define(
    "GO4601",
    E,
    "Pods that the namespace's Pod Security level refuses",
    "Change the field, or the level: in namespaceTemplate of the Cluster document, or in the bundle's Namespace.",
    example="`hostIPC: true` in a pod template, and `pod-security.kubernetes.io/enforce: baseline`",
)
POD_WARNED = define(
    "GO4602",
    W,
    "Pods that the namespace's Pod Security level warns about",
    "The pods will run. Change the field before the level is enforced.",
    example="`runAsUser: 0` in a pod template, and `pod-security.kubernetes.io/warn: restricted`",
)
POD_DEPENDS = define(
    "GO4603",
    W,
    "Pods that some versions of a Pod Security level refuse",
    "It depends on the cluster's version of Kubernetes: change the field, or name a version in enforce-version.",
    example="`httpGet: {host: …}` in a probe with the level `baseline`, version `latest`: refused since 1.34",
)
POD_UNDECIDED = define(
    "GO4604",
    I,
    "Pods of which the level requires more than is written",
    "The operator may add it; if it does not, the pods are refused later. Write it to be sure.",
    example="a component without `securityContext` where `restricted` is enforced",
)
BAD_LEVEL = define(
    "GO4605",
    E,
    "A Pod Security label that the API server refuses",
    "Write privileged, baseline or restricted; a version is latest or v1.N.",
    example="`pod-security.kubernetes.io/enforce: basline`",
)

# -- validation policies ----------------------------------------------------------------------------------------------

NOT_VALID = define(
    "GO4611",
    E,
    "An object that the validation policy does not allow",
    "Change the object, or choose another policy under validationPolicy. See docs/documents.md.",
    example="a Service of type LoadBalancer with `validationPolicy: {name: Default}`",
)
EXTRA_TYPE_REFUSED = define(
    "GO4612",
    E,
    "A type that the daemon's settings do not allow",
    "A repository cannot allow types to itself: whoever runs the daemon lists them in the setting "
    "extra_kubernetes_types (`--set extra_kubernetes_types=…` for commands without a daemon).",
    example="`extraKubernetesTypes: [{group: batch, version: v1, kind: Job}]`, and the setting is empty",
)

# -- fields that others write -----------------------------------------------------------------------------------------

SCALED_NUMBER = define(
    "GO4651",
    W,
    "A number of replicas beside the autoscaler that sets it",
    "Leave `replicas` out, or say so with gitops/ignore-drift: Git's number holds only when the object is made, and "
    "again when the autoscaler goes.",
    example="a Deployment with `replicas: 1`, and a HorizontalPodAutoscaler with `minReplicas: 2` that targets it",
)
INJECTED_FIELD = define(
    "GO4652",
    W,
    "A dummy in a field that an injector owns",
    "Leave it out: the apply would put it in place of the injected one, and the webhook's calls fail until it is "
    "injected again.",
    example='`clientConfig: {caBundle: ""}` in a ValidatingWebhookConfiguration',
)
