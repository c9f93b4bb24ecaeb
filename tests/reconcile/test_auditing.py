"""One audit over fakes, in virtual time: what it lists and samples, how it rests, what it calls a difference."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.reflecting import Changed
from gitops.plan.units import Handling
from gitops.reconcile.auditing import CALM, RESTS, Auditor, AuditReport, changes
from gitops.reconcile.context import Context
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.watches import Sight, Watch

pytestmark = [pytest.mark.looptime]


@dataclass
class FakeWatches:
    """Kinds that can be listed; `on_list` is what a list of one brings."""

    kinds: list[Watch]
    failing: set[Watch] = field(default_factory=set)
    on_list: Callable[[Watch], None] = lambda watch: None
    lists: list[tuple[float, Watch]] = field(default_factory=list)

    def listed(self) -> list[Watch]:
        return self.kinds

    def sight(self, watch: Watch) -> Sight:
        return Sight.SYNCED

    async def list_again(self, watch: Watch, *, within: float) -> bool:
        self.lists.append((asyncio.get_running_loop().time(), watch))
        await asyncio.sleep(1)
        self.on_list(watch)
        return watch not in self.failing


class DryRuns:
    """A cluster of live objects whose dry runs answer them as they are, or as `admit` makes them."""

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.admit: Callable[[dict[str, Any]], None] = lambda live: None
        self.on_read: Callable[[str], None] = lambda name: None
        self.accounts: list[str] = []

    def in_name_of(self, account: str) -> DryRuns:
        self.accounts.append(account)
        return self

    async def get(self, gvk: Any, ref: Any) -> dict[str, Any] | ApiError | None:
        self.calls.append(("get", ref.name))
        found = copy.deepcopy(self.live.get(ref.name))
        self.on_read(ref.name)
        return found

    async def apply(self, desired: Any, *, dry_run: bool, uid: str) -> ApplyOutcome:
        assert dry_run
        self.calls.append(("dry-run", desired.ref.name))
        live = copy.deepcopy(self.live[desired.ref.name])
        assert uid == live["metadata"]["uid"]
        for one in live["metadata"]["managedFields"]:
            one["time"] = "2026-06-01T00:00:00Z"
        self.admit(live)
        version = live["metadata"]["resourceVersion"]
        return ApplyOutcome(
            ref=desired.ref, gvk=desired.gvk, result=ApplyResult.CONFIGURED, resource_version=version, live=live
        )


class Scene:
    """An auditor over three ConfigMaps that are as declared."""

    def __init__(self, kit: Any, context: Context, *, sample: int = 20) -> None:
        self.kit = kit
        self.maps = [kit.desired(name) for name in ("one", "two", "three")]
        self.state = kit.state(kit.unit(*self.maps), records=[kit.record(*self.maps)])
        self.cluster, self.looks = DryRuns(), []
        for desired in self.maps:
            kit.settled(self.state, desired)
            self.cluster.live[desired.ref.name] = kit.live(desired)
        self.context = replace(context, options=replace(context.options, audit_sample=sample))
        self.sightings = Sightings(
            self.state, self.context, look=lambda key, urgent: self.looks.append(urgent), touched=lambda key: None
        )
        kinds = sorted({Watch(o.gvk, "x=y") for o in self.maps} | {Watch(kit.desired("g", "Gadget").gvk, "x=y")})
        self.watches = FakeWatches(kinds)
        self.pauses, self.ours = 0, True

    async def audit(self) -> AuditReport | None:
        return await Auditor(
            self.state,
            self.context,
            watches=self.watches,  # type: ignore[arg-type]
            sightings=self.sightings,
            applier=self.cluster,  # type: ignore[arg-type]
            idle=self._idle,
            throttled=lambda: self.pauses,
            may_go=lambda: self.ours,
        ).run()

    async def _idle(self) -> None:
        return


@pytest.fixture
def scene(kit: Any, context: Context) -> Scene:
    return Scene(kit, context)


async def test_kinds_are_listed_one_after_the_other_and_a_sample_is_proven(scene: Scene) -> None:
    report = await scene.audit()
    assert report is not None
    assert [watch for _, watch in scene.watches.lists] == scene.watches.kinds
    assert [round(at) for at, _ in scene.watches.lists] == [0, 1]
    assert (report.kinds, report.found, report.checked, report.sentences) == (2, 0, 3, ())
    assert [verb for verb, _ in scene.cluster.calls] == ["get", "dry-run"] * 3


async def test_a_sample_is_no_larger_than_it_may_be(kit: Any, context: Context) -> None:
    scene = Scene(kit, context, sample=2)
    await scene.audit()
    assert len(scene.cluster.calls) == 4


async def test_d08_what_only_the_list_shows_is_counted_and_given_to_its_unit(scene: Scene) -> None:
    edited = scene.kit.edited(scene.maps[0], level="debug")

    def listing(watch: Watch) -> None:
        if watch.gvk == scene.maps[0].gvk:
            scene.sightings.declared_event(Changed(edited))

    scene.watches.on_list = listing
    report = await scene.audit()
    assert report is not None
    assert (report.found, report.checked) == (1, 2), "what is being repaired is no sample"
    assert scene.looks == [True]


async def test_a07_what_only_the_read_shows_is_drift_and_no_defect(scene: Scene) -> None:
    scene.cluster.live["two"] = scene.kit.edited(scene.maps[1], level="debug")
    report = await scene.audit()
    assert report is not None
    assert (report.found, report.checked, report.defects) == (1, 2, ())
    assert scene.looks == [True]
    assert ("dry-run", "two") not in scene.cluster.calls


def move(version: str = "12") -> Callable[[dict[str, Any]], None]:
    return lambda live: live["metadata"].__setitem__("resourceVersion", version)


async def test_an_object_that_moves_meanwhile_proves_nothing(scene: Scene) -> None:
    def admit(live: dict[str, Any]) -> None:
        live["data"]["level"] = "other"
        move()(live)

    scene.cluster.admit = admit
    report = await scene.audit()
    assert report is not None
    assert (report.checked, report.defects) == (0, ())


@pytest.mark.parametrize(
    ("how", "path"),
    [
        pytest.param(lambda live: live["data"].__setitem__("level", "hidden"), "data.level", id="a value"),
        pytest.param(lambda live: live["data"].__setitem__("more", "hidden"), "data.more", id="an addition"),
        pytest.param(lambda live: live["metadata"].__setitem__("generation", 2), "metadata.generation", id="a write"),
        pytest.param(
            lambda live: live["metadata"]["managedFields"][0].__setitem__("fieldsV1", {}),
            "metadata.managedFields",
            id="ownership",
        ),
    ],
)
async def test_what_an_apply_would_change_unseen_is_told_by_path_and_never_by_value(
    scene: Scene, how: Callable[[dict[str, Any]], None], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.cluster.admit = lambda live: how(live) if live["metadata"]["name"] == "two" else None
    report = await scene.audit()
    assert report is not None
    (told,) = report.defects
    assert told.startswith(f"ConfigMap shop/two: an apply would change {path}, ")
    assert "hidden" not in told + caplog.text
    assert told in caplog.text
    assert not scene.looks, "nothing is repaired that would change under the feet of others"


async def test_only_what_is_taken_to_be_as_declared_is_a_sample(kit: Any, context: Context) -> None:
    scene = Scene(kit, context)
    one, two, three = (scene.state.objects[o.ref] for o in scene.maps)
    one.deleting, two.applied, three.suspect = True, b"", True
    report = await scene.audit()
    assert report is not None
    assert (scene.cluster.calls, report.checked) == ([], 0)
    once = kit.desired("once", handling=Handling(once=True))
    scene.state.assign(kit.assignment(kit.unit(once), commit="c2"))
    kit.settled(scene.state, once)
    await scene.audit()
    assert scene.cluster.calls == [], "what is made once is never applied again"


async def test_after_the_server_asked_for_a_pause_it_rests(scene: Scene) -> None:
    def listing(watch: Watch) -> None:
        scene.pauses += watch == scene.watches.kinds[0]

    scene.watches.on_list = listing
    assert await scene.audit() is not None
    (first, _), (second, _) = scene.watches.lists
    assert second - first == pytest.approx(1 + CALM)


async def test_a_server_that_asks_for_pauses_for_ever_is_let_alone(scene: Scene) -> None:
    def throttle() -> None:
        scene.pauses += 1
        asyncio.get_running_loop().call_later(CALM / 2, throttle)

    scene.watches.on_list = lambda watch: throttle()

    assert await scene.audit() is None
    assert len(scene.watches.lists) == 1
    assert asyncio.get_running_loop().time() == pytest.approx(RESTS * CALM, rel=0.1)


async def test_it_ends_when_the_cluster_is_not_ours_any_more(scene: Scene) -> None:
    scene.watches.on_list = lambda watch: setattr(scene, "ours", False)
    assert await scene.audit() is None
    assert len(scene.watches.lists) == 1
    assert scene.cluster.calls == []


async def test_a_kind_that_cannot_be_listed_is_told_and_keeps_no_other_from_it(scene: Scene) -> None:
    scene.watches.failing = {scene.watches.kinds[0]}
    report = await scene.audit()
    assert report is not None
    assert len(scene.watches.lists) == 2
    assert report.sentences == (f"{scene.watches.kinds[0].gvk} objects could not be listed",)


async def test_objects_that_cannot_be_read_prove_nothing(scene: Scene) -> None:
    async def get(gvk: Any, ref: Any) -> ApiError:
        return ApiError(ErrorClass.FORBIDDEN, 403)

    scene.cluster.get = get  # type: ignore[method-assign]
    report = await scene.audit()
    assert report is not None
    assert (report.checked, report.defects) == (0, ())


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="the same"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ["a[0].b"], id="in an item"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, ["a"], id="another length"),
        pytest.param({"a": 1}, {}, ["a"], id="removed"),
        pytest.param({"a": 1}, {"a": "1"}, ["a"], id="another type"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, {"metadata": {"resourceVersion": "2"}}, [], id="version"),
        pytest.param(
            {"metadata": {"managedFields": [{"manager": "a", "time": "1"}, {"manager": "b", "time": "2"}]}},
            {"metadata": {"managedFields": [{"manager": "b", "time": "2"}, {"manager": "a", "time": "3"}]}},
            [],
            id="times and the order they make",
        ),
    ],
)
def test_changes(before: dict[str, Any], after: dict[str, Any], paths: list[str]) -> None:
    assert list(changes(before, after)) == paths
