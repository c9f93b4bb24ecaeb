"""What is known of one cluster: assignments, and the indexes between desired and live."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from gitops.model.adoption import Adoption, Tool
from gitops.model.identity import ClusterName, Commit, UnitKey, WorkloadKind, WorkloadRef
from gitops.plan.units import Mode
from gitops.reconcile.outcomes import ObjectProblem, SyncState, UnitOutcome
from gitops.reconcile.state import ClusterState


def test_only_units_whose_content_or_mode_changed_are_looked_at(kit: Any) -> None:
    one, two, three = (kit.unit(kit.desired(n), key=kit.other_key(n)) for n in ("one", "two", "three"))
    state = kit.state(one, two, three)
    changed = kit.unit(kit.desired("two"), key=two.key, content="content-2")
    reported = kit.unit(kit.desired("three"), key=three.key, mode=Mode.REPORT)
    assert state.assign(kit.assignment(one, changed, reported, commit="c2")) == [two.key, three.key]
    assert state.assign(kit.assignment(one, changed, reported, commit="c3")) == []


def test_consent_to_adoption_lets_what_was_refused_be_looked_at_again(kit: Any) -> None:
    one, two = (kit.unit(kit.desired(n), key=kit.other_key(n)) for n in ("one", "two"))
    state = kit.state(one, two)
    state.units[one.key].outcome = UnitOutcome(SyncState.SYNCED, "")
    state.units[two.key].outcome = UnitOutcome(SyncState.REFUSED, "Helm's")
    helm = Adoption(True, frozenset({Tool.HELM}))
    assert state.assign(replace(kit.assignment(one, two, commit="c2"), adoption=helm)) == [two.key]
    consent = replace(one, adoption=helm)
    assert state.assign(replace(kit.assignment(consent, two, commit="c3"), adoption=helm)) == [one.key]
    assert helm.with_(Adoption(False)) == Adoption(False, helm.tools)


def test_a_unit_that_left_git_is_looked_at_as_long_as_it_has_a_parent(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    for commit in ("c2", "c3"):
        assert state.assign(kit.assignment(commit=commit)) == [kit.key]


def test_a_unit_that_left_git_before_it_was_ever_applied_is_looked_at_too(kit: Any) -> None:
    """Else its state and its status file would stay for ever."""
    state = kit.state(kit.unit(kit.desired("web")))
    assert state.assign(kit.assignment(commit="c2")) == [kit.key]


def test_a_parent_without_declaration_has_a_unit_state(kit: Any) -> None:
    state = kit.state(records=[kit.record(kit.desired("web"))])
    assert list(state.units) == [kit.key]


def test_records_of_objects_that_are_declared_no_more_are_dropped_with_their_uids(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    kit.settled(state, web)
    state.by_uid["uid-web"] = kit.key
    state.assign(kit.assignment())
    assert (state.objects, state.by_uid) == ({}, {})


def test_an_object_that_moves_to_another_unit_keeps_its_record(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web))
    record = kit.settled(state, web)
    state.assign(kit.assignment(kit.unit(web, key=kit.other_key())))
    assert state.objects[web.ref] is record
    assert state.declared(web.ref) == (kit.other_key(), web)


def test_an_object_without_uid_is_not_known_to_exist(kit: Any) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    state = kit.state(kit.unit(web, app))
    state.record(web)
    kit.settled(state, app)
    assert list(state.observed([web, app])) == [app.ref]


def test_what_others_declare_is_theirs_and_what_they_merely_have_is_decided_by_its_labels(kit: Any) -> None:
    mine, declared, had = (kit.desired(n) for n in ("mine", "declared", "had"))
    other = kit.unit(declared, key=kit.other_key())
    state = kit.state(kit.unit(mine), other, records=[kit.record(had, key=other.key), kit.record(mine)])
    assert state.declared_by_others(kit.key) == {declared.ref}


def test_what_a_held_unit_has_is_its_own(kit: Any) -> None:
    mine, had = kit.desired("mine"), kit.desired("had")
    records = [kit.record(had, key=kit.other_key()), kit.record(mine)]
    state = kit.state(kit.unit(mine), records=records)
    state.assign(kit.assignment(kit.unit(mine), held=[kit.other_key().workload]))
    assert state.declared_by_others(kit.key) == {had.ref}


def test_what_moves_is_not_taken_over_until_the_other_parent_names_it(kit: Any) -> None:
    moving = kit.desired("moving")
    other = kit.unit(moving, key=kit.other_key())
    state = kit.state(other, records=[kit.record(moving)])
    assert state.not_taken_over(kit.key) == {moving.ref}
    state.parents[other.key] = kit.record(moving, key=other.key)
    assert state.not_taken_over(kit.key) == set()


def test_a_new_session_knows_nothing_live_but_all_that_is_declared(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    kit.settled(state, web)
    state.forget_live()
    assert (state.objects, list(state.parents), state.kinds()) == ({}, [kit.key], {web.gvk})


def test_a_unit_may_go_only_when_the_compile_could_have_seen_it(kit: Any) -> None:
    unit = kit.unit(kit.desired("web"))
    assert kit.assignment().may_remove(kit.key)
    assert not kit.assignment(unit).may_remove(kit.key)
    assert not kit.assignment(complete=False).may_remove(kit.key)
    assert not kit.assignment(held=[kit.key.workload]).may_remove(kit.key)
    assert not dataclasses.replace(kit.assignment(), kept=frozenset({kit.key})).may_remove(kit.key)


def test_before_the_first_head_nothing_is_declared(kit: Any) -> None:
    state = ClusterState(ClusterName("a"), kit.reconciler)
    assert (state.unit(kit.key), state.kinds()) == (None, set())


# -- what may not be deleted at a head -------------------------------------------------------------------------------


def test_r15_what_is_declared_is_not_deleted_whoever_declares_it(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(kit.unit(web), records=[kit.record(web)])
    assert state.withheld(kit.key, web.ref)
    assert state.withheld(kit.other_key(), web.ref)
    state.assign(kit.assignment(commit="c2"))
    assert not state.withheld(kit.key, web.ref)


def test_a_unit_whose_operator_may_not_be_used_here_deletes_nothing(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(records=[kit.record(web)])
    assert not state.withheld(kit.key, web.ref)
    state.assign(dataclasses.replace(kit.assignment(), kept=frozenset({kit.key})))
    assert state.withheld(kit.key, web.ref) == "its operator may not be used here, and it stays as it is"


def test_a_workload_with_errors_deletes_nothing(kit: Any) -> None:
    """Its last good commit, looked up after a restart, may be older than what was applied of it."""
    web = kit.desired("web")
    state = kit.state(records=[kit.record(web)], held=[kit.key.workload])
    assert "has errors" in state.withheld(kit.key, web.ref)


def test_r05_what_left_one_bundle_stays_while_another_cannot_be_read_or_names_it(kit: Any) -> None:
    """A bundle that is renamed with a typo in one of its files must not lose its objects."""
    web, app = kit.desired("web"), kit.desired("app")
    other = kit.other_key().workload
    state = kit.state(records=[kit.record(web, app)])
    blind = replace(kit.assignment(commit="c2", held=[other]), opaque=frozenset({other}))
    assert state.assign(blind) == [kit.key]
    assert "cannot be read" in state.withheld(kit.key, web.ref)
    readable = replace(blind, commit=Commit("c3"), opaque=frozenset(), named=frozenset({web.ref}))
    assert state.assign(readable) == [kit.key]
    assert "names it" in state.withheld(kit.key, web.ref)
    assert not state.withheld(kit.key, app.ref)


def test_a_pause_that_comes_while_a_unit_is_being_pruned_stops_its_deletions(kit: Any) -> None:
    web = kit.desired("web")
    state = kit.state(records=[kit.record(web)])
    assert not state.withheld(kit.key, web.ref)
    state.assign(replace(kit.assignment(commit="c2"), mode=Mode.PAUSED))
    assert "paused" in state.withheld(kit.key, web.ref)


def test_what_was_withheld_is_looked_at_when_the_reason_went(kit: Any) -> None:
    web, app = kit.desired("web"), kit.desired("app")
    other = kit.other_key().workload
    state = kit.state(kit.unit(app), records=[kit.record(web, app)], held=[other])
    state.units[kit.key].outcome = UnitOutcome(SyncState.RETAINED, "kept")
    assert state.assign(kit.assignment(kit.unit(app), commit="c2")) == [kit.key]


def test_functions_have_namespaces_of_their_own_so_a_broken_one_hides_no_other(kit: Any) -> None:
    key = UnitKey(WorkloadKind.FUNCTION, "chat", "h100-0", kit.key.cluster)
    broken = WorkloadRef(WorkloadKind.FUNCTION, "broken")
    web = kit.desired("web")
    generated, explicit = (replace(kit.record(web), unit=key, namespace=name) for name in ("fn-chat-h100-0", "models"))
    for record, withheld in ((generated, False), (explicit, True)):
        state = kit.state(records=[record])
        state.assign(replace(kit.assignment(held=[broken]), opaque=frozenset({broken})))
        assert bool(state.withheld(key, web.ref)) is withheld


def test_r06_a_function_that_cannot_be_read_may_have_taken_over_what_a_bundle_dropped(kit: Any) -> None:
    broken = WorkloadRef(WorkloadKind.FUNCTION, "broken")
    web = kit.desired("web")
    state = kit.state(records=[kit.record(web)])
    state.assign(replace(kit.assignment(held=[broken]), opaque=frozenset({broken})))
    assert "function/broken cannot be read" in state.withheld(kit.key, web.ref)


# -- what an operator waits for, and what nobody has -----------------------------------------------------------------


def test_o07_custom_resources_that_others_drop_are_told_but_not_those_that_stay(kit: Any) -> None:
    names = ("goes", "moves", "kept", "held")
    caches = {name: kit.desired(name, "NIMCache", key=kit.other_key()) for name in names}
    settings, own = kit.desired("settings", key=kit.other_key()), kit.desired("own", "NIMCache")
    taker = kit.unit(kit.desired("moves", "NIMCache", key=kit.other_key("taker")), key=kit.other_key("taker"))
    state = kit.state(
        taker, records=[kit.record(own), kit.record(settings, *caches.values(), key=kit.other_key())], commit="c2"
    )
    problems = (
        ObjectProblem(caches["kept"].ref, SyncState.RETAINED, "it holds data"),
        ObjectProblem(caches["held"].ref, SyncState.BLOCKED, "a finalizer"),
    )
    state.units[kit.other_key()].outcome = UnitOutcome(SyncState.REMOVING, "removing", problems)
    assert state.custom_resources_leaving(kit.key) == {caches["goes"].ref: kit.other_key()}
    assert state.custom_resources_leaving(kit.other_key()) == {own.ref: kit.key}
    state.assign(kit.assignment(taker, commit="c3", held=[kit.other_key().workload]))
    assert state.custom_resources_leaving(kit.key) == {}, "what is held is not being deleted"


def test_r13_what_carries_our_marks_and_no_parent_names_is_an_orphan(kit: Any) -> None:
    member, lost, behind, taken = (kit.desired(name) for name in ("member", "lost", "behind", "taken"))
    state = kit.state(kit.unit(taken), records=[kit.record(member)])
    assert state.orphans() == {}
    state.unclaimed |= {member.ref, lost.ref, taken.ref}
    state.left_behind[behind.ref] = "it no longer carries our labels"
    assert state.orphans() == {
        behind.ref: "it no longer carries our labels",
        lost.ref: "it carries our marks, and no parent names it",
    }
