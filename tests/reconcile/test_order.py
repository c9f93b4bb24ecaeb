"""Order and waiting in one attempt, over the fakes: what goes before what, what holds up what, and what does not."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from gitops.cluster.errors import SCHEMA_MISMATCH, ApiError, ErrorClass
from gitops.model.kinds import DEFINITION
from gitops.plan.naming import PREFLIGHT_NAMESPACE
from gitops.plan.units import DesiredObject, Stage
from gitops.readiness.statuses import Flag, ObjectMemory, ObjectStatus, Outlook, Status
from gitops.reconcile import gating
from gitops.reconcile.context import Context
from gitops.reconcile.outcomes import SyncState, UnitOutcome
from gitops.reconcile.state import ClusterState
from gitops.reconcile.unit_work import UnitWork
from gitops.reconcile.waiting import Need, Till
from tests.reconcile.conftest import unit_work


class Bench:
    """One cluster's work over the fakes; `ready` says by name how objects stand."""

    def __init__(self, kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> None:
        self.kit, self.cluster, self.parents, self.contents, self.context = kit, cluster, parents, contents, context
        self.work: UnitWork

    def begin(self, *objects: DesiredObject, records: Any = ()) -> ClusterState:
        state: ClusterState = self.kit.state(self.kit.unit(*objects), records=records)
        self.work = unit_work(
            state, applier=self.cluster, parents=self.parents, contents=self.contents, context=self.context
        )
        return state

    async def attempt(self) -> UnitOutcome:
        return await self.work.run(self.kit.key)

    async def until_applied(self, name: str) -> None:
        async with asyncio.timeout(10):
            while name not in self.applied:  # noqa: ASYNC110 - the fake has no event
                await asyncio.sleep(0)

    @property
    def applied(self) -> list[str]:
        return self.cluster.verbs("apply")  # type: ignore[no-any-return]


@pytest.fixture
def bench(kit: Any, cluster: Any, parents: Any, contents: Any, context: Context) -> Bench:
    return Bench(kit, cluster, parents, contents, context)


def stands(state: ClusterState, desired: DesiredObject, status: Status, *flags: Flag) -> None:
    """The object is there and stands so."""
    record = state.record(desired)
    record.uid = record.uid or f"uid-{desired.ref.name}"
    memory = ObjectMemory(record.uid, 1, 0.0, False)
    record.outlook = Outlook(((0.0, ObjectStatus(status, flags=frozenset(flags)), memory),))


def after(desired: DesiredObject, *needed: DesiredObject) -> DesiredObject:
    return dataclasses.replace(desired, after_ready=tuple(n.ref for n in needed))


def crd(kit: Any, **data: str) -> DesiredObject:
    """A definition, as far as order goes."""
    plain = kit.desired("crd", stage=Stage.DEFINITION, data=data or {"a": "1"})
    ref = dataclasses.replace(plain.ref, group="apiextensions.k8s.io", kind="CustomResourceDefinition", namespace="")
    return dataclasses.replace(plain, ref=ref, gvk=DEFINITION)  # type: ignore[no-any-return]


def established(live: dict[str, Any]) -> None:
    live["status"] = {"conditions": [{"type": "Established", "status": "True"}]}


# -- components ------------------------------------------------------------------------------------------------------


async def test_a_component_that_is_slow_holds_up_no_other(
    bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [kit.desired(f"{name}{c}", component=c, stage=s) for name, s in STAGES for c in (0, 1)]
    bench.begin(*objects)
    released, apply = asyncio.Event(), bench.cluster.apply

    async def slow(desired: DesiredObject, **options: Any) -> Any:
        if desired.ref.name == "config0" and not options.get("dry_run"):
            await released.wait()
        return await apply(desired, **options)

    monkeypatch.setattr(bench.cluster, "apply", slow)
    attempt = asyncio.create_task(bench.attempt())
    await bench.until_applied("work1")
    assert bench.applied == ["config1", "work1"]
    released.set()
    assert (await attempt).state is SyncState.SYNCED
    assert bench.applied == ["config1", "work1", "config0", "work0"]


STAGES = (("config", Stage.CONFIG), ("work", Stage.WORKLOAD))


@pytest.mark.parametrize("cls", [ErrorClass.REFUSED, ErrorClass.WAITING, ErrorClass.RETRY])
async def test_what_fails_stops_its_component_and_all_failures_are_told_at_once(
    bench: Bench, kit: Any, cls: ErrorClass
) -> None:
    objects = [kit.desired(f"{name}{c}", component=c, stage=s) for name, s in STAGES for c in (0, 1, 2)]
    bench.begin(*objects)
    for name in ("config0", "config1"):
        bench.cluster.faults["apply", name] = kit.error(cls)
    outcome = await bench.attempt()
    assert {p.object.name for p in outcome.problems} == {"config0", "config1"}
    assert set(bench.applied) == {"config0", "config1", "config2", "work2"}


async def test_what_bounds_a_namespace_goes_before_anything_in_it(bench: Bench, kit: Any) -> None:
    order = [kit.desired("a", component=0), kit.desired("b", stage=Stage.WORKLOAD, component=1)]
    shared = [kit.desired("quota", stage=Stage.BOUNDS, component=2), kit.desired("z", stage=Stage.ACCESS, component=3)]
    bench.begin(kit.desired("shop", "Namespace", component=4), *shared, *order)
    await bench.attempt()
    assert bench.applied[:3] == ["shop", "quota", "z"]


async def test_a_repair_waits_for_nothing_else_of_its_component(bench: Bench, kit: Any) -> None:
    drifted, bad = kit.desired("drifted", stage=Stage.WORKLOAD), kit.desired("bad")
    state = bench.begin(bad, drifted, records=[kit.record(drifted, content="content-0")])
    kit.settled(state, drifted).applied = b""
    bench.cluster.objects[drifted.ref] = kit.edited(drifted, level="debug")
    bench.cluster.faults["dry-run", "bad"] = kit.error(ErrorClass.REFUSED)
    outcome = await bench.attempt()
    assert (outcome.state, outcome.repaired, bench.applied) == (SyncState.REFUSED, 1, ["drifted"])


# -- what must be ready ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "flags", "word"),
    [
        pytest.param(Status.PROGRESSING, (), "Progressing", id="it rolls out"),
        pytest.param(Status.FAILED, (), "Failed", id="it fails"),
        pytest.param(Status.READY, (Flag.SCALED_TO_ZERO,), "scaled to zero", id="nobody is there to answer"),
        pytest.param(Status.READY, (), "", id="it is ready"),
    ],
)
async def test_o06_admission_is_applied_when_what_answers_is_ready(
    bench: Bench, kit: Any, status: Status, flags: tuple[Flag, ...], word: str
) -> None:
    gate = kit.desired("gate", "Deployment", stage=Stage.WORKLOAD)
    hook = after(kit.desired("hook", stage=Stage.ADMISSION), gate)
    state = bench.begin(
        gate, hook, kit.desired("other", stage=Stage.ADMISSION, component=1), records=[kit.record(gate)]
    )
    kit.settled(state, gate)
    stands(state, gate, status, *flags)
    outcome = await bench.attempt()
    if not word:
        assert (outcome.state, sorted(bench.applied)) == (SyncState.SYNCED, ["hook", "other"])
        return
    assert (outcome.state, bench.applied) == (SyncState.WAITING, ["other"])
    assert outcome.sentence == (f"ConfigMap shop/hook: waiting for Deployment.apps shop/gate to be ready: it is {word}")
    assert outcome.needs == {Need(gate.ref, Till.READY)}
    assert outcome.retry_after is not None, "events are not all there is to rely on"
    stands(state, gate, Status.READY)
    assert (await bench.attempt()).state is SyncState.SYNCED
    assert bench.applied == ["other", "hook"]


async def test_o06_a_webhook_that_is_there_is_repaired_whatever_answers(bench: Bench, kit: Any) -> None:
    gate = kit.desired("gate", "Deployment", stage=Stage.WORKLOAD)
    hook = after(kit.desired("hook", stage=Stage.ADMISSION), gate)
    state = bench.begin(gate, hook, records=[kit.record(gate, hook)])
    kit.settled(state, gate)
    stands(state, gate, Status.PROGRESSING)
    kit.settled(state, hook).applied = b""
    bench.cluster.objects[hook.ref] = kit.edited(hook, level="debug")
    assert (await bench.attempt()).repaired == 1


async def test_o01_a_definition_is_waited_for_within_the_attempt_until_its_event_says_established(
    bench: Bench, kit: Any
) -> None:
    definition = crd(kit)
    resource = after(kit.desired("r", stage=Stage.CUSTOM), definition)
    state = bench.begin(definition, resource)
    attempt = asyncio.create_task(bench.attempt())
    await bench.until_applied("crd")
    for _ in range(5):
        await asyncio.sleep(0)
        bench.work.gate.touched(kit.key)  # an event that says something else
    assert bench.applied == ["crd"]
    assert bench.cluster.verbs("dry-run") == ["crd"], "nobody can judge the resource yet"
    stands(state, definition, Status.READY)
    bench.work.gate.touched(kit.key)
    assert (await attempt).state is SyncState.SYNCED
    assert bench.cluster.calls[-4:-1] == [("apply", "crd"), ("dry-run", "r"), ("apply", "r")]
    assert bench.work.gate._stirred == {}


async def test_o01_a_definition_that_is_not_established_keeps_no_worker(
    bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gating, "ESTABLISHING", 0.01)
    definition = crd(kit)
    bench.begin(definition, after(kit.desired("r", stage=Stage.CUSTOM), definition))
    outcome = await bench.attempt()
    assert (outcome.state, bench.applied) == (SyncState.WAITING, ["crd"])
    assert outcome.needs == {Need(definition.ref, Till.READY)}
    assert bench.work.gate._stirred == {}


async def test_a_new_head_replaces_what_an_attempt_waits_for(bench: Bench, kit: Any) -> None:
    definition = crd(kit)
    resource = after(kit.desired("r", stage=Stage.CUSTOM), definition)
    state = bench.begin(definition, resource)
    attempt = asyncio.create_task(bench.attempt())
    await bench.until_applied("crd")
    state.assign(kit.assignment(kit.unit(definition, content="content-2"), commit="c2"))
    stands(state, definition, Status.READY)
    bench.work.gate.touched(kit.key)
    assert (await attempt).retry_after == 0
    assert bench.applied == ["crd"]
    assert (await bench.attempt()).state is SyncState.SYNCED


@pytest.mark.parametrize("failing", ["dry-run", "apply"])
@pytest.mark.parametrize("reason", [SCHEMA_MISMATCH, "NotServed"])
async def test_o01_24_an_old_schema_is_outlived_after_a_definition_changed(
    bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch, failing: str, reason: str
) -> None:
    monkeypatch.setattr(gating, "SETTLING", (0.0,) * 5)
    definition = crd(kit, a="2")
    resource = after(kit.desired("r", stage=Stage.CUSTOM), definition)
    state = bench.begin(definition, resource, records=[kit.record(definition, content="content-0")])
    bench.cluster.objects[definition.ref] = kit.live(crd(kit))
    kit.settled(state, crd(kit)).applied = b"old"
    state.objects[definition.ref].last_desired = b"old"
    bench.cluster.admit = established
    looks = 0

    def before(verb: str, name: str) -> None:
        nonlocal looks
        if (verb, name) == (failing, "r"):
            looks += 1
            cls = ErrorClass.WAITING if reason == "NotServed" else ErrorClass.REFUSED
            bench.cluster.faults = {} if looks == 4 else {(verb, name): ApiError(cls, 500, reason)}

    bench.cluster.before = before
    assert (await bench.attempt()).state is SyncState.SYNCED
    assert looks == 4


async def test_o01_24_what_really_does_not_fit_is_refused_after_a_moment(
    bench: Bench, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gating, "SETTLING", (0.0,) * 5)
    definition = crd(kit)
    bench.begin(definition, after(kit.desired("r", stage=Stage.CUSTOM), definition))
    bench.cluster.faults["dry-run", "r"] = ApiError(ErrorClass.REFUSED, 500, SCHEMA_MISMATCH, "no such field")
    bench.cluster.admit = established
    assert (await bench.attempt()).state is SyncState.REFUSED
    assert bench.cluster.verbs("dry-run").count("r") == 6
    assert bench.applied == ["crd"]


# -- preflight -------------------------------------------------------------------------------------------------------


async def test_o03_what_is_wrong_is_told_before_somebody_makes_the_namespace(bench: Bench, kit: Any) -> None:
    bench.begin(kit.desired("good"), kit.desired("bad", component=1))
    missing = ApiError(ErrorClass.WAITING, 404, message="not found", waits_for="namespace shop")
    refused = kit.error(ErrorClass.REFUSED, "it is bad")
    dry_run = bench.cluster.apply

    async def apply(desired: DesiredObject, *, namespace: str | None = None, **options: Any) -> Any:
        error = missing if namespace is None else refused if desired.ref.name == "bad" else None
        bench.cluster.faults = {} if error is None else {("dry-run", desired.ref.name): error}
        if not options.get("dry_run"):
            bench.cluster.faults = {("apply", desired.ref.name): missing}
        return await dry_run(desired, namespace=namespace, **options)

    bench.cluster.apply = apply
    outcome = await bench.attempt()
    assert {p.object.name: p.state for p in outcome.problems} == {"good": SyncState.WAITING, "bad": SyncState.REFUSED}
    assert bench.cluster.places == {"good": PREFLIGHT_NAMESPACE, "bad": PREFLIGHT_NAMESPACE}
    assert bench.applied == ["good"]
