"""Bundles: any manifests for selected clusters, one unit on each. A bundle names its own namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.bundles import Bundle
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import GroupKind, ObjectRef, UnitKey
from gitops.model.kinds import NAMESPACE
from gitops.model.trees import TreeEntry
from gitops.plan import codes
from gitops.plan.bases import BaseObject, read_base
from gitops.plan.building import CleanObject, Marks, finish
from gitops.plan.chains import Chains, Overlays
from gitops.plan.layout import WorkloadFolder
from gitops.plan.naming import OURS, is_instance_namespace
from gitops.plan.placing import ask_of_bundle, declared_kinds, placement_problems, unit_key, units_of
from gitops.plan.references import defined_kind
from gitops.plan.resolving import resolve_files
from gitops.plan.units import Unit, stricter
from gitops.plan.workloads import (
    Context,
    WorkloadResult,
    account_of,
    check_account,
    check_name,
    content_key,
    read_everything,
    unknown_clusters,
)
from gitops.policy import codes as policy_codes
from gitops.policy.allocation import Ask, Decision
from gitops.policy.placement import Pins
from gitops.policy.registry import OperatorRegistry
from gitops.policy.scopes import builtin_namespaced

BUNDLE_FILE = "bundle.yaml"


@dataclass(frozen=True, slots=True)
class BundleSource:
    """A bundle's document and files. `bundle` is None when it cannot be read; with `usable` False they have errors."""

    folder: WorkloadFolder
    findings: tuple[Finding, ...]
    bundle: Bundle | None = None
    document: RawDocument | None = None
    manifests: tuple[TreeEntry, ...] = ()
    overlays: Overlays | None = None
    usable: bool = False


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """Clusters of a bundle with the content key of its unit there. It is `barred` where it may be by what Git says, and
    an operator that it uses may not be used: `findings` tell of each."""

    units: tuple[tuple[UnitKey, str], ...]
    findings: tuple[Finding, ...]
    kept: tuple[UnitKey, ...] = ()  # live ones that stay as they are
    barred: bool = False


def read_bundle(context: Context, folder: WorkloadFolder) -> BundleSource:
    """Read bundle.yaml and resolve the files it names."""
    ref = folder.ref
    main = folder.entries.get(f"{folder.root}/{BUNDLE_FILE}")
    if main is None:
        message = f"{folder.root} has no {BUNDLE_FILE}"
        return BundleSource(folder, (finding(codes.NO_WORKLOAD_DOCUMENT, message, folder.origin, workload=ref),))
    document, bundle, found = context.loader.load_one(context.tree, main, Bundle, workload=ref, partly=True)
    if document is None or bundle is None:
        return BundleSource(folder, found)
    findings = [*found]
    whole = not has_errors(found)
    findings += check_name(bundle, folder, file=main.path, line=document.lines.line_of(("metadata", "name")))
    findings += check_account(bundle.spec.serviceAccount, document, ref)
    overlays = Overlays.of(document, patches=bundle.spec.patches, clusters=bundle.spec.clusterPatches)
    files = resolve_files(
        folder,
        manifests=bundle.spec.manifests,
        document=document,
        patches=overlays.every(),
        own=[main.path],
        complete=whole,
    )
    findings += files.findings
    usable = not has_errors(findings)
    return BundleSource(folder, tuple(findings), bundle, document, files.manifests, overlays, usable)


def ask_bundle(context: Context, source: BundleSource, pins: Pins) -> tuple[Ask, ...]:
    """What the bundle asks for: each cluster that it selects."""
    if source.bundle is None or not source.usable:
        return ()
    kinds = declared_kinds(context, source.folder, source.manifests)
    return (ask_of_bundle(context, source.folder.ref, source.bundle, kinds=kinds, pins=pins),)


def plan_bundle(context: Context, source: BundleSource, decisions: Sequence[Decision]) -> BundlePlan:
    """The bundle on the clusters that were decided on. Costs no parsing."""
    bundle, document = source.bundle, source.document
    if bundle is None or document is None or not source.usable:
        return BundlePlan((), ())
    spec, ref = bundle.spec, source.folder.ref
    listed: list[tuple[str, Path]] = [(name, ("spec", "clusters", i)) for i, name in enumerate(spec.clusters)]
    listed += [(name, ("spec", "clusterPatches", name)) for name in sorted(spec.clusterPatches)]
    findings = unknown_clusters(listed, context, lines=document.lines, file=document.file, workload=ref)
    (decision,) = decisions
    origin = Origin(document.file, document.lines.line_of(("spec",)))
    problems = placement_problems(context, decision)
    findings += [finding(code, message, origin, workload=ref) for code, message, _ in problems]
    placements, kept = units_of(decision)
    units = []
    for placement in placements:
        cluster, key = placement.cluster, unit_key(decision.ask, placement)
        patches = source.overlays.material(source.folder, "", cluster) if source.overlays is not None else []
        mode = stricter(context.clusters[cluster].document.spec.mode, spec.mode).value
        units.append(
            (key, content_key(context, str(key), mode, spec.serviceAccount, patches, manifests=source.manifests))
        )
    barred = any(c.barred for c in decision.ask.fitting)
    return BundlePlan(tuple(units), tuple(findings), tuple(unit_key(decision.ask, p) for p in kept), barred)


def compile_bundle(context: Context, source: BundleSource, plan: BundlePlan) -> WorkloadResult:
    """Read, merge, judge and finish the objects for every cluster of the bundle."""
    findings = [*source.findings, *plan.findings]
    bundle, document, ref = source.bundle, source.document, source.folder.ref
    if bundle is None or document is None:
        return WorkloadResult((), (*findings, *read_everything(context, source.folder)))
    base = read_base(context.loader, context.tree, source.manifests, ref)
    places = Placing(context.registry, base.objects)
    misplaced = places.findings(source)
    findings += [*base.findings, *misplaced]
    units: list[Unit] = []
    chains = Chains(context, source.folder, base, source.overlays)
    for key, content in plan.units if base.sound else ():
        objects = places.place(chains.objects("", key.cluster))
        chains.pods.bundle(objects, key.cluster, context.facts_of(key.cluster).minor)
        if not objects or has_errors(misplaced):
            continue
        desired, problems = finish(
            objects,
            marks=Marks.of(context.reconciler, key),
            workload=ref,
            registry=context.registry,
        )
        findings += problems
        mode = stricter(context.clusters[key.cluster].document.spec.mode, bundle.spec.mode)
        units.append(
            Unit(
                key,
                content,
                context.tree.commit,
                "",
                desired,
                mode,
                adoption=bundle.spec.adoption,
                service_account=account_of(bundle.spec.serviceAccount),
            )
        )
    chains.check_the_rest()
    findings += [*chains.findings, *chains.pods.findings()]
    known = source.usable and base.complete
    named = frozenset(_spellings(item.ref for item in base.objects)) if known else None
    if not has_errors(findings):
        return WorkloadResult(tuple(units), tuple(findings), kept=plan.kept, named=named if plan.barred else None)
    return WorkloadResult((), tuple(findings), named=named, suspects=tuple(units))


def _spellings(refs: Iterable[ObjectRef]) -> Iterable[ObjectRef]:
    """With and without the namespace: which one is right, the kind's scope says, which errors may hide."""
    for ref in refs:
        yield from (ref, replace(ref, namespace=""))


class Placing:
    """Namespaces of a bundle's objects. Scope comes from our tables and the bundle's own CRDs; for any other kind from
    whether a namespace is written (discovery on the cluster has the last word)."""

    def __init__(self, registry: OperatorRegistry, objects: Sequence[BaseObject]) -> None:
        self._registry = registry
        self._objects = objects
        self._defined: dict[GroupKind, bool] = {}
        for item in objects:
            if item.gvk.kind == "CustomResourceDefinition" and (kind := defined_kind(item.body)) is not None:
                self._defined[kind] = item.body["spec"].get("scope") == "Namespaced"

    def namespaced(self, kind: GroupKind) -> bool | None:
        for known in (builtin_namespaced(kind), self._registry.namespaced(kind), self._defined.get(kind)):
            if known is not None:
                return known
        return None

    def findings(self, source: BundleSource) -> list[Finding]:
        """Missing, forbidden and meaningless namespaces, and objects that are one once those are dropped."""
        found: list[Finding] = []
        ref = source.folder.ref
        seen: dict[ObjectRef, BaseObject] = {}

        def say(code: str, message: str, item: BaseObject) -> None:
            origin = item.origin("metadata", "namespace")
            found.append(finding(code, message, origin, object=item.ref, workload=ref))

        for item in self._objects:
            words = f"{item.gvk.kind} {item.name}"
            scope = self.namespaced(item.gvk.group_kind)
            place = item.name if item.gvk.group_kind == NAMESPACE.group_kind else item.namespace
            if scope is False and item.namespace:
                say(policy_codes.NAMESPACE_IGNORED, f"{words} is cluster-scoped; its namespace is ignored", item)
                final = replace(item.ref, namespace="")
                if (other := seen.setdefault(final, item)) is not item:
                    say(codes.DECLARED_TWICE, f"{words} is also declared at {other.origin()}", item)
                continue
            if (other := seen.setdefault(item.ref, item)) is not item and other.ref != item.ref:
                say(codes.DECLARED_TWICE, f"{words} is also declared at {other.origin()}", item)
            if scope and not item.namespace:
                say(policy_codes.NAMESPACE_MISSING, f"{words} has no namespace", item)
            if place in OURS or is_instance_namespace(place):
                say(policy_codes.NAMESPACE_FORBIDDEN, f"{words}: the namespace {place} is the reconciler's", item)
        return found

    def place(self, objects: Sequence[CleanObject]) -> list[CleanObject]:
        """The objects with their final identity: none of a cluster-scoped kind keeps a namespace."""
        placed = []
        for item in objects:
            if item.ref.namespace and self.namespaced(item.ref.group_kind) is False:
                metadata = {k: v for k, v in item.body["metadata"].items() if k != "namespace"}
                body = {**item.body, "metadata": metadata}
                item = replace(item, ref=replace(item.ref, namespace=""), body=body)
            placed.append(item)
        return placed
