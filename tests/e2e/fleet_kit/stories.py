"""A random story: what a repository declares, commit by commit, and what was done to the cluster meanwhile."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

import yaml

from fleet_kit.fixtures import bundle, cluster
from gitops.model.identity import ObjectRef

DGX = "dgx-a"
STRANGER = "applyset-stranger-v1"
BUNDLES = ("web", "api", "jobs", "data")
PLACES = {"ConfigMap": "/api/v1/namespaces/{}/configmaps", "Service": "/api/v1/namespaces/{}/services"}


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(slots=True)
class Declared:
    """An object in Git: where it stands and what it says."""

    bundle: str
    file: str
    value: str


@dataclass(slots=True)
class Story:
    """What the repository declares, commit by commit, and what was done to the cluster."""

    seed: int
    rng: random.Random
    namespaces: tuple[str, str]
    group: str
    now: dict[Ref, Declared] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    good: dict[str, dict[Ref, Declared]] = field(default_factory=dict)
    """Per bundle: what its last unbroken commit declared; what a broken one is held at."""
    keeps: dict[str, frozenset[Ref]] = field(default_factory=dict)
    """Per commit: what must not be deleted while it is the head."""
    since: dict[Ref, int] = field(default_factory=dict)
    """Declared without a break since this commit number."""
    head: str = ""
    disturbed: set[Ref] = field(default_factory=set)
    """Deleted or replaced by the foreign actor: their uid may be another one."""
    let_go: set[Ref] = field(default_factory=set)
    """The foreign actor took our marks off: when Git drops it before the repair, it stays, unmarked."""
    orphans: set[Ref] = field(default_factory=set)
    """Members of a parent that the foreign actor deleted: when a crash follows before it is stored again, nobody knows
    any more that they were ours (R13)."""
    lines: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        self.lines.append(f"{time.monotonic() - self.began:7.2f} {line}")

    def path(self, ref: Ref) -> str:
        if ref.kind == "Widget":
            return f"/apis/{self.group}/v1/namespaces/{ref.namespace}/widgets/{ref.name}"
        return f"{PLACES[ref.kind].format(ref.namespace)}/{ref.name}"

    def ref(self, path: str) -> Ref | None:
        """The object at a path, when it is one of our kinds."""
        found = re.search(r"/namespaces/([^/]+)/(configmaps|services|widgets)/([^/]+)$", path)
        kinds = {"configmaps": "ConfigMap", "services": "Service", "widgets": "Widget"}
        return Ref(kinds[found[2]], found[1], found[3]) if found else None

    def body(self, ref: Ref, value: str) -> dict[str, Any]:
        metadata = {"name": ref.name, "namespace": ref.namespace}
        if ref.kind == "ConfigMap":
            return {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"value": value, "same": "1"},
            }
        if ref.kind == "Service":
            port = 1000 + int(value) % 5000
            spec: dict[str, Any] = {"selector": {"app": f"v{value}"}, "ports": [{"name": "web", "port": port}]}
            return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        spec = {"size": int(value), "parts": [{"name": "a", "count": int(value)}, {"name": "b"}]}
        return {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": metadata, "spec": spec}

    def crd(self) -> dict[str, Any]:
        part = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
        part["required"] = ["name"]
        parts = {
            "type": "array",
            "items": part,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
        spec = {"type": "object", "properties": {"size": {"type": "integer"}, "parts": parts}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }

    def files(self) -> dict[str, str]:
        """The whole tree."""
        found = {
            "gitops.yaml": yaml.safe_dump(
                {
                    "apiVersion": "gitops/v1alpha1",
                    "kind": "Repository",
                    "metadata": {"name": f"chaos-{self.seed}"},
                    "spec": {"allowEmpty": True},
                }
            ),
            f"clusters/{DGX}.yaml": cluster(DGX),
            "bundles/defs/bundle.yaml": bundle("defs"),
            "bundles/defs/manifests/crd.yaml": yaml.safe_dump(self.crd(), sort_keys=False),
        }
        by_file: dict[str, list[str]] = {}
        for ref, entry in sorted(self.now.items()):
            name = f"bundles/{entry.bundle}/manifests/{entry.file}"
            by_file.setdefault(name, []).append(yaml.safe_dump(self.body(ref, entry.value), sort_keys=False))
        found |= {name: "---\n".join(texts) for name, texts in by_file.items()}
        for name in {entry.bundle for entry in self.now.values()}:
            found[f"bundles/{name}/bundle.yaml"] = bundle(name)
        for name in self.broken:
            found[f"bundles/{name}/bundle.yaml"] = bundle(name)
            found[f"bundles/{name}/manifests/broken.yaml"] = "kind: [ConfigMap\n"
        return found


@dataclass(frozen=True, slots=True)
class Deletion:
    """A DELETE that arrived: what the engine's assignment then was, whether it declared the object, and since when (in
    seconds) it was in force."""

    ref: Ref
    commit: str
    declared: bool
    age: float


def same(one: ObjectRef, ref: Ref) -> bool:
    return (one.kind, one.namespace, one.name) == (ref.kind, ref.namespace, ref.name)
