"""evaluate(): one live object and its mapping → one verdict, plus what to remember of it.

Order: deleted → our own write not seen yet → freshness → rules → otherwise → deadline. While a status is stale only
rules that say so are tried (`fresh: any` reads the spec, `fresh: condition` needs conditions with the present
generation: a Dynamo operator that fails leaves status.observedGeneration behind but marks its Ready condition);
whatever else the old status says, the object is Progressing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gitops.readiness.expressions import ExpressionError, Scope
from gitops.readiness.freshness import (
    Freshness,
    by_managed_fields,
    observed_generation,
    parse_time,
    spec_time,
    status_mark,
)
from gitops.readiness.mapping import CompiledMapping, CompiledRule, Template
from gitops.readiness.statuses import (
    NO_FLAGS,
    PRECEDENCE,
    AppliedMark,
    Flag,
    ObjectMemory,
    ObjectStatus,
    Outlook,
    Status,
)
from gitops.readiness.texts import one_line

NO_CONTEXT: Mapping[str, Any] = MappingProxyType({})
MAX_STEPS = 8
"""Verdicts to foresee for one object; a mapping has a few hold times and one deadline."""

_STALE = frozenset({Flag.STALE})


@dataclass(slots=True)
class _Look:
    """One evaluation in progress."""

    obj: Mapping[str, Any]
    mapping: CompiledMapping
    now: float
    memory: ObjectMemory
    scope: Scope
    first: bool
    phase: str = ""
    conditions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    holds: list[tuple[int, float]] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    reason: str
    message: str = ""
    flags: frozenset[Flag] = NO_FLAGS


def evaluate(
    obj: Mapping[str, Any],
    mapping: CompiledMapping,
    *,
    now: float,
    memory: ObjectMemory | None = None,
    applied: AppliedMark | None = None,
    context: Mapping[str, Any] = NO_CONTEXT,
) -> tuple[ObjectStatus, ObjectMemory]:
    """The verdict on one live object.

    `obj` is the decoded object, `now` seconds since the epoch, `memory` what the last call for this object returned,
    `applied` our last write that changed it, `context` facts the object itself does not hold (`volumeBindingMode`).
    Never raises for what an object contains: a rule whose expression fails is skipped and named in `problems`.
    """
    metadata = _mapping(obj.get("metadata"))
    first = memory is None or memory.uid != metadata.get("uid", "")
    memory = _remember(obj, metadata, memory, now=now, applied=applied, first=first)
    if metadata.get("deletionTimestamp"):
        return _finish(_deleted(metadata), memory, now=now, started=parse_time(metadata["deletionTimestamp"]))
    look = _Look(obj, mapping, now, memory, Scope(obj, mapping.uses, context), first)
    _read_fields(look)
    generation = memory.generation
    if applied is not None and applied.generation > generation:
        verdict, raw = _Verdict(Status.PROGRESSING, "WaitingForWatch", "our last write was not seen yet", _STALE), True
        return _conclude(look, verdict, stale=raw)
    freshness = _freshness(look)
    stale = freshness is Freshness.STALE
    if freshness is Freshness.FRESH and not memory.confirmed:
        look.memory = dataclasses.replace(memory, confirmed=True)
    found = _try_rules(look, stale=stale)
    if found is None:
        found = _not_observed(look) if stale else _otherwise(look)
    elif freshness is Freshness.ASSUMED and found.status in (Status.READY, Status.COMPLETED):
        found = dataclasses.replace(found, flags=found.flags | {Flag.UNVERIFIED})
    return _conclude(look, found, stale=stale)


def foresee(
    obj: Mapping[str, Any],
    mapping: CompiledMapping,
    *,
    now: float,
    memory: ObjectMemory | None = None,
    applied: AppliedMark | None = None,
    context: Mapping[str, Any] = NO_CONTEXT,
) -> Outlook:
    """evaluate(), and what it would answer later about this same object: the object may be dropped afterwards."""
    status, kept = evaluate(obj, mapping, now=now, memory=memory, applied=applied, context=context)
    steps = [(now, status, kept)]
    for _ in range(MAX_STEPS):
        at = status.next_check
        if at is None or at <= steps[-1][0]:
            break
        status, kept = evaluate(obj, mapping, now=at, memory=kept, applied=applied, context=context)
        steps.append((at, status, kept))
    return Outlook(tuple(steps))


# -- what is remembered ----------------------------------------------------------------------------------------------


def _remember(
    obj: Mapping[str, Any],
    metadata: Mapping[str, Any],
    memory: ObjectMemory | None,
    *,
    now: float,
    applied: AppliedMark | None,
    first: bool,
) -> ObjectMemory:
    generation = metadata.get("generation")
    generation = generation if isinstance(generation, int) else 0
    if memory is not None and not first and memory.generation == generation:
        return memory
    mark = status_mark(obj)
    if first or memory is None:
        ours = applied is not None and applied.generation == generation
        return ObjectMemory(
            uid=str(metadata.get("uid", "")),
            generation=generation,
            generation_at=min(now, applied.at) if applied is not None and ours else now,
            inherited=memory is None and not ours,
            mark=mark,
        )
    return dataclasses.replace(
        memory,
        generation=generation,
        generation_at=now,
        inherited=False,
        mark=mark,
        confirmed=False,
        holds=(),
        progressing_at=None,
    )


def _started(look: _Look) -> float:
    """Since when an object met as it is may have been as it is: its youngest known change, never in the future."""
    if not (look.first and look.memory.inherited):
        return look.now
    times = [parse_time(c.get("lastTransitionTime")) for c in look.conditions.values()]
    times += [spec_time(look.obj), parse_time(_mapping(look.obj.get("metadata")).get("creationTimestamp"))]
    return min(look.now, max((t for t in times if t is not None), default=look.now))


# -- reading ---------------------------------------------------------------------------------------------------------


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _at(obj: object, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def _read_fields(look: _Look) -> None:
    phase = _at(look.obj, look.mapping.phase_path) if look.mapping.phase_path else None
    look.phase = phase if isinstance(phase, str) else ""
    conditions = _at(look.obj, look.mapping.conditions_path)
    if not isinstance(conditions, list):
        return
    ignore = look.mapping.spec.generation.mode == "ignore"
    for condition in conditions:
        if not isinstance(condition, Mapping) or not isinstance(condition.get("type"), str):
            continue
        observed = condition.get("observedGeneration")
        if not ignore and isinstance(observed, int) and observed < look.memory.generation:
            continue  # about an earlier spec
        look.conditions[condition["type"]] = condition


def _freshness(look: _Look) -> Freshness:
    rule, memory = look.mapping.spec.generation, look.memory
    if rule.mode == "ignore":
        return Freshness.FRESH
    if rule.mode != "managedFields":
        observed = observed_generation(look.obj)
        if observed is not None:
            return Freshness.FRESH if observed >= memory.generation else Freshness.STALE
        if rule.mode == "require":
            return Freshness.STALE
        own = [g for c in _all_conditions(look) if isinstance(g := c.get("observedGeneration"), int)]
        if own:
            return Freshness.FRESH if max(own) >= memory.generation else Freshness.STALE
    if memory.confirmed:
        return Freshness.FRESH
    verdict, again = by_managed_fields(look.obj, memory, now=look.now, settle=rule.settle)
    if again is not None:
        look.checks.append(again)
    return verdict


def _all_conditions(look: _Look) -> list[Mapping[str, Any]]:
    conditions = _at(look.obj, look.mapping.conditions_path)
    return [c for c in conditions if isinstance(c, Mapping)] if isinstance(conditions, list) else []


# -- rules -----------------------------------------------------------------------------------------------------------


def _try_rules(look: _Look, *, stale: bool) -> _Verdict | None:
    listed = look.mapping.spec.order == "listed"
    matched: list[CompiledRule] = []
    for number, rule in enumerate(look.mapping.rules):
        if not _matches(look, rule, number, stale=stale) or not _held(look, rule, number):
            continue
        matched.append(rule)
        if listed or rule.stop:
            break
    if not matched:
        return None
    rule = min(matched, key=lambda r: PRECEDENCE.index(r.status))
    return _Verdict(rule.status, rule.reason or _reason(look, rule), _message(look, rule), rule.flags)


def _matches(look: _Look, rule: CompiledRule, number: int, *, stale: bool) -> bool:
    if stale and rule.fresh != "any" and not (rule.fresh == "condition" and _conditions_current(look, rule)):
        return False
    if rule.phases is not None and look.phase not in rule.phases:
        return False
    if rule.settled and not _was_ready(look.memory, rule.settled):
        return False
    if not all(condition.matches(look.conditions) for condition in rule.conditions):
        return False
    if rule.expr is None:
        return True
    try:
        return look.scope.run(rule.expr) is True
    except ExpressionError as error:
        look.problems.append(one_line(f"mapping {look.mapping.name}, rule {number + 1}: {error}"))
        return False


def _was_ready(memory: ObjectMemory, proof: str) -> bool:
    return memory.ready_generation == memory.generation or (proof == "assumed" and memory.inherited)


def _conditions_current(look: _Look, rule: CompiledRule) -> bool:
    """Every condition the rule names says itself that it is about this generation."""
    named = [look.conditions.get(c.type) for c in rule.conditions]
    return bool(named) and all(c is not None and c.get("observedGeneration") == look.memory.generation for c in named)


def _held(look: _Look, rule: CompiledRule, number: int) -> bool:
    if not rule.hold:
        return True
    since = next((at for held, at in look.memory.holds if held == number), None)
    if since is None:
        since = _started(look)
    look.holds.append((number, since))
    if look.now >= since + rule.hold:
        return True
    look.checks.append(since + rule.hold)
    return False


def _otherwise(look: _Look) -> _Verdict:
    rule = look.mapping.spec.otherwise
    started = min(_started(look), look.memory.generation_at)
    if look.now < started + rule.after:
        look.checks.append(started + rule.after)
        return _Verdict(Status.PROGRESSING, "Settling", "waiting for a first status")
    message = next(filter(None, (_render(look, t) for t in look.mapping.otherwise_messages)), "")
    return _Verdict(Status(rule.status), rule.reason, message, frozenset(map(Flag, rule.flags)) or NO_FLAGS)


def _not_observed(look: _Look) -> _Verdict:
    generation = look.memory.generation
    observed = observed_generation(look.obj)
    if not look.obj.get("status"):
        return _Verdict(Status.PROGRESSING, "NoStatusYet", "its operator has not written a status", _STALE)
    if observed is not None and observed < generation:
        message = f"its operator has observed generation {observed}, the spec is at {generation}"
    else:
        message = f"its operator has not confirmed generation {generation}"
    return _Verdict(Status.PROGRESSING, "NotObserved", message, _STALE)


def _deleted(metadata: Mapping[str, Any]) -> _Verdict:
    finalizers = metadata.get("finalizers")
    waiting = ", ".join(str(f) for f in finalizers) if isinstance(finalizers, list) else ""
    return _Verdict(Status.TERMINATING, "Deleting", one_line(f"waiting for {waiting}" if waiting else ""))


# -- words -----------------------------------------------------------------------------------------------------------


def _reason(look: _Look, rule: CompiledRule) -> str:
    """The operator's own reason: of the first condition the rule names, else of a condition that is not True."""
    for wanted in rule.conditions:
        found = look.conditions.get(wanted.type)
        if found is not None and isinstance(found.get("reason"), str) and found["reason"]:
            return one_line(found["reason"], 80)
    for name in ("Ready", "Available"):
        found = look.conditions.get(name)
        if found is not None and found.get("status") != "True" and isinstance(found.get("reason"), str):
            return one_line(found["reason"], 80)
    return one_line(look.phase, 80) or str(rule.status)


def _message(look: _Look, rule: CompiledRule) -> str:
    if rule.message_expr is not None:
        try:
            text = one_line(look.scope.run(rule.message_expr))
        except ExpressionError as error:
            look.problems.append(one_line(f"mapping {look.mapping.name}, message: {error}"))
            text = ""
        if text:
            return text
    for template in rule.messages:
        if text := _render(look, template):
            return text
    return ""


def _render(look: _Look, template: Template) -> str:
    """A filled template; empty when one of its fields is missing or empty."""
    parts: list[str] = []
    for part in template:
        if isinstance(part, str):
            parts.append(part)
            continue
        value: Any
        if part[0] == "phase":
            value = look.phase
        elif part[0] == "conditions":
            value = look.conditions.get(part[1], {}).get(part[2])
        else:
            value = _at(look.obj, part[1:])
        if value is None or value == "" or isinstance(value, (Mapping, list)):
            return ""
        parts.append(str(value))
    return one_line("".join(parts))


# -- conclusion ------------------------------------------------------------------------------------------------------


def _conclude(look: _Look, verdict: _Verdict, *, stale: bool) -> tuple[ObjectStatus, ObjectMemory]:
    """Apply the deadline, then close the look."""
    memory, started = look.memory, _started(look)
    progressing_at: float | None = None
    if verdict.status is Status.PROGRESSING:
        progressing_at = memory.progressing_at if memory.progressing_at is not None else started
        verdict = _overdue(look, verdict, progressing_at)
    ready = memory.ready_generation
    if verdict.status is Status.READY and not stale:
        ready = memory.generation
    return _finish(
        verdict,
        memory,
        now=look.now,
        started=started,
        check=min(look.checks, default=None),
        problems=tuple(look.problems),
        holds=tuple(look.holds),
        progressing_at=progressing_at,
        ready_generation=ready,
    )


def _overdue(look: _Look, verdict: _Verdict, progressing_at: float) -> _Verdict:
    for deadline in look.mapping.deadlines:
        if deadline.expr is not None:
            try:
                if look.scope.run(deadline.expr) is not True:
                    continue
            except ExpressionError as error:
                look.problems.append(one_line(f"mapping {look.mapping.name}, deadline: {error}"))
                continue
        if look.now < progressing_at + deadline.after:
            look.checks.append(progressing_at + deadline.after)
            return verdict
        message = one_line(f"not ready in time: {verdict.message or verdict.reason}")
        return _Verdict(deadline.status, deadline.reason, message, verdict.flags)
    return verdict


def _finish(
    verdict: _Verdict,
    memory: ObjectMemory,
    *,
    now: float,
    started: float | None,
    check: float | None = None,
    problems: tuple[str, ...] = (),
    **changes: Any,
) -> tuple[ObjectStatus, ObjectMemory]:
    """`changes` are fields of the memory that this look has moved."""
    if memory.status is verdict.status:
        since = memory.since
    else:
        since = now if started is None else min(now, started)
    memory = dataclasses.replace(memory, status=verdict.status, since=since, **changes)
    status = ObjectStatus(
        status=verdict.status,
        reason=verdict.reason,
        message=verdict.message,
        flags=verdict.flags,
        since=since,
        next_check=check,
        settled=memory.ready_generation == memory.generation,
        problems=problems,
    )
    return status, memory
