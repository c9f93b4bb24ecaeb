"""The hands that tell a story: commits, foreign edits, faults, crashes; and the eye that sees what is wrong then."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from controlplane_kit import faults
from controlplane_kit.client import ApiFailure
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faults import Answer, Cut, CutAfter, Delay, FreezeAfter, LoseAnswer, Request, Rule, WatchError
from controlplane_kit.gitserver import Repository

from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet
from fleet_kit.stories import BUNDLES, DGX, STRANGER, Declared, Deletion, Ref, Story, same
from gitops.cluster.parents import UnreadableParent, read_parent
from gitops.model.identity import ClusterName
from gitops.plan.pruning import FuseLimits
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION
from gitops.reconcile.fights import FightLimits

# The story is long on drifts and short on patience: limits that ask people are proved elsewhere.
CHAOS_OPTIONS = replace(
    OPTIONS, fuse=FuseLimits(count=10_000, share=1.0), fights=FightLimits(limit=10_000), shutdown=1.0
)


class Chaos:
    """One story under way. Steps take their choices from its random numbers."""

    def __init__(self, story: Story, repo: Repository, plane: ControlPlane, start: StartFleet) -> None:
        self.story, self.repo, self.plane, self.start = story, repo, plane, start
        self.rng = story.rng
        self.fleet: Fleet | None = None
        self.deletes: list[Deletion] = []
        self.tree: dict[str, str] = {}
        self.assigned: tuple[str, float] = ("", 0.0)
        self.generation = 0
        self.uids: dict[Ref, str] = {}
        self.everything: set[Ref] = set()
        """Whatever was declared at some time."""

    # -- the engine --------------------------------------------------------------------------------------------------

    @property
    def running(self) -> Fleet:
        assert self.fleet is not None
        return self.fleet

    @property
    def proxy(self) -> Any:
        return self.running.proxies[DGX]

    async def begin(self, *, fresh: bool = False) -> None:
        if fresh:
            self.generation += 1
        proxies = None if self.fleet is None else dict(self.fleet.proxies)
        name = f"{self.story.seed}-{self.generation}"
        self.fleet = await self.start(self.repo, {DGX: self.plane}, proxies=proxies, options=CHAOS_OPTIONS, name=name)
        self.listen()

    def listen(self) -> None:
        """Note each DELETE with what the engine had assigned when it arrived."""
        engine = self.running.engine

        def note(request: Request) -> bool:
            if request.method == "DELETE" and "/gitops-system/" not in request.path:
                worker = engine.workers.get(ClusterName(DGX))
                assignment = worker.state.assignment if worker is not None else None
                ref, now = self.story.ref(request.path), time.monotonic()
                if assignment is not None and ref is not None:
                    units = assignment.units.values()
                    declared = any(same(o.ref, ref) for unit in units for o in unit.objects)
                    since = self.assigned[1] if self.assigned[0] == assignment.commit else now
                    self.deletes.append(Deletion(ref, assignment.commit, declared, now - since))
            return False

        self.proxy.rules[:] = [Rule(note, Cut(), None), *(r for r in self.proxy.rules if r.match.__name__ != "note")]

    async def watch_heads(self) -> None:
        """Since when the present assignment is in force."""
        while True:
            fleet = self.fleet
            worker = fleet.engine.workers.get(ClusterName(DGX)) if fleet is not None else None
            assignment = worker.state.assignment if worker is not None else None
            commit = "" if assignment is None else str(assignment.commit)
            if commit != self.assigned[0]:
                self.assigned = (commit, time.monotonic())
            await asyncio.sleep(0.004)

    async def crash(self, *, fresh: bool) -> None:
        """As SIGKILL: from one moment to the next nothing reaches the cluster, and nothing is tidied up there."""
        self.story.say(f"crash{', the state folder is lost' if fresh else ''}")
        await asyncio.to_thread(self.proxy.refuse)
        with contextlib.suppress(asyncio.CancelledError):
            await self._end()
        await asyncio.to_thread(self.proxy.restore)
        await self.begin(fresh=fresh)

    async def restart(self) -> None:
        self.story.say("restart")
        await self._end()
        await self.begin()

    async def _end(self) -> None:
        self.running.stop.set()
        await self.running.task
        await self.running.source.close()

    # -- commits -----------------------------------------------------------------------------------------------------

    async def commit(self, what: str, *, tell: bool = True) -> None:
        story, tree = self.story, self.story.files()
        changes: dict[str, str | None] = {p: t for p, t in tree.items() if self.tree.get(p) != t}
        changes |= {p: None for p in self.tree if p not in tree}
        self.tree = tree
        sha = story.head = await asyncio.to_thread(self.repo.commit, changes, what)
        for name in (*BUNDLES, "defs"):
            if name not in story.broken:
                story.good[name] = {r: replace(e) for r, e in story.now.items() if e.bundle == name}
        held = {r for name in story.broken for r in story.good.get(name, {})}
        declared = set(story.now)
        self.everything |= declared
        story.keeps[sha] = frozenset(declared | held)
        number = len(story.keeps)
        for ref in declared | held:
            story.since.setdefault(ref, number)
        for ref in [r for r in story.since if r not in declared | held]:
            del story.since[ref]
            self.uids.pop(ref, None)
            story.disturbed.discard(ref)
        story.say(f"commit {sha[:8]} {what}")
        if tell and self.fleet is not None:
            self.fleet.engine.request_fetch()

    def _new_ref(self) -> Ref:
        kind = self.rng.choice(("ConfigMap", "ConfigMap", "ConfigMap", "Service", "Widget"))
        prefix = {"ConfigMap": "cm", "Service": "svc", "Widget": "w"}[kind]
        return Ref(kind, self.rng.choice(self.story.namespaces), f"{prefix}-{self.rng.randrange(6)}")

    def _value(self) -> str:
        return str(self.rng.randrange(1, 10_000))

    def add(self) -> str:
        ref = self._new_ref()
        if ref in self.story.now:
            return self.change()
        name = self.rng.choice(BUNDLES)
        self.story.now[ref] = Declared(name, f"{self.rng.choice('abc')}.yaml", self._value())
        return f"add {ref} to {name}"

    def change(self) -> str:
        if not self.story.now:
            return self.add()
        ref = self.rng.choice(sorted(self.story.now))
        self.story.now[ref].value = self._value()
        return f"change {ref}"

    def remove(self) -> str:
        if not self.story.now:
            return self.add()
        ref = self.rng.choice(sorted(self.story.now))
        del self.story.now[ref]
        return f"remove {ref}"

    def move(self) -> str:
        if not self.story.now:
            return self.add()
        refs = self.rng.sample(sorted(self.story.now), k=min(len(self.story.now), self.rng.randint(1, 3)))
        name = self.rng.choice(BUNDLES)
        for ref in refs:
            self.story.now[ref].bundle = name
        return f"move {', '.join(map(str, refs))} to {name}"

    def rename(self) -> str:
        for ref in self.rng.sample(sorted(self.story.now), k=len(self.story.now) // 2):
            self.story.now[ref].file = f"{self.rng.choice('abc')}.yaml"
        return "move objects between files"

    def drop_bundle(self) -> str:
        name = self.rng.choice(BUNDLES)
        self.story.now = {r: e for r, e in self.story.now.items() if e.bundle != name}
        self.story.broken.discard(name)
        return f"remove bundle {name}"

    def break_(self) -> str:
        name = self.rng.choice(BUNDLES)
        self.story.broken.add(name)
        return f"break {name}"

    def mend(self) -> str:
        self.story.broken.clear()
        return "mend"

    def swap(self) -> str:
        """Two bundles change names, as far as their objects go."""
        one, two = self.rng.sample(BUNDLES, k=2)
        for entry in self.story.now.values():
            entry.bundle = {one: two, two: one}.get(entry.bundle, entry.bundle)
        return f"swap {one} and {two}"

    async def some_commit(self) -> None:
        kinds: list[Callable[[], str]] = [
            *[self.add] * 7,
            *[self.change] * 4,
            *[self.remove] * 3,
            *[self.move] * 4,
            self.rename,
            self.drop_bundle,
            *[self.break_] * 2,
            *[self.mend] * 2,
            self.swap,
        ]
        if self.rng.random() < 0.2:
            saved = {r: replace(e) for r, e in self.story.now.items()}, set(self.story.broken)
            await self.commit(self.rng.choice(kinds)())
            await asyncio.sleep(self.rng.choice((0.0, 0.05, 0.3)))
            self.story.now, self.story.broken = saved
            await self.commit("revert")
            return
        for number in range(self.rng.choice((1, 1, 2, 3))):
            await self.commit(self.rng.choice(kinds)(), tell=self.rng.random() < 0.9 or number > 0)
        self.running.engine.request_fetch()

    # -- foreign hands -----------------------------------------------------------------------------------------------

    async def foreign(self) -> None:
        live = await asyncio.to_thread(self.ours)
        if not live:
            return
        ref = self.rng.choice(sorted(live))
        what = self.rng.choice(("edit", "edit", "delete", "unlabel", "relabel", "replace", "wipe", "extra", "parent"))
        if ref.kind == "Widget" and self.rng.random() < 0.15:
            what = "definition"
        if ref.kind == "Service" and what in ("replace", "wipe"):
            # When its port then changes in Git, that of nobody or of a stranger stays beside it and blocks us, which is
            # told and left to people.
            what = "delete"
        try:
            await asyncio.to_thread(self._touch, what, ref)
        except ApiFailure as failure:
            if failure.status not in (404, 409, 422):
                raise
            what = f"{what} (failed: {failure.status})"
        self.story.say(f"foreign {what} {ref}")

    def _touch(self, what: str, ref: Ref) -> None:
        path, merge = self.story.path(ref), "application/merge-patch+json"

        def patch(body: dict[str, Any]) -> None:
            self.plane.request("PATCH", path, body, content_type=merge, query={"fieldManager": "stranger"})

        if what == "edit":
            key = "data" if ref.kind == "ConfigMap" else "spec"
            patch(
                {key: {"ConfigMap": {"value": "x"}, "Service": {"selector": {"app": "x"}}}.get(ref.kind, {"size": 0})}
            )
        elif what == "extra":
            patch({"metadata": {"annotations": {"stranger": "was here"}}})
        elif what == "unlabel":
            self.story.let_go.add(ref)
            patch({"metadata": {"labels": {RECONCILER_LABEL: None}}})
        elif what == "relabel":
            self.story.let_go.add(ref)
            patch({"metadata": {"labels": {PART_OF_LABEL: STRANGER}}})
        elif what == "wipe":
            self.story.let_go.add(ref)
            patch({"metadata": {"managedFields": [{}]}})
        elif what == "parent":
            parents = self.parents()
            if parents:
                name = self.rng.choice(sorted(parents))
                record = read_parent(parents[name], {}, cluster=ClusterName(DGX))
                assert not isinstance(record, UnreadableParent)
                members = (Ref(m.ref.kind, m.ref.namespace, m.ref.name) for m in record.members)
                self.story.orphans.update(members)
                self.plane.request("DELETE", f"/api/v1/namespaces/gitops-system/configmaps/{name}")
        elif what == "definition":  # and with it all objects of the kind
            self.story.disturbed.update(r for r in self.everything if r.kind == "Widget")
            name = f"widgets.{self.story.group}"
            self.plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        else:
            self.story.disturbed.add(ref)
            if what == "replace":
                self.story.let_go.add(ref)
            self.plane.request("DELETE", path)
            if what == "replace":
                body = self.story.body(ref, "7")
                self.plane.request("POST", path.rpartition("/")[0], body, query={"fieldManager": "stranger"})

    # -- faults ------------------------------------------------------------------------------------------------------

    async def fault(self) -> None:
        rng, proxy = self.rng, self.proxy
        write = rng.choice(("PATCH", "PATCH", "DELETE", "POST", None))
        times = rng.randint(1, 4)

        def not_lease(request: Request) -> bool:
            return not request.is_lease and not request.is_watch and (write is None or request.method == write)

        def fail(action: faults.Action, match: faults.Match = not_lease) -> None:
            proxy.fail(action, match, times=times)

        watching = faults.on(watch=True)
        choices: dict[str, Callable[[], None]] = {
            "429": lambda: fail(Answer(429, "TooManyRequests", "slow down", retry_after=1)),
            "500": lambda: fail(Answer(500, "InternalError", "internal error")),
            "lost answers": lambda: fail(LoseAnswer()),
            "cut calls": lambda: fail(Cut()),
            "delay": lambda: fail(Delay(rng.choice((0.1, 0.5, 1.0)))),
            "410 in watches": lambda: fail(WatchError(), watching),
            "broken watches": lambda: fail(CutAfter(rng.randrange(3000)), watching),
            "frozen watches": lambda: fail(FreezeAfter(rng.randrange(3000)), watching),
            "410 of lists": lambda: fail(faults.GONE, lambda r: r.method == "GET" and "limit" in r.query),
            "all connections cut": proxy.cut,
            "lost answers of the Lease": lambda: fail(LoseAnswer(), lambda r: r.is_lease),
        }
        what = rng.choice(sorted(choices))
        self.story.say(f"fault {what} ({write or 'any'}, {times} times)")
        await asyncio.to_thread(choices[what])
        if what in ("frozen watches", "broken watches", "410 in watches") and rng.random() < 0.7:
            await asyncio.to_thread(proxy.cut)

    # -- looking -----------------------------------------------------------------------------------------------------

    def listed(self) -> dict[Ref, dict[str, Any]]:
        """All objects of our kinds in our namespaces, whoever made them."""
        found: dict[Ref, dict[str, Any]] = {}
        for namespace in self.story.namespaces:
            for kind in ("ConfigMap", "Service", "Widget"):
                folder = self.story.path(Ref(kind, namespace, "x")).rpartition("/")[0]
                for item in self._list(folder):
                    found[Ref(kind, namespace, item["metadata"]["name"])] = item
        return found

    def _list(self, folder: str) -> list[dict[str, Any]]:
        """The items there; none while the kind is not served. For a moment after its definition a list is put off."""
        for _ in range(20):
            try:
                found = self.plane.get(folder)
            except ApiFailure as failure:
                if failure.status not in (429, 500, 503):
                    raise
                time.sleep(0.2)
            else:
                return found["items"] if found else []
        raise TimeoutError(f"{folder} cannot be listed")

    def ours(self) -> dict[Ref, dict[str, Any]]:
        return {r: o for r, o in self.listed().items() if r.name.partition("-")[0] in ("cm", "svc", "w")}

    def parents(self) -> dict[str, dict[str, Any]]:
        selector = f"{RECONCILER_LABEL}=chaos-{self.story.seed},applyset.kubernetes.io/id"
        items = self.plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector=selector)["items"]
        return {i["metadata"]["name"]: i for i in items}

    def control_group(self) -> dict[str, str]:
        """uid and resourceVersion of every foreign object."""
        return {
            str(r): f"{o['metadata']['uid']} {o['metadata']['resourceVersion']}"
            for r, o in self.listed().items()
            if r.name.startswith("foreign")
        }

    def remember_uids(self) -> None:
        """The first uid that a declared object was seen with."""
        story = self.story
        if self.assigned[0] != story.head:
            return
        for ref, body in self.ours().items():
            if not self.marked(body):
                continue
            story.let_go.discard(ref)
            if ref in story.keeps[story.head] and ref not in story.disturbed:
                self.uids.setdefault(ref, body["metadata"]["uid"])

    def marked(self, body: dict[str, Any]) -> bool:
        """Does it carry our labels and fields?"""
        labels = body["metadata"].get("labels") or {}
        return (
            labels.get(RECONCILER_LABEL) == f"chaos-{self.story.seed}"
            and labels.get(PART_OF_LABEL) != STRANGER
            and any(
                e["manager"] == f"gitops-chaos-{self.story.seed}" for e in body["metadata"].get("managedFields", ())
            )
        )

    def make_foreign(self) -> None:
        """Objects of others, some with our labels as operators copy them (R10)."""
        copied = {RECONCILER_LABEL: f"chaos-{self.story.seed}", PART_OF_LABEL: STRANGER}
        for number, namespace in enumerate(self.story.namespaces * 3):
            labels = copied if number % 2 else {}
            ref = Ref("ConfigMap", namespace, f"foreign-{number}")
            body = self.story.body(ref, "1")
            body["metadata"]["labels"] = labels
            self.plane.request("POST", self.story.path(ref).rpartition("/")[0], body)

    def wrong(self) -> list[str]:
        """What is not as it must be in the end."""
        story, found = self.story, []
        reconciler = f"chaos-{story.seed}"
        live = self.ours()
        members: dict[Ref, list[tuple[str, str]]] = {}
        for name, item in self.parents().items():
            record = read_parent(item, {}, cluster=ClusterName(DGX))
            if isinstance(record, UnreadableParent):
                found.append(f"parent {name} is unreadable")
                continue
            for member in record.members:
                ref = Ref(member.ref.kind, member.ref.namespace, member.ref.name)
                if ref.kind != "CustomResourceDefinition":
                    members.setdefault(ref, []).append((record.unit.name, member.uid))
        for ref, entry in sorted(story.now.items()):
            body = live.get(ref)
            if body is None:
                found.append(f"{ref} is missing")
                continue
            declared = {k: v for k, v in story.body(ref, entry.value).items() if k not in ("apiVersion", "kind")}
            found += [f"{ref}: {p}" for p in _differences(declared, body)]
            labels = body["metadata"].get("labels") or {}
            if labels.get(RECONCILER_LABEL) != reconciler or SOURCE_ANNOTATION not in (
                body["metadata"].get("annotations") or {}
            ):
                found.append(f"{ref} does not carry our marks")
            want = [(entry.bundle, body["metadata"]["uid"])]
            if members.get(ref) != want:
                found.append(f"{ref} is a member of {members.get(ref)}, not of {want}")
            if ref in self.uids and ref not in story.disturbed and self.uids[ref] != body["metadata"]["uid"]:
                found.append(f"{ref} stayed declared and is another object now")
        for ref in sorted(members.keys() - story.now.keys()):
            found.append(f"{ref} left Git and is still a member of {members[ref]}")
        for ref in sorted(live.keys() - story.now.keys()):
            if ref not in story.let_go | story.orphans:
                found.append(f"{ref} left Git and is still there")
        return found


def _differences(declared: Any, live: Any, path: str = "") -> Iterator[str]:
    if isinstance(declared, dict):
        if not isinstance(live, dict):
            yield f"{path} is gone"
            return
        for key, value in declared.items():
            yield from _differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(declared, list):
        if not isinstance(live, list) or len(live) < len(declared):
            yield f"{path} is {live!r}"
            return
        for number, value in enumerate(declared):
            yield from _differences(value, live[number], f"{path}[{number}]")
    elif declared != live:
        yield f"{path} is {live!r}, declared {declared!r}"
