"""What is done once: each value of a trigger, each object of a once-only kind, each recreation of an object.

The parent remembers it (`ParentRecord.satisfied`), so that no other daemon, no lost object and no revert does it again.
Words about what may not happen twice are stored before it is begun; a trigger is idempotent for the object it is sent
to, so its word follows it. Pure: names, words and decisions; the unit's work stores and sends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gitops.manifests.canonical import digest
from gitops.manifests.lines import dotted
from gitops.model.identity import ObjectRef
from gitops.plan.parents import ParentRecord
from gitops.plan.planning import Observed
from gitops.plan.units import DesiredObject, Trigger

MOST_VALUES = 50
"""Values of one trigger that are remembered, newest last."""

BEGUN = "begun"
MADE = "made"

Words = dict[str, str]


@dataclass(frozen=True, slots=True)
class Due:
    """A trigger to be sent to the live object with this uid."""

    object: DesiredObject
    trigger: Trigger
    uid: str

    @property
    def place(self) -> str:
        return dotted(self.trigger.path)


@dataclass(frozen=True, slots=True)
class Look:
    """What an attempt at a unit starts from. `words`: what the parent must say before anything is written. `due`:
    triggers to be sent after their objects. `made`: objects that are not there and are not made (again). `problems`:
    why some of those are not what Git wants."""

    words: Words
    due: tuple[Due, ...] = ()
    made: frozenset[ObjectRef] = frozenset()
    problems: tuple[tuple[ObjectRef, str], ...] = ()


def look(
    objects: Iterable[DesiredObject],
    record: ParentRecord,
    observed: Mapping[ObjectRef, Observed],
    *,
    begun: Collection[ObjectRef] = (),
) -> Look:
    """Hold what is declared against what was done. `begun`: what this daemon itself began to make; it may go on, since
    it would have seen the object.

    A trigger's new value is sent only to an object that this unit has made, as its uid in the parent proves. One that
    is about to be made, or is met for the first time, starts with the value as satisfied: it needs no restart, and some
    operators refuse it (`spec.restart` of a new DynamoGraphDeployment).
    """
    words, uids = dict(record.satisfied), record.member_uids()
    due: list[Due] = []
    made: set[ObjectRef] = set()
    problems: list[tuple[ObjectRef, str]] = []
    for item in objects:
        seen = observed.get(item.ref)
        for trigger in item.handling.triggers:
            if is_satisfied(words, item.ref, trigger):
                continue
            if seen is None or uids.get(item.ref) != seen.uid:
                words |= satisfied(words, item.ref, trigger)
            elif not seen.deleting:
                due.append(Due(item, trigger, seen.uid))
        if not item.handling.once:
            continue
        stage = made_once(words, item.ref)
        if seen is not None:
            words |= _lives(words, item)
        elif stage == MADE or (stage == BEGUN and item.ref not in begun):
            made.add(item.ref)
            if problem := _not_again(words, item):
                problems.append((item.ref, problem))
    return Look(words, tuple(due), frozenset(made), tuple(problems))


def _not_again(words: Mapping[str, str], item: DesiredObject) -> str:
    stage, _, content = words[_once(item.ref)].partition(" ")
    if stage == BEGUN:
        return "its making was begun, and nobody saw whether it came to be: it may have done its work. " + _RENAME
    if content != _short(item.payload):
        return "it was made once already, with other content, and is gone. " + _RENAME
    return ""


_RENAME = "It is made again only under a new name"


def _lives(words: Mapping[str, str], desired: DesiredObject) -> Words:
    """The word about a once-only object that lives: it is made, with whatever content that was begun."""
    content = words.get(_once(desired.ref), "").partition(" ")[2]
    return {_once(desired.ref): f"{MADE} {content or _short(desired.payload)}"}


def is_satisfied(words: Mapping[str, str], ref: ObjectRef, trigger: Trigger) -> bool:
    """Was this value sent before, or there when the object was made?"""
    return _short(trigger.value) in words.get(_trigger(ref, trigger), "").split()


def satisfied(words: Mapping[str, str], ref: ObjectRef, trigger: Trigger) -> Words:
    """The word that this value is done with, beside those before it."""
    name = _trigger(ref, trigger)
    return {name: " ".join([*words.get(name, "").split(), _short(trigger.value)][-MOST_VALUES:])}


def made_once(words: Mapping[str, str], ref: ObjectRef) -> str:
    """BEGUN: its making was begun, and nobody saw the end of it; MADE: it was there; "" neither."""
    return words.get(_once(ref), "").partition(" ")[0]


def making(desired: DesiredObject, stage: str) -> Words:
    return {_once(desired.ref): f"{stage} {_short(desired.payload)}"}


def unmade(words: Mapping[str, str], ref: ObjectRef) -> Words:
    """The words without that of an object whose making was certainly refused."""
    return {name: word for name, word in words.items() if name != _once(ref)}


def recreating(desired: DesiredObject, uid: str) -> Words:
    """The word that the object with this uid is deleted for this content."""
    return {_recreate(desired.ref): f"{desired.digest.hex()} {uid}"}


def recreated(words: Mapping[str, str], desired: DesiredObject, uid: str) -> bool:
    """Was another object than this one deleted for this content before?"""
    content, _, deleted = words.get(_recreate(desired.ref), "").partition(" ")
    return content == desired.digest.hex() and deleted != uid


def is_recreating(words: Mapping[str, str], ref: ObjectRef, uid: str) -> bool:
    """Is the object with this uid one that we delete to make it anew?"""
    return bool(uid) and words.get(_recreate(ref), "").partition(" ")[2] == uid


def remembered(words: Mapping[str, str], refs: Iterable[ObjectRef] | None = None) -> tuple[tuple[str, str], ...]:
    """As a ParentRecord has it. With `refs`: of other objects only what was made once is kept, since they would start
    anew."""
    if refs is None:
        return tuple(sorted(words.items()))
    subjects = {str(ref) for ref in refs} if words else ()
    kept = ((n, w) for n, w in words.items() if n.startswith("once ") or n.partition(" ")[2] in subjects)
    return tuple(sorted(kept))


def _trigger(ref: ObjectRef, trigger: Trigger) -> str:
    return f"{dotted(trigger.path)} {ref}"


def _once(ref: ObjectRef) -> str:
    return f"once {ref}"


def _recreate(ref: ObjectRef) -> str:
    return f"recreate {ref}"


def _short(value: bytes) -> str:
    return digest(value)[:8].hex()
