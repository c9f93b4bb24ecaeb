"""Writes docs/findings.md from the catalogue and the tables of docs/documents.md from the models.

python scripts/findings.py [--check]
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gitops  # noqa: E402
from gitops.model import catalogue, document_kinds, documents  # noqa: E402

MARK = "<!-- Below: made by scripts/findings.py from gitops/model/document_kinds.py. -->\n"
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


def findings_page() -> str:
    load_codes()
    lines = [
        "# Findings",
        "",
        "<!-- Made by scripts/findings.py from the catalogue of codes; edit the `codes` modules. -->",
        "",
        "What the reconciler says about a repository. Codes are stable; `validate`, `plan`, `apply` and the daemon use",
        "the same. An **error** holds its workload at the last good commit; **warning** and **info** hold nothing.",
        "",
    ]
    for prefix, title in GROUPS.items():
        entries = [catalogue.CATALOGUE[code] for code in sorted(catalogue.CATALOGUE) if code.startswith(prefix)]
        if not entries:
            continue
        lines += [f"## {prefix}xxx: {title}", "", "| code | severity | what | what to do |", "|---|---|---|---|"]
        for entry in entries:
            what = _sentence_case(entry.title) + (f" ({entry.example})" if entry.example else "")
            lines.append(f"| {entry.code} | {entry.severity} | {_cell(what)} | {_cell(entry.hint)} |")
        lines.append("")
    return "\n".join(lines)


def _sentence_case(title: str) -> str:
    """With a capital, unless it begins with a name that is written as it is: `generateName`, `gitops.yaml`."""
    first = title.partition(" ")[0]
    return title[:1].upper() + title[1:] if first.isalpha() and first.islower() and len(first) > 1 else title


def documents_page(text: str) -> str:
    """The page with its tables made again; what stands before the mark is written by hand."""
    lines = [text.partition(MARK)[0] + MARK]
    for name, model in document_kinds.KINDS.items():
        lines += [f"## {name}", "", " ".join((model.__doc__ or "").split()), ""]
        lines += ["| field | type | default | use |", "|---|---|---|---|"]
        lines += [f"| `{path}` | {kind} | {default} | {use} |" for path, kind, default, use in _rows(model, "")]
        lines.append("")
    return "\n".join(lines)


def _rows(model: type[documents.Document], prefix: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        use = documents.use_of(model, name)
        inner, words = _type(info.annotation)
        default = "required" if info.is_required() else _default(info.default)
        rows.append((path, _cell(words), _cell(default), str(use)))
        if inner is not None and use is not documents.Use.REFUSED and name != "metadata":
            rows += _rows(inner, f"{path}[]." if words.startswith("list") else f"{path}.")
        elif name == "metadata":
            rows[-1:] = _rows(inner, "metadata.") if inner else rows[-1:]
    return rows


def _default(value: Any) -> str:
    if isinstance(value, documents.Document):
        return "see below"
    return "none" if value in (None, [], {}) else f"`{value}`"


def _type(annotation: Any) -> tuple[type[documents.Document] | None, str]:
    """The model inside an annotation, if any, and words for the type."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(args[0])
    if origin in (types.UnionType, typing.Union):
        found = [_type(a) for a in args if a is not type(None)]
        if len(found) == 1:
            return found[0]
        return None, " or ".join(dict.fromkeys(words for _, words in found))
    if origin is list:
        inner, words = _type(args[0])
        return inner, f"list of {words}"
    if origin is dict:
        return None, f"map to {_type(args[1])[1]}"
    if origin is typing.Literal:
        return None, " or ".join(f"`{a}`" for a in args)
    if isinstance(annotation, type) and issubclass(annotation, documents.Document):
        words = "patch" if annotation is documents.InlinePatch else "map"
        return annotation, words
    return None, {str: "text", int: "whole number", bool: "true or false"}.get(annotation, "anything")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    wrong = 0
    for path, text in pages().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(ROOT)} is out of date: run python scripts/findings.py")
            wrong = 1
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return wrong


def pages() -> dict[Path, str]:
    """Path → text of both pages."""
    page = ROOT / "docs" / "documents.md"
    return {ROOT / "docs" / "findings.md": findings_page(), page: documents_page(page.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    sys.exit(main())
