"""OperatorInstalls: which version of which operator is expected on which cluster. Nothing is installed by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import ClusterName, WorkloadRef
from gitops.model.operators import OperatorInstall
from gitops.model.versions import is_version, satisfies
from gitops.plan import codes
from gitops.plan.layout import WorkloadFolder
from gitops.plan.workloads import Context, check_name, unknown_clusters
from gitops.policy import codes as policy_codes
from gitops.policy.placement import Selection, Versions, candidates, why_none


@dataclass(frozen=True, slots=True)
class Installs:
    """`versions` hold what is known without doubt: what a cluster tells of itself, else what a document says that has
    no error and on which no two disagree. `unusable` are the files that would have said more."""

    versions: Versions
    findings: Mapping[WorkloadRef, tuple[Finding, ...]]
    unusable: frozenset[str]


def read_installs(context: Context, folders: Mapping[WorkloadRef, WorkloadFolder]) -> Installs:
    """Read operators/*.yaml; for each document what is wrong with it."""
    versions: dict[tuple[ClusterName, str], tuple[str, WorkloadRef]] = {}
    disputed: set[tuple[ClusterName, str]] = set()
    findings: dict[WorkloadRef, tuple[Finding, ...]] = {}
    unusable: set[str] = set()
    for ref, folder in folders.items():
        (entry,) = folder.entries.values()
        document, install, found = context.loader.load_one(context.tree, entry, OperatorInstall, workload=ref)
        problems = [*found]
        if document is not None and install is not None:
            selected, more = _selected(context, folder, document, install)
            problems += more
            if not has_errors(problems):
                for cluster in selected:
                    key = (cluster, install.spec.operatorType)
                    have = versions.setdefault(key, (install.spec.version, ref))
                    if have[0] != install.spec.version:
                        problems.append(_two_versions(document, ref, key, have))
                        disputed.add(key)
        findings[ref] = tuple(problems)
        if has_errors(problems):
            unusable.add(entry.path)
    known = {key: version for key, (version, _) in versions.items() if key not in disputed}
    for cluster in map(ClusterName, context.clusters):
        runs = context.facts_of(cluster).versions
        known |= {(cluster, operator): version for operator, version in runs.items() if is_version(version)}
    return Installs(known, findings, frozenset(unusable))


def _selected(
    context: Context, folder: WorkloadFolder, document: RawDocument, install: OperatorInstall
) -> tuple[tuple[ClusterName, ...], list[Finding]]:
    spec, ref = install.spec, folder.ref
    at_name = document.lines.line_of(("metadata", "name"))
    findings = list(check_name(install, folder, file=document.file, line=at_name))

    def say(code: str, message: str, *path: str | int) -> None:
        origin = Origin(document.file, document.lines.line_of(path))
        findings.append(finding(code, message, origin, workload=ref, path=path))

    operator = context.registry.types.get(spec.operatorType)
    if operator is None:
        known = ", ".join(sorted(context.registry.types))
        message = f"unknown operator type {spec.operatorType} (known: {known})"
        say(codes.UNKNOWN_OPERATOR, message, "spec", "operatorType")
    listed: list[tuple[str, Path]] = [(name, ("spec", "clusters", i)) for i, name in enumerate(spec.clusters)]
    findings += unknown_clusters(listed, context, lines=document.lines, file=document.file, workload=ref)
    supported = operator.spec.supportedVersions if operator is not None else None
    if supported is not None and not satisfies(spec.version, supported):
        message = f"{spec.operatorType} {spec.version} is expected, and {supported} is known to this product"
        say(policy_codes.UNTRIED_VERSION, message, "spec", "version")
    selection = Selection(tuple(spec.clusters), tuple(spec.regions), tuple(spec.attributes))
    every = candidates(selection, context.documents)
    fitting = tuple(c.cluster for c in every if c.fits)
    if not fitting and not context.unreadable:
        say(policy_codes.NO_CLUSTER, f"no cluster for {ref}: {why_none(every)}", "spec")
    attribute = operator.spec.clusterAttribute if operator is not None else ""
    for cluster in fitting if attribute else ():
        if attribute.casefold() not in map(str.casefold, context.clusters[cluster].document.spec.attributes):
            message = f"{spec.operatorType} is expected on {cluster}, which lacks the attribute {attribute}"
            say(policy_codes.UNMARKED_CLUSTER, message, "spec")
    for cluster in fitting:
        runs = context.facts_of(cluster).versions.get(spec.operatorType)
        if runs is not None and is_version(runs) and not satisfies(runs, f"=={spec.version}"):
            message = f"{cluster} runs {spec.operatorType} {runs}, not {spec.version}: what runs counts"
            say(policy_codes.OTHER_VERSION, message, "spec", "version")
    return fitting, findings


def _two_versions(
    document: RawDocument, ref: WorkloadRef, key: tuple[ClusterName, str], have: tuple[str, WorkloadRef]
) -> Finding:
    cluster, operator = key
    version, other = have
    message = f"{other} expects {operator} {version} on {cluster}"
    origin = Origin(document.file, document.lines.line_of(("spec", "version")))
    return finding(policy_codes.TWO_VERSIONS, message, origin, workload=ref, path=("spec", "version"))
