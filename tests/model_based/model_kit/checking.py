"""What must be so, whatever the story: asked of the API server and of the status branch, not of the daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import yaml

from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION
from gitops.reconcile.outcomes import SyncState
from model_kit.api import LEASES
from model_kit.declaring import BUNDLES, CLUSTER, DEAD, FOLDERS, SLOTS, Entry
from model_kit.others import NOTE

if TYPE_CHECKING:
    from model_kit.daemon import Daemon, Sent
    from model_kit.story import Story

STATUS = "gitops-status"


class Checks:
    """`calls` are the calls but those about the Lease, since they were cleared."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._found: list[str] = []
        self._uids: dict[str, str] = {}
        self._uids_at = 0
        self.calls: list[Sent] = []

    # -- while it goes on --------------------------------------------------------------------------------------------

    def raise_found(self) -> None:
        if self._found:
            raise AssertionError("\n".join(self._found))

    def sending(self, daemon: Daemon, sent: Sent) -> None:
        """What a daemon is about to send: writes need the Lease, deletions need proof."""
        if not sent.is_write:
            return
        if not sent.is_lease and all(self._story.daemons):
            self._found += self._no_lease(daemon, sent)
        if sent.method == "DELETE" and not sent.is_lease:
            self._found += self._unproven(sent)
        if sent.method == "PATCH" and sent.query.get("force") == "true":
            self._found += self._unnamed(sent)
        if sent.method == "PUT" and not sent.is_lease:
            self._found.append(f"a PUT of {sent.path}")

    def _no_lease(self, daemon: Daemon, sent: Sent) -> Iterator[str]:
        name = self._story.names.reconciler
        lease = self._story.api.get(f"{LEASES}/gitops-{name}")
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        if holder not in (None, "", daemon.name) and "/namespaces/gitops-system" not in sent.path:
            yield f"{daemon.name} writes {sent.path} while {holder} has the Lease"

    def _unnamed(self, sent: Sent) -> Iterator[str]:
        """A crash right after an apply must not leave what no parent names."""
        slot, others = self._story.names.slot_at(sent.path), self._story.others
        named = {m.ref.name for record in others.parents().values() for m in record.members}
        if slot is not None and slot not in named | others.orphans:
            yield f"apply of {slot}, which no parent names"

    def _unproven(self, sent: Sent) -> Iterator[str]:
        story, assignment = self._story, sent.assignment
        if assignment is None:
            yield f"DELETE {sent.path} without a head"
            return
        keeps = story.history.keeps(assignment.commit)
        if "/gitops-system/" in sent.path:
            yield from self._parent_unproven(sent, keeps)
            return
        slot = story.names.slot_at(sent.path)
        if slot is None:
            yield f"DELETE {sent.path}, which is nobody's here"
            return
        if slot in keeps:
            yield f"DELETE {sent.path} while commit {assignment.commit[:12]} keeps it"
        conditions = (json.loads(sent.body or b"{}").get("preconditions")) or {}
        uid, version = conditions.get("uid"), conditions.get("resourceVersion")
        if not uid or not version:
            yield f"DELETE {sent.path} with preconditions {conditions}"
        members = {(m.ref.name, m.uid) for record in story.others.parents().values() for m in record.members}
        # One that was written ahead has no uid yet: then the marks alone prove it.
        if not {(slot, uid), (slot, "")} & members and slot not in story.others.orphans:
            yield f"DELETE {sent.path} of uid {uid}, which no parent names"
        live = story.api.get(sent.path)
        meant = live is not None and (live["metadata"]["uid"], live["metadata"]["resourceVersion"]) == (uid, version)
        if meant and not self._marked(live):
            yield f"DELETE {sent.path}, which does not carry our marks"

    def _parent_unproven(self, sent: Sent, keeps: set[str]) -> Iterator[str]:
        record = self._story.others.parents().get(sent.path.rpartition("/")[2])
        if record is None:
            return
        held = [m.ref.name for m in record.members if m.ref.name in keeps]
        here = [name for name in held if self._is_live(name, {m.ref.name: m.uid for m in record.members}[name])]
        others = {m.ref.name for r in self._story.others.parents().values() if r.unit != record.unit for m in r.members}
        if lost := [name for name in here if name not in others]:
            yield f"DELETE of the parent of {record.unit}, the only one that names {', '.join(lost)}"

    def _is_live(self, slot: str, uid: str) -> bool:
        live = self._story.api.get(self._story.names.path(slot))
        return live is not None and live["metadata"]["uid"] == uid

    # -- at rest -----------------------------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """What is not as it must be once nothing is left to do."""
        live = self._live()
        members = self._members()
        wanted, open_ended = self._wanted()
        found = [
            text for slot, (bundle, e) in sorted(wanted.items()) for text in self._one(slot, bundle, e, live, members)
        ]
        for slot in sorted(members.keys() - wanted.keys()):
            if not open_ended:
                found.append(f"{slot} left Git and is still a member of {members[slot]}")
        for slot in sorted(live.keys() - wanted.keys()):
            if slot not in self._story.others.let_go | self._story.others.orphans and not open_ended:
                found.append(f"{slot} left Git and is still there")
        for slot, uid in self._story.others.notes.items():
            if slot in live and live[slot]["metadata"]["uid"] == uid:
                found += self._noted(slot, live[slot])
        return found or list(self._status(wanted))

    def _wanted(self) -> tuple[dict[str, tuple[str, Entry]], bool]:
        """What must be live with its bundle; whether more may be, because something is broken and may declare it."""
        history = self._story.history
        tree = history.tree
        contending = history.contending()
        wanted = {
            s: (e.bundle, e)
            for s, e in tree.objects.items()
            if e.bundle not in tree.broken and e.bundle not in contending
        }
        for record in self._story.others.parents().values() if tree.broken else ():
            at = history.held_at(record.unit.name).get(record.commit, {})
            if record.unit.name in tree.broken:
                wanted |= {s: (e.bundle, e) for s, e in at.items() if s not in wanted}
        contended = history.contended()
        return {slot: found for slot, found in wanted.items() if slot not in contended}, bool(tree.broken)

    def _one(
        self,
        slot: str,
        bundle: str,
        entry: Entry,
        live: dict[str, dict[str, Any]],
        members: dict[str, list[tuple[str, str]]],
    ) -> Iterator[str]:
        body = live.get(slot)
        if body is None:
            yield f"{slot} is missing"
            return
        declared = self._story.names.body(slot, entry.effective)
        yield from (f"{slot}: {text}" for text in differences(declared, body))
        if not self._marked(body) or SOURCE_ANNOTATION not in (body["metadata"].get("annotations") or {}):
            yield f"{slot} does not carry our marks"
        want = [(bundle, body["metadata"]["uid"])]
        # A bundle that is held because it contends for the object may have written it ahead.
        contending = self._story.history.contending()
        if [m for m in members.get(slot, ()) if m[0] == bundle or m[0] not in contending] != want:
            yield f"{slot} is a member of {members.get(slot)}, not of {want}"
        if self._uids.get(slot, want[0][1]) != want[0][1] and slot not in self._story.others.disturbed:
            yield f"{slot} stayed declared and is another object now"

    def _noted(self, slot: str, body: dict[str, Any]) -> Iterator[str]:
        inside = {"cm": body.get("data"), "w": body.get("spec")}.get(slot.partition("-")[0])
        if NOTE not in (body["metadata"].get("annotations") or {}):
            yield f"{slot} lost an annotation of others"
        if inside is not None and not {NOTE, "note"} & inside.keys():
            yield f"{slot} lost a field of others"

    def remember(self) -> None:
        """All is right: note the uids, which stay as long as the objects stay declared and nobody disturbs them."""
        others = self._story.others
        live = self._live()
        for slot in self._story.history.tree.objects:
            if slot in live and self._marked(live[slot]):
                others.let_go.discard(slot)
        kept = self._since_then()
        self._uids = {s: u for s, u in self._uids.items() if s in kept and s not in others.disturbed}
        self._uids |= {s: live[s]["metadata"]["uid"] for s in self._story.history.tree.objects if s in live}
        self._uids_at = len(self._story.history.commits) - 1
        others.disturbed.clear()

    def committed(self) -> None:
        """A commit came: what it does not keep may become another object."""
        keeps = self._story.history.keeps(self._story.history.head)
        self._uids = {slot: uid for slot, uid in self._uids.items() if slot in keeps}

    def _since_then(self) -> set[str]:
        history = self._story.history
        return set.intersection(*(history.keeps(sha) for sha, _ in history.commits[self._uids_at :]))

    def foreign_untouched(self) -> None:
        folder = self._story.names.folder("ConfigMap")
        for name, was in self._story.others.foreign.items():
            found = self._story.api.get(f"{folder}/{name}")
            now = None if found is None else (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
            assert now == was, f"{name} was touched: {was} → {now}"

    # -- status ------------------------------------------------------------------------------------------------------

    def _status(self, wanted: dict[str, tuple[str, Entry]]) -> Iterator[str]:
        files, history = self._story.repo.read_all(STATUS), self._story.history
        tree, contended = history.tree, history.contended()
        contending = history.contending() | {e.bundle for s, e in tree.objects.items() if s in contended}
        for bundle in BUNDLES:
            path = f"status/units/{CLUSTER}/bundle.{bundle}.yaml"
            file = yaml.load(files[path], yaml.CSafeLoader) if path in files else None
            declared = bool(tree.of(bundle))
            if bundle in contending:
                continue
            if bundle in tree.broken:
                yield from self._held_status(bundle, files, file)
            elif file is None:
                if declared:
                    yield f"there is no {path}"
            elif not declared:
                if not tree.broken:
                    yield f"{path} is still there: {file}"
            else:
                yield from self._unit_status(bundle, file)
        readme = files.get("status/README.md", b"").decode()
        if history.head[:12] not in readme:
            yield f"status/README.md does not name the head {history.head[:12]}"
        if (f"status/clusters/{DEAD}.yaml" in files) != tree.dead_cluster:
            yield f"status/clusters/{DEAD}.yaml: {tree.dead_cluster}"
        for path, raw in files.items():
            if DEAD in path and b"\nstatus: Ready" in raw:
                yield f"{path} says Ready of a cluster that never answered"

    def _unit_status(self, bundle: str, file: dict[str, Any]) -> Iterator[str]:
        tree = self._story.history.tree
        ready = not any(slot.startswith("dep") for slot in tree.of(bundle))
        if (file["status"] == "Ready") != ready:
            yield f"the status of {bundle} is {file['status']} ({file.get('cause')}), ready would be {ready}"
        if "outcome" in file and file["outcome"]["message"].split(":")[0] in STATES:
            yield f"the status of {bundle} tells of {file['outcome']}"
        if file.get("commit") not in self._story.history.said_by(bundle):
            yield f"the status of {bundle} names commit {file.get('commit')}"
        if file.get("held"):
            yield f"the status of {bundle} says it is held"

    def _held_status(self, bundle: str, files: dict[str, bytes], file: dict[str, Any] | None) -> Iterator[str]:
        workload = files.get(f"status/bundles/{bundle}.yaml", b"").decode()
        if "held" not in workload:
            yield f"status/bundles/{bundle}.yaml does not say that {bundle} is held: {workload}"
        if file is not None and not file.get("held"):
            yield f"the status of {bundle} does not say that it is held"
        # Without a commit: it broke before it was applied as a whole for the first time.
        if file is not None and file.get("commit") not in {None, *self._story.history.held_at(bundle)}:
            yield f"the status of {bundle} names commit {file.get('commit')}, which was broken"

    # -- what is there -----------------------------------------------------------------------------------------------

    def _live(self) -> dict[str, dict[str, Any]]:
        """All objects by slot."""
        names, found = self._story.names, {}
        for kind in FOLDERS:
            for item in self._story.api.items(names.folder(kind)):
                if item["metadata"]["name"] in SLOTS:
                    found[item["metadata"]["name"]] = item
        return found

    def _members(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for record in self._story.others.parents().values():
            for member in record.members:
                found.setdefault(member.ref.name, []).append((record.unit.name, member.uid))
        return found

    def _marked(self, body: dict[str, Any]) -> bool:
        """Does it carry our labels, and fields of ours?"""
        name, metadata = self._story.names.reconciler, body["metadata"]
        labels = metadata.get("labels") or {}
        ours = labels.get(RECONCILER_LABEL) == name and labels.get(PART_OF_LABEL, "").startswith("applyset-")
        return ours and any(e["manager"] == f"gitops-{name}" for e in metadata.get("managedFields") or ())


STATES = frozenset(SyncState) - {SyncState.SYNCED, SyncState.RETAINED}
"""Words with which the outcome of a unit begins that is not as declared."""


def differences(declared: Any, live: Any, path: str = "") -> Iterator[str]:
    """Where live is not as declared, as far as something is declared."""
    if isinstance(declared, dict):
        if not isinstance(live, dict):
            yield f"{path} is gone"
            return
        for key, value in declared.items():
            if path or key not in ("apiVersion", "kind"):
                yield from differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(declared, list):
        if not isinstance(live, list) or len(live) < len(declared):
            yield f"{path} is {live!r}"
            return
        named = {item.get("name"): item for item in live if isinstance(item, dict)}
        for number, value in enumerate(declared):
            found = named.get(value["name"]) if isinstance(value, dict) else live[number]
            yield from differences(value, found, f"{path}[{number}]")
    elif declared != live:
        yield f"{path} is {live!r}, declared {declared!r}"
