"""From commits to units: what is held stays at its last good commit. With a compiler that reads its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from gitops.model.identity import ClusterName, Commit, UnitKey, WorkloadKind, WorkloadRef
from gitops.plan.pruning import Consent
from gitops.plan.units import Compilation, Unit
from gitops.policy.placement import Placement
from gitops.reconcile.heads import Head, Heads
from gitops.source.errors import SourceError, SourceErrorClass

CHAT = UnitKey(WorkloadKind.FUNCTION, "chat", "h100-0", ClusterName("a"))
BASE = UnitKey(WorkloadKind.BUNDLE, "base", "", ClusterName("a"))


@dataclasses.dataclass
class Tree:
    """What compiling a commit gives."""

    commit: str
    units: dict[UnitKey, Unit] = dataclasses.field(default_factory=dict)
    held: tuple[WorkloadRef, ...] = ()
    complete: bool = True
    kept: tuple[UnitKey, ...] = ()


class Repository:
    """Source and compiler over trees by commit."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        self.unreadable: set[str] = set()
        self.compiled: list[tuple[str, frozenset[WorkloadRef] | None]] = []
        self.pins: Any = None

    def commit(self, name: str, *units: Unit, **more: Any) -> Commit:
        self.trees[name] = Tree(name, {u.key: u for u in units}, **more)
        return Commit(name)

    async def tree(self, commit: Commit) -> Tree | None:
        if commit in self.unreadable:
            raise SourceError(SourceErrorClass.CORRUPT, "objects are damaged")
        return self.trees.get(commit)

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def compile(
        self,
        tree: Tree,
        *,
        pins: Any,
        unheard: Any = frozenset(),
        facts: Any = None,
        only: frozenset[WorkloadRef] | None = None,
    ) -> Compilation:
        """`facts` are here the keys of the units that their clusters refuse."""
        self.compiled.append((tree.commit, only))
        self.pins = pins
        units = {k: u for k, u in tree.units.items() if only is None or k.workload in only}
        refused = {key: units.pop(key) for key in facts or () if key in units}
        kept = frozenset(() if only is not None else tree.kept)
        return Compilation(
            Commit(tree.commit), None, {}, units, (), frozenset(tree.held), tree.complete, refused=refused, kept=kept
        )


class Bench:
    def __init__(self, kit: Any) -> None:
        self.kit = kit
        self.repository = Repository()
        self.restart()

    def restart(self) -> None:
        """Everything that was only in memory is gone."""
        self.heads = Heads(self.repository, self.repository)  # type: ignore[arg-type]

    def unit(self, key: UnitKey, content: str) -> Unit:
        found: Unit = self.kit.unit(self.kit.desired(key.name, key=key), key=key, content=content, commit=content)
        return found

    async def compile(self, commit: str, *parents: Any, facts: Any = None) -> Head:
        head = await self.heads.compile(Commit(commit), {p.unit: p for p in parents}, facts=facts)
        assert head is not None
        return head

    def contents(self, head: Head) -> dict[str, str]:
        return {key.name: unit.content_key for key, unit in head.units.items()}


@pytest.fixture
def bench(kit: Any) -> Bench:
    return Bench(kit)


async def two_heads(bench: Bench, **second: Any) -> None:
    """c1 has both units; c2 has a newer base, and of the rest what `second` says."""
    bench.repository.commit("c1", bench.unit(CHAT, "c1"), bench.unit(BASE, "c1"))
    bench.repository.commit("c2", bench.unit(BASE, "c2"), **second)


# -- held ------------------------------------------------------------------------------------------------------------


async def test_a_held_workload_keeps_its_last_good_units_and_the_others_go_on(bench: Bench) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    await bench.compile("c1")
    head = await bench.compile("c2")
    assert bench.contents(head) == {"chat": "c1", "base": "c2"}
    assert head.held == {CHAT.workload}


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_unit_whose_operator_may_not_be_used_there_stays_as_it_is(
    bench: Bench, kit: Any, restarted: bool
) -> None:
    """Alone: its workload's other units go on, and nothing of it may be removed."""
    far = dataclasses.replace(CHAT, instance="h100-1", cluster=ClusterName("b"))
    bench.repository.commit("c1", bench.unit(CHAT, "c1"), bench.unit(far, "c1"))
    bench.repository.commit("c2", bench.unit(far, "c2"), kept=(CHAT,))
    await bench.compile("c1")
    if restarted:
        bench.restart()
    record = kit.record(key=CHAT, commit="c1")
    head = await bench.compile("c2", record)
    assert {key: unit.content_key for key, unit in head.units.items()} == {CHAT: "c1", far: "c2"}
    assignment = head.for_cluster(ClusterName("a"), kit.assignment().consent)
    assert assignment.kept == {CHAT}
    assert not assignment.may_remove(CHAT)
    assert not dataclasses.replace(assignment, units={}).may_remove(CHAT)
    assert not head.held


async def test_it_stays_held_over_any_number_of_heads(bench: Bench) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    bench.repository.commit("c3", bench.unit(BASE, "c3"), held=(CHAT.workload,))
    for commit in ("c1", "c2", "c3"):
        head = await bench.compile(commit)
    assert bench.contents(head) == {"chat": "c1", "base": "c3"}


async def test_after_a_restart_it_is_compiled_from_the_commit_that_its_parent_names(bench: Bench, kit: Any) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit("c1")))
    assert bench.contents(head) == {"chat": "c1", "base": "c2"}
    assert bench.repository.compiled == [("c2", None), ("c1", frozenset({CHAT.workload}))]


async def test_parents_that_are_read_late_bring_their_held_units_late(bench: Bench, kit: Any) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    assert bench.contents(await bench.compile("c2")) == {"base": "c2"}
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit("c1")))
    assert bench.contents(head) == {"chat": "c1", "base": "c2"}


async def test_only_what_has_a_parent_comes_back_from_an_old_commit(bench: Bench, kit: Any) -> None:
    """The old commit is read for what is on clusters, not for what was removed since."""
    other = dataclasses.replace(CHAT, instance="h100-1")
    bench.repository.commit("c1", bench.unit(CHAT, "c1"), bench.unit(other, "c1"))
    bench.repository.commit("c2", held=(CHAT.workload,))
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit("c1")))
    assert list(head.units) == [CHAT]


@pytest.mark.parametrize("why", ["not there any more", "unreadable", "never applied completely"])
async def test_without_its_last_good_commit_it_is_left_alone_and_never_removed(
    bench: Bench, kit: Any, why: str
) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    commit = "" if why == "never applied completely" else "c1"
    if why == "unreadable":
        bench.repository.unreadable.add("c1")
    elif why == "not there any more":
        del bench.repository.trees["c1"]
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit(commit)))
    assert bench.contents(head) == {"base": "c2"}
    assert not head.for_cluster(ClusterName("a"), kit.assignment().consent).may_remove(CHAT)


async def test_a_mended_workload_goes_on_from_the_head(bench: Bench) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    bench.repository.commit("c3", bench.unit(CHAT, "c3"), bench.unit(BASE, "c3"))
    for commit in ("c1", "c2", "c3"):
        head = await bench.compile(commit)
    assert bench.contents(head) == {"chat": "c3", "base": "c3"}


# -- removed, incomplete, unreadable ---------------------------------------------------------------------------------


async def test_a_workload_that_left_a_complete_head_may_go(bench: Bench, kit: Any) -> None:
    await two_heads(bench)
    await bench.compile("c1")
    head = await bench.compile("c2")
    assert bench.contents(head) == {"base": "c2"}
    assert head.for_cluster(ClusterName("a"), kit.assignment().consent).may_remove(CHAT)


async def test_an_incomplete_head_removes_nothing(bench: Bench, kit: Any) -> None:
    await two_heads(bench, complete=False)
    await bench.compile("c1")
    head = await bench.compile("c2")
    assert bench.contents(head) == {"chat": "c1", "base": "c2"}
    assert not head.for_cluster(ClusterName("a"), kit.assignment().consent).may_remove(CHAT)


async def test_an_unreadable_repository_changes_nothing(bench: Bench) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    await bench.compile("c1")
    bench.repository.unreadable.add("c2")
    with pytest.raises(SourceError):
        await bench.compile("c2")
    bench.repository.unreadable.clear()
    assert bench.contents(await bench.compile("c2")) == {"chat": "c1", "base": "c2"}


async def test_a_head_whose_files_are_not_here_is_none_and_changes_nothing(bench: Bench) -> None:
    await two_heads(bench, held=(CHAT.workload,))
    await bench.compile("c1")
    assert await bench.heads.compile(Commit("elsewhere"), {}) is None
    assert bench.contents(await bench.compile("c2")) == {"chat": "c1", "base": "c2"}


# -- placement -------------------------------------------------------------------------------------------------------


async def test_live_parents_pin_instances_to_their_clusters(bench: Bench, kit: Any) -> None:
    await two_heads(bench)
    await bench.compile("c1", kit.record(key=CHAT))
    assert bench.repository.pins == {(CHAT.workload, "h100"): {Placement(0, ClusterName("a"))}}


async def test_a_cluster_gets_its_own_units_only(bench: Bench, kit: Any) -> None:
    far = dataclasses.replace(BASE, cluster=ClusterName("b"))
    bench.repository.commit("c1", bench.unit(BASE, "c1"), bench.unit(far, "c1"))
    head = await bench.compile("c1")
    assert list(head.for_cluster(ClusterName("b"), kit.assignment().consent).units) == [far]


# -- refused by a cluster --------------------------------------------------------------------------------------------


async def test_a_unit_that_its_cluster_refuses_keeps_its_last_good_one_and_its_workload_goes_on(bench: Bench) -> None:
    there = dataclasses.replace(CHAT, instance="h100-1", cluster=ClusterName("b"))
    for commit in ("c1", "c2"):
        bench.repository.commit(commit, bench.unit(CHAT, commit), bench.unit(there, commit))
    await bench.compile("c1")
    head = await bench.compile("c2", facts={there})
    assert {key: unit.content_key for key, unit in head.units.items()} == {CHAT: "c2", there: "c1"}
    assert head.held == frozenset()
    assert head.troubled == {CHAT.workload}
    consent = Consent(())
    assert head.for_cluster(ClusterName("b"), consent).held == {CHAT.workload}, "nothing of it is removed there"
    assert head.for_cluster(ClusterName("a"), consent).held == frozenset()


async def test_a_refused_unit_without_a_last_good_one_is_left_alone_and_never_removed(bench: Bench, kit: Any) -> None:
    bench.repository.commit("c2", bench.unit(CHAT, "c2"))
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit("gone")), facts={CHAT})
    assert head.units == {}
    assert not head.for_cluster(ClusterName("a"), Consent(())).may_remove(CHAT)


async def test_what_was_good_only_while_less_was_known_is_not_kept(bench: Bench, kit: Any) -> None:
    """The first compile after a start knows nothing of the cluster: a refused head must not pass for the last good."""
    bench.repository.commit("c1", bench.unit(CHAT, "c1"))
    bench.repository.commit("c2", bench.unit(CHAT, "c2"))
    record = kit.record(key=CHAT, commit=Commit("c1"), content="c1")
    assert bench.contents(await bench.compile("c2", record)) == {"chat": "c2"}
    assert bench.contents(await bench.compile("c2", record, facts={CHAT})) == {"chat": "c1"}
    await bench.compile("c1", record)
    assert bench.contents(await bench.compile("c2", record)) == {"chat": "c2"}
    assert bench.contents(await bench.compile("c2", record, facts={CHAT})) == {"chat": "c1"}


async def test_a_definition_that_changes_under_a_running_unit_does_not_roll_it_back(bench: Bench, kit: Any) -> None:
    for commit in ("c1", "c2"):
        bench.repository.commit(commit, bench.unit(CHAT, commit))
    await bench.compile("c1")
    await bench.compile("c2")
    applied = kit.record(key=CHAT, commit=Commit("c2"), content="c2")
    assert bench.contents(await bench.compile("c2", applied, facts={CHAT})) == {"chat": "c2"}
    bench.restart()
    assert bench.contents(await bench.compile("c2", applied, facts={CHAT})) == {"chat": "c2"}, "from its commit"


async def test_the_last_good_commit_is_compiled_without_facts(bench: Bench, kit: Any) -> None:
    bench.repository.commit("c1", bench.unit(CHAT, "c1"))
    bench.repository.commit("c2", held=(CHAT.workload,))
    head = await bench.compile("c2", kit.record(key=CHAT, commit=Commit("c1")), facts={CHAT})
    assert bench.contents(head) == {"chat": "c1"}


@pytest.mark.parametrize(
    ("named_by", "owner"), [((BASE,), "base"), ((CHAT,), "chat"), ((BASE, CHAT), "base"), ((), "base")]
)
async def test_an_object_that_moved_between_the_commits_of_two_held_units_is_one_ones(
    bench: Bench, kit: Any, named_by: tuple[UnitKey, ...], owner: str
) -> None:
    """Each would write it over the other's, and neither come to rest. Whose parent alone names it keeps it."""
    moved, rest = kit.desired("moved"), {key: kit.desired(key.name, key=key) for key in (CHAT, BASE)}
    bench.repository.commit("c1", kit.unit(moved, rest[CHAT], key=CHAT, commit="c1"))
    bench.repository.commit("c2", kit.unit(moved, rest[BASE], key=BASE, commit="c2"))
    bench.repository.commit("c3", held=(CHAT.workload, BASE.workload))
    parents = [
        kit.record(
            *(o for o in (moved, rest[key]) if o is not moved or key in named_by), key=key, commit=Commit(commit)
        )
        for key, commit in ((CHAT, "c1"), (BASE, "c2"))
    ]
    head = await bench.compile("c3", *parents)
    assert {key.name: {o.ref.name for o in unit.objects} for key, unit in head.units.items()} == {
        key.name: {key.name, *(["moved"] if key.name == owner else [])} for key in (CHAT, BASE)
    }
    assert {key.name for key, unit in head.units.items() if unit.content_key == "content-1"} == {owner}
    bench.repository.commit("c4", *(kit.unit(rest[key], key=key, commit="c4") for key in (CHAT, BASE)))
    assert set(bench.contents(await bench.compile("c4", *parents)).values()) == {"content-1"}, "all is theirs again"
