"""Tasks: the manifests of a task, merged, judged and finished into one unit on each cluster it is placed on.

A task is compiled like a function and has one specification and no counts: it runs once, or once on each cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import ClusterName, UnitKey, WorkloadKind
from gitops.model.tasks import Task
from gitops.model.trees import TreeEntry
from gitops.plan import codes
from gitops.plan.bases import read_base
from gitops.plan.chains import Chains, Overlays
from gitops.plan.instance_objects import base_digest, demand, gate, instance_objects, named_namespaces
from gitops.plan.layout import WorkloadFolder
from gitops.plan.naming import task_namespace
from gitops.plan.placing import ask_of, declared_kinds, nowhere, placement_problems, unit_key, units_of
from gitops.plan.resolving import resolve_files
from gitops.plan.secrets import named_secrets
from gitops.plan.units import Unit, stricter
from gitops.plan.workloads import (
    Context,
    Demand,
    WorkloadResult,
    account_of,
    check_account,
    check_name,
    check_sources,
    content_key,
    operators_known,
    read_everything,
    target_problems,
    unknown_clusters,
)
from gitops.policy.allocation import Ask, Decision
from gitops.policy.placement import NO_PINS, Pins

TASK_FILE = "task.yaml"
SPECIFICATION = ""
"""Name of the one GPU specification, for placement and patch lists: a task has no other."""

_AT: Path = ("spec", "gpuSpecification")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task's document and files. `task` is None when it cannot be read; with `usable` False it has errors."""

    folder: WorkloadFolder
    findings: tuple[Finding, ...]
    task: Task | None = None
    document: RawDocument | None = None
    manifests: tuple[TreeEntry, ...] = ()
    overlays: Overlays | None = None
    usable: bool = False
    whole: bool = True
    kinds_known: bool = False


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Units of a task with their content keys, and the GPUs that they ask for."""

    units: tuple[tuple[UnitKey, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    demands: tuple[Demand, ...] = ()
    kept: tuple[UnitKey, ...] = ()  # live ones that stay as they are


def read_task(context: Context, folder: WorkloadFolder) -> TaskSource:
    """Read task.yaml and resolve the files it names."""
    ref = folder.ref
    main = folder.entries.get(f"{folder.root}/{TASK_FILE}")
    if main is None:
        message = f"{folder.root} has no {TASK_FILE}"
        return TaskSource(folder, (finding(codes.NO_WORKLOAD_DOCUMENT, message, folder.origin, workload=ref),))
    document, task, found = context.loader.load_one(context.tree, main, Task, workload=ref, partly=True)
    if document is None or task is None:
        return TaskSource(folder, found)
    whole = not has_errors(found)
    spec = task.spec
    findings = [*found, *check_name(task, folder, file=main.path, line=document.lines.line_of(("metadata", "name")))]
    findings += check_account(spec.serviceAccount, document, ref)
    findings += check_sources(context, spec, spec.namespace, document, ref)
    overlays = Overlays.of(
        document,
        patches=spec.patches,
        clusters=spec.clusterPatches,
        specifications=[(SPECIFICATION, spec.gpuSpecification, _AT)],
    )
    files = resolve_files(
        folder,
        manifests=spec.manifests or (),
        document=document,
        patches=overlays.every(),
        own=[main.path],
        complete=whole,
    )
    findings += files.findings
    usable = not has_errors(findings)
    kinds_known = operators_known(context, spec) and not has_errors(f for f in found if f.path[: len(_AT)] == _AT)
    return TaskSource(folder, tuple(findings), task, document, files.manifests, overlays, usable, whole, kinds_known)


def ask_task(context: Context, source: TaskSource, pins: Pins) -> tuple[Ask, ...]:
    """What the task asks for: one specification."""
    return () if source.task is None or not source.whole else (_ask(context, source, source.task, pins),)


def _ask(context: Context, source: TaskSource, task: Task, pins: Pins) -> Ask:
    kinds = declared_kinds(context, source.folder, source.manifests)
    spec = task.spec.gpuSpecification
    operators = task.spec.operatorTypes or ()
    return ask_of(context, source.folder.ref, spec, operators=operators, kinds=kinds, pins=pins)


def plan_task(context: Context, source: TaskSource, decisions: Sequence[Decision]) -> TaskPlan:
    """The task on the clusters that were decided on. Costs no parsing."""
    task, document, ref = source.task, source.document, source.folder.ref
    if task is None or document is None or source.overlays is None or not (source.usable or source.kinds_known):
        return TaskPlan()
    spec, target = task.spec, task.spec.gpuSpecification
    findings: list[Finding] = []

    def say(code: str, message: str, path: Path) -> None:
        origin = Origin(document.file, document.lines.line_of(path))
        findings.append(finding(code, message, origin, workload=ref, path=path))

    for code, message, path in target_problems(target, context, spec.operatorTypes or ()):
        say(code, message, (*_AT, *path))
    listed: list[tuple[str, Path]] = [(name, (*_AT, "clusters", i)) for i, name in enumerate(target.clusters)]
    listed += [(name, ("spec", "clusterPatches", name)) for name in sorted(spec.clusterPatches)]
    findings += unknown_clusters(listed, context, lines=document.lines, file=document.file, workload=ref)
    if not source.usable:
        for code, message, path in nowhere(_ask(context, source, task, NO_PINS)):
            say(code, message, (*_AT, *path))
        return TaskPlan(findings=tuple(findings))
    (decision,) = decisions
    for code, message, path in placement_problems(context, decision):
        say(code, message, (*_AT, *path))
    chosen, kept = units_of(decision)
    return TaskPlan(
        units=tuple(_key(context, source, task, source.overlays, placement.cluster) for placement in chosen),
        findings=tuple(findings),
        demands=tuple(demand(decision.ask, placement) for placement in chosen),
        kept=tuple(unit_key(decision.ask, placement) for placement in kept),
    )


def _key(
    context: Context, source: TaskSource, task: Task, overlays: Overlays, cluster: ClusterName
) -> tuple[UnitKey, str]:
    key = UnitKey(WorkloadKind.TASK, source.folder.ref.name, "", cluster)
    document = context.clusters[cluster].document.spec
    content = content_key(
        context,
        str(key),
        _namespace(source, task),
        task.spec.version,
        task.spec.operatorTypes,
        task.spec.serviceAccount,
        stricter(document.mode, task.spec.mode).value,
        overlays.material(source.folder, SPECIFICATION, cluster),
        document.namespaceTemplate.model_dump(mode="json"),
        [ref.name for ref in task.spec.secretRefs],
        manifests=source.manifests,
    )
    return key, content


def _namespace(source: TaskSource, task: Task) -> str:
    return task.spec.namespace or task_namespace(source.folder.ref.name)


def compile_task(context: Context, source: TaskSource, plan: TaskPlan) -> WorkloadResult:
    """Read, merge, judge and finish the objects on every cluster of the task; as for functions, all errors at once."""
    findings = [*source.findings, *plan.findings]
    task, document, ref = source.task, source.document, source.folder.ref
    if task is None or document is None:
        return WorkloadResult((), (*findings, *read_everything(context, source.folder)))
    base = read_base(context.loader, context.tree, source.manifests, ref)
    findings += base.findings
    rules = {SPECIFICATION: context.rules_of(task.spec.gpuSpecification)}
    chains = Chains(context, source.folder, base, source.overlays, rules)
    units: list[Unit] = []
    findings += named_namespaces(base.objects, ref)
    if source.kinds_known:
        findings += gate(context, task.spec.operatorTypes or (), base.objects, ref, rules)
    declared = Origin(document.file, document.lines.line_of(_AT))
    namespace = _namespace(source, task)
    for key, content in plan.units if base.sound else ():
        objects = chains.objects(SPECIFICATION, key.cluster)
        labels = context.clusters[key.cluster].document.spec.namespaceTemplate.labels
        chains.pods.instance(objects, labels, key.cluster, context.facts_of(key.cluster).minor)
        if not objects:
            continue
        made = instance_objects(
            context,
            objects,
            key=key,
            namespace=namespace,
            declared=declared,
            secret_refs=named_secrets(task.spec, document),
        )
        findings += made.findings
        units.append(
            Unit(
                key=key,
                content_key=content,
                commit=context.tree.commit,
                namespace=namespace,
                objects=made.desired,
                mode=stricter(context.clusters[key.cluster].document.spec.mode, task.spec.mode),
                version=task.spec.version,
                operator_types=tuple(sorted(task.spec.operatorTypes or ())),
                adoption=task.spec.adoption,
                base_digest=base_digest(base),
                secret_refs=made.secret_refs,
                service_account=account_of(task.spec.serviceAccount),
            )
        )
    chains.check_the_rest()
    findings += [*chains.findings, *chains.pods.findings()]
    if has_errors(findings):
        return WorkloadResult((), tuple(findings), suspects=tuple(units))
    return WorkloadResult(tuple(units), tuple(findings), plan.demands, plan.kept)
