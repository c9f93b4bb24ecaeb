"""`gitops explain`: which file and line set the fields of an object, and what they overrode."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gitops.cli import options
from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.model.identity import UnitKey
    from gitops.plan.explaining import Explanation, Trace
    from gitops.plan.units import Compilation, DesiredObject
    from gitops.policy.annotations import Dependency

Group = tuple["DesiredObject", "list[Explanation]", "list[UnitKey]"]
"""An object, its explanation, and all units in which both are the same but for what the reconciler writes."""


VARIES = "(another in each of these units)"
"""Stands for what the reconciler writes differently into each: the namespace, whose part it is."""


def explain(
    path: Annotated[Path, typer.Argument(help="Folder with the repository's files.", show_default=False)],
    object: Annotated[
        str,
        typer.Argument(help="Kind.group/name or Kind.group/namespace/name, such as Service/echo.", show_default=False),
    ],
    field: Annotated[
        str | None,
        typer.Argument(
            help="Such as spec.components[name=decode].replicas; all fields when left out.", show_default=False
        ),
    ] = None,
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; may be repeated.", show_default=False)
    ] = None,
    config: options.Config = None,
    set_: options.Set = None,
    format: options.Format = "text",
    schemas: options.Schemas = None,
) -> None:
    """Say for a field of an object, or for all of them, which file and line set it and what that overrode.

    Exits with 1 when the object's workload has errors, 2 when there is no such object or field.
    """
    from gitops.cli import terminal
    from gitops.cli.folders import compiled_folder, schemas_of
    from gitops.plan.explaining import Trace
    from gitops.plan.field_paths import BadPathError
    from gitops.policy.annotations import BadAnnotationError, parse_dependencies

    settings = options.settings_from(config=config, pairs=set_, flags={}, quiet=True)
    registry = settings.operator_registry()
    try:
        (wanted,) = parse_dependencies(object)
    except (BadAnnotationError, ValueError):
        typer.echo(f"gitops: {object}: write Kind.group/name, such as Deployment.apps/echo or Service/echo", err=True)
        raise typer.Exit(Exit.USAGE) from None
    trace = Trace()
    known = schemas_of(path, schemas)
    tree, compilation = compiled_folder(path, schemas=known, registry=registry, trace=trace)
    found = [(k, o) for k, o in _objects(compilation, wanted) if not cluster or k.cluster in cluster]
    if not found:
        _say_why_not(compilation, wanted, tree.read, cluster or ())
    try:
        groups = _groups(found, trace, field)
    except BadPathError as error:
        typer.echo(f"gitops: {error}", err=True)
        raise typer.Exit(Exit.USAGE) from None
    if not any(explanations for _, explanations, _ in groups):
        typer.echo(f"gitops: {object} has no field {field}, and no overlay removed one", err=True)
        raise typer.Exit(Exit.USAGE)
    if format == "json":
        terminal.print_json([_json(group) for group in groups])
    else:
        for group in groups:
            _print(group, tree.read, with_lines=field is not None)


def _objects(compilation: Compilation, wanted: Dependency) -> list[tuple[UnitKey, DesiredObject]]:
    return [
        (key, item)
        for key, unit in sorted({**compilation.units, **compilation.refused, **compilation.not_run}.items())
        for item in unit.objects
        if (item.ref.group, item.ref.kind, item.ref.name) == (wanted.group, wanted.kind, wanted.name)
        and wanted.namespace in ("", item.ref.namespace)
    ]


def _groups(found: list[tuple[UnitKey, DesiredObject]], trace: Trace, field: str | None) -> list[Group]:
    from gitops.plan.explaining import explain
    from gitops.plan.field_paths import parse_path

    groups: list[Group] = []
    for key, item in found:
        at = parse_path(field, item.body) if field is not None else ()
        explanations = explain(item, trace.of(key, item), at)
        same = next((g for g in groups if _comparable(g[1]) == _comparable(explanations)), None)
        if same is not None:
            _, known, keys = same
            keys.append(key)
            own = {e.path: e.value for e in explanations}
            known[:] = [e if own.get(e.path) == e.value else replace(e, value=VARIES) for e in known]
        else:
            groups.append((item, explanations, [key]))
    return groups


def _comparable(explanations: list[Explanation]) -> list[Explanation]:
    """Without what differs from unit to unit by nature: the namespace and the marks, which the reconciler writes."""
    return [e for e in explanations if e.origin is not None]


def _say_why_not(compilation: Compilation, wanted: Dependency, read: Any, clusters: Collection[str]) -> None:
    from gitops.cli import terminal

    if elsewhere := sorted({key.cluster for key, _ in _objects(compilation, wanted)}):
        typer.echo(f"gitops: {wanted} is on {', '.join(elsewhere)}, not on {', '.join(clusters)}", err=True)
        raise typer.Exit(Exit.USAGE)
    units = {**compilation.units, **compilation.refused, **compilation.not_run}.values()
    near = sorted(
        {
            f"{item.ref.group_kind}/{item.ref.name}"
            for unit in units
            for item in unit.objects
            if wanted.name == item.ref.name or wanted.kind.casefold() == item.ref.kind.casefold()
        }
    )
    hint = f"; there is {', '.join(near[:5])}" if near else ""
    if compilation.errors:
        terminal.print_findings(compilation.errors, read, terminal.console())
        typer.echo(f"gitops: no unit without errors has {wanted}{hint}", err=True)
        raise typer.Exit(Exit.FINDINGS)
    typer.echo(f"gitops: no unit has {wanted}{hint}", err=True)
    raise typer.Exit(Exit.USAGE)


def _json(group: Group) -> dict[str, Any]:
    item, explanations, keys = group
    return {
        "object": f"{item.ref.group_kind}/{item.ref.name}",
        "units": [str(key) for key in keys],
        "fields": [
            {
                "path": list(e.path),
                "value": _plain(e.value),
                "removed": _is_absent(e.value),
                "file": e.origin.file if e.origin else None,
                "line": e.origin.line or None if e.origin else None,
                "before": [
                    {"value": _plain(b.value), "file": b.origin.file, "line": b.origin.line or None} for b in e.before
                ],
            }
            for e in explanations
        ],
    }


def _print(group: Group, read: Any, *, with_lines: bool) -> None:
    from rich.text import Text

    from gitops.cli import terminal
    from gitops.plan.field_paths import spelled
    from gitops.readiness.texts import printable

    item, explanations, keys = group
    out = terminal.console()
    out.print(Text(f"{item.ref.group_kind}/{item.ref.name}", style="bold"))
    out.print(Text(f"in {', '.join(map(str, keys))}", style="dim"), soft_wrap=True)
    for explanation in explanations:
        origin = explanation.origin
        value = "removed" if _is_absent(explanation.value) else _shown(explanation.value)
        line = Text(printable(f"  {spelled(explanation.path)}: {value}"))
        line.append(f"  {origin or 'the reconciler'}", style="cyan" if origin else "dim")
        out.print(line, soft_wrap=True)
        if with_lines and origin is not None:
            terminal.print_source(origin, read, out)
        for before in reversed(explanation.before):
            text = printable(f"    before: {_shown(before.value)}  {before.origin}")
            out.print(Text(text, style="dim"), soft_wrap=True)


def _is_absent(value: Any) -> bool:
    from gitops.overlays.overriding import ABSENT

    return value is ABSENT


def _plain(value: Any) -> Any:
    """A value as it may be shown: bounded, and without what looks like a credential."""
    from gitops.policy.credentials import credentials_in
    from gitops.report.drift import shown

    if _is_absent(value):
        return None
    return "(a credential)" if any(credentials_in(value)) else shown(value)


def _shown(value: Any) -> str:
    import json

    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:99]}…"
