"""OwnershipTable: whose a field is when another manager writes it too (policies/ownership/*.yaml).

The first rule that is about a field decides; a field that no rule is about is taken. The lists of Flux, Argo CD and
Kluctl name managers; theirs and this one differ in that a rule is about one field of one kind, never whole objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import (
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    Document,
    LabelMetadata,
    NonBlank,
    Problem,
    Rule,
)

Answer = Literal["take", "yield", "ask"]
FieldPattern = Annotated[str, StringConstraints(pattern=r"^(/[^/]+)+$", max_length=253)]


class OwnedKind(Document):
    group: Applied[str]
    kind: Applied[NonBlank]


class OwnershipRule(Document):
    """What becomes of a field of ours that one of these managers writes."""

    id: Checked[DnsLabel]
    managers: Applied[Annotated[list[NonBlank], Field(min_length=1)]]
    """Names of field managers; `*` stands for any text."""
    subresource: Applied[str] = ""
    """Only what is written through it, such as `scale`; none: through whatever."""
    kinds: Applied[list[OwnedKind]] = []
    """Of whatever version; none: every kind."""
    paths: Applied[list[FieldPattern]] = []
    """The field and all below it. `*` is every key of a map or item of a list; `~1` is a slash in a key, `~0` a tilde
    (RFC 6901). None: every field."""
    answer: Applied[Answer]
    """take: Git's value is written over theirs. yield: the field is theirs as long as they own it and is not sent.
    ask: while the values differ the field is reported and not sent."""
    whileScaled: Applied[bool] = False
    """Only while an autoscaler targets the object; afterwards the field is ours again, although its last writer still
    owns it. Where it cannot be known whether one does, it holds."""
    source: Checked[NonBlank]
    """What says that this manager writes this field."""


class Scaler(OwnedKind):
    """A kind whose objects scale what they target: `spec.replicas` of the target is theirs from the moment that one
    exists, in Git or on the cluster, whether or not it has written anything yet."""

    target: Applied[FieldPattern]
    """Where it names its target: a map of apiVersion, kind and name in the same namespace. Without apiVersion or kind:
    a Deployment."""
    source: Checked[NonBlank]


class OwnershipTableSpec(Document):
    rules: Applied[list[OwnershipRule]] = []
    scalers: Applied[list[Scaler]] = []
    controllers: Applied[list[NonBlank]] = []
    """Managers that add fields of their own to other people's objects as part of their work; `*` stands for any text.
    What anybody else adds and Git does not declare is told as an unmanaged addition."""

    def problems(self) -> Iterator[Problem]:
        """Two rules with one id."""
        first: dict[str, int] = {}
        for position, rule in enumerate(self.rules):
            if first.setdefault(rule.id, position) != position:
                yield Problem(Rule.NOT_UNIQUE, ("rules", position, "id"), f"rules has {rule.id} twice")


class OwnershipTable(Document):
    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["OwnershipTable"]]
    metadata: Checked[LabelMetadata]
    spec: Applied[OwnershipTableSpec]
