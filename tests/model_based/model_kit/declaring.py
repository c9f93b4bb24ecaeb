"""What Git declares in a story, commit by commit: pure, and nothing of the product is asked.

The names of objects are few and fixed, so that every step of a story means something in every state: `cm-0` is a
ConfigMap, `w-1` a Widget. An object stands in one bundle, in one of its files, and
has one value; an overlay of its bundle may set another one over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

CLUSTER = "dgx-a"
DEAD = "dgx-dead"
GROUP = "model.example.com"
BUNDLES = ("web", "api", "data")
KINDS = {"cm": "ConfigMap", "svc": "Service", "w": "Widget", "dep": "Deployment"}
FOLDERS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "Widget": f"/apis/{GROUP}/v1/namespaces/{{}}/widgets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
SLOTS = ("cm-0", "cm-1", "cm-2", "cm-3", "svc-0", "svc-1", "w-0", "w-1", "dep-0")
"""Names of all objects that a story may declare."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object in Git: its bundle, the file there, its value, and the one that an overlay sets (None: there is none)
    over it."""

    bundle: str
    file: str
    value: int
    patch: int | None = None

    @property
    def effective(self) -> int:
        return self.value if self.patch is None else self.patch


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one commit. A broken bundle has a file that cannot be read ("yaml") or must not be applied
    ("null")."""

    objects: Mapping[str, Entry] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    dead_cluster: bool = False

    def of(self, bundle: str) -> dict[str, Entry]:
        return {slot: entry for slot, entry in self.objects.items() if entry.bundle == bundle}

    def changed(self, words: list[str]) -> Tree:
        """The tree after one change, as stories write it."""
        objects, broken = dict(self.objects), dict(self.broken)
        match words:
            case ["put", slot, bundle, value]:
                known = objects.get(slot)
                file = known.file if known is not None and known.bundle == bundle else "a"
                patch = known.patch if known is not None and known.bundle == bundle else None
                objects[slot] = Entry(bundle, file, int(value), patch)
            case ["drop", slot]:
                objects.pop(slot, None)
            case ["move", slot, bundle] if slot in objects:
                objects[slot] = replace(objects[slot], bundle=bundle)
            case ["file", slot, file] if slot in objects:
                objects[slot] = replace(objects[slot], file=file)
            case ["patch", slot, value] if slot in objects:
                objects[slot] = replace(objects[slot], patch=None if value == "none" else int(value))
            case ["swap", one, other]:
                names = {one: other, other: one}
                objects = {s: replace(e, bundle=names.get(e.bundle, e.bundle)) for s, e in objects.items()}
            case ["remove", bundle]:
                objects = {s: e for s, e in objects.items() if e.bundle != bundle}
                broken.pop(bundle, None)
            case ["break", bundle, how]:
                broken[bundle] = how
            case ["mend"]:
                broken.clear()
            case ["clear"]:
                objects.clear()
                broken.clear()
            case ["dead", word]:
                return replace(self, dead_cluster=word == "on")
            case ["move" | "file" | "patch", *_] | ["nothing"]:
                pass
            case _:
                raise ValueError(f"no change: {' '.join(words)}")
        return replace(self, objects=objects, broken=broken)


@dataclass(frozen=True, slots=True)
class Names:
    """What differs from story to story."""

    reconciler: str
    namespace: str

    def folder(self, kind: str) -> str:
        return FOLDERS[kind].format(self.namespace)

    def path(self, slot: str) -> str:
        return f"{self.folder(kind_of(slot))}/{slot}"

    def slot_at(self, path: str) -> str | None:
        """The slot that an object's path names."""
        slot = path.rpartition("/")[2]
        return slot if slot in SLOTS and self.path(slot) == path else None

    def body(self, slot: str, value: int) -> dict[str, Any]:
        """An object with this value, as Git has it."""
        kind = kind_of(slot)
        body = {"metadata": {"name": slot, "namespace": self.namespace}, **_content(kind, value)}
        return {"apiVersion": {"Widget": f"{GROUP}/v1", "Deployment": "apps/v1"}.get(kind, "v1"), "kind": kind, **body}

    def files(self, tree: Tree) -> dict[str, str]:
        """All files of a commit."""
        found = {"gitops.yaml": _document("Repository", self.reconciler, allowEmpty=True)}
        clusters = (CLUSTER, DEAD) if tree.dead_cluster else (CLUSTER,)
        for name in clusters:
            found[f"clusters/{name}.yaml"] = _document("Cluster", name, credentials=name)
        for bundle in BUNDLES:
            found |= self._bundle(bundle, tree)
        return found

    def _bundle(self, bundle: str, tree: Tree) -> Iterator[tuple[str, str]]:
        entries, broken = tree.of(bundle), tree.broken.get(bundle)
        if not entries and broken is None:
            return
        patches = [
            {"target": _target(body := self.body(slot, entry.value)), "patch": _content(body["kind"], entry.patch)}
            for slot, entry in sorted(entries.items())
            if entry.patch is not None
        ]
        more = {"patches": patches} if patches else {}
        yield f"bundles/{bundle}/bundle.yaml", _document("Bundle", bundle, manifests=["manifests/"], **more)
        for file in sorted({entry.file for entry in entries.values()}):
            bodies = [self.body(s, e.value) for s, e in sorted(entries.items()) if e.file == file]
            yield (
                f"bundles/{bundle}/manifests/{file}.yaml",
                yaml.dump_all(bodies, Dumper=yaml.CSafeDumper, sort_keys=False),
            )
        if broken is not None:
            yield f"bundles/{bundle}/manifests/broken.yaml", BROKEN[broken].format(self.namespace)


BROKEN = {
    "yaml": "kind: [ConfigMap\n",
    "null": "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: broken, namespace: {0}}}\ndata: {{key: null}}\n",
}


def kind_of(slot: str) -> str:
    return KINDS[slot.partition("-")[0]]


def _content(kind: str, value: int) -> dict[str, Any]:
    match kind:
        case "ConfigMap":
            return {"data": {"value": str(value), "same": "1"}}
        case "Service":
            ports = [{"name": f"p{value}", "port": 1000 + value, "protocol": "TCP"}]
            return {"spec": {"selector": {"app": f"v{value}"}, "ports": ports}}
        case "Widget":
            return {"spec": {"size": value, "parts": [{"name": "a", "count": value}, {"name": "b"}]}}
        case _:
            container = {"name": "main", "image": f"registry.example.com/app:{value}"}
            template = {"metadata": {"labels": {"app": "model"}}, "spec": {"containers": [container]}}
            spec = {"replicas": 1 + value % 5, "selector": {"matchLabels": {"app": "model"}}, "template": template}
            return {"spec": spec}


def definition() -> dict[str, Any]:
    """Of the kind Widget, which has a list with keys and nothing but that."""
    part = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
    part["required"] = ["name"]
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    parts = {"type": "array", "items": part, **keyed}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "note": {"type": "string"}, "parts": parts}}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    }


def _document(kind: str, name: str, **spec: Any) -> str:
    body = {"apiVersion": "gitops/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return yaml.dump(body, Dumper=yaml.CSafeDumper, sort_keys=False)


def _target(body: Mapping[str, Any]) -> dict[str, str]:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": body["metadata"]["name"]}
