"""Pages of docs/ for authors: findings, from the catalogue of codes, and documents, from the models."""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from typing import Any

from pydantic.fields import FieldInfo

import gitops
from gitops.model import catalogue, document_kinds, documents, patches

MARK = "<!-- Below: made by scripts/generate_docs.py from gitops/model/document_kinds.py. -->\n"
GROUPS = {
    "GO1": "Reading",
    "GO2": "Documents, files and patches",
    "GO3": "Overlays",
    "GO4": "Placement and policy",
    "GO5": "Several units",
}


def load_codes() -> None:
    """Import every module named `codes`, so that the catalogue is complete."""
    for module in pkgutil.walk_packages(gitops.__path__, "gitops."):
        if module.name.endswith(".codes"):
            importlib.import_module(module.name)


_PATCHES: dict[str, type[documents.Document]] = {
    "Patch: a file": patches.MergePatchFile,
    "Patch: in line": patches.InlineMergePatch,
    "Patch: operations": patches.JsonPatch,
}
"""Entries of patch lists, which have several forms: by their headings."""


def findings_page() -> str:
    """docs/findings.md, from the `codes` modules."""
    load_codes()
    lines = [
        "# Findings",
        "",
        "<!-- Made by scripts/generate_docs.py; edit the `codes` modules. -->",
        "",
        "What the reconciler says about a repository. Codes are stable; `validate`, `plan`, `apply` and the daemon use",
        "the same. An **error** holds its workload at the last good commit; **warning** and **info** hold nothing.",
        "",
    ]
    for prefix, title in GROUPS.items():
        entries = [catalogue.CATALOGUE[code] for code in sorted(catalogue.CATALOGUE) if code.startswith(prefix)]
        if not entries:
            continue
        lines += [f"## {prefix}xxx: {title}", ""]
        lines += ["| code | severity | what | for example | what to do |", "|---|---|---|---|---|"]
        for entry in entries:
            cells = (entry.code, str(entry.severity), entry.heading, entry.example, entry.hint)
            lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
        lines.append("")
    return "\n".join(lines)


def documents_page(text: str) -> str:
    """docs/documents.md with its tables made again; what stands before the mark is written by hand. Raises ValueError
    when the mark is missing."""
    written, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"docs/documents.md lacks the line {MARK.strip()}")
    lines = [written + mark]
    for name, model in (*document_kinds.KINDS.items(), *_PATCHES.items()):
        lines += [f"## {name}", "", prose(" ".join((model.__doc__ or "").split())), ""]
        lines += ["| field | type | default | use |", "|---|---|---|---|"]
        lines += [f"| `{path}` | {kind} | {default} | {use} |" for path, kind, default, use in _rows(model, "")]
        lines.append("")
    return "\n".join(lines)


def _rows(model: type[documents.Document], prefix: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, info in model.model_fields.items():
        path = f"{prefix}{documents.written_name(model, name)}"
        use = documents.use_of(model, name)
        inner, words = type_of(info.annotation)
        default = "required" if info.is_required() else default_of(info)
        rows.append((path, cell(words), cell(default), str(use)))
        if inner is not None and use is not documents.Use.REFUSED and name != "metadata":
            rows += _rows(inner, f"{path}[]." if words.startswith("list") else f"{path}.")
        elif name == "metadata":
            rows[-1:] = _rows(inner, "metadata.") if inner else rows[-1:]
    return rows


def default_of(info: FieldInfo) -> str:
    value = info.get_default(call_default_factory=True)
    if isinstance(value, documents.Document):
        return "see below"
    return "none" if value in (None, [], {}, "") else f"`{value}`"


def type_of(annotation: Any) -> tuple[type[documents.Document] | None, str]:
    """The model inside an annotation, if any, and words for the type."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_of(args[0])
    if origin in (types.UnionType, typing.Union):
        found = [type_of(a) for a in args if a is not type(None)]
        if len(found) == 1:
            return found[0]
        return None, " or ".join(dict.fromkeys(words for _, words in found))
    if origin is list:
        inner, words = type_of(args[0])
        return inner, f"list of {words}"
    if origin is dict:
        return None, f"map to {type_of(args[1])[1]}"
    if origin is typing.Literal:
        return None, " or ".join(f"`{a}`" for a in args)
    if isinstance(annotation, type) and issubclass(annotation, documents.Document):
        return annotation, "patch" if issubclass(annotation, patches.PatchOptions) else "map"
    return None, {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(annotation, "anything")


def cell(text: str) -> str:
    return prose(text).replace("|", "\\|").replace("\n", " ")


def prose(text: str) -> str:
    """Our own Markdown; `<name>` outside of code would be taken for HTML."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))
