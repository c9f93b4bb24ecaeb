"""A function's documents: function.yaml and deployment.yaml read and checked, and the files they name resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.functions import Function, FunctionDeployment
from gitops.model.trees import TreeEntry
from gitops.plan import codes
from gitops.plan.chains import Overlays
from gitops.plan.layout import WorkloadFolder
from gitops.plan.resolving import resolve_files
from gitops.plan.secrets import named_secrets
from gitops.plan.units import SecretRef
from gitops.plan.workloads import Context, check_account, check_name, check_sources, operators_known

FUNCTION_FILE = "function.yaml"
DEPLOYMENT_FILE = "deployment.yaml"


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's documents and files. `function` is None when one cannot be read; with `usable` False they have
    errors, with `whole` False what is here of the documents is only a part of them. `kinds_known`: operator types and
    validation policies are as their author means them."""

    folder: WorkloadFolder
    findings: tuple[Finding, ...]
    function: Function | None = None
    deployment: FunctionDeployment | None = None
    document: RawDocument | None = None  # of deployment.yaml
    manifests: tuple[TreeEntry, ...] = ()
    overlays: Overlays | None = None
    usable: bool = False
    whole: bool = True
    kinds_known: bool = False
    secret_refs: tuple[SecretRef, ...] = ()


def _misnamed(folder: WorkloadFolder) -> Iterator[Finding]:
    """Files that are meant as deployment.yaml: without one a function is placed nowhere, and what ran is pruned."""
    for path in folder.entries:
        name = path.removeprefix(f"{folder.root}/")
        if name != DEPLOYMENT_FILE and name.lower() in ("deployment.yaml", "deployment.yml", "deployment.json"):
            message = f"{name} is not read: the name is {DEPLOYMENT_FILE}"
            yield finding(codes.UNEXPECTED_FILE, message, Origin(path), workload=folder.ref)


def read_function(context: Context, folder: WorkloadFolder) -> FunctionSource:
    """Read the two documents and resolve the files they name."""
    ref = folder.ref
    main = folder.entries.get(f"{folder.root}/{FUNCTION_FILE}")
    if main is None:
        message = f"{folder.root} has no {FUNCTION_FILE}"
        return FunctionSource(folder, (finding(codes.NO_WORKLOAD_DOCUMENT, message, folder.origin, workload=ref),))
    raw, function, of_main = context.loader.load_one(context.tree, main, Function, workload=ref, partly=True)
    of_second: tuple[Finding, ...] = ()
    second = folder.entries.get(f"{folder.root}/{DEPLOYMENT_FILE}")
    misnamed = list(_misnamed(folder))
    document, deployment = None, None
    if second is not None:
        document, deployment, of_second = context.loader.load_one(
            context.tree, second, FunctionDeployment, workload=ref, partly=True
        )
    whole = not has_errors((*of_main, *of_second))
    findings = [*of_main, *of_second, *misnamed]
    if raw is None or function is None or (second is not None and (document is None or deployment is None)):
        return FunctionSource(folder, tuple(findings))
    findings += check_name(function, folder, file=main.path, line=raw.lines.line_of(("metadata", "name")))
    findings += check_sources(context, function.spec, function.spec.namespace, raw, ref)
    overlays: Overlays | None = None
    if document is not None and deployment is not None and second is not None:
        line = document.lines.line_of(("metadata", "name"))
        findings += check_name(deployment, folder, file=second.path, line=line)
        findings += check_account(deployment.spec.serviceAccount, document, ref)
        overlays = Overlays.of(
            document,
            patches=deployment.spec.patches,
            clusters=deployment.spec.clusterPatches,
            specifications=[
                (spec.id, spec, ("spec", "gpuSpecifications", position))
                for position, spec in enumerate(deployment.spec.gpuSpecifications)
            ],
        )
    files = resolve_files(
        folder,
        manifests=function.spec.manifests or (),
        document=raw,
        patches=overlays.every() if overlays is not None else (),
        own=[f"{folder.root}/{FUNCTION_FILE}", f"{folder.root}/{DEPLOYMENT_FILE}", *(f.origin.file for f in misnamed)],
        complete=whole,
    )
    findings += files.findings
    return FunctionSource(
        folder,
        tuple(findings),
        function,
        deployment,
        document,
        files.manifests,
        overlays,
        not has_errors(findings),
        whole,
        operators_known(context, function.spec) and not has_errors(of_second),
        named_secrets(function.spec, raw),
    )
