"""Every code of documents, files, patches, policy and units: at least one input that gives it, at the exact line."""

from __future__ import annotations

import pytest

import gitops.plan.codes
import gitops.policy.codes
from gitops.model.trees import EntryKind

FUNCTION = "functions/chat/function.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"
SETTINGS = "functions/chat/manifests/settings.yaml"
MORE = "functions/chat/manifests/more.yaml"
OVERLAY = "functions/chat/overlays/h100.yaml"
OBJECTS = "bundles/base/objects.yaml"
BUNDLE = "bundles/base/bundle.yaml"


def function(spec: str) -> str:
    return f"apiVersion: gitops/v1alpha1\nkind: Function\nmetadata:\n  name: chat\nspec:\n{spec}"


FUNCTION_SPEC = '  version: "1"\n  operatorTypes: [dynamo]\n  manifests:\n    - manifests/\n'


def deployment(spec: str) -> str:
    head = (
        "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n  gpuSpecifications:\n"
    )
    return head + spec


SPEC = "    - id: h100\n      gpu: H100\n      manifestMergePatches: [overlays/h100.yaml]\n"


def settings(more: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n{more}"


def in_web(kind: str, more: str, version: str = "v1", namespace: str = "  namespace: web\n") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: page\n{namespace}{more}"


BUNDLE_TEXT = "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: x}\nspec: {manifests: [a]}\n"
CLUSTER_TEXT = "apiVersion: gitops/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  credentials: a\n"

TOKEN = "ghp_" + "a" * 40
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----"

CASES = [
    # documents
    pytest.param({"gitops.yaml": None}, "GO2001", "gitops.yaml", id="no-repository"),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  verison: x\n")}, "GO2002", f"{FUNCTION}:10", id="unknown-field"
    ),
    pytest.param(
        {FUNCTION: function("  operatorTypes: [dynamo]\n  manifests: [manifests/]\n")},
        "GO2003",
        f"{FUNCTION}:5",
        id="missing-field",
    ),
    pytest.param(
        {FUNCTION: function('  version: "1"\n  operatorTypes: [dynamo]\n')},
        "GO2003",
        f"{FUNCTION}:5",
        id="missing-manifests",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC.replace('"1"', "1.20"))},
        "GO2004",
        f"{FUNCTION}:6",
        id="y06-number-as-version",
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + '      minInstances: "2"\n')}, "GO2004", f"{DEPLOYMENT}:10", id="text-as-number"
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      minInstances: yes\n")},
        "GO2004",
        f"{DEPLOYMENT}:10",
        id="y01-truth-as-number",
    ),
    pytest.param(
        {DEPLOYMENT: deployment("    - id: H_100\n      gpu: H100\n")}, "GO2004", f"{DEPLOYMENT}:7", id="id-is-no-label"
    ),
    pytest.param(
        {
            "gitops.yaml": "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata:\n  name: test\nspec:\n  adopt: maybe\n"  # noqa: E501
        },
        "GO2004",
        "gitops.yaml:6",
        id="not-one-of",
    ),
    pytest.param(
        {FUNCTION: "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: chat}\n"},
        "GO2005",
        f"{FUNCTION}:2",
        id="wrong-kind",
    ),
    pytest.param({FUNCTION: "- 1\n"}, "GO2005", f"{FUNCTION}:1", id="list-document"),
    pytest.param(
        {FUNCTION: "apiVersion: gitops/v1\nkind: Function\nmetadata: {name: chat}\n"},
        "GO2006",
        f"{FUNCTION}:1",
        id="wrong-api-version",
    ),
    pytest.param({FUNCTION: "# nothing\n"}, "GO2007", FUNCTION, id="no-document"),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC) + "---\n" + function(FUNCTION_SPEC)},
        "GO2007",
        f"{FUNCTION}:11",
        id="two-documents",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC).replace("name: chat", "name: chatter")},
        "GO2008",
        f"{FUNCTION}:4",
        id="name-is-not-folder",
    ),
    pytest.param(
        {
            "clusters/a.yaml": "apiVersion: gitops/v1alpha1\nkind: Cluster\nmetadata:\n  name: z\nspec:\n  credentials: a\n"  # noqa: E501
        },
        "GO2008",
        "clusters/a.yaml:4",
        id="name-is-not-file",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  helmChart: x\n")}, "GO2009", f"{FUNCTION}:10", id="not-supported"
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  secrets: [{name: a, value: b}]\n")},
        "GO2009",
        f"{FUNCTION}:10",
        id="x01-inline-secrets",
    ),
    pytest.param({FUNCTION: function(FUNCTION_SPEC + "  tags: [a]\n")}, "GO2010", f"{FUNCTION}:10", id="recorded"),
    pytest.param({"tasks/t/task.yaml": "kind: Task\n"}, "GO2011", "tasks/t", id="task"),
    pytest.param({"policies/mine.yaml": "kind: OperatorType\n"}, "GO2012", "policies/mine.yaml", id="policy"),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC.replace("dynamo", "dynamic"))},
        "GO2013",
        f"{FUNCTION}:7",
        id="unknown-operator",
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      clusters: [c]\n")}, "GO2014", f"{DEPLOYMENT}:10", id="unknown-cluster"
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "  clusterPatches:\n    c: []\n")},
        "GO2014",
        f"{DEPLOYMENT}:11",
        id="patch-for-unknown-cluster",
    ),
    pytest.param({DEPLOYMENT: deployment(SPEC + SPEC)}, "GO2015", f"{DEPLOYMENT}:10", id="id-twice"),
    pytest.param({FUNCTION: None}, "GO2016", "functions/chat", id="no-function-document"),
    pytest.param({BUNDLE: None}, "GO2016", "bundles/base", id="no-bundle-document"),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      minInstances: 3\n      maxInstances: 2\n")},
        "GO2017",
        f"{DEPLOYMENT}:10",
        id="min-above-max",
    ),
    pytest.param({"clusters/a.yaml": None, "clusters/b.yaml": None}, "GO2018", "gitops.yaml", id="no-clusters"),
    # files
    pytest.param({SETTINGS: EntryKind.SYMLINK}, "GO2101", SETTINGS, id="g09-link-to-file"),
    pytest.param({"functions/other": EntryKind.SYMLINK}, "GO2101", "functions/other", id="g09-link-to-folder"),
    pytest.param({"policies": EntryKind.SYMLINK}, "GO2101", "policies", id="g09-link-at-root"),
    pytest.param({"gitops.yaml": EntryKind.SYMLINK}, "GO2101", "gitops.yaml", id="g09-link-as-repository"),
    pytest.param({"functions/chat/sub": EntryKind.SUBMODULE}, "GO2102", "functions/chat/sub", id="g07-submodule"),
    pytest.param(
        {SETTINGS: "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"},
        "GO2103",
        f"{SETTINGS}:1",
        id="g08-lfs-pointer",
    ),
    pytest.param({OVERLAY: None}, "GO2104", f"{DEPLOYMENT}:11", id="no-such-patch-file"),
    pytest.param(
        {SETTINGS: None, "functions/chat/manifests/graph.yaml": None}, "GO2104", f"{FUNCTION}:9", id="no-such-folder"
    ),
    pytest.param(
        {
            BUNDLE: "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: base}\nspec:\n  manifests:\n  - ../other.yaml\n"  # noqa: E501
        },
        "GO2105",
        f"{BUNDLE}:6",
        id="path-leaves-folder",
    ),
    pytest.param(
        {"functions/chat/overlays/a100.yaml": "x: 1\n"},
        "GO2106",
        "functions/chat/overlays/a100.yaml",
        id="unnamed-overlay",
    ),
    pytest.param(
        {"bundles/base/values.yaml": "x: 1\n"}, "GO2106", "bundles/base/values.yaml", id="y20-not-a-manifest-beside"
    ),
    pytest.param(
        {"functions/chat/manifests/Settings.yaml": settings("").replace("name: settings", "name: other")},
        "GO2107",
        SETTINGS,
        id="g15-case",
    ),
    pytest.param(
        {"bundles/base/e\u0301.md": "", "bundles/base/\u00e9.md": ""},
        "GO2107",
        "bundles/base/\u00e9.md",
        id="g15-composed",
    ),
    pytest.param({"clusters/c.yml": "x: 1\n"}, "GO2108", "clusters/c.yml", id="yml-cluster"),
    pytest.param({"functions/stray.yaml": "x: 1\n"}, "GO2108", "functions/stray.yaml", id="file-among-folders"),
    pytest.param({OBJECTS: "# nothing\n"}, "GO2109", OBJECTS, id="r01-no-object"),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "    - manifests/settings.yaml\n")},
        "GO2110",
        f"{FUNCTION}:10",
        id="named-twice",
    ),
    pytest.param({"apps/x/function.yaml": "x: 1\n"}, "GO2111", "apps/x/function.yaml", id="r02-misplaced"),
    pytest.param({OBJECTS: ""}, "GO2112", OBJECTS, id="r01-emptied-file"),
    # patches
    pytest.param(
        {OVERLAY: settings("data: {LEVEL: x}\n").replace("settings", "setting")},
        "GO2201",
        f"{OVERLAY}:1",
        id="p08-target-missing",
    ),
    pytest.param(
        {
            OBJECTS: in_web("ConfigMap", "---\n") + in_web("ConfigMap", "", namespace="  namespace: other\n"),
            BUNDLE: "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: base}\nspec:\n  manifests: [objects.yaml]\n"  # noqa: E501
            "  patches:\n  - target: {apiVersion: v1, kind: ConfigMap, name: page}\n    patch: {data: {a: b}}\n",
        },
        "GO2202",
        f"{BUNDLE}:8",
        id="p09-target-ambiguous",
    ),
    pytest.param({OVERLAY: "# nothing\n"}, "GO2203", OVERLAY, id="empty-patch-file"),
    pytest.param(
        {OVERLAY: settings("data: {LEVEL: x}\n").replace("  name", "  finalizers: [a/b]\n  name")},
        "GO3003",
        f"{OVERLAY}:4",
        id="patch-sets-finalizers",
    ),
    # placement
    pytest.param(
        {DEPLOYMENT: deployment(SPEC.replace("gpu: H100", "gpu: B200"))}, "GO4001", f"{DEPLOYMENT}:7", id="no-such-gpu"
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      instanceType: H100x8\n")},
        "GO4001",
        f"{DEPLOYMENT}:7",
        id="no-such-instance-type",
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      regions: [moon]\n")}, "GO4001", f"{DEPLOYMENT}:7", id="no-such-region"
    ),
    pytest.param(
        {
            BUNDLE: "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: base}\nspec:\n  manifests: [objects.yaml]\n  attributes: [X]\n"  # noqa: E501
        },
        "GO4001",
        f"{BUNDLE}:4",
        id="bundle-without-cluster",
    ),
    pytest.param({"clusters/b.yaml": "a: [\n"}, "GO4002", f"{DEPLOYMENT}:7", id="waits-for-cluster-document"),
    pytest.param(
        {
            FUNCTION: function(FUNCTION_SPEC + "  namespace: chat\n"),
            DEPLOYMENT: deployment(SPEC + "      minInstances: 3\n"),
        },
        "GO4003",
        f"{DEPLOYMENT}:6",
        id="namespace-shared",
    ),
    pytest.param(
        {
            "clusters/a.yaml": "apiVersion: gitops/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  credentials: a\n  tenancy:\n    ncaId: other\n"  # noqa: E501
        },
        "GO4004",
        "clusters/a.yaml:6",
        id="foreign-account",
    ),
    pytest.param({DEPLOYMENT: None, OVERLAY: None}, "GO4005", FUNCTION, id="not-placed"),
    # objects
    pytest.param(
        {SETTINGS: in_web("Deployment", "", "apps/v1", "")}, "GO4101", f"{SETTINGS}:2", id="kind-not-of-operator"
    ),
    pytest.param(
        {SETTINGS: in_web("ClusterRole", "", "rbac.authorization.k8s.io/v1", "")},
        "GO4101",
        f"{SETTINGS}:2",
        id="cluster-scoped-in-function",
    ),
    pytest.param(
        {SETTINGS: in_web("DynamoModel", "", "nvidia.com/v1", "")},
        "GO4102",
        f"{SETTINGS}:1",
        id="version-not-of-operator",
    ),
    pytest.param({SETTINGS: settings("  namespace: web\n")}, "GO4103", f"{SETTINGS}:5", id="namespace-in-function"),
    pytest.param({OBJECTS: in_web("ConfigMap", "", namespace="")}, "GO4104", f"{OBJECTS}:3", id="s23-no-namespace"),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "", namespace="  namespace: gitops-system\n")},
        "GO4105",
        f"{OBJECTS}:5",
        id="system-namespace",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "", namespace="  namespace: gitops-secrets\n")},
        "GO4105",
        f"{OBJECTS}:5",
        id="secrets-namespace",
    ),
    pytest.param(
        {OBJECTS: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: fn-chat-h100-0\n"},
        "GO4105",
        f"{OBJECTS}:3",
        id="instance-namespace",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "").replace("page", "../../.github/x")},
        "GO4106",
        f"{OBJECTS}:4",
        id="x08-name-with-path",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "").replace("web", "a/b")}, "GO4106", f"{OBJECTS}:5", id="x08-namespace-with-path"
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "").replace("page", "CON")}, "GO4106", f"{OBJECTS}:4", id="x08-capitals"
    ),
    pytest.param({OBJECTS: in_web("ConfigMap", "data:\n  a:\n  # b\n")}, "GO4107", f"{OBJECTS}:7", id="y23-null"),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "data:\n  port: 8080\n")}, "GO4108", f"{OBJECTS}:7", id="number-in-config-map"
    ),
    pytest.param(
        {OBJECTS: in_web("Pod", "spec:\n  containers:\n  - name: a\n    env:\n    - name: PORT\n      value: 8080\n")},
        "GO4108",
        f"{OBJECTS}:11",
        id="y21-number-in-env",
    ),
    pytest.param(
        {OBJECTS: in_web("Pod", "spec:\n  nodeSelector:\n    gpu: true\n")},
        "GO4108",
        f"{OBJECTS}:8",
        id="y21-truth-in-node-selector",
    ),
    pytest.param(
        {SETTINGS: in_web("DynamoGraphDeployment", "spec: {}\n", "nvidia.com/v1alpha1", "")},
        "GO4109",
        f"{SETTINGS}:1",
        id="deprecated-version",
    ),
    pytest.param(
        {
            MORE: in_web(
                "DynamoGraphDeployment",
                "spec:\n  components:\n  - name: speculative-decode-worker\n",
                "nvidia.com/v1beta1",
                "",
            ).replace("page", "p" * 45)
        },
        "GO4110",
        f"{MORE}:7",
        id="n10-names-too-long",
    ),
    pytest.param(
        {OBJECTS: in_web("ClusterRole", "", "rbac.authorization.k8s.io/v1")},
        "GO4111",
        f"{OBJECTS}:5",
        id="s22-namespace-on-cluster-role",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  namespace: kube-system\n")},
        "GO4105",
        f"{FUNCTION}:10",
        id="function-in-kube-system",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  namespace: fn-x\n")}, "GO4105", f"{FUNCTION}:10", id="function-in-fn"
    ),
    pytest.param({OBJECTS: BUNDLE_TEXT}, "GO2005", f"{OBJECTS}:2", id="our-document-as-manifest"),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC.replace("manifests/", "."))},
        "GO2110",
        f"{DEPLOYMENT}:11",
        id="patch-is-a-manifest-too",
    ),
    pytest.param(
        {"clusters/a.yaml": CLUSTER_TEXT + "  namespaceTemplate:\n    labels:\n      gitops/x: own\n"},
        "GO4301",
        "clusters/a.yaml:8",
        id="our-label-in-template",
    ),
    pytest.param(
        {"clusters/a.yaml": CLUSTER_TEXT + "  gpus:\n  - name: a\n  - name: A\n"},
        "GO2015",
        "clusters/a.yaml:8",
        id="gpu-twice",
    ),
    # secrets
    pytest.param(
        {OBJECTS: in_web("Secret", "stringData:\n  a: b\n")}, "GO4201", f"{OBJECTS}:6", id="secret-string-data"
    ),
    pytest.param({OBJECTS: in_web("Secret", "data:\n  a: Yg==\n")}, "GO4201", f"{OBJECTS}:6", id="secret-data"),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", f"data:\n  a: {TOKEN}\n")}, "GO4202", f"{OBJECTS}:7", id="token-in-config-map"
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", f"data:\n  a: |\n    {KEY}\n")}, "GO4202", f"{OBJECTS}:7", id="key-in-config-map"
    ),
    pytest.param({OVERLAY: settings(f"data:\n  LEVEL: {TOKEN}\n")}, "GO4202", f"{OVERLAY}:6", id="token-in-overlay"),
    pytest.param(
        {OBJECTS: in_web("Secret", "type: kubernetes.io/service-account-token\n")},
        "GO4203",
        f"{OBJECTS}:6",
        id="x05-token-secret",
    ),
    # metadata
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  labels:\n    gitops/reconciler: other\n")},
        "GO4301",
        f"{OBJECTS}:7",
        id="our-label",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  annotations:\n    gitops/unheard-of: x\n")},
        "GO4301",
        f"{OBJECTS}:7",
        id="unknown-annotation-of-ours",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  labels:\n    applyset.kubernetes.io/part-of: x\n")},
        "GO4301",
        f"{OBJECTS}:7",
        id="applyset-label",
    ),
    pytest.param(
        {SETTINGS: settings("  annotations:\n    nvidia.com/dgd-spec: x\n")},
        "GO4302",
        f"{SETTINGS}:6",
        id="operators-annotation",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  annotations:\n    gitops/allow-delete: 'yes'\n")},
        "GO4303",
        f"{OBJECTS}:7",
        id="x07-bad-annotation",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", f"  annotations:\n    gitops/depends-on: {'a' * 300_000}\n")},
        "GO4303",
        f"{OBJECTS}:7",
        id="x07-long-annotation",
    ),
    # rights
    pytest.param(
        {
            OBJECTS: in_web(
                "Role",
                "rules:\n- apiGroups: ['*']\n  resources: [pods]\n  verbs: [get]\n",
                "rbac.authorization.k8s.io/v1",
            )
        },
        "GO4401",
        f"{OBJECTS}:7",
        id="x05-wildcard",
    ),
    pytest.param(
        {
            OBJECTS: in_web(
                "Role",
                "rules:\n- apiGroups: ['']\n  resources: [pods]\n  verbs: [impersonate]\n",
                "rbac.authorization.k8s.io/v1",
            )
        },
        "GO4401",
        f"{OBJECTS}:7",
        id="x05-impersonate",
    ),
    pytest.param(
        {
            OBJECTS: in_web(
                "ClusterRoleBinding",
                "roleRef:\n  kind: ClusterRole\n  name: cluster-admin\n",
                "rbac.authorization.k8s.io/v1",
                "",
            )
        },
        "GO4401",
        f"{OBJECTS}:5",
        id="x05-cluster-admin",
    ),
    # units
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "---\n") + in_web("ConfigMap", "")},
        "GO5001",
        f"{OBJECTS}:7",
        id="p11-twice-in-bundle",
    ),
    pytest.param({MORE: settings("")}, "GO5001", f"{SETTINGS}:1", id="p11-twice-in-function"),
    pytest.param(
        {
            OBJECTS: in_web("ClusterRole", "---\n", "rbac.authorization.k8s.io/v1", "")
            + in_web("ClusterRole", "", "rbac.authorization.k8s.io/v1")
        },
        "GO5001",
        f"{OBJECTS}:10",
        id="p11-once-without-namespace",
    ),
    pytest.param(
        {
            "bundles/other/bundle.yaml": "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: other}\nspec: {manifests: [objects.yaml]}\n",  # noqa: E501
            "bundles/other/objects.yaml": in_web("ConfigMap", ""),
        },
        "GO5002",
        f"{OBJECTS}:1",
        id="two-owners",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  annotations:\n    gitops/depends-on: Secret/x\n")},
        "GO5003",
        f"{OBJECTS}:6",
        id="unknown-dependency",
    ),
    pytest.param(
        {OBJECTS: in_web("ConfigMap", "  annotations:\n    gitops/depends-on: ConfigMap/page\n")},
        "GO5004",
        f"{OBJECTS}:6",
        id="circle",
    ),
    pytest.param(
        {DEPLOYMENT: deployment(SPEC + "      instanceType: H100x2\n      minInstances: 9\n")},
        "GO5005",
        "clusters/a.yaml:10",
        id="over-capacity",
    ),
    pytest.param(
        {FUNCTION: function(FUNCTION_SPEC + "  namespace: web\n")},
        "GO5006",
        f"{OBJECTS}:1",
        id="bundle-in-instance-namespace",
    ),
]


@pytest.mark.parametrize(("change", "code", "place"), CASES)
def test_finding(compile_small, change, code, place):
    findings = compile_small(change).findings
    assert place in [str(f.origin) for f in findings if f.code == code], "\n".join(map(str, findings))


def test_every_code_has_a_case():
    defined = {
        value
        for module in (gitops.plan.codes, gitops.policy.codes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.startswith("GO")
    }
    assert defined <= {case.values[1] for case in CASES}


@pytest.mark.parametrize("secret", [TOKEN, KEY, "https://bot:s3cr3tpass@git.example/x.git"])
def test_i05_a_credential_is_never_shown(compile_small, secret):
    change = {
        OBJECTS: in_web("ConfigMap", f"data:\n  a: '{secret}'\n"),
        "gitops.yaml": f"apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata:\n  name: '{secret}'\n",
        FUNCTION: function(FUNCTION_SPEC + f"  tags: '{secret}'\n"),
    }
    for path, text in change.items():
        result = compile_small({path: text})
        assert result.errors
        shown = "\n".join(f"{f.message} {f.hint} {f.path}" for f in result.findings)
        assert secret not in shown


def test_credential_like_value_can_be_allowed(compile_small):
    text = in_web("ConfigMap", f"  annotations: {{gitops/allow-credential-like: 'true'}}\ndata:\n  a: {TOKEN}\n")
    result = compile_small({OBJECTS: text})
    assert result.errors == ()
    objects = [o for k, u in result.units.items() if k.kind == "bundle" for o in u.objects]
    assert all("gitops/allow-credential-like" not in o.body["metadata"]["annotations"] for o in objects)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("http://169.254.169.254/x", "outside the repository"),
        ("https://ok.example/x.yaml", "outside the repository"),
        ("git::ssh://git@example/x", "outside the repository"),
        ("file:///etc/passwd", "outside the repository"),
        ("//host/share", "begins with /"),
        ("/etc/passwd", "begins with /"),
        ("git@example.com:x.git", "outside the repository"),
        ("a/../../b.yaml", "`..`"),
        ("-x.yaml", "begins with -"),
        ("a\\b.yaml", "backslash"),
    ],
)
def test_x03_only_plain_paths_are_resolved(compile_small, path, words):
    text = f"apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {{name: base}}\nspec:\n  manifests:\n  - '{path}'\n"
    findings = [f for f in compile_small({BUNDLE: text}).findings if f.code == "GO2105"]
    assert len(findings) == 1
    assert words in findings[0].message


def test_y06_number_in_a_text_field_is_quoted_as_written(compile_small):
    text = in_web("Pod", "spec:\n  containers:\n  - name: a\n    env:\n    - name: V\n      value: 1.20\n")
    messages = [f.message for f in compile_small({OBJECTS: text}).findings if f.code == "GO4108"]
    assert messages == ['Pod page: spec.containers[0].env[0].value must be text: write "1.20"']


def test_unknown_field_gets_a_guess(compile_small):
    messages = [f.message for f in compile_small({FUNCTION: function(FUNCTION_SPEC + "  verison: x\n")}).findings]
    assert messages == ["unknown field spec.verison; did you mean version?"]


def test_a_message_is_bounded_whatever_the_author_writes(compile_small, small):
    text = small().files["bundles/base/bundle.yaml"] + f"  ? {'k' * 100_000}\n  : 1\n"
    (found,) = compile_small({"bundles/base/bundle.yaml": text}).errors
    assert found.code == "GO2002"
    assert len(found.message) == 1000


def test_all_findings_of_all_files_are_collected(compile_small):
    result = compile_small(
        {
            FUNCTION: function(FUNCTION_SPEC.replace("dynamo", "x") + "  a: 1\n  b: 2\n"),
            OBJECTS: in_web("ConfigMap", "data:\n  a: 1\n  b: 2\n"),
            "clusters/a.yaml": "a: [\n",
        }
    )
    assert [f.code for f in result.errors].count("GO2002") == 2
    assert [f.code for f in result.errors].count("GO4108") == 2
    assert "GO1005" in {f.code for f in result.errors}


def test_g09_target_of_a_link_is_never_read(compiler, small):
    tree = small({SETTINGS: EntryKind.SYMLINK})
    compiler.compile(tree)
    assert SETTINGS not in tree.reads


def test_g07_submodule_outside_our_folders_is_ignored(compile_small):
    result = compile_small({"vendor/thing": EntryKind.SUBMODULE, "docs/link": EntryKind.SYMLINK})
    assert result.findings == ()
    assert result.complete
