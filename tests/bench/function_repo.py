"""A repository of N functions of five documents each: the two documents, a graph, its settings and an overlay."""

from __future__ import annotations

DOCUMENTS = 5

CLUSTER = """\
apiVersion: gitops/v1alpha1
kind: Cluster
metadata:
  name: bench
spec:
  credentials: bench
  attributes: [DynamoOperatorSupport]
  gpus:
    - name: H100
"""
FUNCTION = """\
apiVersion: gitops/v1alpha1
kind: Function
metadata:
  name: {name}
spec:
  version: "1"
  operatorTypes:
    - dynamo
  manifests:
    - manifests/
"""
DEPLOYMENT = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: {name}
spec:
  gpuSpecifications:
    - id: h100
      gpu: H100
      manifestMergePatches:
        - overlays/h100.yaml
"""
COMPONENT = """\
    - name: {component}
      type: {component}
      replicas: 1
      podTemplate:
        spec:
          containers:
            - name: main
              image: registry.example/dynamo/vllm-runtime:1.5.0
              command: [python3, -m, dynamo.vllm]
              args:
                - --model
                - {name}
              envFrom:
                - configMapRef:
                    name: settings
              resources:
                limits:
                  nvidia.com/gpu: 1
"""
GRAPH = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: graph
spec:
  backendFramework: vllm
  components:
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  LOG_LEVEL: info
  VALUE: {value}
"""
OVERLAY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  LOG_LEVEL: debug
"""


def function_name(index: int) -> str:
    return f"f-{index:04d}"


def settings_path(index: int) -> str:
    """The file that a one-file commit changes."""
    return f"functions/{function_name(index)}/manifests/settings.yaml"


def settings_file(value: str) -> str:
    return SETTINGS.format(value=value)


def repository(functions: int) -> dict[str, str]:
    """All files of the first commit."""
    files = {
        "gitops.yaml": "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata:\n  name: bench\n",
        "clusters/bench.yaml": CLUSTER,
    }
    for index in range(functions):
        name = function_name(index)
        graph = GRAPH + "".join(COMPONENT.format(component=c, name=name) for c in ("frontend", "prefill", "decode"))
        files[f"functions/{name}/function.yaml"] = FUNCTION.format(name=name)
        files[f"functions/{name}/deployment.yaml"] = DEPLOYMENT.format(name=name)
        files[f"functions/{name}/manifests/graph.yaml"] = graph
        files[settings_path(index)] = settings_file("v0")
        files[f"functions/{name}/overlays/h100.yaml"] = OVERLAY
    return files
