"""Rules of an OperatorType about objects of its kinds: what the operator's webhooks and controllers refuse, as data.

Each names a kind and a path. Paths have `*` for every item of a list, told apart by `name`, or every key of a map.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from gitops.model.documents import Applied, Checked, Document, NonBlank

PartsPath = Annotated[str, StringConstraints(pattern=r"^(/[^/*]+)+/\*(/[^/*]+)?$", max_length=253)]
"""`/spec/services/*` are the keys of a map, `/spec/components/*/name` the items of a list by that field."""
FieldPath = Annotated[str, StringConstraints(pattern=r"^(/[^/]+)+$", max_length=253)]
RuleId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=63)]
Sentence = Annotated[str, StringConstraints(pattern=r"\S", max_length=400)]
Expression = Annotated[str, StringConstraints(pattern=r"\S", max_length=2000)]


def _no_star(path: str) -> str:
    if "*" in path.split("/"):
        raise ValueError("a path without *")
    return path


PlainPath = Annotated[FieldPath, AfterValidator(_no_star)]


class KindRule(Document):
    """A rule about objects of one kind."""

    group: Checked[str]
    kind: Checked[NonBlank]


class NameLimit(KindRule):
    """The object's name plus the longest name found at `parts` may not exceed `limit` characters.

    `parts` is a path with `*` for every item of a list or every key of a map; ending in `*` means the keys themselves.
    Without it the object's name alone is limited.
    """

    parts: Checked[str] = ""
    limit: Checked[Annotated[int, Field(ge=1)]]
    unlessAnnotation: Checked[str] = ""
    """`key=value`: does not hold for an object with this annotation."""


class ComponentSet(KindRule):
    """Names of the parts of an object whose set must not change once it lives, and should not by an overlay's accident.

    `parts` is a path to a map whose keys they are, or to a list with the field that names its items.
    """

    parts: Checked[PartsPath]


class FixedField(KindRule):
    """A field that may not go away once it is set."""

    path: Checked[FieldPath]


class TextField(KindRule):
    """A field that is text and in which people write numbers, such as the tag of an image."""

    path: Checked[FieldPath]


class FieldRule(KindRule):
    """A CEL expression that must hold, for what the operator's own schemas do not say.

    Variables: `self`, the value at `path` (without one, the object); `object`, the whole object; in a rule about a
    change also `oldSelf` and `oldObject`, what was there before. Where nothing is at `path` the rule does not apply;
    one about a change applies where something was there before and is there now. `id` is unique within the type.
    """

    id: Checked[RuleId]
    versions: Checked[list[NonBlank]] = []
    """Versions of the kind that it is about; none = all."""
    path: Checked[FieldPath | Literal[""]] = ""
    at: Checked[PlainPath | Literal[""]] = ""
    """Path below `path` whose line a finding names."""
    rule: Checked[Expression]
    about: Checked[Literal["manifest", "change"]] = "manifest"
    """manifest: holds for every manifest, since it must be possible to make its object again; change: for an update."""
    severity: Checked[Literal["error", "warning"]] = "error"
    """error: the operator refuses it, or it can never work; warning: it does what few people want."""
    message: Checked[Sentence]
    source: Checked[Sentence]
    """What says so: the webhook, controller or page of the operator."""


class EmbeddedObject(KindRule):
    """The value at `path` is the spec of another kind of the type: rules about manifests of that kind hold there
    too, though the operator looks only when it makes the object. For rules that say nothing of `object`."""

    path: Checked[FieldPath]
    holds: Checked[NonBlank]


class RequiredField(KindRule):
    """A field that must be written out, because its default is not what it seems."""

    versions: Checked[list[NonBlank]] = []
    path: Checked[PlainPath]
    message: Checked[Sentence]
    source: Checked[Sentence]


class ImmutableField(KindRule):
    """A field that keeps its value as long as the object lives: set, changed or removed, it needs a new object."""

    path: Checked[FieldPath]
    message: Checked[Sentence]
    """What is to be done, and what it costs."""
    source: Checked[Sentence]


class OnceOnlyKind(KindRule):
    """A kind whose objects do something once: made again, they do it again. An object is made once under its name, and
    never again when it is gone."""

    message: Checked[Sentence]
    source: Checked[Sentence]


class TriggerField(KindRule):
    """A field that starts something whenever its value changes. It describes no state, so each value is sent once, when
    Git changes it on an object that lives: the next cluster or a new object would start it again, or refuse it."""

    path: Checked[PlainPath]
    message: Checked[Sentence]
    source: Checked[Sentence]


class HandoverField(KindRule):
    """A field that belongs to somebody else while a CEL expression over its owner (`self`) holds, in Git or on the
    cluster: sent when the object is made, and left alone from then on."""

    path: Applied[FieldPath]
    holder: Applied[NonBlank]
    """Who writes it then."""
    when: Applied[Expression]
    source: Checked[Sentence]
