"""Identities: what an object, a unit and a workload are called, everywhere in the product.

One type for each idea, frozen and ordered, so that they key dictionaries and sort the same way in plans, status files
and terminals. An object is (group, kind, namespace, name): its version is how it is written, not who it is.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import NewType

ClusterName = NewType("ClusterName", str)
"""`metadata.name` of a Cluster document."""

ClusterUid = NewType("ClusterUid", str)
"""uid of the target's kube-system namespace: what a cluster *is* (its name may be reused)."""

Commit = NewType("Commit", str)
"""Full hexadecimal id of a Git commit, or a `folder-…` content id when a plain folder is the source."""

ReconcilerName = NewType("ReconcilerName", str)
"""`metadata.name` of the Repository document; names the label value, field manager, claim and Lease."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """An API group and kind; printed as Kubernetes does (`Deployment.apps`, `ConfigMap`)."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True, order=True)
class GroupVersionKind:
    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GroupVersionKind:
        """From `apps/v1` or `v1` and a kind. Equal ones are one: everything that is known names its kind."""
        return _kind_at(api_version, kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


@functools.lru_cache(maxsize=1024)
def _kind_at(api_version: str, kind: str) -> GroupVersionKind:
    group, _, version = api_version.rpartition("/")
    return GroupVersionKind(group, version, kind)


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """Who an object is on one cluster. `namespace` is empty for cluster-scoped kinds."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.group_kind} {place}"


class WorkloadKind(enum.StrEnum):
    FUNCTION = "function"
    TASK = "task"
    BUNDLE = "bundle"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, order=True)
class WorkloadRef:
    """A Function, Task, Bundle or OperatorInstall of the repository."""

    kind: WorkloadKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class UnitKey:
    """The objects that one workload puts on one cluster for one instance.

    `instance` is `<spec id>-<index>` for a Function (`h100-0`), empty where a workload has one copy a cluster.
    Written `function/llama-chat/h100-0@dgx-a` or `bundle/monitoring@dgx-a`; no version in it.
    """

    kind: WorkloadKind
    name: str
    instance: str
    cluster: ClusterName

    @property
    def workload(self) -> WorkloadRef:
        return WorkloadRef(self.kind, self.name)

    @classmethod
    def parse(cls, text: str) -> UnitKey:
        """The reverse of str(). Raises ValueError when the text is not a unit key."""
        path, at, cluster = text.rpartition("@")
        kind, _, rest = path.partition("/")
        name, _, instance = rest.partition("/")
        if not (at and cluster and name):
            raise ValueError(f"not a unit key: {text[:200]!r}")
        return cls(WorkloadKind(kind), name, instance, ClusterName(cluster))

    def __str__(self) -> str:
        middle = f"/{self.instance}" if self.instance else ""
        return f"{self.kind}/{self.name}{middle}@{self.cluster}"
