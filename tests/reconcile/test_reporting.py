"""Which status files change, and what they say: a reporter over clusters in memory."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gitops.cluster.additions import Addition, Additions
from gitops.cluster.errors import ErrorClass
from gitops.cluster.reflecting import Changed
from gitops.model.clusters import Cluster
from gitops.model.findings import Finding, Origin, Severity
from gitops.model.identity import ClusterName, Commit, GroupVersionKind, UnitKey, WorkloadKind
from gitops.plan.units import Compilation
from gitops.policy.facts import ClusterFacts
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.readiness.aggregating import DeclaredStatus, UnitMemory, UnitStatus, unit_status
from gitops.readiness.owners import OwnerIndex
from gitops.readiness.statuses import Status
from gitops.reconcile.auditing import AuditReport
from gitops.reconcile.cluster_worker import Contact
from gitops.reconcile.heads import Head
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.reporting import Reporter
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.watches import Blind
from gitops.report.drift import Repair
from gitops.report.drift_files import UnitDrift, render_drift
from gitops.report.drift_history import HISTORY
from gitops.report.paths import cluster_path, drift_path, drift_readme_path, unit_path, workload_path
from gitops.report.status_files import stamp

CHAT = UnitKey(WorkloadKind.FUNCTION, "chat", "h100-0", ClusterName("a"))
SYNCED = UnitOutcome(SyncState.SYNCED, "as declared")


def document(name: str) -> Cluster:
    body = {
        "apiVersion": "gitops/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"credentials": name},
    }
    return Cluster.model_validate(body)


class Desk:
    """A reporter with what it is told of. `write` pushes what is pending, as the branch's owner would."""

    def __init__(self, kit: Any, context: Any) -> None:
        self.kit, self.context = kit, context
        self.reporter = Reporter(context)
        self.workers: dict[ClusterName, Any] = {}
        self.findings: tuple[Finding, ...] = ()
        self.held: frozenset[Any] = frozenset()
        self.complete = True
        self.commit = "c1"

    def worker(self, name: str, *units: Any, records: Any = ()) -> Any:
        """A reachable cluster with these units, all Ready."""
        state = self.kit.state(*units, records=records)
        for unit_state in state.units.values():
            unit_state.outcome = SYNCED
            unit_state.status = self.status()
        worker = self.workers[ClusterName(name)] = SimpleNamespace(
            state=state,
            document=document(name),
            contact=Contact(True, self.context.wall()),
            standby="",
            uid=f"uid-{name}",
            replaced="",
            server_version="v1.34.0",
            may_write=True,
            facts=None,
            serving=lambda key: None,
            blind={},
            audit=None,
        )
        return worker

    def status(self, status: Status = Status.READY, **more: Any) -> UnitStatus:
        values = {"reason": str(status), "cause": "", "ready_count": 1, "expected_count": 1, "phase": ""}
        return UnitStatus(**{"status": status, "since": self.context.wall(), **values, **more})

    @property
    def head(self) -> Head:
        units = {k: u for w in self.workers.values() for k, u in w.state.assignment.units.items()}
        clusters = {name: w.document for name, w in self.workers.items()}
        compilation = Compilation(
            Commit(self.commit),
            None,
            clusters,
            units,
            self.findings,
            self.held,
            self.complete,  # type: ignore[arg-type]
        )
        return Head(compilation, units, self.held)

    async def render(self, *units: UnitKey, clusters: Any = (), new_head: bool = False) -> dict[str, bytes | None]:
        """What is to be written after these became dirty."""
        await self.reporter.render(
            self.head, self.workers, branch="main", units=units, clusters=clusters, findings_changed=new_head
        )
        return self.reporter.changes()

    async def write(self, *units: UnitKey, **more: Any) -> dict[str, bytes | None]:
        changes = await self.render(*units, **more)
        self.reporter.written(changes)
        return changes

    def file(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.reporter.files[path])
        return found


@pytest.fixture
def desk(kit: Any, context: Any) -> Desk:
    return Desk(kit, context)


@pytest.fixture
def chat(kit: Any, desk: Desk) -> Any:
    """A function's unit on cluster a, written as Ready. Returns its state."""
    web = kit.desired("web", key=CHAT)
    worker = desk.worker("a", kit.unit(web, key=CHAT, version="1"), records=[kit.record(web, key=CHAT)])
    return worker.state.units[CHAT]


async def first_head(desk: Desk) -> None:
    await desk.write(
        *(k for w in desk.workers.values() for k in w.state.units), clusters=list(desk.workers), new_head=True
    )


# -- what is told of a cluster ---------------------------------------------------------------------------------------


async def test_a_last_audit_is_told_with_the_next_change_and_makes_none_itself(desk: Desk, chat: Any) -> None:
    a = ClusterName("a")
    await first_head(desk)
    worker = desk.workers[a]
    worker.audit = AuditReport(ended=desk.context.wall(), kinds=3, found=2, checked=3)
    assert await desk.write(clusters=[a]) == {}, "at rest nothing is committed"
    worker.audit = AuditReport(ended=desk.context.wall(), kinds=3, found=0, checked=3, defects=("one: it differs",))
    assert list(await desk.write(clusters=[a])) == [cluster_path(a)]
    told = desk.file(cluster_path(a))
    assert (told["lastAudit"], told["auditFindings"]) == (stamp(desk.context.wall()), ["one: it differs"])
    worker.audit = AuditReport(ended=desk.context.wall() + 43200, kinds=3, found=0, checked=3)
    await desk.write(clusters=[a])
    assert "auditFindings" not in desk.file(cluster_path(a))
    # another process knows of no audit, and the file does not lose what it says
    worker.audit = None
    assert await desk.write(clusters=[a]) == {}
    worker.uid = "another"
    await desk.write(clusters=[a])
    assert desk.file(cluster_path(a))["lastAudit"] == stamp(desk.context.wall() + 43200)


async def test_a02_kinds_that_cannot_be_seen_are_told_with_since_when_and_why(desk: Desk, chat: Any) -> None:
    a, gvk = ClusterName("a"), GroupVersionKind("x.example", "v1", "Gadget")
    await first_head(desk)
    since = desk.context.wall() - 60
    desk.workers[a].blind = {gvk: Blind(gvk, since, desk.kit.error(ErrorClass.RETRY, "no route"))}
    await desk.write(clusters=[a])
    told = desk.file(cluster_path(a))["stale"]
    assert told == [{"kind": "x.example/v1 Gadget", "since": stamp(since), "message": "retry: no route"}]
    desk.workers[a].blind = {}
    await desk.write(clusters=[a])
    assert "stale" not in desk.file(cluster_path(a))


async def test_a06_files_of_a_unit_with_six_thousand_objects_stay_small(desk: Desk) -> None:
    key, web = desk.kit.key, desk.kit.desired("web")
    refs = [replace(web.ref, name=f"{'long-name-' * 20}{i}") for i in range(6_000)]
    worker = desk.worker("a", desk.kit.unit(web), records=[desk.kit.record(web)])
    declared = [DeclaredStatus(ref=ref, status=None) for ref in refs]
    worker.state.units[key].status, _ = unit_status(declared, owners=OwnerIndex(), now=desk.context.wall())
    worker.state.left_behind = dict.fromkeys(refs, "made by us")
    await first_head(desk)
    sizes = {path: len(content) for path, content in desk.reporter.files.items()}
    assert max(sizes.values()) < 100_000, sizes
    assert desk.file(unit_path(key))["objectsOmitted"] > 5_000


# -- what is written -------------------------------------------------------------------------------------------------


async def test_the_first_head_writes_a_file_for_everything(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    assert set(desk.reporter.files) == {
        unit_path(CHAT),
        workload_path(CHAT.workload),
        cluster_path(ClusterName("a")),
        "status/placements.yaml",
        "status/README.md",
    }
    assert desk.file(unit_path(CHAT))["status"] == "Ready"
    assert desk.file(workload_path(CHAT.workload))["status"] == "ACTIVE"
    assert desk.file("status/placements.yaml")["placements"] == {"function/chat": {"h100-0": "a"}}


async def test_at_rest_nothing_is_written(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    assert await desk.render(CHAT, clusters=["a"], new_head=True) == {}


async def test_only_the_dirty_unit_and_what_is_above_it_is_rendered(desk: Desk, kit: Any) -> None:
    keys = [kit.other_key(name) for name in ("one", "two")]
    state = desk.worker("a", *(kit.unit(kit.desired(k.name, key=k), key=k) for k in keys)).state
    await first_head(desk)
    for key in keys:
        state.units[key].status = desk.status(Status.DEGRADED)
    changed = await desk.render(keys[0])
    assert unit_path(keys[0]) in changed
    assert workload_path(keys[0].workload) in changed
    assert unit_path(keys[1]) not in changed, "nobody said that it moved"


async def test_a_message_or_a_time_that_moves_alone_writes_nothing(desk: Desk, chat: Any, clock: Any) -> None:
    chat.status = desk.status(Status.PROGRESSING, cause="1 of 3 pods")
    await first_head(desk)
    clock.now += 100
    chat.status = desk.status(Status.PROGRESSING, cause="2 of 3 pods")
    assert await desk.render(CHAT) == {}


async def test_every_new_head_is_acknowledged(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    desk.commit = "c2"
    assert list(await desk.render()) == ["status/README.md"]


async def test_what_went_back_before_it_was_pushed_is_not_pushed(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    chat.status = desk.status(Status.DEGRADED)
    assert await desk.render(CHAT)
    chat.status = desk.status(Status.READY)
    assert await desk.render(CHAT) == {}


async def test_what_keeps_a_workload_at_its_last_good_commit_stands_in_its_files(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    where = Origin("functions/chat/function.yaml", 3)
    desk.findings = (Finding(where, "x", Severity.ERROR, "no such field", workload=CHAT.workload),)
    desk.held = frozenset({CHAT.workload})
    await desk.write(new_head=True)
    assert "no such field" in desk.file(unit_path(CHAT))["held"][0]
    assert "no such field" in desk.file(workload_path(CHAT.workload))["held"][0]


async def test_a_note_is_told_although_all_is_as_declared(desk: Desk, chat: Any) -> None:
    chat.outcome = UnitOutcome(SyncState.SYNCED, "the base of version 1 was changed in place")
    await first_head(desk)
    assert desk.file(unit_path(CHAT))["outcome"] == {"message": chat.outcome.sentence}


async def test_an_outcome_that_is_not_well_is_told_in_one_sentence(desk: Desk, chat: Any) -> None:
    chat.outcome = UnitOutcome(SyncState.REFUSED, "no right to it")
    await first_head(desk)
    assert desk.file(unit_path(CHAT))["outcome"] == {"message": "Refused: no right to it"}


# -- what goes -------------------------------------------------------------------------------------------------------


async def test_the_files_of_a_removed_unit_go_and_those_of_its_workload_with_the_last(desk: Desk, chat: Any) -> None:
    (web,) = desk.workers[ClusterName("a")].state.unit(CHAT).objects
    added = Additions((Addition("data.manual", "kubectl-edit", "Update", ""),))
    desk.reporter.load({drift_path(CHAT): render_drift(UnitDrift(CHAT, added={web.ref: added}))})
    await first_head(desk)
    state = desk.workers[ClusterName("a")].state
    state.parents.clear()
    state.units.clear()
    state.assign(desk.kit.assignment(commit="c2"))
    changes = await desk.write(CHAT, new_head=True)
    assert {path for path, content in changes.items() if content is None} == {
        unit_path(CHAT),
        drift_path(CHAT),
        drift_readme_path(),
        workload_path(CHAT.workload),
    }


async def test_files_of_what_went_before_this_process_are_swept(desk: Desk, chat: Any, kit: Any) -> None:
    old, elsewhere = kit.other_key("old"), kit.other_key("old", cluster="gone")
    paths = (
        unit_path(old),
        drift_path(old),
        unit_path(elsewhere),
        workload_path(old.workload),
        "status/clusters/gone.yaml",
    )
    desk.reporter.load(dict.fromkeys(paths, b"x"))
    await first_head(desk)
    assert not set(paths) & set(desk.reporter.files)
    assert unit_path(CHAT) in desk.reporter.files


@pytest.mark.parametrize("why", ["incomplete", "parents unknown"])
async def test_nothing_is_swept_on_incomplete_knowledge(desk: Desk, chat: Any, kit: Any, why: str) -> None:
    old = kit.other_key("old")
    path = workload_path(old.workload) if why == "incomplete" else unit_path(old)
    desk.complete = why != "incomplete"
    desk.workers[ClusterName("a")].may_write = why == "incomplete"
    desk.reporter.load({path: b"x"})
    await first_head(desk)
    assert path in desk.reporter.files


async def test_a_cluster_that_left_git_takes_all_its_files_along(desk: Desk, chat: Any) -> None:
    await first_head(desk)
    desk.workers.clear()
    changes = await desk.write(clusters=["a"])
    assert changes[cluster_path(ClusterName("a"))] is None
    assert changes[unit_path(CHAT)] is None


# -- clusters that do not answer, restarts ---------------------------------------------------------------------------


async def test_a_unit_of_an_unreachable_cluster_is_unknown_with_what_was_known_last(
    desk: Desk, chat: Any, clock: Any
) -> None:
    await first_head(desk)
    desk.workers[ClusterName("a")].contact = Contact(False, clock.now - 30, "Unreachable", "no route")
    await desk.write(CHAT, clusters=["a"])
    found = desk.file(unit_path(CHAT))
    assert (found["status"], found["lastKnown"], found["reason"]) == ("Unknown", "Ready", "Unreachable")
    assert str(found["since"]) == stamp(clock.now - 30)
    assert desk.file(workload_path(CHAT.workload))["unreachable"] == 1
    assert desk.file(cluster_path(ClusterName("a")))["units"] == {"Unknown": 1}


async def test_after_a_restart_the_file_of_an_unreachable_cluster_keeps_all_it_says(
    desk: Desk, chat: Any, clock: Any, context: Any
) -> None:
    chat.status = desk.status(Status.READY, phase="Running")
    await first_head(desk)
    before = desk.file(unit_path(CHAT))
    again = Desk(desk.kit, context)
    again.reporter.load(desk.reporter.files)
    worker = again.worker("a", *desk.head.units.values())
    worker.contact = Contact(False, clock.now, "Unreachable", "no route")
    worker.state.units[CHAT].status = None
    await first_head(again)
    after = again.file(unit_path(CHAT))
    assert (after["status"], after["lastKnown"], after["phase"]) == ("Unknown", "Ready", "Running")
    assert after["commit"] == before["commit"]
    assert await again.render(CHAT, clusters=["a"], new_head=True) == {}, "said once"


async def test_a_restart_recalls_since_when_a_unit_is_as_it_is(desk: Desk, chat: Any, clock: Any, context: Any) -> None:
    await first_head(desk)
    again = Reporter(context)
    again.load(desk.reporter.files)
    memory = again.recall(CHAT)
    assert (memory.status, memory.since) == (Status.READY, float(int(clock.now)))
    assert again.recall(dataclasses.replace(CHAT, name="new")) == UnitMemory()


async def test_a_workload_keeps_since_over_a_restart(desk: Desk, chat: Any, clock: Any, context: Any) -> None:
    await first_head(desk)
    before = desk.file(workload_path(CHAT.workload))["since"]
    again = Desk(desk.kit, context)
    again.reporter.load(desk.reporter.files)
    again.workers = desk.workers
    clock.now += 1000
    desk.workers[ClusterName("a")].state.units[CHAT].outcome = UnitOutcome(SyncState.REFUSED, "x")
    await first_head(again)
    assert again.file(workload_path(CHAT.workload))["since"] == before


# -- drift -----------------------------------------------------------------------------------------------------------


class Drifting:
    """Drift of the chat function's only object, which the sightings of a daemon tell."""

    def __init__(self, desk: Desk, kit: Any) -> None:
        self.desk, self.kit = desk, kit
        self.state = desk.workers[ClusterName("a")].state
        (self.web,) = self.state.unit(CHAT).objects
        self.version = 20
        self.restarted()

    def restarted(self) -> None:
        """Another process: it knows what the branch says, and nothing of what lives there."""
        self.state.forget_live()
        self.state.units[CHAT].drifts = []
        again = Desk(self.kit, self.desk.context)
        again.reporter.load(self.desk.reporter.files)
        again.workers, self.desk = self.desk.workers, again
        self.sightings = Sightings(self.state, again.context, look=lambda key, urgent: None, touched=lambda key: None)

    def see(self, level: str = "info", **more: Any) -> None:
        self.version += 1
        version = str(self.version)
        live = self.kit.live(self.web, version=version) if level == "info" else None
        live = live or self.kit.edited(self.web, level=level, version=version, **more)
        self.sightings.declared_event(Changed(live))

    def became(self, repair: Repair) -> None:
        self.sightings.repaired(CHAT, self.web.ref, repair)

    @property
    def file(self) -> dict[str, Any]:
        return self.desk.file(drift_path(CHAT))


@pytest.fixture
def drifting(desk: Desk, chat: Any, kit: Any) -> Drifting:
    return Drifting(desk, kit)


async def test_a_unit_without_drift_has_no_file(desk: Desk, chat: Any) -> None:
    desk.reporter.load({drift_path(CHAT): b"of somebody else"})
    await first_head(desk)
    assert not [path for path in desk.reporter.files if path.startswith("drift/")]


async def test_drift_is_open_until_it_is_repaired_and_then_told_for_a_week(drifting: Drifting, clock: Any) -> None:
    drifting.see()
    drifting.see("debug")
    await first_head(drifting.desk)
    assert [row["outcome"] for row in drifting.file["open"]] == ["pending"]
    assert "| a | kubectl-edit | 1 | 1 | 1 |" in drifting.desk.reporter.files[drift_readme_path()].decode()
    drifting.became(Repair.REPAIRED)
    await drifting.desk.write(CHAT)
    assert "open" not in drifting.file
    (row,) = drifting.file["recent"]
    assert (row["outcome"], row["manager"], row["path"]) == ("repaired", "kubectl-edit", "data.level")
    assert await drifting.desk.render(CHAT) == {}
    clock.now += HISTORY.total_seconds() + 1
    changes = await drifting.desk.write(CHAT)
    assert changes == {drift_path(CHAT): None, drift_readme_path(): None}


async def test_open_drift_is_not_forgotten_nor_new_after_a_restart(drifting: Drifting, clock: Any) -> None:
    drifting.see()
    drifting.see("debug")
    drifting.became(Repair.REPORTED)
    await first_head(drifting.desk)
    before = drifting.desk.reporter.files[drift_path(CHAT)]
    clock.now += 1000
    drifting.restarted()
    await first_head(drifting.desk)  # not looked at yet
    assert drifting.desk.reporter.files[drift_path(CHAT)] == before
    drifting.see("debug")
    drifting.became(Repair.REPORTED)
    await first_head(drifting.desk)
    assert drifting.desk.reporter.files[drift_path(CHAT)] == before
    clock.now += 1000
    drifting.restarted()
    drifting.see()  # put right while nobody looked
    await first_head(drifting.desk)
    assert "open" not in drifting.file
    assert [(row["outcome"], row["detectedAt"]) for row in drifting.file["recent"]] == [
        ("reverted", stamp(clock.now - 2000))
    ]


async def test_drift_of_an_object_that_git_drops_is_over(drifting: Drifting, kit: Any) -> None:
    drifting.see()
    drifting.see("debug")
    await first_head(drifting.desk)
    drifting.state.assign(kit.assignment(kit.unit(kit.desired("app", key=CHAT), key=CHAT, content="2"), commit="c2"))
    await drifting.desk.write(CHAT)
    assert "open" not in drifting.file
    assert [row["outcome"] for row in drifting.file["recent"]] == ["reverted"]


async def test_reading_the_branch_again_counts_nothing_twice(drifting: Drifting, clock: Any) -> None:
    """It is read whenever the Lease is taken."""
    drifting.see()
    for level in ("debug", "trace", "debug"):
        drifting.see(level)
        drifting.became(Repair.REPAIRED)
        clock.now += 10
    await first_head(drifting.desk)
    before = drifting.file
    assert before["recent"][0]["count"] == 3
    for _ in range(3):
        drifting.desk.reporter.load(drifting.desk.reporter.files)
        await first_head(drifting.desk)
    assert drifting.file == before


async def test_a_drift_that_comes_back_each_minute_is_no_commit_each_minute(drifting: Drifting, clock: Any) -> None:
    written = 0
    for _ in range(100):
        drifting.see()
        drifting.see("debug")
        drifting.became(Repair.REPAIRED)
        clock.now += 60
        written += bool((await drifting.desk.write(CHAT)).get(drift_path(CHAT)))
    assert written == 8 + 4  # 1 … 8, then 16, 32, 64 and what is past it
    assert drifting.file["recent"][0]["count"] >= 64


async def test_what_others_added_by_hand_is_told_apart_from_drift(drifting: Drifting, kit: Any) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"manual": "1"}}
    live = kit.live(drifting.web, kit.entry(theirs, "kubectl-edit"), version="30")
    live["data"]["manual"] = "1"
    drifting.sightings.declared_event(Changed(live))
    await first_head(drifting.desk)
    assert drifting.file == {
        "apiVersion": "gitops/v1alpha1",
        "kind": "DriftReport",
        "unit": str(CHAT),
        "additions": [
            {
                "object": "ConfigMap shop/web",
                "path": "data.manual",
                "manager": "kubectl-edit",
                "operation": "Update",
                "lastWrite": "2026-01-01T00:00:00Z",
            }
        ],
    }
    drifting.restarted()
    await first_head(drifting.desk)
    assert "additions" in drifting.file, "not looked at yet"
    drifting.see()
    assert drift_path(CHAT) in await drifting.desk.write(CHAT)
    assert drift_path(CHAT) not in drifting.desk.reporter.files


# -- what clusters tell ----------------------------------------------------------------------------------------------


def schemas(maximum: int) -> ClusterFacts:
    schema = {"type": "object", "properties": {"spec": {"type": "integer", "maximum": maximum}}}
    return ClusterFacts(schemas=SchemaSet.of([KindSchema.made(GroupVersionKind("x.example", "v1", "Gadget"), schema)]))


GADGET = "schemas/a/x.example/v1/Gadget.json"


async def test_what_a_cluster_tells_is_written_when_it_changes_only(desk: Desk) -> None:
    worker = desk.worker("a")
    assert not any(path.startswith("schemas/") for path in await desk.write(new_head=True)), "nothing is known yet"
    worker.facts = schemas(3)
    assert {GADGET, "schemas/a/index.yaml"} <= (await desk.write()).keys()
    worker.facts = schemas(3)
    assert await desk.write(new_head=True) == {}
    worker.facts = schemas(4)
    assert (await desk.write()).keys() == {GADGET, "schemas/a/index.yaml"}
    worker.facts = ClusterFacts(served={})
    assert (await desk.write())[GADGET] is None


async def test_what_an_unreachable_cluster_told_stays_and_what_a_gone_one_told_goes(desk: Desk) -> None:
    worker = desk.worker("a")
    worker.facts = schemas(3)
    await desk.write(new_head=True)
    desk.reporter.load(dict(desk.reporter.files))
    worker.facts = None
    assert GADGET not in await desk.write(new_head=True)
    del desk.workers[ClusterName("a")]
    gone = await desk.render(clusters=[ClusterName("a")], new_head=True)
    assert gone[GADGET] is None
    assert gone["schemas/a/index.yaml"] is None


async def test_a_restart_writes_nothing_that_the_branch_has(desk: Desk) -> None:
    worker = desk.worker("a")
    worker.facts = schemas(3)
    await desk.write(new_head=True)
    desk.reporter.load({path: bytes(bytearray(content)) for path, content in desk.reporter.files.items()})
    assert not any(path.startswith("schemas/") for path in await desk.write(new_head=True))
    assert desk.reporter.files[GADGET] is next(iter(worker.facts.schemas.kinds.values())).content, "one copy in memory"
