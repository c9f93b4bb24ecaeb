"""Pod Security in a repository: which level counts, where it is said, and for which clusters."""

from __future__ import annotations

import pytest

from gitops.model.identity import ClusterName
from gitops.plan.compiling import Compiler
from gitops.policy.facts import ClusterFacts
from gitops.policy.registry import OperatorRegistry

GRAPH = "functions/chat/manifests/graph.yaml"
OVERLAY = "functions/chat/overlays/h100.yaml"
OBJECTS = "bundles/base/objects.yaml"
LEVELS = ("GO4601", "GO4602", "GO4603", "GO4604", "GO4605")


def cluster(name: str, **labels: str) -> str:
    lines = "".join(f"\n      pod-security.kubernetes.io/{key.replace('_', '-')}: {v}" for key, v in labels.items())
    return f"""\
apiVersion: gitops/v1alpha1
kind: Cluster
metadata:
  name: {name}
spec:
  credentials: {name}
  attributes: [DynamoOperatorSupport, NIMOperatorSupport]
  gpus: [{{name: H100}}]
  namespaceTemplate:
    labels:
      team: ml{lines}
"""


def graph(pod: str) -> str:
    return f"""\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: chat
spec:
  components:
    - name: decode
      type: decode
      podTemplate:
        spec:
          {pod}
"""


def told(compilation, *codes):
    return [(f.code, str(f.origin)) for f in compilation.findings if f.code in (codes or LEVELS)]


def test_a_component_that_the_namespace_would_refuse_is_an_error_at_its_line(compile_small):
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="baseline"), GRAPH: graph("hostNetwork: true")})
    assert told(result) == [("GO4601", f"{GRAPH}:11")]
    (found,) = (f for f in result.errors if f.code == "GO4601")
    assert found.message == (
        "DynamoGraphDeployment chat: spec.components[0].podTemplate.spec.hostNetwork is true "
        "(host namespaces, Pod Security baseline) on a"
    )
    assert [str(ref) for ref in result.held] == ["function/chat"]


def test_nothing_is_said_where_no_level_is_set_or_nothing_breaks_it(compile_small):
    assert told(compile_small({GRAPH: graph("hostNetwork: true")})) == []
    privileged = cluster("a", enforce="privileged")
    assert told(compile_small({"clusters/a.yaml": privileged, GRAPH: graph("hostNetwork: true")})) == []
    baseline = cluster("a", enforce="baseline")
    assert told(compile_small({"clusters/a.yaml": baseline, GRAPH: graph("hostNetwork: false")})) == []


def test_it_is_said_beside_other_errors(compile_small):
    """People should not repair one error to meet the next."""
    level = cluster("a", enforce="baseline")
    text = graph("hostPID: true\n          x: null")
    assert told(compile_small({"clusters/a.yaml": level, GRAPH: text}), "GO4601", "GO4107") == [
        ("GO4601", f"{GRAPH}:11"),
        ("GO4107", f"{GRAPH}:12"),
    ]
    page = NAMESPACE.format(level="baseline") + DEPLOYMENT.format(namespace="web") + "      x: null\n"
    found = told(compile_small({OBJECTS: page}), "GO4601", "GO4107")
    assert found == [("GO4601", f"{OBJECTS}:23"), ("GO4107", f"{OBJECTS}:24")]


def test_clusters_are_named_together(compile_small):
    clusters = {f"clusters/{name}.yaml": cluster(name, enforce="baseline") for name in ("a", "b")}
    result = compile_small({**clusters, GRAPH: graph("hostPID: true")})
    messages = [f.message for f in result.errors if f.code == "GO4601"]
    assert [message.rpartition(")")[2] for message in messages] == [" on a, b"]


def test_the_line_is_the_overlays_when_it_sets_the_field(compile_small):
    patch = graph("hostIPC: true").replace("      type: decode\n", "")
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="baseline"), OVERLAY: patch})
    assert ("GO4601", f"{OVERLAY}:10") in told(result)


def test_one_overlay_of_two_specifications_breaks_it(compile_small):
    deployment = """\
        apiVersion: gitops/v1alpha1
        kind: FunctionDeployment
        metadata:
          name: chat
        spec:
          gpuSpecifications:
            - id: plain
              gpu: H100
            - id: host
              gpu: H100
              manifestMergePatches:
                - target: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}
                  lists: byKey
                  patch:
                    spec:
                      components:
                        - name: decode
                          podTemplate:
                            spec:
                              hostIPC: true
        """
    change = {"clusters/a.yaml": cluster("a", enforce="baseline"), "functions/chat/deployment.yaml": deployment}
    result = compile_small({**change, "clusters/b.yaml": None, OVERLAY: None})
    assert told(result) == [("GO4601", "functions/chat/deployment.yaml:20")]


def test_warn_warns_and_enforce_is_not_repeated(compile_small):
    pod = "securityContext: {runAsUser: 0}\n          hostIPC: true"
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="baseline", warn="restricted"), GRAPH: graph(pod)})
    assert told(result) == [("GO4602", f"{GRAPH}:11"), ("GO4601", f"{GRAPH}:12")]


@pytest.mark.parametrize(("version", "code"), [("latest", "GO4603"), ("v1.33", None), ("v1.34", "GO4601")])
def test_versions_of_a_level(compile_small, version, code):
    pod = "containers:\n            - name: main\n              livenessProbe: {httpGet: {host: 10.0.0.1, port: 1}}"
    change = {"clusters/a.yaml": cluster("a", enforce="baseline", enforce_version=version), GRAPH: graph(pod)}
    assert told(compile_small(change)) == ([(code, f"{GRAPH}:13")] if code else [])


@pytest.mark.parametrize(("told_by_it", "code"), [("v1.34.3", "GO4601"), ("v1.33.9+k3s1", None), ("1.34", "GO4601")])
def test_the_version_that_a_cluster_tells_decides(compiler, small, told_by_it, code):
    pod = "containers:\n            - name: main\n              livenessProbe: {httpGet: {host: 10.0.0.1, port: 1}}"
    tree = small({"clusters/a.yaml": cluster("a", enforce="baseline"), GRAPH: graph(pod)})
    assert told(compiler.compile(tree)) == [("GO4603", f"{GRAPH}:13")]
    facts = {ClusterName("a"): ClusterFacts(server_version=told_by_it)}
    assert told(compiler.compile(tree, facts=facts)) == ([(code, f"{GRAPH}:13")] if code else [])


def test_the_version_that_a_cluster_tells_decides_of_bundles(compiler, small):
    text = NAMESPACE.format(level="baseline") + DEPLOYMENT.format(namespace="web").replace(
        "              hostPort: 80\n", ""
    )
    text += "          readinessProbe: {tcpSocket: {port: 80, host: a}}\n"
    for version, found in (("v1.34.0", ["GO4601"]), ("v1.30.1", []), ("", ["GO4603"])):
        facts = {ClusterName(name): ClusterFacts(server_version=version) for name in ("a", "b")}
        assert [code for code, _ in told(compiler.compile(small({OBJECTS: text}), facts=facts))] == found


def test_what_the_operator_may_add_is_an_info_once_for_each_pod(compile_small):
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="restricted")})
    assert [(f.code, str(f.origin)) for f in result.findings if f.code in LEVELS] == [("GO4604", f"{GRAPH}:12")]
    assert result.errors == ()
    (found,) = (f for f in result.findings if f.code == "GO4604")
    assert "allowPrivilegeEscalation != false, runAsNonRoot != true" in found.message


def test_a_level_that_changes_is_looked_at_anew(compiler, small):
    change = {GRAPH: graph("hostNetwork: true")}
    assert told(compiler.compile(small(change))) == []
    strict = {**change, "clusters/a.yaml": cluster("a", enforce="baseline")}
    assert told(compiler.compile(small(strict))) == [("GO4601", f"{GRAPH}:11")]
    assert told(compiler.compile(small(change))) == []


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("storage: {hostPath: /models}", 6),
        ("image: {repository: a, tag: b}\n  sidecarContainers:\n    - securityContext: {privileged: true}", 8),
    ],
)
def test_nim(compile_small, spec, line):
    service = f"apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata:\n  name: chat\nspec:\n  {spec}\n"
    change = {
        "clusters/a.yaml": cluster("a", enforce="baseline"),
        "functions/chat/function.yaml": """\
            apiVersion: gitops/v1alpha1
            kind: Function
            metadata: {name: chat}
            spec: {version: "1", operatorTypes: [nim], manifests: [manifests/]}
            """,
        GRAPH: service,
    }
    assert told(compile_small(change)) == [("GO4601", f"{GRAPH}:{line}")]


def test_a_task_too(compile_small):
    task = """\
        apiVersion: gitops/v1alpha1
        kind: Task
        metadata: {name: warm}
        spec:
          version: "1"
          operatorTypes: [dynamo]
          manifests: [graph.yaml]
          gpuSpecification: {gpu: H100, clusters: [a]}
        """
    files = {"tasks/warm/task.yaml": task, "tasks/warm/graph.yaml": graph("hostIPC: true")}
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="baseline"), **files})
    assert told(result) == [("GO4601", "tasks/warm/graph.yaml:11")]


# -- bundles ----------------------------------------------------------------------------------------------------------

NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: web
  labels:
    pod-security.kubernetes.io/enforce: {level}
---
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: page
  namespace: {namespace}
spec:
  selector: {{matchLabels: {{app: a}}}}
  template:
    metadata: {{labels: {{app: a}}}}
    spec:
      containers:
        - name: main
          image: a
          ports:
            - containerPort: 80
              hostPort: 80
"""


def test_a_bundles_own_namespace_says_the_level(compile_small):
    text = NAMESPACE.format(level="baseline") + DEPLOYMENT.format(namespace="web")
    assert told(compile_small({OBJECTS: text})) == [("GO4601", f"{OBJECTS}:23")]


def test_of_another_namespace_nothing_is_known(compile_small):
    text = NAMESPACE.format(level="baseline") + DEPLOYMENT.format(namespace="other")
    assert told(compile_small({OBJECTS: text})) == []
    assert told(compile_small({OBJECTS: DEPLOYMENT.format(namespace="web")})) == []


def test_what_is_missing_in_a_kind_of_kubernetes_is_an_error(compile_small):
    text = NAMESPACE.format(level="restricted") + DEPLOYMENT.format(namespace="web")
    found = told(compile_small({OBJECTS: text}))
    assert {code for code, _ in found} == {"GO4601"}
    assert [place for _, place in found] == [f"{OBJECTS}:19"] * 4 + [f"{OBJECTS}:23"]


def test_the_merged_label_counts(compile_small):
    bundle = """\
        apiVersion: gitops/v1alpha1
        kind: Bundle
        metadata: {name: base}
        spec:
          manifests: [objects.yaml]
          clusterPatches:
            b:
              - target: {apiVersion: v1, kind: Namespace, name: web}
                patch: {metadata: {labels: {pod-security.kubernetes.io/enforce: privileged}}}
        """
    text = NAMESPACE.format(level="baseline") + DEPLOYMENT.format(namespace="web")
    result = compile_small({OBJECTS: text, "bundles/base/bundle.yaml": bundle})
    assert [f.message.rpartition(")")[2] for f in result.findings if f.code in LEVELS] == [" on a"]


@pytest.mark.parametrize("template", ["5", "[]", "{spec: {containers: {}, volumes: [null]}}", "{spec: 5, metadata: 7}"])
def test_hostile_shapes_raise_nothing(compile_small, template):
    text = graph("x: y").replace(
        "      podTemplate:\n        spec:\n          x: y\n", f"      podTemplate: {template}\n"
    )
    assert f"podTemplate: {template}" in text
    result = compile_small({"clusters/a.yaml": cluster("a", enforce="restricted"), GRAPH: text})
    assert {f.code for f in result.errors} <= {"GO4107", "GO4521", "GO4601"}  # nulls, rules of the operator


def test_findings_of_one_object_are_bounded(compile_small):
    containers = "".join(f"\n            - {{name: c{i}, securityContext: {{privileged: true}}}}" for i in range(150))
    result = compile_small(
        {"clusters/a.yaml": cluster("a", enforce="baseline"), GRAPH: graph(f"containers:{containers}")}
    )
    assert len(told(result)) == 100


def test_repository_types_add_places_and_never_take_them_away(small):
    policy = """\
        apiVersion: gitops/v1alpha1
        kind: OperatorType
        metadata: {name: dynamo}
        spec:
          clusterAttribute: DynamoOperatorSupport
          kinds:
            - {group: nvidia.com, version: v1beta1, kind: DynamoGraphDeployment, resource: dynamographdeployments}
          podTemplates:
            - {group: nvidia.com, kind: DynamoGraphDeployment, versions: [v1beta1], path: /spec/ours, form: spec}
        """
    change = {"policies/dynamo.yaml": policy, "clusters/a.yaml": cluster("a", enforce="baseline")}
    text = graph("hostIPC: true").replace("spec:\n  components", "spec:\n  ours: {hostPID: true}\n  components")
    compilation = Compiler(OperatorRegistry.shipped()).compile(small({**change, GRAPH: text}))
    assert told(compilation) == [("GO4601", f"{GRAPH}:6"), ("GO4601", f"{GRAPH}:12")]
