"""Others' hands in a story: people with kubectl, controllers, scripts; and what follows from what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gitops.cluster.parents import UnreadableParent, read_parent
from gitops.model.identity import ClusterName
from gitops.plan.parents import ParentRecord
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL
from model_kit.api import APPLY, JSON_PATCH, LEASES, MERGE, SYSTEM, ApiFailure
from model_kit.declaring import CLUSTER, SLOTS, kind_of

if TYPE_CHECKING:
    from model_kit.story import Story

STRANGER = "applyset-stranger-v1"
NOTE = "stranger"
HANDS = (
    *("edit", "apply", "json", "ours", "scale", "extra", "unlabel", "relabel", "wipe", "status"),
    *("delete", "recreate", "make", "parent", "lease", "definition"),
)
"""What others do, each with a slot and a value."""


class Others:
    """`disturbed`: objects whose uid is another one since; `let_go`: without our marks, so that they stay when Git
    drops them before the repair; `orphans`: nobody knows any more that they were ours; `notes`: uid of the objects that
    carry something of others."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._api = story.api
        self.disturbed: set[str] = set()
        self.let_go: set[str] = set()
        self.orphans: set[str] = set()
        self.notes: dict[str, str] = {}
        self.foreign: dict[str, tuple[str, str]] = {}

    def make_foreign(self) -> None:
        """Objects that are nobody's business here; one has our labels, as operators copy them (cases.md R10)."""
        labels = {RECONCILER_LABEL: self._story.names.reconciler, PART_OF_LABEL: STRANGER}
        for name, marks in (("foreign-0", {}), ("foreign-1", labels)):
            body = {"metadata": {"name": name, "labels": marks}, "data": {"key": "1"}}
            made = self._api.request("POST", self._story.names.folder("ConfigMap"), body)["metadata"]
            self.foreign[name] = (made["uid"], made["resourceVersion"])

    def parents(self) -> dict[str, ParentRecord]:
        """The stored parents of the story's reconciler, by the name of the ConfigMap."""
        selector = f"{RECONCILER_LABEL}={self._story.names.reconciler},applyset.kubernetes.io/id"
        found = {}
        for item in self._api.items(SYSTEM, labelSelector=selector):
            record = read_parent(item, {}, cluster=ClusterName(CLUSTER))
            if isinstance(record, UnreadableParent):
                raise AssertionError(f"the parent {record.name} is unreadable: {record.why}")
            found[item["metadata"]["name"]] = record
        return found

    def act(self, hand: str, words: list[str]) -> None:
        slot, value = words[0], int(words[1])
        try:
            self._act(hand, slot, value)
        except ApiFailure as failure:
            if failure.status not in (404, 409, 422):
                raise
            self._story.note(f"  which fails: {str(failure)[:200]}")

    def _act(self, hand: str, slot: str, value: int) -> None:
        path, kind, body = self._story.names.path(slot), kind_of(slot), self._story.names.body(slot, value)
        query = {"fieldManager": "stranger"}
        match hand:
            case "edit":
                self._patch(path, _owned(kind, value), query)
            case "apply":
                self._api.get(path) and self._apply(path, body, query)
            case "ours":
                self.let_go.add(slot)
                manager = {"fieldManager": f"gitops-{self._story.names.reconciler}"}
                self._api.get(path) and self._apply(path, body, manager)
            case "json":
                place, found = _leaf(kind, value)
                operations = [{"op": "replace", "path": place, "value": found}]
                self._api.request("PATCH", path, operations, content_type=JSON_PATCH, query=query)
            case "scale":
                self._patch(f"{path}/scale", {"spec": {"replicas": value % 7}}, query)
            case "extra":
                note: dict[str, Any] = {"metadata": {"annotations": {NOTE: "was here"}}}
                note |= {"ConfigMap": {"data": {NOTE: "1"}}, "Widget": {"spec": {"note": "1"}}}.get(kind, {})
                self.notes[slot] = self._patch(path, note, query)["metadata"]["uid"]
            case "unlabel" | "relabel" | "wipe" if not self._is_ours(path):
                pass  # without a second mark nothing shows that it was ours, and it is refused as one of others
            case "unlabel":
                self.let_go.add(slot)
                self._patch(path, {"metadata": {"labels": {RECONCILER_LABEL: None}}}, query)
            case "relabel":
                self.let_go.add(slot)
                self._patch(path, {"metadata": {"labels": {PART_OF_LABEL: STRANGER}}}, query)
            case "wipe":
                self.let_go.add(slot)
                self._patch(path, {"metadata": {"managedFields": [{}]}}, query)
            case "status":
                live = self._api.request("GET", path)
                live["metadata"]["labels"] = {"operator": "was-here"}
                live["metadata"].pop("managedFields", None)
                live["status"] = {"phase": f"p{value}"} if kind == "Widget" else live.get("status", {})
                self._api.request("PUT", f"{path}/status", live, query=query)
            case "delete":
                self._delete(path, slot)
            case "recreate":
                self._delete(path, slot)
                self._make(path, slot, body)
            case "make":
                self._make(path, slot, body)
            case "parent":
                self._lose_parent(value)
            case "definition":
                self.disturbed |= {slot for slot in SLOTS if kind_of(slot) == "Widget"}
                self._story.bench.make_definition_anew()
            case "lease":
                self._api.request("DELETE", f"{LEASES}/gitops-{self._story.names.reconciler}")

    def _is_ours(self, path: str) -> bool:
        name, metadata = self._story.names.reconciler, (self._api.get(path) or {}).get("metadata", {})
        labels = metadata.get("labels") or {}
        marked = labels.get(RECONCILER_LABEL) == name and labels.get(PART_OF_LABEL) != STRANGER
        return marked and any(e["manager"] == f"gitops-{name}" for e in metadata.get("managedFields") or ())

    def _patch(self, path: str, body: object, query: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = self._api.request("PATCH", path, body, content_type=MERGE, query=query)
        return found

    def _apply(self, path: str, body: object, query: dict[str, str]) -> None:
        self._api.request("PATCH", path, body, content_type=APPLY, query={**query, "force": "true"})

    def _delete(self, path: str, slot: str) -> None:
        self._api.request("DELETE", path)
        self.disturbed.add(slot)
        self.notes.pop(slot, None)

    def _make(self, path: str, slot: str, body: object) -> None:
        self._api.request("POST", path.rpartition("/")[0], body, query={"fieldManager": "stranger"})
        self.let_go.add(slot)
        self.disturbed.add(slot)

    def _lose_parent(self, value: int) -> None:
        parents = self.parents()
        if parents:
            name = sorted(parents)[value % len(parents)]
            self.orphans |= {m.ref.name for m in parents[name].members} & set(SLOTS)
            self._api.request("DELETE", f"{SYSTEM}/{name}")


def _owned(kind: str, value: int) -> dict[str, Any]:
    """A merge patch over something that we own."""
    match kind:
        case "ConfigMap":
            return {"data": {"value": f"x{value}", "same": None}}
        case "Service":
            return {"spec": {"selector": {"app": f"x{value}"}}}
        case "Widget":
            return {"spec": {"size": 10_000 + value, "parts": [{"name": "b"}, {"name": "a", "count": value}]}}
        case _:
            return {"spec": {"replicas": 10 + value % 5}}


def _leaf(kind: str, value: int) -> tuple[str, Any]:
    match kind:
        case "ConfigMap":
            return "/data/value", f"j{value}"
        case "Service":
            return "/spec/ports/0/port", 20_000 + value
        case "Widget":
            return "/spec/parts/0/count", 20_000 + value
        case _:
            return "/spec/template/spec/containers/0/image", f"registry.example.com/other:{value}"
