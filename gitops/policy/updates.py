"""Changes that a living object does not take: what its operator or API server would refuse of an update.

Two states of one object are compared: what was declared before (`gitops validate --base`), or what is live and what it
would become; by the rules of operator types, and by what schemas say of changes. Nothing here deletes or recreates
anything; a refusal says what would be needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef, WorkloadRef
from gitops.model.object_rules import FieldRule, ImmutableField
from gitops.overlays.provenance import Provenance
from gitops.policy import codes
from gitops.policy.cel.expressions import EvaluationError
from gitops.policy.field_rules import Problem, named_values_at
from gitops.policy.operator_rules import MOST_PLACES, applies, by_place, judged, version_of
from gitops.policy.registry import OperatorRegistry
from gitops.policy.rule_expressions import require_plain, scope
from gitops.policy.schemas.schema_set import NO_CLUSTER_SCHEMAS, ClusterSchemas
from gitops.policy.verdicts import quoted

_ABSENT: Any = object()
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Update:
    """One object before and after; `provenance` tells where the values of `after` are written. `before` has only what
    is declared or was; `live` is all of the object, where it is known."""

    cluster: ClusterName
    ref: ObjectRef
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    provenance: Provenance
    workload: WorkloadRef | None = None
    live: Mapping[str, Any] | None = None
    recreate: bool = False  # its author allows that it is deleted and made again


def check_updates(
    registry: OperatorRegistry, updates: Iterable[Update], schemas: ClusterSchemas = NO_CLUSTER_SCHEMAS
) -> tuple[Finding, ...]:
    """A finding for each change that its object does not take, at the line of the new value."""
    return tuple(found for update in updates for found in _check(registry, update, schemas))


def _check(registry: OperatorRegistry, update: Update, schemas: ClusterSchemas) -> Iterator[Finding]:
    ruled = list(update_problems(registry, update.ref, update.before, update.after))
    told = {path for _, _, path in ruled}
    of_schema = [p for p in _schema_problems(update, schemas) if p[2] not in told]
    for problem in (*ruled, *of_schema):
        code, message, path = problem
        anew = code == codes.NEEDS_NEW_OBJECT or (code == codes.UPDATE_REFUSED and problem in of_schema)
        if update.recreate and anew:
            code, message = codes.RECREATES, f"it is deleted and made anew for this change: {message}"
        origin = update.provenance.origin_of(path)
        text = f"{update.ref.kind} {update.ref.name}: {message}"
        yield finding(code, text, origin, object=update.ref, workload=update.workload, path=path)


def update_problems(
    registry: OperatorRegistry, ref: ObjectRef, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Problem]:
    """(code, message, path) of each change that is refused."""
    known, sets = registry.rules_of(ref.group_kind), registry.component_sets(ref.group_kind)
    version = version_of(after)
    on_update = [rule for rule in known.rules if rule.about == "change" and applies(rule.versions, version)]
    if not (known.immutable or on_update or sets) or before == after:
        return
    if before.get("apiVersion") != after.get("apiVersion"):
        message = f"apiVersion changes from {before.get('apiVersion')} to {after.get('apiVersion')}"
        yield codes.UPDATE_UNCHECKED, f"{message}: what else changes was not compared", ("apiVersion",)
        return
    for field in known.immutable:
        yield from _changed(field, before, after)
    for parts in sets:
        lost, added = parts.names(before) - parts.names(after), parts.names(after) - parts.names(before)
        if lost or added:
            words = [f"loses {_listed(lost)}"] * bool(lost) + [f"gains {_listed(added)}"] * bool(added)
            message = f"{dotted(parts.container)} {' and '.join(words)}; the set stays as it is while the object lives"
            yield codes.NEEDS_NEW_OBJECT, message, parts.container
    try:
        require_plain(before)
        require_plain(after)
    except EvaluationError as error:
        yield codes.UPDATE_UNCHECKED, f"rules about changes could not be checked: {error}", ()
        return
    for place, group in by_place(on_update).items():
        was = {identity: value for identity, _, value in named_values_at(before, place)}
        for identity, path, value in islice(named_values_at(after, place), MOST_PLACES):
            if identity in was:
                values = scope(self=value, oldSelf=was[identity], object=after, oldObject=before)
                for rule in group:
                    yield from _refused(rule, path, values)


def _schema_problems(update: Update, schemas: ClusterSchemas) -> Iterator[Problem]:
    """What the schema refuses of the change alone: transition rules, and what Kubernetes' own kinds do not let go."""
    schema_of, after = schemas.get(update.cluster), update.after
    group, _, version = str(after.get("apiVersion")).rpartition("/")
    schema = None if schema_of is None else schema_of(GroupVersionKind(group, version, update.ref.kind))
    if schema is None or update.before.get("apiVersion") != after.get("apiVersion"):
        return
    new = schema.judge(after)
    over = schema.judge(after, update.live or update.before, declared=update.live is None)
    for problem in over.problems:
        if problem not in new.problems:
            where = f"{dotted(problem.path)}: " if problem.path else ""
            yield codes.UPDATE_REFUSED, f"{where}{problem.message} (rule: {quoted(problem.rule)})", problem.path
    for sentence in over.unchecked:
        if sentence not in new.unchecked:
            yield codes.UNCHECKED, f"not verified: its change: {sentence}", ()


def _changed(field: ImmutableField, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Problem]:
    parent, _, last = field.path.rpartition("/")
    was = {identity: value for identity, _, value in named_values_at(before, parent)}
    for identity, path, holder in named_values_at(after, parent):
        old = was.get(identity)
        if isinstance(holder, dict) and isinstance(old, dict):
            leaves = list(_leaves(old.get(last, _ABSENT), holder.get(last, _ABSENT), (*path, last)))
            for leaf in leaves[:_LISTED]:
                message = f"{dotted(leaf)} is immutable, it needs a new object name: {field.message} ({field.source})"
                yield codes.NEEDS_NEW_OBJECT, message, leaf


def _leaves(old: Any, new: Any, path: Path) -> Iterator[Path]:
    """The deepest paths at which two values differ; nothing and an empty map or list are the same."""
    if old == new or (_is_nothing(old) and _is_nothing(new)):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _leaves(old.get(key, _ABSENT), new.get(key, _ABSENT), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(before, after, (*path, position))
    else:
        yield path


def _is_nothing(value: Any) -> bool:
    return value is _ABSENT or value in ({}, [])


def _refused(rule: FieldRule, path: Path, values: Any) -> Iterator[Problem]:
    for code, message, at in judged(rule, path, values):
        yield codes.UPDATE_REFUSED if code == codes.RULE_BROKEN else code, message, at


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(found[:_LISTED]) + more
