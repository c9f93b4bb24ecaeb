"""From merged objects to a unit: cleaned, judged, placed in a namespace, marked as ours, ordered, digested.

Cleaning and judging depend on the merged object only and happen once for all instances that share their patches;
finishing adds what differs between instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import dotted, hash_of
from gitops.manifests.quantities import canonical_resources
from gitops.manifests.sanitizing import prepare_body
from gitops.model.catalogue import finding
from gitops.model.clusters import NamespaceTemplate
from gitops.model.findings import Finding, Origin
from gitops.model.identity import GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.model.kinds import NAMESPACE
from gitops.overlays.provenance import Provenance
from gitops.plan import codes
from gitops.plan.ordering import order
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.patching import MergedObject
from gitops.plan.references import Node
from gitops.plan.sending import without
from gitops.plan.units import (
    PART_OF_LABEL,
    PLAIN,
    RECONCILER_LABEL,
    SOURCE_ANNOTATION,
    DesiredObject,
    Handling,
    Mode,
    Trigger,
)
from gitops.policy import codes as policy_codes
from gitops.policy.annotations import DEPENDS_ON, Dependency, Wishes
from gitops.policy.claimed import scaled_beside
from gitops.policy.field_rules import values_at
from gitops.policy.objects import judge
from gitops.policy.registry import KindRules, OperatorRegistry


@dataclass(frozen=True, slots=True)
class CleanObject:
    """A merged object as it is judged, and sent if no rule is broken. `body` is shared between instances: read only."""

    ref: ObjectRef
    gvk: GroupVersionKind
    body: Mapping[str, Any]
    provenance: Provenance
    depends_on: tuple[Dependency, ...]
    handling: Handling = PLAIN


@dataclass(frozen=True, slots=True)
class Marks:
    """What every object of a unit carries."""

    reconciler: str
    part_of: str

    @classmethod
    def of(cls, reconciler: str, key: UnitKey) -> Marks:
        return cls(reconciler, applyset_id(parent_name(key)))

    def apply(self, body: Mapping[str, Any], *, source: str, namespace: str) -> dict[str, Any]:
        """A copy of the body with labels, annotation and, unless "", namespace."""
        metadata = dict(body["metadata"])
        metadata["labels"] = {
            **metadata.get("labels", {}),
            RECONCILER_LABEL: self.reconciler,
            PART_OF_LABEL: self.part_of,
        }
        metadata["annotations"] = {**metadata.get("annotations", {}), SOURCE_ANNOTATION: source}
        if namespace:
            metadata["namespace"] = namespace
        return {**body, "metadata": metadata}


def clean(
    merged: Iterable[MergedObject], *, workload: WorkloadRef | None, registry: OperatorRegistry
) -> tuple[tuple[CleanObject, ...], tuple[Finding, ...]]:
    """Take out what is never sent, judge the rest, make quantities canonical. With an error among the findings the
    objects are good for further findings only."""
    objects: list[CleanObject] = []
    findings: list[Finding] = []
    for item in merged:
        ref = item.base.ref
        body, notes = prepare_body(item.body)
        for note in notes:
            origin = item.provenance.origin_of(note.path)
            message = f"{ref.kind} {ref.name}: {note.message}"
            findings.append(finding(note.code, message, origin, object=ref, workload=workload, path=note.path))
        judged = judge(body, ref=ref, provenance=item.provenance, workload=workload, registry=registry)
        findings += judged.findings
        body = canonical_resources(body)
        handling = _take_handling(body, judged.wishes, registry.rules_of(ref.group_kind))
        objects.append(CleanObject(ref, item.base.gvk, body, item.provenance, judged.wishes.depends_on, handling))
    return tuple(objects), tuple(findings)


def _take_handling(body: dict[str, Any], wishes: Wishes, rules: KindRules) -> Handling:
    """What is special about writing an object. Triggers are taken out of `body`, which is changed."""
    triggers = []
    for rule in rules.triggers:
        for path, value in values_at(body, rule.path):
            triggers.append(Trigger(tuple(str(part) for part in path), canonical_json(value)))
    for trigger in triggers:
        without(body, trigger.path)
    if not (triggers or rules.once_only or wishes.recreate or wishes.mode != Mode.ENFORCE):
        return PLAIN
    return Handling(tuple(triggers), bool(rules.once_only), wishes.recreate, Mode(wishes.mode))


def namespace_object(
    name: str, template: NamespaceTemplate, *, declared: Origin, origin_of: Callable[[str, str], Origin]
) -> CleanObject:
    """The instance namespace with the cluster's template. `declared` is what asks for it; `origin_of` tells where a
    label or annotation is written, from `labels` or `annotations` and its key."""
    metadata: dict[str, Any] = {"name": name}
    entries: dict[int, Origin] = {}
    for field, values in (("labels", template.labels), ("annotations", template.annotations)):
        if values:
            metadata[field] = dict(values)
            entries |= {hash_of(("metadata", field, key)): origin_of(field, key) for key in values}
    return CleanObject(
        ObjectRef("", "Namespace", "", name),
        NAMESPACE,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        Provenance.build(entries, declared),
        (),
    )


def finish(
    objects: Sequence[CleanObject], *, marks: Marks, workload: WorkloadRef, registry: OperatorRegistry
) -> tuple[tuple[DesiredObject, ...], tuple[Finding, ...]]:
    """Order a unit's objects and make them exactly what is sent. `ref.namespace` of each is its final namespace."""
    nodes = [Node(o.ref, o.gvk, o.body, o.depends_on) for o in objects]
    ordered = order(nodes, registry)
    if problems := _order_findings(objects, ordered.unknown, ordered.cycle, workload):
        return (), problems
    desired = []
    for place in ordered.objects:
        item = objects[place.position]
        origin = item.provenance.origin_of(())
        body = marks.apply(item.body, source=origin.file, namespace=item.ref.namespace)
        payload = canonical_json(body)
        desired.append(
            DesiredObject(
                ref=item.ref,
                gvk=item.gvk,
                payload=payload,
                digest=digest(payload),
                origin=origin,
                provenance=item.provenance,
                stage=place.stage,
                component=place.component,
                depends_on=place.depends_on,
                after_ready=place.after_ready,
                handling=PLAIN if item.handling is PLAIN else replace(item.handling, content=digest(payload)),
            )
        )
    return tuple(desired), tuple(_scaled(objects, workload))


def _scaled(objects: Iterable[CleanObject], workload: WorkloadRef) -> Iterator[Finding]:
    items = {o.ref: o for o in objects}
    for target, scaler, path in scaled_beside((ref, o.body) for ref, o in items.items()):
        message = f"{dotted(path)} of {target.kind} {target.name} is what {scaler.kind} {scaler.name} sets"
        origin = items[target].provenance.origin_of(path)
        yield finding(policy_codes.SCALED_NUMBER, message, origin, object=target, workload=workload, path=path)


def in_namespace(objects: Iterable[CleanObject], namespace: str) -> list[CleanObject]:
    """The objects with their namespace set (all of them are namespaced kinds)."""
    return [replace(o, ref=replace(o.ref, namespace=namespace)) for o in objects]


def _order_findings(
    objects: Sequence[CleanObject],
    unknown: Iterable[tuple[int, Dependency]],
    cycle: Sequence[int],
    workload: WorkloadRef,
) -> tuple[Finding, ...]:
    found = []
    at = ("metadata", "annotations", DEPENDS_ON)
    for position, dependency in unknown:
        item = objects[position]
        message = f"{item.ref.kind} {item.ref.name} depends on {dependency}, which {workload} does not declare"
        origin = item.provenance.origin_of(at)
        found.append(finding(codes.UNKNOWN_DEPENDENCY, message, origin, object=item.ref, workload=workload))
    if cycle:
        ring = " → ".join(f"{objects[p].ref.kind} {objects[p].ref.name}" for p in (*cycle, cycle[0]))
        item = objects[cycle[0]]
        origin = item.provenance.origin_of(at)
        found.append(finding(codes.CYCLE, f"circle: {ring}", origin, object=item.ref, workload=workload))
    return tuple(found)
