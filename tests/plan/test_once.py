"""What the parent remembers of things that are done once, as laws over any order of heads, losses and crashes."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef, UnitKey, WorkloadKind
from gitops.overlays.provenance import Provenance
from gitops.plan import once
from gitops.plan.parents import Member, ParentRecord
from gitops.plan.planning import Observed
from gitops.plan.units import DesiredObject, Handling, Stage, Trigger

KEY = UnitKey(WorkloadKind.BUNDLE, "base", "", ClusterName("a"))
REF = ObjectRef("nvidia.com", "DynamoGraphDeployment", "demo", "chat")


def desired(handling: Handling, content: str = "") -> DesiredObject:
    origin = Origin("a.yaml", 1)
    payload = canonical_json({"spec": content})
    return DesiredObject(
        REF,
        GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment"),
        payload,
        digest(payload),
        origin,
        Provenance.build({}, origin),
        Stage.CUSTOM,
        handling=handling,
    )


def restart(value: int) -> DesiredObject:
    return desired(Handling(triggers=(Trigger(("spec", "restart"), json.dumps({"id": value}).encode()),)))


STEPS = st.one_of(
    st.tuples(st.just("head"), st.integers(0, 4)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("crash before"), st.just(0)),
    st.tuples(st.just("crash after the object"), st.just(0)),
)


@given(st.lists(STEPS, min_size=1, max_size=30))
def test_each_value_is_started_at_most_once_and_never_on_a_new_object(steps: list[tuple[str, int]]) -> None:
    record, live, births, value = ParentRecord(KEY), "", 0, 0
    started: list[int] = []
    born_with: dict[str, int] = {}
    for step, number in steps:
        if step == "lose":
            live = ""
            continue
        value = number if step == "head" else value
        item = restart(value)
        look = once.look([item], record, {REF: Observed(live)} if live else {})
        # what the unit's work does, in its order: the words, the object, the triggers, the parent
        record = replace(record, satisfied=once.remembered(look.words))
        if step == "crash before":
            continue
        if not live:
            births += 1
            live = f"uid-{births}"
            born_with[live] = value
        if step == "crash after the object":
            continue
        words = dict(record.satisfied)
        for due in look.due:
            assert due.uid == live
            assert born_with[live] != value
            started.append(value)
            words |= once.satisfied(words, REF, due.trigger)
        members = (Member(REF, "v1beta1", live),)
        record = replace(record, members=members, satisfied=once.remembered(words, [REF]))
    assert len(started) == len(set(started))


def test_no_more_values_are_remembered_than_a_parent_should_hold() -> None:
    words: dict[str, str] = {}
    for value in range(once.MOST_VALUES + 7):
        (trigger,) = restart(value).handling.triggers
        words |= once.satisfied(words, REF, trigger)
    (word,) = words.values()
    assert len(word.split()) == once.MOST_VALUES
    assert once.is_satisfied(words, REF, trigger)


def test_what_was_made_once_stays_known_when_it_left_the_unit_and_a_trigger_does_not() -> None:
    (trigger,) = restart(1).handling.triggers
    words = {
        **once.satisfied({}, REF, trigger),
        **once.making(desired(Handling(once=True)), once.MADE),
        **once.recreating(desired(Handling()), "uid"),
    }
    assert len(once.remembered(words, [REF])) == 3
    (kept,) = once.remembered(words, [])
    assert kept[0].startswith("once ")


def test_only_another_object_than_the_deleted_one_counts_as_made_anew() -> None:
    before, after = desired(Handling(), "a"), desired(Handling(), "b")
    words = once.recreating(after, "uid-1")
    assert not once.recreated(words, after, "uid-1")  # the delete failed: it may be tried again
    assert once.recreated(words, after, "uid-2")
    assert not once.recreated(words, before, "uid-2")  # other content
    assert once.is_recreating(words, REF, "uid-1")
    assert not once.is_recreating(words, REF, "")
