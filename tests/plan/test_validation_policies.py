"""Validation policies: Default judges objects, Unrestricted does not, and neither lets in what the settings do not."""

from __future__ import annotations

import pytest

from gitops.model.identity import GroupVersionKind
from gitops.plan.compiling import Compiler
from gitops.policy.registry import OperatorRegistry

GRAPH = "functions/chat/manifests/graph.yaml"
SETTINGS = "functions/chat/manifests/settings.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"
POLICY = "policies/validation/lab.yaml"
CODES = ("GO4101", "GO4102", "GO4611", "GO4612")
JOB = GroupVersionKind("batch", "v1", "Job")


def told(compilation):
    return [(f.code, str(f.origin)) for f in compilation.findings if f.code in CODES]


def deployment(*policies: str) -> str:
    specs = "".join(
        f"    - id: s{number}\n      gpu: H100\n" + (f"      validationPolicy: {policy}\n" if policy else "")
        for number, policy in enumerate(policies)
    )
    head = "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n"
    return f"{head}  gpuSpecifications:\n{specs}"


def graph(pod: str) -> str:
    head = (
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata:\n  name: chat\nspec:\n  components:\n"
    )
    return f"{head}    - name: decode\n      type: decode\n      podTemplate:\n        spec:\n          {pod}\n"


def change(policy: str, **files: str) -> dict[str, str | None]:
    return {DEPLOYMENT: deployment(policy), "functions/chat/overlays/h100.yaml": None, **files}


CONTAINERS = "containers:\n            - name: main\n              "
REFUSED = [
    ("hostNetwork: true", 11),
    ("hostPID: true", 11),
    ("hostIPC: true", 11),
    ("automountServiceAccountToken: true", 11),
    ("securityContext: {runAsUser: 0}", 11),
    ("securityContext: {runAsNonRoot: false}", 11),
    ("securityContext: {seccompProfile: {type: Unconfined}}", 11),
    ("securityContext: {appArmorProfile: {type: Unconfined}}", 11),
    ("securityContext: {seLinuxOptions: {type: spc_t}}", 11),
    (CONTAINERS + "image: ''", 13),
    (CONTAINERS + "ports: [{containerPort: 1, hostPort: 1}]", 13),
    (CONTAINERS + "securityContext: {privileged: true}", 13),
    (CONTAINERS + "securityContext: {allowPrivilegeEscalation: true}", 13),
    (CONTAINERS + "securityContext: {capabilities: {add: [CHOWN]}}", 13),
    (CONTAINERS + "securityContext: {capabilities: {drop: [NET_RAW]}}", 13),
    (CONTAINERS + "securityContext: {procMount: Unmasked}", 13),
    (CONTAINERS + "securityContext: {readOnlyRootFilesystem: false}", 13),
    ("volumes: [{name: a, hostPath: {path: /}}]", 11),
    ("volumes: [{name: a, csi: {driver: a}}]", 11),
    ("volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: a}}]}}]", 11),
]


@pytest.mark.parametrize(("pod", "line"), REFUSED)
def test_default_refuses_what_unrestricted_passes(compile_small, pod, line):
    refused = compile_small(change("{name: Default}", **{GRAPH: graph(pod)}))
    assert told(refused) == [("GO4611", f"{GRAPH}:{line}")]
    assert any(f.message.endswith(", validation policy Default)") for f in refused.errors)
    assert told(compile_small(change("{name: Unrestricted}", **{GRAPH: graph(pod)}))) == []
    assert told(compile_small(change("", **{GRAPH: graph(pod)}))) == []


def test_it_is_said_beside_other_errors(compile_small):
    text = graph("hostPID: true\n          x: null")
    result = compile_small(change("{name: Default}", **{GRAPH: text}))
    assert [f.code for f in result.errors if f.code in ("GO4611", "GO4107")] == ["GO4611", "GO4107"]


PASSED = [
    "hostNetwork: false",
    "automountServiceAccountToken: false",
    "containers: [{name: main, image: a, ports: [{containerPort: 1}]}]",
    "containers: [{name: main, securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}]",
    "containers: [{name: main, livenessProbe: {httpGet: {host: a}}}]",
    "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}], runAsUser: 7}",
    "volumes: [{name: a}, {name: b, emptyDir: {}}, {name: c, persistentVolumeClaim: {claimName: c}}]",
    "volumes: [{name: a, projected: {sources: [{configMap: {name: a}}, {secret: {name: b}}]}}]",
]


@pytest.mark.parametrize("pod", PASSED)
def test_default_passes(compile_small, pod):
    assert told(compile_small(change("{name: Default}", **{GRAPH: graph(pod)}))) == []


@pytest.mark.parametrize(("kind", "found"), [("LoadBalancer", True), ("NodePort", True), ("ClusterIP", False)])
def test_services(compile_small, kind, found):
    text = f"apiVersion: v1\nkind: Service\nmetadata:\n  name: chat\nspec:\n  type: {kind}\n"
    assert told(compile_small(change("{name: Default}", **{SETTINGS: text}))) == [("GO4611", f"{SETTINGS}:6")] * found


def test_a_service_that_an_operator_makes(compile_small):
    text = """\
        apiVersion: apps.nvidia.com/v1alpha1
        kind: NIMService
        metadata: {name: chat}
        spec:
          expose:
            service:
              type: NodePort
        """
    function = """\
        apiVersion: gitops/v1alpha1
        kind: Function
        metadata: {name: chat}
        spec: {version: "1", operatorTypes: [nim], manifests: [manifests/]}
        """
    files = {GRAPH: text, "functions/chat/function.yaml": function}
    assert told(compile_small(change("{name: Default}", **files))) == [("GO4611", f"{GRAPH}:7")]


def test_each_specification_by_its_own_policy_after_its_overlays(compile_small):
    text = deployment("{name: Default}", "{name: Unrestricted}", "{name: Default}") + (
        "      jsonPatches:\n"
        "        - target: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}\n"
        "          operations:\n"
        "            - {op: add, path: /spec/components/0/podTemplate/spec/hostIPC, value: true}\n"
    )
    files = {DEPLOYMENT: text, "functions/chat/overlays/h100.yaml": None, GRAPH: graph("hostPID: false")}
    result = compile_small(files)
    assert told(result) == [("GO4611", f"{DEPLOYMENT}:19")]
    assert (
        told(
            compile_small(
                {**files, DEPLOYMENT: text.replace("s1", "s9").replace("{name: Default}", "{name: Unrestricted}")}
            )
        )
        == []
    )


def test_a_specification_that_is_placed_nowhere_is_judged(compile_small):
    text = deployment("{name: Default}") + "      minInstances: 0\n"
    files = {DEPLOYMENT: text, "functions/chat/overlays/h100.yaml": None, GRAPH: graph("hostIPC: true")}
    assert told(compile_small(files)) == [("GO4611", f"{GRAPH}:11")]


def test_what_two_specifications_share_is_said_once(compile_small):
    files = {DEPLOYMENT: deployment("{name: Default}", "{name: Default}"), "functions/chat/overlays/h100.yaml": None}
    assert told(compile_small({**files, GRAPH: graph("hostIPC: true")})) == [("GO4611", f"{GRAPH}:11")]


def lab(base: str, *types: str) -> str:
    extra = f"\n  extraKubernetesTypes: [{', '.join(types)}]" if types else ""
    return (
        f"apiVersion: gitops/v1alpha1\nkind: ValidationPolicy\nmetadata: {{name: lab}}\nspec:\n  base: {base}{extra}\n"
    )


def test_a_document_stands_for_its_base(compiler, small):
    files = change("{name: lab}", **{GRAPH: graph("hostIPC: true")})
    assert told(compiler.compile(small({**files, POLICY: lab("Default")}))) == [("GO4611", f"{GRAPH}:11")]
    assert told(compiler.compile(small({**files, POLICY: lab("Unrestricted")}))) == []
    assert told(compiler.compile(small({**files, POLICY: lab("Default")}))) == [("GO4611", f"{GRAPH}:11")]


# -- types ------------------------------------------------------------------------------------------------------------

IN_LINE = "{name: Unrestricted, extraKubernetesTypes: [{group: batch, version: v1, kind: Job}]}"
JOB_TEXT = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: warm
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: a
"""


@pytest.fixture
def lenient():
    """A compiler of a daemon whose settings allow Jobs."""
    return Compiler(OperatorRegistry.shipped().permitting([JOB]))


@pytest.mark.parametrize("policy", ["", "{name: Default}", "{name: Unrestricted}"])
def test_no_policy_widens_the_kinds_of_operator_types(compile_small, lenient, small, policy):
    files = change(policy, **{SETTINGS: JOB_TEXT})
    for compilation in (compile_small(files), lenient.compile(small(files))):
        assert [entry for entry in told(compilation) if entry[0] == "GO4101"] == [("GO4101", f"{SETTINGS}:2")]
    wrong_version = graph("hostIPC: true").replace("v1beta1", "v1beta9")
    assert told(compile_small(change(policy, **{GRAPH: wrong_version}))) == [("GO4102", f"{GRAPH}:1")]


def test_a_repository_cannot_allow_a_type_to_itself(compile_small):
    result = compile_small(change(IN_LINE, **{SETTINGS: JOB_TEXT}))
    assert told(result) == [("GO4612", f"{DEPLOYMENT}:9"), ("GO4101", f"{SETTINGS}:2")]
    messages = [f"{f.message} {f.hint}" for f in result.findings if f.code == "GO4612"]
    assert messages[0].startswith("batch/v1 Job is not among the daemon's extra_kubernetes_types ")
    documented = compile_small(
        change(
            "{name: lab}", **{SETTINGS: JOB_TEXT, POLICY: lab("Unrestricted", "{group: batch, version: v1, kind: Job}")}
        )
    )
    assert told(documented) == [("GO4101", f"{SETTINGS}:2"), ("GO4612", f"{POLICY}:6")]
    assert not documented.units


def test_what_settings_and_policy_allow_is_a_part_of_the_unit(lenient, small):
    (unit,) = (
        u
        for key, u in lenient.compile(small(change(IN_LINE, **{SETTINGS: JOB_TEXT}))).units.items()
        if key.kind == "function"
    )
    assert "Job" in {item.ref.kind for item in unit.objects}
    document = {SETTINGS: JOB_TEXT, POLICY: lab("Unrestricted", "{group: batch, version: v1, kind: Job}")}
    assert told(lenient.compile(small(change("{name: lab}", **document)))) == []


def test_another_version_of_an_allowed_type_stays_out(lenient, small):
    files = change(IN_LINE, **{SETTINGS: JOB_TEXT.replace("batch/v1", "batch/v1beta1")})
    assert told(lenient.compile(small(files))) == [("GO4101", f"{SETTINGS}:2")]


def test_without_a_specification_nobody_allows_a_type(lenient, small):
    files = {DEPLOYMENT: None, "functions/chat/overlays/h100.yaml": None, SETTINGS: JOB_TEXT}
    assert told(lenient.compile(small(files))) == [("GO4101", f"{SETTINGS}:2")]


def test_refusals_of_one_object_are_bounded(compile_small):
    containers = "".join(f"\n            - {{name: c{i}, image: ''}}" for i in range(150))
    result = compile_small(change("{name: Default}", **{GRAPH: graph(f"containers:{containers}")}))
    assert len(told(result)) == 100


def test_every_specification_must_allow_a_type(lenient, small):
    files = {DEPLOYMENT: deployment(IN_LINE, ""), "functions/chat/overlays/h100.yaml": None, SETTINGS: JOB_TEXT}
    compilation = lenient.compile(small(files))
    assert told(compilation) == [("GO4101", f"{SETTINGS}:2")]
    assert "nor by the validation policy of s1" in " ".join(f.message for f in compilation.errors)


def test_a_cluster_scoped_type_is_never_allowed(small):
    role = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
    compiler = Compiler(OperatorRegistry.shipped().permitting([role]))
    policy = IN_LINE.replace("batch", role.group).replace("Job", role.kind)
    text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
    assert told(compiler.compile(small(change(policy, **{SETTINGS: text})))) == [
        ("GO4612", f"{DEPLOYMENT}:9"),
        ("GO4101", f"{SETTINGS}:2"),
    ]


def test_a_kind_that_the_repository_took_away_stays_away(small):
    secret = GroupVersionKind("", "v1", "Secret")
    compiler = Compiler(OperatorRegistry.shipped().permitting([secret]))
    narrow = """\
        apiVersion: gitops/v1alpha1
        kind: OperatorType
        metadata: {name: dynamo}
        spec:
          clusterAttribute: DynamoOperatorSupport
          kinds: [{group: nvidia.com, version: v1beta1, kind: DynamoGraphDeployment, resource: dynamographdeployments}]
          companions: []
        """
    policy = "{name: Unrestricted, extraKubernetesTypes: [{group: '', version: v1, kind: Secret}]}"
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
    files = change(policy, **{SETTINGS: text, "policies/dynamo.yaml": narrow})
    assert told(compiler.compile(small(files))) == [("GO4101", f"{SETTINGS}:2")]


def test_the_pods_of_an_extra_kind_are_complete_and_default_asks_for_all_of_it(lenient, small):
    policy = IN_LINE.replace("Unrestricted", "Default")
    found = told(lenient.compile(small(change(policy, **{SETTINGS: JOB_TEXT}))))
    assert set(found) == {("GO4611", f"{SETTINGS}:10")}
    assert len(found) == 5  # escalation, capabilities, root, seccomp, root file system
    without_image = JOB_TEXT.replace("          image: a\n", "")
    assert len(told(lenient.compile(small(change(policy, **{SETTINGS: without_image}))))) == 6


def test_settings_are_part_of_the_policy_digest():
    shipped = OperatorRegistry.shipped()
    assert shipped.permitting([JOB]).policy_digest != shipped.policy_digest
    assert shipped.permitting([]).policy_digest == shipped.policy_digest
