"""Copies of Secrets between Git and `gitops-secrets`: whatever is known of sources, no copy is taken for undeclared."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.reflecting import Changed, Deleted, Event, Stale, Synced, Vanished
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef
from gitops.plan.planning import plan_unit
from gitops.plan.units import SecretRef, Stage, Unit
from gitops.reconcile.attempts import Attempt
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.secret_errors import about_secret
from gitops.reconcile.secret_sources import SecretSources
from gitops.reconcile.state import ClusterState

SPACE = "shop"


def source(name: str, value: str = "v", **more: Any) -> dict[str, Any]:
    """A live Secret of gitops-secrets, with what must not come along."""
    metadata = {"name": name, "namespace": "gitops-secrets", "uid": f"uid-{name}", "annotations": {"note": value}}
    data = {"token": base64.b64encode(value.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data, **more}


def refs(*names: str, users: tuple[int, ...] = ()) -> tuple[SecretRef, ...]:
    return tuple(SecretRef(name, Origin("functions/chat/function.yaml", 9), users) for name in names)


def copy_ref(name: str) -> ObjectRef:
    return ObjectRef("", "Secret", SPACE, name)


def unit_of(kit: Any, *names: str, users: tuple[int, ...] = (), **more: Any) -> Unit:
    made: Unit = kit.unit(
        kit.desired("web"),
        kit.desired("app", stage=Stage.WORKLOAD, component=1),
        namespace=SPACE,
        secret_refs=refs(*names, users=users),
        **more,
    )
    return made


def listed(sources: SecretSources, *live: dict[str, Any]) -> None:
    for each in live:
        sources.event(Changed(each))
    sources.event(Synced(len(live), "5"))


@pytest.fixture
def begin(kit: Any) -> Callable[..., tuple[ClusterState, SecretSources, list[Any]]]:
    """A state with these units, its sources told of the head, and whom they asked to look."""

    def make(*units: Unit, records: tuple[Any, ...] = ()) -> tuple[ClusterState, SecretSources, list[Any]]:
        state, looked = kit.state(*units, records=records), []
        sources = SecretSources(state, look=looked.append)
        sources.assigned()
        return state, sources, looked

    return make


def wanted(state: ClusterState, kit: Any) -> dict[str, dict[str, Any]]:
    """Bodies of the copies that are enforced, by name."""
    unit = state.unit(kit.key)
    assert unit is not None
    return {o.ref.name: o.body for o in unit.objects if o.gvk.kind == "Secret"}


def test_a_copy_has_type_data_and_immutable_of_its_source_and_nothing_else(kit: Any, begin: Any) -> None:
    state, sources, looked = begin(unit_of(kit, "key", "login"))
    listed(sources, source("key"), source("login", type="kubernetes.io/basic-auth", immutable=True), source("other"))
    found = wanted(state, kit)
    assert set(found) == {"key", "login"}
    assert found["login"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "login",
            "namespace": SPACE,
            "labels": kit.body("x")["metadata"]["labels"],
            "annotations": {"gitops/source": "functions/chat/function.yaml"},
        },
        "type": "kubernetes.io/basic-auth",
        "immutable": True,
        "data": source("login")["data"],
    }
    assert "immutable" not in found["key"]
    assert looked == [kit.key]
    stages = [o.stage for o in state.wanted[kit.key].objects]
    assert stages == sorted(stages)
    assert stages[0] is Stage.SECRETS


def test_events_before_the_list_is_complete_make_nothing_and_after_it_only_what_changed(kit: Any, begin: Any) -> None:
    state, sources, looked = begin(unit_of(kit, "key"))
    assert sources.pending
    assert not sources.event(Changed(source("key")))
    assert (wanted(state, kit), looked) == ({}, [])
    assert sources.event(Synced(1, "5"))
    assert not sources.pending
    before = wanted(state, kit)
    looked.clear()
    sources.event(Changed(source("key")))
    sources.event(Changed(source("other")))
    assert looked == []
    sources.event(Changed(source("key", "new")))
    assert looked == [kit.key]
    assert wanted(state, kit) != before


def test_a_name_that_a_head_adds_is_listed_anew_and_what_left_meanwhile_is_gone(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key"), source("more"))
    state.assign(kit.assignment(unit_of(kit, "key", "more", content="content-2"), commit="c2"))
    assert sources.assigned(), "nothing was kept of the new name"
    assert sources.pending
    assert set(wanted(state, kit)) == {"key"}, "the known copy is enforced meanwhile"
    listed(sources, source("more"))  # the other one was deleted before the watch was begun anew
    assert set(wanted(state, kit)) == {"more"}
    assert not sources.assigned()


def test_what_left_git_is_forgotten(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key"))
    state.assign(kit.assignment(unit_of(kit, content="content-2"), commit="c2"))
    assert wanted(state, kit) == {}, "at once, before anybody recalculates"
    assert not sources.assigned()
    assert not sources.needed
    assert "dg==" not in repr(vars(sources))


def test_a_new_session_knows_no_copy(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key"))
    assert wanted(state, kit)
    state.forget_live()
    assert wanted(state, kit) == {}
    assert state.declared(copy_ref("key")) is None


def test_a_copy_that_nobody_watched_for_a_while_is_read_before_anything_is_decided(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key"))
    desired = state.declared(copy_ref("key"))[1]
    record = kit.settled(state, desired)
    sources.event(Deleted(source("key")))
    state.assign(kit.assignment(unit_of(kit, "key"), commit="c2"))
    sources.assigned()
    assert state.declared(copy_ref("key")) is None
    sources.event(Changed(source("key")))
    assert state.objects[copy_ref("key")] is record
    assert record.suspect


# -- what waits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "stopped"), [((0,), {0}), ((1,), {1}), ((0, 1), {0, 1}), ((), {0, 1})], ids=["web", "app", "both", "none"]
)
def test_a_missing_secret_stops_what_names_it_or_all_that_comes_later(
    kit: Any, begin: Any, users: tuple[int, ...], stopped: set[int]
) -> None:
    unit = unit_of(kit, "key", users=users)
    state, sources, _ = begin(unit)
    listed(sources)
    run = Attempt(state.unit(kit.key), None)  # type: ignore[arg-type]  # no call is made
    sources.tell(run)
    sources.hold(run)
    assert run.stopped == stopped
    [problem] = run.problems
    assert (problem.state, problem.message) == (SyncState.WAITING, "waiting for Secret gitops-secrets/key")
    assert problem.object == copy_ref("key")


def test_a_copy_that_could_not_be_applied_holds_its_users_too(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key", users=(1,)))
    listed(sources, source("key"))
    run = Attempt(state.unit(kit.key), None)  # type: ignore[arg-type]
    sources.tell(run)
    sources.hold(run)
    assert (run.stopped, run.problems) == ({1}, [])
    kit.settled(state, state.declared(copy_ref("key"))[1])
    run = Attempt(state.unit(kit.key), None)  # type: ignore[arg-type]
    sources.hold(run)
    assert run.stopped == set()


@pytest.mark.parametrize(
    ("event", "state_", "words"),
    [
        (Synced(0, "5"), SyncState.WAITING, "waiting for Secret gitops-secrets/key; the copy"),
        (Stale(0.0, ApiError(ErrorClass.FORBIDDEN, 403, message="no")), SyncState.REFUSED, "is not known"),
        (Stale(0.0, ApiError(ErrorClass.UNREACHABLE, message="no")), SyncState.RETRYING, "is not known"),
    ],
    ids=["missing", "forbidden", "unreachable"],
)
def test_where_a_copy_was_made_before_nothing_waits_and_it_is_said(
    kit: Any, begin: Any, event: Event, state_: SyncState, words: str
) -> None:
    unit = unit_of(kit, "key", users=(1,))
    state, sources, _ = begin(unit, records=(kit.record(*unit.objects, copy_ref("key")),))
    sources.event(event)
    run = Attempt(state.unit(kit.key), None)  # type: ignore[arg-type]
    sources.tell(run)
    sources.hold(run)
    assert (run.stopped, run.problems) == (set(), [])
    [remark] = run.remarks
    assert remark.state is state_
    assert words in remark.message
    assert remark.message.endswith("the copy that was made before stays as it is")


# -- a law -----------------------------------------------------------------------------------------------------------

NAMES = ("a", "b")
EVENTS: st.SearchStrategy[tuple[str, str]] = st.tuples(
    st.sampled_from(["changed", "deleted", "vanished", "synced", "stale", "session", "head", "other head"]),
    st.sampled_from(NAMES),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the kit has no state
@given(events=st.lists(EVENTS, max_size=12))
def test_no_order_of_events_makes_a_named_copy_look_undeclared(kit: Any, events: list[tuple[str, str]]) -> None:
    """I1: restarts, lists that fail, sources that come and go, and heads in between."""
    unit = unit_of(kit, *NAMES)
    state = kit.state(unit, records=(kit.record(*unit.objects, *map(copy_ref, NAMES)),))
    sources = SecretSources(state, look=lambda key: None)
    sources.assigned()
    for what, name in events:
        if what == "changed":
            sources.event(Changed(source(name)))
        elif what == "deleted":
            sources.event(Deleted(source(name)))
        elif what == "vanished":
            sources.event(Vanished(ObjectRef("", "Secret", "gitops-secrets", name), f"uid-{name}"))
        elif what == "synced":
            sources.event(Synced(0, "5"))
        elif what == "stale":
            sources.event(Stale(0.0, ApiError(ErrorClass.FORBIDDEN, 403, message="no")))
        elif what == "session":
            state.forget_live()
            sources = SecretSources(state, look=lambda key: None)
            sources.assigned()
        else:
            more = (kit.desired("more"),) if what == "other head" else ()
            state.assign(kit.assignment(kit.unit(*unit.objects, *more, namespace=SPACE, secret_refs=unit.secret_refs)))
            sources.assigned()
        now = state.unit(kit.key)
        plan = plan_unit(now, record=state.parents[kit.key], observed=state.observed(now.objects))
        assert not {m.ref for m in plan.prune} & set(map(copy_ref, NAMES))
        assert all(state.withheld(kit.other_key(), copy_ref(n)) == "it is declared" for n in NAMES)
        assert set(map(copy_ref, NAMES)) <= state.declared_by_others(kit.other_key())


# -- what is told of a refusal ---------------------------------------------------------------------------------------

LONG = "first line of a key\nsecond-line-9a8b7c"


@pytest.mark.parametrize(
    ("cls", "message", "told"),
    [
        (ErrorClass.RETRY, "cannot store {plain} or {base64}", "cannot store (hidden) or (hidden)"),
        (ErrorClass.REFUSED, "bad: second-line-9a8b7c", "bad: (hidden)"),
        (
            ErrorClass.DENIED,
            'admission webhook "x" denied the request: it begins with first li',
            'admission webhook "x" denied the request',
        ),
        (
            ErrorClass.DENIED,
            "secrets \"k\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: first",
            "secrets \"k\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
        ),
        (ErrorClass.WAITING, "namespace shop not found", "namespace shop not found"),
    ],
)
def test_an_error_about_a_secret_tells_no_value(kit: Any, begin: Any, cls: ErrorClass, message: str, told: str) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key", LONG))
    desired = state.declared(copy_ref("key"))[1]
    text = message.format(plain=LONG, base64=base64.b64encode(LONG.encode()).decode())
    assert about_secret(desired, ApiError(cls, 400, message=text)).message == told


def test_a_copy_that_cannot_follow_says_what_helps(kit: Any, begin: Any) -> None:
    state, sources, _ = begin(unit_of(kit, "key"))
    listed(sources, source("key"))
    error = ApiError(ErrorClass.REFUSED, 422, message='Secret "key" is invalid: type: field is immutable')
    said = about_secret(state.declared(copy_ref("key"))[1], error).message
    assert said.endswith("delete Secret shop/key, and it is made from the source")
    assert "dg==" not in said
