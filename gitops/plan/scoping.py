"""A namespace written on a kind that turns out to be cluster-scoped is dropped, so that the object has one identity.

Of Kubernetes' own kinds, those of operator types and those that the bundle itself defines this is known when a bundle
is compiled (bundles.Placing). Of any other kind a definition elsewhere in the repository tells it, or the cluster. Left
as written, the object would be applied (its URL has no namespace) and never be recognised when a watch shows it: made
again at every start, and its drift never seen (cases.md S22).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gitops.manifests.canonical import canonical_json, digest
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import ClusterName, GroupKind, ObjectRef, UnitKey, WorkloadKind
from gitops.model.kinds import DEFINITION
from gitops.plan import codes as plan_codes
from gitops.plan.references import defined_kind
from gitops.plan.units import DesiredObject, Unit
from gitops.policy import codes
from gitops.policy.facts import NOTHING_KNOWN, ClusterFacts, Facts
from gitops.policy.scopes import builtin_namespaced

REMEMBERED = 1_000
"""Definitions and rewritten units whose reading is remembered: both take milliseconds."""


class Scoping:
    """Remembers what it read; a Compiler has one."""

    def __init__(self) -> None:
        self._defined: OrderedDict[bytes, tuple[GroupKind, bool] | None] = OrderedDict()
        self._rewritten: OrderedDict[UnitKey, tuple[Unit, Unit]] = OrderedDict()

    def settle(self, units: Iterable[Unit], facts: Facts) -> tuple[dict[UnitKey, Unit], tuple[Finding, ...]]:
        """The units of which objects lose their namespace, as they are then, and a warning for each such object; an
        error where two objects of a unit turn out to be one."""
        by_cluster: defaultdict[ClusterName, list[Unit]] = defaultdict(list)
        for unit in units:
            by_cluster[unit.key.cluster].append(unit)
        changed: dict[UnitKey, Unit] = {}
        findings: list[Finding] = []
        for cluster, its in by_cluster.items():
            scopes = _Scopes(facts.get(cluster, NOTHING_KNOWN), self._definitions(its))
            for unit in its:
                if unit.key.workload.kind is not WorkloadKind.BUNDLE:
                    continue  # all else has namespaced kinds only
                wrong = [o for o in unit.objects if o.ref.namespace and scopes.cluster_scoped(o)]
                if wrong:
                    changed[unit.key] = self._without_namespace(unit, {o.ref for o in wrong})
                    findings += (_ignored(o, unit) for o in wrong)
                    findings += _twice(unit, wrong)
        for kept in (self._defined, self._rewritten):
            while len(kept) > REMEMBERED:
                kept.popitem(last=False)
        return changed, tuple(findings)

    def _definitions(self, units: Iterable[Unit]) -> dict[GroupKind, bool]:
        """Kinds that the repository defines on a cluster, and whether they are namespaced."""
        found: dict[GroupKind, bool] = {}
        for unit in units:
            for item in unit.objects:
                if item.gvk == DEFINITION and (defined := self._read(item)) is not None:
                    found[defined[0]] = defined[1]
        return found

    def _read(self, item: DesiredObject) -> tuple[GroupKind, bool] | None:
        if item.digest not in self._defined:
            body = item.body
            kind = defined_kind(body)
            self._defined[item.digest] = None if kind is None else (kind, body["spec"].get("scope") == "Namespaced")
        return self._defined[item.digest]

    def _without_namespace(self, unit: Unit, wrong: set[ObjectRef]) -> Unit:
        known = self._rewritten.get(unit.key)
        if known is not None and known[0].objects is unit.objects:
            return replace(unit, objects=known[1].objects)  # the same objects: what was judged of them still holds
        objects = tuple(_moved(o, wrong) for o in unit.objects)
        self._rewritten[unit.key] = (unit, rewritten := replace(unit, objects=objects))
        return rewritten


class _Scopes:
    """What is known of one cluster's custom kinds. What it serves now wins over what Git defines: a scope cannot be
    changed in place."""

    def __init__(self, facts: ClusterFacts, defined: Mapping[GroupKind, bool]) -> None:
        self._served = facts.served or {}
        self._defined = defined

    def cluster_scoped(self, item: DesiredObject) -> bool:
        kind = item.gvk.group_kind
        if builtin_namespaced(kind) is not None:
            return False  # settled already
        return not self._served.get(item.gvk, self._defined.get(kind, True))


def _moved(item: DesiredObject, wrong: set[ObjectRef]) -> DesiredObject:
    depends_on = tuple(replace(ref, namespace="") if ref in wrong else ref for ref in item.depends_on)
    if item.ref not in wrong:
        return item if depends_on == item.depends_on else replace(item, depends_on=depends_on)
    body = item.body
    del body["metadata"]["namespace"]
    payload = canonical_json(body)
    ref = replace(item.ref, namespace="")
    return replace(item, ref=ref, payload=payload, digest=digest(payload), depends_on=depends_on)


def _ignored(item: DesiredObject, unit: Unit) -> Finding:
    message = f"{item.gvk.kind} {item.ref.name} is cluster-scoped on {unit.key.cluster}; its namespace is ignored"
    origin = item.provenance.origin_of(("metadata", "namespace"))
    return finding(codes.NAMESPACE_IGNORED, message, origin, object=item.ref, workload=unit.key.workload)


def _twice(unit: Unit, wrong: Iterable[DesiredObject]) -> Iterable[Finding]:
    first = {o.ref: o for o in unit.objects}
    for item in wrong:
        other = first.setdefault(replace(item.ref, namespace=""), item)
        if other is not item:
            message = f"{item.gvk.kind} {item.ref.name} is also declared at {other.origin}"
            yield finding(plan_codes.DECLARED_TWICE, message, item.origin, object=item.ref, workload=unit.key.workload)
