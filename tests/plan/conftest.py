"""A small valid repository in memory, and a compiler over the shipped operator types."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from gitops.model.identity import Commit, UnitKey
from gitops.model.trees import EntryKind, TreeEntry
from gitops.plan.compiling import Compiler
from gitops.plan.units import Compilation
from gitops.policy.placement import pins_of
from gitops.policy.registry import OperatorRegistry

REPOSITORY = """\
apiVersion: gitops/v1alpha1
kind: Repository
metadata:
  name: test
"""

CLUSTER = """\
apiVersion: gitops/v1alpha1
kind: Cluster
metadata:
  name: {name}
spec:
  credentials: {name}
  region: {region}
  attributes: [DynamoOperatorSupport, NIMOperatorSupport]
  gpus:
    - name: H100
      capacity: 8
      instanceTypes: [{{name: H100x2, gpusPerInstance: 2}}]
  namespaceTemplate:
    labels: {{team: ml}}
"""

FUNCTION = """\
apiVersion: gitops/v1alpha1
kind: Function
metadata:
  name: chat
spec:
  version: "1"
  operatorTypes: [dynamo]
  manifests:
    - manifests/
"""

DEPLOYMENT = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  gpuSpecifications:
    - id: h100
      gpu: H100
      minInstances: 2
      manifestMergePatches:
        - overlays/h100.yaml
"""

GRAPH = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: chat
spec:
  backendFramework: vllm
  components:
    - name: decode
      type: decode
      replicas: 1
      podTemplate:
        spec:
          containers:
            - name: main
              image: example/worker:1.0.0
              envFrom:
                - configMapRef: {name: settings}
              resources:
                limits: {nvidia.com/gpu: 1}
"""

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  LEVEL: info
"""

OVERLAY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  LEVEL: debug
"""

BUNDLE = """\
apiVersion: gitops/v1alpha1
kind: Bundle
metadata:
  name: base
spec:
  manifests: [objects.yaml]
"""

OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: page
  namespace: web
data:
  page: hello
"""

SMALL: dict[str, str] = {
    "gitops.yaml": REPOSITORY,
    "clusters/a.yaml": CLUSTER.format(name="a", region="north"),
    "clusters/b.yaml": CLUSTER.format(name="b", region="south"),
    "functions/chat/function.yaml": FUNCTION,
    "functions/chat/deployment.yaml": DEPLOYMENT,
    "functions/chat/manifests/graph.yaml": GRAPH,
    "functions/chat/manifests/settings.yaml": SETTINGS,
    "functions/chat/overlays/h100.yaml": OVERLAY,
    "bundles/base/bundle.yaml": BUNDLE,
    "bundles/base/objects.yaml": OBJECTS,
}


@dataclass(frozen=True)
class MemoryTree:
    """A FileTree of texts; a value of EntryKind makes a link or submodule."""

    files: Mapping[str, str | bytes | EntryKind]
    reads: list[str] = field(default_factory=list)

    @property
    def commit(self) -> Commit:
        content = "\0".join(f"{e.path} {e.content_id} {e.kind}" for e in self.entries())
        return Commit(hashlib.sha1(content.encode()).hexdigest())

    def entries(self) -> Iterable[TreeEntry]:
        for path in sorted(self.files):
            value = self.files[path]
            if isinstance(value, EntryKind):
                yield TreeEntry(path, "0" * 40, value)
            else:
                data = _bytes(value)
                yield TreeEntry(path, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())

    def read(self, path: str) -> bytes:
        value = self.files.get(path)
        if value is None:
            raise FileNotFoundError(path)
        if isinstance(value, EntryKind):
            raise IsADirectoryError(path)
        self.reads.append(path)
        return _bytes(value)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


Change = Mapping[str, str | bytes | EntryKind | None]


def changed(files: Mapping[str, str | bytes | EntryKind], change: Change) -> MemoryTree:
    """The files with some replaced (None removes one). Texts may be indented."""
    merged = dict(files)
    for path, value in change.items():
        if value is None:
            merged.pop(path)
        else:
            merged[path] = (
                textwrap.dedent(value) if isinstance(value, str) and not isinstance(value, EntryKind) else value
            )
    return MemoryTree(merged)


@pytest.fixture
def small() -> Callable[..., MemoryTree]:
    """small(path=text, …) or small({path: text}): the small repository with changes."""

    def make(change: Change | None = None) -> MemoryTree:
        return changed(SMALL, change or {})

    return make


@pytest.fixture
def tree_of() -> Callable[..., MemoryTree]:
    """tree_of({path: text}): a repository of exactly these files."""

    def make(files: Change) -> MemoryTree:
        return changed({}, files)

    return make


@pytest.fixture
def compiler() -> Compiler:
    return Compiler(OperatorRegistry.shipped())


@pytest.fixture
def compile_small(compiler: Compiler, small: Callable[..., MemoryTree]) -> Callable[..., Compilation]:
    """Compile the small repository with changes; `live` are keys of units that have a parent."""

    def run(change: Change | None = None, *, live: Iterable[str] = (), **options: object) -> Compilation:
        pins = pins_of(map(UnitKey.parse, live))
        return compiler.compile(small(change), pins=pins, **options)  # type: ignore[arg-type]

    return run
