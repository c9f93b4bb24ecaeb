"""StatusMapping: how the live state of a kind is read. policies/status/*.yaml, `apiVersion: gitops/v1alpha1`.

A mapping is data, so that an operator becomes known by adding a file. Expressions are CEL over `self` (the live object)
and `context` (facts the engine adds, such as a storage class's binding mode). gitops/readiness/mapping.py compiles it.

Rules are tried in listed order and the first match wins (`order: listed`), or all are tried and the worst status wins
(`order: precedence`, what imported mappings need; a matching rule with `stop: true` ends the list). All keys of one
rule must hold.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gitops.model.documents import ApiVersion, Applied, Checked, Document, LabelMetadata

StatusWord = Literal["Unknown", "Progressing", "Ready", "Degraded", "Failed", "Completed", "Suspended", "Terminating"]
FlagWord = Literal["scaledToZero", "unverified"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(value: Any) -> Any:
    """`90s`, `15m`, `6h`, `500ms` → seconds. Anything else is returned as it is, for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    for unit, factor in _UNITS.items():
        number = value.removesuffix(unit)
        if number != value and number.isascii() and number.isdecimal():
            return int(number) * factor
    raise ValueError("a duration is a whole number with ms, s, m or h, such as 90s")


Duration = Annotated[float, BeforeValidator(seconds_of, json_schema_input_type=str), Field(ge=0)]
Expression = Annotated[str, Field(min_length=1, max_length=2000)]
FieldPath = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)]


class KindMatch(Document):
    """A kind the mapping is for; `versions: []` means any. `group: "*"`, `kind: "*"` is the rule for unknown kinds."""

    group: Applied[str]
    kind: Applied[str]
    versions: Applied[list[str]] = Field(default_factory=list)


class Generation(Document):
    """When a status is about the present spec (freshness).

    - auto: status.observedGeneration where there is one, else that of the conditions, else there is nothing to check.
    - require: status.observedGeneration must be present and current.
    - ignore: the kind has no such thing, or it counts something else.
    - managedFields: the operator writes no observedGeneration; a status counts when it was written after the spec
      changed, or `settle` after that change when the operator had nothing to write.
    """

    mode: Applied[Literal["auto", "require", "ignore", "managedFields"]] = "auto"
    settle: Applied[Duration] = 10.0


class PhaseMatch(Document):
    in_: Applied[Annotated[list[str], Field(alias="in", min_length=1)]]


class ReasonMatch(Document):
    in_: Applied[Annotated[list[str], Field(alias="in")]] = Field(default_factory=list)
    notIn: Applied[list[str]] = Field(default_factory=list)


class ConditionMatch(Document):
    """One condition by type. `notTrue` also holds for a condition that is absent (most controllers omit False ones)."""

    type: Applied[str]
    status: Applied[Literal["True", "False", "Unknown"] | None] = None
    notTrue: Applied[bool] = False
    absent: Applied[bool] = False
    reason: Applied[ReasonMatch | None] = None


class StatusRule(Document):
    status: Applied[StatusWord]
    phase: Applied[PhaseMatch | None] = None
    conditions: Applied[list[ConditionMatch]] = Field(default_factory=list)
    expr: Applied[Expression | None] = None
    settled: Applied[Literal["known", "assumed"] | None] = None
    """Only when this generation has been Ready before: tells an outage from a rollout. `assumed` also takes an object
    that was met at this generation, for rules whose other keys prove that a rollout once ended."""
    fresh: Applied[Literal["object", "condition", "any"]] = "object"
    """What must be fresh: the status, the conditions named here, or nothing (rules on spec only)."""
    hold: Applied[Duration] = 0.0
    """Counts only after it matched for that long without a break."""
    stop: Applied[bool] = False
    flags: Applied[list[FlagWord]] = Field(default_factory=list)
    reason: Applied[str | None] = None
    message: Applied[list[str]] = Field(default_factory=list)
    """Templates such as `{conditions.Ready.message}` or `{phase}`; the first that is not empty is taken."""
    messageExpr: Applied[Expression | None] = None


class Otherwise(Document):
    """What holds when no rule matches, `after` that long at this generation; Progressing before that."""

    status: Applied[StatusWord] = "Unknown"
    after: Applied[Duration] = 0.0
    flags: Applied[list[FlagWord]] = Field(default_factory=list)
    reason: Applied[str] = "NoRuleMatches"
    message: Applied[list[str]] = Field(default_factory=list)


class Deadline(Document):
    """Progressing for longer than `after` becomes `status`. The first whose `expr` holds (or has none) counts."""

    after: Applied[Duration]
    expr: Applied[Expression | None] = None
    status: Applied[StatusWord] = "Failed"
    reason: Applied[str] = "ProgressDeadline"


class StatusMappingSpec(Document):
    match: Applied[Annotated[list[KindMatch], Field(min_length=1)]]
    order: Applied[Literal["listed", "precedence"]] = "listed"
    generation: Applied[Generation] = Generation()
    phase: Applied[FieldPath | None] = None
    conditions: Applied[FieldPath] = "status.conditions"
    rules: Applied[list[StatusRule]] = Field(default_factory=list)
    otherwise: Applied[Otherwise] = Otherwise()
    deadlines: Applied[list[Deadline]] = Field(default_factory=list)
    counted: Applied[bool] = True
    """False for kinds that are ready by existing: they are no part of `ready 3/4`."""


class StatusMapping(Document):
    """How a kind's live state becomes one of our statuses."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["StatusMapping"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[StatusMappingSpec]
