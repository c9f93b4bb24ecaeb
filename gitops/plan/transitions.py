"""Rules of schemas about changes: what an API server refuses of an update though it takes the same as a new object.

A CEL rule that mentions `oldSelf`, an immutable field of Kubernetes' own kinds, a map that loses its last member. What
is wrong with the new state alone is told where it is compiled, and not again here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.plan.field_paths import spelled
from gitops.policy import codes
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.updates import Update

SchemaOf = Callable[[ClusterName, GroupVersionKind], KindSchema | None]
"""The schema of a kind on a cluster, as objects there are judged."""


@dataclass(frozen=True, slots=True)
class Transition:
    """An update on a cluster. `live` is the object as it is there, with its managedFields; without one, all of
    `update.before` was declared by us."""

    update: Update
    cluster: ClusterName
    live: Mapping[str, Any] | None = None

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind.parse(self.update.after["apiVersion"], self.update.ref.kind)


def refused_transitions(transitions: Iterable[Transition], schema_of: SchemaOf) -> Iterator[Finding]:
    """A finding for each thing that only the change is refused for, at the line of the new value. Between two versions
    of a kind nothing is compared: that is told with the operator's rules."""
    for transition in transitions:
        update = transition.update
        schema = schema_of(transition.cluster, transition.gvk)
        if schema is not None and update.before.get("apiVersion") == update.after.get("apiVersion"):
            yield from _refused(transition, schema)


def _refused(transition: Transition, schema: KindSchema) -> Iterator[Finding]:
    update = transition.update
    alone = schema.judge(update.after)
    if transition.live is None:
        changed = schema.judge(update.after, update.before, sole_owner=True)
    else:
        changed = schema.judge(update.after, transition.live)
    for problem in changed.problems:
        if problem not in alone.problems:
            where = f"{spelled(problem.path)}: " if problem.path else ""
            text = f"{where}{problem.message} (rule: {problem.rule}); refused by cluster {transition.cluster}"
            yield _finding(update, codes.UPDATE_REFUSED, text, problem.path)
    for sentence in changed.unchecked if not changed.problems else ():
        if sentence not in alone.unchecked:
            yield _finding(update, codes.UPDATE_UNCHECKED, f"{sentence} (cluster {transition.cluster})", ())


def _finding(update: Update, code: str, text: str, path: tuple[str | int, ...]) -> Finding:
    message = f"{update.ref.kind} {update.ref.name}: {text}"
    origin = update.provenance.origin_of(path)
    return finding(code, message, origin, object=update.ref, workload=update.workload, path=path)
