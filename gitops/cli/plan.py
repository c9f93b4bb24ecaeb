"""`gitops plan`: what a repository makes, per cluster and unit, and with credentials what that would change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.tree import Tree

    from gitops.cli.live import LivePlan, ObjectChange
    from gitops.model.identity import ClusterName, UnitKey
    from gitops.plan.pruning import FuseLimits
    from gitops.plan.units import Compilation
    from gitops.policy.ownership import Ownership
    from gitops.policy.published import Published
    from gitops.policy.registry import OperatorRegistry
    from gitops.source.folders import FolderTree


def plan(
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.", show_default=False)],
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; may be repeated.", show_default=False)
    ] = None,
    credentials_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of kubeconfigs: compare with what is live.", show_default=False, exists=True),
    ] = None,
    format: options.Format = "text",
    schemas: options.Schemas = None,
    base: options.Base = None,
    config: options.Config = None,
    set_: options.Set = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when something would change.")] = False,
) -> None:
    """Show why instances are where they are, and units and objects per cluster. With --credentials-dir, also what is
    created, changed and deleted, and what the clusters' own schemas say of it.

    Nothing is changed anywhere. Exits with 1 when the repository has errors.
    """
    from gitops.cli import terminal
    from gitops.cli.folders import compared_with, compiled_folder, schemas_of, with_findings

    settings = options.settings_from(config=config, pairs=set_, flags={}, quiet=True)
    registry = settings.operator_registry()
    wanted, known = frozenset(cluster or ()), schemas_of(path, schemas)
    tree, compilation = compiled_folder(path, schemas=known, registry=registry)
    live = (
        None
        if credentials_dir is None
        else _compared(
            tree,
            registry,
            settings.ownership(),
            credentials=credentials_dir,
            wanted=wanted,
            fuse=settings.fuse.limits(),
            known=known,
        )
    )
    compilation = compilation if live is None else live.compilation
    if live is not None and live.refused:
        compilation = with_findings(compilation, live.refused)
    if base is not None:
        compilation = compared_with(path, base, compilation, registry)
    unknown = wanted - set(compilation.clusters)
    if unknown:
        names = ", ".join(sorted(unknown))
        typer.echo(f"gitops: the repository has no cluster {names}", err=True)
        raise typer.Exit(Exit.USAGE)
    if format == "json":
        terminal.print_json(_json(compilation, live, wanted))
    else:
        _print(tree, compilation, live, wanted)
    if compilation.errors:
        raise typer.Exit(Exit.FINDINGS)
    if live is not None and live.unreachable:
        raise typer.Exit(Exit.INCOMPLETE)
    if exit_code and live is not None and live.changing:
        raise typer.Exit(Exit.CHANGES)


def _compared(
    tree: FolderTree,
    registry: OperatorRegistry,
    ownership: Ownership,
    *,
    credentials: Path,
    wanted: frozenset[str],
    fuse: FuseLimits,
    known: Published,
) -> LivePlan:
    import asyncio

    from gitops.cli.live import compare_with_clusters
    from gitops.plan.compiling import Compiler
    from gitops.reconcile.connecting import FolderConnector

    compiler, connector = Compiler(registry, known), FolderConnector(credentials)
    compared = compare_with_clusters(
        tree, compiler, connector, registry, ownership, only=wanted, fuse=fuse, known=known
    )
    return asyncio.run(compared)


def _print(tree: FolderTree, compilation: Compilation, live: LivePlan | None, wanted: frozenset[str]) -> None:
    from rich.text import Text
    from rich.tree import Tree

    from gitops.cli import terminal
    from gitops.model.identity import ClusterName
    from gitops.report.findings import summary

    out = terminal.console()
    for warning in () if live is None else live.warnings:
        out.print(Text(warning, style="bold red"))
    terminal.print_findings(compilation.findings, tree.read, out)
    names = [ClusterName(name) for name in sorted(compilation.clusters) if not wanted or name in wanted]
    _print_placement(compilation, names, out)
    totals: dict[str, int] = {}
    for name in names:
        every = {**compilation.units, **compilation.refused}
        units = {key: unit for key, unit in every.items() if key.cluster == name}
        branch = Tree(Text(f"{name}  ({terminal.count(len(units), 'unit')})", style="bold"))
        if live is not None and name in live.unreachable:
            branch.add(Text(f"cannot be asked: {live.unreachable[name]}", style="red"))
        changes = {} if live is None else {k: c for k, c in live.changes.items() if k.cluster == name}
        for key in sorted({*units, *changes}):
            unit = units.get(key)
            place = "" if unit is None or not unit.namespace else f"  in {unit.namespace}"
            twig = branch.add(Text(str(key)) + Text(place, style="dim"))
            if key in compilation.refused:
                twig.add(Text("refused by the cluster: what runs stays at its last good commit", style="yellow"))
            if live is not None and key in live.fused:
                twig.add(Text(f"fuse: {live.fused[key]}", style="red"))
            if key in changes:
                for change in changes[key]:
                    totals[str(change.change)] = totals.get(str(change.change), 0) + 1
                    _add_change(twig, change)
            elif unit is not None:
                for desired in unit.objects:
                    twig.add(Text(str(desired.ref)) + Text(f"  {desired.origin}", style="dim"))
        out.print(branch)
    silent = {} if live is None else {name: why for name, why in live.unreachable.items() if name not in names}
    for name, why in sorted(silent.items()):
        out.print(Text(f"{name}  cannot be asked: {why}", style="red"))
    for workload in sorted(compilation.held - compilation.left_alone):
        out.print(Text(f"{workload} has errors: what runs stays at its last good commit", style="yellow"))
    order = [*_WORDS, *sorted(totals.keys() - _WORDS.keys())]
    words = ", ".join(f"{totals[word]} {_WORDS.get(word, word)}" for word in order if word in totals)
    out.print(words if live is not None else summary(compilation.findings))


def _print_placement(compilation: Compilation, names: Sequence[ClusterName], out: Console) -> None:
    """Why each specification is on these clusters or not, a line for each."""
    from rich.text import Text
    from rich.tree import Tree

    from gitops.readiness.texts import printable
    from gitops.report.placement import amount, cluster_lines, is_numbered, title, worth_telling

    told = [decision for decision in compilation.decisions if worth_telling(decision)]
    if not told:
        return
    root = Tree(Text("placement", style="bold"))
    for decision in told:
        branch = root.add(Text(title(decision.ask)) + Text(f"  {amount(decision)}", style="dim"))
        for line in cluster_lines(decision):
            if line.cluster in names:
                style = "" if line.live or line.new else "dim"
                words = printable(line.words(numbered=is_numbered(decision.ask)))
                branch.add(Text(f"{line.cluster}  {words}", style=style))
    out.print(root)


_SIGNS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "delete": ("-", "red"),
    "keep": ("·", "yellow"),
    "refused": ("!", "red"),
    "unknown": ("?", "magenta"),
}
_WORDS = {"create": "to create", "update": "to change", "delete": "to delete", "keep": "kept", "refused": "refused"}
"""Most telling first; what is in no entry comes last, in its own word."""


def _add_change(twig: Tree, change: ObjectChange) -> None:
    from rich.text import Text

    sign, style = _SIGNS.get(str(change.change), ("=", "dim"))
    line = Text(f"{sign} {change.ref}", style=style)
    if change.source:
        line.append(f"  {change.source}", style="dim")
    if change.problem:
        line.append(f"  {change.problem}")
    leaf = twig.add(line)
    for difference in change.differences:
        by = f"  (by {difference.manager})" if difference.manager else ""
        leaf.add(Text(f"{difference.pointer}: {_value(difference.live)} → {_value(difference.declared)}{by}"))


def _value(value: Any) -> str:
    from gitops.report.drift import shown

    text = str(shown(value))
    return text if len(text) <= 80 else text[:77] + "…"


def _json(compilation: Compilation, live: LivePlan | None, wanted: frozenset[str]) -> dict[str, Any]:
    from gitops.report.drift import shown
    from gitops.report.findings import finding_json
    from gitops.report.placement import placement_json

    def changes(key: UnitKey, found: list[ObjectChange]) -> list[dict[str, Any]]:
        return [
            {
                "object": str(change.ref),
                "change": str(change.change),
                "source": change.source or None,
                "problem": change.problem or None,
                "verdict": verdicts.get((key, change.ref)),
                "fields": [
                    {
                        "path": d.pointer,
                        "live": shown(d.live),
                        "declared": shown(d.declared),
                        "manager": d.manager or None,
                    }
                    for d in change.differences
                ],
            }
            for change in found
        ]

    every = {**compilation.units, **compilation.refused}
    verdicts = {(unit.key, item.ref): str(verdict) for unit, item, verdict in compilation.judged()}
    units: dict[str, Any] = {}
    keys = {*every, *(() if live is None else live.changes)}
    for key in sorted(k for k in keys if not wanted or k.cluster in wanted):
        unit = every.get(key)
        entry: dict[str, Any] = {"cluster": key.cluster, "namespace": unit.namespace or None if unit else None}
        entry["refused"] = key in compilation.refused
        if live is not None:
            entry["fuse"] = live.fused.get(key)
        if live is not None and key in live.changes:
            entry["objects"] = changes(key, live.changes[key])
        elif unit is not None and (live is None or entry["refused"]):
            entry["objects"] = [
                {"object": str(o.ref), "source": str(o.origin), "verdict": verdicts[key, o.ref]} for o in unit.objects
            ]
        units[str(key)] = entry
    return {
        "complete": compilation.complete,
        "held": sorted(str(w) for w in compilation.held - compilation.left_alone),
        "findings": [finding_json(f) for f in compilation.findings],
        "unreachable": {} if live is None else {str(k): v for k, v in live.unreachable.items()},
        "warnings": [] if live is None else live.warnings,
        "placement": placement_json(compilation.decisions, wanted or compilation.clusters),
        "units": units,
    }
